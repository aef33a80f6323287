/**
 * Provisioning: from the plan to an accepted pod, one attempt after the other (design 3.3).
 *
 * Each request, sleep and look-up is a step of its own, so that a moved head, a closed pull request and deadlines are
 * decided between them. An attempt is complete before money is asked for: money reserved, runner minted, run dispatched.
 */
import { unreachable } from "../../result.ts";
import { podName } from "../../runpod/tags.ts";
import type { Millis } from "../../ports.ts";
import { followsPull, judgeAssignment, judgeProof, obsolete, podDead, rememberPod, strangerHasIt, type Rejection } from "../judge.ts";
import type { Afterwards, Attempt, GateRequest, Plan, StateOf, Walk } from "../model.ts";
import { audit, backoff, conclude, go, ignore, type Extras, type Step, type Surroundings } from "../step.ts";
import type { CreateOutcome, Done, Observation, PodFacts, Task, Want } from "../tasks.ts";
import { advanceTeardown, beginTeardown, type TeardownMove } from "../teardown.ts";
import { verdict, type Verdict } from "../verdict.ts";
import {
  afterAnswer,
  afterNotFound,
  afterRejection,
  nextRequest,
  slept,
  type CreateAnswer,
  type WalkAction,
  type WalkRules,
} from "../walk.ts";
import { book, ledgerClose, markLoud, scopeOf } from "./cleaning.ts";
import { limitsOf } from "./early.ts";
import { startExecuting } from "./executing.ts";

type Provisioning = StateOf<"provisioning">;
interface Paid {
  readonly hold: Provisioning["hold"];
  readonly prepared: Provisioning["prepared"];
  readonly backToPreparing: number;
}

/** Tries at steps in front of the purchase before the request gives up: nothing has been bought yet. */
const STEP_TRIES = 6;
/** Attempts begun, bought or not: a bound on runners minted and runs dispatched. */
const ATTEMPTS_PER_POD = 4;

/** Begins the next attempt of a lock hold, or ends the request when none may follow. */
export function nextAttempt(
  request: GateRequest,
  paid: Paid,
  plan: Plan,
  walk: Walk,
  how: { readonly freshClock: boolean; readonly advance: boolean; readonly pauseMs: Millis },
  because: Verdict,
  around: Surroundings,
  extras: Extras = {},
): Step {
  const terms = request.terms;
  if (terms === null) return ignore(request, "provisioning without terms");
  const moved: Walk = how.freshClock && how.advance ? afterRejection(walk) : walk;
  const held: GateRequest = {
    ...request,
    // The end of an attempt is no end of the request: conclude() below must see a state that holds the lock.
    state: provisioningState(paid, plan, moved, around.now, null),
    tried: moved.tried,
  };
  const end = (why: Verdict, more: string) =>
    conclude(held, { ...why, detail: `${why.detail} ${more}` }, around.now, extras);

  if (request.stop !== null) return conclude(held, request.stop, around.now, extras);
  if (request.counts.pods >= terms.maxAttempts) {
    return end(because, `${request.counts.pods} pods were tried.`);
  }
  if (terms.maxStartupFailures > 0 && request.counts.startupFailures >= terms.maxStartupFailures) {
    const startup = verdict("infrastructure", "startup", because.detail);
    return end(startup, `${request.counts.startupFailures} pods in a row never registered their runner.`);
  }
  const action = nextRequest(moved, plan.candidates, rulesOf(request), how.pauseMs, "new");
  if (action.kind === "exhausted") {
    // Pods were bought and none was good: that is not "no capacity".
    if (request.counts.pods > 0 && action.reason === "capacity") {
      return end(because, "No candidate is left.");
    }
    return endExhausted(held, action.reason, around, extras);
  }
  if (request.counts.attempts >= terms.maxAttempts * ATTEMPTS_PER_POD) {
    return end(because, `${request.counts.attempts} attempts were made.`);
  }
  if (how.pauseMs > 0) {
    const state: Provisioning = { ...provisioningState(paid, plan, moved, around.now, null), step: "pause" };
    return go({ ...request, tried: moved.tried }, state, { kind: "sleep" }, around.now + how.pauseMs, extras);
  }
  return beginAttempt({ ...request, tried: moved.tried }, paid, plan, moved, around, extras);
}

function beginAttempt(
  request: GateRequest,
  paid: Paid,
  plan: Plan,
  walk: Walk,
  around: Surroundings,
  extras: Extras,
): Step {
  const number = request.counts.attempts + 1;
  const id = `${request.id}-${number}`;
  const reservedMs = request.terms?.reservation.reservedMs ?? 4_320_000;
  const attempt: Attempt = {
    id,
    number,
    podName: podName({ deployment: around.deployment, repositoryId: around.repositoryId, attemptId: id }),
    label: `gpu-gate-${around.nonce}`,
    reservedMicros: Math.ceil((plan.ceilingPrice * 1_000_000 * reservedMs) / 3_600_000),
    runner: null,
    proofHash: null,
    exitHash: null,
    run: null,
    candidate: null,
    createSentAt: null,
    paidFrom: null,
    pod: null,
    proof: null,
    onlineAt: null,
    exit: null,
  };
  const state = provisioningState(paid, plan, walk, around.now, attempt);
  return go(
    { ...request, counts: { ...request.counts, attempts: number } },
    state,
    { kind: "reserve", attemptId: id, micros: attempt.reservedMicros },
    around.now,
    { ...extras, audit: [...(extras.audit ?? []), audit("attempt.begin", null, { attempt: id, number })] },
  );
}

function provisioningState(
  paid: Paid,
  plan: Plan,
  walk: Walk,
  now: Millis,
  attempt: Attempt | null,
): Provisioning {
  return {
    kind: "provisioning",
    step: "reserve",
    since: now,
    stepSince: now,
    stepTries: 0,
    hold: paid.hold,
    prepared: paid.prepared,
    backToPreparing: paid.backToPreparing,
    plan,
    walk,
    attempt,
    teardown: null,
    afterwards: null,
    rejection: null,
    lookupLists: [],
  };
}

export function provisioning(request: GateRequest, state: Provisioning, done: Done, around: Surroundings): Step {
  if (state.step === "pause") {
    const sleptMs = done.task === "sleep" ? done.outcome.sleptMs : 0;
    return beginAttempt(request, state, state.plan, slept(state.walk, sleptMs), around, {});
  }
  const attempt = state.attempt;
  if (attempt === null) return ignore(request, "provisioning without an attempt");
  if (state.step === "teardown") return tearingDown(request, state, attempt, done, around);
  // A word to stop, taken while a call was under way, is obeyed at the first moment it can be.
  if (request.stop !== null && done.task !== "create-pod" && state.step !== "look-up") {
    return give(request, state, remembered(attempt, done), { kind: "conclude", verdict: request.stop }, around);
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
      const action = nextRequest(walk, state.plan.candidates, rulesOf(request), 0, "same");
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

/** What the outcome itself teaches about the attempt, kept even when the request is being stopped. */
function remembered(attempt: Attempt, done: Done): Attempt {
  if (done.task === "mint" && done.outcome.kind === "minted") {
    return { ...attempt, runner: { id: done.outcome.runnerId, name: attempt.podName } };
  }
  if (done.task === "dispatch-execute" && done.outcome.kind === "dispatched") {
    return { ...attempt, run: { runId: done.outcome.runId, attempt: 1 } };
  }
  if (done.task === "find-execute" && done.outcome.kind === "found") {
    return { ...attempt, run: { runId: done.outcome.runId, attempt: 1 } };
  }
  return attempt;
}

function reserved(request: GateRequest, state: Provisioning, attempt: Attempt, done: Done, around: Surroundings): Step {
  if (done.task !== "reserve") return ignore(request, "not this step's task");
  const outcome = done.outcome;
  switch (outcome.kind) {
    case "reserved":
      return step(request, state, attempt, "mint", mintTask(attempt), around.now, around);
    case "over-cap":
      return give(
        request,
        state,
        attempt,
        { kind: "conclude", verdict: verdict("over-budget", "over-budget", outcome.detail) },
        around,
      );
    case "unknown": {
      const tries = state.stepTries + 1;
      if (tries >= STEP_TRIES) {
        const detail = `Money could not be reserved, so nothing was bought: ${outcome.why}`;
        const ended = verdict("infrastructure", "account-unreachable", detail);
        return give(request, state, attempt, { kind: "conclude", verdict: ended }, around);
      }
      const task: Task = { kind: "reserve", attemptId: attempt.id, micros: attempt.reservedMicros };
      return go(request, { ...state, stepTries: tries }, task, backoff(tries, around.now, null));
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
      return step(request, state, known, "dispatch", task, around.now, around, [
        audit("runner.minted", null, { attempt: attempt.id, runner: outcome.runnerId }),
      ]);
    }
    case "conflict":
    case "lost":
      // Our own earlier call whose answer was lost: its registration is found by name and removed, then a new attempt.
      return step(
        request,
        state,
        attempt,
        "find-runner",
        { kind: "find-runner", runnerName: attempt.podName, label: attempt.label },
        around.now,
        around,
      );
    case "retry": {
      const tries = state.stepTries + 1;
      if (tries >= STEP_TRIES) {
        const ended = verdict("infrastructure", "runner-refused", `GitHub did not mint a runner: ${outcome.why}`);
        return give(request, state, attempt, { kind: "conclude", verdict: ended }, around);
      }
      return go(request, { ...state, stepTries: tries }, mintTask(attempt), backoff(tries, around.now, outcome.retryAt));
    }
    case "refused": {
      const ended = verdict("infrastructure", "runner-refused", `GitHub refused to mint a runner: ${outcome.why}`);
      return give(request, state, attempt, { kind: "conclude", verdict: ended }, around);
    }
    default:
      return unreachable(outcome, "mint outcome");
  }
}

function foundRunner(request: GateRequest, state: Provisioning, attempt: Attempt, done: Done, around: Surroundings): Step {
  if (done.task !== "find-runner") return ignore(request, "not this step's task");
  const outcome = done.outcome;
  switch (outcome.kind) {
    case "cleared":
      return give(
        request,
        state,
        attempt,
        { kind: "next-attempt", freshClock: false, advance: false, pauseMs: 0 },
        around,
      );
    case "not-ours": {
      const ended = verdict("infrastructure", "runner-refused", `A runner of this attempt's name is not ours: ${outcome.why}`);
      return give(request, state, attempt, { kind: "conclude", verdict: ended }, around);
    }
    case "unknown": {
      const tries = state.stepTries + 1;
      if (tries >= STEP_TRIES) {
        const ended = verdict("infrastructure", "runner-refused", `A lost registration could not be removed: ${outcome.why}`);
        return give(request, state, attempt, { kind: "conclude", verdict: ended }, around);
      }
      const task: Task = { kind: "find-runner", runnerName: attempt.podName, label: attempt.label };
      return go(request, { ...state, stepTries: tries }, task, backoff(tries, around.now, null));
    }
    default:
      return unreachable(outcome, "find-runner outcome");
  }
}

function dispatched(request: GateRequest, state: Provisioning, attempt: Attempt, done: Done, around: Surroundings): Step {
  if (done.task !== "dispatch-execute") return ignore(request, "not this step's task");
  const outcome = done.outcome;
  switch (outcome.kind) {
    case "dispatched":
      return withRun(request, state, attempt, outcome.runId, around);
    case "refused":
      return unavailable(request, state, attempt, outcome.why, around);
    case "not-sent": {
      const tries = state.stepTries + 1;
      if (tries >= STEP_TRIES) return unavailable(request, state, attempt, outcome.why, around);
      const task: Task = { kind: "dispatch-execute", attemptId: attempt.id };
      return go(request, { ...state, stepTries: tries }, task, backoff(tries, around.now, outcome.retryAt));
    }
    case "lost": {
      const task: Task = { kind: "find-execute", attemptId: attempt.id };
      return step(request, state, attempt, "find-run", task, around.now, around);
    }
    default:
      return unreachable(outcome, "dispatch outcome");
  }
}

function foundRun(request: GateRequest, state: Provisioning, attempt: Attempt, done: Done, around: Surroundings): Step {
  if (done.task !== "find-execute") return ignore(request, "not this step's task");
  if (done.outcome.kind === "found") return withRun(request, state, attempt, done.outcome.runId, around);
  if (done.outcome.kind === "none" && around.now - state.stepSince >= limitsOf(request).dispatchLookup) {
    return unavailable(request, state, attempt, "its start was not answered and no run was found", around);
  }
  const task: Task = { kind: "find-execute", attemptId: attempt.id };
  return go(request, state, task, around.now + limitsOf(request).testPoll);
}

function unavailable(request: GateRequest, state: Provisioning, attempt: Attempt, why: string, around: Surroundings): Step {
  const ended = verdict("infrastructure", "workflow-unavailable", `The execute workflow could not be started: ${why}`);
  return give(request, state, attempt, { kind: "conclude", verdict: ended }, around);
}

function withRun(request: GateRequest, state: Provisioning, attempt: Attempt, runId: string, around: Surroundings): Step {
  const known: Attempt = { ...attempt, run: { runId, attempt: 1 } };
  const action = nextRequest(state.walk, state.plan.candidates, rulesOf(request), 0, "same");
  return obey(request, state, known, action, around);
}

/** Does what the walk says. */
function obey(request: GateRequest, state: Provisioning, attempt: Attempt, action: WalkAction, around: Surroundings): Step {
  const known: GateRequest = { ...request, tried: state.walk.tried };
  switch (action.kind) {
    case "request": {
      if (action.attempt === "new") {
        const after: Afterwards = { kind: "next-attempt", freshClock: false, advance: false, pauseMs: action.pauseMs };
        return give(known, state, attempt, after, around);
      }
      if (action.pauseMs > 0) {
        return step(known, state, attempt, "sleep", { kind: "sleep" }, around.now + action.pauseMs, around);
      }
      const asked: Attempt = { ...attempt, candidate: action.candidate };
      return step(known, state, asked, "create", createTask(asked, action), around.now, around);
    }
    case "look-up":
      return step(
        known,
        { ...state, lookupLists: [] },
        attempt,
        "look-up",
        lookUpTask(attempt, around.now),
        around.now,
        around,
        [audit("pod.look-up", "ambiguous-create", { attempt: attempt.id })],
      );
    case "exhausted":
      return give(known, state, attempt, { kind: "conclude", verdict: exhaustion(known, action.reason) }, around);
    case "stop": {
      const ended = verdict("infrastructure", action.reason, stopText(action.reason));
      return give(known, state, attempt, { kind: "conclude", verdict: ended }, around);
    }
    case "bought":
      return ignore(request, "the walk ended without a pod in hand");
    default:
      return unreachable(action, "walk action");
  }
}

function created(request: GateRequest, state: Provisioning, attempt: Attempt, done: Done, around: Surroundings): Step {
  if (done.task !== "create-pod") return ignore(request, "not this step's task");
  const outcome: CreateOutcome = done.outcome;
  if (outcome.kind === "obsolete") {
    const ended =
      outcome.which === "closed"
        ? verdict("closed", "closed", "The pull request was closed before a GPU was rented.")
        : verdict("superseded", "head-moved", "The head moved before a GPU was rented.");
    return give(request, state, attempt, { kind: "conclude", verdict: ended }, around);
  }
  if (outcome.kind === "secret-lost") {
    const after: Afterwards = { kind: "next-attempt", freshClock: false, advance: false, pauseMs: 0 };
    return give(request, state, attempt, after, around);
  }
  const { walk, action } = afterAnswer(
    state.walk,
    state.plan.candidates,
    answerOf(outcome),
    outcome.elapsedMs,
    rulesOf(request),
    around.jitter,
  );
  const moved: Provisioning = { ...state, walk };
  const tried: GateRequest = { ...request, tried: walk.tried };
  if (outcome.kind === "created") {
    return havePod(tried, moved, { ...attempt, createSentAt: outcome.sentAt }, outcome.pod, around.now, around, []);
  }
  if (outcome.kind === "ambiguous") {
    const sent: Attempt = { ...attempt, createSentAt: outcome.sentAt };
    return obey(tried, { ...moved, stepTries: 0 }, sent, action, around);
  }
  if (request.stop !== null) {
    return give(tried, moved, attempt, { kind: "conclude", verdict: request.stop }, around);
  }
  if (outcome.kind === "stop") {
    const ended = verdict("infrastructure", outcome.reason, outcome.detail);
    return give(tried, moved, attempt, { kind: "conclude", verdict: ended }, around);
  }
  return obey(tried, moved, attempt, action, around);
}

function answerOf(outcome: Exclude<CreateOutcome, { kind: "obsolete" | "secret-lost" }>): CreateAnswer {
  switch (outcome.kind) {
    case "created":
      return { kind: "created" };
    case "capacity":
      return { kind: "capacity" };
    case "rate-limited":
      return { kind: "rate-limited", retryAfterMs: outcome.retryAfterMs };
    case "ambiguous":
      return { kind: "ambiguous", retryAfterMs: outcome.retryAfterMs };
    case "skip":
      return { kind: "skip", why: outcome.why };
    case "stop":
      return { kind: "stop", reason: outcome.reason };
    default:
      return unreachable(outcome, "create outcome");
  }
}

/** A pod is ours: booked at once, checked, and watched until it is accepted or rejected. */
function havePod(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  pod: PodFacts,
  paidFrom: Millis,
  around: Surroundings,
  strays: Step["strays"],
): Step {
  const owned: Attempt = rememberPod({ ...attempt, paidFrom: attempt.paidFrom ?? paidFrom }, pod);
  const counted: GateRequest = { ...request, counts: { ...request.counts, pods: request.counts.pods + 1 } };
  const extras: Extras = {
    strays,
    ledger: [
      {
        kind: "open",
        attemptId: attempt.id,
        podId: pod.id,
        gpuId: pod.gpuId,
        tier: attempt.candidate?.tier ?? "",
        pricePerHour: pod.pricePerHour,
        paidFrom: owned.paidFrom ?? paidFrom,
      },
    ],
    audit: [audit("pod.bought", null, { pod: pod.id, attempt: attempt.id, gpu: pod.gpuId, price: pod.pricePerHour })],
  };
  if (counted.stop !== null) {
    return give(counted, state, owned, { kind: "conclude", verdict: counted.stop }, around, extras);
  }
  const judged = judgeAssignment(pod, owned, state.plan.ceilingPrice);
  if (judged.kind === "rejected") return reject(counted, state, owned, judged.reason, judged.detail, around, extras);
  return go(
    counted,
    { ...state, step: "start", stepSince: around.now, stepTries: 0, attempt: owned },
    observeStart(counted, owned),
    around.now + limitsOf(request).testPoll,
    extras,
  );
}

function lookedUp(request: GateRequest, state: Provisioning, attempt: Attempt, done: Done, around: Surroundings): Step {
  if (done.task !== "look-up-pod") return ignore(request, "not this step's task");
  const limits = limitsOf(request);
  const again = (lists: Millis[], dueAt: Millis) =>
    go(request, { ...state, lookupLists: lists }, lookUpTask(attempt, dueAt), dueAt);
  const outcome = done.outcome;
  if (outcome.kind === "unknown") return again(state.lookupLists, around.now + limits.testPoll);
  const named = attempt.proof?.podId;
  const first = outcome.pods.find((pod) => pod.id === named) ?? outcome.pods[0];
  if (first !== undefined) {
    const extras = outcome.pods.filter((pod) => pod.id !== first.id);
    const strays = extras.map((pod) => ({ podId: pod.id, why: "second pod under one name" }));
    // Bought at the moment we asked for it: nobody told us a better one.
    return havePod(request, state, attempt, first, attempt.createSentAt ?? around.now, around, strays);
  }
  const lists = outcome.complete ? [...state.lookupLists, outcome.startedAt].slice(-8) : state.lookupLists;
  const waited = around.now - state.stepSince;
  if (waited >= limits.createLookup && lists.length >= 2) {
    if (request.stop !== null) {
      return give(request, state, attempt, { kind: "conclude", verdict: request.stop }, around);
    }
    const { walk, action } = afterNotFound(state.walk, state.plan.candidates, null, rulesOf(request), around.jitter);
    return obey(request, { ...state, walk }, attempt, action, around);
  }
  return again(lists, around.now + limits.testPoll);
}

function observeStart(request: GateRequest, attempt: Attempt): { kind: "observe"; want: Want } {
  const want: Want = {};
  const pull = followsPull(request);
  if (pull !== undefined) want.pull = pull;
  if (attempt.pod !== null) want.pod = { id: attempt.pod.id };
  // Without its proof a pod is never accepted, so the registry need not be asked before.
  if (attempt.proof !== null && attempt.runner !== null && attempt.run !== null) {
    want.runner = { id: attempt.runner.id };
    want.job = { run: attempt.run, jobName: request.terms?.evidence.jobName ?? "" };
  }
  return { kind: "observe", want };
}

function starting(request: GateRequest, state: Provisioning, before: Attempt, done: Done, around: Surroundings): Step {
  if (done.task !== "observe") return ignore(request, "not this step's task");
  const seen: Observation = done.outcome;
  const limits = limitsOf(request);
  const now = around.now;
  const sighting = seen.pod?.known === true ? seen.pod.value : null;
  const facts = sighting?.pod ?? null;
  const dead = facts === null ? null : podDead(facts, before);
  const attempt = facts === null ? before : rememberPod(before, facts);

  const gone = obsolete(request, seen.pull);
  if (gone !== null) return give(request, state, attempt, { kind: "conclude", verdict: gone }, around);
  if (dead !== null) return reject(request, state, attempt, "attempt-pod-died", dead, around);
  const age = now - (attempt.createSentAt ?? state.stepSince);
  if (sighting !== null && sighting.pod === null && sighting.getGone && age >= limits.newbornGrace) {
    return reject(request, state, attempt, "attempt-pod-died", "RunPod no longer knows the pod.", around);
  }
  if (attempt.exit !== null) {
    return reject(request, state, attempt, "attempt-proof-refused", `The start script ended with ${attempt.exit.code ?? "?"}.`, around);
  }
  if (facts !== null) {
    const judged = judgeAssignment(facts, attempt, state.plan.ceilingPrice);
    if (judged.kind === "rejected") return reject(request, state, attempt, judged.reason, judged.detail, around);
  }
  const proof = attempt.proof;
  if (proof !== null) {
    const misfit = judgeProof(proof, attempt);
    if (misfit !== null) return reject(request, state, attempt, "attempt-wrong-gpu", misfit, around);
    const job = seen.job?.known === true && seen.job.value !== "gone" ? seen.job.value.job : null;
    const runner = seen.runner?.known === true ? seen.runner.value : null;
    // Registered: the registry shows it, or our job already runs (or ran) on it.
    const onJob = job !== null && job.runnerId !== null && job.runnerId === attempt.runner?.id;
    const online = onJob || (runner !== null && runner !== "gone" && runner.online);
    if (job !== null && strangerHasIt(job, attempt)) {
      return reject(request, state, attempt, "attempt-idle", "Another runner took this request's job.", around);
    }
    if (online && facts !== null) {
      return startExecuting(request, state, { ...attempt, onlineAt: now }, around);
    }
  }
  if (!(attempt.pod?.machineSeen ?? false) && age >= limits.machineAssigned) {
    return reject(request, state, attempt, "attempt-no-machine", "RunPod assigned no machine in time.", around);
  }
  if (age >= limits.startup) {
    const what = proof === null ? "its proof did not arrive" : "its runner did not come online";
    return reject(request, state, attempt, "attempt-no-registration", `The pod was not ready in time: ${what}.`, around);
  }
  const deadline = (attempt.createSentAt ?? state.stepSince) + limits.startup;
  const poll = proof === null ? limits.watchPoll : limits.testPoll;
  return go(
    request,
    { ...state, attempt, stepTries: state.stepTries + 1 },
    observeStart(request, attempt),
    Math.min(now + poll, Math.max(now, deadline)),
  );
}

/** A bought pod that may not be used: removed, and the following candidate is asked with a fresh clock. */
function reject(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  reason: Rejection,
  detail: string,
  around: Surroundings,
  extras: Extras = {},
): Step {
  const never = attempt.onlineAt === null;
  const counts = {
    ...request.counts,
    startupFailures: never ? request.counts.startupFailures + 1 : 0,
  };
  const tried = noteRejection(state.walk, detail);
  const after: Afterwards = { kind: "next-attempt", freshClock: true, advance: true, pauseMs: 0 };
  return give(
    { ...request, counts, tried: tried.tried },
    { ...state, walk: tried },
    attempt,
    after,
    around,
    { ...extras, audit: [...(extras.audit ?? []), audit("pod.reject", reason, { attempt: attempt.id, why: detail })] },
    verdict("infrastructure", reason === "attempt-wrong-gpu" ? "bad-host" : "startup", detail),
  );
}

/** The last row of the table says "created": say what became of it. */
function noteRejection(walk: Walk, detail: string): Walk {
  const rows = [...walk.tried];
  const last = rows.pop();
  if (last === undefined) return walk;
  return { ...walk, tried: [...rows, { ...last, answer: `rejected: ${detail}` }] };
}

/** Ends the attempt the one way every attempt ends, then `after`. */
function give(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  after: Afterwards,
  around: Surroundings,
  extras: Extras = {},
  because?: Verdict,
): Step {
  const scope = scopeOf(request, attempt, null, false);
  const mayTakeJob = attempt.onlineAt === null && after.kind === "next-attempt";
  const move = beginTeardown(scope, mayTakeJob, around.now);
  const next: Provisioning = {
    ...state,
    step: "teardown",
    stepSince: around.now,
    attempt,
    teardown: move.teardown,
    afterwards: after,
    rejection: because ?? null,
  };
  const notes = [...(extras.audit ?? []), audit("attempt.end", null, { attempt: attempt.id, then: after.kind })];
  return follow(request, next, attempt, move, around, { ...extras, audit: notes }, false);
}

function tearingDown(request: GateRequest, state: Provisioning, attempt: Attempt, done: Done, around: Surroundings): Step {
  if (state.teardown === null) return ignore(request, "teardown without a record");
  const before = state.teardown;
  const move = advanceTeardown(before, done, scopeOf(request, attempt, null, false), around.now);
  const newlyProven = before.provenAt === null && move.teardown.provenAt !== null && attempt.pod !== null;
  return follow(request, state, attempt, move, around, {}, newlyProven);
}

function follow(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  move: TeardownMove,
  around: Surroundings,
  extras: Extras,
  newlyProven: boolean,
): Step {
  const after = state.afterwards;
  const because = state.rejection ?? (after?.kind === "conclude" ? after.verdict : null);
  const closing = newlyProven ? ledgerClose(attempt, move.teardown, because?.reason ?? "rejected", around) : null;
  const booked = newlyProven ? book(request, attempt, move.teardown) : request;
  const all: Extras = {
    ...extras,
    ledger: [...(extras.ledger ?? []), ...(closing?.ledger ?? [])],
    audit: [...(extras.audit ?? []), ...(closing?.audit ?? [])],
  };
  if (move.kind === "task") {
    const teardown = markLoud(move.teardown, request, around);
    return go(booked, { ...state, teardown }, move.task, move.dueAt, all);
  }
  if (after === null || after.kind === "conclude") {
    const ended = after?.verdict ?? verdict("infrastructure", "startup", "The attempt ended.");
    return conclude({ ...booked, state }, ended, around.now, all);
  }
  return nextAttempt(
    booked,
    state,
    state.plan,
    state.walk,
    after,
    because ?? verdict("infrastructure", "capacity", "No pod was created."),
    around,
    all,
  );
}

function step(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  name: Provisioning["step"],
  task: Task,
  dueAt: Millis,
  around: Surroundings,
  notes: NonNullable<Extras["audit"]> = [],
): Step {
  return go(request, { ...state, step: name, stepSince: around.now, stepTries: 0, attempt }, task, dueAt, { audit: notes });
}

function mintTask(attempt: Attempt): Task {
  return { kind: "mint", attemptId: attempt.id, runnerName: attempt.podName, label: attempt.label };
}

function lookUpTask(attempt: Attempt, notBefore: Millis): Task {
  return { kind: "look-up-pod", podName: attempt.podName, podId: attempt.proof?.podId ?? null, notBefore };
}

function createTask(attempt: Attempt, action: Extract<WalkAction, { kind: "request" }>): Task {
  return {
    kind: "create-pod",
    attemptId: attempt.id,
    podName: attempt.podName,
    candidate: action.candidate,
    timeoutMs: action.timeoutMs,
  };
}

function rulesOf(request: GateRequest): WalkRules {
  const limits = limitsOf(request);
  return {
    clockMs: limits.createWalk,
    backoffBaseMs: limits.createBackoffBase,
    backoffCapMs: limits.createBackoffCap,
  };
}

function exhaustion(_request: GateRequest, reason: "capacity" | "request-invalid" | "walk-deadline"): Verdict {
  switch (reason) {
    case "capacity":
      return verdict("infrastructure", "capacity", "None of the reviewed GPUs was free. Re-run this check later.");
    case "request-invalid":
      return verdict(
        "infrastructure",
        "request-invalid",
        "RunPod refused the request itself for every candidate: the configuration needs a look, not another try.",
      );
    case "walk-deadline":
      return verdict("infrastructure", "capacity", "No GPU could be rented within the time limit. Re-run this check later.");
    default:
      return unreachable(reason, "exhaustion");
  }
}

function endExhausted(
  request: GateRequest,
  reason: "capacity" | "request-invalid" | "walk-deadline",
  around: Surroundings,
  extras: Extras,
): Step {
  return conclude(request, exhaustion(request, reason), around.now, extras);
}

function stopText(reason: string): string {
  return reason === "balance"
    ? "RunPod refused for lack of balance. Nothing more was tried."
    : "RunPod refused in a way no other candidate would change.";
}
