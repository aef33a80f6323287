/**
 * The probe: may a job that targets a maintainer's own machine be sent to GitHub's queue at all?
 *
 * Two independent facts admit it, and nothing else does: the lane's switch is exactly `true`, and one online runner
 * carries every label of the lane. Everything doubtful about an enabled lane is a loud failure, because a job that no
 * runner can take waits in GitHub's queue for a day without a word. A disabled lane asks GitHub nothing.
 *
 * The decision is for now: a caller that stores it as an admission for later has misread it.
 */
import * as z from "zod";
import type { CodesOf } from "../audit/reasons.ts";
import { unreachable } from "../result.ts";

export type ProbeReason =
  | "disabled"
  | "empty-label-set"
  | "api-error"
  | "invalid-response"
  | "no-complete-match"
  | "offline"
  | "online";

/** One answered page of a runner list: its body as text, or already parsed. */
export type RunnerPage = unknown;

/** What reading the lists of runners gave: every page of every list that was asked, or the first thing that went wrong. */
export type RunnerListing =
  | {
      readonly kind: "pages";
      readonly pages: readonly RunnerPage[];
      /** Set when the pages may lack runners (the list kept changing while it was read): what a match on them still proves, its absence does not. */
      readonly incomplete?: string;
    }
  | { readonly kind: "failure"; readonly what: string };

export interface ProbeInput {
  /** The repository variable's text; null when it is not set. */
  readonly switchValue: string | null;
  /** The label set as a list, or as text with blanks or commas between the names. */
  readonly requiredLabels: readonly string[] | string;
  /** Null only when nobody asked, which is right for a lane that needs no answer. */
  readonly listing: RunnerListing | null;
  /** Ids of runners that do not count: rented machines, as the gate knows them. */
  readonly unprovenRunnerIds?: ReadonlySet<string>;
}

/** What was seen, for the message of a failure: counts, the matches, and the nearest misses with what they lack. */
export interface RunnersSeen {
  readonly runners: number;
  readonly matches: readonly { readonly name: string; readonly status: string }[];
  readonly nearest: readonly { readonly name: string; readonly status: string; readonly missing: readonly string[] }[];
  /** What could not be read, in one sentence; null when everything could. */
  readonly problem: string | null;
}

export interface ProbeVerdict {
  readonly enabled: boolean;
  /** A runner with the whole label set exists, online or not. */
  readonly registered: boolean;
  /** The hardware job may run. */
  readonly available: boolean;
  /** Loud: the probe's own job must end red. */
  readonly fail: boolean;
  readonly reason: ProbeReason;
  readonly seen: RunnersSeen;
}

/**
 * The label that the gate makes for one rented machine. Such a runner has one job of its own and may not have proven its
 * GPU yet: it is no capacity of any lane, also where nobody can ask the gate for its runners' ids.
 */
const RENTED_LABEL = /^gpu-gate-[0-9a-f]{24}$/;

const NEAREST_SHOWN = 3;
const MATCHES_SHOWN = 10;

/** GitHub: `GET {repos|orgs}/.../actions/runners` answers `{total_count, runners[]}`; unknown fields are let pass. */
const pageSchema = z.object({ runners: z.array(z.unknown()) });

interface Runner {
  readonly id: string | null;
  readonly name: string;
  readonly status: string;
  readonly labels: readonly string[];
}

/**
 * One entry of the list, or null when it cannot be read. By hand instead of by schema: this is the one hot loop of the
 * probe, and a schema costs more over 1,000 runners than everything else together (`bench/probe.ts`).
 */
function readRunner(entry: unknown): Runner | null {
  if (!isRecord(entry) || !Array.isArray(entry["labels"])) return null;
  const labels: string[] = [];
  for (const label of entry["labels"] as unknown[]) {
    if (!isRecord(label) || typeof label["name"] !== "string") return null;
    labels.push(asciiLower(label["name"]));
  }
  const { id, name, status } = entry;
  return {
    id: typeof id === "string" || typeof id === "number" ? String(id) : null,
    name: typeof name === "string" ? name : "(unnamed)",
    // Without a readable status nobody has called the runner online.
    status: typeof status === "string" ? status : "(no status)",
    labels,
  };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Whether the runners have to be read at all, and for which labels.
 * A verdict means that no question to GitHub may follow: the lane is off, or it names no labels.
 */
export function admitProbe(
  input: Pick<ProbeInput, "switchValue" | "requiredLabels">,
):
  | { readonly ask: true; readonly labels: readonly string[] }
  | { readonly ask: false; readonly verdict: ProbeVerdict } {
  // Exactly `true`: " true" or "True" is somebody's typing mistake, and a mistake must not send jobs to a queue.
  if (input.switchValue !== "true") return { ask: false, verdict: verdict("disabled", NOTHING_SEEN) };
  const labels = labelSet(input.requiredLabels);
  if (labels.length === 0) return { ask: false, verdict: verdict("empty-label-set", NOTHING_SEEN) };
  return { ask: true, labels };
}

/** The whole decision. A listing that is missing although the lane needed one counts as an answer that failed. */
export function decideProbe(input: ProbeInput): ProbeVerdict {
  const admitted = admitProbe(input);
  if (!admitted.ask) return admitted.verdict;
  return judgeRunners(
    admitted.labels,
    input.listing ?? { kind: "failure", what: "the list of runners was never asked for" },
    input.unprovenRunnerIds,
  );
}

/** Judges what was read. Labels never add up across runners; one unreadable entry spoils the whole answer. */
export function judgeRunners(
  labels: readonly string[],
  listing: RunnerListing,
  unproven: ReadonlySet<string> = new Set(),
): ProbeVerdict {
  if (listing.kind === "failure") return verdict("api-error", { ...NOTHING_SEEN, problem: listing.what });
  const read = readPages(listing.pages);
  if ("problem" in read) return verdict("invalid-response", { ...NOTHING_SEEN, problem: read.problem });

  const wanted = [...new Set(labels.map(asciiLower))];
  const matches: { name: string; status: string }[] = [];
  const misses: { name: string; status: string; missing: string[] }[] = [];
  let online = false;
  for (const runner of read.runners) {
    if (runner.id !== null && unproven.has(runner.id)) continue;
    if (runner.labels.some((label) => RENTED_LABEL.test(label))) continue;
    const { name, status } = runner;
    const missing = wanted.filter((label) => !runner.labels.includes(label));
    if (missing.length > 0) {
      if (misses.length < NEAREST_SHOWN || missing.length < (misses.at(-1)?.missing.length ?? 0)) {
        misses.push({ name, status, missing });
        misses.sort((a, b) => a.missing.length - b.missing.length).splice(NEAREST_SHOWN);
      }
      continue;
    }
    matches.push({ name, status });
    // `busy` is not looked at: a busy runner takes the job when it is free, and GitHub's queue is right for that wait.
    if (status === "online") online = true;
  }
  const seen: RunnersSeen = {
    runners: read.runners.length,
    matches: matches.slice(0, MATCHES_SHOWN),
    nearest: misses,
    problem: null,
  };
  if (online) return verdict("online", seen);
  if (listing.incomplete !== undefined) return verdict("api-error", { ...seen, problem: listing.incomplete });
  return verdict(matches.length > 0 ? "offline" : "no-complete-match", seen);
}

/** The label set as written: names are kept whole, blanks and commas part them, empty ones drop out. */
export function labelSet(labels: readonly string[] | string): readonly string[] {
  const names = typeof labels === "string" ? labels.split(/[\s,]+/u) : labels.map((label) => label.trim());
  return names.filter((name) => name !== "");
}

/**
 * Lower case for ASCII letters only. GitHub compares labels without case; JavaScript's own lower case would also fold
 * other letters onto ASCII ones (the Kelvin sign onto `k`), and two labels that differ there are two labels.
 */
export function asciiLower(text: string): string {
  return text.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** The code of the common list that goes with a probe's reason. */
export function probeReasonCode(reason: ProbeReason): CodesOf<"lane"> {
  switch (reason) {
    case "disabled":
      return "lane-disabled";
    case "empty-label-set":
      return "lane-labels-missing";
    case "api-error":
    case "invalid-response":
      return "lane-probe-failed";
    case "no-complete-match":
      return "lane-no-match";
    case "offline":
      return "lane-offline";
    case "online":
      return "lane-available";
    default:
      return unreachable(reason, "probe reason");
  }
}

/** One sentence about what was seen, fit for a log line or an annotation: no line breaks, names cut to a sane length. */
export function describeSeen(seen: RunnersSeen): string {
  if (seen.problem !== null) return `${oneLine(seen.problem)}.`;
  const online = seen.matches.filter((match) => match.status === "online").length;
  if (seen.matches.length > 0) {
    const names = seen.matches.map((match) => `${oneLine(match.name)} (${oneLine(match.status)})`).join(", ");
    return `${seen.runners} runners, ${online} online with every label: ${names}.`;
  }
  if (seen.nearest.length === 0) return `${seen.runners} runners.`;
  const nearest = seen.nearest.map((miss) => `${oneLine(miss.name)} lacks ${miss.missing.map(oneLine).join(" ")}`);
  return `${seen.runners} runners, none with every label; nearest: ${nearest.join("; ")}.`;
}

const NOTHING_SEEN: RunnersSeen = { runners: 0, matches: [], nearest: [], problem: null };

function verdict(reason: ProbeReason, seen: RunnersSeen): ProbeVerdict {
  return {
    enabled: reason !== "disabled",
    registered: reason === "online" || reason === "offline",
    available: reason === "online",
    fail: reason !== "online" && reason !== "disabled",
    reason,
    seen,
  };
}

function readPages(
  pages: readonly RunnerPage[],
): { readonly runners: readonly Runner[] } | { readonly problem: string } {
  if (pages.length === 0) return { problem: "the list of runners came without a single page" };
  const runners: Runner[] = [];
  for (const [index, page] of pages.entries()) {
    const body = typeof page === "string" ? parseJson(page) : page;
    const parsed = pageSchema.safeParse(body);
    if (!parsed.success) return { problem: `page ${index + 1} of the runner list is not what GitHub documents` };
    for (const entry of parsed.data.runners) {
      const runner = readRunner(entry);
      if (runner === null) return { problem: `page ${index + 1} of the runner list has an entry that cannot be read` };
      runners.push(runner);
    }
  }
  return { runners };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function oneLine(text: string): string {
  return text.replaceAll(/[\s\p{Cc}]+/gu, " ").slice(0, 200);
}
