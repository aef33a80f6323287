/**
 * One step of a request: load, `decide`, save state, ledger, audit and the next task together. Everything here runs inside a
 * transaction of the caller's, so that a crash leaves a step whole or not begun.
 */
import { limitMillis } from "../../shared/config/limits.ts";
import { checkView } from "../../shared/lifecycle/check-view.ts";
import { decide, type GateEvent } from "../../shared/lifecycle/decide.ts";
import { fenced, fenceOf } from "../../shared/lifecycle/fence.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import {
  baseHeardOf,
  givenBack,
  isDraftsWait,
  isPress,
  isShownToOthers,
  needsAnswer,
  nextGeneration,
  ownAnswer,
} from "../../shared/lifecycle/needs-answer.ts";
import { newRequest, type NewRequest } from "../../shared/lifecycle/new-request.ts";
import { audit, type Step, type Surroundings } from "../../shared/lifecycle/step.ts";
import { isLookedUp, onRepeat } from "../../shared/lifecycle/tasks.ts";
import type { Verdict } from "../../shared/lifecycle/verdict.ts";
import { randomHex, type Millis } from "../../shared/ports.ts";
import { closedPod, openCost } from "./costs.ts";
import { rememberTested } from "./greens.ts";
import { failuresOf, rememberHost } from "./hosts.ts";
import type { Inside } from "./inside.ts";
import { changeLock, grantLock, type LockHands } from "./lock.ts";
import { PACED, publishDue, wantsPublishing } from "./publish.ts";
import { keptFor } from "./retention.ts";
import type { Store, StoredTask } from "./store.ts";
import { beginRetained, beginStray } from "./strays.ts";

/** Until the branch rule is read: the queue's documented default of an hour, less two minutes. */
const QUEUE_TIME_MS = 3_480_000;

/** Requests of which that is remembered; all are forgotten when there are more. */
const SAID_KEPT = 50;

export class Steps {
  readonly #inside: Inside;
  readonly #lockHands: LockHands;
  /** Requests whose check said all there was to say when they were last saved with a change. */
  readonly #said = new Set<string>();

  constructor(inside: Inside) {
    this.#inside = inside;
    this.#lockHands = {
      granted: (requestId, fence) => void this.apply(requestId, { kind: "lock-granted", fence }),
      moved: (requestId) => this.publishLater(requestId),
      audit: (requestId, note) => inside.audit(requestId, note),
    };
  }

  /** Applies an event. Null: there is no such request. */
  apply(requestId: string, event: GateEvent): Step | null {
    const { store } = this.#inside;
    const stored = store.request(requestId);
    if (stored === null) return null;
    const { request, note } = fenced(stored, store.lock());
    const step = decide(request, event, this.#surroundings());
    if (note !== undefined && step.ignored === null) this.#inside.audit(requestId, note);
    if (step.ignored !== null) {
      store.count(`ignored.${request.state.kind}.${event.kind}`);
      return step;
    }
    this.#save(request, step);
    return step;
  }

  /**
   * The request of a task, waiting for that task. One that did not read while its task was put again still names the earlier
   * id; there is one such task at a time, so the one that is there is its own. Null: there is none, or it does not read.
   */
  waitingFor(task: StoredTask): GateRequest | null {
    const { store } = this.#inside;
    const request = store.request(task.subject);
    if (request === null || request.task?.id === task.id) return request;
    const waiting = { ...request, task: { id: task.id, kind: request.task?.kind ?? task.kind } };
    store.saveRequest(waiting);
    return waiting;
  }

  /** Opens a request and takes its first step. Returns its id. */
  open(what: NewRequest, now: Millis): string {
    const { store } = this.#inside;
    const id = store.nextRequestId();
    store.saveRequest(newRequest(id, what, now));
    const facts = { head: what.headSha, row: what.row, generation: what.generation };
    this.#inside.audit(id, audit("request.open", null, facts));
    this.apply(id, { kind: "opened" });
    return id;
  }

  /** Gives a pull request the answer that there is for it, under a check of its own on top. Returns the id of the request that says it. */
  giveBack(answer: GateRequest, to: number, generation: number, now: Millis): string {
    const { store } = this.#inside;
    const given = givenBack(answer, to, store.nextRequestId(), generation, now);
    store.saveRequest(given);
    const reason = given.state.kind === "concluded" ? given.state.verdict.reason : null;
    const facts = { head: answer.headSha, generation, of: answer.id };
    this.#inside.audit(given.id, audit("request.given-back", reason, facts));
    this.publishLater(given.id);
    return given.id;
  }

  /** Ends a request. False: there is none, or it has ended. */
  stop(requestId: string, word: Verdict): boolean {
    const { store } = this.#inside;
    const task = store.taskOf("main", requestId);
    // A task that began before a crash may have reached the provider: its look-up comes first. One that may simply be done
    // again has left nothing behind, and if it fails for ever its answer never comes.
    const inFlight = task !== null && (task.startedAt !== null || (task.tries > 0 && mayHaveBeenSent(task, store)));
    const step = this.apply(requestId, { kind: "stop", verdict: word, inFlight });
    return step !== null && step.ignored === null;
  }

  /** Takes the lock from a holder that is gone; the next in the queue gets it. */
  freeLock(now: Millis): void {
    const { store } = this.#inside;
    store.setLock({ ...store.lock(), holder: null, since: null });
    grantLock(store, now, this.#lockHands);
  }

  /** Has the check written where it says something else by now. */
  publishLater(requestId: string): void {
    const { store, ports } = this.#inside;
    this.#said.delete(requestId);
    const waiting = store.taskOf("check", requestId);
    // One under way looks again when it is done; one that waits out a failure keeps its pause.
    if (waiting !== null && (waiting.kind !== PACED || waiting.startedAt !== null || waiting.tries > 0)) return;
    const request = store.request(requestId);
    if (request === null) return;
    const view = checkView(request, this.#inside.queueInfo(requestId));
    if (!wantsPublishing(request, view)) {
      if (this.#said.size >= SAID_KEPT) this.#said.clear();
      this.#said.add(requestId);
      return;
    }
    const now = ports.clock.now();
    const dueAt = publishDue(request, view, now);
    // The word that ends the check waits for nothing; any other joins the one that waits for its turn.
    if (waiting === null || dueAt <= now)
      store.putTask("check", requestId, dueAt > now ? PACED : "check", {}, dueAt, now);
  }

  /** How often a card is remembered as bad, by the configuration of the request that got it. */
  knownBad(requestId: string, gpuUuid: string): number {
    const { store, ports } = this.#inside;
    const hash = store.request(requestId)?.terms?.configHash ?? null;
    const config = hash === null ? null : store.config(hash);
    if (config === null) return 0;
    return failuresOf(ports.sql, gpuUuid, ports.clock.now() - limitMillis(config).bad_host_memory);
  }

  /** Everything a step changes, together. */
  #save(before: GateRequest, step: Step): void {
    const { store, ports } = this.#inside;
    const now = ports.clock.now();
    const next = this.#withTask(step, now);
    for (const op of step.ledger) store.ledger(op, next.id);
    if (step.retain !== undefined) {
      beginRetained(store, step.retain, next.id, keptFor(next, step.retain.attempt.id), now);
    }
    for (const { podId, why, since, pricePerHour } of step.strays) {
      beginStray(store, podId, why, since, now, pricePerHour);
    }
    for (const note of step.audit) this.#inside.audit(next.id, note);
    for (const host of step.badHosts) {
      rememberHost(ports.sql, host, now);
      store.count("hosts.remembered");
    }
    this.#forgetSecrets(before, next);
    const changed = store.saveRequest(next);
    for (const op of step.ledger) {
      if (op.kind === "close") openCost(ports.sql, store, closedPod(before), op, now);
    }
    changeLock(step.lock, next.id, fenceOf(before), store, now, this.#lockHands);
    // A look that found nothing new changes no word of a check that says all; only a place in the queue is not the request's own.
    if (changed || next.state.kind === "queued" || !this.#said.has(next.id)) this.publishLater(next.id);
    if (next.kind === "merge-group") this.#watchQueueTime(next, now);
    // Others at its commit may have an answer, or wait for one: the comparison tells whether they are there, and no drafts.
    if (isDraftsWait(next) && !isDraftsWait(before) && this.#hasOthers(next))
      store.putTask("reconcile", "repository", "reconcile", {}, now, now);
    if (next.state.kind === "concluded" && before.state.kind !== "concluded") {
      rememberTested(ports.sql, next, now);
      this.#answerOthers(next, now);
      const isShown = isShownToOthers(next, this.#inside.answersAt(next.headSha));
      if (isShown || mayLeaveUnanswered(next, store.requestsOfHead(next.headSha, next.kind)))
        store.putTask("reconcile", "repository", "reconcile", {}, now, now);
    }
  }

  #hasOthers({ headSha, prNumber, alsoPulls }: GateRequest): boolean {
    const known = this.#inside.answersAt(headSha);
    return (alsoPulls ?? []).length > 0 || known.some((one) => one.prNumber !== null && one.prNumber !== prNumber);
  }

  /** The request after a step, with its next task and its place in the queue stored. */
  #withTask(step: Step, now: Millis): GateRequest {
    const { store } = this.#inside;
    let next = step.request;
    if (step.task !== null) {
      const { task, dueAt } = step.task;
      const id = store.putTask("main", next.id, task.kind, task, dueAt, now);
      next = { ...next, task: { id, kind: task.kind } };
    } else if (next.state.kind === "concluded") {
      const left = store.taskOf("main", next.id);
      if (left !== null) store.removeTask(left.id);
    } else if (step.hurry) {
      store.hurryTask("main", next.id, now);
    }
    if (next.state.kind === "queued" && step.lock === "enqueue") {
      next = { ...next, state: { ...next.state, seq: store.enqueue(next.id, now) } };
    }
    return next;
  }

  /** The merge queue gives up on its own: our word must stand before. */
  #watchQueueTime(request: GateRequest, now: Millis): void {
    const { store } = this.#inside;
    const task = store.taskOf("deadline", request.id);
    if (request.state.kind === "concluded" || request.stop !== null) {
      if (task !== null) store.removeTask(task.id);
      return;
    }
    const endsBy = request.admission?.endsBy ?? request.openedAt + QUEUE_TIME_MS;
    if (task?.dueAt !== Math.ceil(endsBy)) store.putTask("deadline", request.id, "deadline", {}, endsBy, now);
  }

  /**
   * Other pull requests have this head too: where the verdict says nothing about them, the next of them is asked about. One whose
   * answer stood before this check was put over it gets that back first, which is found by comparing with GitHub: only the
   * base that it has now tells whether the answer is still one.
   */
  #answerOthers(ended: GateRequest, now: Millis): void {
    const { store } = this.#inside;
    const waiting = ended.alsoPulls ?? [];
    if (waiting.length === 0 && !hasLeft(ended)) return;
    const { headSha } = ended;
    const known = this.#inside.answersAt(headSha);
    if (covered(ended, known).length > 0) {
      store.putTask("reconcile", "repository", "reconcile", {}, now, now);
      return;
    }
    const next = waiting.find((prNumber) => needsAnswer(known, { prNumber }));
    if (next === undefined) return;
    const generation = nextGeneration(store.requestsOfHead(headSha, "pull-request"));
    // The word that was heard of it while it had to wait is that person's, as if it had opened the request at once, and the base is
    // the one it was told with: who had caused it is known by that, should the App be away before anybody could look.
    const baseRef = baseHeardOf(known, next);
    const parts = {
      kind: "pull-request",
      row: 1,
      actor: this.#inside.heardAt(headSha, { prNumber: next }),
      ...(baseRef === undefined ? {} : { baseRef }),
      approvedBy: null,
    } as const;
    const opened = store.request(this.open({ ...parts, prNumber: next, headSha, generation }, now));
    // Whose base was changed is still to be asked about for the new one, which the comparison finds once this request has ended.
    const moved = wasMoved(ended) && ended.prNumber !== null ? [ended.prNumber] : [];
    const others = [...new Set([...waiting, ...moved])].filter((prNumber) => prNumber !== next);
    if (opened === null || others.length === 0) return;
    store.saveRequest({ ...opened, alsoPulls: others });
  }

  /** Secrets live from the mint to the create's answer. */
  #forgetSecrets(before: GateRequest, after: GateRequest): void {
    const had = "attempt" in before.state ? before.state.attempt : null;
    if (had === null) return;
    const has = "attempt" in after.state ? after.state.attempt : null;
    if (has === null || has.id !== had.id || has.pod !== null) this.#inside.secrets.forget(had.id);
  }

  #surroundings(): Surroundings {
    const { store, ports } = this.#inside;
    return {
      now: ports.clock.now(),
      jitter: ports.random.next(),
      nonce: randomHex(ports.random, 12),
      deployment: ports.deployment,
      repositoryId: store.meta("repository_id") ?? "",
    };
  }
}

/**
 * Whether the end of this request may leave an open pull request without an answer of its own, though all there was to hear
 * of that was heard while the request was open: GitHub is compared with at once instead of at the next round.
 */
function mayLeaveUnanswered(ended: GateRequest, ofHead: readonly GateRequest[]): boolean {
  if (ended.state.kind !== "concluded") return false;
  const { reason } = ended.state.verdict;
  // Should the App be back by now, its return found this request still ending.
  if (reason === "app-removed" || reason === "repository-gone") return true;
  if (wasMoved(ended)) return true;
  // A re-run by somebody who may not spend: what it was put over is given back.
  if (ended.openedBy.row === 4 && isPress(ended)) return true;
  // Told of another base too late to change what is said, or too early to be believed.
  // GitHub's list and its single read may disagree for long: then the next round is early enough for a third look.
  if (isOfTwoBases(ended) && !ofHead.some((one) => isSameDoubt(one, ended))) return true;
  // Those it was shared with may have another base than the one it was answered for.
  return (ended.alsoPulls ?? []).length > 0;
}

function wasMoved({ state }: GateRequest): boolean {
  if (state.kind !== "concluded") return false;
  return state.verdict.reason === "base-moved" || state.verdict.reason === "base-changed";
}

/** Told of one base, and admitted for another. */
function isOfTwoBases({ baseRef, admission }: GateRequest): boolean {
  return baseRef !== undefined && admission !== null && baseRef !== admission.baseRef;
}

function isSameDoubt(one: GateRequest, ended: GateRequest): boolean {
  if (one.id === ended.id || one.prNumber !== ended.prNumber) return false;
  return one.baseRef === ended.baseRef && one.admission?.baseRef === ended.admission?.baseRef;
}

/** Whether its pull request is gone from the head that this was about: what its check says is of no use to any other. */
function hasLeft({ kind, state }: GateRequest): boolean {
  if ((kind !== "pull-request" && kind !== "recovery") || state.kind !== "concluded") return false;
  return state.verdict.kind === "superseded" || state.verdict.kind === "closed";
}

/** Pull requests with an answer of their own at this head, over which the check of one that has left it was put. */
function covered(ended: GateRequest, known: readonly GateRequest[]): readonly number[] {
  if (!hasLeft(ended)) return [];
  const numbers = new Set(known.flatMap(({ prNumber }) => (prNumber === null ? [] : [prNumber])));
  numbers.delete(ended.prNumber ?? 0);
  // One that was itself gone when it was last asked about has no answer to be given back; two such would ask for ever.
  return [...numbers].filter((prNumber) => ownAnswer(known, { prNumber }) !== null);
}

/** Whether a task that was begun may have reached the provider. One that does not read is what its kind says. */
function mayHaveBeenSent(task: StoredTask, store: Store): boolean {
  const read = store.parseTask(task);
  if (read.ok) return isLookedUp(read.value);
  return Object.entries(onRepeat).some(([known, repeat]) => known === task.kind && repeat === "lost");
}
