/** The gate's tasks: what is to be done outside, and when. Intent before call: a task is stored before it is performed. */
import { taskSchema, type Task } from "../../shared/lifecycle/tasks.ts";
import type { Millis } from "../../shared/ports.ts";
import { ok, type Result } from "../../shared/result.ts";
import { HORIZON_MS, isPlaced, LAST_INSTANT, mendTasks } from "./mended-tasks.ts";
import type { Sql, SqlValue } from "./ports.ts";
import { keepIn, type Remembered } from "./remembered.ts";
import { laneSchema, type Lane, type StoredTask, type TaskRow } from "./rows.ts";
import { readStored, type Unreadable } from "./stored-json.ts";

export class TaskTable {
  readonly #sql: Sql;
  readonly #remembered: Remembered;
  readonly #parsed = new Map<string, Task>();
  /** The task whose outcome is being taken in, until its row is used again or gone. */
  #finished: StoredTask | null = null;

  constructor(sql: Sql, remembered: Remembered) {
    this.#sql = sql;
    this.#remembered = remembered;
  }

  /** The lane's next task; there is one at a time per lane and subject. Returns its id. */
  putTask(lane: Lane, subject: string, kind: string, payload: unknown, dueAt: Millis, now: Millis, tries = 0): number {
    this.#remembered.nextDue = undefined;
    const text = JSON.stringify(payload);
    const again = this.#sameAgain(lane, subject, kind, text);
    if (again !== null) {
      const query = `UPDATE tasks SET due_at = ?, created_at = ?, started_at = NULL, tries = ? WHERE id = ?`;
      this.#sql.exec(query, Math.ceil(dueAt), now, tries, again);
      return again;
    }
    const put = this.#sql.exec<{ id: number }>(
      `INSERT OR REPLACE INTO tasks (lane, subject, kind, payload, due_at, created_at, tries) VALUES (?, ?, ?, ?, ?, ?, ?)
       RETURNING id`,
      lane,
      subject,
      kind,
      text,
      Math.ceil(dueAt),
      now,
      tries,
    );
    return put[0]?.id ?? 0;
  }

  taskOf(lane: Lane, subject: string): StoredTask | null {
    return this.#tasks(`SELECT * FROM tasks WHERE lane = ? AND subject = ?`, lane, subject)[0] ?? null;
  }

  task(id: number): StoredTask | null {
    return this.#tasks(`SELECT * FROM tasks WHERE id = ?`, id)[0] ?? null;
  }

  hasTask(id: number): boolean {
    return this.#sql.exec(`SELECT id FROM tasks WHERE id = ?`, id).length > 0;
  }

  /**
   * Takes in the outcome of a task: its row is gone afterwards, or is the next task's. A watch asks for the same again each
   * time, and then keeps its row and its id, so that what refers to it need not be written either. Nobody else can hold that
   * id: whatever replaces a task while it runs gets a new one. False: that happened, and the outcome belongs to nobody.
   */
  finishing(task: StoredTask, takeIn: () => void): boolean {
    if (!this.hasTask(task.id)) return false;
    this.#finished = task;
    try {
      takeIn();
      if (this.#finished !== null) this.removeTask(task.id);
    } finally {
      this.#finished = null;
    }
    return true;
  }

  removeTask(id: number): void {
    if (this.#finished?.id === id) this.#finished = null;
    this.#remembered.nextDue = undefined;
    this.#sql.exec(`DELETE FROM tasks WHERE id = ?`, id);
  }

  /**
   * Mends rows that do not say whose turn they are, or when; `dueTasks` does so as soon as one is in its way, and a start and
   * cron's visit look for all of them. Gives how many there were.
   */
  mendTasks(now: Millis): number {
    const mended = mendTasks(this.#sql, now);
    if (mended > 0) this.#remembered.nextDue = undefined;
    return mended;
  }

  /**
   * The aggregator's looks come last: nothing that is paid for waits for them. Where more is due than is wanted, each kind is
   * looked for along the index, since an order that no index has would build a table of its own each time.
   */
  dueTasks(now: Millis, limit: number): readonly StoredTask[] {
    const next = this.nextDue();
    // Further off than anything can be: nobody would ever come to it.
    if (next !== null && next > now + HORIZON_MS && this.mendTasks(now) > 0) return this.dueTasks(now, limit);
    if (next === null || next > now) return [];
    const rows = this.#sql.exec<TaskRow>(dueQuery("", limit + 1), now);
    // Something is due, and it is not among those, or does not say whose it is: nothing may wait behind such a row, and what
    // is remembered of it may have the alarm fire for ever.
    if (rows.length === 0) this.#remembered.nextDue = undefined;
    if ((rows.length === 0 || !rows.every(isPlaced)) && this.mendTasks(now) > 0) return this.dueTasks(now, limit);
    const due = rows.map(taskOfRow);
    if (due.length <= limit) return due.toSorted((a, b) => Number(isLook(a)) - Number(isLook(b)));
    const first = this.#tasks(dueQuery(`AND lane <> 'aggregate'`, limit), now);
    return first.length === limit
      ? first
      : [...first, ...this.#tasks(dueQuery(`AND +lane = 'aggregate'`, limit - first.length), now)];
  }

  /** When the next task is due; tasks under way do not count. One whose instant does not read is due at once. */
  nextDue(): Millis | null {
    const known = this.#remembered.nextDue;
    if (known !== undefined) return known;
    const least =
      this.#sql.exec<{ due: SqlValue }>(
        // The least alone is one row along the index; bounded, a number can hold it.
        `SELECT CASE WHEN typeof(least) = 'text' THEN least ELSE min(least, ${LAST_INSTANT}) END AS due
         FROM (SELECT min(due_at) AS least FROM tasks WHERE started_at IS NULL)`,
      )[0]?.due ?? null;
    const due = least === null || typeof least === "number" ? least : 0;
    this.#remembered.nextDue = due;
    return due;
  }

  startTask(id: number, now: Millis): void {
    this.#remembered.nextDue = undefined;
    // Bounded: one that was damaged must not count itself out of what a number can hold.
    this.#sql.exec(`UPDATE tasks SET started_at = ?, tries = min(tries, 1000000) + 1 WHERE id = ?`, now, id);
  }

  /** Changes what a task under way says. Gives it as it is stored now; null when it is gone: nobody asks for it any more. */
  rewordTask(task: StoredTask, words: Task): StoredTask | null {
    const payload = JSON.stringify(words);
    const marked = this.#sql.exec(`UPDATE tasks SET payload = ? WHERE id = ? RETURNING id`, payload, task.id);
    return marked.length === 0 ? null : { ...task, payload };
  }

  hurryTask(lane: Lane, subject: string, now: Millis): void {
    this.#remembered.nextDue = undefined;
    this.#sql.exec(
      `UPDATE tasks SET due_at = ? WHERE lane = ? AND subject = ? AND started_at IS NULL AND due_at > ?`,
      now,
      lane,
      subject,
      now,
    );
  }

  /** Tasks that were under way when the last process ended: their answers are lost. */
  unfinishedTasks(): readonly StoredTask[] {
    return this.#tasks(`SELECT * FROM tasks WHERE started_at IS NOT NULL ORDER BY id`);
  }

  /** A watch asks the same again and again: the same text is the same task, and is parsed once. */
  parseTask({ payload }: StoredTask): Result<Task, Unreadable> {
    const known = this.#parsed.get(payload);
    if (known !== undefined) return ok(known);
    const read = readStored(taskSchema, payload);
    if (read.ok) keepIn(this.#parsed, payload, read.value);
    return read;
  }

  /** The finished task's id, if this is the same task once more. Any task of its lane takes its place. */
  #sameAgain(lane: Lane, subject: string, kind: string, payload: string): number | null {
    const before = this.#finished;
    if (before === null || before.lane !== lane || before.subject !== subject) return null;
    this.#finished = null;
    return before.kind === kind && before.payload === payload ? before.id : null;
  }

  #tasks(query: string, ...bindings: SqlValue[]): StoredTask[] {
    return this.#sql
      .exec<TaskRow>(query, ...bindings)
      .filter(isPlaced)
      .map(taskOfRow);
  }
}

/** The limit is part of the text: SQLite prepares a statement anew each time its limit is bound. */
function dueQuery(lanes: string, limit: number): string {
  return `SELECT * FROM tasks WHERE due_at <= ? AND started_at IS NULL ${lanes} ORDER BY due_at, id LIMIT ${limit}`;
}

function taskOfRow(row: TaskRow): StoredTask {
  return {
    id: row.id,
    lane: laneSchema.parse(row.lane),
    subject: row.subject,
    kind: row.kind,
    payload: row.payload,
    dueAt: row.due_at,
    createdAt: row.created_at,
    startedAt: row.started_at,
    tries: row.tries,
  };
}

function isLook(task: StoredTask): boolean {
  return task.lane === "aggregate";
}
