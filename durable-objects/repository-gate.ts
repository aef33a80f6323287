/**
 * `RepositoryGate`: one object per repository id. A thin shell around `Gate`: storage, alarm, clients; native RPC.
 *
 * Every public method is reachable by RPC from the Worker and from nowhere else.
 */
import { DurableObject } from "cloudflare:workers";
import { systemClock, systemRandom, type Millis } from "../shared/ports.ts";
import type { Delivery, RepositoryRef } from "../shared/lifecycle/signal.ts";
import type { AuditNote } from "../shared/lifecycle/step.ts";
import type { Verdict } from "../shared/lifecycle/verdict.ts";
import { recordBills, type Bill, type BillsTaken, type BillWindow } from "./gate/bills.ts";
import { costLines, type CostLines } from "./gate/costs.ts";
import { Gate, type Accepted, type GateTick, type PodWord } from "./gate/gate.ts";
import { rentedRunnerIds, type Dispatched, type DispatchedAnswer, type TokenUse } from "./gate/dispatched.ts";
import { gateMoney, type GateMoney } from "./gate/money.ts";
import type { AccountAnswer, AccountPort, Sql } from "./gate/ports.ts";
import { explain, type ExplainQuestion, type OperatorAnswer, type OperatorWord } from "./gate/operator.ts";
import { CallRate, POD_CALLS } from "./gate/rate.ts";
import type { RemovedPod } from "./gate/removals.ts";
import { retentionOf, type RetainAnswer, type RetainWord, type RetentionRecord } from "./gate/retention.ts";
import { podStanding, type PodQuestion, type PodStanding } from "./gate/standing.ts";
import { gateView, type GateView, type RequestView } from "./gate/view.ts";
import {
  durableAlarm,
  durableSql,
  githubClientFor,
  runnerReleasesFor,
  logLine,
  runpodClientFor,
  type DurableAlarm,
} from "./platform.ts";
import { ACCOUNT_NAME } from "./runpod-account.ts";
import { readSettings } from "./settings.ts";

export class RepositoryGate extends DurableObject<Env> {
  readonly #gate: Gate;
  readonly #repositoryId: string;
  readonly #sql: Sql;
  readonly #podCalls = new CallRate(POD_CALLS);
  readonly #alarm: DurableAlarm;

  constructor(state: DurableObjectState, env: Env) {
    super(state, env);
    const settings = readSettings(env);
    if (!settings.ok) throw new Error(`configuration: ${settings.error.join(" ")}`);
    this.#repositoryId = state.id.name ?? "";
    this.#alarm = durableAlarm(state.storage);
    this.#sql = durableSql(state.storage);
    this.#gate = new Gate({
      sql: this.#sql,
      alarm: this.#alarm,
      clock: systemClock,
      random: systemRandom,
      account: accountPort(env, this.#repositoryId),
      runpod: runpodClientFor(settings.value),
      github: githubClientFor(settings.value),
      resolveImage: (image, maxAgeMs) =>
        flat(async () => env.RUNPOD_ACCOUNT.getByName(ACCOUNT_NAME).image(image, maxAgeMs)),
      runnerReleases: runnerReleasesFor(settings.value),
      publicUrl: settings.value.publicUrl,
      deployment: settings.value.deployment,
      maxRetentionMs: settings.value.reapLimits.maxRetentionMs,
      appId: settings.value.appId,
      log: logLine,
    });
  }

  /** Takes a verified delivery for this repository. */
  accept(delivery: Delivery): Accepted {
    return this.#gate.accept(delivery);
  }

  /**
   * A call of a pod's start script. False for everything that is not exactly the expected call, at most ten a minute. Calls
   * with neither of the attempt's nonces are counted apart, or whoever reads an attempt's id in a check could keep a rented
   * pod from proving itself until its time is over; so are those with the one that the job's code may know.
   */
  async podCall(attemptId: string, nonce: string, word: PodWord): Promise<boolean> {
    if (!this.#gate.knowsAttempt(attemptId)) return false;
    const whose = (await this.#gate.nonceOf(attemptId, nonce)) ?? "nobody";
    if (!this.#podCalls.take(`${attemptId} ${whose}`, systemClock.now())) return false;
    return this.#gate.podCall(attemptId, nonce, word);
  }

  /** Whose the pods are that the reaper saw in a list begun at `listedAt`; answers in the order of the questions. */
  podStandings(questions: readonly PodQuestion[], listedAt: Millis): readonly PodStanding[] {
    return questions.map((question) => podStanding(this.#gate.store, question, listedAt, this.#gate.readOnly));
  }

  /** Removes a pod nobody owns. False: this gate does not, and the asker has to. */
  adoptStray(podId: string, why: string, createdAt: Millis | null, pricePerHour: number | null): boolean {
    return this.#gate.adoptStray(podId, why, createdAt, pricePerHour);
  }

  /** Pods that are gone by cron's order. Gives those that it need not be told of again. */
  podsRemoved(removed: readonly RemovedPod[]): readonly string[] {
    return this.#gate.podsRemoved(removed);
  }

  /** A recovery or validation asked for by a maintainer's run that the Worker has verified. */
  openDispatched(what: Dispatched): DispatchedAnswer {
    return this.#gate.openDispatched(what);
  }

  useToken(jti: string, expiresAt: Millis): TokenUse {
    return this.#gate.useToken(jti, expiresAt);
  }

  dispatchedRequest(runId: string, requestId: string): RequestView | null {
    return this.#gate.dispatchedRequest(runId, requestId);
  }

  rentedRunnerIds(): readonly string[] {
    return rentedRunnerIds(this.#gate.store);
  }

  stop(requestId: string, word: Verdict): boolean {
    return this.#gate.stop(requestId, word);
  }

  /** Cron's minute. Overdue work means that an alarm was lost: it is set anew, and the work is taken up without waiting for it. */
  tick(): GateTick {
    this.#alarm.forget();
    const status = this.#gate.tick();
    if (status.overdue > 0) this.ctx.waitUntil(this.#run());
    return status;
  }

  /** The repository's name, for a gate that never heard a delivery. */
  introduce(repository: RepositoryRef, installationId: string): void {
    this.#gate.introduce(repository, installationId);
  }

  /** This repository's open money, and where the attempts stand that the account holds open. */
  money(asked: readonly string[]): GateMoney {
    return gateMoney(this.#sql, this.#gate.store, asked);
  }

  /** RunPod's bills beside our estimates. */
  recordBills(bills: readonly Bill[], window: BillWindow): BillsTaken {
    if (this.#gate.readOnly) return { known: [], drifts: [] };
    return recordBills(this.#gate.sql, this.#gate.store, bills, window, systemClock.now());
  }

  /** Cost reports of ledger lines closed in `[from, to)`. */
  costs(from: Millis, to: Millis): CostLines {
    return costLines(this.#sql, this.#repositoryId, from, to);
  }

  /** A maintainer's word to keep a pod for debugging, or to end that; the caller has made sure that it is one. */
  async retain(word: RetainWord): Promise<RetainAnswer> {
    return this.#gate.retain(word);
  }

  /** The operator's word about one request. */
  async operator(word: OperatorWord): Promise<OperatorAnswer> {
    const parked = word.action === "release" && this.#gate.store.isParked(word.requestId);
    return parked ? this.#gate.releaseParked(word) : this.#gate.operator(word);
  }

  /** Every decision about a pull request, a request or a pod, as JSON: facts are of many shapes. */
  explain(question: ExplainQuestion): string {
    return JSON.stringify(explain(question, this.#gate.store));
  }

  /** What keeps a pod; null: nothing does. */
  retentionOf(podId: string): RetentionRecord | null {
    return retentionOf(this.#gate.store, podId);
  }

  /** Writes into this repository's audit what was decided about it elsewhere. */
  note(note: AuditNote): void {
    this.#gate.note(note);
  }

  knowsAttempt(attemptId: string): boolean {
    return this.#gate.knowsAttempt(attemptId);
  }

  view(): GateView {
    return gateView(this.#gate.store, this.#sql, systemClock.now());
  }

  override async alarm(): Promise<void> {
    this.#alarm.forget();
    await this.#run();
  }

  /** Nothing may escape: an alarm that throws six times is never fired again. */
  async #run(): Promise<void> {
    try {
      await this.#gate.run();
    } catch (error) {
      logLine({ event: "alarm.failed", message: error instanceof Error ? error.message : "unknown error" });
      this.#alarm.forget();
      this.#alarm.set(systemClock.now() + 5_000);
    }
  }
}

/** The account as the gate sees it: a lost object or a failed call is an answer, never an exception. */
function accountPort(env: Env, repositoryId: string): AccountPort {
  const account = () => env.RUNPOD_ACCOUNT.getByName(ACCOUNT_NAME);
  return {
    listPods: (notBefore) => flat(async () => account().listPods(notBefore, systemClock.now())),
    market: (maxAgeMs) => flat(async () => account().market(maxAgeMs)),
    reserve: (attemptId, micros) => told(async () => account().reserve(attemptId, repositoryId, micros)),
    commit: (attemptId, micros) => told(async () => nothing(await account().commit(attemptId, micros, repositoryId))),
    release: (attemptId) => told(async () => nothing(await account().release(attemptId, repositoryId))),
    goneSince: (podId) => told(async () => account().goneSince(podId)),
    register: (repository) => told(async () => nothing(await account().register(repository))),
  };
}

function nothing(_done: unknown): null {
  return null;
}

async function told<T>(call: () => Promise<T>): Promise<AccountAnswer<T>> {
  try {
    return { ok: true, value: await call() };
  } catch (error) {
    return { ok: false, why: error instanceof Error ? error.message : "the account object did not answer" };
  }
}

async function flat<T>(call: () => Promise<AccountAnswer<T>>): Promise<AccountAnswer<T>> {
  const answer = await told(call);
  return answer.ok ? answer.value : answer;
}
