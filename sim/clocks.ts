/**
 * Whose clock shows what. Virtual time is GitHub's; RunPod's is off from it by a constant, and ours by what a seed says: a
 * constant, one that drifts, or one that is set in the middle of the run. No clock is ever off by more than `MOST_MS`.
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

export class Clocks {
  /** How far RunPod's clock is ahead of virtual time. */
  readonly runpod: Millis;
  readonly #start: Millis;
  readonly #horizonMs: Millis;
  readonly #from: Millis;
  readonly #to: Millis;
  readonly #setAt: Millis;
  readonly #setTo: Millis;

  constructor(faults: Faults, rng: Prng, start: Millis, horizonMs: Millis) {
    const any = (): Millis => rng.int(-MOST_MS, MOST_MS);
    this.#start = start;
    this.#horizonMs = horizonMs;
    this.#from = faults.strikes("clock-skew", 0.8) ? any() : 0;
    this.#to = faults.strikes("clock-drifts", 0.8) ? any() : this.#from;
    const set = faults.strikes("clock-is-set", 0.8);
    this.#setAt = set ? start + rng.int(60_000, horizonMs) : Infinity;
    this.#setTo = set ? any() : 0;
    this.runpod = faults.strikes("clocks-apart", 0.8) ? any() : 0;
  }

  /** How far our clock is ahead of virtual time at an instant of it. */
  ours(now: Millis): Millis {
    if (now >= this.#setAt) return this.#setTo;
    const share = Math.min(1, Math.max(0, now - this.#start) / this.#horizonMs);
    return Math.round(this.#from + (this.#to - this.#from) * share);
  }

  /** When it was, in virtual time, that our clock showed this; as narrowly as can be said. */
  when(told: Millis): Span {
    const offsets = [this.#from, this.#to, ...(this.#setAt === Infinity ? [] : [this.#setTo])];
    return { earliest: told - Math.max(...offsets), latest: told - Math.min(...offsets) };
  }

  /** The most that any two of the clocks are apart at any time. */
  get widest(): Millis {
    const all = [0, this.runpod, this.#from, this.#to, ...(this.#setAt === Infinity ? [] : [this.#setTo])];
    return Math.max(...all) - Math.min(...all);
  }
}
