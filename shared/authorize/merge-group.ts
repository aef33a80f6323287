/**
 * Authorisation of a merge group: the commits a merge queue has put together, which nobody pushed. In this order:
 *
 *  1. the configuration, from the head of the default branch (as for a pull request);
 *  2. the group is still there: its branch names its head. Asked for again, one that was dissolved would be tested for nobody;
 *  3. the acting user, where a person asked for it again. The queue itself is nobody's word but its members';
 *  4. every commit between the group's base and head belongs to a pull request: one that belongs to none would enter the base
 *     branch on the strength of the others' checks. The members are those that the queue took in, and no other that has a
 *     commit in common with them: anybody can open such a one;
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
import type { Pull, PullSummary } from "../github/pulls.ts";
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

/**
 * A member's check that is being made anew is waited for so long after the group was opened. Another pull request at the
 * member's commit has it asked about once more, anybody's from a fork included, and that takes seconds.
 */
const MEMBER_CHECK_MS: Millis = 120_000;

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
    const problem = await authorsProblem(port, members.pulls, rules);
    if (problem !== null) return problem;
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

/**
 * Steps 4 and 5. The pull requests in the order of their numbers, the one the group is named after last.
 *
 * A member is what the queue took in: the pull request the group is named after, and each other one for the group's branch
 * whose own head the queue put onto its line. Whatever else contains a commit of the group, or is contained in a member,
 * belongs to somebody who is not merging anything here: it says whose a commit is, and nobody waits for its check.
 */
async function membersOf(
  port: MergeGroupPort,
  input: MergeGroupInput,
  terms: Terms,
): Promise<{ readonly pulls: readonly Pull[] } | AuthorizeOutcome> {
  const problem = (detail: string): AuthorizeOutcome => ({ kind: "members", detail, terms });
  const commits = await port.listCommitsBetween(input.group.baseSha, input.headSha);
  if (!commits.ok) return unknown(commits.error);
  if (!commits.value.complete || commits.value.items.length === 0) {
    return problem("GitHub does not list every commit of this group.");
  }
  const line = await queueLine(port, input.headSha, commits.value.items);
  if ("kind" in line) return line;
  const mapped = new Map<string, readonly PullSummary[]>();
  for (const sha of commits.value.items) {
    const pulls = await port.listPullsForCommit(sha);
    if (!pulls.ok && pulls.error.reason !== "not-found") return unknown(pulls.error);
    if (pulls.ok && !pulls.value.complete) {
      return problem(`GitHub does not list every pull request of commit ${sha.slice(0, 12)}.`);
    }
    mapped.set(sha, pulls.ok ? pulls.value.items.filter((pull) => pull.state === "open") : []);
  }

  const named = numberInRef(input.group.headRef);
  const pulls: Pull[] = [];
  if (named !== null) {
    const pull = await port.getPull(named);
    if (!pull.ok) {
      if (pull.error.reason !== "not-found") return unknown(pull.error);
      return problem(`There is no pull request #${named}, which the group names.`);
    }
    pulls.push(pull.value);
  }
  const takenIn = new Set(line.heads.values());
  // Another pull request at the very head of the named one brings nothing of its own along.
  for (const pull of pulls) takenIn.delete(pull.headSha);
  const isTakenIn = (pull: PullSummary): boolean =>
    pull.state === "open" && takenIn.has(pull.headSha) && pull.baseRef === branchOf(input.group.baseRef);
  const others = new Set([...mapped.values()].flat().flatMap((pull) => (isTakenIn(pull) ? [pull.number] : [])));
  others.delete(named ?? 0);
  for (const number of [...others].toSorted((a, b) => b - a)) {
    const pull = await port.getPull(number);
    if (!pull.ok) return unknown(pull.error);
    if (isTakenIn(pull.value)) pulls.unshift(pull.value);
  }

  const stray = strayOf(mapped, line, pulls, named === null ? null : input.headSha);
  if (stray !== null) return problem(`Commit ${stray.slice(0, 12)} of the group belongs to no open pull request.`);
  for (const pull of pulls) {
    const green = await hasSuccess(port, pull, input, terms);
    if (typeof green === "object") return green;
    if (!green)
      return problem(`#${pull.number} has no green ${terms.checkName} on its head ${pull.headSha.slice(0, 12)}.`);
  }
  return { pulls };
}

/** The commits that the queue itself put on top of the base, each with the head that it took in by it. */
interface Line {
  readonly heads: ReadonlyMap<string, string>;
}

/**
 * From the group's head to its base by first parents. A merge has taken in its second parent; any other commit is a member's
 * own that was kept, or one the queue wrote anew, which is nobody's head.
 */
async function queueLine(
  port: Pick<MergeGroupPort, "getCommit">,
  headSha: string,
  commits: readonly string[],
): Promise<Line | (AuthorizeOutcome & { readonly kind: "unknown" })> {
  const left = new Set(commits);
  const heads = new Map<string, string>();
  let sha: string | undefined = headSha;
  while (sha !== undefined && left.delete(sha)) {
    const commit = await port.getCommit(sha);
    if (!commit.ok) return unknown(commit.error);
    const [first, second, ...more]: readonly string[] = commit.value.parents;
    heads.set(sha, second !== undefined && more.length === 0 ? second : sha);
    sha = first;
  }
  return { heads };
}

/**
 * The first commit that is nobody's; null: each is somebody's. What a member brought along was told of some open pull request.
 * What the queue made GitHub maps to none: it must be a merge of a member's head, or the head that the branch names by its
 * pull request. A pull request built onto the queue's own commits proves nothing about these.
 */
function strayOf(
  mapped: ReadonlyMap<string, readonly PullSummary[]>,
  line: Line,
  members: readonly Pull[],
  named: string | null,
): string | null {
  const heads = new Set(members.map((pull) => pull.headSha));
  const numbers = new Set(members.map((pull) => pull.number));
  for (const [sha, pulls] of mapped) {
    const head = line.heads.get(sha);
    const known =
      head === undefined
        ? pulls.length > 0
        : sha === named || heads.has(head) || pulls.some((pull) => numbers.has(pull.number));
    if (!known) return sha;
  }
  return null;
}

/** Whether the newest check of ours on a member's head is a success. Any other conclusion, known or not, is none; of one that is being made nobody knows yet. */
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
  const ended = ours.filter((run) => run.status === "completed");
  if (ended.some((run) => run.conclusion !== "success")) return false;
  if (ours.length > 0 && ended.length === ours.length) return true;
  if (input.now - input.openedAt >= MEMBER_CHECK_MS) return false;
  const anew = { kind: "unknown", why: `the check of #${pull.number} is being made anew`, retryAt: null } as const;
  if (ours.length > 0) return anew;
  if (terms.shadow) return false;
  // Shadow mode was on when the queue took it in, and is off: it is being asked about for real, as this group is.
  const shadow = { filter: "latest", name: `${terms.checkName} (shadow)`, appId: input.appId } as const;
  const before = await port.listCheckRunsForRef(pull.headSha, shadow);
  if (!before.ok) return unknown(before.error);
  return before.value.items.length > 0 ? anew : false;
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

/**
 * Step 7. Two pull requests with one head for one branch are one change: it has an author who may cause spending if either has,
 * or anybody could stop a group by opening its commit once more.
 */
async function authorsProblem(
  port: MergeGroupPort,
  members: readonly Pull[],
  rules: Rules,
): Promise<AuthorizeOutcome | null> {
  const problems = new Map<string, AuthorizeOutcome | null>();
  for (const member of members) {
    const before = problems.get(member.headSha);
    if (before === null) continue;
    const problem = await authorProblem(port, member, rules);
    if (problem === null || before === undefined || problem.kind === "unknown") problems.set(member.headSha, problem);
  }
  return [...problems.values()].find((problem) => problem !== null) ?? null;
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
