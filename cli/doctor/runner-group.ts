/** The runner group that the pods register in: whose jobs may land on a pod, and may the gate's own. */
import * as z from "zod";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import type { RepositoryHandle } from "../../shared/github/app.ts";
import { path } from "../../shared/github/call.ts";
import { githubId } from "../../shared/github/schema.ts";
import type { GitHubFailure } from "../../shared/github/failure.ts";
import type { Result } from "../../shared/result.ts";
import { fine, problem, unanswered, warning, type Finding } from "./finding.ts";

/** Fields as GitHub's OpenAPI description has them (`actions/get-self-hosted-runner-group-for-org`). */
const group = z.object({
  name: z.string(),
  /** `all`, `selected` or `private`; other words may come. */
  visibility: z.string(),
  allows_public_repositories: z.boolean(),
  restricted_to_workflows: z.boolean().default(false),
  selected_workflows: z.array(z.string()).nullish(),
});

const members = z.object({
  total_count: z.number(),
  repositories: z.array(z.object({ id: githubId, full_name: z.string() })),
});

const isPrivate = z.object({ private: z.boolean() });

const PAGE = 100;
const NAMED = 5;

export type Get = <T>(address: string, schema: z.ZodType<T>) => Promise<Result<T, GitHubFailure>>;

/**
 * A repository's own runners are open to every workflow of it; an organisation's group can be closed to all but ours.
 * `served`: ids of the repositories on the allow-list, who may share a group.
 */
export async function lookAtRunnerGroup(
  config: RepositoryConfig,
  repository: RepositoryHandle,
  defaultBranch: string,
  served: ReadonlySet<string>,
  get: Get,
): Promise<readonly Finding[]> {
  const { owner, name } = repository;
  const what = `${owner}/${name}: runner group`;
  if (config.runner.scope !== "organization") {
    return [
      warning(
        what,
        "runners belong to the repository: labels and the pod's own hook are all that keeps other jobs off.",
      ),
    ];
  }
  const address = path`/orgs/${owner}/actions/runner-groups/${config.runner.group_id}`;
  const answer = await get(address, group);
  if (!answer.ok) {
    if (answer.error.reason !== "not-found") return [unanswered(what, answer.error)];
    const id = config.runner.group_id;
    return [problem(what, `there is no group ${id}: create one, restricted to the execute workflow.`)];
  }
  const seen = answer.value;
  const workflows = whichWorkflows(what, seen, config, repository, defaultBranch);
  const repositories = await whichRepositories(what, seen, address, workflows.state === "ok", repository, served, get);
  const open = await publicOnes(what, seen, repository, get);
  const faults = [workflows, ...repositories, ...open].filter((finding) => finding.state !== "ok");
  return faults.length > 0 ? faults : [workflows];
}

type Group = z.output<typeof group>;

function whichWorkflows(
  what: string,
  { name, restricted_to_workflows: restricted, selected_workflows: selected }: Group,
  config: RepositoryConfig,
  repository: RepositoryHandle,
  defaultBranch: string,
): Finding {
  const { execute } = config.workflows;
  const at = `at the default branch (${repository.owner}/${repository.name}/${execute}@refs/heads/${defaultBranch})`;
  const own = (selected ?? []).filter((one) => isExecute(one, execute, repository, defaultBranch));
  // Another repository of the same deployment may share the group: its execute workflow has the same name.
  const foreign = (selected ?? []).filter((one) => !own.includes(one) && !one.includes(`/${execute}@`));
  if (restricted && own.length > 0 && foreign.length === 0)
    return fine(what, `'${name}' takes jobs of ${execute} only`);
  const seen = !restricted
    ? "takes jobs of every workflow"
    : foreign.length > 0
      ? `also takes ${foreign.join(", ")}`
      : `does not take ${execute} of this repository`;
  return problem(what, `'${name}' ${seen}: restrict it to ${execute} ${at}.`);
}

/** GitHub's form: `owner/repository/path@ref`; a long SHA is as good as the branch. */
function isExecute(entry: string, execute: string, { owner, name }: RepositoryHandle, branch: string): boolean {
  const [file = "", ref = ""] = entry.split("@", 2);
  if (file.toLowerCase() !== `${owner}/${name}/${execute}`.toLowerCase()) return false;
  return ref === branch || ref === `refs/heads/${branch}` || /^[0-9a-f]{40}$/.test(ref);
}

/** Where the workflows are restricted, another repository's jobs stay off for that reason: then this is a second wall. */
async function whichRepositories(
  what: string,
  { name, visibility }: Group,
  address: string,
  restricted: boolean,
  repository: RepositoryHandle,
  served: ReadonlySet<string>,
  get: Get,
): Promise<readonly Finding[]> {
  const worse = restricted ? warning : problem;
  if (visibility !== "selected") {
    const whose = visibility === "all" ? "every repository" : `'${visibility}' repositories`;
    const say = `'${name}' is open to ${whose} of ${repository.owner}, whose jobs could land on a pod`;
    return [worse(what, `${say}: set its repository access to selected repositories, and choose this one alone.`)];
  }
  const listed = await get(`${address}/repositories?per_page=${PAGE}`, members);
  if (!listed.ok) return [unanswered(what, listed.error)];
  const { repositories, total_count: count } = listed.value;
  const findings: Finding[] = [];
  const others = repositories.filter((one) => one.id !== repository.id && !served.has(one.id));
  const more = count - repositories.length;
  if (others.length > 0 || more > 0) {
    const names = others.slice(0, NAMED).map((one) => one.full_name);
    const left = others.length - names.length + more;
    if (left > 0) names.push(`${left} more`);
    const say = `'${name}' is open to ${names.join(", ")}, which this deployment does not serve`;
    findings.push(worse(what, `${say}: take them out of it, or their jobs could land on a pod.`));
  }
  if (more <= 0 && !repositories.some((one) => one.id === repository.id)) {
    findings.push(problem(what, `'${name}' is closed to this repository: choose it in the group's repository access.`));
  }
  return findings;
}

/** A group that takes no public repository never gives one a runner; one that does, with none to serve, is open for nothing. */
async function publicOnes(
  what: string,
  { name, allows_public_repositories: allows }: Group,
  { owner, name: repo }: RepositoryHandle,
  get: Get,
): Promise<readonly Finding[]> {
  const own = await get(path`/repos/${owner}/${repo}`, isPrivate);
  if (!own.ok) return [unanswered(what, own.error)];
  if (!own.value.private && !allows) {
    return [problem(what, `'${name}' takes no public repository, and this one is public: allow public repositories.`)];
  }
  if (own.value.private && allows) {
    const say = `'${name}' allows public repositories, and this one is private`;
    return [warning(what, `${say}: disallow them, unless a public one of this deployment shares the group.`)];
  }
  return [];
}
