/** `gpu-gate classify --since`: the local history under two configurations. */
import { changePolicy } from "../shared/policy/classify.ts";
import { whatIf, type Difference, type WhatIfTotals } from "../shared/policy/what-if.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Io } from "./command.ts";
import { history, resolveCommit } from "./git.ts";
import { configFromFile } from "./repository-config.ts";

export interface WhatIfOptions {
  readonly config: string;
  readonly against: string | undefined;
  readonly since: string;
  readonly ref: string;
  readonly json: boolean;
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { h: 3600, d: 86_400, w: 604_800 };
/** Longer lists are for `--json`. */
const SHOWN = 200;

export async function runWhatIf(options: WhatIfOptions, io: Io): Promise<number> {
  const sinceSeconds = sinceOf(options.since, io.now());
  const after = await configFromFile(io, options.config, "Give another with --config");
  if (!after.ok) return refuse(io, after.error);
  const before = await configFromFile(io, options.against, "Give another with --against");
  if (!before.ok) return refuse(io, before.error);
  const commit = await resolveCommit(io.cwd, options.ref);
  if (!commit.ok) return refuse(io, [`${commit.error.detail}.`]);
  const replay = whatIf(changePolicy(before.value), changePolicy(after.value));
  const differences: Difference[] = [];
  const read = await history(io.cwd, { commit: commit.value, sinceSeconds }, (change) => {
    const difference = replay.add(change);
    if (difference !== null) differences.push(difference);
  });
  if (!read.ok) return refuse(io, [`${read.error.detail}.`]);
  const totals = replay.totals();
  io.stdout(options.json ? `${JSON.stringify({ totals, differences }, null, 2)}\n` : report(totals, differences));
  return EXIT_OK;
}

/** `90d`, `12w`, `36h` back from now, or a date. Gives seconds since the epoch, as git takes them. */
export function sinceOf(text: string, nowMs: number): number {
  const span = /^([1-9]\d{0,5})([hdw])$/.exec(text);
  if (span !== null) {
    const seconds = Number(span[1]) * (UNIT_SECONDS[span[2] ?? ""] ?? 0);
    return Math.max(0, Math.floor(nowMs / 1000) - seconds);
  }
  const date = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(date))
    throw new UsageError(`--since '${text}' is no time: write 90d, 12w, 36h or a date such as 2026-09-01.`);
  return Math.max(0, Math.floor(date / 1000));
}

function report(totals: WhatIfTotals, differences: readonly Difference[]): string {
  const lines: string[] = [];
  for (const difference of differences.slice(0, SHOWN)) {
    const day = new Date(difference.committedAt * 1000).toISOString().slice(0, 10);
    const lanes = [...difference.turnedOn.map((lane) => `+${lane}`), ...difference.turnedOff.map((lane) => `-${lane}`)];
    const classes =
      difference.before === difference.after ? difference.before : `${difference.before} -> ${difference.after}`;
    lines.push(`${difference.sha.slice(0, 10)} ${day} ${classes} ${lanes.join(" ")}  ${printable(difference.subject)}`);
  }
  if (differences.length > SHOWN) lines.push(`... and ${differences.length - SHOWN} more (all of them with --json)`);
  if (differences.length > 0) lines.push("");
  lines.push(`${totals.different} of ${totals.changes} changes would differ`);
  for (const [lane, { before, after }] of Object.entries(totals.lanes)) {
    const delta = after - before;
    lines.push(`  ${lane}: ${before} runs before, ${after} after (${delta > 0 ? "+" : ""}${delta})`);
  }
  return `${lines.join("\n")}\n`;
}

/** A commit's subject may hold escape sequences; a terminal must not obey them. */
function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, "?").slice(0, 80);
}

function refuse(io: Io, problems: readonly string[]): number {
  for (const problem of problems) io.stderr(`gpu-gate classify: ${problem}\n`);
  return EXIT_NO;
}
