/** Which answer a pull request had at a shared commit, whose it is, and when it is given back. */
import { describe, expect, it } from "vitest";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import {
  answerFor,
  baseHeardOf,
  givenBack,
  heardFrom,
  needsAnswer,
  ownAnswer,
} from "../../shared/lifecycle/needs-answer.ts";
import { route } from "../../shared/lifecycle/route.ts";
import { ADMISSION, ALICE, BOB, HEAD, MINUTE, PREPARED, requestIn, states, T0, TERMS } from "./fixtures.ts";
import {
  type Change,
  ended,
  SECOND,
  forBase,
  passed,
  refused,
  fork,
  gone,
  viewOf,
  pull,
  COMPARE,
} from "./shared-commit.ts";

describe("a refusal for another pull request's sake", () => {
  const held = ended("refused", "fork", { ...forBase("main"), heldBy: { prNumber: 8, baseRef: "stage" } });
  const asking = { prNumber: 7, baseRef: "main", fork: false };

  it("is over once that one has left the commit or the base, and not before", () => {
    const asked: unknown[] = [];
    const hasLeft = (...what: unknown[]) => asked.push(what) > 0;
    expect(needsAnswer([passed, held], { ...asking, hasLeft })).toBe(true);
    expect(asked[0]).toEqual([8, "stage"]);
    expect(ownAnswer([held], { ...asking, hasLeft })).toBeNull();
    expect(needsAnswer([passed, held], { ...asking, hasLeft: () => false })).toBe(false);
    expect(needsAnswer([passed, held], asking)).toBe(false);
  });

  it("is heard of when that one is closed, and when no other is", () => {
    expect(route(pull("closed", 8), viewOf(held, { ...fork, openedAt: T0 - 1 }))).toContainEqual(COMPARE);
    expect(route(pull("closed", 9), viewOf(held, { ...fork, openedAt: T0 - 1, prNumber: 9 }))).not.toContainEqual(
      COMPARE,
    );
  });
});

describe("the answer that a pull request had", () => {
  it("is its own newest one, for the base it has, and only while that still holds", () => {
    const asking = { prNumber: 7, baseRef: "main" };
    expect(ownAnswer([passed, refused], asking)).toBe(passed);
    expect(ownAnswer([passed, refused], { ...asking, baseRef: "stage" })).toBeNull();
    const closed = ended("closed", "closed", { generation: 3, openedAt: T0 + 2 });
    expect(ownAnswer([passed, refused, closed], asking)).toBeNull();
    expect(ownAnswer([passed, refused], { prNumber: 9, baseRef: "main" })).toBeNull();
  });

  it("is by whoever was heard of last", () => {
    const first = { ...passed, alsoBy: { "8": { ...ALICE, baseRef: "stage" } } };
    const later = ended("passed", "tests-passed", {
      id: "r2",
      generation: 2,
      alsoBy: { "8": { ...BOB, baseRef: "stage" } },
    });
    expect(heardFrom([first, later], { prNumber: 8, baseRef: "stage" })).toEqual(BOB);
  });

  it("is by who had caused it before it gave way as a draft", () => {
    const draft = { ...SECOND, ...forBase("stage"), openedBy: { row: 1, actor: BOB } };
    const gave = ended("superseded", "draft-gave-way", draft);
    expect(heardFrom([passed, gave], { prNumber: 8, baseRef: "stage" })).toEqual(BOB);
    expect(heardFrom([passed, gave], { prNumber: 8, baseRef: "main" })).toBeNull();
  });

  it("is by who had caused it before the App was away", () => {
    for (const reason of ["app-removed", "repository-gone"] as const) {
      const away = ended("cancelled", reason, { ...SECOND, ...forBase("stage"), openedBy: { row: 1, actor: BOB } });
      expect(heardFrom([passed, away], { prNumber: 8, baseRef: "stage" })).toEqual(BOB);
      // For another base somebody else may have changed it meanwhile.
      expect(heardFrom([passed, away], { prNumber: 8, baseRef: "main" })).toBeNull();
    }
    // Opened by the comparison, which knows nobody: its trigger run had said who it was.
    const compared = { ...SECOND, ...forBase("stage"), openedBy: { row: 1, actor: null }, actor: BOB } as const;
    expect(heardFrom([ended("cancelled", "repository-gone", compared)], { prNumber: 8, baseRef: "stage" })).toEqual(
      BOB,
    );
    const closed = ended("closed", "closed", { ...SECOND, ...forBase("stage"), openedBy: { row: 1, actor: BOB } });
    expect(heardFrom([passed, closed], { prNumber: 8, baseRef: "stage" })).toBeNull();
  });

  it("was told with a base, the last of those that were heard", () => {
    const first = { ...passed, alsoBy: { "8": { ...ALICE, baseRef: "stage" }, "9": ALICE } };
    const later = ended("passed", "tests-passed", {
      id: "r2",
      generation: 2,
      alsoBy: { "8": { ...BOB, baseRef: "next" } },
    });
    expect(baseHeardOf([first, later], 8)).toBe("next");
    expect([baseHeardOf([first], 9), baseHeardOf([first, later], 10)]).toEqual([undefined, undefined]);
  });

  it("is by nobody where the base is known and was not told, as in what was stored before it was kept", () => {
    const told = { ...passed, alsoBy: { "8": ALICE } };
    expect(heardFrom([told], { prNumber: 8, baseRef: "stage" })).toBeNull();
    expect(heardFrom([told], { prNumber: 8 })).toEqual(ALICE);
  });
});

describe("an answer that is given back", () => {
  const tested: Change = {
    ...forBase("main"),
    baseRef: "main",
    actor: ALICE,
    approvedBy: BOB,
    triggerSeen: true,
    openedBy: { row: 3, actor: BOB },
    counts: { attempts: 3, pods: 2, startupFailures: 1, idleRetries: 1, lostRetries: 1, outageRetries: 1 },
    spentMicros: 120_000,
    paidMs: 60_000,
    gpu: "GPU A",
    pricePerHour: 0.2,
    costReport: "2 pods",
    tests: { count: 12, seconds: 200 },
    failedSteps: ["Test"],
    runUrl: "https://github.test/run/1",
    check: { ...passed.check, checkRunId: "55", published: "word", completed: true },
  };
  const failed = ended("failed", "tests-failed", tested);
  const given = givenBack(failed, 7, "r9", 4, T0 + MINUTE);

  it("says the same of the same, by the same people", () => {
    const what = { kind: "pull-request", prNumber: 7, headSha: HEAD, baseRef: "main" };
    const who = { openedBy: { row: 1, actor: BOB }, actor: ALICE, approvedBy: BOB, triggerSeen: true };
    const from = { terms: TERMS, admission: ADMISSION, prepared: PREPARED };
    const found = { tests: tested.tests, failedSteps: ["Test"], runUrl: tested.runUrl };
    const itself = { id: "r9", generation: 4, openedAt: T0 + MINUTE };
    expect(given).toMatchObject({ ...what, ...who, ...from, ...found, ...itself });
    expect(given.state).toEqual({ ...failed.state, at: T0 + MINUTE });
    // It stands where the other stood: for this pull request and this base nothing more is to be asked.
    expect(needsAnswer([failed, refused, given], { prNumber: 7, baseRef: "main", hasLeft: gone })).toBe(false);
  });

  it("has bought nothing, waits for nothing and has a check of its own", () => {
    const none = { attempts: 0, pods: 0, startupFailures: 0, idleRetries: 0, lostRetries: 0, outageRetries: 0 };
    expect(given).toMatchObject({ counts: none, spentMicros: 0, paidMs: 0, gpu: null, pricePerHour: null, task: null });
    expect(given.costReport).toBeUndefined();
    expect(given.check).toMatchObject({ checkRunId: null, published: null, completed: false });
  });

  it("is named as an earlier pass where it was one, and else word for word", () => {
    const word = (own: GateRequest) => givenBack(own, 7, "r9", 4, T0).state;
    expect(word(passed)).toMatchObject({ verdict: { kind: "reused", reason: "given-back" } });
    expect(JSON.stringify(word(passed))).toContain(passed.id);
    for (const own of [
      ended("reused", "identical-tree"),
      ended("not-required", "docs-only"),
      ended("awaiting-approval", "awaiting-approval"),
      refused,
    ]) {
      expect(word(own)).toEqual(own.state);
    }
  });

  it("is none that was given in view of others: it is asked about anew", () => {
    const asking = { prNumber: 7, baseRef: "main" };
    const heldBy = { prNumber: 8, baseRef: "stage" };
    expect(answerFor([passed, refused], asking)).toBe(passed);
    for (const own of [
      ended("refused", "fork", { ...forBase("main"), heldBy }),
      ended("not-required", "docs-only", forBase("main")),
    ]) {
      expect(answerFor([own, refused], asking)).toBeNull();
    }
  });

  it("is what another earned for the same base, where there is none of its own", () => {
    expect(answerFor([passed, refused], { prNumber: 9, baseRef: "main" })).toBe(passed);
    expect(givenBack(passed, 9, "r9", 4, T0)).toMatchObject({ prNumber: 9, headSha: HEAD });
    expect(answerFor([passed, refused], { prNumber: 9, baseRef: "stage" })).toBeNull();
    expect(answerFor([passed, refused], { prNumber: 9 })).toBeNull();
    const later = ended("failed", "tests-failed", { ...forBase("main"), id: "r3", generation: 3, openedAt: T0 + 2 });
    expect(answerFor([passed, later, refused], { prNumber: 9, baseRef: "main" })).toBeNull();
  });

  it("ends a refusal for the sake of another that has left, or has another base", () => {
    const held = ended("refused", "fork", { ...forBase("main"), heldBy: { prNumber: 8, baseRef: "stage" } });
    const asking = { prNumber: 7, baseRef: "main" };
    expect(needsAnswer([held], { ...asking, hasLeft: gone })).toBe(true);
    expect(needsAnswer([held], { ...asking, hasLeft: (other, base) => other === 8 && base === "stage" })).toBe(true);
    expect(needsAnswer([held], { ...asking, hasLeft: (_other, base) => base === undefined })).toBe(false);
    expect(needsAnswer([held], asking)).toBe(false);
    expect(route(pull("closed", 8), viewOf({ ...fork, openedAt: T0 - 1 }, held))).toContainEqual(COMPARE);
  });

  it("is a pull request's also where a recovery had it, and none where there is no answer yet", () => {
    expect(givenBack({ ...passed, kind: "recovery" }, 7, "r9", 1, T0).kind).toBe("pull-request");
    expect(() => givenBack(requestIn(states.queued()), 7, "r9", 2, T0)).toThrow(/no answer/);
  });
});
