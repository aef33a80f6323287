/**
 * Pods that cron had deleted, told to their gate. That is as good as the gate's own order: the pod has cost what it has cost,
 * and what is left is the proof and the one line in the ledger (I2).
 *
 * Told by the sweep that deleted it, or, where the gate was down, read-only or out of reach, by a later tick; and again until the gate has said that
 * it need not be. So nothing here may happen twice.
 */
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { Millis } from "../../shared/ports.ts";
import type { GatePorts } from "./ports.ts";
import { mayYetHave } from "./standing.ts";
import type { Steps } from "./steps.ts";
import type { Store } from "./store.ts";
import { beginRemoved, ownerOf, strayOrdered } from "./strays.ts";

export interface RemovedPod {
  readonly podId: string;
  /** As the pod's tags named it; null where its id alone was known. */
  readonly attemptId: string | null;
  /** A reason of the reaper's, for a ledger that has no line of it. */
  readonly why: string;
  /** Since when it was paid; null where cron knew no time, and the pod then counts as old. */
  readonly createdAt: Millis | null;
  /** USD; null when cron was not told one. */
  readonly pricePerHour: number | null;
  /** RunPod's 204, or the first complete list that no longer showed it. */
  readonly goneAt: Millis;
}

/**
 * In a transaction. False: it must be told again, because an attempt still looks for this pod and may yet take it, because
 * its request has not come to its order yet, or because a call of its removal is under way.
 */
export function takeRemoval(removed: RemovedPod, ports: GatePorts, store: Store, steps: Steps): boolean {
  const { podId } = removed;
  const owner = ownerOf(store, podId);
  if (owner !== null) {
    const task = store.taskOf("main", owner.id);
    // Before any order of its own the request finds out by itself, and then asks when it was. An order under way is such a one.
    if (task === null || task.kind !== "delete-pod" || task.startedAt !== null) return hasOrdered(owner);
    steps.waitingFor(task);
    const done = { task: "delete-pod", outcome: { kind: "deleted", at: removed.goneAt } } as const;
    const step = steps.apply(owner.id, { kind: "done", taskId: task.id, done });
    // The next task takes this one's row. Where nothing was taken in, the row is all that moves the request on.
    return step !== null && step.ignored === null;
  }
  if (store.stray(podId) !== null) return strayOrdered(removed, ports, store);
  const line = store.ledgerLine(podId);
  if (line !== null && line.closed_at !== null) return true;
  if (isLookedFor(removed, store)) return false;
  beginRemoved(store, removed, ports.clock.now());
  return true;
}

/** Its order has been answered: it has a time of its own. */
function hasOrdered({ state }: GateRequest): boolean {
  return "teardown" in state && state.teardown !== null && state.teardown.deletedAt !== null;
}

/** A create without an answer may have bought it: its attempt then opens the line, and has to close it. */
function isLookedFor({ attemptId }: RemovedPod, store: Store): boolean {
  return attemptId !== null && store.openRequests().some((request) => mayYetHave(request, attemptId));
}
