/** Judgements over what was read: the job's evidence, the assigned GPU, the pod's life, the pull request. */
import { describe, expect, test } from "vitest";
import {
  bootedBy,
  countPullLooks,
  judgeAssignment,
  judgeJob,
  judgeProof,
  obsolete,
  podDead,
  rememberPod,
} from "../../shared/lifecycle/judge.ts";
import type { Attempt, GateRequest, Terms } from "../../shared/lifecycle/model.ts";
import type { JobFacts, PodFacts } from "../../shared/lifecycle/tasks.ts";
import { conclusionOf } from "../../shared/lifecycle/verdict.ts";
import {
  ADMISSION,
  attemptAt,
  job,
  known,
  OTHER_HEAD,
  pod,
  PROOF,
  PULL,
  requestIn,
  states,
  T0,
  TERMS,
  TEST_STEP,
  UNREAD,
} from "./fixtures.ts";

const ONLINE = attemptAt("online");

function judged(change: Partial<JobFacts>, attempt: Attempt = ONLINE, terms: Terms = TERMS) {
  return judgeJob(job(change), attempt, terms, ADMISSION);
}
const steps = (conclusion: string | null, status = "completed") => ({
  steps: [{ name: TEST_STEP, status, conclusion }],
});
const evidence = (change: Partial<Terms["evidence"]>): Terms => ({
  ...TERMS,
  evidence: { ...TERMS.evidence, ...change },
});

describe("I4: green needs every piece of evidence", () => {
  test("with all of it the tests passed", () => {
    expect(judged({})).toMatchObject({ kind: "passed", reason: "tests-passed", detail: "12 GPU tests passed." });
  });

  test.each<[string, Partial<JobFacts>, Attempt?, Terms?]>([
    ["no proof of the pod's GPU", {}, attemptAt("online", { proof: null })],
    ["no runner of ours", {}, attemptAt("online", { runner: null })],
    ["a job on no runner", { runnerId: null }],
    ["no declared test step in the job", { steps: [{ name: "Checkout", status: "completed", conclusion: "success" }] }],
    ["a test step that was skipped", steps("skipped")],
    ["a test step without a conclusion", steps(null)],
    ["a test step that still runs", steps(null, "in_progress")],
    ["a test step that was cancelled", steps("cancelled")],
    ["one of two declared steps missing", {}, ONLINE, evidence({ testSteps: [TEST_STEP, "Run more tests"] })],
    ["no number of tests", { evidence: null }],
    ["fewer tests than the minimum", { evidence: { tests: 4, seconds: 1 } }, ONLINE, evidence({ minTests: 5 })],
    ["no start time", { startedAt: null }],
    ["no end time", { completedAt: null }],
    ["a job shorter than the floor", { completedAt: T0 + TERMS.evidence.minDuration - 1 }],
    ["a conclusion of failure", { conclusion: "failure" }],
    ["a conclusion of skipped", { conclusion: "skipped" }],
    ["a conclusion of neutral", { conclusion: "neutral" }],
    ["no conclusion", { conclusion: null }],
    ["a conclusion nobody has met", { conclusion: "brilliant" }],
  ])("%s is infrastructure, and no success", (_, change, attempt = ONLINE, terms = TERMS) => {
    const verdict = judged(change, attempt, terms);
    expect(verdict).toMatchObject({ kind: "infrastructure", reason: "no-evidence" });
    expect(conclusionOf[verdict.kind]).not.toBe("success");
  });

  test("exactly the minimum of tests and time is enough", () => {
    const change = { evidence: { tests: 1, seconds: null }, completedAt: T0 + TERMS.evidence.minDuration };
    expect(judged(change).kind).toBe("passed");
  });

  test("a job that another runner ran says nothing, neither green nor red", () => {
    for (const change of [{}, { conclusion: "failure", ...steps("failure") }, { conclusion: "cancelled" }]) {
      expect(judged({ ...change, runnerId: "99" })).toMatchObject({ kind: "infrastructure", reason: "strangers-job" });
    }
  });
});

describe("red", () => {
  test.each(["failure", "timed_out"])(
    "a declared test step that ended as %s failed the tests, and is named",
    (word) => {
      const verdict = judged({ conclusion: "failure", ...steps(word) });
      expect(verdict).toMatchObject({ kind: "failed", reason: "tests-failed" });
      expect(verdict.detail).toContain(TEST_STEP);
    },
  );

  test("a failed test step is a failure even in a job that calls itself a success", () => {
    expect(judged(steps("failure"))).toMatchObject({ kind: "failed" });
  });

  test("another step that failed before the tests is no statement about the tests", () => {
    const before = { name: "Checkout", status: "completed", conclusion: "failure" };
    expect(judged({ conclusion: "failure", steps: [before] })).toMatchObject({ kind: "infrastructure" });
  });

  test("a job cancelled on GitHub is cancelled", () => {
    expect(judged({ conclusion: "cancelled", ...steps("cancelled") })).toMatchObject({
      kind: "cancelled",
      reason: "cancelled-by-user",
    });
  });
});

describe("the assigned GPU (N84)", () => {
  const bought = attemptAt("bought");

  test.each<[string, Partial<PodFacts>, RegExp]>([
    ["a foreign GPU", { gpuId: "GPU X" }, /GPU X/],
    ["no GPU id at the create", { gpuId: null }, /did not say/],
    ["an empty GPU id", { gpuId: "" }, /did not say/],
    ["two GPUs", { gpuCount: 2 }, /2 GPUs/],
    ["the community cloud", { cloud: "COMMUNITY" }, /COMMUNITY/],
    ["a price above the ceiling", { pricePerHour: 1.61 }, /1\.61/],
  ])("%s is turned down", (_, change, words) => {
    expect(judgeAssignment(pod(change), attemptAt("asked"), 1.6)).toMatch(words);
  });

  test("the one that was asked for is taken, and what RunPod does not tell counts for it", () => {
    expect(judgeAssignment(pod({ gpuCount: null, cloud: null, pricePerHour: null }), bought, 1.6)).toBeNull();
  });

  test("a later answer without the GPU id takes nothing back", () => {
    expect(judgeAssignment(pod({ gpuId: null }), bought, 1.6)).toBeNull();
  });

  test("I9: no pod may cost more than its money was reserved at, whatever its tier lets it cost", () => {
    const attempt = attemptAt("asked");
    const dear = { ...attempt, candidate: attempt.candidate === null ? null : { ...attempt.candidate, maxPrice: 1 } };
    expect(judgeAssignment(pod({ pricePerHour: 0.41 }), dear, 0.405_479)).toBe(
      "RunPod asks USD 0.41 per hour, above the limit of USD 0.4055.",
    );
    expect(judgeAssignment(pod({ pricePerHour: 0.4 }), dear, 0.405_479)).toBeNull();
    expect(judgeAssignment(pod({ pricePerHour: 1.01 }), dear, 1.6)).toContain("above the limit of USD 1.");
  });

  test("the machine's own word decides: name, count and pod must be those that were bought", () => {
    expect(judgeProof(PROOF, bought)).toBeNull();
    expect(judgeProof({ ...PROOF, gpuName: "GPU B" }, bought)).toContain("GPU B");
    expect(judgeProof({ ...PROOF, count: 2 }, bought)).toContain("2 GPUs");
    expect(judgeProof({ ...PROOF, podId: "pod-9" }, bought)).toContain("another pod");
  });
});

describe("the pod's life", () => {
  const seenRunning = rememberPod(attemptAt("bought"), pod(), T0);

  test.each(["EXITED", "ERROR", "TERMINATED", "TERMINATING", "DEAD", "STOPPED"] as const)("%s is dead", (status) => {
    expect(podDead(pod({ status }), seenRunning)).not.toBeNull();
  });

  test("a container that was seen and is gone is dead, although the status stays RUNNING", () => {
    expect(podDead(pod({ runtimeUp: false }), seenRunning)).toBe("The container stopped.");
  });

  test("I11: a container never seen is not dead, nor one that this answer says nothing about", () => {
    expect(podDead(pod({ runtimeUp: false }), attemptAt("bought"))).toBeNull();
    expect(podDead(pod({ runtimeUp: null }), seenRunning)).toBeNull();
  });

  test("only a container that was shown counts as seen", () => {
    for (const runtimeUp of [false, null]) {
      expect(rememberPod(attemptAt("bought"), pod({ runtimeUp }), T0).pod?.runtimeSeen).toBe(false);
    }
  });

  test("the first looks that show a machine and a container are remembered; the script's own word can only be earlier", () => {
    const none = rememberPod(attemptAt("bought"), pod({ machineAssigned: false, runtimeUp: null }), T0);
    expect(none.boot).toEqual({ machineAt: null, containerAt: null });
    const placed = rememberPod(none, pod({ runtimeUp: null }), T0 + 10_000);
    const seen = rememberPod(placed, pod(), T0 + 40_000);
    const later = rememberPod(seen, pod(), T0 + 55_000);
    expect(later.boot).toEqual({ machineAt: T0 + 10_000, containerAt: T0 + 40_000 });
    expect(bootedBy(later, 25_000, T0 + 60_000).containerAt).toBe(T0 + 35_000);
    // Begun again since: the image was there before.
    expect(bootedBy(later, 5_000, T0 + 60_000).containerAt).toBe(T0 + 40_000);
    expect(bootedBy(placed, null, T0 + 60_000).containerAt).toBe(T0 + 60_000);
  });

  test("N22: a start time that moves is a restart; the same instant without its fraction is not", () => {
    expect(podDead(pod({ startedAt: T0 + 5_000 }), seenRunning)).toBe("RunPod restarted the container.");
    expect(podDead(pod({ startedAt: T0 + 400 }), seenRunning)).toBeNull();
    expect(podDead(pod({ startedAt: null }), seenRunning)).toBeNull();
  });

  test("the first start time and the last price above zero are remembered", () => {
    const later = rememberPod(
      seenRunning,
      pod({ startedAt: T0 + 9_000, pricePerHour: 0, gpuId: null, runtimeUp: null }),
      T0,
    );
    expect(later.pod).toMatchObject({ startedAt: T0, pricePerHour: 0.2, gpuId: "GPU A", runtimeSeen: true });
  });
});

describe("the pull request", () => {
  const request = requestIn(states.executing());
  const looked = (before: GateRequest, seen: Parameters<typeof obsolete>[1]) => {
    const counted = countPullLooks(before, seen);
    return { counted, verdict: obsolete(counted, seen) };
  };

  test("closed, a moved head and another base are told apart; a draft does not matter", () => {
    expect(obsolete(request, known({ ...PULL, open: false }))).toMatchObject({ kind: "closed" });
    expect(obsolete(request, known({ ...PULL, headSha: OTHER_HEAD }))).toMatchObject({ reason: "head-moved" });
    expect(obsolete(request, known({ ...PULL, baseRef: "next" }))).toMatchObject({ reason: "base-moved" });
    expect(obsolete(request, known({ ...PULL, draft: true }))).toBeNull();
  });

  test("before it was admitted it was admitted for no base", () => {
    expect(obsolete({ ...request, admission: null }, known({ ...PULL, baseRef: "next" }))).toBeNull();
  });

  test("closed wins over moved", () => {
    expect(obsolete(request, known({ ...PULL, open: false, headSha: OTHER_HEAD }))).toMatchObject({ kind: "closed" });
  });

  test("I11: what could not be read is not obsolete", () => {
    expect(obsolete(request, UNREAD)).toBeNull();
    expect(obsolete(request, undefined)).toBeNull();
  });

  test("one 404 ends nothing, the second in a row does", () => {
    const first = looked(request, known("gone"));
    expect(first.verdict).toBeNull();
    expect(looked(first.counted, known("gone")).verdict).toMatchObject({ kind: "closed" });
  });

  test("a look that shows it in between starts the count again; an unreadable one does not", () => {
    const first = looked(request, known("gone")).counted;
    expect(looked(looked(first, known(PULL)).counted, known("gone")).verdict).toBeNull();
    expect(looked(looked(first, UNREAD).counted, known("gone")).verdict).toMatchObject({ kind: "closed" });
  });
});
