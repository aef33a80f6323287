/**
 * What opens a request and whose permission counts (design 3.1), row by row, over the local GitHub's real webhooks and its
 * books. Each test is a small life of its own.
 */
import { describe, expect, it, type TestContext } from "vitest";
import { CI, ciScript, EXECUTE, PREPARE } from "../../local/world/workflows.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import { CONFIG, startLife, verdictOf, type Life } from "./life.ts";

const NAME = "CI GPU gate";

async function life(test: TestContext, more = ""): Promise<Life> {
  const world = await startLife({ config: CONFIG.replace("limits:\n", `${more}limits:\n`) });
  test.onTestFinished(() => world.close());
  world.repository.addCollaborator("mona", "maintain");
  // May push and re-run, and may not spend.
  world.repository.addCollaborator("walt", "write");
  return world;
}

/** Waits for a generation of the head's request to end. */
function ended(world: Life, head: string, generation: number): Promise<GateRequest> {
  return world.until(
    head,
    `the end of generation ${generation}`,
    (one) => one.generation === generation && one.state.kind === "concluded" && one.check.completed,
  );
}

function checks(world: Life, head: string) {
  return world.repository.checkRuns(head).filter((run) => run.name === NAME);
}

function dispatches(world: Life, path: string) {
  return world.github.books.dispatches.filter((entry) => entry.workflowPath === path);
}

/** The second request of a head, whatever came after it. */
function secondRequest({ gate }: Life, head: string): GateRequest {
  const found = gate.store.requestsOfHead(head, "pull-request")[1];
  if (found === undefined) throw new Error("there is one request only");
  return found;
}

/** Until something outside the request's record is so. */
async function eventually(what: string, so: () => boolean): Promise<void> {
  const limit = Date.now() + 20_000;
  while (!so()) {
    if (Date.now() > limit) throw new Error(`waited for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe("row 1: the pull request itself", () => {
  it.concurrent("opens one request and creates its check, whoever opened it", async (test) => {
    const world = await life(test);
    const head = world.repository.openPullRequest({ author: "walt", files: { "src/a.rs": "x" } }).headSha;
    const request = await ended(world, head, 1);
    expect(request.openedBy).toMatchObject({ row: 1, actor: { login: "walt" } });
    expect(verdictOf(request)).toMatchObject({ kind: "refused", reason: "author-not-permitted" });
    expect(checks(world, head).map((run) => run.conclusion)).toEqual(["action_required"]);
    expect(world.runpod.pods()).toEqual([]);
  });

  it.concurrent("waits as a draft with its check queued, and goes on when it is ready", async (test) => {
    const world = await life(test);
    const pull = world.repository.openPullRequest({ author: "mira", draft: true, files: { "src/a.rs": "x" } });
    const waits = (one: GateRequest) => one.state.kind === "waiting" && one.check.published !== null;
    await world.until(pull.headSha, "the draft's wait", waits);
    await eventually("the check's text", () => checks(world, pull.headSha)[0]?.title === "Draft");
    expect(checks(world, pull.headSha).map((run) => run.status)).toEqual(["queued"]);
    expect(dispatches(world, PREPARE)).toEqual([]);
    world.repository.setDraft(pull.number, false);
    expect(verdictOf(await world.concluded(pull.headSha))).toMatchObject({ kind: "passed" });
    expect(world.gate.store.requestsOfHead(pull.headSha, "pull-request")).toHaveLength(1);
  });

  it.concurrent("a reopened pull request is asked about again, by whoever reopened it", async (test) => {
    const world = await life(test);
    const pull = world.repository.openPullRequest({ author: "mira", draft: true, files: { "src/a.rs": "x" } });
    await world.until(pull.headSha, "the draft's wait", ({ state }) => state.kind === "waiting");
    world.repository.close(pull.number);
    expect(verdictOf(await ended(world, pull.headSha, 1))).toMatchObject({ kind: "closed" });
    world.repository.reopen(pull.number, "mona");
    const again = await world.until(pull.headSha, "generation 2", (one) => one.generation === 2);
    expect(again.openedBy).toMatchObject({ row: 1, actor: { login: "mona" } });
  });

  it.concurrent("prepares nothing for a head that a push inside the quiet period replaced", async (test) => {
    const world = await life(test, "quiet_period: 6\n");
    const pull = world.repository.openPullRequest({ author: "mira", files: { "src/a.rs": "x" } });
    await world.until(pull.headSha, "the quiet wait", ({ state }) => state.kind === "waiting" && state.for === "quiet");
    const second = world.repository.push(pull.number, { files: { "src/a.rs": "y" } });
    expect(verdictOf(await ended(world, pull.headSha, 1))).toMatchObject({ reason: "head-moved" });
    expect(verdictOf(await world.concluded(second))).toMatchObject({ kind: "passed" });
    expect(dispatches(world, PREPARE)).toHaveLength(1);
  });

  it.concurrent("is one request and one check for two pull requests at one head; the second's turn comes when the first is closed", async (test) => {
    const world = await life(test);
    const { repository } = world;
    repository.commit({ branch: "release", files: { "src/r.rs": "1" } });
    const first = repository.openPullRequest({
      author: "mira",
      branch: "topic",
      draft: true,
      files: { "src/a.rs": "x" },
    });
    const head = first.headSha;
    await world.until(head, "the draft's wait", ({ state }) => state.kind === "waiting");
    const second = repository.openPullRequest({
      author: "mona",
      branch: "topic",
      base: "release",
      asItIs: true,
      files: {},
    });
    expect(second.headSha).toBe(head);
    await eventually("the note", () => world.audits().some((entry) => entry.act === "request.shared"));
    expect(world.gate.store.requestsOfHead(head, "pull-request")).toHaveLength(1);
    expect(checks(world, head)).toHaveLength(1);

    repository.close(first.number);
    const request = await ended(world, head, 2);
    expect(request.prNumber).toBe(second.number);
    expect(verdictOf(request)).toMatchObject({ kind: "passed" });
    expect(checks(world, head).map((run) => run.conclusion)).toEqual(["cancelled", "success"]);
  });

  it.concurrent("asks about the second of two pull requests at one head by the word of whoever brought it", async (test) => {
    const world = await life(test);
    const { repository } = world;
    repository.commit({ branch: "release", files: { "src/r.rs": "1" } });
    const draft = { author: "mira", draft: true, branch: "topic" };
    const first = repository.openPullRequest({ ...draft, base: "release", files: { "src/a.rs": "x" } });
    const head = first.headSha;
    await world.until(head, "the draft's wait", ({ state }) => state.kind === "waiting");
    repository.close(first.number);
    await ended(world, head, 1);
    const second = repository.openPullRequest({ ...draft, asItIs: true, files: {} });
    await world.until(
      head,
      "the second's wait",
      ({ state, generation }) => generation === 2 && state.kind === "waiting",
    );
    repository.reopen(first.number, "walt");
    await eventually("the note", () => world.audits().some((entry) => entry.act === "request.shared"));

    repository.close(second.number);
    const request = await world.until(head, "the first's turn", ({ generation }) => generation === 3);
    expect(request).toMatchObject({ prNumber: first.number, openedBy: { row: 1, actor: { login: "walt" } } });
    expect(verdictOf(await ended(world, head, 3))).toMatchObject({ kind: "refused", reason: "actor-not-permitted" });
  });

  it.concurrent("says 'no GPU is needed' of a commit only where that holds for every pull request that has it", async (test) => {
    const world = await life(test);
    const { repository } = world;
    // The old branch left before that code came: for it the words below bring code along.
    repository.commit({ branch: "old", files: { "NOTES.md": "old" } });
    repository.commit({ files: { "src/base.rs": "1" } });
    repository.commit({ branch: "topic", files: { "README.md": "# words\n" } });
    const topic = { branch: "topic", asItIs: true, files: {} };
    const other = repository.openPullRequest({ author: "walt", base: "old", ...topic });
    expect(verdictOf(await ended(world, other.headSha, 1))).toMatchObject({ kind: "refused" });
    const words = repository.openPullRequest({ author: "mira", ...topic });
    expect(words.headSha).toBe(other.headSha);
    const request = await ended(world, words.headSha, 2);
    expect(request.prNumber).toBe(words.number);
    // Tested for this one it would be green for the other, whose author was refused exactly that.
    expect(verdictOf(request)).toMatchObject({ kind: "refused", reason: "author-not-permitted" });
    expect(verdictOf(request).detail).toContain(`#${other.number}`);
    expect(world.runpod.pods()).toEqual([]);

    repository.addCollaborator("walt", "maintain");
    const run = repository.checkRuns(words.headSha).findLast((one) => one.name === "CI GPU gate");
    repository.rerequestCheck(run?.id ?? 0, "mira");
    // The other's own word, for another base, is put back behind it at once.
    expect(await ended(world, words.headSha, 4)).toMatchObject({ prNumber: other.number, counts: { pods: 0 } });
    const [, , again] = world.gate.store.requestsOfHead(words.headSha, "pull-request");
    expect(again).toMatchObject({ prNumber: words.number, state: { verdict: { kind: "passed" } } });
    expect(again?.admission).toMatchObject({ gpuRequired: true });
    expect(again?.admission?.reason).toContain(`#${other.number}`);
  });

  it.concurrent("rents nothing for a fork's commit that is documentation here and somebody's refused code elsewhere", async (test) => {
    const world = await life(test);
    const { repository } = world;
    repository.commit({ branch: "old", files: { "NOTES.md": "old" } });
    repository.commit({ files: { "src/base.rs": "1" } });
    repository.commit({ branch: "topic", files: { "README.md": "# words\n" } });
    const topic = { branch: "topic", asItIs: true, files: {} };
    const code = repository.openPullRequest({ author: "walt", base: "old", ...topic });
    const head = code.headSha;
    expect(verdictOf(await ended(world, head, 1))).toMatchObject({ kind: "refused", reason: "author-not-permitted" });
    const words = repository.openPullRequest({ author: "eve", fork: true, ...topic });
    expect(words.headSha).toBe(head);
    const request = await ended(world, head, 2);
    expect(request.prNumber).toBe(words.number);
    expect(verdictOf(request)).toMatchObject({ kind: "refused", reason: "fork" });
    expect(verdictOf(request).detail).toContain(`#${code.number}`);
    // Nor does a maintainer's word make a fork's commit one of ours.
    const run = repository.checkRuns(head).findLast((one) => one.name === "CI GPU gate");
    repository.rerequestCheck(run?.id ?? 0, "mira");
    expect(verdictOf(await ended(world, head, 3))).toMatchObject({ kind: "refused", reason: "fork" });
    expect(world.runpod.pods()).toEqual([]);
  });
});

describe("row 1 without a trigger workflow", () => {
  const UNTRIGGERED = `${CONFIG}pre_gate: []\nworkflows:\n  trigger: none\n`;
  const PUSHED = { event: "pull_request", action: "synchronize" };

  /** A maintainer's pull request that needs no GPU, and somebody's push of code to it. */
  async function pushedTo(test: TestContext, by: string, how: "heard" | "lost" | "late") {
    const world = await startLife({ config: UNTRIGGERED });
    test.onTestFinished(() => world.close());
    world.repository.addCollaborator("mona", "maintain");
    world.repository.addCollaborator("walt", "write");
    const { number, headSha } = world.repository.openPullRequest({ author: "mira", files: { "README.md": "# w\n" } });
    expect(verdictOf(await ended(world, headSha, 1))).toMatchObject({ kind: "not-required" });
    if (how !== "heard") world.github.webhooks.next(PUSHED, how === "lost" ? "vanish" : { delayMs: 3_000 });
    const head = world.repository.push(number, { author: by, files: { "src/a.rs": "x" } });
    if (how !== "heard") {
      world.gate.store.putTask("reconcile", "repository", "reconcile", {}, Date.now(), Date.now());
      await world.gate.run();
    }
    return { world, head };
  }

  it.concurrent("a writer's push to a maintainer's pull request is refused when it is heard", async (test) => {
    const { world, head } = await pushedTo(test, "walt", "heard");
    expect(verdictOf(await ended(world, head, 1))).toMatchObject({ reason: "actor-not-permitted" });
    expect(world.runpod.pods()).toEqual([]);
  });

  it.concurrent("and waits for an approval when it is not: nothing is started by the author's permission alone", async (test) => {
    const { world, head } = await pushedTo(test, "walt", "lost");
    const request = await ended(world, head, 1);
    expect(verdictOf(request)).toMatchObject({ kind: "awaiting-approval", reason: "actor-unknown" });
    expect(checks(world, head).map((run) => run.conclusion)).toEqual(["action_required"]);
    expect(dispatches(world, PREPARE)).toEqual([]);
    expect(world.runpod.pods()).toEqual([]);
    world.repository.pressButton(checks(world, head)[0]?.id ?? 0, "approve-gpu-run", "mona");
    expect(verdictOf(await ended(world, head, 2))).toMatchObject({ kind: "passed" });
  });

  it.concurrent("and is refused after all when the word of it comes late", async (test) => {
    const { world, head } = await pushedTo(test, "walt", "late");
    expect(verdictOf(await ended(world, head, 1))).toMatchObject({ reason: "actor-unknown" });
    expect(verdictOf(await ended(world, head, 2))).toMatchObject({ reason: "actor-not-permitted" });
    expect(world.runpod.pods()).toEqual([]);
  });

  it.concurrent("a maintainer's push goes on when the word of it comes, however late", async (test) => {
    const { world, head } = await pushedTo(test, "mona", "late");
    const request = await ended(world, head, 2);
    expect(verdictOf(request)).toMatchObject({ kind: "passed" });
    expect(request.actor?.login).toBe("mona");
  });
});

describe("row 2: the trigger workflow", () => {
  it.concurrent("lets the request go on, and its triggering actor is the one who is authorised", async (test) => {
    const world = await life(test);
    const head = world.openCode("matmul");
    const request = await world.concluded(head);
    expect(verdictOf(request)).toMatchObject({ kind: "passed" });
    expect(request.actor?.login).toBe("mira");
    const [run] = world.repository.runs(CI);
    const began = world.github.books.runs.find((entry) => entry.runId === run?.id && entry.what === "started");
    expect(dispatches(world, PREPARE)[0]?.at).toBeGreaterThanOrEqual(began?.at ?? Infinity);
  });
});

describe("row 2: the trigger workflow that does not start", () => {
  it.concurrent("another workflow's run is none; the late start of the right one opens the next generation", async (test) => {
    const world = await startLife({ config: CONFIG.replace("trigger_start: 60", "trigger_start: 2") });
    test.onTestFinished(() => world.close());
    const { repository, github } = world;
    const other = ".github/workflows/other.yml";
    repository.commit({ files: { [other]: "name: Other\n" } });
    github.setWorkflowScript(other, { ...ciScript, name: "Other" });
    // The right one waits for a maintainer, as a first contribution's does.
    github.setWorkflowScript(CI, { ...ciScript, on: ["workflow_dispatch"] });
    const head = world.openCode("matmul");
    const late = await ended(world, head, 1);
    expect(verdictOf(late)).toMatchObject({ kind: "awaiting-approval", reason: "trigger-not-started" });
    expect(repository.runs(other).length).toBeGreaterThan(0);
    expect(dispatches(world, PREPARE)).toEqual([]);
    const run = repository.runs(other)[0];
    const known = world.gate.store.repository();
    world.gate.accept({
      guid: "late",
      event: "workflow_run",
      repository: known?.repository ?? { id: "", owner: "", name: "" },
      installationId: known?.installationId ?? "",
      signal: {
        kind: "workflow-run",
        action: "in_progress",
        runId: String((run?.id ?? 0) + 1),
        runAttempt: 1,
        workflowPath: CI,
        event: "pull_request",
        status: "in_progress",
        conclusion: null,
        headSha: head,
        headBranch: null,
        headRepositoryId: null,
        headRepositoryOwner: null,
        triggeringActor: { id: "1", login: "mira" },
      },
    });
    expect(world.request(head)).toMatchObject({ generation: 2, openedBy: { row: 2, actor: { login: "mira" } } });
  });
});

describe("row 3: a person's word", () => {
  it.concurrent("a label starts the run; who may not spend takes nothing from those who may", async (test) => {
    const world = await life(test, "start: label\n");
    const { repository } = world;
    const pull = repository.openPullRequest({ author: "mira", files: { "src/a.rs": "x" } });
    expect(verdictOf(await ended(world, pull.headSha, 1))).toMatchObject({ reason: "awaiting-approval" });
    repository.addLabel(pull.number, "other-label", "mona");
    repository.addLabel(pull.number, "run-gpu", "walt");
    expect(verdictOf(await ended(world, pull.headSha, 2))).toMatchObject({ reason: "actor-not-permitted" });
    expect(dispatches(world, PREPARE)).toEqual([]);
    repository.removeLabel(pull.number, "run-gpu", "mona");
    repository.addLabel(pull.number, "run-gpu", "mona");
    const request = await ended(world, pull.headSha, 3);
    expect(verdictOf(request)).toMatchObject({ kind: "passed" });
    expect(request).toMatchObject({ openedBy: { row: 3 }, approvedBy: { login: "mona" } });
  });

  it.concurrent("a comment starts the commit that waited when it was written", async (test) => {
    const world = await life(test, "start: comment\n");
    const { repository } = world;
    const pull = repository.openPullRequest({ author: "mira", files: { "src/a.rs": "x" } });
    repository.comment(pull.number, "/gpu run", "mona");
    await ended(world, pull.headSha, 1);
    // GitHub tells a comment's time in whole seconds: one of the same second counts as earlier.
    const second = Math.floor(Date.now() / 1_000);
    await eventually("the next second", () => Math.floor(Date.now() / 1_000) > second);
    repository.comment(pull.number, "please /gpu run", "mona");
    repository.comment(pull.number, "/gpu run\nthank you", "mona");
    expect(verdictOf(await ended(world, pull.headSha, 2))).toMatchObject({ kind: "passed" });
    // One word is one run.
    expect(world.gate.store.requestsOfHead(pull.headSha, "pull-request")).toHaveLength(2);
  });

  it.concurrent("an approval dies with its commit: nothing is bought and the answer names the new head", async (test) => {
    const world = await life(test, "start: approval\n");
    const { repository } = world;
    const pull = repository.openPullRequest({ author: "mira", files: { "src/a.rs": "x" } });
    await ended(world, pull.headSha, 1);
    const old = checks(world, pull.headSha).at(-1);
    const second = repository.push(pull.number, { files: { "src/a.rs": "y" } });
    await ended(world, second, 1);
    repository.pressButton(old?.id ?? 0, "approve-gpu-run", "mona");
    const outdated = await ended(world, pull.headSha, 2);
    expect(verdictOf(outdated)).toMatchObject({ kind: "awaiting-approval", reason: "approval-outdated" });
    expect(verdictOf(outdated).detail).toContain(second.slice(0, 12));
    expect(checks(world, pull.headSha).at(-1)?.actions).toEqual([]);
    expect(world.gate.store.requestsOfHead(second, "pull-request")).toHaveLength(1);
    expect(dispatches(world, PREPARE)).toEqual([]);

    repository.pressButton(checks(world, second).at(-1)?.id ?? 0, "approve-gpu-run", "mona");
    expect(verdictOf(await ended(world, second, 2))).toMatchObject({ kind: "passed" });
  });
});

describe("row 4: asked for again", () => {
  it.concurrent("from the check: a new check run, tested again although the tree is the same", async (test) => {
    const world = await life(test);
    const head = world.openCode("matmul");
    await world.concluded(head);
    const first = checks(world, head).at(-1);
    world.repository.rerequestCheck(first?.id ?? 0, "mona");
    const request = await ended(world, head, 2);
    expect(verdictOf(request)).toMatchObject({ kind: "passed", reason: "tests-passed" });
    expect(request.openedBy).toMatchObject({ row: 4, actor: { login: "mona" } });
    expect(checks(world, head).map((run) => run.conclusion)).toEqual(["success", "success"]);
    expect(world.runpod.pods()).toHaveLength(2);
    expect(world.github.books.checkWrites.filter((write) => write.afterCompleted)).toEqual([]);
  });

  it.concurrent("from the suite, by somebody without the right: refused, nothing bought, the green given back", async (test) => {
    const world = await life(test);
    const head = world.openCode("matmul");
    await world.concluded(head);
    world.repository.rerequestSuite(head, "walt");
    expect(verdictOf(await ended(world, head, 3))).toMatchObject({ kind: "reused", reason: "given-back" });
    expect(verdictOf(secondRequest(world, head))).toMatchObject({ kind: "refused", reason: "actor-not-permitted" });
    expect(world.runpod.pods()).toHaveLength(1);
    expect(checks(world, head).map((run) => run.conclusion)).toEqual(["success", "action_required", "success"]);
  });

  it.concurrent("while it is under way: noted in the audit, nothing more", async (test) => {
    const world = await life(test);
    const head = world.openCode("matmul");
    await world.until(head, "its run", ({ state }) => state.kind === "executing");
    world.repository.rerequestSuite(head, "mona");
    const request = await world.concluded(head);
    expect(request.generation).toBe(1);
    const asked = world.audits().filter((entry) => entry.act === "request.asked-again");
    expect(asked).toMatchObject([{ reason: "request-open", facts: { row: 4 } }]);
    expect(world.runpod.pods()).toHaveLength(1);
  });

  it.concurrent("'re-run all' of the GPU run by a maintainer: that attempt is cancelled, and a fresh request follows", async (test) => {
    const world = await life(test);
    const { github, repository, runpod } = world;
    const head = world.openCode("matmul");
    await world.concluded(head);
    const run = repository.runs(EXECUTE)[0];
    repository.rerunWorkflow(run?.id ?? 0, "mona");
    const request = await ended(world, head, 2);
    expect(verdictOf(request)).toMatchObject({ kind: "passed" });
    expect(request.openedBy).toMatchObject({ row: 4, actor: { login: "mona" } });
    const cancelled = github.books.runs.find((one) => one.runId === run?.id && one.what === "cancel-requested");
    expect(cancelled?.attempt).toBe(2);
    expect(cancelled?.at).toBeGreaterThanOrEqual(runpod.pods()[0]?.releasedAtMs ?? Infinity);
    expect(world.audits().filter((entry) => entry.act === "cancel-uninvited-attempt")).toMatchObject([
      { reason: "uninvited-attempt", facts: { attempt: 2 } },
    ]);
    expect(runpod.pods()).toHaveLength(2);
    // The cancelled attempt never had a machine.
    expect(
      github.books.jobs.filter((job) => job.runId === run?.id && job.attempt === 2 && job.runnerId !== null),
    ).toEqual([]);
  });

  it.concurrent("'re-run' of the preparation by somebody without the right: cancelled and refused", async (test) => {
    const world = await life(test);
    const { github, repository } = world;
    const head = world.openCode("matmul");
    await world.concluded(head);
    const run = repository.runs(PREPARE)[0];
    repository.rerunWorkflow(run?.id ?? 0, "walt");
    expect(verdictOf(await ended(world, head, 3))).toMatchObject({ kind: "reused", reason: "given-back" });
    expect(verdictOf(secondRequest(world, head))).toMatchObject({ kind: "refused", reason: "actor-not-permitted" });
    expect(github.books.dispatches.filter((entry) => entry.workflowPath === PREPARE)).toHaveLength(1);
    expect(world.runpod.pods()).toHaveLength(1);
    expect(world.audits().some((entry) => /uninvited/.test(entry.act))).toBe(true);
  });
});

describe("reuse", () => {
  it.concurrent("an identical tree that passed under the same rules is not paid for twice; a changed rule is", async (test) => {
    const world = await life(test, "tested_revision: head\n");
    const { repository } = world;
    const files = { "src/same.rs": "pub fn f() {}\n" };
    const first = repository.openPullRequest({ author: "mira", files });
    await world.concluded(first.headSha);
    const twin = repository.openPullRequest({ author: "mira", files });
    const reused = await ended(world, twin.headSha, 1);
    expect(twin.headSha).not.toBe(first.headSha);
    expect(verdictOf(reused)).toMatchObject({ kind: "reused", reason: "identical-tree" });
    expect(verdictOf(reused).detail).toContain(
      `request ${world.gate.store.requestsOfHead(first.headSha, "pull-request")[0]?.id}`,
    );
    expect(reused.counts.pods).toBe(0);
    expect(checks(world, twin.headSha).at(-1)?.conclusion).toBe("success");
    expect(world.runpod.pods()).toHaveLength(1);

    // The execute workflow changes on the default branch: what passed under the old one says nothing.
    repository.commit({ files: { [EXECUTE]: "name: GPU gate execute\n# changed\n" } });
    const third = repository.openPullRequest({
      author: "mira",
      files: { ...files, [EXECUTE]: "name: GPU gate execute\n" },
    });
    const tested = await world.concluded(third.headSha);
    expect(verdictOf(tested)).toMatchObject({ kind: "passed" });
    expect(world.runpod.pods()).toHaveLength(2);
  });
});
