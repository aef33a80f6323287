/** How the virtual GitHub shows its books: the shapes of its API and webhooks. */
import type { Pull, Run, Job, CheckRun, Repository } from "./github-model.ts";
import type { Millis } from "../shared/ports.ts";

/** A pull request. */
export function pullJson(repository: Repository, pull: Pull): Record<string, unknown> {
  const repo =
    pull.headRepositoryId === null
      ? null
      : { id: Number(pull.headRepositoryId), full_name: `${repository.owner}/${repository.name}` };
  return {
    number: pull.number,
    state: pull.state,
    draft: pull.draft,
    mergeable: !pull.conflict,
    merged: false,
    title: `Change ${pull.number}`,
    labels: [...pull.labels].map((name) => ({ name })),
    user: { id: Number(pull.author.id), login: pull.author.login, type: "User" },
    head: { sha: pull.headSha, ref: pull.headRef, repo },
    base: {
      sha: repository.mainSha,
      ref: pull.baseRef,
      repo: { id: Number(repository.id), full_name: `${repository.owner}/${repository.name}` },
    },
    changed_files: pull.files.length,
  };
}

/** A run as of one of its attempts. */
export function runJson(repository: Repository, run: Run, attempt = run.attempt): Record<string, unknown> {
  const current = attempt === run.attempt;
  return {
    id: Number(run.id),
    run_attempt: attempt,
    status: current ? run.status : "completed",
    conclusion: current ? run.conclusion : (run.jobs[attempt - 1]?.[0]?.conclusion ?? "cancelled"),
    event: run.event,
    path: run.path,
    workflow_id: 1,
    display_title: run.title,
    head_sha: run.headSha,
    head_branch: run.headBranch,
    repository: { id: Number(repository.id), full_name: `${repository.owner}/${repository.name}` },
    head_repository: headRepository(repository, run),
    actor: { id: Number(run.actor.id), login: run.actor.login },
    triggering_actor: { id: Number(run.triggering.id), login: run.triggering.login },
    created_at: iso(run.createdAt),
    updated_at: iso(run.updatedAt),
    run_started_at: iso(run.createdAt),
    html_url: `https://github.test/${repository.owner}/${repository.name}/actions/runs/${run.id}`,
  };
}

function headRepository(repository: Repository, { headRepositoryId = repository.id }: Run): unknown {
  return headRepositoryId === null ? null : { id: Number(headRepositoryId), owner: { login: repository.owner } };
}

/** A job of one attempt. */
export function jobJson(repository: Repository, run: Run, job: Job, attempt: number): Record<string, unknown> {
  return {
    id: Number(job.id),
    run_id: Number(run.id),
    run_attempt: attempt,
    name: job.name,
    status: job.status,
    conclusion: job.conclusion,
    head_sha: run.headSha,
    labels: job.labels,
    runner_id: job.runnerId === null ? null : Number(job.runnerId),
    runner_name: job.runnerId === null ? null : "runner",
    check_run_url: `https://github.test/check-runs/${job.checkRunId}`,
    steps: job.steps.map((step, index) => ({ number: index + 1, ...step, started_at: null, completed_at: null })),
    created_at: iso(run.createdAt),
    started_at: iso(job.startedAt),
    completed_at: iso(job.completedAt),
    html_url: `https://github.test/job/${job.id}`,
  };
}

/** GitHub's times have whole seconds. */
export function iso(instant: Millis | null): string | null {
  return instant === null ? null : new Date(Math.floor(instant / 1000) * 1000).toISOString().replace(".000Z", "Z");
}

/** A check run, as both the API and the webhooks show it. */
export function checkJson(check: CheckRun): Record<string, unknown> {
  return {
    id: Number(check.id),
    name: check.name,
    head_sha: check.headSha,
    status: check.status,
    conclusion: check.conclusion,
    external_id: check.externalId ?? "",
    details_url: null,
    html_url: `https://github.test/checks/${check.id}`,
    started_at: iso(check.startedAt),
    completed_at: iso(check.completedAt),
    app: { id: Number(check.appId) },
    output: { title: check.title, summary: check.summary },
  };
}
