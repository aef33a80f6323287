/** Rows of the gate's database as the code sees them. What their columns mean is in docs/storage.md. */
import * as z from "zod";
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
