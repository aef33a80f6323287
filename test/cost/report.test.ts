import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { REASON_CODES } from "../../shared/audit/reasons.ts";
import { configFrom } from "../../shared/config/load.ts";
import { costMarkdown } from "../../shared/cost/markdown.ts";
import { costReport, stageRulesOf, type CostFacts, type CostJobs, type ToldCost } from "../../shared/cost/report.ts";
import { stageOf } from "../../shared/cost/stage-cost.ts";
import { groupCosts, totalCosts } from "../../shared/cost/summary.ts";

const T0 = Date.UTC(2026, 10, 30, 12);

function facts(more: Partial<CostFacts> = {}): CostFacts {
  return {
    about: {
      attemptId: "r1-1",
      podId: "p1",
      requestId: "r1",
      attemptNumber: 1,
      prNumber: 7,
      headSha: "a".repeat(40),
      testedSha: "b".repeat(40),
      outcome: "tests-passed",
      accepted: true,
    },
    place: { gpu: "NVIDIA L4", tier: "cheap", dataCenter: "EU-RO-1" },
    prices: { preDelete: 0.36, startup: 0.36, list: 0.4 },
    paidFrom: T0,
    deletedAt: T0 + 100_000,
    provenAt: T0 + 110_000,
    createMs: 800,
    ...more,
  };
}

const step = (name: string, from: number | null, to: number | null, conclusion = "success") => ({
  name,
  conclusion,
  startedAt: from === null ? null : T0 + from,
  completedAt: to === null ? null : T0 + to,
});

function jobs(
  steps: readonly ReturnType<typeof step>[],
  from: number | null = 20_000,
  to: number | null = 90_000,
): CostJobs {
  const times = { startedAt: from === null ? null : T0 + from, completedAt: to === null ? null : T0 + to };
  return {
    jobs: [{ name: "GPU tests", conclusion: "success", ...times, steps }],
    rules: stageRulesOf(configFrom()),
    observations: { cached: null },
  };
}

describe("the report of a pod", () => {
  it("cuts the window from our create's answer to DELETE's answer by the job's own steps", () => {
    const read = jobs([
      step("Download the archives", 20_000, 30_000),
      step("Run GPU tests", 30_000, 85_000),
      step("Report", 85_000, 90_000),
    ]);
    const report = costReport(facts(), read);
    expect(report.stages).toEqual([
      { name: "runner_startup_and_queue", durationMs: 20_000, cost: 2000 },
      { name: "cleanup_and_queue", durationMs: 10_000, cost: 1000 },
      { name: "archive_transfer", durationMs: 10_000, cost: 1000 },
      { name: "tests", durationMs: 55_000, cost: 5500 },
      { name: "other_setup", durationMs: 5_000, cost: 500 },
      { name: "unassigned_overhead", durationMs: 0, cost: 0 },
    ]);
    expect(report).toMatchObject({
      paidMs: 100_000,
      cost: 10_000,
      pricePerHour: 0.36,
      priceSource: "pod",
      gpuJob: "success",
    });
  });

  it("adds up to the window and to its cost for any times and any price", () => {
    const time = fc.option(fc.integer({ min: -50_000, max: 200_000 }), { nil: null });
    const anyStep = fc.tuple(fc.constantFrom("Run GPU tests", "Download the archives", "else"), time, time);
    fc.assert(
      fc.property(
        fc.array(anyStep, { maxLength: 12 }),
        time,
        time,
        fc.double({ min: 0.01, max: 4, noNaN: true }),
        fc.option(fc.tuple(time, time), { nil: null }),
        (steps, from, to, price, seen) => {
          const read = jobs(
            steps.map(([name, a, b]) => step(name, a, b)),
            from,
            to,
          );
          const [machineAt, containerAt] = (seen ?? []).map((at) => (at === null ? null : T0 + at));
          const boot = seen === null ? null : { machineAt: machineAt ?? null, containerAt: containerAt ?? null };
          const report = costReport(facts({ prices: { preDelete: price, startup: null, list: null }, boot }), read);
          const sum = (of: (stage: NonNullable<typeof report.stages>[number]) => number) =>
            (report.stages ?? []).reduce((total, stage) => total + of(stage), 0);
          expect(sum((stage) => stage.durationMs)).toBe(100_000);
          expect(sum((stage) => stage.cost ?? 0)).toBe(report.cost);
          for (const stage of report.stages ?? []) expect(stage.durationMs).toBeGreaterThanOrEqual(0);
        },
      ),
    );
  });

  describe("N135: tells the pull of the image from the rest of the start", () => {
    const stagesOf = (boot: CostFacts["boot"], read: CostJobs | null) => {
      const { stages, flags } = costReport(facts({ boot: boot ?? null }), read);
      return { stages: Object.fromEntries((stages ?? []).map((one) => [one.name, one.durationMs])), flags };
    };
    const at = (machine: number | null, container: number | null) => ({
      machineAt: machine === null ? null : T0 + machine,
      containerAt: container === null ? null : T0 + container,
    });
    const ran = jobs([step("Run GPU tests", 20_000, 90_000)]);
    const queued = jobs([step("Run GPU tests", 90_000, 90_000, "cancelled")], 20_000, 90_000);
    const none = { ...queued, jobs: queued.jobs.map((job) => ({ ...job, runnerId: null })) };

    it.each<[string, ReturnType<typeof at>, CostJobs | null, Record<string, number>, string[]]>([
      [
        "of a pod that had its job",
        at(3_000, 15_000),
        ran,
        { machine_assignment: 3_000, image_pull: 12_000, runner_startup_and_queue: 5_000, tests: 70_000 },
        [],
      ],
      [
        "with the machine already there at the create's answer",
        at(-500, 15_000),
        ran,
        { image_pull: 15_000, runner_startup_and_queue: 5_000 },
        [],
      ],
      [
        "which began with the paid time when the machine was first seen behind the container",
        at(16_000, 15_000),
        ran,
        { image_pull: 15_000, runner_startup_and_queue: 5_000 },
        ["image-pull-with-machine"],
      ],
      [
        "never longer than until the job started",
        at(0, 60_000),
        ran,
        { image_pull: 20_000, runner_startup_and_queue: 0 },
        [],
      ],
      [
        "not at all when the container was not seen and a job ran",
        at(0, null),
        ran,
        { runner_startup_and_queue: 20_000 },
        ["image-pull-unknown"],
      ],
      [
        "of a pod without a job, whatever times GitHub gives to one that was cancelled in the queue",
        at(3_000, 15_000),
        none,
        { machine_assignment: 3_000, image_pull: 12_000, unassigned_overhead: 85_000 },
        [],
      ],
      [
        "until the end when nothing was ever heard of the container",
        at(3_000, null),
        none,
        { machine_assignment: 3_000, image_pull: 97_000, unassigned_overhead: 0 },
        ["image-pull-unfinished"],
      ],
      [
        "not at all of a pod that nobody saw",
        at(null, null),
        none,
        { unassigned_overhead: 100_000 },
        ["image-pull-unknown"],
      ],
      ["not yet while the jobs are not read", at(0, null), null, { unassigned_overhead: 100_000 }, ["jobs-not-read"]],
    ])("%s", (_what, boot, read, stages, flags) => {
      const told = stagesOf(boot, read);
      expect(told.stages).toMatchObject(stages);
      expect(told.flags).toEqual(flags);
      const pull = Object.keys(stages).filter((name) => name === "image_pull" || name === "machine_assignment");
      expect(Object.keys(told.stages).filter((name) => /pull|machine/.test(name))).toEqual(pull);
      expect(Object.values(told.stages).reduce((sum, ms) => sum + ms, 0)).toBe(100_000);
    });

    it("and shows it on the check", () => {
      expect(costMarkdown([costReport(facts({ boot: at(3_000, 15_000) }), ran)])).toContain("| image pull | 12.0 |");
    });
  });

  it("takes the start's snapshot when the last record is missing, then the list price, and says which", () => {
    expect(costReport(facts({ prices: { preDelete: null, startup: 0.5, list: 0.4 } }), null)).toMatchObject({
      pricePerHour: 0.5,
      priceSource: "pod",
      recordSource: "startup",
    });
    expect(costReport(facts({ prices: { preDelete: null, startup: null, list: 0.4 } }), null)).toMatchObject({
      pricePerHour: 0.4,
      priceSource: "list",
      recordSource: null,
    });
  });

  it("leaves an unknown price unknown, never zero", () => {
    const report = costReport(facts({ prices: { preDelete: null, startup: null, list: null } }), null);
    expect(report).toMatchObject({ pricePerHour: null, cost: null, paidMs: 100_000 });
    expect(report.flags).toContain("price-unknown");
    expect(costMarkdown([report])).toContain("| **Paid** | **100.0** | **unknown** |");
  });

  it("flags jobs that were not read, and says nothing about the job then", () => {
    expect(costReport(facts(), null)).toMatchObject({ gpuJob: null, flags: ["jobs-not-read"], observations: {} });
  });

  it("lets a configured stage name a test step first", () => {
    const config = configFrom({ version: 1, costs: { stages: [{ stage: "doc_tests", steps: ["Run GPU tests"] }] } });
    const rules = stageRulesOf(config);
    expect(stageOf("Run GPU tests", rules.steps)).toBe("doc_tests");
    expect(stageOf("Run GPU tests", stageRulesOf(configFrom()).steps)).toBe("tests");
  });
});

describe("the cost on the check", () => {
  it("shows the last pod by stages and the ones before it in a line each, with no markup from outside", () => {
    const before = costReport(
      facts({ about: { ...facts().about, podId: "p0", outcome: "bad-host", accepted: false } }),
      null,
    );
    const evil = facts({ place: { gpu: "<img src=x>|`a`", tier: "@everyone", dataCenter: null } });
    const text = costMarkdown([before, costReport(evil, jobs([]))]);
    expect(text).toContain("| p0 | NVIDIA L4 | 100.0 | $0.0100 | bad-host |");
    expect(text).not.toMatch(/(?<!\\)<img/);
    expect(text).not.toMatch(/(?<!\\)@everyone/);
    expect(text).toContain("cached: unknown");
    expect(text).toContain("place unknown");
  });

  it("is empty while there is nothing to tell", () => {
    expect(costMarkdown([])).toBe("");
  });
});

describe("sums over many pods", () => {
  const told = (more: Partial<ToldCost>): ToldCost => ({
    ...costReport(facts(), null),
    repositoryId: "101",
    verdict: { kind: "passed", reason: "tests-passed" },
    decisive: true,
    billed: null,
    ...more,
  });
  const costs = [
    told({}),
    told({ podId: "p2", gpu: "NVIDIA A40", accepted: false, decisive: false, outcome: "bad-host", cost: 3_000 }),
    told({ podId: "p3", verdict: { kind: "failed", reason: "tests-failed" }, prNumber: 8, billed: 9_990 }),
    told({
      podId: "p4",
      cost: null,
      decisive: false,
      verdict: null,
      requestId: null,
      prNumber: null,
      outcome: "reap-unknown-pod",
    }),
    // Its request is still open: not yet known to be wasted.
    told({ podId: "p5", decisive: false, verdict: null, prNumber: 9, outcome: "pod-lost", cost: 1 }),
  ];

  it("name cost per success, cost of rejected machines and seconds paid for nothing", () => {
    expect(totalCosts(costs)).toEqual({
      key: "all",
      pods: 5,
      successes: 1,
      cost: 23_001,
      unpriced: 1,
      costPerSuccess: 23_001,
      rejected: 1,
      rejectedCost: 3_000,
      paidMs: 500_000,
      wastedMs: 200_000,
      billed: 9_990,
      billedPods: 1,
    });
  });

  it("group by GPU, pull request and reason, the dearest first; no success is no cost per success", () => {
    expect(groupCosts(costs, "gpu").map((group) => [group.key, group.pods, group.costPerSuccess])).toEqual([
      ["NVIDIA L4", 4, 20_001],
      ["NVIDIA A40", 1, null],
    ]);
    expect(groupCosts(costs, "pr").map((group) => group.key)).toEqual([
      "101#7",
      "101#8",
      "101#9",
      "101 without a pull request",
    ]);
    expect(groupCosts(costs, "reason").map((group) => group.key)).toEqual([
      "tests-failed",
      "tests-passed",
      "bad-host",
      "pod-lost",
      "reap-unknown-pod",
    ]);
  });

  it("N159: every reason there is counts for itself alone, as a machine's end and as a verdict", () => {
    const cents = (at: number): number => (at + 1) * 10_000;
    const asEnd = REASON_CODES.map((code, at) =>
      told({ podId: `e${at}`, outcome: code, verdict: null, decisive: false, accepted: false, cost: cents(at) }),
    );
    // What the pod itself ended as is another word, and must not be the one that is counted.
    const asVerdict = REASON_CODES.map((code, at) =>
      told({ podId: `v${at}`, outcome: "no reason", verdict: { kind: "failed", reason: code }, cost: cents(at) }),
    );
    for (const one of [asEnd, asVerdict]) {
      const groups = groupCosts(one.toReversed(), "reason");
      expect(new Map(groups.map(({ key, pods, cost }) => [key, [pods, cost]]))).toEqual(
        new Map(REASON_CODES.map((code, at) => [code, [1, cents(at)]])),
      );
    }
    const both = groupCosts([...asEnd, ...asVerdict], "reason");
    expect(both.map(({ pods }) => pods)).toEqual(REASON_CODES.map(() => 2));
  });
});
