/**
 * A day of many pull requests in many repositories, without faults: what a deployment does on a busy day, and what it uses of
 * its vendors' quotas. Everything must be concluded and accounted for at the end.
 *
 *   npm run sim -- --day 5000 [--repositories 40] [--seed N]
 */
import { checkersFor } from "./checkers/index.ts";
import { planFaults } from "./faults.ts";
import type { Millis } from "../shared/ports.ts";
import type { NetRequest } from "./net.ts";
import type { Checker } from "./view.ts";
import { World } from "./world.ts";

export interface DayOptions {
  readonly seed: number;
  readonly pulls: number;
  readonly repositories: number;
  /** Hears how far the day is, each virtual hour. */
  readonly progress?: (line: string) => void;
}

export interface DayReport {
  readonly pulls: number;
  readonly repositories: number;
  readonly requests: number;
  readonly pods: number;
  readonly verdicts: Readonly<Record<string, number>>;
  /** Milliseconds, and USD; of the requests that waited for the lock. */
  readonly queueWait: Spread;
  readonly answerTime: Spread;
  readonly most: { readonly podsAtOnce: number; readonly waiting: number };
  readonly bill: number;
  readonly estimate: number;
  /**
   * Calls of the busiest hour of one installation at GitHub, and those of its busiest hour that count against its 5,000 (an answer
   * of 304 does not); of the busiest minute at RunPod.
   */
  readonly githubBusiestHour: number;
  readonly githubCountedHour: number;
  readonly runpodBusiestMinute: number;
  readonly calls: Readonly<Record<string, number>>;
  readonly virtualHours: number;
  readonly cpuSeconds: number;
  readonly problem: string | null;
}

interface Spread {
  readonly n: number;
  readonly p50: number;
  readonly p95: number;
  readonly max: number;
}

const DAY_MS = 86_400_000;
/** Looks of the checkers that go through everything: one in so many events. */
const SAMPLED = 2_000;

export async function runDay({ seed, pulls, repositories, progress }: DayOptions): Promise<DayReport> {
  const cpu = process.cpuUsage();
  const meter = new Meter((hour, pods) => {
    const { user, system } = process.cpuUsage(cpu);
    progress?.(`hour ${hour}: ${pods} pods so far, ${Math.round((user + system) / 1_000_000)} CPU seconds`);
  });
  const world = new World({
    plan: planFaults(seed, new Set(), new Set()),
    keepTrace: false,
    maxPulls: pulls,
    maxRepositories: repositories,
    checkers: [...checkersFor().map(sampled), meter],
    fleet: { pulls, repositories, horizonMs: DAY_MS },
  });
  try {
    const began = world.now;
    await world.run(DAY_MS);
    const { user, system } = process.cpuUsage(cpu);
    return report(world, meter, {
      pulls,
      repositories,
      virtualHours: (world.now - began) / 3_600_000,
      cpuSeconds: (user + system) / 1_000_000,
    });
  } finally {
    world.close();
  }
}

/** A checker that looks through everything at each step looks now and then; what hangs on a call or an end stays whole. */
function sampled(checker: Checker): Checker {
  const step = checker.step?.bind(checker);
  if (step === undefined) return checker;
  let events = 0;
  return {
    name: checker.name,
    ...(checker.performing === undefined ? {} : { performing: checker.performing.bind(checker) }),
    ...(checker.wrote === undefined ? {} : { wrote: checker.wrote.bind(checker) }),
    ...(checker.end === undefined ? {} : { end: checker.end.bind(checker) }),
    step: (world) => ((events += 1) % SAMPLED === 0 ? step(world) : null),
  };
}

/** Counts what is asked of the vendors, hour by hour and minute by minute. */
class Meter implements Checker {
  readonly name = "meter";
  readonly calls = new Map<string, number>();
  readonly github = new Map<string, number>();
  /** Those that GitHub counts. */
  readonly counted = new Map<string, number>();
  readonly runpod = new Map<string, number>();
  podsAtOnce = 0;
  waiting = 0;
  readonly #hourly: (hour: number, pods: number) => void;
  #began: Millis | null = null;
  #hour = 0;

  constructor(hourly: (hour: number, pods: number) => void) {
    this.#hourly = hourly;
  }

  performed(_operation: string, request: NetRequest, status: number): void {
    if (isRunPods(request) || status === 304) return;
    bump(this.counted, `${request.caller} ${Math.floor(request.askedAt / 3_600_000)}`);
  }

  performing(world: World, operation: string, request: NetRequest): null {
    bump(this.calls, operation);
    this.#began ??= world.now;
    const hour = Math.floor((world.now - this.#began) / 3_600_000);
    if (hour > this.#hour) this.#hourly((this.#hour = hour), world.runpod.pods.length);
    if (isRunPods(request)) {
      bump(this.runpod, String(Math.floor(world.now / 60_000)));
    } else {
      bump(this.github, `${request.caller} ${Math.floor(world.now / 3_600_000)}`);
    }
    if (operation === "createPod") {
      const alive = world.runpod.pods.filter((pod) => pod.releasedAt === null).length + 1;
      this.podsAtOnce = Math.max(this.podsAtOnce, alive);
      const waiting = world.hosts.reduce((sum, host) => sum + host.gate.store.queueLength(), 0);
      this.waiting = Math.max(this.waiting, waiting);
    }
    return null;
  }
}

function isRunPods({ path }: NetRequest): boolean {
  return path.startsWith("/v2/") || path === "/graphql";
}

function bump(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

type Times = Pick<DayReport, "pulls" | "repositories" | "virtualHours" | "cpuSeconds">;

function report(world: World, meter: Meter, times: Times): DayReport {
  const verdicts: Record<string, number> = {};
  const waits: number[] = [];
  const answers: number[] = [];
  let requests = 0;
  let estimate = 0;
  for (const { sql } of world.hosts) {
    const rows = sql.exec<{ opened_at: number; concluded_at: number | null; reason: string | null }>(
      "SELECT opened_at, concluded_at, json_extract(record, '$.state.verdict.reason') AS reason FROM requests",
    );
    for (const row of rows) {
      requests += 1;
      const name = row.reason ?? "open";
      verdicts[name] = (verdicts[name] ?? 0) + 1;
      if (row.concluded_at !== null) answers.push(row.concluded_at - row.opened_at);
    }
    const granted = sql.exec<{ waited: number }>(
      "SELECT json_extract(facts, '$.waitedMs') AS waited FROM audit WHERE act = 'lock.granted'",
    );
    for (const { waited } of granted) waits.push(waited);
    const spent = sql.exec<{ micros: number | null }>("SELECT sum(estimate_micros) AS micros FROM ledger")[0]?.micros;
    estimate += spent ?? 0;
  }
  const bill = world.runpod.pods.reduce((sum, pod) => sum + world.runpod.billed(pod), 0);
  return {
    ...times,
    requests,
    pods: world.runpod.pods.length,
    verdicts,
    queueWait: spread(waits),
    answerTime: spread(answers),
    most: { podsAtOnce: meter.podsAtOnce, waiting: meter.waiting },
    bill: Number((bill / 1_000_000).toFixed(2)),
    estimate: Number((estimate / 1_000_000).toFixed(2)),
    githubBusiestHour: Math.max(0, ...meter.github.values()),
    githubCountedHour: Math.max(0, ...meter.counted.values()),
    runpodBusiestMinute: Math.max(0, ...meter.runpod.values()),
    calls: Object.fromEntries([...meter.calls].toSorted(([, a], [, b]) => b - a)),
    problem: world.violation === null ? null : `${world.violation.checker}: ${world.violation.what}`,
  };
}

function spread(values: number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
  return { n: sorted.length, p50: at(0.5), p95: at(0.95), max: sorted.at(-1) ?? 0 };
}

/** The report as lines to read. */
export function dayLines(day: DayReport): readonly string[] {
  const time = (ms: number): string =>
    ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : `${(ms / 60_000).toFixed(1)} min`;
  const told = ({ n, p50, p95, max }: Spread): string =>
    `${n} times, half within ${time(p50)}, 95 % within ${time(p95)}, at most ${time(max)}`;
  const calls = Object.values(day.calls).reduce((sum, one) => sum + one, 0);
  return [
    `${day.pulls} pull requests in ${day.repositories} repositories, ${day.virtualHours.toFixed(1)} h of virtual time in ${day.cpuSeconds.toFixed(0)} CPU seconds (${(day.requests / day.cpuSeconds).toFixed(1)} requests a second)`,
    `requests: ${day.requests} (${Object.entries(day.verdicts)
      .map(([name, n]) => `${name} ${n}`)
      .join(", ")})`,
    `answer: ${told(day.answerTime)}`,
    `wait for the lock: ${told(day.queueWait)}`,
    `pods: ${day.pods}, ${day.most.podsAtOnce} at once; ${day.most.waiting} requests waiting at most`,
    `bill USD ${day.bill.toFixed(2)}, estimate USD ${day.estimate.toFixed(2)}`,
    `calls: ${calls}; GitHub at most ${day.githubBusiestHour} in an hour of one installation, of which at most ${day.githubCountedHour} counted (quota 5000), RunPod at most ${day.runpodBusiestMinute} in a minute`,
    day.problem === null ? "everything concluded and accounted for" : `FAILED ${day.problem}`,
  ];
}
