/**
 * Money as whole micro-dollars (a millionth of a US dollar), so that sums are exact and budgets compare without doubt.
 *
 * Rounding, once and only here: what was spent rounds half up to the nearest micro-dollar; what is reserved rounds up,
 * because a reservation must never be smaller than the bill it stands for. Prices are per hour, as RunPod states them;
 * time is billed by the second at RunPod, and counted here by the millisecond.
 */
import type { Millis } from "../ports.ts";
import { assert } from "../result.ts";

/** A whole number of millionths of a US dollar. */
export type MicroUsd = number;

export const MICRO_PER_USD = 1_000_000;
export const HOUR_MS = 3_600_000;
/** The longest an attempt may cost money before the gate has ended it: start-up, the job's lifetime, and the deletion. */
export const RESERVED_MS = 4_320_000;
/** RunPod's bill may start or end this much away from what we saw, besides the time of one request. */
export const DRIFT_ALLOWANCE_MS = 2_000;

/** Dollars as the provider writes them (0.44), to the nearest micro-dollar. */
export function microUsd(dollars: number): MicroUsd {
  assert(Number.isFinite(dollars), "a price is a finite number");
  return Math.round(dollars * MICRO_PER_USD);
}

/** What `durationMs` at this hourly price cost, to the nearest micro-dollar; a negative time costs nothing. */
export function costOf(pricePerHour: MicroUsd, durationMs: Millis): MicroUsd {
  return Math.floor((product(pricePerHour, durationMs) + HOUR_MS / 2) / HOUR_MS);
}

/** The same, rounded up: for amounts set aside before the money is spent. */
export function reservationOf(pricePerHour: MicroUsd, durationMs: Millis): MicroUsd {
  return Math.ceil(product(pricePerHour, durationMs) / HOUR_MS);
}

/**
 * What one attempt is reserved at: the highest price of the plan for the longest paid time, whichever candidate it gets.
 * Null for an empty plan, where there is nothing to buy.
 */
export function worstCase(pricesPerHour: readonly MicroUsd[], durationMs: Millis = RESERVED_MS): MicroUsd | null {
  if (pricesPerHour.length === 0) return null;
  return reservationOf(Math.max(...pricesPerHour), durationMs);
}

/** Our own estimate for a pod, from the answer to its create until DELETE's answer; it never looks at the bill. */
export function ownEstimate(pricePerHour: MicroUsd, createdAt: Millis, deletedAt: Millis): MicroUsd {
  return costOf(pricePerHour, deletedAt - createdAt);
}

/**
 * Whether a bill differs from our estimate by more than our view of time can explain: 2 s and the time of one request.
 * `requestMs` is how long the slowest of the create and the delete request took.
 */
export function driftsFromBill(
  estimate: MicroUsd,
  billed: MicroUsd,
  pricePerHour: MicroUsd,
  requestMs: Millis,
): boolean {
  return Math.abs(estimate - billed) > reservationOf(pricePerHour, DRIFT_ALLOWANCE_MS + requestMs);
}

/** `$0.0697`: four places, enough for a pod of seconds; whole cents stay readable. */
export function formatUsd(amount: MicroUsd): string {
  const sign = amount < 0 ? "-" : "";
  const tenThousandths = Math.round(Math.abs(amount) / 100);
  const whole = Math.floor(tenThousandths / 10_000);
  return `${sign}$${whole}.${String(tenThousandths % 10_000).padStart(4, "0")}`;
}

function product(pricePerHour: MicroUsd, durationMs: Millis): number {
  const value = pricePerHour * Math.max(0, durationMs);
  assert(Number.isSafeInteger(pricePerHour) && pricePerHour >= 0, "a price is a whole number of micro-dollars");
  assert(Number.isSafeInteger(value), "price times duration stays below 2^53: hours of any real pod do by far");
  return value;
}
