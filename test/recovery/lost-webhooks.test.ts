/**
 * No webhook ever arrives: what cron's minute and the gate's own looks at GitHub must find by themselves. The whole gate
 * against the local GitHub and RunPod; a tick a quarter of a second stands for cron.
 */
import { afterEach, describe, expect, it } from "vitest";
import { findRepositories } from "../../cron/find-repositories.ts";
import { Turns } from "../../durable-objects/account/turns.ts";
import { CI, ciScript, SLOW_TESTS } from "../../local/world/workflows.ts";
import { createGitHubApp } from "../../shared/github/app.ts";
import { createGitHubAppClient } from "../../shared/github/app-client.ts";
import { systemClock } from "../../shared/ports.ts";
import { CONFIG, startLife, verdictOf, type Life } from "../gate/life.ts";
import { REPOSITORY_ID } from "../gate/world.ts";

let life: Life | null = null;
let cron: NodeJS.Timeout | null = null;

afterEach(async () => {
  if (cron !== null) clearInterval(cron);
  await life?.close();
});

async function deaf(): Promise<Life> {
  const one = await startLife({ config: CONFIG.replace("reconcile: 60", "reconcile: 1") });
  life = one;
  one.github.webhooks.configure({ url: null });
  return one;
}

/** Cron: wakes the gate, and finds its repository's name while nobody has told it. */
function startCron(one: Life): { readonly lookups: () => number } {
  const { github, accountSql, gate } = one;
  const app = createGitHubApp(
    { appId: github.appId, privateKey: github.privateKeyPem, apiUrl: github.url },
    { fetch: (input, init) => fetch(input, init), clock: systemClock },
  );
  if (!app.ok) throw new Error(app.error.message);
  const turns = new Turns(accountSql);
  const client = createGitHubAppClient(app.value);
  let lookups = 0;
  let busy = false;
  const tick = async () => {
    const { unnamed } = gate.tick();
    if (unnamed !== true) return;
    const status = await findRepositories([REPOSITORY_ID], {
      github: client,
      turns: {
        take: (duty, everyMs) => Promise.resolve(turns.take(duty, Date.now(), everyMs)),
        keep: (duty, memory, more) => Promise.resolve(turns.keep(duty, memory, more)),
      },
      everyMs: 100,
      introduce: (repository, installationId) => Promise.resolve(gate.introduce(repository, installationId)),
    });
    if (status.kind === "looked") lookups += 1;
  };
  cron = setInterval(() => {
    if (busy) return;
    busy = true;
    void tick().finally(() => (busy = false));
  }, 250);
  return { lookups: () => lookups };
}

async function until(ready: () => boolean): Promise<void> {
  const limit = Date.now() + 60_000;
  while (!ready()) {
    if (Date.now() > limit) throw new Error("it did not come to that");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe("I10: with every webhook lost", () => {
  it("N51: a pull request gets its check and its verdict, from a gate that never heard of its repository", async () => {
    const one = await deaf();
    const head = one.openCode("matmul");
    const { lookups } = startCron(one);
    const request = await one.concluded(head);
    expect(verdictOf(request)).toMatchObject({ kind: "passed" });
    const checks = one.repository.checkRuns(head).filter((run) => run.name === "CI GPU gate");
    expect(checks.map((run) => [run.status, run.conclusion])).toEqual([["completed", "success"]]);
    expect(lookups()).toBe(1);
    expect(one.runpod.pods().filter((pod) => pod.releasedAtMs === null)).toEqual([]);
    // Nobody told, so nothing was told: the life above was all polling.
    expect(one.github.books.webhooks).toEqual([]);
  });

  it("a stored name that GitHub does not know is asked for again, and what was left unsaid is said", async () => {
    const one = await deaf();
    one.gate.introduce({ id: REPOSITORY_ID, owner: "acme", name: "as-it-was-once-called" }, "77");
    const head = one.openCode("renamed");
    const { lookups } = startCron(one);
    await one.until(head, "the verdict", ({ check }) => check.completed);
    expect(lookups()).toBe(1);
    expect(one.gate.store.repository()?.repository.name).toBe("tensors");
    // It is believed again: cron has nothing to look for.
    expect(one.gate.tick().unnamed).toBe(false);
  });

  it("N59: a head that moved while its tests ran ends, and the new head is tested", async () => {
    const one = await deaf();
    startCron(one);
    const pull = one.repository.openPullRequest({
      author: "mira",
      title: "moving",
      files: { "src/moving.rs": "fn a() {}\n", [SLOW_TESTS]: "yes\n" },
    });
    await one.until(pull.headSha, "the GPU tests", (request) => request.state.kind === "executing");
    const moved = one.repository.push(pull.number, {
      author: "mira",
      files: { "src/moving.rs": "fn b() {}\n", [SLOW_TESTS]: null },
    });
    const old = await one.concluded(pull.headSha);
    expect(verdictOf(old)).toMatchObject({ kind: "superseded" });
    expect(verdictOf(await one.concluded(moved))).toMatchObject({ kind: "passed" });
  });

  it("a pull request closed while it was being tested ends as closed, its pod proven gone", async () => {
    const one = await deaf();
    startCron(one);
    const pull = one.repository.openPullRequest({
      author: "mira",
      title: "closing",
      files: { "src/closing.rs": "fn a() {}\n", [SLOW_TESTS]: "yes\n" },
    });
    await one.until(pull.headSha, "the GPU tests", (request) => request.state.kind === "executing");
    one.repository.close(pull.number);
    expect(verdictOf(await one.concluded(pull.headSha))).toMatchObject({ kind: "closed" });
    expect(one.gate.store.lock().holder).toBeNull();
  });

  describe("merge groups", () => {
    const QUEUE = CONFIG.replace("reconcile: 60", "reconcile: 1").replace(
      "limits:\n",
      "merge_queue:\n  pre_gate: []\nlimits:\n",
    );
    const group = (one: Life, head: string) => one.gate.store.requestsOfHead(head, "merge-group");

    async function queued(): Promise<{ one: Life; number: number }> {
      const one = await startLife({ config: QUEUE });
      life = one;
      one.github.setWorkflowScript(CI, {
        ...ciScript,
        on: ["pull_request", "merge_group"],
      });
      one.github.webhooks.configure({ url: null });
      startCron(one);
      const pull = one.repository.openPullRequest({ author: "mira", title: "queued", files: { "README.md": "# q\n" } });
      await one.concluded(pull.headSha);
      return { one, number: pull.number };
    }

    it("N98: are found by the queue's branches, once, as the webhook would have opened them, and end with their branch", async () => {
      const { one } = await queued();
      const other = one.repository.openPullRequest({
        author: "mira",
        title: "code",
        files: { "src/q.rs": "fn q() {}\n" },
      });
      await one.until(other.headSha, "the verdict", ({ state }) => state.kind === "concluded");
      // Since then the default branch got tests that take long: the group has them, its member alone had not.
      one.repository.commit({ files: { [SLOW_TESTS]: "yes\n" } });
      const { headSha, headRef } = one.repository.mergeGroup([other.number]);
      await until(() => group(one, headSha).some(({ state }) => state.kind === "executing"));
      const [request] = group(one, headSha);
      expect(request).toMatchObject({
        kind: "merge-group",
        generation: 1,
        openedBy: { row: 5, actor: null },
        group: { headRef, baseSha: one.repository.sha(), baseRef: "refs/heads/main" },
      });
      // The webhook comes after all, and rounds go by: it stays one request.
      const named = request?.group ?? { headRef: "", baseSha: "", baseRef: "" };
      const known = one.gate.store.repository();
      const late = one.gate.accept({
        guid: "late",
        event: "merge_group",
        repository: known?.repository ?? { id: "", owner: "", name: "" },
        installationId: known?.installationId ?? "",
        signal: { kind: "merge-group", action: "checks_requested", headSha, ...named },
      });
      expect(late.actions).toEqual(["note: a request for this group exists"]);
      one.repository.destroyMergeGroup(headRef, "dequeued");
      await until(() => group(one, headSha).every(({ check }) => check.completed));
      expect(group(one, headSha).map((each) => verdictOf(each))).toMatchObject([
        { kind: "cancelled", reason: "merge-group-destroyed" },
      ]);
      expect(one.runpod.pods().filter((pod) => pod.releasedAtMs === null)).toEqual([]);
    });

    it("are not made of a branch that somebody pushed under the queue's name: no workflow ran for the event", async () => {
      const { one, number } = await queued();
      const main = one.repository.sha();
      const evil = one.repository.commit({
        branch: `gh-readonly-queue/main/pr-${number}-${main}`,
        files: { "src/e.rs": "" },
      });
      const rounds = () =>
        one.github.books.requests.filter((asked) => asked.query.includes("event=merge_group")).length;
      await until(() => rounds() >= 2);
      expect(group(one, evil)).toEqual([]);
    });
  });
});
