/**
 * Everything that can go wrong, by name. Each run draws from its seed which kinds are on and how often each strikes (swarm
 * testing): a run with two wild faults finds what a run with sixty mild ones hides.
 */
import { Prng } from "./prng.ts";

/** The kinds, grouped by who suffers. Chances stand where a fault is drawn; a weight multiplies them. */
export const FAULT_KINDS = [
  // Calls to GitHub.
  "github-refuses",
  "github-done-but-500",
  "github-done-but-dropped",
  "github-unreachable",
  "github-hangs",
  "github-slow",
  "github-half-answer",
  "github-rate-limit",
  "github-outage",
  "github-quota",
  "github-list-lag",
  "github-tokens-die",
  "github-mint-refused",
  // Calls to RunPod.
  "runpod-refuses",
  "runpod-done-but-500",
  "runpod-done-but-dropped",
  "runpod-unreachable",
  "runpod-hangs",
  "runpod-slow",
  "runpod-half-answer",
  "runpod-rate-limit",
  "runpod-outage",
  "runpod-capacity",
  "runpod-capacity-everywhere",
  "runpod-balance",
  "runpod-invalid",
  "runpod-pool-forbidden",
  "runpod-image-refused",
  "runpod-contract-moved",
  "runpod-list-lag",
  "runpod-newborn-404",
  "runpod-late-pod",
  "runpod-lives-on",
  "runpod-delete-fails",
  "runpod-balance-gone",
  "runpod-capacity-out",
  "runpod-key-revoked",
  // Our own platform.
  "crash-gate",
  "crash-account",
  "newer-schema",
  "older-schema",
  "record-unreadable",
  "object-fails",
  "object-done-but-lost",
  "alarm-lost",
  "alarm-late",
  "alarm-twice",
  "cron-lost",
  "clock-skew",
  "registry-fails",
  "registry-down",
  "account-down",
  // Webhooks and pod calls.
  "hook-dropped",
  "hook-unlisted",
  "hook-delayed",
  "hook-doubled",
  "pod-call-lost",
  "pod-call-doubled",
  // Machines.
  "pod-never-boots",
  "pod-no-machine",
  "pod-wrong-gpu",
  "pod-wrong-proof",
  "pod-restart-loop",
  "pod-exits-early",
  "pod-vanishes",
  "pod-error",
  "pod-runner-silent",
  "pod-runner-refused",
  "pod-slow",
  "pod-lost-mid-job",
  // Jobs and runs.
  "job-fails",
  "job-without-evidence",
  "job-too-short",
  "job-skips-tests",
  "job-hangs",
  "job-stranger",
  "job-not-assigned",
  "prepare-fails",
  "prepare-startup-failure",
  "prepare-slow",
  "prepare-no-artifacts",
  "artifacts-expire",
  "pre-gate-fails",
  "trigger-late",
  "trigger-never",
  "dispatch-without-id",
  "run-vanishes",
  "run-cancel-slow",
  // People.
  "head-moves",
  "head-moves-back",
  "pull-closes",
  "pull-reopens",
  "pull-draft",
  "base-changes",
  "user-reruns",
  "user-cancels",
  "user-rerequests",
  "operator-stops",
  "role-revoked",
  "config-changes",
  "workflow-changes",
  "small-budget",
  "config-breaks",
  "merge-conflict",
  "fork-deleted",
  "empty-commit",
  "strange-author",
  // The App's place in a repository.
  "app-suspended",
  "app-removed",
  "app-forbidden",
  "repository-archived",
  "repository-renamed",
  "repository-deleted",
  // Rarer ways to use the product, each of which may meet all of the above.
  "merge-queue",
  "group-destroyed",
  "recovery",
  "validation",
  "keep-words",
  "keep-always",
  "operator-acts",
  "operator-pauses",
  "organization-runners",
  "own-lanes",
  "tight-limits",
  "shadow",
] as const;

export type FaultKind = (typeof FAULT_KINDS)[number];

export interface FaultPlan {
  readonly seed: number;
  /** Kinds that are on, with their weight. */
  readonly weights: ReadonlyMap<FaultKind, number>;
}

/** Which faults belong together, by the beginning of their names; the first that fits. What is on no list is a way of use. */
const THEMES: Readonly<Record<string, readonly string[]>> = {
  github: ["github-"],
  runpod: ["runpod-"],
  ours: ["crash-", "newer-", "older-", "record-", "object-", "alarm-", "cron-", "clock-", "registry-", "account-"],
  words: ["hook-", "pod-call-"],
  machines: ["pod-"],
  jobs: ["job-", "prepare-", "artifacts-", "pre-gate-", "trigger-", "dispatch-", "run-"],
  people: ["head-", "pull-", "base-", "user-", "role-", "config-", "workflow-", "merge-conflict", "fork-", "strange-"],
  places: ["app-", "repository-"],
  ways: [""],
};

function themeOf(kind: FaultKind): string {
  const found = Object.entries(THEMES).find(([, starts]) => starts.some((start) => kind.startsWith(start)));
  return found?.[0] ?? "ways";
}

/** The plan of a seed. `only`: these kinds and no others; `without`: all but these. */
export function planFaults(
  seed: number,
  only: ReadonlySet<FaultKind> | null,
  without: ReadonlySet<FaultKind>,
): FaultPlan {
  const rng = new Prng(seed, "fault plan");
  // A calm run now and then: what works must be seen to work, and success needs a quiet hour. Mostly a few themes are hot
  // and the rest is nearly quiet, so that a request comes far enough to meet them.
  const density = rng.weighted({ none: 1, themes: 7, few: 2, some: 2, most: 1 });
  const share = { none: 0, themes: 0.03, few: 0.08, some: 0.3, most: 0.8 }[density];
  const hot = new Set(
    Object.keys(THEMES).filter((theme) => rng.chance(PAID.has(theme) ? 0.4 : 0.25) && density === "themes"),
  );
  const weights = new Map<FaultKind, number>();
  for (const kind of FAULT_KINDS) {
    const on = rng.chance(hot.has(themeOf(kind)) ? HOT : share);
    const weight = Math.exp((rng.next() * 2 - 0.8) * 1.8);
    if (only === null ? !on : !only.has(kind)) continue;
    if (!without.has(kind)) weights.set(kind, weight);
  }
  return { seed, weights };
}

/** What only a request that rents a machine can meet, which many do not come to. */
const PAID: ReadonlySet<string> = new Set(["machines", "jobs"]);

/** How many kinds of a hot theme are on. */
const HOT = 0.4;

export class Faults {
  readonly plan: FaultPlan;
  readonly struck = new Map<FaultKind, number>();
  /** True: the world is healing, and nothing new goes wrong. */
  healed = false;
  readonly #streams = new Map<FaultKind, Prng>();

  constructor(plan: FaultPlan) {
    this.plan = plan;
  }

  on(kind: FaultKind): boolean {
    return !this.healed && this.plan.weights.has(kind);
  }

  /** Whether this fault strikes now, with `chance` times its weight. */
  strikes(kind: FaultKind, chance: number): boolean {
    const weight = this.plan.weights.get(kind);
    if (this.healed || weight === undefined) return false;
    if (!this.stream(kind).chance(Math.min(0.9, chance * weight))) return false;
    this.struck.set(kind, (this.struck.get(kind) ?? 0) + 1);
    return true;
  }

  /** The fault's own chance, so that switching it off shifts nothing else. */
  stream(kind: FaultKind): Prng {
    let stream = this.#streams.get(kind);
    if (stream === undefined) {
      stream = new Prng(this.plan.seed, `fault ${kind}`);
      this.#streams.set(kind, stream);
    }
    return stream;
  }
}
