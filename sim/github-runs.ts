/** Workflow runs and their jobs at the virtual GitHub: what starts, ends, cancels and runs them again. */
import {
  ACTIONS_APP_ID,
  APP_SLUG,
  CI,
  PREPARE,
  EXECUTE,
  LANE,
  type User,
  type Run,
  type Job,
  type Repository,
} from "./github-model.ts";
import { checkJson, jobJson, runJson } from "./github-json.ts";

const GPU_STEPS = ["Check the machine", "Download the archives", "Run GPU tests", "Report"];

/** A maintainer dispatches one of the workflows that ask the Worker for something, or GitHub starts one by its schedule. */
export function ownRun(
  repository: Repository,
  path: string,
  title: string,
  by: User,
  event = "workflow_dispatch",
): Run {
  const job = newJob(repository, "ask", ["ubuntu-latest"], ["Ask the gate"], repository.mainSha);
  const run = newRun(repository, path, event, title, repository.mainSha, "main", by, {}, [job]);
  run.status = "in_progress";
  tellRun(repository, run, "in_progress");
  return run;
}

/** The job that asked is done. */
export function endOwnRun(repository: Repository, run: Run, conclusion: "success" | "failure"): void {
  for (const job of run.jobs.at(-1) ?? []) finishJob(repository, run, job, conclusion);
  finishRun(repository, run, conclusion);
}

/** The workflow of the maintainers' own lane starts: its probe asks on a hosted machine. */
export function laneRun(
  repository: Repository,
  sha: string,
  branch: string,
  by: User,
  event: string,
  headRepositoryId: string | null,
): Run {
  const job = newJob(repository, "Probe", ["ubuntu-latest"], ["Probe"], sha);
  const run = newRun(repository, LANE, event, "Lane gpu-full", sha, branch, by, {}, [job], headRepositoryId);
  run.status = "in_progress";
  return run;
}

/** The job on the maintainers' machine, which its probe has let through. */
export function hardwareJob(repository: Repository, run: Run): Job {
  const job = newJob(repository, "Coverage GPU", ["self-hosted"], ["Your tests"], run.headSha);
  run.jobs.at(-1)?.push(job);
  return job;
}

/** CI starts by itself: the trigger run and the light checks. */
export function startCi(
  repository: Repository,
  sha: string,
  branch: string,
  by: User,
  event: "pull_request" | "merge_group",
  headRepositoryId: string | null = repository.id,
): void {
  const { faults, scheduler, rng } = repository.around;
  if (faults.strikes("trigger-never", 0.1)) return;
  const delay = faults.strikes("trigger-late", 0.2) ? rng.int(300_000, 1_200_000) : rng.int(2_000, 20_000);
  scheduler.in(delay, "ci starts", () => {
    const jobs = ["rustfmt", "clippy"].map((name) => newJob(repository, name, [], [`Run ${name}`], sha));
    const run = newRun(repository, CI, event, "CI", sha, branch, by, {}, jobs, headRepositoryId);
    run.status = "in_progress";
    tellRun(repository, run, "in_progress");
    repository.onCi?.({ sha, branch, by, event });
    const took = rng.int(10_000, 120_000);
    scheduler.in(took, "ci ends", () => {
      const bad = faults.strikes("pre-gate-fails", 0.2);
      for (const job of run.jobs[0] ?? []) {
        finishJob(repository, run, job, bad && job.name === "clippy" ? "failure" : "success");
      }
      finishRun(repository, run, bad ? "failure" : "success");
    });
  });
}

/** The App dispatches one of its two workflows. */
export function dispatchRun(repository: Repository, path: string, inputs: Readonly<Record<string, string>>): Run {
  lookAlike(repository, path, inputs);
  const { faults, scheduler, rng } = repository.around;
  const app: User = { id: "5000", login: `${APP_SLUG}[bot]`, role: "none" };
  if (path === PREPARE) {
    const job = newJob(
      repository,
      "Archives and host tests",
      ["ubuntu-latest"],
      ["Build the archives"],
      repository.mainSha,
    );
    const title = `gpu-gate prepare ${inputs["request"] ?? ""}`;
    const run = newRun(repository, path, "workflow_dispatch", title, repository.mainSha, "main", app, inputs, [job]);
    const took = faults.strikes("prepare-slow", 0.2) ? rng.int(1_200_000, 6_000_000) : rng.lasting(20_000, 600_000);
    const started = rng.int(1_000, 15_000);
    scheduler.in(started, "prepare starts", () => {
      if (run.status !== "queued") return;
      run.status = "in_progress";
      job.status = "in_progress";
      job.startedAt = repository.now;
      tellRun(repository, run, "in_progress");
    });
    scheduler.in(started + took, "prepare ends", () => {
      if (run.status === "completed" || run.cancelAsked) return;
      if (faults.strikes("prepare-startup-failure", 0.1)) return finishRun(repository, run, "startup_failure");
      const bad = faults.strikes("prepare-fails", 0.1);
      finishJob(repository, run, job, bad ? "failure" : "success");
      if (!bad && !faults.strikes("prepare-no-artifacts", 0.3)) {
        run.artifacts = preparedArtifacts(repository);
      }
      finishRun(repository, run, bad ? "failure" : "success");
    });
    if (faults.strikes("artifacts-expire", 0.3)) {
      scheduler.in(started + took + rng.int(0, 60_000), "artifacts expire", () => {
        for (const artifact of run.artifacts) artifact.expired = true;
      });
    }
    mayVanish(repository, run);
    return run;
  }
  const title = `gpu-gate execute ${inputs["request"] ?? ""} ${inputs["attempt"] ?? ""}`;
  const job = newJob(
    repository,
    "GPU tests",
    ["self-hosted", inputs["label"] ?? "none"],
    GPU_STEPS,
    repository.mainSha,
  );
  const run = newRun(repository, path, "workflow_dispatch", title, repository.mainSha, "main", app, inputs, [job]);
  mayVanish(repository, run);
  if (faults.strikes("job-stranger", 0.2)) strangerTakes(repository, run, job);
  return run;
}

/**
 * Request ids are public: somebody who may write starts a workflow of their own under the name of ours, at a branch of theirs or
 * the very file on the default branch; or a stranger's pull request has a file of that path. All of it ends well, at once.
 */
function lookAlike(repository: Repository, path: string, { request, attempt }: Readonly<Record<string, string>>): void {
  const { faults, scheduler } = repository.around;
  if (!faults.strikes("look-alike-run", 0.5)) return;
  const stream = faults.stream("look-alike-run");
  const how = stream.pick(["the same file", "a branch", "a fork"] as const);
  const [, , writer, stranger] = repository.users;
  const by = how === "a fork" ? stranger : writer;
  const took = stream.int(1_000, 20_000);
  // It may be there before ours is.
  scheduler.in(stream.chance(0.4) ? 0 : stream.int(100, 30_000), "a run under our name", () => {
    if (by === undefined) return;
    const title =
      path === PREPARE ? `gpu-gate prepare ${request ?? ""}` : `gpu-gate execute ${request ?? ""} ${attempt ?? ""}`;
    const job = newJob(repository, "GPU tests", ["ubuntu-latest"], GPU_STEPS, repository.mainSha);
    const branch = how === "the same file" ? "main" : "theirs";
    const event = how === "a fork" ? "pull_request" : "workflow_dispatch";
    const from = how === "a fork" ? "999" : repository.id;
    const run = newRun(repository, path, event, title, repository.mainSha, branch, by, {}, [job], from, true);
    run.status = "in_progress";
    tellRun(repository, run, "in_progress");
    scheduler.in(took, "a run under our name ends", () => {
      finishJob(repository, run, job, "success");
      if (path === PREPARE) run.artifacts = preparedArtifacts(repository);
      finishRun(repository, run, "success");
    });
  });
}

function preparedArtifacts(repository: Repository): Run["artifacts"] {
  return ["part00", "part01", "part02", "part03", "part04", "manifest"].map((part) => ({
    id: repository.nextId(),
    name: `gpu-gate-archives-${part}`,
    expired: false,
  }));
}

function mayVanish(repository: Repository, run: Run): void {
  if (!repository.around.faults.strikes("run-vanishes", 0.05)) return;
  repository.around.scheduler.in(repository.around.rng.int(5_000, 900_000), "run vanishes", () => {
    run.gone = true;
    run.status = "completed";
    repository.around.trace.note(`run ${run.id} is deleted`);
  });
}

/** Somebody else's runner with the same label is given the job. */
function strangerTakes(repository: Repository, run: Run, job: Job): void {
  repository.around.scheduler.in(repository.around.rng.int(20_000, 300_000), "stranger takes the job", () => {
    if (job.status !== "queued" || run.cancelAsked) return;
    job.status = "in_progress";
    job.runnerId = "31337";
    job.startedAt = repository.now;
    run.status = "in_progress";
    tellJob(repository, run, job, "in_progress");
  });
}

/** Somebody's clean-up removes a run's artifacts, right behind whoever has just seen them. */
export function cleanUp(repository: Repository, run: Run): void {
  const { faults, scheduler } = repository.around;
  if (run.path !== PREPARE || run.artifacts.length === 0 || !faults.strikes("artifacts-cleaned", 0.3)) return;
  scheduler.in(faults.stream("artifacts-cleaned").int(5, 400), "artifacts are cleaned up", () => {
    repository.around.trace.note(`the artifacts of run ${run.id} are cleaned up`);
    for (const artifact of run.artifacts) artifact.expired = true;
  });
}

function newRun(
  repository: Repository,
  path: string,
  event: string,
  title: string,
  headSha: string,
  headBranch: string,
  actor: User,
  inputs: Readonly<Record<string, string>>,
  jobs: Job[],
  headRepositoryId = repository.id as string | null,
  ofSomebodyElse = false,
): Run {
  const run: Run = {
    id: repository.nextId(),
    path,
    event,
    title,
    headSha,
    headBranch,
    actor,
    triggering: actor,
    inputs,
    createdAt: repository.now,
    headRepositoryId,
    listedFrom: repository.around.faults.strikes("github-list-lag", 0.4)
      ? repository.now + repository.around.rng.int(2_000, 60_000)
      : repository.now,
    attempt: 1,
    status: "queued",
    conclusion: null,
    updatedAt: repository.now,
    cancelAsked: false,
    gone: false,
    lookAlike: ofSomebodyElse,
    jobs: [jobs],
    artifacts: [],
  };
  repository.runs.set(run.id, run);
  repository.around.trace.note(`run ${run.id} '${title}' queued`);
  tellRun(repository, run, "requested");
  return run;
}

export function newJob(
  repository: Repository,
  name: string,
  labels: readonly string[],
  steps: readonly string[],
  headSha: string,
): Job {
  const checkRunId = repository.nextId();
  repository.checks.set(checkRunId, {
    id: checkRunId,
    appId: ACTIONS_APP_ID,
    name,
    headSha,
    externalId: null,
    status: "in_progress",
    conclusion: null,
    startedAt: repository.now,
    completedAt: null,
    title: "",
    summary: "",
    text: "",
  });
  const job: Job = {
    id: repository.nextId(),
    name,
    labels,
    status: "queued",
    conclusion: null,
    runnerId: null,
    startedAt: null,
    completedAt: null,
    steps: steps.map((step) => ({ name: step, status: "queued", conclusion: null })),
    checkRunId,
    annotations: [],
  };
  repository.jobs.set(job.id, job);
  return job;
}

/** 202 or 409. Cancelling takes a while (up to five minutes). */
export function cancelRun(repository: Repository, run: Run, byUser: boolean): boolean {
  if (run.status === "completed") return false;
  if (run.cancelAsked) return true;
  run.cancelAsked = true;
  const { faults, rng, scheduler } = repository.around;
  const attempt = run.attempt;
  const took = faults.strikes("run-cancel-slow", 0.3) ? rng.int(60_000, 300_000) : rng.int(1_000, 8_000);
  repository.around.trace.note(`run ${run.id} is being cancelled${byUser ? " by a user" : ""}`);
  scheduler.in(took, "cancelled", () => {
    if (run.status === "completed" || run.attempt !== attempt) return;
    for (const job of run.jobs[attempt - 1] ?? []) {
      const runner = job.runnerId === null ? undefined : repository.runners.get(job.runnerId);
      finishJob(repository, run, job, "cancelled");
      if (runner !== undefined) repository.removeRunner(runner, "cancelled");
    }
    finishRun(repository, run, "cancelled");
  });
  return true;
}

/** A user's re-run in the Actions tab: the next attempt of a completed run. */
export function runAgain(repository: Repository, run: Run, by: User): void {
  if (run.status !== "completed" || run.gone) return;
  run.attempt += 1;
  run.triggering = by;
  run.status = "queued";
  run.conclusion = null;
  run.cancelAsked = false;
  run.updatedAt = repository.now;
  const last = run.jobs.at(-1) ?? [];
  run.jobs.push(
    last.map((job) =>
      newJob(
        repository,
        job.name,
        job.labels,
        job.steps.map((step) => step.name),
        run.headSha,
      ),
    ),
  );
  repository.around.trace.note(`run ${run.id} attempt ${run.attempt} by ${by.login}`);
  for (const pull of repository.pulls.values()) pull.actors.add(by.login);
  if (run.path !== CI) repository.askAgain(run.inputs["tested_sha"] ?? "");
  tellRun(repository, run, "requested");
  if (run.path === EXECUTE || repository.onAttempt?.(run) === true) return;
  const attempt = run.attempt;
  repository.around.scheduler.in(20_000, "re-run ends", () => {
    if (run.attempt !== attempt) return;
    for (const job of run.jobs[attempt - 1] ?? []) finishJob(repository, run, job, "success");
    finishRun(repository, run, "success");
  });
}

export function finishJob(repository: Repository, run: Run, job: Job, conclusion: string): void {
  if (job.status === "completed") return;
  job.status = "completed";
  job.conclusion = conclusion;
  job.startedAt ??= repository.now;
  job.completedAt = repository.now;
  run.updatedAt = repository.now;
  const check = repository.checks.get(job.checkRunId);
  if (check !== undefined) {
    check.status = "completed";
    check.conclusion = conclusion;
    check.completedAt = repository.now;
  }
  tellJob(repository, run, job, "completed");
  if (run.path === CI && check !== undefined) {
    repository.tell("check_run", "completed", run.actor, { check_run: checkJson(check) });
  }
}

export function finishRun(repository: Repository, run: Run, conclusion: string): void {
  if (run.status === "completed") return;
  run.status = "completed";
  run.conclusion = conclusion;
  run.updatedAt = repository.now;
  repository.around.trace.note(`run ${run.id} completed: ${conclusion}`);
  tellRun(repository, run, "completed");
  repository.onRunEnd?.(run);
}

export function tellRun(repository: Repository, run: Run, action: "requested" | "in_progress" | "completed"): void {
  if (run.gone) return;
  repository.tell("workflow_run", action, run.triggering, { workflow_run: runJson(repository, run) });
}

export function tellJob(
  repository: Repository,
  run: Run,
  job: Job,
  action: "queued" | "in_progress" | "completed",
): void {
  if (run.gone) return;
  repository.tell("workflow_job", action, run.triggering, { workflow_job: jobJson(repository, run, job, run.attempt) });
}
