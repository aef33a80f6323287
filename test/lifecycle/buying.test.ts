/** Stories of the create call: capacity, unclear answers, and what must be there before it. */
import { describe, expect, test } from "vitest";

import type { CreateOutcome, Outcomes } from "../../shared/lifecycle/tasks.ts";
import { outcomes } from "./events.ts";
import { CANDIDATES, known, LIMITS, MINUTE, pod, PULL, SECOND, STOP, T0, TERMS } from "./fixtures.ts";
import type { Story } from "./story.ts";

import { CAPACITY, planned, prove } from "./lock-hold.ts";

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
    // Both are paid from when we asked for them: neither was there later than it was found.
    const asked = story.state("provisioning").attempt?.createSentAt;
    expect(story.straysSince).toEqual([asked]);
    expect(asked).toBeLessThan(story.now);
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

  test("whoever was asked before stands with the pod that was bought, with the answer", () => {
    const story = planned().reachCreate();
    story.answer("create-pod", CAPACITY, SECOND);
    const [first, second] = CANDIDATES;
    const bought = story.answer("create-pod", outcomes["create-pod"].created);
    const [note] = bought.audit.filter(({ act }) => act === "pod.bought");
    expect(note?.facts["passedOver"]).toContain(first?.name);
    expect(note?.facts["passedOver"]).not.toContain(second?.name);
    const atOnce = planned().reachCreate().answer("create-pod", outcomes["create-pod"].created);
    expect(atOnce.audit.find(({ act }) => act === "pod.bought")?.facts["passedOver"]).toBeNull();
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

  test("a key that RunPod gives no access at any candidate is named as that; one shortage among them is a shortage", () => {
    const refused = { kind: "skip", why: "pool", detail: "403", elapsedMs: 1 } as const;
    const story = planned().reachCreate();
    for (const _ of CANDIDATES) story.answer("create-pod", refused);
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "provider-key" });

    const short = planned().reachCreate();
    short.answer("create-pod", { kind: "capacity", elapsedMs: 1 });
    for (const _ of CANDIDATES.slice(1)) short.answer("create-pod", refused);
    short.remove();
    expect(short.verdict.reason).toBe("capacity");
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

  test("I11: a pull request that cannot be read is read again, for half a minute, and nothing is bought for it", () => {
    const story = planned().reachCreate();
    const asked = story.task?.task;
    const since = story.now;
    for (let times = 0; times < 5; times += 1) {
      expect(story.task?.task).toEqual(asked);
      story.answer("create-pod", outcomes["create-pod"].unread);
    }
    expect(story.now - since).toBeLessThanOrEqual(40 * SECOND);
    story.answer("create-pod", outcomes["create-pod"].unread);
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "github-outage" });
    expect(story.request.counts).toMatchObject({ attempts: 1, pods: 0 });
  });

  test("I11: it is bought for once the pull request is read, and the lock waits for no hour of a used-up quota", () => {
    const story = planned().reachCreate();
    story.answer("create-pod", { kind: "unread", why: "rate limit", retryAt: story.now + 90 * SECOND });
    expect(story.task?.dueAt).toBe(story.now + 90 * SECOND);
    story.answer("create-pod", outcomes["create-pod"].created);
    expect(story.at).toBe("provisioning/start");

    const limited = planned().reachCreate();
    const since = limited.now;
    while (limited.asks === "create-pod")
      limited.answer("create-pod", { kind: "unread", why: "rate limit", retryAt: limited.now + 50 * SECOND });
    expect(limited.now - since).toBeLessThanOrEqual(120 * SECOND);

    const hour = planned().reachCreate();
    hour.answer("create-pod", { kind: "unread", why: "rate limit", retryAt: hour.now + 3_600 * SECOND });
    hour.remove();
    expect(hour.verdict).toMatchObject({ kind: "infrastructure", reason: "github-outage" });
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

  test("a preparation that left no archives is named as that, and nothing is bought", () => {
    const story = planned();
    story.answer("reserve", outcomes.reserve.reserved);
    story.answer("mint", outcomes.mint.minted);
    const nothing = {
      kind: "refused",
      why: "the preparation did not leave its archives",
      artifactsMissing: true,
    } as const;
    story.answer("dispatch-execute", nothing);
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "artifacts-missing" });
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
