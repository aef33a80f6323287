/** Stories of one lock hold: from the plan to an accepted pod, or to the reason why there is none. */
import { describe, expect, test } from "vitest";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { CreateOutcome, Outcomes } from "../../shared/lifecycle/tasks.ts";
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
  PLAN,
  pod,
  PROOF,
  PULL,
  QUEUED_JOB,
  requestIn,
  SECOND,
  SETTING_UP,
  states,
  STOP,
  T0,
  TERMS,
  TEST_STEP,
  UNREAD,
} from "./fixtures.ts";
import { lockHold, Story } from "./story.ts";

const CAPACITY: CreateOutcome = { kind: "capacity", elapsedMs: SECOND };

function planned(change: Partial<GateRequest> = {}, plan = PLAN): Story {
  const story = lockHold(
    requestIn(states.revalidating("plan"), { counts: { ...requestIn(states.queued()).counts }, ...change }),
  );
  story.answer("plan", { kind: "planned", plan });
  return story;
}

/** The create at hand buys a pod, after two seconds. */
function buy(story: Story, change: Partial<ReturnType<typeof pod>> = {}): Story {
  const attempt = story.state("provisioning").attempt;
  const id = `pod-${attempt?.number ?? 0}`;
  const gpuId = attempt?.candidate?.acceptedIds[0] ?? null;
  const bought = pod({ id, gpuId, runtimeUp: null, startedAt: null, ...change });
  story.answer("create-pod", { kind: "created", pod: bought, sentAt: story.now, elapsedMs: 2 * SECOND }, 2 * SECOND);
  return story;
}

function prove(story: Story, change: Partial<typeof PROOF> = {}) {
  const attempt = story.state("provisioning").attempt;
  const gpuName = attempt?.candidate?.acceptedIds[0] ?? "";
  return story.event({
    kind: "proof",
    attemptId: attempt?.id ?? "",
    proof: { ...PROOF, podId: attempt?.pod?.id ?? "pod-1", gpuName, ...change },
  });
}

const up = (id = "pod-1", change: Partial<ReturnType<typeof pod>> = {}): Outcomes["observe"] => ({
  pull: known(PULL),
  pod: known({ pod: pod({ id, gpuId: `GPU ${"ABC"[Number(id.slice(4)) - 1] ?? "A"}`, ...change }), getGone: false }),
});
const online = (id = "pod-1"): Outcomes["observe"] => ({
  ...up(id),
  runner: known({ online: true, busy: false }),
  job: known(execute(QUEUED_JOB)),
});
const EXITED = (id: string): Outcomes["observe"] => up(id, { status: "EXITED", runtimeUp: null });

describe("a pod that is accepted", () => {
  test("needs its proof, its own runner online, and to be alive", () => {
    const story = buy(planned().reachCreate());
    story.observe(up());
    prove(story);
    story.observe(online());
    expect(story.state("executing").attempt).toMatchObject({ id: "r1-1", onlineAt: story.now, pod: { id: "pod-1" } });
    expect(story.ledger).toMatchObject([{ kind: "open", podId: "pod-1", attemptId: "r1-1" }]);
    expect(story.performed.filter((kind) => kind === "create-pod").length).toBe(1);
  });

  test("everything is there before money is asked for: reservation, runner, run, in this order", () => {
    const story = planned().reachCreate();
    expect(story.performed).toEqual(["plan", "reserve", "mint", "dispatch-execute"]);
    expect(story.state("provisioning").attempt).toMatchObject({
      runner: { id: "41" },
      run: { runId: "901" },
      pod: null,
    });
  });

  test("N68: a runner online without this attempt's proof is not accepted", () => {
    const story = buy(planned().reachCreate());
    story.observe({ ...up(), runner: known({ online: true, busy: false }) });
    expect(story.at).toBe("provisioning/start");
  });

  test("a runner online while the pod could not be read is not accepted", () => {
    const story = buy(planned().reachCreate());
    prove(story);
    story.observe({ ...online(), pod: UNREAD });
    expect(story.at).toBe("provisioning/start");
  });

  test("is looked at on the spot when its proof arrives, and GitHub is asked only from then on", () => {
    const story = buy(planned().reachCreate());
    expect(story.task?.task).toMatchObject({ kind: "observe", want: { pod: { id: "pod-1" } } });
    expect(JSON.stringify(story.task?.task)).not.toContain("runner");
    story.observe(up());
    prove(story);
    expect(story.task).toMatchObject({
      dueAt: story.now,
      task: { want: { runner: { id: "41" }, job: { run: { runId: "901" } } } },
    });
  });

  test("a second proof, a proof of another attempt and one that names another pod change nothing", () => {
    const story = buy(planned().reachCreate());
    expect(prove(story, { podId: "pod-9" }).ignored).toBe("the proof names another pod");
    expect(story.event({ kind: "proof", attemptId: "r1-9", proof: PROOF }).ignored).toBe("not the current attempt");
    expect(prove(story).ignored).toBeNull();
    expect(prove(story).ignored).toBe("the proof was given already");
  });

  test("our job already running on our runner is more than online, even when the registry is silent", () => {
    const story = buy(planned().reachCreate());
    prove(story);
    story.observe({ ...up(), runner: UNREAD, job: known(execute(SETTING_UP)) });
    expect(story.kind).toBe("executing");
  });

  test("a job that failed while nobody looked is heard before its dead pod is judged: tests are never run twice", () => {
    const story = buy(planned().reachCreate());
    prove(story);
    const failed = job({
      conclusion: "failure",
      steps: [{ name: TEST_STEP, status: "completed", conclusion: "failure" }],
    });
    story.event({ kind: "exit", attemptId: "r1-1", code: 0 });
    story.observe({ ...EXITED("pod-1"), runner: known("gone"), job: known(execute(failed)) });
    expect(story.kind).toBe("executing");
    story.observe({ ...EXITED("pod-1"), job: known(execute(failed)) });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "failed", reason: "tests-failed" });
    expect(story.request.counts.pods).toBe(1);
  });
});

describe("a pod that is rejected", () => {
  const rejections: readonly [string, string, (story: Story) => void][] = [
    ["a foreign GPU in the create's answer", "bad-host", (story) => void buy(story, { gpuId: "GPU X" })],
    ["a foreign GPU in a later look", "bad-host", (story) => void buy(story).observe(up("pod-1", { gpuId: "GPU X" }))],
    [
      "a proof of another GPU",
      "bad-host",
      (story) => {
        buy(story);
        prove(story, { gpuName: "GPU X" });
        story.observe(online());
      },
    ],
    [
      "an exit before the proof",
      "bad-host",
      (story) => {
        buy(story).event({ kind: "exit", attemptId: "r1-1", code: 3 });
        story.observe(up());
      },
    ],
    ["a dead pod", "startup", (story) => void buy(story).observe(EXITED("pod-1"))],
    [
      "an exit after the proof and before the runner was seen",
      "startup",
      (story) => {
        buy(story);
        prove(story);
        story.event({ kind: "exit", attemptId: "r1-1", code: 1 });
        story.observe(up());
      },
    ],
    [
      "another runner with our job",
      "strangers-job",
      (story) => {
        buy(story);
        prove(story);
        story.observe({
          ...up(),
          job: known(execute(job({ status: "in_progress", conclusion: null, runnerId: "99" }))),
        });
      },
    ],
  ];

  test.each(rejections)("%s: gone first, then the following candidate on a fresh clock", (_, reason, reject) => {
    const story = planned().reachCreate();
    reject(story);
    expect(story.at).toBe("provisioning/teardown/deregister-first");
    expect(story.state("provisioning").rejection).toMatchObject({ kind: "infrastructure", reason });
    story.remove();
    expect(story.ledger.map((op) => op.kind)).toEqual(["open", "close"]);
    story.reachCreate();
    expect(story.task?.task).toMatchObject({
      kind: "create-pod",
      candidate: { name: CANDIDATES[1]?.name },
      timeoutMs: 60_000,
    });
    expect(story.state("provisioning").attempt).toMatchObject({ id: "r1-2", proof: null, exit: null, pod: null });
  });

  test("N14: nothing is minted, dispatched or bought before the first pod is proven gone", () => {
    const story = buy(planned().reachCreate());
    story.observe(EXITED("pod-1"));
    story.answer("deregister", outcomes.deregister.gone);
    story.answer("read-record", { pricePerHour: null });
    for (let times = 0; times < 40; times += 1) story.answer("delete-pod", outcomes["delete-pod"].unknown);
    expect(story.performed.filter((kind) => kind === "mint" || kind === "create-pod")).toEqual(["mint", "create-pod"]);
    expect(story.asks).toBe("delete-pod");
  });

  test("a deletion unproven for ten minutes ends the request when it is proven at last: nothing more is bought", () => {
    const story = buy(planned().reachCreate());
    story.observe(EXITED("pod-1"));
    story.answer("deregister", outcomes.deregister.gone);
    story.answer("read-record", { pricePerHour: null });
    const since = story.now;
    while (story.now - since < 11 * MINUTE) story.answer("delete-pod", outcomes["delete-pod"].unknown);
    expect(story.state("provisioning").teardown).toMatchObject({ loud: true, provenAt: null });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "startup" });
    expect(story.locks).toEqual(["release"]);
  });

  test("two pods in a row that never registered end the request", () => {
    const story = buy(planned().reachCreate());
    story.observe(EXITED("pod-1"));
    buy(story.remove().reachCreate(), { gpuId: "GPU X" });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "startup" });
    expect(story.request.counts).toMatchObject({ pods: 2, startupFailures: 2 });
  });

  test("a refusal in between breaks the row; 0 switches the rule off", () => {
    const story = buy(planned().reachCreate());
    story.observe(EXITED("pod-1"));
    story.remove().reachCreate().answer("create-pod", CAPACITY);
    buy(story).observe(EXITED("pod-2"));
    story.remove();
    expect(story.verdict).toMatchObject({ reason: "attempts-exhausted" });

    const off = buy(planned({ terms: { ...TERMS, maxStartupFailures: 0 } }).reachCreate());
    off.observe(EXITED("pod-1"));
    buy(off.remove().reachCreate()).observe(EXITED("pod-2"));
    off.remove().reachCreate();
    expect(off.request.counts.pods).toBe(2);
    expect(off.asks).toBe("create-pod");
  });

  test("a pod that registered breaks the row too", () => {
    const story = new Story(
      requestIn(states.provisioning("start"), { counts: { ...requestIn(states.queued()).counts, startupFailures: 1 } }),
    );
    story.task = { task: { kind: "observe", want: {} }, dueAt: T0 };
    prove(story);
    story.observe(online());
    expect(story.request.counts.startupFailures).toBe(0);
  });

  test("N19: bought pods are bounded by max_attempts, and the verdict says why the last one was no good", () => {
    const story = buy(planned({ terms: { ...TERMS, maxAttempts: 1 } }).reachCreate(), { gpuId: "GPU X" });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "bad-host" });
    expect(story.verdict.detail).toContain("GPU X");
    expect(story.verdict.detail).toContain("1 pods were tried");
  });

  test("behind the last candidate it is not called lack of capacity", () => {
    const story = buy(planned({}, { ...PLAN, candidates: CANDIDATES.slice(0, 1) }).reachCreate());
    story.observe(EXITED("pod-1"));
    story.remove();
    expect(story.verdict).toMatchObject({ reason: "attempts-exhausted" });
    expect(story.request.tried).toEqual([
      { name: CANDIDATES[0]?.name, price: CANDIDATES[0]?.price, answer: expect.stringContaining("rejected") },
    ]);
  });
});

describe("deadlines of a starting pod, measured from our create", () => {
  function starting(): Story {
    return buy(planned().reachCreate());
  }

  test("no machine after 120 s, by a look that shows the pod without one", () => {
    const story = buy(planned().reachCreate(), { machineAssigned: false, dataCenterId: null });
    const bare = up("pod-1", { machineAssigned: false });
    story.lookUntil(T0 + 120 * SECOND, bare);
    expect(story.at).toBe("provisioning/start");
    story.observe(bare);
    expect(story.reasons).toContain("attempt-no-machine");
  });

  test("I11: looks that fail do not make a machine missing; only the 420 s judge them", () => {
    const story = buy(planned().reachCreate(), { machineAssigned: false });
    story.lookUntil(T0 + 420 * SECOND, { pull: UNREAD, pod: UNREAD });
    expect(story.at).toBe("provisioning/start");
    story.observe({ pod: UNREAD });
    expect(story.now).toBe(T0 + 420 * SECOND);
    expect(story.reasons).toContain("attempt-no-registration");
  });

  test("N22: a container that is restarted for ever does not move the deadline", () => {
    const story = starting();
    for (let start = 0; story.at === "provisioning/start" && start < 100; start += 1) {
      story.observe(up("pod-1", { runtimeUp: null, startedAt: null }));
    }
    expect(story.now).toBe(T0 + 420 * SECOND);
    expect(story.reasons).toContain("attempt-no-registration");
  });

  test("the last look is made at the deadline itself, and a runner online in it counts", () => {
    const story = starting();
    prove(story);
    story.lookUntil(T0 + 420 * SECOND, up());
    story.observe(online());
    expect(story.now).toBe(T0 + 420 * SECOND);
    expect(story.kind).toBe("executing");
  });

  test("N24: a runner first seen long after the deadline is not accepted", () => {
    const story = starting();
    prove(story);
    story.now = T0 + 10 * MINUTE;
    story.observe(online());
    expect(story.reasons).toContain("attempt-no-registration");
  });

  test("N06: a pod that GET does not know within 120 s of the create is not dead; after that it is", () => {
    const story = starting();
    const hidden: Outcomes["observe"] = { pod: known({ pod: null, getGone: true }) };
    story.lookUntil(T0 + 120 * SECOND, hidden);
    expect(story.at).toBe("provisioning/start");
    story.observe(hidden);
    expect(story.reasons).toContain("attempt-pod-died");
  });
});

describe("an unclear create (N02)", () => {
  function unclear(change: Partial<Extract<CreateOutcome, { kind: "ambiguous" }>> = {}): Story {
    const story = planned().reachCreate();
    story.answer(
      "create-pod",
      { kind: "ambiguous", why: "http-5xx", retryAfterMs: null, sentAt: T0, elapsedMs: 3 * SECOND, ...change },
      3 * SECOND,
    );
    return story;
  }
  const empty = (story: Story): Outcomes["look-up-pod"] => ({
    kind: "listed",
    startedAt: Math.max(story.now, story.task?.dueAt ?? 0),
    complete: true,
    pods: [],
  });
  function lookUpToTheEnd(story: Story): Story {
    for (let times = 0; story.asks === "look-up-pod" && times < 100; times += 1)
      story.answer("look-up-pod", empty(story));
    return story;
  }

  test("is adopted when it is found by name, paid from when we asked for it", () => {
    const story = unclear();
    story.answer("look-up-pod", { kind: "listed", startedAt: story.now, complete: false, pods: [pod()] });
    expect(story.at).toBe("provisioning/start");
    expect(story.ledger).toMatchObject([{ kind: "open", podId: "pod-1", paidFrom: T0 }]);
    expect(story.performed.filter((kind) => kind === "create-pod").length).toBe(1);
  });

  test("two pods under one name: one is kept, the other removed on its own", () => {
    const story = unclear();
    story.answer("look-up-pod", {
      kind: "listed",
      startedAt: story.now,
      complete: true,
      pods: [pod({ id: "pod-8" }), pod({ id: "pod-9" })],
    });
    expect(story.state("provisioning").attempt?.pod?.id).toBe("pod-8");
    expect(story.strays).toEqual(["pod-9"]);
  });

  test("the proof says which of two it is", () => {
    const story = unclear();
    prove(story, { podId: "pod-9" });
    expect(story.task?.task).toMatchObject({ kind: "look-up-pod", podId: "pod-9" });
    story.answer("look-up-pod", {
      kind: "listed",
      startedAt: story.now,
      complete: true,
      pods: [pod({ id: "pod-8" }), pod({ id: "pod-9" })],
    });
    expect(story.state("provisioning").attempt?.pod?.id).toBe("pod-9");
    expect(story.strays).toEqual(["pod-8"]);
  });

  test("none found: the attempt closes after 180 s, its runner deregistered first, and the same candidate is asked as the next attempt", () => {
    const story = lookUpToTheEnd(unclear());
    expect(story.now - T0).toBeGreaterThanOrEqual(183 * SECOND);
    expect(story.reasons).toContain("attempt-not-created");
    expect(story.at).toBe("provisioning/teardown/deregister-first");
    expect(story.performed).not.toContain("cancel-run");
    story.remove().reachCreate();
    expect(story.task?.task).toMatchObject({
      candidate: { name: CANDIDATES[0]?.name },
      podName: expect.stringContaining("r1-2"),
    });
    expect(story.request.counts).toMatchObject({ attempts: 2, pods: 0 });
  });

  test("the look-up stops the clock: the retry has what the request and the pause left of it", () => {
    const story = lookUpToTheEnd(unclear()).remove();
    expect(story.asks).toBe("observe");
    expect((story.task?.dueAt ?? 0) - story.now).toBe(5 * SECOND);
    story.reachCreate();
    expect(story.task?.task).toMatchObject({ timeoutMs: 52 * SECOND });
  });

  test("a second unclear answer at that candidate moves on, as a third attempt", () => {
    const story = lookUpToTheEnd(unclear()).remove().reachCreate();
    story.answer("create-pod", {
      kind: "ambiguous",
      why: "timeout",
      retryAfterMs: null,
      sentAt: story.now,
      elapsedMs: SECOND,
    });
    lookUpToTheEnd(story).remove().reachCreate();
    expect(story.task?.task).toMatchObject({
      candidate: { name: CANDIDATES[1]?.name },
      podName: expect.stringContaining("r1-3"),
    });
  });

  test("RunPod's Retry-After outlives the look-up: a long one ends the walk instead of being forgotten", () => {
    const story = lookUpToTheEnd(unclear({ retryAfterMs: 20 * MINUTE })).remove();
    story.observe({ pull: known(PULL) });
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "capacity" });
  });

  test("a Retry-After that has passed during the look-up costs no further pause", () => {
    const story = lookUpToTheEnd(unclear({ retryAfterMs: MINUTE })).remove();
    expect(story.task?.dueAt).toBe(story.now);
  });

  test("lists that failed, were cut short, or began before the wait was over prove nothing", () => {
    const story = unclear();
    story.answer("look-up-pod", empty(story));
    story.answer("look-up-pod", empty(story));
    while (story.now < T0 + 5 * MINUTE) story.answer("look-up-pod", outcomes["look-up-pod"].unknown);
    expect(story.asks).toBe("look-up-pod");
    story.answer("look-up-pod", { ...outcomes["look-up-pod"].listed, complete: false });
    expect(story.asks).toBe("look-up-pod");
    story.answer("look-up-pod", { ...outcomes["look-up-pod"].listed, startedAt: T0 + 10 * SECOND });
    expect(story.asks).toBe("look-up-pod");
    story.answer("look-up-pod", empty(story));
    expect(story.at).toBe("provisioning/teardown/deregister-first");
  });

  test("a word to stop waits for the look-up's end, then what was found is deleted", () => {
    const story = unclear();
    story.event({ kind: "stop", verdict: STOP, inFlight: true });
    story.answer("look-up-pod", empty(story));
    expect(story.asks).toBe("look-up-pod");
    story.answer("look-up-pod", { kind: "listed", startedAt: story.now, complete: true, pods: [pod()] });
    expect(story.at).toBe("cleaning/record");
    story.remove();
    expect(story.verdict).toEqual(STOP);
    expect(story.ledger.map((op) => op.kind)).toEqual(["open", "close"]);
  });

  test("a stop whose look-up finds nothing still deregisters before anything else", () => {
    const story = unclear();
    story.event({ kind: "stop", verdict: STOP, inFlight: true });
    lookUpToTheEnd(story);
    expect(story.at).toBe("cleaning/deregister-first");
    story.remove();
    expect(story.verdict).toEqual(STOP);
  });
});

describe("capacity", () => {
  test("goes through the plan under one name, one runner and one run, and ends with the table", () => {
    const story = planned().reachCreate();
    for (const _ of CANDIDATES) story.answer("create-pod", CAPACITY, SECOND);
    expect(story.kind).toBe("cleaning");
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "capacity" });
    expect(story.request.counts).toMatchObject({ attempts: 1, pods: 0 });
    expect(story.request.tried.map((row) => row.name)).toEqual(CANDIDATES.map((one) => one.name));
    expect(story.performed.filter((kind) => kind === "mint").length).toBe(1);
    expect(story.performed.filter((kind) => kind === "delete-pod")).toEqual([]);
  });

  test("the lock passes on as soon as it is known that there is nothing to delete", () => {
    const story = planned().reachCreate();
    for (const _ of CANDIDATES) story.answer("create-pod", CAPACITY);
    expect(story.locks).toEqual(["release"]);
    story.remove();
    expect(story.locks).toEqual(["release"]);
  });

  test("the plan's clock ends it even when candidates are left", () => {
    const story = planned().reachCreate();
    story.answer("create-pod", { kind: "capacity", elapsedMs: 60 * SECOND });
    story.remove();
    expect(story.verdict).toMatchObject({ reason: "capacity", detail: expect.stringContaining("time limit") });
  });

  test("429 is waited out under the same name", () => {
    const story = planned().reachCreate();
    story.answer("create-pod", { kind: "rate-limited", retryAfterMs: 4 * SECOND, elapsedMs: SECOND }, SECOND);
    expect((story.task?.dueAt ?? 0) - story.now).toBe(4 * SECOND);
    story.answer("sleep", { sleptMs: 4 * SECOND });
    expect(story.task?.task).toMatchObject({
      kind: "create-pod",
      podName: expect.stringContaining("r1-1"),
      timeoutMs: 55 * SECOND,
    });
  });

  test("a request that RunPod refuses at every candidate is invalid, not unlucky", () => {
    const story = planned().reachCreate();
    for (const _ of CANDIDATES)
      story.answer("create-pod", { kind: "skip", why: "invalid", detail: "400", elapsedMs: 1 });
    story.remove();
    expect(story.verdict.reason).toBe("request-invalid");
  });

  test("balance stops everything", () => {
    const story = planned().reachCreate();
    story.answer("create-pod", { kind: "stop", reason: "balance", detail: "No money.", elapsedMs: 1 });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "balance" });
    expect(story.request.tried.length).toBe(1);
  });
});

describe("before the purchase", () => {
  test("N46: over the cap nothing is minted, dispatched or bought", () => {
    const story = planned();
    story.answer("reserve", { kind: "over-cap", detail: "USD 20 a day." });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "over-budget", detail: "USD 20 a day." });
    expect(story.performed).toEqual(["plan", "reserve", "settle"]);
  });

  test("the account unreachable: asked again a few times, then nothing was bought", () => {
    const story = planned();
    while (story.asks === "reserve") story.answer("reserve", outcomes.reserve.unknown);
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "account-unreachable" });
    expect(story.performed.filter((kind) => kind === "reserve").length).toBe(6);
  });

  test("N76: GitHub's 503 to the mint is tried again, and no pod is bought before it succeeded", () => {
    const story = planned();
    story.answer("reserve", outcomes.reserve.reserved);
    for (let times = 0; times < 5; times += 1) story.answer("mint", outcomes.mint.retry);
    story.answer("mint", outcomes.mint.minted);
    expect(story.asks).toBe("dispatch-execute");
  });

  test("a mint that GitHub refuses for good ends it with its own reason", () => {
    const story = planned();
    story.answer("reserve", outcomes.reserve.reserved);
    story.answer("mint", outcomes.mint.refused);
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "runner-config" });
  });

  test.each(["conflict", "lost"] as const)(
    "N45: a mint that is %s: the old registration is cleared, the next attempt has a new name",
    (word) => {
      const story = planned();
      story.answer("reserve", outcomes.reserve.reserved);
      story.answer("mint", outcomes.mint[word]);
      const name = story.state("provisioning").attempt?.podName;
      expect(story.task?.task).toMatchObject({ kind: "find-runner", runnerName: name });
      story.answer("find-runner", outcomes["find-runner"].cleared);
      story.remove();
      story.observe({ pull: known(PULL) });
      expect(story.state("provisioning").attempt?.podName).not.toBe(name);
      expect(story.state("provisioning").walk.index).toBe(0);
    },
  );

  test("a crash between mint and create costs an attempt, never a pod: the next has a new runner", () => {
    const story = planned().reachCreate();
    story.answer("create-pod", { kind: "secret-lost" });
    story.remove().reachCreate();
    expect(story.request.counts).toMatchObject({ attempts: 2, pods: 0 });
    expect(story.task?.task).toMatchObject({ candidate: { name: CANDIDATES[0]?.name } });
  });

  test("attempts that never buy anything are bounded as well", () => {
    const story = planned({ terms: { ...TERMS, maxAttempts: 1 } });
    for (let times = 0; story.kind !== "concluded" && times < 20; times += 1) {
      story.reachCreate().answer("create-pod", { kind: "secret-lost" });
      story.remove();
    }
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "attempts-exhausted" });
    expect(story.request.counts).toMatchObject({ attempts: 4, pods: 0 });
  });

  test("a dispatch whose answer was lost is found by its run name; without a run no pod is bought", () => {
    const story = planned();
    story.answer("reserve", outcomes.reserve.reserved);
    story.answer("mint", outcomes.mint.minted);
    story.answer("dispatch-execute", outcomes["dispatch-execute"].lost);
    while (story.asks === "find-execute") story.answer("find-execute", outcomes["find-execute"].none);
    expect(story.now - T0).toBe(120 * SECOND);
    story.remove();
    expect(story.verdict).toMatchObject({ reason: "workflow-unavailable" });
    expect(story.performed).not.toContain("create-pod");
  });

  test("a GitHub that cannot say whether the run exists does not hold the lock for ever", () => {
    const story = planned();
    story.answer("reserve", outcomes.reserve.reserved);
    story.answer("mint", outcomes.mint.minted);
    story.answer("dispatch-execute", outcomes["dispatch-execute"].lost);
    while (story.asks === "find-execute") story.answer("find-execute", outcomes["find-execute"].unknown);
    expect(story.now - T0).toBe(LIMITS.authorizeRetryFor);
    expect(story.state("cleaning").verdict).toMatchObject({ reason: "github-outage" });
  });
});

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
