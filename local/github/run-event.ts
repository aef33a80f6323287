/** What a run's expressions and commands can see: the `github` context, the event's payload, the GITHUB_* variables. */
import { textOf, type Value } from "../workflow/evaluate.ts";
import type { RunEvent } from "../workflow/run.ts";
import type { Hub } from "./hub.ts";
import type { Job, RunAttempt, WorkflowRun } from "./model.ts";
import { fullName, latestAttempt } from "./model.ts";
import { renderAccount, renderRepository } from "./render-common.ts";

type RunFacts = Pick<
  WorkflowRun,
  | "repository"
  | "id"
  | "runNumber"
  | "event"
  | "headBranch"
  | "sha"
  | "ref"
  | "actor"
  | "inputs"
  | "payload"
  | "pullNumber"
> & { readonly workflow: { readonly path: string } };

/** The event of a run, or of one that is still to be made (without ids). */
export function runEvent(
  hub: Hub,
  run: RunFacts,
  attempt: Pick<RunAttempt, "number" | "triggeringActor">,
): RunEvent & { readonly payload: Readonly<Record<string, unknown>> } {
  const { repository, event } = run;
  const name = fullName(repository);
  const pull = repository.pulls.find((one) => one.number === run.pullNumber);
  const payload: Record<string, unknown> = {
    ...run.payload,
    ...(event === "workflow_dispatch" ? { inputs: run.inputs, ref: run.ref, workflow: run.workflow.path } : {}),
    repository: renderRepository(hub, repository),
    sender: renderAccount(hub, run.actor),
  };
  const github: Record<string, Value> = {
    actor: run.actor.login,
    actor_id: String(run.actor.id),
    api_url: hub.url,
    base_ref: event === "pull_request" ? (pull?.base.branch ?? "") : "",
    // Rendered answers are JSON already; the detour drops what JSON would not carry.
    event: JSON.parse(JSON.stringify(payload)) as Value,
    head_ref: event === "pull_request" ? run.headBranch : "",
    ref: run.ref,
    ref_name: run.ref.replace(/^refs\/(heads|tags|pull)\//, ""),
    ref_type: run.ref.startsWith("refs/tags/") ? "tag" : "branch",
    repository: name,
    repository_id: String(repository.id),
    repository_owner: repository.owner.login,
    repository_owner_id: String(repository.owner.id),
    run_attempt: String(attempt.number),
    run_id: String(run.id),
    run_number: String(run.runNumber),
    server_url: hub.url,
    sha: run.sha,
    triggering_actor: attempt.triggeringActor.login,
    workflow_ref: `${name}/${run.workflow.path}@${run.ref}`,
    workflow_sha: run.sha,
  };
  const vars = Object.fromEntries([...repository.variables.values()].map((one) => [one.name, one.value]));
  return { name: event, github, vars, payload };
}

/** The variables that come straight from the context, in GitHub's spelling. Source: GitHub's "Variables reference". */
const FROM_CONTEXT = [
  "actor",
  "actor_id",
  "api_url",
  "base_ref",
  "head_ref",
  "ref",
  "ref_name",
  "ref_type",
  "repository",
  "repository_id",
  "repository_owner",
  "repository_owner_id",
  "run_attempt",
  "run_id",
  "run_number",
  "server_url",
  "sha",
  "triggering_actor",
  "workflow_ref",
  "workflow_sha",
] as const;

/** Every variable that the server sets for a step; those that name a place are the machine's. Sorted, for the documents. */
export const SERVER_VARIABLES: readonly string[] = [
  ...FROM_CONTEXT.map((name) => `GITHUB_${name.toUpperCase()}`),
  "GITHUB_EVENT_NAME",
  "GITHUB_JOB",
  "GITHUB_WORKFLOW",
  "RUNNER_ARCH",
  "RUNNER_ENVIRONMENT",
  "RUNNER_NAME",
  "RUNNER_OS",
].toSorted();

/** The variables of one job's steps. `key` is the job's id in the workflow file. */
export function jobVariables(hub: Hub, job: Job, key: string): Readonly<Record<string, string>> {
  const { run } = job;
  const { github } = runEvent(hub, run, run.attempts.find((one) => one.number === job.attempt) ?? latestAttempt(run));
  const values: Record<string, string> = {
    GITHUB_EVENT_NAME: run.event,
    GITHUB_JOB: key,
    GITHUB_WORKFLOW: run.name,
    RUNNER_ARCH: "X64",
    RUNNER_ENVIRONMENT: job.selfHosted ? "self-hosted" : "github-hosted",
    RUNNER_NAME: job.runnerName ?? "",
    RUNNER_OS: "Linux",
  };
  for (const name of FROM_CONTEXT) values[`GITHUB_${name.toUpperCase()}`] = textOf(github[name] ?? null);
  return values;
}
