/**
 * `RunPodAccount`: one object per RunPod key. A thin shell; every public method is reachable by RPC and does one thing.
 */
import { DurableObject } from "cloudflare:workers";
import { systemClock, type Millis } from "../shared/ports.ts";
import type { RepositoryRef } from "../shared/lifecycle/signal.ts";
import { Account } from "./account/account.ts";
import { SweepMemory, type Observations, type SweepStart } from "./account/sweep-memory.ts";
import type { AccountAnswer, PodListing, ReserveAnswer } from "./gate/ports.ts";
import { durableSql, runpodClientFor } from "./platform.ts";
import { readSettings } from "./settings.ts";

/** Name of the one account object of a deployment. */
export const ACCOUNT_NAME = "account";

export class RunPodAccount extends DurableObject<Env> {
  readonly #account: Account;
  readonly #sweeps: SweepMemory;

  constructor(state: DurableObjectState, env: Env) {
    super(state, env);
    const settings = readSettings(env);
    if (!settings.ok) throw new Error(`configuration: ${settings.error.join(" ")}`);
    const sql = durableSql(state.storage);
    this.#sweeps = new SweepMemory(sql);
    this.#account = new Account({
      sql,
      clock: systemClock,
      runpod: runpodClientFor(settings.value),
      monthlyCapMicros: settings.value.monthlyCapMicros,
    });
  }

  async listPods(notBefore: Millis): Promise<AccountAnswer<PodListing>> {
    return this.#account.listPods(notBefore);
  }

  reserve(attemptId: string, repositoryId: string, micros: number): ReserveAnswer {
    return this.#account.reserve(attemptId, repositoryId, micros);
  }

  commit(attemptId: string, micros: number): void {
    this.#account.commit(attemptId, micros);
  }

  release(attemptId: string): void {
    this.#account.release(attemptId);
  }

  register(repository: RepositoryRef): void {
    this.#account.register(repository);
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

  endSweep(observations: Observations): void {
    this.#sweeps.end(observations);
  }

  totals(): ReturnType<Account["totals"]> {
    return this.#account.totals();
  }
}
