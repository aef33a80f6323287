/**
 * Reads the lists of runners that a repository's jobs can reach, page by page, through a port.
 *
 * GitHub pages by position, so a runner that registers or leaves between two pages shifts the rest: one is seen twice,
 * or one is never seen. A list counts as read when every page named the same total and that many different runners came.
 * Otherwise it is read again, a bounded number of times; a list that never holds still is given out as incomplete, and
 * the probe then believes a match but not the lack of one.
 */
import * as z from "zod";
import { judgeRunners, type ProbeVerdict, type RunnerListing, type RunnerPage } from "./probe.ts";

export type PageAnswer =
  | { readonly kind: "answer"; readonly status: number; readonly body: string }
  | { readonly kind: "failure"; readonly what: string };

/** Asks GitHub for one path (`/repos/o/r/actions/runners?per_page=100&page=1`). Never throws. */
export type GetPage = (path: string) => Promise<PageAnswer>;

export interface RunnerScope {
  readonly owner: string;
  readonly repository: string;
  /** Also the organisation's runners, of those groups that the repository may use. */
  readonly organisation: boolean;
}

/** GitHub: `per_page` is at most 100. */
const PER_PAGE = 100;
/** An organisation may hold 10,000 runners per group; more pages than this are not a runner list. */
const MAX_PAGES = 200;
const MAX_ROUNDS = 3;

const countedPage = z.object({
  total_count: z.number().int(),
  runners: z.array(z.looseObject({ id: z.union([z.number(), z.string()]), runner_group_id: z.number().optional() })),
});

const groupPage = z.object({
  total_count: z.number().int(),
  runner_groups: z.array(z.object({ id: z.number(), allows_public_repositories: z.boolean().optional() })),
});

const repositoryAnswer = z.object({ private: z.boolean() });

/**
 * Reads and judges. A match is believed at once. The lack of one in a list of several pages is believed only after a
 * second reading: one runner leaving and another coming between two pages hides a third and keeps every count right.
 */
export async function probeLive(
  labels: readonly string[],
  get: GetPage,
  scope: RunnerScope,
  unproven: ReadonlySet<string> = new Set(),
): Promise<ProbeVerdict> {
  const listing = await readRunners(get, scope);
  const verdict = judgeRunners(labels, listing, unproven);
  const lacking = verdict.reason === "no-complete-match" || verdict.reason === "offline";
  if (!lacking || listing.kind !== "pages" || listing.pages.length < 2) return verdict;
  return judgeRunners(labels, await readRunners(get, scope), unproven);
}

/** Every page of every list in scope, or the first failure. Costs one request for each 100 runners and round. */
export async function readRunners(get: GetPage, scope: RunnerScope): Promise<RunnerListing> {
  const owner = encodeURIComponent(scope.owner);
  const repository = `/repos/${owner}/${encodeURIComponent(scope.repository)}`;
  const own = await readList(get, `${repository}/actions/runners`, null);
  if (own.kind === "failure" || !scope.organisation) return own;

  const groups = await usableGroups(get, owner, repository, scope.repository);
  if (groups.kind === "failure") return groups;
  const shared = await readList(get, `/orgs/${owner}/actions/runners`, groups.ids);
  if (shared.kind === "failure") return shared;
  const incomplete = own.incomplete ?? shared.incomplete;
  return { kind: "pages", pages: [...own.pages, ...shared.pages], ...(incomplete === undefined ? {} : { incomplete }) };
}

async function readList(get: GetPage, path: string, groups: ReadonlySet<number> | null): Promise<RunnerListing> {
  let pages: RunnerPage[] = [];
  for (let round = 1; round <= MAX_ROUNDS; round += 1) {
    const read = await readOnce(get, path, groups);
    if (read.kind === "failure") return read;
    pages = [...read.pages];
    if (read.steady) return { kind: "pages", pages };
  }
  return { kind: "pages", pages, incomplete: `the list ${path} kept changing while it was read` };
}

async function readOnce(
  get: GetPage,
  path: string,
  groups: ReadonlySet<number> | null,
): Promise<
  | { readonly kind: "failure"; readonly what: string }
  | { readonly kind: "pages"; readonly pages: readonly RunnerPage[]; readonly steady: boolean }
> {
  const pages: RunnerPage[] = [];
  const ids = new Set<string>();
  let total: number | null = null;
  for (let page = 1; page <= MAX_PAGES; page += 1) {
    const answer = await get(`${path}?per_page=${PER_PAGE}&page=${page}`);
    if (answer.kind === "failure") return answer;
    if (answer.status !== 200) return { kind: "failure", what: `GET ${path} answered ${answer.status}` };
    const parsed = countedPage.safeParse(parseJson(answer.body));
    // Not a page at all: the probe says so by itself, and there is nothing to go on from.
    if (!parsed.success) return { kind: "pages", pages: [...pages, answer.body], steady: true };
    const { total_count: count, runners } = parsed.data;
    pages.push({ runners: groups === null ? runners : runners.filter((runner) => inGroup(runner, groups)) });
    for (const runner of runners) ids.add(String(runner.id));
    if (total !== null && count !== total) return { kind: "pages", pages, steady: false };
    total = count;
    if (runners.length === 0 || page * PER_PAGE >= count) break;
  }
  return { kind: "pages", pages, steady: ids.size === total };
}

/** A runner that names no group is not counted: nobody has said that this repository may use it. */
function inGroup(runner: { readonly runner_group_id?: number | undefined }, groups: ReadonlySet<number>): boolean {
  return runner.runner_group_id !== undefined && groups.has(runner.runner_group_id);
}

/**
 * The runner groups that this repository may use (GitHub: `visible_to_repository`). A group closed to public
 * repositories is left out when this one is public. A group restricted to certain workflows is counted: whether the
 * lane's workflow is one of them is for `gpu-gate doctor`.
 */
async function usableGroups(
  get: GetPage,
  owner: string,
  repositoryPath: string,
  repository: string,
): Promise<
  { readonly kind: "groups"; readonly ids: ReadonlySet<number> } | { readonly kind: "failure"; readonly what: string }
> {
  const path = `/orgs/${owner}/actions/runner-groups`;
  const open = new Set<number>();
  const closedToPublic = new Set<number>();
  for (let page = 1; page <= MAX_PAGES; page += 1) {
    const query = `visible_to_repository=${encodeURIComponent(repository)}&per_page=${PER_PAGE}&page=${page}`;
    const answer = await get(`${path}?${query}`);
    if (answer.kind === "failure") return answer;
    if (answer.status !== 200) return { kind: "failure", what: `GET ${path} answered ${answer.status}` };
    const parsed = groupPage.safeParse(parseJson(answer.body));
    if (!parsed.success) return { kind: "failure", what: `GET ${path} gave an unreadable page` };
    for (const group of parsed.data.runner_groups) {
      (group.allows_public_repositories === false ? closedToPublic : open).add(group.id);
    }
    if (parsed.data.runner_groups.length === 0 || page * PER_PAGE >= parsed.data.total_count) break;
  }
  if (closedToPublic.size === 0) return { kind: "groups", ids: open };

  const answer = await get(repositoryPath);
  if (answer.kind === "failure") return answer;
  const parsed = repositoryAnswer.safeParse(answer.status === 200 ? parseJson(answer.body) : null);
  if (!parsed.success) return { kind: "failure", what: `GET ${repositoryPath} answered ${answer.status}` };
  return { kind: "groups", ids: parsed.data.private ? new Set([...open, ...closedToPublic]) : open };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
