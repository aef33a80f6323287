import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { at, listOf, openBench } from "./harness.ts";
import type { Bench } from "./harness.ts";

let bench: Bench;
beforeAll(async () => {
  bench = await openBench();
  bench.github.setWorkflowScript(".github/workflows/ci.yml", {
    name: "CI",
    on: ["pull_request"],
    plan: () => ({ jobs: [{ name: "tests", steps: [{ name: "Test" }] }] }),
  });
});
afterAll(() => bench.close());

const base = "/repos/octo/lab";

describe("a pull request", () => {
  it("shows its two ends, its size and its author", async () => {
    const opened = bench.repo.openPullRequest({
      author: "ada",
      branch: "feature",
      files: { "src/lib.rs": "fn two() {}\nfn three() {}\n", "a.md": "a\n" },
    });
    const reply = await bench.call("GET", `${base}/pulls/${opened.number}`);
    expect(reply.body).toMatchObject({
      number: opened.number,
      state: "open",
      draft: false,
      changed_files: 2,
      commits: 1,
      user: { login: "ada", id: bench.github.user("ada").id },
      head: { label: "octo:feature", ref: "feature", sha: opened.headSha, repo: { id: bench.repo.id } },
      base: { ref: "main", sha: bench.repo.sha(), repo: { id: bench.repo.id } },
    });
  });

  it("tells mergeable null until GitHub has looked, and then makes the test merge", async () => {
    const opened = bench.repo.openPullRequest({ author: "ada", files: { "m.txt": "m\n" } });
    const webhook = await bench.hook("pull_request", "opened", (payload) => payload["number"] === opened.number);
    expect([
      at(webhook.payload, "pull_request", "mergeable"),
      at(webhook.payload, "pull_request", "mergeable_state"),
    ]).toEqual([null, "unknown"]);
    // The CI run of the pull request starts from the test merge, so it exists by then.
    const run = await bench.hook(
      "workflow_run",
      "requested",
      (payload) => at(payload, "workflow_run", "head_sha") === opened.headSha,
    );
    expect(at(run.payload, "workflow_run", "event")).toBe("pull_request");
    const merge = await bench.call("GET", `${base}/git/ref/pull/${opened.number}/merge`);
    const commit = await bench.call("GET", `${base}/git/commits/${String(at(merge.body, "object", "sha"))}`);
    expect(listOf(commit.body, "parents").map((one) => one["sha"])).toEqual([bench.repo.sha(), opened.headSha]);
    expect(at((await bench.call("GET", `${base}/pulls/${opened.number}`)).body, "mergeable")).toBe(true);
  });

  it("in conflict is not mergeable and starts no pull_request workflow", async () => {
    const own = await openBench();
    own.github.setWorkflowScript(".github/workflows/ci.yml", {
      name: "CI",
      on: ["pull_request"],
      plan: () => ({ jobs: [] }),
    });
    const first = own.repo.openPullRequest({ author: "ada", files: { "src/lib.rs": "left\n" } });
    await own.hook("workflow_run", "requested");
    own.repo.commit({ files: { "src/lib.rs": "right\n" } });
    own.repo.push(first.number, { files: { "b.md": "b\n" } });
    const later = own.repo.openPullRequest({ author: "ada", files: { "c.md": "c\n" } });
    // Looked at in order: when the later pull request has its run, the earlier one has been looked at too.
    await own.hook("workflow_run", "requested", (payload) => at(payload, "workflow_run", "head_sha") === later.headSha);
    const reply = await own.call("GET", `${base}/pulls/${first.number}`);
    const runs = own.repo.runs();
    await own.close();
    expect([at(reply.body, "mergeable"), at(reply.body, "mergeable_state")]).toEqual([false, "dirty"]);
    expect(runs.map((run) => run.pullNumber)).toEqual([first.number, later.number]);
  });

  it("lists renames with the old name", async () => {
    bench.repo.commit({ files: { "guide/old.md": "some text\n" } });
    const opened = bench.repo.openPullRequest({
      author: "ada",
      files: { "guide/old.md": null, "guide/new.md": "some text\n" },
    });
    const reply = await bench.call("GET", `${base}/pulls/${opened.number}/files`);
    expect(listOf(reply.body)).toMatchObject([
      { filename: "guide/new.md", status: "renamed", previous_filename: "guide/old.md" },
    ]);
  });

  it("lists at most 3000 files without saying that it was cut", async () => {
    const files = Object.fromEntries(Array.from({ length: 3010 }, (_, index) => [`big/${index}.txt`, "x\n"]));
    const opened = bench.repo.openPullRequest({ author: "ada", files });
    const last = await bench.call("GET", `${base}/pulls/${opened.number}/files?per_page=100&page=30`);
    const beyond = await bench.call("GET", `${base}/pulls/${opened.number}/files?per_page=100&page=31`);
    const pull = await bench.call("GET", `${base}/pulls/${opened.number}`);
    expect([listOf(last.body).length, listOf(beyond.body).length, last.headers.get("link")?.includes("next")]).toEqual([
      100,
      0,
      false,
    ]);
    expect(at(pull.body, "changed_files")).toBe(3010);
  });

  it("is found by the owner and branch of its head", async () => {
    const opened = bench.repo.openPullRequest({ author: "ada", branch: "find-me", files: { "f.txt": "f\n" } });
    const found = await bench.call("GET", `${base}/pulls?state=open&head=octo:find-me`);
    const nobody = await bench.call("GET", `${base}/pulls?state=open&head=other:find-me`);
    expect([listOf(found.body).map((one) => one["number"]), listOf(nobody.body)]).toEqual([[opened.number], []]);
  });

  it("is found by its head commit, and by its merge once merged", async () => {
    const opened = bench.repo.openPullRequest({ author: "ada", files: { "g.txt": "g\n" } });
    const byHead = await bench.call("GET", `${base}/commits/${opened.headSha}/pulls`);
    const merged = bench.repo.merge(opened.number, "ada");
    const byMerge = await bench.call("GET", `${base}/commits/${merged}/pulls`);
    expect([byHead, byMerge].map((reply) => listOf(reply.body).map((one) => one["number"]))).toEqual([
      [opened.number],
      [opened.number],
    ]);
    const closed = await bench.hook("pull_request", "closed", (payload) => payload["number"] === opened.number);
    expect(at(closed.payload, "pull_request", "merged")).toBe(true);
  });

  it("moves its base and its test merge when the base branch moves", async () => {
    const opened = bench.repo.openPullRequest({ author: "ada", files: { "h.txt": "h\n" } });
    await bench.hook(
      "workflow_run",
      "requested",
      (payload) => at(payload, "workflow_run", "head_sha") === opened.headSha,
    );
    const before = bench.repo.mergeSha(opened.number);
    const main = bench.repo.commit({ files: { "moved.txt": "1\n" } });
    const later = bench.repo.openPullRequest({ author: "ada", files: { "i.txt": "i\n" } });
    await bench.hook(
      "workflow_run",
      "requested",
      (payload) => at(payload, "workflow_run", "head_sha") === later.headSha,
    );
    const reply = await bench.call("GET", `${base}/pulls/${opened.number}`);
    expect([at(reply.body, "base", "sha"), at(reply.body, "head", "sha")]).toEqual([main, opened.headSha]);
    expect(bench.repo.mergeSha(opened.number)).not.toBe(before);
  });

  it("from a fork has the fork as its head repository", async () => {
    const opened = bench.repo.openPullRequest({
      author: "mallory",
      fork: true,
      files: { "src/lib.rs": "fn evil() {}\n" },
    });
    const reply = await bench.call("GET", `${base}/pulls/${opened.number}`);
    expect(at(reply.body, "head", "repo", "fork")).toBe(true);
    expect(at(reply.body, "head", "repo", "owner", "login")).toBe("mallory");
    expect(at(reply.body, "head", "repo", "id")).not.toBe(bench.repo.id);
    const run = await bench.hook(
      "workflow_run",
      "requested",
      (payload) => at(payload, "workflow_run", "head_sha") === opened.headSha,
    );
    expect([
      at(run.payload, "workflow_run", "pull_requests"),
      at(run.payload, "workflow_run", "head_repository", "full_name"),
    ]).toEqual([[], "mallory/lab"]);
  });
});

describe("who may act", () => {
  it("maps maintain to write and triage to read in `permission`, and keeps the real role in `role_name`", async () => {
    const roles = ["admin", "maintain", "write", "triage", "read"] as const;
    const seen: unknown[] = [];
    for (const role of roles) {
      bench.repo.addCollaborator(`user-${role}`, role);
      const reply = await bench.call("GET", `${base}/collaborators/user-${role}/permission`);
      seen.push([at(reply.body, "permission"), at(reply.body, "role_name")]);
    }
    expect(seen).toEqual([
      ["admin", "admin"],
      ["write", "maintain"],
      ["write", "write"],
      ["read", "triage"],
      ["read", "read"],
    ]);
  });

  it("reads any user of a public repository as read, and names the account's numeric id", async () => {
    const { id } = bench.github.user("passer-by", 4242);
    const reply = await bench.call("GET", `${base}/collaborators/passer-by/permission`);
    expect([at(reply.body, "permission"), at(reply.body, "user", "id"), id]).toEqual(["read", 4242, 4242]);
    expect((await bench.call("GET", `${base}/collaborators/never-was/permission`)).status).toBe(404);
  });

  it("takes a removed collaborator's role away at once", async () => {
    bench.repo.addCollaborator("leaver", "maintain");
    bench.repo.removeCollaborator("leaver");
    expect(at((await bench.call("GET", `${base}/collaborators/leaver/permission`)).body, "role_name")).toBe("read");
  });
});

describe("comments and labels", () => {
  it("are written by the App, and only its own can be changed", async () => {
    const opened = bench.repo.openPullRequest({ author: "ada", files: { "j.txt": "j\n" } });
    const byUser = bench.repo.comment(opened.number, "/gpu", "ada");
    const made = await bench.call("POST", `${base}/issues/${opened.number}/comments`, { body: "summary" });
    const changed = await bench.call("PATCH", `${base}/issues/comments/${String(at(made.body, "id"))}`, {
      body: "better",
    });
    const foreign = await bench.call("PATCH", `${base}/issues/comments/${byUser}`, { body: "no" });
    expect([made.status, at(changed.body, "body"), foreign.status]).toEqual([201, "better", 403]);
    const list = await bench.call("GET", `${base}/issues/${opened.number}/comments`);
    expect(listOf(list.body).map((one) => one["body"])).toEqual(["/gpu", "better"]);
  });

  it("on a pull request arrive as issue_comment with issue.pull_request, and labels with their name and sender", async () => {
    const opened = bench.repo.openPullRequest({ author: "ada", files: { "k.txt": "k\n" } });
    bench.repo.comment(opened.number, "/gpu run", "grace");
    bench.repo.addLabel(opened.number, "gpu", "grace");
    const comment = await bench.hook(
      "issue_comment",
      "created",
      (payload) => at(payload, "comment", "body") === "/gpu run",
    );
    const label = await bench.hook("pull_request", "labeled");
    expect([
      at(comment.payload, "issue", "number"),
      typeof at(comment.payload, "issue", "pull_request", "url"),
    ]).toEqual([opened.number, "string"]);
    expect([
      at(label.payload, "label", "name"),
      at(label.payload, "sender", "login"),
      at(label.payload, "pull_request", "head", "sha"),
    ]).toEqual(["gpu", "grace", opened.headSha]);
  });
});
