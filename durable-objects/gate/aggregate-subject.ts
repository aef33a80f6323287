/**
 * What the aggregator's answer on a commit is for: an open pull request, or a merge group. Whether anybody still waits for it,
 * and the head branches by which a check is one that must report on a release.
 *
 * A group's commit cannot move, and its members cannot change: their branches are read once, and only where a rule asks for them.
 */
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import { describeFailure, type GitHubFailure } from "../../shared/github/failure.ts";
import { err, ok, type Result } from "../../shared/result.ts";
import type { Group } from "../../shared/lifecycle/model.ts";
import type { Millis } from "../../shared/ports.ts";
import { MERGE_GROUP, type AggregateRow } from "./aggregates.ts";
import type { Store } from "./store.ts";

/** Something that could not be read: neither good nor bad, and asked for again. */
export interface Unread {
  readonly kind: "unread";
  readonly problem: string;
  /** Not before this instant; 0: whenever. */
  readonly retryAt: Millis;
}

export type Subject =
  /** `headRefs`: the members' head branches, where they were read now or before. */
  | { readonly kind: "open"; readonly headRef: string; readonly draft: boolean; readonly headRefs?: readonly string[] }
  | { readonly kind: "over"; readonly why: string }
  | Unread;

export type SubjectPort = Pick<
  GitHubClient,
  "repository" | "getPull" | "getRef" | "listCommitsBetween" | "listPullsForCommit"
>;

export interface SubjectContext {
  readonly store: Pick<Store, "requestsOfHead" | "isHeadParked">;
  readonly github: SubjectPort;
}

export async function readSubject(
  row: AggregateRow,
  config: RepositoryConfig | null,
  context: SubjectContext,
): Promise<Subject> {
  return row.prNumber === MERGE_GROUP ? readGroup(row, config, context) : readPull(row, config, context.github);
}

async function readPull(row: AggregateRow, config: RepositoryConfig | null, github: SubjectPort): Promise<Subject> {
  const pull = await github.getPull(row.prNumber);
  if (!pull.ok) {
    const gone = pull.error.reason === "not-found" || pull.error.reason === "gone";
    return gone ? { kind: "over", why: "The pull request is gone" } : notRead("The pull request", pull.error);
  }
  if (pull.value.state !== "open") return { kind: "over", why: "The pull request was closed" };
  if (pull.value.headSha !== row.headSha) return { kind: "over", why: "Superseded by a newer commit" };
  const { headRef, draft } = pull.value;
  const release = await releaseRefAt(row.headSha, headRef, releasePrefix(config), github);
  return release.ok ? { kind: "open", headRef: release.value ?? headRef, draft } : release.error;
}

/**
 * The release branch of this repository that is at the commit and has an open pull request, if the speaking pull request's is
 * none. The check is the commit's, and anybody may open one at it from a fork, under a name that asks for less. Null: there is
 * no such, or nothing depends on it.
 */
async function releaseRefAt(
  headSha: string,
  headRef: string,
  prefix: string | null,
  github: SubjectPort,
): Promise<Result<string | null, Unread>> {
  if (prefix === null || headRef.startsWith(prefix)) return ok(null);
  const pulls = await github.listPullsForCommit(headSha);
  if (!pulls.ok) {
    return pulls.error.reason === "not-found" ? ok(null) : err(notRead("The commit's pull requests", pulls.error));
  }
  const release = pulls.value.items.find(
    (pull) =>
      pull.state === "open" &&
      pull.headSha === headSha &&
      pull.headRepositoryId === github.repository.id &&
      pull.headRef.startsWith(prefix),
  );
  return ok(release?.headRef ?? null);
}

/** A group is waited for while its request is open, and while the queue keeps its branch at this commit. */
async function readGroup(
  row: AggregateRow,
  config: RepositoryConfig | null,
  { store, github }: SubjectContext,
): Promise<Subject> {
  const request = store.requestsOfHead(row.headSha, "merge-group").at(-1);
  const group = request?.group;
  if (request === undefined || group === undefined) {
    if (!store.isHeadParked(row.headSha, "merge-group")) {
      return { kind: "over", why: "No request is known for this merge group" };
    }
    return { kind: "unread", problem: "The stored request of this merge group does not read", retryAt: 0 };
  }
  if (request.state.kind === "concluded") {
    const branch = await github.getRef(group.headRef);
    if (!branch.ok) return notRead("The merge group's branch", branch.error);
    if (branch.value !== row.headSha) return { kind: "over", why: "The merge queue is done with this group" };
  }
  const prefix = releasePrefix(config);
  if (prefix === null) return { kind: "open", headRef: "", draft: false };
  const known = row.record.headRefs;
  const read = known === undefined ? await memberRefs(row.headSha, group, github) : ok(known);
  if (!read.ok) return read.error;
  const headRef = read.value.find((ref) => ref.startsWith(prefix)) ?? "";
  return { kind: "open", headRef, draft: false, headRefs: read.value };
}

/** How releases begin, where any required check is one that must report on them. */
function releasePrefix(config: RepositoryConfig | null): string | null {
  const asked = config?.required_checks.some((check) => check.report === "must-on-release") === true;
  return asked ? config.aggregator.release_prefix : null;
}

/** The head branches of the pull requests whose heads are in the group, and of the one it is named after. */
async function memberRefs(
  headSha: string,
  group: Group,
  github: SubjectPort,
): Promise<Result<readonly string[], Unread>> {
  const unread = (what: string, failure: GitHubFailure) => err(notRead(what, failure));
  const listed = await github.listCommitsBetween(group.baseSha, headSha);
  if (!listed.ok) return unread("The merge group's commits", listed.error);
  if (!listed.value.complete) {
    const problem = "GitHub does not list every commit of this merge group";
    return err({ kind: "unread", problem, retryAt: 0 });
  }
  const commits = new Set(listed.value.items);
  const refs = new Set<string>();
  for (const sha of commits) {
    const pulls = await github.listPullsForCommit(sha);
    // GitHub maps no pull request to what the queue itself made.
    if (!pulls.ok && pulls.error.reason !== "not-found") return unread("A commit's pull requests", pulls.error);
    for (const pull of pulls.ok ? pulls.value.items : []) if (commits.has(pull.headSha)) refs.add(pull.headRef);
  }
  // A squashed group has one commit, which nothing but the branch's name maps.
  const named = /\/pr-(\d{1,9})-[0-9a-f]+$/.exec(group.headRef)?.[1];
  if (named !== undefined) {
    const pull = await github.getPull(Number(named));
    if (!pull.ok && pull.error.reason !== "not-found") return unread("A member of the merge group", pull.error);
    if (pull.ok) refs.add(pull.value.headRef);
  }
  return ok([...refs]);
}

export function notRead(what: string, failure: GitHubFailure): Unread {
  const retryAt = failure.reason === "rate-limited" ? failure.retryAtMs : 0;
  return { kind: "unread", problem: `${what} cannot be read: ${describeFailure(failure)}`, retryAt };
}
