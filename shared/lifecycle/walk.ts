/**
 * The creation walk: which candidate is asked next, under which name, and how long the walk may still take.
 *
 * Pure. One clock (60 s by default) covers the walk's requests and sleeps together; look-ups after an ambiguous answer
 * stop it. Rules (design 3.3):
 *  - capacity: the next candidate at once, same attempt (nothing was created, so name, runner and run stay good);
 *  - 429: the only answer retried under the same name;
 *  - any other transient answer: looked up first, then retried once, as the next attempt at the same candidate;
 *  - a second transient failure at one candidate moves on to the next one;
 *  - 400 without capacity words: the next candidate; if every candidate says so the request itself is wrong;
 *  - 403 for a pool: the next candidate; if every candidate says so the key may rent nothing.
 *
 * A request gets the time that is left, a sleep at most that. A sleep that uses up the clock ends the walk when it is over;
 * an answer that comes late is still taken.
 */
import type { CodesOf } from "../audit/reasons.ts";
import type { Millis } from "../ports.ts";
import type { Candidate, Walk } from "./model.ts";

/** What one create request came back with, told by reason. `elapsed` is what the request cost on the walk's clock. */
export type CreateAnswer =
  | { readonly kind: "created" }
  | { readonly kind: "capacity" }
  | { readonly kind: "rate-limited"; readonly retryAfterMs: Millis | null }
  /** Nobody can say whether a pod exists: 408, 5xx, transport, unreadable 2xx. */
  | { readonly kind: "ambiguous"; readonly retryAfterMs: Millis | null }
  /** 400 without capacity words, or 403 for this pool. */
  | { readonly kind: "skip"; readonly why: "invalid" | "pool" }
  /** 422, 402, 401, image refused: no other candidate would help. */
  | { readonly kind: "stop"; readonly reason: CodesOf<"infrastructure"> };

export type WalkAction =
  /** Send a create for `candidate`, within `timeoutMs`. `attempt`: keep the same pod name, or begin a new attempt. */
  | {
      readonly kind: "request";
      readonly candidate: Candidate;
      readonly timeoutMs: Millis;
      readonly attempt: "same" | "new";
    }
  /** Wait, tell `slept`, then ask `nextRequest`. The same candidate follows, if the clock lets it. */
  | { readonly kind: "sleep"; readonly ms: Millis; readonly attempt: "same" | "new" }
  | { readonly kind: "look-up" }
  | { readonly kind: "bought" }
  | { readonly kind: "exhausted"; readonly reason: Exhaustion }
  | { readonly kind: "stop"; readonly reason: CodesOf<"infrastructure"> };

export type Exhaustion = "capacity" | "request-invalid" | "no-access" | "walk-deadline";

export interface WalkRules {
  readonly clockMs: Millis;
  readonly backoffBaseMs: Millis;
  readonly backoffCapMs: Millis;
  /** Short retries at one candidate after a transient failure. */
  readonly retries: number;
}

export function newWalk(): Walk {
  return { index: 0, transientHere: 0, usedMs: 0, invalid: 0, tried: [] };
}

/** The request the walk wants now: the first one, the next candidate's, or the one after a sleep or a rejected pod. */
export function nextRequest(
  walk: Walk,
  candidates: readonly Candidate[],
  rules: WalkRules,
  attempt: "same" | "new",
): Extract<WalkAction, { kind: "request" | "exhausted" }> {
  const candidate = candidates[walk.index];
  if (candidate === undefined) return exhausted(walk, candidates);
  const timeoutMs = rules.clockMs - walk.usedMs;
  if (timeoutMs <= 0) return { kind: "exhausted", reason: "walk-deadline" };
  return { kind: "request", candidate, timeoutMs, attempt };
}

/**
 * Takes the answer of the request just made and says what comes next.
 *
 * @param jitter a number in [0, 1): the back-off is the whole delay times it ("full jitter").
 */
export function afterAnswer(
  walk: Walk,
  candidates: readonly Candidate[],
  answer: CreateAnswer,
  elapsedMs: Millis,
  rules: WalkRules,
  jitter: number,
): { walk: Walk; action: WalkAction } {
  const candidate = candidates[walk.index];
  const used: Walk = {
    ...walk,
    usedMs: walk.usedMs + elapsedMs,
    tried: [...walk.tried, { name: candidate?.name ?? "?", price: candidate?.price ?? null, answer: said(answer) }],
  };
  switch (answer.kind) {
    case "created":
      return { walk: used, action: { kind: "bought" } };
    case "capacity": {
      const next = advance(used);
      return { walk: next, action: nextRequest(next, candidates, rules, "same") };
    }
    case "skip": {
      const next = advance({ ...used, invalid: used.invalid + (answer.why === "invalid" ? 1 : 0) });
      return { walk: next, action: nextRequest(next, candidates, rules, "same") };
    }
    case "rate-limited":
      return transient(used, candidates, answer.retryAfterMs, rules, jitter, "same");
    case "ambiguous":
      // The look-up comes first; `afterNotFound` continues from here.
      return { walk: used, action: { kind: "look-up" } };
    case "stop":
      return { walk: used, action: { kind: "stop", reason: answer.reason } };
  }
}

/** After an ambiguous answer whose look-up found nothing: the one short retry, or the next candidate. */
export function afterNotFound(
  walk: Walk,
  candidates: readonly Candidate[],
  retryAfterMs: Millis | null,
  rules: WalkRules,
  jitter: number,
): { walk: Walk; action: WalkAction } {
  return transient(walk, candidates, retryAfterMs, rules, jitter, "new");
}

/** A pod was bought and rejected: the following candidate, with a fresh clock. */
export function afterRejection(walk: Walk): Walk {
  return afresh(advance(walk));
}

/** A pod was bought and given up through no fault of its own: the same candidate, with a fresh clock. */
export function afresh(walk: Walk): Walk {
  return { ...walk, transientHere: 0, usedMs: 0 };
}

/** The walk has slept: sleeping costs clock like a request does. */
export function slept(walk: Walk, elapsedMs: Millis): Walk {
  return { ...walk, usedMs: walk.usedMs + elapsedMs };
}

function transient(
  walk: Walk,
  candidates: readonly Candidate[],
  retryAfterMs: Millis | null,
  rules: WalkRules,
  jitter: number,
  attempt: "same" | "new",
): { walk: Walk; action: WalkAction } {
  if (walk.transientHere >= rules.retries) {
    const next = advance(walk);
    return { walk: next, action: nextRequest(next, candidates, rules, attempt) };
  }
  const tries = walk.transientHere + 1;
  const next: Walk = { ...walk, transientHere: tries };
  const wanted = nextRequest(next, candidates, rules, attempt);
  if (wanted.kind !== "request") return { walk: next, action: wanted };
  // The cap comes before the jitter, so that two gates never wake together at it.
  const backoff = Math.min(rules.backoffCapMs, rules.backoffBaseMs * 2 ** (tries - 1)) * jitter;
  return { walk: next, action: { kind: "sleep", ms: Math.min(retryAfterMs ?? backoff, wanted.timeoutMs), attempt } };
}

function advance(walk: Walk): Walk {
  return { ...walk, index: walk.index + 1, transientHere: 0 };
}

function exhausted(walk: Walk, candidates: readonly Candidate[]): Extract<WalkAction, { kind: "exhausted" }> {
  // Every candidate answered 400 without capacity words: the candidates are fine, what we send is not.
  const allInvalid = walk.invalid > 0 && walk.invalid >= candidates.length;
  if (allInvalid) return { kind: "exhausted", reason: "request-invalid" };
  // Nor is it a shortage where each was refused to this key: another try later would end alike.
  const { tried } = walk;
  const noAccess =
    tried.length > 0 && tried.length >= candidates.length && tried.every((row) => row.answer === NO_ACCESS);
  return { kind: "exhausted", reason: noAccess ? "no-access" : "capacity" };
}

const NO_ACCESS = "no access to this pool";

function said(answer: CreateAnswer): string {
  switch (answer.kind) {
    case "created":
      return "created";
    case "capacity":
      return "no capacity";
    case "rate-limited":
      return "rate limited";
    case "ambiguous":
      return "unclear answer";
    case "skip":
      return answer.why === "invalid" ? "invalid" : NO_ACCESS;
    case "stop":
      return answer.reason;
  }
}
