/**
 * The states before money: received, authorizing, waiting, preparing, queued. Nothing here can own a pod.
 */
import { unreachable } from "../../result.ts";
import { followsPull, notRequiredReason, obsolete } from "../judge.ts";
import type { Admission, GateRequest, Limits, StateOf, Terms } from "../model.ts";
import {
  audit,
  backoff,
  backoffSince,
  conclude,
  go,
  ignore,
  type Extras,
  type Step,
  type Surroundings,
} from "../step.ts";
import type { AuthorizeOutcome, Done, Observation, Want } from "../tasks.ts";
import { verdict } from "../verdict.ts";
import { startCleaning } from "./cleaning.ts";

/** Before the configuration is read only this much is known: how long to go on asking a GitHub that does not answer. */
const AUTHORIZE_RETRY_FOR_MS = 1_800_000;

/** A trigger run of whoever was heard to cause the request is waited for so long before anybody's counts. */
const OWN_RUN_MS = 120_000;

export function authorize(request: GateRequest, around: Surroundings): Step {
  return go(request, { kind: "authorizing", since: around.now, tries: 0 }, { kind: "authorize" }, around.now, {
    audit: [audit("request.authorize", null, { head: request.headSha, row: request.openedBy.row })],
  });
}

export function authorizing(
  request: GateRequest,
  state: StateOf<"authorizing">,
  done: Done,
  around: Surroundings,
): Step {
  if (done.task !== "authorize") return ignore(request, "not this state's task");
  const outcome = done.outcome;
  if (outcome.kind === "unknown") {
    const limit = request.terms?.limits.authorizeRetryFor ?? AUTHORIZE_RETRY_FOR_MS;
    if (around.now - state.since >= limit) {
      const detail = `GitHub did not answer for ${Math.round(limit / 60_000)} minutes: ${outcome.why}`;
      return conclude(request, verdict("infrastructure", "github-outage", detail), around.now);
    }
    const tries = state.tries + 1;
    return go(request, { ...state, tries }, { kind: "authorize" }, backoff(tries, around.now, outcome.retryAt));
  }
  const ended = endedByAuthorization(request, outcome, around);
  if (ended !== null) return ended;
  if (outcome.kind !== "admitted") return ignore(request, "authorization ended without a decision");

  const { terms, admission } = outcome;
  const admitted: GateRequest = { ...request, terms, admission };
  // Told while GitHub was asked who may: they have not been looked at yet.
  if (isToldLate(request, admission)) return authorize(request, around);
  const step = onceAdmitted(admitted, terms, admission, around);
  const facts = {
    author: admission.author.login,
    actor: admission.actor.login,
    base: admission.baseRef,
    change: admission.classification,
    gpu: admission.gpuRequired,
    why: admission.reason,
  };
  return { ...step, audit: [audit("request.admitted", null, facts), ...step.audit] };
}

function onceAdmitted(admitted: GateRequest, terms: Terms, admission: Admission, around: Surroundings): Step {
  const held = heldBack(admitted, terms, admission, around);
  if (held !== null) return held;
  const quietUntil = admitted.openedAt + terms.quietPeriod;
  // Pushes come in rows: nobody asked for exactly this one yet.
  if (admitted.kind === "pull-request" && admitted.openedBy.row <= 2 && around.now < quietUntil) {
    const quiet: StateOf<"waiting"> = { kind: "waiting", for: "quiet", since: around.now, until: quietUntil };
    return watchWaiting(admitted, quiet, around, quietUntil);
  }
  if (terms.workflows.trigger !== null && admitted.kind === "pull-request" && !admitted.triggerSeen) {
    return waitForTrigger(admitted, terms, around);
  }
  // The author's permission is not that of whoever pushed, and nothing else is going to say who did.
  if (admitted.kind === "pull-request" && admitted.actor === null) {
    return conclude(admitted, verdict("awaiting-approval", "actor-unknown", WHO_WAS_IT), around.now);
  }
  return prepare(admitted, terms, around);
}

/**
 * What an admission may say besides "go on": no GPU is asked for, nothing is to be bought, not yet, not without a word. Asked
 * after each admission, while the request waits for the lock and holds it as well: the configuration of then decides. Null:
 * the request goes on. A holder that goes back to waiting gives up the lock, as one that ends does.
 */
export function heldBack(admitted: GateRequest, terms: Terms, admission: Admission, around: Surroundings): Step | null {
  if (!admission.gpuRequired) {
    return conclude(admitted, verdict("not-required", notRequiredReason(admission), admission.reason), around.now);
  }
  if (terms.shadow) {
    const detail = `Shadow mode: a GPU run would have been started (${admission.reason}).`;
    return conclude(admitted, verdict("not-required", "shadow-mode", detail), around.now);
  }
  if (admission.draft) {
    return waitForReady(admitted, around, admitted.state.kind === "revalidating" ? { lock: "release" } : {});
  }
  // Each member of a merge group has had its own word.
  if (terms.start !== "auto" && admitted.approvedBy === null && admitted.kind !== "merge-group") {
    return conclude(admitted, verdict("awaiting-approval", "awaiting-approval", howToApprove(terms)), around.now);
  }
  return null;
}

const WHO_WAS_IT =
  "The webhook that says who caused this was lost or is late, and no trigger workflow is configured whose run would say it. " +
  "A maintainer starts the GPU run for this commit with the button on this check.";

/** A request that nobody was known to have caused, and of which the webhook came while it was authorised. */
function isToldLate(request: GateRequest, admission: Admission): boolean {
  const { kind, openedBy, actor, triggerSeen } = request;
  if (kind !== "pull-request" || openedBy.actor !== null || triggerSeen) return false;
  return actor !== null && actor.id !== admission.actor.id;
}

/** The ends that authorisation and the re-check inside the lock share; null when it neither refused nor found it moot. */
export function endedByAuthorization(
  request: GateRequest,
  outcome: AuthorizeOutcome,
  around: Surroundings,
): Step | null {
  switch (outcome.kind) {
    case "refused":
      return conclude(
        {
          ...request,
          terms: outcome.terms ?? request.terms,
          ...(outcome.heldBy === undefined ? {} : { heldBy: outcome.heldBy }),
        },
        verdict("refused", outcome.reason, outcome.detail),
        around.now,
      );
    case "closed":
      return conclude(
        { ...request, terms: outcome.terms ?? request.terms },
        request.kind === "merge-group"
          ? verdict("cancelled", "merge-group-destroyed", "The merge queue dissolved this group.")
          : verdict("closed", "closed", "The pull request is not open."),
        around.now,
      );
    case "moved":
      return conclude(
        { ...request, terms: outcome.terms ?? request.terms },
        request.openedBy.row === 3
          ? verdict("awaiting-approval", "approval-outdated", outdated(request, outcome.headSha))
          : verdict("superseded", "head-moved", `The head moved to ${outcome.headSha.slice(0, 12)}.`),
        around.now,
      );
    case "members":
      return conclude({ ...request, terms: outcome.terms }, verdict("failed", "members", outcome.detail), around.now);
    case "reuse":
      return conclude(
        { ...request, terms: outcome.terms, admission: outcome.admission },
        verdict("reused", "identical-tree", outcome.detail),
        around.now,
      );
    case "admitted":
    case "unknown":
      return null;
    default:
      return unreachable(outcome, "authorization outcome");
  }
}

function outdated(request: GateRequest, headSha: string): string {
  const now = headSha.slice(0, 12);
  return `The approval was for ${request.headSha.slice(0, 12)}, and the head is ${now} now. Nothing was rented; approve ${now}.`;
}

function howToApprove(terms: Terms): string {
  const word = terms.startWord ?? "";
  switch (terms.start) {
    case "label":
      return `A maintainer starts the GPU run for this commit by adding the label '${word}'.`;
    case "comment":
      return `A maintainer starts the GPU run for this commit by commenting '${word}'.`;
    case "approval":
    case "auto":
      return "A maintainer starts the GPU run for this commit with the button on this check.";
    default:
      return unreachable(terms.start, "start mode");
  }
}

/** Nothing is dispatched or bought for a draft. Ready again, the request is authorised afresh. */
export function waitForReady(request: GateRequest, around: Surroundings, extras: Extras = {}): Step {
  const state: StateOf<"waiting"> = { kind: "waiting", for: "ready", since: around.now, until: null };
  return watchWaiting(request, state, around, around.now, extras);
}

function waitForTrigger(request: GateRequest, terms: Terms, around: Surroundings): Step {
  const until = around.now + terms.limits.triggerStart;
  return watchWaiting(request, { kind: "waiting", for: "trigger", since: around.now, until }, around, around.now);
}

function watchWaiting(
  request: GateRequest,
  state: StateOf<"waiting">,
  around: Surroundings,
  dueAt: number,
  extras: Extras = {},
): Step {
  const want: Want = {};
  const pull = followsPull(request);
  if (pull !== undefined) want.pull = pull;
  const trigger = request.terms?.workflows.trigger ?? null;
  if (state.for === "trigger" && trigger !== null) {
    // Another pull request at this commit may have a run that began earlier. Later it is whoever ran it again, or in another's name.
    // So it is at the last look, however short the configured wait: nobody is to be told that no run has begun where one has.
    const isLast = state.until !== null && dueAt >= state.until;
    const anybodys = isLast || around.now - state.since >= OWN_RUN_MS;
    const by = request.actor === null ? {} : { by: request.actor.id, orAnybodys: anybodys };
    // Who opened another pull request at this commit had nothing to do with this one; its author has.
    const author = request.actor === null || request.admission === null ? {} : { author: request.admission.author.id };
    want.triggerRun = { path: trigger, headSha: request.headSha, ...by, ...author };
  }
  return go(request, state, { kind: "observe", want }, Math.max(dueAt, around.now), extras);
}

export function waiting(request: GateRequest, state: StateOf<"waiting">, done: Done, around: Surroundings): Step {
  if (done.task !== "observe") return ignore(request, "not this state's task");
  const seen: Observation = done.outcome;
  const gone = obsolete(request, seen.pull);
  if (gone !== null) return conclude(request, gone, around.now);
  const limits = limitsOf(request);
  const draft = seen.pull?.known === true && seen.pull.value !== "gone" ? seen.pull.value.draft : null;
  if (state.for === "ready") {
    // Ready again: authorised afresh, since much may have changed while it was a draft.
    if (draft === false) return authorize(request, around);
    return watchWaiting(request, state, around, around.now + limits.reconcile);
  }
  if (draft === true && request.terms?.drafts === "wait") return waitForReady(request, around);
  if (state.for === "quiet") {
    const until = state.until ?? around.now;
    return around.now >= until ? authorize(request, around) : watchWaiting(request, state, around, until);
  }
  if (seen.triggerRun?.known === true && seen.triggerRun.value !== null) {
    const actor = seen.triggerRun.value.actor;
    // The run's triggering actor counts from here on: a writer's re-run must not spend as somebody else.
    return authorize({ ...request, triggerSeen: true, actor }, around);
  }
  if (state.until !== null && around.now >= state.until) {
    const path = request.terms?.workflows.trigger ?? "the trigger workflow";
    const detail = `No run of ${path} started for this commit in time. Start it, or re-run this check.`;
    return conclude(request, verdict("awaiting-approval", "trigger-not-started", detail), around.now);
  }
  const next = around.now + limits.preparePoll;
  return watchWaiting(request, state, around, Math.min(next, state.until ?? next));
}

export function prepare(
  request: GateRequest,
  terms: Terms,
  around: Surroundings,
  kept?: { hold: StateOf<"preparing">["hold"]; backToPreparing: number },
): Step {
  return go(
    { ...request, prepared: null },
    {
      kind: "preparing",
      step: "dispatch",
      since: around.now,
      stepSince: around.now,
      run: null,
      hold: kept?.hold ?? null,
      backToPreparing: kept?.backToPreparing ?? 0,
      vanished: 0,
    },
    { kind: "dispatch-prepare", sent: false },
    around.now,
    { audit: [audit("prepare.dispatch", null, { workflow: terms.workflows.prepare })] },
  );
}

export function preparing(request: GateRequest, state: StateOf<"preparing">, done: Done, around: Surroundings): Step {
  const limits = limitsOf(request);
  // A run that may exist is found and cancelled before the request ends; one that was certainly not started is not.
  const overdue = around.now - state.since >= limits.preparation;
  const ended = request.stop ?? (overdue ? verdict("deadline", "preparation-timeout", late(limits)) : null);
  switch (state.step) {
    case "dispatch": {
      if (done.task !== "dispatch-prepare") return ignore(request, "not this state's task");
      const outcome = done.outcome;
      switch (outcome.kind) {
        case "dispatched":
          return watchPrepare(request, state, outcome.runId, around);
        case "refused": {
          const detail = `The prepare workflow could not be started: ${outcome.why}`;
          const refused = verdict("infrastructure", "workflow-unavailable", detail);
          return endPreparing(request, state, request.stop ?? refused, around);
        }
        case "not-sent":
          if (ended !== null) return endPreparing(request, state, ended, around);
          return go(
            request,
            state,
            { kind: "dispatch-prepare", sent: false },
            backoffSince(state.stepSince, around.now, outcome.retryAt),
          );
        case "lost":
          return go(request, { ...state, step: "find", stepSince: around.now }, { kind: "find-prepare" }, around.now, {
            audit: [audit("prepare.look-up", "dispatch-lost", {})],
          });
        default:
          return unreachable(outcome, "dispatch outcome");
      }
    }
    case "find": {
      if (done.task !== "find-prepare") return ignore(request, "not this state's task");
      const outcome = done.outcome;
      if (outcome.kind === "found") return watchPrepare(request, state, outcome.runId, around);
      const waited = around.now - state.stepSince >= limits.dispatchLookup;
      if (outcome.kind === "none" && waited) {
        const detail = "The start of the prepare workflow was not answered, and no run of it was found.";
        const lost = verdict("infrastructure", "workflow-unavailable", detail);
        return endPreparing(request, state, request.stop ?? lost, around);
      }
      if (ended !== null && waited) return endPreparing(request, state, ended, around);
      return go(request, state, { kind: "find-prepare" }, around.now + limits.testPoll);
    }
    case "watch": {
      if (done.task !== "observe") return ignore(request, "not this state's task");
      return watchedPrepare(request, state, done.outcome, around);
    }
    default:
      return unreachable(state.step, "preparing step");
  }
}

function watchPrepare(request: GateRequest, state: StateOf<"preparing">, runId: string, around: Surroundings): Step {
  const run = { runId, attempt: 1 };
  const next: StateOf<"preparing"> = { ...state, step: "watch", stepSince: around.now, run };
  const dueAt = request.stop === null ? around.now + limitsOf(request).preparePoll : around.now;
  return go(request, next, observePrepare(request, next), dueAt, {
    audit: [audit("prepare.started", null, { run: runId })],
  });
}

function observePrepare(request: GateRequest, state: StateOf<"preparing">): { kind: "observe"; want: Want } {
  const want: Want = {};
  const pull = followsPull(request);
  if (pull !== undefined) want.pull = pull;
  if (state.run !== null) want.prepareRun = state.run;
  const names = request.terms?.preGate ?? [];
  // A recovery judges the same pull request: what must be green before money is the same. A merge group has names of its own.
  if (names.length > 0 && (pull !== undefined || request.kind === "merge-group"))
    want.preGate = { headSha: request.headSha, names };
  return { kind: "observe", want };
}

function watchedPrepare(
  request: GateRequest,
  state: StateOf<"preparing">,
  seen: Observation,
  around: Surroundings,
): Step {
  const limits = limitsOf(request);
  if (request.stop !== null) return endPreparing(request, state, request.stop, around);
  const gone = obsolete(request, seen.pull);
  if (gone !== null) return endPreparing(request, state, gone, around);

  let vanished = state.vanished;
  let ready = false;
  const seenRun = seen.prepareRun;
  if (seenRun?.known === true) {
    if (seenRun.value === "gone") {
      vanished += 1;
      if (vanished >= 2) {
        const detail = "The prepare run is gone from GitHub.";
        return endPreparing(request, state, verdict("infrastructure", "preparation", detail), around);
      }
    } else {
      vanished = 0;
      if (seenRun.value.status === "completed") {
        const failure = prepareFailure(seenRun.value.conclusion, seenRun.value.failedJobs);
        if (failure !== null) {
          return endPreparing({ ...request, runUrl: seenRun.value.url }, state, failure, around);
        }
        ready = true;
      }
    }
  }
  const gate = seen.preGate;
  if (gate?.known === true && gate.value.kind === "failed") {
    const detail = `Checks that must be green before money is spent are not: ${gate.value.names.join(", ")}.`;
    return endPreparing(request, state, verdict("failed", "pre-gate-failed", detail), around);
  }
  const gateGreen = gate === undefined || (gate.known && gate.value.kind === "ready");
  if (ready && gateGreen && seenRun?.known === true && seenRun.value !== "gone" && state.run !== null) {
    const prepared = { run: state.run, artifacts: [...seenRun.value.artifacts], at: around.now };
    return prepareDone({ ...request, prepared }, state, around);
  }
  if (around.now - state.since >= limits.preparation) {
    const detail = ready && !gateGreen ? ungreen(request, gate, limits) : late(limits);
    return endPreparing(request, state, verdict("deadline", "preparation-timeout", detail), around);
  }
  const next = Math.min(around.now + limits.preparePoll, state.since + limits.preparation);
  return go(request, { ...state, vanished }, observePrepare(request, state), next);
}

function prepareDone(request: GateRequest, state: StateOf<"preparing">, around: Surroundings): Step {
  const prepared = request.prepared;
  if (prepared === null) return ignore(request, "prepared without artifacts");
  if (state.hold !== null) {
    // Sent back by the re-check: the lock was kept, the re-check runs again.
    return go(
      request,
      {
        kind: "revalidating",
        step: "recheck",
        since: around.now,
        tries: 0,
        hold: state.hold,
        prepared,
        backToPreparing: state.backToPreparing,
      },
      { kind: "recheck" },
      around.now,
    );
  }
  return go(
    request,
    { kind: "queued", since: around.now, seq: 0, prepared, backToPreparing: state.backToPreparing },
    observeQueued(request),
    around.now + limitsOf(request).reconcile,
    { lock: "enqueue", audit: [audit("lock.enqueue", null, { prepareRun: prepared.run.runId })] },
  );
}

/** Why a completed prepare run does not let the request go on; null when it succeeded. */
function prepareFailure(conclusion: string | null, failedJobs: readonly string[]) {
  if (conclusion === "success") return null;
  if (conclusion === "cancelled")
    return verdict("cancelled", "cancelled-by-user", "The preparation was cancelled on GitHub.");
  if (conclusion === "failure" && failedJobs.length > 0) {
    return verdict("failed", "preparation-failed", `Preparation failed: ${failedJobs.slice(0, 10).join(", ")}.`);
  }
  return verdict(
    "infrastructure",
    "preparation",
    `The preparation ended as ${conclusion ?? "nothing"}, without a failed job.`,
  );
}

function late(limits: Limits): string {
  return `Preparation did not finish within ${Math.round(limits.preparation / 1000)} s.`;
}

/** The limit of a preparation whose run succeeded: nothing in that run was slow, other checks were waited for. */
function ungreen(request: GateRequest, gate: Observation["preGate"], limits: Limits): string {
  const key = request.kind === "merge-group" ? "merge_queue.pre_gate" : "pre_gate";
  const within = `within ${Math.round(limits.preparation / 1000)} s`;
  if (gate?.known === true && gate.value.kind === "wait") {
    const names = gate.value.for.slice(0, 10).join(", ");
    return `The prepare run succeeded, but checks that \`${key}\` waits for were not there and green ${within}: ${names}. A job of exactly that name has to run for this commit.`;
  }
  const names = (request.terms?.preGate ?? []).slice(0, 10).join(", ");
  return `The prepare run succeeded, but the checks that \`${key}\` waits for could not be read ${within}: ${names}.`;
}

function endPreparing(
  request: GateRequest,
  state: StateOf<"preparing">,
  ended: ReturnType<typeof verdict>,
  around: Surroundings,
): Step {
  if (state.run === null) return conclude(request, ended, around.now);
  return startCleaning(
    request,
    { hold: state.hold, attempt: null, prepareRun: state.run, resume: null },
    ended,
    around,
    false,
  );
}

function observeQueued(request: GateRequest): { kind: "observe"; want: Want } {
  const want: Want = {};
  const pull = followsPull(request);
  if (pull !== undefined) want.pull = pull;
  return { kind: "observe", want };
}

export function queued(request: GateRequest, state: StateOf<"queued">, done: Done, around: Surroundings): Step {
  if (done.task !== "observe") return ignore(request, "not this state's task");
  const gone = obsolete(request, done.outcome.pull);
  if (gone !== null) return conclude(request, gone, around.now);
  const limits = limitsOf(request);
  if (around.now - state.since >= limits.queueWait) {
    const detail = `The request waited ${Math.round(limits.queueWait / 60_000)} minutes for the GPU lock.`;
    return conclude(request, verdict("deadline", "queue-timeout", detail), around.now);
  }
  const next = Math.min(around.now + limits.reconcile, state.since + limits.queueWait);
  return go(request, state, observeQueued(request), next);
}

/** The lock is ours: everything that was true when it was asked for is looked at once more. */
export function granted(request: GateRequest, state: StateOf<"queued">, fence: number, around: Surroundings): Step {
  return go(
    request,
    {
      kind: "revalidating",
      step: "recheck",
      since: around.now,
      tries: 0,
      hold: { fence, since: around.now },
      prepared: state.prepared,
      backToPreparing: state.backToPreparing,
    },
    { kind: "recheck" },
    around.now,
    { audit: [audit("lock.granted", null, { fence, waitedMs: around.now - state.since })] },
  );
}

export function limitsOf(request: GateRequest): Limits {
  if (request.terms === null) throw new Error(`request ${request.id} has no terms in state ${request.state.kind}`);
  return request.terms.limits;
}
