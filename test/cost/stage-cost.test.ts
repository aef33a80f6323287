import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { chooseRecord, readPodRecord, type PodCostRecord } from "../../shared/cost/record.ts";
import { defaultStageRules, stageCost, stageOf, type JobTimes, type StepTimes } from "../../shared/cost/stage-cost.ts";

const SECOND = 1_000_000;
const T0 = Date.UTC(2026, 10, 30, 12) * 1000;
const RULES = defaultStageRules(["Run GPU tests"]);

const RECORD: PodCostRecord = {
  podId: "pod1",
  startedAt: T0,
  adjustedPrice: 0.36,
  listPrice: 0.44,
  machineId: null,
  dataCenterId: "EU-RO-1",
};

function step(name: string, from: number, to: number, conclusion = "success"): StepTimes {
  return { name, conclusion, startedAt: T0 + from * SECOND, completedAt: T0 + to * SECOND };
}

function job(steps: StepTimes[], from = 60, to = 260): JobTimes {
  return { ...step("Execute / GPU tests", from, to), steps };
}

function report(jobs: JobTimes[], more: Partial<PodCostRecord> = {}, paid = 300) {
  const deletedAt = T0 + paid * SECOND;
  return stageCost({ record: { ...RECORD, ...more }, gpuTypeId: "NVIDIA A40", deletedAt, jobs, rules: RULES });
}

function seconds(result: ReturnType<typeof report>): Record<string, number> {
  return Object.fromEntries((result.stages ?? []).map(({ name, durationMicros }) => [name, durationMicros / SECOND]));
}

describe("stages", () => {
  it("cut the paid window by the job's own times and close it with the unassigned rest", () => {
    const result = report([
      job([
        step("Set up job", 60, 65),
        step("Download test archives", 65, 85),
        step("Install the CUDA runtime", 85, 95),
        step("Run GPU tests", 100, 250),
      ]),
    ]);
    expect(seconds(result)).toEqual({
      runner_startup_and_queue: 60,
      cleanup_and_queue: 40,
      other_setup: 5,
      archive_transfer: 20,
      runtime_setup: 10,
      tests: 150,
      unassigned_overhead: 15,
    });
    expect(result).toMatchObject({ cost: 30_000, priceSource: "adjusted", gpuJobConclusion: "success", flags: [] });
  });

  it("a pod that never had its job is all unassigned", () => {
    expect(seconds(report([]))).toEqual({ unassigned_overhead: 300 });
    const skipped = { ...job([]), conclusion: "skipped" };
    expect(report([skipped]).gpuJobConclusion).toBe("not_run");
  });

  it("skipped steps take no time", () => {
    expect(seconds(report([job([step("Run GPU tests", 60, 260, "skipped")])]))["tests"]).toBeUndefined();
  });

  it("N148: times that overlap, run backwards or are missing are flagged and never fatal", () => {
    const overlap = report([job([step("Set up job", 60, 100), step("Run GPU tests", 90, 200)])]);
    expect(overlap.flags).toEqual(["steps-overlap"]);
    expect(seconds(overlap)).toMatchObject({ other_setup: 40, tests: 100 });

    const backwards = report([job([step("Run GPU tests", 200, 100)])]);
    expect(backwards.flags).toEqual(["step-left-out"]);

    const timeless = report([job([{ ...step("Run GPU tests", 60, 70), completedAt: null }])]);
    expect(timeless.flags).toEqual(["step-times-unknown"]);

    const negative = report([], {}, -1);
    expect(negative).toMatchObject({ paidMicros: 0, cost: 0, flags: ["window-negative"] });

    const two = report([job([]), job([])]);
    expect(two).toMatchObject({ flags: ["several-gpu-jobs"], gpuJobConclusion: null });
  });

  it("unknown stays unknown: no price gives times without costs, no start gives neither", () => {
    const free = report([job([])], { adjustedPrice: null, listPrice: null });
    expect(free).toMatchObject({ cost: null, pricePerHour: null, paidMicros: 300 * SECOND, flags: ["price-unknown"] });
    expect(free.stages?.every(({ cost }) => cost === null)).toBe(true);
    expect(report([job([])], { startedAt: null })).toMatchObject({
      cost: null,
      paidMicros: null,
      stages: null,
      flags: ["window-unknown"],
    });
  });

  it("the list price stands in for an adjusted price that is missing", () => {
    expect(report([], { adjustedPrice: null })).toMatchObject({ pricePerHour: 0.44, priceSource: "list" });
  });

  it("always sum to the paid window and the whole cost, whatever the times", () => {
    const time = fc.option(fc.integer({ min: -50, max: 400 }), { nil: null });
    const anyStep = fc.record({
      name: fc.constantFrom("Run GPU tests", "Download archive", "x"),
      from: time,
      to: time,
    });
    fc.assert(
      fc.property(
        fc.array(anyStep, { maxLength: 6 }),
        time,
        time,
        fc.integer({ min: 0, max: 400 }),
        (steps, a, b, end) => {
          const at = (value: number | null) => (value === null ? null : T0 + value * SECOND + 7);
          const result = report(
            [
              {
                name: "GPU tests",
                conclusion: "success",
                startedAt: at(a),
                completedAt: at(b),
                steps: steps.map(({ name, from, to }) => ({
                  name,
                  conclusion: "success",
                  startedAt: at(from),
                  completedAt: at(to),
                })),
              },
            ],
            {},
            end,
          );
          const stages = result.stages ?? [];
          expect(stages.reduce((sum, { durationMicros }) => sum + durationMicros, 0)).toBe(result.paidMicros);
          expect(stages.reduce((sum, { cost }) => sum + (cost ?? 0), 0)).toBe(result.cost);
          expect(stages.every(({ durationMicros, cost }) => durationMicros >= 0 && (cost ?? 0) >= 0)).toBe(true);
        },
      ),
    );
  });

  it("rules are tried in order: an exact test name wins over a word in it", () => {
    const rules = defaultStageRules(["Run tests from the archive download"]).steps;
    expect(stageOf("Run tests from the archive download", rules)).toBe("tests");
    expect(stageOf("Restore ARCHIVE", rules)).toBe("archive_transfer");
    expect(stageOf("Log archive source", rules)).toBe("other_setup");
  });
});

describe("the record that tells the cost", () => {
  const good = { id: "pod1", startedAt: "2026-11-30T12:00:00Z", cost: 0.36 };
  const input = { podId: "pod1", deletedAt: T0 + SECOND };
  const json = (more: object) => JSON.stringify({ ...good, ...more });

  it("is the one read before the deletion, else the snapshot of the start", () => {
    const both = chooseRecord({ ...input, preDelete: json({}), startup: json({ cost: 0.9 }) });
    expect(both).toMatchObject({ ok: true, value: { source: "pre_delete", record: { adjustedPrice: 0.36 } } });
    const late = chooseRecord({ ...input, preDelete: null, startup: json({ cost: 0.9 }) });
    expect(late).toMatchObject({ ok: true, value: { source: "startup", record: { adjustedPrice: 0.9 } } });
  });

  it.each([
    ["null", null, "missing"],
    ["no JSON", "{", "unreadable"],
    ["a list", "[]", "unreadable"],
    ["another pod's", json({ id: "pod2" }), "other-pod"],
    ["without a start", json({ startedAt: null }), "no-start"],
    ["with an unreadable start", json({ startedAt: "yesterday" }), "no-start"],
    ["without a price", json({ cost: null }), "no-price"],
    ["of a stopped pod", json({ cost: 0 }), "no-price"],
    ["with a price that is true", json({ cost: true }), "no-price"],
    ["that starts after the deletion", json({ startedAt: "2026-11-30T12:00:02Z" }), "window-negative"],
  ])("is not one that is %s", (_, kept, problem) => {
    const result = chooseRecord({ ...input, preDelete: kept, startup: null });
    expect(result).toMatchObject({ ok: false, error: { tried: [{ problem }, { problem: "missing" }] } });
  });

  it("takes the catalog's price where the record has none, and says that it is the list's", () => {
    const result = chooseRecord({ ...input, preDelete: json({ cost: 0 }), startup: null, catalogPrice: 0.5 });
    expect(result).toMatchObject({ ok: true, value: { record: { adjustedPrice: null, listPrice: 0.5 } } });
  });

  it("reads old records by their v1 names and Go's times", () => {
    expect(
      readPodRecord({
        id: "p",
        lastStartedAt: "2026-11-30 12:00:00.5 +0000 UTC",
        adjustedCostPerHr: 0.3,
        costPerHr: 0.4,
        machineId: "m",
        machine: { dataCenterId: "dc" },
      }),
    ).toEqual({
      podId: "p",
      startedAt: T0 + SECOND / 2,
      adjustedPrice: 0.3,
      listPrice: 0.4,
      machineId: "m",
      dataCenterId: "dc",
    });
  });
});
