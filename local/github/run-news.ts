/** What the world hears of runs and jobs: a line in the books and a webhook for each step of their lives. */

import type { RunRecord } from "./books.ts";
import type { Hub } from "./hub.ts";
import type { Job, WorkflowRun } from "./model.ts";
import { fullName, latestAttempt } from "./model.ts";
import { renderJob, renderRun, renderWorkflow } from "./render-actions.ts";
import { renderAccount } from "./render-common.ts";

export function bookRun(hub: Hub, run: WorkflowRun, what: RunRecord["what"]): void {
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
    problems: attempt.annotations.map((annotation) => annotation.message),
  });
}

function payloadOf(hub: Hub, run: WorkflowRun): Record<string, unknown> {
  return { workflow_run: renderRun(hub, run), workflow: renderWorkflow(hub, run.repository, run.workflow) };
}

export function tellRun(hub: Hub, run: WorkflowRun, action: "requested" | "completed"): void {
  const sender = renderAccount(hub, latestAttempt(run).triggeringActor);
  hub.webhooks.emit("workflow_run", action, run.repository, sender, payloadOf(hub, run));
}

/** GitHub tells `in_progress` three times. The later ones carry what was true at the first. */
export function tellInProgress(hub: Hub, run: WorkflowRun): void {
  const payload = payloadOf(hub, run);
  const sender = renderAccount(hub, latestAttempt(run).triggeringActor);
  const tell = (): void => void hub.webhooks.emit("workflow_run", "in_progress", run.repository, sender, payload);
  tell();
  hub.timers.after(hub.timing.inProgressGapMs, tell);
  hub.timers.after(2 * hub.timing.inProgressGapMs, tell);
}

export function tellJob(hub: Hub, job: Job, action: "queued" | "in_progress" | "completed"): void {
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
  const sender = renderAccount(hub, latestAttempt(job.run).triggeringActor);
  hub.webhooks.emit("workflow_job", action, job.run.repository, sender, { workflow_job: renderJob(hub, job) });
}
