/** The pure decisions right before money: the pre-gate checks, and the last look inside the lock. */
import { describe, expect, it } from "vitest";
import {
  decidePaidPath,
  type Known,
  type PaidPathFacts,
  type PullRequestNow,
} from "../../shared/lifecycle/paid-path.ts";
import { evaluatePreGate, type PreGateCheck } from "../../shared/lifecycle/pre-gate.ts";

const T0 = Date.UTC(2026, 10, 30, 12);

function check(name: string, conclusion: string | null, startedAt: number | null = T0): PreGateCheck {
  return { name, status: conclusion === null ? "in_progress" : "completed", conclusion, startedAt, createdAt: null };
}

describe("the pre-gate checks", () => {
  const judge = (...checks: PreGateCheck[]) => evaluatePreGate(["rustfmt", "clippy"], checks);
  const fmt = check("rustfmt", "success");

  it("are ready only when every name succeeded", () => {
    expect(judge(fmt, check("clippy", "success")).decision).toBe("ready");
    expect(judge(fmt)).toEqual({ decision: "wait", missing: ["clippy"], pending: [], failed: [] });
    expect(judge(fmt, check("clippy", null))).toMatchObject({ decision: "wait", pending: ["clippy"] });
  });

  it.each(["failure", "neutral", "timed_out", "action_required", "stale", "startup_failure", "some new word"])(
    "%s is a failure, told at once even while another name is missing",
    (conclusion) => {
      expect(judge(check("clippy", conclusion))).toMatchObject({ decision: "fail", missing: ["rustfmt"] });
    },
  );

  it("completed without a conclusion is a failure", () => {
    expect(judge(fmt, { ...check("clippy", null), status: "completed" }).decision).toBe("fail");
  });

  it.each(["cancelled", "skipped"])(
    "an attempt that was %s was overtaken: an older success counts again",
    (conclusion) => {
      const overtaken = check("clippy", conclusion, T0 + 1);
      expect(judge(fmt, overtaken, check("clippy", "success")).decision).toBe("ready");
      expect(judge(fmt, overtaken)).toMatchObject({ decision: "wait", missing: ["clippy"] });
    },
  );

  it("an older success never hides a newer attempt that runs or failed", () => {
    const old = check("clippy", "success");
    expect(judge(fmt, old, check("clippy", null, T0 + 1)).decision).toBe("wait");
    expect(judge(fmt, old, check("clippy", "failure", T0 + 1)).decision).toBe("fail");
    expect(judge(fmt, check("clippy", "failure"), check("clippy", "success", T0 + 1)).decision).toBe("ready");
  });

  it("an attempt without any time is the oldest", () => {
    expect(judge(fmt, check("clippy", "failure", null), check("clippy", "success")).decision).toBe("ready");
  });
});

const PULL: PullRequestNow = { state: "open", headSha: "h1", baseRef: "main", headRepositoryId: "101" };
const yes: Known<boolean> = { known: true, value: true };
const no: Known<boolean> = { known: true, value: false };
const unread: Known<never> = { known: false, what: "GitHub answered 503" };

/** Everything still as admitted: the request buys. */
function decide(more: Partial<PaidPathFacts> = {}, pull: Partial<PullRequestNow> = {}) {
  return decidePaidPath({
    pullRequest: {
      admitted: { headSha: "h1", baseRef: "main" },
      repositoryId: "101",
      now: { known: true, value: { ...PULL, ...pull } },
    },
    actorPermitted: yes,
    authorPermitted: yes,
    gpuRequired: yes,
    reusable: null,
    inputsUnchanged: yes,
    artifactsUsable: yes,
    preparedAgain: false,
    ...more,
  });
}

describe("the last look inside the lock", () => {
  it("buys when everything is still as admitted", () => {
    expect(decide()).toEqual({ decision: "run" });
  });

  it.each([
    ["closed", { state: "closed" }, { decision: "closed" }],
    ["N113: moved on", { headSha: "h2" }, { decision: "superseded", headSha: "h2" }],
    ["of a fork now", { headRepositoryId: "202" }, { decision: "refused", reason: "fork" }],
    ["without a head repository", { headRepositoryId: null }, { decision: "refused", reason: "head-repository-gone" }],
    ["against another base", { baseRef: "next" }, { decision: "refused", reason: "base-changed" }],
  ] as const)("a pull request that is %s buys nothing", (_, pull, decision) => {
    expect(decide({}, pull)).toEqual(decision);
    // Nor may a green gate be reused for it.
    expect(decide({ reusable: { requestId: "r0", url: "u" } }, pull)).toEqual(decision);
  });

  it("N117: a right that was taken away while queued counts, the author's too", () => {
    expect(decide({ actorPermitted: no })).toEqual({ decision: "refused", reason: "actor-not-permitted" });
    expect(decide({ authorPermitted: no })).toEqual({ decision: "refused", reason: "author-not-permitted" });
  });

  it("a policy that asks no more concludes not-required; a green gate is reused", () => {
    expect(decide({ gpuRequired: no }).decision).toBe("not-required");
    const reusable = { requestId: "r0", url: "https://example.org/1" };
    expect(decide({ reusable })).toEqual({ decision: "reuse", ...reusable });
  });

  it("changed inputs or lost artifacts go back to preparing once, and end it the second time", () => {
    for (const facts of [{ inputsUnchanged: no }, { artifactsUsable: no }]) {
      expect(decide(facts)).toEqual({ decision: "prepare-again" });
      expect(decide({ ...facts, preparedAgain: true })).toMatchObject({ decision: "infrastructure" });
    }
  });

  it("a validation of a fixed commit has no pull request to lose, and reuses nothing", () => {
    const facts = { pullRequest: null, gpuRequired: null, reusable: { requestId: "r0", url: "u" } };
    expect(decide(facts)).toEqual({ decision: "run" });
    expect(decide({ ...facts, actorPermitted: no }).decision).toBe("refused");
  });

  it.each(["actorPermitted", "authorPermitted", "gpuRequired", "inputsUnchanged", "artifactsUsable"] as const)(
    "I11: unknown %s never buys",
    (fact) => {
      expect(decide({ [fact]: unread })).toEqual({ decision: "unknown", what: "GitHub answered 503" });
    },
  );

  it("I11: a pull request that was not read, or is in no known state, never buys", () => {
    const pullRequest = { admitted: { headSha: "h1", baseRef: "main" }, repositoryId: "101", now: unread };
    expect(decide({ pullRequest }).decision).toBe("unknown");
    expect(decide({}, { state: "" }).decision).toBe("unknown");
  });
});
