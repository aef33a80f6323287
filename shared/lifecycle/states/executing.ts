/**
 * Executing: an accepted pod runs the one GPU job. Polling is the truth; webhooks and the pod's calls only bring the next
 * look forward. Deadlines are measured from the first start time we stored and never move.
 *
 * Order of one look: is the pull request still the one admitted, has the job ended, does a stranger have the runner, does
 * the pod live, is a deadline over.
 */
import type { CodesOf } from "../../audit/reasons.ts";
import type { Millis } from "../../ports.ts";
import { followsPull, judgeJob, obsolete, paidStart, podDead, rememberPod, strangerHasIt, testsEntered } from "../judge.ts";
import type { Attempt, GateRequest, Resume, StateOf } from "../model.ts";
import { audit, go, ignore, type Step, type Surroundings } from "../step.ts";
import type { Done, Observation, Want } from "../tasks.ts";
import { verdict, type Verdict } from "../verdict.ts";
import { startCleaning, withJob } from "./cleaning.ts";
import { limitsOf } from "./early.ts";

type Executing = StateOf<"executing">;

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
  };
  const accepted: GateRequest = {
    ...request,
    // A pod that registered breaks the row of pods that never did.
    counts: { ...request.counts, startupFailures: 0 },
    gpu: attempt.pod?.gpuId ?? null,
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
  const attempt = facts === null ? before.attempt : rememberPod(before.attempt, facts);
  const jobSeen = seen.job;
  const silent = jobSeen !== undefined && !jobSeen.known;
  const run = jobSeen?.known === true ? jobSeen.value : null;
  const job = run !== null && run !== "gone" ? run.job : null;
  const idle = facts === null ? null : facts.idle;
  const state: Executing = {
    ...before,
    attempt,
    jobId: job?.id ?? before.jobId,
    testsStarted: before.testsStarted || (job !== null && testsEntered(job, terms)),
    githubSilentSince: silent ? (before.githubSilentSince ?? now) : null,
    // Unknown is not idle: only RunPod's own word that nothing works keeps the clock running.
    idleSince: idle === true ? (before.idleSince ?? now) : idle === false ? null : before.idleSince,
    absent: sighting === null ? before.absent : sighting.pod === null && sighting.getGone ? before.absent + 1 : 0,
    runMissing: run === "gone" ? before.runMissing + 1 : run === null ? before.runMissing : 0,
  };

  if (request.stop !== null) return end(request, state, request.stop, around);
  const gone = obsolete(request, seen.pull);
  if (gone !== null) return end(request, state, gone, around);

  if (run === "gone" && state.runMissing >= 2) {
    return end(request, state, verdict("infrastructure", "workflow-unavailable", "The GPU run is gone from GitHub."), around);
  }
  if (job !== null && job.status === "completed") {
    const ended = judgeJob(job, attempt, terms, admission);
    const known = withJob(request, job.evidence, job.url, job.failures);
    return startCleaning(
      known,
      { hold: state.hold, attempt, prepareRun: null, resume: null, jobEnded: true },
      ended,
      around,
      false,
    );
  }
  if (run !== null && run !== "gone" && run.runStatus === "completed" && job === null) {
    const ended =
      run.runConclusion === "cancelled"
        ? verdict("cancelled", "cancelled-by-user", "The GPU run was cancelled on GitHub.")
        : verdict("infrastructure", "no-evidence", "The GPU run ended without running its job.");
    return end(request, state, ended, around);
  }
  if (job !== null && strangerHasIt(job, attempt)) return stranger(request, state, around);
  const runner = seen.runner?.known === true ? seen.runner.value : null;
  if (runner !== null && runner !== "gone" && runner.busy && job !== null && job.runnerId === null) {
    return stranger(request, state, around);
  }

  if (dead !== null) return giveUp(request, state, "pod-lost", dead, around);
  if (attempt.exit !== null) {
    const code = attempt.exit.code === null ? "" : ` with code ${attempt.exit.code}`;
    return giveUp(request, state, "pod-lost", `The runner on the pod ended${code}.`, around);
  }
  if (state.absent >= 2) return giveUp(request, state, "pod-lost", "RunPod no longer knows the pod.", around);
  if (state.githubSilentSince !== null && state.idleSince !== null && now - state.idleSince >= limits.githubOutageIdle) {
    return giveUp(request, state, "github-outage", "GitHub did not answer and the pod was idle.", around);
  }

  const overdue = deadlinePassed(state, request, now);
  if (overdue !== null) return end(request, state, overdue, around);

  const idleUntil = (attempt.onlineAt ?? now) + limits.runnerIdle;
  const untouched = state.jobId !== null ? job !== null && job.runnerId === null : !silent;
  if (!state.testsStarted && untouched && job?.status !== "in_progress" && now >= idleUntil && !silent) {
    return idleRunner(request, state, around);
  }
  const poll = state.testsStarted ? limits.testPoll : limits.watchPoll;
  return go(request, state, observe(request, state), Math.min(now + poll, Math.max(now, nextDeadline(state, request))));
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

function stranger(request: GateRequest, state: Executing, around: Surroundings): Step {
  return giveUp(request, state, "strangers-job", "Another job was given to this request's runner.", around);
}

function idleRunner(request: GateRequest, state: Executing, around: Surroundings): Step {
  const allowed = request.terms?.runnerIdleRetries ?? 0;
  const ended = verdict("infrastructure", "idle-runner", "The runner was online but GitHub gave it no job.");
  if (request.counts.idleRetries >= allowed) return end(request, state, ended, around);
  const counted = { ...request, counts: { ...request.counts, idleRetries: request.counts.idleRetries + 1 } };
  return giveUp(counted, state, "idle-runner", ended.detail, around);
}

function resumeOf(state: Executing): Resume {
  return {
    plan: state.plan,
    walk: state.walk,
    prepared: state.prepared,
    backToPreparing: state.backToPreparing,
  };
}
