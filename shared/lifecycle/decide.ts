/**
 * The pure core: `decide(request, event, around)` says what a request becomes and what must be done next.
 *
 * Every state answers every event, if only by saying why nothing changes (`ignored`). The table of states and events is in
 * docs/states.md and is tested row by row.
 */
import type { Millis } from "../ports.ts";
import { unreachable } from "../result.ts";
import type { Proof, GateRequest } from "./model.ts";
import { bootedBy, countPullLooks } from "./judge.ts";
import { audit, conclude, go, ignore, noted, type Step, type Surroundings } from "./step.ts";
import { authorize, authorizing, granted, preparing, queued, waiting } from "./states/early.ts";
import { cleaning, startCleaning } from "./states/cleaning.ts";
import { executing } from "./states/executing.ts";
import { endWith } from "./states/attempts.ts";
import { provisioning } from "./states/provisioning.ts";
import { lookUpTask, observeStart } from "./states/renting.ts";
import { revalidating } from "./states/revalidating.ts";
import type { Stranger } from "./route.ts";
import type { Done } from "./tasks.ts";
import type { Verdict } from "./verdict.ts";

export type GateEvent =
  /** The request has just been opened. */
  | { readonly kind: "opened" }
  /** The main task ended. Counts only while it is the request's current task. */
  | { readonly kind: "done"; readonly taskId: number; readonly done: Done }
  /** Something happened outside that this request may care about: look now instead of at the next poll. */
  | { readonly kind: "hint"; readonly stranger?: Stranger }
  | { readonly kind: "lock-granted"; readonly fence: number }
  /** `knownBad`: how often this GPU is remembered as having failed an attempt. */
  | {
      readonly kind: "proof";
      readonly attemptId: string;
      readonly proof: Proof;
      readonly knownBad?: number;
      /** How long the container had been up; null or left out: not said. */
      readonly upMs?: Millis | null;
    }
  | {
      readonly kind: "exit";
      readonly attemptId: string;
      readonly code: number | null;
      readonly reason?: string | null;
      readonly gpuUuid?: string | null;
      readonly upMs?: Millis | null;
    }
  /** A word to end this request: an operator's, or a user's. `inFlight`: the main task is being performed right now. */
  | { readonly kind: "stop"; readonly verdict: Verdict; readonly inFlight: boolean };

export type EventKind = GateEvent["kind"];

export const eventKinds: readonly EventKind[] = ["opened", "done", "hint", "lock-granted", "proof", "exit", "stop"];

export function decide(request: GateRequest, event: GateEvent, around: Surroundings): Step {
  switch (event.kind) {
    case "opened":
      return request.state.kind === "received" ? authorize(request, around) : ignore(request, "already under way");
    case "done":
      return done(request, event.taskId, event.done, around);
    case "hint":
      return event.stranger === undefined ? hint(request) : stranger(request, event.stranger);
    case "lock-granted":
      return request.state.kind === "queued"
        ? granted(request, request.state, event.fence, around)
        : ignore(request, "does not wait for the lock");
    case "proof":
      return proof(request, event, around);
    case "exit":
      return exit(request, event, around);
    case "stop":
      return stop(request, event.verdict, event.inFlight, around);
    default:
      return unreachable(event, "event");
  }
}

function done(before: GateRequest, taskId: number, outcome: Done, around: Surroundings): Step {
  if (before.task === null || before.task.id !== taskId) return ignore(before, "outcome of an abandoned task");
  const request = outcome.task === "observe" ? countPullLooks(before, outcome.outcome.pull) : before;
  const state = request.state;
  switch (state.kind) {
    case "authorizing":
      return stopped(request, around) ?? authorizing(request, state, outcome, around);
    case "waiting":
      return stopped(request, around) ?? waiting(request, state, outcome, around);
    case "preparing":
      return preparing(request, state, outcome, around);
    case "queued":
      return stopped(request, around) ?? queued(request, state, outcome, around);
    case "revalidating":
      return stopped(request, around) ?? revalidating(request, state, outcome, around);
    case "provisioning":
      return provisioning(request, state, outcome, around);
    case "executing":
      return executing(request, state, outcome, around);
    case "cleaning":
      return cleaning(request, state, outcome, around);
    case "received":
    case "concluded":
      return ignore(request, "no task is under way in this state");
    default:
      return unreachable(state, "state");
  }
}

/** Ends a request that owns nothing outside and was told to stop while its task ran. */
function stopped(request: GateRequest, around: Surroundings): Step | null {
  return request.stop === null ? null : conclude(request, request.stop, around.now);
}

function hint(request: GateRequest): Step {
  switch (request.state.kind) {
    case "waiting":
    case "queued":
    case "executing":
      return noted(request, true);
    case "preparing":
      return request.state.step === "watch" ? noted(request, true) : ignore(request, "nothing to look at yet");
    case "provisioning":
      return request.state.step === "start" ? noted(request, true) : ignore(request, "the next step looks by itself");
    case "received":
    case "authorizing":
    case "revalidating":
      return ignore(request, "already looking");
    case "cleaning":
      return request.state.step === "judge" ? noted(request, true) : ignore(request, "deletion keeps its own pace");
    case "concluded":
      return ignore(request, "concluded");
    default:
      return unreachable(request.state, "state");
  }
}

/**
 * Somebody else's job was given to the runner of the present attempt. The word comes signed from GitHub, and all it can cost
 * is the pod: it is believed at once, since a stranger's code runs on that machine.
 */
function stranger(request: GateRequest, who: Stranger): Step {
  const state = request.state;
  if (state.kind !== "executing" && (state.kind !== "provisioning" || state.step !== "start")) {
    return ignore(request, "no runner of ours waits for a job");
  }
  const attempt = state.attempt;
  if (attempt === null || attempt.runner?.id !== who.runnerId) return ignore(request, "not the current attempt");
  if (attempt.run?.runId === who.runId) return ignore(request, "the job is ours");
  if (attempt.stranger !== null) return ignore(request, "the stranger was told already");
  const note = audit("pod.stranger", "attempt-strangers-job", { attempt: attempt.id, run: who.runId });
  return noted({ ...request, state: { ...state, attempt: { ...attempt, stranger: who.runId } } }, true, [note]);
}

/**
 * The pod's proof. Single use: a second one, one for another attempt or one that comes after the runner was seen online
 * changes nothing (design 3.4). After an ambiguous create it names the pod, which the look-up then adopts.
 */
function proof(request: GateRequest, event: Extract<GateEvent, { kind: "proof" }>, around: Surroundings): Step {
  const { attemptId, proof: given, knownBad = 0 } = event;
  const state = request.state;
  if (state.kind !== "provisioning") return ignore(request, "no attempt waits for a proof");
  const attempt = state.attempt;
  if (attempt === null || attempt.id !== attemptId) return ignore(request, "not the current attempt");
  if (attempt.proof !== null || attempt.onlineAt !== null) return ignore(request, "the proof was given already");
  if (state.step !== "start" && state.step !== "look-up" && state.step !== "create") {
    return ignore(request, "no attempt waits for a proof");
  }
  if (attempt.pod !== null && attempt.pod.id !== given.podId) return ignore(request, "the proof names another pod");
  const boot = bootedBy(attempt, event.upMs ?? null, around.now);
  const told = { ...attempt, proof: given, knownBad, boot };
  const known: GateRequest = { ...request, state: { ...state, attempt: told } };
  const note = audit("pod.proof", null, {
    attempt: attemptId,
    pod: given.podId,
    gpu: given.gpuName,
    uuid: given.gpuUuid,
    knownBad,
    driverCuda: given.driverCuda,
    kernel: given.kernel ?? null,
    script: given.scriptHash,
    at: around.now,
  });
  // What is looked at next changes with the proof: the look that waits is replaced, one under way means nothing any more.
  switch (state.step) {
    case "start":
      return go(known, { ...state, attempt: told }, observeStart(known, told), around.now, { audit: [note] });
    case "look-up":
      return go(known, { ...state, attempt: told }, lookUpTask(told, around.now), around.now, { audit: [note] });
    case "create":
      return noted(known, false, [note]);
    default:
      return unreachable(state.step, "step that takes a proof");
  }
}

function exit(request: GateRequest, event: Extract<GateEvent, { kind: "exit" }>, around: Surroundings): Step {
  const { attemptId, code } = event;
  const reason = event.reason ?? null;
  const state = request.state;
  if (state.kind !== "provisioning" && state.kind !== "executing") return ignore(request, "no pod is watched");
  const attempt = state.attempt;
  if (attempt === null || attempt.id !== attemptId) return ignore(request, "not the current attempt");
  if (attempt.exit !== null) return ignore(request, "the exit was told already");
  // Once the proof is taken a job may speak for the pod: what is known of its start stays.
  const boot = attempt.proof === null ? bootedBy(attempt, event.upMs ?? null, around.now) : attempt.boot;
  const told = { ...attempt, exit: { at: around.now, code, reason, gpuUuid: event.gpuUuid ?? null }, boot };
  const note = audit("pod.exit", null, { attempt: attemptId, code, why: reason });
  if (state.kind === "executing") return noted({ ...request, state: { ...state, attempt: told } }, true, [note]);
  return noted({ ...request, state: { ...state, attempt: told } }, state.step === "start", [note]);
}

function stop(request: GateRequest, word: Verdict, inFlight: boolean, around: Surroundings): Step {
  const state = request.state;
  if (state.kind === "concluded") return ignore(request, "concluded");
  if (request.stop !== null) return ignore(request, "already told to stop");
  const told: GateRequest = { ...request, stop: word };
  const note = audit("request.stop", word.reason, { state: state.kind });
  // What is being removed has its verdict; but a pod given up for another attempt must not be followed by one.
  if (state.kind === "cleaning") {
    return state.resume === null ? ignore(request, "already being removed") : noted(told, false, [note]);
  }
  // A call under way may have bought something: its answer is waited for.
  if (inFlight) return noted(told, false, [note]);
  switch (state.kind) {
    case "received":
    case "authorizing":
    case "waiting":
    case "queued":
    case "revalidating":
      return conclude(told, word, around.now, { audit: [note] });
    case "preparing":
      // A start whose answer was lost is looked for to its end, so that the run can be cancelled.
      if (state.step === "find") return noted(told, true, [note]);
      if (state.run === null) return conclude(told, word, around.now, { audit: [note] });
      return startCleaning(
        told,
        { hold: state.hold, attempt: null, prepareRun: state.run, resume: null },
        word,
        around,
        false,
      );
    case "provisioning":
      // Nothing of it is outside yet: a reservation that cannot be made must not hold the lock for ever.
      if (state.step === "reserve" && state.attempt !== null) {
        return endWith(told, state, state.attempt, word, around, { audit: [note] });
      }
      return noted(told, true, [note]);
    case "executing":
      return noted(told, true, [note]);
    default:
      return unreachable(state, "state");
  }
}
