/**
 * The money of all repositories behind one RunPod key (design 3.5).
 *
 * A line belongs to one attempt of one repository: attempts are numbered in each repository for itself. `reserved` counts in
 * full until it is `spent` or `released`; both are final, and a late `reserve` is refused. A release that comes before its
 * reservation leaves a line as well, so that a call which was under way cannot set money aside for nobody. A reservation
 * never expires by time.
 */
import { admit, describeExceeded, totalsFor, type MoneyLine } from "../../shared/cost/budget.ts";
import type { MicroUsd } from "../../shared/cost/estimate.ts";
import type { Millis } from "../../shared/ports.ts";
import type { ReserveAnswer, Sql } from "../gate/ports.ts";

export const MONEY_TABLES: readonly string[] = [
  // `booked`: found by comparing the books, not asked for. `absent_since`: start of the first complete list that shows no
  // pod of an attempt its gate does not know. `rate_micros` and `since`: of the pod that a booking was made for.
  `CREATE TABLE money (
    repository_id TEXT NOT NULL, attempt_id TEXT NOT NULL, micros INTEGER NOT NULL, state TEXT NOT NULL, at INTEGER NOT NULL,
    settled_at INTEGER, booked INTEGER NOT NULL DEFAULT 0, absent_since INTEGER, rate_micros INTEGER, since INTEGER,
    PRIMARY KEY (repository_id, attempt_id))`,
  `CREATE INDEX money_at ON money (at)`,
  `CREATE INDEX money_state ON money (state)`,
];

export type AccountMoneyRow = {
  repository_id: string;
  attempt_id: string;
  micros: number;
  state: string;
  at: number;
  settled_at: number | null;
  booked: number;
  absent_since: number | null;
  rate_micros: number | null;
  since: number | null;
};

export interface OpenReservation {
  readonly attemptId: string;
  readonly repositoryId: string;
  readonly micros: MicroUsd;
}

/** No window of time reaches further back. */
const WINDOW_MS = 32 * 86_400_000;

/** Rows and the rules between them; whoever calls holds the transaction. */
export class AccountMoney {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  of(repositoryId: string, attemptId: string): AccountMoneyRow | null {
    return (
      this.#sql.exec<AccountMoneyRow>(
        `SELECT * FROM money WHERE repository_id = ? AND attempt_id = ?`,
        repositoryId,
        attemptId,
      )[0] ?? null
    );
  }

  open(): readonly AccountMoneyRow[] {
    return this.#sql.exec<AccountMoneyRow>(`SELECT * FROM money WHERE state = 'reserved' ORDER BY at, attempt_id`);
  }

  /** Repositories with a line that is open, or was opened or settled at or after this. */
  repositoriesSince(since: Millis): readonly string[] {
    return this.#sql
      .exec<{ repository_id: string }>(
        `SELECT DISTINCT repository_id FROM money WHERE state = 'reserved' OR at >= ? OR settled_at >= ? ORDER BY repository_id`,
        since,
        since,
      )
      .map((row) => row.repository_id);
  }

  reserve(attemptId: string, repositoryId: string, micros: MicroUsd, cap: MicroUsd, now: Millis): ReserveAnswer {
    const known = this.of(repositoryId, attemptId);
    if (known?.state === "reserved") return { kind: "reserved" };
    if (known !== null) return { kind: "over-cap", detail: "This attempt's money is settled already." };
    const caps = { run: null, "pull-request": null, author: null, day: null, month: null, deployment: cap };
    const spender = { repositoryId, requestId: attemptId, prNumber: null, authorId: null };
    const admission = admit(micros, caps, totalsFor(this.#lines(now), spender, now));
    if (!admission.admitted) return { kind: "over-cap", detail: admission.exceeded.map(describeExceeded).join(" ") };
    this.#insert(attemptId, repositoryId, micros, "reserved", now);
    return { kind: "reserved" };
  }

  /** Spent is what was really paid: it counts even where the reservation was lost or given back by mistake. */
  commit(attemptId: string, repositoryId: string, micros: MicroUsd, now: Millis): void {
    if (this.of(repositoryId, attemptId) === null) this.#insert(attemptId, repositoryId, micros, "spent", now);
    this.#settle(attemptId, repositoryId, "spent", micros, now);
  }

  release(attemptId: string, repositoryId: string, now: Millis): void {
    const known = this.of(repositoryId, attemptId);
    if (known === null) this.#insert(attemptId, repositoryId, 0, "released", now);
    if (known?.state === "reserved") this.#settle(attemptId, repositoryId, "released", 0, now);
  }

  /** Money that nobody asked for and that is or may be spent all the same: counted, whatever the cap says. */
  book(
    attemptId: string,
    repositoryId: string,
    micros: MicroUsd,
    pod: { readonly rateMicros: number; readonly since: Millis } | null,
    now: Millis,
  ): void {
    this.#sql.exec(
      `INSERT OR REPLACE INTO money
         (repository_id, attempt_id, micros, state, at, booked, rate_micros, since)
       VALUES (?, ?, ?, 'reserved', ?, 1, ?, ?)`,
      repositoryId,
      attemptId,
      micros,
      now,
      pod?.rateMicros ?? null,
      pod?.since ?? null,
    );
  }

  raise(row: AccountMoneyRow, micros: MicroUsd): void {
    this.#sql.exec(
      `UPDATE money SET micros = ? WHERE repository_id = ? AND attempt_id = ? AND state = 'reserved' AND micros < ?`,
      micros,
      row.repository_id,
      row.attempt_id,
      micros,
    );
  }

  setAbsent(row: AccountMoneyRow, since: Millis | null): void {
    if (row.absent_since === since) return;
    this.#sql.exec(
      `UPDATE money SET absent_since = ? WHERE repository_id = ? AND attempt_id = ?`,
      since,
      row.repository_id,
      row.attempt_id,
    );
  }

  /** Micro-dollars of this UTC month: spent, and reserved now. */
  totals(now: Millis): { readonly spent: MicroUsd; readonly reserved: MicroUsd } {
    const spender = { repositoryId: "", requestId: "", prNumber: null, authorId: null };
    return totalsFor(this.#lines(now), spender, now).deployment;
  }

  #lines(now: Millis): readonly MoneyLine[] {
    return this.#sql
      .exec<AccountMoneyRow>(
        `SELECT * FROM money WHERE state = 'reserved' OR (state = 'spent' AND at >= ?)`,
        now - WINDOW_MS,
      )
      .map((row) => ({
        openedAt: row.at,
        state: row.state === "spent" ? "spent" : "reserved",
        amount: row.micros,
        repositoryId: row.repository_id,
        requestId: "",
        prNumber: null,
        authorId: null,
      }));
  }

  #insert(attemptId: string, repositoryId: string, micros: MicroUsd, state: string, now: Millis): void {
    this.#sql.exec(
      `INSERT INTO money (repository_id, attempt_id, micros, state, at, settled_at) VALUES (?, ?, ?, ?, ?, ?)`,
      repositoryId,
      attemptId,
      micros,
      state,
      now,
      state === "reserved" ? null : now,
    );
  }

  #settle(attemptId: string, repositoryId: string, state: "spent" | "released", micros: MicroUsd, now: Millis): void {
    this.#sql.exec(
      `UPDATE money SET state = ?, micros = ?, settled_at = ? WHERE repository_id = ? AND attempt_id = ? AND state <> 'spent'`,
      state,
      micros,
      now,
      repositoryId,
      attemptId,
    );
  }
}
