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
  "clock-drifts",
  "clock-is-set",
  "clocks-apart",
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
  "narrow-caps",
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
  // What only a coincidence leads to; most of these are met as part of a scene.
  "few-attempts",
  "tiny-budget",
  "tight-backstop",
  "queue-short",
  "runpod-key-withdrawn",
  "account-overloaded",
  "artifacts-cleaned",
  "gate-down",
  "twin-deployment",
  "runner-deprecated",
  "rerun-at-once",
  "foreign-check",
  "same-head",
  "near-midnight",
  "github-keeps-runner",
  // Identity tokens of hosted jobs, on their way and as others show them; they need somebody to ask.
  "token-expired",
  "token-audience",
  "token-elsewhere",
  "token-replayed",
  "token-attempt",
  "token-forged",
  "token-stranger",
  "job-call-lost",
  "issuer-fails",
  "issuer-down",
  "issuer-rotates",
  "crash-worker",
  "sweep-asked",
  // Other people's pull requests at a head that has one already, what becomes of them, and runs under our runs' names.
  "rival-fork",
  "rival-writer",
  "rival-acts",
  "look-alike-run",
  // Cron's isolate, in the middle of a tick.
  "crash-cron",
  // A push is left alone for a while before anything begins; an open pull request becomes a draft once more.
  "quiet-period",
  "pull-to-draft",
  // An await of the platform that takes its time: cryptography, a body that arrives.
  "await-slow",
  // RunPod shows for a while in its lists, or to a GET, what it has let go.
  "runpod-ghost-listed",
  "runpod-ghost-read",
  // RunPod's clock drifts or is set in the middle of a run; each place of ours has a clock of its own.
  "clock-of-runpod-moves",
  "clocks-of-our-own",
] as const;

export type FaultKind = (typeof FAULT_KINDS)[number];

export interface FaultPlan {
  readonly seed: number;
  /** Kinds that are on, with their weight. */
  readonly weights: ReadonlyMap<FaultKind, number>;
  /** The coincidence that is played, if one is. */
  readonly scene: string | null;
}

/** Which faults belong together, by the beginning of their names; the first that fits. What is on no list is a way of use. */
const THEMES: Readonly<Record<string, readonly string[]>> = {
  github: ["github-", "issuer-"],
  runpod: ["runpod-"],
  ours: [
    "crash-",
    "newer-",
    "older-",
    "record-",
    "object-",
    "alarm-",
    "cron-",
    "clock-",
    "clocks-",
    "await-",
    "registry-",
    "account-",
    "gate-",
    "twin-",
  ],
  words: ["hook-", "pod-call-", "job-call-", "token-"],
  machines: ["pod-", "runner-"],
  jobs: ["job-", "prepare-", "artifacts-", "pre-gate-", "trigger-", "dispatch-", "run-"],
  people: [
    "head-",
    "pull-",
    "base-",
    "user-",
    "role-",
    "config-",
    "workflow-",
    "merge-conflict",
    "fork-",
    "strange-",
    "rerun-",
    "foreign-",
    "rival-",
    "look-",
  ],
  places: ["app-", "repository-"],
  ways: [""],
};

/**
 * Coincidences of everyday life that chance alone hardly brings together: each names its kinds and how heavily they strike
 * (the chance where a fault is drawn times this). All else is nearly quiet in such a run.
 */
export const SCENES: Readonly<Record<string, Readonly<Partial<Record<FaultKind, number>>>>> = {
  "one machine may be tried, and it is a bad one": {
    "few-attempts": 1,
    "pod-no-machine": 3,
    "pod-never-boots": 2,
    "github-keeps-runner": 2,
  },
  "the key is withdrawn while a pod is bought": { "runpod-key-withdrawn": 5 },
  "the account answers others and not us": { "account-overloaded": 5 },
  "artifacts are cleaned up behind us": { "artifacts-cleaned": 3 },
  "GitHub retires the runner's release": { "runner-deprecated": 3 },
  "a merge queue in a hurry": { "merge-queue": 2, "queue-short": 1 },
  "a merge queue that is torn down": { "merge-queue": 2, "group-destroyed": 1.8 },
  "a merge queue with both": { "merge-queue": 2, "group-destroyed": 0.8, "queue-short": 0.8 },
  "somebody else's runner has our label": { "job-stranger": 3, "job-not-assigned": 2 },
  "nothing is free for what follows no pull request": { validation: 2, "runpod-capacity": 2, "runpod-rate-limit": 4 },
  "a job that never ends, on a slow machine": { "tight-backstop": 1, "job-hangs": 4.5, "pod-slow": 2 },
  "hardly any money": { "tiny-budget": 1 },
  "a bot runs again whatever failed": {
    "rerun-at-once": 1,
    "job-fails": 4,
    "runpod-lives-on": 3,
    "runpod-delete-fails": 2,
  },
  "the gate is down, and its run is deleted": { "gate-down": 1, "run-vanishes": 12 },
  "the gate is down for hours, and its job hangs": { "gate-down": 1, "job-hangs": 4.5 },
  "a second deployment under our name": { "twin-deployment": 1 },
  "two pull requests of one commit": { "same-head": 1, "pull-closes": 1, "head-moves": 0.5 },
  "a stranger has the commit too": { "rival-fork": 1.5, "rival-acts": 1, "same-head": 0.3 },
  "three pull requests of one commit": {
    "same-head": 1,
    "rival-fork": 1,
    "rival-writer": 0.8,
    "rival-acts": 1.5,
    "base-changes": 1.5,
  },
  "pull requests of one commit, of which nobody is told": {
    "same-head": 0.8,
    "rival-fork": 0.8,
    "rival-acts": 1.2,
    "pull-closes": 0.5,
    "hook-dropped": 2,
    "hook-unlisted": 2,
    "hook-delayed": 1.5,
  },
  "somebody's run has our run's name": {
    "look-alike-run": 2,
    "dispatch-without-id": 4,
    "github-list-lag": 1.5,
  },
  "RunPod does not let go": { "runpod-lives-on": 4.5, "runpod-delete-fails": 2.5, recovery: 1.8, validation: 1 },
  "a night and its bill": { "near-midnight": 5 },
  "another App's check": { "own-lanes": 2, "foreign-check": 1, "pre-gate-fails": 1.5, "user-reruns": 1 },
  "the rules change under one tree": {
    "config-changes": 1.8,
    "empty-commit": 1.8,
    "pull-closes": 1,
    "pull-reopens": 1.5,
  },
  "somebody collects tokens": {
    recovery: 1.8,
    validation: 1.8,
    "own-lanes": 2,
    "sweep-asked": 1,
    "repository-renamed": 1,
    "token-expired": 1,
    "token-audience": 1,
    "token-elsewhere": 1,
    "token-replayed": 1,
    "token-attempt": 1.5,
    "token-forged": 1,
    "token-stranger": 1.5,
  },
  "the issuer is away": {
    recovery: 1.8,
    validation: 1.8,
    "own-lanes": 2,
    "issuer-fails": 2,
    "issuer-down": 1.2,
    "issuer-rotates": 1.5,
    "job-call-lost": 1,
    "crash-worker": 2,
  },
  "a maintainer does not wait for CI": { recovery: 1.8, "trigger-late": 4.5 },
  "cron is silent, and a scheduled run asks": { "cron-lost": 4.5, "sweep-asked": 1 },
};

/** How many of the runs play a scene. */
const SCENE_SHARE = 0.35;

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
  const share = { none: 0, themes: QUIET, few: 0.08, some: 0.3, most: 0.8 }[density];
  const hot = new Set(
    Object.keys(THEMES).filter((theme) => rng.chance(PAID.has(theme) ? 0.4 : 0.25) && density === "themes"),
  );
  const stage = new Prng(seed, "scene");
  const name = stage.chance(SCENE_SHARE) ? stage.pick(Object.keys(SCENES)) : undefined;
  const scene = name === undefined ? undefined : SCENES[name];
  const weights = new Map<FaultKind, number>();
  for (const kind of FAULT_KINDS) {
    const usual = scene === undefined ? (hot.has(themeOf(kind)) ? HOT : share) : QUIET;
    const on = rng.chance(usual) || scene?.[kind] !== undefined;
    const drawn = Math.exp((rng.next() * 2 - 0.8) * 1.8);
    if (only === null ? !on : !only.has(kind)) continue;
    if (!without.has(kind)) weights.set(kind, scene?.[kind] ?? drawn);
  }
  return { seed, weights, scene: name ?? null };
}

/** What only a request that rents a machine can meet, which many do not come to. */
const PAID: ReadonlySet<string> = new Set(["machines", "jobs"]);

/** How many kinds of a hot theme are on, and how many of one that is not. */
const HOT = 0.4;
const QUIET = 0.03;

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
