/** Routes of self-hosted runners and runner groups, for a repository and for an organisation. */

import * as z from "zod";
import { countedAnswer, idParam, notFound, organizationOf, readBody, Refusal, repositoryOf } from "./http.ts";
import type { Answer, Call, Route } from "./http.ts";
import type { Runner, RunnerGroup } from "./model.ts";
import { renderRunner, renderRunnerGroup } from "./render-actions.ts";
import { renderMinimalRepository } from "./render-common.ts";
import { groupOf } from "./runner-desk.ts";

const jitBody = z.object({
  name: z.string().min(1).max(64),
  runner_group_id: z.number(),
  labels: z.array(z.string().min(1).max(256)).min(1).max(100),
  work_folder: z.string().min(1).default("_work"),
});

const groupBody = z.object({
  name: z.string().min(1),
  visibility: z.enum(["selected", "all", "private"]).default("all"),
  selected_repository_ids: z.array(z.number()).default([]),
  allows_public_repositories: z.boolean().default(false),
  restricted_to_workflows: z.boolean().default(false),
  selected_workflows: z.array(z.string()).default([]),
});
const groupPatch = z.object({
  name: z.string().min(1).optional(),
  visibility: z.enum(["selected", "all", "private"]).optional(),
  allows_public_repositories: z.boolean().optional(),
  restricted_to_workflows: z.boolean().optional(),
  selected_workflows: z.array(z.string()).optional(),
});

type Scope = Runner["scope"];

function scopeOf(call: Call): Scope {
  if (call.found.organization !== null) return { kind: "organization", id: organizationOf(call).id };
  return { kind: "repository", id: repositoryOf(call).id };
}

function runnerOf(call: Call): Runner {
  const scope = scopeOf(call);
  const runner = call.hub.world.runners.get(idParam(call, "runner_id"));
  if (runner === undefined || runner.scope.kind !== scope.kind || runner.scope.id !== scope.id) throw notFound();
  return runner;
}

function generateJitConfig(call: Call): Answer {
  const { desk } = call.hub;
  const scope = scopeOf(call);
  const body = readBody(call, jitBody, "strings");
  const known =
    scope.kind === "repository"
      ? body.runner_group_id === 1
      : groupOf(call.hub, organizationOf(call), body.runner_group_id) !== undefined;
  if (!known) throw notFound();
  if (desk.inScope(scope).some((runner) => runner.name === body.name)) {
    throw new Refusal(409, `Already exists - A runner with the name '${body.name}' already exists.`);
  }
  const { runner, encoded } = desk.registerJit(scope, {
    name: body.name,
    labels: body.labels,
    groupId: body.runner_group_id,
    workFolder: body.work_folder,
  });
  return { status: 201, json: { runner: renderRunner(runner), encoded_jit_config: encoded } };
}

function listRunners(call: Call): Answer {
  const name = call.query.get("name");
  const runners = call.hub.desk.inScope(scopeOf(call)).filter((runner) => name === null || runner.name === name);
  return countedAnswer(call, "runners", runners, renderRunner);
}

function deleteRunner(call: Call): Answer {
  const runner = runnerOf(call);
  if (runner.job !== null) throw new Refusal(422, `Runner "${runner.name}" is still running a job"`);
  call.hub.desk.remove(runner, "deleted by the API");
  return { status: 204 };
}

function labelsOf(call: Call): Answer {
  const labels = renderRunner(runnerOf(call))["labels"] as readonly unknown[];
  return { status: 200, json: { total_count: labels.length, labels } };
}

function runnerRoutesFor(base: string, suffix: string, permission: string): Route[] {
  const read = { method: "GET", as: "installation", permission: [`${permission}=read`] } as const;
  const mutate = { as: "installation", permission: [`${permission}=write`] } as const;
  return [
    {
      ...read,
      path: `${base}/runners`,
      operation: `actions/list-self-hosted-runners-for-${suffix}`,
      handle: listRunners,
    },
    {
      ...mutate,
      method: "POST",
      path: `${base}/runners/generate-jitconfig`,
      operation: `actions/generate-runner-jitconfig-for-${suffix}`,
      handle: generateJitConfig,
    },
    {
      ...read,
      path: `${base}/runners/downloads`,
      operation: `actions/list-runner-applications-for-${suffix}`,
      handle: (call) => ({
        status: 200,
        json: [
          {
            os: "linux",
            architecture: "x64",
            download_url: `${call.hub.url}/_download/runner`,
            filename: "actions-runner-linux-x64-2.335.0.tar.gz",
            sha256_checksum: "0".repeat(64),
          },
        ],
      }),
    },
    {
      ...read,
      path: `${base}/runners/{runner_id}`,
      operation: `actions/get-self-hosted-runner-for-${suffix}`,
      handle: (call) => ({ status: 200, json: renderRunner(runnerOf(call)) }),
    },
    {
      ...mutate,
      method: "DELETE",
      path: `${base}/runners/{runner_id}`,
      operation: `actions/delete-self-hosted-runner-from-${suffix}`,
      handle: deleteRunner,
    },
    {
      ...read,
      path: `${base}/runners/{runner_id}/labels`,
      operation: `actions/list-labels-for-self-hosted-runner-for-${suffix}`,
      handle: labelsOf,
    },
  ];
}

function groupIn(call: Call): RunnerGroup {
  const group = groupOf(call.hub, organizationOf(call), idParam(call, "runner_group_id"));
  if (group === undefined) throw notFound();
  return group;
}

const groups = "/orgs/{org}/actions/runner-groups";
const readGroups = {
  method: "GET",
  as: "installation",
  permission: ["organization_self_hosted_runners=read"],
} as const;
const writeGroups = { as: "installation", permission: ["organization_self_hosted_runners=write"] } as const;

export const runnerRoutes: readonly Route[] = [
  ...runnerRoutesFor("/repos/{owner}/{repo}/actions", "repo", "administration"),
  ...runnerRoutesFor("/orgs/{org}/actions", "org", "organization_self_hosted_runners"),
  {
    ...readGroups,
    path: groups,
    operation: "actions/list-self-hosted-runner-groups-for-org",
    handle: (call) => {
      const organization = organizationOf(call);
      const all = call.hub.world.runnerGroups.filter((group) => group.organization.id === organization.id);
      return countedAnswer(call, "runner_groups", all, (group) => renderRunnerGroup(call.hub, group));
    },
  },
  {
    ...writeGroups,
    method: "POST",
    path: groups,
    operation: "actions/create-self-hosted-runner-group-for-org",
    handle: (call) => {
      const body = readBody(call, groupBody);
      const group: RunnerGroup = {
        id: call.hub.world.nextId(`runner group ${organizationOf(call).id}`, 1),
        organization: organizationOf(call),
        name: body.name,
        default: false,
        visibility: body.visibility,
        repositories: body.selected_repository_ids,
        allowsPublicRepositories: body.allows_public_repositories,
        restrictedToWorkflows: body.restricted_to_workflows,
        selectedWorkflows: body.selected_workflows,
      };
      call.hub.world.runnerGroups.push(group);
      return { status: 201, json: renderRunnerGroup(call.hub, group) };
    },
  },
  {
    ...readGroups,
    path: `${groups}/{runner_group_id}`,
    operation: "actions/get-self-hosted-runner-group-for-org",
    handle: (call) => ({ status: 200, json: renderRunnerGroup(call.hub, groupIn(call)) }),
  },
  {
    ...writeGroups,
    method: "PATCH",
    path: `${groups}/{runner_group_id}`,
    operation: "actions/update-self-hosted-runner-group-for-org",
    handle: (call) => {
      const group = groupIn(call);
      const body = readBody(call, groupPatch);
      group.name = body.name ?? group.name;
      group.visibility = body.visibility ?? group.visibility;
      group.allowsPublicRepositories = body.allows_public_repositories ?? group.allowsPublicRepositories;
      group.restrictedToWorkflows = body.restricted_to_workflows ?? group.restrictedToWorkflows;
      group.selectedWorkflows = body.selected_workflows ?? group.selectedWorkflows;
      return { status: 200, json: renderRunnerGroup(call.hub, group) };
    },
  },
  {
    ...readGroups,
    path: `${groups}/{runner_group_id}/repositories`,
    operation: "actions/list-repo-access-to-self-hosted-runner-group-in-org",
    handle: (call) => {
      const group = groupIn(call);
      const all = [...call.hub.world.repositories.values()].filter((repository) =>
        group.repositories.includes(repository.id),
      );
      return countedAnswer(call, "repositories", all, (repository) => renderMinimalRepository(call.hub, repository));
    },
  },
];
