/**
 * Renting: the create request, the look-up after an unclear answer, and the wait until the pod is accepted or rejected.
 *
 * The pod's id is in the record before anything else can fail (N01). An unclear answer buys nothing more until the look-up
 * has run to its end (N02). Accepted = this attempt's proof, its own runner online, and the pod alive (N68).
 */
import { unreachable } from "../../result.ts";
import type { Millis } from "../../ports.ts";
import {
  followsPull,
  judgeAssignment,
  proofDeclined,
  obsolete,
  podDead,
  rememberPod,
  strangerHasIt,
} from "../judge.ts";
import { judgeExit, runnerRefused, RUNNER_REFUSED } from "../last-words.ts";
import { reservedPriceOf, type Attempt, type GateRequest } from "../model.ts";
import { audit, go, ignore, nextLook, type Extras, type Step, type Surroundings } from "../step.ts";
import type { CreateOutcome, Done, JobFacts, Observation, PodFacts, Task, Want } from "../tasks.ts";
import { verdict, type Verdict } from "../verdict.ts";
import { afterAnswer, afterNotFound, nextRequest, type CreateAnswer, type WalkAction } from "../walk.ts";
import { endWith, exhaustion, reject, retry, rulesOf, SAME_CLOCK, tryAgain, type Provisioning } from "./attempts.ts";
import { limitsOf } from "./early.ts";
import { startExecuting } from "./executing.ts";

/** Does what the walk says. */
export function obey(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  action: WalkAction,
  around: Surroundings,
): Step {
  const known: GateRequest = { ...request, tried: state.walk.tried };
  switch (action.kind) {
    case "request": {
      if (action.attempt === "new") return retry(known, state, attempt, SAME_CLOCK, around);
      const asked: Attempt = { ...attempt, candidate: action.candidate };
      return enter(known, state, asked, "create", createTask(asked, action), around.now, around);
    }
    case "sleep":
      return action.attempt === "new"
        ? retry(known, state, attempt, { ...SAME_CLOCK, pauseMs: action.ms }, around)
        : enter(known, state, attempt, "sleep", { kind: "sleep" }, around.now + action.ms, around);
    case "look-up":
      return enter(
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
      return endWith(known, state, attempt, exhaustion(action.reason), around);
    case "stop":
      return endWith(known, state, attempt, verdict("infrastructure", action.reason, "RunPod refused."), around);
    case "bought":
      return ignore(request, "the walk ended without a pod in hand");
    default:
      return unreachable(action, "walk action");
  }
}

export function created(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  done: Done,
  around: Surroundings,
): Step {
  if (done.task !== "create-pod") return ignore(request, "not this step's task");
  const outcome: CreateOutcome = done.outcome;
  if (outcome.kind === "obsolete") {
    return endWith(request, state, attempt, overtaken(outcome.which), around);
  }
  if (outcome.kind === "unread") {
    if (request.stop !== null) return endWith(request, state, attempt, request.stop, around);
    return readAgain(request, state, attempt, outcome, around);
  }
  if (outcome.kind === "held-back") {
    const ended =
      outcome.because === "buying-paused"
        ? verdict("refused", "buying-paused", outcome.detail)
        : verdict("infrastructure", "account-unreachable", outcome.detail);
    return endWith(request, state, attempt, ended, around);
  }
  // A word to stop is obeyed there as well.
  if (outcome.kind === "secret-lost" || outcome.kind === "stopped") {
    return retry(request, state, attempt, SAME_CLOCK, around);
  }
  const { candidates } = state.plan;
  const { walk, action } = afterAnswer(
    state.walk,
    candidates,
    answerOf(outcome),
    outcome.elapsedMs,
    rulesOf(request),
    around.jitter,
  );
  const moved: Provisioning = { ...state, walk };
  const tried: GateRequest = { ...request, tried: walk.tried };
  switch (outcome.kind) {
    case "created":
      return havePod(tried, moved, { ...attempt, createSentAt: outcome.sentAt }, outcome.pod, around.now, around, []);
    case "ambiguous": {
      const retryAt = outcome.retryAfterMs === null ? null : around.now + outcome.retryAfterMs;
      return obey(tried, { ...moved, retryAt }, { ...attempt, createSentAt: outcome.sentAt }, action, around);
    }
    case "stop": {
      const ended = verdict("infrastructure", outcome.reason, outcome.detail);
      return endWith(tried, moved, attempt, ended, around);
    }
    case "capacity":
    case "rate-limited":
    case "skip": {
      if (request.stop !== null) return endWith(tried, moved, attempt, request.stop, around);
      return obey(nothingBought(tried), moved, attempt, action, around);
    }
    default:
      return unreachable(outcome, "create outcome");
  }
}

/** Longer than this, from the first try on, nobody waits for GitHub with the lock in hand: others may need none of it. */
const UNREAD_MS = 120_000;

/**
 * Nothing is bought for a pull request that cannot be read, and with a GitHub that does not answer its runner could not register
 * either: the same create is tried again a few times, and then given up before it cost anything.
 */
function readAgain(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  { why, retryAt }: Extract<CreateOutcome, { kind: "unread" }>,
  around: Surroundings,
): Step {
  const action = nextRequest(state.walk, state.plan.candidates, rulesOf(request), "same");
  const soon = Math.max(around.now, retryAt ?? 0) - state.stepSince <= UNREAD_MS;
  const step =
    action.kind === "request" && soon
      ? tryAgain(request, state, createTask({ ...attempt, candidate: action.candidate }, action), retryAt, around)
      : null;
  const detail = `The pull request could not be read directly before a GPU would have been rented: ${why}`;
  return step ?? endWith(request, state, attempt, verdict("infrastructure", "github-outage", detail), around);
}

/** A create that bought nothing breaks a row of pods that never registered (upstream-facts section 6). */
function overtaken(which: Extract<CreateOutcome, { kind: "obsolete" }>["which"]): Verdict {
  switch (which) {
    case "closed":
      return verdict("closed", "closed", "The pull request was closed before a GPU was rented.");
    case "head-moved":
      return verdict("superseded", "head-moved", "The head moved before a GPU was rented.");
    case "base-moved":
      return verdict("superseded", "base-moved", "The base was changed before a GPU was rented.");
    default:
      return unreachable(which, "obsolete pull request");
  }
}

function nothingBought(request: GateRequest): GateRequest {
  return { ...request, counts: { ...request.counts, startupFailures: 0 } };
}

function answerOf(
  outcome: Exclude<CreateOutcome, { kind: "obsolete" | "unread" | "held-back" | "secret-lost" | "stopped" }>,
): CreateAnswer {
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
  const owned: Attempt = rememberPod({ ...attempt, paidFrom: attempt.paidFrom ?? paidFrom }, pod, around.now);
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
        // 0 is what a pod shows that does not run: no price.
        pricePerHour: owned.pod?.pricePerHour ?? null,
        paidFrom: owned.paidFrom ?? paidFrom,
      },
    ],
    audit: [
      audit("pod.bought", null, {
        pod: pod.id,
        attempt: attempt.id,
        gpu: pod.gpuId,
        price: pod.pricePerHour,
        passedOver: passedOver(request.tried, attempt.candidate?.name),
      }),
    ],
  };
  if (counted.stop !== null) return endWith(counted, state, owned, counted.stop, around, extras);
  const wrong = judgeAssignment(pod, owned, reservedPriceOf(state.plan));
  if (wrong !== null) return reject(counted, state, owned, "attempt-wrong-gpu", wrong, around, { extras });
  const next: Provisioning = { ...state, step: "start", stepSince: around.now, stepTries: 0, attempt: owned };
  return go(counted, next, observeStart(counted, owned), around.now, extras);
}

const PASSED_OVER_CHARS = 300;

/** Who was asked before, and what RunPod answered. */
function passedOver(tried: GateRequest["tried"], bought: string | undefined): string | null {
  const others = tried.filter(({ name }) => name !== bought).map(({ name, answer }) => `${name}: ${answer}`);
  return others.length === 0 ? null : others.join("; ").slice(0, PASSED_OVER_CHARS);
}

const NEVER_SAID = verdict(
  "infrastructure",
  "provider-outage",
  "RunPod did not say in time whether it had rented the pod whose order it had not answered clearly.",
);

export function lookedUp(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  done: Done,
  around: Surroundings,
): Step {
  if (done.task !== "look-up-pod") return ignore(request, "not this step's task");
  const limits = limitsOf(request);
  const outcome = done.outcome;
  // RunPod has had its time and still does not say: the check must not hang on it, and nothing more may be bought unseen.
  const late = around.now - state.stepSince >= limits.createLookup + limits.deletionLoudAfter;
  const again = (lists: Millis[]) => {
    const dueAt = around.now + (late ? limits.watchPoll : limits.testPoll);
    const next: Provisioning = { ...state, lookupLists: lists };
    if (!late || state.lookupLoud === true) return go(request, next, lookUpTask(attempt, dueAt), dueAt);
    const told: GateRequest = { ...request, stop: request.stop ?? NEVER_SAID };
    return go(told, { ...next, lookupLoud: true }, lookUpTask(attempt, dueAt), dueAt, {
      audit: [audit("pod.look-up", "deletion-unproven", { attempt: attempt.id })],
    });
  };
  if (outcome.kind === "unknown") return again(state.lookupLists);
  const named = attempt.proof?.podId;
  const first = outcome.pods.find((pod) => pod.id === named) ?? outcome.pods[0];
  if (first !== undefined) {
    const extras = outcome.pods.filter((pod) => pod.id !== first.id);
    const strays = extras.map(({ id, pricePerHour }) => ({
      podId: id,
      why: "second pod under one name",
      since: attempt.createSentAt,
      pricePerHour,
    }));
    // Bought at the moment we asked for it: nobody told us a better one.
    return havePod(request, state, attempt, first, attempt.createSentAt ?? around.now, around, strays);
  }
  if (!outcome.complete) return again(state.lookupLists);
  const lists = [...state.lookupLists, outcome.startedAt].slice(-8);
  // Two complete lists, and the newest of them begun when the wait was over: lists from before it prove nothing yet.
  const waited = outcome.startedAt - state.stepSince >= limits.createLookup;
  if (!waited || lists.length < 2) return again(lists);
  const closed: Extras = { audit: [audit("attempt.close", "attempt-not-created", { attempt: attempt.id })] };
  if (request.stop !== null) return endWith(request, state, attempt, request.stop, around, closed);
  const retryAfterMs = state.retryAt === null ? null : Math.max(0, state.retryAt - around.now);
  const { candidates } = state.plan;
  const { walk, action } = afterNotFound(state.walk, candidates, retryAfterMs, rulesOf(request), around.jitter);
  const step = obey(nothingBought(request), { ...state, walk, retryAt: null }, attempt, action, around);
  return { ...step, audit: [...(closed.audit ?? []), ...step.audit] };
}

/** So long a proven pod that nobody looked at in time is kept for a GitHub that does not answer. */
const UNHEARD_MS = 600_000;

/** What is looked at while a pod starts. Without its proof a pod is never accepted: GitHub need not be asked before. */
export function observeStart(request: GateRequest, attempt: Attempt): { kind: "observe"; want: Want } {
  const want: Want = {};
  const pull = followsPull(request);
  if (pull !== undefined) want.pull = pull;
  if (attempt.pod !== null) want.pod = { id: attempt.pod.id };
  if (attempt.proof !== null && attempt.runner !== null && attempt.run !== null) {
    want.runner = { id: attempt.runner.id };
    want.job = { run: attempt.run, jobName: request.terms?.evidence.jobName ?? "" };
  }
  return { kind: "observe", want };
}

export function starting(
  request: GateRequest,
  state: Provisioning,
  before: Attempt,
  done: Done,
  around: Surroundings,
): Step {
  if (done.task !== "observe") return ignore(request, "not this step's task");
  const seen: Observation = done.outcome;
  const limits = limitsOf(request);
  const now = around.now;
  const sighting = seen.pod?.known === true ? seen.pod.value : null;
  const facts = sighting?.pod ?? null;
  const dead = facts === null ? null : podDead(facts, before);
  const attempt = facts === null ? before : rememberPod(before, facts, now);
  const turnDown = (reason: Parameters<typeof reject>[3], detail: string, how?: Parameters<typeof reject>[6]) =>
    reject(request, state, attempt, reason, detail, around, how);

  const gone = obsolete(request, seen.pull);
  if (gone !== null) return endWith(request, state, attempt, gone, around);
  const proof = attempt.proof;
  const declined = proofDeclined(attempt);
  if (declined !== null) {
    // A known one is not remembered once more: a machine must be able to come back when its failures are old.
    return declined.misfit
      ? turnDown("attempt-wrong-gpu", declined.why, { badHost: true })
      : turnDown("attempt-proof-refused", declined.why);
  }
  const job = jobOf(seen);
  // Our job runs, or ran, on our runner: that is more than online, and what it says must be heard before the pod is judged.
  if (proof !== null && job !== null && job.runnerId !== null && job.runnerId === attempt.runner?.id) {
    return startExecuting(request, state, { ...attempt, onlineAt: now }, around);
  }
  if (attempt.stranger !== null) {
    // The runner registered and works for somebody else: the pod goes first, GitHub is not asked to let go of it before.
    const taken: Attempt = { ...attempt, onlineAt: now };
    const detail = `A job of run ${attempt.stranger} was given to this attempt's runner.`;
    return reject(request, state, taken, "attempt-strangers-job", detail, around);
  }
  if (attempt.exit !== null && runnerRefused(attempt.exit)) {
    const refused = verdict("infrastructure", "runner-refused", RUNNER_REFUSED);
    return endWith(request, state, attempt, refused, around);
  }
  // The script's own word says more than RunPod's status, which follows from it.
  if (attempt.exit !== null) {
    const end = judgeExit(attempt.exit, proof !== null);
    return turnDown(end.rejection, end.detail, { as: end.reason, badHost: end.badHost });
  }
  if (dead !== null) return turnDown("attempt-pod-died", dead, { badHost: true });
  const age = now - (attempt.createSentAt ?? state.stepSince);
  if (sighting !== null && sighting.pod === null && sighting.getGone && age >= limits.newbornGrace) {
    return turnDown("attempt-pod-died", "RunPod no longer knows the pod.");
  }
  const wrong = facts === null ? null : judgeAssignment(facts, attempt, reservedPriceOf(state.plan));
  if (wrong !== null) return turnDown("attempt-wrong-gpu", wrong);
  if (job !== null && strangerHasIt(job, attempt)) {
    return turnDown("attempt-strangers-job", "Another runner took this request's job.");
  }
  const runner = seen.runner?.known === true && seen.runner.value !== "gone" ? seen.runner.value : null;
  // The look at the deadline counts, although its answer comes a little later; one that was held up for longer does not (N24).
  const inTime = age <= limits.startup + limits.testPoll;
  if (proof !== null && runner?.online === true && facts !== null && inTime) {
    return startExecuting(request, state, { ...attempt, onlineAt: now }, around);
  }
  // Only a look that shows the pod can say that it has no machine.
  if (facts !== null && !(attempt.pod?.machineSeen ?? false) && age >= limits.machineAssigned) {
    return turnDown("attempt-no-machine", "RunPod assigned no machine in time.");
  }
  // Nobody looked at the deadline, and GitHub shows nothing now: the job may have been running since before.
  const unheard = !inTime && proof !== null && !(seen.runner?.known === true && seen.job?.known === true);
  const unheardSince = unheard ? (state.unheardSince ?? now) : undefined;
  if (age >= limits.startup && (unheardSince === undefined || now - unheardSince >= UNHEARD_MS)) {
    const what = proof === null ? "its proof did not arrive" : "its runner did not come online";
    // Where it was GitHub that showed nothing, the machine is not to blame.
    const badHost = proof === null || seen.runner?.known === true;
    return turnDown("attempt-no-registration", `The pod was not ready in time: ${what}.`, { badHost });
  }
  const deadline = (attempt.createSentAt ?? state.stepSince) + limits.startup;
  const poll = proof === null ? limits.watchPoll : limits.testPoll;
  const next: Provisioning = { ...state, attempt, stepTries: state.stepTries + 1, unheardSince };
  const soon = nextLook(now, poll, seen);
  const due = unheardSince === undefined ? Math.min(soon, Math.max(now, deadline)) : soon;
  return go(request, next, observeStart(request, attempt), due);
}

function jobOf(seen: Observation): JobFacts | null {
  return seen.job?.known === true && seen.job.value !== "gone" ? seen.job.value.job : null;
}

function enter(
  request: GateRequest,
  state: Provisioning,
  attempt: Attempt,
  name: Provisioning["step"],
  task: Task,
  dueAt: Millis,
  around: Surroundings,
  notes: NonNullable<Extras["audit"]> = [],
): Step {
  const next: Provisioning = { ...state, step: name, stepSince: around.now, stepTries: 0, attempt };
  return go(request, next, task, dueAt, { audit: notes });
}

export function lookUpTask(attempt: Attempt, notBefore: Millis): Task {
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
