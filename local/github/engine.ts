/**
 * Workflow runs: made, started, moved from job to job, cancelled slowly, re-run, concluded.
 *
 * Hosted jobs play their script on timers. Jobs for self-hosted labels are handed to the runner desk and stay queued until
 * a runner with all their labels takes them.
 */

import { createHash } from "node:crypto";
import type { RunRecord } from "./books.ts";
import { checkWritten, createSuite, newCheckRun } from "./checks.ts";
import type { Hub } from "./hub.ts";
import type { Links } from "./links.ts";
import type {
  Account,
  Annotation,
  Artifact,
  Conclusion,
  Job,
  Repository,
  RunAttempt,
  Step,
  Workflow,
  WorkflowRun,
} from "./model.ts";
import { actionsAppId, fullName, latestAttempt } from "./model.ts";
import { renderAccount } from "./render-common.ts";
import { renderJob, renderRun, renderWorkflow } from "./render-actions.ts";
import { isSelfHosted } from "./workflow-script.ts";
import type {
  AnnotationPlan,
  ArtifactPlan,
  JobPlan,
  RunContext,
  WorkflowPlan,
  WorkflowScript,
} from "./workflow-script.ts";
import { zip } from "./zip.ts";

const day = 86_400_000;

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
    this.#book(run, "created");
    const fromFork = request.headRepository.id !== request.repository.id;
    if (fromFork && request.repository.approveForkRuns && request.event === "pull_request") {
      attempt.status = "completed";
      attempt.conclusion = "action_required";
      this.#emitRun(run, "requested");
      return run;
    }
    this.#emitRun(run, "requested");
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
    const attempt = this.#addAttempt(run, triggeringActor);
    this.#book(run, "created");
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
    this.#book(run, "cancel-requested");
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
    this.#emitJob(job, "in_progress");
    const attempt = latestAttempt(run);
    if (attempt.status === "in_progress") return;
    attempt.status = "in_progress";
    attempt.updatedAt = now;
    this.#book(run, "started");
    // GitHub tells this three times. The later ones carry what was true at the first.
    const payload = this.#runPayload(run);
    const tell = (): void =>
      void hub.webhooks.emit("workflow_run", "in_progress", run.repository, this.#sender(run), payload);
    tell();
    hub.timers.after(hub.timing.inProgressGapMs, tell);
    hub.timers.after(2 * hub.timing.inProgressGapMs, tell);
  }

  /** Plays a job's script on timers: what a hosted machine, or a simulated standing runner, does. */
  async playJob(job: Job, on: { id: number; name: string; groupId: number }): Promise<void> {
    const hub = this.#hub();
    const live = this.#live.get(job);
    if (live === undefined || job.status !== "queued") return;
    this.startJob(job, on);
    const [setUp] = job.steps;
    if (setUp !== undefined) this.#endStep(setUp, "success");
    let failed = false;
    for (const [index, planned] of live.plan.steps.entries()) {
      const step = job.steps[index + 1];
      if (step === undefined) break;
      if ((failed || job.cancelRequested) && planned.always !== true) {
        this.#endStep(step, job.cancelRequested ? "cancelled" : "skipped");
        continue;
      }
      step.status = "in_progress";
      step.startedAt = hub.world.clock.now();
      const work =
        planned.perform === undefined
          ? hub.timers.wait(planned.durationMs ?? 0).then(() => planned.conclusion ?? "success")
          : planned.perform(this.#view(job)).catch(() => "failure" as const);
      const outcome = await Promise.race([work, live.cancelled.then(() => "cancelled" as const)]);
      this.#endStep(step, outcome);
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
    if (conclusion === "success") for (const artifact of plan?.artifacts ?? []) this.upload(job.run, artifact);
    job.status = "completed";
    job.conclusion = conclusion;
    job.completedAt = now;
    for (const step of job.steps) {
      if (step.status === "completed") continue;
      // "Complete job" is the runner's own clean-up: it works whatever the job did.
      const fine = conclusion === "success" || step.name === "Complete job";
      this.#endStep(step, fine ? "success" : conclusion === "cancelled" ? "cancelled" : "skipped");
    }
    const check = hub.world.checkRuns.get(job.id);
    if (check !== undefined) {
      const planned = conclusion === "success" || conclusion === "failure" ? (plan?.annotations ?? []) : [];
      check.annotations.push(...[...planned, ...annotations].map(annotation));
      check.status = "completed";
      check.conclusion = conclusion;
      check.completedAt = now;
      checkWritten(hub, check, "update", false, this.#bot());
    }
    this.#emitJob(job, "completed");
    const attempt = job.run.attempts.find((one) => one.number === job.attempt);
    if (attempt !== undefined) this.#advance(job.run, attempt);
  }

  upload(run: WorkflowRun, plan: ArtifactPlan): Artifact {
    const { world } = this.#hub();
    const now = world.clock.now();
    const bytes = zip(plan.files ?? { [`${plan.name}.txt`]: `${plan.name} of run ${run.id}\n` });
    const artifact: Artifact = {
      id: world.nextId("artifact", 3_400_000_000),
      name: plan.name,
      runId: run.id,
      zip: bytes,
      digest: `sha256:${createHash("sha256").update(bytes).digest("hex")}`,
      createdAt: now,
      expiresAt: now + (plan.expiresInMs ?? 90 * day),
      deleted: false,
    };
    world.artifacts.set(artifact.id, artifact);
    run.artifacts.push(artifact);
    return artifact;
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
    const labels = plan.runsOn ?? ["ubuntu-latest"];
    const names = ["Set up job", ...plan.steps.map((step) => step.name), "Complete job"];
    const job: Job = {
      id: hub.world.nextId("job", 52_000_000_000),
      run,
      attempt: attempt.number,
      name: plan.name,
      labels,
      selfHosted: isSelfHosted(labels),
      status: "queued",
      conclusion: null,
      createdAt: hub.world.clock.now(),
      startedAt: null,
      completedAt: null,
      steps: names.map((name, index) => ({
        number: index + 1,
        name,
        status: "queued",
        conclusion: null,
        startedAt: null,
        completedAt: null,
      })),
      runnerId: null,
      runnerName: null,
      runnerGroupId: null,
      cancelRequested: false,
      log: "",
    };
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
    this.#emitJob(job, "queued");
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
    attempt.status = "completed";
    attempt.conclusion = forced ?? conclude(attempt, run.cancelRequestedAt !== null);
    attempt.updatedAt = this.#hub().world.clock.now();
    this.#plans.delete(attempt);
    this.#book(run, "completed");
    this.#emitRun(run, "completed");
  }

  #endStep(step: Step, conclusion: Conclusion): void {
    const now = this.#hub().world.clock.now();
    step.status = "completed";
    step.conclusion = conclusion;
    step.startedAt ??= now;
    step.completedAt = now;
  }

  #view(job: Job): Parameters<NonNullable<JobPlan["steps"][number]["perform"]>>[0] {
    return {
      runId: job.run.id,
      attempt: job.attempt,
      jobId: job.id,
      cancelled: () => job.cancelRequested,
      annotate: (plan) => void this.#hub().world.checkRuns.get(job.id)?.annotations.push(annotation(plan)),
      upload: (artifact) => this.upload(job.run, artifact),
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

  #sender(run: WorkflowRun): Record<string, unknown> {
    return renderAccount(this.#hub(), latestAttempt(run).triggeringActor);
  }

  #runPayload(run: WorkflowRun): Record<string, unknown> {
    const hub = this.#hub();
    return { workflow_run: renderRun(hub, run), workflow: renderWorkflow(hub, run.repository, run.workflow) };
  }

  #emitRun(run: WorkflowRun, action: "requested" | "completed"): void {
    this.#hub().webhooks.emit("workflow_run", action, run.repository, this.#sender(run), this.#runPayload(run));
  }

  #emitJob(job: Job, action: "queued" | "in_progress" | "completed"): void {
    const hub = this.#hub();
    hub.books.jobs.push({
      at: hub.world.clock.now(),
      jobId: job.id,
      runId: job.run.id,
      attempt: job.attempt,
      name: job.name,
      what: action,
      conclusion: job.conclusion,
      runnerId: job.runnerId,
      runnerName: job.runnerName,
    });
    hub.webhooks.emit("workflow_job", action, job.run.repository, this.#sender(job.run), {
      workflow_job: renderJob(hub, job),
    });
  }

  #book(run: WorkflowRun, what: RunRecord["what"]): void {
    const hub = this.#hub();
    const attempt = latestAttempt(run);
    hub.books.runs.push({
      at: hub.world.clock.now(),
      runId: run.id,
      attempt: attempt.number,
      repository: fullName(run.repository),
      workflowPath: run.workflow.path,
      event: run.event,
      headSha: run.headSha,
      displayTitle: run.displayTitle,
      actor: attempt.triggeringActor.login,
      what,
      conclusion: attempt.conclusion,
    });
  }
}

function conclude(attempt: RunAttempt, cancelRequested: boolean): Conclusion {
  const all = attempt.jobs.map((job) => job.conclusion);
  if (cancelRequested && (all.length === 0 || all.includes("cancelled"))) return "cancelled";
  if (all.includes("failure") || all.includes("timed_out")) return "failure";
  if (cancelRequested || all.includes("cancelled")) return "cancelled";
  return all.length > 0 && all.every((one) => one === "skipped") ? "skipped" : "success";
}

export function annotation(plan: AnnotationPlan): Annotation {
  return {
    path: plan.path ?? ".github",
    startLine: 1,
    endLine: 1,
    level: plan.level ?? "notice",
    title: plan.title ?? null,
    message: plan.message,
    rawDetails: null,
  };
}
