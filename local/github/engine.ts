/**
 * Workflow runs: made, started, moved from job to job, cancelled slowly, re-run, concluded.
 *
 * Hosted jobs play their script on timers. Jobs for self-hosted labels are handed to the runner desk and stay queued until
 * a runner with all their labels takes them.
 */

import { checkWritten, createSuite, newCheckRun } from "./checks.ts";
import type { Hub } from "./hub.ts";
import { conclude, endStep, endSteps, newAnnotation, newArtifact, newJob } from "./jobs.ts";
import type { Links } from "./links.ts";
import type { Account, Conclusion, Job, Repository, RunAttempt, Workflow, WorkflowRun } from "./model.ts";
import { actionsAppId, fullName, latestAttempt } from "./model.ts";
import { bookRun, tellInProgress, tellJob, tellRun } from "./run-news.ts";
import type {
  AnnotationPlan,
  HostedJobView,
  JobPlan,
  RunContext,
  WorkflowPlan,
  WorkflowScript,
} from "./workflow-script.ts";

export interface RunRequest {
  readonly repository: Repository;
  readonly headRepository: Repository;
  readonly path: string;
  readonly event: string;
  readonly headBranch: string;
  readonly headSha: string;
  readonly sha: string;
  readonly ref: string;
  readonly actor: Account;
  readonly inputs?: Readonly<Record<string, string>>;
  readonly pullNumber?: number;
}

/** A job while it is under way: its plan, and the way to end it early. */
interface Live {
  readonly plan: JobPlan;
  cancel: () => void;
  readonly cancelled: Promise<void>;
}

export class Engine {
  readonly #hub: () => Hub;
  readonly #scripts = new Map<string, WorkflowScript>();
  readonly #plans = new Map<RunAttempt, WorkflowPlan>();
  readonly #live = new Map<Job, Live>();
  /** Download addresses of logs and artifacts. */
  readonly links: Links;

  constructor(hub: () => Hub, links: Links) {
    this.#hub = hub;
    this.links = links;
  }

  setScript(path: string, script: WorkflowScript): void {
    this.#scripts.set(path, script);
  }

  script(path: string): WorkflowScript | undefined {
    return this.#scripts.get(path);
  }

  workflowName(path: string): string {
    return this.#scripts.get(path)?.name ?? path;
  }

  /** The workflows GitHub knows of a repository: the files on its default branch, and those seen before. */
  workflows(repository: Repository): Workflow[] {
    const main = repository.refs.get(`refs/heads/${repository.defaultBranch}`);
    const files = main === undefined ? {} : repository.git.filesAt(main);
    for (const path of Object.keys(files)) {
      if (/^\.github\/workflows\/[^/]+\.ya?ml$/.test(path)) this.#workflow(repository, path);
    }
    return [...repository.workflows.values()];
  }

  /** Starts every `event` workflow whose file is in the tree of `request.sha`. */
  trigger(request: Omit<RunRequest, "path">): WorkflowRun[] {
    const files = request.repository.git.filesAt(request.sha);
    return [...this.#scripts]
      .filter(([path, script]) => script.on.includes(request.event) && files[path] !== undefined)
      .filter(([path]) => this.#workflow(request.repository, path).state === "active")
      .map(([path]) => this.create({ ...request, path }));
  }

  create(request: RunRequest): WorkflowRun {
    const hub = this.#hub();
    const { world } = hub;
    const workflow = this.#workflow(request.repository, request.path);
    const script = this.#scripts.get(request.path);
    const now = world.clock.now();
    const suite = createSuite(hub, request.repository, {
      appId: actionsAppId,
      headSha: request.headSha,
      headBranch: request.headRepository.id === request.repository.id ? request.headBranch : null,
      before: null,
    });
    const inputs = request.inputs ?? {};
    const title =
      script?.runName?.({
        ...this.#facts(request.repository, request.actor),
        event: request.event,
        inputs,
        headSha: request.headSha,
        sha: request.sha,
        ref: request.ref,
        attempt: 1,
        pullNumber: request.pullNumber ?? null,
      }) ?? this.#defaultTitle(request);
    const run: WorkflowRun = {
      id: world.nextId("run", 19_000_000_000),
      repository: request.repository,
      headRepository: request.headRepository,
      workflow,
      name: this.workflowName(request.path),
      displayTitle: title,
      runNumber: world.nextId(`run number ${request.repository.id} ${request.path}`, 0),
      event: request.event,
      headBranch: request.headBranch,
      headSha: request.headSha,
      sha: request.sha,
      ref: request.ref,
      actor: request.actor,
      inputs,
      pullNumber: request.pullNumber ?? null,
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
    const attempt = latestAttempt(run);
    if (attempt.status === "in_progress") return;
    attempt.status = "in_progress";
    attempt.updatedAt = now;
    bookRun(hub, run, "started");
    tellInProgress(hub, run);
  }

  /** Plays a job's script on timers: what a hosted machine, or a simulated standing runner, does. */
  async playJob(job: Job, on: { id: number; name: string; groupId: number }): Promise<void> {
    const hub = this.#hub();
    const live = this.#live.get(job);
    if (live === undefined || job.status !== "queued") return;
    this.startJob(job, on);
    const [setUp] = job.steps;
    if (setUp !== undefined) endStep(hub, setUp, "success");
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
      const outcome = await Promise.race([work, live.cancelled.then(() => "cancelled" as const)]);
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
    const plan = this.#live.get(job)?.plan;
    this.#live.get(job)?.cancel();
    this.#live.delete(job);
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
    if (attempt !== undefined) this.#advance(job.run, attempt);
  }

  #beginSoon(run: WorkflowRun, attempt: RunAttempt): void {
    const hub = this.#hub();
    hub.timers.after(hub.timing.hostedStartMs, () => this.#begin(run, attempt));
  }

  #begin(run: WorkflowRun, attempt: RunAttempt): void {
    if (attempt.status === "completed") return;
    const script = this.#scripts.get(run.workflow.path);
    const files = run.repository.git.filesAt(run.sha);
    const plan: WorkflowPlan = script?.plan({
      ...this.#facts(run.repository, run.actor),
      runId: run.id,
      attempt: attempt.number,
      event: run.event,
      inputs: run.inputs,
      files,
      headSha: run.headSha,
      sha: run.sha,
      ref: run.ref,
      pullNumber: run.pullNumber,
    }) ?? { jobs: [], startupFailure: true };
    this.#plans.set(attempt, plan);
    if (plan.startupFailure === true) {
      this.#finish(run, attempt, "startup_failure");
      return;
    }
    this.#advance(run, attempt);
  }

  /** Queues what can go, and ends the attempt when nothing is left. */
  #advance(run: WorkflowRun, attempt: RunAttempt): void {
    if (attempt.status === "completed") return;
    const plan = this.#plans.get(attempt);
    const cancelled = run.cancelRequestedAt !== null;
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
      this.#queueJob(run, attempt, planned, planned.skip === true || !(met || planned.always === true));
    }
    if (attempt.jobs.some((job) => job.status !== "completed")) return;
    if (!waiting && (plan !== undefined || cancelled)) this.#finish(run, attempt);
  }

  #queueJob(run: WorkflowRun, attempt: RunAttempt, plan: JobPlan, skipped: boolean): void {
    const hub = this.#hub();
    const job = newJob(hub, run, attempt, plan);
    attempt.jobs.push(job);
    hub.world.jobs.set(job.id, job);
    const suite = hub.world.suites.get(run.suiteId);
    if (suite !== undefined) {
      const check = newCheckRun(hub, suite, { id: job.id, name: job.name });
      checkWritten(hub, check, "create", false, this.#bot());
    }
    let cancel = (): void => {};
    const cancelled = new Promise<void>((resolve) => {
      cancel = resolve;
    });
    this.#live.set(job, { plan, cancel, cancelled });
    if (skipped) {
      job.steps.length = 0;
      this.completeJob(job, "skipped");
      return;
    }
    tellJob(hub, job, "queued");
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
    this.#live.get(job)?.cancel();
    if (!onRunner) this.completeJob(job, "cancelled");
  }

  #finish(run: WorkflowRun, attempt: RunAttempt, forced?: Conclusion): void {
    if (attempt.status === "completed") return;
    const hub = this.#hub();
    attempt.status = "completed";
    attempt.conclusion = forced ?? conclude(attempt, run.cancelRequestedAt !== null);
    attempt.updatedAt = hub.world.clock.now();
    this.#plans.delete(attempt);
    bookRun(hub, run, "completed");
    tellRun(hub, run, "completed");
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

  #workflow(repository: Repository, path: string): Workflow {
    const known = repository.workflows.get(path);
    if (known !== undefined) return known;
    const { world } = this.#hub();
    const made: Workflow = {
      id: world.nextId("workflow", 160_000_000),
      path,
      state: "active",
      createdAt: world.clock.now(),
    };
    repository.workflows.set(path, made);
    return made;
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
    };
    run.attempts.push(attempt);
    return attempt;
  }

  #facts(repository: Repository, actor: Account): Pick<RunContext, "repositoryId" | "repository" | "actor"> {
    return { repositoryId: repository.id, repository: fullName(repository), actor: actor.login };
  }

  #defaultTitle(request: RunRequest): string {
    if (request.event === "workflow_dispatch") return this.workflowName(request.path);
    return request.headRepository.git.findCommit(request.headSha)?.message.split("\n")[0] ?? request.headSha;
  }

  #bot(): Account {
    return this.#hub().world.ensureAccount("github-actions[bot]", "Bot", 41_898_282);
  }
}
