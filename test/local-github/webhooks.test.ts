import { createHmac } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { at, listOf, openBench, SECRET } from "./harness.ts";
import type { Bench } from "./harness.ts";

let bench: Bench;
beforeEach(async () => {
  bench = await openBench();
});
afterEach(() => bench.close());

function open(name: string) {
  return bench.repo.openPullRequest({ author: "ada", files: { [name]: "x\n" } });
}

/** Deliveries of one event in the App's own list, newest first. */
async function deliveries(event: string) {
  const reply = await bench.app("GET", "/app/hook/deliveries?per_page=100");
  return listOf(reply.body).filter((one) => one["event"] === event);
}

describe("a delivery", () => {
  it("is signed over exactly the bytes it carries", async () => {
    open("ü.md");
    const { raw, headers } = await bench.hook("pull_request", "opened");
    expect(headers["x-hub-signature-256"]).toBe(`sha256=${createHmac("sha256", SECRET).update(raw).digest("hex")}`);
  });

  it("says in its headers which event it is, which delivery, for which App, and that GitHub sent it", async () => {
    open("a.md");
    const { headers } = await bench.hook("pull_request", "opened");
    expect(headers).toMatchObject({
      "content-type": "application/json",
      "x-github-event": "pull_request",
      "x-github-hook-installation-target-id": bench.github.appId,
      "x-github-hook-installation-target-type": "integration",
    });
    expect(headers["user-agent"]).toMatch(/^GitHub-Hookshot\//);
    expect(headers["x-github-delivery"]).toMatch(/^[0-9a-f-]{36}$/);
  });

  it("names the action, the sender, the repository, the organisation and the installation", async () => {
    open("a.md");
    const { payload } = await bench.hook("pull_request", "opened");
    expect(payload).toMatchObject({
      action: "opened",
      sender: { login: "ada", id: bench.github.user("ada").id },
      repository: { id: bench.repo.id, full_name: "octo/lab", default_branch: "main" },
      organization: { login: "octo" },
      installation: { id: bench.github.installation("octo").id },
    });
  });

  it("is signed with the new secret after a change of it", async () => {
    bench.github.webhooks.configure({ secret: "another" });
    open("a.md");
    const { raw, headers } = await bench.hook("pull_request", "opened");
    expect(headers["x-hub-signature-256"]).toBe(`sha256=${createHmac("sha256", "another").update(raw).digest("hex")}`);
  });

  it("comes only where the installation has the event's permission", async () => {
    bench.github.installation("octo").setPermissions({ metadata: "read", contents: "read" });
    open("a.md");
    await bench.hook("push", null);
    await bench.github.webhooks.settled();
    expect(bench.hooks.map((one) => one.event)).not.toContain("pull_request");
  });
});

describe("failed deliveries", () => {
  it("are listed with their status and never sent again by themselves", async () => {
    bench.answerHooks({ status: 500 });
    open("a.md");
    await bench.github.webhooks.settled();
    const [listed] = await deliveries("pull_request");
    expect(listed).toMatchObject({
      status_code: 500,
      redelivery: false,
      action: "opened",
      repository_id: bench.repo.id,
    });
    expect(listed?.["status"]).not.toBe("OK");
    expect(bench.hooks.filter((one) => one.event === "pull_request").length).toBe(1);
  });

  it("are those without an answer in the time limit, too", async () => {
    const own = await openBench({ timing: { webhookTimeoutMs: 60 } });
    own.answerHooks({ hang: true });
    own.repo.openPullRequest({ author: "ada", files: { "a.md": "a\n" } });
    await own.github.webhooks.settled();
    const record = own.github.books.webhooks.find((one) => one.event === "pull_request");
    await own.close();
    expect(record).toMatchObject({ statusCode: 0, status: "timed out" });
  });

  it("have ten seconds unless told otherwise", async () => {
    const { defaultTiming } = await import("../../local/github/hub.ts");
    expect(defaultTiming.webhookTimeoutMs).toBe(10_000);
  });

  it("are redelivered with the same guid and the same bytes under a new delivery id", async () => {
    bench.github.webhooks.next({ event: "pull_request", action: "opened" }, "drop");
    open("a.md");
    await bench.github.webhooks.settled();
    expect(bench.hooks.some((one) => one.event === "pull_request")).toBe(false);
    const [failed] = await deliveries("pull_request");
    expect(failed).toMatchObject({ status_code: 0 });
    const asked = await bench.app("POST", `/app/hook/deliveries/${String(failed?.["id"])}/attempts`);
    const again = await bench.hook("pull_request", "opened");
    await bench.github.webhooks.settled();
    const [second] = await deliveries("pull_request");
    expect([asked.status, again.guid]).toEqual([202, failed?.["guid"]]);
    expect(second).toMatchObject({ guid: failed?.["guid"], redelivery: true, status: "OK", status_code: 202 });
    expect(second?.["id"]).not.toBe(failed?.["id"]);
    const detail = await bench.app("GET", `/app/hook/deliveries/${String(second?.["id"])}`);
    expect(at(detail.body, "request", "payload")).toEqual(again.payload);
  });

  it("show as failures only with a status from 400 to 599", async () => {
    bench.github.webhooks.next({ event: "pull_request" }, "drop");
    open("a.md");
    await bench.github.webhooks.settled();
    bench.answerHooks({ status: 503 });
    open("b.md");
    await bench.github.webhooks.settled();
    const failures = await bench.app("GET", "/app/hook/deliveries?status=failure&per_page=100");
    expect(
      listOf(failures.body)
        .filter((one) => one["event"] === "pull_request")
        .map((one) => one["status_code"]),
    ).toEqual([503]);
  });

  it("are paged by cursor", async () => {
    for (const name of ["a", "b", "c", "d"]) open(`${name}.md`);
    await bench.github.webhooks.settled();
    const seen: unknown[] = [];
    let next: string | null = "/app/hook/deliveries?per_page=3";
    for (let pages = 0; next !== null && pages < 50; pages += 1) {
      const reply = await bench.app("GET", next);
      seen.push(...listOf(reply.body).map((one) => one["id"]));
      next = /<([^>]+)>; rel="next"/.exec(reply.headers.get("link") ?? "")?.[1] ?? null;
    }
    expect(seen.length).toBe(bench.github.books.webhooks.length);
    expect(new Set(seen).size).toBe(seen.length);
  });
});

describe("ordered trouble on the way", () => {
  it("doubles a delivery under one guid", async () => {
    bench.github.webhooks.next({ event: "pull_request" }, "duplicate");
    open("a.md");
    const [first, second] = [await bench.hook("pull_request", "opened"), await bench.hook("pull_request", "opened")];
    expect(first.guid).toBe(second.guid);
  });

  it("delays one past those after it", async () => {
    bench.github.webhooks.next({ event: "pull_request", action: "opened" }, { delayMs: 80 });
    const late = open("a.md");
    bench.repo.addLabel(late.number, "gpu", "ada");
    await bench.hook("pull_request", "opened");
    expect(bench.hooks.filter((one) => one.event === "pull_request").map((one) => one.action)).toEqual([
      "labeled",
      "opened",
    ]);
  });

  it("loses one without a trace", async () => {
    bench.github.webhooks.next({ event: "pull_request" }, "vanish");
    open("a.md");
    await bench.github.webhooks.settled();
    expect(await deliveries("pull_request")).toEqual([]);
  });

  it("sends a known guid again on order", async () => {
    open("a.md");
    const first = await bench.hook("pull_request", "opened");
    await bench.github.webhooks.settled();
    expect([bench.github.redeliver(first.guid), bench.github.redeliver("no-such-guid")]).toEqual([true, false]);
    expect((await bench.hook("pull_request", "opened")).guid).toBe(first.guid);
  });
});

describe("events", () => {
  it("tell a push to the head with before and after", async () => {
    const pull = open("a.md");
    const after = bench.repo.push(pull.number, { files: { "a.md": "b\n" } });
    const { payload } = await bench.hook("pull_request", "synchronize");
    expect([payload["before"], payload["after"], at(payload, "pull_request", "head", "sha")]).toEqual([
      pull.headSha,
      after,
      after,
    ]);
  });

  it("tell drafts, closing, reopening and unlabelling", async () => {
    const { number } = bench.repo.openPullRequest({ author: "ada", draft: true, files: { "a.md": "a\n" } });
    const opened = await bench.hook("pull_request", "opened");
    bench.repo.setDraft(number, false);
    bench.repo.setDraft(number, true);
    bench.repo.close(number);
    bench.repo.reopen(number);
    bench.repo.addLabel(number, "gpu", "ada");
    bench.repo.removeLabel(number, "gpu", "grace");
    const actions = ["ready_for_review", "converted_to_draft", "closed", "reopened", "unlabeled"];
    const told = await Promise.all(actions.map((action) => bench.hook("pull_request", action)));
    expect(at(opened.payload, "pull_request", "draft")).toBe(true);
    expect(
      told.map((one) => [at(one.payload, "pull_request", "draft"), at(one.payload, "pull_request", "state")]),
    ).toEqual([
      [false, "open"],
      [true, "open"],
      [true, "closed"],
      [true, "open"],
      [true, "open"],
    ]);
  });

  it("tell a merge group without a pull request's number, and its end with the reason", async () => {
    const pull = open("a.md");
    const group = bench.repo.mergeGroup([pull.number]);
    const asked = await bench.hook("merge_group", "checks_requested");
    expect(at(asked.payload, "merge_group", "head_sha")).toBe(group.headSha);
    expect(String(at(asked.payload, "merge_group", "head_ref"))).toMatch(
      /^refs\/heads\/gh-readonly-queue\/main\/pr-\d+-[0-9a-f]{40}$/,
    );
    expect(Object.keys(asked.payload)).not.toContain("number");
    expect((await bench.call("GET", `/repos/octo/lab/git/commits/${group.headSha}`)).status).toBe(200);
    bench.repo.destroyMergeGroup(group.headRef, "dequeued");
    expect((await bench.hook("merge_group", "destroyed")).payload["reason"]).toBe("dequeued");
  });

  it("tell what becomes of the installation and of its repositories", async () => {
    const installation = bench.github.installation("octo");
    bench.github.createRepository({ owner: "octo", name: "second" });
    installation.removeRepository("octo/second");
    installation.addRepository("octo/second");
    installation.suspend();
    installation.unsuspend();
    installation.uninstall();
    const removed = await bench.hook("installation_repositories", "removed");
    expect(listOf(removed.payload, "repositories_removed").map((one) => one["full_name"])).toEqual(["octo/second"]);
    for (const action of ["suspend", "unsuspend", "deleted"]) {
      expect(at((await bench.hook("installation", action)).payload, "installation", "id")).toBe(installation.id);
    }
    const fresh = bench.github.install("octo", { repositories: ["octo/lab"] });
    const created = await bench.hook("installation", "created");
    expect(fresh.id).not.toBe(installation.id);
    expect(listOf(created.payload, "repositories").map((one) => one["name"])).toEqual(["lab"]);
  });

  it("tell that a repository was renamed, archived and deleted", async () => {
    bench.repo.rename("laboratory");
    bench.repo.archive();
    bench.repo.delete();
    const renamed = await bench.hook("repository", "renamed");
    expect([
      at(renamed.payload, "repository", "name"),
      at(renamed.payload, "changes", "repository", "name", "from"),
    ]).toEqual(["laboratory", "lab"]);
    await bench.hook("repository", "archived");
    await bench.hook("repository", "deleted");
    expect((await bench.call("GET", "/repos/octo/laboratory")).status).toBe(404);
  });
});
