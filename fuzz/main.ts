/**
 * `npm run fuzz -- --cases 100000`: every target, its corpus first, then fresh cases; a finding ends its target and the run
 * ends with 1 and the command that plays it again. `--help` lists the options.
 */
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { misused, numberOf, optionsOf, type Command } from "../sim/options.ts";
import { keep } from "./corpus.ts";
import { SLOW_MS, type Tally } from "./run.ts";
import { targets } from "./targets/index.ts";
import { watched, type Report } from "./watched.ts";

const COMMAND: Command = {
  name: "npm run fuzz",
  usage: `npm run fuzz -- [options]

  --cases N      so many in all, shared out among the targets (10000)
  --target a,b   only these
  --seed S       draw from this seed (the clock's)
  --minutes M    stop after so long
  --keep         write each finding into the corpus
  --case FILE    one case of one target, as the corpus keeps it or as it was printed
  --json FILE    write the end's JSON there too
`,
};

const { values } = optionsOf(COMMAND, {
  options: {
    cases: { type: "string", default: "10000" },
    target: { type: "string" },
    seed: { type: "string" },
    minutes: { type: "string" },
    keep: { type: "boolean", default: false },
    case: { type: "string" },
    json: { type: "string" },
  },
});

const HANG_MS = 10_000;
/** More than this and more than a kilobyte a case: something is kept that nobody needs. */
const GROWTH_BYTES = 64 * 1024 * 1024;
const GROWTH_PER_CASE = 1_024;

const wanted = values.target?.split(",").map((name) => name.trim());
const unknown = wanted?.filter((name) => !targets.some((one) => one.name === name)) ?? [];
if (unknown.length > 0) {
  misused(COMMAND, `there is no target ${unknown.join(", ")}. Known: ${targets.map((one) => one.name).join(", ")}`);
}
const chosen = targets.filter((one) => wanted?.includes(one.name) ?? true);
const seed = values.seed === undefined ? Date.now() % 1_000_000_007 : numberOf(COMMAND, "seed", values.seed);
const cases = numberOf(COMMAND, "cases", values.cases);
const forMs =
  values.minutes === undefined ? null : numberOf(COMMAND, "minutes", values.minutes, { whole: false }) * 60_000;
const only = values.case === undefined ? undefined : caseOf(readFileSync(values.case, "utf8"));

const reports: Report[] = [];
const findings: string[] = [];
const began = Date.now();
const shares = chosen.reduce((sum, one) => sum + one.share, 0);
for (const target of chosen) {
  const own = Math.max(1, Math.round((cases * target.share) / shares));
  console.log(
    `${target.name}: ${only === undefined ? `${own} cases from seed ${seed}` : "one case"} (${target.about})`,
  );
  let saidAt = Date.now();
  const report = await watched(
    {
      module: new URL("./targets/index.ts", import.meta.url).href,
      target: target.name,
      seed,
      cases: own,
      forMs: forMs === null ? null : (forMs * target.share) / shares,
      ...(only === undefined ? {} : { only }),
    },
    {
      hangMs: target.hangMs ?? HANG_MS,
      onProgress: (tally) => {
        if (Date.now() - saidAt < 10_000) return;
        saidAt = Date.now();
        console.log(`  ${tally.cases} of ${own}, ${rateOf(tally)} cases/s`);
      },
    },
  );
  reports.push(report);
  console.log(`  ${describe(report)}`);
  if (report.tally.slow > 0) console.log(`  the slowest: ${JSON.stringify(report.tally.slowest).slice(0, 1_000)}`);
  const growth = growthOf(report);
  if (growth !== null) {
    findings.push(`${target.name}: ${growth}`);
    console.log(`  FINDING: ${growth}`);
  }
  const { finding } = report;
  if (finding === null) continue;
  findings.push(`${target.name}: ${finding.what}`);
  console.log(`  FINDING: ${finding.what}`);
  console.log(`  the case: ${JSON.stringify(finding.given).slice(0, 2_000)}`);
  if (values.keep) console.log(`  kept as ${keep(finding)}`);
  const again =
    finding.seed === null
      ? `npm run fuzz -- --target ${target.name} --cases 1`
      : `npm run fuzz -- --target ${target.name} --seed ${finding.seed} --cases 250`;
  console.log(`  again: ${again}`);
}

const summary = {
  seed,
  seconds: Math.round((Date.now() - began) / 1000),
  cases: reports.reduce((sum, one) => sum + one.tally.cases, 0),
  findings,
  targets: reports.map((one) => ({
    name: one.target,
    cases: one.tally.cases,
    kept: one.kept,
    casesPerSecond: rateOf(one.tally),
    slowestMs: Math.round(one.tally.slowestMs),
    over2s: one.tally.slow,
    heapGrowthKiB: Math.round((one.heapLast - one.heapFirst) / 1024),
    finding: one.finding,
  })),
};
console.log(JSON.stringify(summary));
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(summary, null, 2)}\n`);
process.exitCode = findings.length > 0 ? 1 : 0;

/** A file of the corpus, or a bare case. */
function caseOf(text: string): string {
  const read = JSON.parse(text) as unknown;
  const kept = typeof read === "object" && read !== null && "about" in read && "given" in read;
  return JSON.stringify(kept ? (read as { given: unknown }).given : read);
}

function rateOf(tally: Tally): number {
  return tally.ms === 0 ? 0 : Math.round((tally.cases / tally.ms) * 10_000) / 10;
}

function growthOf({ tally, heapFirst, heapLast }: Report): string | null {
  const growth = heapLast - heapFirst;
  if (growth < GROWTH_BYTES || growth < GROWTH_PER_CASE * tally.cases) return null;
  return `the heap grew by ${Math.round(growth / 1024 / 1024)} MiB over ${tally.cases} cases`;
}

function describe({ tally, kept, heapFirst, heapLast }: Report): string {
  const growth = Math.round((heapLast - heapFirst) / 1024);
  const slow = tally.slow === 0 ? "" : `, ${tally.slow} over ${SLOW_MS / 1000} s`;
  const from = kept === 0 ? "" : ` (${kept} kept)`;
  return `${tally.cases} cases${from}, ${rateOf(tally)} cases/s, slowest ${Math.round(tally.slowestMs)} ms${slow}, heap ${growth >= 0 ? "+" : ""}${growth} KiB`;
}
