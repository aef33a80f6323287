/** Workflows, runs, jobs, artifacts and runners on the wire. */

import type { Hub } from "./hub.ts";
import type { Artifact, Job, Repository, RunAttempt, Runner, RunnerGroup, Workflow, WorkflowRun } from "./model.ts";
import { fullName, iso, latestAttempt } from "./model.ts";
import { nodeId, renderAccount, renderMinimalRepository, renderSimpleCommit, repositoryUrl } from "./render-common.ts";
import type { Json } from "./render-common.ts";
import { matchingPulls } from "./render-pulls.ts";

export function renderWorkflow(hub: Hub, repository: Repository, workflow: Workflow): Json {
  const api = repositoryUrl(hub, repository);
  const html = `${hub.url}/${fullName(repository)}`;
  return {
    id: workflow.id,
    node_id: nodeId("Workflow", workflow.id),
    name: hub.engine.catalog.nameOf(repository, workflow.path),
    path: workflow.path,
    state: workflow.state,
    created_at: iso(workflow.createdAt),
    updated_at: iso(workflow.createdAt),
    url: `${api}/actions/workflows/${workflow.id}`,
    html_url: `${html}/blob/${repository.defaultBranch}/${workflow.path}`,
    badge_url: `${html}/workflows/${encodeURIComponent(hub.engine.catalog.nameOf(repository, workflow.path))}/badge.svg`,
  };
}

export function renderRun(hub: Hub, run: WorkflowRun, attempt: RunAttempt = latestAttempt(run)): Json {
  const { repository } = run;
  const api = repositoryUrl(hub, repository);
  const base = `${api}/actions/runs/${run.id}`;
  const url = attempt === latestAttempt(run) ? base : `${base}/attempts/${attempt.number}`;
  const head = run.headRepository.git.findCommit(run.headSha);
  return {
    id: run.id,
    name: run.name,
    node_id: nodeId("WorkflowRun", run.id),
    head_branch: run.headBranch,
    head_sha: run.headSha,
    path: run.workflow.path,
    display_title: run.displayTitle,
    run_number: run.runNumber,
    event: run.event,
    status: attempt.status,
    conclusion: attempt.conclusion,
    workflow_id: run.workflow.id,
    check_suite_id: run.suiteId,
    check_suite_node_id: nodeId("CheckSuite", run.suiteId),
    url,
    html_url: `${hub.url}/${fullName(repository)}/actions/runs/${run.id}`,
    pull_requests: run.event === "pull_request" ? matchingPulls(hub, repository, run.headSha) : [],
    created_at: iso(run.createdAt),
    updated_at: iso(attempt.updatedAt),
    actor: renderAccount(hub, run.actor),
    run_attempt: attempt.number,
    referenced_workflows: [],
    run_started_at: iso(attempt.startedAt),
    triggering_actor: renderAccount(hub, attempt.triggeringActor),
    jobs_url: `${base}/jobs`,
    logs_url: `${base}/logs`,
    check_suite_url: `${api}/check-suites/${run.suiteId}`,
    artifacts_url: `${base}/artifacts`,
    cancel_url: `${base}/cancel`,
    rerun_url: `${base}/rerun`,
    previous_attempt_url: attempt.number > 1 ? `${base}/attempts/${attempt.number - 1}` : null,
    workflow_url: `${api}/actions/workflows/${run.workflow.id}`,
    head_commit: head === undefined ? null : renderSimpleCommit(head),
    repository: renderMinimalRepository(hub, repository),
    head_repository: renderMinimalRepository(hub, run.headRepository),
  };
}

export function renderJob(hub: Hub, job: Job): Json {
  const { run } = job;
  const api = repositoryUrl(hub, run.repository);
  return {
    id: job.id,
    run_id: run.id,
    workflow_name: run.name,
    head_branch: run.headBranch,
    run_url: `${api}/actions/runs/${run.id}`,
    run_attempt: job.attempt,
    node_id: nodeId("Job", job.id),
    head_sha: run.headSha,
    url: `${api}/actions/jobs/${job.id}`,
    html_url: `${hub.url}/${fullName(run.repository)}/actions/runs/${run.id}/job/${job.id}`,
    status: job.status,
    conclusion: job.conclusion,
    created_at: iso(job.createdAt),
    started_at: iso(job.startedAt ?? job.createdAt),
    completed_at: job.completedAt === null ? null : iso(job.completedAt),
    name: job.name,
    steps: job.steps.map((step) => ({
      name: step.name,
      status: step.status,
      conclusion: step.conclusion,
      number: step.number,
      started_at: step.startedAt === null ? null : iso(step.startedAt),
      completed_at: step.completedAt === null ? null : iso(step.completedAt),
    })),
    check_run_url: `${api}/check-runs/${job.id}`,
    labels: job.labels,
    runner_id: job.runnerId,
    runner_name: job.runnerName,
    runner_group_id: job.runnerGroupId,
    runner_group_name: job.runnerGroupId === null ? null : groupName(hub, run.repository, job.runnerGroupId),
  };
}

function groupName(hub: Hub, repository: Repository, id: number): string {
  if (id === 0) return "GitHub Actions";
  return (
    hub.world.runnerGroups.find((group) => group.id === id && group.organization.id === repository.owner.id)?.name ??
    "Default"
  );
}

export function renderArtifact(hub: Hub, run: WorkflowRun, artifact: Artifact): Json {
  const url = `${repositoryUrl(hub, run.repository)}/actions/artifacts/${artifact.id}`;
  return {
    id: artifact.id,
    node_id: nodeId("Artifact", artifact.id),
    name: artifact.name,
    size_in_bytes: artifact.zip.length,
    url,
    archive_download_url: `${url}/zip`,
    expired: artifact.expiresAt <= hub.world.clock.now(),
    digest: artifact.digest,
    created_at: iso(artifact.createdAt),
    updated_at: iso(artifact.createdAt),
    expires_at: iso(artifact.expiresAt),
    workflow_run: {
      id: run.id,
      repository_id: run.repository.id,
      head_repository_id: run.headRepository.id,
      head_branch: run.headBranch,
      head_sha: run.headSha,
    },
  };
}

export function renderRunner(runner: Runner): Json {
  return {
    id: runner.id,
    runner_group_id: runner.groupId,
    name: runner.name,
    os: runner.os,
    status: runner.online ? "online" : "offline",
    busy: runner.job !== null,
    ephemeral: runner.kind === "jit",
    version: runner.version,
    labels: runner.labels.map((name, index) => ({ id: runner.id * 100 + index, name, type: "custom" })),
  };
}

export function renderRunnerGroup(hub: Hub, group: RunnerGroup): Json {
  const url = `${hub.url}/orgs/${group.organization.login}/actions/runner-groups/${group.id}`;
  return {
    id: group.id,
    name: group.name,
    visibility: group.visibility,
    default: group.default,
    ...(group.visibility === "selected" ? { selected_repositories_url: `${url}/repositories` } : {}),
    runners_url: `${url}/runners`,
    hosted_runners_url: `${url}/hosted-runners`,
    inherited: false,
    allows_public_repositories: group.allowsPublicRepositories,
    restricted_to_workflows: group.restrictedToWorkflows,
    selected_workflows: group.selectedWorkflows,
    workflow_restrictions_read_only: false,
  };
}
