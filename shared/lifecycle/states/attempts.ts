/**
 * The chain of attempts under one lock hold: how one begins, how each ends the same way, and when no further one may follow
 * (design 3.3).
 *
 * An attempt that ends the request goes to cleaning, like everything else that ends. One that is followed by another is
 * removed here, so that the lock, the plan and the walk stay in hand. Before each further attempt the pull request is looked
 * at once more: nothing is minted, dispatched or bought for a head that nobody wants tested.
 */
import type { CodesOf } from "../../audit/reasons.ts";
import type { Millis } from "../../ports.ts";
import { unreachable } from "../../result.ts";
import { podName } from "../../runpod/tags.ts";
import { followsPull, obsolete, type Rejection } from "../judge.ts";
import {
  reservedPriceOf,
  type Afterwards,
  type Attempt,
  type GateRequest,
  type Plan,
  type StateOf,
  type Walk,
} from "../model.ts";
import { audit, backoff, conclude, go, ignore, type Extras, type Step, type Surroundings } from "../step.ts";
import type { Done, Task } from "../tasks.ts";
import { advanceTeardown, beginTeardown, type TeardownMove, type TeardownScope } from "../teardown.ts";
import { RUNNER_REFUSED, saysDeprecated } from "../last-words.ts";
import { verdict, type Verdict } from "../verdict.ts";
import { afresh, afterRejection, nextRequest, slept, type Exhaustion, type WalkRules } from "../walk.ts";
import { book, ledgerClose, markLoud, scopeOf, startCleaning } from "./cleaning.ts";
import { limitsOf } from "./early.ts";

export type Provisioning = StateOf<"provisioning">;

/** Tries at steps in front of the purchase before the request gives up: nothing has been bought yet. */
const STEP_TRIES = 6;

/** The same step once more after a pause; null when it was tried often enough. */
export function tryAgain(
  request: GateRequest,
  state: Provisioning,
  task: Task,
  retryAt: Millis | null,
  around: Surroundings,
): Step | null {
  const tries = state.stepTries + 1;
  if (tries >= STEP_TRIES) return null;
  return go(request, { ...state, stepTries: tries }, task, backoff(tries, around.now, retryAt));
}

/** What stays in hand from one attempt to the next. */
export interface Paid {
  readonly hold: Provisioning["hold"];
  readonly prepared: Provisioning["prepared"];
  readonly backToPreparing: number;
}

/** Where the next attempt starts: which candidate, on which clock, and after which pause. */
export type Next = Omit<Extract<Afterwards, { kind: "next-attempt" }>, "kind">;

export const SAME_CLOCK: Next = { freshClock: false, advance: false, pauseMs: 0 };

/** Attempts begun, bought or not: a bound on runners minted and runs dispatched. */
const ATTEMPTS_PER_POD = 4;
/** One short retry at a candidate (design 3.3). */
const RETRIES = 1;

export function rulesOf(request: GateRequest): WalkRules {
  const limits = limitsOf(request);
  return {
    clockMs: limits.createWalk,
    backoffBaseMs: limits.createBackoffBase,
    backoffCapMs: limits.createBackoffCap,
    retries: RETRIES,
  };
}

/**
 * Begins the next attempt of a lock hold, or ends the request when none may follow. `because` says why the one before it
 * ended, for the verdict if this was the last.
 */
export function nextAttempt(
  request: GateRequest,
  paid: Paid,
  plan: Plan,
  walk: Walk,
  how: Next,
  because: Verdict,
  around: Surroundings,
  extras: Extras = {},
): Step {
  const moved: Walk = how.freshClock ? (how.advance ? afterRejection(walk) : afresh(walk)) : walk;
  const state = provisioningState(paid, plan, moved, around.now, null);
  const held: GateRequest = { ...request, state, tried: moved.tried };
  const last = lastVerdict(held, state, because);
  if (last !== null) return conclude(held, last, around.now, extras);
  const pull = followsPull(request);
  const look = pull !== undefined && request.counts.attempts > 0;
  if (!look && how.pauseMs <= 0) return beginAttempt(held, state, around, extras);
  const pausing: Provisioning = {
    ...state,
    step: "pause",
    afterwards: { kind: "next-attempt", ...how },
    rejection: because,
  };
  const task: Task = look ? { kind: "observe", want: { pull } } : { kind: "sleep" };
  return go(held, pausing, task, around.now + how.pauseMs, extras);
}

/** The pause is over: the pull request has been looked at, and the clock may have run out. */
export function paused(request: GateRequest, state: Provisioning, done: Done, around: Surroundings): Step {
  const gone = obsolete(request, done.task === "observe" ? done.outcome.pull : undefined);
  if (gone !== null) return conclude(request, gone, around.now);
  // The pause that was asked for is what costs clock: a look that GitHub answers slowly is no sleep of the walk.
  const pauseMs = state.afterwards?.kind === "next-attempt" ? state.afterwards.pauseMs : 0;
  const next: Provisioning = { ...state, walk: slept(state.walk, pauseMs), afterwards: null, rejection: null };
  const last = lastVerdict(request, next, state.rejection ?? NOTHING_CREATED);
  return last === null ? beginAttempt(request, next, around, {}) : conclude(request, last, around.now);
}

const NOTHING_CREATED = verdict("infrastructure", "capacity", "No pod was created.");

/** The request's verdict when no further attempt may follow; null when one may. */
function lastVerdict(request: GateRequest, state: Provisioning, because: Verdict): Verdict | null {
  const terms = request.terms;
  if (request.stop !== null) return request.stop;
  const { pods, startupFailures, attempts } = request.counts;
  const maxAttempts = terms?.maxAttempts ?? 1;
  const maxFailures = terms?.maxStartupFailures ?? 0;
  if (maxFailures > 0 && startupFailures >= maxFailures) {
    const detail = `${because.detail} ${startupFailures} pods in a row never registered their runner.`;
    return verdict("infrastructure", "startup", detail);
  }
  if (pods >= maxAttempts) return exhausted(because, `${pods} pods were tried.`);
  const wanted = nextRequest(state.walk, state.plan.candidates, rulesOf(request), "new");
  if (wanted.kind === "exhausted") {
    // Pods were bought and none was good: that is not "no capacity".
    if (pods > 0 && wanted.reason === "capacity") return exhausted(because, "No candidate is left.");
    return exhaustion(wanted.reason);
  }
  if (attempts >= maxAttempts * ATTEMPTS_PER_POD) {
    return verdict("infrastructure", "attempts-exhausted", `${because.detail} ${attempts} attempts were made.`);
  }
  return null;
}

/** "Startup" is kept for pods in a row that never registered; a last pod that merely did not start used up the attempts. */
function exhausted(because: Verdict, more: string): Verdict {
  const detail = `${because.detail} ${more}`;
  return because.reason === "startup" || because.reason === "capacity"
    ? verdict("infrastructure", "attempts-exhausted", detail)
    : { ...because, detail };
}

export function exhaustion(reason: Exhaustion): Verdict {
  switch (reason) {
    case "capacity":
      return verdict("infrastructure", "capacity", "None of the reviewed GPUs was free. Re-run this check later.");
    case "request-invalid":
      return verdict(
        "infrastructure",
        "request-invalid",
        "RunPod refused the request itself for every candidate: the configuration needs a look, not another try.",
      );
    case "no-access":
      return verdict(
        "infrastructure",
        "provider-key",
        "RunPod gives this deployment's key no access to any of the reviewed GPUs: the key needs a look, not another try.",
      );
    case "walk-deadline":
      return verdict(
        "infrastructure",
        "capacity",
        "No GPU could be rented within the time limit. Re-run this check later.",
      );
    default:
      return unreachable(reason, "exhaustion");
  }
}

function beginAttempt(request: GateRequest, state: Provisioning, around: Surroundings, extras: Extras): Step {
  const number = request.counts.attempts + 1;
  const id = `${request.id}-${number}`;
  const reservedMs = request.terms?.reservation.reservedMs ?? 4_320_000;
  const attempt: Attempt = {
    id,
    number,
    podName: podName({ deployment: around.deployment, repositoryId: around.repositoryId, attemptId: id }),
    label: `gpu-gate-${around.nonce}`,
    reservedMicros: Math.ceil((reservedPriceOf(state.plan) * 1_000_000 * reservedMs) / 3_600_000),
    runner: null,
    proofHash: null,
    exitHash: null,
    run: null,
    candidate: null,
    createSentAt: null,
    paidFrom: null,
    pod: null,
    boot: { machineAt: null, containerAt: null },
    proof: null,
    onlineAt: null,
    exit: null,
    knownBad: 0,
    stranger: null,
  };
  return go(
    { ...request, tried: state.walk.tried, counts: { ...request.counts, attempts: number } },
    provisioningState(state, state.plan, state.walk, around.now, attempt),
    { kind: "reserve", attemptId: id, micros: attempt.reservedMicros },
    around.now,
    { ...extras, audit: [...(extras.audit ?? []), audit("attempt.begin", null, { attempt: id, number })] },
  );
}

function provisioningState(paid: Paid, plan: Plan, walk: Walk, now: Millis, attempt: Attempt | null): Provisioning {
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
    retryAt: null,
  };
}

/** Ends the attempt and the request with it. A word to stop, where there is one, is the verdict. */
export function endWith(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  why: Verdict,
  around: Surroundings,
  extras: Extras = {},
): Step {
  // A pod that may yet appear must find its registration gone; one that is there is deleted without waiting for GitHub.
  const mayAppear = attempt.pod === null && attempt.createSentAt !== null;
  return startCleaning(
    request,
    { hold: state.hold, attempt, prepareRun: null, resume: null },
    request.stop ?? why,
    around,
    mayAppear,
    extras,
  );
}

/** Removes the attempt, then begins the next one. */
export function retry(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  next: Next,
  around: Surroundings,
  because: Verdict = NOTHING_CREATED,
  extras: Extras = {},
): Step {
  if (request.stop !== null) return endWith(request, state, attempt, request.stop, around, extras);
  const mayTakeJob = attempt.onlineAt === null;
  const move = beginTeardown(scope(request, attempt, because), mayTakeJob, around.now);
  const removing: Provisioning = {
    ...state,
    step: "teardown",
    stepSince: around.now,
    attempt,
    teardown: move.teardown,
    afterwards: { kind: "next-attempt", ...next },
    rejection: because,
  };
  const notes = [
    ...(extras.audit ?? []),
    audit("attempt.end", null, { attempt: attempt.id, pod: attempt.pod?.id ?? null }),
  ];
  return follow(request, removing, attempt, move, around, { ...extras, audit: notes }, false);
}

/** A rejected pod's log is read before it is deleted; one that a stranger has is not waited for. */
function scope(request: GateRequest, attempt: Attempt, because: Verdict | null): TeardownScope {
  const logs = attempt.pod !== null && because !== null && because.reason !== "strangers-job";
  return { ...scopeOf(request, attempt, null, false), logs };
}

/** What the removal itself taught: the pod's last words, and that a job runs on a rejected pod. */
function listened(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  done: Done,
): { readonly request: GateRequest; readonly state: Provisioning; readonly audit: Step["audit"] } {
  if (done.task === "deregister" && done.outcome.kind === "busy") {
    // The pod goes, and its run is cancelled behind the proof: the job ends with its machine.
    return {
      request,
      state,
      audit: [audit("runner.busy", null, { attempt: attempt.id, pod: attempt.pod?.id ?? null })],
    };
  }
  const said = done.task === "read-record" ? (done.outcome.said ?? null) : null;
  if (said === null || state.rejection === null) return { request, state, audit: [] };
  const words = audit("pod.last-words", state.rejection.reason, { attempt: attempt.id, said });
  const rejection = { ...state.rejection, detail: `${state.rejection.detail} Its last words: ${said}` };
  const walk = noteRejection(state.walk, rejection.detail);
  const told = { ...request, tried: walk.tried };
  if (!saysDeprecated(said)) return { request: told, state: { ...state, walk, rejection }, audit: [words] };
  const ended = verdict("infrastructure", "runner-refused", `${RUNNER_REFUSED} It said: ${said}`);
  const afterwards: Afterwards = { kind: "conclude", verdict: ended };
  return { request: told, state: { ...state, walk, rejection: ended, afterwards }, audit: [words] };
}

/** What a rejected pod would be if it were the last: the verdict of each code. */
const REJECTED_AS: Readonly<Record<Rejection, CodesOf<"infrastructure">>> = {
  "attempt-wrong-gpu": "bad-host",
  "attempt-proof-refused": "bad-host",
  "attempt-no-machine": "startup",
  "attempt-no-registration": "startup",
  "attempt-pod-died": "startup",
  "attempt-not-created": "capacity",
  "attempt-strangers-job": "strangers-job",
};

/** A bought pod that may not be used: removed, and the following candidate is asked with a fresh clock. */
export function reject(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  reason: Rejection,
  detail: string,
  around: Surroundings,
  how: { readonly extras?: Extras; readonly as?: CodesOf<"infrastructure">; readonly badHost?: boolean } = {},
): Step {
  const extras = how.extras ?? {};
  // That somebody else's runner took the job says nothing about whether this pod would have registered.
  const failures = request.counts.startupFailures + (reason === "attempt-strangers-job" ? 0 : 1);
  const walk = noteRejection(state.walk, detail);
  const note = audit("pod.reject", reason, { attempt: attempt.id, why: detail });
  return retry(
    { ...request, counts: { ...request.counts, startupFailures: failures }, tried: walk.tried },
    { ...state, walk },
    attempt,
    { freshClock: true, advance: true, pauseMs: 0 },
    around,
    verdict("infrastructure", how.as ?? REJECTED_AS[reason], detail),
    {
      ...extras,
      audit: [...(extras.audit ?? []), note],
      badHosts: how.badHost === true ? badHost(attempt, reason) : [],
    },
  );
}

/** What is known of a machine that failed; nothing when it never said who it is. */
function badHost(attempt: Attempt, why: Rejection): Step["badHosts"] {
  const gpuUuid = attempt.proof?.gpuUuid ?? attempt.exit?.gpuUuid ?? null;
  const dataCenterId = attempt.pod?.dataCenterId ?? null;
  return gpuUuid === null && dataCenterId === null ? [] : [{ attemptId: attempt.id, gpuUuid, dataCenterId, why }];
}

/** The last row of the table says "created": say what became of it. */
function noteRejection(walk: Walk, detail: string): Walk {
  const rows = [...walk.tried];
  const last = rows.pop();
  if (last === undefined) return walk;
  return { ...walk, tried: [...rows, { ...last, answer: `rejected: ${detail}` }] };
}

/** One step further in removing an attempt that another one follows. */
export function tearingDown(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  done: Done,
  around: Surroundings,
): Step {
  if (state.teardown === null) return ignore(request, "teardown without a record");
  const before = state.teardown;
  const move = advanceTeardown(before, done, scope(request, attempt, state.rejection), around.now);
  const newlyProven = before.provenAt === null && move.teardown.provenAt !== null && attempt.pod !== null;
  const heard = listened(request, state, attempt, done);
  return follow(heard.request, heard.state, attempt, move, around, { audit: heard.audit }, newlyProven);
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
  const because = state.rejection ?? NOTHING_CREATED;
  const closing = newlyProven ? ledgerClose(attempt, move.teardown, because.reason, around) : null;
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
  const after = state.afterwards;
  if (after?.kind !== "next-attempt") return conclude({ ...booked, state }, after?.verdict ?? because, around.now, all);
  // The check has said that nothing more is bought: then nothing more is.
  if (move.teardown.loud) return conclude({ ...booked, state }, request.stop ?? because, around.now, all);
  return nextAttempt(booked, state, state.plan, state.walk, after, because, around, all);
}
