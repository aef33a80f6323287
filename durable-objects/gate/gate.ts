/**
 * The gate of one repository: the only writer of its database.
 *
 * Each step is: load → `decide` → save state, ledger, audit and the next task in one transaction (steps.ts). Tasks are
 * stored before they are performed and removed together with their outcome (loop.ts, work.ts), so a crash at any point
 * leaves either the intent or the result. Here is what the Worker, cron and the pods may ask of it; each question that
 * changes something is one transaction, and sets the alarm anew. Cron wakes a gate whose alarm was lost.
 */
import type { NewRequest } from "../../shared/lifecycle/new-request.ts";
import type { Delivery, RepositoryRef } from "../../shared/lifecycle/signal.ts";
import type { QueueInfo } from "../../shared/lifecycle/check-view.ts";
import type { AuditNote } from "../../shared/lifecycle/step.ts";
import type { Verdict } from "../../shared/lifecycle/verdict.ts";
import type { Millis } from "../../shared/ports.ts";
import { Accepting, type About, type Accepted } from "./accepting.ts";
import { dispatchedRequest, openDispatched, useToken } from "./dispatched.ts";
import type { Dispatched, DispatchedAnswer, TokenUse } from "./dispatched.ts";
import { forgetHosts } from "./hosts.ts";
import { Inside } from "./inside.ts";
import { stuckRunnerNotices } from "./left-runners.ts";
import { Loop } from "./loop.ts";
import { MoneyTable } from "./money-table.ts";
import { obeyOperator, type OperatorAnswer, type OperatorWord } from "./operator.ts";
import { releaseParked } from "./parked.ts";
import { sha256Hex } from "./perform.ts";
import { takePodCall, whoseNonce, type PodWord } from "./pod-call.ts";
import type { GatePorts, Sql } from "./ports.ts";
import { takeRemoval, type RemovedPod } from "./removals.ts";
import { noteWord, retainPod, type RetainAnswer, type RetainWord } from "./retention.ts";
import { bookRunning } from "./running.ts";
import { beginEpoch, migrate, MIGRATIONS } from "./schema.ts";
import { Steps } from "./steps.ts";
import type { Store } from "./store.ts";
import { beginStray } from "./strays.ts";
import { requestView, type RequestView } from "./view.ts";
import { Work } from "./work.ts";

export type { Accepted } from "./accepting.ts";
export type { PodWord } from "./pod-call.ts";

/** What cron learns at its visit: tasks that should have run, open requests, and the pods our ledger still pays for. */
export interface GateTick {
  readonly overdue: number;
  readonly open: number;
  readonly pods: readonly string[];
  /** Nobody has told this gate yet which repository it guards: no delivery ever came. */
  readonly unnamed?: boolean;
  /** Money lines that are not settled. Left out by a gate that cannot say, which is then asked for its whole side. */
  readonly openMoney?: number;
  /** What somebody should see of this gate some time, and no duty of cron's depends on; left out when there is nothing. */
  readonly notices?: readonly string[];
}

/** Deliveries are remembered longer than GitHub can redeliver them (3 days). */
const DELIVERY_MEMORY_MS = 8 * 86_400_000;
/** A signed body stays signed: what it began is remembered for as long as its head may still be there. */
const BODY_MEMORY_MS = 400 * 86_400_000;
/** Memories end by days: looking for old ones once an hour is soon enough. */
const FORGET_MS = 3_600_000;
/** GitHub is compared with this often until a configuration says otherwise, seconds. */
const RECONCILE_SECONDS = 300;

const NEWER = "The stored state is newer than this code: nothing is decided.";

export class Gate {
  readonly store: Store;
  readonly #ports: GatePorts;
  readonly #inside: Inside;
  readonly #steps: Steps;
  readonly #accepting: Accepting;
  readonly #loop: Loop;
  readonly #readOnly: boolean;
  #forgotAt: Millis | null = null;

  constructor(ports: GatePorts) {
    this.#inside = new Inside(ports);
    this.#ports = this.#inside.ports;
    this.store = this.#inside.store;
    this.#steps = new Steps(this.#inside);
    this.#accepting = new Accepting(this.#inside, this.#steps);
    const work = new Work(this.#inside, this.#steps, this.#accepting, {
      openIfUnknown: (what, about) => this.openIfUnknown(what, about),
      hint: (requestId) => this.hint(requestId),
      stop: (requestId, word) => this.stop(requestId, word),
    });
    this.#loop = new Loop(this.#inside, this.#steps, (task, startedAt) => work.perform(task, startedAt));
    this.#readOnly = migrate(ports.sql, MIGRATIONS, (sql) => beginEpoch(sql, ports.random)).readOnly;
    if (!this.#readOnly) this.#loop.recover();
  }

  /** The database, for what is asked of it beside the gate. */
  get sql(): Sql {
    return this.#ports.sql;
  }

  get readOnly(): boolean {
    return this.#readOnly;
  }

  /** Takes a verified delivery. Dedupe and acceptance are one transaction, keyed on processed. */
  accept(delivery: Delivery): Accepted {
    if (this.#readOnly) return { kind: "read-only", actions: [] };
    const now = this.#ports.clock.now();
    const accepted = this.#ports.sql.transaction(() => this.#accepting.accept(delivery, now));
    this.#loop.arm();
    return accepted;
  }

  /** Opens a request for a head without an answer that stands; nothing where there is one. Used by reconciling. */
  openIfUnknown(what: NewRequest, about: About = {}): string | null {
    if (this.#readOnly) return null;
    const now = this.#ports.clock.now();
    const id = this.#ports.sql.transaction(() => this.#accepting.openIfUnknown(what, about, now));
    this.#loop.arm();
    return id;
  }

  /** A recovery or validation that a maintainer's run asks for; the Worker has verified who asks. */
  openDispatched(what: Dispatched): DispatchedAnswer {
    if (this.#readOnly) return { kind: "read-only" };
    const now = this.#ports.clock.now();
    const answer = this.#ports.sql.transaction(() =>
      openDispatched(what, this.#ports.sql, this.store, now, {
        open: (request) => this.#steps.open(request, now),
        stop: (requestId, word) => void this.#steps.stop(requestId, word),
        keep: (word) => noteWord(word.target.requestId, word, this.#ports, this.store),
        audit: (requestId, note) => this.#inside.audit(requestId, note),
      }),
    );
    this.#loop.arm();
    return answer;
  }

  /** Spends the id of a hosted job's token: each is good for one call. */
  useToken(jti: string, expiresAt: Millis): TokenUse {
    return this.#readOnly ? "read-only" : useToken(this.#ports.sql, jti, expiresAt, this.#ports.clock.now());
  }

  /** What became of the request that this run asked for; null when the run did not ask for it. */
  dispatchedRequest(runId: string, requestId: string): RequestView | null {
    if (this.#readOnly || dispatchedRequest(this.#ports.sql, runId) !== requestId) return null;
    const request = this.store.request(requestId);
    return request === null ? null : requestView(request, this.store);
  }

  hint(requestId: string): void {
    if (this.#readOnly) return;
    this.#ports.sql.transaction(() => this.#steps.apply(requestId, { kind: "hint" }));
    this.#loop.arm();
  }

  /** A person's word to end a request. False: there is none, or it has ended. */
  stop(requestId: string, word: Verdict): boolean {
    if (this.#readOnly) return false;
    const stopped = this.#ports.sql.transaction(() => this.#steps.stop(requestId, word));
    this.#loop.arm();
    return stopped;
  }

  /** Which of this attempt's two nonces this is; null: neither. */
  async nonceOf(attemptId: string, nonce: string): Promise<PodWord["kind"] | null> {
    const hash = await sha256Hex(nonce);
    return whoseNonce(this.store.attempt(attemptId), hash);
  }

  /**
   * A call of the pod's start script. The nonce is compared by hash; wrong, repeated or out of place is one and the same
   * `false`, so that a caller learns nothing.
   */
  async podCall(attemptId: string, nonce: string, word: PodWord): Promise<boolean> {
    if (this.#readOnly) return false;
    const hash = await sha256Hex(nonce);
    const taken = this.#ports.sql.transaction(() =>
      takePodCall(attemptId, hash, word, this.store, this.#steps, this.#ports.clock.now()),
    );
    this.store.count(`pod-calls.${word.kind}.${taken ? "taken" : "refused"}`);
    this.#loop.arm();
    return taken;
  }

  /**
   * A pod that carries our name and that no open attempt owns: removed, proven gone and booked on its own. False: nobody
   * here removes it now (a request owns it, it was removed before, nothing may be written), so whoever asked has to.
   */
  adoptStray(podId: string, why: string, createdAt: Millis | null, pricePerHour: number | null = null): boolean {
    if (this.#readOnly) return false;
    const now = this.#ports.clock.now();
    this.#ports.sql.transaction(() => beginStray(this.store, podId, why, createdAt, now, pricePerHour));
    this.#loop.arm();
    const stray = this.store.stray(podId);
    return stray !== null && stray.done_at === null;
  }

  /**
   * Pods that are gone by cron's order; `removals.ts` says what follows. Gives those that it need not be told of again: none
   * while nothing may be written.
   */
  podsRemoved(removed: readonly RemovedPod[]): readonly string[] {
    if (this.#readOnly) return [];
    const { sql } = this.#ports;
    const taken = removed.filter((one) =>
      sql.transaction(() => takeRemoval(one, this.#ports, this.store, this.#steps)),
    );
    this.#loop.arm();
    return taken.map((one) => one.podId);
  }

  /**
   * Runs everything that is due, and what becomes due meanwhile, until nothing is. One loop at a time. Read-only, nothing is
   * performed: the tasks were stored by newer code, which alone knows what they mean. Cron still removes the pods.
   */
  run(): Promise<void> {
    if (this.#readOnly) return Promise.resolve();
    return this.#loop.run();
  }

  /** What cron does here every minute: forget old deliveries, compare with GitHub when that is due, wake a lost alarm. */
  tick(): GateTick {
    if (this.#readOnly) return { overdue: 0, open: 0, pods: this.store.openLedgerPodIds() };
    const now = this.#ports.clock.now();
    this.#forget(now);
    this.store.flushCounters();
    bookRunning(this.#ports.sql, this.store, now);
    this.#loop.recover();
    const overdue = this.store.dueTasks(now - 5_000, 1000).length;
    if (this.store.repository() !== null && this.store.taskOf("reconcile", "repository") === null) {
      const last = Number(this.store.meta("reconciled_at") ?? "0");
      const every = this.#reconcileEvery();
      if (now - last >= every) this.store.putTask("reconcile", "repository", "reconcile", {}, now, now);
    }
    this.#loop.arm();
    const unnamed = this.store.isUnnamed();
    const openMoney = new MoneyTable(this.#ports.sql).open().length;
    const told = stuckRunnerNotices(this.store, now);
    const notices = told.length === 0 ? {} : { notices: told };
    const open = this.store.openRequests().length;
    return { overdue, open, pods: this.store.openLedgerPodIds(), unnamed, openMoney, ...notices };
  }

  /** What is too old to matter; a clock that was set back does not end it. */
  #forget(now: Millis): void {
    if (this.#forgotAt !== null && now >= this.#forgotAt && now - this.#forgotAt < FORGET_MS) return;
    this.#forgotAt = now;
    this.store.forgetDeliveries(now - DELIVERY_MEMORY_MS);
    this.store.forgetOldBodies(now - BODY_MEMORY_MS);
    forgetHosts(this.#ports.sql, now);
    this.#inside.aggregates.forget(now);
  }

  /** Tells the repository's name to a gate that never heard a delivery, or whose name GitHub does not know; it then looks for itself. A known name stays. */
  introduce(repository: RepositoryRef, installationId: string): void {
    if (this.#readOnly || !this.store.isUnnamed()) return;
    const now = this.#ports.clock.now();
    this.#ports.sql.transaction(() => {
      this.store.rememberRepository(repository, installationId);
      this.store.putTask("reconcile", "repository", "reconcile", {}, now, now);
    });
    this.#loop.arm();
  }

  /** A maintainer's word to keep a pod for debugging, or to end that; whoever calls knows that it is a maintainer's. */
  async retain(word: RetainWord): Promise<RetainAnswer> {
    if (this.#readOnly) return { kind: "refused", detail: NEWER };
    const answer = await retainPod(word, this.#ports, this.store);
    this.#loop.arm();
    return answer;
  }

  /** The operator's `release` of a lock whose holder does not read; RunPod is asked whether a pod of it is left. */
  async releaseParked(word: OperatorWord): Promise<OperatorAnswer> {
    if (this.#readOnly) return { done: false, detail: NEWER };
    const answer = await releaseParked(word, this.#ports, this.store, {
      freeLock: () => this.#steps.freeLock(this.#ports.clock.now()),
      audit: (requestId, note) => this.#inside.audit(requestId, note),
    });
    this.#loop.arm();
    return answer;
  }

  /** The operator's word about one request; whoever calls knows that it is the operator's. */
  operator(word: OperatorWord): OperatorAnswer {
    if (this.#readOnly) return { done: false, detail: NEWER };
    const { sql, clock } = this.#ports;
    const now = clock.now();
    const answer = sql.transaction(() =>
      obeyOperator(word, this.store, now, {
        stop: (requestId, ended) => this.#steps.stop(requestId, ended),
        open: (what) => this.#steps.open(what, now),
        freeLock: () => this.#steps.freeLock(now),
        audit: (requestId, note) => this.#inside.audit(requestId, note),
      }),
    );
    this.#loop.arm();
    return answer;
  }

  /** Something that was decided about this repository outside its lifecycles: it belongs to the audit. */
  note(note: AuditNote): void {
    if (this.#readOnly) return;
    const now = this.#ports.clock.now();
    this.#inside.audit(null, note);
    // The next loop seals it; a gate at rest gets one by comparing itself with GitHub, which it may do at any time.
    if (this.store.repository() !== null) this.store.putTask("reconcile", "repository", "reconcile", {}, now, now);
    this.#loop.arm();
  }

  /** Whether this gate has open work for an attempt; asked when the account compares its books. */
  knowsAttempt(attemptId: string): boolean {
    const known = this.store.attempt(attemptId);
    if (known === null) return false;
    const request = this.store.request(known.requestId);
    return request !== null && request.state.kind !== "concluded";
  }

  /** Where a request stands in the queue, and what it may expect. */
  queueInfo(requestId: string): QueueInfo {
    return this.#inside.queueInfo(requestId);
  }

  #reconcileEvery(): Millis {
    return Math.round((this.#inside.lastConfig()?.limits.reconcile ?? RECONCILE_SECONDS) * 1000);
  }
}
