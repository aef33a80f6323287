/**
 * Where a pod's paid time went: the stage report that is written after the deletion is proven.
 *
 * The paid window runs from the pod's start to its proven deletion. The GPU job's own times cut it into start-up, the
 * steps by the names of the rules, and clean-up; `unassigned_overhead` closes the sum, so the stages add up to the window
 * exactly, to the microsecond and to the micro-dollar. What is unknown stays null. Doubtful times are flagged and
 * cleared up in the least surprising way; they never cost the report, and never the verdict.
 *
 * Start-up itself is cut by when the pod had a machine and when its container began, as far as both are known: RunPod bills
 * from the rent on, the pull of the image included, and says neither when it begins nor when it ends (runpod-facts quirks 9
 * and 11). A machine's own time cannot be told from the pull where it was first seen together with the container.
 *
 * Instants and durations here are whole microseconds, the finest that any provider writes.
 */
import { MICRO_PER_USD, type MicroUsd } from "./estimate.ts";
import type { PodCostRecord } from "./record.ts";

const HOUR_MICROS = 3_600_000_000;
/** Rounding of provider times may push the stages past the window by this much without meaning anything. */
const EXCESS_ALLOWANCE_MICROS = 1_000;

/** A rule names its steps exactly, or by words: every word of `all` and one of `any`, in any case. First match wins. */
export type StepRule =
  | { readonly stage: string; readonly names: readonly string[] }
  | { readonly stage: string; readonly all: readonly string[]; readonly any: readonly string[] };

export interface StageRules {
  /** The GPU job's name ends with this (GitHub puts the caller's name before a called workflow's job). */
  readonly gpuJobNameEndsWith: string;
  readonly steps: readonly StepRule[];
}

/** The rules of the product's own execute workflow; a configuration adds the names of its test steps. */
export function defaultStageRules(testStepNames: readonly string[], gpuJobNameEndsWith = "GPU tests"): StageRules {
  return {
    gpuJobNameEndsWith,
    steps: [
      { stage: "tests", names: testStepNames },
      { stage: "archive_transfer", all: ["archive"], any: ["restore", "download", "transfer"] },
      { stage: "runtime_setup", all: [], any: ["runtime", "toolkit", "sdk", "payload", "driver"] },
    ],
  };
}

export interface JobTimes {
  readonly name: string;
  readonly conclusion: string | null;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
  readonly steps: readonly StepTimes[];
  /** The runner it was given to; null: to none. Left out where GitHub was not asked. */
  readonly runnerId?: string | null;
}

export interface StepTimes {
  readonly name: string;
  readonly conclusion: string | null;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
}

/** How a pod came up. Null: nobody saw it. */
export interface BootTimes {
  readonly machineAt: number | null;
  readonly containerAt: number | null;
}

export interface StageCostInput {
  readonly record: PodCostRecord;
  readonly gpuTypeId: string;
  readonly deletedAt: number | null;
  /** The jobs of the attempt's own run; an empty list for a pod that was never given a job. */
  readonly jobs: readonly JobTimes[];
  readonly rules: StageRules;
  /** Left out: the pull of the image is part of the start-up. */
  readonly boot?: BootTimes | null;
}

export type StageFlag =
  | "price-unknown"
  | "window-unknown"
  | "window-negative"
  | "several-gpu-jobs"
  | "job-times-unknown"
  | "step-times-unknown"
  | "steps-overlap"
  | "stages-exceed-window"
  /** A step that ended before it started, or lay outside the window: left out. */
  | "step-left-out"
  /** When the container began was not seen: the pull of its image is not told from the rest. */
  | "image-pull-unknown"
  /** The machine was first seen together with the container: `image_pull` begins with the paid time. */
  | "image-pull-with-machine"
  /** Nothing was ever heard of the container: `image_pull` lasts until the pod's end. */
  | "image-pull-unfinished";

export interface Stage {
  readonly name: string;
  readonly durationMicros: number;
  /** Null while the price is unknown. */
  readonly cost: MicroUsd | null;
}

export interface StageReport {
  readonly podId: string | null;
  readonly gpuTypeId: string;
  readonly startedAt: number | null;
  readonly deletedAt: number | null;
  /** Dollars per hour: the adjusted price, else the list price. */
  readonly pricePerHour: number | null;
  readonly priceSource: "adjusted" | "list" | null;
  readonly paidMicros: number | null;
  readonly cost: MicroUsd | null;
  /** The GPU job's conclusion; `not_run` when it has no job; null while GitHub names none. */
  readonly gpuJobConclusion: string | null;
  /** Null when the window is unknown; else their durations and costs sum to `paidMicros` and `cost`. */
  readonly stages: readonly Stage[] | null;
  readonly flags: readonly StageFlag[];
}

/** The report of one pod. Never fails: what cannot be known is null, what looks wrong is in `flags`. */
export function stageCost(input: StageCostInput): StageReport {
  const { record, deletedAt } = input;
  const flags = new Set<StageFlag>();
  const pricePerHour = record.adjustedPrice ?? record.listPrice;
  if (pricePerHour === null) flags.add("price-unknown");
  const window = windowOf(record.startedAt, deletedAt, flags);
  const gpuJobs = input.jobs.filter(
    (job) => job.name.endsWith(input.rules.gpuJobNameEndsWith) && job.conclusion !== "skipped",
  );
  if (gpuJobs.length > 1) flags.add("several-gpu-jobs");
  const job = gpuJobs.length === 1 ? gpuJobs[0] : undefined;

  const paidMicros = window === null ? null : window.end - window.begin;
  const durations = window === null ? null : cut(window, job, input, flags);
  return {
    podId: record.podId,
    gpuTypeId: input.gpuTypeId,
    startedAt: record.startedAt,
    deletedAt,
    pricePerHour,
    priceSource: pricePerHour === null ? null : record.adjustedPrice === null ? "list" : "adjusted",
    paidMicros,
    cost: paidMicros === null || pricePerHour === null ? null : costAt(pricePerHour, paidMicros),
    gpuJobConclusion: gpuJobs.length === 0 ? "not_run" : (job?.conclusion ?? null),
    stages: durations === null ? null : priced(durations, pricePerHour),
    flags: [...flags],
  };
}

/** The stage that a step belongs to; `other_setup` when no rule knows it. */
export function stageOf(stepName: string, rules: readonly StepRule[]): string {
  const lower = stepName.toLowerCase();
  const has = (word: string) => lower.includes(word.toLowerCase());
  const rule = rules.find((candidate) =>
    "names" in candidate
      ? candidate.names.includes(stepName)
      : candidate.all.every(has) && (candidate.any.length === 0 || candidate.any.some(has)),
  );
  return rule?.stage ?? "other_setup";
}

interface Window {
  readonly begin: number;
  readonly end: number;
}

function windowOf(begin: number | null, end: number | null, flags: Set<StageFlag>): Window | null {
  if (begin === null || end === null) {
    flags.add("window-unknown");
    return null;
  }
  if (end < begin) {
    flags.add("window-negative");
    return { begin, end: begin };
  }
  return { begin, end };
}

/** Cuts the window into stages: name -> microseconds, in the order met, `unassigned_overhead` last. */
function cut(
  window: Window,
  job: JobTimes | undefined,
  { rules, boot = null }: StageCostInput,
  flags: Set<StageFlag>,
): ReadonlyMap<string, number> {
  const paid = window.end - window.begin;
  const stages = new Map<string, number>();
  const add = (name: string, micros: number) => stages.set(name, (stages.get(name) ?? 0) + micros);
  if (job !== undefined && (job.startedAt === null || job.completedAt === null)) flags.add("job-times-unknown");
  // GitHub gives times to a job that was cancelled in the queue as well: it never had the machine.
  const queued = boot !== null && job?.runnerId === null;
  if (job === undefined || job.startedAt === null || job.completedAt === null || queued) {
    addBoot(window, window.end, boot, true, add, flags);
    return stages.set("unassigned_overhead", paid - sum(stages));
  }
  const ready = Math.max(window.begin, Math.min(job.startedAt, window.end));
  const up = addBoot(window, ready, boot, false, add, flags);
  add("runner_startup_and_queue", ready - up);
  add("cleanup_and_queue", Math.max(0, window.end - Math.max(job.completedAt, window.begin)));
  let previous = window.begin;
  for (const step of job.steps) {
    if (step.conclusion === "skipped") continue;
    if (step.startedAt === null || step.completedAt === null) {
      flags.add("step-times-unknown");
      continue;
    }
    const begin = Math.max(window.begin, step.startedAt);
    const end = Math.min(window.end, step.completedAt);
    if (end < begin) {
      flags.add("step-left-out");
      continue;
    }
    if (begin < previous) flags.add("steps-overlap");
    // Time that two steps claim belongs to the earlier one: no second is paid twice.
    add(stageOf(step.name, rules.steps), Math.max(0, end - Math.max(begin, previous)));
    previous = Math.max(previous, end);
  }
  const remainder = paid - sum(stages);
  if (remainder < 0) shrink(stages, -remainder);
  if (remainder < -EXCESS_ALLOWANCE_MICROS) flags.add("stages-exceed-window");
  return stages.set("unassigned_overhead", Math.max(0, remainder));
}

/**
 * The stages before the container began; gives when that was, or the window's begin where it cannot be told. `ready`: when
 * the job had its runner, or the window's end. `last`: no job followed, so what never ended lasted until then.
 */
function addBoot(
  window: Window,
  ready: number,
  boot: BootTimes | null,
  last: boolean,
  add: (name: string, micros: number) => void,
  flags: Set<StageFlag>,
): number {
  if (boot === null) return window.begin;
  const { machineAt, containerAt } = boot;
  if (containerAt === null && (machineAt === null || !last)) {
    flags.add("image-pull-unknown");
    return window.begin;
  }
  if (containerAt === null) flags.add("image-pull-unfinished");
  const within = (at: number, from: number, to: number) => Math.max(from, Math.min(at, to));
  const up = within(containerAt ?? ready, window.begin, ready);
  if (machineAt === null || machineAt > up) flags.add("image-pull-with-machine");
  else if (machineAt > window.begin) add("machine_assignment", machineAt - window.begin);
  add("image_pull", up - (machineAt === null || machineAt > up ? window.begin : within(machineAt, window.begin, up)));
  return up;
}

/** Takes what the stages have too much from the longest ones, so that the report still adds up. */
function shrink(stages: Map<string, number>, excess: number): void {
  let left = excess;
  for (const [name, micros] of [...stages].toSorted((a, b) => b[1] - a[1])) {
    const taken = Math.min(left, micros);
    stages.set(name, micros - taken);
    left -= taken;
  }
}

/** Prices the stages by the difference of running totals: each is within a micro-dollar, and the sum is the whole. */
function priced(durations: ReadonlyMap<string, number>, pricePerHour: number | null): readonly Stage[] {
  let elapsed = 0;
  return [...durations].map(([name, durationMicros]) => {
    const before = elapsed;
    elapsed += durationMicros;
    const cost = pricePerHour === null ? null : costAt(pricePerHour, elapsed) - costAt(pricePerHour, before);
    return { name, durationMicros, cost };
  });
}

function costAt(pricePerHour: number, micros: number): MicroUsd {
  return Math.round((micros * pricePerHour * MICRO_PER_USD) / HOUR_MICROS);
}

function sum(stages: ReadonlyMap<string, number>): number {
  return [...stages.values()].reduce((total, micros) => total + micros, 0);
}
