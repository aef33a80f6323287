/**
 * Whose pod is this? Asked by the reaper about pods that it sees in RunPod's list and that name this gate's repository.
 *
 * The list is older than the answer: a pod that was proven gone after the list began is still in it. Such a pod is
 * somebody's who has done their work, not a stray.
 */
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { Millis } from "../../shared/ports.ts";
import { retentionOf } from "./retention.ts";
import type { LedgerLine, Store } from "./store.ts";

export interface PodQuestion {
  readonly podId: string;
  /** As the pod's tags name it; null when only its id is known. */
  readonly attemptId: string | null;
}

export interface PodStanding {
  /** `current`: somebody here looks after it. `closed`: its attempt is over. `unknown`: never heard of. */
  readonly kind: "current" | "closed" | "unknown";
  /** Since when we have paid for it, by our own ledger, or when we asked for it; null when we know neither. */
  readonly since: Millis | null;
  /** Somebody's word keeps it: there is a record to read before it is removed. */
  readonly retained?: boolean;
}

/**
 * Takes the question and when the list began that showed the pod. Changes nothing. `readOnly`: newer code wrote what is stored, and
 * will take it up again.
 */
export function podStanding(store: Store, question: PodQuestion, listedAt: Millis, readOnly = false): PodStanding {
  const line = store.ledgerLine(question.podId);
  const since = line?.paid_from ?? null;
  const owner = ownerAmongOpen(store, question);
  if (owner !== undefined) return { kind: "current", since: since ?? askedSince(owner) };
  // What this code cannot read, that code can: a test may run on the pod, which its run's end and the backstop still end.
  if (readOnly && (line === null || line.closed_at === null) && isOfUnreadRequest(store, question, line))
    return { kind: "current", since };
  const stray = store.stray(question.podId);
  // A kept pod whose end has come is nobody's any more, should its own removal not begin.
  const kept = retentionOf(store, question.podId);
  if (kept !== null) return { kind: kept.until > listedAt ? "current" : "closed", since, retained: true };
  if (stray !== null && (stray.done_at === null || stray.done_at >= listedAt)) return { kind: "current", since };
  if (line !== null) {
    const goneSince = line.proven_at ?? line.closed_at;
    return { kind: goneSince !== null && goneSince >= listedAt ? "current" : "closed", since };
  }
  const known = question.attemptId !== null && store.attempt(question.attemptId) !== null;
  return { kind: known || stray !== null ? "closed" : "unknown", since };
}

/** Whether the ledger, or the attempt that the pod names, is of a request that has not ended and does not read. */
function isOfUnreadRequest(store: Store, { attemptId }: PodQuestion, line: LedgerLine | null): boolean {
  const attempt = attemptId === null ? null : store.attempt(attemptId);
  const id = line?.request_id ?? attempt?.requestId ?? "";
  return store.isParked(id, "open");
}

/** The open request whose attempt has this pod, or may yet turn out to have it. */
function ownerAmongOpen(store: Store, { podId, attemptId }: PodQuestion): GateRequest | undefined {
  return store.openRequests().find((request) => {
    const attempt = "attempt" in request.state ? request.state.attempt : null;
    return attempt?.pod?.id === podId || (attemptId !== null && mayYetHave(request, attemptId));
  });
}

/**
 * A create whose answer is not here yet may have bought any pod that names its attempt. Once the look-up has ended without
 * one, the name is closed, although what is left of the attempt may take minutes more: nobody would take a late pod over.
 */
export function mayYetHave({ state }: GateRequest, attemptId: string): boolean {
  if (state.kind !== "provisioning" || state.step === "teardown") return false;
  return state.attempt !== null && state.attempt.pod === null && state.attempt.id === attemptId;
}

/**
 * When the pod was asked for that has no line yet: RunPod's own time of it may be missing or not read, and a newborn must not
 * count as old then.
 */
function askedSince({ state }: GateRequest): Millis | null {
  return state.kind === "provisioning" ? (state.attempt?.createSentAt ?? state.stepSince) : null;
}
