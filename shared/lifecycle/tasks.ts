/**
 * Tasks: what the gate does outside itself, as data, and what each can come back with.
 *
 * `decide` asks for a task; the shell stores it, then performs it, and its outcome returns as an event. A task may be
 * performed more than once (a crash between the call and the record of its answer), so each kind says what a repeat
 * means: `again` is harmless to perform once more, `lost` is not and comes back as its own ambiguous outcome, which the
 * core answers with a look-up.
 */
import * as z from "zod";
import type { CodesOf } from "../audit/reasons.ts";
import type { Millis } from "../ports.ts";
import type { PodStatus } from "../runpod/pod.ts";
import { candidateSchema, runRefSchema, type Admission, type Plan, type Terms, type HeldBy } from "./model.ts";
import type { Actor } from "./signal.ts";

const wantSchema = z.object({
  pull: z.number().int().positive().optional(),
  /**
   * `by`: the account whose runs count, alone or, with `orAnybodys`, before those of others; left out: anybody's. Of the others
   * those of `author` come first.
   */
  triggerRun: z
    .object({
      path: z.string(),
      headSha: z.string(),
      by: z.string().optional(),
      orAnybodys: z.boolean().optional(),
      author: z.string().optional(),
    })
    .optional(),
  prepareRun: runRefSchema.optional(),
  preGate: z.object({ headSha: z.string(), names: z.array(z.string()) }).optional(),
  job: z.object({ run: runRefSchema, jobName: z.string() }).optional(),
  pod: z.object({ id: z.string() }).optional(),
  runner: z.object({ id: z.string() }).optional(),
});

export type Want = z.infer<typeof wantSchema>;

const attemptId = z.string();

export const taskSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("authorize") }),
  z.object({ kind: z.literal("observe"), want: wantSchema }),
  /**
   * `sent`: whether the call that starts the run may have left. It becomes true right before that call, which several reads
   * come before. Absent: stored before there was this word, so it may have.
   */
  z.object({ kind: z.literal("dispatch-prepare"), sent: z.boolean().optional() }),
  z.object({ kind: z.literal("find-prepare") }),
  z.object({ kind: z.literal("recheck") }),
  z.object({ kind: z.literal("plan") }),
  z.object({ kind: z.literal("reserve"), attemptId, micros: z.number().int() }),
  z.object({ kind: z.literal("mint"), attemptId, runnerName: z.string(), label: z.string() }),
  z.object({ kind: z.literal("find-runner"), runnerName: z.string(), label: z.string() }),
  z.object({ kind: z.literal("dispatch-execute"), attemptId }),
  z.object({ kind: z.literal("find-execute"), attemptId }),
  z.object({
    kind: z.literal("create-pod"),
    attemptId,
    podName: z.string(),
    candidate: candidateSchema,
    timeoutMs: z.number(),
  }),
  z.object({
    kind: z.literal("look-up-pod"),
    podName: z.string(),
    /** The pod a proof named meanwhile: asked for by id when no list shows it. */
    podId: z.string().nullable(),
    notBefore: z.number(),
  }),
  z.object({ kind: z.literal("sleep") }),
  z.object({ kind: z.literal("deregister"), runnerId: z.string() }),
  /** `logs`: the pod was rejected, so its last words are read as well. */
  z.object({ kind: z.literal("read-record"), podId: z.string(), logs: z.boolean().optional() }),
  z.object({ kind: z.literal("delete-pod"), podId: z.string() }),
  z.object({ kind: z.literal("verify-gone"), podId: z.string() }),
  z.object({ kind: z.literal("list-pods"), podId: z.string(), notBefore: z.number() }),
  z.object({ kind: z.literal("cancel-run"), run: runRefSchema }),
  z.object({ kind: z.literal("read-run"), run: runRefSchema }),
  z.object({ kind: z.literal("settle"), attemptId, micros: z.number().int().nullable() }),
]);

export type Task = z.infer<typeof taskSchema>;
export type TaskKind = Task["kind"];

/** What to do with a task found half-done after a crash. A new kind does not compile until it has said so. */
export const onRepeat: Readonly<Record<TaskKind, "again" | "lost">> = {
  authorize: "again",
  observe: "again",
  // A second dispatch is a second run: looked up by its run name instead.
  "dispatch-prepare": "lost",
  "find-prepare": "again",
  recheck: "again",
  plan: "again",
  // The account answers idempotently by attempt id.
  reserve: "again",
  // A repeated mint answers 409, and the first answer's config is gone: found by name, removed, minted anew.
  mint: "lost",
  "find-runner": "again",
  "dispatch-execute": "lost",
  "find-execute": "again",
  // There is no idempotency key at RunPod: looked up by the attempt's unique name.
  "create-pod": "lost",
  "look-up-pod": "again",
  sleep: "again",
  deregister: "again",
  "read-record": "again",
  "delete-pod": "again",
  "verify-gone": "again",
  "list-pods": "again",
  "cancel-run": "again",
  "read-run": "again",
  settle: "again",
};

/**
 * Whether a task that was begun and not finished is looked up instead of done again: its call may have been sent, and a second
 * one would be a second run, runner or pod. One that certainly was not is done again.
 */
export function isLookedUp(task: Task): boolean {
  return onRepeat[task.kind] === "lost" && !(task.kind === "dispatch-prepare" && task.sent === false);
}

/** A fact that could be read, or why it could not. Unknown is neither idle nor success (I11). */
export type Seen<T> =
  | { readonly known: true; readonly value: T }
  | { readonly known: false; readonly why: string; readonly retryAt: Millis | null };

export interface PullFacts {
  readonly open: boolean;
  readonly headSha: string;
  readonly baseRef: string;
  readonly headRepositoryId: string | null;
  readonly draft: boolean;
}

export interface PrepareFacts {
  readonly status: string;
  readonly conclusion: string | null;
  readonly failedJobs: readonly string[];
  readonly artifacts: readonly {
    readonly id: string;
    readonly name: string;
    readonly digest: string | null;
    readonly expiresAt: Millis | null;
  }[];
  readonly url: string;
}

export type PreGateFacts =
  | { readonly kind: "ready" }
  | { readonly kind: "wait"; readonly for: readonly string[] }
  | { readonly kind: "failed"; readonly names: readonly string[] };

export interface StepFacts {
  readonly name: string;
  readonly status: string;
  readonly conclusion: string | null;
}

export interface JobFacts {
  readonly id: string;
  readonly status: string;
  readonly conclusion: string | null;
  readonly runnerId: string | null;
  readonly startedAt: Millis | null;
  readonly completedAt: Millis | null;
  readonly steps: readonly StepFacts[];
  readonly url: string;
  /** From the job's one notice annotation; null until it is there and reads well. */
  readonly evidence: { readonly tests: number; readonly seconds: number | null } | null;
  readonly failures: readonly string[];
  /** GitHub said that the check which carries the annotations is not there. Left out when they were read. */
  readonly checkGone?: boolean;
}

export interface ExecuteFacts {
  readonly runStatus: string;
  readonly runConclusion: string | null;
  readonly latestAttempt: number;
  readonly job: JobFacts | null;
}

export interface PodFacts {
  readonly id: string;
  readonly name: string;
  readonly status: PodStatus;
  readonly gpuId: string | null;
  readonly gpuCount: number | null;
  readonly cloud: "SECURE" | "COMMUNITY" | null;
  readonly dataCenterId: string | null;
  readonly machineAssigned: boolean;
  /** Null: the answer says nothing about the container. */
  readonly runtimeUp: boolean | null;
  /** True when RunPod's own metrics show neither GPU nor CPU at work; null when it does not say. */
  readonly idle: boolean | null;
  readonly pricePerHour: number | null;
  readonly startedAt: Millis | null;
}

export interface PodSighting {
  /** Null: a complete list did not show it. */
  readonly pod: PodFacts | null;
  /** GET by id said 404 or TERMINATED. Only asked when the list did not show it. */
  readonly getGone: boolean;
}

export interface Observation {
  readonly pull?: Seen<PullFacts | "gone">;
  readonly triggerRun?: Seen<{ readonly runId: string; readonly status: string; readonly actor: Actor } | null>;
  readonly prepareRun?: Seen<PrepareFacts | "gone">;
  readonly preGate?: Seen<PreGateFacts>;
  readonly job?: Seen<ExecuteFacts | "gone">;
  readonly pod?: Seen<PodSighting>;
  readonly runner?: Seen<{ readonly online: boolean; readonly busy: boolean } | "gone">;
}

export type AuthorizeOutcome =
  | { readonly kind: "unknown"; readonly why: string; readonly retryAt: Millis | null }
  | {
      readonly kind: "refused";
      readonly reason: CodesOf<"refused">;
      readonly detail: string;
      readonly terms: Terms | null;
      /** Another pull request at the commit, for whose sake alone it is refused. */
      readonly heldBy?: HeldBy;
    }
  /** Nobody waits for the answer any more: the pull request is not open, or the merge group was dissolved. */
  | { readonly kind: "closed"; readonly terms: Terms | null }
  /** A merge group with a commit or a member that has no green gate of its own. */
  | { readonly kind: "members"; readonly detail: string; readonly terms: Terms }
  /** The identical tree passed under the same rules. `admission` is what would have been tested. */
  | { readonly kind: "reuse"; readonly detail: string; readonly terms: Terms; readonly admission: Admission }
  | { readonly kind: "moved"; readonly headSha: string; readonly terms: Terms | null }
  | { readonly kind: "admitted"; readonly terms: Terms; readonly admission: Admission };

export type RecheckOutcome =
  | AuthorizeOutcome
  /** What was prepared no longer fits. `terms` and `admission` are those of now, which the next preparation uses. */
  | {
      readonly kind: "stale-inputs";
      readonly why: string;
      /** An artifact is gone; else it is the rules that are others now. */
      readonly artifactsMissing?: true;
      readonly terms: Terms;
      readonly admission: Admission;
    };

export type PlanOutcome =
  | { readonly kind: "planned"; readonly plan: Plan }
  | { readonly kind: "refused"; readonly reason: CodesOf<"infrastructure">; readonly detail: string }
  | { readonly kind: "unknown"; readonly why: string; readonly retryAt: Millis | null };

export type DispatchOutcome =
  | { readonly kind: "dispatched"; readonly runId: string }
  /** `artifactsMissing`: nothing was asked, since the preparation's archives are not there. */
  | { readonly kind: "refused"; readonly why: string; readonly artifactsMissing?: true }
  /** Certainly not done (rate limit): may be sent again at `retryAt`. */
  | { readonly kind: "not-sent"; readonly why: string; readonly retryAt: Millis | null }
  | { readonly kind: "lost" };

export type FindRunOutcome =
  | { readonly kind: "found"; readonly runId: string }
  | { readonly kind: "none" }
  | { readonly kind: "unknown"; readonly why: string };

export type ReserveOutcome =
  | { readonly kind: "reserved" }
  /** Left out: over a cap of the budget. */
  | { readonly kind: "over-cap"; readonly because?: "buying-paused" | "deletion-blocks"; readonly detail: string }
  | { readonly kind: "unknown"; readonly why: string };

export type MintOutcome =
  | {
      readonly kind: "minted";
      readonly runnerId: string;
      readonly proofHash: string;
      readonly exitHash: string;
    }
  | { readonly kind: "conflict" }
  | { readonly kind: "refused"; readonly why: string }
  | { readonly kind: "retry"; readonly why: string; readonly retryAt: Millis | null }
  | { readonly kind: "lost" };

export type FindRunnerOutcome =
  | { readonly kind: "cleared" }
  | { readonly kind: "not-ours"; readonly why: string }
  | { readonly kind: "unknown"; readonly why: string };

export type CreateOutcome =
  | { readonly kind: "created"; readonly pod: PodFacts; readonly sentAt: Millis; readonly elapsedMs: Millis }
  | { readonly kind: "capacity"; readonly elapsedMs: Millis }
  | { readonly kind: "rate-limited"; readonly retryAfterMs: Millis | null; readonly elapsedMs: Millis }
  | {
      readonly kind: "ambiguous";
      readonly why: string;
      readonly retryAfterMs: Millis | null;
      readonly sentAt: Millis;
      readonly elapsedMs: Millis;
    }
  | { readonly kind: "skip"; readonly why: "invalid" | "pool"; readonly detail: string; readonly elapsedMs: Millis }
  | {
      readonly kind: "stop";
      readonly reason: CodesOf<"infrastructure">;
      readonly detail: string;
      readonly elapsedMs: Millis;
    }
  /** The pull request moved or closed: no create was sent. */
  | { readonly kind: "obsolete"; readonly which: "closed" | "head-moved" | "base-moved" }
  /** The pull request could not be read, which is no yes (I11): no create was sent. */
  | { readonly kind: "unread"; readonly why: string; readonly retryAt: Millis | null }
  /** The account does not stand behind it now: no create was sent. */
  | { readonly kind: "held-back"; readonly because: "buying-paused" | "account-unreachable"; readonly detail: string }
  /** The runner's single-use configuration lived in memory only and is gone: no create was sent. */
  | { readonly kind: "secret-lost" }
  /** The request was told to end while it was looked at: no create was sent. */
  | { readonly kind: "stopped" };

export type LookUpOutcome =
  | {
      readonly kind: "listed";
      readonly startedAt: Millis;
      readonly complete: boolean;
      readonly pods: readonly PodFacts[];
    }
  | { readonly kind: "unknown"; readonly why: string };

export type DeregisterOutcome =
  | { readonly kind: "gone" }
  | { readonly kind: "busy" }
  | { readonly kind: "unknown"; readonly why: string };

export type DeleteOutcome =
  /** `at`: when it was gone by somebody else's order; left out: this answer is the first word of it. */
  { readonly kind: "deleted"; readonly at?: Millis } | { readonly kind: "not-found" } | UnknownOfRunPod;

/** `retryAt`: when RunPod's quota allows the next try, where that is why. Such an answer is no failed try. */
export interface UnknownOfRunPod {
  readonly kind: "unknown";
  readonly why: string;
  readonly retryAt?: Millis;
}

export type CancelOutcome =
  | { readonly kind: "accepted" }
  | { readonly kind: "completed" }
  /** The last read showed another attempt, or the run is gone: not ours to cancel. */
  | { readonly kind: "not-ours" }
  | { readonly kind: "unknown"; readonly why: string };

/** The outcome of each task kind. */
export interface Outcomes {
  readonly authorize: AuthorizeOutcome;
  readonly observe: Observation;
  readonly "dispatch-prepare": DispatchOutcome;
  readonly "find-prepare": FindRunOutcome;
  readonly recheck: RecheckOutcome;
  readonly plan: PlanOutcome;
  readonly reserve: ReserveOutcome;
  readonly mint: MintOutcome;
  readonly "find-runner": FindRunnerOutcome;
  readonly "dispatch-execute": DispatchOutcome;
  readonly "find-execute": FindRunOutcome;
  readonly "create-pod": CreateOutcome;
  readonly "look-up-pod": LookUpOutcome;
  readonly sleep: { readonly sleptMs: Millis };
  readonly deregister: DeregisterOutcome;
  /** `said`: the line of the pod's log that says most about its end, made fit to be shown. */
  readonly "read-record": { readonly pricePerHour: number | null; readonly said?: string | null };
  readonly "delete-pod": DeleteOutcome;
  readonly "verify-gone": { readonly kind: "gone" } | { readonly kind: "alive" } | UnknownOfRunPod;
  readonly "list-pods":
    | { readonly kind: "listed"; readonly startedAt: Millis; readonly complete: boolean; readonly alive: boolean }
    | UnknownOfRunPod;
  readonly "cancel-run": CancelOutcome;
  readonly "read-run":
    | { readonly kind: "completed" | "running" | "gone" }
    | { readonly kind: "unknown"; readonly why: string };
  readonly settle: { readonly kind: "settled" } | { readonly kind: "unknown"; readonly why: string };
}

/** A task's end as an event: kind and outcome belong together. */
export type Done = { [K in TaskKind]: { readonly task: K; readonly outcome: Outcomes[K] } }[TaskKind];
