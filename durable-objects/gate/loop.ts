/**
 * The effect loop: tasks that are due are marked begun and performed, a few at a time, until nothing is due. It catches
 * everything; what failed is due again later. The alarm is set from the stored tasks after every step.
 */
import { verdict } from "../../shared/lifecycle/verdict.ts";
import type { Millis } from "../../shared/ports.ts";
import type { Inside } from "./inside.ts";
import { sealAudit } from "./sealing.ts";
import type { Steps } from "./steps.ts";
import type { StoredTask } from "./store.ts";
import { storedJson } from "./stored-json.ts";

/** Calls out at the same time, per gate: a Durable Object may hold six connections. */
const PARALLEL = 5;
/** Of these, looks of the aggregator: a burst of them leaves room for everything else. */
const AGGREGATES_PARALLEL = 2;
/** A loop run ends after this long and is taken up by the next alarm: an alarm may run for 15 minutes. */
const LOOP_MS = 10 * 60_000;
/** Tries of a task that a fault of ours ends each time, about an hour, before its request ends if nothing is rented. */
const FAULT_TRIES = 60;
const FAULT = "The control plane met the same fault of its own again and again; its log says which.";

export class Loop {
  readonly #inside: Inside;
  readonly #steps: Steps;
  readonly #perform: (task: StoredTask, startedAt: Millis) => Promise<void>;
  readonly #inFlight = new Map<number, Promise<void>>();
  #aggregating = 0;
  #pumping: Promise<void> | null = null;
  #nudge: (() => void) | null = null;

  constructor(inside: Inside, steps: Steps, perform: (task: StoredTask, startedAt: Millis) => Promise<void>) {
    this.#inside = inside;
    this.#steps = steps;
    this.#perform = perform;
  }

  /** Runs everything that is due, and what becomes due meanwhile. One loop at a time: a second call joins the first. */
  run(): Promise<void> {
    if (this.#pumping !== null) {
      this.#nudge?.();
      return this.#pumping;
    }
    this.#pumping = this.#pump().finally(() => {
      this.#pumping = null;
      this.arm();
    });
    return this.#pumping;
  }

  /** After a step: a running loop looks again, and the alarm is set for what is due next. */
  arm(): void {
    this.#nudge?.();
    const due = this.#inside.store.nextDue();
    if (due !== null) this.#inside.ports.alarm.set(due);
  }

  /**
   * After a start, and at cron's visits: what counts as under way while nobody performs it lost its answer. It is due now;
   * kinds that may not be repeated are looked up.
   */
  recover(): void {
    const { store, ports } = this.#inside;
    const now = ports.clock.now();
    ports.sql.transaction(() => {
      store.mendTasks(now);
      for (const task of store.unfinishedTasks()) {
        if (this.#inFlight.has(task.id)) continue;
        this.#putAgain(task, now);
        store.count("tasks.recovered");
      }
    });
    this.arm();
  }

  async #pump(): Promise<void> {
    const { store, ports } = this.#inside;
    const until = ports.clock.now() + LOOP_MS;
    for (;;) {
      const now = ports.clock.now();
      if (now < until) {
        for (const task of store.dueTasks(now, PARALLEL)) {
          if (this.#inFlight.size >= PARALLEL) break;
          if (task.lane === "aggregate" && this.#aggregating >= AGGREGATES_PARALLEL) break;
          this.#start(task, now);
        }
      }
      if (this.#inFlight.size === 0) break;
      await Promise.race([...this.#inFlight.values(), new Promise<void>((resolve) => (this.#nudge = resolve))]);
      this.#nudge = null;
    }
    await sealAudit(this.#inside);
  }

  #start(task: StoredTask, now: Millis): void {
    this.#inside.store.startTask(task.id, now);
    if (task.lane === "aggregate") this.#aggregating += 1;
    const begun = { ...task, startedAt: now, tries: task.tries + 1 };
    const work = this.#performed(begun, now)
      .catch((error: unknown) => this.#failed(begun, error))
      .finally(() => {
        // The same task may be under way again already.
        if (this.#inFlight.get(task.id) === work) this.#inFlight.delete(task.id);
        if (task.lane === "aggregate") this.#aggregating -= 1;
      });
    this.#inFlight.set(task.id, work);
  }

  async #performed(task: StoredTask, startedAt: Millis): Promise<void> {
    await this.#perform(task, startedAt);
    this.arm();
  }

  /** Whatever a performance threw is a fault of ours: the task is due again, later and later, and says so in the log. */
  #failed(task: StoredTask, error: unknown): void {
    const { store, ports } = this.#inside;
    const message = error instanceof Error ? error.message : "unknown error";
    ports.log({ event: "task.failed", lane: task.lane, kind: task.kind, subject: task.subject, message });
    const now = ports.clock.now();
    const pause = Math.min(60_000, 1_000 * 2 ** Math.min(6, task.tries - 1));
    ports.sql.transaction(() => {
      store.count("tasks.failed");
      const stored = store.task(task.id);
      if (stored === null) return;
      // A failed task counts as not started, but keeps its tries: a kind that may not be repeated is then looked up.
      this.#putAgain({ ...task, payload: stored.payload }, now + pause);
      // A fault that stays must not leave a check hanging. What may own a pod goes on trying: deletion never ends.
      if (task.lane === "main" && task.tries > FAULT_TRIES) {
        this.#steps.stop(task.subject, verdict("infrastructure", "internal-error", FAULT));
      }
    });
    this.arm();
  }

  /** A task that has been begun, under a new id and not begun; its request waits for that one. */
  #putAgain(task: StoredTask, dueAt: Millis): void {
    const { store } = this.#inside;
    const payload = storedJson(task.payload);
    const id = store.putTask(task.lane, task.subject, task.kind, payload, dueAt, sinceWhen(task), task.tries);
    if (task.lane !== "main") return;
    const request = store.request(task.subject);
    if (request !== null) store.saveRequest({ ...request, task: { id, kind: task.kind } });
  }
}

/**
 * What a task that is put again remembers as its beginning. Its first start, however often it is started after that: a lost
 * create may have bought a pod as early as that, and the search for it, and the longest it may live, count from there. For a
 * sleep, when it was laid down to sleep.
 */
function sinceWhen({ kind, tries, startedAt, createdAt }: StoredTask): Millis {
  return kind === "sleep" || startedAt === null || tries > 1 ? createdAt : startedAt;
}
