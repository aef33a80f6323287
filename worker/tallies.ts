/**
 * Counts of what the Worker took no action on, by name, since this isolate began. Shown on /healthz and on the status page.
 *
 * Deliberately in memory: what is ignored must be seen, and must not cost a durable write for every push to a repository.
 * Each is a log line as well, and that is the lasting record.
 */
import type { Millis } from "../shared/ports.ts";

/** Event names come from a header: only so many different ones are kept apart. */
const NAMES = 200;
const OTHERS = "others";

export class Tallies {
  readonly since: Millis;
  readonly #counts = new Map<string, number>();

  constructor(since: Millis) {
    this.since = since;
  }

  count(name: string): void {
    const key = this.#counts.has(name) || this.#counts.size < NAMES ? name : OTHERS;
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
  }

  of(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  /** All counts, by name. */
  all(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#counts].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }
}
