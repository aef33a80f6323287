/** Rows of money: what is set aside or spent for an attempt. No decision is made here; whoever calls holds the transaction. */
import type { Millis } from "../../shared/ports.ts";
import type { Sql } from "./ports.ts";

export type MoneyRow = {
  attempt_id: string;
  /** Empty for a pod that no request owned. */
  request_id: string;
  pr_number: number | null;
  author_id: string | null;
  micros: number;
  /** `reserved`, then `spent` or `released`, both final. */
  state: string;
  at: number;
  /** 1: the account's yes is stored; only then may anything be created. */
  confirmed: number;
  /** 1: the pod has outgrown its reservation, and that was told. */
  raised: number;
};

export interface MoneyLineIn {
  readonly attemptId: string;
  readonly requestId: string;
  readonly prNumber: number | null;
  readonly authorId: string | null;
  readonly micros: number;
  readonly at: Millis;
}

export class MoneyTable {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  of(attemptId: string): MoneyRow | null {
    return this.#sql.exec<MoneyRow>(`SELECT * FROM money WHERE attempt_id = ?`, attemptId)[0] ?? null;
  }

  /** Open reservations, the oldest first. */
  open(): readonly MoneyRow[] {
    return this.#sql.exec<MoneyRow>(`SELECT * FROM money WHERE state = 'reserved' ORDER BY at, attempt_id`);
  }

  /** Lines that may count in a window that began at `since`, and every open reservation. */
  lines(since: Millis, requestId: string, prNumber: number | null): readonly MoneyRow[] {
    return this.#sql.exec<MoneyRow>(
      `SELECT * FROM money WHERE state <> 'released' AND (at >= ? OR state = 'reserved' OR request_id = ? OR pr_number = ?)`,
      since,
      requestId,
      prNumber,
    );
  }

  /** Nothing happens when the attempt has a row already. */
  reserve(line: MoneyLineIn, confirmed: boolean): void {
    this.#sql.exec(
      `INSERT OR IGNORE INTO money (attempt_id, request_id, pr_number, author_id, micros, state, at, confirmed)
       VALUES (?, ?, ?, ?, ?, 'reserved', ?, ?)`,
      line.attemptId,
      line.requestId,
      line.prNumber,
      line.authorId,
      line.micros,
      line.at,
      confirmed ? 1 : 0,
    );
  }

  confirm(attemptId: string): void {
    this.#sql.exec(`UPDATE money SET confirmed = 1 WHERE attempt_id = ?`, attemptId);
  }

  /** A reservation that its pod has outgrown; it never becomes smaller. */
  raise(attemptId: string, micros: number): void {
    this.#sql.exec(
      `UPDATE money SET micros = ?, raised = 1 WHERE attempt_id = ? AND state = 'reserved' AND micros < ?`,
      micros,
      attemptId,
      micros,
    );
  }

  /** Ends a reservation: spent, or with null released. One that is final already stays as it is. */
  settle(attemptId: string, micros: number | null): void {
    this.#sql.exec(
      `UPDATE money SET state = ?, micros = ? WHERE attempt_id = ? AND state = 'reserved'`,
      micros === null ? "released" : "spent",
      micros ?? 0,
      attemptId,
    );
  }
}
