/**
 * The reaper's decision about one pod. Pure: what is known comes in, one of six answers goes out.
 *
 * A pod that is not proven ours is never touched. For the rest two ways lead to deletion, and they do not need each other:
 * - its owner is done: the run's attempt is superseded, completed for the grace period, or gone twice with no live
 *   request; or the attempt was closed before the pod appeared; or no gate knows the pod, seen twice a cycle apart;
 * - it is too old: the backstop counts from creation, and needs neither GitHub nor any gate's memory.
 *
 * Unknown is neither: a failed read leaves a young pod alone and is reported. An age that cannot be told counts as old.
 */
import type { CodesOf } from "../audit/reasons.ts";
import type { Millis } from "../ports.ts";
import { unreachable } from "../result.ts";

export interface ReapLimits {
  /** From creation; whatever any other system says. */
  readonly backstopMs: Millis;
  /** What a completed owner's own clean-up is given first. */
  readonly completedGraceMs: Millis;
  /** The longest life of a retained pod, from creation, whatever its record says. */
  readonly maxRetentionMs: Millis;
  /** Two observations of the same suspicion must be at least this far apart: one cycle of the reaper. */
  readonly observationGapMs: Millis;
}

export const DEFAULT_REAP_LIMITS: ReapLimits = {
  backstopMs: 7_200_000,
  completedGraceMs: 300_000,
  maxRetentionMs: 10_800_000,
  // Cron is on the minute, give or take some seconds.
  observationGapMs: 45_000,
};

/** The run attempt that a pod was bought for, as its tags or our ledger say. */
export interface OwnerRef {
  readonly runId: string;
  readonly attempt: number;
  /** Where the run must live: `.github/workflows/execute.yml`, without a ref. */
  readonly workflowPath: string;
  /** As GitHub writes it: the id as text, or `owner/name` where only that is known. */
  readonly repository: string;
}

export type RunView =
  | {
      readonly kind: "read";
      readonly runId: string;
      readonly attempt: number;
      readonly status: string;
      readonly workflowPath: string;
      readonly repository: string;
      readonly updatedAt: Millis | null;
    }
  /** GitHub answered 404. */
  | { readonly kind: "gone" }
  /** GitHub gave no usable answer, or was not asked. */
  | { readonly kind: "unknown"; readonly what: string };

export type GateView =
  /** An open request holds this pod. */
  | { readonly kind: "live" }
  /** The gate knows the attempt, and closed it without this pod. */
  | { readonly kind: "closed-attempt" }
  /** The gate answered, and knows nothing of it. */
  | { readonly kind: "unknown-pod" }
  /** No gate was asked, or it did not answer. */
  | { readonly kind: "unreachable" };

export type RetentionView =
  | { readonly kind: "none" }
  | { readonly kind: "until"; readonly until: Millis }
  | { readonly kind: "unreadable"; readonly what: string }
  /** Nobody has looked yet; the decision asks for it when it matters. */
  | { readonly kind: "not-read" };

export type Suspicion = "run-gone" | "unknown-pod";

/** What an earlier sweep saw; only the same suspicion, seen again, counts. */
export interface Observation {
  readonly suspicion: Suspicion;
  readonly firstSeenAt: Millis;
}

export interface ReapInput {
  /** Decided by the tags and the ledger before anything else; see `shared/runpod/tags.ts`. */
  readonly own: boolean;
  /** The provider's creation time; null when it is missing or cannot be read. */
  readonly createdAt: Millis | null;
  /** When we sent the create, from our own ledger; null when no ledger knows. */
  readonly ownCreatedAt: Millis | null;
  /** Null when nothing names a run: the pod then lives by its gate and its age alone. */
  readonly owner: OwnerRef | null;
  readonly run: RunView;
  readonly gate: GateView;
  /** The tag that asks for keeping, or the gate's word that somebody asked. It exempts nothing; it says to look. */
  readonly keepAsked: boolean;
  readonly retention: RetentionView;
  readonly observed: Observation | null;
  readonly now: Millis;
  readonly limits: ReapLimits;
}

export type ReapReason = "superseded" | "completed" | "run-gone" | "unknown-pod" | "late-pod" | "backstop";

export type ReapDecision =
  | { readonly kind: "keep"; readonly why: "not-own" | "active" | "grace" | "retained" | "live-request" }
  | { readonly kind: "reap"; readonly reason: ReapReason }
  /** Suspicious for the first time, or too soon after it: remember `firstSeenAt`, touch nothing. */
  | { readonly kind: "observe"; readonly suspicion: Suspicion; readonly firstSeenAt: Millis }
  /** Would be reaped; read the retention record first and ask again. */
  | { readonly kind: "read-retention"; readonly reason: ReapReason }
  /** Left alone and reported. */
  | { readonly kind: "error"; readonly what: string };

const ACTIVE: ReadonlySet<string> = new Set(["queued", "in_progress", "waiting", "pending", "requested"]);

/** Decides about one pod. The reason of the owner wins over the age, because it says more. */
export function decideReap(input: ReapInput): ReapDecision {
  if (!input.own) return { kind: "keep", why: "not-own" };
  const age = ageOf(input);
  const byOwner = ownersVerdict(input);
  const overdue = age >= input.limits.backstopMs;
  const decision: ReapDecision = byOwner.kind !== "reap" && overdue ? { kind: "reap", reason: "backstop" } : byOwner;
  return decision.kind === "reap" ? spareRetained(decision.reason, age, input) : decision;
}

/** The code of the common list that a reaped pod's audit entry carries. */
export function reapReasonCode(reason: ReapReason): CodesOf<"reap"> {
  switch (reason) {
    case "superseded":
      return "reap-superseded";
    case "completed":
      return "reap-completed";
    case "run-gone":
      return "reap-run-gone";
    case "unknown-pod":
      return "reap-unknown-pod";
    case "late-pod":
      return "reap-late-pod";
    case "backstop":
      return "reap-backstop";
    default:
      return unreachable(reason, "reap reason");
  }
}

/**
 * The earliest time that anybody knows decides: a provider's own start time moves when a container restarts, and ours
 * may have been stored late. Nothing known counts as old.
 */
function ageOf(input: Pick<ReapInput, "createdAt" | "ownCreatedAt" | "now">): Millis {
  const born = Math.min(input.createdAt ?? Infinity, input.ownCreatedAt ?? Infinity);
  return born === Infinity ? Infinity : input.now - born;
}

function ownersVerdict(input: ReapInput): ReapDecision {
  const { gate, owner, run } = input;
  // Its attempt is over, so no job can be on it: deleted at first sight, whatever its run does.
  if (gate.kind === "closed-attempt") return { kind: "reap", reason: "late-pod" };
  const byRun = owner === null ? null : runsVerdict(owner, run, input);
  if (byRun?.kind === "reap") return byRun;
  if (gate.kind === "unknown-pod") return suspect("unknown-pod", input);
  if (byRun !== null) return byRun;
  return gate.kind === "live"
    ? { kind: "keep", why: "live-request" }
    : { kind: "error", what: "neither a gate nor a run says whose pod this is" };
}

function runsVerdict(owner: OwnerRef, run: RunView, input: ReapInput): ReapDecision {
  if (run.kind === "unknown") return { kind: "error", what: run.what };
  if (run.kind === "gone") {
    if (input.gate.kind === "live") return { kind: "keep", why: "live-request" };
    return suspect("run-gone", input);
  }
  if (run.runId !== owner.runId || run.workflowPath !== owner.workflowPath || run.repository !== owner.repository) {
    return { kind: "error", what: "the run that the pod names is not one that buys pods" };
  }
  if (run.attempt < owner.attempt) return { kind: "error", what: "the pod names an attempt that its run has not had" };
  if (run.attempt > owner.attempt) return { kind: "reap", reason: "superseded" };
  if (run.status === "completed") {
    const settled = run.updatedAt === null || input.now - run.updatedAt >= input.limits.completedGraceMs;
    return settled ? { kind: "reap", reason: "completed" } : { kind: "keep", why: "grace" };
  }
  if (ACTIVE.has(run.status)) return { kind: "keep", why: "active" };
  return { kind: "error", what: `the run has the unknown status '${run.status.slice(0, 40)}'` };
}

function suspect(suspicion: Suspicion, input: ReapInput): ReapDecision {
  const { observed, now, limits } = input;
  const firstSeenAt = observed?.suspicion === suspicion ? observed.firstSeenAt : now;
  if (now - firstSeenAt >= limits.observationGapMs) return { kind: "reap", reason: suspicion };
  return { kind: "observe", suspicion, firstSeenAt };
}

/** Only a readable record with time left spares a pod, and never beyond the longest retention from its creation. */
function spareRetained(reason: ReapReason, age: Millis, input: ReapInput): ReapDecision {
  const { retention, limits, now } = input;
  switch (retention.kind) {
    case "none":
      return { kind: "reap", reason };
    case "not-read":
      return input.keepAsked ? { kind: "read-retention", reason } : { kind: "reap", reason };
    case "until": {
      const kept = now < retention.until && age < limits.maxRetentionMs;
      return kept ? { kind: "keep", why: "retained" } : { kind: "reap", reason };
    }
    case "unreadable":
      // Below the backstop a lost record must not cost a maintainer their pod; at the backstop it must not keep it.
      return age >= limits.backstopMs ? { kind: "reap", reason } : { kind: "error", what: retention.what };
    default:
      return unreachable(retention, "retention");
  }
}
