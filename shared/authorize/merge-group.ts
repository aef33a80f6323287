/**
 * Authorisation of a merge group: the commits a merge queue has put together, which nobody pushed. In this order:
 *
 *  1. the configuration, from the head of the default branch (as for a pull request);
 *  2. the group is still there: its branch names its head. Asked for again, one that was dissolved would be tested for nobody;
 *  3. the acting user, where a person asked for it again. The queue itself is nobody's word but its members';
 *  4. the members: every commit between the group's base and head belongs to a pull request. A commit that belongs to none
 *     would enter the base branch on the strength of the others' checks;
 *  5. each member's present head has our own success, told by the App's id and not by the check's name alone;
 *  6. the group's change as a whole, classified; a list that GitHub may have cut is code;
 *  7. each member's author, by `role_name`, unless that member's own change needs no GPU: what it adds is never executed there;
 *  8. the workflow files that will run, and how long the queue waits.
 *
 * A group's commit cannot move; a member's head can, so the same procedure runs again inside the lock.
 */
import type { RepositoryConfig } from "../config/schema.ts";
import { toMillis } from "../config/limits.ts";
import type { GitHubClient } from "../github/client.ts";
import type { Pull } from "../github/pulls.ts";
import type { Group, Terms } from "../lifecycle/model.ts";
import type { Actor } from "../lifecycle/signal.ts";
import type { AuthorizeOutcome } from "../lifecycle/tasks.ts";
import { fromListedFile } from "../policy/changes.ts";
import { classify, type Classification } from "../policy/classify.ts";
import type { Millis } from "../ports.ts";
import {
  changedFiles,
  mayCauseSpending,
  readRules,
  refused,
  trustedWorkflows,
  unknown,
  type Authorized,
  type AuthorizePort,
  type Rules,
} from "./authorize.ts";

export type MergeGroupPort = Pick<
  AuthorizePort,
  "getRepository" | "getBranchHead" | "getFile" | "getPull" | "getRole" | "getRef" | "listPullFiles"
> &
  Pick<
    GitHubClient,
    | "getCommit"
    | "listCommitsBetween"
    | "listPullsForCommit"
    | "listCheckRunsForRef"
    | "compareFiles"
    | "getQueueTimeout"
  >;

export interface MergeGroupInput {
  readonly repositoryId: string;
  /** The App whose check counts. */
  readonly appId: string;
  readonly headSha: string;
  readonly group: Group;
  /** Who asked for it again; null: the queue did, and nobody asked again. */
  readonly actor: Actor | null;
  readonly openedAt: Millis;
  readonly now: Millis;
}

/** A group that was announced just now may have a branch that GitHub does not show everywhere yet. */
const NEW_GROUP_MS: Millis = 30_000;

export async function authorizeMergeGroup(port: MergeGroupPort, input: MergeGroupInput): Promise<Authorized> {
  const rules = await readRules(port, input);
  if ("outcome" in rules) return { outcome: rules.outcome, config: null };
  // The group's commit has checks of its own before money.
  const terms: Terms = { ...rules.terms, preGate: [...rules.config.merge_queue.pre_gate] };
  return { outcome: await decide(port, input, { ...rules, terms }), config: rules.config };
}

async function decide(port: MergeGroupPort, input: MergeGroupInput, rules: Rules): Promise<AuthorizeOutcome> {
  const { terms, config } = rules;
  const early = (await dissolved(port, input, terms)) ?? (await actorProblem(port, input.actor, rules));
  if (early !== null) return early;
  const members = await membersOf(port, input, terms);
  if ("kind" in members) return members;
  const change = await groupChange(port, input, config);
  if ("kind" in change) return change;
  if (change.classification.gpu) {
    for (const member of members.pulls) {
      const problem = await authorProblem(port, member, rules);
      if (problem !== null) return problem;
    }
  }
  const workflows = change.classification.gpu ? await trustedWorkflows(port, rules) : { blobs: {} };
  if ("kind" in workflows) return workflows;
  const last = members.pulls.at(-1);
  if (last === undefined) return { kind: "members", detail: "The group has no pull request.", terms };
  const { classification } = change;
  return {
    kind: "admitted",
    terms,
    admission: {
      admittedAt: input.now,
      defaultBranch: rules.defaultBranch,
      defaultSha: rules.defaultSha,
      workflowBlobs: { ...workflows.blobs },
      baseRef: branchOf(input.group.baseRef),
      baseSha: input.group.baseSha,
      testedSha: input.headSha,
      title: `Merge group of ${members.pulls.map((pull) => `#${pull.number}`).join(", ")}`.slice(0, 200),
      author: last.author,
      actor: input.actor ?? last.author,
      classification: classification.classification,
      lanes: { ...classification.lanes },
      gpuRequired: classification.gpu,
      reason: classification.reasons
        .slice(0, 3)
        .map((reason) => reason.text)
        .join("; ")
        .slice(0, 500),
      draft: false,
      endsBy: input.openedAt + (await patience(port, input, config)) - toMillis(config.merge_queue.margin),
    },
  };
}

/** The queue's own time limit; the configured one where GitHub does not say. */
async function patience(port: MergeGroupPort, input: MergeGroupInput, config: RepositoryConfig): Promise<Millis> {
  const told = await port.getQueueTimeout(branchOf(input.group.baseRef));
  return (told.ok ? told.value : null) ?? toMillis(config.merge_queue.default_timeout);
}

/** Step 2. Null: the group is there. */
async function dissolved(
  port: Pick<MergeGroupPort, "getRef">,
  input: MergeGroupInput,
  terms: Terms,
): Promise<AuthorizeOutcome | null> {
  const ref = await port.getRef(input.group.headRef);
  if (!ref.ok) return unknown(ref.error);
  if (ref.value === input.headSha) return null;
  // Whoever asks again speaks of a group that was there.
  if (input.actor === null && input.now - input.openedAt < NEW_GROUP_MS) {
    return { kind: "unknown", why: "GitHub does not show the branch of this group yet", retryAt: null };
  }
  return { kind: "closed", terms };
}

/** Step 3. Null: nobody asked for it again, or who did may cause spending. */
async function actorProblem(
  port: Pick<MergeGroupPort, "getRole">,
  actor: Actor | null,
  rules: Rules,
): Promise<AuthorizeOutcome | null> {
  if (actor === null) return null;
  const { config, terms } = rules;
  const permitted = await mayCauseSpending(port, config, actor, "User");
  if (permitted.kind === "yes") return null;
  if (permitted.kind === "unknown") return permitted;
  const detail = `${actor.login}, who caused this run, needs the role ${config.access.roles.join(" or ")} here and has ${permitted.role}.`;
  return refused("actor-not-permitted", detail, terms);
}

/** Steps 4 and 5. The pull requests in the order of their numbers, the one the group is named after last. */
async function membersOf(
  port: MergeGroupPort,
  input: MergeGroupInput,
  terms: Terms,
): Promise<{ readonly pulls: readonly Pull[] } | AuthorizeOutcome> {
  const commits = await port.listCommitsBetween(input.group.baseSha, input.headSha);
  if (!commits.ok) return unknown(commits.error);
  if (!commits.value.complete || commits.value.items.length === 0) {
    return { kind: "members", detail: "GitHub does not list every commit of this group.", terms };
  }
  const named = numberInRef(input.group.headRef);
  const numbers = new Set<number>(named === null ? [] : [named]);
  const unmapped: string[] = [];
  for (const sha of commits.value.items) {
    const pulls = await port.listPullsForCommit(sha);
    if (!pulls.ok && pulls.error.reason !== "not-found") return unknown(pulls.error);
    const open = pulls.ok ? pulls.value.items.filter((pull) => pull.state === "open") : [];
    if (open.length === 0 && !(sha === input.headSha && named !== null)) unmapped.push(sha);
    for (const pull of open) numbers.add(pull.number);
  }
  const pulls: Pull[] = [];
  for (const number of [...numbers].toSorted((a, b) => a - b)) {
    const pull = await port.getPull(number);
    if (!pull.ok) {
      if (pull.error.reason !== "not-found") return unknown(pull.error);
      return { kind: "members", detail: `There is no pull request #${number}, which the group names.`, terms };
    }
    pulls.push(pull.value);
  }
  const stray = await notMerges(port, unmapped, pulls);
  if (typeof stray === "object") return stray;
  if (stray !== "") {
    return {
      kind: "members",
      detail: `Commit ${stray.slice(0, 12)} of the group belongs to no open pull request.`,
      terms,
    };
  }
  for (const pull of pulls) {
    const green = await hasSuccess(port, pull, input, terms);
    if (typeof green === "object") return green;
    if (!green) {
      const detail = `#${pull.number} has no green ${terms.checkName} on its head ${pull.headSha.slice(0, 12)}.`;
      return { kind: "members", detail, terms };
    }
  }
  const last = pulls.filter((pull) => pull.number === named);
  return { pulls: [...pulls.filter((pull) => pull.number !== named), ...last] };
}

/**
 * The first of these commits that is no merge the queue made of a member's head; "" when each is one. GitHub maps no pull
 * request to such a merge, and its second parent says whose it is.
 */
async function notMerges(
  port: Pick<MergeGroupPort, "getCommit">,
  commits: readonly string[],
  members: readonly Pull[],
): Promise<string | (AuthorizeOutcome & { readonly kind: "unknown" })> {
  const heads = new Set(members.map((pull) => pull.headSha));
  for (const sha of commits) {
    const commit = await port.getCommit(sha);
    if (!commit.ok) return commit.error.reason === "not-found" ? sha : unknown(commit.error);
    const [, merged, ...more] = commit.value.parents;
    if (merged === undefined || more.length > 0 || !heads.has(merged)) return sha;
  }
  return "";
}

/** Whether the newest check of ours on a member's head is a success. Any other conclusion, known or not, is none. */
async function hasSuccess(
  port: Pick<MergeGroupPort, "listCheckRunsForRef">,
  pull: Pull,
  input: MergeGroupInput,
  terms: Terms,
): Promise<boolean | (AuthorizeOutcome & { readonly kind: "unknown" })> {
  const name = terms.shadow ? `${terms.checkName} (shadow)` : terms.checkName;
  const runs = await port.listCheckRunsForRef(pull.headSha, { filter: "latest", name, appId: input.appId });
  if (!runs.ok) return unknown(runs.error);
  if (!runs.value.complete) return false;
  const ours = runs.value.items.filter((run) => run.name === name && run.appId === input.appId);
  return ours.length > 0 && ours.every((run) => run.status === "completed" && run.conclusion === "success");
}

async function groupChange(
  port: Pick<MergeGroupPort, "compareFiles">,
  input: MergeGroupInput,
  config: RepositoryConfig,
): Promise<{ readonly classification: Classification } | AuthorizeOutcome> {
  const compared = await port.compareFiles(input.group.baseSha, input.headSha);
  if (!compared.ok) return unknown(compared.error);
  const files = compared.value.files.map((file) =>
    fromListedFile({
      filename: file.filename,
      previous_filename: file.previousFilename,
      status: file.status,
      changes: file.changes,
      patch: file.patch,
    }),
  );
  // A comparison shows 300 files at most and never says that there are more.
  const problem = compared.value.complete ? null : ({ kind: "list-cap", declared: files.length } as const);
  return { classification: classify(config, { event: "merge_group", files, problem }) };
}

async function authorProblem(port: MergeGroupPort, member: Pull, rules: Rules): Promise<AuthorizeOutcome | null> {
  const { config, terms } = rules;
  const permitted = await mayCauseSpending(port, config, member.author, member.authorType);
  if (permitted.kind === "yes") return null;
  if (permitted.kind === "unknown") return permitted;
  const own = await changedFiles(port, member, config);
  if ("kind" in own) return own;
  if (!own.classification.gpu) return null;
  const detail = `The author of #${member.number} needs the role ${config.access.roles.join(" or ")} here and has ${permitted.role}.`;
  return refused("author-not-permitted", detail, terms);
}

/** `refs/heads/gh-readonly-queue/main/pr-7-<sha>` names pull request 7. */
function numberInRef(headRef: string): number | null {
  const digits = /\/pr-(\d{1,9})-[0-9a-f]+$/.exec(headRef)?.[1];
  return digits === undefined ? null : Number(digits);
}

function branchOf(ref: string): string {
  return ref.replace(/^refs\/heads\//, "");
}
