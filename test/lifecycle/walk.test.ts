/** The creation walk: which candidate next, under which name, on how much time. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Candidate, Walk } from "../../shared/lifecycle/model.ts";
import {
  afresh,
  afterAnswer,
  afterNotFound,
  afterRejection,
  newWalk,
  nextRequest,
  slept,
  type CreateAnswer,
  type WalkAction,
  type WalkRules,
} from "../../shared/lifecycle/walk.ts";
import { CANDIDATES } from "./fixtures.ts";

const RULES: WalkRules = { clockMs: 60_000, backoffBaseMs: 10_000, backoffCapMs: 60_000, retries: 1 };
const [A, B, C] = CANDIDATES;
const CAPACITY: CreateAnswer = { kind: "capacity" };
const AMBIGUOUS: CreateAnswer = { kind: "ambiguous", retryAfterMs: null };
const INVALID: CreateAnswer = { kind: "skip", why: "invalid" };
const limited = (retryAfterMs: number | null): CreateAnswer => ({ kind: "rate-limited", retryAfterMs });

function answer(walk: Walk, what: CreateAnswer, elapsedMs = 1_000, jitter = 0.5) {
  return afterAnswer(walk, CANDIDATES, what, elapsedMs, RULES, jitter);
}

function answers(...all: readonly CreateAnswer[]) {
  let walk = newWalk();
  let action: WalkAction = nextRequest(walk, CANDIDATES, RULES, "same");
  for (const one of all) ({ walk, action } = answer(walk, one));
  return { walk, action };
}

describe("a walk", () => {
  test("begins at the first candidate with the whole clock", () => {
    expect(nextRequest(newWalk(), CANDIDATES, RULES, "same")).toEqual({
      kind: "request",
      candidate: A,
      timeoutMs: 60_000,
      attempt: "same",
    });
  });

  test("goes to the next candidate at once after a capacity refusal, under the same name", () => {
    expect(answers(CAPACITY).action).toEqual({ kind: "request", candidate: B, timeoutMs: 59_000, attempt: "same" });
  });

  test("ends for lack of capacity behind the last candidate", () => {
    const { walk, action } = answers(CAPACITY, CAPACITY, CAPACITY);
    expect(action).toEqual({ kind: "exhausted", reason: "capacity" });
    expect(walk.tried.map((row) => row.answer)).toEqual(["no capacity", "no capacity", "no capacity"]);
  });

  test("says which candidate gave which answer at which price", () => {
    expect(answers(CAPACITY).walk.tried).toEqual([{ name: A?.name, price: A?.price, answer: "no capacity" }]);
  });

  test("a created pod is bought, even by an answer that came after the clock", () => {
    expect(answer(newWalk(), { kind: "created" }, 75_000).action).toEqual({ kind: "bought" });
  });

  test("a refusal that came after the clock ends it: nothing more is asked", () => {
    expect(answer(newWalk(), CAPACITY, 60_000).action).toEqual({ kind: "exhausted", reason: "walk-deadline" });
  });

  test.each(["balance", "image-refused", "request-invalid", "provider-key"] as const)(
    "%s stops it: no other candidate would help",
    (reason) => {
      expect(answers({ kind: "stop", reason }).action).toEqual({ kind: "stop", reason });
    },
  );
});

describe("429", () => {
  test("is retried once under the same name, after the back-off", () => {
    const { walk, action } = answers(limited(null));
    expect(action).toEqual({ kind: "sleep", ms: 5_000, attempt: "same" });
    expect(nextRequest(slept(walk, 5_000), CANDIDATES, RULES, "same")).toMatchObject({
      candidate: A,
      timeoutMs: 54_000,
    });
  });

  test("waits as long as RunPod asks, beyond the back-off's cap too", () => {
    expect(answers(limited(45_000)).action).toMatchObject({ kind: "sleep", ms: 45_000 });
    expect(answers(limited(0)).action).toMatchObject({ kind: "sleep", ms: 0 });
  });

  test("a wait longer than the clock is cut to what is left, and then it is over", () => {
    const { walk, action } = answer(newWalk(), limited(600_000), 20_000);
    expect(action).toMatchObject({ kind: "sleep", ms: 40_000 });
    expect(nextRequest(slept(walk, 40_000), CANDIDATES, RULES, "same")).toEqual({
      kind: "exhausted",
      reason: "walk-deadline",
    });
  });

  test("a second time at one candidate moves on to the next, which has its own retry", () => {
    const twice = answers(limited(null), limited(null));
    expect(twice.action).toMatchObject({ kind: "request", candidate: B, attempt: "same" });
    expect(answer(twice.walk, limited(null)).action).toMatchObject({ kind: "sleep" });
  });

  test("the back-off's cap comes before the jitter", () => {
    const rules = { ...RULES, backoffBaseMs: 100_000, backoffCapMs: 30_000 };
    expect(afterAnswer(newWalk(), CANDIDATES, limited(null), 0, rules, 0.5).action).toMatchObject({ ms: 15_000 });
  });
});

describe("an unclear answer (N02)", () => {
  test("is looked up before anything else", () => {
    expect(answers(AMBIGUOUS).action).toEqual({ kind: "look-up" });
  });

  test("found nothing: one retry at the same candidate, as the next attempt", () => {
    const { walk } = answers(AMBIGUOUS);
    const after = afterNotFound(walk, CANDIDATES, null, RULES, 0.5);
    expect(after.action).toEqual({ kind: "sleep", ms: 5_000, attempt: "new" });
    expect(nextRequest(slept(after.walk, 5_000), CANDIDATES, RULES, "new")).toMatchObject({ candidate: A });
  });

  test("the look-up costs no clock", () => {
    const { walk } = answers(AMBIGUOUS);
    expect(afterNotFound(walk, CANDIDATES, 0, RULES, 0.5).walk.usedMs).toBe(1_000);
  });

  test("a second one at one candidate moves on, as a new attempt", () => {
    const { walk } = answers(AMBIGUOUS);
    const again = answer(afterNotFound(walk, CANDIDATES, null, RULES, 0.5).walk, AMBIGUOUS);
    const after = afterNotFound(again.walk, CANDIDATES, null, RULES, 0.5);
    expect(after.action).toMatchObject({ kind: "request", candidate: B, attempt: "new" });
  });

  test("after a 429 at the same candidate it moves on: one retry, whatever the reason", () => {
    const { walk } = answers(limited(null), AMBIGUOUS);
    expect(afterNotFound(walk, CANDIDATES, null, RULES, 0.5).action).toMatchObject({ candidate: B });
  });

  test("on a clock that is used up nothing follows", () => {
    const { walk } = answer(newWalk(), AMBIGUOUS, 60_000);
    expect(afterNotFound(walk, CANDIDATES, null, RULES, 0.5).action).toEqual({
      kind: "exhausted",
      reason: "walk-deadline",
    });
  });
});

describe("400 without capacity words", () => {
  test("condemns its candidate only", () => {
    expect(answers(INVALID).action).toMatchObject({ kind: "request", candidate: B, attempt: "same" });
  });

  test("from every candidate condemns the request", () => {
    expect(answers(INVALID, INVALID, INVALID).action).toEqual({ kind: "exhausted", reason: "request-invalid" });
  });

  test("from every candidate condemns it also when one was asked twice", () => {
    const { action } = answers(limited(null), INVALID, INVALID, INVALID);
    expect(action).toEqual({ kind: "exhausted", reason: "request-invalid" });
  });

  test.each([
    ["a capacity refusal", CAPACITY],
    ["no access to a pool", { kind: "skip", why: "pool" }],
  ] as const)("together with %s is lack of capacity", (_, other) => {
    expect(answers(INVALID, other, INVALID).action).toEqual({ kind: "exhausted", reason: "capacity" });
  });
});

describe("a key without access", () => {
  const POOL: CreateAnswer = { kind: "skip", why: "pool" };

  test("to any candidate is named as that, and not as a shortage that another try might not meet", () => {
    expect(answers(POOL, POOL, POOL).action).toEqual({ kind: "exhausted", reason: "no-access" });
  });

  test("to what is left behind a pod that was rejected is a shortage: that one it could rent", () => {
    let walk = afterRejection(newWalk());
    let action: WalkAction = nextRequest(walk, CANDIDATES, RULES, "new");
    for (let times = 0; times < 2; times += 1) ({ walk, action } = answer(walk, POOL));
    expect(action).toEqual({ kind: "exhausted", reason: "capacity" });
  });
});

describe("after a bought pod", () => {
  test("a rejected one is followed by the next candidate with a fresh clock", () => {
    const { walk } = answers(CAPACITY, { kind: "created" });
    expect(nextRequest(afterRejection(walk), CANDIDATES, RULES, "new")).toMatchObject({
      candidate: C,
      timeoutMs: 60_000,
    });
  });

  test("one given up through no fault of its own is followed by the same candidate with a fresh clock", () => {
    const { walk } = answers(CAPACITY, { kind: "created" });
    expect(nextRequest(afresh(walk), CANDIDATES, RULES, "new")).toMatchObject({ candidate: B, timeoutMs: 60_000 });
  });
});

describe("any walk", () => {
  const anyAnswer: fc.Arbitrary<CreateAnswer> = fc.oneof(
    fc.constant(CAPACITY),
    fc.constant(INVALID),
    fc.constant<CreateAnswer>({ kind: "skip", why: "pool" }),
    fc.option(fc.nat(90_000)).map(limited),
    fc.option(fc.nat(90_000)).map((retryAfterMs): CreateAnswer => ({ kind: "ambiguous", retryAfterMs })),
    fc.constant<CreateAnswer>({ kind: "created" }),
    fc.constant<CreateAnswer>({ kind: "stop", reason: "balance" }),
  );
  const script = fc.array(
    fc.record({ answer: anyAnswer, elapsedMs: fc.nat(70_000), jitter: fc.double({ min: 0, max: 0.999, noNaN: true }) }),
    {
      minLength: 40,
      maxLength: 40,
    },
  );
  const plan = fc.integer({ min: 1, max: 12 }).map((size) =>
    Array.from({ length: size }, (_, index): Candidate => ({
      name: `c${index}`,
      tier: "t",
      acceptedIds: [`g${index}`],
      price: index,
    })),
  );

  /** Drives a walk by a script until it ends, every look-up finding nothing. */
  function drive(
    candidates: readonly Candidate[],
    entries: readonly { answer: CreateAnswer; elapsedMs: number; jitter: number }[],
  ) {
    const requests: { name: string; timeoutMs: number; attempt: string }[] = [];
    const sleeps: number[] = [];
    let walk = newWalk();
    let action: WalkAction = nextRequest(walk, candidates, RULES, "same");
    for (const { answer: what, elapsedMs, jitter } of entries) {
      while (action.kind === "sleep" || action.kind === "look-up") {
        if (action.kind === "sleep") {
          sleeps.push(action.ms);
          walk = slept(walk, action.ms);
          action = nextRequest(walk, candidates, RULES, action.attempt);
        } else ({ walk, action } = afterNotFound(walk, candidates, null, RULES, jitter));
      }
      if (action.kind !== "request") break;
      requests.push({ name: action.candidate.name, timeoutMs: action.timeoutMs, attempt: action.attempt });
      // A request ends when its time is up: it cannot cost more than it was given.
      const cost = Math.min(elapsedMs, action.timeoutMs);
      ({ walk, action } = afterAnswer(walk, candidates, what, cost, RULES, jitter));
    }
    return { walk, action, requests, sleeps };
  }

  test("ends, asks no candidate more than twice, and only ever goes forward", () => {
    fc.assert(
      fc.property(plan, script, (candidates, entries) => {
        const { action, requests } = drive(candidates, entries);
        expect(["bought", "exhausted", "stop"]).toContain(action.kind);
        const asked = requests.map((request) => request.name);
        for (const { name } of candidates) expect(asked.filter((one) => one === name).length).toBeLessThanOrEqual(2);
        const places = asked.map((name) => candidates.findIndex((candidate) => candidate.name === name));
        expect(places).toEqual([...places].sort((a, b) => a - b));
      }),
      { numRuns: 500 },
    );
  });

  test("never exceeds its clock, and gives every request time", () => {
    fc.assert(
      fc.property(plan, script, (candidates, entries) => {
        const { walk, requests, sleeps } = drive(candidates, entries);
        expect(walk.usedMs).toBeLessThanOrEqual(RULES.clockMs);
        for (const request of requests) expect(request.timeoutMs).toBeGreaterThan(0);
        for (const pause of sleeps) expect(pause).toBeGreaterThanOrEqual(0);
      }),
      { numRuns: 500 },
    );
  });

  test("keeps one name for as long as it is certain that nothing was bought", () => {
    fc.assert(
      fc.property(plan, script, (candidates, entries) => {
        const { requests } = drive(candidates, entries);
        requests.slice(1).forEach((request, index) => {
          const before = entries[index]?.answer.kind;
          expect(request.attempt).toBe(before === "ambiguous" ? "new" : "same");
        });
      }),
      { numRuns: 500 },
    );
  });
});
