/** Stories of an accepted pod: what is watched, what ends it, what is judged after the proof, and who may try again. */
import { describe, expect, test } from "vitest";
import type { GateRequest, StateOf } from "../../shared/lifecycle/model.ts";
import type { JobFacts, Outcomes } from "../../shared/lifecycle/tasks.ts";
import { nextDeadline } from "../../shared/lifecycle/states/executing.ts";
import { outcomes } from "./events.ts";
import {
  attemptAt,
  CANDIDATES,
  execute,
  job,
  known,
  LIMITS,
  MINUTE,
  OTHER_HEAD,
  pod,
  PULL,
  QUEUED_JOB,
  requestIn,
  SECOND,
  SETTING_UP,
  states,
  STOP,
  T0,
  TEST_STEP,
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
/** After the proof the job is read, again and again, until its word is enough. */
function judgeBy(story: Story, facts: ReturnType<typeof execute>): void {
  for (let looks = 0; story.at === "cleaning/judge" && looks < 5; looks += 1) story.observe({ job: known(facts) });
}

const FAILED = job({ conclusion: "failure", steps: [{ name: TEST_STEP, status: "completed", conclusion: "failure" }] });

describe("a job that succeeded and whose check GitHub says is gone", () => {
  const GONE = job({ evidence: null, checkGone: true });
  const poll = LIMITS.testPoll;

  test("ends without evidence at the second such answer a poll later, long before the lifetime", () => {
    const story = running({ testsStarted: true });
    story.observe(seen(GONE));
    expect(story.at).toBe("executing");
    expect(story.task?.dueAt).toBe(story.now + poll);
    story.observe(seen(GONE));
    expect(story.kind).toBe("cleaning");
    story.remove("read-run");
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "no-evidence" });
    expect(story.verdict.detail).toContain("no longer has the job's check");
  });

  test("is not believed twice in one moment: a webhook brought the second look forward", () => {
    const story = running({ testsStarted: true });
    story.observe(seen(GONE));
    story.event({ kind: "hint" });
    story.observe(seen(GONE));
    expect(story.at).toBe("executing");
  });

  test("is never ended by an unknown answer, however long", () => {
    const story = running({ testsStarted: true });
    story.observe(seen(GONE));
    for (let looks = 0; looks < 5; looks += 1) {
      story.observe({ ...seen(GONE), job: UNREAD });
      expect(story.at).toBe("executing");
    }
  });

  test("passes when the check is there after all", () => {
    const story = running({ testsStarted: true });
    story.observe(seen(GONE));
    story.observe(seen(job()));
    expect(story.state("cleaning").verdict).toMatchObject({ kind: "passed" });
  });

  test("failed tests are failed tests, whatever became of the check", () => {
    const story = running({ testsStarted: true });
    story.observe(seen({ ...FAILED, checkGone: true }));
    expect(story.state("cleaning").verdict).toMatchObject({ kind: "failed", reason: "tests-failed" });
  });

  test("after the pod was given up it is read again before it is judged", () => {
    const story = running({ testsStarted: true });
    story.event({ kind: "exit", attemptId: "r1-1", code: 0 });
    story.observe(seen(TESTING));
    story.remove("observe");
    story.observe({ job: known(execute(GONE)) });
    expect(story.at).toBe("cleaning/judge");
    story.observe({ job: known(execute(job())) });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "passed" });
  });
});

describe("a look that GitHub refused for its rate limit", () => {
  const limited = (retryAt: number) => ({ known: false, why: "too many calls", retryAt }) as const;

  test("is made again when GitHub takes calls again, if that is before the next one", () => {
    const story = running({ testsStarted: true });
    story.observe({ ...seen(TESTING), job: limited(T0 + 2_300) });
    expect(story.task?.dueAt).toBe(T0 + 2_300);
  });

  test("is not put off by a longer limit: RunPod is asked at the usual times", () => {
    const story = running({ testsStarted: true });
    story.observe({ ...seen(TESTING), job: limited(T0 + MINUTE), pull: limited(T0 - MINUTE) });
    expect(story.task?.dueAt).toBe(T0 + LIMITS.testPoll);
  });
});

describe("a job that ends", () => {
  test("passed: the pod is removed, the run read to its end, the lock passed on at the proof", () => {
    const story = running();
    story.observe(seen(job()));
    expect(story.state("cleaning")).toMatchObject({ jobEnded: true, verdict: { kind: "passed" } });
    story.remove("read-run");
    expect(story.locks).toEqual(["release"]);
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "passed", reason: "tests-passed" });
    expect(story.performed).not.toContain("cancel-run");
    expect(story.request).toMatchObject({ tests: { count: 12, seconds: 200 }, runUrl: "https://github.test/job/501" });
  });

  test("failed: the failing tests are named, and nothing is tried again", () => {
    const story = running();
    story.observe(seen({ ...FAILED, failures: ["suite::a_test"] }));
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "failed", reason: "tests-failed" });
    expect(story.request.failedSteps).toEqual(["suite::a_test"]);
    expect(story.request.counts.pods).toBe(1);
  });

  test("N12: every conclusion there is, and one nobody has met, removes the pod", () => {
    const words = [
      "success",
      "failure",
      "cancelled",
      "timed_out",
      "skipped",
      "neutral",
      "stale",
      "action_required",
      "startup_failure",
      "odd",
    ];
    for (const conclusion of words) {
      const story = running();
      story.observe(seen(job({ conclusion })));
      expect({ conclusion, asks: story.asks }).toEqual({ conclusion, asks: "read-record" });
      story.remove();
      expect(story.ledger.map((op) => op.kind)).toEqual(["close"]);
    }
  });

  test("before its tests began: infrastructure, no retry, and a run that goes on is cancelled after the proof", () => {
    const story = running();
    story.observe(seen(job({ conclusion: "failure", steps: [] })));
    story.remove("cancel-run");
    expect(story.asks).toBe("cancel-run");
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "no-evidence" });
  });

  test("after its tests began: the run is read to its end, whatever the job's conclusion", () => {
    for (const conclusion of ["success", "failure", "cancelled"]) {
      const story = running();
      story.observe(seen(job({ conclusion })));
      story.remove();
      expect(story.performed).not.toContain("cancel-run");
    }
  });

  test("a run that ended without its job: cancelled by a user, or no evidence", () => {
    for (const [runConclusion, kind] of [
      ["cancelled", "cancelled"],
      ["failure", "infrastructure"],
    ] as const) {
      const story = running();
      story.observe({ job: known(execute(null, { runStatus: "completed", runConclusion })) });
      expect(story.state("cleaning").verdict.kind).toBe(kind);
    }
  });

  test("a run that GitHub does not know twice in a row is gone", () => {
    const story = running();
    story.observe({ ...seen(null), job: known("gone") });
    story.observe({ ...seen(null), job: UNREAD });
    story.observe({ ...seen(null), job: known("gone") });
    expect(story.state("cleaning").verdict).toMatchObject({ kind: "infrastructure", reason: "workflow-unavailable" });
  });
});

describe("a pull request that is no longer wanted", () => {
  test.each([
    ["closed", { ...PULL, open: false }, "closed"],
    ["moved", { ...PULL, headSha: OTHER_HEAD }, "superseded"],
  ] as const)("%s in mid-run: DELETE, proof, then cancel", (_, pull, kind) => {
    const story = running();
    story.observe({ ...seen(TESTING), pull: known(pull) });
    story.remove();
    expect(story.verdict.kind).toBe(kind);
    const cancel = story.performed.indexOf("cancel-run");
    expect(story.performed.lastIndexOf("list-pods")).toBeLessThan(cancel);
    expect(story.performed.indexOf("delete-pod")).toBeLessThan(cancel);
  });

  test("closed in the same look as the job's end: closed counts, and the run is cancelled like any other", () => {
    const story = running();
    story.observe({ ...seen(job()), pull: known({ ...PULL, open: false }) });
    expect(story.state("cleaning")).toMatchObject({ jobEnded: false, verdict: { kind: "closed" } });
  });

  test("one 404 does not kill a busy pod", () => {
    const story = running();
    story.observe({ ...seen(TESTING), pull: known("gone") });
    expect(story.kind).toBe("executing");
    story.observe({ ...seen(TESTING), pull: known("gone") });
    expect(story.state("cleaning").verdict.kind).toBe("closed");
  });

  test("a word to stop is obeyed at the next look", () => {
    const story = running();
    story.event({ kind: "stop", verdict: STOP, inFlight: false });
    expect(story.task?.dueAt).toBe(story.now);
    story.observe(seen(TESTING));
    story.remove();
    expect(story.verdict).toEqual(STOP);
  });
});

describe("deadlines", () => {
  test("the tests must begin 900 s after the start: unknown answers extend nothing", () => {
    const story = running();
    story.lookUntil(T0 + 900 * SECOND, { pull: UNREAD, job: UNREAD, pod: UNREAD });
    expect(story.kind).toBe("executing");
    story.observe({ job: UNREAD });
    expect(story.now).toBe(T0 + 900 * SECOND);
    expect(story.state("cleaning").verdict).toMatchObject({ kind: "deadline", reason: "setup-deadline" });
  });

  test("once the test step was entered the setup limit is disarmed for good", () => {
    const story = running();
    story.observe(seen(TESTING));
    story.lookUntil(T0 + 3_600 * SECOND, seen(SETTING_UP));
    expect(story.kind).toBe("executing");
    story.observe(seen(SETTING_UP));
    expect(story.state("cleaning").verdict).toMatchObject({ kind: "deadline", reason: "lifetime" });
  });

  test("a skipped test step does not disarm it", () => {
    const story = running();
    const skipped = { ...SETTING_UP, steps: [{ name: TEST_STEP, status: "completed", conclusion: "skipped" }] };
    story.lookUntil(T0 + 900 * SECOND, seen(skipped));
    story.observe(seen(skipped));
    expect(story.state("cleaning").verdict.reason).toBe("setup-deadline");
  });

  test("they count from the first start time that was stored, else from our create", () => {
    const attempt = attemptAt("online", { createSentAt: T0 - MINUTE });
    const state = states.executing({ attempt });
    expect(nextDeadline(state, requestIn(state))).toBe(T0 - MINUTE + LIMITS.setup);
    const started = { ...attempt, pod: attempt.pod === null ? null : { ...attempt.pod, startedAt: T0 } };
    expect(nextDeadline(states.executing({ attempt: started }), requestIn(state))).toBe(T0 + LIMITS.setup);
  });

  test.each([
    ["an hour ahead", 3_600 * SECOND, T0 + 60 * SECOND],
    ["an hour behind", -3_600 * SECOND, T0],
  ])(
    "RunPod's clock %s neither stretches nor cuts them: no pod starts before our create or after its runner is online",
    (_what, skew, from) => {
      const attempt = attemptAt("online", { onlineAt: T0 + 60 * SECOND });
      const started = attempt.pod === null ? null : { ...attempt.pod, startedAt: T0 + 30 * SECOND + skew };
      const state = states.executing({ attempt: { ...attempt, pod: started } });
      expect(nextDeadline(state, requestIn(state))).toBe(from + LIMITS.setup);
      const testing = { ...state, testsStarted: true };
      expect(nextDeadline(testing, requestIn(testing))).toBe(from + LIMITS.lifetime);
    },
  );

  test("N34: the hard backstop counts from our create, whatever RunPod says of the start", () => {
    const attempt = attemptAt("online", { onlineAt: T0 + 5_000 * SECOND });
    const late = { ...attempt, pod: attempt.pod === null ? null : { ...attempt.pod, startedAt: T0 + 5_000 * SECOND } };
    const story = running({ attempt: late, testsStarted: true });
    story.lookUntil(T0 + 7_200 * SECOND, { ...seen(TESTING), pod: UNREAD });
    story.observe({ ...seen(TESTING), pod: UNREAD });
    expect(story.now).toBe(T0 + 7_200 * SECOND);
    expect(story.state("cleaning").verdict).toMatchObject({ kind: "deadline", reason: "backstop" });
  });

  test("looks come every 15 s, every 5 s while the tests run, and at the deadline itself", () => {
    const story = running();
    story.observe(seen(SETTING_UP));
    expect((story.task?.dueAt ?? 0) - story.now).toBe(15 * SECOND);
    story.observe(seen(TESTING));
    expect((story.task?.dueAt ?? 0) - story.now).toBe(5 * SECOND);
    story.now = T0 + 3_598 * SECOND;
    story.observe(seen(TESTING));
    expect((story.task?.dueAt ?? 0) - story.now).toBe(2 * SECOND);
  });
});

describe("a runner that gets no job (N73)", () => {
  const waits = seen(QUEUED_JOB);

  function idle(change: Partial<GateRequest> = {}): Story {
    const story = running({}, change);
    story.lookUntil(T0 + 120 * SECOND, waits);
    expect(story.kind).toBe("executing");
    story.observe(waits);
    return story;
  }

  test("is removed after 120 s, and one new attempt follows under the same lock at the same candidate", () => {
    const story = idle();
    story.remove("observe");
    expect(story.at).toBe("cleaning/judge");
    judgeBy(story, execute(QUEUED_JOB));
    story.remove();
    expect(story.locks).toEqual([]);
    story.reachCreate();
    expect(story.task?.task).toMatchObject({ candidate: { name: CANDIDATES[0]?.name }, timeoutMs: 60 * SECOND });
    expect(story.request.counts).toMatchObject({ idleRetries: 1, lostRetries: 0, attempts: 2 });
  });

  test("twice is the end", () => {
    const story = idle({ counts: { ...requestIn(states.executing()).counts, idleRetries: 1 } });
    story.remove("observe");
    judgeBy(story, execute(QUEUED_JOB));
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "idle-runner" });
  });

  test("a pod that was lost before does not use up the retry of an idle runner, nor the other way round", () => {
    const counts = { ...requestIn(states.executing()).counts, lostRetries: 1 };
    const story = idle({ counts });
    story.remove("observe");
    judgeBy(story, execute(QUEUED_JOB));
    story.remove();
    expect(story.at).toBe("provisioning/pause");
  });

  test.each<[string, Outcomes["observe"]]>([
    ["GitHub does not answer", { ...waits, job: UNREAD }],
    ["the run is not found once", { ...waits, job: known("gone") }],
    ["the job is on our runner", seen({ ...QUEUED_JOB, runnerId: "41" })],
    ["the job runs", seen(SETTING_UP)],
  ])("I11: is not idle when %s", (_, look) => {
    const story = running();
    story.now = T0 + 130 * SECOND;
    story.observe(look);
    expect(story.kind).toBe("executing");
  });
});

describe("a stranger's job (N80)", () => {
  const busy: Outcomes["observe"] = { ...seen(QUEUED_JOB), runner: known({ online: true, busy: true }) };

  test("our runner busy while our job is on none, twice in a row: the pod goes, a new attempt follows", () => {
    const story = running();
    story.observe(busy);
    expect(story.kind).toBe("executing");
    story.observe(busy);
    expect(story.state("cleaning").verdict).toMatchObject({ kind: "infrastructure", reason: "strangers-job" });
    expect(story.state("cleaning").resume).not.toBeNull();
  });

  test("once is only GitHub's two registries being read a moment apart", () => {
    const story = running();
    story.observe(busy);
    story.observe({ ...seen(SETTING_UP), runner: known({ online: true, busy: true }) });
    story.observe(busy);
    expect(story.kind).toBe("executing");
  });

  test("our job on somebody else's runner: its result is not ours, green or red", () => {
    for (const theJob of [job({ runnerId: "99" }), { ...FAILED, runnerId: "99" }]) {
      const story = running();
      story.observe(seen(theJob));
      story.remove("observe");
      story.observe({ job: known(execute(theJob)) });
      story.remove();
      expect(story.at).toBe("provisioning/pause");
    }
  });

  test("a second time is the end", () => {
    const story = running({}, { counts: { ...requestIn(states.executing()).counts, lostRetries: 1 } });
    story.observe(seen(job({ runnerId: "99" })));
    story.remove("observe");
    story.observe({ job: known(execute(job({ runnerId: "99" }))) });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "strangers-job" });
  });
});

describe("a pod that exits or is lost", () => {
  const GONE: Outcomes["observe"] = { ...seen(TESTING), pod: known({ pod: null, getGone: true }) };

  test("an exit that beats GitHub's news: the pod goes at once, then the job's word decides", () => {
    const story = running();
    story.observe(seen(TESTING));
    story.event({ kind: "exit", attemptId: "r1-1", code: 0 });
    expect(story.task?.dueAt).toBe(story.now);
    story.observe(seen(TESTING));
    expect(story.at).toBe("cleaning/record");
    story.remove("observe");
    expect(story.locks).toEqual([]);
    story.observe({ job: known(execute(TESTING)) });
    story.observe({ job: known(execute(job())) });
    expect(story.state("cleaning")).toMatchObject({ jobEnded: true, resume: null, verdict: { kind: "passed" } });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "passed" });
    expect(story.locks).toEqual(["release"]);
    expect(story.request.tests?.count).toBe(12);
  });

  test("tests that failed are never run again, also when the exit came first", () => {
    const story = running();
    story.event({ kind: "exit", attemptId: "r1-1", code: 1 });
    story.observe(seen(TESTING));
    story.remove("observe");
    story.observe({ job: known(execute(FAILED)) });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "failed" });
  });

  test("a job that succeeded without evidence is not bought again because its exit came first", () => {
    const story = running();
    story.event({ kind: "exit", attemptId: "r1-1", code: 0 });
    story.observe(seen(TESTING));
    story.remove("observe");
    story.observe({ job: known(execute(job({ evidence: null }))) });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "no-evidence" });
    expect(story.request.counts.pods).toBe(1);
  });

  test("nor when the pod was seen dead first: success without evidence is the job's own doing", () => {
    const story = running();
    story.observe({ ...seen(TESTING), pod: known({ pod: pod({ status: "EXITED" }), getGone: false }) });
    story.remove("observe");
    judgeBy(story, execute(job({ evidence: null })));
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "no-evidence" });
  });

  test("a lost host: one new attempt, at the following candidate; a second loss is the end", () => {
    const story = running();
    story.observe({ ...seen(TESTING), pod: known({ pod: pod({ status: "EXITED" }), getGone: false }) });
    story.remove("observe");
    story.observe({
      job: known(
        execute(
          job({ conclusion: "failure", steps: [{ name: TEST_STEP, status: "completed", conclusion: "cancelled" }] }),
        ),
      ),
    });
    story.remove();
    expect(story.at).toBe("provisioning/pause");
    story.reachCreate();
    expect(story.task?.task).toMatchObject({ candidate: { name: CANDIDATES[1]?.name } });
    expect(story.request.counts.lostRetries).toBe(1);

    const again = running({}, { counts: { ...story.request.counts } });
    again.observe({ ...seen(TESTING), pod: known({ pod: pod({ status: "EXITED" }), getGone: false }) });
    again.remove("observe");
    judgeBy(again, execute(TESTING));
    again.remove();
    expect(again.verdict).toMatchObject({ kind: "infrastructure", reason: "pod-lost" });
  });

  test("N06, N127: a newborn that RunPod does not show yet is not lost, however early its runner is at work", () => {
    const story = running();
    story.lookUntil(T0 + LIMITS.newbornGrace, GONE);
    expect(story.kind).toBe("executing");
    story.observe(seen(TESTING));
    story.observe(GONE);
    expect(story.kind).toBe("executing");
    story.observe(GONE);
    expect(story.state("cleaning").verdict).toMatchObject({ reason: "pod-lost" });
  });

  test("N30: a pod missing from one list and unknown to one GET is not lost yet", () => {
    const story = running({ attempt: attemptAt("online", { createSentAt: T0 - LIMITS.newbornGrace }) });
    story.observe(GONE);
    story.observe(seen(TESTING));
    story.observe(GONE);
    expect(story.kind).toBe("executing");
    story.observe(GONE);
    expect(story.state("cleaning").verdict).toMatchObject({ reason: "pod-lost" });
  });

  test("I11: RunPod silent for an hour kills nothing before its deadline", () => {
    const story = running({ testsStarted: true });
    story.lookUntil(T0 + 3_600 * SECOND, { ...seen(TESTING), pod: UNREAD });
    expect(story.kind).toBe("executing");
  });

  test("a forged exit costs the pod, and nothing else", () => {
    const story = running();
    expect(story.event({ kind: "exit", attemptId: "r1-9", code: 0 }).ignored).toBe("not the current attempt");
    story.event({ kind: "exit", attemptId: "r1-1", code: 0 });
    expect(story.event({ kind: "exit", attemptId: "r1-1", code: 0 }).ignored).toBe("the exit was told already");
  });

  test("N78: a job that completed removes the pod without waiting for its exit", () => {
    const story = running();
    story.observe(seen(job(), { status: "RUNNING" }));
    expect(story.kind).toBe("cleaning");
  });

  test("a deletion unproven for ten minutes is followed by no further attempt", () => {
    const story = running();
    story.observe({ ...seen(TESTING), pod: known({ pod: pod({ status: "EXITED" }), getGone: false }) });
    story.answer("read-record", { pricePerHour: null });
    const since = story.now;
    while (story.now - since < 11 * MINUTE) story.answer("delete-pod", outcomes["delete-pod"].unknown);
    story.remove("observe");
    judgeBy(story, execute(TESTING));
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "pod-lost" });
  });
});
