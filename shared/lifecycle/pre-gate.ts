/**
 * The checks that must be green on a head before money is spent on it (`rustfmt` and `clippy` by default).
 *
 * Per name the newest attempt decides that is not a completed, cancelled or skipped one: such an attempt was overtaken,
 * and counts as if it were not there. An older success never hides a newer attempt that runs or failed, and a failure
 * is told at once, without waiting for the others.
 */
import type { Millis } from "../ports.ts";

export interface PreGateCheck {
  readonly name: string;
  readonly status: string;
  readonly conclusion: string | null;
  readonly startedAt: Millis | null;
  readonly createdAt: Millis | null;
}

export interface PreGate {
  readonly decision: "ready" | "wait" | "fail";
  /** Names without an attempt that counts, in the order of the configuration; likewise below. */
  readonly missing: readonly string[];
  readonly pending: readonly string[];
  readonly failed: readonly string[];
}

/** Judges the check runs of one head. A completed attempt that is not a success has failed, whatever its conclusion. */
export function evaluatePreGate(required: readonly string[], checks: readonly PreGateCheck[]): PreGate {
  const missing: string[] = [];
  const pending: string[] = [];
  const failed: string[] = [];
  for (const name of new Set(required)) {
    const check = effective(checks.filter((candidate) => candidate.name === name));
    if (check === null) missing.push(name);
    else if (check.status !== "completed") pending.push(name);
    else if (check.conclusion !== "success") failed.push(name);
  }
  if (failed.length > 0) return { decision: "fail", missing, pending, failed };
  const decision = missing.length + pending.length === 0 ? "ready" : "wait";
  return { decision, missing, pending, failed };
}

/** The newest attempt that was not overtaken. Without any time an attempt counts as the oldest; ties keep the listing's order. */
function effective(attempts: readonly PreGateCheck[]): PreGateCheck | null {
  const timeOf = (check: PreGateCheck) => check.startedAt ?? check.createdAt ?? 0;
  const overtaken = (check: PreGateCheck) =>
    check.status === "completed" && (check.conclusion === "cancelled" || check.conclusion === "skipped");
  return attempts.toSorted((a, b) => timeOf(b) - timeOf(a)).find((check) => !overtaken(check)) ?? null;
}
