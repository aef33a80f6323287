/** Pull requests, their files, and what a person may do in the repository. */

import * as z from "zod";
import { err, ok } from "../result.ts";
import type { Actor } from "../lifecycle/signal.ts";
import { path, slashed, withQuery, type Slashed } from "./call.ts";
import { GHOST, githubId, optionalText, sha } from "./schema.ts";
import { arrayPage, type Listing, type Reply, type Wire } from "./wire.ts";

/** A pull request as a list shows it. */
export interface PullSummary {
  readonly number: number;
  readonly state: "open" | "closed";
  readonly draft: boolean;
  readonly merged: boolean;
  readonly title: string;
  readonly labels: readonly string[];
  readonly headSha: string;
  readonly headRef: string;
  /** Null: the fork is deleted. */
  readonly headRepositoryId: string | null;
  readonly headRepositoryFullName: string | null;
  readonly baseSha: string;
  readonly baseRef: string;
  readonly baseRepositoryId: string;
  readonly author: Actor;
  /** `User`, `Bot`, `Organization`, `Mannequin`, or what GitHub adds. */
  readonly authorType: string;
}

export interface Pull extends PullSummary {
  /** The number of changed files. The list of files is only to be believed if it has this many. */
  readonly changedFiles: number;
  /** Computed late: null until GitHub has tried the test merge of this head. False: in conflict. */
  readonly mergeable?: boolean | null;
}

export interface ChangedFile {
  readonly filename: string;
  /** The old name of a rename: a policy on paths has to test both. */
  readonly previousFilename: string | null;
  readonly status: string;
  readonly sha: string | null;
  /** Changed lines. 0 with the status `modified` is a change of mode. */
  readonly changes: number;
  /** The beginning of the patch, enough to tell a submodule or a link; absent for binary and for large files. */
  readonly patch: string | null;
}

export interface ChangedFiles {
  readonly files: readonly ChangedFile[];
  /** False when GitHub's cap was reached (3,000 files of a pull request, 300 of a comparison): there may be more. */
  readonly complete: boolean;
}

export interface Comparison extends ChangedFiles {
  /** `ahead`, `behind`, `diverged` or `identical`. */
  readonly status: string;
  /** The comparison's base side: the merge base, not the base's head. */
  readonly mergeBaseSha: string;
}

export interface Role {
  readonly userId: string;
  /** The real role: admin, maintain, write, triage, read, none, or an organisation's own. */
  readonly roleName: string;
  /** The legacy field, which says `write` for maintain and `read` for triage. */
  readonly permission: string;
}

export interface PullsApi {
  getPull(number: number): Reply<Pull>;
  /** The files as they stand at the call: read the pull request before and after. */
  listPullFiles(number: number): Reply<ChangedFiles>;
  /** Open pull requests whose head is `owner:branch`, forks included. */
  listOpenPullsByHead(head: string): Reply<Listing<PullSummary>>;
  listOpenPulls(): Reply<Listing<PullSummary>>;
  /** Open and merged pull requests that contain a commit. */
  listPullsForCommit(commitSha: string): Reply<Listing<PullSummary>>;
  /** What `head` changed since it left `base` (three dots). */
  compareFiles(base: string, head: string): Reply<Comparison>;
  /** The commits of `head` that `base` does not have, oldest first. `complete` false: there are more. */
  listCommitsBetween(base: string, head: string): Reply<Listing<string>>;
  /** What a user may do here. `not-found` for who has no record. Compare `userId` with the actor: logins are reused. */
  getRole(login: string): Reply<Role>;
}

/** "At most 3000 files in all" (pulls/list-files). */
const PULL_FILES_MAX = 3_000;
/** Files of a comparison are on its first page only and at most 300 (repos/compare-commits-with-basehead). */
const COMPARISON_FILES_MAX = 300;

const pullFields = z.object({
  number: z.int().positive(),
  state: z.enum(["open", "closed"]),
  draft: z.boolean().optional(),
  merged: z.boolean().optional(),
  merged_at: optionalText,
  title: z.string(),
  labels: z.array(z.object({ name: z.string() })),
  user: z.object({ id: githubId, login: z.string().min(1), type: z.string().optional() }).nullable(),
  head: z.object({
    sha,
    ref: z.string(),
    repo: z.object({ id: githubId, full_name: z.string() }).nullable(),
  }),
  base: z.object({ sha, ref: z.string(), repo: z.object({ id: githubId }) }),
});

function summaryOf(pull: z.infer<typeof pullFields>): PullSummary {
  return {
    number: pull.number,
    state: pull.state,
    draft: pull.draft ?? false,
    merged: pull.merged ?? pull.merged_at !== null,
    title: pull.title,
    labels: pull.labels.map((label) => label.name),
    headSha: pull.head.sha,
    headRef: pull.head.ref,
    headRepositoryId: pull.head.repo?.id ?? null,
    headRepositoryFullName: pull.head.repo?.full_name ?? null,
    baseSha: pull.base.sha,
    baseRef: pull.base.ref,
    baseRepositoryId: pull.base.repo.id,
    author: pull.user === null ? GHOST : { id: pull.user.id, login: pull.user.login },
    authorType: pull.user?.type ?? "User",
  };
}

const summaryAnswer = pullFields.transform(summaryOf);
const pullAnswer = pullFields
  .extend({ changed_files: z.int().nonnegative(), mergeable: z.boolean().nullable().optional().catch(null) })
  .transform((pull): Pull => ({
    ...summaryOf(pull),
    changedFiles: pull.changed_files,
    mergeable: pull.mergeable ?? null,
  }));

/** A submodule's or a link's patch is a few lines; nothing more of a patch is ever looked at. */
const PATCH_KEPT = 600;
/** The first line of a patch that has one line at most on each side: a link's is such, and its target may be long. */
const ONE_LINE = /^@@ -(?:0,0|1) \+(?:0,0|1) @@/;
const LINE_KEPT = 100;

/** Of lines that may be a link's all are kept, or their ends, by which a link is told, would be cut off. */
function keptOf(patch: string): string {
  const kept = ONE_LINE.test(patch)
    ? patch
        .split("\n", 6)
        .map((line) => line.slice(0, LINE_KEPT))
        .join("\n")
    : patch;
  return kept.slice(0, PATCH_KEPT);
}

const fileAnswer = z
  .object({
    filename: z.string().min(1),
    previous_filename: optionalText,
    status: z.string(),
    sha: optionalText,
    changes: z.number(),
    patch: optionalText,
  })
  .transform((file): ChangedFile => ({
    filename: file.filename,
    previousFilename: file.previous_filename,
    status: file.status,
    sha: file.sha,
    changes: file.changes,
    patch: file.patch === null ? null : keptOf(file.patch),
  }));

const comparisonAnswer = z
  .object({ status: z.string(), merge_base_commit: z.object({ sha }), files: z.array(fileAnswer).optional() })
  .transform((body): Comparison => ({
    status: body.status,
    mergeBaseSha: body.merge_base_commit.sha,
    files: body.files ?? [],
    complete: body.files !== undefined && body.files.length < COMPARISON_FILES_MAX,
  }));

/** The comparison's commits come in pages; its files, which are on the first, are not looked at here. */
const commitsPage = z
  .object({ total_commits: z.int().nonnegative(), commits: z.array(z.object({ sha })) })
  .transform((body) => ({ items: body.commits.map((commit) => commit.sha), totalCount: body.total_commits }));

const roleAnswer = z.object({
  permission: z.string(),
  role_name: z.string(),
  user: z.object({ id: githubId }).nullable(),
});

// Schemas are made once: zod compiles each at its first use, which costs more than the call.
const filesPage = arrayPage(fileAnswer);
const summariesPage = arrayPage(summaryAnswer);

/** `base` is `{owner}/{name}`. */
export function pullsApi(wire: Wire, base: Slashed): PullsApi {
  const pullKey = (pull: PullSummary): string => String(pull.number);

  return {
    getPull: (number) => wire.get("getPull", path`/repos/${base}/pulls/${number}`, pullAnswer),

    async listPullFiles(number) {
      const listing = await wire.list("listPullFiles", path`/repos/${base}/pulls/${number}/files`, filesPage, {
        key: (file) => file.filename,
        maxPages: PULL_FILES_MAX / 100 + 1,
      });
      if (!listing.ok) return listing;
      const { items, complete } = listing.value;
      return ok({ files: items, complete: complete && items.length < PULL_FILES_MAX });
    },

    listOpenPullsByHead: (head) =>
      wire.list("listOpenPullsByHead", path`/repos/${base}/pulls`, summariesPage, {
        key: pullKey,
        query: { state: "open", head },
      }),

    listOpenPulls: () =>
      wire.list("listOpenPulls", path`/repos/${base}/pulls`, summariesPage, {
        key: pullKey,
        query: { state: "open", sort: "created", direction: "asc" },
      }),

    listPullsForCommit: (commitSha) =>
      wire.list("listPullsForCommit", path`/repos/${base}/commits/${commitSha}/pulls`, summariesPage, {
        key: pullKey,
      }),

    compareFiles: (from, to) =>
      wire.get(
        "compareFiles",
        // One commit a page: the files are on the first page whatever the page size, the commits are not wanted.
        withQuery(path`/repos/${base}/compare/${slashed(`${from}...${to}`)}`, { per_page: 1, page: 1 }),
        comparisonAnswer,
      ),

    listCommitsBetween: (from, to) =>
      wire.list("listCommitsBetween", path`/repos/${base}/compare/${slashed(`${from}...${to}`)}`, commitsPage, {
        key: (commit) => commit,
      }),

    async getRole(login) {
      const answer = await wire.get("getRole", path`/repos/${base}/collaborators/${login}/permission`, roleAnswer);
      if (!answer.ok) return answer;
      const { user, role_name: roleName, permission } = answer.value;
      return user === null ? err({ reason: "not-found" }) : ok({ userId: user.id, roleName, permission });
    },
  };
}
