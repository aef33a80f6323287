/**
 * Stored tasks whose words do not read: damaged, or written by newer code. A request's own is asked for anew by its state. One
 * beside it that nothing else says again waits for newer code: looked at once a day, each time with a line in the audit, and
 * given up after a week.
 */
import { audit } from "../../shared/lifecycle/step.ts";
import { onRepeat, type Done, type TaskKind } from "../../shared/lifecycle/tasks.ts";
import type { Millis } from "../../shared/ports.ts";
import { unreachable } from "../../shared/result.ts";
import { storedJson, type Unreadable } from "./stored-json.ts";
import type { Store, StoredTask } from "./store.ts";

const DAY_MS = 86_400_000;
const GIVEN_UP_MS = 7 * DAY_MS;

/** The caller holds no lock on the task: it is put off, or it goes. */
export function parkTask(task: StoredTask, problem: Unreadable, store: Store, now: Millis): void {
  const since = task.createdAt;
  const over = now - since >= GIVEN_UP_MS;
  const facts = { lane: task.lane, task: task.kind, of: task.subject, where: problem.where.slice(0, 100) };
  store.audit(now, null, audit(over ? "task.given-up" : "task.parked", null, facts));
  store.count("tasks.unreadable");
  if (over) return store.removeTask(task.id);
  store.putTask(task.lane, task.subject, task.kind, storedJson(task.payload), now + DAY_MS, since, task.tries);
}

/**
 * What a task tells whose stored words do not read: nothing. Where a call may have been made, that its answer was lost. Null
 * for a kind that nobody knows.
 */
export function unreadOutcome(kind: string, startedAt: Millis): Done | null {
  const why = "what was stored of it does not read";
  const unknown = { kind: "unknown", why } as const;
  const known = (Object.keys(onRepeat) as TaskKind[]).find((one) => one === kind);
  switch (known) {
    case undefined:
      return null;
    case "authorize":
    case "recheck":
    case "plan":
      return { task: known, outcome: { ...unknown, retryAt: null } };
    case "find-prepare":
    case "find-execute":
    case "reserve":
    case "find-runner":
    case "look-up-pod":
    case "deregister":
    case "delete-pod":
    case "verify-gone":
    case "list-pods":
    case "cancel-run":
    case "read-run":
    case "settle":
      return { task: known, outcome: unknown };
    case "observe":
      return { task: known, outcome: {} };
    case "dispatch-prepare":
    case "dispatch-execute":
    case "mint":
      return { task: known, outcome: { kind: "lost" } };
    case "create-pod":
      return {
        task: known,
        outcome: { kind: "ambiguous", why, retryAfterMs: null, sentAt: startedAt, elapsedMs: 0 },
      };
    case "sleep":
      return { task: known, outcome: { sleptMs: 0 } };
    case "read-record":
      return { task: known, outcome: { pricePerHour: null } };
    default:
      return unreachable(known, "task kind");
  }
}
