/**
 * What a store knows of its rows without asking the database. Nobody else writes there, so it stays true until the store
 * itself writes, or until a transaction that wrote has failed.
 */
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { Millis } from "../../shared/ports.ts";
import type { LockRow } from "./rows.ts";

export interface Sealed {
  readonly seq: number;
  readonly hash: string;
}

/** Entries of each kind that are kept; all are dropped when there are more. */
const KEPT = 50;

export class Remembered {
  /** Null: there is no such key. */
  readonly meta = new Map<string, string | null>();
  readonly requests = new Map<string, GateRequest>();
  /** The records as they stand in the rows. */
  readonly records = new Map<string, string>();
  /** What was stored of an attempt, and whose a run is. */
  readonly attempts = new Map<string, string>();
  readonly runs = new Map<string, string>();
  lock: LockRow | null = null;
  waiting: number | null = null;
  /** Undefined: not known. Null: nothing is due at any time. */
  nextDue: Millis | null | undefined = undefined;
  /** The audit's last entry, and the last that is sealed. */
  audited: number | null = null;
  sealed: Sealed | null | undefined = undefined;

  clear(): void {
    this.meta.clear();
    this.requests.clear();
    this.records.clear();
    this.attempts.clear();
    this.runs.clear();
    this.lock = null;
    this.waiting = null;
    this.nextDue = undefined;
    this.audited = null;
    this.sealed = undefined;
  }
}

/** Keeps one more, and never more than a few dozen. */
export function keepIn<Key, Value>(map: Map<Key, Value>, key: Key, value: Value): void {
  if (map.size >= KEPT && !map.has(key)) map.clear();
  map.set(key, value);
}
