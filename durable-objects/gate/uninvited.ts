/**
 * Attempts of our own runs that somebody else started, with "re-run" in the Actions tab or through the API.
 *
 * Such an attempt runs the trusted workflow with inputs of a request that has ended, so it is cancelled; what its starter
 * wanted is a new evaluation, and that is what follows, authorised for exactly that person (design 3.1). This is the only
 * cancel besides the one behind a proven deletion (I8): above attempt 1 as read immediately before, and never while a pod
 * that was bought for the run may still be there.
 */
import * as z from "zod";
import type { GitHubClient } from "../../shared/github/client.ts";
import { describeFailure } from "../../shared/github/failure.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { RunAttempt } from "../../shared/lifecycle/route.ts";
import type { Actor } from "../../shared/lifecycle/signal.ts";
import { audit, backoff, type AuditNote } from "../../shared/lifecycle/step.ts";
import type { Millis } from "../../shared/ports.ts";
import type { Store, StoredTask } from "./store.ts";
import { readStored } from "./stored-json.ts";
import { parkTask } from "./unreadable.ts";

/** Tries at a GitHub that does not answer: about half an hour. */
const TRIES = 40;

const payloadSchema = z.object({
  requestId: z.string(),
  attempt: z.number().int(),
  /** Looks at which a pod of the run was not proven gone yet: the pause grows with them. */
  waits: z.number().int().default(0),
});

export interface UninvitedHands {
  readonly audit: (requestId: string, note: AuditNote) => void;
  /** Row 4 for the head of this request: what a person asked for by starting the attempt. */
  readonly again: (owner: GateRequest, by: Actor) => void;
  readonly transaction: <T>(body: () => T) => T;
}

/** Stores the work, once for each attempt: GitHub tells of one several times. False: it was told before. */
export function beginUninvited(store: Store, requestId: string, run: RunAttempt, now: Millis): boolean {
  const identity = `attempt-${run.runId}-${run.attempt}`;
  if (store.delivered(identity)) return false;
  store.markDelivered(identity, "re-run", now, requestId);
  store.putTask("rerun", run.runId, "uninvited", { requestId, attempt: run.attempt }, now, now);
  return true;
}

export async function endUninvited(
  task: StoredTask,
  store: Store,
  github: GitHubClient,
  now: () => Millis,
  hands: UninvitedHands,
): Promise<void> {
  const read = readStored(payloadSchema, task.payload);
  if (!read.ok) return hands.transaction(() => parkTask(task, read.error, store, now()));
  const { requestId, attempt, waits } = read.value;
  const runId = task.subject;
  const owner = store.request(requestId);
  if (owner === null) return store.removeTask(task.id);
  const later = (pauseUntil: Millis, tries: number): void => {
    store.putTask("rerun", runId, "uninvited", { requestId, attempt, waits: 0 }, pauseUntil, now(), tries);
  };
  // Not a try at GitHub. A removal may go on for ever, and so do these looks, at most a minute apart.
  const unproven = (): void => {
    const payload = { requestId, attempt, waits: waits + 1 };
    store.putTask("rerun", runId, "uninvited", payload, backoff(waits + 1, now(), null), now(), task.tries - 1);
  };
  if (mayHavePod(owner, runId, store)) return unproven();

  const end = (note: AuditNote, by: Actor | null): void =>
    hands.transaction(() => {
      store.removeTask(task.id);
      hands.audit(requestId, note);
      if (by !== null) hands.again(owner, by);
    });
  const retry = (why: string): void => {
    if (task.tries < TRIES) return later(backoff(task.tries, now(), null), task.tries);
    end(audit("run.uninvited-lost", "uninvited-attempt", { run: runId, attempt, why }), null);
  };

  const shown = await github.getRun(runId);
  if (!shown.ok) {
    const { reason } = shown.error;
    if (reason !== "not-found" && reason !== "gone") return retry(describeFailure(shown.error));
    return end(audit("run.uninvited-lost", "uninvited-attempt", { run: runId, attempt, why: "the run is gone" }), null);
  }
  const run = shown.value;
  // The first attempt is ours: nothing is cancelled on the word of a webhook alone.
  if (run.attempt <= 1) return retry("GitHub does not show the new attempt yet");
  const by = run.triggeringActor;
  const facts = { run: runId, attempt: run.attempt, by: by?.id ?? null };
  if (run.status === "completed") return end(audit("run.uninvited-ended", "uninvited-attempt", facts), by);
  // A pod may have appeared while GitHub answered.
  if (mayHavePod(store.request(requestId) ?? owner, runId, store)) return unproven();
  const cancelled = await github.cancelRun(runId);
  if (!cancelled.ok) return retry(describeFailure(cancelled.error));
  if (cancelled.value === "not-cancellable") return retry("GitHub would not cancel the attempt yet");
  end(audit("cancel-uninvited-attempt", "uninvited-attempt", facts), by);
}

/** Whether a pod that was bought for this run is there, or may be: the request's present one, or one left of an earlier. */
function mayHavePod(owner: GateRequest, runId: string, store: Store): boolean {
  const current = "attempt" in owner.state ? owner.state.attempt : null;
  if (current?.run?.runId === runId) return true;
  return store.openLedgerLines().some((line) => line.request_id === owner.id && line.attempt_id !== current?.id);
}
