/**
 * Where our own objects live: a gate per repository and the one account, each on a database that survives its crashes. An
 * instance that crashes never hears the answers it waits for; the next one starts on what was stored.
 */
import { Account } from "../durable-objects/account/account.ts";
import { SweepMemory } from "../durable-objects/account/sweep-memory.ts";
import { Turns } from "../durable-objects/account/turns.ts";
import { Gate, type GateTick } from "../durable-objects/gate/gate.ts";
import type { AccountAnswer, AccountPort, GatePorts, PodListing, SqlValue } from "../durable-objects/gate/ports.ts";
import { durableAlarm, type DurableAlarm } from "../durable-objects/platform.ts";
import { createGitHubApp } from "../shared/github/app.ts";
import { createGitHubClient } from "../shared/github/client.ts";
import { createEtagCache } from "../shared/github/etag.ts";
import type { Clock, Millis } from "../shared/ports.ts";
import { createRunPodClient, type RunPodClient } from "../shared/runpod/client.ts";
import type { Clocks } from "./clocks.ts";
import type { Faults } from "./faults.ts";
import { APP_ID, type Repository } from "./github-model.ts";
import type { Net } from "./net.ts";
import { appKey, runAs, type Owner, type Pauses } from "./platform.ts";
import { Prng } from "./prng.ts";
import type { Scheduler, Timer } from "./scheduler.ts";
import { simSql, type SimSql } from "./sql.ts";
import type { Trace } from "./trace.ts";

export const DEPLOYMENT = "sim";

export interface HostSurroundings {
  readonly seed: number;
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  readonly rng: Prng;
  readonly trace: Trace;
  readonly net: () => Net;
  readonly apiKey: string;
  readonly monthlyCapMicros?: number;
  readonly clocks: Clocks;
  readonly pause: Pauses;
  readonly log: (entry: Readonly<Record<string, unknown>>) => void;
  readonly wrote: (host: GateHost, query: string, bindings: readonly SqlValue[]) => void;
}

/** An owner whose timers end with it. */
export function newOwner(scheduler: Scheduler, pauses?: Pauses): Owner {
  const owner: Owner = {
    ...(pauses === undefined ? {} : { pauses }),
    alive: true,
    inFlight: 0,
    timer: (delay, run) =>
      scheduler.in(delay, "timeout", () => {
        // A time-out with nothing under way has nothing to end.
        if (owner.alive && owner.inFlight > 0) runAs(owner, run);
      }),
  };
  return owner;
}

function clientOf(around: HostSurroundings, caller: string, owner: () => Owner, clock: Clock): RunPodClient {
  return createRunPodClient({
    apiKey: around.apiKey,
    baseUrl: "https://runpod.test",
    graphqlUrl: "https://runpod.test/graphql",
    fetch: around.net().fetchOf(caller, owner),
    clock,
    userAgent: "gpu-gate",
  });
}

/** Calls that wait inside an object: its crash answers them all with an error, as the platform does. */
class Waiting {
  readonly #calls = new Set<(error: Error) => void>();

  until<T>(made: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#calls.add(reject);
      const settle = (): void => void this.#calls.delete(reject);
      void made.then(
        (value) => (settle(), resolve(value)),
        (error: unknown) => (settle(), reject(error instanceof Error ? error : new Error("failed"))),
      );
    });
  }

  reject(why: string): void {
    const calls = [...this.#calls];
    this.#calls.clear();
    for (const reject of calls) reject(new Error(why));
  }
}

export class AccountHost {
  /** What all repositories together may cost in a month. */
  readonly monthlyCapMicros: number;
  readonly sql: SimSql;
  readonly clock: Clock;
  owner: Owner;
  account: Account;
  sweeps: SweepMemory;
  turns: Turns;
  readonly #around: HostSurroundings;
  readonly #waiting = new Waiting();

  constructor(around: HostSurroundings) {
    this.#around = around;
    this.monthlyCapMicros = around.monthlyCapMicros ?? 400_000_000;
    this.sql = simSql(() => (around.scheduler.activity += 1));
    this.clock = { now: () => around.scheduler.now + around.clocks.ours("account", around.scheduler.now) };
    this.owner = newOwner(around.scheduler, around.pause);
    this.account = this.#start();
    this.sweeps = new SweepMemory(this.sql);
    this.turns = new Turns(this.sql);
  }

  crash(): void {
    this.#around.trace.note("the account crashes");
    this.owner.alive = false;
    this.owner = newOwner(this.#around.scheduler, this.#around.pause);
    this.account = this.#start();
    this.sweeps = new SweepMemory(this.sql);
    this.turns = new Turns(this.sql);
    this.#waiting.reject("the account was reset");
  }

  /** Runs a method inside this object. */
  async inside<T>(body: (account: Account) => T | Promise<T>): Promise<T> {
    const made = runAs(this.owner, () => body(this.account));
    return made instanceof Promise ? this.#waiting.until(made) : made;
  }

  #start(): Account {
    const runpod = clientOf(this.#around, "account", () => this.owner, this.clock);
    return new Account({
      sql: this.sql,
      clock: this.clock,
      runpod,
      monthlyCapMicros: this.monthlyCapMicros,
    });
  }
}

/** The account as a gate reaches it: over RPC, which may fail in either direction. */
export function accountPort(
  host: () => AccountHost,
  net: Net,
  owner: () => Owner,
  { repositoryId, clock }: { readonly repositoryId: string; readonly clock: Clock },
): AccountPort {
  async function told<T>(operation: string, body: (account: Account) => T | Promise<T>): Promise<AccountAnswer<T>> {
    try {
      return { ok: true, value: await net.rpc(owner(), "account", operation, () => host().inside(body)) };
    } catch (error) {
      return { ok: false, why: error instanceof Error ? error.message : "the account object did not answer" };
    }
  }
  async function flat<T>(
    operation: string,
    body: (account: Account) => Promise<AccountAnswer<T>>,
  ): Promise<AccountAnswer<T>> {
    const answer = await told(operation, body);
    return answer.ok ? answer.value : answer;
  }
  return {
    listPods: (notBefore) => {
      const askedAt = clock.now();
      return flat<PodListing>("listPods", (account) => account.listPods(notBefore, askedAt));
    },
    market: (maxAgeMs) => flat("market", (account) => account.market(maxAgeMs)),
    reserve: (attemptId, micros) => told("reserve", (account) => account.reserve(attemptId, repositoryId, micros)),
    commit: (attemptId, micros) => told("commit", (account) => (account.commit(attemptId, micros, repositoryId), null)),
    release: (attemptId) => told("release", (account) => (account.release(attemptId, repositoryId), null)),
    goneSince: (podId) => told("goneSince", () => host().sweeps.goneSince(podId)),
    register: (repository) => told("register", (account) => (account.register(repository), null)),
  };
}

export class GateHost {
  readonly repository: Repository;
  readonly sql: SimSql;
  readonly clock: Clock;
  owner: Owner;
  gate: Gate;
  /** Down until somebody starts it again. */
  up = true;
  crashes = 0;
  /** Counts what was stored, as a whole and in each table, so that a checker need not look where nothing changed. */
  writes = 0;
  readonly #writes = new Map<string, number>();
  /** Requests whose pod somebody asked to keep, and what the operator said that a request may cost. */
  readonly keepAsked = new Set<string>();
  readonly lifted = new Map<string, number>();
  /** Kept pods whose record was destroyed. */
  readonly destroyedRecords = new Set<string>();
  /** When the present instance started. */
  startedAt: Millis = 0;
  readonly #around: HostSurroundings;
  readonly #account: () => AccountHost;
  #alarm: { readonly at: Millis; readonly timer: Timer | null } | null = null;
  #alarmPort: DurableAlarm | null = null;
  #running = false;
  #overdue = false;
  readonly #waiting = new Waiting();
  #ids: Prng;

  constructor(repository: Repository, account: () => AccountHost, around: HostSurroundings) {
    this.repository = repository;
    this.#around = around;
    this.#account = account;
    const plain = simSql(() => (around.scheduler.activity += 1));
    this.sql = {
      ...plain,
      exec: (query, ...bindings) => {
        const table = writtenBy(query);
        if (table !== null) {
          this.writes += 1;
          this.#writes.set(table, this.writesTo(table) + 1);
          around.wrote(this, query, bindings);
        }
        return plain.exec(query, ...bindings);
      },
    };
    this.clock = { now: () => around.scheduler.now + around.clocks.ours("gate", around.scheduler.now) };
    this.#ids = new Prng(around.seed, `ids of ${repository.id}`);
    this.owner = newOwner(around.scheduler, around.pause);
    this.gate = this.#start();
  }

  writesTo(table: string): number {
    return this.#writes.get(table) ?? 0;
  }

  /** Ends the instance where it stands; its alarm is stored, its memory is not. */
  crash(downMs: Millis): void {
    if (!this.up) return;
    this.crashes += 1;
    this.#around.trace.note(`the gate of ${this.repository.name} crashes, down for ${downMs} ms`);
    this.owner.alive = false;
    this.up = false;
    this.#running = false;
    this.#waiting.reject("the gate was reset");
    const crash = this.crashes;
    this.#around.scheduler.in(downMs, "gate starts", () => {
      if (this.crashes === crash) this.startNow();
    });
  }

  /** Starts the next instance, if none is up. */
  startNow(): void {
    if (this.up) return;
    this.owner = newOwner(this.#around.scheduler, this.#around.pause);
    this.up = true;
    this.gate = this.#start();
    if (this.#overdue || (this.#alarm !== null && this.#alarm.timer === null)) this.#fire();
  }

  /** Runs a method inside this object; throws while it is down. Where it has to wait, a crash is an error to whoever called it. */
  inside<T>(body: (gate: Gate) => T): T {
    if (!this.up) throw new Error("the gate is down");
    const made = runAs(this.owner, () => body(this.gate));
    return made instanceof Promise ? (this.#waiting.until(made) as T) : made;
  }

  /** Cron's visit, as the object's shell makes it: what is overdue is taken up at once. */
  tick(): GateTick {
    return this.inside((gate) => {
      this.#alarmPort?.forget();
      const status = gate.tick();
      if (status.overdue > 0) this.#fire();
      return status;
    });
  }

  /** The alarm fires whether or not it was due: the platform promises at least once. */
  fireAgain(): void {
    if (this.up) this.#fire();
  }

  #start(): Gate {
    const around = this.#around;
    const owner = this.owner;
    const own = (): Owner => owner;
    const caller = `gate ${this.repository.id}`;
    const net = around.net();
    const clock = this.clock;
    this.startedAt = around.scheduler.now;
    const made = createGitHubApp(
      { appId: APP_ID, privateKey: appKey(), apiUrl: "https://github.test" },
      { fetch: net.fetchOf(caller, own), clock },
    );
    if (!made.ok) throw new Error("the App's key must be usable");
    const etags = createEtagCache();
    const alarm = durableAlarm({ setAlarm: (at: number | Date) => this.#setAlarm(Number(at)) } as DurableObjectStorage);
    this.#alarmPort = alarm;
    const ports: GatePorts = {
      sql: this.sql,
      alarm,
      clock,
      random: this.#ids,
      account: accountPort(this.#account, net, own, { repositoryId: this.repository.id, clock: this.clock }),
      runpod: clientOf(around, caller, own, clock),
      github: (repository, installationId, runners, background = false) =>
        createGitHubClient({
          app: made.value,
          repository: { ...repository, installationId },
          runners,
          etags,
          background,
        }),
      resolveImage: async () => {
        try {
          return {
            ok: true,
            value: await net.rpc(
              owner,
              "registry",
              "digest",
              () => `ghcr.io/actions/actions-runner@sha256:${"c".repeat(64)}`,
            ),
          };
        } catch (error) {
          return { ok: false, why: error instanceof Error ? error.message : "no answer" };
        }
      },
      publicUrl: "https://gate.test",
      deployment: DEPLOYMENT,
      appId: APP_ID,
      log: around.log,
    };
    return runAs(owner, () => new Gate(ports));
  }

  #setAlarm(at: Millis): Promise<void> {
    const { scheduler, faults, rng, clocks } = this.#around;
    if (this.#alarm?.timer) this.#alarm.timer.cancelled = true;
    if (faults.strikes("alarm-lost", 0.01)) {
      this.#around.trace.note(`an alarm of ${this.repository.name} is lost`);
      this.#alarm = null;
      return Promise.resolve();
    }
    const late = faults.strikes("alarm-late", 0.03) ? rng.int(1_000, 120_000) : rng.int(0, 10);
    const instant = at - clocks.ours("gate", scheduler.now) + late;
    this.#alarm = {
      at,
      timer: scheduler.at(instant, "alarm", () => {
        this.#alarm = { at, timer: null };
        if (!this.up) return;
        this.#fire();
        if (faults.strikes("alarm-twice", 0.05)) scheduler.in(rng.int(0, 2_000), "alarm again", () => this.fireAgain());
      }),
    };
    return Promise.resolve();
  }

  /** One handler at a time, as on the platform: an alarm that comes meanwhile runs afterwards. */
  #fire(): void {
    if (this.#running) {
      this.#overdue = true;
      return;
    }
    this.#running = true;
    this.#overdue = false;
    if (this.#alarm?.timer === null) this.#alarm = null;
    this.#alarmPort?.forget();
    const { owner, gate } = this;
    this.#around.scheduler.activity += 1;
    void runAs(owner, () => gate.run()).finally(() => {
      if (!owner.alive) return;
      this.#running = false;
      if (this.#overdue) this.#fire();
    });
  }
}

const tables = new Map<string, string | null>();

/** The table that a statement writes; null for one that only reads. */
function writtenBy(query: string): string | null {
  let table = tables.get(query);
  if (table === undefined) {
    const [, named = ""] = /^\s*(?:INSERT(?: OR \w+)? INTO|UPDATE|DELETE FROM)\s+(\w+)/.exec(query) ?? [];
    table = query.startsWith("SELECT") ? null : named;
    tables.set(query, table);
  }
  return table;
}
