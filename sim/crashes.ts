/**
 * Where an instance of ours may end: at each boundary of a call that leaves it or comes back, and at every other await that
 * gives the thread away, which are those of Web Crypto and of a body that is read. An instance that has ended goes no further.
 */
import { CronIsolate } from "./cron-ports.ts";
import type { Coverage } from "./coverage.ts";
import type { Faults } from "./faults.ts";
import { newOwner, type AccountHost, type GateHost } from "./hosts.ts";
import type { Net } from "./net.ts";
import { runAs, type Owner, type Pauses } from "./platform.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Trace } from "./trace.ts";
import type { WorkerHost } from "./worker.ts";

export interface CrashSurroundings {
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  readonly trace: Trace;
  readonly coverage: Coverage;
  readonly hosts: readonly GateHost[];
  readonly net: () => Net;
  readonly worker: () => WorkerHost;
  readonly account: () => AccountHost;
}

export class Crashes {
  /** Where cron runs. */
  isolate: CronIsolate;
  /** Ticks that ended with their isolate, by their beginning. */
  readonly died = new Set<number>();
  /** Ticks under way, by their beginning, and where each runs. */
  readonly ticking = new Map<number, Owner>();
  readonly #around: CrashSurroundings;

  constructor(around: CrashSurroundings) {
    this.#around = around;
    this.isolate = new CronIsolate(this.#anew());
  }

  /** A boundary of a call, or another await. True: the instance ends there, before anything else happens. */
  boundary(owner: Owner, phase: string, operation: string): boolean {
    const { faults, scheduler, hosts, trace } = this.#around;
    const ends = (crash: () => void): true => {
      scheduler.in(0, "crash", crash);
      return true;
    };
    const host = hosts.find((one) => one.owner === owner);
    let ending = false;
    if (host !== undefined && host.up && faults.strikes("crash-gate", 0.004)) {
      const stream = faults.stream("crash-gate");
      trace.note(`crash of ${host.repository.name} when ${operation} is ${phase}`);
      const down = stream.chance(0.7) ? stream.int(0, 3_000) : stream.int(3_000, 600_000);
      ending = ends(() => {
        if (host.owner === owner) host.crash(down);
      });
    }
    if (host !== undefined && phase === "asked" && operation === "reserve") {
      if (faults.strikes("account-overloaded", 0.15))
        this.#around.net().takeDown("account", faults.stream("account-overloaded").int(5_000, 1_200_000));
    }
    const worker = this.#around.worker();
    if (owner === worker.owner && faults.strikes("crash-worker", 0.05)) {
      ending = ends(() => {
        if (worker.owner === owner) worker.restart();
      });
    }
    if (owner === this.isolate.owner && faults.strikes("crash-cron", 0.01)) {
      ending = ends(() => {
        if (this.isolate.owner === owner) this.#endCron(`${operation} is ${phase}`);
      });
    }
    const account = this.#around.account();
    if (owner === account.owner && faults.strikes("crash-account", 0.02)) {
      ending = ends(() => {
        if (account.owner === owner) account.crash();
      });
    }
    return ending;
  }

  /**
   * An await that leaves the process in nobody's hands for a moment. Null: it goes on at once. An instance that has ended, or ends
   * here, waits for ever.
   */
  readonly pause: Pauses = (owner, what) => {
    if (!owner.alive) return new Promise(() => undefined);
    const { faults, scheduler, coverage } = this.#around;
    const ending = this.boundary(owner, "awaited", what);
    if (ending) coverage.note(`an instance ends as it awaits ${what}`);
    if (!ending && !faults.strikes("await-slow", 0.1)) return null;
    return new Promise((resolve) => {
      scheduler.in(faults.stream("await-slow").int(1, 40), "answer of the platform", () => {
        if (!owner.alive) return;
        scheduler.activity += 1;
        runAs(owner, resolve);
      });
    });
  };

  /** The platform runs cron in an isolate that it has just made. */
  renew(): void {
    this.isolate = new CronIsolate(this.#anew());
  }

  #anew(): Owner {
    return newOwner(this.#around.scheduler, this.pause);
  }

  /** The isolate ends with the tick that it runs: nobody tells the account of that sweep's end, once or twice. */
  #endCron(when: string): void {
    const { scheduler, trace } = this.#around;
    const { owner } = this.isolate;
    trace.note(`cron ends when ${when}`);
    owner.alive = false;
    this.renew();
    for (const [began, where] of this.ticking) {
      if (where !== owner) continue;
      this.ticking.delete(began);
      this.died.add(began);
      for (let times = 0; times < 2; times += 1)
        this.#around.net().unheard.push({ service: "account", operation: "endSweep", at: scheduler.now });
    }
  }
}
