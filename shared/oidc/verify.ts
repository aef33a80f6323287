/**
 * The checks on a token whose signature is proven, in the order of the design (section 7), each with the attack it stops.
 *
 * Any workflow of any repository on GitHub can have a genuine token with our audience. What makes one ours is below, and
 * nothing of it is `sub`. Pure: the single-use memory, the run and the repository are read by the caller and passed in.
 *
 *   `checkEnvelope`   issuer, audience, times, and a repository this deployment serves; needs the token alone
 *   (the caller)      the `jti`, spent in the memory of that repository's gate: only after the allow-list, so that no
 *                     stranger's token makes a gate come into being
 *   `checkOrigin`     owner, workflow file and its ref, ref, event, machine, attempt, age as configured
 *   `checkRun`        the run as GitHub knows it now: the same one, not re-run, not over, one person throughout
 */
import type { Actor } from "../lifecycle/signal.ts";
import type { Millis } from "../ports.ts";
import type { Claims } from "./claims.ts";
import type { Refusal, RunFact } from "./refusal.ts";

/** Clocks differ: GitHub's and ours by at most this. */
export const SKEW_MS = 60_000;
/** No configuration may accept a token older than this; how long its `jti` must be remembered follows from it. */
export const MAX_AGE_LIMIT_MS = 3_600_000;

export interface EnvelopeRules {
  readonly issuer: string;
  readonly audience: string;
  /** Numeric repository ids of the deployment's allow-list. */
  readonly repositories: ReadonlySet<string>;
  readonly now: Millis;
}

/** Null: the envelope is fine. */
export function checkEnvelope(claims: Claims, rules: EnvelopeRules): Refusal | null {
  const { now } = rules;
  // Another issuer's token, signed by a key that some cache confused with GitHub's.
  if (claims.iss !== rules.issuer) return { reason: "issuer", got: claims.iss, expected: rules.issuer };
  // A token made for another service, replayed here by that service. A list of audiences is made for several at once.
  if (claims.aud !== rules.audience) {
    const got = typeof claims.aud === "string" ? claims.aud : claims.aud.join(" ");
    return { reason: "audience", got, expected: rules.audience };
  }
  // Times are seconds. GitHub's lifetimes were seen from 300 s to 6 h: our own age limit is what counts.
  if (now - claims.exp * 1000 > SKEW_MS) return { reason: "expired", secondsAgo: seconds(now - claims.exp * 1000) };
  const nbf = claims.nbf ?? claims.iat;
  if (nbf * 1000 - now > SKEW_MS)
    return { reason: "not-yet-valid", claim: "nbf", secondsAhead: seconds(nbf * 1000 - now) };
  if (claims.iat * 1000 - now > SKEW_MS) {
    return { reason: "not-yet-valid", claim: "iat", secondsAhead: seconds(claims.iat * 1000 - now) };
  }
  const old = checkAge(claims, MAX_AGE_LIMIT_MS, now);
  if (old !== null) return old;
  // The App can be installed by anyone; this deployment pays for few.
  if (!rules.repositories.has(claims.repository_id)) {
    return { reason: "repository-not-served", repositoryId: claims.repository_id };
  }
  return null;
}

/** Until when a spent `jti` must be remembered: from then on the token is refused for its age. */
export function rememberUntil(claims: Claims): Millis {
  return claims.iat * 1000 + MAX_AGE_LIMIT_MS + SKEW_MS;
}

export interface OriginRules {
  /** As GitHub names the repository now. */
  readonly fullName: string;
  /** Null when GitHub did not say. */
  readonly ownerId: string | null;
  readonly defaultBranch: string;
  /** The one file whose jobs may ask for this, such as `.github/workflows/gpu-gate-recovery.yml`. */
  readonly workflowPath: string;
  readonly maxAgeMs: Millis;
  readonly now: Millis;
}

/** Where the token comes from: exactly one workflow file of the default branch, dispatched, on GitHub's own machine. */
export function checkOrigin(claims: Claims, rules: OriginRules): Refusal | null {
  return (
    checkAge(claims, rules.maxAgeMs, rules.now) ??
    checkRepository(claims, rules) ??
    checkWorkflow(claims, rules) ??
    checkJob(claims, rules)
  );
}

/** The repository's identity in all its spellings; ids decide, and a name that disagrees with them is somebody's trick. */
export function checkRepository(claims: Claims, rules: Pick<OriginRules, "fullName" | "ownerId">): Refusal | null {
  if (claims.repository !== rules.fullName) {
    return { reason: "repository", got: claims.repository, expected: rules.fullName };
  }
  if (rules.ownerId !== null && claims.repository_owner_id !== rules.ownerId) {
    return { reason: "owner", got: claims.repository_owner_id, expected: rules.ownerId };
  }
  return null;
}

/**
 * Both workflow claims must be the one expected text, compared whole: a tag named like the branch, a branch that begins
 * like it, the same file of another repository and a file whose name holds an `@` all differ somewhere in it.
 */
function checkWorkflow(claims: Claims, rules: OriginRules): Refusal | null {
  const expected = `${rules.fullName}/${rules.workflowPath}@refs/heads/${rules.defaultBranch}`;
  for (const claim of ["job_workflow_ref", "workflow_ref"] as const) {
    const got = claims[claim];
    if (got !== expected) return { reason: "workflow", claim, fault: workflowFault(got, rules), got, expected };
  }
  return null;
}

/** For the log: which part of a workflow reference is not ours. Decides nothing. */
function workflowFault(got: string, rules: OriginRules): "repository" | "file" | "ref" | "unreadable" {
  const parts = /^([^/@]+\/[^/@]+)\/(.+?\.ya?ml)@(refs\/.+)$/s.exec(got);
  if (parts === null) return "unreadable";
  if (parts[1] !== rules.fullName) return "repository";
  return parts[2] === rules.workflowPath ? "ref" : "file";
}

function checkJob(claims: Claims, rules: OriginRules): Refusal | null {
  const ref = `refs/heads/${rules.defaultBranch}`;
  if (claims.ref !== ref) return { reason: "ref", got: claims.ref, expected: ref };
  // pull_request_target and workflow_run also run the default branch's file: on somebody else's word.
  if (claims.event_name !== "workflow_dispatch") {
    return { reason: "event", got: claims.event_name, expected: "workflow_dispatch" };
  }
  // The owner of a self-hosted machine can take its job's token.
  const machine = checkMachine(claims);
  if (machine !== null) return machine;
  // A re-run keeps the first actor and changes who presses the button.
  return claims.run_attempt === "1" ? null : { reason: "run-attempt", got: claims.run_attempt };
}

export function checkMachine(claims: Claims): Refusal | null {
  return claims.runner_environment === "github-hosted"
    ? null
    : { reason: "runner-environment", got: claims.runner_environment };
}

export function checkAge(claims: Claims, maxAgeMs: Millis, now: Millis): Refusal | null {
  const age = now - claims.iat * 1000;
  return age > maxAgeMs ? { reason: "too-old", ageSeconds: seconds(age), maxSeconds: seconds(maxAgeMs) } : null;
}

/** A run as GitHub's API gives it (`shared/github/actions.ts`), as far as a token is compared with it. */
export interface RunRecord {
  readonly id: string;
  readonly attempt: number;
  readonly status: string | null;
  readonly event: string;
  readonly path: string;
  readonly headSha: string;
  readonly headBranch: string | null;
  readonly repositoryId: string;
  readonly headRepositoryId: string | null;
  readonly actor: Actor | null;
  readonly triggeringActor: Actor | null;
}

/**
 * The run behind a token that wants to open a request. The token says who began it; only the run says who pressed the
 * button last. All three must be one account: a writer who re-runs a maintainer's recovery must not spend as the maintainer.
 */
export function checkRun(
  claims: Claims,
  run: RunRecord,
  rules: Pick<OriginRules, "defaultBranch" | "workflowPath">,
): Refusal | null {
  const differs = firstDifference([
    ...identity(claims, run),
    ["workflow", run.path, rules.workflowPath],
    ["branch", run.headBranch ?? "", rules.defaultBranch],
    ["sha", run.headSha, claims.sha],
  ]);
  if (differs !== null) return differs;
  const actor = run.actor?.id ?? "";
  const triggeringActor = run.triggeringActor?.id ?? "";
  if (actor !== claims.actor_id || triggeringActor !== claims.actor_id) {
    return { reason: "actor", token: claims.actor_id, actor, triggeringActor };
  }
  // A token outlives its job by hours: once the run is over, whoever still holds it took it from there.
  return run.status === "completed" ? { reason: "run-finished", runId: run.id } : null;
}

/** The run behind a token that only reads its own lanes: the same run, of this repository and of no fork. */
export function checkReadRun(claims: Claims, run: RunRecord): Refusal | null {
  const differs = firstDifference(identity(claims, run));
  if (differs !== null) return differs;
  if (run.headRepositoryId !== claims.repository_id) {
    return { reason: "fork", headRepositoryId: run.headRepositoryId ?? "" };
  }
  return run.status === "completed" ? { reason: "run-finished", runId: run.id } : null;
}

type Comparison = readonly [what: RunFact, got: string, expected: string];

function identity(claims: Claims, run: RunRecord): readonly Comparison[] {
  return [
    ["id", run.id, claims.run_id],
    ["repository", run.repositoryId, claims.repository_id],
    ["event", run.event, claims.event_name],
    ["attempt", String(run.attempt), claims.run_attempt],
  ];
}

function firstDifference(comparisons: readonly Comparison[]): Refusal | null {
  for (const [what, got, expected] of comparisons) {
    if (got !== expected) return { reason: "run-differs", what, got, expected };
  }
  return null;
}

function seconds(ms: Millis): number {
  return Math.round(ms / 1000);
}
