/** What the aggregator's check says: one sentence, the table, and where to go when a lane's machine is not there. */
import type { RepositoryConfig } from "../config/schema.ts";
import type { Millis } from "../ports.ts";
import { aggregatorTable, type Aggregate } from "./aggregator.ts";

export interface AggregateView {
  readonly status: "queued" | "in_progress" | "completed";
  readonly conclusion: "success" | "failure" | "timed_out" | "cancelled" | null;
  readonly title: string;
  readonly summary: string;
}

/** Names shown in a title before "and N more". */
const NAMES_SHOWN = 3;

export function aggregateView(result: Aggregate, config: RepositoryConfig, timeoutMs: Millis): AggregateView {
  const body = [...probeLines(result, config), aggregatorTable(result), ...openLanes(result, config)].join("\n");
  const total = result.rows.length;
  switch (result.decision) {
    case "pass":
      return {
        status: "completed",
        conclusion: "success",
        title: total === 1 ? "The required check is accepted" : `All ${total} required checks are accepted`,
        summary: body,
      };
    case "fail": {
      const late = result.failed.filter(({ why }) => why === "still-running").map(({ name }) => name);
      const names = result.failed.map(({ name }) => name);
      const minutes = Math.round(timeoutMs / 60_000);
      return {
        status: "completed",
        conclusion: late.length > 0 ? "timed_out" : "failure",
        title:
          late.length > 0
            ? `Still running after ${minutes} min: ${list(late)}`
            : `${names.length} of ${total} not accepted: ${list(names)}`,
        summary: body,
      };
    }
    case "wait": {
      if (result.draft) {
        return { status: "queued", conclusion: null, title: "Draft: never green before it is ready", summary: body };
      }
      const awaited = [...result.running, ...result.missing];
      return {
        status: "in_progress",
        conclusion: null,
        title: awaited.length === 0 ? "Waiting whether checks are run again" : `Waiting for ${list(awaited)}`,
        summary: body,
      };
    }
  }
}

/** What could not be read keeps the answer open; when the time is over it is said instead of an answer. */
export function troubleView(problem: string, overdue: boolean): AggregateView {
  return {
    status: overdue ? "completed" : "in_progress",
    conclusion: overdue ? "timed_out" : null,
    title: overdue ? "Not judged: the time is over" : "Cannot be judged yet",
    summary: `${problem}. Nothing is guessed: ${overdue ? "re-run this check to ask again" : "it is asked again soon"}.`,
  };
}

/** The last word on a head that nobody waits for any more. */
export function endedView(why: string): AggregateView {
  return {
    status: "completed",
    conclusion: "cancelled",
    title: why,
    summary: `${why}. Nothing is judged here any more.`,
  };
}

/** A lane whose machine was not there is told as that, in front of everything else. */
function probeLines(result: Aggregate, config: RepositoryConfig): string[] {
  const lines = result.failedProbes.map(({ name, probe, conclusion }) => {
    const [lane, own] = laneOf(name, config);
    const runbook = own?.runbook ?? null;
    const way = runbook === null ? "" : ` [Runbook](${runbook})`;
    return `**Lane \`${code(lane)}\` is on, but its probe \`${code(probe)}\` ended ${code(conclusion)}**: no machine was there for \`${code(name)}\`.${way}`;
  });
  return lines.flatMap((line) => [line, ""]);
}

/** What did not run is open state, also where it is accepted. */
function openLanes(result: Aggregate, config: RepositoryConfig): string[] {
  const names = result.rows.filter(({ state }) => state === "NOT RUN").map(({ name }) => name);
  if (names.length === 0) return [];
  const lanes = names.map((name) => `\`${code(name)}\` (lane \`${code(laneOf(name, config)[0])}\`)`);
  return ["", `NOT RUN: ${lanes.join(", ")}. Accepted while the lane is off; it has not passed.`];
}

function laneOf(check: string, config: RepositoryConfig): [string, RepositoryConfig["lanes"]["gpu"]["own"]] {
  const found = Object.entries(config.lanes).find(([, lane]) => lane.checks.includes(check));
  return found === undefined ? ["unknown", null] : [found[0], found[1].own];
}

function list(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_SHOWN).join(", ");
  return names.length > NAMES_SHOWN ? `${shown} and ${names.length - NAMES_SHOWN} more` : shown;
}

/** Inside backticks nothing acts but a backtick. */
function code(text: string): string {
  return text.replaceAll("`", "'").replaceAll(/[\s\p{Cc}]+/gu, " ");
}
