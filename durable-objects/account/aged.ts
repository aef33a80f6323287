/**
 * Answers that may be used again while they are young: for what is the same for everybody and changes in minutes.
 *
 * Only successes are kept. A failure reaches those who asked together and is forgotten, so that it is never more than one
 * request old. How old is too old is the reader's to say, because each repository has its own limit.
 */
import type { Clock, Millis } from "../../shared/ports.ts";
import type { AccountAnswer } from "../gate/ports.ts";

interface Kept<T> {
  readonly value: T;
  /** Our clock before the request: an answer is at least this old. */
  readonly readAt: Millis;
}

export class Aged<T> {
  readonly #clock: Clock;
  readonly #most: number;
  readonly #kept = new Map<string, Kept<T>>();
  readonly #underWay = new Map<string, Promise<AccountAnswer<T>>>();

  /** Keeps at most `most` answers; the one that was read first makes room. */
  constructor(clock: Clock, most: number) {
    this.#clock = clock;
    this.#most = most;
  }

  /** The kept answer of `key` if it is younger than `maxAgeMs`, else what `read` says now. Askers share one `read`. */
  async get(key: string, maxAgeMs: Millis, read: () => Promise<AccountAnswer<T>>): Promise<AccountAnswer<T>> {
    const now = this.#clock.now();
    const kept = this.#kept.get(key);
    // A clock that went back makes an answer look younger than it is: such an answer is not used.
    if (kept !== undefined && now >= kept.readAt && now - kept.readAt < maxAgeMs)
      return { ok: true, value: kept.value };
    const running = this.#underWay.get(key);
    if (running !== undefined) return running;
    const answer = read().finally(() => this.#underWay.delete(key));
    this.#underWay.set(key, answer);
    const told = await answer;
    if (told.ok) this.#keep(key, { value: told.value, readAt: now });
    return told;
  }

  #keep(key: string, kept: Kept<T>): void {
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= this.#most) break;
      this.#kept.delete(oldest);
    }
  }
}
