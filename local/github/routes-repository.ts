/** Routes of a repository as a whole: itself, its people, its variables, rules and commit statuses. */

import * as z from "zod";
import { countedAnswer, listAnswer, notFound, param, readBody, repositoryOf } from "./http.ts";
import type { Route } from "./http.ts";
import type { RoleName, Variable } from "./model.ts";
import { iso } from "./model.ts";
import { resolveCommit } from "./refs.ts";
import { renderStatus } from "./render-checks.ts";
import { renderAccount, renderFullRepository, renderMinimalRepository, repositoryUrl } from "./render-common.ts";

const statusBody = z.object({
  state: z.enum(["error", "failure", "pending", "success"]),
  context: z.string().default("default"),
  description: z.string().nullable().default(null),
  target_url: z.string().nullable().default(null),
});

/** The legacy base of a role: `maintain` shows as write and `triage` as read. */
export function legacyPermission(role: RoleName): "admin" | "write" | "read" | "none" {
  switch (role) {
    case "admin":
      return "admin";
    case "maintain":
    case "write":
      return "write";
    case "none":
      return "none";
    case "triage":
    case "read":
      return "read";
    default:
      // A custom role: what its base is, is the organisation's business. Here it reads.
      return "read";
  }
}

function renderVariable(variable: Variable): Record<string, unknown> {
  const { name, value } = variable;
  return { name, value, created_at: iso(variable.createdAt), updated_at: iso(variable.updatedAt) };
}

export const repositoryRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/repos/{owner}/{repo}",
    operation: "repos/get",
    as: "installation",
    permission: ["metadata=read"],
    handle: (call) => ({ status: 200, json: renderFullRepository(call.hub, repositoryOf(call)) }),
  },
  {
    method: "GET",
    path: "/repos/{owner}/{repo}/collaborators/{username}/permission",
    operation: "repos/get-collaborator-permission-level",
    as: "installation",
    permission: ["metadata=read"],
    handle: (call) => {
      const repository = repositoryOf(call);
      const user = call.hub.world.account(param(call, "username"));
      if (user === undefined) throw notFound();
      const granted = user.id === repository.owner.id ? "admin" : repository.collaborators.get(user.id);
      // Anyone can read a public repository.
      const role = granted ?? (repository.private ? "none" : "read");
      const permission = legacyPermission(role);
      return {
        status: 200,
        json: {
          permission,
          role_name: role,
          user: {
            ...renderAccount(call.hub, user),
            role_name: role,
            permissions: {
              admin: role === "admin",
              maintain: role === "admin" || role === "maintain",
              push: permission === "admin" || permission === "write",
              triage: permission === "admin" || permission === "write" || role === "triage",
              pull: permission !== "none",
            },
          },
        },
      };
    },
  },
  {
    method: "GET",
    path: "/repos/{owner}/{repo}/actions/variables",
    operation: "actions/list-repo-variables",
    as: "installation",
    permission: ["actions_variables=read"],
    handle: (call) => countedAnswer(call, "variables", [...repositoryOf(call).variables.values()], renderVariable),
  },
  {
    method: "GET",
    path: "/repos/{owner}/{repo}/actions/variables/{name}",
    operation: "actions/get-repo-variable",
    as: "installation",
    permission: ["actions_variables=read"],
    handle: (call) => {
      const variable = repositoryOf(call).variables.get(param(call, "name").toUpperCase());
      if (variable === undefined) throw notFound();
      return { status: 200, json: renderVariable(variable) };
    },
  },
  {
    method: "GET",
    path: "/repos/{owner}/{repo}/rules/branches/{branch*}",
    operation: "repos/get-branch-rules",
    as: "installation",
    permission: ["metadata=read"],
    handle: (call) => listAnswer(call, repositoryOf(call).branchRules.get(param(call, "branch")) ?? [], (rule) => rule),
  },
  {
    method: "POST",
    path: "/repos/{owner}/{repo}/statuses/{sha}",
    operation: "repos/create-commit-status",
    as: "installation",
    permission: ["statuses=write"],
    handle: (call) => {
      const repository = repositoryOf(call);
      const { hub } = call;
      const body = readBody(call, statusBody);
      const status = {
        id: hub.world.nextId("status", 30_000_000_000),
        sha: resolveCommit(repository, param(call, "sha")).sha,
        state: body.state,
        context: body.context,
        description: body.description,
        targetUrl: body.target_url,
        createdAt: hub.world.clock.now(),
      };
      repository.statuses.push(status);
      return { status: 201, json: renderStatus(hub, repository, status) };
    },
  },
  {
    method: "GET",
    path: "/repos/{owner}/{repo}/commits/{ref}/status",
    operation: "repos/get-combined-status-for-ref",
    as: "installation",
    permission: ["statuses=read"],
    handle: (call) => {
      const repository = repositoryOf(call);
      const { sha } = resolveCommit(repository, param(call, "ref"));
      const latest = new Map(repository.statuses.filter((one) => one.sha === sha).map((one) => [one.context, one]));
      const statuses = [...latest.values()];
      const bad = statuses.some((one) => one.state === "failure" || one.state === "error");
      const waiting = statuses.length === 0 || statuses.some((one) => one.state === "pending");
      const url = repositoryUrl(call.hub, repository);
      return {
        status: 200,
        json: {
          state: bad ? "failure" : waiting ? "pending" : "success",
          statuses: statuses.map((one) => renderStatus(call.hub, repository, one)),
          sha,
          total_count: statuses.length,
          repository: renderMinimalRepository(call.hub, repository),
          commit_url: `${url}/commits/${sha}`,
          url: `${url}/commits/${sha}/status`,
        },
      };
    },
  },
];
