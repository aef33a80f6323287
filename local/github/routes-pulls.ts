/** Routes of pull requests and of the comments and labels on them. */

import * as z from "zod";
import { idParam, listAnswer, notFound, param, readBody, Refusal, repositoryOf } from "./http.ts";
import type { Call, Route } from "./http.ts";
import type { Account, PullRequest, Repository } from "./model.ts";
import { emitLabel, ensureLabel } from "./pulls.ts";
import { renderAccount, renderCommit } from "./render-common.ts";
import {
  changedFiles,
  renderComment,
  renderFile,
  renderIssue,
  renderLabel,
  renderPull,
  renderPullSimple,
} from "./render-pulls.ts";

/** GitHub lists at most this many files of one pull request, and says nothing about the rest. */
const fileLimit = 3000;
const commitLimit = 250;

function pullOf(call: Call, name: string): { repository: Repository; pull: PullRequest } {
  const repository = repositoryOf(call);
  const number = idParam(call, name);
  const pull = repository.pulls.find((one) => one.number === number);
  if (pull === undefined) throw notFound();
  return { repository, pull };
}

function bot(call: Call): Account {
  return call.hub.world.ensureAccount(`${call.hub.app.slug}[bot]`, "Bot");
}

/** `head` is `owner:branch`; anything else is ignored, as GitHub ignores it. */
function listPulls(call: Call) {
  const repository = repositoryOf(call);
  const state = call.query.get("state") ?? "open";
  const head = call.query.get("head");
  const base = call.query.get("base");
  const byHead = head !== null && /^[^:]+:.+$/.test(head);
  const pulls = repository.pulls
    .filter((pull) => state === "all" || pull.state === state)
    .filter(
      (pull) =>
        !byHead || `${pull.head.repository.owner.login}:${pull.head.branch}`.toLowerCase() === head.toLowerCase(),
    )
    .filter((pull) => base === null || pull.base.branch === base)
    .sort((a, b) => b.number - a.number);
  return listAnswer(call, pulls, (pull) => renderPullSimple(call.hub, repository, pull));
}

function commentBody(call: Call): string {
  return readBody(call, z.object({ body: z.string().min(1).max(65_536) })).body;
}

const readPulls = { method: "GET", as: "installation", permission: ["pull_requests=read"] } as const;
const readIssues = { method: "GET", as: "installation", permission: ["issues=read", "pull_requests=read"] } as const;
const writeIssues = { as: "installation", permission: ["issues=write", "pull_requests=write"] } as const;

export const pullRoutes: readonly Route[] = [
  { ...readPulls, path: "/repos/{owner}/{repo}/pulls", operation: "pulls/list", handle: listPulls },
  {
    ...readPulls,
    path: "/repos/{owner}/{repo}/pulls/{pull_number}",
    operation: "pulls/get",
    handle: (call) => {
      const { repository, pull } = pullOf(call, "pull_number");
      return { status: 200, json: renderPull(call.hub, repository, pull, "api") };
    },
  },
  {
    ...readPulls,
    path: "/repos/{owner}/{repo}/pulls/{pull_number}/files",
    operation: "pulls/list-files",
    handle: (call) => {
      const { repository, pull } = pullOf(call, "pull_number");
      const files = changedFiles(repository, pull).slice(0, fileLimit);
      return listAnswer(call, files, (file) => renderFile(call.hub, repository, file, pull.head.sha));
    },
  },
  {
    ...readPulls,
    path: "/repos/{owner}/{repo}/pulls/{pull_number}/commits",
    operation: "pulls/list-commits",
    handle: (call) => {
      const { repository, pull } = pullOf(call, "pull_number");
      const commits = repository.git.commitsBetween(pull.base.sha, pull.head.sha).slice(0, commitLimit);
      return listAnswer(call, commits, (commit) => renderCommit(call.hub, repository, commit));
    },
  },
  {
    ...readPulls,
    path: "/repos/{owner}/{repo}/pulls/{pull_number}/reviews",
    operation: "pulls/list-reviews",
    handle: (call) => {
      pullOf(call, "pull_number");
      return listAnswer(call, [], (review) => review);
    },
  },
  {
    ...readIssues,
    path: "/repos/{owner}/{repo}/issues/{issue_number}/comments",
    operation: "issues/list-comments",
    handle: (call) => {
      const { repository, pull } = pullOf(call, "issue_number");
      const comments = repository.comments.filter((comment) => comment.number === pull.number);
      return listAnswer(call, comments, (comment) => renderComment(call.hub, repository, comment));
    },
  },
  {
    ...writeIssues,
    method: "POST",
    path: "/repos/{owner}/{repo}/issues/{issue_number}/comments",
    operation: "issues/create-comment",
    handle: (call) => {
      const { repository, pull } = pullOf(call, "issue_number");
      const comment = addComment(call, repository, pull, commentBody(call));
      return { status: 201, json: renderComment(call.hub, repository, comment) };
    },
  },
  {
    ...writeIssues,
    method: "PATCH",
    path: "/repos/{owner}/{repo}/issues/comments/{comment_id}",
    operation: "issues/update-comment",
    handle: (call) => {
      const repository = repositoryOf(call);
      const id = idParam(call, "comment_id");
      const comment = repository.comments.find((one) => one.id === id);
      if (comment === undefined) throw notFound();
      if (!comment.viaApp) throw new Refusal(403, "Resource not accessible by integration");
      comment.body = commentBody(call);
      comment.updatedAt = call.hub.world.clock.now();
      return { status: 200, json: renderComment(call.hub, repository, comment) };
    },
  },
  {
    ...writeIssues,
    method: "POST",
    path: "/repos/{owner}/{repo}/issues/comments/{comment_id}/reactions",
    operation: "reactions/create-for-issue-comment",
    handle: (call) => {
      const repository = repositoryOf(call);
      const id = idParam(call, "comment_id");
      if (!repository.comments.some((one) => one.id === id)) throw notFound();
      const { content } = readBody(
        call,
        z.object({ content: z.enum(["+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"]) }),
      );
      const { hub } = call;
      const reaction = {
        id: hub.world.nextId("reaction", 0),
        node_id: "reaction",
        user: renderAccount(hub, bot(call)),
        content,
      };
      return { status: 201, json: { ...reaction, created_at: new Date(hub.world.clock.now()).toISOString() } };
    },
  },
  {
    ...readIssues,
    path: "/repos/{owner}/{repo}/issues/{issue_number}/labels",
    operation: "issues/list-labels-on-issue",
    handle: (call) => {
      const { repository, pull } = pullOf(call, "issue_number");
      return listAnswer(call, labelsOf(repository, pull), (label) => renderLabel(call.hub, repository, label));
    },
  },
  {
    ...writeIssues,
    method: "POST",
    path: "/repos/{owner}/{repo}/issues/{issue_number}/labels",
    operation: "issues/add-labels",
    handle: (call) => {
      const { repository, pull } = pullOf(call, "issue_number");
      const { labels } = readBody(call, z.object({ labels: z.array(z.string()).min(1) }));
      for (const name of labels) {
        ensureLabel(call.hub, repository, name);
        if (pull.labels.includes(name)) continue;
        pull.labels.push(name);
        emitLabel(call.hub, repository, pull, "labeled", name, bot(call));
      }
      return { status: 200, json: labelsOf(repository, pull).map((label) => renderLabel(call.hub, repository, label)) };
    },
  },
  {
    ...writeIssues,
    method: "DELETE",
    path: "/repos/{owner}/{repo}/issues/{issue_number}/labels/{name}",
    operation: "issues/remove-label",
    handle: (call) => {
      const { repository, pull } = pullOf(call, "issue_number");
      const name = param(call, "name");
      const at = pull.labels.indexOf(name);
      if (at < 0) throw new Refusal(404, "Label does not exist");
      pull.labels.splice(at, 1);
      emitLabel(call.hub, repository, pull, "unlabeled", name, bot(call));
      return { status: 200, json: labelsOf(repository, pull).map((label) => renderLabel(call.hub, repository, label)) };
    },
  },
];

function labelsOf(repository: Repository, pull: PullRequest) {
  return pull.labels.flatMap((name) => repository.labels.get(name.toLowerCase()) ?? []);
}

function addComment(call: Call, repository: Repository, pull: PullRequest, body: string) {
  const { hub } = call;
  const now = hub.world.clock.now();
  const comment = {
    id: hub.world.nextId("comment", 2_400_000_000),
    number: pull.number,
    user: bot(call),
    viaApp: true,
    body,
    createdAt: now,
    updatedAt: now,
  };
  repository.comments.push(comment);
  const parts = { issue: renderIssue(hub, repository, pull), comment: renderComment(hub, repository, comment) };
  hub.webhooks.emit("issue_comment", "created", repository, renderAccount(hub, comment.user), parts);
  return comment;
}
