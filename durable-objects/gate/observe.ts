/**
 * Observations: the facts a state asked for, each read on its own. What cannot be read is unknown, and says why; one
 * unreadable fact never hides the others.
 */
import { describeFailure, type GitHubFailure } from "../../shared/github/failure.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import type { Job, Run } from "../../shared/github/actions.ts";
import type { CheckRun } from "../../shared/github/checks.ts";
import { readEvidence } from "../../shared/hosted/evidence.ts";
import { LOOK_UP_JOB } from "../../shared/hosted/prepare-jobs.ts";
import { evaluatePreGate } from "../../shared/lifecycle/pre-gate.ts";
import type {
  ExecuteFacts,
  JobFacts,
  Observation,
  PodFacts,
  PodSighting,
  PrepareFacts,
  Seen,
  Want,
} from "../../shared/lifecycle/tasks.ts";
import type { Pod } from "../../shared/runpod/pod.ts";
import type { Millis } from "../../shared/ports.ts";
import type { GatePorts } from "./ports.ts";

export interface ObserveContext {
  readonly github: GitHubClient;
  readonly ports: GatePorts;
  readonly dueAt: Millis;
  /** The request's own pause between two looks while its tests run. */
  readonly tickMs: Millis;
}

/** A repository that looks seldom still gets news no older than this. */
const LONGEST_TICK_MS = 5_000;

/** Reads everything wanted. RunPod and GitHub are asked side by side: one that is slow must not delay the other's news. */
export async function observe(want: Want, context: ObserveContext): Promise<Observation> {
  const { github } = context;
  const [pull, triggerRun, prepareRun, preGate, job, pod, runner] = await Promise.all([
    want.pull === undefined ? undefined : observePull(want.pull, github),
    want.triggerRun === undefined ? undefined : observeTrigger(want.triggerRun, github),
    want.prepareRun === undefined ? undefined : observePrepare(want.prepareRun, github),
    want.preGate === undefined ? undefined : observePreGate(want.preGate, github),
    want.job === undefined ? undefined : observeJob(want.job, github),
    want.pod === undefined ? undefined : observePod(want.pod.id, context),
    want.runner === undefined ? undefined : observeRunner(want.runner.id, github),
  ]);
  return {
    ...(pull === undefined ? {} : { pull }),
    ...(triggerRun === undefined ? {} : { triggerRun }),
    ...(prepareRun === undefined ? {} : { prepareRun }),
    ...(preGate === undefined ? {} : { preGate }),
    ...(job === undefined ? {} : { job }),
    ...(pod === undefined ? {} : { pod }),
    ...(runner === undefined ? {} : { runner }),
  };
}

async function observePull(number: number, github: GitHubClient): Promise<NonNullable<Observation["pull"]>> {
  const answer = await github.getPull(number);
  if (!answer.ok) return goneOr(answer.error);
  const pull = answer.value;
  return {
    known: true,
    value: {
      open: pull.state === "open",
      headSha: pull.headSha,
      baseRef: pull.baseRef,
      headRepositoryId: pull.headRepositoryId,
      draft: pull.draft,
    },
  };
}

function hasBegun({ status }: Run): boolean {
  return status === "in_progress" || status === "completed";
}

/**
 * The newest run of the trigger workflow that tests this head and has begun, of the account of `want.by` if it has one: a look
 * that comes late, after an hour without GitHub, must not take another pull request's run for it. Where that account has none by
 * the time when anybody's counts, a run of the author is nearer to this pull request than the newest of the commit.
 */
async function observeTrigger(
  want: NonNullable<Want["triggerRun"]>,
  github: GitHubClient,
): Promise<NonNullable<Observation["triggerRun"]>> {
  const file = want.path.split("/").at(-1) ?? want.path;
  const answer = await github.listRuns({ workflowFile: file, headSha: want.headSha, event: "pull_request" });
  if (!answer.ok) {
    // No such workflow: nothing has started, and nothing will.
    return answer.error.reason === "not-found" ? { known: true, value: null } : unknown(answer.error);
  }
  const runs = answer.value.items
    .filter((run) => run.path === want.path && run.headSha === want.headSha)
    // A fork may have the same commit: its run, and who started it, are not this pull request's.
    .filter((run) => run.headRepositoryId === github.repository.id)
    .toSorted((a, b) => (b.createdAt ?? 0) - (a.createdAt ?? 0));
  const begun = runs.filter(hasBegun);
  const by = (run: Run) => run.triggeringActor ?? run.actor;
  const of = (whose: string | undefined, among = begun) =>
    whose === undefined ? undefined : among.find((one) => by(one)?.id === whose);
  // Theirs is there and has not begun: it is waited for, and nobody else's is taken meanwhile.
  const waits = [want.by, want.author].some((whose) => of(whose) === undefined && of(whose, runs) !== undefined);
  if (want.by !== undefined && of(want.by) === undefined && waits) return { known: true, value: null };
  const isAnybodys = want.by === undefined || want.orAnybodys === true;
  const run = of(want.by) ?? (isAnybodys ? (of(want.author) ?? begun[0]) : undefined);
  if (run === undefined) return { known: true, value: null };
  const actor = by(run);
  if (actor === null) return { known: false, why: "GitHub did not say who started the trigger run", retryAt: null };
  return { known: true, value: { runId: run.id, status: run.status ?? "", actor } };
}

async function observePrepare(
  run: { runId: string; attempt: number },
  github: GitHubClient,
): Promise<Seen<PrepareFacts | "gone">> {
  const answer = await github.getRunAttempt(run.runId, run.attempt);
  if (!answer.ok) return goneOr(answer.error);
  const { status, conclusion, htmlUrl } = answer.value;
  const facts = { status: status ?? "unknown", conclusion, url: htmlUrl };
  if (status !== "completed") return { known: true, value: { ...facts, failedJobs: [], artifacts: [] } };
  if (conclusion !== "success") {
    const jobs = await github.listJobs(run.runId, run.attempt);
    if (!jobs.ok) return unknown(jobs.error);
    // GitHub lists a job that forgives itself as failed all the same: the run failed for another reason than that one.
    const failed = jobs.value.items.filter(
      ({ name, conclusion: its }) => name !== LOOK_UP_JOB && (its === "failure" || its === "timed_out"),
    );
    if (conclusion === "failure" && failed.length === 0 && !jobs.value.complete) return cut("jobs");
    return { known: true, value: { ...facts, failedJobs: failed.map((job) => job.name), artifacts: [] } };
  }
  const artifacts = await github.listArtifacts(run.runId);
  if (!artifacts.ok) return unknown(artifacts.error);
  if (!artifacts.value.complete) return cut("artifacts");
  return {
    known: true,
    value: {
      ...facts,
      failedJobs: [],
      artifacts: artifacts.value.items
        .filter((artifact) => !artifact.expired)
        .map((artifact) => ({
          id: artifact.id,
          name: artifact.name,
          digest: artifact.digest,
          expiresAt: artifact.expiresAt,
        })),
    },
  };
}

async function observePreGate(
  want: NonNullable<Want["preGate"]>,
  github: GitHubClient,
): Promise<NonNullable<Observation["preGate"]>> {
  const listed = await latestChecks(want, github);
  if (!Array.isArray(listed)) return listed;
  const judged = evaluatePreGate(
    want.names,
    listed.map((run) => ({
      name: run.name,
      status: run.status,
      conclusion: run.conclusion,
      startedAt: run.startedAt,
      createdAt: null,
    })),
  );
  switch (judged.decision) {
    case "ready":
      return { known: true, value: { kind: "ready" } };
    case "wait":
      return { known: true, value: { kind: "wait", for: [...judged.missing, ...judged.pending] } };
    case "fail":
      return { known: true, value: { kind: "failed", names: judged.failed } };
    default:
      return { known: false, why: "the pre-gate gave no decision", retryAt: null };
  }
}

/**
 * The newest check runs of the wanted names. A head may have more checks than are read, or get one while its pages are: then
 * each name is asked for on its own, whose list is short.
 */
async function latestChecks(
  { headSha, names }: NonNullable<Want["preGate"]>,
  github: GitHubClient,
): Promise<CheckRun[] | Extract<Seen<never>, { known: false }>> {
  const all = await github.listCheckRunsForRef(headSha, { filter: "latest" });
  if (!all.ok) return unknown(all.error);
  if (all.value.complete) return [...all.value.items];
  const found: CheckRun[] = [];
  for (const name of names) {
    const named = await github.listCheckRunsForRef(headSha, { filter: "latest", name });
    if (!named.ok) return unknown(named.error);
    if (!named.value.complete) return cut("checks");
    found.push(...named.value.items);
  }
  return found;
}

async function observeJob(want: NonNullable<Want["job"]>, github: GitHubClient): Promise<Seen<ExecuteFacts | "gone">> {
  const [latest, listed] = await Promise.all([
    github.getRun(want.run.runId),
    github.listJobs(want.run.runId, want.run.attempt),
  ]);
  if (!latest.ok) return goneOr(latest.error);
  if (!listed.ok) return goneOr(listed.error);
  const job = listed.value.items.find((candidate) => candidate.name === want.jobName) ?? null;
  if (job === null && !listed.value.complete) return cut("jobs");
  const facts = job === null ? null : await jobFacts(job, github);
  if (facts !== null && "known" in facts) return facts;
  // A later attempt says nothing about ours: its end is told by our own attempt's jobs.
  const ours = latest.value.attempt === want.run.attempt;
  return {
    known: true,
    value: {
      runStatus: ours ? (latest.value.status ?? "unknown") : "completed",
      runConclusion: ours ? latest.value.conclusion : null,
      latestAttempt: latest.value.attempt,
      job: facts,
    },
  };
}

async function jobFacts(job: Job, github: GitHubClient): Promise<JobFacts | Extract<Seen<never>, { known: false }>> {
  let evidence: JobFacts["evidence"] = null;
  let failures: string[] = [];
  let checkGone = false;
  if (job.status === "completed" && job.checkRunId !== null) {
    const annotations = await github.getCheckRunAnnotations(job.checkRunId);
    if (!annotations.ok && !goneOr(annotations.error).known) return unknown(annotations.error);
    checkGone = !annotations.ok;
    const items = annotations.ok ? annotations.value.items : [];
    const read = readEvidence(
      items.map((one) => ({ title: one.title, message: one.message, annotation_level: one.level })),
    );
    if (read.ok) evidence = { tests: read.value.tests, seconds: read.value.durationMs / 1000 };
    failures = items
      .filter((one) => one.level === "failure")
      .map((one) => one.title ?? one.message ?? "")
      .filter((text) => text !== "")
      .slice(0, 50);
  }
  const failedSteps = job.steps.filter((step) => step.conclusion === "failure").map((step) => step.name);
  return {
    id: job.id,
    status: job.status,
    conclusion: job.conclusion,
    runnerId: job.runnerId,
    startedAt: job.startedAt,
    completedAt: job.completedAt,
    steps: job.steps.map((step) => ({ name: step.name, status: step.status, conclusion: step.conclusion })),
    url: job.htmlUrl ?? "",
    evidence,
    failures: failures.length > 0 ? failures : failedSteps,
    ...(checkGone ? { checkGone } : {}),
  };
}

/**
 * How old the list of a watch may be: one tick, the shortest pause between two looks. Gates tick each at its own instant; if
 * each wanted a list of its own, fifty pods would cost ten times RunPod's quota.
 */
export function watchedSince(dueAt: Millis, tickMs: Millis): Millis {
  return dueAt - Math.min(tickMs, LONGEST_TICK_MS);
}

async function observePod(podId: string, context: ObserveContext): Promise<Seen<PodSighting>> {
  const listing = await context.ports.account.listPods(watchedSince(context.dueAt, context.tickMs));
  if (!listing.ok) return { known: false, why: listing.why, retryAt: null };
  const listed = listing.value.pods.find((pod) => pod.id === podId);
  if (listed !== undefined) return { known: true, value: { pod: podFacts(listed), getGone: false } };
  if (!listing.value.complete) return cut("pods");
  // Lists lag behind creates: the pod itself is asked before anything is concluded from its absence.
  const answer = await context.ports.runpod.getPod(podId);
  switch (answer.kind) {
    case "pod":
      return { known: true, value: { pod: podFacts(answer.pod), getGone: false } };
    case "not-found":
      return { known: true, value: { pod: null, getGone: true } };
    case "failure":
      return { known: false, why: answer.failure.reason, retryAt: null };
    default:
      return { known: false, why: "RunPod gave no answer", retryAt: null };
  }
}

async function observeRunner(id: string, github: GitHubClient): Promise<NonNullable<Observation["runner"]>> {
  const answer = await github.getRunner(id);
  if (!answer.ok) return goneOr(answer.error);
  return { known: true, value: { online: answer.value.status === "online", busy: answer.value.busy } };
}

export function podFacts(pod: Pod): PodFacts {
  const busy =
    pod.gpuUtilization === null && pod.cpuUtilization === null
      ? null
      : (pod.gpuUtilization ?? []).some((percent) => percent > 0) || (pod.cpuUtilization ?? 0) > 5;
  return {
    id: pod.id,
    name: pod.name,
    status: pod.status,
    gpuId: pod.gpuId,
    gpuCount: pod.gpuCount,
    cloud: pod.cloud,
    dataCenterId: pod.dataCenterId,
    machineAssigned: pod.sshAssigned || pod.dataCenterId !== null,
    runtimeUp: pod.runtimeUp,
    idle: busy === null ? null : !busy,
    pricePerHour: pod.costPerHour,
    startedAt: pod.startedAtMs,
  };
}

function goneOr(
  failure: GitHubFailure,
): { readonly known: true; readonly value: "gone" } | Extract<Seen<never>, { known: false }> {
  return failure.reason === "not-found" || failure.reason === "gone"
    ? { known: true, value: "gone" }
    : unknown(failure);
}

/** What a list lacks that was not read whole is not known to be absent (I11). */
function cut(what: "jobs" | "artifacts" | "checks" | "pods"): Extract<Seen<never>, { known: false }> {
  return { known: false, why: `the list of ${what} was cut`, retryAt: null };
}

function unknown(failure: GitHubFailure): Extract<Seen<never>, { known: false }> {
  return {
    known: false,
    why: describeFailure(failure),
    retryAt: failure.reason === "rate-limited" ? failure.retryAtMs : null,
  };
}
