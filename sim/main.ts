/** `node sim/main.ts`: many seeds, or one with its story. `--help` lists the options. */
import { writeFileSync } from "node:fs";
import process from "node:process";
import { Coverage } from "./coverage.ts";
import { dayLines, runDay } from "./day.ts";
import { FAULT_KINDS, type FaultKind } from "./faults.ts";
import { misused, numberOf, optionsOf, type Command } from "./options.ts";
import { installPlatform } from "./platform.ts";
import { unreached } from "./unreachable.ts";
import { HeapWatch, startProfile } from "./profile.ts";
import { DEFAULT_RUN, runSeed, shrink, type RunOptions, type RunResult } from "./run.ts";

const COMMAND: Command = {
  name: "npm run sim",
  usage: `npm run sim -- [options]

  --seeds N          how many (100)
  --start S          the first one (1)
  --minutes M        stop after so long
  --cpu S            stop after so many CPU seconds
  --fault a,b        only these kinds of fault; none: no fault at all
  --seed N           one seed
  --trace            print what happened in it
  --day PULLS        a day of so many pull requests, without faults
  --repositories R   spread over so many (40)
  --twice            run every seed twice and compare the traces
  --keep-going       do not stop at the first failure
  --no-shrink        do not make a failure smaller
  --profile          tell each layer's share of the time (sampling costs a little itself)
  --json FILE        write the summary
`,
};

const { values } = optionsOf(COMMAND, {
  options: {
    seeds: { type: "string", default: "100" },
    start: { type: "string", default: "1" },
    minutes: { type: "string" },
    fault: { type: "string" },
    seed: { type: "string" },
    trace: { type: "boolean", default: false },
    twice: { type: "boolean", default: false },
    json: { type: "string" },
    "keep-going": { type: "boolean", default: false },
    profile: { type: "boolean", default: false },
    cpu: { type: "string" },
    day: { type: "string" },
    repositories: { type: "string", default: "40" },
    "no-shrink": { type: "boolean", default: false },
  },
});

function isFault(name: string): name is FaultKind {
  return (FAULT_KINDS as readonly string[]).includes(name);
}

function faultsOf(text: string | undefined): ReadonlySet<FaultKind> | null {
  if (text === undefined) return null;
  const names = text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "" && name !== "none");
  const unknown = names.filter((name) => !isFault(name));
  if (unknown.length > 0) {
    misused(COMMAND, `there is no fault called ${unknown.join(", ")}. Known: ${FAULT_KINDS.join(", ")}`);
  }
  return new Set(names.filter(isFault));
}

/** A numeric option; null when it was not given. */
function given(option: "minutes" | "cpu" | "seed" | "day", whole: boolean): number | null {
  const value = values[option];
  return value === undefined ? null : numberOf(COMMAND, option, value, { whole });
}

const asked = {
  seeds: numberOf(COMMAND, "seeds", values.seeds),
  start: numberOf(COMMAND, "start", values.start),
  repositories: numberOf(COMMAND, "repositories", values.repositories, { least: 1 }),
  minutes: given("minutes", false),
  cpu: given("cpu", false),
  seed: given("seed", true),
  day: given("day", true),
};
const uninstall = installPlatform();
const base = { ...DEFAULT_RUN, only: faultsOf(values.fault) };
const failed = await chosen();
uninstall();
process.exitCode = failed ? 1 : 0;

async function chosen(): Promise<boolean> {
  if (asked.day !== null) return day(asked.day);
  return asked.seed === null ? many() : one(asked.seed);
}

async function day(pulls: number): Promise<boolean> {
  const report = await runDay({
    seed: asked.seed ?? 1,
    pulls,
    repositories: asked.repositories,
    progress: (line) => console.log(line),
  });
  console.log(dayLines(report).join("\n"));
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
  return report.problem !== null;
}

async function one(seed: number): Promise<boolean> {
  const options: RunOptions = { ...base, seed, keepTrace: values.trace };
  const result = await runSeed(options);
  if (values.trace) console.log(result.trace.join("\n"));
  console.log(describe(result));
  if (result.violation !== null && !values.trace && !values["no-shrink"]) await explain(result, options);
  return result.violation !== null;
}

async function many(): Promise<boolean> {
  const { seeds, start } = asked;
  const until = asked.minutes === null ? Infinity : performance.now() + asked.minutes * 60_000;
  const cpu = asked.cpu === null ? Infinity : cpuSeconds() + asked.cpu;
  const coverage = new Coverage();
  const failures: RunResult[] = [];
  const began = performance.now();
  let ran = 0;
  let events = 0;
  let calls = 0;
  let pods = 0;
  let virtualMs = 0;
  let lastSaid = began;
  const heap = new HeapWatch();
  const profiled = values.profile ? await startProfile() : null;
  const cpuAtStart = cpuSeconds();
  for (let seed = start; seed < start + seeds && performance.now() < until && cpuSeconds() < cpu; seed += 1) {
    const options: RunOptions = { ...base, seed };
    const result = await runSeed(options);
    ran += 1;
    heap.look();
    events += result.events;
    calls += result.calls;
    pods += result.pods;
    virtualMs += result.virtualMs;
    coverage.add(result.coverage);
    if (values.twice) {
      const again = await runSeed(options);
      if (again.digest !== result.digest) {
        console.log(`seed ${seed}: two runs differ`);
        failures.push(result);
        if (!values["keep-going"]) break;
      }
    }
    if (result.violation !== null) {
      console.log(describe(result));
      failures.push(result);
      if (!values["keep-going"]) {
        if (!values["no-shrink"]) await explain(result, options);
        break;
      }
    }
    if (performance.now() - lastSaid > 10_000) {
      lastSaid = performance.now();
      const used = cpuSeconds() - cpuAtStart;
      const of = (count: number, digits: number): string => (count / used).toFixed(digits);
      console.log(
        `${ran} seeds; a CPU second: ${of(ran, 2)} schedules, ${of(coverage.concluded, 1)} requests, ${of(events, 0)} events; heap ${heap.say()} MB; ${failures.length} failures`,
      );
    }
  }
  const seconds = (performance.now() - began) / 1000;
  const used = cpuSeconds() - cpuAtStart;
  const layers = profiled === null ? null : await profiled();
  heap.say();
  const summary = {
    seeds: ran,
    start,
    seconds: Number(seconds.toFixed(1)),
    cpuSeconds: Number(used.toFixed(1)),
    schedulesPerSecond: Number((ran / seconds).toFixed(2)),
    /** What one core would do if nobody else used it. */
    schedulesPerCpuSecond: Number((ran / used).toFixed(2)),
    requestsPerCpuSecond: Number((coverage.concluded / used).toFixed(1)),
    eventsPerCpuSecond: Math.round(events / used),
    callsPerCpuSecond: Math.round(calls / used),
    requestsPerSecond: Number((coverage.concluded / seconds).toFixed(1)),
    eventsPerSecond: Math.round(events / seconds),
    callsPerSecond: Math.round(calls / seconds),
    pods,
    virtualDays: Number((virtualMs / 86_400_000).toFixed(1)),
    rssMb: Math.round(process.memoryUsage().rss / 1_048_576),
    peakRssMb: Math.round(process.resourceUsage().maxRSS / 1024),
    /** The heap's low water in each stretch of the run: flat when nothing is kept. */
    heapMb: heap.lows,
    failures: failures.map((result) => ({ seed: result.seed, ...result.violation })),
    coverage: coverage.json(),
  };
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(summary, null, 2)}\n`);
  const { coverage: _long, failures: _failures, ...short } = summary;
  console.log(JSON.stringify(short));
  for (const [layer, share] of layers ?? []) console.log(`${(share * 100).toFixed(1).padStart(6)} %  ${layer}`);
  const { missing, metAnyway } = unreached(coverage);
  console.log("unreached", JSON.stringify(missing));
  if (metAnyway.length > 0)
    console.log("reached, though sim/unreachable.ts says that it cannot be", metAnyway.join(", "));
  if (coverage.notes.size > 0) console.log("notes", JSON.stringify(Object.fromEntries(coverage.notes)));
  if (failures.length > 0) {
    const tally = Map.groupBy(failures, (result) => result.violation?.checker ?? "trace");
    for (const [checker, list] of tally)
      console.log(
        `${checker}: ${list.length} seeds, first ${list
          .slice(0, 8)
          .map((failure) => failure.seed)
          .join(" ")}`,
      );
  }
  return failures.length > 0;
}

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000_000;
}

function describe(result: RunResult): string {
  const { seed, violation, events, concluded, pods } = result;
  const how =
    violation === null
      ? "held"
      : `FAILED ${violation.checker} at ${(violation.at / 1000).toFixed(1)} s: ${violation.what}`;
  return `seed ${seed}: ${how} (${events} events, ${concluded} requests, ${pods} pods)`;
}

async function explain(result: RunResult, options: RunOptions): Promise<void> {
  const small = await shrink(result, options);
  const kinds = small.result.faults.join(",") || "none";
  console.log(
    `shrunk in ${small.runs} runs to ${small.options.maxPulls} pull requests, ${small.options.maxRepositories} repositories, faults: ${kinds}`,
  );
  console.log(`  ${describe(small.result)}`);
  const told = await runSeed({ ...small.options, keepTrace: true });
  console.log(told.trace.slice(-60).join("\n"));
}
