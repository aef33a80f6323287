/**
 * `RunPodAccount`: one object per RunPod key. A thin shell; every public method is reachable by RPC and does one thing.
 */
import { DurableObject } from "cloudflare:workers";
import { systemClock, type Millis } from "../shared/ports.ts";
import type { RepositoryRef } from "../shared/lifecycle/signal.ts";
import { Account, type BillingTurn } from "./account/account.ts";
import type { BookFinding, BooksSeen } from "./account/compare.ts";
import { Aged } from "./account/aged.ts";
import type { Market } from "./account/market.ts";
import { SweepMemory, type Observations, type OwedRemoval, type SweepStart } from "./account/sweep-memory.ts";
import { Turns, type Turn } from "./account/turns.ts";
import type { Bill } from "./gate/bills.ts";
import type { AccountAnswer, PodListing, ReserveAnswer } from "./gate/ports.ts";
import { durableSql, imageResolverFor, runpodClientFor } from "./platform.ts";
import { readSettings } from "./settings.ts";

/** Name of the one account object of a deployment. */
export const ACCOUNT_NAME = "account";

export class RunPodAccount extends DurableObject<Env> {
  readonly #account: Account;
  readonly #sweeps: SweepMemory;
  readonly #turns: Turns;
  /** Digests by image name: the gates of a deployment mostly use the same image. */
  readonly #images = new Aged<string>(systemClock, 20);
  readonly #resolveImage: ReturnType<typeof imageResolverFor>;

  constructor(state: DurableObjectState, env: Env) {
    super(state, env);
    const settings = readSettings(env);
    if (!settings.ok) throw new Error(`configuration: ${settings.error.join(" ")}`);
    const sql = durableSql(state.storage);
    this.#sweeps = new SweepMemory(sql);
    this.#turns = new Turns(sql);
    this.#resolveImage = imageResolverFor(settings.value);
    this.#account = new Account({
      sql,
      clock: systemClock,
      runpod: runpodClientFor(settings.value),
      monthlyCapMicros: settings.value.monthlyCapMicros,
    });
  }

  async listPods(notBefore: Millis, askedAt?: Millis): Promise<AccountAnswer<PodListing>> {
    return this.#account.listPods(notBefore, askedAt);
  }

  async market(maxAgeMs: Millis): Promise<AccountAnswer<Market>> {
    return this.#account.market(maxAgeMs);
  }

  /** The digest behind an image's name, asked at the registry at most `maxAgeMs` ago. */
  async image(image: string, maxAgeMs: Millis): Promise<AccountAnswer<string>> {
    return this.#images.get(image, maxAgeMs, () => this.#resolveImage(image));
  }

  reserve(attemptId: string, repositoryId: string, micros: number): ReserveAnswer {
    return this.#account.reserve(attemptId, repositoryId, micros);
  }

  commit(attemptId: string, micros: number, repositoryId: string): void {
    this.#account.commit(attemptId, micros, repositoryId);
  }

  release(attemptId: string, repositoryId: string): void {
    this.#account.release(attemptId, repositoryId);
  }

  compareBooks(seen: BooksSeen): readonly BookFinding[] {
    return this.#account.compareBooks(seen);
  }

  async bills(startMs: Millis, endMs: Millis): Promise<AccountAnswer<readonly Bill[]>> {
    return this.#account.bills(startMs, endMs);
  }

  buyers(since: Millis): readonly string[] {
    return this.#account.buyers(since);
  }

  takeBillingTurn(day: string, retryMs: Millis): BillingTurn {
    return this.#account.takeBillingTurn(day, retryMs);
  }

  billingDone(day: string, problems: readonly string[]): void {
    this.#account.billingDone(day, problems);
  }

  paused(): boolean {
    return this.#account.paused();
  }

  /** The operator's word: nothing is bought from the next reservation on, until buying is resumed. */
  setPaused(paused: boolean): void {
    this.#account.setPaused(paused);
  }

  register(repository: RepositoryRef): void {
    this.#account.register(repository);
  }

  unregister(repositoryId: string, registeredBefore: Millis): boolean {
    return this.#account.unregister(repositoryId, registeredBefore);
  }

  registered(): readonly RepositoryRef[] {
    return this.#account.registered();
  }

  openReservations(): ReturnType<Account["openReservations"]> {
    return this.#account.openReservations();
  }

  /** Begins the reaper's sweep, unless one is under way that began less than `leaseMs` ago. */
  beginSweep(leaseMs: Millis): SweepStart {
    return this.#sweeps.begin(systemClock.now(), leaseMs);
  }

  /** Remembers a deletion that the reaper is about to order. False: there is no room for it. */
  owe(removal: OwedRemoval): boolean {
    return this.#sweeps.owe(removal);
  }

  /** When a pod was gone whose removal is still owed to its gate; null: nothing is known of it. */
  goneSince(podId: string): Millis | null {
    return this.#sweeps.goneSince(podId);
  }

  endSweep(
    observations: Observations,
    cursor: string | null,
    settled: readonly string[],
    owed: readonly OwedRemoval[],
  ): readonly string[] {
    return this.#sweeps.end(observations, cursor, settled, owed);
  }

  /** A duty of cron that is not for every tick; see turns.ts. */
  takeTurn(duty: string, everyMs: Millis): Turn {
    return this.#turns.take(duty, systemClock.now(), everyMs);
  }

  keepTurn(duty: string, memory: string, more: boolean): void {
    this.#turns.keep(duty, memory, more);
  }

  totals(): ReturnType<Account["totals"]> {
    return this.#account.totals();
  }
}
