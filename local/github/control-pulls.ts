/** What people do to pull requests, on order: commits, pushes, labels, comments, merges and the merge queue. */

import { RepositoryView } from "./control-base.ts";
import type { Changes, Files, GitStore } from "./git.ts";
import type { PullRequest, Repository } from "./model.ts";
import {
  commitTo,
  emitLabel,
  emitPull,
  ensureLabel,
  headRef,
  headSha,
  pushed,
  recomputeMerge,
  triggerPullWorkflows,
} from "./pulls.ts";
import { renderAccount, renderSimpleCommit } from "./render-common.ts";
import { renderComment, renderIssue } from "./render-pulls.ts";

export interface OpenPull {
  readonly author: string;
  /** Path to new text, or null to remove a file; a rename is one path removed and the same text at another. */
  readonly files: Changes;
  /** Defaults to `change-N`. */
  readonly branch?: string;
  readonly title?: string;
  readonly body?: string;
  readonly draft?: boolean;
  readonly base?: string;
  /** The branch is there already and stays as it is: another pull request from the same head. */
  readonly asItIs?: boolean;
  /** The head lives in a fork of this owner; the author owns it unless named. */
  readonly fork?: boolean | { readonly owner: string };
}

export interface PullView {
  readonly number: number;
  readonly headSha: string;
  readonly branch: string;
}

export class PullControl extends RepositoryView {
  // Commits

  /** A commit straight to a branch, the default branch unless named: `push`, new bases, and the `push` workflows. */
  commit(input: { files: Changes; author?: string; message?: string; branch?: string }): string {
    const branch = input.branch ?? this.repository.defaultBranch;
    const author = this.user(input.author ?? this.repository.owner.login);
    const before = this.repository.refs.get(headRef(branch)) ?? null;
    const from = this.sha();
    const sha = commitTo(this.hub, this.repository, branch, {
      changes: input.files,
      author,
      message: input.message,
      from,
    });
    this.afterPush(branch, before, sha, author);
    return sha;
  }

  /** Merges a pull request with a merge commit. */
  merge(number: number, by?: string): string {
    const pull = this.openPull(number);
    const { git } = this.repository;
    const author = this.user(by ?? this.repository.owner.login);
    const base = this.sha(pull.base.branch);
    const files = git.merge(base, pull.head.sha);
    if (files === null)
      throw new Error(`pull request ${number} is in conflict with ${pull.base.branch} and cannot be merged`);
    const now = this.hub.world.clock.now();
    const commit = git.commit({
      files,
      parents: [base, pull.head.sha],
      message: `Merge pull request #${number} from ${pull.head.repository.owner.login}/${pull.head.branch}`,
      author: { name: author.login, email: `${author.login}@users.noreply.local` },
      at: now,
    });
    this.repository.refs.set(headRef(pull.base.branch), commit.sha);
    Object.assign(pull, {
      state: "closed",
      merged: true,
      mergedBy: author,
      mergeCommit: commit.sha,
      mergedAt: now,
      closedAt: now,
      updatedAt: now,
    });
    emitPull(this.hub, this.repository, pull, "closed", author);
    this.afterPush(pull.base.branch, base, commit.sha, author);
    return commit.sha;
  }

  // Pull requests

  openPullRequest(input: OpenPull): PullView {
    const hub = this.hub;
    const author = this.user(input.author);
    const number = hub.world.nextId(`number ${this.id}`, 0);
    const branch = input.branch ?? `change-${number}`;
    const base = input.base ?? this.repository.defaultBranch;
    const from = this.sha(base);
    const home =
      input.fork === undefined || input.fork === false
        ? this.repository
        : this.#forkOf(input.fork === true ? input.author : input.fork.owner);
    const sha =
      input.asItIs === true
        ? headSha(home, branch)
        : commitTo(hub, home, branch, { changes: input.files, author, message: input.title, from });
    if (home === this.repository && input.asItIs !== true) pushed(hub, home, branch, null, sha, author);
    const now = hub.world.clock.now();
    const pull: PullRequest = {
      id: hub.world.nextId("pull", 2_100_000_000),
      number,
      title: input.title ?? `Change ${number}`,
      body: input.body ?? null,
      user: author,
      state: "open",
      draft: input.draft ?? false,
      merged: false,
      mergedBy: null,
      mergeCommit: null,
      mergeable: null,
      head: { repository: home, branch, sha },
      base: { branch: base, sha: from },
      labels: [],
      createdAt: now,
      updatedAt: now,
      closedAt: null,
      mergedAt: null,
    };
    this.repository.pulls.push(pull);
    this.repository.refs.set(`refs/pull/${number}/head`, sha);
    emitPull(hub, this.repository, pull, "opened", author);
    recomputeMerge(hub, this.repository, pull, () =>
      triggerPullWorkflows(hub, this.repository, pull, author, "opened"),
    );
    return { number, headSha: sha, branch };
  }

  /** New commits on the head branch: `synchronize`. Gives the new head SHA. */
  push(number: number, input: { files: Changes; author?: string; message?: string }): string {
    const hub = this.hub;
    const pull = this.openPull(number);
    const author = this.user(input.author ?? pull.user.login);
    const home = pull.head.repository;
    const before = pull.head.sha;
    const sha = commitTo(hub, home, pull.head.branch, {
      changes: input.files,
      author,
      message: input.message,
      from: before,
    });
    pull.head.sha = sha;
    pull.updatedAt = hub.world.clock.now();
    this.repository.refs.set(`refs/pull/${number}/head`, sha);
    if (home === this.repository) pushed(hub, home, pull.head.branch, before, sha, author);
    emitPull(hub, this.repository, pull, "synchronize", author, { before, after: sha });
    recomputeMerge(hub, this.repository, pull, () =>
      triggerPullWorkflows(hub, this.repository, pull, author, "synchronize"),
    );
    return sha;
  }

  close(number: number, by?: string): void {
    const pull = this.openPull(number);
    const now = this.hub.world.clock.now();
    Object.assign(pull, { state: "closed", closedAt: now, updatedAt: now });
    emitPull(this.hub, this.repository, pull, "closed", this.user(by ?? pull.user.login));
  }

  reopen(number: number, by?: string): void {
    const pull = this.pull(number);
    if (pull.state === "open" || pull.merged)
      throw new Error(`pull request ${number} is not closed, or is merged: it cannot be reopened`);
    const author = this.user(by ?? pull.user.login);
    Object.assign(pull, { state: "open", closedAt: null, updatedAt: this.hub.world.clock.now() });
    emitPull(this.hub, this.repository, pull, "reopened", author);
    recomputeMerge(this.hub, this.repository, pull, () =>
      triggerPullWorkflows(this.hub, this.repository, pull, author, "reopened"),
    );
  }

  setDraft(number: number, draft: boolean, by?: string): void {
    const pull = this.openPull(number);
    if (pull.draft === draft) return;
    pull.draft = draft;
    emitPull(
      this.hub,
      this.repository,
      pull,
      draft ? "converted_to_draft" : "ready_for_review",
      this.user(by ?? pull.user.login),
    );
  }

  /** Somebody lets it target another branch; its head stays. Unless a workflow listens for `edited`, none runs. */
  retarget(number: number, base: string, by?: string): void {
    const pull = this.openPull(number);
    const { branch: from, sha } = pull.base;
    if (from === base) return;
    pull.base = { branch: base, sha: this.sha(base) };
    pull.updatedAt = this.hub.world.clock.now();
    recomputeMerge(this.hub, this.repository, pull);
    emitPull(this.hub, this.repository, pull, "edited", this.user(by ?? pull.user.login), {
      changes: { base: { ref: { from }, sha: { from: sha } } },
    });
  }

  addLabel(number: number, name: string, by: string): void {
    const pull = this.pull(number);
    ensureLabel(this.hub, this.repository, name);
    if (!pull.labels.includes(name)) pull.labels.push(name);
    emitLabel(this.hub, this.repository, pull, "labeled", name, this.user(by));
  }

  removeLabel(number: number, name: string, by: string): void {
    const pull = this.pull(number);
    const at = pull.labels.indexOf(name);
    if (at < 0) throw new Error(`pull request ${number} has no label ${name}`);
    pull.labels.splice(at, 1);
    emitLabel(this.hub, this.repository, pull, "unlabeled", name, this.user(by));
  }

  comment(number: number, body: string, by: string): number {
    const hub = this.hub;
    const pull = this.pull(number);
    const now = hub.world.clock.now();
    const comment = {
      id: hub.world.nextId("comment", 2_400_000_000),
      number,
      user: this.user(by),
      viaApp: false,
      body,
      createdAt: now,
      updatedAt: now,
    };
    this.repository.comments.push(comment);
    hub.webhooks.emit("issue_comment", "created", this.repository, renderAccount(hub, comment.user), {
      issue: renderIssue(hub, this.repository, pull),
      comment: renderComment(hub, this.repository, comment),
    });
    return comment.id;
  }

  // Merge queue

  /** Groups pull requests on a queue branch and asks for checks there. */
  /** The queue puts these together by its rule's method and asks for checks. */
  mergeGroup(
    numbers: readonly number[],
    method: "merge" | "squash" | "rebase" = "merge",
  ): { headSha: string; headRef: string } {
    const hub = this.hub;
    const { defaultBranch, owner } = this.repository;
    const base = this.sha();
    let head = base;
    for (const number of numbers) head = this.#queued(head, this.openPull(number), method);
    const branch = `gh-readonly-queue/${defaultBranch}/pr-${numbers.at(-1) ?? 0}-${base}`;
    this.repository.refs.set(headRef(branch), head);
    this.#mergeGroupEvent("checks_requested", head, branch, base, {});
    const repository = this.repository;
    const group = this.#mergeGroup(head, branch, base);
    hub.engine.trigger({
      repository,
      headRepository: repository,
      event: "merge_group",
      headBranch: branch,
      headSha: head,
      sha: head,
      ref: headRef(branch),
      actor: owner,
      payload: { action: "checks_requested", merge_group: group },
    });
    return { headSha: head, headRef: headRef(branch) };
  }

  destroyMergeGroup(ref: string, reason: "merged" | "invalidated" | "dequeued"): void {
    const sha = this.repository.refs.get(ref);
    if (sha === undefined) throw new Error(`${this.fullName} has no queue branch ${ref}`);
    this.repository.refs.delete(ref);
    this.#mergeGroupEvent("destroyed", sha, ref.replace("refs/heads/", ""), this.sha(), { reason });
  }

  /** One pull request put onto the queue's head so far; gives the new head. */
  #queued(head: string, pull: PullRequest, method: "merge" | "squash" | "rebase"): string {
    const { git, owner } = this.repository;
    const commits = git.commitsBetween(pull.base.sha, pull.head.sha);
    const steps = method === "rebase" ? commits.map((one) => one.sha) : [pull.head.sha];
    let onto = head;
    for (const step of steps) {
      const files = method === "rebase" ? replayed(git, onto, step) : git.merge(onto, step);
      if (files === null) throw new Error(`pull request ${pull.number} is in conflict with the queue`);
      const original = git.readCommit(step);
      const { message, author } = {
        merge: {
          message: `Merge pull request #${pull.number}`,
          author: { name: owner.login, email: "queue@users.noreply.local" },
        },
        squash: { message: `${pull.title} (#${pull.number})`, author: original.author },
        rebase: original,
      }[method];
      const parents = method === "merge" ? [onto, step] : [onto];
      // The queue commits everything itself: even a commit that is put onto its own parent again gets another id.
      const committer = { name: "GitHub", email: "noreply@github.local" };
      onto = git.commit({ files, parents, message, author, committer, at: this.hub.world.clock.now() }).sha;
    }
    return onto;
  }

  #mergeGroupEvent(action: string, sha: string, branch: string, base: string, extra: Record<string, unknown>): void {
    this.hub.webhooks.emit("merge_group", action, this.repository, renderAccount(this.hub, this.repository.owner), {
      ...extra,
      merge_group: this.#mergeGroup(sha, branch, base),
    });
  }

  #mergeGroup(sha: string, branch: string, base: string): Record<string, unknown> {
    const { defaultBranch, git } = this.repository;
    return {
      head_sha: sha,
      head_ref: headRef(branch),
      base_sha: base,
      base_ref: headRef(defaultBranch),
      head_commit: renderSimpleCommit(git.readCommit(sha)),
    };
  }

  #forkOf(owner: string): Repository {
    const { world } = this.hub;
    const account = this.user(owner);
    const known = world.repository(owner, this.repository.name);
    if (known !== undefined) return known;
    const fork: Repository = {
      ...this.repository,
      id: world.nextId("repository", 700_000_000),
      owner: account,
      fork: this.repository,
      createdAt: world.clock.now(),
      refs: new Map(this.repository.refs),
      collaborators: new Map(),
      variables: new Map(),
      secrets: new Map(),
      environments: new Map(),
      workflows: new Map(),
      pulls: [],
      comments: [],
      labels: new Map(),
      statuses: [],
      branchRules: new Map(),
      protections: new Map(),
      releases: [],
    };
    world.repositories.set(fork.id, fork);
    return fork;
  }
}

/** One commit's own change put onto another; null when a path it changes is not as it found it. */
function replayed(git: GitStore, onto: string, step: string): Files | null {
  const [parent] = git.readCommit(step).parents;
  const [here, before, after] = [git.filesAt(onto), parent === undefined ? {} : git.filesAt(parent), git.filesAt(step)];
  const files: Record<string, string> = { ...here };
  for (const path of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (before[path] === after[path]) continue;
    if (here[path] !== before[path]) return null;
    const text = after[path];
    if (text === undefined) delete files[path];
    else files[path] = text;
  }
  return files;
}
