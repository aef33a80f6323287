/** Accounts, repositories, commits and the App, in the shape GitHub's answers and webhooks carry them. */

import type { Hub } from "./hub.ts";
import type { Commit } from "./git.ts";
import type { Account, Installation, Repository } from "./model.ts";
import { actionsAppId, fullName, iso } from "./model.ts";

export type Json = Record<string, unknown>;

/** An opaque global id, in the style of GitHub's. */
export function nodeId(kind: string, id: number | string): string {
  return Buffer.from(`${kind}:${id}`).toString("base64url");
}

export function renderAccount(hub: Hub, account: Account): Json {
  const login = encodeURIComponent(account.login);
  const url = `${hub.url}/users/${login}`;
  return {
    login: account.login,
    id: account.id,
    node_id: nodeId(account.type, account.id),
    avatar_url: `${hub.url}/avatars/${account.id}`,
    gravatar_id: "",
    url,
    html_url: `${hub.url}/${login}`,
    followers_url: `${url}/followers`,
    following_url: `${url}/following{/other_user}`,
    gists_url: `${url}/gists{/gist_id}`,
    starred_url: `${url}/starred{/owner}{/repo}`,
    subscriptions_url: `${url}/subscriptions`,
    organizations_url: `${url}/orgs`,
    repos_url: `${url}/repos`,
    events_url: `${url}/events{/privacy}`,
    received_events_url: `${url}/received_events`,
    type: account.type,
    user_view_type: "public",
    site_admin: false,
  };
}

export function renderOrganization(hub: Hub, account: Account): Json {
  const url = `${hub.url}/orgs/${account.login}`;
  return {
    login: account.login,
    id: account.id,
    node_id: nodeId("Organization", account.id),
    url,
    repos_url: `${url}/repos`,
    events_url: `${url}/events`,
    hooks_url: `${url}/hooks`,
    issues_url: `${url}/issues`,
    members_url: `${url}/members{/member}`,
    public_members_url: `${url}/public_members{/member}`,
    avatar_url: `${hub.url}/avatars/${account.id}`,
    description: "",
  };
}

export function repositoryUrl(hub: Hub, repository: Repository): string {
  return `${hub.url}/repos/${fullName(repository)}`;
}

const collections: readonly (readonly [string, string])[] = [
  ["archive_url", "{archive_format}{/ref}"],
  ["assignees_url", "assignees{/user}"],
  ["blobs_url", "git/blobs{/sha}"],
  ["branches_url", "branches{/branch}"],
  ["collaborators_url", "collaborators{/collaborator}"],
  ["comments_url", "comments{/number}"],
  ["commits_url", "commits{/sha}"],
  ["compare_url", "compare/{base}...{head}"],
  ["contents_url", "contents/{+path}"],
  ["contributors_url", "contributors"],
  ["deployments_url", "deployments"],
  ["downloads_url", "downloads"],
  ["events_url", "events"],
  ["forks_url", "forks"],
  ["git_commits_url", "git/commits{/sha}"],
  ["git_refs_url", "git/refs{/sha}"],
  ["git_tags_url", "git/tags{/sha}"],
  ["hooks_url", "hooks"],
  ["issue_comment_url", "issues/comments{/number}"],
  ["issue_events_url", "issues/events{/number}"],
  ["issues_url", "issues{/number}"],
  ["keys_url", "keys{/key_id}"],
  ["labels_url", "labels{/name}"],
  ["languages_url", "languages"],
  ["merges_url", "merges"],
  ["milestones_url", "milestones{/number}"],
  ["notifications_url", "notifications{?since,all,participating}"],
  ["pulls_url", "pulls{/number}"],
  ["releases_url", "releases{/id}"],
  ["stargazers_url", "stargazers"],
  ["statuses_url", "statuses/{sha}"],
  ["subscribers_url", "subscribers"],
  ["subscription_url", "subscription"],
  ["tags_url", "tags"],
  ["teams_url", "teams"],
  ["trees_url", "git/trees{/sha}"],
];

/** GitHub's small form: what runs, suites and token lists carry. */
export function renderMinimalRepository(hub: Hub, repository: Repository): Json {
  const url = repositoryUrl(hub, repository);
  return {
    id: repository.id,
    node_id: nodeId("Repository", repository.id),
    name: repository.name,
    full_name: fullName(repository),
    private: repository.private,
    owner: renderAccount(hub, repository.owner),
    html_url: `${hub.url}/${fullName(repository)}`,
    description: null,
    fork: repository.fork !== null,
    url,
    ...Object.fromEntries(collections.map(([key, path]) => [key, `${url}/${path}`])),
  };
}

/** The form of `GET /repos/...`, of pull request ends and of every webhook's `repository`. */
export function renderRepository(hub: Hub, repository: Repository): Json {
  const created = iso(repository.createdAt);
  const html = `${hub.url}/${fullName(repository)}`;
  const open = repository.pulls.filter((pull) => pull.state === "open").length;
  return {
    ...renderMinimalRepository(hub, repository),
    created_at: created,
    updated_at: created,
    pushed_at: created,
    git_url: `${html.replace(/^https?/, "git")}.git`,
    ssh_url: `git@local:${fullName(repository)}.git`,
    clone_url: `${html}.git`,
    svn_url: html,
    mirror_url: null,
    homepage: null,
    size: 1,
    stargazers_count: 0,
    watchers_count: 0,
    language: null,
    has_issues: true,
    has_projects: false,
    has_downloads: true,
    has_wiki: false,
    has_pages: false,
    has_discussions: false,
    forks_count: 0,
    archived: repository.archived,
    disabled: false,
    open_issues_count: open,
    license: null,
    allow_forking: true,
    is_template: false,
    web_commit_signoff_required: false,
    topics: [],
    visibility: repository.private ? "private" : "public",
    forks: 0,
    open_issues: open,
    watchers: 0,
    default_branch: repository.defaultBranch,
  };
}

export function renderFullRepository(hub: Hub, repository: Repository): Json {
  return { ...renderRepository(hub, repository), subscribers_count: 0, network_count: 0 };
}

/** The App as checks name it: ours, or GitHub Actions. */
export function renderApp(hub: Hub, appId: number): Json {
  const { app } = hub;
  const ours = appId === app.id;
  const owner = ours ? app.owner : hub.world.ensureAccount("github", "Organization", 9919);
  const slug = ours ? app.slug : "github-actions";
  return {
    id: appId,
    client_id: ours ? app.clientId : "Iv1.05c79e9ad1f6bdfa",
    slug,
    node_id: nodeId("App", appId),
    owner: renderAccount(hub, owner),
    name: ours ? app.name : "GitHub Actions",
    description: "",
    external_url: ours ? hub.url : "https://help.github.com/en/actions",
    html_url: `${hub.url}/apps/${slug}`,
    created_at: "2018-07-30T09:30:17Z",
    updated_at: "2018-07-30T09:30:17Z",
    permissions: ours ? app.permissions : { actions: "write", checks: "write", contents: "write", metadata: "read" },
    events: ours ? [...app.events] : [],
  };
}

export function isActionsApp(appId: number): boolean {
  return appId === actionsAppId;
}

export function renderInstallation(hub: Hub, installation: Installation): Json {
  const { account } = installation;
  return {
    id: installation.id,
    client_id: hub.app.clientId,
    account: renderAccount(hub, account),
    repository_selection: installation.repositories === null ? "all" : "selected",
    access_tokens_url: `${hub.url}/app/installations/${installation.id}/access_tokens`,
    repositories_url: `${hub.url}/installation/repositories`,
    html_url: `${hub.url}/settings/installations/${installation.id}`,
    app_id: hub.app.id,
    app_slug: hub.app.slug,
    target_id: account.id,
    target_type: account.type,
    permissions: installation.permissions,
    events: [...hub.app.events],
    created_at: iso(installation.createdAt),
    updated_at: iso(installation.createdAt),
    single_file_name: null,
    has_multiple_single_files: false,
    single_file_paths: [],
    suspended_by: installation.suspendedAt === null ? null : renderAccount(hub, account),
    suspended_at: installation.suspendedAt === null ? null : iso(installation.suspendedAt),
  };
}

const unsigned = { verified: false, reason: "unsigned", signature: null, payload: null, verified_at: null };

function stamp(commit: Commit): Json {
  return { name: commit.author.name, email: commit.author.email, date: iso(commit.at) };
}

/** A commit as `git/commits` gives it. */
export function renderGitCommit(hub: Hub, repository: Repository, commit: Commit): Json {
  const url = repositoryUrl(hub, repository);
  const html = `${hub.url}/${fullName(repository)}/commit`;
  return {
    sha: commit.sha,
    node_id: nodeId("Commit", commit.sha),
    url: `${url}/git/commits/${commit.sha}`,
    html_url: `${html}/${commit.sha}`,
    author: stamp(commit),
    committer: stamp(commit),
    tree: { sha: commit.tree, url: `${url}/git/trees/${commit.tree}` },
    message: commit.message,
    parents: commit.parents.map((sha) => ({ sha, url: `${url}/git/commits/${sha}`, html_url: `${html}/${sha}` })),
    verification: unsigned,
  };
}

/** A commit as `commits/{ref}` and the compare answer give it. */
export function renderCommit(hub: Hub, repository: Repository, commit: Commit): Json {
  const url = repositoryUrl(hub, repository);
  const html = `${hub.url}/${fullName(repository)}/commit`;
  const author = hub.world.account(commit.author.name);
  const account = author === undefined ? null : renderAccount(hub, author);
  return {
    sha: commit.sha,
    node_id: nodeId("Commit", commit.sha),
    commit: {
      author: stamp(commit),
      committer: stamp(commit),
      message: commit.message,
      tree: { sha: commit.tree, url: `${url}/git/trees/${commit.tree}` },
      url: `${url}/git/commits/${commit.sha}`,
      comment_count: 0,
      verification: unsigned,
    },
    url: `${url}/commits/${commit.sha}`,
    html_url: `${html}/${commit.sha}`,
    comments_url: `${url}/commits/${commit.sha}/comments`,
    author: account,
    committer: account,
    parents: commit.parents.map((sha) => ({ sha, url: `${url}/commits/${sha}`, html_url: `${html}/${sha}` })),
  };
}

/** The short form in runs, suites and merge groups. */
export function renderSimpleCommit(commit: Commit): Json {
  const { name, email } = commit.author;
  return {
    id: commit.sha,
    tree_id: commit.tree,
    message: commit.message,
    timestamp: iso(commit.at),
    author: { name, email },
    committer: { name, email },
  };
}
