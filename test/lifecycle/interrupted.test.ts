/** Stories of a lock hold that is interrupted: a moved head, a closed pull request, a word to stop, late news. */
import { describe, expect, test } from "vitest";

import type { Outcomes } from "../../shared/lifecycle/tasks.ts";
import { outcomes } from "./events.ts";
import { attemptAt, known, OTHER_HEAD, PULL, SECOND, STOP, T0 } from "./fixtures.ts";
import type { Story } from "./story.ts";

import { buy, CAPACITY, EXITED, planned, up } from "./lock-hold.ts";

describe("a head that moves, a pull request that closes", () => {
  const MOVED: Outcomes["observe"] = { pull: known({ ...PULL, headSha: OTHER_HEAD }) };

  test("right before the create: nothing is bought", () => {
    const story = planned().reachCreate();
    story.answer("create-pod", { kind: "obsolete", which: "closed" });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "closed", reason: "closed" });
    expect(story.ledger).toEqual([]);
  });

  test("N07: while the create is under way: seen at the first look, deleted, then cancelled", () => {
    const story = buy(planned().reachCreate());
    expect(story.task?.dueAt).toBe(story.now);
    story.observe(MOVED);
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "superseded", reason: "head-moved" });
    expect(story.performed.indexOf("delete-pod")).toBeLessThan(story.performed.indexOf("cancel-run"));
  });

  test("between two attempts: no runner is minted and no run dispatched for it", () => {
    const story = buy(planned().reachCreate());
    story.observe(EXITED("pod-1"));
    story.remove();
    expect(story.at).toBe("provisioning/pause");
    story.observe(MOVED);
    expect(story.verdict).toMatchObject({ kind: "superseded" });
    expect(story.performed.filter((kind) => kind === "mint").length).toBe(1);
    expect(story.locks).toEqual(["release"]);
  });

  test("a validation of a fixed commit has no pull request to become obsolete", () => {
    const story = planned({ kind: "validation", prNumber: null });
    buy(story.reachCreate()).observe({ ...EXITED("pod-1"), pull: known({ ...PULL, open: false }) });
    story.remove();
    expect(story.asks).toBe("reserve");
  });
});

describe("a word to stop", () => {
  test.each<[string, (story: Story) => void]>([
    ["while money is reserved", (story) => void story.answer("reserve", outcomes.reserve.reserved)],
    [
      "while the runner is minted: it is deregistered",
      (story) => {
        story.request = { ...story.request, stop: null };
        story.answer("reserve", outcomes.reserve.reserved);
        story.event({ kind: "stop", verdict: STOP, inFlight: true });
        story.answer("mint", outcomes.mint.minted);
        expect(story.asks).toBe("deregister");
      },
    ],
  ])("%s ends it without a pod", (_, go) => {
    const story = planned();
    story.event({ kind: "stop", verdict: STOP, inFlight: true });
    go(story);
    story.remove();
    expect(story.verdict).toEqual(STOP);
    expect(story.performed).not.toContain("create-pod");
  });

  test.each(["conflict", "lost", "retry"] as const)(
    "while a mint is %s: what it may have registered is looked for first",
    (word) => {
      const story = planned();
      story.answer("reserve", outcomes.reserve.reserved);
      story.event({ kind: "stop", verdict: STOP, inFlight: true });
      story.answer("mint", outcomes.mint[word]);
      expect(story.asks).toBe("find-runner");
      story.answer("find-runner", outcomes["find-runner"].cleared);
      story.remove();
      expect(story.verdict).toEqual(STOP);
    },
  );

  test("while a dispatch is lost: the run is looked for, found and cancelled", () => {
    const story = planned();
    story.answer("reserve", outcomes.reserve.reserved);
    story.answer("mint", outcomes.mint.minted);
    story.event({ kind: "stop", verdict: STOP, inFlight: true });
    story.answer("dispatch-execute", outcomes["dispatch-execute"].lost);
    story.answer("find-execute", outcomes["find-execute"].none);
    story.answer("find-execute", outcomes["find-execute"].found);
    expect(story.task?.task).toMatchObject({ kind: "cancel-run", run: { runId: "900", attempt: 1 } });
    story.remove();
    expect(story.verdict).toEqual(STOP);
  });

  test("N07: while a create is under way: the pod is deleted as soon as its id is known, the lock released once", () => {
    const story = planned().reachCreate();
    story.event({ kind: "stop", verdict: STOP, inFlight: true });
    buy(story);
    expect(story.at).toBe("cleaning/record");
    story.remove();
    expect(story.verdict).toEqual(STOP);
    expect(story.ledger.map((op) => op.kind)).toEqual(["open", "close"]);
    expect(story.locks).toEqual(["release"]);
  });

  test("while a create is refused: no further candidate is asked", () => {
    const story = planned().reachCreate();
    story.event({ kind: "stop", verdict: STOP, inFlight: true });
    story.answer("create-pod", CAPACITY);
    story.remove();
    expect(story.verdict).toEqual(STOP);
    expect(story.performed.filter((kind) => kind === "create-pod").length).toBe(1);
  });

  test.each(["sleep", "pause"] as const)("during a %s: it is cut short and nothing more begins", (where) => {
    const story = planned().reachCreate();
    if (where === "sleep")
      story.answer("create-pod", { kind: "rate-limited", retryAfterMs: 30 * SECOND, elapsedMs: 1 });
    else {
      story.answer("create-pod", { kind: "secret-lost" });
      story.remove();
    }
    expect(story.at).toBe(`provisioning/${where}`);
    story.event({ kind: "stop", verdict: STOP, inFlight: false });
    expect(story.task?.dueAt).toBe(story.now);
    if (where === "sleep") story.answer("sleep", { sleptMs: 0 });
    else story.observe({ pull: known(PULL) });
    story.remove();
    expect(story.verdict).toEqual(STOP);
    expect(story.performed.filter((kind) => kind === "mint").length).toBe(1);
  });

  test("while a rejected pod is removed: no next attempt", () => {
    const story = buy(planned().reachCreate());
    story.observe(EXITED("pod-1"));
    story.event({ kind: "stop", verdict: STOP, inFlight: true });
    story.remove();
    expect(story.verdict).toEqual(STOP);
  });

  test("counts once: a second word changes nothing", () => {
    const story = planned();
    story.event({ kind: "stop", verdict: STOP, inFlight: true });
    expect(story.event({ kind: "stop", verdict: STOP, inFlight: true }).ignored).toBe("already told to stop");
  });
});

describe("what comes late", () => {
  test("an outcome of a task that was replaced changes nothing", () => {
    const story = buy(planned().reachCreate());
    const before = story.request.task?.id ?? 0;
    story.observe(up());
    const late = story.event({ kind: "done", taskId: before, done: { task: "observe", outcome: EXITED("pod-1") } });
    expect(late.ignored).toBe("outcome of an abandoned task");
  });

  test("an exit of an earlier attempt does not touch the present one", () => {
    const story = buy(planned().reachCreate());
    story.observe(EXITED("pod-1"));
    buy(story.remove().reachCreate());
    expect(story.event({ kind: "exit", attemptId: "r1-1", code: 1 }).ignored).toBe("not the current attempt");
    expect(story.state("provisioning").attempt?.exit).toBeNull();
  });

  test("N26: a new attempt has fresh deadlines, whatever the old one used up", () => {
    const story = buy(planned().reachCreate());
    story.lookUntil(T0 + 420 * SECOND, up());
    story.observe(up());
    buy(story.remove().reachCreate());
    const since = story.now;
    story.lookUntil(since + 400 * SECOND, up("pod-2"));
    expect(story.at).toBe("provisioning/start");
  });

  test("a reservation, a name and a label are new for every attempt", () => {
    const first = planned().reachCreate();
    const one = first.state("provisioning").attempt;
    first.answer("create-pod", { kind: "secret-lost" });
    first.remove();
    first.answer("observe", { pull: known(PULL) });
    const two = first.state("provisioning").attempt;
    expect(two?.id).toBe("r1-2");
    expect(two?.podName).not.toBe(one?.podName);
    expect(two).toMatchObject({
      ...attemptAt("new"),
      id: "r1-2",
      number: 2,
      podName: two?.podName,
      reservedMicros: one?.reservedMicros,
    });
  });
});
