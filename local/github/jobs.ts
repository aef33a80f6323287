/** Jobs, steps, annotations and artifacts as records: made from their plans, ended, summed up to a run's conclusion. */

import { createHash } from "node:crypto";
import type { Hub } from "./hub.ts";
import type { Annotation, Artifact, Conclusion, Job, RunAttempt, Step, WorkflowRun } from "./model.ts";
import { isSelfHosted } from "./workflow-script.ts";
import type { AnnotationPlan, ArtifactPlan, JobPlan } from "./workflow-script.ts";
import { zip } from "./zip.ts";

const day = 86_400_000;

export function newJob(hub: Hub, run: WorkflowRun, attempt: RunAttempt, plan: JobPlan): Job {
  const labels = plan.runsOn ?? ["ubuntu-latest"];
  const names = ["Set up job", ...plan.steps.map((step) => step.name), "Complete job"];
  return {
    id: hub.world.nextId("job", 52_000_000_000),
    run,
    attempt: attempt.number,
    name: plan.name,
    labels,
    selfHosted: isSelfHosted(labels),
    forgiven: false,
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
    summary: "",
  };
}

export function endStep(hub: Hub, step: Step, conclusion: Conclusion): void {
  const now = hub.world.clock.now();
  step.status = "completed";
  step.conclusion = conclusion;
  step.startedAt ??= now;
  step.completedAt = now;
}

/** Ends the steps a job did not get to. "Complete job" is the runner's own clean-up: it works whatever the job did. */
export function endSteps(hub: Hub, job: Job, conclusion: Conclusion): void {
  for (const step of job.steps) {
    if (step.status === "completed") continue;
    const fine = conclusion === "success" || step.name === "Complete job";
    endStep(hub, step, fine ? "success" : conclusion === "cancelled" ? "cancelled" : "skipped");
  }
}

/** What a run's attempt comes to, all its jobs having ended. */
export function conclude(attempt: RunAttempt, cancelRequested: boolean): Conclusion {
  const all = attempt.jobs.map((job) => (job.forgiven && job.conclusion === "failure" ? "success" : job.conclusion));
  if (cancelRequested && (all.length === 0 || all.includes("cancelled"))) return "cancelled";
  if (all.includes("failure") || all.includes("timed_out")) return "failure";
  if (cancelRequested || all.includes("cancelled")) return "cancelled";
  return all.length > 0 && all.every((one) => one === "skipped") ? "skipped" : "success";
}

export function newAnnotation(plan: AnnotationPlan): Annotation {
  return {
    path: plan.path ?? ".github",
    startLine: plan.line ?? 1,
    endLine: plan.line ?? 1,
    level: plan.level ?? "notice",
    title: plan.title ?? null,
    message: plan.message,
    rawDetails: null,
  };
}

/** Stores an artifact of a run; its digest is over the zip as it will be served. */
export function newArtifact(hub: Hub, run: WorkflowRun, plan: ArtifactPlan): Artifact {
  const { world } = hub;
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
