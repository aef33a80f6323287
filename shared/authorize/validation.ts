/**
 * Authorisation of a validation: one fixed commit, no pull request. The checks run in this order, each for its attack:
 *
 *  1. the configuration, from the head of the default branch (as for a pull request);
 *  2. the acting user, who must be known: nobody else's word stands behind this request;
 *  3. the revision is a commit of the default branch. GitHub finds the commits of every fork under the parent's name, so
 *     "it exists" would let a fork's code onto a paid machine on the strength of a pasted commit id;
 *  4. the commit that gets the check is contained in the revision, or has the same tree: a success must never stand on a
 *     commit whose content was not tested;
 *  5. the workflow files that will run, as they are on the default branch.
 *
 * A commit cannot move, so nothing is read a second time. The same procedure runs again inside the lock.
 */
import type { GitHubClient } from "../github/client.ts";
import type { Actor } from "../lifecycle/signal.ts";
import type { AuthorizeOutcome } from "../lifecycle/tasks.ts";
import type { Millis } from "../ports.ts";
import {
  mayCauseSpending,
  readRules,
  refused,
  trustedWorkflows,
  unknown,
  type Authorized,
  type AuthorizePort,
  type Rules,
} from "./authorize.ts";

export type ValidationPort = Pick<AuthorizePort, "getRepository" | "getBranchHead" | "getFile" | "getRole"> &
  Pick<GitHubClient, "getCommit" | "compareFiles">;

export interface ValidationInput {
  readonly repositoryId: string;
  /** The commit to test, resolved before the request was opened. */
  readonly revision: string;
  /** The commit that gets the check; often the revision itself. */
  readonly headSha: string;
  readonly actor: Actor | null;
  readonly now: Millis;
}

export async function authorizeValidation(port: ValidationPort, input: ValidationInput): Promise<Authorized> {
  const rules = await readRules(port, input);
  if ("outcome" in rules) return { outcome: rules.outcome, config: null };
  return { outcome: await decide(port, input, rules), config: rules.config };
}

async function decide(port: ValidationPort, input: ValidationInput, rules: Rules): Promise<AuthorizeOutcome> {
  const { terms, config } = rules;
  const { actor, revision } = input;
  if (actor === null) return refused("actor-not-permitted", "Nobody stands behind this validation.", terms);
  const permitted = await mayCauseSpending(port, config, actor, "User");
  if (permitted.kind === "unknown") return permitted;
  if (permitted.kind === "no") {
    const detail = `${actor.login}, who asked for this validation, needs the role ${config.access.roles.join(" or ")} here and has ${permitted.role}.`;
    return refused("actor-not-permitted", detail, terms);
  }
  const misplaced = (await revisionProblem(port, revision, rules)) ?? (await targetProblem(port, input, rules));
  if (misplaced !== null) return misplaced;
  const workflows = await trustedWorkflows(port, rules);
  if ("kind" in workflows) return workflows;
  return {
    kind: "admitted",
    terms,
    admission: {
      admittedAt: input.now,
      defaultBranch: rules.defaultBranch,
      defaultSha: rules.defaultSha,
      workflowBlobs: { ...workflows.blobs },
      baseRef: rules.defaultBranch,
      baseSha: rules.defaultSha,
      testedSha: revision,
      title: `Validation of ${revision.slice(0, 12)}`,
      author: actor,
      actor,
      classification: "code",
      lanes: Object.fromEntries(Object.keys(config.lanes).map((lane) => [lane, true])),
      gpuRequired: true,
      reason: `${actor.login} asked to validate ${revision.slice(0, 12)}`,
      draft: false,
    },
  };
}

async function revisionProblem(port: ValidationPort, revision: string, rules: Rules): Promise<AuthorizeOutcome | null> {
  const { terms, defaultBranch } = rules;
  const commit = await port.getCommit(revision);
  if (!commit.ok) {
    return commit.error.reason === "not-found"
      ? refused("tested-revision-missing", `There is no commit ${revision.slice(0, 12)} in this repository.`, terms)
      : unknown(commit.error);
  }
  const contained = await isContained(port, revision, rules.defaultSha);
  if (contained === true) return null;
  if (contained === false) {
    return refused("revision-not-merged", `${revision.slice(0, 12)} is not part of ${defaultBranch}.`, terms);
  }
  return contained;
}

async function targetProblem(
  port: ValidationPort,
  input: ValidationInput,
  rules: Rules,
): Promise<AuthorizeOutcome | null> {
  const { revision, headSha } = input;
  if (headSha === revision) return null;
  const [target, tested] = [await port.getCommit(headSha), await port.getCommit(revision)];
  if (!target.ok) {
    return target.error.reason === "not-found"
      ? refused("check-target-unrelated", `There is no commit ${headSha.slice(0, 12)} in this repository.`, rules.terms)
      : unknown(target.error);
  }
  if (!tested.ok) return unknown(tested.error);
  if (target.value.treeSha === tested.value.treeSha) return null;
  const contained = await isContained(port, headSha, revision);
  if (contained === true) return null;
  if (contained === false) {
    const detail = `${revision.slice(0, 12)} neither contains ${headSha.slice(0, 12)} nor has the same files, so a check there would speak of untested code.`;
    return refused("check-target-unrelated", detail, rules.terms);
  }
  return contained;
}

/** Whether `whole` has `part` in its history. GitHub says `ahead` or `identical` of the later side exactly then. */
async function isContained(
  port: Pick<ValidationPort, "compareFiles">,
  part: string,
  whole: string,
): Promise<boolean | (AuthorizeOutcome & { readonly kind: "unknown" })> {
  if (part === whole) return true;
  const compared = await port.compareFiles(part, whole);
  // No common history, or a commit GitHub does not have on one side.
  if (!compared.ok) return compared.error.reason === "not-found" ? false : unknown(compared.error);
  return compared.value.status === "ahead" || compared.value.status === "identical";
}
