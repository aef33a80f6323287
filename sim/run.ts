/** Running one seed, and making a failing one as small as it gets. */
import type { Coverage } from "./coverage.ts";
import { checkersFor } from "./checkers/index.ts";
import { planFaults, type FaultKind } from "./faults.ts";
import { World, type Violation } from "./world.ts";

export interface RunOptions {
  readonly seed: number;
  readonly only: ReadonlySet<FaultKind> | null;
  readonly without: ReadonlySet<FaultKind>;
  readonly maxPulls: number;
  readonly maxRepositories: number;
  readonly keepTrace: boolean;
}

export interface RunResult {
  readonly seed: number;
  readonly violation: Violation | null;
  readonly digest: string;
  readonly coverage: Coverage;
  readonly events: number;
  readonly calls: number;
  readonly concluded: number;
  readonly pods: number;
  readonly virtualMs: number;
  readonly faults: readonly FaultKind[];
  readonly trace: readonly string[];
}

/** The healed world is given this long to come to rest: two lifetimes of a pod behind a full queue. */
const HEAL_MS = 12 * 3_600_000;

export const DEFAULT_RUN = {
  only: null,
  without: new Set<FaultKind>(),
  maxPulls: 9,
  maxRepositories: 2,
  keepTrace: false,
};

export async function runSeed(options: RunOptions): Promise<RunResult> {
  const plan = planFaults(options.seed, options.only, options.without);
  const world = new World({
    plan,
    keepTrace: options.keepTrace,
    maxPulls: options.maxPulls,
    maxRepositories: options.maxRepositories,
    checkers: checkersFor(),
  });
  const began = world.now;
  try {
    world.trace.note(
      `${plan.scene === null ? "" : `scene: ${plan.scene}; `}faults: ${[...plan.weights].map(([kind, weight]) => `${kind} x${weight.toFixed(2)}`).join(", ") || "none"}`,
    );
    await world.run(HEAL_MS);
    for (const [kind, times] of world.faults.struck) world.coverage.faults.set(kind, times);
    return {
      seed: options.seed,
      violation: world.violation,
      digest: world.trace.digest(),
      coverage: world.coverage,
      events: world.scheduler.events,
      calls: world.net.calls,
      concluded: world.coverage.concluded,
      pods: world.runpod.pods.length,
      virtualMs: world.now - began,
      faults: [...world.faults.struck.keys()],
      trace: world.trace.text(),
    };
  } finally {
    world.close();
  }
}

export interface Shrunk {
  readonly options: RunOptions;
  readonly result: RunResult;
  readonly runs: number;
}

/** Fewer pull requests, fewer repositories, fewer kinds of fault, as long as the same checker still objects. */
export async function shrink(failed: RunResult, from: RunOptions, maxRuns = 150): Promise<Shrunk> {
  let best = from;
  let result = failed;
  let runs = 0;
  const fails = async (options: RunOptions): Promise<boolean> => {
    if (runs >= maxRuns) return false;
    runs += 1;
    const tried = await runSeed(options);
    if (tried.violation?.checker !== failed.violation?.checker) return false;
    best = options;
    result = tried;
    return true;
  };
  for (const maxPulls of [1, 2, 3, 4, 5, 6, 8]) {
    if (maxPulls < best.maxPulls && (await fails({ ...best, maxPulls }))) break;
  }
  if (best.maxRepositories > 1) await fails({ ...best, maxRepositories: 1 });
  // Halves first, then one by one.
  let kinds = [...result.faults];
  const keepOnly = (keep: readonly FaultKind[]): RunOptions => ({ ...best, only: new Set(keep) });
  for (let size = Math.ceil(kinds.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < kinds.length;) {
      const rest = [...kinds.slice(0, at), ...kinds.slice(at + size)];
      if (await fails(keepOnly(rest))) kinds = rest;
      else at += size;
    }
  }
  return { options: best, result, runs };
}
