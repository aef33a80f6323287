/**
 * Revalidating: the lock is held and nothing is bought yet. Everything that was true at authorisation is read again, then
 * the plan is made: live prices, contract, image digest.
 */
import { unreachable } from "../../result.ts";
import type { GateRequest, StateOf } from "../model.ts";
import { audit, backoff, conclude, go, ignore, type Step, type Surroundings } from "../step.ts";
import type { Done } from "../tasks.ts";
import { verdict } from "../verdict.ts";
import { newWalk } from "../walk.ts";
import { endedByAuthorization, heldBack, limitsOf, prepare } from "./early.ts";
import { nextAttempt, SAME_CLOCK } from "./attempts.ts";

/** Tries at reading RunPod's contract and prices: a failure is a refusal, and others wait for the lock. */
const PLAN_TRIES = 3;

export function revalidating(
  request: GateRequest,
  state: StateOf<"revalidating">,
  done: Done,
  around: Surroundings,
): Step {
  return state.step === "recheck" ? recheck(request, state, done, around) : plan(request, state, done, around);
}

function recheck(request: GateRequest, state: StateOf<"revalidating">, done: Done, around: Surroundings): Step {
  if (done.task !== "recheck") return ignore(request, "not this state's task");
  const outcome = done.outcome;
  switch (outcome.kind) {
    case "stale-inputs": {
      // By what the default branch says now: the old terms would be found stale once more.
      const { admission, terms } = outcome;
      const stale: GateRequest = { ...request, terms, admission };
      const held = heldBack(stale, terms, admission, around);
      if (held !== null) return held;
      if (state.backToPreparing >= 1) {
        const detail = `What was prepared no longer fits, twice: ${outcome.why}`;
        const reason = outcome.artifactsMissing === true ? "artifacts-missing" : "preparation";
        return conclude(request, verdict("infrastructure", reason, detail), around.now);
      }
      const kept = { hold: state.hold, backToPreparing: state.backToPreparing + 1 };
      return prepare(stale, terms, around, kept);
    }
    case "unknown": {
      const tries = state.tries + 1;
      if (around.now - state.since >= limitsOf(request).authorizeRetryFor) {
        const detail = `GitHub did not answer while the GPU lock was held: ${outcome.why}`;
        return conclude(request, verdict("infrastructure", "github-outage", detail), around.now);
      }
      return go(request, { ...state, tries }, { kind: "recheck" }, backoff(tries, around.now, outcome.retryAt));
    }
    case "refused":
    case "closed":
    case "members":
    case "reuse":
    case "moved": {
      const ended = endedByAuthorization(request, outcome, around);
      return ended ?? ignore(request, "re-check ended without a decision");
    }
    case "admitted": {
      const { admission, terms } = outcome;
      const checked: GateRequest = { ...request, admission, terms };
      const held = heldBack(checked, terms, admission, around);
      if (held !== null) return held;
      return go(checked, { ...state, step: "plan", tries: 0 }, { kind: "plan" }, around.now, {
        audit: [audit("request.revalidated", null, { head: request.headSha, tested: admission.testedSha })],
      });
    }
    default:
      return unreachable(outcome, "re-check outcome");
  }
}

function plan(request: GateRequest, state: StateOf<"revalidating">, done: Done, around: Surroundings): Step {
  if (done.task !== "plan") return ignore(request, "not this state's task");
  const outcome = done.outcome;
  switch (outcome.kind) {
    case "planned":
      return nextAttempt(
        { ...request, leftOut: outcome.plan.leftOut ?? [], runnerNote: outcome.plan.runnerNote ?? null },
        { hold: state.hold, prepared: state.prepared, backToPreparing: state.backToPreparing },
        outcome.plan,
        newWalk(),
        SAME_CLOCK,
        verdict("infrastructure", "capacity", "No candidate had a free GPU."),
        around,
        {
          audit: [audit("plan.made", null, { candidates: outcome.plan.candidates.length, image: outcome.plan.image })],
        },
      );
    case "refused":
      return conclude(request, verdict("infrastructure", outcome.reason, outcome.detail), around.now);
    case "unknown": {
      const tries = state.tries + 1;
      if (tries >= PLAN_TRIES) {
        const detail = `RunPod's contract or prices could not be read, so nothing was bought: ${outcome.why}`;
        return conclude(request, verdict("infrastructure", "provider-outage", detail), around.now);
      }
      return go(request, { ...state, tries }, { kind: "plan" }, backoff(tries, around.now, outcome.retryAt));
    }
    default:
      return unreachable(outcome, "plan outcome");
  }
}
