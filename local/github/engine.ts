/**
 * Workflow runs: made, started, moved from job to job, cancelled slowly, re-run, concluded.
 *
 * A workflow file is interpreted: its hosted jobs run their steps for real. Where a script is registered for its path,
 * the script plays instead, on timers. Jobs for self-hosted labels are handed to the runner desk and stay queued until a
 * runner with all their labels takes them.
 */

import type { ServiceAnswer, ServiceAsk } from "../machine/services.ts";
import type { RunPlan } from "../workflow/run.ts";
import { checkWritten, createSuite, newCheckRun } from "./checks.ts";
import { ConcurrencyGroups, type Group, type Member } from "./concurrency.ts";
import type { HostedMachines } from "./hosted-machines.ts";
import type { Hub } from "./hub.ts";
import { InterpretedJob, stepNames } from "./interpreted-job.ts";
import { InterpretedRun, type Move } from "./interpreted-run.ts";
import { JobServices } from "./job-services.ts";
import { conclude, endStep, endSteps, newAnnotation, newArtifact, newJob } from "./jobs.ts";
import type { Links } from "./links.ts";
import type { Account, Conclusion, Job, RunAttempt, WorkflowRun } from "./model.ts";
import { actionsAppId, latestAttempt } from "./model.ts";
import { bookRun, tellInProgress, tellJob, tellRun } from "./run-news.ts";
import { WorkflowCatalog, type RunRequest } from "./workflow-catalog.ts";
import type { AnnotationPlan, HostedJobView, JobPlan, WorkflowPlan } from "./workflow-script.ts";

/** A job while it is under way: its plan, and the ways to end it early. */
interface Live {
  readonly plan: JobPlan;
  /** The job in its interpreted run; null for a script's. */
  readonly key: string | null;
  readonly interpreted: InterpretedJob | null;
  /** Asks the work to stop. */
  readonly cancel: AbortController;
  /** Stops it. */
  readonly kill: AbortController;
  stopClock: () => void;
}

export class Engine {
  readonly #hub: () => Hub;
  readonly #hosted: HostedMachines;
  readonly #services: JobServices;
  readonly #groups = new ConcurrencyGroups();
  readonly #plans = new Map<RunAttempt, WorkflowPlan | InterpretedRun>();
  /** Attempts that wait for their concurrency group. */
  readonly #pending = new Map<RunAttempt, RunPlan>();
  readonly #live = new Map<Job, Live>();
  #closed = false;
  /** Download addresses of logs and artifacts. */
  readonly links: Links;
  readonly catalog: WorkflowCatalog;

  constructor(hub: () => Hub, links: Links, hosted: HostedMachines) {
    this.#hub = hub;
    this.links = links;
    this.#hosted = hosted;
    this.#services = new JobServices(hub);
    this.catalog = new WorkflowCatalog(hub);
  }

  /** Ends every hosted job; nothing of them is left. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#hosted.close();
  }

  /** Starts every `event` workflow whose file is in the tree of `request.sha`. */
  trigger(request: Omit<RunRequest, "path">): WorkflowRun[] {
    return this.catalog.triggered(request).map((path) => this.create({ ...request, path }));
  }

  create(request: RunRequest): WorkflowRun {
    const hub = this.#hub();
    const { world } = hub;
    const workflow = this.catalog.workflow(request.repository, request.path);
    const now = world.clock.now();
    const suite = createSuite(hub, request.repository, {
      appId: actionsAppId,
      headSha: request.headSha,
      headBranch: request.headRepository.id === request.repository.id ? request.headBranch : null,
      before: null,
    });
    const run: WorkflowRun = {
      id: world.nextId("run", 19_000_000_000),
      repository: request.repository,
      headRepository: request.headRepository,
      workflow,
      name: this.catalog.nameAt(request),
      displayTitle: this.catalog.titleOf(request),
      runNumber: world.nextId(`run number ${request.repository.id} ${request.path}`, 0),
      event: request.event,
      headBranch: request.headBranch,
      headSha: request.headSha,
      sha: request.sha,
      ref: request.ref,
      actor: request.actor,
      inputs: request.inputs ?? {},
      pullNumber: request.pullNumber ?? null,
      payload: request.payload ?? {},
      suiteId: suite.id,
      createdAt: now,
      attempts: [],
      artifacts: [],
      cancelRequestedAt: null,
    };
    world.runs.set(run.id, run);
    const attempt = this.#addAttempt(run, request.actor);
    bookRun(hub, run, "created");
    const fromFork = request.headRepository.id !== request.repository.id;
    if (fromFork && request.repository.approveForkRuns && request.event === "pull_request") {
      attempt.status = "completed";
      attempt.conclusion = "action_required";
      tellRun(hub, run, "requested");
      return run;
    }
    tellRun(hub, run, "requested");
    this.#beginSoon(run, attempt);
    return run;
  }

  /** A maintainer lets a fork's held run go. False when there is nothing to approve. */
  approve(run: WorkflowRun): boolean {
    const attempt = latestAttempt(run);
    if (attempt.conclusion !== "action_required") return false;
    attempt.status = "queued";
    attempt.conclusion = null;
    this.#beginSoon(run, attempt);
    return true;
  }

  /** A new attempt of all jobs. No `requested` is sent for it; the run keeps its id, its commit and its first actor. */
  rerun(run: WorkflowRun, triggeringActor: Account): boolean {
    if (latestAttempt(run).status !== "completed" || run.attempts.length > 50) return false;
    run.cancelRequestedAt = null;
    const hub = this.#hub();
    const attempt = this.#addAttempt(run, triggeringActor);
    bookRun(hub, run, "created");
    this.#beginSoon(run, attempt);
    return true;
  }

  /** Accepts a cancel; the run ends later. False when it has ended already. */
  cancel(run: WorkflowRun, force = false): boolean {
    const hub = this.#hub();
    const attempt = latestAttempt(run);
    if (attempt.status === "completed") return false;
    if (run.cancelRequestedAt !== null && !force) return true;
    run.cancelRequestedAt = hub.world.clock.now();
    bookRun(hub, run, "cancel-requested");
    hub.timers.after(hub.timing.cancelMs, () => {
      for (const job of attempt.jobs) this.#cancelJob(job);
      this.#advance(run, attempt);
    });
    hub.timers.after(force ? hub.timing.cancelMs : hub.timing.cancelHardMs, () => {
      for (const job of attempt.jobs) this.completeJob(job, "cancelled");
      this.#finish(run, attempt);
    });
    return true;
  }

  planOf(job: Job): JobPlan | undefined {
    return this.#live.get(job)?.plan;
  }

  /** The job as its machine meets it; undefined for a script's job. */
  interpretedJob(job: Job): InterpretedJob | undefined {
    return this.#live.get(job)?.interpreted ?? undefined;
  }

  /** What an action of an interpreted job asks for. */
  serve(job: Job, ask: ServiceAsk): ServiceAnswer {
    const interpreted = this.interpretedJob(job);
    return interpreted === undefined
      ? { problem: "The job is over." }
      : this.#services.answer(job, interpreted.planned.plan.cacheMode, ask);
  }

  /** A job begins, on a hosted machine or on a runner. */
  startJob(job: Job, on: { id: number; name: string; groupId: number }): void {
    const hub = this.#hub();
    const { run } = job;
    const now = hub.world.clock.now();
    job.status = "in_progress";
    job.startedAt = now;
    job.runnerId = on.id;
    job.runnerName = on.name;
    job.runnerGroupId = on.groupId;
    const check = hub.world.checkRuns.get(job.id);
    if (check !== undefined) {
      check.status = "in_progress";
      check.startedAt = now;
      checkWritten(hub, check, "update", false, this.#bot());
    }
    tellJob(hub, job, "in_progress");
    this.#startClock(job);
    const attempt = latestAttempt(run);
    if (attempt.status === "in_progress") return;
    attempt.status = "in_progress";
    attempt.updatedAt = now;
    bookRun(hub, run, "started");
    tellInProgress(hub, run);
  }

  /** What a hosted machine, or a simulated standing runner, does with a job: interprets it, or plays its script on timers. */
  async playJob(job: Job, on: { id: number; name: string; groupId: number }): Promise<void> {
    const live = this.#live.get(job);
    if (live === undefined || job.status !== "queued") return;
    this.startJob(job, on);
    const [setUp] = job.steps;
    if (setUp !== undefined) endStep(this.#hub(), setUp, "success");
    if (live.interpreted === null) await this.#playScript(job, live);
    else await this.#playInterpreted(job, live, live.interpreted);
  }

  async #playInterpreted(job: Job, live: Live, interpreted: InterpretedJob): Promise<void> {
    const other = job.labels.find((label) => /^(macos|windows)-/i.test(label));
    if (other !== undefined) {
      const message = `There is no ${other} in the local world: a Linux machine stands in for it.`;
      this.#hub()
        .world.checkRuns.get(job.id)
        ?.annotations.push(newAnnotation({ level: "warning", message }));
    }
    try {
      const conclusion = await this.#hosted.run({
        id: job.id,
        facts: interpreted.facts(),
        ask: (ask) => Promise.resolve(this.serve(job, ask)),
        next: (ask) => interpreted.next(ask),
        cancelled: live.cancel.signal,
        killed: live.kill.signal,
      });
      if (!this.#closed) this.completeJob(job, conclusion);
    } catch (problem) {
      const message = `The hosted machine broke down: ${String(problem)}`;
      this.completeJob(job, "failure", [{ level: "failure", message }]);
      throw problem;
    }
  }

  async #playScript(job: Job, live: Live): Promise<void> {
    const hub = this.#hub();
    const cancelled = new Promise<"cancelled">((resolve) => {
      live.cancel.signal.addEventListener("abort", () => resolve("cancelled"), { once: true });
    });
    let failed = false;
    for (const [index, planned] of live.plan.steps.entries()) {
      const step = job.steps[index + 1];
      if (step === undefined) break;
      if ((failed || job.cancelRequested) && planned.always !== true) {
        endStep(hub, step, job.cancelRequested ? "cancelled" : "skipped");
        continue;
      }
      step.status = "in_progress";
      step.startedAt = hub.world.clock.now();
      const work =
        planned.perform === undefined
          ? hub.timers.wait(planned.durationMs ?? 0).then(() => planned.conclusion ?? "success")
          : planned.perform(this.#view(job)).catch(() => "failure" as const);
      const outcome = live.cancel.signal.aborted ? "cancelled" : await Promise.race([work, cancelled]);
      endStep(hub, step, outcome);
      failed ||= outcome === "failure";
    }
    this.completeJob(job, job.cancelRequested ? "cancelled" : failed ? "failure" : "success");
  }

  /** Ends a job once; later calls do nothing. */
  completeJob(job: Job, conclusion: Conclusion, annotations: readonly AnnotationPlan[] = []): void {
    if (job.status === "completed") return;
    const hub = this.#hub();
    const now = hub.world.clock.now();
    const live = this.#live.get(job);
    const plan = live?.plan;
    live?.stopClock();
    live?.kill.abort();
    this.#live.delete(job);
    job.forgiven = live?.interpreted?.planned.plan.continueOnError ?? false;
    const token = live?.interpreted?.token;
    if (token !== undefined) hub.credentials.revokeToken(token);
    hub.identity.revoke(job);
    hub.desk.released(job);
    if (conclusion === "success") for (const artifact of plan?.artifacts ?? []) newArtifact(hub, job.run, artifact);
    job.status = "completed";
    job.conclusion = conclusion;
    job.completedAt = now;
    endSteps(hub, job, conclusion);
    const check = hub.world.checkRuns.get(job.id);
    if (check !== undefined) {
      const planned = conclusion === "success" || conclusion === "failure" ? (plan?.annotations ?? []) : [];
      check.annotations.push(...[...planned, ...annotations].map(newAnnotation));
      check.status = "completed";
      check.conclusion = conclusion;
      check.completedAt = now;
      checkWritten(hub, check, "update", false, this.#bot());
    }
    tellJob(hub, job, "completed");
    const attempt = job.run.attempts.find((one) => one.number === job.attempt);
    if (attempt === undefined) return;
    if (live !== undefined && live.key !== null) this.#handOn(attempt, live.key, job, live.interpreted);
    this.#passOn(job);
    this.#advance(job.run, attempt);
  }

  /** What the other jobs of an interpreted run hear of one that has ended. */
  #handOn(attempt: RunAttempt, key: string, job: Job, interpreted: InterpretedJob | null): void {
    const run = this.#plans.get(attempt);
    if (!(run instanceof InterpretedRun)) return;
    const { conclusion } = job;
    const told = conclusion === "success" || conclusion === "skipped" || conclusion === "cancelled";
    run.ended(key, { conclusion: told ? conclusion : "failure", outputs: interpreted?.outputs ?? {} });
    if (told || job.forgiven) return;
    const doomed = run.failsWith(key);
    for (const [other, live] of this.#live) {
      if (live.key !== null && doomed.includes(live.key) && attempt.jobs.includes(other)) this.#cancelJob(other);
    }
  }

  /** A job's own time limit: it ends as cancelled, as GitHub ends it. */
  #startClock(job: Job): void {
    const hub = this.#hub();
    const live = this.#live.get(job);
    const minutes = live?.interpreted?.planned.plan.timeoutMinutes;
    if (live === undefined || minutes === undefined) return;
    live.stopClock = hub.timers.after(minutes * 60_000, () => {
      const message = `The job has exceeded the maximum execution time of ${minutes} minutes.`;
      hub.world.checkRuns.get(job.id)?.annotations.push(newAnnotation({ level: "failure", message }));
      this.#cancelJob(job);
      hub.timers.after(hub.timing.cancelHardMs, () => this.completeJob(job, "cancelled"));
    });
  }

  #beginSoon(run: WorkflowRun, attempt: RunAttempt): void {
    const hub = this.#hub();
    hub.timers.after(hub.timing.hostedStartMs, () => this.#begin(run, attempt));
  }

  #begin(run: WorkflowRun, attempt: RunAttempt): void {
    if (attempt.status === "completed") return;
    const script = this.catalog.script(run.workflow.path);
    if (script === undefined) {
      const interpreted = this.catalog.interpreted(run, attempt);
      if (interpreted.ok) {
        this.#enter(run, attempt, interpreted.value);
        return;
      }
      attempt.annotations.push(...interpreted.error.map(newAnnotation));
      this.#finish(run, attempt, "startup_failure");
      return;
    }
    const plan = script.plan(this.catalog.scripted(run, attempt));
    this.#plans.set(attempt, plan);
    if (plan.startupFailure === true) this.#finish(run, attempt, "startup_failure");
    else this.#advance(run, attempt);
  }

  /** An interpreted run begins, or waits for its concurrency group. */
  #enter(run: WorkflowRun, attempt: RunAttempt, plan: RunPlan): void {
    const member = { run, attempt, job: null };
    const entered = plan.concurrency === null ? null : this.#groups.enter(member, plan.concurrency);
    if (entered === null || entered.kind === "begins") {
      this.#plans.set(attempt, new InterpretedRun(plan));
      this.#advance(run, attempt);
      return;
    }
    this.#pending.set(attempt, plan);
    attempt.status = "pending";
    this.#drop(entered.cancel);
  }

  #drop(members: readonly Member[]): void {
    for (const { run, job } of members) {
      if (job === null) this.cancel(run);
      else this.#cancelJob(job);
    }
  }

  /** A group that the run or the job held goes on to who waits for it. */
  #passOn(over: RunAttempt | Job): void {
    const next = this.#groups.leave(over);
    if (next === null) return;
    if (next.job !== null) {
      next.job.status = "queued";
      this.#offer(next.job);
      return;
    }
    const plan = this.#pending.get(next.attempt);
    if (plan === undefined) return;
    this.#pending.delete(next.attempt);
    next.attempt.status = "queued";
    this.#plans.set(next.attempt, new InterpretedRun(plan));
    this.#advance(next.run, next.attempt);
  }

  /** Queues what can go, and ends the attempt when nothing is left. */
  #advance(run: WorkflowRun, attempt: RunAttempt): void {
    if (attempt.status === "completed") return;
    const plan = this.#plans.get(attempt);
    const cancelled = run.cancelRequestedAt !== null;
    const waiting =
      plan instanceof InterpretedRun
        ? this.#advanceInterpreted(run, attempt, plan, cancelled)
        : this.#advanceScript(run, attempt, plan, cancelled);
    if (attempt.jobs.some((job) => job.status !== "completed")) return;
    if (!waiting && (plan !== undefined || cancelled)) this.#finish(run, attempt);
  }

  /** True while jobs wait for others. */
  #advanceInterpreted(run: WorkflowRun, attempt: RunAttempt, plan: InterpretedRun, cancelled: boolean): boolean {
    for (let move = plan.next(cancelled); move !== null; move = plan.next(cancelled))
      this.#queueInterpreted(run, attempt, plan, move);
    return !plan.allBegun;
  }

  #queueInterpreted(run: WorkflowRun, attempt: RunAttempt, plan: InterpretedRun, move: Move): void {
    const { job: planned } = move;
    const named: JobPlan = {
      name: move.kind === "start" ? move.name : planned.plan.name.source,
      runsOn: move.kind === "start" ? move.labels : planned.plan.runsOn.map((label) => label.source),
      steps: stepNames(planned).map((name) => ({ name })),
    };
    const job = newJob(this.#hub(), run, attempt, named);
    const broken = (message: string): void =>
      this.#queueJob(attempt, job, { plan: named, key: planned.key, interpreted: null }, "failure", [
        { level: "failure", message },
      ]);
    if (move.kind === "skip")
      return this.#queueJob(attempt, job, { plan: named, key: planned.key, interpreted: null }, "skipped");
    if (move.kind === "broken") return broken(move.message);
    const refused = environmentProblem(run, move.environment);
    if (refused !== null) return broken(refused);
    const { environment, concurrency } = move;
    const interpreted = new InterpretedJob(this.#hub(), job, planned, plan.plan, plan.results, environment);
    this.#queueJob(attempt, job, { plan: named, key: planned.key, interpreted }, null, [], concurrency);
  }

  #advanceScript(run: WorkflowRun, attempt: RunAttempt, plan: WorkflowPlan | undefined, cancelled: boolean): boolean {
    let waiting = false;
    for (const planned of plan?.jobs ?? []) {
      if (attempt.jobs.some((job) => job.name === planned.name)) continue;
      const needs = (planned.needs ?? []).map((name) => attempt.jobs.find((job) => job.name === name));
      if (needs.some((job) => job === undefined || job.status !== "completed")) {
        waiting ||= !cancelled || planned.always === true;
        continue;
      }
      if (cancelled && planned.always !== true) continue;
      const met = needs.every((job) => job?.conclusion === "success");
      const skipped = planned.skip === true || !(met || planned.always === true);
      const job = newJob(this.#hub(), run, attempt, planned);
      this.#queueJob(attempt, job, { plan: planned, key: null, interpreted: null }, skipped ? "skipped" : null);
    }
    return waiting;
  }

  /** A job joins its run. One that is over before it began, skipped or broken, is ended at once. */
  #queueJob(
    attempt: RunAttempt,
    job: Job,
    live: Pick<Live, "plan" | "key" | "interpreted">,
    over: "skipped" | "failure" | null,
    annotations: readonly AnnotationPlan[] = [],
    group: Group | null = null,
  ): void {
    const hub = this.#hub();
    attempt.jobs.push(job);
    hub.world.jobs.set(job.id, job);
    const suite = hub.world.suites.get(job.run.suiteId);
    if (suite !== undefined) {
      const check = newCheckRun(hub, suite, { id: job.id, name: job.name });
      checkWritten(hub, check, "create", false, this.#bot());
    }
    this.#live.set(job, { ...live, cancel: new AbortController(), kill: new AbortController(), stopClock: () => {} });
    if (over !== null) {
      job.steps.length = 0;
      this.completeJob(job, over, annotations);
      return;
    }
    tellJob(hub, job, "queued");
    if (group === null) return this.#offer(job);
    const entered = this.#groups.enter({ run: job.run, attempt, job }, group);
    if (entered.kind === "begins") return this.#offer(job);
    job.status = "pending";
    this.#drop(entered.cancel);
    const message = `Canceling since a deadlock was detected for concurrency group '${group.group}': this run holds it.`;
    if (entered.kind === "deadlock") this.completeJob(job, "cancelled", [{ level: "failure", message }]);
  }

  /** A job waits for its machine. */
  #offer(job: Job): void {
    const hub = this.#hub();
    if (job.selfHosted) {
      hub.desk.offer(job);
      return;
    }
    hub.timers.after(hub.timing.hostedStartMs, () => {
      void this.playJob(job, {
        id: hub.world.nextId("hosted runner", 1000),
        name: `GitHub Actions ${job.id % 1000}`,
        groupId: 0,
      }).catch((problem: unknown) => hub.books.problems.push(String(problem)));
    });
  }

  #cancelJob(job: Job): void {
    if (job.status === "completed") return;
    const onRunner = job.status === "in_progress";
    job.cancelRequested = true;
    this.#live.get(job)?.cancel.abort();
    if (!onRunner) this.completeJob(job, "cancelled");
  }

  #finish(run: WorkflowRun, attempt: RunAttempt, forced?: Conclusion): void {
    if (attempt.status === "completed") return;
    const hub = this.#hub();
    attempt.status = "completed";
    attempt.conclusion = forced ?? conclude(attempt, run.cancelRequestedAt !== null);
    attempt.updatedAt = hub.world.clock.now();
    this.#plans.delete(attempt);
    this.#pending.delete(attempt);
    bookRun(hub, run, "completed");
    tellRun(hub, run, "completed");
    this.#passOn(attempt);
  }

  #view(job: Job): HostedJobView {
    const hub = this.#hub();
    return {
      runId: job.run.id,
      attempt: job.attempt,
      jobId: job.id,
      cancelled: () => job.cancelRequested,
      annotate: (plan) => void hub.world.checkRuns.get(job.id)?.annotations.push(newAnnotation(plan)),
      upload: (artifact) => newArtifact(hub, job.run, artifact),
    };
  }

  #addAttempt(run: WorkflowRun, triggeringActor: Account): RunAttempt {
    const now = this.#hub().world.clock.now();
    const number = run.attempts.length + 1;
    const attempt: RunAttempt = {
      number,
      triggeringActor,
      startedAt: now,
      jobs: [],
      status: "queued",
      conclusion: null,
      updatedAt: now,
      annotations: [],
    };
    run.attempts.push(attempt);
    return attempt;
  }

  #bot(): Account {
    return this.#hub().world.ensureAccount("github-actions[bot]", "Bot", 41_898_282);
  }
}

/** Why a run may not enter an environment; null when it may. */
function environmentProblem(run: WorkflowRun, name: string | null): string | null {
  const environment = name === null ? undefined : run.repository.environments.get(name.toLowerCase());
  if (environment === undefined || environment.branches === null) return null;
  const branch = run.ref.replace(/^refs\/heads\//, "");
  if (environment.branches.includes(branch)) return null;
  return `Branch "${branch}" is not allowed to deploy to ${environment.name} due to environment protection rules.`;
}
