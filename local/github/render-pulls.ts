/** Pull requests, changed files, labels and comments on the wire. */

import type { FileChange } from "./git.ts";
import type { Hub } from "./hub.ts";
import type { IssueComment, Label, PullRequest, Repository } from "./model.ts";
import { fullName, iso } from "./model.ts";
import { nodeId, renderAccount, renderApp, renderRepository, repositoryUrl } from "./render-common.ts";
import type { Json } from "./render-common.ts";

/** A hint for people, as on GitHub; never a permission. */
export function association(repository: Repository, userId: number): string {
  if (repository.owner.id === userId) return "OWNER";
  return repository.collaborators.has(userId) ? "COLLABORATOR" : "CONTRIBUTOR";
}

export function renderLabel(hub: Hub, repository: Repository, label: Label): Json {
  return {
    id: label.id,
    node_id: nodeId("Label", label.id),
    url: `${repositoryUrl(hub, repository)}/labels/${encodeURIComponent(label.name)}`,
    name: label.name,
    color: label.color,
    default: false,
    description: "",
  };
}

function renderEnd(hub: Hub, repository: Repository, branch: string, sha: string): Json {
  return {
    label: `${repository.owner.login}:${branch}`,
    ref: branch,
    sha,
    user: renderAccount(hub, repository.owner),
    repo: renderRepository(hub, repository),
  };
}

/** The form in lists (`pull-request-simple`). */
export function renderPullSimple(hub: Hub, repository: Repository, pull: PullRequest): Json {
  const api = repositoryUrl(hub, repository);
  const url = `${api}/pulls/${pull.number}`;
  const issue = `${api}/issues/${pull.number}`;
  const html = `${hub.url}/${fullName(repository)}/pull/${pull.number}`;
  const statuses = `${api}/statuses/${pull.head.sha}`;
  const labels = pull.labels.flatMap((name) => {
    const label = repository.labels.get(name.toLowerCase());
    return label === undefined ? [] : [renderLabel(hub, repository, label)];
  });
  return {
    url,
    id: pull.id,
    node_id: nodeId("PullRequest", pull.id),
    html_url: html,
    diff_url: `${html}.diff`,
    patch_url: `${html}.patch`,
    issue_url: issue,
    number: pull.number,
    state: pull.state,
    locked: false,
    title: pull.title,
    user: renderAccount(hub, pull.user),
    body: pull.body,
    created_at: iso(pull.createdAt),
    updated_at: iso(pull.updatedAt),
    closed_at: pull.closedAt === null ? null : iso(pull.closedAt),
    merged_at: pull.mergedAt === null ? null : iso(pull.mergedAt),
    merge_commit_sha: pull.mergeCommit,
    assignee: null,
    assignees: [],
    requested_reviewers: [],
    requested_teams: [],
    labels,
    milestone: null,
    draft: pull.draft,
    commits_url: `${url}/commits`,
    review_comments_url: `${url}/comments`,
    review_comment_url: `${api}/pulls/comments{/number}`,
    comments_url: `${issue}/comments`,
    statuses_url: statuses,
    head: renderEnd(hub, pull.head.repository, pull.head.branch, pull.head.sha),
    base: renderEnd(hub, repository, pull.base.branch, pull.base.sha),
    _links: {
      self: { href: url },
      html: { href: html },
      issue: { href: issue },
      comments: { href: `${issue}/comments` },
      review_comments: { href: `${url}/comments` },
      review_comment: { href: `${api}/pulls/comments{/number}` },
      commits: { href: `${url}/commits` },
      statuses: { href: statuses },
    },
    author_association: association(repository, pull.user.id),
    auto_merge: null,
    active_lock_reason: null,
  };
}

export function changedFiles(repository: Repository, pull: PullRequest): FileChange[] {
  const { git } = repository;
  const ancestor = git.mergeBase(pull.base.sha, pull.head.sha) ?? pull.base.sha;
  return git.diff(ancestor, pull.head.sha);
}

/** The full form. Webhooks carry it with `mergeable: null`, whatever is known. */
export function renderPull(hub: Hub, repository: Repository, pull: PullRequest, where: "api" | "webhook"): Json {
  const files = changedFiles(repository, pull);
  const mergeable = where === "api" ? pull.mergeable : null;
  const sum = (of: (file: FileChange) => number): number => files.reduce((total, file) => total + of(file), 0);
  return {
    ...renderPullSimple(hub, repository, pull),
    merged: pull.merged,
    mergeable,
    rebaseable: mergeable,
    mergeable_state: mergeable === null ? "unknown" : mergeable ? "clean" : "dirty",
    merged_by: pull.mergedBy === null ? null : renderAccount(hub, pull.mergedBy),
    comments: repository.comments.filter((comment) => comment.number === pull.number).length,
    review_comments: 0,
    maintainer_can_modify: pull.head.repository.id !== repository.id,
    commits: repository.git.commitsBetween(pull.base.sha, pull.head.sha).length,
    additions: sum((file) => file.additions),
    deletions: sum((file) => file.deletions),
    changed_files: files.length,
  };
}

export function renderFile(hub: Hub, repository: Repository, file: FileChange, ref: string): Json {
  const html = `${hub.url}/${fullName(repository)}`;
  const path = file.filename.split("/").map(encodeURIComponent).join("/");
  return {
    sha: file.sha,
    filename: file.filename,
    status: file.status,
    additions: file.additions,
    deletions: file.deletions,
    changes: file.additions + file.deletions,
    blob_url: `${html}/blob/${ref}/${path}`,
    raw_url: `${html}/raw/${ref}/${path}`,
    contents_url: `${repositoryUrl(hub, repository)}/contents/${path}?ref=${ref}`,
    ...(file.patch === "" ? {} : { patch: file.patch }),
    ...(file.previousFilename === undefined ? {} : { previous_filename: file.previousFilename }),
  };
}

/** The entry of `pull_requests` in runs, suites and checks. */
export function renderPullMinimal(hub: Hub, repository: Repository, pull: PullRequest): Json {
  const end = (of: Repository, ref: string, sha: string): Json => ({
    ref,
    sha,
    repo: { id: of.id, url: repositoryUrl(hub, of), name: of.name },
  });
  return {
    id: pull.id,
    number: pull.number,
    url: `${repositoryUrl(hub, repository)}/pulls/${pull.number}`,
    head: end(pull.head.repository, pull.head.branch, pull.head.sha),
    base: end(repository, pull.base.branch, pull.base.sha),
  };
}

/** Open pull requests from the repository itself whose head is this commit; forks never appear, as on GitHub. */
export function matchingPulls(hub: Hub, repository: Repository, headSha: string): Json[] {
  return hub.world
    .pulls(repository)
    .filter((pull) => pull.head.sha === headSha && pull.head.repository.id === repository.id)
    .map((pull) => renderPullMinimal(hub, repository, pull));
}

const noReactions = { "+1": 0, "-1": 0, laugh: 0, hooray: 0, confused: 0, heart: 0, rocket: 0, eyes: 0 };

export function renderComment(hub: Hub, repository: Repository, comment: IssueComment): Json {
  const api = repositoryUrl(hub, repository);
  return {
    url: `${api}/issues/comments/${comment.id}`,
    html_url: `${hub.url}/${fullName(repository)}/pull/${comment.number}#issuecomment-${comment.id}`,
    issue_url: `${api}/issues/${comment.number}`,
    id: comment.id,
    node_id: nodeId("IssueComment", comment.id),
    user: renderAccount(hub, comment.user),
    created_at: iso(comment.createdAt),
    updated_at: iso(comment.updatedAt),
    author_association: association(repository, comment.user.id),
    body: comment.body,
    reactions: { url: `${api}/issues/comments/${comment.id}/reactions`, total_count: 0, ...noReactions },
    performed_via_github_app: comment.viaApp ? renderApp(hub, hub.app.id) : null,
  };
}

/** The `issue` of an `issue_comment` event: a pull request seen as an issue. */
export function renderIssue(hub: Hub, repository: Repository, pull: PullRequest): Json {
  const simple = renderPullSimple(hub, repository, pull);
  const api = repositoryUrl(hub, repository);
  const url = `${api}/issues/${pull.number}`;
  return {
    url,
    repository_url: api,
    labels_url: `${url}/labels{/name}`,
    comments_url: `${url}/comments`,
    events_url: `${url}/events`,
    html_url: simple["html_url"],
    id: pull.id + 1,
    node_id: nodeId("Issue", pull.id),
    number: pull.number,
    title: pull.title,
    user: simple["user"],
    labels: simple["labels"],
    state: pull.state,
    locked: false,
    assignee: null,
    assignees: [],
    milestone: null,
    comments: repository.comments.filter((comment) => comment.number === pull.number).length,
    created_at: iso(pull.createdAt),
    updated_at: iso(pull.updatedAt),
    closed_at: simple["closed_at"],
    author_association: simple["author_association"],
    active_lock_reason: null,
    draft: pull.draft,
    pull_request: {
      url: simple["url"],
      html_url: simple["html_url"],
      diff_url: simple["diff_url"],
      patch_url: simple["patch_url"],
      merged_at: simple["merged_at"],
    },
    body: pull.body,
    reactions: { url: `${url}/reactions`, total_count: 0, ...noReactions },
    timeline_url: `${url}/timeline`,
    performed_via_github_app: null,
    state_reason: null,
  };
}
