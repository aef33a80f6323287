/**
 * Running cost: what pods already cost beyond what is set aside for them, booked at every tick so that the next decision sees
 * it (I9). A pod costs until it is proven gone, unless it is known since when it is.
 */
import { DEFAULT_REAP_LIMITS } from "../../shared/lifecycle/reap.ts";
import { audit } from "../../shared/lifecycle/step.ts";
import type { Attempt, Teardown } from "../../shared/lifecycle/model.ts";
import { knownGone } from "../../shared/lifecycle/teardown.ts";
import type { Millis } from "../../shared/ports.ts";
import { costAtMost, unasked } from "./money.ts";
import { MoneyTable } from "./money-table.ts";
import type { Sql } from "./ports.ts";
import type { LedgerLine, Store } from "./store.ts";
import { ownerOf, strayRecord, type StrayRecord } from "./strays.ts";

/** Without a tick for so long the gate was silent; one that was lost or late makes no silence. */
const SILENT_MS = 180_000;
/** What cron may be late by with a pod that is due: two of its ticks (I3). */
const LATE_MS = 120_000;

/** A pod of nobody's attempt gets a line of its own here: its money is spent whoever asked for it. */
export function bookRunning(sql: Sql, store: Store, now: Millis): void {
  const running = store.openLedgerLines();
  if (running.length === 0) return;
  const money = new MoneyTable(sql);
  sql.transaction(() => {
    const wasSilent = !(now - Number(store.meta("booked_at") ?? "0") < SILENT_MS);
    store.setMeta("booked_at", String(now));
    for (const line of running) {
      const known = knownOf(line, store);
      const all = costAtMost(priceOf(line, known), paidUntil(line, known, wasSilent, now) - line.paid_from);
      const row = money.of(line.attempt_id);
      if (row === null) {
        money.reserve(unasked(line, all), true);
        continue;
      }
      // The minutes of a kept pod were set aside on lines of their own.
      const cost = all - keptMicros(known.stray?.retained?.moneyIds ?? [], money);
      if (row.state !== "reserved" || cost <= row.micros) continue;
      if (row.request_id !== "" && row.raised === 0) {
        store.count("money.beyond-reservation");
        const facts = {
          attempt: line.attempt_id,
          pod: line.pod_id,
          reservedMicros: row.micros,
          runningMicros: cost,
        };
        store.audit(now, row.request_id, audit("money.beyond-reservation", null, facts));
      }
      money.raise(line.attempt_id, cost);
    }
  });
}

interface Known {
  /** Where its removal stands; null: none has begun. */
  readonly teardown: Teardown | null;
  readonly attempt: Attempt | null;
  readonly stray: StrayRecord | null;
}

function knownOf(line: LedgerLine, store: Store): Known {
  const row = store.stray(line.pod_id);
  const stray = row === null ? null : strayRecord(row, store);
  const state = ownerOf(store, line.pod_id)?.state;
  const teardown = state !== undefined && "teardown" in state ? state.teardown : (stray?.teardown ?? null);
  const attempt = state !== undefined && "attempt" in state ? state.attempt : (stray?.attempt ?? null);
  return { teardown, attempt, stray };
}

/**
 * USD per hour: the higher of what its create told and what was seen of it since. A create may answer before RunPod knows the
 * price, and a line keeps what it was opened with. 0 is what a pod shows that does not run, and no price.
 */
function priceOf(line: LedgerLine, { attempt }: Known): number | null {
  const told = Math.max(line.price_per_hour ?? 0, attempt?.pod?.pricePerHour ?? 0);
  return told > 0 ? told : null;
}

function keptMicros(ids: readonly string[], money: MoneyTable): number {
  const rows = ids.map((id) => money.of(id));
  return rows.reduce((sum, row) => sum + (row?.state === "reserved" ? row.micros : 0), 0);
}

/**
 * Until when a pod in an open line is taken to have cost. Now, where nothing is known of its end: an order without an answer
 * is no end.
 *
 * In its first tick after a silence a gate cannot know what cron had deleted meanwhile; what is raised stays raised until the
 * line closes. The longest that cron lets a pod live stands in for now: while RunPod answers, no pod costs more. The sweep of
 * the same tick then tells what it deleted, the gate's own look finds out, and what nobody has deleted until the next tick
 * counts in full, however old it is. A bound for good would hide what runs on while RunPod takes no order.
 */
function paidUntil(line: LedgerLine, { teardown, stray }: Known, wasSilent: boolean, now: Millis): Millis {
  const goneAt = teardown === null ? null : knownGone(teardown);
  if (goneAt !== null) return Math.min(goneAt, now);
  if (!wasSilent) return now;
  const due = Math.max(line.paid_from + DEFAULT_REAP_LIMITS.backstopMs, stray?.retained?.until ?? 0);
  return Math.min(due + LATE_MS, now);
}
