/**
 * Cleaning: the pod (if any) is removed and proven gone, then the verdict stands.
 *
 * Two shapes. Usually the verdict is known when cleaning begins and the lock passes on as soon as absence is proven. When
 * the pod was given up before its job was read (`resume` is set), the lock is kept: after the proof the job is read, and
 * either what it says decides or one new attempt begins. None begins for a request that was told to stop meanwhile, nor
 * after the check has said that nothing more is bought.
 */
import { unreachable } from "../../result.ts";
import type { Attempt, GateRequest, Resume, StateOf, Terms } from "../model.ts";
import { judgeJob, lacksCheck } from "../judge.ts";
import { audit, backoff, conclude, go, ignore, type Extras, type Step, type Surroundings } from "../step.ts";
import type { Done, JobFacts } from "../tasks.ts";
import {
  advanceTeardown,
  beginTeardown,
  paidWindow,
  resumeTeardown,
  type TeardownMove,
  type TeardownScope,
} from "../teardown.ts";
import { verdict, type Verdict } from "../verdict.ts";
import { nextAttempt } from "./attempts.ts";
import { limitsOf } from "./early.ts";

type Cleaning = StateOf<"cleaning">;

export function startCleaning(
  request: GateRequest,
  what: {
    readonly hold: Cleaning["hold"];
    readonly attempt: Attempt | null;
    readonly prepareRun: Cleaning["prepareRun"];
    readonly resume: Resume | null;
    readonly jobEnded?: boolean;
  },
  ended: Verdict,
  around: Surroundings,
  deregisterFirst: boolean,
  extras: Extras = {},
): Step {
  const jobEnded = what.jobEnded ?? false;
  const scope = scopeOf(request, what.attempt, what.prepareRun, jobEnded);
  const move = beginTeardown(scope, deregisterFirst, around.now);
  const state: Cleaning = {
    kind: "cleaning",
    step: "remove",
    since: around.now,
    hold: what.hold,
    attempt: what.attempt,
    prepareRun: what.prepareRun,
    teardown: move.teardown,
    verdict: ended,
    resume: what.resume,
    lockReleased: false,
    jobEnded,
  };
  const pod = what.attempt?.pod?.id ?? null;
  const note = audit(pod === null ? "request.clean-up" : "pod.give-up", ended.reason, { verdict: ended.kind, pod });
  return follow(request, state, move, around, { ...extras, audit: [...(extras.audit ?? []), note] });
}

export function cleaning(request: GateRequest, state: Cleaning, done: Done, around: Surroundings): Step {
  if (state.step === "judge") return judged(request, state, done, around);
  const scope = scopeOf(request, state.attempt, state.prepareRun, state.jobEnded);
  const before = state.teardown;
  const move = advanceTeardown(before, done, scope, around.now);
  const newlyProven = before.provenAt === null && move.teardown.provenAt !== null && state.attempt?.pod !== null;
  if (newlyProven && state.resume !== null && state.attempt !== null) {
    // Absence first, then the job's own word: GitHub may be asked for as long as it takes, no money runs.
    return go(
      book(request, state.attempt, move.teardown),
      { ...state, step: "judge", teardown: { ...move.teardown, tries: 0 } },
      observeJob(state.attempt, request),
      around.now,
      ledgerClose(state.attempt, move.teardown, state.verdict.reason, around),
    );
  }
  return follow(request, { ...state, teardown: move.teardown }, move, around, {}, newlyProven);
}

function judged(request: GateRequest, state: Cleaning, done: Done, around: Surroundings): Step {
  if (done.task !== "observe") return ignore(request, "not this state's task");
  const attempt = state.attempt;
  const resume = state.resume;
  const terms = request.terms;
  const admission = request.admission;
  if (attempt === null || resume === null || terms === null || admission === null) {
    return ignore(request, "judging without an attempt");
  }
  const seen = done.outcome.job;
  const job = seen?.known === true && seen.value !== "gone" ? seen.value.job : null;
  const runSaysCompleted = seen?.known === true && seen.value !== "gone" && seen.value.runStatus === "completed";
  if (seen === undefined || !seen.known) {
    if (request.stop !== null) return finish(request, { ...state, verdict: request.stop, resume: null }, around);
    const tries = state.teardown.tries + 1;
    const limit = limitsOf(request).authorizeRetryFor;
    if (around.now - (state.teardown.provenAt ?? around.now) < limit) {
      const due = backoff(tries, around.now, seen?.retryAt ?? null);
      return go(request, { ...state, teardown: { ...state.teardown, tries } }, observeJob(attempt, request), due);
    }
    const silent = verdict("infrastructure", "github-outage", "GitHub did not say how the GPU job ended.");
    return finish(request, { ...state, verdict: silent, resume: null }, around);
  }
  const sinceProof = around.now - (state.teardown.provenAt ?? around.now);
  const soon = sinceProof < limitsOf(request).testPoll * 2;
  if (job !== null && job.status === "completed" && !(lacksCheck(job) && soon)) {
    const ended = judgeJob(job, attempt, terms, admission);
    if (standsBy(ended, state.verdict.reason, attempt, job)) {
      const known = withJob(request, job.evidence, job.url, job.failures);
      return finish(known, { ...state, verdict: ended, resume: null, jobEnded: true }, around);
    }
  }
  // An exit that beat GitHub's own news by a moment: look again before calling the pod lost.
  const early = job !== null && (lacksCheck(job) || (job.status !== "completed" && !runSaysCompleted));
  if (early && soon) {
    return go(request, state, observeJob(attempt, request), around.now + limitsOf(request).testPoll);
  }
  const kind = retryOf(state.verdict.reason);
  const mayRetry = request.stop === null && !state.teardown.loud && request.counts[kind] < allowedRetries(kind, terms);
  if (!mayRetry) return finish(request, { ...state, verdict: request.stop ?? state.verdict, resume: null }, around);
  const counts = { ...request.counts, [kind]: request.counts[kind] + 1 };
  return finish({ ...request, counts }, state, around);
}

/**
 * Whether the completed job has spoken. Tests that passed, failed or were cancelled have. A job that ended without
 * evidence has when its runner ended by itself; when the pod was lost under it, that is the lost pod's doing.
 */
function standsBy(ended: Verdict, givenUp: string, attempt: Attempt, job: JobFacts): boolean {
  if (ended.kind !== "infrastructure") return true;
  if (ended.reason === "strangers-job") return false;
  return job.conclusion === "success" || (givenUp === "pod-lost" && attempt.exit !== null);
}

type RetryKind = "lostRetries" | "idleRetries" | "outageRetries";

/** Which budget a further attempt is taken from: each reason has its own, so that one cannot eat up another's. */
function retryOf(reason: string): RetryKind {
  if (reason === "github-outage") return "outageRetries";
  return reason === "idle-runner" ? "idleRetries" : "lostRetries";
}

function allowedRetries(kind: RetryKind, terms: Terms): number {
  switch (kind) {
    case "outageRetries":
      return 1;
    case "idleRetries":
      return terms.runnerIdleRetries;
    case "lostRetries":
      return terms.podLostRetries;
    default:
      return unreachable(kind, "retry");
  }
}

/** Goes on with what follows the proof: cancel, deregister, settle. */
function finish(request: GateRequest, state: Cleaning, around: Surroundings): Step {
  const scope = scopeOf(request, state.attempt, state.prepareRun, state.jobEnded);
  const move = resumeTeardown({ ...state.teardown, tries: 0 }, scope, around.now);
  const release = state.resume === null && state.hold !== null && !state.lockReleased;
  const next: Cleaning = { ...state, step: "remove", teardown: move.teardown };
  if (move.kind === "done") return follow(request, next, move, around, {});
  const released: Cleaning = { ...next, lockReleased: state.lockReleased || release };
  return go(request, released, move.task, move.dueAt, { lock: release ? "release" : null });
}

function follow(
  request: GateRequest,
  state: Cleaning,
  move: TeardownMove,
  around: Surroundings,
  extras: Extras,
  newlyProven = false,
): Step {
  const closing: Extras =
    newlyProven && state.attempt !== null
      ? ledgerClose(state.attempt, move.teardown, state.verdict.reason, around)
      : {};
  const booked = newlyProven && state.attempt !== null ? book(request, state.attempt, move.teardown) : request;
  // The lock is held to the proof and not longer, unless another attempt may follow under it.
  const proven = move.teardown.provenAt !== null;
  const release = proven && state.resume === null && state.hold !== null && !state.lockReleased;
  const all: Extras = {
    ...extras,
    ledger: [...(extras.ledger ?? []), ...(closing.ledger ?? [])],
    audit: [...(extras.audit ?? []), ...(closing.audit ?? [])],
  };
  if (move.kind === "done") {
    if (state.resume !== null && state.attempt !== null && state.hold !== null) {
      return nextAttempt(
        booked,
        { hold: state.hold, prepared: state.resume.prepared, backToPreparing: state.resume.backToPreparing },
        state.resume.plan,
        state.resume.walk,
        // A pod that was lost is replaced on another host; one given up for other reasons was good where it was.
        { freshClock: true, advance: retryOf(state.verdict.reason) === "lostRetries", pauseMs: 0 },
        state.verdict,
        around,
        all,
      );
    }
    return conclude({ ...booked, state }, state.verdict, around.now, all);
  }
  const loud = markLoud(move.teardown, request, around);
  return go(booked, { ...state, teardown: loud, lockReleased: state.lockReleased || release }, move.task, move.dueAt, {
    ...all,
    lock: release ? "release" : null,
  });
}

/** After ten minutes without proof the check says so, loudly; the removal goes on for ever. */
export function markLoud(
  teardown: Cleaning["teardown"],
  request: GateRequest,
  around: Surroundings,
): Cleaning["teardown"] {
  const limit = request.terms?.limits.deletionLoudAfter ?? 600_000;
  const late = teardown.provenAt === null && around.now - teardown.startedAt >= limit;
  return late && !teardown.loud ? { ...teardown, loud: true } : teardown;
}

export function ledgerClose(
  attempt: Attempt,
  teardown: Cleaning["teardown"],
  outcome: string,
  around: Surroundings,
): { ledger: Step["ledger"]; audit: Step["audit"] } {
  if (attempt.pod === null || teardown.deletedAt === null) return { ledger: [], audit: [] };
  const window = paidWindow(attempt, teardown);
  return {
    ledger: [
      {
        kind: "close",
        attemptId: attempt.id,
        podId: attempt.pod.id,
        closedAt: teardown.deletedAt,
        provenAt: teardown.provenAt ?? around.now,
        pricePerHour: teardown.recordPrice ?? attempt.pod.pricePerHour ?? attempt.candidate?.price ?? null,
        estimateMicros: window?.micros ?? null,
        outcome,
      },
    ],
    audit: [
      audit("pod.proven-gone", outcome, { pod: attempt.pod.id, attempt: attempt.id, paidMs: window?.ms ?? null }),
    ],
  };
}

/** Adds a closed pod to what the request has cost. */
export function book(request: GateRequest, attempt: Attempt, teardown: Cleaning["teardown"]): GateRequest {
  const window = paidWindow(attempt, teardown);
  if (window === null) return request;
  return {
    ...request,
    spentMicros: request.spentMicros + (window.micros ?? 0),
    paidMs: request.paidMs + window.ms,
    gpu: attempt.pod?.gpuId ?? request.gpu,
    kernel: attempt.pod === null ? request.kernel : attempt.proof?.kernel,
    pricePerHour: teardown.recordPrice ?? attempt.pod?.pricePerHour ?? request.pricePerHour,
  };
}

export function withJob(
  request: GateRequest,
  evidence: { readonly tests: number; readonly seconds: number | null } | null,
  url: string,
  failures: readonly string[],
): GateRequest {
  return {
    ...request,
    tests: evidence === null ? request.tests : { count: evidence.tests, seconds: evidence.seconds },
    failedSteps: [...failures],
    runUrl: url,
  };
}

export function scopeOf(
  request: GateRequest,
  attempt: Attempt | null,
  prepareRun: Cleaning["prepareRun"],
  jobEnded: boolean,
): TeardownScope {
  return { attempt, run: attempt?.run ?? prepareRun, jobEnded, limits: limitsOf(request) };
}

function observeJob(attempt: Attempt, request: GateRequest) {
  const run = attempt.run ?? { runId: "", attempt: 0 };
  const jobName = request.terms?.evidence.jobName ?? "";
  return { kind: "observe", want: { job: { run, jobName } } } as const;
}
