/** Routes of the git data: contents, trees, refs, commits, branches, compare. */

import { listAnswer, notFound, param, paged, Refusal, repositoryOf } from "./http.ts";
import type { Answer, Call, Route } from "./http.ts";
import type { TreeEntry } from "./git.ts";
import type { Hub } from "./hub.ts";
import type { Repository } from "./model.ts";
import { fullName } from "./model.ts";
import { findRef, resolveCommit } from "./refs.ts";
import { nodeId, renderCommit, renderGitCommit, repositoryUrl } from "./render-common.ts";
import { renderFile, renderPullSimple } from "./render-pulls.ts";

/** GitHub cuts a recursive tree at 100,000 entries and says so. */
const treeLimit = 100_000;

function contentLinks(
  hub: Hub,
  repository: Repository,
  entry: TreeEntry,
  path: string,
  ref: string,
): Record<string, unknown> {
  const encoded = path.split("/").map(encodeURIComponent).join("/");
  const self = `${repositoryUrl(hub, repository)}/contents/${encoded}?ref=${ref}`;
  const git = `${repositoryUrl(hub, repository)}/git/${entry.type}s/${entry.sha}`;
  const html = `${hub.url}/${fullName(repository)}/${entry.type}/${ref}/${encoded}`;
  return {
    name: path.split("/").at(-1) ?? path,
    path,
    sha: entry.sha,
    size: entry.size ?? 0,
    url: self,
    html_url: html,
    git_url: git,
    download_url: entry.type === "blob" ? `${hub.url}/raw/${fullName(repository)}/${ref}/${encoded}` : null,
    _links: { self, git, html },
  };
}

function getContent(call: Call): Answer {
  const repository = repositoryOf(call);
  const ref = call.query.get("ref") ?? repository.defaultBranch;
  const commit = repository.git.findCommit(findRef(repository, ref)?.sha ?? ref);
  if (commit === undefined) throw new Refusal(404, `No commit found for the ref ${ref}`);
  const path = (call.params["path"] ?? "").replace(/^\/+|\/+$/g, "");
  const all = repository.git.walk(commit.tree);
  const entry = all.find((one) => one.path === path);
  if (entry?.type === "blob") {
    const text = repository.git.blob(entry.sha) ?? "";
    const content = Buffer.from(text)
      .toString("base64")
      .replace(/(.{60})/g, "$1\n");
    return {
      status: 200,
      json: { type: "file", encoding: "base64", content, ...contentLinks(call.hub, repository, entry, path, ref) },
    };
  }
  if (entry === undefined && path !== "") throw notFound();
  const prefix = path === "" ? "" : `${path}/`;
  const inside = all.filter((one) => one.path.startsWith(prefix) && !one.path.slice(prefix.length).includes("/"));
  return {
    status: 200,
    json: inside.map((one) => ({
      type: one.type === "blob" ? "file" : "dir",
      ...contentLinks(call.hub, repository, one, one.path, ref),
    })),
  };
}

function getTree(call: Call): Answer {
  const repository = repositoryOf(call);
  const name = param(call, "tree_sha");
  const commit = repository.git.findCommit(findRef(repository, name)?.sha ?? name);
  const sha = commit?.tree ?? name;
  const direct = repository.git.tree(sha);
  if (direct === undefined) throw notFound();
  const entries = call.query.has("recursive") ? repository.git.walk(sha) : direct;
  const url = `${repositoryUrl(call.hub, repository)}/git`;
  return {
    status: 200,
    json: {
      sha,
      url: `${url}/trees/${sha}`,
      tree: entries.slice(0, treeLimit).map((entry) => ({ ...entry, url: `${url}/${entry.type}s/${entry.sha}` })),
      truncated: entries.length > treeLimit,
    },
  };
}

function renderRef(hub: Hub, repository: Repository, ref: string, sha: string): Record<string, unknown> {
  const url = `${repositoryUrl(hub, repository)}/git`;
  return {
    ref,
    node_id: nodeId("Ref", `${repository.id}:${ref}`),
    url: `${url}/${ref}`,
    object: { sha, type: "commit", url: `${url}/commits/${sha}` },
  };
}

function getRef(call: Call): Answer {
  const repository = repositoryOf(call);
  const ref = `refs/${param(call, "ref")}`;
  const sha = repository.refs.get(ref);
  if (sha === undefined) throw notFound();
  return { status: 200, json: renderRef(call.hub, repository, ref, sha) };
}

/** Every ref that begins so, in one answer: this list has no pages. */
function matchingRefs(call: Call): Answer {
  const repository = repositoryOf(call);
  const start = `refs/${param(call, "ref")}`;
  const found = [...repository.refs].filter(([ref]) => ref.startsWith(start)).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return { status: 200, json: found.map(([ref, sha]) => renderRef(call.hub, repository, ref, sha)) };
}

function getCommit(call: Call): Answer {
  const repository = repositoryOf(call);
  const commit = resolveCommit(repository, param(call, "ref"));
  const parent = commit.parents[0];
  const files = parent === undefined ? [] : repository.git.diff(parent, commit.sha);
  const page = paged(call, files);
  const additions = files.reduce((sum, file) => sum + file.additions, 0);
  const deletions = files.reduce((sum, file) => sum + file.deletions, 0);
  return {
    status: 200,
    json: {
      ...renderCommit(call.hub, repository, commit),
      stats: { total: additions + deletions, additions, deletions },
      files: page.items.map((file) => renderFile(call.hub, repository, file, commit.sha)),
    },
    headers: page.headers,
  };
}

function compare(call: Call): Answer {
  const repository = repositoryOf(call);
  const { git } = repository;
  const [base, head] = param(call, "basehead").split("...");
  if (base === undefined || head === undefined || base === "" || head === "") throw notFound();
  const plain = (name: string): string => name.split(":").at(-1) ?? name;
  const [from, to] = [resolveCommit(repository, plain(base)), resolveCommit(repository, plain(head))];
  const ancestor = git.mergeBase(from.sha, to.sha);
  if (ancestor === undefined) throw new Refusal(404, `No common ancestor between ${base} and ${head}.`);
  const ahead = git.commitsBetween(from.sha, to.sha);
  const behind = git.commitsBetween(to.sha, from.sha);
  const url = `${repositoryUrl(call.hub, repository)}/compare/${base}...${head}`;
  const html = `${call.hub.url}/${fullName(repository)}/compare/${base}...${head}`;
  const page = paged(call, ahead);
  const firstPage = (call.query.get("page") ?? "1") === "1";
  return {
    status: 200,
    json: {
      url,
      html_url: html,
      permalink_url: html,
      diff_url: `${html}.diff`,
      patch_url: `${html}.patch`,
      base_commit: renderCommit(call.hub, repository, from),
      merge_base_commit: renderCommit(call.hub, repository, git.readCommit(ancestor)),
      status:
        ahead.length > 0 && behind.length > 0
          ? "diverged"
          : ahead.length > 0
            ? "ahead"
            : behind.length > 0
              ? "behind"
              : "identical",
      ahead_by: ahead.length,
      behind_by: behind.length,
      total_commits: ahead.length,
      commits: page.items.map((commit) => renderCommit(call.hub, repository, commit)),
      // On the first page only, and never more than 300 for the whole comparison.
      ...(firstPage
        ? {
            files: git
              .diff(ancestor, to.sha)
              .slice(0, 300)
              .map((file) => renderFile(call.hub, repository, file, to.sha)),
          }
        : {}),
    },
    headers: page.headers,
  };
}

const read = { method: "GET", as: "installation", permission: ["contents=read"] } as const;

export const contentRoutes: readonly Route[] = [
  { ...read, path: "/repos/{owner}/{repo}/contents", operation: "repos/get-content", handle: getContent },
  { ...read, path: "/repos/{owner}/{repo}/contents/{path*}", operation: "repos/get-content", handle: getContent },
  { ...read, path: "/repos/{owner}/{repo}/git/trees/{tree_sha*}", operation: "git/get-tree", handle: getTree },
  { ...read, path: "/repos/{owner}/{repo}/git/ref/{ref*}", operation: "git/get-ref", handle: getRef },
  {
    ...read,
    path: "/repos/{owner}/{repo}/git/matching-refs/{ref*}",
    operation: "git/list-matching-refs",
    handle: matchingRefs,
  },
  {
    ...read,
    path: "/repos/{owner}/{repo}/git/commits/{commit_sha}",
    operation: "git/get-commit",
    handle: (call) => {
      const repository = repositoryOf(call);
      const commit = repository.git.findCommit(param(call, "commit_sha"));
      if (commit === undefined) throw notFound();
      return { status: 200, json: renderGitCommit(call.hub, repository, commit) };
    },
  },
  {
    ...read,
    path: "/repos/{owner}/{repo}/git/blobs/{file_sha}",
    operation: "git/get-blob",
    handle: (call) => {
      const sha = param(call, "file_sha");
      const repository = repositoryOf(call);
      const text = repository.git.blob(sha);
      if (text === undefined) throw notFound();
      const bytes = Buffer.from(text);
      const url = `${repositoryUrl(call.hub, repository)}/git/blobs/${sha}`;
      return {
        status: 200,
        json: {
          sha,
          node_id: nodeId("Blob", sha),
          size: bytes.length,
          url,
          content: bytes.toString("base64"),
          encoding: "base64",
        },
      };
    },
  },
  {
    ...read,
    permission: ["pull_requests=read"],
    path: "/repos/{owner}/{repo}/commits/{commit_sha}/pulls",
    operation: "repos/list-pull-requests-associated-with-commit",
    handle: (call) => {
      const repository = repositoryOf(call);
      const { sha } = resolveCommit(repository, param(call, "commit_sha"));
      const main = repository.refs.get(`refs/heads/${repository.defaultBranch}`);
      const onMain = main !== undefined && repository.git.history(main).some((commit) => commit.sha === sha);
      const pulls = repository.pulls.filter((pull) =>
        onMain
          ? pull.merged && (pull.mergeCommit === sha || pull.head.sha === sha)
          : (pull.state === "open" || pull.merged) &&
            repository.git.commitsBetween(pull.base.sha, pull.head.sha).some((one) => one.sha === sha),
      );
      return listAnswer(call, pulls, (pull) => renderPullSimple(call.hub, repository, pull));
    },
  },
  { ...read, path: "/repos/{owner}/{repo}/commits/{ref*}", operation: "repos/get-commit", handle: getCommit },
  {
    ...read,
    path: "/repos/{owner}/{repo}/compare/{basehead*}",
    operation: "repos/compare-commits-with-basehead",
    handle: compare,
  },
  {
    ...read,
    path: "/repos/{owner}/{repo}/branches/{branch*}",
    operation: "repos/get-branch",
    handle: (call) => {
      const repository = repositoryOf(call);
      const branch = param(call, "branch");
      const sha = repository.refs.get(`refs/heads/${branch}`);
      if (sha === undefined) throw new Refusal(404, "Branch not found");
      const url = `${repositoryUrl(call.hub, repository)}/branches/${branch}`;
      return {
        status: 200,
        json: {
          name: branch,
          commit: renderCommit(call.hub, repository, repository.git.readCommit(sha)),
          _links: { self: url, html: `${call.hub.url}/${fullName(repository)}/tree/${branch}` },
          protected: repository.branchRules.has(branch),
          protection: { enabled: false },
          protection_url: `${url}/protection`,
        },
      };
    },
  },
];
