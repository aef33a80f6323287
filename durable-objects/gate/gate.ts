/**
 * The gate of one repository: the only writer of its database, and the loop that performs what was decided.
 *
 * Each step is: load → `decide` → save state, ledger, audit and the next task in one transaction. Tasks are stored before
 * they are performed and removed together with their outcome, so a crash at any point leaves either the intent or the
 * result. The loop catches everything; what failed is due again later. The alarm is set from the tasks after every step,
 * and cron wakes a gate whose alarm was lost.
 */
import { limitMillis } from "../../shared/config/limits.ts";
import { auditBodySchema, genesis, sealEntry } from "../../shared/audit/chain.ts";
import { checkView } from "../../shared/lifecycle/check-view.ts";
import { decide, type GateEvent } from "../../shared/lifecycle/decide.ts";
import type { GateRequest, Proof } from "../../shared/lifecycle/model.ts";
import { fenced, fenceOf, isStale, refusedTo } from "../../shared/lifecycle/fence.ts";
import { proofDeclined } from "../../shared/lifecycle/judge.ts";
import {
  again,
  needsAnswer,
  newRequest,
  route,
  type NewRequest,
  type RouteAction,
} from "../../shared/lifecycle/route.ts";
import type { Delivery, RepositoryRef } from "../../shared/lifecycle/signal.ts";
import { audit, type AuditNote, type Step, type Surroundings } from "../../shared/lifecycle/step.ts";
import { onRepeat } from "../../shared/lifecycle/tasks.ts";
import { randomHex, type Millis } from "../../shared/ports.ts";
import { verdict, type Verdict } from "../../shared/lifecycle/verdict.ts";
import { unreachable } from "../../shared/result.ts";
import { dispatchedRequest, openDispatched, useToken } from "./dispatched.ts";
import type { Dispatched, DispatchedAnswer, TokenUse } from "./dispatched.ts";
import { closedPod, openCost, readCost } from "./costs.ts";
import { bookRunning } from "./money.ts";
import { Forecast } from "./forecast.ts";
import { rememberTested } from "./greens.ts";
import { failuresOf, forgetHosts, rememberHost } from "./hosts.ts";
import { lookAtHead } from "./aggregate.ts";
import { Aggregates } from "./aggregates.ts";
import { obeyOperator, type OperatorAnswer, type OperatorWord } from "./operator.ts";
import { lostOutcome, perform, sha256Hex } from "./perform.ts";
import type { GatePorts } from "./ports.ts";
import { publishCheck, wantsPublishing } from "./publish.ts";
import { reconcile } from "./reconcile.ts";
import { keptFor, retainPod, type RetainAnswer, type RetainWord } from "./retention.ts";
import { watchRelease } from "./release-watch.ts";
import { migrate } from "./schema.ts";
import { Secrets } from "./secrets.ts";
import { Store, type StoredTask } from "./store.ts";
import { beginRetained, beginStray, strayDone } from "./strays.ts";
import { beginUninvited, endUninvited } from "./uninvited.ts";
import { requestView, type RequestView } from "./view.ts";

export type Accepted = { readonly kind: "accepted" | "duplicate" | "read-only"; readonly actions: readonly string[] };

/** What cron learns at its visit: tasks that should have run, open requests, and the pods our ledger still pays for. */
export interface GateTick {
  readonly overdue: number;
  readonly open: number;
  readonly pods: readonly string[];
  /** Nobody has told this gate yet which repository it guards: no delivery ever came. */
  readonly unnamed?: boolean;
}

/** Calls out at the same time, per gate: a Durable Object may hold six connections. */
const PARALLEL = 5;
/** Of these, looks of the aggregator: a burst of them leaves room for everything else. */
const AGGREGATES_PARALLEL = 2;
/** A loop run ends after this long and is taken up by the next alarm: an alarm may run for 15 minutes. */
const LOOP_MS = 10 * 60_000;
/** How long a task waits whose request does not read. */
const PARKED_MS = 5 * 60_000;
/** A verdict that could not be published is tried again for a day, of the newest requests. */
const UNSAID_MS = 86_400_000;
const UNSAID_LOOKED_AT = 50;
/** Deliveries are remembered longer than GitHub can redeliver them (3 days). */
const DELIVERY_MEMORY_MS = 8 * 86_400_000;

/** Until the branch rule is read: the queue's documented default of an hour, less two minutes. */
const QUEUE_TIME_MS = 3_480_000;
/** Tries of a task that a fault of ours ends each time, about an hour, before its request ends if nothing is rented. */
const FAULT_TRIES = 60;
const FAULT = "The control plane met the same fault of its own again and again; its log says which.";
const TOO_LATE_FOR_THE_QUEUE = "The merge queue would have given up before the verdict, its wait for the GPU included.";

const factsSchema = auditBodySchema.shape.facts;

export class Gate {
  readonly store: Store;
  readonly #ports: GatePorts;
  readonly #secrets = new Secrets();
  readonly #forecast: Forecast;
  readonly #readOnly: boolean;
  readonly #aggregates: Aggregates;
  #aggregating = 0;
  readonly #inFlight = new Map<number, Promise<void>>();
  #pumping: Promise<void> | null = null;
  #nudge: (() => void) | null = null;

  constructor(ports: GatePorts) {
    this.#ports = ports;
    this.store = new Store(ports.sql);
    this.#forecast = new Forecast(ports.sql);
    this.#aggregates = new Aggregates(ports.sql, this.store);
    this.#readOnly = migrate(ports.sql).readOnly;
    if (!this.#readOnly) this.#recover();
  }

  get readOnly(): boolean {
    return this.#readOnly;
  }

  /** Takes a verified delivery. Dedupe and acceptance are one transaction, keyed on processed. */
  accept(delivery: Delivery): Accepted {
    if (this.#readOnly) return { kind: "read-only", actions: [] };
    const now = this.#ports.clock.now();
    const accepted = this.#ports.sql.transaction((): Accepted => {
      this.store.rememberRepository(delivery.repository, delivery.installationId);
      if (this.store.delivered(delivery.guid)) {
        this.store.count("deliveries.duplicate");
        return { kind: "duplicate", actions: [] };
      }
      const actions = this.#isForeign(delivery) ? [] : route(delivery.signal, this.#view());
      const said = actions.map((action) => this.#act(action, now));
      this.#aggregates.hear(delivery.signal, this.#ports.appId, now);
      this.store.markDelivered(delivery.guid, delivery.event, now, said.join("; ").slice(0, 500));
      this.store.count(`deliveries.${delivery.event}`);
      return { kind: "accepted", actions: said };
    });
    this.#arm();
    return accepted;
  }

  /** Word of an installation as a whole goes to every gate: most are not of it. */
  #isForeign(delivery: Delivery): boolean {
    if (delivery.signal.kind !== "installation" || delivery.repository.name !== "") return false;
    return this.store.repository()?.installationId !== delivery.installationId;
  }

  /** Opens a request for a head without an answer that stands; nothing where there is one. Used by reconciling. */
  openIfUnknown(what: NewRequest): string | null {
    if (this.#readOnly) return null;
    const now = this.#ports.clock.now();
    const id = this.#ports.sql.transaction(() => {
      if (this.store.isHeadParked(what.headSha, what.kind)) return null;
      const known = this.store.requestsOfHead(what.headSha, what.kind);
      if (!needsAnswer(known, what.prNumber ?? 0)) return null;
      return this.#open({ ...what, generation: (known.at(-1)?.generation ?? 0) + 1 }, now);
    });
    this.#arm();
    return id;
  }

  /** A recovery or validation that a maintainer's run asks for; the Worker has verified who asks. */
  openDispatched(what: Dispatched): DispatchedAnswer {
    if (this.#readOnly) return { kind: "read-only" };
    const now = this.#ports.clock.now();
    const answer = this.#ports.sql.transaction(() =>
      openDispatched(what, this.#ports.sql, this.store, now, {
        open: (request) => this.#open(request, now),
        stop: (requestId, word) => void this.#stop(requestId, word),
        audit: (requestId, note) => this.#audit(requestId, note),
      }),
    );
    this.#arm();
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
    this.#ports.sql.transaction(() => this.#apply(requestId, { kind: "hint" }));
    this.#arm();
  }

  /** A person's word to end a request. False: there is none, or it has ended. */
  stop(requestId: string, word: Verdict): boolean {
    if (this.#readOnly) return false;
    const stopped = this.#ports.sql.transaction(() => this.#stop(requestId, word));
    this.#arm();
    return stopped;
  }

  /**
   * A call of the pod's start script. The nonce is compared by hash; wrong, repeated or out of place is one and the same
   * `false`, so that a caller learns nothing.
   */
  async podCall(attemptId: string, nonce: string, word: PodWord): Promise<boolean> {
    if (this.#readOnly) return false;
    const hash = await sha256Hex(nonce);
    const taken = this.#ports.sql.transaction(() => {
      const known = this.store.attempt(attemptId);
      const expected = word.kind === "proof" ? known?.proofHash : known?.exitHash;
      if (known === null || expected === null || expected === undefined || !sameText(expected, hash)) return false;
      const event: GateEvent =
        word.kind === "proof"
          ? {
              kind: "proof",
              attemptId,
              proof: { ...word.proof, at: this.#ports.clock.now() },
              knownBad: this.#knownBad(known.requestId, word.proof.gpuUuid),
            }
          : { kind: "exit", attemptId, code: word.code, reason: word.reason ?? null, gpuUuid: word.gpuUuid ?? null };
      const step = this.#apply(known.requestId, event);
      if (step === null || step.ignored !== null) return false;
      // A proof that is not good enough is kept, and answered like none: the runner must not start on that machine.
      const state = step.request.state;
      const attempt = state.kind === "provisioning" ? state.attempt : null;
      return word.kind !== "proof" || attempt === null || proofDeclined(attempt) === null;
    });
    this.store.count(`pod-calls.${word.kind}.${taken ? "taken" : "refused"}`);
    this.#arm();
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
    this.#arm();
    const stray = this.store.stray(podId);
    return stray !== null && stray.done_at === null;
  }

  /**
   * Runs everything that is due, and what becomes due meanwhile, until nothing is. One loop at a time. Read-only, nothing is
   * performed: the tasks were stored by newer code, which alone knows what they mean. Cron still removes the pods.
   */
  run(): Promise<void> {
    if (this.#readOnly) return Promise.resolve();
    if (this.#pumping !== null) {
      this.#nudge?.();
      return this.#pumping;
    }
    this.#pumping = this.#pump().finally(() => {
      this.#pumping = null;
      this.#arm();
    });
    return this.#pumping;
  }

  /** What cron does here every minute: forget old deliveries, compare with GitHub when that is due, wake a lost alarm. */
  tick(): GateTick {
    if (this.#readOnly) return { overdue: 0, open: 0, pods: this.store.openLedgerPodIds() };
    const now = this.#ports.clock.now();
    this.store.forgetDeliveries(now - DELIVERY_MEMORY_MS);
    forgetHosts(this.#ports.sql, now);
    this.#aggregates.forget(now);
    this.store.flushCounters();
    bookRunning(this.#ports.sql, this.store, now);
    const overdue = this.store.dueTasks(now - 5_000, 1000).length;
    if (this.store.repository() !== null && this.store.taskOf("reconcile", "repository") === null) {
      const last = Number(this.store.meta("reconciled_at") ?? "0");
      const every = this.#reconcileEvery();
      if (now - last >= every) this.store.putTask("reconcile", "repository", "reconcile", {}, now, now);
    }
    this.#arm();
    const unnamed = this.store.repository() === null;
    return { overdue, open: this.store.openRequests().length, pods: this.store.openLedgerPodIds(), unnamed };
  }

  /** Tells the repository's name to a gate that never heard a delivery; it then looks for itself. A known name stays. */
  introduce(repository: RepositoryRef, installationId: string): void {
    if (this.#readOnly || this.store.repository() !== null) return;
    const now = this.#ports.clock.now();
    this.#ports.sql.transaction(() => {
      this.store.rememberRepository(repository, installationId);
      this.store.putTask("reconcile", "repository", "reconcile", {}, now, now);
    });
    this.#arm();
  }

  /** A maintainer's word to keep a pod for debugging, or to end that; whoever calls knows that it is a maintainer's. */
  async retain(word: RetainWord): Promise<RetainAnswer> {
    if (this.#readOnly)
      return { kind: "refused", detail: "The stored state is newer than this code: nothing is decided." };
    const answer = await retainPod(word, this.#ports, this.store);
    this.#arm();
    return answer;
  }

  /** The operator's word about one request; whoever calls knows that it is the operator's. */
  operator(word: OperatorWord): OperatorAnswer {
    if (this.#readOnly) return { done: false, detail: "The stored state is newer than this code: nothing is decided." };
    const { sql, clock } = this.#ports;
    const now = clock.now();
    const answer = sql.transaction(() =>
      obeyOperator(word, this.store, now, {
        stop: (requestId, ended) => this.#stop(requestId, ended),
        open: (what) => this.#open(what, now),
        freeLock: () => {
          this.store.setLock({ ...this.store.lock(), holder: null, since: null });
          this.#grant(now);
        },
        audit: (requestId, note) => this.#audit(requestId, note),
      }),
    );
    this.#arm();
    return answer;
  }

  /** Something that was decided about this repository outside its lifecycles: it belongs to the audit. */
  note(note: AuditNote): void {
    if (this.#readOnly) return;
    const now = this.#ports.clock.now();
    this.#audit(null, note);
    // The next loop seals it; a gate at rest gets one by comparing itself with GitHub, which it may do at any time.
    if (this.store.repository() !== null) this.store.putTask("reconcile", "repository", "reconcile", {}, now, now);
    this.#arm();
  }

  /** Whether this gate has open work for an attempt; asked when the account compares its books. */
  knowsAttempt(attemptId: string): boolean {
    const known = this.store.attempt(attemptId);
    if (known === null) return false;
    const request = this.store.request(known.requestId);
    return request !== null && request.state.kind !== "concluded";
  }

  async #pump(): Promise<void> {
    const until = this.#ports.clock.now() + LOOP_MS;
    for (;;) {
      const now = this.#ports.clock.now();
      if (now < until) {
        for (const task of this.store.dueTasks(now, PARALLEL)) {
          if (this.#inFlight.size >= PARALLEL) break;
          if (task.lane === "aggregate" && this.#aggregating >= AGGREGATES_PARALLEL) break;
          this.#start(task, now);
        }
      }
      if (this.#inFlight.size === 0) break;
      await Promise.race([...this.#inFlight.values(), new Promise<void>((resolve) => (this.#nudge = resolve))]);
      this.#nudge = null;
    }
    await this.#sealAudit();
  }

  #start(task: StoredTask, now: Millis): void {
    this.store.startTask(task.id, now);
    if (task.lane === "aggregate") this.#aggregating += 1;
    const work = this.#perform({ ...task, startedAt: now, tries: task.tries + 1 }, now)
      .catch((error: unknown) => this.#failed({ ...task, startedAt: now }, error))
      .finally(() => {
        this.#inFlight.delete(task.id);
        if (task.lane === "aggregate") this.#aggregating -= 1;
      });
    this.#inFlight.set(task.id, work);
  }

  async #perform(task: StoredTask, startedAt: Millis): Promise<void> {
    switch (task.lane) {
      case "main":
        return this.#performMain(task, startedAt);
      case "check":
        await publishCheck(task, this.#outside(task.subject), (requestId) => this.#publishLater(requestId));
        break;
      case "cost": {
        const { sql, clock } = this.#ports;
        const told = await readCost(task, sql, this.store, this.#client(null), () => clock.now());
        if (told !== null) this.#publishLater(told);
        break;
      }
      case "stray":
        await strayDone(task, this.#ports, this.store);
        break;
      case "rerun": {
        const { sql, clock } = this.#ports;
        await endUninvited(task, this.store, this.#client(null), () => clock.now(), {
          audit: (requestId, note) => this.#audit(requestId, note),
          again: (owner, by) => {
            for (const action of again(this.#view(), owner.headSha, owner, by)) this.#act(action, clock.now());
          },
          transaction: (body) => sql.transaction(body),
        });
        break;
      }
      case "deadline":
        this.#ports.sql.transaction(() => {
          this.store.removeTask(task.id);
          this.#stop(task.subject, verdict("deadline", "merge-queue-timeout", TOO_LATE_FOR_THE_QUEUE));
        });
        break;
      case "reconcile": {
        const answered = await reconcile(task, this.#ports, this.store, this.#client(null), {
          openIfUnknown: (what) => this.openIfUnknown(what),
          hint: (requestId) => this.hint(requestId),
          aggregates: this.#aggregates,
        });
        if (answered) this.#sayUnsaid();
        await watchRelease(this.#ports, this.store);
        break;
      }
      case "aggregate":
        await lookAtHead(task, {
          ports: this.#ports,
          store: this.store,
          aggregates: this.#aggregates,
          github: this.#client(null),
          repositoryId: this.store.meta("repository_id") ?? "",
        });
        break;
    }
    this.#arm();
  }

  /** A task of a request that does not read waits for a deployment that can read it; one of no request at all goes. */
  #park(task: StoredTask, now: Millis): void {
    if (!this.store.isParked(task.subject)) return this.store.removeTask(task.id);
    const payload: unknown = JSON.parse(task.payload);
    this.store.putTask(task.lane, task.subject, task.kind, payload, now + PARKED_MS, now, task.tries);
    this.#ports.log({ event: "request.parked", request: task.subject });
  }

  async #performMain(task: StoredTask, startedAt: Millis): Promise<void> {
    const request = this.store.request(task.subject);
    if (request === null) {
      this.#park(task, startedAt);
      return;
    }
    const parsed = this.store.parseTask(task);
    const outside = this.#outside(task.subject);
    // A task started before and not finished: its answer was lost with the process that asked.
    const lost = task.tries > 1 && onRepeat[parsed.kind] === "lost" ? lostOutcome(parsed, this.#createdAt(task)) : null;
    const refused = isStale(request, this.store.lock()) ? refusedTo(parsed) : null;
    const done =
      lost ??
      refused ??
      (await perform(parsed, {
        ...outside,
        request,
        startedAt,
        dueAt: task.dueAt,
        createdAt: this.#createdAt(task),
      }));
    this.#ports.sql.transaction(() => {
      // The task may have been replaced while it ran: then its outcome belongs to nobody.
      if (this.store.task(task.id) === null) return;
      this.store.removeTask(task.id);
      this.#apply(task.subject, { kind: "done", taskId: task.id, done });
      // The configuration may just have become known: the head gets its aggregate, if there is one.
      if (parsed.kind === "authorize" && request.prNumber !== null) {
        this.#aggregates.open(request.headSha, request.prNumber, this.#ports.clock.now());
      }
    });
    this.#arm();
  }

  /** Whatever a performance threw is a fault of ours: the task is due again, later and later, and says so in the log. */
  #failed(task: StoredTask, error: unknown): void {
    const message = error instanceof Error ? error.message : "unknown error";
    this.#ports.log({ event: "task.failed", lane: task.lane, kind: task.kind, subject: task.subject, message });
    const now = this.#ports.clock.now();
    const pause = Math.min(60_000, 1_000 * 2 ** Math.min(6, task.tries));
    this.#ports.sql.transaction(() => {
      this.store.count("tasks.failed");
      const still = this.store.task(task.id);
      if (still === null) return;
      // A failed task counts as not started, but keeps its tries: a kind that may not be repeated is then looked up.
      const payload: unknown = JSON.parse(task.payload);
      // The row keeps the instant of the first start: a lost create may have bought a pod as early as that.
      const since = task.startedAt ?? now;
      const id = this.store.putTask(task.lane, task.subject, task.kind, payload, now + pause, since, task.tries + 1);
      if (task.lane === "main") {
        const request = this.store.request(task.subject);
        if (request !== null) this.store.saveRequest({ ...request, task: { id, kind: task.kind } });
        // A fault that stays must not leave a check hanging. What may own a pod goes on trying: deletion never ends.
        if (task.tries >= FAULT_TRIES) this.#stop(task.subject, verdict("infrastructure", "internal-error", FAULT));
      }
    });
    this.#arm();
  }

  /** Does what routing decided, inside a transaction of the caller's, and says it in a few words. */
  #act(action: RouteAction, now: Millis): string {
    switch (action.kind) {
      case "open":
        // A record that does not read holds this head's generation: opening another would only collide with it.
        if (this.store.isHeadParked(action.request.headSha, action.request.kind)) return "note: a parked request";
        return `open ${this.#open(action.request, now)}`;
      case "hint":
        this.#apply(
          action.requestId,
          action.stranger === undefined ? { kind: "hint" } : { kind: "hint", stranger: action.stranger },
        );
        return `hint ${action.requestId}`;
      case "asked":
        this.#audit(
          action.requestId,
          audit("request.asked-again", "request-open", { row: action.row, actor: action.actor.id }),
        );
        return `asked ${action.requestId}`;
      case "also": {
        const request = this.store.request(action.requestId);
        if (request !== null) {
          this.store.saveRequest({ ...request, alsoPulls: [...(request.alsoPulls ?? []), action.prNumber] });
        }
        this.#audit(action.requestId, audit("request.shared", "request-open", { pullRequest: action.prNumber }));
        return `also ${action.requestId}`;
      }
      case "stop":
        this.#stop(action.requestId, action.verdict);
        return `stop ${action.requestId}`;
      case "uninvited":
        return beginUninvited(this.store, action.requestId, action.run, now)
          ? `uninvited attempt ${action.run.attempt} of ${action.run.runId}`
          : "note: this attempt is known";
      case "reconcile":
        this.store.putTask("reconcile", "repository", "reconcile", {}, now, now);
        return "reconcile";
      case "note":
        return `note: ${action.why}`;
      default:
        return unreachable(action, "routing");
    }
  }

  #stop(requestId: string, word: Verdict): boolean {
    const task = this.store.taskOf("main", requestId);
    // A task that began before a crash may have reached the provider: its look-up comes first. One that may simply be done
    // again has left nothing behind, and if it fails for ever its answer never comes.
    const inFlight = task !== null && (task.startedAt !== null || (task.tries > 0 && isLookedUp(task.kind)));
    const step = this.#apply(requestId, { kind: "stop", verdict: word, inFlight });
    return step !== null && step.ignored === null;
  }

  /** Applies an event inside a transaction of the caller's. Null: there is no such request. */
  #apply(requestId: string, event: GateEvent): Step | null {
    const stored = this.store.request(requestId);
    if (stored === null) return null;
    const { request, note } = fenced(stored, this.store.lock());
    const step = decide(request, event, this.#surroundings());
    if (note !== undefined && step.ignored === null) this.#audit(requestId, note);
    if (step.ignored !== null) {
      this.store.count(`ignored.${request.state.kind}.${event.kind}`);
      return step;
    }
    this.#store(request, step);
    return step;
  }

  /** Everything a step changes, together. */
  #store(before: GateRequest, step: Step): void {
    const now = this.#ports.clock.now();
    let next = step.request;
    if (step.task !== null) {
      const { task, dueAt } = step.task;
      const id = this.store.putTask("main", next.id, task.kind, task, dueAt, now);
      next = { ...next, task: { id, kind: task.kind } };
    } else if (next.state.kind === "concluded") {
      const left = this.store.taskOf("main", next.id);
      if (left !== null) this.store.removeTask(left.id);
    } else if (step.hurry) {
      this.store.hurryTask("main", next.id, now);
    }
    if (next.state.kind === "queued" && step.lock === "enqueue") {
      next = { ...next, state: { ...next.state, seq: this.store.enqueue(next.id, now) } };
    }
    for (const op of step.ledger) this.store.ledger(op, next.id);
    if (step.retain !== undefined) {
      beginRetained(this.store, step.retain, next.id, keptFor(next, step.retain.attempt.id), now);
    }
    for (const stray of step.strays) beginStray(this.store, stray.podId, stray.why, now, now);
    for (const note of step.audit) this.#audit(next.id, note);
    for (const host of step.badHosts) {
      rememberHost(this.#ports.sql, host, now);
      this.store.count("hosts.remembered");
    }
    this.#forgetSecrets(before, next);
    this.store.saveRequest(next);
    for (const op of step.ledger) {
      if (op.kind === "close") openCost(this.#ports.sql, this.store, closedPod(before), op, now);
    }
    this.#lock(step, next, fenceOf(before), now);
    this.#publishLater(next.id);
    if (next.kind === "merge-group") this.#watchQueueTime(next, now);
    if (next.state.kind === "concluded" && before.state.kind !== "concluded") {
      rememberTested(this.#ports.sql, next, now);
      this.#answerOthers(next, now);
      const { reason } = next.state.verdict;
      // Should the App be back by now, its return found this request still ending.
      if (reason === "app-removed" || reason === "repository-gone") this.#act({ kind: "reconcile" }, now);
    }
  }

  /** The merge queue gives up on its own: our word must stand before. */
  #watchQueueTime(request: GateRequest, now: Millis): void {
    const task = this.store.taskOf("deadline", request.id);
    if (request.state.kind === "concluded" || request.stop !== null) {
      if (task !== null) this.store.removeTask(task.id);
      return;
    }
    const endsBy = request.admission?.endsBy ?? request.openedAt + QUEUE_TIME_MS;
    if (task?.dueAt !== Math.ceil(endsBy)) this.store.putTask("deadline", request.id, "deadline", {}, endsBy, now);
  }

  /** Other pull requests have this head too: where the verdict says nothing about them, the next of them is asked about. */
  #answerOthers(ended: GateRequest, now: Millis): void {
    const waiting = ended.alsoPulls ?? [];
    const known = this.store.requestsOfHead(ended.headSha, ended.kind);
    const next = waiting.find((prNumber) => needsAnswer(known, prNumber));
    const newest = known.at(-1);
    if (next === undefined || newest === undefined) return;
    const { headSha, generation } = newest;
    const parts = { kind: "pull-request", row: 1, actor: null, approvedBy: null } as const;
    const opened = this.store.request(
      this.#open({ ...parts, prNumber: next, headSha, generation: generation + 1 }, now),
    );
    const others = waiting.filter((prNumber) => prNumber !== next);
    if (opened !== null && others.length > 0) this.store.saveRequest({ ...opened, alsoPulls: others });
  }

  /** The lock changes in the same transaction as the request. Fencing: only the present holder can give it up. */
  #lock(step: Step, request: GateRequest, fence: number | null, now: Millis): void {
    if (step.lock === "leave" || step.lock === "release") this.store.dequeue(request.id);
    if (step.lock === "release") {
      const lock = this.store.lock();
      if (lock.holder === request.id && (fence === null || fence === lock.fence)) {
        this.store.setLock({ holder: null, fence: lock.fence, since: null });
        this.#audit(request.id, audit("lock.release", null, { fence: lock.fence }));
      }
    }
    if (step.lock !== null) this.#grant(now);
  }

  /** First in, first out. A head that is no longer there is passed over on the spot. */
  #grant(now: Millis): void {
    for (;;) {
      const lock = this.store.lock();
      if (lock.holder !== null) return;
      const first = this.store.firstInQueue();
      if (first === null) return;
      this.store.dequeue(first);
      const request = this.store.request(first);
      if (request === null || request.state.kind !== "queued") continue;
      const fence = lock.fence + 1;
      this.store.setLock({ holder: first, fence, since: now });
      this.#apply(first, { kind: "lock-granted", fence });
      // Everybody behind moves up: their checks say so.
      for (const waiter of this.store.queue(20)) this.#publishLater(waiter.requestId);
    }
  }

  #open(what: NewRequest, now: Millis): string {
    const id = this.store.nextRequestId();
    const request = newRequest(id, what, now);
    this.store.saveRequest(request);
    this.#audit(id, audit("request.open", null, { head: what.headSha, row: what.row, generation: what.generation }));
    this.#apply(id, { kind: "opened" });
    return id;
  }

  #publishLater(requestId: string): void {
    // One under way looks again when it is done; one that waits out a failure keeps its pause.
    if (this.store.taskOf("check", requestId) !== null) return;
    const request = this.store.request(requestId);
    if (request === null || !wantsPublishing(request, checkView(request, this.queueInfo(requestId)))) return;
    const now = this.#ports.clock.now();
    this.store.putTask("check", requestId, "check", {}, now, now);
  }

  /**
   * Verdicts that GitHub would not take while the App's rights were wrong, said now that it answers again. Only a head's
   * newest: an older one would stand above what was said since.
   */
  #sayUnsaid(): void {
    const now = this.#ports.clock.now();
    const heads = new Set<string>();
    for (const request of this.store.recentRequests(UNSAID_LOOKED_AT)) {
      if (heads.has(request.headSha)) continue;
      heads.add(request.headSha);
      const { state, check } = request;
      if (state.kind !== "concluded" || check.completed || now - state.at > UNSAID_MS) continue;
      // Counted as tried: what became of the earlier tries is looked for before anything is created.
      if (this.store.taskOf("check", request.id) === null)
        this.store.putTask("check", request.id, "check", {}, now, now, 1);
    }
  }

  queueInfo(requestId: string) {
    const lock = this.store.lock();
    const place = this.store.placeInQueue(requestId);
    return {
      place,
      waiting: this.store.queueLength(),
      holder: lock.holder,
      ...this.#forecast.expect(place, lock, this.#etaRuns(), this.#ports.clock.now()),
    };
  }

  /** Secrets live from the mint to the create's answer. */
  #forgetSecrets(before: GateRequest, after: GateRequest): void {
    const had = "attempt" in before.state ? before.state.attempt : null;
    if (had === null) return;
    const has = "attempt" in after.state ? after.state.attempt : null;
    if (has === null || has.id !== had.id || has.pod !== null) this.#secrets.forget(had.id);
  }

  /** How often a card is remembered as bad, by the configuration of the request that got it. */
  #knownBad(requestId: string, gpuUuid: string): number {
    const hash = this.store.request(requestId)?.terms?.configHash ?? null;
    const config = hash === null ? null : this.store.config(hash);
    if (config === null) return 0;
    return failuresOf(this.#ports.sql, gpuUuid, this.#ports.clock.now() - limitMillis(config).bad_host_memory);
  }

  #audit(requestId: string | null, note: ReturnType<typeof audit>): void {
    this.store.audit(this.#ports.clock.now(), requestId, note);
  }

  /**
   * Hashes new audit entries into the chain and says each as a log line, outside the transaction that wrote them: SHA-256
   * is asynchronous here. A crash in between leaves entries without a hash; the next loop seals them.
   */
  async #sealAudit(): Promise<void> {
    const repository = this.store.meta("repository_id") ?? "";
    for (const row of this.store.unsealedAudit(500)) {
      const head = this.store.lastSealed() ?? (await genesis(repository));
      const entry = await sealEntry(head, row.at, {
        request: row.request_id,
        act: row.act,
        reason: row.reason,
        facts: factsSchema.parse(JSON.parse(row.facts)),
      });
      this.store.sealAudit(row.seq, entry.hash);
      this.#ports.log({ audit: { repository, ...entry } });
    }
  }

  /** After a start: what was under way lost its answer. It is due now; kinds that may not be repeated are looked up. */
  #recover(): void {
    const now = this.#ports.clock.now();
    this.#ports.sql.transaction(() => {
      for (const task of this.store.unfinishedTasks()) {
        const payload: unknown = JSON.parse(task.payload);
        const since = task.startedAt ?? now;
        const id = this.store.putTask(task.lane, task.subject, task.kind, payload, now, since, task.tries);
        if (task.lane === "main") {
          const request = this.store.request(task.subject);
          if (request !== null) this.store.saveRequest({ ...request, task: { id, kind: task.kind } });
        }
        this.store.count("tasks.recovered");
      }
    });
    this.#arm();
  }

  #arm(): void {
    this.#nudge?.();
    const due = this.store.nextDue();
    if (due !== null) this.#ports.alarm.set(due);
  }

  #surroundings(): Surroundings {
    return {
      now: this.#ports.clock.now(),
      jitter: this.#ports.random.next(),
      nonce: randomHex(this.#ports.random, 12),
      deployment: this.#ports.deployment,
      repositoryId: this.store.meta("repository_id") ?? "",
    };
  }

  #view() {
    return {
      appId: this.#ports.appId,
      ofHead: (headSha: string, kind: GateRequest["kind"]) => this.store.requestsOfHead(headSha, kind),
      ofPull: (prNumber: number) => this.store.requestsOfPull(prNumber),
      open: () => this.store.openRequests(),
      ofRun: (runId: string) => this.store.requestOfRun(runId),
      ofCheckRun: (checkRunId: string) => this.store.requestOfCheckRun(checkRunId),
      ofRunner: (runnerId: string) => this.store.requestOfRunner(runnerId),
    };
  }

  #client(request: GateRequest | null) {
    const known = this.store.repository();
    if (known === null) throw new Error("this gate does not know its repository yet");
    const config = this.store.config(request?.terms?.configHash ?? "");
    const scope =
      config?.runner.scope === "organization"
        ? ({ kind: "organization", org: known.repository.owner, groupId: config.runner.group_id } as const)
        : ({ kind: "repository" } as const);
    return this.#ports.github(known.repository, known.installationId, scope);
  }

  #outside(requestId: string) {
    const known = this.store.repository();
    if (known === null) throw new Error("this gate does not know its repository yet");
    return {
      ports: this.#ports,
      store: this.store,
      secrets: this.#secrets,
      repository: known.repository,
      github: this.#client(this.store.request(requestId)),
      queueInfo: (id: string) => this.queueInfo(id),
    };
  }

  #etaRuns(): number {
    const hash = this.store.meta("last_config");
    return (hash === null ? null : this.store.config(hash))?.check.eta_runs ?? 20;
  }

  #reconcileEvery(): Millis {
    const hash = this.store.meta("last_config");
    const config = hash === null ? null : this.store.config(hash);
    return Math.round((config?.limits.reconcile ?? 300) * 1000);
  }

  #createdAt(task: StoredTask): Millis {
    return this.store.taskCreatedAt(task.id) ?? task.dueAt;
  }
}

/** Whether a task of this kind that was begun is looked up instead of done again. */
function isLookedUp(kind: string): boolean {
  return Object.entries(onRepeat).some(([known, repeat]) => known === kind && repeat === "lost");
}

export type PodWord =
  | { readonly kind: "proof"; readonly proof: Omit<Proof, "at"> }
  | {
      readonly kind: "exit";
      readonly code: number | null;
      readonly reason?: string | null;
      readonly gpuUuid?: string | null;
    };

/** Compares two hex digests without telling by its time where they differ. */
function sameText(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let index = 0; index < a.length; index += 1) difference |= a.charCodeAt(index) ^ b.charCodeAt(index);
  return difference === 0;
}
