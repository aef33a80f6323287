/**
 * Many seeds in several processes: each is given a few seeds at a time and tells what they came to. A seed's history depends
 * on the seed alone, so it does not matter which of them plays it. This file is the child as well.
 */
import { fork, type ChildProcess } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { FAULT_KINDS } from "./faults.ts";
import { installPlatform } from "./platform.ts";
import { DEFAULT_RUN, runSeed, type RunOptions } from "./run.ts";
import { Totals, totalsSchema } from "./totals.ts";

const SEEDS_AT_ONCE = 10;

const orderSchema = z.object({
  seeds: z.array(z.number()),
  only: z.array(z.enum(FAULT_KINDS)).nullable(),
  maxPulls: z.number(),
  maxRepositories: z.number(),
  twice: z.boolean(),
  keepGoing: z.boolean(),
});

const answerSchema = z.object({ totals: totalsSchema, cpuSeconds: z.number(), rssMb: z.number() });

export type Answer = z.infer<typeof answerSchema>;

export interface Jobs {
  readonly jobs: number;
  /** The next seed to play; null: there is no more. */
  readonly next: () => number | null;
  /** What each seed is played with. */
  readonly base: Pick<RunOptions, "only" | "maxPulls" | "maxRepositories">;
  /** Seeds of one order (10: a few seconds' worth, so that all children end at about the same time). */
  readonly atOnce?: number;
  readonly twice: boolean;
  readonly keepGoing: boolean;
  /** Hears what each order came to. False: no more is ordered. */
  readonly told: (answer: Answer) => boolean;
}

/** Plays seeds until there are no more, or nobody wants more. Throws when a child breaks. */
export async function playInJobs(options: Jobs): Promise<void> {
  const { next, told, base, atOnce = SEEDS_AT_ONCE, twice, keepGoing } = options;
  const { maxPulls, maxRepositories } = base;
  const only = base.only === null ? null : [...base.only];
  let wanted = true;
  const children = Array.from({ length: options.jobs }, () => fork(fileURLToPath(import.meta.url), { execArgv: [] }));
  const work = async (child: ChildProcess): Promise<void> => {
    for (;;) {
      const seeds: number[] = [];
      for (let seed = wanted ? next() : null; seed !== null; seed = seeds.length < atOnce ? next() : null)
        seeds.push(seed);
      if (seeds.length === 0) return;
      const answer = await asked(child, { seeds, only, maxPulls, maxRepositories, twice, keepGoing });
      wanted = told(answer) && wanted;
    }
  };
  try {
    await Promise.all(children.map(work));
  } finally {
    for (const child of children) child.kill();
  }
}

function asked(child: ChildProcess, order: z.infer<typeof orderSchema>): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null): void =>
      reject(new Error(`a process ended with ${code} while it played the seeds ${order.seeds.join(", ")}`));
    child.once("exit", ended);
    child.once("message", (message) => {
      child.off("exit", ended);
      resolve(answerSchema.parse(message));
    });
    child.send(order);
  });
}

/** Plays one seed, twice where that is wanted, and takes in what came of it. False: it failed. */
export async function play(options: RunOptions, twice: boolean, totals: Totals): Promise<boolean> {
  const result = await runSeed(options);
  let held = totals.take(result) === null;
  if (twice && (await runSeed(options)).digest !== result.digest) {
    totals.differs(result);
    held = false;
  }
  return held;
}

async function obey(message: unknown): Promise<void> {
  const { seeds, only, maxPulls, maxRepositories, twice, keepGoing } = orderSchema.parse(message);
  const before = process.cpuUsage();
  const totals = new Totals();
  const base = { ...DEFAULT_RUN, maxPulls, maxRepositories, only: only === null ? null : new Set(only) };
  for (const seed of seeds) if (!(await play({ ...base, seed }, twice, totals)) && !keepGoing) break;
  const { user, system } = process.cpuUsage(before);
  const answer: Answer = {
    totals: totals.json(),
    cpuSeconds: (user + system) / 1_000_000,
    rssMb: Math.round(process.resourceUsage().maxRSS / 1024),
  };
  process.send?.(answer);
}

if (process.argv[1] === fileURLToPath(import.meta.url) && process.send !== undefined) {
  installPlatform();
  process.on("message", (message) => void obey(message));
  process.on("disconnect", () => process.exit(0));
}
