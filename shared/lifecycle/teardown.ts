/**
 * The removal of one attempt: the same for a rejected pod, a finished one and one that never came to be.
 *
 * Order (design 3.2 `cleaning`, I8): the runner first where it could still take a job; then the pod's record, DELETE,
 * and proof of absence; only then the run is cancelled and read until completed; then the runner; then the money.
 * Deletion needs RunPod alone: a silent GitHub may delay the steps behind it, never the deletion.
 *
 * Absence: DELETE answered 204 (404 counts only when the create is old enough), then GET says 404 or TERMINATED, and two
 * complete lists, spaced, both begun after that answer, do not show the pod.
 */
import { unreachable } from "../result.ts";
import type { Millis } from "../ports.ts";
import type { Attempt, Limits, Teardown } from "./model.ts";
import { backoff } from "./step.ts";
import type { Done, Task, UnknownOfRunPod } from "./tasks.ts";

export interface TeardownScope {
  readonly attempt: Attempt | null;
  /** Run to cancel once absence is proven: the attempt's execute run, or a prepare run that nobody needs any more. */
  readonly run: { readonly runId: string; readonly attempt: number } | null;
  /** The job ended by itself, so the run ends by itself: read, not cancelled. */
  readonly jobEnded: boolean;
  /** The pod was rejected: its last words are read together with its record. */
  readonly logs?: boolean;
  readonly limits: Limits;
}

export type TeardownMove =
  | { readonly kind: "task"; readonly teardown: Teardown; readonly task: Task; readonly dueAt: Millis }
  | { readonly kind: "done"; readonly teardown: Teardown };

/** Tries at GitHub-side steps behind the proof before the rest is left to the reconciler: nothing there costs money. */
const TAIL_TRIES = 8;
/** Further tries at a registration that GitHub keeps because a job runs on it. */
const BUSY_TRIES = 1;
/** Least pause behind an exhausted quota: "now" as the time to come again must not become a busy loop. */
const QUOTA_PAUSE_MS = 1_000;
/** Pause before a list is asked for again that began too soon after the one before. */
const TOO_EARLY_MS = 1_000;
/** Tries at deregistering before the deletion of a rejected pod goes on without it. */
const DEREGISTER_FIRST_TRIES = 1;

export function newTeardown(now: Millis): Teardown {
  return {
    step: "record",
    startedAt: now,
    tries: 0,
    deletedAt: null,
    getGone: false,
    listsAbsent: 0,
    lastListAt: null,
    provenAt: null,
    cancelSent: false,
    loud: false,
    recordPrice: null,
  };
}

/**
 * The first move. `deregisterFirst` is for attempts whose runner may still be waiting for a job: a rejected pod, or an
 * attempt whose create was never found (a late pod must find its registration gone).
 */
export function beginTeardown(scope: TeardownScope, deregisterFirst: boolean, now: Millis): TeardownMove {
  const teardown = newTeardown(now);
  if (deregisterFirst && scope.attempt?.runner) return enter("deregister-first", teardown, scope, now);
  return enter("record", teardown, scope, now);
}

/** Goes on behind the proof, after the gate has read what the job said. */
export function resumeTeardown(teardown: Teardown, scope: TeardownScope, now: Millis): TeardownMove {
  return enter("cancel", teardown, scope, now);
}

/** The present step once more: what was stored of its task does not read. */
export function repeatTeardown(teardown: Teardown, scope: TeardownScope, now: Millis): TeardownMove {
  return again(teardown, scope, now, now);
}

/** One finished task further. Outcomes of other task kinds are a programming error of the caller. */
export function advanceTeardown(teardown: Teardown, done: Done, scope: TeardownScope, now: Millis): TeardownMove {
  const limits = scope.limits;
  switch (teardown.step) {
    case "deregister-first": {
      if (done.task !== "deregister") return again(teardown, scope, now, now);
      if (done.outcome.kind === "unknown") {
        const tries = teardown.tries + 1;
        // Nothing is bought for an attempt without a pod until its runner is certainly gone; a pod that exists is
        // deleted without waiting for GitHub.
        if (scope.attempt?.pod === null && tries < TAIL_TRIES) {
          return again({ ...teardown, tries }, scope, now, backoff(tries, now, null));
        }
        if (tries < DEREGISTER_FIRST_TRIES) return again({ ...teardown, tries }, scope, now, backoff(tries, now, null));
      }
      return enter("record", teardown, scope, now);
    }
    case "record": {
      const price = done.task === "read-record" ? done.outcome.pricePerHour : null;
      return enter("delete", { ...teardown, recordPrice: price ?? teardown.recordPrice }, scope, now);
    }
    case "delete": {
      if (done.task !== "delete-pod") return again(teardown, scope, now, now);
      if (done.outcome.kind === "deleted") {
        // An older answer of our own stands behind a time at which the pod was still seen.
        const deletedAt = Math.max(Math.min(done.outcome.at ?? now, now), teardown.deletedAt ?? 0);
        return enter("verify", { ...teardown, deletedAt }, scope, now);
      }
      if (done.outcome.kind === "not-found") {
        const createdAt = scope.attempt?.createSentAt ?? 0;
        const grace = createdAt + limits.newbornGrace;
        // A newborn pod may answer 404 for a while: without an earlier 204 such a 404 proves nothing.
        if (teardown.deletedAt !== null || now >= grace) {
          // Its time is this answer's, not an older 204's: the pod was seen alive since, and lists must be newer than this.
          return enter("verify", { ...teardown, deletedAt: now }, scope, now);
        }
        const tries = teardown.tries + 1;
        return again({ ...teardown, tries }, scope, now, Math.min(grace, now + limits.deleteRetry));
      }
      return unanswered(teardown, done.outcome, scope, now);
    }
    case "verify": {
      if (done.task !== "verify-gone") return again(teardown, scope, now, now);
      if (done.outcome.kind === "gone") return enter("list", { ...teardown, getGone: true }, scope, now);
      if (done.outcome.kind === "alive") {
        const tries = teardown.tries + 1;
        // Accepted and not done: ask again, from the DELETE on.
        return retreat("delete", { ...teardown, tries }, scope, now, now + deletePause(tries, limits));
      }
      return unanswered(teardown, done.outcome, scope, now);
    }
    case "list": {
      if (done.task !== "list-pods") return again(teardown, scope, now, now);
      const outcome = done.outcome;
      // A list that began before the order to delete was answered may show the past: only a newer one counts.
      const older = outcome.kind === "listed" && outcome.startedAt < (teardown.deletedAt ?? now);
      if (outcome.kind === "unknown") return unanswered(teardown, outcome, scope, now);
      if (!outcome.complete || older) {
        const tries = teardown.tries + 1;
        return again({ ...teardown, tries }, scope, now, now + deletePause(tries, limits));
      }
      if (outcome.alive) {
        const tries = teardown.tries + 1;
        const seen: Teardown = { ...teardown, tries, listsAbsent: 0, lastListAt: null, getGone: false };
        return retreat("delete", seen, scope, now, now + deletePause(tries, limits));
      }
      const first = teardown.listsAbsent === 0;
      const spaced = first || outcome.startedAt - (teardown.lastListAt ?? 0) >= limits.absenceSpacing;
      const next: Teardown = {
        ...teardown,
        listsAbsent: teardown.listsAbsent + (spaced ? 1 : 0),
        // When it was here: its beginning is told as the earliest that it can have been, and the next one's is counted from this.
        lastListAt: spaced ? now : teardown.lastListAt,
      };
      if (next.listsAbsent >= 2) return enter("cancel", { ...next, provenAt: now, tries: 0 }, scope, now);
      // The account's clock may be a little behind ours: a list that still came too early is not asked for at once.
      const dueAt = (next.lastListAt ?? now) + limits.absenceSpacing;
      return again(next, scope, now, spaced ? dueAt : Math.max(dueAt, now + TOO_EARLY_MS));
    }
    case "cancel": {
      if (done.task !== "cancel-run") return again(teardown, scope, now, now);
      switch (done.outcome.kind) {
        case "accepted":
          return enter("await-run", { ...teardown, cancelSent: true, tries: 0 }, scope, now);
        case "completed":
        case "not-ours":
          return enter("deregister", { ...teardown, tries: 0 }, scope, now);
        case "unknown":
          return tail(teardown, scope, now, "deregister");
        default:
          return unreachable(done.outcome, "cancel outcome");
      }
    }
    case "await-run": {
      if (done.task !== "read-run") return again(teardown, scope, now, now);
      if (done.outcome.kind === "completed" || done.outcome.kind === "gone") {
        return enter("deregister", { ...teardown, tries: 0 }, scope, now);
      }
      // Cancelling takes GitHub up to five minutes; the pod is gone, so waiting costs nothing.
      const tries = teardown.tries + 1;
      if (tries >= (teardown.cancelSent ? 60 : 3)) return enter("deregister", { ...teardown, tries: 0 }, scope, now);
      return again({ ...teardown, tries }, scope, now, now + limits.testPoll);
    }
    case "deregister": {
      if (done.task !== "deregister") return again(teardown, scope, now, now);
      if (done.outcome.kind === "gone") return enter("settle", { ...teardown, tries: 0 }, scope, now);
      // A runner busy on a machine that is gone stays so until GitHub misses it, minutes later; it can take no other job.
      if (done.outcome.kind === "busy" && teardown.tries >= BUSY_TRIES) {
        return enter("settle", { ...teardown, tries: 0 }, scope, now);
      }
      return tail(teardown, scope, now, "settle");
    }
    case "settle": {
      if (done.task !== "settle") return again(teardown, scope, now, now);
      if (done.outcome.kind === "settled") return { kind: "done", teardown };
      const tries = teardown.tries + 1;
      // The account compares its books with the gate's every minute: an unsettled line is found there.
      if (tries >= TAIL_TRIES) return { kind: "done", teardown: { ...teardown, tries } };
      return again({ ...teardown, tries }, scope, now, backoff(tries, now, null));
    }
    default:
      return unreachable(teardown.step, "teardown step");
  }
}

/** Since when a pod costs nothing more, as far as is known before the proof; null: it was not deleted, or was seen since. */
export function knownGone({ step, deletedAt }: Teardown): Millis | null {
  return step === "deregister-first" || step === "record" || step === "delete" ? null : deletedAt;
}

/** What a pod has cost by our own clock: from when we learned of it to DELETE's answer. Null while a side is unknown. */
export function paidWindow(attempt: Attempt, teardown: Teardown): { ms: Millis; micros: number | null } | null {
  if (attempt.pod === null || attempt.paidFrom === null || teardown.deletedAt === null) return null;
  const ms = Math.max(0, teardown.deletedAt - attempt.paidFrom);
  const price = teardown.recordPrice ?? attempt.pod.pricePerHour ?? attempt.candidate?.price ?? null;
  return { ms, micros: price === null ? null : Math.round((price * 1_000_000 * ms) / 3_600_000) };
}

/**
 * The same step again. An exhausted quota is no failed try: many pods that end together would else pause for minutes after the
 * quota is back. However far off RunPod says that is, the longest pause bounds the wait.
 */
function unanswered(teardown: Teardown, { retryAt }: UnknownOfRunPod, scope: TeardownScope, now: Millis): TeardownMove {
  const { limits } = scope;
  if (retryAt !== undefined) {
    return again(teardown, scope, now, Math.min(Math.max(retryAt, now + QUOTA_PAUSE_MS), now + limits.deletePauseMax));
  }
  const tries = teardown.tries + 1;
  return again({ ...teardown, tries }, scope, now, now + deletePause(tries, limits));
}

function deletePause(tries: number, limits: Limits): Millis {
  // Three tries five seconds apart, then pauses that double up to five minutes, for ever.
  if (tries < 3) return limits.deleteRetry;
  return Math.min(limits.deletePauseMax, limits.deletePauseMin * 2 ** Math.min(12, tries - 3));
}

function tail(teardown: Teardown, scope: TeardownScope, now: Millis, next: Teardown["step"]): TeardownMove {
  const tries = teardown.tries + 1;
  if (tries >= TAIL_TRIES) return enter(next, { ...teardown, tries: 0 }, scope, now);
  return again({ ...teardown, tries }, scope, now, backoff(tries, now, null));
}

/** Enters `step`, or the next one that has something to do. */
function enter(step: Teardown["step"], teardown: Teardown, scope: TeardownScope, now: Millis): TeardownMove {
  const pod = scope.attempt?.pod ?? null;
  let at = step;
  if (pod === null && (at === "record" || at === "delete" || at === "verify" || at === "list")) at = "cancel";
  if (at === "cancel" && scope.run === null) at = "deregister";
  if (at === "cancel" && scope.jobEnded) at = "await-run";
  if (at === "deregister" && !scope.attempt?.runner) at = "settle";
  if (at === "settle" && scope.attempt === null) {
    return { kind: "done", teardown: { ...teardown, step: "settle", provenAt: teardown.provenAt ?? now } };
  }
  // Without a pod there is nothing to prove: absence holds from the start.
  const proven = pod === null && teardown.provenAt === null ? now : teardown.provenAt;
  return again({ ...teardown, step: at, provenAt: proven }, scope, now, now);
}

function retreat(
  step: Teardown["step"],
  teardown: Teardown,
  scope: TeardownScope,
  now: Millis,
  dueAt: Millis,
): TeardownMove {
  return again({ ...teardown, step }, scope, now, dueAt);
}

function again(teardown: Teardown, scope: TeardownScope, now: Millis, dueAt: Millis): TeardownMove {
  return { kind: "task", teardown, task: taskOf(teardown, scope, now), dueAt };
}

function taskOf(teardown: Teardown, scope: TeardownScope, now: Millis): Task {
  const podId = scope.attempt?.pod?.id ?? "";
  switch (teardown.step) {
    case "deregister-first":
    case "deregister":
      return { kind: "deregister", runnerId: scope.attempt?.runner?.id ?? "" };
    case "record":
      return scope.logs === true ? { kind: "read-record", podId, logs: true } : { kind: "read-record", podId };
    case "delete":
      return { kind: "delete-pod", podId };
    case "verify":
      return { kind: "verify-gone", podId };
    case "list":
      return {
        kind: "list-pods",
        podId,
        notBefore: Math.max(
          teardown.deletedAt ?? now,
          teardown.lastListAt === null ? 0 : teardown.lastListAt + scope.limits.absenceSpacing,
        ),
      };
    case "cancel":
      return { kind: "cancel-run", run: scope.run ?? { runId: "", attempt: 0 } };
    case "await-run":
      return { kind: "read-run", run: scope.run ?? { runId: "", attempt: 0 } };
    case "settle": {
      const attempt = scope.attempt;
      const window = attempt === null ? null : paidWindow(attempt, teardown);
      // Null releases the whole reservation: no create of this attempt ever led to a pod. A pod whose price nobody told
      // us is booked at the full reservation rather than at nothing.
      const micros = attempt?.pod === null ? null : (window?.micros ?? attempt?.reservedMicros ?? 0);
      return { kind: "settle", attemptId: attempt?.id ?? "", micros };
    }
    default:
      return unreachable(teardown.step, "teardown step");
  }
}
