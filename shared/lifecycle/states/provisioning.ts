/**
 * Provisioning: from the plan to an accepted pod, one attempt after the other (design 3.3).
 *
 * Each request, sleep and look-up is a step of its own, so that a moved head, a closed pull request and deadlines are
 * decided between them. This file holds the steps in front of the purchase: an attempt is complete (money reserved, runner
 * minted, run dispatched) before a pod is asked for. `renting.ts` buys and accepts the pod, `attempts.ts` ends attempts.
 */
import { unreachable } from "../../result.ts";
import type { Attempt, GateRequest } from "../model.ts";
import { audit, go, ignore, type Extras, type Step, type Surroundings } from "../step.ts";
import type { Done, Task } from "../tasks.ts";
import { verdict } from "../verdict.ts";
import { nextRequest, slept } from "../walk.ts";
import { endWith, paused, retry, rulesOf, SAME_CLOCK, tearingDown, tryAgain, type Provisioning } from "./attempts.ts";
import { limitsOf } from "./early.ts";
import { created, lookedUp, obey, starting } from "./renting.ts";

export function provisioning(request: GateRequest, state: Provisioning, done: Done, around: Surroundings): Step {
  if (state.step === "pause") return paused(request, state, done, around);
  const attempt = state.attempt;
  if (attempt === null) return ignore(request, "provisioning without an attempt");
  if (state.step === "teardown") return tearingDown(request, state, attempt, done, around);
  if (request.stop !== null && mayStop(state, done)) {
    return endWith(request, state, remembered(attempt, done), request.stop, around);
  }
  switch (state.step) {
    case "reserve":
      return reserved(request, state, attempt, done, around);
    case "mint":
      return minted(request, state, attempt, done, around);
    case "find-runner":
      return foundRunner(request, state, attempt, done, around);
    case "dispatch":
      return dispatched(request, state, attempt, done, around);
    case "find-run":
      return foundRun(request, state, attempt, done, around);
    case "create":
      return created(request, state, attempt, done, around);
    case "sleep": {
      const walk = slept(state.walk, done.task === "sleep" ? done.outcome.sleptMs : 0);
      const action = nextRequest(walk, state.plan.candidates, rulesOf(request), "same");
      return obey(request, { ...state, walk }, attempt, action, around);
    }
    case "look-up":
      return lookedUp(request, state, attempt, done, around);
    case "start":
      return starting(request, state, attempt, done, around);
    default:
      return unreachable(state.step, "provisioning step");
  }
}

/**
 * A word to stop, taken while a call was under way, is obeyed at the first moment it can be: not while a pod, a run or a
 * registration may exist that nobody could then remove. The step itself ends in the stop's verdict (`endWith`).
 */
function mayStop(state: Provisioning, done: Done): boolean {
  switch (state.step) {
    case "mint":
      return done.task === "mint" && (done.outcome.kind === "minted" || done.outcome.kind === "refused");
    case "dispatch":
      return done.task === "dispatch-execute" && done.outcome.kind !== "lost";
    case "find-runner":
    case "find-run":
    case "create":
    case "look-up":
      return false;
    case "reserve":
    case "sleep":
    case "start":
    case "pause":
    case "teardown":
      return true;
    default:
      return unreachable(state.step, "provisioning step");
  }
}

/** What the outcome itself teaches about the attempt, kept even when the request is being stopped. */
function remembered(attempt: Attempt, done: Done): Attempt {
  if (done.task === "mint" && done.outcome.kind === "minted") {
    return { ...attempt, runner: { id: done.outcome.runnerId, name: attempt.podName } };
  }
  if (done.task === "dispatch-execute" && done.outcome.kind === "dispatched") {
    return { ...attempt, run: { runId: done.outcome.runId, attempt: 1 } };
  }
  return attempt;
}

function reserved(request: GateRequest, state: Provisioning, attempt: Attempt, done: Done, around: Surroundings): Step {
  if (done.task !== "reserve") return ignore(request, "not this step's task");
  const outcome = done.outcome;
  switch (outcome.kind) {
    case "reserved":
      return step(request, state, attempt, "mint", mintTask(attempt), around);
    case "over-cap":
      return endWith(
        request,
        state,
        attempt,
        outcome.because === undefined
          ? verdict("over-budget", "over-budget", outcome.detail)
          : verdict("refused", outcome.because, outcome.detail),
        around,
      );
    case "unknown": {
      const detail = `Money could not be reserved, so nothing was bought: ${outcome.why}`;
      const task: Task = { kind: "reserve", attemptId: attempt.id, micros: attempt.reservedMicros };
      return (
        tryAgain(request, state, task, null, around) ??
        endWith(request, state, attempt, verdict("infrastructure", "account-unreachable", detail), around)
      );
    }
    default:
      return unreachable(outcome, "reserve outcome");
  }
}

function minted(request: GateRequest, state: Provisioning, attempt: Attempt, done: Done, around: Surroundings): Step {
  if (done.task !== "mint") return ignore(request, "not this step's task");
  const outcome = done.outcome;
  switch (outcome.kind) {
    case "minted": {
      const known: Attempt = {
        ...attempt,
        runner: { id: outcome.runnerId, name: attempt.podName },
        proofHash: outcome.proofHash,
        exitHash: outcome.exitHash,
      };
      const task: Task = { kind: "dispatch-execute", attemptId: attempt.id };
      return step(request, state, known, "dispatch", task, around, [
        audit("runner.minted", null, { attempt: attempt.id, runner: outcome.runnerId }),
      ]);
    }
    case "conflict":
    case "lost":
      // Our own earlier call whose answer was lost: its registration is found by name and removed, then a new attempt.
      return clearRunner(request, state, attempt, around);
    case "retry": {
      // It may have been registered all the same: whoever gives up here looks for it first.
      if (request.stop !== null) return clearRunner(request, state, attempt, around);
      const detail = `GitHub did not mint a runner: ${outcome.why}`;
      return (
        tryAgain(request, state, mintTask(attempt), outcome.retryAt, around) ??
        endWith(request, state, attempt, verdict("infrastructure", "runner-config", detail), around)
      );
    }
    case "refused": {
      const ended = verdict("infrastructure", "runner-config", `GitHub refused to mint a runner: ${outcome.why}`);
      return endWith(request, state, attempt, ended, around);
    }
    default:
      return unreachable(outcome, "mint outcome");
  }
}

function clearRunner(request: GateRequest, state: Provisioning, attempt: Attempt, around: Surroundings): Step {
  return step(request, state, attempt, "find-runner", findRunnerTask(attempt), around);
}

function foundRunner(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  done: Done,
  around: Surroundings,
): Step {
  if (done.task !== "find-runner") return ignore(request, "not this step's task");
  const outcome = done.outcome;
  const end = (detail: string) =>
    endWith(request, state, attempt, verdict("infrastructure", "runner-config", detail), around);
  switch (outcome.kind) {
    case "cleared":
      return retry(request, state, attempt, SAME_CLOCK, around);
    case "not-ours":
      return end(`A runner of this attempt's name is not ours: ${outcome.why}`);
    case "unknown":
      return (
        tryAgain(request, state, findRunnerTask(attempt), null, around) ??
        end(`A lost registration could not be removed: ${outcome.why}`)
      );
    default:
      return unreachable(outcome, "find-runner outcome");
  }
}

function dispatched(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  done: Done,
  around: Surroundings,
): Step {
  if (done.task !== "dispatch-execute") return ignore(request, "not this step's task");
  const outcome = done.outcome;
  switch (outcome.kind) {
    case "dispatched":
      return withRun(request, state, attempt, outcome.runId, around);
    case "refused": {
      if (outcome.artifactsMissing !== true) return unavailable(request, state, attempt, outcome.why, around);
      const detail = `There is nothing to run on a GPU: ${outcome.why}.`;
      return endWith(request, state, attempt, verdict("infrastructure", "artifacts-missing", detail), around);
    }
    case "not-sent": {
      const task: Task = { kind: "dispatch-execute", attemptId: attempt.id };
      return (
        tryAgain(request, state, task, outcome.retryAt, around) ??
        unavailable(request, state, attempt, outcome.why, around)
      );
    }
    case "lost": {
      const task: Task = { kind: "find-execute", attemptId: attempt.id };
      const note = audit("execute.look-up", "dispatch-lost", { attempt: attempt.id });
      return step(request, state, attempt, "find-run", task, around, [note]);
    }
    default:
      return unreachable(outcome, "dispatch outcome");
  }
}

function foundRun(request: GateRequest, state: Provisioning, attempt: Attempt, done: Done, around: Surroundings): Step {
  if (done.task !== "find-execute") return ignore(request, "not this step's task");
  const limits = limitsOf(request);
  const outcome = done.outcome;
  if (outcome.kind === "found") {
    const known: Attempt = { ...attempt, run: { runId: outcome.runId, attempt: 1 } };
    if (request.stop !== null) return endWith(request, state, known, request.stop, around);
    return withRun(request, state, attempt, outcome.runId, around);
  }
  const waited = around.now - state.stepSince;
  if (outcome.kind === "none" && waited >= limits.dispatchLookup) {
    return unavailable(request, state, attempt, "its start was not answered and no run was found", around);
  }
  if (outcome.kind === "unknown" && waited >= limits.authorizeRetryFor) {
    const detail = `Whether the execute workflow started could not be read, so nothing was bought: ${outcome.why}`;
    return endWith(request, state, attempt, verdict("infrastructure", "github-outage", detail), around);
  }
  const task: Task = { kind: "find-execute", attemptId: attempt.id };
  return go(request, state, task, around.now + limits.testPoll);
}

function unavailable(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  why: string,
  around: Surroundings,
): Step {
  const ended = verdict("infrastructure", "workflow-unavailable", `The execute workflow could not be started: ${why}`);
  return endWith(request, state, attempt, ended, around);
}

function withRun(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  runId: string,
  around: Surroundings,
): Step {
  const known: Attempt = { ...attempt, run: { runId, attempt: 1 } };
  const action = nextRequest(state.walk, state.plan.candidates, rulesOf(request), "same");
  return obey(request, state, known, action, around);
}

/** Enters another step, its task due now. */
function step(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  name: Provisioning["step"],
  task: Task,
  around: Surroundings,
  notes: NonNullable<Extras["audit"]> = [],
): Step {
  const next: Provisioning = { ...state, step: name, stepSince: around.now, stepTries: 0, attempt };
  return go(request, next, task, around.now, { audit: notes });
}

function mintTask(attempt: Attempt): Task {
  return { kind: "mint", attemptId: attempt.id, runnerName: attempt.podName, label: attempt.label };
}

function findRunnerTask(attempt: Attempt): Task {
  return { kind: "find-runner", runnerName: attempt.podName, label: attempt.label };
}
