/** One simulated deployment: providers, network, our objects, cron, people and faults, on one virtual clock. */
import { runCron, type TickReport } from "../cron/index.ts";
import type { Board } from "../durable-objects/board-client.ts";
import { CallRate, POD_CALLS } from "../durable-objects/gate/rate.ts";
import { reapReasonCode } from "../shared/lifecycle/reap.ts";
import { parseWebhook } from "../shared/github/webhook.ts";
import type { Millis } from "../shared/ports.ts";
import { podExitSchema, podProofSchema } from "../shared/runpod/pod-words.ts";
import { Coverage } from "./coverage.ts";
import { Clocks, MOST_MS } from "./clocks.ts";
import { Crashes } from "./crashes.ts";
import { cronPortsOf, type CronIsolate } from "./cron-ports.ts";
import { planDisasters } from "./disasters.ts";
import { Faults, type FaultPlan } from "./faults.ts";
import { VirtualGitHub } from "./github.ts";
import { Repository, type CheckRun, type Hook } from "./github-model.ts";
import { changePull } from "./github-pulls.ts";
import { HostedJobs } from "./jobs.ts";
import { deliveriesOf, idsOf, noteHeard } from "./heard.ts";
import { HookBook, type HookDelivered } from "./hook-book.ts";
import { AccountHost, GateHost, newOwner, type HostSurroundings } from "./hosts.ts";
import { VirtualIssuer } from "./issuer.ts";
import { startMachine, type PodWordKind } from "./machine.ts";
import { Net } from "./net.ts";
import { Operators } from "./operators.ts";
import { AGGREGATE, drawConfig, narrowCap, People } from "./people.ts";
import { isQuiet } from "./quiet.ts";
import { runAs, type Owner } from "./platform.ts";
import { Prng } from "./prng.ts";
import { VirtualRunPod, type VirtualPod } from "./runpod.ts";
import { Scheduler } from "./scheduler.ts";
import { Trace } from "./trace.ts";
import type { Checker, WorldView } from "./view.ts";
import { WorkerHost } from "./worker.ts";

export interface WorldOptions {
  readonly plan: FaultPlan;
  readonly keepTrace: boolean;
  readonly maxPulls: number;
  readonly maxRepositories: number;
  readonly checkers: readonly Checker[];
  /** A busy day in place of a small world: so many repositories, and pull requests spread over them and over the time. */
  readonly fleet?: { readonly pulls: number; readonly repositories: number; readonly horizonMs: Millis };
}

export interface Violation {
  readonly checker: string;
  readonly what: string;
  readonly at: Millis;
}

/** 2026-11-30, in the middle of a UTC day: such a run rarely crosses a budget window. */
const START = Date.UTC(2026, 10, 30, 6);
/** Or so late on that day, the last of its month, that it does: and then it lasts until the bill of the night was compared. */
const LATE_START = Date.UTC(2026, 10, 30, 22, 30);
const BILL_COMPARED = Date.UTC(2026, 11, 1, 4);

/** Six rounds of comparing with GitHub: what has not come by then does not come. */
const OWED_MS = 1_800_000;

/** How often the platform runs cron in an isolate that it has just made. */
const NEW_ISOLATE = 0.05;

export class World implements WorldView {
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  readonly trace: Trace;
  readonly net: Net;
  readonly github: VirtualGitHub;
  readonly runpod: VirtualRunPod;
  readonly hosts: GateHost[] = [];
  readonly issuer: VirtualIssuer;
  readonly worker: WorkerHost;
  board: Board | null = null;
  readonly account: AccountHost;
  readonly coverage = new Coverage();
  readonly clocks: Clocks;
  readonly #crashes: Crashes;
  readonly horizonMs: Millis;
  readonly ticks: Millis[] = [];
  readonly skipped = new Set<Millis>();
  readonly log: string[] = [];
  violation: Violation | null = null;
  runpodUpSince: Millis;
  readonly #start: Millis;
  readonly #late: boolean;
  readonly #options: WorldOptions;
  readonly #rng: Prng;
  readonly #people: People;
  readonly #operators: Operators;
  readonly #book: HookBook;
  readonly #sent = new Map<
    string,
    { readonly repository: Repository; readonly what: HookDelivered; readonly text: string }
  >();
  #healedAt: Millis = 0;
  #quietSince: Millis | null = null;
  #healDisasters: () => void = () => undefined;
  readonly #podCalls = new CallRate(POD_CALLS);
  readonly #worker: Owner;
  readonly #isolates: Prng;
  #nextId = 20_000_000_000;
  #guid = 0;

  constructor(options: WorldOptions) {
    this.#options = options;
    const { plan } = options;
    this.faults = new Faults(plan);
    this.#late = this.faults.strikes("near-midnight", 0.2);
    this.#start = this.#late ? LATE_START + new Prng(plan.seed, "the hour").int(0, 85) * 60_000 : START;
    this.scheduler = new Scheduler(this.#start);
    this.runpodUpSince = this.#start;
    const { scheduler } = this;
    this.trace = new Trace(scheduler, options.keepTrace);
    this.#rng = new Prng(plan.seed, "world");
    const rng = this.#rng;
    const { fleet } = options;
    this.horizonMs = fleet?.horizonMs ?? rng.lasting(15, 150) * 60_000;
    // A scene needs its time to unfold, and whoever is down for hours must be so within the run.
    if (plan.scene !== null) this.horizonMs = Math.max(this.horizonMs, 3_600_000);
    if (plan.weights.has("gate-down")) this.horizonMs += new Prng(plan.seed, "a longer day").int(0, 200) * 60_000;
    this.clocks = new Clocks(this.faults, new Prng(plan.seed, "clocks"), this.#start, this.horizonMs);
    const around = { scheduler, faults: this.faults, trace: this.trace };
    this.runpod = new VirtualRunPod({
      ...around,
      rng: new Prng(plan.seed, "runpod"),
      clocks: this.clocks,
      ...(fleet === undefined ? {} : { pageSize: 200 }),
      onPod: (pod) => this.#rented(pod),
    });
    const nextId = (): string => String((this.#nextId += 1));
    const count = fleet?.repositories ?? Math.min(options.maxRepositories, rng.chance(0.3) ? 2 : 1);
    const repositories: Repository[] = [];
    for (let index = 0; index < Math.max(2, count); index += 1) {
      const own = new Prng(plan.seed, `repository ${index}`);
      const { text, limits, keepAlways } = drawConfig(own, this.faults, this.runpod.dearest);
      const config = fleet === undefined ? text : text.replace(/budget: .*/, FLEET_BUDGET);
      if (index < count) {
        const surroundings = { ...around, rng: own, deliver: (to: Repository, hook: Hook) => this.#deliver(to, hook) };
        const repository = new Repository(index, config, surroundings, nextId);
        repository.limits = limits;
        repository.keepAlways = keepAlways;
        repositories.push(repository);
      }
    }
    this.#book = new HookBook(
      () => scheduler.now,
      (guid) => {
        const sent = this.#sent.get(guid);
        if (sent !== undefined) this.#post(sent.repository, sent.what, sent.text, rng.int(500, 30_000), true);
      },
    );
    this.github = new VirtualGitHub({
      repositories,
      faults: this.faults,
      rng: new Prng(plan.seed, "github"),
      now: () => scheduler.now,
      nextId,
      book: this.#book,
      onCheck: (repository, check) => this.#wrote(repository, check),
    });
    this.issuer = new VirtualIssuer(() => scheduler.now);
    this.net = new Net(
      scheduler,
      this.faults,
      new Prng(plan.seed, "net"),
      this.trace,
      { "github.test": this.github, "runpod.test": this.runpod, "issuer.test": this.issuer },
      {
        boundary: (owner, phase, operation) => void this.#crashes.boundary(owner, phase, operation),
        performing: (server, operation, request) => {
          this.coverage.call(`${server.name} ${operation}`);
          for (const checker of options.checkers) {
            this.#report(checker, checker.performing?.(this, operation, request) ?? null);
          }
        },
        performed: (operation, request, status, heard) => {
          for (const checker of options.checkers) checker.performed?.(operation, request, status, heard);
        },
        refused: (operation, request) => {
          for (const checker of options.checkers) checker.refused?.(operation, request);
        },
      },
    );
    this.#worker = newOwner(scheduler);
    this.#crashes = new Crashes({
      ...around,
      coverage: this.coverage,
      hosts: this.hosts,
      net: () => this.net,
      worker: () => this.worker,
      account: () => this.account,
    });
    const { clocks } = this;
    const { pause } = this.#crashes;
    this.#isolates = new Prng(plan.seed, "isolates");
    this.#people = new People({
      seed: plan.seed,
      ...around,
      horizonMs: this.horizonMs,
      maxPulls: options.maxPulls,
    });
    const { net, issuer, hosts } = this;
    const log = (entry: Readonly<Record<string, unknown>>): void => this.#logged(entry);
    const cron = { board: () => this.board, tick: () => this.#tick() };
    this.worker = new WorkerHost({ scheduler, clocks, pause, net, hosts, cron, log });
    const jobs = new HostedJobs({
      seed: plan.seed,
      ...around,
      net,
      issuer,
      worker: this.worker,
      owner: newOwner(scheduler),
      onLane: (code) => this.coverage.reason(code),
    });
    this.#operators = new Operators({
      jobs,
      seed: plan.seed,
      ...around,
      horizonMs: this.horizonMs,
      call: (host, what, body) => this.net.rpc(this.#worker, "gate", what, () => host.inside(body)),
    });
    const hostAround: HostSurroundings = {
      seed: plan.seed,
      ...around,
      rng: new Prng(plan.seed, "hosts"),
      net: () => this.net,
      apiKey: this.runpod.apiKey,
      ...(fleet === undefined ? this.#deploymentCap() : { monthlyCapMicros: 10_000_000_000 }),
      clocks,
      pause,
      log: (entry) => this.#logged(entry),
      wrote: (host, query, bindings) => this.coverage.wrote(host.repository.id, query, bindings),
    };
    this.account = new AccountHost(hostAround);
    for (const repository of repositories) this.hosts.push(new GateHost(repository, () => this.account, hostAround));
    for (const [index, repository] of repositories.entries()) {
      if (fleet !== undefined) {
        this.#people.crowd(repository, Math.ceil((fleet.pulls - index) / fleet.repositories));
        continue;
      }
      this.#people.arrive(repository, () => this.#host(index));
      jobs.serve(repository, this.horizonMs);
      this.#operators.arrive(this.#host(index));
    }
    // A gate learns its repository's name from its first delivery, so one delivery arrives in any case.
    for (const repository of repositories) {
      // Unless nobody delivers anything: then the names are found by asking.
      if (this.faults.strikes("hook-unlisted", 0.3)) continue;
      const guid = `installed-${repository.id}`;
      const what = { guid, event: "installation", action: "created", ...idsOf(repository) };
      this.#post(repository, what, JSON.stringify(repository.installedJson()), 10, false);
    }
    this.#planOutages();
    this.#healDisasters = planDisasters({
      ...around,
      horizonMs: this.horizonMs,
      github: this.github,
      runpod: this.runpod,
      net: this.net,
      account: this.account,
      hosts: this.hosts,
      setPaused: (paused) => this.account.account.setPaused(paused),
    }).heal;
    this.#cronLater();
  }

  /** Where cron runs. */
  get isolate(): CronIsolate {
    return this.#crashes.isolate;
  }

  get died(): ReadonlySet<Millis> {
    return this.#crashes.died;
  }

  /** What the deployment may cost in a month: as a rule far more than a run comes to. */
  #deploymentCap(): { readonly monthlyCapMicros?: number } {
    if (!this.faults.strikes("narrow-caps", 0.4)) return {};
    return { monthlyCapMicros: Math.ceil(narrowCap(this.faults, this.runpod.dearest) * 1_000_000) };
  }

  get now(): Millis {
    return this.scheduler.now;
  }

  close(): void {
    for (const host of this.hosts) host.sql.close();
    this.account.sql.close();
  }

  /** Runs to the horizon, heals, and waits for rest. */
  async run(maxHealMs: Millis): Promise<void> {
    const end = Math.max(this.#start + this.horizonMs, this.#late ? BILL_COMPARED : 0);
    await this.#until(end, () => false);
    if (this.violation !== null) return;
    this.#heal();
    await this.#until(this.now + maxHealMs, () => this.#atRest());
    if (this.violation !== null) return;
    for (const checker of this.#options.checkers) this.#report(checker, checker.end?.(this) ?? null);
  }

  async #until(end: Millis, stop: () => boolean): Promise<void> {
    let nextLook = this.now;
    while (this.violation === null) {
      const stirred = this.scheduler.step(end);
      if (stirred === null) return;
      if (stirred) await this.scheduler.settle();
      for (const checker of this.#options.checkers) {
        if (checker.step !== undefined) this.#report(checker, checker.step(this));
      }
      if (this.now >= nextLook) {
        nextLook = this.now + 30_000;
        if (stop()) return;
      }
    }
  }

  #heal(): void {
    this.trace.note("the world heals");
    this.#healedAt = this.now;
    this.faults.healed = true;
    this.net.heal();
    this.#healDisasters();
    this.account.account.setPaused(false);
    this.runpodUpSince = this.now;
    for (const host of this.hosts) {
      host.startNow();
      host.repository.repairConfig();
      for (const pull of host.repository.pulls.values()) {
        pull.conflict = false;
        if (pull.draft && pull.state === "open") changePull(host.repository, pull, pull.author, "ready_for_review");
      }
    }
  }

  /** Quiet, and nothing that must still come is waited for in vain any longer. */
  #atRest(): boolean {
    if (!isQuiet(this)) {
      this.#quietSince = null;
      return false;
    }
    this.#quietSince ??= this.now;
    if (this.now - this.#quietSince > OWED_MS) return true;
    // What a head's pull requests took from one another is given back by a comparison with GitHub at the latest.
    const compared = this.hosts.every(
      ({ repository, gate }) =>
        repository.sharedHeads.size === 0 ||
        repository.standing !== "ok" ||
        Number(gate.store.meta("reconciled_at") ?? "0") - MOST_MS > this.#healedAt,
    );
    return compared && this.#options.checkers.every((checker) => (checker.owed?.(this) ?? null) === null);
  }

  #report(checker: Checker, what: string | null): void {
    if (what === null || this.violation !== null) return;
    this.#violated(checker.name, what);
  }

  #violated(checker: string, what: string): void {
    this.violation = { checker, what, at: this.now - this.#start };
    this.trace.note(`VIOLATION of ${checker}: ${what}`);
  }

  #host(index: number): GateHost {
    const host = this.hosts[index];
    if (host === undefined) throw new Error(`no gate ${index}`);
    return host;
  }

  // Our own platform.

  #cronLater(): void {
    this.scheduler.in(60_000 + this.#rng.int(-2_000, 2_000), "cron", () => {
      this.#cronLater();
      if (this.faults.strikes("cron-lost", 0.2)) return;
      this.ticks.push(this.now);
      void this.#tick();
    });
  }

  /** Cron's duties, at their minute or because a hosted job asked. */
  async #tick(): Promise<TickReport | null> {
    const crashes = this.#crashes;
    if (this.#isolates.chance(NEW_ISOLATE)) crashes.renew();
    this.scheduler.activity += 1;
    const began = this.now;
    crashes.ticking.set(began, this.isolate.owner);
    const report = await runAs(this.isolate.owner, () => runCron(cronPortsOf(this, (entry) => this.#logged(entry))));
    crashes.ticking.delete(began);
    if (report?.reap?.kind === "skipped") this.skipped.add(began);
    for (const { reason } of report?.reap?.reaped ?? []) this.coverage.reason(reapReasonCode(reason));
    return report;
  }

  #planOutages(): void {
    const { faults, scheduler } = this;
    for (const service of ["github", "runpod", "issuer"] as const) {
      const kind = service === "issuer" ? "issuer-down" : (`${service}-outage` as const);
      if (!faults.strikes(kind, 0.6)) continue;
      const stream = faults.stream(kind);
      const at = stream.int(10_000, this.horizonMs);
      const lasts = stream.chance(0.5) ? stream.int(30_000, 600_000) : stream.int(600_000, 7_200_000);
      scheduler.in(at, "outage", () => {
        if (!faults.on(kind)) return;
        this.net.takeDown(service, lasts);
        if (service === "runpod") this.runpodUpSince = this.now + lasts;
      });
    }
  }

  #logged(entry: Readonly<Record<string, unknown>>): void {
    const text = JSON.stringify(entry);
    this.log.push(text);
    if (entry["event"] === "task.failed") {
      this.coverage.note(`task failed: ${String(entry["kind"])}: ${String(entry["message"]).slice(0, 120)}`);
      this.trace.note(`log ${text}`);
    }
    if (entry["event"] === "workflow-api.refused") this.coverage.refused(String(entry["reason"]));
    const audit = entry["audit"];
    if (typeof audit === "object" && audit !== null)
      this.trace.note(`audit ${JSON.stringify((audit as { body?: unknown }).body ?? audit)}`);
  }

  // GitHub's side.

  #deliver(repository: Repository, hook: Hook): void {
    this.#guid += 1;
    const guid = `guid-${this.#guid}`;
    const text = JSON.stringify(hook.payload);
    const action = hook.payload["action"];
    const what = {
      guid,
      event: hook.event,
      action: typeof action === "string" ? action : null,
      ...idsOf(repository),
      madeAt: this.now,
    };
    const { faults } = this;
    const stream = faults.stream("hook-delayed");
    if (faults.strikes("hook-dropped", 0.15)) {
      this.trace.note(`webhook ${hook.event} ${String(action)} is lost`);
      this.#sent.set(guid, { repository, what, text });
      this.#book.write(what, false, "Timed out");
      return;
    }
    if (faults.strikes("hook-unlisted", 0.1)) {
      this.trace.note(`webhook ${hook.event} ${String(action)} is never made`);
      return;
    }
    const delay = faults.strikes("hook-delayed", 0.3) ? stream.int(1_000, 600_000) : this.#rng.int(100, 2_000);
    this.#post(repository, what, text, delay, false);
    if (faults.strikes("hook-doubled", 0.2)) {
      const twin = faults.stream("hook-doubled");
      // A redelivery has the same guid. What happens by itself GitHub also tells more than once; a person's act it does not.
      const byItself = hook.event.startsWith("workflow_") || hook.payload["action"] === "synchronize";
      const same = twin.chance(0.5) || !byItself;
      const again = same ? what : { ...what, guid: `${guid}-again` };
      this.#post(repository, again, text, delay + twin.int(0, 900_000), same);
    }
  }

  #post(repository: Repository, what: HookDelivered, text: string, delay: Millis, redelivery: boolean): void {
    const { event, guid } = what;
    this.#sent.set(guid, { repository, what, text });
    this.scheduler.in(delay, `webhook ${event}`, () => {
      const host = this.hosts.find((one) => one.repository === repository);
      const parsed = parseWebhook({ event, guid, text });
      if (!parsed.ok)
        throw new Error(`the virtual GitHub sent an unreadable ${event}: ${JSON.stringify(parsed.error)}`);
      if (host === undefined) return;
      const deliveries = deliveriesOf(parsed.value, this.hosts);
      if (deliveries.length === 0) return this.#book.write(what, redelivery, "OK");
      const heard = deliveries.map(({ to, delivery }) =>
        this.net
          .rpc(this.#worker, "gate", `accept ${event}`, () => to.inside((gate) => gate.accept(delivery)))
          .then((accepted) => {
            this.trace.note(
              `webhook ${event}.${delivery.signal.kind}: ${accepted.kind} ${accepted.actions.join("; ")}`,
            );
            if (accepted.kind === "accepted")
              noteHeard(to, delivery.signal, accepted.actions, what.madeAt ?? -Infinity);
            return accepted.kind !== "read-only";
          }),
      );
      void Promise.all(heard).then(
        (taken) => this.#book.write(what, redelivery, taken.every(Boolean) ? "OK" : "Service Unavailable"),
        () => {
          this.trace.note(`webhook ${event} was answered 500`);
          this.#book.write(what, redelivery, "Service Unavailable");
        },
      );
    });
  }

  #wrote(repository: Repository, check: CheckRun): void {
    this.trace.note(
      `check ${check.externalId ?? "?"} on ${check.headSha.slice(0, 8)}: ${check.status} ${check.conclusion ?? ""} '${check.title}'`,
    );
    for (const checker of this.#options.checkers) {
      this.#report(checker, checker.wrote?.(this, repository, check) ?? null);
    }
    if (/RunPod has not (?:confirmed|said whether)/.test(check.summary)) this.coverage.reason("deletion-unproven");
    const host = this.hosts.find((one) => one.repository === repository);
    if (check.status !== "completed" || check.name === AGGREGATE || host === undefined) return;
    this.#people.read(repository, check);
    this.#operators.read(host, check);
  }

  // Machines.

  #rented(pod: VirtualPod): void {
    this.#deployBadly(pod);
    startMachine(pod, {
      scheduler: this.scheduler,
      faults: this.faults,
      rng: new Prng(this.faults.plan.seed, `machine ${this.runpod.pods.length}`),
      trace: this.trace,
      runpod: this.runpod,
      repository: (id) => this.github.repositories.find((one) => one.id === id),
      call: (from, word, body) => this.#podCall(from, word, body),
    });
  }

  /** A deployment that breaks one object, while it has a machine: nobody answers there for minutes, or for hours. */
  #deployBadly(pod: VirtualPod): void {
    const host = this.hosts.find((one) => one.repository.id === pod.env["GPU_GATE_REPOSITORY_ID"]);
    if (host === undefined || !this.faults.strikes("gate-down", 0.7)) return;
    const stream = this.faults.stream("gate-down");
    const lasts = stream.chance(0.4) ? stream.int(300_000, 2_400_000) : stream.int(7_000_000, 11_400_000);
    this.scheduler.in(stream.int(10_000, 600_000), "a bad deployment", () => {
      if (this.faults.on("gate-down")) host.crash(lasts);
    });
  }

  async #podCall(pod: VirtualPod, word: PodWordKind, body: Readonly<Record<string, unknown>>): Promise<boolean | null> {
    const attempt = pod.env["GPU_GATE_ATTEMPT"] ?? "";
    const nonce = pod.env[word === "proof" ? "GPU_GATE_PROOF_NONCE" : "GPU_GATE_EXIT_NONCE"] ?? "";
    const host = this.hosts.find((one) => one.repository.id === pod.env["GPU_GATE_REPOSITORY_ID"]);
    if (host === undefined || this.faults.strikes("pod-call-lost", 0.2)) return null;
    const speak = (): Promise<boolean> =>
      this.net.rpc(this.#worker, "gate", `pod ${word}`, () =>
        host.inside(async (gate) => {
          if (!gate.knowsAttempt(attempt) || !this.#podCalls.take(attempt, this.now)) return false;
          if (word === "exit") {
            const { code, reason, gpuUuid } = podExitSchema.parse(body);
            return gate.podCall(attempt, nonce, { kind: "exit", code, reason, gpuUuid: gpuUuid ?? null });
          }
          const proof = podProofSchema.parse(body);
          const { podId, gpuName, gpuUuid, vramMb, cuda, nvrtc, smoke, gpuCount, scriptSha256 } = proof;
          return gate.podCall(attempt, nonce, {
            kind: "proof",
            proof: {
              podId,
              gpuName,
              gpuUuid,
              vramMb,
              driverCuda: cuda,
              nvrtc,
              kernel: smoke,
              count: gpuCount,
              scriptHash: scriptSha256,
            },
          });
        }),
      );
    try {
      const taken = await speak();
      this.trace.note(`pod ${pod.id} says ${word}: ${taken ? "taken" : "refused"}`);
      if (this.faults.strikes("pod-call-doubled", 0.2)) void speak().catch(() => undefined);
      return taken;
    } catch {
      this.trace.note(`pod ${pod.id} says ${word}: no answer`);
      return null;
    }
  }
}

/** A day's money: no cap is what is looked at there. */
const FLEET_BUDGET = "budget: { per_run: 20, per_day: 1000, per_month: 10000 }";
