import { describe, expect, it } from "vitest";
import {
  AGGREGATION_LIMIT_MS,
  aggregate,
  aggregatorTable,
  type AggregatorInput,
  type AggregatorRules,
  type ObservedCheck,
} from "../../shared/policy/aggregator.ts";

const T0 = Date.UTC(2026, 10, 30, 12);
const MINUTE = 60_000;

const RULES: AggregatorRules = {
  required: ["Docs", "Coverage GPU", "Coverage Gate"],
  strict: ["Coverage Gate"],
  lanes: { "Coverage GPU": "GPU_COVERAGE_ENABLED" },
  waitsFor: { "Coverage GPU": ["Probe GPU"] },
  releaseMustReport: ["Docs"],
  releaseHeadPrefix: "release-please--",
  producers: {},
};

function check(name: string, conclusion: string | null, more: Partial<ObservedCheck> = {}): ObservedCheck {
  return {
    name,
    status: conclusion === null ? "in_progress" : "completed",
    conclusion,
    startedAt: T0 + MINUTE,
    createdAt: null,
    completedAt: conclusion === null ? null : T0 + 20 * MINUTE,
    appId: "15368",
    ...more,
  };
}

const GREEN = [check("Docs", "success"), check("Coverage GPU", "success"), check("Coverage Gate", "success")];

function judge(checks: ObservedCheck[], more: Partial<AggregatorInput> = {}) {
  return aggregate({
    rules: RULES,
    switches: {},
    headRef: "fix/example",
    draft: false,
    bornAt: T0,
    startedAt: T0,
    now: T0 + 60 * MINUTE,
    checks,
    ...more,
  });
}

function without(name: string): ObservedCheck[] {
  return GREEN.filter((candidate) => candidate.name !== name);
}

const LANE_ON = { switches: { GPU_COVERAGE_ENABLED: "true" } };

/** conclusion (undefined = absent) -> why it fails, null = accepted */
const TABLE = [
  ["Docs", {}, "success", null],
  ["Docs", {}, "skipped", null],
  ["Docs", {}, "neutral", null],
  ["Docs", {}, undefined, null],
  ["Docs", {}, "failure", "not-accepted"],
  ["Docs", {}, "cancelled", "not-accepted"],
  ["Docs", {}, "timed_out", "not-accepted"],
  ["Docs", {}, "action_required", "not-accepted"],
  ["Docs", {}, "stale", "not-accepted"],
  ["Docs", {}, "a word GitHub may add", "not-accepted"],
  ["Coverage Gate", {}, "skipped", "not-success"],
  ["Coverage Gate", {}, "neutral", "not-success"],
  ["Coverage Gate", {}, undefined, "never-reported"],
  ["Coverage GPU", {}, undefined, null],
  ["Coverage GPU", {}, "skipped", null],
  ["Coverage GPU", {}, "success", null],
  ["Coverage GPU", {}, "failure", "not-accepted"],
  ["Coverage GPU", LANE_ON, "success", null],
  ["Coverage GPU", LANE_ON, "skipped", "lane-enabled-skipped"],
  ["Coverage GPU", LANE_ON, "neutral", "not-success"],
  ["Coverage GPU", LANE_ON, "failure", "not-success"],
  ["Coverage GPU", LANE_ON, undefined, "lane-enabled-absent"],
  ["Coverage GPU", { switches: { GPU_COVERAGE_ENABLED: " true" } }, "skipped", null],
  ["Docs", { headRef: "release-please--main" }, undefined, "never-reported"],
] as const;

it.each(TABLE)("%s with %j ending %s: %s", (name, more, conclusion, why) => {
  const checks = [...without(name), ...(conclusion === undefined ? [] : [check(name, conclusion)])];
  const result = judge(checks, more);
  expect(result.decision === "fail" ? result.failed : []).toEqual(why === null ? [] : [{ name, why }]);
  expect(result.decision).toBe(why === null ? "pass" : "fail");
});

describe("which run of a name counts", () => {
  it("the newest by its start", () => {
    const older = check("Docs", "success", { startedAt: T0 + 2 * MINUTE });
    const newer = check("Docs", "failure", { startedAt: T0 + 3 * MINUTE });
    expect(judge([...without("Docs"), newer, older]).decision).toBe("fail");
  });

  it("one of an earlier life of the commit does not, one within two minutes does", () => {
    const before = check("Coverage Gate", "success", { startedAt: T0 - 2 * MINUTE - 1 });
    expect(judge([...without("Coverage Gate"), before]).decision).toBe("fail");
    const just = check("Coverage Gate", "success", { startedAt: T0 - 2 * MINUTE });
    expect(judge([...without("Coverage Gate"), just]).decision).toBe("pass");
  });

  it("one without any time is old", () => {
    const timeless = check("Coverage Gate", "success", { startedAt: null, completedAt: null });
    expect(judge([...without("Coverage Gate"), timeless]).decision).toBe("fail");
  });

  it("N97: one that another App made never does, and is reported", () => {
    const forged = check("Coverage Gate", "success", { appId: "666", startedAt: T0 + 9 * MINUTE });
    const rules = { ...RULES, producers: { "Coverage Gate": "15368" } };
    const result = judge([...without("Coverage Gate"), check("Coverage Gate", "failure"), forged], { rules });
    expect(result).toMatchObject({ decision: "fail", failed: [{ name: "Coverage Gate", why: "not-success" }] });
    expect(result.lookAlikes).toEqual([{ name: "Coverage Gate", appId: "666", conclusion: "success", ignored: true }]);
    expect(aggregatorTable(result)).toContain("made by another App (666)");
  });
});

describe("a name that several Apps report and whose App nobody named", () => {
  const docs = (appId: string, conclusion: string | null, minute: number) =>
    check("Docs", conclusion, { appId, startedAt: T0 + minute * MINUTE });

  it.each([
    ["a newer success paints over no failure", "failure", "success", "fail"],
    ["an older failure of the other App counts as well", "success", "failure", "fail"],
    ["one that still runs is waited for", null, "success", "wait"],
    ["all of them acceptable is acceptable", "success", "skipped", "pass"],
  ] as const)("%s", (_, older, newer, decision) => {
    const result = judge([...without("Docs"), docs("15368", older, 3), docs("666", newer, 9)]);
    expect(result.decision).toBe(decision);
    expect(result.lookAlikes).toMatchObject([{ name: "Docs", ignored: false }]);
    expect(aggregatorTable(result)).toContain("counts too");
  });

  it("one App's own newer attempt replaces its older one as ever", () => {
    const result = judge([...without("Docs"), docs("15368", "failure", 3), docs("15368", "success", 9)]);
    expect(result).toMatchObject({ decision: "pass", lookAlikes: [] });
  });
});

it("of two attempts that began in the same second the one with the larger id counts, digits beyond 2^53 included", () => {
  const attempt = (id: string, conclusion: string) => check("Docs", conclusion, { id });
  const smaller = attempt("9007199254740993", "success");
  const larger = attempt("9007199254740994", "failure");
  for (const pair of [
    [smaller, larger],
    [larger, smaller],
    [attempt("99", "success"), attempt("100", "failure")],
  ])
    expect(judge([...without("Docs"), ...pair]).decision).toBe("fail");
});

describe("when it has to be looked at again", () => {
  const until = (result: ReturnType<typeof judge>) => (result.decision === "wait" ? result.until : "decided");

  it("at the end of the grace for what is absent", () => {
    expect(until(judge(without("Docs"), { now: T0 }))).toBe(T0 + 2 * MINUTE + 1);
  });

  it("a moment after the check that a lane's job waits for", () => {
    const probe = check("Probe GPU", "success", { completedAt: T0 + 59 * MINUTE });
    expect(until(judge([...without("Coverage GPU"), probe], LANE_ON))).toBe(T0 + 61 * MINUTE + 1);
  });

  it("at the limit for what runs, never by itself for a draft", () => {
    const running = [...without("Docs"), check("Docs", null)];
    expect(until(judge(running))).toBe(T0 + AGGREGATION_LIMIT_MS);
    expect(until(judge(running, { draft: true }))).toBeNull();
  });

  it("by the configured grace and limit where there are some", () => {
    const limits = { graceMs: 5_000, timeoutMs: 60_000 };
    expect(until(judge(without("Docs"), { now: T0, limits }))).toBe(T0 + 5_001);
    const running = [...without("Docs"), check("Docs", null)];
    expect(judge(running, { now: T0 + 60_000, limits }).decision).toBe("fail");
  });
});

describe("waiting", () => {
  it.each(["queued", "in_progress", "requested", "waiting", "pending"])("for a check that is %s", (status) => {
    const result = judge([...without("Docs"), check("Docs", null, { status })]);
    expect(result).toMatchObject({ decision: "wait", running: ["Docs"], missing: [], delayed: [] });
  });

  it("ends at the limit: what still runs has failed", () => {
    const checks = [...without("Docs"), check("Docs", null)];
    expect(judge(checks, { now: T0 + AGGREGATION_LIMIT_MS - 1 }).decision).toBe("wait");
    const late = judge(checks, { now: T0 + AGGREGATION_LIMIT_MS });
    expect(late).toMatchObject({ decision: "fail", failed: [{ name: "Docs", why: "still-running" }] });
  });

  it("for an absent name in the first two minutes", () => {
    expect(judge(without("Docs"), { now: T0 + 2 * MINUTE })).toMatchObject({ decision: "wait", missing: ["Docs"] });
    expect(judge(without("Docs"), { now: T0 + 2 * MINUTE + 1 }).decision).toBe("pass");
  });

  it("for a lane's job while its probe runs and two minutes after, and no longer", () => {
    const running = judge([...without("Coverage GPU"), check("Probe GPU", null)], LANE_ON);
    expect(running).toMatchObject({ decision: "wait", delayed: ["Coverage GPU"] });
    const ended = (completedAt: number) =>
      judge([...without("Coverage GPU"), check("Probe GPU", "failure", { completedAt })], LANE_ON);
    expect(ended(T0 + 58 * MINUTE).decision).toBe("wait");
    expect(ended(T0 + 58 * MINUTE - 1).decision).toBe("fail");
  });

  it("for ever on a draft: neither green nor red", () => {
    const result = judge(GREEN, { draft: true, now: T0 + 10 * AGGREGATION_LIMIT_MS });
    expect(result).toMatchObject({ decision: "wait", draft: true });
  });
});

describe("the table", () => {
  it("says that the probe failed, not only that the job is missing", () => {
    const probe = check("Probe GPU", "failure");
    const result = judge([...without("Coverage GPU"), probe, check("Coverage GPU", "skipped")], LANE_ON);
    const row = result.rows.find(({ name }) => name === "Coverage GPU");
    expect(row).toMatchObject({ kind: "lane", state: "skipped", accepted: false });
    expect(row?.why).toContain("its probe `Probe GPU` ended failure");
    expect(result.failedProbes).toEqual([{ name: "Coverage GPU", probe: "Probe GPU", conclusion: "failure" }]);
    expect(judge([...without("Coverage GPU"), probe]).failedProbes).toEqual([]);
  });

  it("calls a lane that is off NOT RUN, never passed or skipped", () => {
    const row = judge([...without("Coverage GPU"), check("Coverage GPU", "skipped")]).rows[1];
    expect(row).toMatchObject({ state: "NOT RUN", accepted: true });
  });

  it("cannot be broken by a check's name", () => {
    const rules = { ...RULES, required: ["a | b\n| <img> | @everyone"] };
    const table = aggregatorTable(judge([], { rules }));
    expect(table.split("\n")).toHaveLength(3);
    expect(table).not.toMatch(/<img>|@everyone/u);
  });

  it("leaves undecided rows open while it waits", () => {
    const result = judge([...without("Docs"), check("Docs", null)]);
    expect(result.rows.map(({ accepted }) => accepted)).toEqual([null, true, true]);
  });
});

it("a name that is a property of every object is only a name", () => {
  const rules = { ...RULES, required: ["constructor", "toString"] };
  const result = judge([], { rules });
  expect(result.decision).toBe("pass");
  expect(result.rows.map(({ kind, state }) => [kind, state])).toEqual([
    ["ordinary", "absent"],
    ["ordinary", "absent"],
  ]);
});
