/** Stories of an outage at GitHub, and of a removal under way. */
import { describe, expect, test } from "vitest";
import type { GateRequest, StateOf } from "../../shared/lifecycle/model.ts";
import type { JobFacts, Outcomes } from "../../shared/lifecycle/tasks.ts";

import { outcomes } from "./events.ts";
import {
  CANDIDATES,
  execute,
  job,
  known,
  LIMITS,
  MINUTE,
  PLAN,
  pod,
  PULL,
  QUEUED_JOB,
  requestIn,
  SECOND,
  SETTING_UP,
  states,
  STOP,
  T0,
  teardownAt,
  TERMS,
  TESTING,
  UNREAD,
} from "./fixtures.ts";
import { Story } from "./story.ts";

function running(change: Partial<StateOf<"executing">> = {}, request: Partial<GateRequest> = {}): Story {
  const story = new Story(requestIn(states.executing(change), request));
  story.task = { task: { kind: "observe", want: {} }, dueAt: T0 };
  return story;
}

function seen(theJob: JobFacts | null, change: Partial<ReturnType<typeof pod>> = {}): Outcomes["observe"] {
  return { pull: known(PULL), job: known(execute(theJob)), pod: known({ pod: pod(change), getGone: false }) };
}
const SILENT_IDLE: Outcomes["observe"] = { job: UNREAD, pod: known({ pod: pod({ idle: true }), getGone: false }) };
/** After the proof the job is read, again and again, until its word is enough. */
function judgeBy(story: Story, facts: ReturnType<typeof execute>): void {
  for (let looks = 0; story.at === "cleaning/judge" && looks < 5; looks += 1) story.observe({ job: known(facts) });
}

describe("while GitHub does not answer", () => {
  test("a pod idle for 300 s of the outage is given up", () => {
    const story = running();
    story.lookUntil(T0 + 300 * SECOND, SILENT_IDLE);
    expect(story.kind).toBe("executing");
    story.observe(SILENT_IDLE);
    expect(story.now).toBe(T0 + 300 * SECOND);
    expect(story.state("cleaning")).toMatchObject({ verdict: { reason: "github-outage" }, lockReleased: false });
  });

  test("one failed read is no outage, however long the pod has idled while it set itself up", () => {
    const story = running();
    story.lookUntil(T0 + 600 * SECOND, seen(SETTING_UP, { idle: true }));
    story.observe(SILENT_IDLE);
    story.observe(seen(SETTING_UP, { idle: true }));
    expect(story.kind).toBe("executing");
  });

  test("I11: metrics that are not there are not idle, and one busy look starts the time again", () => {
    for (const idle of [null, false]) {
      const story = running();
      story.lookUntil(T0 + 290 * SECOND, SILENT_IDLE);
      story.observe({ ...SILENT_IDLE, pod: known({ pod: pod({ idle }), getGone: false }) });
      story.lookUntil(T0 + 500 * SECOND, SILENT_IDLE);
      expect(story.kind).toBe("executing");
    }
  });

  test("a pod whose runner exited is given up at once", () => {
    const story = running();
    story.event({ kind: "exit", attemptId: "r1-1", code: 0 });
    story.observe({ ...SILENT_IDLE, pod: UNREAD });
    expect(story.state("cleaning").verdict).toMatchObject({ reason: "github-outage" });
  });

  function givenUp(change: Partial<GateRequest> = {}): Story {
    const story = running({}, change);
    story.event({ kind: "exit", attemptId: "r1-1", code: 0 });
    story.observe({ job: UNREAD });
    story.remove("observe");
    return story;
  }

  test("N08: the deletion needs RunPod alone; the lock is kept until GitHub answers", () => {
    const story = givenUp();
    expect(story.at).toBe("cleaning/judge");
    expect(story.ledger.map((op) => op.kind)).toEqual(["close"]);
    for (let looks = 0; looks < 5; looks += 1) story.observe({ job: UNREAD });
    expect(story.locks).toEqual([]);
  });

  test("when GitHub answers, a job that completed with full evidence counts", () => {
    const story = givenUp();
    story.observe({ job: UNREAD });
    story.observe({ job: known(execute(job())) });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "passed" });
  });

  test("otherwise one new attempt; a second time is the outage's fault", () => {
    const story = givenUp();
    story.observe({ job: known("gone") });
    story.remove();
    expect(story.at).toBe("provisioning/pause");
    expect(story.request.counts.outageRetries).toBe(1);

    const again = givenUp({ counts: { ...story.request.counts } });
    again.observe({ job: known("gone") });
    again.remove();
    expect(again.verdict).toMatchObject({ kind: "infrastructure", reason: "github-outage" });
  });

  test("a GitHub that stays silent for half an hour after the proof ends it", () => {
    const story = givenUp();
    const since = story.now;
    for (let looks = 0; story.at === "cleaning/judge" && looks < 200; looks += 1) story.observe({ job: UNREAD });
    expect(story.now - since).toBeGreaterThanOrEqual(LIMITS.authorizeRetryFor);
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "github-outage" });
    expect(story.locks).toEqual(["release"]);
  });

  test("a word to stop during that wait ends it without another attempt", () => {
    for (const seenLater of [UNREAD, known("gone" as const), known(execute(TESTING))]) {
      const story = givenUp();
      expect(story.event({ kind: "stop", verdict: STOP, inFlight: false }).ignored).toBeNull();
      for (let looks = 0; story.at === "cleaning/judge" && looks < 5; looks += 1) story.observe({ job: seenLater });
      // Nothing follows under this lock: others need not wait for the cancel.
      expect(story.locks).toEqual(["release"]);
      story.remove();
      expect(story.verdict).toEqual(STOP);
    }
  });

  test("a stop that comes while the pod is still being removed is kept for that moment", () => {
    const story = running();
    story.event({ kind: "exit", attemptId: "r1-1", code: 0 });
    story.observe({ job: UNREAD });
    story.event({ kind: "stop", verdict: STOP, inFlight: true });
    story.remove("observe");
    story.observe({ job: known("gone") });
    story.remove();
    expect(story.verdict).toEqual(STOP);
  });
});

describe("removal under way", () => {
  test("after ten minutes without proof it is loud; the removal goes on, the lock stays", () => {
    const story = new Story(requestIn(states.cleaning("delete")));
    story.task = { task: { kind: "delete-pod", podId: "pod-1" }, dueAt: T0 };
    while (story.now - T0 < 10 * MINUTE) story.answer("delete-pod", outcomes["delete-pod"].unknown);
    expect(story.state("cleaning").teardown.loud).toBe(true);
    expect(story.locks).toEqual([]);
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "superseded" });
    expect(story.locks).toEqual(["release"]);
  });

  test("the ledger closes once, with the price the record showed and the time to the DELETE's answer", () => {
    const story = new Story(requestIn(states.cleaning("record")));
    story.task = { task: { kind: "read-record", podId: "pod-1" }, dueAt: T0 };
    story.answer("read-record", { pricePerHour: 0.36 });
    story.now += 100 * SECOND;
    story.remove();
    expect(story.ledger).toMatchObject([
      { kind: "close", podId: "pod-1", pricePerHour: 0.36, estimateMicros: 10_000, outcome: "head-moved" },
    ]);
    expect(story.request).toMatchObject({ spentMicros: 10_000, paidMs: 100 * SECOND });
  });

  test("the money is settled with what was paid, and the request's end waits for it", () => {
    const story = new Story(
      requestIn(
        states.cleaning("settle", {
          teardown: teardownAt("settle", { deletedAt: T0 + 100 * SECOND, recordPrice: 0.36 }),
        }),
      ),
    );
    story.task = { task: { kind: "settle", attemptId: "r1-1", micros: 10_000 }, dueAt: T0 };
    story.answer("settle", outcomes.settle.unknown);
    expect(story.task?.task).toMatchObject({ kind: "settle", micros: 10_000 });
    story.answer("settle", outcomes.settle.settled);
    expect(story.kind).toBe("concluded");
  });

  test("hints, exits and a second stop change nothing", () => {
    const story = new Story(requestIn(states.cleaning("delete")));
    expect(story.event({ kind: "hint" }).ignored).toBe("deletion keeps its own pace");
    expect(story.event({ kind: "exit", attemptId: "r1-1", code: 0 }).ignored).toBe("no pod is watched");
    expect(story.event({ kind: "stop", verdict: STOP, inFlight: false }).ignored).toBe("already being removed");
  });

  test("a lock that is granted after the end goes nowhere", () => {
    const story = new Story(requestIn(states.concluded()));
    expect(story.event({ kind: "lock-granted", fence: 9 }).ignored).toBe("does not wait for the lock");
  });

  test("one retry in a plan of one candidate stays there for an idle runner, and ends for a lost pod", () => {
    const one = { plan: { ...PLAN, candidates: CANDIDATES.slice(0, 1) } };
    const idle = running(one);
    idle.now = T0 + 130 * SECOND;
    idle.observe(seen(QUEUED_JOB));
    idle.remove("observe");
    judgeBy(idle, execute(QUEUED_JOB));
    idle.remove();
    expect(idle.at).toBe("provisioning/pause");

    const lost = running(one, { terms: TERMS });
    lost.observe({ ...seen(TESTING), pod: known({ pod: pod({ status: "ERROR" }), getGone: false }) });
    lost.remove("observe");
    lost.observe({ job: known("gone") });
    lost.remove();
    expect(lost.verdict).toMatchObject({ kind: "infrastructure", reason: "pod-lost" });
  });
});
