/** Feeds the stage-cost corpus to `stageCost`, with upstream's step names as rules. Upstream fails where we flag. */
import { readPodRecord } from "../../../shared/cost/record.ts";
import { stageCost, type JobTimes, type StageFlag, type StageRules } from "../../../shared/cost/stage-cost.ts";
import { parseTimestampMicros } from "../../../shared/time.ts";
import type { CorpusAdapter } from "../adapter.ts";

const RULES: StageRules = {
  gpuJobNameEndsWith: "CUDA GPU tests on RunPod",
  steps: [
    { stage: "cuda_tests", names: ["Run CUDA tests from archive"] },
    { stage: "tutorial", names: ["Run CUDA tutorial artifact"] },
    { stage: "pjrt_tests_and_setup", names: ["Run OpenXLA PJRT E2E tests from archive"] },
    { stage: "archive_transfer", all: ["archive"], any: ["restore", "download", "transfer"] },
    {
      stage: "runtime_setup",
      names: [
        "Select CUDA runtime for driver",
        "Restore cuTENSOR redistributable",
        "Restore CUDA minimal runtime tree",
        "Configure CUDA runtime libraries",
        "Verify loaded NVRTC version",
        "Download staged execution payload",
        "Install staged execution payload",
        "Transfer selected CUDA SDK",
        "Install selected CUDA SDK",
      ],
    },
  ],
};

/** A step that was left out is no error for upstream either; every other doubt is. */
const HARMLESS: ReadonlySet<StageFlag> = new Set(["step-left-out"]);

/** 1e-6 dollars is one micro-dollar, our unit: the last place may differ by rounding. */
const TOLERANCE = 1.000_001e-6;

interface Report {
  pod_id: string | null;
  gpu_type_id: string;
  started_at: string;
  deleted_at: string;
  price_per_hour: number;
  paid_seconds: number;
  estimated_gpu_cost: number;
  gpu_job_conclusion: string | null;
  stages: Record<string, { seconds: number; estimated_gpu_cost: number }>;
}

export const adapter: CorpusAdapter = {
  corpus: "stage-cost",
  run: (testCase) => {
    const expected = testCase["expected"] as { report?: Report; error?: string };
    const record = readPodRecord(testCase["pod"]);
    const report =
      record === null
        ? null
        : stageCost({
            record,
            gpuTypeId: textOf(testCase["gpuTypeId"]),
            deletedAt: micros(testCase["deletedAt"]),
            jobs: (testCase["jobs"] as Record<string, unknown>[]).map(job),
            rules: RULES,
          });
    const faults = report === null ? ["unreadable"] : report.flags.filter((flag) => !HARMLESS.has(flag));
    if (report === null || faults.length > 0 || expected.report === undefined) {
      const pass = faults.length > 0 && expected.report === undefined;
      return { pass, expected, actual: faults.length > 0 ? { error: faults } : report };
    }
    const want = expected.report;
    const stages = Object.fromEntries((report.stages ?? []).map((stage) => [stage.name, stage]));
    const names = new Set([...Object.keys(stages), ...Object.keys(want.stages)]);
    const pass =
      report.podId === (want.pod_id ?? null) &&
      report.gpuTypeId === want.gpu_type_id &&
      report.startedAt === parseTimestampMicros(want.started_at) &&
      report.deletedAt === parseTimestampMicros(want.deleted_at) &&
      near(report.pricePerHour, want.price_per_hour) &&
      near(seconds(report.paidMicros), want.paid_seconds) &&
      near(dollars(report.cost), want.estimated_gpu_cost) &&
      report.gpuJobConclusion === want.gpu_job_conclusion &&
      [...names].every(
        (name) =>
          near(seconds(stages[name]?.durationMicros ?? 0), want.stages[name]?.seconds ?? 0) &&
          near(dollars(stages[name]?.cost ?? 0), want.stages[name]?.estimated_gpu_cost ?? 0),
      );
    return { pass, expected: want, actual: report };
  },
};

function job(raw: Record<string, unknown>): JobTimes {
  const steps = Array.isArray(raw["steps"]) ? (raw["steps"] as Record<string, unknown>[]) : [];
  return { ...times(raw), steps: steps.map(times) };
}

function times(raw: Record<string, unknown>) {
  return {
    name: textOf(raw["name"]),
    conclusion: typeof raw["conclusion"] === "string" ? raw["conclusion"] : null,
    startedAt: micros(raw["started_at"]),
    completedAt: micros(raw["completed_at"]),
  };
}

function micros(value: unknown): number | null {
  return typeof value === "string" ? parseTimestampMicros(value) : null;
}

function seconds(value: number | null): number | null {
  return value === null ? null : value / 1e6;
}

function dollars(value: number | null): number | null {
  return value === null ? null : value / 1e6;
}

function near(actual: number | null, expected: number): boolean {
  return actual !== null && Math.abs(actual - expected) <= TOLERANCE;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
