/** Workflows, their runs and jobs, artifacts, and repository variables. */

import * as z from "zod";
import type { Millis } from "../ports.ts";
import type { Actor } from "../lifecycle/signal.ts";
import { err, ok } from "../result.ts";
import { path, type Slashed } from "./call.ts";
import { actor, githubId, instant, optionalId, optionalText, sha, workflowPathOf } from "./schema.ts";
import { countedPage, parseAnswer, type Listing, type Reply, type Wire } from "./wire.ts";

export interface Workflow {
  readonly id: string;
  readonly name: string;
  readonly path: string;
  /** Only `active` can be dispatched; others: deleted, disabled_fork, disabled_inactivity, disabled_manually. */
  readonly state: string;
}

/** One attempt of a run: `getRun` gives the newest. Statuses and conclusions are open sets: GitHub adds to them. */
export interface Run {
  readonly id: string;
  readonly attempt: number;
  /** requested, queued, pending, waiting, in_progress, completed. */
  readonly status: string | null;
  readonly conclusion: string | null;
  readonly event: string;
  /** The workflow file, without the `@ref` GitHub may append. */
  readonly path: string;
  readonly workflowId: string;
  readonly displayTitle: string;
  readonly headSha: string;
  readonly headBranch: string | null;
  readonly repositoryId: string;
  /** Another repository's for a fork; null when that one is deleted. */
  readonly headRepositoryId: string | null;
  /** Who caused the first attempt, and who caused this one. */
  readonly actor: Actor | null;
  readonly triggeringActor: Actor | null;
  readonly createdAt: Millis | null;
  readonly updatedAt: Millis | null;
  /** When this attempt started. */
  readonly runStartedAt: Millis | null;
  readonly htmlUrl: string;
}

export interface JobStep {
  readonly number: number;
  readonly name: string;
  readonly status: string;
  readonly conclusion: string | null;
  readonly startedAt: Millis | null;
  readonly completedAt: Millis | null;
}

export interface Job {
  readonly id: string;
  readonly runId: string;
  readonly attempt: number;
  readonly name: string;
  readonly status: string;
  readonly conclusion: string | null;
  readonly headSha: string;
  /** The job's `runs-on`, not the runner's labels. */
  readonly labels: readonly string[];
  /** Null until a runner has the job. */
  readonly runnerId: string | null;
  readonly runnerName: string | null;
  /** The check run that carries the job's annotations. */
  readonly checkRunId: string | null;
  readonly steps: readonly JobStep[];
  readonly createdAt: Millis | null;
  readonly startedAt: Millis | null;
  readonly completedAt: Millis | null;
  readonly htmlUrl: string | null;
}

export interface Artifact {
  readonly id: string;
  readonly name: string;
  readonly sizeBytes: number;
  readonly expired: boolean;
  /** `sha256:...` over the zip; null from upload actions before version 4. */
  readonly digest: string | null;
  readonly createdAt: Millis | null;
  readonly expiresAt: Millis | null;
  readonly runId: string | null;
  readonly repositoryId: string | null;
  readonly headRepositoryId: string | null;
}

export interface RunFilter {
  readonly workflowFile?: string;
  readonly status?: string;
  readonly event?: string;
  readonly branch?: string;
  readonly headSha?: string;
  readonly createdSince?: Millis;
}

export interface ActionsApi {
  /** By file name (`gpu-execute.yml`), path under `.github/workflows/`, or id. */
  getWorkflow(fileOrId: string): Reply<Workflow>;
  /**
   * Starts a workflow at a branch or tag. `runId` null: accepted, but the answer did not name the run; find it by its
   * run name. After `server` or `transport` it may have been started too: look first, never repeat blindly.
   */
  dispatchWorkflow(
    file: string,
    ref: string,
    inputs: Readonly<Record<string, string>>,
  ): Reply<{ readonly runId: string | null }>;
  /**
   * Dispatched runs with exactly this run name, at any branch and by anybody: a name says nothing about whose a run is
   * (`shared/authorize/own-run.ts` looks for our own). At most 1,000 runs are searched; then `complete` is false.
   */
  findRunsByName(file: string, displayTitle: string, createdSince: Millis): Reply<Listing<Run>>;
  getRun(runId: string): Reply<Run>;
  getRunAttempt(runId: string, attempt: number): Reply<Run>;
  listRuns(filter: RunFilter): Reply<Listing<Run>>;
  /** The jobs of one attempt. */
  listJobs(runId: string, attempt: number): Reply<Listing<Job>>;
  listArtifacts(runId: string): Reply<Listing<Artifact>>;
  /** `accepted` is not done: read the run until it is completed. `not-cancellable`: finished, or not yet startable. */
  cancelRun(runId: string): Reply<"accepted" | "not-cancellable">;
  /** A repository variable's value; `not-found` if it is not set. Needs the permission Variables: read. */
  getRepositoryVariable(name: string): Reply<string>;
}

const workflowAnswer = z.object({ id: githubId, name: z.string(), path: z.string(), state: z.string() });

const runAnswer = z
  .object({
    id: githubId,
    run_attempt: z.int().positive().optional(),
    status: optionalText,
    conclusion: optionalText,
    event: z.string(),
    path: z.string(),
    workflow_id: githubId,
    display_title: optionalText,
    head_sha: sha,
    head_branch: optionalText,
    repository: z.object({ id: githubId }),
    head_repository: z.object({ id: githubId }).nullish(),
    actor: actor.nullish(),
    triggering_actor: actor.nullish(),
    created_at: instant,
    updated_at: instant,
    run_started_at: instant,
    html_url: z.string(),
  })
  .transform((run): Run => ({
    id: run.id,
    attempt: run.run_attempt ?? 1,
    status: run.status,
    conclusion: run.conclusion,
    event: run.event,
    path: workflowPathOf(run.path),
    workflowId: run.workflow_id,
    displayTitle: run.display_title ?? "",
    headSha: run.head_sha,
    headBranch: run.head_branch,
    repositoryId: run.repository.id,
    headRepositoryId: run.head_repository?.id ?? null,
    actor: run.actor ?? null,
    triggeringActor: run.triggering_actor ?? null,
    createdAt: run.created_at,
    updatedAt: run.updated_at,
    runStartedAt: run.run_started_at,
    htmlUrl: run.html_url,
  }));

const stepAnswer = z
  .object({
    number: z.int(),
    name: z.string(),
    status: z.string(),
    conclusion: optionalText,
    started_at: instant,
    completed_at: instant,
  })
  .transform((step): JobStep => ({
    number: step.number,
    name: step.name,
    status: step.status,
    conclusion: step.conclusion,
    startedAt: step.started_at,
    completedAt: step.completed_at,
  }));

const jobAnswer = z
  .object({
    id: githubId,
    run_id: githubId,
    run_attempt: z.int().positive().optional(),
    name: z.string(),
    status: z.string(),
    conclusion: optionalText,
    head_sha: sha,
    labels: z.array(z.string()),
    runner_id: optionalId,
    runner_name: optionalText,
    check_run_url: optionalText,
    steps: z.array(stepAnswer).nullish(),
    created_at: instant,
    started_at: instant,
    completed_at: instant,
    html_url: optionalText,
  })
  .transform((job): Job => ({
    id: job.id,
    runId: job.run_id,
    attempt: job.run_attempt ?? 1,
    name: job.name,
    status: job.status,
    conclusion: job.conclusion,
    headSha: job.head_sha,
    labels: job.labels,
    runnerId: job.runner_id,
    runnerName: job.runner_name === "" ? null : job.runner_name,
    checkRunId: /\/(\d+)$/.exec(job.check_run_url ?? "")?.[1] ?? null,
    steps: job.steps ?? [],
    createdAt: job.created_at,
    startedAt: job.started_at,
    completedAt: job.completed_at,
    htmlUrl: job.html_url,
  }));

const artifactAnswer = z
  .object({
    id: githubId,
    name: z.string(),
    size_in_bytes: z.number(),
    expired: z.boolean(),
    digest: optionalText,
    created_at: instant,
    expires_at: instant,
    workflow_run: z.object({ id: optionalId, repository_id: optionalId, head_repository_id: optionalId }).nullish(),
  })
  .transform((artifact): Artifact => ({
    id: artifact.id,
    name: artifact.name,
    sizeBytes: artifact.size_in_bytes,
    expired: artifact.expired,
    digest: artifact.digest,
    createdAt: artifact.created_at,
    expiresAt: artifact.expires_at,
    runId: artifact.workflow_run?.id ?? null,
    repositoryId: artifact.workflow_run?.repository_id ?? null,
    headRepositoryId: artifact.workflow_run?.head_repository_id ?? null,
  }));

// Schemas are made once: zod compiles each at its first use, which costs more than the call.
const runsPage = countedPage("workflow_runs", runAnswer);
const jobsPage = countedPage("jobs", jobAnswer);
const artifactsPage = countedPage("artifacts", artifactAnswer);
const dispatchAnswer = z.object({ workflow_run_id: githubId });
const variableAnswer = z.object({ value: z.string() });

/** A filtered run list ends at 1,000 results, whatever its total says (actions/list-workflow-runs). */
const FILTERED_PAGES_MAX = 10;

/** `base` is `{owner}/{name}`. */
export function actionsApi(wire: Wire, base: Slashed): ActionsApi {
  const listRuns = (operation: string, filter: RunFilter): Reply<Listing<Run>> =>
    wire.list(
      operation,
      filter.workflowFile === undefined
        ? path`/repos/${base}/actions/runs`
        : path`/repos/${base}/actions/workflows/${workflowKey(filter.workflowFile)}/runs`,
      runsPage,
      {
        key: (run) => run.id,
        maxPages: FILTERED_PAGES_MAX,
        query: {
          status: filter.status,
          event: filter.event,
          branch: filter.branch,
          head_sha: filter.headSha,
          // Whole seconds, rounded down: GitHub's times have no finer grain.
          created: filter.createdSince === undefined ? undefined : `>=${isoSeconds(filter.createdSince)}`,
        },
      },
    );

  return {
    getWorkflow: (fileOrId) =>
      wire.get("getWorkflow", path`/repos/${base}/actions/workflows/${workflowKey(fileOrId)}`, workflowAnswer),

    async dispatchWorkflow(file, ref, inputs) {
      const address = path`/repos/${base}/actions/workflows/${workflowKey(file)}/dispatches`;
      const answer = await wire.change("dispatchWorkflow", "POST", address, { ref, inputs });
      if (!answer.ok) return answer;
      // 2026-03-10 answers 200 with the run's id. A 2xx that says nothing readable has started a run all the same.
      const parsed = parseAnswer(answer.value, dispatchAnswer);
      return ok({ runId: parsed.ok ? parsed.value.workflow_run_id : null });
    },

    async findRunsByName(file, displayTitle, createdSince) {
      const listing = await listRuns("findRunsByName", {
        workflowFile: file,
        event: "workflow_dispatch",
        createdSince,
      });
      if (!listing.ok) return listing;
      const items = listing.value.items.filter((run) => run.displayTitle === displayTitle);
      return ok({ items, complete: listing.value.complete });
    },

    getRun: (runId) => wire.get("getRun", path`/repos/${base}/actions/runs/${runId}`, runAnswer),

    getRunAttempt: (runId, attempt) =>
      wire.get("getRunAttempt", path`/repos/${base}/actions/runs/${runId}/attempts/${attempt}`, runAnswer),

    listRuns: (filter) => listRuns("listRuns", filter),

    listJobs: (runId, attempt) =>
      wire.list("listJobs", path`/repos/${base}/actions/runs/${runId}/attempts/${attempt}/jobs`, jobsPage, {
        key: (job) => job.id,
      }),

    listArtifacts: (runId) =>
      wire.list("listArtifacts", path`/repos/${base}/actions/runs/${runId}/artifacts`, artifactsPage, {
        key: (artifact) => artifact.id,
      }),

    async cancelRun(runId) {
      const answer = await wire.change("cancelRun", "POST", path`/repos/${base}/actions/runs/${runId}/cancel`);
      if (answer.ok) return ok("accepted");
      return answer.error.reason === "conflict" ? ok("not-cancellable") : err(answer.error);
    },

    async getRepositoryVariable(name) {
      const answer = await wire.get(
        "getRepositoryVariable",
        path`/repos/${base}/actions/variables/${name}`,
        variableAnswer,
      );
      return answer.ok ? ok(answer.value.value) : answer;
    },
  };
}

/** GitHub takes a workflow's file name or id here, not its path. */
function workflowKey(fileOrId: string): string {
  return fileOrId.replace(/^\.github\/workflows\//, "");
}

function isoSeconds(instantMs: Millis): string {
  return new Date(Math.floor(instantMs / 1_000) * 1_000).toISOString().replace(".000Z", "Z");
}
