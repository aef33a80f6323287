/**
 * What a waiter may expect, from the last runs of this repository: how long it will be until the lock is its, and what a run
 * costs. Means of what really happened; nothing is promised, and without an earlier run nothing is said.
 */
import type { Millis } from "../../shared/ports.ts";
import type { Sql } from "./ports.ts";
import type { LockRow } from "./store.ts";

/** How long the answer may be reused: it is looked at for every waiter, and changes once per run. */
const MAX_AGE_MS: Millis = 30_000;

interface Lately {
  readonly runs: number;
  readonly at: Millis;
  /** Mean time that the lock was held. Null: nobody held it yet. */
  readonly holdMs: Millis | null;
  /** Mean cost of a request that rented something, micro-dollars. */
  readonly micros: number | null;
}

export interface Expected {
  readonly etaMs: Millis | null;
  readonly expectedMicros: number | null;
}

export class Forecast {
  readonly #sql: Sql;
  #lately: Lately | null = null;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** `place` 1 is next; null does not wait. `runs`: from how many of the last runs. */
  expect(place: number | null, lock: LockRow, runs: number, now: Millis): Expected {
    if (place === null) return { etaMs: null, expectedMicros: null };
    const { holdMs, micros } = this.#read(runs, now);
    if (holdMs === null) return { etaMs: null, expectedMicros: micros };
    const holder = lock.holder === null || lock.since === null ? 0 : Math.max(0, holdMs - (now - lock.since));
    return { etaMs: Math.round(holder + (place - 1) * holdMs), expectedMicros: micros };
  }

  #read(runs: number, now: Millis): Lately {
    const known = this.#lately;
    if (known !== null && known.runs === runs && now - known.at < MAX_AGE_MS) return known;
    const holds = this.#sql.exec<{ ms: number }>(
      `SELECT released.at - (SELECT max(granted.at) FROM audit AS granted
          WHERE granted.request_id = released.request_id AND granted.act = 'lock.granted' AND granted.seq < released.seq) AS ms
       FROM audit AS released WHERE released.act = 'lock.release' ORDER BY released.seq DESC LIMIT ?`,
      runs,
    );
    const costs = this.#sql.exec<{ micros: number }>(
      `SELECT sum(estimate_micros) AS micros FROM ledger WHERE closed_at IS NOT NULL AND request_id <> ''
       GROUP BY request_id ORDER BY max(closed_at) DESC LIMIT ?`,
      runs,
    );
    const read = {
      runs,
      at: now,
      holdMs: mean(holds.map((row) => row.ms)),
      micros: mean(costs.map((row) => row.micros)),
    };
    this.#lately = read;
    return read;
  }
}

/** Rows without a value (a grant that is no longer in the audit, a line without a price) do not count. */
function mean(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
}
