/**
 * Virtual time. Events run one at a time in order of their instant, ties in the order they were made. Between two events
 * everything that was set going is run to its end, so a history depends on the seed and on nothing of this machine.
 */
import process from "node:process";
import type { Millis } from "../shared/ports.ts";

export interface Timer {
  cancelled: boolean;
}

interface Event extends Timer {
  readonly at: Millis;
  readonly order: number;
  readonly what: string;
  readonly run: () => void;
  /** It makes new events at most, and sets no promise going: there is nothing to wait for behind it. */
  readonly quiet: boolean;
}

/** A step that goes on for so many turns is a loop without a call: a bug, and not a slow machine. */
const MOST_TURNS = 2_000;
/** Node has chores of its own that need a turn of its event loop: what was collected, signals, output. */
const TURN_OF_THE_LOOP_EVERY = 512;

export class Scheduler {
  #now: Millis;
  #order = 0;
  #heap: Event[] = [];
  /** Counts everything the code under test does that can be seen from outside: calls, timers, SQL. */
  activity = 0;
  events = 0;
  #settled = 0;

  constructor(start: Millis) {
    this.#now = start;
  }

  get now(): Millis {
    return this.#now;
  }

  at(instant: Millis, what: string, run: () => void, quiet = false): Timer {
    this.activity += 1;
    const event: Event = { at: Math.max(instant, this.#now), order: this.#order, what, run, quiet, cancelled: false };
    this.#order += 1;
    this.#push(event);
    return event;
  }

  in(delay: Millis, what: string, run: () => void, quiet = false): Timer {
    return this.at(this.#now + Math.max(0, delay), what, run, quiet);
  }

  /**
   * Runs the next event. Null when there is none before `until`; true when it may have set something going, which is to be waited
   * for (`settle`) before anybody looks.
   */
  step(until: Millis): boolean | null {
    for (;;) {
      const next = this.#heap[0];
      if (next === undefined || next.at > until) {
        if (Number.isFinite(until)) this.#now = Math.max(this.#now, until);
        return null;
      }
      this.#pop();
      if (next.cancelled) continue;
      this.#now = next.at;
      this.events += 1;
      const active = this.activity;
      next.run();
      // An event that set nothing going has nothing to wait for.
      return (
        !next.quiet && (this.activity !== active || next.what.startsWith("answer") || next.what.startsWith("timeout"))
      );
    }
  }

  /**
   * Waits until all promises that can go on without a new event have gone on. Node runs what `process.nextTick` was given when no
   * promise is left to run, however long the chain of promises was. Nothing of the simulation waits for a thread or a socket.
   */
  async settle(): Promise<void> {
    for (let turn = 0; ; turn += 1) {
      if (turn > MOST_TURNS) throw new Error("the code under test does not come to rest");
      const active = this.activity;
      this.#settled += 1;
      await (this.#settled % TURN_OF_THE_LOOP_EVERY === 0 ? turnOfTheLoop() : restOfPromises());
      if (this.activity === active) return;
    }
  }

  #push(event: Event): void {
    const heap = this.#heap;
    heap.push(event);
    let index = heap.length - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || !before(event, above)) break;
      heap[index] = above;
      index = parent;
    }
    heap[index] = event;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let index = 0;
    for (;;) {
      const left = index * 2 + 1;
      let child = heap[left];
      let place = left;
      const right = heap[left + 1];
      if (right !== undefined && child !== undefined && before(right, child)) {
        child = right;
        place = left + 1;
      }
      if (child === undefined || !before(child, last)) break;
      heap[index] = child;
      index = place;
    }
    heap[index] = last;
  }
}

function before(a: Event, b: Event): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}

function restOfPromises(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}

function turnOfTheLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
