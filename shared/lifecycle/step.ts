/**
 * What one decision gives back: the next record, the next task, and everything that must change in the same transaction.
 */
import { unreachable } from "../result.ts";
import type { Millis } from "../ports.ts";
import type { Retain } from "./keep.ts";
import type { GateRequest, RequestState } from "./model.ts";
import type { Observation, Task } from "./tasks.ts";
import type { Verdict } from "./verdict.ts";

/** Facts the shell brings to a decision. Randomness comes in as values: the core draws none itself. */
export interface Surroundings {
  readonly now: Millis;
  /** In [0, 1), for back-off. */
  readonly jitter: number;
  /** Fresh and unguessable: the label of a new attempt is made of it. */
  readonly nonce: string;
  readonly deployment: string;
  readonly repositoryId: string;
}

export type LedgerOp =
  | {
      readonly kind: "open";
      readonly attemptId: string;
      readonly podId: string;
      readonly gpuId: string | null;
      readonly tier: string;
      readonly pricePerHour: number | null;
      readonly paidFrom: Millis;
    }
  | {
      readonly kind: "close";
      readonly attemptId: string;
      readonly podId: string;
      readonly closedAt: Millis;
      readonly provenAt: Millis;
      readonly pricePerHour: number | null;
      readonly estimateMicros: number | null;
      readonly outcome: string;
    };

/** A machine on which an attempt failed by the machine's own doing: avoided for a while. */
export interface BadHost {
  readonly attemptId: string;
  readonly gpuUuid: string | null;
  readonly dataCenterId: string | null;
  /** Code of the rejection. */
  readonly why: string;
}

export interface AuditNote {
  /** What was decided or done, in `noun.verb` form. */
  readonly act: string;
  /** A reason code, where the act has one. */
  readonly reason: string | null;
  /** Non-secret facts the decision rested on. */
  readonly facts: Readonly<Record<string, string | number | boolean | null>>;
}

export interface Step {
  readonly request: GateRequest;
  /** The next main task; null leaves the current one as it is (a note was taken, nothing else). */
  readonly task: { readonly task: Task; readonly dueAt: Millis } | null;
  /** Bring a task that is only scheduled forward to now. */
  readonly hurry: boolean;
  readonly lock: "enqueue" | "leave" | "release" | null;
  readonly ledger: readonly LedgerOp[];
  /** Pods that carry our name and that no attempt may keep: removed on their own. `since`: when each was asked for. */
  readonly strays: readonly {
    readonly podId: string;
    readonly why: string;
    readonly since: Millis | null;
    readonly pricePerHour: number | null;
  }[];
  /** A pod that this request gives up without removing it: it is kept for debugging, with an end. */
  readonly retain?: Retain;
  readonly badHosts: readonly BadHost[];
  readonly audit: readonly AuditNote[];
  /** Set when the event changed nothing: why. */
  readonly ignored: string | null;
}

export function ignore(request: GateRequest, why: string): Step {
  return {
    request,
    task: null,
    hurry: false,
    lock: null,
    ledger: [],
    strays: [],
    badHosts: [],
    audit: [],
    ignored: why,
  };
}

/** A note was taken or a scheduled look is brought forward; the main task stays. */
export function noted(request: GateRequest, hurry: boolean, notes: readonly AuditNote[] = []): Step {
  return { request, task: null, hurry, lock: null, ledger: [], strays: [], badHosts: [], audit: notes, ignored: null };
}

export interface Extras {
  readonly lock?: Step["lock"];
  readonly ledger?: readonly LedgerOp[];
  readonly strays?: Step["strays"];
  readonly badHosts?: Step["badHosts"];
  readonly audit?: readonly AuditNote[];
}

/** The request goes on with `state`, and `task` at `dueAt`. */
export function go(request: GateRequest, state: RequestState, task: Task, dueAt: Millis, extras: Extras = {}): Step {
  return {
    request: { ...request, state },
    task: { task, dueAt },
    hurry: false,
    lock: extras.lock ?? null,
    ledger: extras.ledger ?? [],
    strays: extras.strays ?? [],
    badHosts: extras.badHosts ?? [],
    audit: extras.audit ?? [],
    ignored: null,
  };
}

/** The end: the verdict stands. A request that holds or waits for the lock gives it up in the same transaction. */
export function conclude(request: GateRequest, verdict: Verdict, now: Millis, extras: Extras = {}): Step {
  return {
    request: { ...request, task: null, stop: null, state: { kind: "concluded", at: now, verdict } },
    task: null,
    hurry: false,
    lock: extras.lock ?? lockOnEnd(request.state),
    ledger: extras.ledger ?? [],
    strays: extras.strays ?? [],
    badHosts: extras.badHosts ?? [],
    audit: [
      ...(extras.audit ?? []),
      { act: "request.conclude", reason: verdict.reason, facts: { verdict: verdict.kind, from: request.state.kind } },
    ],
    ignored: null,
  };
}

/** What ending from this state does to the lock. */
function lockOnEnd(state: RequestState): Step["lock"] {
  switch (state.kind) {
    case "queued":
      return "leave";
    case "revalidating":
    case "provisioning":
    case "executing":
      return "release";
    case "cleaning":
      return state.hold === null || state.lockReleased ? null : "release";
    case "preparing":
      return state.hold === null ? null : "release";
    case "received":
    case "authorizing":
    case "waiting":
    case "concluded":
      return null;
    default:
      return unreachable(state, "state");
  }
}

export function audit(act: string, reason: string | null, facts: AuditNote["facts"] = {}): AuditNote {
  return { act, reason, facts };
}

/** Pause before try `tries` (1-based): doubles from one second to a minute, or until the provider said. */
export function backoff(tries: number, now: Millis, retryAt: Millis | null): Millis {
  const pause = Math.min(60_000, 1_000 * 2 ** Math.min(10, Math.max(0, tries - 1)));
  return Math.max(now + pause, retryAt ?? 0);
}

/**
 * When a machine that costs money is looked at again: after the pause, or as soon as GitHub says that it takes calls again, if it
 * refused a part of this look. All that it refused is asked for anew then, and often only the first calls are let through: a look
 * that kept its own rhythm might meet no such moment until its deadline.
 */
export function nextLook(now: Millis, pause: Millis, { pull, job, runner }: Observation): Millis {
  const told = [pull, job, runner].flatMap((part) =>
    part?.known === false && part.retryAt !== null && part.retryAt > now ? [part.retryAt] : [],
  );
  return Math.min(now + pause, ...told);
}

/** As `backoff`, for what is tried over and over since an instant: the pause grows with the wait, from four seconds to a minute. */
export function backoffSince(since: Millis, now: Millis, retryAt: Millis | null): Millis {
  const pause = Math.min(60_000, Math.max(4_000, (now - since) / 4));
  return Math.max(now + Math.round(pause), retryAt ?? 0);
}
