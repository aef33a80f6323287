/**
 * What a task's lane means: the request's own work, and everything that is done beside it. Tasks were stored before they are
 * performed, and are removed together with their outcome.
 */
import { isStale, refusedTo } from "../../shared/lifecycle/fence.ts";
import type { NewRequest } from "../../shared/lifecycle/new-request.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import { audit } from "../../shared/lifecycle/step.ts";
import { isLookedUp } from "../../shared/lifecycle/tasks.ts";
import { verdict, type Verdict } from "../../shared/lifecycle/verdict.ts";
import type { Millis } from "../../shared/ports.ts";
import type { About, Accepting } from "./accepting.ts";
import { lookAtHead } from "./aggregate.ts";
import { MERGE_GROUP } from "./aggregates.ts";
import { readCost } from "./costs.ts";
import type { Inside } from "./inside.ts";
import { forgetLeftRunners, removeLeftRunners } from "./left-runners.ts";
import { lostOutcome, perform } from "./perform.ts";
import { FINISH, isNewestOfHead, publishCheck } from "./publish.ts";
import { reconcile } from "./reconcile.ts";
import { watchRelease } from "./release-watch.ts";
import type { Steps } from "./steps.ts";
import type { StoredTask } from "./store.ts";
import { strayDone } from "./strays.ts";
import { endUninvited } from "./uninvited.ts";
import { unreadOutcome } from "./unreadable.ts";
import { storedJson, type Unreadable } from "./stored-json.ts";

/** How long a task waits whose request does not read. */
const PARKED_MS = 5 * 60_000;
/** A check run is made for a verdict that could not be published as long as a day after it. */
const UNSAID_MS = 86_400_000;
/** One that is there is ended until GitHub itself calls it stale, which it does after 14 days. */
const STALE_MS = 14 * 86_400_000;
/** Of so many requests, the newest. */
const UNSAID_LOOKED_AT = 500;
const TOO_LATE_FOR_THE_QUEUE = "The merge queue would have given up before the verdict, its wait for the GPU included.";

/** What reconciling does to the gate as a whole: each is a transaction of its own. */
export interface WorkHands {
  readonly openIfUnknown: (what: NewRequest, about?: About) => string | null;
  readonly hint: (requestId: string) => void;
  readonly stop: (requestId: string, word: Verdict) => boolean;
}

export class Work {
  readonly #inside: Inside;
  readonly #steps: Steps;
  readonly #accepting: Accepting;
  readonly #hands: WorkHands;

  constructor(inside: Inside, steps: Steps, accepting: Accepting, hands: WorkHands) {
    this.#inside = inside;
    this.#steps = steps;
    this.#accepting = accepting;
    this.#hands = hands;
  }

  /** Performs one task of any lane. What it throws is a fault of ours. */
  async perform(task: StoredTask, startedAt: Millis): Promise<void> {
    const { ports, store, aggregates } = this.#inside;
    const { sql, clock } = ports;
    switch (task.lane) {
      case "main":
        return this.#performMain(task, startedAt);
      case "check":
        return publishCheck(task, this.#inside.outside(task.subject), (requestId) =>
          this.#steps.publishLater(requestId),
        );
      case "cost": {
        const told = await readCost(task, sql, store, this.#inside.github(null), () => clock.now());
        if (told !== null) this.#steps.publishLater(told);
        return;
      }
      case "stray":
        return strayDone(task, ports, store);
      case "rerun":
        return endUninvited(task, store, this.#inside.github(null), () => clock.now(), {
          audit: (requestId, note) => this.#inside.audit(requestId, note),
          again: (owner, by) => this.#accepting.askAgain(owner, by, clock.now()),
          transaction: (body) => sql.transaction(body),
        });
      case "deadline":
        sql.transaction(() => {
          store.removeTask(task.id);
          this.#steps.stop(task.subject, verdict("deadline", "merge-queue-timeout", TOO_LATE_FOR_THE_QUEUE));
        });
        return;
      case "reconcile": {
        // Comparing can wait for a quota that is nearly used up; what a request waits for cannot.
        const github = this.#inside.github(null, true);
        const answered = await reconcile(task, ports, store, github, { ...this.#hands, aggregates });
        if (answered) this.#sayUnsaid();
        else if (store.isUnnamed()) forgetLeftRunners(store);
        const registrar = answered ? this.#inside.registrar() : null;
        if (registrar !== null) await removeLeftRunners(ports, store, registrar);
        return watchRelease(ports, store);
      }
      case "aggregate":
        return lookAtHead(task, {
          ports,
          store,
          aggregates,
          github: this.#inside.github(null),
          repositoryId: store.meta("repository_id") ?? "",
        });
    }
  }

  async #performMain(task: StoredTask, startedAt: Millis): Promise<void> {
    const { ports, store, aggregates } = this.#inside;
    const request = this.#steps.waitingFor(task);
    if (request === null) {
      this.#park(task, startedAt);
      return;
    }
    const read = store.parseTask(task);
    const { createdAt } = task;
    if (!read.ok) return this.#askAnew(task, request, createdAt, read.error);
    const parsed = read.value;
    const outside = this.#inside.outside(task.subject);
    // A task started before and not finished: its answer was lost with the process that asked.
    const lost = task.tries > 1 && isLookedUp(parsed) ? lostOutcome(parsed, createdAt) : null;
    const refused = isStale(request, store.lock()) ? refusedTo(parsed) : null;
    let begun = task;
    const sending = (): boolean => {
      if (parsed.kind !== "dispatch-prepare" && parsed.kind !== "create-pod") return true;
      // Told to end meanwhile, by somebody or before a crash: nothing is started or rented that would have to be ended.
      if (store.request(task.subject)?.stop !== null) return false;
      if (parsed.kind === "create-pod") return store.hasTask(begun.id);
      const marked = store.rewordTask(begun, { ...parsed, sent: true });
      begun = marked ?? begun;
      return marked !== null;
    };
    const context = { ...outside, request, startedAt, dueAt: task.dueAt, createdAt, sending };
    const done = lost ?? refused ?? (await perform(parsed, context));
    ports.sql.transaction(() => {
      // The task may have been replaced while it ran: then its outcome belongs to nobody.
      const taken = store.finishing(begun, () => {
        this.#steps.apply(task.subject, { kind: "done", taskId: task.id, done });
      });
      // The configuration may just have become known: the head gets its aggregate, if there is one.
      if (taken && parsed.kind === "authorize") {
        const subject = request.kind === "merge-group" ? MERGE_GROUP : request.prNumber;
        if (subject !== null) aggregates.open(request.headSha, subject, ports.clock.now());
      }
    });
  }

  /**
   * What the request had to do does not read, only which kind of thing it was: it is as if its answer had told nothing. The
   * request's state asks again, and what may have bought something is looked up first.
   */
  #askAnew(task: StoredTask, request: GateRequest, createdAt: Millis, problem: Unreadable): void {
    const { ports, store } = this.#inside;
    const done = unreadOutcome(task.kind, createdAt) ?? unreadOutcome(request.task?.kind ?? "", createdAt);
    const facts = { lane: task.lane, task: task.kind, of: task.subject, where: problem.where.slice(0, 100) };
    ports.sql.transaction(() => {
      store.count("tasks.unreadable");
      this.#inside.audit(request.id, audit("task.unreadable", null, facts));
      if (done !== null) this.#steps.apply(task.subject, { kind: "done", taskId: task.id, done });
    });
    // Nothing took its place: tried again, later and later, like every other fault.
    if (store.task(task.id) !== null) throw new Error("a stored task does not read, and its request asks for no other");
  }

  /** A task of a request that does not read waits for a deployment that can read it; one of no request at all goes. */
  #park(task: StoredTask, now: Millis): void {
    const { ports, store } = this.#inside;
    if (!store.isParked(task.subject)) return store.removeTask(task.id);
    const payload = storedJson(task.payload);
    // Nothing was done of it this time: it keeps its beginning, and this start does not count among its tries.
    store.putTask(task.lane, task.subject, task.kind, payload, now + PARKED_MS, task.createdAt, task.tries - 1);
    ports.log({ event: "request.parked", request: task.subject });
  }

  /**
   * Verdicts that GitHub would not take while the App's rights were wrong, said now that it answers again. Only a head's
   * newest request may make a check run for it: an older one would stand above what was said since, so that one only ends
   * the check run which it has.
   */
  #sayUnsaid(): void {
    const { ports, store } = this.#inside;
    const now = ports.clock.now();
    for (const request of store.unsaidRequests(UNSAID_LOOKED_AT)) {
      const age = request.state.kind === "concluded" ? now - request.state.at : Infinity;
      if (age > STALE_MS || store.taskOf("check", request.id) !== null) continue;
      const mayCreate = age <= UNSAID_MS && isNewestOfHead(request, store);
      // Counted as tried: what became of the earlier tries is looked for before anything is created.
      store.putTask("check", request.id, mayCreate ? "check" : FINISH, {}, now, now, 1);
    }
  }
}
