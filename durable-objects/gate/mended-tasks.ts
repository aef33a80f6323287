/**
 * Task rows that do not say which lane they are of, or when they are due. Nothing else in a gate may wait for such a row, and
 * it may not be due for ever, or never: its lane is told from whom it is about and what is to be done, and one without an instant that can
 * be is due now. One that nobody can place goes; what it was about is asked for anew by whoever compares the rows with the world.
 */
import { onRepeat } from "../../shared/lifecycle/tasks.ts";
import type { Millis } from "../../shared/ports.ts";
import type { Sql } from "./ports.ts";
import { laneSchema, readRecord, type Lane, type TaskRow } from "./rows.ts";

/** Nothing that a gate waits for is further off: the longest wait of all, for the lock, is a day at the most. */
export const HORIZON_MS = 30 * 86_400_000;

/** The last instant that a Date can be. A column may hold more than a number can, and reading that throws in some places. */
export const LAST_INSTANT = 8_640_000_000_000_000;

/** Whether the loop can tell from this row when its turn is, and whose. */
export function isPlaced(row: Pick<TaskRow, "lane" | "due_at">): boolean {
  // A column of SQLite holds what was written, whatever its type says.
  const due: unknown = row.due_at;
  return typeof due === "number" && laneSchema.safeParse(row.lane).success;
}

const PLACED = laneSchema.options.map((lane) => `'${lane}'`).join(", ");

/** Mends every such row, or removes it. Gives how many there were. */
export function mendTasks(sql: Sql, now: Millis): number {
  const damaged = sql.exec<TaskRow>(
    // To SQLite every text is more than every number.
    `SELECT id, lane, subject, kind, payload, min(tries, 1000000) AS tries, min(due_at, ${LAST_INSTANT}) AS due_at,
       min(created_at, ${LAST_INSTANT}) AS created_at, min(started_at, ${LAST_INSTANT}) AS started_at FROM tasks WHERE lane NOT IN (${PLACED}) OR typeof(due_at) NOT IN ('integer', 'real')
       OR due_at > ?1 OR created_at > ?1 OR started_at > ?1`,
    now + HORIZON_MS,
  );
  const canBe = (at: unknown): at is Millis => typeof at === "number" && at <= now + HORIZON_MS;
  for (const row of damaged) {
    const lane = laneSchema.safeParse(row.lane).data ?? laneOf(row, sql);
    const due: unknown = row.due_at;
    // A deadline whose instant is lost may not end anything early: its request's next step sets it again.
    const lost = lane === null || (lane === "deadline" && !canBe(due));
    // The lane's task that was put meanwhile is the newer one.
    const others = `SELECT id FROM tasks WHERE lane = ? AND subject = ? AND id <> ?`;
    if (lost || sql.exec(others, lane, row.subject, row.id).length > 0) {
      sql.exec(`DELETE FROM tasks WHERE id = ?`, row.id);
    } else {
      const dueAt = canBe(due) ? due : Math.ceil(now);
      const createdAt = canBe(row.created_at) ? row.created_at : Math.ceil(now);
      const startedAt = row.started_at === null || canBe(row.started_at) ? row.started_at : createdAt;
      sql.exec(
        `UPDATE tasks SET lane = ?, due_at = ?, created_at = ?, started_at = ? WHERE id = ?`,
        lane,
        dueAt,
        createdAt,
        startedAt,
        row.id,
      );
    }
  }
  return damaged.length;
}

function laneOf({ id, subject, kind }: TaskRow, sql: Sql): Lane | null {
  const ofState = Object.hasOwn(onRepeat, kind);
  const request = sql.exec<{ record: string }>(`SELECT record FROM requests WHERE id = ?`, subject)[0];
  if (request !== undefined) {
    if (ofState || readRecord(request.record)?.task?.id === id) return "main";
    return kind === "deadline" ? "deadline" : "check";
  }
  if (subject === "repository") return "reconcile";
  if (ofState) return "stray";
  if (kind === "read-jobs") return "cost";
  if (kind === "uninvited") return "rerun";
  return sql.exec(`SELECT head_sha FROM aggregates WHERE head_sha = ?`, subject).length > 0 ? "aggregate" : null;
}
