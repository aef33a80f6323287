/** `node sim/main.ts`: many seeds, or one with its story. `--help` lists the options. */
import { writeFileSync } from "node:fs";
import process from "node:process";
import { dayLines, runDay } from "./day.ts";
import { FAULT_KINDS, type FaultKind } from "./faults.ts";
import { play, playInJobs } from "./processes.ts";
import { misused, numberOf, optionsOf, type Command } from "./options.ts";
import { installPlatform } from "./platform.ts";
import { namesToMeet } from "./coverage.ts";
import { unreachedLines } from "./unreachable.ts";
import { HeapWatch, startProfile } from "./profile.ts";
import { DEFAULT_RUN, runSeed, shrink, type RunOptions, type RunResult } from "./run.ts";
import { Totals } from "./totals.ts";
import type { Violation } from "./world.ts";

const COMMAND: Command = {
  name: "npm run sim",
  usage: `npm run sim -- [options]

  --seeds N          how many (100)
  --start S          the first one (1)
  --minutes M        stop after so long
  --cpu S            stop after so many CPU seconds
  --jobs N           so many processes at a time (1)
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
    jobs: { type: "string", default: "1" },
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
  jobs: numberOf(COMMAND, "jobs", values.jobs, { least: 1 }),
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
  console.log(describe(result, result.violation));
  if (result.violation !== null && !values.trace && !values["no-shrink"]) await explain(seed);
  return result.violation !== null;
}

async function many(): Promise<boolean> {
  const { seeds, start, jobs } = asked;
  const totals = new Totals();
  const { coverage, failures } = totals;
  const began = performance.now();
  const until = asked.minutes === null ? Infinity : began + asked.minutes * 60_000;
  const heap = new HeapWatch();
  const profiled = values.profile ? await startProfile() : null;
  const cpuAtStart = cpuSeconds();
  let cpuOfJobs = 0;
  let peakOfJobs = 0;
  let lastSaid = began;
  let shown = 0;
  let next = start;
  const used = (): number => cpuSeconds() - cpuAtStart + cpuOfJobs;
  const nextSeed = (): number | null => {
    if (next >= start + seeds || performance.now() >= until || used() >= (asked.cpu ?? Infinity)) return null;
    next += 1;
    return next - 1;
  };
  /** Says what is new. False: the first failure ends it. */
  const goesOn = (): boolean => {
    for (; shown < failures.length; shown += 1) {
      const failure = failures[shown];
      if (failure !== undefined) console.log(describe(failure, failure));
    }
    if (performance.now() - lastSaid > 10_000) {
      lastSaid = performance.now();
      const of = (count: number, digits: number): string => (count / used()).toFixed(digits);
      const memory = jobs === 1 ? `heap ${heap.say()} MB; ` : "";
      console.log(
        `${totals.ran} seeds; a CPU second: ${of(totals.ran, 2)} schedules, ${of(coverage.concluded, 1)} requests, ${of(totals.events, 0)} events; ${memory}${failures.length} failures`,
      );
    }
    return failures.length === 0 || values["keep-going"];
  };
  if (jobs === 1) {
    for (let seed = nextSeed(); seed !== null; seed = nextSeed()) {
      await play({ ...base, seed }, values.twice, totals);
      heap.look();
      if (!goesOn()) break;
    }
  } else {
    await playInJobs({
      jobs,
      next: nextSeed,
      base,
      twice: values.twice,
      keepGoing: values["keep-going"],
      told: (answer) => {
        totals.add(answer.totals);
        cpuOfJobs += answer.cpuSeconds;
        peakOfJobs = Math.max(peakOfJobs, answer.rssMb);
        return goesOn();
      },
    });
  }
  const seconds = (performance.now() - began) / 1000;
  const cpu = used();
  const layers = profiled === null ? null : await profiled();
  heap.say();
  const summary = {
    seeds: totals.ran,
    start,
    jobs,
    seconds: Number(seconds.toFixed(1)),
    cpuSeconds: Number(cpu.toFixed(1)),
    schedulesPerSecond: Number((totals.ran / seconds).toFixed(2)),
    /** What one core would do if nobody else used it. */
    schedulesPerCpuSecond: Number((totals.ran / cpu).toFixed(2)),
    requestsPerCpuSecond: Number((coverage.concluded / cpu).toFixed(1)),
    eventsPerCpuSecond: Math.round(totals.events / cpu),
    callsPerCpuSecond: Math.round(totals.calls / cpu),
    requestsPerSecond: Number((coverage.concluded / seconds).toFixed(1)),
    eventsPerSecond: Math.round(totals.events / seconds),
    callsPerSecond: Math.round(totals.calls / seconds),
    pods: totals.pods,
    virtualDays: Number((totals.virtualMs / 86_400_000).toFixed(1)),
    rssMb: Math.round(process.memoryUsage().rss / 1_048_576),
    /** Of the largest process. */
    peakRssMb: Math.max(peakOfJobs, Math.round(process.resourceUsage().maxRSS / 1024)),
    /** The heap's low water in each stretch of the run: flat when nothing is kept. */
    heapMb: heap.lows,
    failures,
    coverage: coverage.json(),
  };
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(summary, null, 2)}\n`);
  const { coverage: _long, failures: _failures, ...short } = summary;
  console.log(JSON.stringify(short));
  for (const [layer, share] of layers ?? []) console.log(`${(share * 100).toFixed(1).padStart(6)} %  ${layer}`);
  for (const line of unreachedLines(coverage, namesToMeet)) console.log(line);
  for (const [note, times] of coverage.notes) console.log(`Seen ${times} times: ${note}`);
  for (const [checker, list] of Map.groupBy(failures, (failure) => failure.checker)) {
    const first = list.slice(0, 8).map((failure) => failure.seed);
    console.log(`${checker}: ${list.length} seeds, first ${first.join(" ")}`);
  }
  const [failure] = failures;
  if (failure !== undefined && !values["keep-going"] && !values["no-shrink"]) await explain(failure.seed);
  return failures.length > 0;
}

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000_000;
}

function describe(
  { seed, events, concluded, pods }: Pick<RunResult, "seed" | "events" | "concluded" | "pods">,
  violation: Violation | null,
): string {
  const how =
    violation === null
      ? "held"
      : `FAILED ${violation.checker} at ${(violation.at / 1000).toFixed(1)} s: ${violation.what}`;
  return `seed ${seed}: ${how} (${events} events, ${concluded} requests, ${pods} pods)`;
}

/** Plays a seed that failed once more, makes it smaller and tells how it ends. */
async function explain(seed: number): Promise<void> {
  const options: RunOptions = { ...base, seed };
  const result = await runSeed(options);
  // Two runs of it differ, or no checker objects to this one.
  if (result.violation === null) return;
  const small = await shrink(result, options);
  const kinds = small.result.faults.join(",") || "none";
  console.log(
    `shrunk in ${small.runs} runs to ${small.options.maxPulls} pull requests, ${small.options.maxRepositories} repositories, faults: ${kinds}`,
  );
  console.log(`  ${describe(small.result, small.result.violation)}`);
  const told = await runSeed({ ...small.options, keepTrace: true });
  console.log(told.trace.slice(-60).join("\n"));
}
