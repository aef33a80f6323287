/**
 * Whose clock shows what. Virtual time is GitHub's; RunPod's and ours are off from it by what a seed says: a constant, one that
 * drifts, or one that is set in the middle of the run. What is ours runs on several machines, which may have a clock each. No clock
 * is ever off by more than `MOST_MS`.
 */
import type { Millis } from "../shared/ports.ts";
import type { Faults } from "./faults.ts";
import type { Prng } from "./prng.ts";

/** How far a clock that is kept by NTP may be off, with room. */
export const MOST_MS: Millis = 2_000;

/** What was between two readings of one clock. */
export interface Span {
  readonly earliest: Millis;
  readonly latest: Millis;
}

/** Where code of ours runs: the gates, the one account, cron's isolate and the Worker's. */
export const PLACES = ["gate", "account", "cron", "worker"] as const;

export type Place = (typeof PLACES)[number];

/** How far one clock is ahead of virtual time, at any time. */
class Offset {
  readonly #start: Millis;
  readonly #lastsMs: Millis;
  readonly #from: Millis;
  readonly #to: Millis;
  readonly #setAt: Millis;
  readonly #setTo: Millis;

  /** `set`: at that instant it is set to that offset, which stays. */
  constructor(start: Millis, lastsMs: Millis, from: Millis, to: Millis, set: readonly [Millis, Millis] | null) {
    [this.#start, this.#lastsMs, this.#from, this.#to] = [start, lastsMs, from, to];
    [this.#setAt, this.#setTo] = set ?? [Infinity, 0];
  }

  at(now: Millis): Millis {
    return now >= this.#setAt ? this.#setTo : this.#drifted(now);
  }

  /** The first instant at or after `from` at which the clock shows so much or more. */
  reaches(told: Millis, from: Millis): Millis {
    let found = told - this.#from;
    // An hour moves it by four seconds at most: each round is a thousand times nearer.
    for (let round = 0; round < 3; round += 1) found = told - this.#drifted(found);
    if (found >= this.#setAt) found = Math.max(this.#setAt, told - this.#setTo);
    if (found >= from) return found;
    return from < this.#setAt ? from : Math.max(from, told - this.#setTo);
  }

  /** All that it may be ahead: it is never outside of these. */
  get extremes(): readonly Millis[] {
    return this.#setAt === Infinity ? [this.#from, this.#to] : [this.#from, this.#to, this.#setTo];
  }

  #drifted(now: Millis): Millis {
    const share = Math.min(1, Math.max(0, now - this.#start) / this.#lastsMs);
    return Math.round(this.#from + (this.#to - this.#from) * share);
  }
}

export class Clocks {
  readonly #runpod: Offset;
  readonly #ours: Readonly<Record<Place, Offset>>;

  constructor(faults: Faults, rng: Prng, start: Millis, horizonMs: Millis) {
    const any = (): Millis => rng.int(-MOST_MS, MOST_MS);
    const offset = (from: Millis, to: Millis, set: boolean): Offset =>
      new Offset(start, horizonMs, from, to, set ? [start + rng.int(60_000, horizonMs), any()] : null);
    const from = faults.strikes("clock-skew", 0.8) ? any() : 0;
    const to = faults.strikes("clock-drifts", 0.8) ? any() : from;
    const gate = offset(from, to, faults.strikes("clock-is-set", 0.8));
    const apart = faults.strikes("clocks-apart", 0.8) ? any() : 0;
    const moves = faults.strikes("clock-of-runpod-moves", 0.8);
    this.#runpod = offset(apart, moves ? any() : apart, moves && rng.chance(0.5));
    const own = faults.strikes("clocks-of-our-own", 0.8);
    // Each as wrong as the gates' may be, in a way of its own.
    const another = (): Offset => (own ? offset(any(), any(), rng.chance(0.5)) : gate);
    this.#ours = { gate, account: another(), cron: another(), worker: another() };
  }

  /** How far the clock of a place of ours is ahead of virtual time at an instant of it. */
  ours(place: Place, now: Millis): Millis {
    return this.#ours[place].at(now);
  }

  /** How far RunPod's clock is ahead of virtual time at an instant of it. */
  runpod(now: Millis): Millis {
    return this.#runpod.at(now);
  }

  /** The first instant of virtual time, from one on, at which RunPod's clock shows so much or more. */
  runpodReaches(told: Millis, from = -Infinity): Millis {
    return this.#runpod.reaches(told, from);
  }

  /** When it was, in virtual time, that the clock of one of these places showed this; as narrowly as can be said. */
  when(told: Millis, places: readonly Place[] = PLACES): Span {
    const offsets = places.flatMap((place) => this.#ours[place].extremes);
    return { earliest: told - Math.max(...offsets), latest: told - Math.min(...offsets) };
  }

  /** The most that any two of the clocks are apart at any time. */
  get widest(): Millis {
    const all = [0, ...this.#runpod.extremes, ...PLACES.flatMap((place) => this.#ours[place].extremes)];
    return Math.max(...all) - Math.min(...all);
  }
}
