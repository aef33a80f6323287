/** The runner group that the pods register in: whose jobs may land on a pod, and may the gate's own. */
import * as z from "zod";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import type { RepositoryHandle } from "../../shared/github/app.ts";
import { path } from "../../shared/github/call.ts";
import { githubId } from "../../shared/github/schema.ts";
import { describeFailure, type GitHubFailure } from "../../shared/github/failure.ts";
import { ok, type Result } from "../../shared/result.ts";
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
/** Two thousand repositories: a group that is open to more is wide open. */
const PAGES = 20;
const NAMED = 5;

export type Get = <T>(address: string, schema: z.ZodType<T>) => Promise<Result<T, GitHubFailure>>;

type Group = z.output<typeof group>;
type Members = z.output<typeof members>;

/** Tells the default branch of another repository of this deployment. */
export type BranchOf = (
  other: Pick<RepositoryHandle, "id" | "owner" | "name">,
) => Promise<Result<string, GitHubFailure>>;

/** Whom the group is of, and who else this deployment serves. */
interface Around {
  readonly what: string;
  readonly group: Group;
  /** The execute workflow's path. */
  readonly execute: string;
  readonly repository: RepositoryHandle;
  readonly defaultBranch: string;
  readonly served: ReadonlySet<string>;
  readonly branchOf: BranchOf;
  /** The repositories that the group is open to; null for a group that is open without a list of them. */
  readonly members: Result<Members, GitHubFailure> | null;
}

/**
 * A repository's own runners are open to every workflow of it; an organisation's group can be closed to all but ours.
 * `served`: ids of the repositories on the allow-list, who may share a group; `branchOf` is asked about those that do.
 */
export async function lookAtRunnerGroup(
  config: RepositoryConfig,
  repository: RepositoryHandle,
  defaultBranch: string,
  served: ReadonlySet<string>,
  get: Get,
  branchOf: BranchOf,
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
  const around: Around = {
    what,
    group: seen,
    execute: config.workflows.execute,
    repository,
    defaultBranch,
    served,
    branchOf,
    members: seen.visibility === "selected" ? await allMembers(`${address}/repositories`, get) : null,
  };
  const workflows = await whichWorkflows(around);
  const closed = workflows.every((finding) => finding.state !== "problem");
  const open = await publicOnes(what, seen, repository, get);
  const faults = [...workflows, ...whichRepositories(around, closed), ...open].filter(({ state }) => state !== "ok");
  return faults.length > 0 ? faults : workflows;
}

/** Page by page. A repository that comes or goes meanwhile shifts the rest: the count then tells that some were not seen. */
async function allMembers(address: string, get: Get): Promise<Result<Members, GitHubFailure>> {
  const seen = new Map<string, Members["repositories"][number]>();
  for (let page = 1; ; page += 1) {
    const answer = await get(`${address}?per_page=${PAGE}&page=${page}`, members);
    if (!answer.ok) return answer;
    const { repositories, total_count } = answer.value;
    for (const one of repositories) seen.set(one.id, one);
    if (seen.size >= total_count || repositories.length < PAGE || page >= PAGES)
      return ok({ total_count, repositories: [...seen.values()] });
  }
}

async function whichWorkflows(around: Around): Promise<readonly Finding[]> {
  const { what, execute, repository, defaultBranch } = around;
  const { name, restricted_to_workflows: restricted, selected_workflows: selected } = around.group;
  const wanted = `${repository.owner}/${repository.name}/${execute}@refs/heads/${defaultBranch}`;
  const must = `restrict it to ${execute} at the default branch (${wanted}).`;
  if (!restricted) return [problem(what, `'${name}' takes jobs of every workflow: ${must}`)];
  const entries = (selected ?? []).map((text) => ({ text, ...entryOf(text, execute) }));
  const ofThis = entries.filter((one) => isOf(one.repository, repository));
  const own = ofThis.filter(({ ref }) => isBranch(ref, defaultBranch));
  const pins = ofThis.filter(({ ref }) => own.length === 0 && COMMIT.test(ref));
  const foreign: string[] = [];
  const findings: Finding[] = [];
  for (const entry of entries) {
    if (own.includes(entry) || pins.includes(entry)) continue;
    const stand = await neighbour(entry, around);
    if (stand === "foreign") foreign.push(entry.text);
    else if (stand !== "ours") findings.push(warning(what, `'${name}' also takes ${entry.text}, ${stand}`));
  }
  const others = foreign.join(", ");
  if (own.length === 0 && pins.length === 0) {
    const but = others === "" ? "" : `, but ${others}`;
    findings.push(problem(what, `'${name}' does not take ${execute} of this repository${but}: ${must}`));
  } else if (others !== "") findings.push(problem(what, `'${name}' also takes ${others}: ${must}`));
  if (pins.length > 0) {
    const one = `'${name}' takes ${execute} at a commit (${pins.map(({ ref }) => ref.slice(0, 7)).join(", ")})`;
    const why = "a run has the default branch's commit, so that the next push leaves its job without a runner";
    findings.push(warning(what, `${one}: ${why}. Name the branch instead (${wanted}).`));
  }
  return findings.length > 0 ? findings : [fine(what, `'${name}' takes jobs of ${execute} only`)];
}

const COMMIT = /^[0-9a-f]{40}$/;

/** GitHub's form: `owner/repository/path@ref`. Both are empty for an entry that is not about the execute workflow. */
function entryOf(entry: string, execute: string): { readonly repository: string; readonly ref: string } {
  // A ref may hold this sign too, and a file of another name must not pass for ours by it.
  const [owner = "", name = "", ...rest] = entry.split("/");
  const file = rest.join("/");
  if (!file.startsWith(`${execute}@`)) return { repository: "", ref: "" };
  return { repository: `${owner}/${name}`, ref: file.slice(execute.length + 1) };
}

function isOf(fullName: string, { owner, name }: Pick<RepositoryHandle, "owner" | "name">): boolean {
  return fullName.toLowerCase() === `${owner}/${name}`.toLowerCase();
}

function isBranch(ref: string, branch: string): boolean {
  return ref === branch || ref === `refs/heads/${branch}`;
}

/**
 * Another repository of the same deployment may share the group: its execute workflow, which has the same path, at its own
 * default branch. Any other ref is one that whoever may push there can fill. Gives what to say where it cannot be known.
 */
async function neighbour(
  { repository: fullName, ref }: { readonly repository: string; readonly ref: string },
  { repository, served, branchOf, members: listed }: Around,
): Promise<"ours" | "foreign" | (string & {})> {
  if (fullName === "" || isOf(fullName, repository)) return "foreign";
  const unknown = (why: string) =>
    `and whether that is a repository of this deployment at its default branch cannot be told: ${why}.`;
  if (listed === null) return unknown("the group does not list its repositories");
  if (!listed.ok) return unknown(describeFailure(listed.error));
  const { repositories, total_count: count } = listed.value;
  const member = repositories.find((one) => one.full_name.toLowerCase() === fullName.toLowerCase());
  if (member === undefined)
    return count > repositories.length ? unknown("the group has more repositories than a page") : "foreign";
  if (!served.has(member.id)) return "foreign";
  const [owner = "", name = ""] = member.full_name.split("/");
  const branch = await branchOf({ id: member.id, owner, name });
  if (!branch.ok) return unknown(describeFailure(branch.error));
  return isBranch(ref, branch.value) ? "ours" : "foreign";
}

/** Where the workflows are restricted, another repository's jobs stay off for that reason: then this is a second wall. */
function whichRepositories(around: Around, restricted: boolean): readonly Finding[] {
  const { what, repository, served, members: listed } = around;
  const { name, visibility } = around.group;
  const worse = restricted ? warning : problem;
  if (listed === null) {
    const whose = visibility === "all" ? "every repository" : `'${visibility}' repositories`;
    const say = `'${name}' is open to ${whose} of ${repository.owner}, whose jobs could land on a pod`;
    return [worse(what, `${say}: set its repository access to selected repositories, and choose this one alone.`)];
  }
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
