/** One allow-listed repository: is its check pinned to the App, is the App the only one to publish it, who gets its runners. */
import * as z from "zod";
import { readRules } from "../../shared/authorize/authorize.ts";
import { configNotes } from "../../shared/config/notes.ts";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import type { GitHubApp, RepositoryHandle } from "../../shared/github/app.ts";
import { path, slashed } from "../../shared/github/call.ts";
import { createGitHubClient, type GitHubClient } from "../../shared/github/client.ts";
import { describeFailure, type GitHubFailure } from "../../shared/github/failure.ts";
import { githubId } from "../../shared/github/schema.ts";
import { parseAnswer } from "../../shared/github/wire.ts";
import { err, ok, type Result } from "../../shared/result.ts";
import { fine, problem, unanswered, warning, type Finding } from "./finding.ts";
import { lookAtRunnerGroup, type Get } from "./runner-group.ts";

/** Open pull requests whose heads are looked at for other producers of the check. */
const HEADS = 5;

const optionalId = githubId.nullish().transform((id) => id ?? null);

const branchRules = z.array(
  z.object({
    type: z.string(),
    parameters: z
      .object({
        required_status_checks: z.array(z.object({ context: z.string(), integration_id: optionalId })).optional(),
      })
      .nullish(),
  }),
);

/** Minus one is GitHub's other spelling of "from anybody" (github-facts section 8). */
const classicId = z.preprocess((id) => (id === -1 || id === "-1" ? null : id), optionalId);

const classicRule = z.object({ checks: z.array(z.object({ context: z.string(), app_id: classicId })) });

const statuses = z.object({ statuses: z.array(z.object({ context: z.string() })) });

export interface Looked {
  readonly findings: readonly Finding[];
  /** The repository's configuration; null when it could not be read. */
  readonly config: RepositoryConfig | null;
}

/** `served`: ids of all repositories on the allow-list. */
export async function lookAtRepository(
  app: GitHubApp,
  repository: RepositoryHandle,
  appId: string,
  served: ReadonlySet<string>,
): Promise<Looked> {
  const name = `${repository.owner}/${repository.name}`;
  const client = createGitHubClient({ app, repository, runners: { kind: "repository" } });
  const rules = await readRules(client, { repositoryId: repository.id });
  if ("outcome" in rules) {
    const { outcome } = rules;
    if (outcome.kind === "refused")
      return { findings: [problem(`${name}: configuration`, outcome.detail)], config: null };
    const why = outcome.kind === "unknown" ? outcome.why : outcome.kind;
    return { findings: [warning(`${name}: configuration`, `could not be read: ${why}`)], config: null };
  }
  const { config } = rules;
  const told = await client.getRepository();
  if (!told.ok) return { findings: [unanswered(`${name}: branch rule`, told.error)], config };
  const check = config.check.name;
  const branch = told.value.defaultBranch;
  const get = <T>(address: string, schema: z.ZodType<T>) => read(app, repository, address, schema);
  return {
    config,
    findings: [
      fine(`${name}: configuration`, "reads well"),
      ...configNotes(config).map(({ key, say }) => warning(`${name}: ${key}`, say)),
      await pinned(name, branch, check, appId, get, repository),
      await onlyProducer(name, check, appId, client, get, repository),
      ...(await lookAtRunnerGroup(config, repository, branch, served, get, (other) =>
        branchOf(app, { ...other, installationId: repository.installationId }),
      )),
    ],
  };
}

async function branchOf(app: GitHubApp, repository: RepositoryHandle): Promise<Result<string, GitHubFailure>> {
  const told = await createGitHubClient({ app, repository, runners: { kind: "repository" } }).getRepository();
  return told.ok ? ok(told.value.defaultBranch) : told;
}

async function read<T>(
  app: GitHubApp,
  repository: RepositoryHandle,
  address: string,
  schema: z.ZodType<T>,
): Promise<Result<T, GitHubFailure>> {
  const answer = await app.asRepository(repository, { operation: "doctor", method: "GET", path: address });
  return answer.ok ? parseAnswer(answer.value, schema) : err(answer.error);
}

async function pinned(
  name: string,
  branch: string,
  check: string,
  appId: string,
  get: Get,
  { owner, name: repo }: RepositoryHandle,
): Promise<Finding> {
  const what = `${name}: branch rule`;
  const rules = await get(path`/repos/${owner}/${repo}/rules/branches/${slashed(branch)}`, branchRules);
  const classic = await get(
    path`/repos/${owner}/${repo}/branches/${slashed(branch)}/protection/required_status_checks`,
    classicRule,
  );
  const required = [
    ...(rules.ok
      ? rules.value.flatMap((rule) =>
          (rule.parameters?.required_status_checks ?? []).map((one) => ({
            context: one.context,
            by: one.integration_id,
          })),
        )
      : []),
    ...(classic.ok ? classic.value.checks.map((one) => ({ context: one.context, by: one.app_id })) : []),
  ].filter((one) => one.context === check);
  if (required.some((one) => one.by === appId)) return fine(what, `${branch} requires '${check}' from this App`);
  const other = required.find((one) => one.by !== null);
  if (other !== undefined) {
    return problem(
      what,
      `${branch} requires '${check}' from App ${other.by ?? ""}, not ${appId}: choose this App as its source.`,
    );
  }
  if (required.length > 0) {
    return problem(what, `${branch} takes '${check}' from anybody: choose this App as its source in the rule.`);
  }
  if (!rules.ok) return unanswered(what, rules.error);
  if (!classic.ok && classic.error.reason !== "not-found") {
    // Refused (403), or no token to be had for it (422): the App has no right to read it, which it does not need otherwise.
    const withheld = classic.error.reason === "forbidden" || classic.error.reason === "unprocessable";
    const why = withheld ? "classic protection may not be read: look there yourself" : describeFailure(classic.error);
    return warning(what, `no ruleset of ${branch} requires '${check}', and ${why}.`);
  }
  return problem(
    what,
    `nothing requires '${check}' on ${branch}: add it to the branch's rules, with this App as its source.`,
  );
}

async function onlyProducer(
  name: string,
  check: string,
  appId: string,
  client: GitHubClient,
  get: Get,
  { owner, name: repo }: RepositoryHandle,
): Promise<Finding> {
  const what = `${name}: check's producer`;
  const pulls = await client.listOpenPulls();
  if (!pulls.ok) return unanswered(what, pulls.error);
  const heads = pulls.value.items.slice(0, HEADS).map((pull) => pull.headSha);
  for (const head of heads) {
    const runs = await client.listCheckRunsForRef(head, { filter: "all", name: check });
    if (!runs.ok) return unanswered(what, runs.error);
    const stranger = runs.value.items.find((run) => run.appId !== appId);
    if (stranger !== undefined) {
      return problem(
        what,
        `App ${stranger.appId ?? "unknown"} published '${check}' on ${head.slice(0, 7)}: rename one of the two.`,
      );
    }
    const old = await get(path`/repos/${owner}/${repo}/commits/${head}/status`, statuses);
    if (!old.ok) return unanswered(what, old.error);
    if (old.value.statuses.some((status) => status.context === check)) {
      return problem(
        what,
        `somebody set a commit status '${check}' on ${head.slice(0, 7)}: find out who, and rename it.`,
      );
    }
  }
  return fine(
    what,
    heads.length === 0 ? "no open pull request to look at" : `this App alone, on ${heads.length} heads`,
  );
}
