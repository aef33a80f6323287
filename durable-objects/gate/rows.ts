/** Rows of the gate's database as the code sees them. What their columns mean is in docs/storage.md. */
import * as z from "zod";
import { fenceOf } from "../../shared/lifecycle/fence.ts";
import { requestSchema, type GateRequest } from "../../shared/lifecycle/model.ts";
import type { Millis } from "../../shared/ports.ts";

export type Lane = "main" | "check" | "stray" | "reconcile" | "cost" | "rerun" | "deadline" | "aggregate";

export interface StoredTask {
  readonly id: number;
  readonly lane: Lane;
  /** Request id, pod id, head SHA, or `repository`. */
  readonly subject: string;
  readonly kind: string;
  readonly payload: string;
  readonly dueAt: Millis;
  readonly createdAt: Millis;
  readonly startedAt: Millis | null;
  readonly tries: number;
}

export interface LockRow {
  readonly holder: string | null;
  readonly fence: number;
  readonly since: Millis | null;
  /** The stored fence does not read: whose turn it is, the holder alone says. */
  readonly damaged?: true;
}

export const FREE_LOCK: LockRow = { holder: null, fence: 0, since: null };
/** One fence for each turn with the lock: a number beyond this was never counted. */
const FENCE_MAX = 2 ** 40;

/** The lock as stored. A damaged fence: what the next holder is given must read, and be newer than what is still held. */
export function readLock(row: LockRow, open: () => readonly GateRequest[]): LockRow {
  const since = typeof row.since === "number" ? row.since : null;
  if (Number.isInteger(row.fence) && row.fence >= 0 && row.fence < FENCE_MAX) return { ...row, since };
  const fence = Math.max(0, ...open().map((request) => fenceOf(request) ?? 0));
  return { holder: row.holder, fence, since, damaged: true };
}

export type LedgerLine = {
  pod_id: string;
  attempt_id: string;
  request_id: string;
  gpu_id: string | null;
  tier: string;
  price_per_hour: number | null;
  paid_from: number;
  closed_at: number | null;
  proven_at: number | null;
  estimate_micros: number | null;
  outcome: string | null;
  billed_micros: number | null;
};

export type AuditRow = {
  seq: number;
  at: number;
  request_id: string | null;
  act: string;
  reason: string | null;
  facts: string;
  hash: string | null;
};

export type StrayRow = { pod_id: string; why: string; since: number; done_at: number | null; record: string };

export type TaskRow = {
  id: number;
  lane: string;
  subject: string;
  kind: string;
  payload: string;
  due_at: number;
  created_at: number;
  started_at: number | null;
  tries: number;
};

export const laneSchema = z.enum(["main", "check", "stray", "reconcile", "cost", "rerun", "deadline", "aggregate"]);

/** The record of a request; null: it does not read. */
export function readRecord(record: string): GateRequest | null {
  try {
    const parsed = requestSchema.safeParse(JSON.parse(record));
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}
