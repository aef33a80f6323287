import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { at, listOf, openBench } from "./harness.ts";
import type { Bench } from "./harness.ts";

let bench: Bench;
beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());

const base = "/repos/octo/lab";
const byName = ([a = ""]: readonly string[], [b = ""]: readonly string[]): number => a.localeCompare(b);

describe("git data", () => {
  it("has the ids real git gives blobs", async () => {
    const reply = await bench.call("GET", `${base}/contents/README.md`);
    const text = "# lab\n";
    expect(at(reply.body, "sha")).toBe(createHash("sha1").update(`blob ${text.length}\0${text}`).digest("hex"));
    expect(Buffer.from(String(at(reply.body, "content")), "base64").toString()).toBe(text);
  });

  it("gives the same tree id for the same content and another for any change", async () => {
    const main = await bench.call("GET", `${base}/git/commits/${bench.repo.sha()}`);
    const files = bench.repo.filesAt(bench.repo.sha());
    const twin = bench.github.createRepository({ owner: "octo", name: "twin", files });
    const other = bench.github.createRepository({
      owner: "octo",
      name: "third",
      files: { ...files, "README.md": "#\n" },
    });
    const tree = async (name: string, sha: string): Promise<unknown> =>
      at((await bench.call("GET", `/repos/octo/${name}/git/commits/${sha}`)).body, "tree", "sha");
    expect(await tree("twin", twin.sha())).toBe(at(main.body, "tree", "sha"));
    expect(await tree("third", other.sha())).not.toBe(at(main.body, "tree", "sha"));
  });

  it("lists a tree recursively and says whether it was cut", async () => {
    const commit = await bench.call("GET", `${base}/git/commits/${bench.repo.sha()}`);
    const sha = String(at(commit.body, "tree", "sha"));
    const flat = await bench.call("GET", `${base}/git/trees/${sha}`);
    const deep = await bench.call("GET", `${base}/git/trees/${sha}?recursive=1`);
    expect(listOf(flat.body, "tree").map((one) => one["path"])).toEqual([".github", "README.md", "src"]);
    expect(listOf(deep.body, "tree").map((one) => one["path"])).toContain(".github/workflows/ci.yml");
    expect(at(deep.body, "truncated")).toBe(false);
  });

  it("lists a folder, and answers 404 for a path that is not there", async () => {
    const folder = await bench.call("GET", `${base}/contents/.github/workflows`);
    const missing = await bench.call("GET", `${base}/contents/nope.txt`);
    expect(listOf(folder.body).map((one) => [one["type"], one["name"]])).toEqual([
      ["file", "ci.yml"],
      ["file", "execute.yml"],
    ]);
    expect(missing.status).toBe(404);
  });

  it("reads contents at a commit, not only at a branch", async () => {
    const before = bench.repo.sha();
    bench.repo.commit({ files: { "README.md": "# new\n" } });
    const read = async (ref: string): Promise<string> =>
      Buffer.from(
        String(at((await bench.call("GET", `${base}/contents/README.md?ref=${ref}`)).body, "content")),
        "base64",
      ).toString();
    expect([await read(before), await read("main")]).toEqual(["# lab\n", "# new\n"]);
  });

  it("resolves refs and branches to the same commit", async () => {
    const ref = await bench.call("GET", `${base}/git/ref/heads/main`);
    const branch = await bench.call("GET", `${base}/branches/main`);
    const commit = await bench.call("GET", `${base}/commits/main`);
    expect([at(ref.body, "object", "sha"), at(branch.body, "commit", "sha"), at(commit.body, "sha")]).toEqual(
      Array(3).fill(bench.repo.sha()),
    );
    expect((await bench.call("GET", `${base}/git/ref/heads/nope`)).status).toBe(404);
  });
});

describe("matching refs", () => {
  it("are every ref that begins so, in one answer, and none is an empty list", async () => {
    const pulls = ["one", "two"].map((name) =>
      bench.repo.openPullRequest({ author: "ada", files: { [`${name}.md`]: "x" }, branch: name }),
    );
    const groups = pulls.map((pull) => bench.repo.mergeGroup([pull.number]));
    const queue = await bench.call("GET", `${base}/git/matching-refs/heads/gh-readonly-queue/`);
    const named = (reply: { body: unknown }) => listOf(reply.body).map((one) => [one["ref"], at(one, "object", "sha")]);
    expect(named(queue)).toEqual(groups.map((group) => [group.headRef, group.headSha]).toSorted(byName));
    expect(named(await bench.call("GET", `${base}/git/matching-refs/heads/tw`))).toEqual([
      ["refs/heads/two", pulls[1]?.headSha],
    ]);
    const none = await bench.call("GET", `${base}/git/matching-refs/heads/nothing`);
    expect([none.status, none.body]).toEqual([200, []]);
    for (const group of groups) bench.repo.destroyMergeGroup(group.headRef, "dequeued");
    expect(named(await bench.call("GET", `${base}/git/matching-refs/heads/gh-readonly-queue/`))).toEqual([]);
  });
});

describe("a merge group", () => {
  it("is made of merges, or of rewritten commits of one parent that no pull request is told of", async () => {
    const pull = bench.repo.openPullRequest({ author: "ada", files: { "q1.md": "1" }, title: "Queue" });
    bench.repo.push(pull.number, { author: "ada", files: { "q2.md": "2" } });
    const parents = async (method: "merge" | "squash" | "rebase") => {
      const group = bench.repo.mergeGroup([pull.number], method);
      const reply = await bench.call("GET", `${base}/compare/main...${group.headSha}`);
      const commits = listOf(reply.body, "commits");
      const told = await Promise.all(
        commits.map(async (one) =>
          listOf((await bench.call("GET", `${base}/commits/${String(one["sha"])}/pulls`)).body).map((p) => p["number"]),
        ),
      );
      bench.repo.destroyMergeGroup(group.headRef, "dequeued");
      return commits.map((one, index) => [listOf(one, "parents").length, told[index]]);
    };
    const mine = [pull.number];
    // The two original commits, then the queue's merge of them.
    expect(await parents("merge")).toEqual([
      [1, mine],
      [1, mine],
      [2, []],
    ]);
    expect(await parents("squash")).toEqual([[1, []]]);
    expect(await parents("rebase")).toEqual([
      [1, []],
      [1, []],
    ]);
  });
});

describe("classic protection", () => {
  const path = `${base}/branches/main/protection/required_status_checks`;

  it("tells its required checks with their Apps, to who may read the administration", async () => {
    bench.repo.protectBranch("main", [
      { context: "CI GPU gate", appId: 7 },
      { context: "lint", appId: null },
    ]);
    const token = await bench.token({ permissions: { administration: "read" } });
    const reply = await bench.call("GET", path, undefined, { authorization: `token ${token}` });
    expect(listOf(reply.body, "checks")).toEqual([
      { context: "CI GPU gate", app_id: 7 },
      { context: "lint", app_id: null },
    ]);
    const other = await bench.token({ permissions: { contents: "read" } });
    expect((await bench.call("GET", path, undefined, { authorization: `token ${other}` })).status).toBe(403);
  });

  it("answers 404 where there is none", async () => {
    bench.repo.protectBranch("main", null);
    expect((await bench.call("GET", path)).status).toBe(404);
  });
});

describe("releases", () => {
  it("of a public repository are anybody's to read, newest first", async () => {
    bench.repo.publishRelease("v1.0.0", { at: Date.parse("2026-10-01T00:00:00Z") });
    bench.repo.publishRelease("v1.1.0", { at: Date.parse("2026-11-01T00:00:00Z") });
    const reply = await bench.raw("GET", `${base}/releases`);
    expect(listOf(reply.body).map((one) => [one["tag_name"], one["published_at"]])).toEqual([
      ["v1.1.0", "2026-11-01T00:00:00Z"],
      ["v1.0.0", "2026-10-01T00:00:00Z"],
    ]);
  });
});

describe("compare", () => {
  it("says how two commits stand to each other, and lists at most 300 files, on the first page", async () => {
    const from = bench.repo.sha();
    const files = Object.fromEntries(Array.from({ length: 310 }, (_, index) => [`many/${index}.txt`, `${index}\n`]));
    bench.repo.commit({ files });
    const reply = await bench.call("GET", `${base}/compare/${from}...main?per_page=1`);
    expect([at(reply.body, "status"), at(reply.body, "ahead_by"), at(reply.body, "behind_by")]).toEqual([
      "ahead",
      1,
      0,
    ]);
    expect(listOf(reply.body, "files").length).toBe(300);
    const back = await bench.call("GET", `${base}/compare/main...${from}`);
    const second = await bench.call("GET", `${base}/compare/${from}...main?per_page=1&page=2`);
    expect([at(back.body, "status"), at(second.body, "files")]).toEqual(["behind", undefined]);
  });
});
