/** What happens to a pull request: opened, pushed to, labelled, closed, merged; and the test merge behind it. */

import type { Changes } from "./git.ts";
import { applyChanges } from "./git.ts";
import type { Hub } from "./hub.ts";
import type { Account, PullRequest, Repository } from "./model.ts";
import { renderAccount } from "./render-common.ts";
import { renderLabel, renderPull } from "./render-pulls.ts";
import { renderSuite } from "./render-checks.ts";
import { suiteFor } from "./checks.ts";

export function headRef(branch: string): string {
  return `refs/heads/${branch}`;
}

export function headSha(repository: Repository, branch: string): string {
  const sha = repository.refs.get(headRef(branch));
  if (sha === undefined) throw new Error(`${repository.name} has no branch ${branch}`);
  return sha;
}

/** A commit with these changes on a branch, made from `from` when the branch is new. Gives the new SHA. */
export function commitTo(
  hub: Hub,
  repository: Repository,
  branch: string,
  input: { changes: Changes; author: Account; message?: string | undefined; from?: string },
): string {
  const parent = repository.refs.get(headRef(branch)) ?? input.from;
  const files = applyChanges(parent === undefined ? {} : repository.git.filesAt(parent), input.changes);
  const message = input.message ?? `Change ${hub.world.nextId("commit", 0)} on ${branch}`;
  const { login, id } = input.author;
  const commit = repository.git.commit({
    files,
    parents: parent === undefined ? [] : [parent],
    message,
    author: { name: login, email: `${id}+${login}@users.noreply.local` },
    at: hub.world.clock.now(),
  });
  repository.refs.set(headRef(branch), commit.sha);
  return commit.sha;
}

/** `push`, and the empty suite GitHub makes for our App on every push to the repository itself. */
export function pushed(
  hub: Hub,
  repository: Repository,
  branch: string,
  before: string | null,
  after: string,
  sender: Account,
): void {
  const who = renderAccount(hub, sender);
  const commits = repository.git.commitsBetween(before ?? after, after).map((commit) => ({
    id: commit.sha,
    tree_id: commit.tree,
    message: commit.message,
    author: commit.author,
    committer: commit.author,
  }));
  hub.webhooks.emit("push", null, repository, who, {
    ref: headRef(branch),
    before: before ?? "0".repeat(40),
    after,
    created: before === null,
    deleted: false,
    forced: false,
    base_ref: null,
    commits,
    head_commit: commits.at(-1) ?? null,
    pusher: { name: sender.login, email: null },
  });
  if (hub.world.installationOf(repository) === undefined) return;
  const suite = suiteFor(hub, repository, hub.app.id, after);
  hub.webhooks.emit("check_suite", "requested", repository, who, { check_suite: renderSuite(hub, suite) });
}

export function emitPull(
  hub: Hub,
  repository: Repository,
  pull: PullRequest,
  action: string,
  sender: Account,
  extra: Record<string, unknown> = {},
): string | null {
  return hub.webhooks.emit("pull_request", action, repository, renderAccount(hub, sender), {
    number: pull.number,
    pull_request: renderPull(hub, repository, pull, "webhook"),
    ...extra,
  });
}

export function emitLabel(
  hub: Hub,
  repository: Repository,
  pull: PullRequest,
  action: "labeled" | "unlabeled",
  name: string,
  sender: Account,
): void {
  const label = repository.labels.get(name.toLowerCase());
  if (label !== undefined)
    emitPull(hub, repository, pull, action, sender, { label: renderLabel(hub, repository, label) });
}

export function mergeRef(pull: PullRequest): string {
  return `refs/pull/${pull.number}/merge`;
}

/**
 * GitHub's background job after a head or base moved: `mergeable` is null until it ran; then the test merge stands at
 * `refs/pull/N/merge`, or the pull request is in conflict and the old test merge stays where it was.
 */
export function recomputeMerge(hub: Hub, repository: Repository, pull: PullRequest, after?: () => void): void {
  pull.mergeable = null;
  const { sha } = pull.head;
  hub.timers.after(hub.timing.mergeabilityMs, () => {
    if (pull.head.sha !== sha || pull.state !== "open") return;
    const base = headSha(repository, pull.base.branch);
    const files = repository.git.merge(base, sha);
    pull.mergeable = files !== null;
    if (files === null) return;
    const commit = repository.git.commit({
      files,
      parents: [base, sha],
      message: `Merge ${sha} into ${base}`,
      author: { name: "GitHub", email: "noreply@github.local" },
      at: hub.world.clock.now(),
    });
    pull.mergeCommit = commit.sha;
    repository.refs.set(mergeRef(pull), commit.sha);
    after?.();
  });
}

/** The `pull_request` workflows of a head: they run on the test merge, and not at all on a conflict. */
export function triggerPullWorkflows(
  hub: Hub,
  repository: Repository,
  pull: PullRequest,
  actor: Account,
  action: "opened" | "synchronize" | "reopened",
): void {
  const sha = repository.refs.get(mergeRef(pull));
  if (sha === undefined) return;
  hub.engine.trigger({
    repository,
    headRepository: pull.head.repository,
    event: "pull_request",
    headBranch: pull.head.branch,
    headSha: pull.head.sha,
    sha,
    ref: mergeRef(pull),
    actor,
    pullNumber: pull.number,
    payload: { action, number: pull.number, pull_request: renderPull(hub, repository, pull, "webhook") },
  });
}

/** A base branch moved: every open pull request onto it gets a new base and a new test merge. */
export function baseMoved(hub: Hub, repository: Repository, branch: string): void {
  for (const pull of hub.world.pulls(repository)) {
    if (pull.base.branch !== branch) continue;
    pull.base.sha = headSha(repository, branch);
    recomputeMerge(hub, repository, pull);
  }
}

export function ensureLabel(hub: Hub, repository: Repository, name: string): void {
  const key = name.toLowerCase();
  if (!repository.labels.has(key))
    repository.labels.set(key, { id: hub.world.nextId("label", 7_000_000), name, color: "ededed" });
}
