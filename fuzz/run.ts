/** Cases of one target, one after the other, in this thread: from a seed, or from the corpus. */
import { performance } from "node:perf_hooks";
import * as fc from "fast-check";
import { polluted, thrown, type Session, type Target } from "./target.ts";

export interface Finding {
  readonly target: string;
  readonly what: string;
  /** As small as it got; JSON. */
  readonly given: unknown;
  /** Draws it again: null for a case of the corpus. */
  readonly seed: number | null;
}

export interface Tally {
  cases: number;
  ms: number;
  slowestMs: number;
  slowest: unknown;
  /** Cases over `SLOW_MS`. */
  slow: number;
}

export const SLOW_MS = 2_000;

/** Told of every case before and after it is judged: whoever watches for a hang must know what hangs. */
export interface Watch {
  begin(given: unknown): void;
  end(): void;
}

export const UNWATCHED: Watch = { begin: () => undefined, end: () => undefined };

/** One case: the target's own judge, and what holds for every target. */
export async function judgeOne(
  session: Session<unknown>,
  given: unknown,
  tally: Tally,
  watch: Watch = UNWATCHED,
): Promise<string | null> {
  watch.begin(given);
  const began = performance.now();
  let wrong: string | null;
  try {
    wrong = (await session.judge(given)) ?? polluted();
  } catch (error) {
    wrong = `it threw instead of answering: ${thrown(error)}`;
  }
  const ms = performance.now() - began;
  watch.end();
  tally.cases += 1;
  tally.ms += ms;
  if (ms > SLOW_MS) tally.slow += 1;
  if (ms > tally.slowestMs) {
    tally.slowestMs = ms;
    tally.slowest = given;
  }
  return wrong;
}

export function newTally(): Tally {
  return { cases: 0, ms: 0, slowestMs: 0, slowest: null, slow: 0 };
}

const SHRINK_TRIES = 400;
const SHRINK_MS = 60_000;

/** `cases` cases drawn from the seed. Ends at the first finding, made as small as a minute allows. */
export async function runSeed(
  target: Target,
  session: Session<unknown>,
  options: { readonly seed: number; readonly cases: number; readonly tally: Tally; readonly watch?: Watch },
): Promise<Finding | null> {
  let failedAt: number | null = null;
  let tries = 0;
  let what = "";
  const property = fc.asyncProperty(target.cases, async (given) => {
    if (failedAt !== null) {
      tries += 1;
      if (tries > SHRINK_TRIES || performance.now() - failedAt > SHRINK_MS) return;
    }
    const wrong = await judgeOne(session, given, options.tally, options.watch);
    if (wrong === null) return;
    failedAt ??= performance.now();
    what = wrong;
    throw new Error(wrong);
  });
  const result = await fc.check(property, { seed: options.seed, numRuns: options.cases });
  if (!result.failed) return null;
  return { target: target.name, what, given: result.counterexample?.[0] ?? null, seed: options.seed };
}

export interface Kept {
  readonly file: string;
  readonly about: string;
  readonly given: unknown;
}

/** Every kept case of the target; the first that is wrong again. */
export async function replay(
  target: Target,
  session: Session<unknown>,
  kept: readonly Kept[],
  tally: Tally,
  watch?: Watch,
): Promise<Finding | null> {
  for (const { file, given } of kept) {
    const wrong = await judgeOne(session, given, tally, watch);
    if (wrong !== null) return { target: target.name, what: `${wrong} (kept in ${file})`, given, seed: null };
  }
  return null;
}
