/**
 * A tiny shell around `decide` for stories: it stores what a step gives, performs nothing, and lets the test answer the
 * task at hand at the instant it is due.
 */
import { decide, type GateEvent } from "../../shared/lifecycle/decide.ts";
import type { GateRequest, StateOf, StateKind } from "../../shared/lifecycle/model.ts";
import type { LedgerOp, Step, Surroundings } from "../../shared/lifecycle/step.ts";
import type { Done, Outcomes, Task, TaskKind } from "../../shared/lifecycle/tasks.ts";
import type { Verdict } from "../../shared/lifecycle/verdict.ts";
import { around, T0, where } from "./fixtures.ts";
import { outcomes } from "./events.ts";

export class Story {
  now = T0;
  request: GateRequest;
  task: { task: Task; dueAt: number } | null = null;
  /** Kinds of the tasks that were performed, in order. */
  readonly performed: TaskKind[] = [];
  readonly ledger: LedgerOp[] = [];
  readonly strays: string[] = [];
  /** Since when each of them is paid for. */
  readonly straysSince: (number | null)[] = [];
  readonly locks: string[] = [];
  readonly reasons: (string | null)[] = [];
  #ids = 1;

  constructor(request: GateRequest) {
    this.request = request;
  }

  get at(): string {
    return where(this.request.state);
  }

  get kind(): StateKind {
    return this.request.state.kind;
  }

  get asks(): TaskKind | null {
    return this.task?.task.kind ?? null;
  }

  /** The state, which must be of this kind. */
  state<K extends StateKind>(kind: K): StateOf<K> {
    const { state } = this.request;
    if (state.kind !== kind) throw new Error(`expected ${kind}, is ${this.at}`);
    return state as StateOf<K>;
  }

  get verdict(): Verdict {
    return this.state("concluded").verdict;
  }

  event(event: GateEvent, change: Partial<Surroundings> = {}): Step {
    const step = decide(this.request, event, around(this.now, change));
    if (step.ignored !== null) return step;
    this.request = step.request;
    if (step.task !== null) {
      this.#ids += 1;
      this.task = { task: step.task.task, dueAt: step.task.dueAt };
      this.request = { ...step.request, task: { id: this.#ids, kind: step.task.task.kind } };
    } else if (step.request.state.kind === "concluded") this.task = null;
    else if (step.hurry && this.task !== null) this.task = { ...this.task, dueAt: Math.min(this.task.dueAt, this.now) };
    this.ledger.push(...step.ledger);
    this.strays.push(...step.strays.map((stray) => stray.podId));
    this.straysSince.push(...step.strays.map((stray) => stray.since));
    if (step.lock !== null) this.locks.push(step.lock);
    this.reasons.push(...step.audit.map((note) => note.reason));
    return step;
  }

  /** The task at hand is performed when it is due (and `tookMs` long); it must be of this kind. */
  answer<K extends TaskKind>(kind: K, outcome: Outcomes[K], tookMs = 0): Step {
    if (this.task === null || this.task.task.kind !== kind) {
      throw new Error(`${this.at} asks for ${this.asks ?? "nothing"}, not ${kind}`);
    }
    this.now = Math.max(this.now, this.task.dueAt) + tookMs;
    this.performed.push(kind);
    return this.event({ kind: "done", taskId: this.#ids, done: { task: kind, outcome } as unknown as Done });
  }

  observe(outcome: Outcomes["observe"]): Step {
    return this.answer("observe", outcome);
  }

  /** Everything up to the purchase goes well: the create is asked for. */
  reachCreate(): this {
    if (this.asks === "observe") this.observe({});
    this.answer("reserve", outcomes.reserve.reserved);
    this.answer("mint", {
      kind: "minted",
      runnerId: `4${this.request.counts.attempts}`,
      proofHash: "p",
      exitHash: "x",
    });
    this.answer("dispatch-execute", { kind: "dispatched", runId: `90${this.request.counts.attempts}` });
    return this;
  }

  /** The removal at hand goes well until it asks for something else than its own steps, or it is over. */
  remove(until?: TaskKind): this {
    for (let asks = this.asks; asks !== null && asks !== until; asks = this.asks) {
      const listedAt = Math.max(this.now, this.task?.dueAt ?? 0);
      if (asks === "read-record") this.answer(asks, { pricePerHour: 0.2 });
      else if (asks === "list-pods") {
        this.answer(asks, { kind: "listed", startedAt: listedAt, complete: true, alive: false });
      } else if (asks === "deregister") this.answer(asks, outcomes.deregister.gone);
      else if (asks === "delete-pod") this.answer(asks, outcomes["delete-pod"].deleted);
      else if (asks === "verify-gone") this.answer(asks, outcomes["verify-gone"].gone);
      else if (asks === "cancel-run") this.answer(asks, outcomes["cancel-run"].accepted);
      else if (asks === "read-run") this.answer(asks, outcomes["read-run"].completed);
      else if (asks === "settle") this.answer(asks, outcomes.settle.settled);
      else break;
    }
    return this;
  }

  /** Every look that is due before the instant `at` comes back with this outcome. */
  lookUntil(at: number, outcome: Outcomes["observe"]): this {
    for (
      let looks = 0;
      this.task !== null && this.asks === "observe" && this.task.dueAt < at && looks < 2_000;
      looks += 1
    ) {
      this.observe(outcome);
    }
    return this;
  }
}

/** One lock hold from its plan on. */
export function lockHold(request: GateRequest): Story {
  const story = new Story(request);
  story.task = { task: { kind: "plan" }, dueAt: T0 };
  return story;
}
