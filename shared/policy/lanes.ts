/**
 * The lanes on a maintainer's own machines, told as open or ready.
 *
 * A lane without a machine behind it stays in the configuration on purpose: its contract is the wish. It is listed as
 * OPEN and its checks as NOT RUN, which is a word of its own: neither passed nor failed nor skipped.
 */
import { REASONS, type CodesOf } from "../audit/reasons.ts";
import { describeSeen, probeReasonCode, type ProbeVerdict } from "./probe.ts";

/** The part of a configured lane that this list needs; `own` is null for hosted and rented lanes. */
export interface ConfiguredLane {
  readonly checks: readonly string[];
  readonly own: {
    readonly runs_on: readonly string[];
    readonly switch: string;
    readonly runbook: string | null;
  } | null;
}

export interface LaneRow {
  readonly name: string;
  readonly labels: readonly string[];
  readonly switchName: string;
  readonly checks: readonly string[];
  readonly runbook: string | null;
  /** READY: an online runner carries every label right now. OPEN: everything else. */
  readonly state: "READY" | "OPEN";
  /** `NOT RUN` while the lane is open; empty when its jobs can run. */
  readonly word: "NOT RUN" | "";
  /** Null when nobody asked GitHub. */
  readonly code: CodesOf<"lane"> | null;
  readonly why: string;
}

/** One row for each own lane, in the order of the configuration. A lane without a verdict was not asked about. */
export function laneRows(
  lanes: Readonly<Record<string, ConfiguredLane>>,
  verdicts: ReadonlyMap<string, ProbeVerdict> = new Map(),
): readonly LaneRow[] {
  return Object.entries(lanes).flatMap(([name, lane]) => {
    if (lane.own === null) return [];
    const verdict = verdicts.get(name);
    const ready = verdict?.available === true;
    const code = verdict === undefined ? null : probeReasonCode(verdict.reason);
    return [
      {
        name,
        labels: lane.own.runs_on,
        switchName: lane.own.switch,
        checks: lane.checks,
        runbook: lane.own.runbook,
        state: ready ? "READY" : "OPEN",
        word: ready ? "" : "NOT RUN",
        code,
        why: whyOf(verdict, code),
      } as const,
    ];
  });
}

function whyOf(verdict: ProbeVerdict | undefined, code: CodesOf<"lane"> | null): string {
  if (verdict === undefined || code === null) return "GitHub was not asked whether a machine stands behind it.";
  return verdict.fail ? `${REASONS[code].sentence} ${describeSeen(verdict.seen)}` : REASONS[code].sentence;
}
