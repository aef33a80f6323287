/** A merge group's commit is public: anybody can open a pull request at it, and the queue takes the newest check of the name. */
import { describe, expect, it, type TestContext } from "vitest";
import { CI, ciScript } from "../../local/world/workflows.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import { CONFIG, startLife, verdictOf, type Life } from "./life.ts";

/** A life with a group whose own check waits for another one, on a default branch that went on by documentation alone. */
async function waitingGroup(test: TestContext, webhook: "heard" | "lost" = "heard") {
  const more = "merge_queue:\n  pre_gate: [slow]\n";
  const world = await startLife({ config: CONFIG.replace("limits:\n", `${more}limits:\n`) });
  test.onTestFinished(() => world.close());
  const { repository } = world;
  const pull = repository.openPullRequest({ author: "mira", branch: "one", files: { "src/one.rs": "1" } });
  await world.concluded(pull.headSha);
  repository.commit({ files: { "README.md": "# main went on\n" } });
  if (webhook === "lost") world.github.webhooks.next({ event: "merge_group" }, "vanish");
  const { headSha, headRef } = repository.mergeGroup([pull.number]);
  repository.reportCheck(headSha, { name: "slow", status: "in_progress", conclusion: null });
  return { world, headSha, headRef, branch: headRef.replace("refs/heads/", "") };
}

/** What our check runs on a commit say, in the order they were made. */
function said(world: Life, sha: string) {
  return world.repository.checkRuns(sha).flatMap((run) => (run.name === "CI GPU gate" ? [run.conclusion] : []));
}

async function seen<T>(what: string, look: () => T | null | undefined | false): Promise<T> {
  const limit = Date.now() + 30_000;
  for (;;) {
    const found = look();
    if (found !== null && found !== undefined && found !== false) return found;
    if (Date.now() > limit) throw new Error(`waited for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const grouped = (world: Life, sha: string) => world.gate.store.requestsOfHead(sha, "merge-group").at(-1);

function isOver(request: GateRequest | null | undefined): GateRequest | false {
  return request?.state.kind === "concluded" && request.check.completed ? request : false;
}

/** The publisher waits for the queue: its next look is brought forward. */
async function lookAgain(world: Life, request: GateRequest): Promise<void> {
  world.gate.store.hurryTask("check", request.id, Date.now());
  world.gate.store.hurryTask("main", request.id, Date.now());
  await world.gate.run();
}

describe("a pull request at the commit of a merge group that waits", () => {
  it.concurrent("from a stranger, documentation for the base it names, makes no group green", async (test) => {
    const { world, headSha, headRef, branch } = await waitingGroup(test);
    await seen("the group's check", () => said(world, headSha).length === 1);
    world.repository.openPullRequest({ author: "eve", fork: true, branch, asItIs: true, base: "one", files: {} });
    const request = await seen("its request, looked at", () => {
      const one = world.request(headSha);
      return one?.state.kind === "authorizing" && one.state.tries > 0 ? one : null;
    });
    await lookAgain(world, request);
    expect(said(world, headSha)).toEqual([null]);

    world.repository.destroyMergeGroup(headRef, "dequeued");
    await seen("the group's end", () => isOver(grouped(world, headSha)));
    await lookAgain(world, request);
    const own = await seen("the answer of its own", () => isOver(world.request(headSha)));
    expect(verdictOf(own)).toMatchObject({ kind: "not-required", reason: "docs-only" });
    expect(said(world, headSha)).toEqual(["cancelled", "success"]);
  });

  it.concurrent("from a fork whose code is refused throws no group out", async (test) => {
    const { world, headSha, headRef, branch } = await waitingGroup(test);
    await seen("the group's check", () => said(world, headSha).length === 1);
    world.repository.openPullRequest({ author: "eve", fork: true, branch, asItIs: true, files: {} });
    const request = await seen("its refusal", () => {
      const one = world.request(headSha);
      return one?.state.kind === "concluded" ? one : null;
    });
    expect(verdictOf(request)).toMatchObject({ kind: "refused", reason: "fork" });
    await lookAgain(world, request);
    expect(said(world, headSha)).toEqual([null]);

    // The queue keeps its branch for a moment after the group's word: nothing is put over that either.
    world.repository.reportCheck(headSha, { name: "slow", conclusion: "success" });
    const group = await seen("the group's verdict", () => isOver(grouped(world, headSha)));
    expect(verdictOf(group)).toMatchObject({ kind: "passed" });
    await lookAgain(world, request);
    expect(said(world, headSha)).toEqual(["success"]);

    world.repository.destroyMergeGroup(headRef, "dequeued");
    await lookAgain(world, request);
    await seen("the refusal on the check", () => isOver(world.request(headSha)));
    expect(said(world, headSha)).toEqual(["success", "action_required"]);
  });

  it.concurrent("is not answered green either where the group's webhook is lost", async (test) => {
    const { world, headSha, branch } = await waitingGroup(test, "lost");
    world.repository.openPullRequest({ author: "eve", fork: true, branch, asItIs: true, base: "one", files: {} });
    await seen("its request, looked at", () => {
      const one = world.request(headSha);
      return one?.state.kind === "authorizing" && one.state.tries > 0;
    });
    expect(grouped(world, headSha)).toBe(undefined);
    expect(said(world, headSha)).toEqual([null]);
  });
});

it.concurrent("the aggregator's check of a group is the group's, also where a stranger's draft was there first", async (test) => {
  const more =
    "merge_queue:\n  pre_gate: []\naggregator:\n  name: All checks\n  registration_grace: 1\n" +
    "required_checks:\n  - name: Unit tests\n    report: must\n";
  const world = await startLife({ config: CONFIG.replace("limits:\n", `${more}limits:\n`) });
  test.onTestFinished(() => world.close());
  const { repository } = world;
  world.github.setWorkflowScript(CI, { ...ciScript, on: ["pull_request", "merge_group"] });
  const pull = repository.openPullRequest({ author: "mira", branch: "one", files: { "README.md": "# one\n" } });
  await world.concluded(pull.headSha);
  world.github.webhooks.next({ event: "merge_group" }, "vanish");
  const { headSha, headRef } = repository.mergeGroup([pull.number]);
  const branch = headRef.replace("refs/heads/", "");
  repository.openPullRequest({ author: "eve", fork: true, branch, asItIs: true, draft: true, files: {} });
  const all = () => repository.checkRuns(headSha).filter((run) => run.name === "All checks");
  await seen("the draft's check", () => all().some((run) => run.status === "queued"));
  await world.github.webhooks.settled();
  repository.reportCheck(headSha, { name: "Unit tests", conclusion: "success" });
  world.gate.store.putTask("reconcile", "repository", "reconcile", {}, Date.now(), Date.now());
  await world.gate.run();
  const answer = await seen("the group's answer", () => all().find((run) => run.conclusion !== null));
  expect(answer.conclusion).toBe("success");
});
