/**
 * Executing: an accepted pod runs the one GPU job. Polling is the truth; webhooks and the pod's calls only bring the next
 * look forward. Deadlines are measured from the first start time we stored and never move.
 *
 * Order of one look: is the pull request still the one admitted, has the job ended, does a stranger have the runner, does
 * the pod live, is a deadline over.
 */
import type { CodesOf } from "../../audit/reasons.ts";
import type { Millis } from "../../ports.ts";
import {
  followsPull,
  judgeJob,
  lacksCheck,
  obsolete,
  paidStart,
  podDead,
  rememberPod,
  strangerHasIt,
  testsEntered,
} from "../judge.ts";
import { awaitsJobEnd, retain, type Retain } from "../keep.ts";
import { runnerRefused, RUNNER_REFUSED } from "../last-words.ts";
import type { Attempt, GateRequest, Resume, StateOf } from "../model.ts";
import { audit, go, ignore, nextLook, type Step, type Surroundings } from "../step.ts";
import type { Done, Observation, Want } from "../tasks.ts";
import { verdict, type Verdict } from "../verdict.ts";
import { startCleaning, withJob } from "./cleaning.ts";
import { limitsOf } from "./early.ts";

type Executing = StateOf<"executing">;

/** Looks in a row that show our runner busy with a job that is not ours, before it is believed. */
const STRANGE_LOOKS = 2;

export function startExecuting(
  request: GateRequest,
  from: StateOf<"provisioning">,
  attempt: Attempt,
  around: Surroundings,
): Step {
  const state: Executing = {
    kind: "executing",
    since: around.now,
    hold: from.hold,
    prepared: from.prepared,
    backToPreparing: from.backToPreparing,
    plan: from.plan,
    walk: from.walk,
    attempt,
    testsStarted: false,
    jobId: null,
    githubSilentSince: null,
    idleSince: null,
    absent: 0,
    runMissing: 0,
    strangeLooks: 0,
    checkGoneSince: null,
  };
  const accepted: GateRequest = {
    ...request,
    // A pod that registered breaks the row of pods that never did.
    counts: { ...request.counts, startupFailures: 0 },
    gpu: attempt.pod?.gpuId ?? null,
    kernel: attempt.proof?.kernel,
    pricePerHour: attempt.pod?.pricePerHour ?? null,
  };
  return go(accepted, state, observe(accepted, state), around.now, {
    audit: [
      audit("pod.accept", null, {
        pod: attempt.pod?.id ?? null,
        attempt: attempt.id,
        gpu: attempt.proof?.gpuName ?? null,
        driverCuda: attempt.proof?.driverCuda ?? null,
      }),
    ],
  });
}

export function executing(request: GateRequest, before: Executing, done: Done, around: Surroundings): Step {
  if (done.task !== "observe") return ignore(request, "not this state's task");
  const seen: Observation = done.outcome;
  const terms = request.terms;
  const admission = request.admission;
  if (terms === null || admission === null) return ignore(request, "executing without terms");
  const limits = limitsOf(request);
  const now = around.now;

  const sighting = seen.pod?.known === true ? seen.pod.value : null;
  const facts = sighting?.pod ?? null;
  const dead = facts === null ? null : podDead(facts, before.attempt);
  const attempt = facts === null ? before.attempt : rememberPod(before.attempt, facts, now);
  const jobSeen = seen.job;
  const silent = jobSeen !== undefined && !jobSeen.known;
  const run = jobSeen?.known === true ? jobSeen.value : null;
  const job = run !== null && run !== "gone" ? run.job : null;
  // Only RunPod's own word that nothing works keeps the idle clock running: unknown is not idle (I11).
  const idle = facts !== null && facts.idle === true;
  const runner = seen.runner?.known === true && seen.runner.value !== "gone" ? seen.runner.value : null;
  // Two registries, read side by side: the runner may be busy with our job a moment before the job says so.
  const strange = runner?.busy === true && run !== null && run !== "gone" && (job === null || job.runnerId === null);
  const state: Executing = {
    ...before,
    attempt,
    jobId: job?.id ?? before.jobId,
    testsStarted: before.testsStarted || (job !== null && testsEntered(job, terms)),
    githubSilentSince: silent ? (before.githubSilentSince ?? now) : null,
    idleSince: idle ? (before.idleSince ?? now) : null,
    absent: sighting === null ? before.absent : sighting.pod === null && sighting.getGone ? before.absent + 1 : 0,
    runMissing: run === "gone" ? before.runMissing + 1 : run === null ? before.runMissing : 0,
    // Unknown leaves it as it is; an answer that has the check, or no ended job, ends it.
    checkGoneSince: lacksCheck(job) ? (before.checkGoneSince ?? now) : run === null ? before.checkGoneSince : null,
    strangeLooks: strange ? before.strangeLooks + 1 : runner === null || run === null ? before.strangeLooks : 0,
  };

  if (request.stop !== null) return end(request, state, request.stop, around);
  const gone = obsolete(request, seen.pull);
  if (gone !== null) return end(request, state, gone, around);

  if (run === "gone" && state.runMissing >= 2) {
    return end(
      request,
      state,
      verdict("infrastructure", "workflow-unavailable", "The GPU run is gone from GitHub."),
      around,
    );
  }
  if (job !== null && strangerHasIt(job, attempt)) {
    return giveUp(request, state, "strangers-job", "Another runner has this request's job.", around);
  }
  // A job of ours that did run on our runner answers a stranger's word.
  if (attempt.stranger !== null && (job === null || job.runnerId === null)) {
    const taken = `A job of run ${attempt.stranger} was given to this request's runner.`;
    return giveUp(request, state, "strangers-job", taken, around);
  }
  // GitHub hides behind a 404 what it cannot show at the moment: it has to say so twice, a poll apart.
  const settling = state.checkGoneSince !== null && now - state.checkGoneSince < limits.testPoll;
  if (job !== null && job.status === "completed" && !settling) {
    const ended = judgeJob(job, attempt, terms, admission);
    const known = withJob(request, job.evidence, job.url, job.failures);
    const kept = ended.kind === "infrastructure" ? null : retain(request.keep, attempt, ended.kind, now);
    if (kept !== null) return handOver(known, state, kept, ended, around);
    // A run whose tests never began may still be going on: it is cancelled like any other.
    const jobEnded = state.testsStarted;
    const what = { hold: state.hold, attempt, prepareRun: null, resume: null, jobEnded };
    return startCleaning(known, what, ended, around, false);
  }
  if (run !== null && run !== "gone" && run.runStatus === "completed" && job === null) {
    const ended =
      run.runConclusion === "cancelled"
        ? verdict("cancelled", "cancelled-by-user", "The GPU run was cancelled on GitHub.")
        : verdict("infrastructure", "no-evidence", "The GPU run ended without running its job.");
    return end(request, state, ended, around);
  }
  if (state.strangeLooks >= STRANGE_LOOKS) {
    return giveUp(request, state, "strangers-job", "Another job was given to this request's runner.", around);
  }

  // Too old a runner comes online, is told so, and ends before it has a job.
  if (runnerRefused(attempt.exit) && !state.testsStarted && (job === null || job.runnerId === null)) {
    return end(request, state, verdict("infrastructure", "runner-refused", RUNNER_REFUSED), around);
  }
  if (dead !== null) return giveUp(request, state, "pod-lost", dead, around);
  const silentSince = state.githubSilentSince;
  if (attempt.exit !== null && !awaitsJobEnd(request.keep, attempt, now)) {
    const code = attempt.exit.code === null ? "" : ` with code ${attempt.exit.code}`;
    const reason = silentSince === null ? "pod-lost" : "github-outage";
    return giveUp(request, state, reason, `The runner on the pod ended${code}.`, around);
  }
  // A newborn is missing from lists and unknown to GET for a while (N06, N127), also with its runner already at work.
  const newborn = now - (attempt.createSentAt ?? attempt.paidFrom ?? 0) < limits.newbornGrace;
  if (state.absent >= 2 && !newborn)
    return giveUp(request, state, "pod-lost", "RunPod no longer knows the pod.", around);
  if (silentSince !== null && state.idleSince !== null) {
    // Both at once for that long: a pod that idles while it sets up is no reason, nor is a busy one in an outage.
    const since = Math.max(silentSince, state.idleSince);
    if (now - since >= limits.githubOutageIdle) {
      return giveUp(request, state, "github-outage", "GitHub did not answer and the pod was idle.", around);
    }
  }

  const overdue = deadlinePassed(state, request, now);
  if (overdue !== null) return end(request, state, overdue, around);

  // Only what GitHub says counts: the run is known, and its job, if it is listed at all, was given to nobody.
  const unclaimed = run !== null && run !== "gone" && (job === null ? state.jobId === null : job.runnerId === null);
  const notBegun = !state.testsStarted && job?.status !== "in_progress";
  if (notBegun && unclaimed && now >= (attempt.onlineAt ?? now) + limits.runnerIdle) {
    return giveUp(request, state, "idle-runner", "The runner was online but GitHub gave it no job.", around);
  }
  const poll = state.testsStarted || settling || attempt.exit !== null ? limits.testPoll : limits.watchPoll;
  return go(
    request,
    state,
    observe(request, state),
    Math.min(nextLook(now, poll, seen), Math.max(now, nextDeadline(state, request))),
  );
}

/**
 * The pod goes to a removal lane of its own, which begins later; the request is cleaned up as one that has no pod any more.
 * The attempt's money stays reserved with the pod.
 */
function handOver(request: GateRequest, state: Executing, kept: Retain, ended: Verdict, around: Surroundings): Step {
  const { podId, until, by } = kept;
  const keep = request.keep === undefined ? undefined : { ...request.keep, podId, until };
  const known = keep === undefined ? request : { ...request, keep };
  const what = { hold: state.hold, attempt: null, prepareRun: state.attempt.run, resume: null, jobEnded: true };
  const step = startCleaning(known, what, ended, around, false);
  const note = audit("pod.retained", ended.reason, { pod: podId, until, by, why: kept.reason });
  return { ...step, retain: kept, audit: [...step.audit, note] };
}

/** The deadlines of an accepted pod. Unknown answers never extend one. */
export function nextDeadline(state: Executing, request: GateRequest): Millis {
  const limits = limitsOf(request);
  const start = paidStart(state.attempt);
  const hard = (state.attempt.createSentAt ?? start) + limits.backstop;
  const lifetime = start + limits.lifetime;
  return state.testsStarted ? Math.min(lifetime, hard) : Math.min(start + limits.setup, lifetime, hard);
}

function deadlinePassed(state: Executing, request: GateRequest, now: Millis): Verdict | null {
  const limits = limitsOf(request);
  const start = paidStart(state.attempt);
  if (now >= (state.attempt.createSentAt ?? start) + limits.backstop) {
    return verdict("deadline", "backstop", `The pod reached the hard limit of ${seconds(limits.backstop)}.`);
  }
  if (now >= start + limits.lifetime) {
    return verdict("deadline", "lifetime", `The GPU job did not finish within ${seconds(limits.lifetime)}.`);
  }
  if (!state.testsStarted && now >= start + limits.setup) {
    return verdict("deadline", "setup-deadline", `The GPU tests did not start within ${seconds(limits.setup)}.`);
  }
  return null;
}

function seconds(millis: Millis): string {
  return `${Math.round(millis / 1000)} s`;
}

function observe(request: GateRequest, state: Executing): { kind: "observe"; want: Want } {
  const want: Want = {};
  const pull = followsPull(request);
  if (pull !== undefined) want.pull = pull;
  const attempt = state.attempt;
  if (attempt.run !== null) want.job = { run: attempt.run, jobName: request.terms?.evidence.jobName ?? "" };
  if (attempt.pod !== null) want.pod = { id: attempt.pod.id };
  // Until the job is on our runner, the registry tells whether somebody else's is.
  if (!state.testsStarted && attempt.runner !== null) want.runner = { id: attempt.runner.id };
  return { kind: "observe", want };
}

function end(request: GateRequest, state: Executing, ended: Verdict, around: Surroundings): Step {
  const what = { hold: state.hold, attempt: state.attempt, prepareRun: null, resume: null };
  return startCleaning(request, what, ended, around, false);
}

/** The pod goes now; what its job said is read after the proof. */
function giveUp(
  request: GateRequest,
  state: Executing,
  reason: CodesOf<"infrastructure">,
  detail: string,
  around: Surroundings,
): Step {
  const what = { hold: state.hold, attempt: state.attempt, prepareRun: null, resume: resumeOf(state) };
  return startCleaning(request, what, verdict("infrastructure", reason, detail), around, false);
}

function resumeOf(state: Executing): Resume {
  return {
    plan: state.plan,
    walk: state.walk,
    prepared: state.prepared,
    backToPreparing: state.backToPreparing,
  };
}
