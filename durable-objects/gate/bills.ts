/**
 * RunPod's bill beside our own estimate. The estimate is made at the close of a pod's ledger line and never changed by what
 * arrives here; a bill that differs by more than our view of time can explain is a drift, told once.
 */
import { driftsFromBill, microUsd } from "../../shared/cost/estimate.ts";
import { audit } from "../../shared/lifecycle/step.ts";
import type { Millis } from "../../shared/ports.ts";
import type { Sql } from "./ports.ts";
import type { LedgerLine, Store } from "./store.ts";

export interface Bill {
  readonly podId: string;
  /** Micro-dollars of the whole life of the pod. */
  readonly micros: number;
}

export interface Drift {
  readonly podId: string;
  /** Null: the estimate was never known. */
  readonly estimate: number | null;
  readonly billed: number;
}

export interface BillWindow {
  /** Bills cover the time from here on: a pod older than this is billed in part only. */
  readonly since: Millis;
  /** A pod that was gone before this has its whole bill. */
  readonly settledBefore: Millis;
}

export interface BillsTaken {
  /** Pods of these bills that this ledger holds. */
  readonly known: readonly string[];
  /** Drifts that were not told before. */
  readonly drifts: readonly Drift[];
}

/**
 * Takes bills for pods that ended before `settledBefore`; younger ones are known, but their bill may still grow. A pod
 * whose life began before `since` is known as well, and its bill is a part only: not written.
 */
export function recordBills(
  sql: Sql,
  store: Store,
  bills: readonly Bill[],
  window: BillWindow,
  now: Millis,
): BillsTaken {
  const known: string[] = [];
  const drifts: Drift[] = [];
  sql.transaction(() => {
    for (const bill of bills) {
      const line = store.ledgerLine(bill.podId);
      if (line === null) continue;
      known.push(bill.podId);
      const whole = line.paid_from >= window.since && line.proven_at !== null && line.proven_at < window.settledBefore;
      if (!whole || line.billed_micros === bill.micros) continue;
      sql.exec(`UPDATE ledger SET billed_micros = ? WHERE pod_id = ?`, bill.micros, bill.podId);
      if (!drifted(line, bill.micros, createMs(sql, bill.podId))) continue;
      const drift = { podId: bill.podId, estimate: line.estimate_micros, billed: bill.micros };
      drifts.push(drift);
      store.count("bills.drift");
      const facts = { pod: bill.podId, estimateMicros: drift.estimate, billedMicros: drift.billed };
      store.audit(now, line.request_id === "" ? null : line.request_id, audit("bill.drift", null, facts));
    }
  });
  return { known, drifts };
}

function drifted(line: LedgerLine, billed: number, requestMs: Millis): boolean {
  if (line.estimate_micros === null || line.price_per_hour === null) return billed > 0;
  return driftsFromBill(line.estimate_micros, billed, microUsd(line.price_per_hour), requestMs);
}

function createMs(sql: Sql, podId: string): Millis {
  const row = sql.exec<{ ms: number | null }>(
    `SELECT json_extract(report, '$.report.createMs') AS ms FROM costs WHERE pod_id = ?`,
    podId,
  )[0];
  return row?.ms ?? 0;
}
