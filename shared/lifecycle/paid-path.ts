/**
 * The last look inside the lock, right before money: does this request still buy a pod?
 *
 * Everything that was true at admission is looked at again, because a queue may take hours. The order is fixed, and what
 * ends a request for reasons of its own (closed, moved, refused) comes before what makes the purchase needless. Unknown
 * never buys: a read that failed is given back as such, and the caller asks again.
 */
import type { CodesOf } from "../audit/reasons.ts";

/** A fact that may not be known because its read failed. */
export type Known<T> = { readonly known: true; readonly value: T } | { readonly known: false; readonly what: string };

export interface PullRequestNow {
  readonly state: string;
  readonly headSha: string;
  readonly baseRef: string;
  /** Null when the head's repository does not exist any more. */
  readonly headRepositoryId: string | null;
}

export interface PaidPathFacts {
  /** Null for a validation of a fixed commit: it has no pull request to become obsolete. */
  readonly pullRequest: {
    /** As it was admitted. */
    readonly admitted: { readonly headSha: string; readonly baseRef: string };
    readonly repositoryId: string;
    /** As it was read just now. Its base commit is not compared: that moves with every push to the base. */
    readonly now: Known<PullRequestNow>;
  } | null;
  readonly actorPermitted: Known<boolean>;
  readonly authorPermitted: Known<boolean>;
  /** Whether the policy of the default branch asks for the GPU; null for a validation, which always does. */
  readonly gpuRequired: Known<boolean> | null;
  /** A green gate for the same tree under the same inputs, with where to see it. A failed look-up is null: doubt runs. */
  readonly reusable: { readonly requestId: string; readonly url: string } | null;
  /** The workflow files and the effective configuration are still those that the preparation used. */
  readonly inputsUnchanged: Known<boolean>;
  readonly artifactsUsable: Known<boolean>;
  /** It was sent back to preparing once before; a second time ends it. */
  readonly preparedAgain: boolean;
}

export type PaidPath =
  | { readonly decision: "run" }
  | { readonly decision: "reuse"; readonly requestId: string; readonly url: string }
  | { readonly decision: "not-required"; readonly reason: CodesOf<"not-required"> }
  | { readonly decision: "closed" }
  | { readonly decision: "superseded"; readonly headSha: string }
  | { readonly decision: "refused"; readonly reason: CodesOf<"refused"> }
  /** Back to preparing, once, keeping the place in the queue. */
  | { readonly decision: "prepare-again" }
  | { readonly decision: "infrastructure"; readonly reason: CodesOf<"infrastructure"> }
  | { readonly decision: "unknown"; readonly what: string };

/** Decides from facts read inside the lock. Money, the provider's contract and the image are asked for after a `run`. */
export function decidePaidPath(facts: PaidPathFacts): PaidPath {
  const ended = pullRequestVerdict(facts.pullRequest);
  if (ended !== null) return ended;
  for (const [permitted, reason] of [
    [facts.authorPermitted, "author-not-permitted"],
    [facts.actorPermitted, "actor-not-permitted"],
  ] as const) {
    if (!permitted.known) return { decision: "unknown", what: permitted.what };
    if (!permitted.value) return { decision: "refused", reason };
  }
  if (facts.gpuRequired !== null) {
    if (!facts.gpuRequired.known) return { decision: "unknown", what: facts.gpuRequired.what };
    if (!facts.gpuRequired.value) return { decision: "not-required", reason: "policy-not-required" };
    if (facts.reusable !== null) return { decision: "reuse", ...facts.reusable };
  }
  for (const usable of [facts.inputsUnchanged, facts.artifactsUsable]) {
    if (!usable.known) return { decision: "unknown", what: usable.what };
    if (usable.value) continue;
    return facts.preparedAgain
      ? { decision: "infrastructure", reason: "artifacts-missing" }
      : { decision: "prepare-again" };
  }
  return { decision: "run" };
}

function pullRequestVerdict(pullRequest: PaidPathFacts["pullRequest"]): PaidPath | null {
  if (pullRequest === null) return null;
  const { admitted, now, repositoryId } = pullRequest;
  if (!now.known) return { decision: "unknown", what: now.what };
  const { state, headSha, baseRef, headRepositoryId } = now.value;
  if (state === "closed") return { decision: "closed" };
  if (state !== "open") return { decision: "unknown", what: "the pull request is neither open nor closed" };
  if (headRepositoryId === null) return { decision: "refused", reason: "head-repository-gone" };
  if (headRepositoryId !== repositoryId) return { decision: "refused", reason: "fork" };
  if (headSha !== admitted.headSha) return { decision: "superseded", headSha };
  if (baseRef !== admitted.baseRef) return { decision: "refused", reason: "base-changed" };
  return null;
}
