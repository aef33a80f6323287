/**
 * Self-hosted runners: registered, connected with a single-use JIT config, given one job, watched, removed.
 *
 * A job goes to any idle online runner in scope that has all its labels, whoever minted it: a JIT config names no job.
 */

import { createHash, randomBytes } from "node:crypto";
import { MARK, minted } from "../minted.ts";
import type { RunnerRecord } from "./books.ts";
import type { Hub } from "./hub.ts";
import type { Account, Job, Repository, Runner, RunnerGroup } from "./model.ts";
import { fullName } from "./model.ts";

export interface Session {
  readonly token: string;
  readonly runner: Runner;
  /** Ends an open poll with the job, or with nothing. */
  wake: (() => void) | null;
  stopWatch: () => void;
  /** The job has been sent to the runner. */
  delivered: boolean;
}

export type Connected =
  | { readonly ok: true; readonly session: Session }
  | { readonly ok: false; readonly status: 401 | 409; readonly why: string };

export class RunnerDesk {
  readonly #hub: () => Hub;
  readonly #configs = new Map<string, { readonly runner: Runner; used: boolean }>();
  readonly #sessions = new Map<string, Session>();
  #queue: Job[] = [];

  constructor(hub: () => Hub) {
    this.#hub = hub;
  }

  /** Registers an offline runner at once and gives its start configuration, which cannot be had a second time. */
  registerJit(
    scope: Runner["scope"],
    input: { name: string; labels: readonly string[]; groupId: number; workFolder: string },
  ): { runner: Runner; encoded: string } {
    const hub = this.#hub();
    const runner = this.#add(scope, { ...input, kind: "jit", os: "unknown", online: false });
    const settings = {
      AgentId: runner.id,
      AgentName: runner.name,
      PoolId: runner.groupId,
      PoolName: "Default",
      Ephemeral: true,
      serverUrl: hub.url,
      gitHubUrl: hub.url,
      workFolder: input.workFolder,
    };
    const credentials = {
      scheme: "OAuth",
      data: { clientId: `runner-${runner.id}`, authorizationUrl: `${hub.url}/_runner/session` },
    };
    const rsa = {
      d: randomBytes(64).toString("base64"),
      modulus: randomBytes(64).toString("base64"),
      exponent: "AQAB",
    };
    const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64");
    const encoded = part({
      ".runner": part(settings),
      ".credentials": part(credentials),
      ".credentials_rsaparams": part(rsa),
    });
    minted(encoded, "registration");
    this.#configs.set(hashOf(encoded), { runner, used: false });
    this.#book(runner, "registered", "jit");
    return { runner, encoded };
  }

  /** A standing runner of the repository or organisation, simulated: it plays the script of whatever job it gets. */
  registerStatic(
    scope: Runner["scope"],
    input: { name: string; labels: readonly string[]; groupId: number; online: boolean; version: string },
  ): Runner {
    const runner = this.#add(scope, { ...input, kind: "static", os: "Linux" });
    runner.version = input.version;
    this.#book(runner, "registered", input.online ? "static, online" : "static, offline");
    this.assign();
    return runner;
  }

  setOnline(runner: Runner, online: boolean): void {
    if (runner.online === online) return;
    runner.online = online;
    this.#book(runner, online ? "connected" : "offline", null);
    if (online) this.assign();
  }

  inScope(scope: Runner["scope"]): Runner[] {
    return [...this.#hub().world.runners.values()].filter(
      (runner) => runner.scope.kind === scope.kind && runner.scope.id === scope.id,
    );
  }

  /** Forgets a runner; its configuration and its session are dead. */
  remove(runner: Runner, why: string): void {
    this.#hub().world.runners.delete(runner.id);
    runner.online = false;
    for (const session of this.#sessions.values()) {
      if (session.runner !== runner) continue;
      session.stopWatch();
      this.#sessions.delete(session.token);
      session.wake?.();
    }
    this.#book(runner, "removed", why);
  }

  connect(encoded: string): Connected {
    const config = this.#configs.get(hashOf(encoded));
    if (config === undefined || !this.#hub().world.runners.has(config.runner.id)) {
      return { ok: false, status: 401, why: "The runner of this JIT config does not exist (any more)." };
    }
    const { runner } = config;
    if (config.used) {
      this.#book(runner, "refused", "second connect with one config");
      return { ok: false, status: 409, why: "This JIT config has been used already." };
    }
    config.used = true;
    runner.os = "Linux";
    runner.version = "2.335.0";
    runner.online = true;
    const session: Session = {
      token: minted(`${MARK}${randomBytes(24).toString("hex")}`, { origin: this.#hub().url }),
      runner,
      wake: null,
      stopWatch: () => {},
      delivered: false,
    };
    this.#sessions.set(session.token, session);
    this.#book(runner, "connected", null);
    this.heard(session);
    this.assign();
    return { ok: true, session };
  }

  session(token: string): Session | undefined {
    return this.#sessions.get(token);
  }

  /** The runner is there: the watch begins anew. */
  heard(session: Session): void {
    const hub = this.#hub();
    session.stopWatch();
    if (!session.runner.online) this.setOnline(session.runner, true);
    const watch = (): void => {
      // While GitHub itself is down, nobody is declared lost.
      if (hub.faults.outage === false) this.#lost(session);
      else session.stopWatch = hub.timers.after(hub.timing.runnerLostMs, watch);
    };
    session.stopWatch = hub.timers.after(hub.timing.runnerLostMs, watch);
  }

  /** Waits for a job, at most `ms`. Null when there is none, or the runner is gone. */
  async poll(session: Session, ms: number): Promise<Job | null> {
    const take = (): Job | null => (session.runner.job !== null && !session.delivered ? session.runner.job : null);
    if (take() === null) {
      session.stopWatch();
      await new Promise<void>((resolve) => {
        session.wake = resolve;
        this.#hub().timers.after(ms, resolve);
      });
      session.wake = null;
    }
    if (!this.#sessions.has(session.token)) return null;
    this.heard(session);
    const job = take();
    if (job !== null) session.delivered = true;
    return job;
  }

  /** A job that needs a runner joins the queue. */
  offer(job: Job): void {
    this.#queue.push(job);
    this.assign();
  }

  /** A job has ended: its runner is free again, or gone if it was good for one job only. */
  released(job: Job): void {
    this.#queue = this.#queue.filter((queued) => queued !== job);
    const runner = [...this.#hub().world.runners.values()].find((one) => one.job === job);
    if (runner === undefined) return;
    runner.job = null;
    this.#book(runner, "job-ended", `job ${job.id}`);
    if (runner.kind === "jit") this.remove(runner, "its one job has ended");
    else this.assign();
  }

  assign(): void {
    const { world, engine, books } = this.#hub();
    for (const job of this.#queue) {
      // Giving one job away may have given away another.
      if (!this.#queue.includes(job)) continue;
      const runner = [...world.runners.values()].find((one) => one.online && one.job === null && this.#fits(one, job));
      if (runner === undefined) continue;
      this.#queue = this.#queue.filter((queued) => queued !== job);
      runner.job = job;
      this.#book(runner, "job-started", `job ${job.id} of run ${job.run.id}`);
      const on = { id: runner.id, name: runner.name, groupId: runner.groupId };
      if (runner.kind === "static") {
        engine.playJob(job, on).catch((problem: unknown) => books.problems.push(String(problem)));
        continue;
      }
      engine.startJob(job, on);
      for (const session of this.#sessions.values()) if (session.runner === runner) session.wake?.();
    }
  }

  #add(scope: Runner["scope"], input: Pick<Runner, "name" | "labels" | "groupId" | "kind" | "os" | "online">): Runner {
    const { world } = this.#hub();
    const { name, labels, groupId, kind, os, online } = input;
    const runner: Runner = {
      id: world.nextId("runner", 20),
      scope,
      name,
      labels,
      groupId,
      kind,
      os,
      online,
      version: null,
      job: null,
      createdAt: world.clock.now(),
    };
    world.runners.set(runner.id, runner);
    return runner;
  }

  #fits(runner: Runner, job: Job): boolean {
    const has = new Set(runner.labels.map((label) => label.toLowerCase()));
    if (!job.labels.every((label) => has.has(label.toLowerCase()))) return false;
    const { repository } = job.run;
    if (runner.scope.kind === "repository") return runner.scope.id === repository.id;
    if (runner.scope.id !== repository.owner.id) return false;
    const group = groupOf(this.#hub(), repository.owner, runner.groupId);
    return group === undefined || groupAllows(group, repository, job);
  }

  #lost(session: Session): void {
    const { runner } = session;
    const { job } = runner;
    runner.online = false;
    this.#book(runner, job === null ? "offline" : "lost", null);
    if (job === null) return;
    this.#hub().engine.completeJob(job, "failure", [
      { level: "failure", message: `The self-hosted runner: ${runner.name} lost communication with the server.` },
    ]);
  }

  #book(runner: Runner, what: RunnerRecord["what"], detail: string | null): void {
    const hub = this.#hub();
    const { id, name, labels } = runner;
    hub.books.runners.push({ at: hub.world.clock.now(), runnerId: id, name, labels, what, detail });
  }
}

function groupAllows(group: RunnerGroup, repository: Repository, job: Job): boolean {
  if (!repository.private && !group.allowsPublicRepositories) return false;
  if (group.visibility === "selected" && !group.repositories.includes(repository.id)) return false;
  if (!group.restrictedToWorkflows) return true;
  const file = `${fullName(repository)}/${job.run.workflow.path}`;
  const refs = [job.run.ref, job.run.ref.replace(/^refs\/(heads|tags)\//, ""), job.run.sha];
  return refs.some((ref) => group.selectedWorkflows.includes(`${file}@${ref}`));
}

/** An organisation's runner group of that id. */
export function groupOf(hub: Hub, organization: Account, id: number): RunnerGroup | undefined {
  return hub.world.runnerGroups.find((group) => group.id === id && group.organization.id === organization.id);
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
