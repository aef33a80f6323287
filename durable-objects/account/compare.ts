/**
 * Comparing the account's books with the gates' and with RunPod's own list, once a tick (design 3.5, step 3).
 *
 * What a gate settled and the account did not hear of is settled here too. An attempt that its gate does not know, and that
 * two complete lists do not show, is given back. Money that a gate holds open, or a pod that is there, and that is missing
 * here, is booked at once and counts in the next decision. Every difference is a finding for people to see.
 */
import type { GateMoney, MoneyStanding } from "../gate/money.ts";
import type { Sql } from "../gate/ports.ts";
import { costOf, microUsd, RESERVED_MS, type MicroUsd } from "../../shared/cost/estimate.ts";
import type { Millis } from "../../shared/ports.ts";
import { unreachable } from "../../shared/result.ts";
import { AccountMoney, type AccountMoneyRow } from "./money.ts";

/** A pod of ours that is alive in the list. */
export interface SeenPod {
  readonly podId: string;
  readonly repositoryId: string;
  readonly attemptId: string;
  /** USD per hour; null when RunPod named none. */
  readonly pricePerHour: number | null;
  /** Null: its age could not be told, so it counts as long paid. */
  readonly createdAt: Millis | null;
}

export interface BooksSeen {
  /** Null: no list could be read. Then nothing is given back. */
  readonly list: { readonly startedAt: Millis; readonly complete: boolean } | null;
  readonly pods: readonly SeenPod[];
  /** What each gate said that answered. */
  readonly gates: readonly { readonly repositoryId: string; readonly money: GateMoney }[];
}

export interface BookFinding {
  readonly kind:
    /** The gate had settled it; only the account had not heard. No alarm: a lost answer is made up here. */
    | "settled"
    /** Nobody knows this attempt any more: its money was given back. */
    | "released"
    /** Money was missing here. */
    | "booked"
    /** A pod costs more than was set aside for it. */
    | "raised";
  readonly repositoryId: string;
  readonly attemptId: string;
  readonly micros: MicroUsd;
}

/** The dearest pod that may be bought, USD per hour. */
const UNKNOWN_RATE = microUsd(1.6);
/** Two lists closer than this are one look. */
const LIST_GAP_MS = 10_000;

/** One transaction. Repeating it with the same input changes nothing more. */
export function compareBooks(sql: Sql, seen: BooksSeen, now: Millis): readonly BookFinding[] {
  const money = new AccountMoney(sql);
  const findings: BookFinding[] = [];
  const note = (kind: BookFinding["kind"], repositoryId: string, attemptId: string, micros: MicroUsd) =>
    findings.push({ kind, repositoryId, attemptId, micros });
  sql.transaction(() => {
    for (const row of money.open()) {
      const found = settleOpen(row, seen, money, now);
      if (found !== null) note(found, row.repository_id, row.attempt_id, row.micros);
    }
    for (const gate of seen.gates) {
      for (const { attemptId, micros } of gate.money.open) {
        const row = money.of(gate.repositoryId, attemptId);
        if (row === null || (row.state === "released" && wasSettledBefore(row, seen))) {
          money.book(attemptId, gate.repositoryId, micros, null, now);
          note("booked", gate.repositoryId, attemptId, micros);
        } else if (row.state === "reserved" && row.micros < micros) {
          money.raise(row, micros);
          note("raised", gate.repositoryId, attemptId, micros);
        }
      }
    }
    for (const pod of seen.pods) {
      const id = unbooked(pod, seen, money);
      if (id === null) continue;
      const rateMicros = rateOf(pod);
      const since = pod.createdAt ?? now - RESERVED_MS;
      const micros = Math.max(costOf(rateMicros, RESERVED_MS), costOf(rateMicros, now - since));
      money.book(id, pod.repositoryId, micros, { rateMicros, since }, now);
      note("booked", pod.repositoryId, id, micros);
    }
  });
  return findings;
}

/** Where an open line stands at its gate, and what follows. */
function settleOpen(
  row: AccountMoneyRow,
  seen: BooksSeen,
  money: AccountMoney,
  now: Millis,
): BookFinding["kind"] | null {
  const visible = seen.pods.find((pod) => pod.repositoryId === row.repository_id && namesAttempt(pod, row.attempt_id));
  const standing = standingOf(row, seen);
  if (standing === null) return null;
  switch (standing.state) {
    case "spent":
      money.commit(row.attempt_id, row.repository_id, standing.micros, now);
      return "settled";
    case "released":
      money.release(row.attempt_id, row.repository_id, now);
      return "settled";
    case "asking":
    case "reserved":
      money.setAbsent(row, null);
      return null;
    case "unknown":
      return unknownAtGate(row, visible, seen, money, now);
    default:
      return unreachable(standing.state, "money standing");
  }
}

function unknownAtGate(
  row: AccountMoneyRow,
  visible: SeenPod | undefined,
  seen: BooksSeen,
  money: AccountMoney,
  now: Millis,
): BookFinding["kind"] | null {
  const { list } = seen;
  if (visible !== undefined) {
    money.setAbsent(row, null);
    const running = costOf(rateOf(visible), now - (visible.createdAt ?? now - RESERVED_MS));
    if (running <= row.micros) return null;
    money.raise(row, running);
    return "raised";
  }
  if (list === null || !list.complete) return null;
  if (row.absent_since === null) {
    money.setAbsent(row, list.startedAt);
    return null;
  }
  if (list.startedAt - row.absent_since < LIST_GAP_MS) return null;
  // A pod that was seen was paid for until it went, at the latest when the first list did not show it any more.
  if (row.rate_micros !== null && row.since !== null) {
    const spent = costOf(row.rate_micros, row.absent_since - row.since);
    money.commit(row.attempt_id, row.repository_id, spent, now);
    return "settled";
  }
  money.release(row.attempt_id, row.repository_id, now);
  return "released";
}

function standingOf(row: AccountMoneyRow, seen: BooksSeen): MoneyStanding | null {
  const gate = seen.gates.find((one) => one.repositoryId === row.repository_id);
  return gate?.money.standings.find((one) => one.attemptId === row.attempt_id) ?? null;
}

/** The id under which a visible pod's money is missing; null when it is booked, or its gate books it. */
function unbooked(pod: SeenPod, seen: BooksSeen, money: AccountMoney): string | null {
  const stray = strayId(pod);
  if (money.of(pod.repositoryId, stray) !== null) return null;
  const row = money.of(pod.repositoryId, pod.attemptId);
  if (row === null) return pod.attemptId;
  // Settled before this list began, and the pod is there all the same: a late one, with money of its own.
  const late = row.state !== "reserved" && row.settled_at !== null && seen.list !== null;
  return late && wasSettledBefore(row, seen) ? stray : null;
}

/** The gates tell their side after the list began: what was settled since may still be open in their words. */
function wasSettledBefore(row: AccountMoneyRow, seen: BooksSeen): boolean {
  return seen.list === null || (row.settled_at ?? 0) < seen.list.startedAt;
}

/** A pod's own line, beside its attempt's. The gates use the same id. */
function strayId(pod: SeenPod): string {
  return `stray-${pod.podId}`;
}

function namesAttempt(pod: SeenPod, attemptId: string): boolean {
  return pod.attemptId === attemptId || strayId(pod) === attemptId;
}

function rateOf(pod: SeenPod): MicroUsd {
  return pod.pricePerHour !== null && pod.pricePerHour > 0 ? microUsd(pod.pricePerHour) : UNKNOWN_RATE;
}
