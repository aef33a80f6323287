/**
 * Fencing: a request that carries a hold of the lock must be the lock's holder, under the very token it was granted.
 *
 * One that is not (an operator gave the lock to somebody else, a stored state came back from a copy) may no longer start
 * or buy anything: it is told to stop, and all that is left to it is to remove its own pod. Calls that would spend or
 * start something are not made; those that look, remove and settle are.
 */
import { audit, type AuditNote } from "./step.ts";
import type { GateRequest } from "./model.ts";
import type { Done, Task } from "./tasks.ts";
import { unreachable } from "../result.ts";
import { verdict } from "./verdict.ts";

export interface LockFacts {
  readonly holder: string | null;
  readonly fence: number;
}

const LOST = verdict("infrastructure", "lock-lost", "Another request holds this repository's GPU lock.");

/** The token under which the request holds the lock by its own record; null when it says that it does not. */
export function fenceOf({ state }: Pick<GateRequest, "state">): number | null {
  if (!("hold" in state) || state.hold === null) return null;
  return state.kind === "cleaning" && state.lockReleased ? null : state.hold.fence;
}

export function isStale(request: Pick<GateRequest, "id" | "state">, lock: LockFacts): boolean {
  const fence = fenceOf(request);
  return fence !== null && (lock.holder !== request.id || lock.fence !== fence);
}

/** The request as it may go on, and what the audit hears about it the first time. */
export function fenced(
  request: GateRequest,
  lock: LockFacts,
): { readonly request: GateRequest; readonly note?: AuditNote } {
  if (!isStale(request, lock) || request.stop !== null) return { request };
  const note = audit("lock.fenced", "lock-lost", { held: fenceOf(request), fence: lock.fence, holder: lock.holder });
  return { request: { ...request, stop: LOST }, note };
}

/** What a stale holder gets instead of the call: certainly not done. Null: the call is only a look or a removal. */
export function refusedTo(task: Task): Done | null {
  const why = LOST.detail;
  switch (task.kind) {
    case "reserve":
      return { task: task.kind, outcome: { kind: "over-cap", detail: why } };
    case "mint":
      return { task: task.kind, outcome: { kind: "refused", why } };
    case "dispatch-prepare":
    case "dispatch-execute":
      return { task: task.kind, outcome: { kind: "refused", why } };
    case "create-pod":
      return { task: task.kind, outcome: { kind: "held-back", because: "account-unreachable", detail: why } };
    case "authorize":
    case "observe":
    case "find-prepare":
    case "recheck":
    case "plan":
    case "find-runner":
    case "find-execute":
    case "look-up-pod":
    case "sleep":
    case "deregister":
    case "read-record":
    case "delete-pod":
    case "verify-gone":
    case "list-pods":
    case "cancel-run":
    case "read-run":
    case "settle":
      return null;
    default:
      return unreachable(task, "task");
  }
}
