/**
 * Judgements over what was read: is the pull request still the one admitted, is the pod still a pod, did the job prove
 * anything. Pure, small, and shared by the states.
 */
import type { CodesOf } from "../audit/reasons.ts";
import type { Millis } from "../ports.ts";
import type { Admission, Attempt, GateRequest, Proof, Terms } from "./model.ts";
import type { ExecuteFacts, JobFacts, PodFacts, PullFacts, Seen } from "./tasks.ts";
import { verdict, type Verdict } from "./verdict.ts";

/** The verdict of a pull request that is no longer what was admitted; null while it is, or while nobody knows. */
export function obsolete(request: GateRequest, pull: Seen<PullFacts | "gone"> | undefined): Verdict | null {
  if (pull === undefined || !pull.known) return null;
  if (pull.value === "gone") return verdict("closed", "closed", "GitHub no longer has this pull request.");
  if (!pull.value.open) return verdict("closed", "closed", "The pull request was closed.");
  if (pull.value.headSha !== request.headSha) {
    return verdict("superseded", "head-moved", `The head moved to ${pull.value.headSha.slice(0, 12)}.`);
  }
  return null;
}

/** Whether this request follows a pull request that can become obsolete. */
export function followsPull(request: GateRequest): number | undefined {
  return request.kind === "pull-request" || request.kind === "recovery" ? (request.prNumber ?? undefined) : undefined;
}

/** Why one pod was given back: the code of the attempt, not yet the request's verdict. */
export type Rejection = CodesOf<"attempt">;

export type PodJudgement =
  | { readonly kind: "alive" }
  | { readonly kind: "starting" }
  | { readonly kind: "rejected"; readonly reason: Rejection; readonly detail: string };

/**
 * The assigned GPU as RunPod named it. v2 may merely echo the request, so this is the first of two looks; the pod's own
 * proof is the second.
 */
export function judgeAssignment(pod: PodFacts, attempt: Attempt, ceilingPrice: number): PodJudgement {
  const accepted = attempt.candidate?.acceptedIds ?? [];
  if (pod.gpuId === null || pod.gpuId === "") {
    return { kind: "rejected", reason: "attempt-wrong-gpu", detail: "RunPod did not say which GPU it assigned." };
  }
  if (!accepted.includes(pod.gpuId)) {
    return { kind: "rejected", reason: "attempt-wrong-gpu", detail: `RunPod assigned ${pod.gpuId}, which was not asked for.` };
  }
  if (pod.gpuCount !== null && pod.gpuCount !== 1) {
    return { kind: "rejected", reason: "attempt-wrong-gpu", detail: `RunPod assigned ${pod.gpuCount} GPUs instead of one.` };
  }
  if (pod.cloud !== null && pod.cloud !== "SECURE") {
    return { kind: "rejected", reason: "attempt-wrong-gpu", detail: `RunPod placed the pod in its ${pod.cloud} cloud.` };
  }
  if (pod.pricePerHour !== null && pod.pricePerHour > ceilingPrice + 1e-9) {
    return {
      kind: "rejected",
      reason: "attempt-wrong-gpu",
      detail: `RunPod asks USD ${pod.pricePerHour}/h, above the ceiling of USD ${ceilingPrice}/h.`,
    };
  }
  return { kind: "alive" };
}

/**
 * The machine's own word against what was rented: v2 may echo the request in `gpu.id`, nvidia-smi does not. RunPod's ids
 * are the names nvidia-smi prints. Null when it fits.
 */
export function judgeProof(proof: Proof, attempt: Attempt): string | null {
  if (attempt.pod !== null && proof.podId !== attempt.pod.id) return "The proof names another pod.";
  if (proof.count !== 1) return `The pod shows ${proof.count} GPUs instead of one.`;
  const accepted = attempt.candidate?.acceptedIds ?? [];
  if (!accepted.includes(proof.gpuName)) return `The pod's GPU is ${proof.gpuName}, which was not asked for.`;
  return null;
}

const DEAD_STATUS = new Set(["EXITED", "ERROR", "TERMINATED", "DEAD", "STOPPED"]);

export function podDead(pod: PodFacts, attempt: Attempt): string | null {
  if (DEAD_STATUS.has(pod.status)) return `RunPod reports the pod as ${pod.status}.`;
  const known = attempt.pod;
  if (known === null) return null;
  // A container that exits leaves the status RUNNING but takes the runtime away; one never seen is no death.
  if (known.runtimeSeen && pod.status === "RUNNING" && !pod.runtimeUp) return "The container stopped.";
  if (known.startedAt !== null && pod.startedAt !== null && pod.startedAt > known.startedAt) {
    return "RunPod restarted the container.";
  }
  return null;
}

/** Folds a sighting into the stored pod. The first start time stays: a restart loop must not move deadlines. */
export function rememberPod(attempt: Attempt, pod: PodFacts): Attempt {
  const known = attempt.pod;
  return {
    ...attempt,
    pod: {
      id: pod.id,
      gpuId: pod.gpuId ?? known?.gpuId ?? null,
      // The rate is shown while the pod runs and 0 afterwards: the last positive one counts.
      pricePerHour: pod.pricePerHour !== null && pod.pricePerHour > 0 ? pod.pricePerHour : (known?.pricePerHour ?? null),
      dataCenterId: pod.dataCenterId ?? known?.dataCenterId ?? null,
      startedAt: known?.startedAt ?? pod.startedAt,
      runtimeSeen: (known?.runtimeSeen ?? false) || pod.runtimeUp,
      machineSeen: (known?.machineSeen ?? false) || pod.machineAssigned,
    },
  };
}

/** The instant setup and lifetime are measured from: the first start time we stored, else our create time. */
export function paidStart(attempt: Attempt): Millis {
  return attempt.pod?.startedAt ?? attempt.createSentAt ?? attempt.paidFrom ?? 0;
}

/** Whether the declared test step was entered: running or ended, and not skipped. */
export function testsEntered(job: JobFacts, terms: Terms): boolean {
  return job.steps.some(
    (step) =>
      terms.evidence.testSteps.includes(step.name) &&
      (step.status === "in_progress" || step.status === "completed") &&
      step.conclusion !== "skipped",
  );
}

/** Whether someone else's runner has our job, or the run is not the one we dispatched. */
export function strangerHasIt(job: JobFacts, attempt: Attempt): boolean {
  return job.runnerId !== null && attempt.runner !== null && job.runnerId !== attempt.runner.id;
}

/**
 * The verdict of a completed GPU job. Green needs every piece of evidence (I4); red says whether the tests or the
 * machinery failed.
 */
export function judgeJob(job: JobFacts, attempt: Attempt, terms: Terms, admission: Admission): Verdict {
  const declared = job.steps.filter((step) => terms.evidence.testSteps.includes(step.name));
  const failed = declared.filter((step) => step.conclusion === "failure" || step.conclusion === "timed_out");
  if (failed.length > 0) {
    const names = failed.map((step) => step.name).join(", ");
    return verdict("failed", "tests-failed", `The GPU tests failed on ${admission.testedSha.slice(0, 12)}: ${names}.`);
  }
  if (job.conclusion === "cancelled") {
    return verdict("cancelled", "cancelled-by-user", "The GPU run was cancelled on GitHub.");
  }
  if (!testsEntered(job, terms)) {
    return verdict(
      "infrastructure",
      "no-evidence",
      `The GPU job ended (${job.conclusion ?? "no conclusion"}) before its test step began.`,
    );
  }
  if (job.conclusion !== "success") {
    return verdict(
      "infrastructure",
      "no-evidence",
      `The GPU job ended as ${job.conclusion ?? "nothing"} although no test step failed.`,
    );
  }
  const missing = missingEvidence(job, attempt, terms, declared);
  if (missing !== null) return verdict("infrastructure", "no-evidence", missing);
  return verdict("passed", "tests-passed", `${job.evidence?.tests ?? 0} GPU tests passed.`);
}

function missingEvidence(
  job: JobFacts,
  attempt: Attempt,
  terms: Terms,
  declared: readonly { name: string; status: string; conclusion: string | null }[],
): string | null {
  if (attempt.proof === null) return "No proof of this pod's GPU was received.";
  if (attempt.runner === null || job.runnerId !== attempt.runner.id) return "The job did not run on this request's runner.";
  for (const name of terms.evidence.testSteps) {
    const step = declared.find((candidate) => candidate.name === name);
    if (step === undefined) return `The declared test step '${name}' is not in the job.`;
    if (step.status !== "completed" || step.conclusion !== "success") return `The test step '${name}' did not succeed.`;
  }
  if (job.evidence === null) return "The job did not report how many tests it ran.";
  if (job.evidence.tests < terms.evidence.minTests) {
    return `The job reported ${job.evidence.tests} tests; at least ${terms.evidence.minTests} are needed.`;
  }
  if (job.startedAt === null || job.completedAt === null) return "GitHub did not say how long the job took.";
  if (job.completedAt - job.startedAt < terms.evidence.minDuration) {
    return `The job took ${job.completedAt - job.startedAt} ms, too short to have tested anything.`;
  }
  return null;
}

/** A run whose end we did not cause. */
export function runEnded(facts: ExecuteFacts): boolean {
  return facts.runStatus === "completed";
}

/** Which of the "no GPU needed" reasons the classifier's answer is. */
export function notRequiredReason(admission: Admission): CodesOf<"not-required"> {
  if (admission.classification === "docs-only") return "docs-only";
  if (admission.classification === "ci-only") return "hosted-only";
  return "policy-not-required";
}
