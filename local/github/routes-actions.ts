/** Routes of workflows, runs and jobs: listing, dispatching, cancelling, running again. */

import * as z from "zod";
import { countedAnswer, idParam, invalid, notFound, param, readBody, Refusal, repositoryOf } from "./http.ts";
import type { Answer, Call, Route } from "./http.ts";
import type { Account, Job, Repository, RunAttempt, Workflow, WorkflowRun } from "./model.ts";
import { fullName, latestAttempt } from "./model.ts";
import { findRef } from "./refs.ts";
import { renderJob, renderRun, renderWorkflow } from "./render-actions.ts";
import { repositoryUrl } from "./render-common.ts";

const dispatchBody = z.object({
  ref: z.string().min(1),
  inputs: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).optional(),
  return_run_details: z.boolean().optional(),
});

/** Filters of run lists reach at most this many results. */
const resultLimit = 1000;

function bot(call: Call): Account {
  return call.hub.world.ensureAccount(`${call.hub.app.slug}[bot]`, "Bot");
}

function workflowOf(call: Call): Workflow {
  const repository = repositoryOf(call);
  const wanted = param(call, "workflow_id");
  const found = call.hub.engine.catalog
    .all(repository)
    .find(
      (workflow) =>
        String(workflow.id) === wanted || workflow.path === wanted || workflow.path.split("/").at(-1) === wanted,
    );
  if (found === undefined) throw notFound();
  return found;
}

export function runOf(call: Call): WorkflowRun {
  const run = call.hub.world.runs.get(idParam(call, "run_id"));
  if (run === undefined || run.repository.id !== repositoryOf(call).id) throw notFound();
  return run;
}

function attemptOf(call: Call, run: WorkflowRun): RunAttempt {
  const number = idParam(call, "attempt_number");
  const attempt = run.attempts.find((one) => one.number === number);
  if (attempt === undefined) throw notFound();
  return attempt;
}

function jobOf(call: Call): Job {
  const job = call.hub.world.jobs.get(idParam(call, "job_id"));
  if (job === undefined || job.run.repository.id !== repositoryOf(call).id) throw notFound();
  return job;
}

function dispatch(call: Call): Answer {
  const { hub } = call;
  const repository = repositoryOf(call);
  const workflow = workflowOf(call);
  const body = readBody(call, dispatchBody);
  const inputs = Object.fromEntries(Object.entries(body.inputs ?? {}).map(([name, value]) => [name, String(value)]));
  if (Object.keys(inputs).length > 25) throw invalid("Workflow dispatch events may have at most 25 inputs.", "inputs");
  const main = repository.refs.get(`refs/heads/${repository.defaultBranch}`);
  const files = main === undefined ? {} : repository.git.filesAt(main);
  if (files[workflow.path] === undefined) throw notFound();
  if (workflow.state !== "active")
    throw new Refusal(422, "Cannot trigger a 'workflow_dispatch' on a disabled workflow");
  const found = findRef(repository, body.ref);
  if (found === null || !/^refs\/(heads|tags)\//.test(found.ref))
    throw new Refusal(422, `No ref found for: ${body.ref}`);
  const request = {
    repository,
    headRepository: repository,
    path: workflow.path,
    event: "workflow_dispatch",
    headBranch: found.ref.replace(/^refs\/(heads|tags)\//, ""),
    headSha: found.sha,
    sha: found.sha,
    ref: found.ref,
    actor: bot(call),
    inputs,
  };
  const refused = hub.engine.catalog.dispatchProblem(request);
  if (refused !== null) throw new Refusal(422, refused);
  const run = hub.engine.create(request);
  hub.books.dispatches.push({
    at: hub.world.clock.now(),
    repository: fullName(repository),
    workflowPath: workflow.path,
    ref: body.ref,
    inputs,
    runId: run.id,
  });
  if (call.version === "2022-11-28" && body.return_run_details !== true) return { status: 204 };
  const url = `${repositoryUrl(hub, repository)}/actions/runs/${run.id}`;
  return {
    status: 200,
    json: {
      workflow_run_id: run.id,
      run_url: url,
      html_url: `${hub.url}/${fullName(repository)}/actions/runs/${run.id}`,
    },
  };
}

/** The `created` filter: a date or time, `>=`, `>`, `<=`, `<`, or `from..to`. */
function inCreatedRange(filter: string, at: number): boolean {
  const range = /^(.+)\.\.(.+)$/.exec(filter);
  if (range !== null) return inCreatedRange(`>=${range[1] ?? ""}`, at) && inCreatedRange(`<=${range[2] ?? ""}`, at);
  const [, operator = "", text = ""] = /^(>=|<=|>|<)?(.*)$/.exec(filter) ?? [];
  if (text === "*") return true;
  const bound = Date.parse(text);
  const second = Math.floor(at / 1000) * 1000;
  switch (operator) {
    case ">=":
      return second >= bound;
    case "<=":
      return second <= bound;
    case ">":
      return second > bound;
    case "<":
      return second < bound;
    default:
      return text.length <= 10 ? new Date(at).toISOString().startsWith(text) : second === bound;
  }
}

function listRuns(call: Call, only: Workflow | null): Answer {
  const repository = repositoryOf(call);
  const value = (name: string): string | null => call.query.get(name);
  const matches = (name: string, actual: string | null): boolean => value(name) === null || value(name) === actual;
  const created = value("created");
  const runs = [...call.hub.world.runs.values()]
    .filter((run) => run.repository.id === repository.id && (only === null || run.workflow === only))
    .filter((run) => {
      const { status, conclusion } = latestAttempt(run);
      return (
        matches("event", run.event) &&
        matches("branch", run.headBranch) &&
        matches("head_sha", run.headSha) &&
        matches("actor", run.actor.login) &&
        matches("check_suite_id", String(run.suiteId)) &&
        (matches("status", status) || matches("status", conclusion)) &&
        (created === null || inCreatedRange(created, run.createdAt))
      );
    })
    .sort((a, b) => b.id - a.id)
    .slice(0, resultLimit);
  return countedAnswer(call, "workflow_runs", runs, (run) => renderRun(call.hub, run));
}

function listJobs(call: Call, attempts: readonly RunAttempt[]): Answer {
  return countedAnswer(
    call,
    "jobs",
    attempts.flatMap((attempt) => attempt.jobs),
    (job) => renderJob(call.hub, job),
  );
}

function cancel(call: Call, force: boolean): Answer {
  const accepted = call.hub.engine.cancel(runOf(call), force);
  if (!accepted) throw new Refusal(409, "Cannot cancel a workflow run that is completed.");
  return { status: 202, json: {} };
}

const read = { method: "GET", as: "installation", permission: ["actions=read"] } as const;
const mutate = { method: "POST", as: "installation", permission: ["actions=write"] } as const;
const base = "/repos/{owner}/{repo}/actions";

export const actionRoutes: readonly Route[] = [
  {
    ...read,
    path: `${base}/workflows`,
    operation: "actions/list-repo-workflows",
    handle: (call) => {
      const repository: Repository = repositoryOf(call);
      const all = call.hub.engine.catalog.all(repository);
      return countedAnswer(call, "workflows", all, (workflow) => renderWorkflow(call.hub, repository, workflow));
    },
  },
  {
    ...read,
    path: `${base}/workflows/{workflow_id}`,
    operation: "actions/get-workflow",
    handle: (call) => ({ status: 200, json: renderWorkflow(call.hub, repositoryOf(call), workflowOf(call)) }),
  },
  {
    ...mutate,
    path: `${base}/workflows/{workflow_id}/dispatches`,
    operation: "actions/create-workflow-dispatch",
    handle: dispatch,
  },
  {
    ...read,
    path: `${base}/workflows/{workflow_id}/runs`,
    operation: "actions/list-workflow-runs",
    handle: (call) => listRuns(call, workflowOf(call)),
  },
  {
    ...read,
    path: `${base}/runs`,
    operation: "actions/list-workflow-runs-for-repo",
    handle: (call) => listRuns(call, null),
  },
  {
    ...read,
    path: `${base}/runs/{run_id}`,
    operation: "actions/get-workflow-run",
    handle: (call) => ({ status: 200, json: renderRun(call.hub, runOf(call)) }),
  },
  {
    ...read,
    path: `${base}/runs/{run_id}/attempts/{attempt_number}`,
    operation: "actions/get-workflow-run-attempt",
    handle: (call) => {
      const run = runOf(call);
      return { status: 200, json: renderRun(call.hub, run, attemptOf(call, run)) };
    },
  },
  {
    ...read,
    path: `${base}/runs/{run_id}/attempts/{attempt_number}/jobs`,
    operation: "actions/list-jobs-for-workflow-run-attempt",
    handle: (call) => listJobs(call, [attemptOf(call, runOf(call))]),
  },
  {
    ...read,
    path: `${base}/runs/{run_id}/jobs`,
    operation: "actions/list-jobs-for-workflow-run",
    handle: (call) => {
      const run = runOf(call);
      return listJobs(call, call.query.get("filter") === "all" ? run.attempts : [latestAttempt(run)]);
    },
  },
  {
    ...read,
    path: `${base}/jobs/{job_id}`,
    operation: "actions/get-job-for-workflow-run",
    handle: (call) => ({ status: 200, json: renderJob(call.hub, jobOf(call)) }),
  },
  {
    ...read,
    path: `${base}/jobs/{job_id}/logs`,
    operation: "actions/download-job-logs-for-workflow-run",
    handle: (call) => ({
      status: 302,
      headers: { location: call.hub.engine.links.make({ kind: "log", jobId: jobOf(call).id }) },
    }),
  },
  {
    ...mutate,
    path: `${base}/runs/{run_id}/cancel`,
    operation: "actions/cancel-workflow-run",
    handle: (call) => cancel(call, false),
  },
  {
    ...mutate,
    path: `${base}/runs/{run_id}/force-cancel`,
    operation: "actions/force-cancel-workflow-run",
    handle: (call) => cancel(call, true),
  },
  {
    ...mutate,
    path: `${base}/runs/{run_id}/rerun`,
    operation: "actions/re-run-workflow",
    handle: (call) => {
      if (!call.hub.engine.rerun(runOf(call), bot(call))) throw new Refusal(403, "This workflow run cannot be re-run.");
      return { status: 201, json: {} };
    },
  },
  {
    ...mutate,
    path: `${base}/runs/{run_id}/approve`,
    operation: "actions/approve-workflow-run",
    handle: (call) => {
      if (!call.hub.engine.approve(runOf(call))) throw new Refusal(403, "This run is not waiting for approval.");
      return { status: 201, json: {} };
    },
  },
];
