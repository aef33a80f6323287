/** Row 5: a merge queue's group, over the local GitHub's webhooks and the real local RunPod. */
import { describe, expect, it, type TestContext } from "vitest";
import { CI, ciScript, PREPARE, SLOW_TESTS } from "../../local/world/workflows.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import { CONFIG, startLife, verdictOf, type Life } from "./life.ts";

const NO_PRE_GATE = "merge_queue:\n  pre_gate: []\n";

async function life(test: TestContext, more = NO_PRE_GATE): Promise<Life> {
  const world = await startLife({ config: CONFIG.replace("limits:\n", `${more}limits:\n`) });
  test.onTestFinished(() => world.close());
  return world;
}

async function group(
  world: Life,
  headSha: string,
  ready: (one: GateRequest) => boolean = (one) => one.state.kind === "concluded" && one.check.completed,
): Promise<GateRequest> {
  const limit = Date.now() + 90_000;
  for (;;) {
    const one = world.gate.store.requestsOfHead(headSha, "merge-group").at(-1);
    if (one !== undefined && ready(one)) return one;
    if (Date.now() > limit) throw new Error(`the group's request is ${JSON.stringify(one?.state)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function open(world: Life, name: string, files: Readonly<Record<string, string>>, author = "mira") {
  return world.repository.openPullRequest({ author, title: name, branch: name, files });
}

function ended(generation: number) {
  return (one: GateRequest): boolean =>
    one.generation === generation && one.state.kind === "concluded" && one.check.completed;
}

function askAgain(world: Life, headSha: string, by: string): void {
  const run = world.repository.checkRuns(headSha).findLast((one) => one.name === "CI GPU gate");
  world.repository.rerequestCheck(run?.id ?? 0, by);
}

function conclusions(world: Life, sha: string) {
  return world.repository.checkRuns(sha).flatMap((run) => (run.name === "CI GPU gate" ? [run.conclusion] : []));
}

const ALL = "All checks";

/** With an aggregator that the queue waits for; of the group's own checks the gate's and `Unit tests` have to report. */
function aggregated(more = ""): string {
  return (
    `${NO_PRE_GATE}aggregator:\n  name: ${ALL}\n  registration_grace: 1\n  release_prefix: release--\n` +
    `required_checks:\n  - name: CI GPU gate\n    report: must\n${more}`
  );
}

/** What the aggregator's newest check on a commit concluded, once that is as wanted; null: it is there and open. */
async function said(world: Life, sha: string, wanted: string | null) {
  const limit = Date.now() + 20_000;
  for (;;) {
    const newest = world.repository.checkRuns(sha).findLast((run) => run.name === ALL)?.conclusion;
    if (newest === wanted || Date.now() > limit) return newest;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** A member that is green, and the group that the queue makes of it. */
async function queued(world: Life, branch = "one") {
  const pull = open(world, branch, { "README.md": `# ${branch}\n` });
  await world.concluded(pull.headSha);
  return world.repository.mergeGroup([pull.number]);
}

describe("the aggregator's check on a merge group", () => {
  const UNIT_TESTS = "  - name: Unit tests\n    report: must\n";

  it.concurrent("waits for the group's own checks, and says what they come to", async (test) => {
    const world = await life(test, aggregated(UNIT_TESTS));
    const { headSha } = await queued(world);
    const id = world.repository.reportCheck(headSha, { name: "Unit tests" });
    expect(await said(world, headSha, null)).toBe(null);
    world.repository.reportCheck(headSha, { id, name: "Unit tests", conclusion: "success" });
    expect(await said(world, headSha, "success")).toBe("success");
    world.repository.reportCheck(headSha, { name: "Unit tests", conclusion: "failure" });
    expect(await said(world, headSha, "failure")).toBe("failure");
    expect(world.audits().findLast((entry) => entry.act === "aggregate.conclude")?.facts).toMatchObject({
      head: headSha,
      pull: null,
    });
  });

  it.concurrent("is red where one that must report never does", async (test) => {
    const world = await life(test, aggregated(UNIT_TESTS));
    const { headSha } = await queued(world);
    expect(await said(world, headSha, "failure")).toBe("failure");
  });

  it.concurrent("comes also where no webhook told of the group", async (test) => {
    const world = await life(test, aggregated());
    world.github.setWorkflowScript(CI, { ...ciScript, on: ["pull_request", "merge_group"] });
    world.github.webhooks.next({ event: "merge_group" }, "vanish");
    const { headSha } = await queued(world);
    await world.github.webhooks.settled();
    world.gate.store.putTask("reconcile", "repository", "reconcile", {}, Date.now(), Date.now());
    await world.gate.run();
    expect(await said(world, headSha, "success")).toBe("success");
  });

  it.concurrent("does not hang when the queue dissolves the group", async (test) => {
    const world = await life(test, aggregated(UNIT_TESTS));
    const { headSha, headRef } = await queued(world);
    world.repository.reportCheck(headSha, { name: "Unit tests" });
    expect(await said(world, headSha, null)).toBe(null);
    world.repository.destroyMergeGroup(headRef, "dequeued");
    expect(await said(world, headSha, "cancelled")).toBe("cancelled");
  });

  it.concurrent.for([
    ["release--1.0", "failure"],
    ["one", "success"],
  ] as const)(
    "goes by the members' branches for a check that must report on a release: %s",
    async ([branch, wanted], test) => {
      const world = await life(test, aggregated("  - name: Contract\n    report: must-on-release\n"));
      const { headSha } = await queued(world, branch);
      expect(await said(world, headSha, wanted)).toBe(wanted);
    },
  );
});

describe("a merge group", () => {
  it.concurrent("of green members is tested on its own commit, and asked for twice it is one request", async (test) => {
    const world = await life(test);
    const [one, two] = [open(world, "one", { "src/one.rs": "1" }), open(world, "two", { "README.md": "# two\n" })];
    await world.concluded(one.headSha);
    await world.concluded(two.headSha);
    const { headSha } = world.repository.mergeGroup([one.number, two.number]);
    const request = await group(world, headSha);
    expect(verdictOf(request)).toMatchObject({ kind: "passed", reason: "tests-passed" });
    expect(request).toMatchObject({
      openedBy: { row: 5 },
      admission: { testedSha: headSha, title: "Merge group of #1, #2" },
    });
    expect(conclusions(world, headSha)).toEqual(["success"]);
    expect(world.runpod.pods()).toHaveLength(2);
    expect(
      world.github.books.dispatches.findLast((entry) => entry.workflowPath === PREPARE)?.inputs["tested_sha"],
    ).toBe(headSha);
    for (const record of world.github.books.webhooks.filter((entry) => entry.event === "merge_group")) {
      world.github.redeliver(record.guid);
    }
    expect(world.gate.store.requestsOfHead(headSha, "merge-group")).toHaveLength(1);
  });

  it.concurrent("that needs no GPU is green at once", async (test) => {
    const world = await life(test);
    const pull = open(world, "words", { "README.md": "# more words\n" });
    await world.concluded(pull.headSha);
    const request = await group(world, world.repository.mergeGroup([pull.number]).headSha);
    expect(verdictOf(request)).toMatchObject({ kind: "not-required", reason: "docs-only" });
    expect(world.runpod.pods()).toEqual([]);
  });

  it.concurrent("with a member whose head is not green fails, and names it", async (test) => {
    const world = await life(test);
    const good = open(world, "good", { "README.md": "# good\n" });
    const bad = open(world, "bad", { "src/bad.rs": "1" }, "walt");
    await world.concluded(good.headSha);
    await world.concluded(bad.headSha);
    const { headSha } = world.repository.mergeGroup([bad.number, good.number]);
    const request = await group(world, headSha);
    expect(verdictOf(request)).toMatchObject({ kind: "failed", reason: "members" });
    expect(verdictOf(request).detail).toContain(`#${bad.number}`);
    expect(conclusions(world, headSha)).toEqual(["failure"]);
    expect(world.runpod.pods()).toEqual([]);
  });

  it.concurrent("is not fooled by somebody else's check of the same name", async (test) => {
    const world = await life(test);
    const pull = open(world, "bad", { "src/bad.rs": "1" }, "walt");
    await world.concluded(pull.headSha);
    world.repository.reportCheck(pull.headSha, { name: "CI GPU gate", conclusion: "success" });
    const request = await group(world, world.repository.mergeGroup([pull.number]).headSha);
    expect(verdictOf(request)).toMatchObject({ kind: "failed", reason: "members" });
  });

  it.concurrent("has no member in a pull request that is built on one of its, or only shows its commit again", async (test) => {
    const world = await life(test);
    const pull = open(world, "one", { "README.md": "# one\n" });
    await world.concluded(pull.headSha);
    const fork = { author: "eve", fork: true, branch: "one", asItIs: true, files: {} };
    world.repository.openPullRequest(fork);
    world.repository.openPullRequest({ ...fork, author: "walt", fork: { owner: "walt" } });
    const top = world.repository.push(2, { author: "eve", files: { "src/x.rs": "1" } });
    expect(verdictOf(await world.concluded(top))).toMatchObject({ kind: "refused", reason: "fork" });
    const request = await group(world, world.repository.mergeGroup([pull.number]).headSha);
    expect(verdictOf(request)).toMatchObject({ kind: "not-required" });
    expect(request.admission?.title).toBe("Merge group of #1");
  });

  it.concurrent("does not wait for a pull request stacked on a member, whose refusal is of another commit", async (test) => {
    const world = await life(test);
    world.repository.addCollaborator("walt", "write");
    const pull = open(world, "one", { "README.md": "# one\n" });
    await world.concluded(pull.headSha);
    // Opened at the member's very head, and gone from there at once: its check was put over the member's for a moment.
    const fork = { fork: { owner: "walt" }, branch: "one", asItIs: true, files: {} };
    const stacked = world.repository.openPullRequest({ author: "walt", ...fork });
    const top = world.repository.push(stacked.number, { author: "walt", files: { "src/x.rs": "1" } });
    expect(verdictOf(await world.concluded(top))).toMatchObject({ kind: "refused" });
    const first = await world.until(
      pull.headSha,
      "the member's answer, given back",
      (one) => one.prNumber === pull.number && one.state.kind === "concluded" && one.check.completed,
    );
    expect(verdictOf(first)).toMatchObject({ kind: "not-required" });
    const request = await group(world, world.repository.mergeGroup([pull.number]).headSha);
    expect(verdictOf(request)).toMatchObject({ kind: "not-required" });
  });

  it.concurrent("reuses an identical tree where the policy says so, and tests it again where it does not", async (test) => {
    const world = await life(test, "merge_queue:\n  policy: reuse\n  pre_gate: []\n");
    const pull = open(world, "one", { "src/one.rs": "1" });
    const tested = await world.concluded(pull.headSha);
    expect(verdictOf(tested)).toMatchObject({ kind: "passed" });
    // The group of one pull request on an unmoved base has the tree of its test merge.
    const request = await group(world, world.repository.mergeGroup([pull.number]).headSha);
    expect(verdictOf(request)).toMatchObject({ kind: "reused", reason: "identical-tree" });
    expect(world.github.books.dispatches.filter((entry) => entry.workflowPath === PREPARE)).toHaveLength(1);
    expect(world.runpod.pods()).toHaveLength(1);
  });

  it.concurrent("that was squashed is decided: its one commit is the named member's", async (test) => {
    const world = await life(test);
    const pull = open(world, "words", { "README.md": "# words\n" });
    await world.concluded(pull.headSha);
    const request = await group(world, world.repository.mergeGroup([pull.number], "squash").headSha);
    expect(verdictOf(request)).toMatchObject({ kind: "not-required" });
    expect(request.admission?.title).toBe("Merge group of #1");
  });

  it.concurrent("that was rebased from several commits fails: nobody says whose the rewritten ones are", async (test) => {
    const world = await life(test);
    const pull = open(world, "words", { "README.md": "# words\n" });
    const second = world.repository.push(pull.number, { author: "mira", files: { "README.md": "# more words\n" } });
    await world.concluded(second);
    const request = await group(world, world.repository.mergeGroup([pull.number], "rebase").headSha);
    expect(verdictOf(request)).toMatchObject({ kind: "failed", reason: "members" });
    expect(verdictOf(request).detail).toContain("belongs to no open pull request");
  });

  it.concurrent("that is dissolved ends in the middle of its job, and its pod goes", async (test) => {
    const world = await life(test);
    const { repository, runpod } = world;
    const pull = open(world, "one", { "src/one.rs": "1" });
    await world.concluded(pull.headSha);
    // Since then the default branch got tests that take long: the group has them, the member alone had not.
    repository.commit({ files: { [SLOW_TESTS]: "" } });
    const { headSha, headRef } = repository.mergeGroup([pull.number]);
    await group(world, headSha, ({ state }) => state.kind === "executing");
    repository.destroyMergeGroup(headRef, "dequeued");
    const request = await group(world, headSha);
    expect(verdictOf(request)).toMatchObject({ kind: "cancelled", reason: "merge-group-destroyed" });
    expect(conclusions(world, headSha)).toEqual(["cancelled"]);
    expect(runpod.pods()).toHaveLength(2);
    expect(runpod.pods().every((pod) => pod.releasedAtMs !== null)).toBe(true);
  });

  it.concurrent("asked for again is tested by a maintainer's word, and by nobody's who may not spend", async (test) => {
    const world = await life(test);
    world.repository.addCollaborator("mona", "maintain");
    world.repository.addCollaborator("walt", "write");
    const pull = open(world, "one", { "src/one.rs": "1" });
    await world.concluded(pull.headSha);
    const { headSha } = world.repository.mergeGroup([pull.number]);
    const first = await group(world, headSha);
    expect(verdictOf(first)).toMatchObject({ kind: "passed" });
    expect(first.admission?.actor.login).toBe("mira");
    expect(world.runpod.pods()).toHaveLength(2);

    askAgain(world, headSha, "walt");
    const refused = await group(world, headSha, ended(2));
    expect(verdictOf(refused)).toMatchObject({ kind: "refused", reason: "actor-not-permitted" });
    expect(world.runpod.pods()).toHaveLength(2);

    askAgain(world, headSha, "mona");
    const again = await group(world, headSha, ended(3));
    expect(verdictOf(again)).toMatchObject({ kind: "passed" });
    expect(again.admission).toMatchObject({ actor: { login: "mona" }, author: { login: "mira" } });
    expect(world.runpod.pods()).toHaveLength(3);
  });

  it.concurrent("asked for again rents nothing once the right to spend is taken away, also at the last look", async (test) => {
    const world = await life(test, "merge_queue:\n  pre_gate: [slow]\n");
    world.repository.addCollaborator("mona", "maintain");
    const pull = open(world, "one", { "src/one.rs": "1" });
    await world.concluded(pull.headSha);
    const { headSha } = world.repository.mergeGroup([pull.number]);
    world.repository.reportCheck(headSha, { name: "slow", conclusion: "failure" });
    expect(verdictOf(await group(world, headSha))).toMatchObject({ kind: "failed" });
    world.repository.reportCheck(headSha, { name: "slow", status: "in_progress", conclusion: null });
    askAgain(world, headSha, "mona");
    await group(world, headSha, ({ generation, state }) => generation === 2 && state.kind === "preparing");
    world.repository.setRole("mona", "write");
    world.repository.reportCheck(headSha, { name: "slow", conclusion: "success" });
    const request = await group(world, headSha, ended(2));
    expect(verdictOf(request)).toMatchObject({ kind: "refused", reason: "actor-not-permitted" });
    expect(world.runpod.pods()).toHaveLength(1);
  });

  it.concurrent("that was dissolved and is asked for again ends as dissolved, whoever asks", async (test) => {
    const world = await life(test);
    const pull = open(world, "words", { "README.md": "# words\n" });
    const code = open(world, "one", { "src/one.rs": "1" });
    await world.concluded(pull.headSha);
    await world.concluded(code.headSha);
    const { headSha, headRef } = world.repository.mergeGroup([pull.number, code.number]);
    await group(world, headSha);
    world.repository.destroyMergeGroup(headRef, "dequeued");
    const before = world.runpod.pods().length;
    askAgain(world, headSha, "mira");
    const request = await group(world, headSha, ended(2));
    expect(verdictOf(request)).toMatchObject({ kind: "cancelled", reason: "merge-group-destroyed" });
    expect(world.runpod.pods()).toHaveLength(before);
  });

  it.concurrent("ends before the queue gives up on it, its wait included", async (test) => {
    const world = await life(test, "merge_queue:\n  pre_gate: [never reported]\n  margin: 56\n");
    world.repository.setBranchRules("main", [
      { type: "merge_queue", parameters: { check_response_timeout_minutes: 1 } },
    ]);
    const pull = open(world, "one", { "src/one.rs": "1" });
    await world.concluded(pull.headSha);
    const { headSha } = world.repository.mergeGroup([pull.number]);
    const request = await group(world, headSha);
    expect(verdictOf(request)).toMatchObject({ kind: "deadline", reason: "merge-queue-timeout" });
    expect(request.state.kind === "concluded" ? request.state.at - request.openedAt : 0).toBeGreaterThanOrEqual(4_000);
    expect(conclusions(world, headSha)).toEqual(["timed_out"]);
    expect(world.runpod.pods()).toHaveLength(1);
  });
});
