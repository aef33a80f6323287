/**
 * More of the virtual GitHub's routes: comparisons, commits' pull requests, branch rules, variables, an organisation's
 * runners, and what an App asks in its own name.
 */
import { json, list, notFound, route, type Route, type ServerHandler } from "./github-wire.ts";
import { iso, pullJson } from "./github-json.ts";
import { APP_ID, APP_SLUG, type OwnRunner, type Repository } from "./github-model.ts";
import type { NetAnswer, NetRequest } from "./net.ts";
import type { VirtualGitHub } from "./github.ts";

/** Commits of `head` that `base` does not have, oldest first; null when they have no common history here. */
function between(repository: Repository, base: string, head: string): readonly string[] | null {
  if (base === head) return [];
  const group = repository.groups.get(head);
  if (group !== undefined && group.baseSha === base) return group.commits.map((commit) => commit.sha);
  const history = repository.mainHistory.map((commit) => commit.sha);
  const [from, to] = [history.indexOf(base), history.indexOf(head)];
  if (from >= 0 && to >= 0) return to > from ? history.slice(from + 1, to + 1) : [];
  // A head or its test merge is made on top of what the default branch was: neither is part of it.
  const known = (sha: string): boolean =>
    history.includes(sha) || repository.heads.has(sha) || repository.mergeHeads.has(sha);
  return known(base) && known(head) ? null : null;
}

export const MORE_HANDLERS: Readonly<Record<string, ServerHandler>> = {
  compare: (_server, repository, request, [range = ""]) => {
    const [base = "", head = ""] = decodeURIComponent(range).split("...");
    const history = repository.mainHistory.map((commit) => commit.sha);
    const commits = between(repository, base, head);
    if (commits === null) {
      // Both exist, and each has commits that the other lacks.
      if (!repository.knows(base) || !repository.knows(head)) return notFound();
      return json(200, {
        status: "diverged",
        ahead_by: 1,
        behind_by: 1,
        total_commits: 1,
        commits: [{ sha: head }],
        files: [],
        merge_base_commit: { sha: history[0] ?? base },
      });
    }
    const behind = commits.length === 0 && base !== head;
    const page = list(
      request,
      commits.map((sha) => ({ sha })),
      null,
    );
    const files = (repository.groups.get(head)?.files ?? []).map((file) => ({
      ...file,
      sha: null,
      changes: 3,
      patch: "@@",
    }));
    return {
      ...page,
      body: JSON.stringify({
        status: base === head ? "identical" : behind ? "behind" : "ahead",
        ahead_by: commits.length,
        behind_by: behind ? 1 : 0,
        total_commits: commits.length,
        commits: JSON.parse(page.body) as unknown,
        files,
        merge_base_commit: { sha: base },
      }),
    };
  },
  commitPulls: (_server, repository, request, [sha = ""]) =>
    list(
      request,
      [...repository.pulls.values()].filter((pull) => pull.headSha === sha).map((pull) => pullJson(repository, pull)),
      null,
    ),
  listRefs: (_server, repository, _request, [start = ""]) =>
    json(
      200,
      groupRefs(repository).filter((one) => one.ref.startsWith(`refs/${decodeURIComponent(start)}`)),
    ),
  branchRules: (_server, repository) =>
    json(200, [{ type: "merge_queue", parameters: { check_response_timeout_minutes: repository.queueMinutes } }]),
  variable: (_server, repository, _request, [name = ""]) => {
    const value = repository.variables.get(name);
    return value === undefined ? notFound() : json(200, { name, value });
  },
  runnerGroups: (_server, _repository, request) =>
    list(request, [{ id: 7, name: "gpu", visibility: "selected", allows_public_repositories: true }], "runner_groups"),
};

/** A machine of the maintainers' own, beside the runners that the gate registered. */
export function ownRunnerJson(runner: OwnRunner): Record<string, unknown> {
  return {
    id: Number(runner.id),
    name: runner.name,
    os: "linux",
    status: runner.status,
    busy: runner.busy,
    labels: runner.labels.map((name) => ({ name, type: "custom" })),
    runner_group_id: 1,
  };
}

const ORG = "^/orgs/[^/]+";

/** The merge queue's branches: one for each group, as long as it lasts. */
export function groupRefs(
  repository: Repository,
): readonly { readonly ref: string; readonly object: { readonly sha: string } }[] {
  return [...repository.groups.values()]
    .filter((group) => group.over === null)
    .map((group) => ({ ref: group.headRef, object: { sha: group.headSha } }));
}

export const MORE_ROUTES: readonly Route[] = [
  route("GET", "/actions/runs", "listWorkflowRuns"),
  route("GET", "/git/matching-refs/(.+)", "listRefs"),
  route("GET", "/compare/(.+)", "compare"),
  route("GET", "/commits/([^/]+)/pulls", "commitPulls"),
  route("GET", "/rules/branches/(.+)", "branchRules"),
  route("GET", "/actions/variables/([^/]+)", "variable"),
  route("GET", "/actions/runner-groups", "runnerGroups", ORG),
  route("POST", "/actions/runners/generate-jitconfig", "mint", ORG),
  route("GET", "/actions/runners", "listRunners", ORG),
  route("GET", String.raw`/actions/runners/(\d+)`, "getRunner", ORG),
  route("DELETE", String.raw`/actions/runners/(\d+)`, "deleteRunner", ORG),
];

/** What the App asks as itself, with its own key and no installation's token. */
export function performAsApp(server: VirtualGitHub, request: NetRequest): NetAnswer | null {
  const { path, method } = request;
  const { book, now } = server.options;
  if (method === "GET" && path === "/app") return json(200, { id: Number(APP_ID), slug: APP_SLUG, name: APP_SLUG });
  if (method === "GET" && path === "/app/hook/deliveries") {
    // Newest first; the cursor is the id of the last one that was shown.
    const size = Math.min(100, Number(request.query.get("per_page") ?? "30"));
    const before = request.query.get("cursor");
    const older = book.attempts.filter((one) => before === null || BigInt(one.id) < BigInt(before)).toReversed();
    const page = older.slice(0, size);
    const next = older.length > size ? (page.at(-1)?.id ?? null) : null;
    return {
      status: 200,
      body: `[${page
        .map((one) =>
          JSON.stringify({
            guid: one.guid,
            delivered_at: iso(one.at),
            redelivery: one.redelivery,
            duration: 1,
            status: one.status,
            status_code: one.status === "OK" ? 202 : 0,
            event: one.event,
            action: one.action,
            installation_id: Number(one.installationId),
            repository_id: Number(one.repositoryId),
            throttled_at: null,
          }).replace("{", `{"id":${one.id},`),
        )
        .join(",")}]`,
      headers: {
        "content-type": "application/json",
        ...(next === null ? {} : { link: `<https://github.test${path}?cursor=${next}>; rel="next"` }),
      },
    };
  }
  const again = /^\/app\/hook\/deliveries\/(\d+)\/attempts$/.exec(path)?.[1];
  if (method === "POST" && again !== undefined) return book.again(again) ? json(202, {}) : notFound();
  if (method === "GET" && path === "/app/installations") {
    const installed = server.repositories.filter((one) => one.standing !== "removed" && one.standing !== "deleted");
    return list(
      request,
      installed.map((one) => ({
        id: Number(one.installationId),
        app_id: Number(APP_ID),
        account: { login: one.owner, type: "Organization" },
        repository_selection: "selected",
        permissions: {},
        events: [],
        suspended_at: one.standing === "suspended" ? iso(now()) : null,
      })),
      null,
    );
  }
  return null;
}
