/**
 * Judgements over what was read: is the pull request still the one admitted, is the pod still a pod, did the job prove
 * anything. Pure, small, and shared by the states.
 */
import type { CodesOf } from "../audit/reasons.ts";
import type { Millis } from "../ports.ts";
import { unreachable } from "../result.ts";
import { DECLINED_FROM } from "../runpod/bad-hosts.ts";
import { checkAssignedGpu, deadWhy, type DeadWhy } from "../runpod/pod-health.ts";
import type { Admission, Attempt, GateRequest, Proof, Terms } from "./model.ts";
import type { JobFacts, PodFacts, PullFacts, Seen } from "./tasks.ts";
import { verdict, type Verdict } from "./verdict.ts";

/** GitHub answers 404 for what it hides as well: one such answer about a pull request is no news (I11). */
const PULL_GONE_LOOKS = 2;

/** Counts the looks in a row at which GitHub did not know the pull request. */
export function countPullLooks(request: GateRequest, pull: Seen<PullFacts | "gone"> | undefined): GateRequest {
  if (pull === undefined || !pull.known) return request;
  const pullMissing = pull.value === "gone" ? request.pullMissing + 1 : 0;
  return pullMissing === request.pullMissing ? request : { ...request, pullMissing };
}

/** The verdict of a pull request that is no longer what was admitted; null while it is, or while nobody knows. */
export function obsolete(request: GateRequest, pull: Seen<PullFacts | "gone"> | undefined): Verdict | null {
  if (pull === undefined || !pull.known || followsPull(request) === undefined) return null;
  if (pull.value === "gone") {
    if (request.pullMissing < PULL_GONE_LOOKS) return null;
    return verdict("closed", "closed", "GitHub no longer has this pull request.");
  }
  if (!pull.value.open) return verdict("closed", "closed", "The pull request was closed.");
  if (pull.value.headSha !== request.headSha) {
    return verdict("superseded", "head-moved", `The head moved to ${pull.value.headSha.slice(0, 12)}.`);
  }
  // The same commit against another base is another change, with other files and another merge to test.
  if (request.admission !== null && pull.value.baseRef !== request.admission.baseRef) {
    return verdict("superseded", "base-moved", `The pull request targets ${pull.value.baseRef} now.`);
  }
  return null;
}

/** Whether this request follows a pull request that can become obsolete. */
export function followsPull(request: GateRequest): number | undefined {
  return request.kind === "pull-request" || request.kind === "recovery" ? (request.prNumber ?? undefined) : undefined;
}

/** Why one pod was given back: the code of the attempt, not yet the request's verdict. */
export type Rejection = CodesOf<"attempt">;

/**
 * The assigned GPU as RunPod named it: why it is not the one asked for, null when nothing speaks against it. v2 may merely
 * echo the request, so this is the first of two looks; the pod's own proof is the second. `reservedPrice` is what the plan
 * reserved the attempt at, USD per hour: a dearer pod would spend what no cap was asked for (I9).
 */
export function judgeAssignment(pod: PodFacts, attempt: Attempt, reservedPrice: number): string | null {
  const limit = Math.min(attempt.candidate?.maxPrice ?? reservedPrice, reservedPrice);
  const wrong = checkAssignedGpu(
    // A later answer that leaves out what an earlier one said takes nothing back.
    {
      gpuId: pod.gpuId ?? attempt.pod?.gpuId ?? null,
      gpuCount: pod.gpuCount,
      cloud: pod.cloud,
      costPerHour: pod.pricePerHour,
    },
    {
      acceptedIds: attempt.candidate?.acceptedIds ?? [],
      ceilingUsdPerHour: limit,
    },
  );
  if (wrong === null) return null;
  switch (wrong.why) {
    case "gpu-missing":
      return "RunPod did not say which GPU it assigned.";
    case "gpu-foreign":
      return `RunPod assigned ${wrong.found}, which was not asked for.`;
    case "gpu-count":
      return `RunPod assigned ${wrong.found} GPUs instead of one.`;
    case "cloud":
      return `RunPod placed the pod in its ${wrong.found} cloud.`;
    case "price":
      return `RunPod asks ${wrong.found}, above the limit of USD ${hourlyUsd(limit)}.`;
    default:
      return unreachable(wrong.why, "assigned GPU");
  }
}

/** At most four places, none of them idle: 1.6, and 0.2555 where a disk's share is in it. */
function hourlyUsd(price: number): string {
  return String(Math.round(price * 10_000) / 10_000);
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

/** Why a proof that was given is not good enough for the runner to start; null when it is, or none was given. */
export function proofDeclined(attempt: Attempt): { readonly misfit: boolean; readonly why: string } | null {
  const { proof, knownBad } = attempt;
  if (proof === null) return null;
  const misfit = judgeProof(proof, attempt);
  if (misfit !== null) return { misfit: true, why: misfit };
  if (knownBad < DECLINED_FROM) return null;
  return { misfit: false, why: `The GPU ${proof.gpuUuid} failed ${knownBad} times lately.` };
}

/** Why the pod is dead, by what was seen of it before and now; null while nothing says so. */
export function podDead(pod: PodFacts, attempt: Attempt): string | null {
  const before = { runtimeSeen: attempt.pod?.runtimeSeen ?? false, startedAtMs: attempt.pod?.startedAt ?? null };
  const why = deadWhy(before, { status: pod.status, runtimeUp: pod.runtimeUp, startedAtMs: pod.startedAt });
  return why === null ? null : DEATHS[why];
}

const DEATHS: Readonly<Record<DeadWhy, string>> = {
  error: "RunPod reports an error of the pod.",
  exited: "RunPod reports that the pod has exited.",
  terminated: "RunPod reports that the pod was terminated.",
  "runtime-lost": "The container stopped.",
  restarted: "RunPod restarted the container.",
};

/** Folds a sighting into the stored pod. The first start time stays: a restart loop must not move deadlines. */
export function rememberPod(attempt: Attempt, pod: PodFacts, now: Millis): Attempt {
  const { pod: known, boot } = attempt;
  return {
    ...attempt,
    boot: {
      machineAt: boot.machineAt ?? (pod.machineAssigned ? now : null),
      containerAt: boot.containerAt ?? (pod.runtimeUp === true ? now : null),
    },
    pod: {
      id: pod.id,
      gpuId: pod.gpuId ?? known?.gpuId ?? null,
      // The rate is shown while the pod runs and 0 afterwards: the last positive one counts.
      pricePerHour:
        pod.pricePerHour !== null && pod.pricePerHour > 0 ? pod.pricePerHour : (known?.pricePerHour ?? null),
      dataCenterId: pod.dataCenterId ?? known?.dataCenterId ?? null,
      startedAt: known?.startedAt ?? pod.startedAt,
      runtimeSeen: (known?.runtimeSeen ?? false) || pod.runtimeUp === true,
      machineSeen: (known?.machineSeen ?? false) || pod.machineAssigned,
    },
  };
}

/** What a call of the start script says of the container's beginning; a look may have shown it earlier. */
export function bootedBy({ boot }: Attempt, upMs: Millis | null, now: Millis): Attempt["boot"] {
  // A script that does not say was up by now.
  const saidAt = now - Math.max(0, upMs ?? 0);
  return { ...boot, containerAt: Math.min(boot.containerAt ?? saidAt, saidAt) };
}

/**
 * The instant setup and lifetime are measured from: the first start time we stored, else our create time. That start is in
 * RunPod's clock, and ours bounds it: no pod starts before its create was sent, or after its runner was seen online.
 */
export function paidStart({ pod, createSentAt, paidFrom, onlineAt }: Attempt): Millis {
  const asked = createSentAt ?? paidFrom ?? 0;
  const told = pod?.startedAt ?? asked;
  return Math.max(asked, Math.min(told, onlineAt ?? told));
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
/** A job that may have passed, and whose check with the evidence GitHub says is gone: one such answer is no news (I11). */
export function lacksCheck(job: JobFacts | null): boolean {
  return job?.status === "completed" && job.conclusion === "success" && job.checkGone === true;
}

export function judgeJob(job: JobFacts, attempt: Attempt, terms: Terms, admission: Admission): Verdict {
  if (strangerHasIt(job, attempt)) {
    return verdict(
      "infrastructure",
      "strangers-job",
      "Another runner ran this request's job; its result says nothing.",
    );
  }
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
  if (attempt.runner === null || job.runnerId !== attempt.runner.id)
    return "The job did not run on this request's runner.";
  for (const name of terms.evidence.testSteps) {
    const step = declared.find((candidate) => candidate.name === name);
    if (step === undefined) return `The declared test step '${name}' is not in the job.`;
    if (step.status !== "completed" || step.conclusion !== "success") return `The test step '${name}' did not succeed.`;
  }
  if (lacksCheck(job)) return "GitHub no longer has the job's check, which held its evidence.";
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

/** Which of the "no GPU needed" reasons the classifier's answer is. */
export function notRequiredReason(admission: Admission): CodesOf<"not-required"> {
  if (admission.classification === "docs-only") return "docs-only";
  if (admission.classification === "ci-only") return "hosted-only";
  return "policy-not-required";
}
