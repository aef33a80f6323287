/**
 * How often one caller may call: so many calls in any stretch of one minute, each counted, the refused ones too.
 *
 * Kept in memory: the object lives on while it is called, and an eviction needs a pause that ends the minute anyway. Only
 * attempts this gate knows are counted, so the map is bounded by what the gate itself began.
 */
import type { Millis } from "../../shared/ports.ts";

export interface RateLimit {
  readonly calls: number;
  readonly windowMs: Millis;
}

/** Ten calls a minute for each nonce that a pod shows, and ten for those that show none (docs/adr/lifecycle-choices.md). */
export const POD_CALLS: RateLimit = { calls: 10, windowMs: 60_000 };

export class CallRate {
  readonly #limit: RateLimit;
  readonly #calls = new Map<string, Millis[]>();

  constructor(limit: RateLimit) {
    this.#limit = limit;
  }

  /** True: go on. False: this one is too many. */
  take(who: string, now: Millis): boolean {
    const since = now - this.#limit.windowMs;
    for (const [other, calls] of this.#calls) {
      if ((calls.at(-1) ?? 0) <= since) this.#calls.delete(other);
    }
    const recent = (this.#calls.get(who) ?? []).filter((at) => at > since);
    if (recent.length >= this.#limit.calls) {
      this.#calls.set(who, recent);
      return false;
    }
    recent.push(now);
    this.#calls.set(who, recent);
    return true;
  }
}
