/**
 * Other pull requests with the same head commit. A check belongs to a commit, so "no GPU is needed" on one of them would
 * satisfy the branch rule of all: a change that is documentation against one base may be code against another. It is said
 * only where it holds for every open pull request at that commit.
 *
 * Where it does not hold, the commit is tested in the name of the pull request that was asked for, and the green stands for
 * the others too. So nobody gets by one pull request what another is refused: the asking one must be from here, and so must
 * every other one that needs the GPU, and the author of each must be permitted. Who is asking, its author and the acting
 * user, was checked before (authorize.ts); a fork's was not, since its code never meets the money, by whichever request.
 */
import type { RepositoryConfig } from "../config/schema.ts";
import type { GitHubClient } from "../github/client.ts";
import type { Pull, PullSummary } from "../github/pulls.ts";
import type { Terms } from "../lifecycle/model.ts";
import type { AuthorizeOutcome } from "../lifecycle/tasks.ts";
import { changedFiles, mayCauseSpending, refused, trustedWorkflows, unknown, type AuthorizePort } from "./authorize.ts";

export type SiblingsPort = Pick<AuthorizePort, "getPull" | "listPullFiles" | "getFile" | "getRole"> &
  Pick<GitHubClient, "listPullsForCommit" | "listOpenPulls" | "listRefs">;

/** What the names of a merge queue's branches begin with, one for each group (github-facts section 8). */
export const QUEUE_BRANCHES = "gh-readonly-queue/";

type Admitted = AuthorizeOutcome & { readonly kind: "admitted" };

interface About {
  readonly repositoryId: string;
  readonly prNumber: number;
  readonly headSha: string;
  readonly config: RepositoryConfig;
  /** The bases for which this commit was tested, and passed. */
  readonly testedFor: ReadonlySet<string>;
}

/** Takes an admission that needs no GPU; gives it back, or what the other pull requests make of it. */
export async function withSiblings(port: SiblingsPort, admitted: Admitted, about: About): Promise<AuthorizeOutcome> {
  const { admission, terms } = admitted;
  const listed = await listedWith(port, about);
  if ("kind" in listed) return listed;
  const needing: Pull[] = [];
  for (const other of listed.pulls) {
    if (other.number === about.prNumber || other.state !== "open" || other.headSha !== about.headSha) continue;
    // The same commit against the same base is the same change.
    if (other.baseRef === admission.baseRef) continue;
    // What it needs it has. A fork's is never tested: once the commit was, its green is all that is ever said of that one.
    if (about.testedFor.has(other.baseRef)) continue;
    if (about.testedFor.size > 0 && other.headRepositoryId !== about.repositoryId) continue;
    const needs = await needsGpu(port, other.number, about);
    if (needs === null) continue;
    if ("kind" in needs) return needs;
    needing.push(needs.pull);
  }
  const [first] = needing;
  if (first === undefined) return (await queueProblem(port, about)) ?? admitted;
  const problem =
    (await askingProblem(port, first, about, terms)) ?? (await siblingProblem(port, needing, about, terms));
  if (problem !== null) return problem;
  const { defaultBranch, defaultSha } = admission;
  const workflows = await trustedWorkflows(port, { config: about.config, terms, defaultBranch, defaultSha });
  if ("kind" in workflows) return workflows;
  const reason = whyOf(first);
  return { ...admitted, admission: { ...admission, workflowBlobs: workflows.blobs, gpuRequired: true, reason } };
}

/**
 * A merge queue that waits for this commit takes its check for the group's, whose change is another: nothing is said of it while
 * one of the queue's branches is there. Whether such a branch is really a group's does not matter here. Null: none is.
 */
async function queueProblem(
  port: SiblingsPort,
  { headSha }: About,
): Promise<(AuthorizeOutcome & { readonly kind: "unknown" }) | null> {
  const listed = await port.listRefs(`heads/${QUEUE_BRANCHES}`);
  if (!listed.ok) return unknown(listed.error);
  const branch = listed.value.find(({ sha }) => sha === headSha);
  if (branch === undefined) return null;
  return {
    kind: "unknown",
    why: `the commit is a merge group's (${branch.ref}), which has a check of its own`,
    retryAt: null,
  };
}

/**
 * The pull requests among which all others at this commit are. Of a commit that the default branch has, GitHub tells the one
 * that brought it there and none that is open (github-facts section 4); then, and whenever its answer lacks the one that is
 * being asked about, the list of all open ones is read instead.
 */
async function listedWith(
  port: SiblingsPort,
  about: About,
): Promise<{ readonly pulls: readonly PullSummary[] } | (AuthorizeOutcome & { readonly kind: "unknown" })> {
  const ofCommit = await port.listPullsForCommit(about.headSha);
  if (ofCommit.ok) {
    const { items, complete } = ofCommit.value;
    if (complete && items.some((pull) => pull.number === about.prNumber)) return { pulls: items };
  } else if (ofCommit.error.reason !== "not-found" && ofCommit.error.reason !== "unprocessable") {
    return unknown(ofCommit.error);
  }
  const open = await port.listOpenPulls();
  if (!open.ok) return unknown(open.error);
  if (open.value.complete) return { pulls: open.value.items };
  return { kind: "unknown", why: "GitHub does not list every open pull request", retryAt: null };
}

/** The other pull request, if its own change needs the GPU; null: it does not, or it is no longer at this commit. */
async function needsGpu(
  port: SiblingsPort,
  number: number,
  about: About,
): Promise<{ readonly pull: Pull } | AuthorizeOutcome | null> {
  const before = await port.getPull(number);
  if (!before.ok) return unknown(before.error);
  if (!isAt(before.value, about)) return null;
  const files = await changedFiles(port, before.value, about.config);
  if ("kind" in files) return files;
  if (files.classification.gpu) return { pull: before.value };
  // The list was of this head and this base only if both still stand; a head that was away meanwhile is looked at again.
  const after = await port.getPull(number);
  if (!after.ok) return unknown(after.error);
  if (!isAt(after.value, about)) return null;
  if (after.value.baseRef === before.value.baseRef) return null;
  return { kind: "unknown", why: `pull request #${number} changed while it was looked at`, retryAt: null };
}

function isAt(pull: Pull, about: About): boolean {
  return pull.state === "open" && pull.headSha === about.headSha;
}

/** Why the pull request that was asked for may not have the commit tested in its name; null: it may. */
async function askingProblem(
  port: SiblingsPort,
  sibling: Pull,
  about: About,
  terms: Terms,
): Promise<AuthorizeOutcome | null> {
  const asking = await port.getPull(about.prNumber);
  if (!asking.ok) return unknown(asking.error);
  const { state, headSha, headRepositoryId } = asking.value;
  if (state !== "open") return { kind: "closed", terms };
  if (headSha !== about.headSha) return { kind: "moved", headSha, terms };
  if (headRepositoryId === about.repositoryId) return null;
  const way = about.config.fork_fallback.instructions;
  const detail = `A check speaks for a commit: ${whyOf(sibling)}. This one comes from a fork, whose code is never run on a rented GPU. ${way}`;
  return refused("fork", detail, terms, { prNumber: sibling.number, baseRef: sibling.baseRef });
}

/** Why one of the others would be refused if it were asked for itself; null: none would. */
async function siblingProblem(
  port: SiblingsPort,
  needing: readonly Pull[],
  about: About,
  terms: Terms,
): Promise<AuthorizeOutcome | null> {
  const { config, repositoryId } = about;
  for (const pull of needing) {
    const heldBy = { prNumber: pull.number, baseRef: pull.baseRef };
    const speaks = `A check speaks for a commit: ${whyOf(pull)}`;
    if (pull.headRepositoryId !== repositoryId)
      return refused("fork", `${speaks}, but comes from a fork.`, terms, heldBy);
    const permitted = await mayCauseSpending(port, config, pull.author, pull.authorType);
    if (permitted.kind === "unknown") return permitted;
    if (permitted.kind === "no") {
      const roles = config.access.roles.join(" or ");
      const detail = `${speaks}, but its author needs the role ${roles} here and has ${permitted.role}.`;
      return refused("author-not-permitted", detail, terms, heldBy);
    }
  }
  return null;
}

function whyOf(pull: Pull): string {
  return `pull request #${pull.number} has the same commit for ${pull.baseRef}, and needs the GPU`;
}
