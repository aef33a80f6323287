/** What the gate reads of the repository itself: its branches, commits, trees and files. */

import * as z from "zod";
import type { Millis } from "../ports.ts";
import { err, ok } from "../result.ts";
import { path, slashed, withQuery, type Slashed } from "./call.ts";
import { githubId, sha } from "./schema.ts";
import type { Reply, Wire } from "./wire.ts";

export interface Repository {
  readonly id: string;
  readonly fullName: string;
  /** Numeric id of the account that owns it; left out when GitHub did not say. */
  readonly ownerId?: string;
  readonly defaultBranch: string;
  readonly archived: boolean;
}

export interface TreeEntry {
  readonly path: string;
  /** Git's file mode, such as `100644`. */
  readonly mode: string;
  readonly type: string;
  readonly sha: string;
}

export interface Tree {
  readonly sha: string;
  readonly entries: readonly TreeEntry[];
  /** GitHub cut the list (more than 100,000 entries or 7 MB): nothing may be concluded from what is missing. */
  readonly truncated: boolean;
}

export interface Commit {
  readonly sha: string;
  readonly treeSha: string;
  readonly parents: readonly string[];
}

export interface NamedRef {
  /** In full: `refs/heads/main`. */
  readonly ref: string;
  readonly sha: string;
}

export interface RepositoryApi {
  getRepository(): Reply<Repository>;
  /** The head commit of a branch, named without `refs/heads/`. */
  getBranchHead(branch: string): Reply<string>;
  /** A text file at a branch, tag or commit. `not-found` if there is none; `unreadable` if it is no UTF-8 file below 1 MB. */
  getFile(filePath: string, ref: string): Reply<{ readonly sha: string; readonly text: string }>;
  getTree(treeSha: string, options: { readonly recursive: boolean }): Reply<Tree>;
  getCommit(commitSha: string): Reply<Commit>;
  /** The object a ref names (`heads/main`, `pull/7/merge`, with or without `refs/` before it), or null if there is none. */
  getRef(ref: string): Reply<string | null>;
  /** The refs that begin so (`heads/release-`), with the commits they name. GitHub gives them all in one answer. */
  listRefs(start: string): Reply<readonly NamedRef[]>;
  /** How long the merge queue of a branch waits for a check, ms; null: no queue is asked for there. */
  getQueueTimeout(branch: string): Reply<Millis | null>;
}

const repositoryAnswer = z
  .object({
    id: githubId,
    full_name: z.string(),
    owner: z.object({ id: githubId }).nullish(),
    default_branch: z.string().min(1),
    archived: z.boolean().optional(),
  })
  .transform((body): Repository => ({
    id: body.id,
    fullName: body.full_name,
    ...(body.owner === null || body.owner === undefined ? {} : { ownerId: body.owner.id }),
    defaultBranch: body.default_branch,
    archived: body.archived ?? false,
  }));

const fileAnswer = z.object({
  type: z.literal("file"),
  sha,
  encoding: z.literal("base64"),
  content: z.string(),
});

const treeAnswer = z
  .object({
    sha,
    truncated: z.boolean(),
    tree: z.array(z.object({ path: z.string(), mode: z.string(), type: z.string(), sha })),
  })
  .transform((body): Tree => ({ sha: body.sha, entries: body.tree, truncated: body.truncated }));

const commitAnswer = z
  .object({ sha, tree: z.object({ sha }), parents: z.array(z.object({ sha })) })
  .transform((body): Commit => ({
    sha: body.sha,
    treeSha: body.tree.sha,
    parents: body.parents.map((parent) => parent.sha),
  }));

/** Active rules of a branch; of the merge queue's only the time limit is wanted, 1 to 360 minutes. */
const rulesAnswer = z
  .array(
    z.object({
      type: z.string(),
      parameters: z.object({ check_response_timeout_minutes: z.number().positive().optional() }).nullish(),
    }),
  )
  .transform((rules): Millis | null => {
    const minutes = rules.flatMap((rule) =>
      rule.type === "merge_queue" ? (rule.parameters?.check_response_timeout_minutes ?? []) : [],
    );
    // Several rules may apply: the shortest patience ends the group.
    return minutes.length === 0 ? null : Math.min(...minutes) * 60_000;
  });

const branchAnswer = z.object({ commit: z.object({ sha }) }).transform((body) => body.commit.sha);
const refsAnswer = z
  .array(z.object({ ref: z.string(), object: z.object({ sha }) }))
  .transform((refs) => refs.map(({ ref, object }): NamedRef => ({ ref, sha: object.sha })));
const refAnswer = z.object({ object: z.object({ sha }) }).transform((body) => body.object.sha);

/** `base` is `{owner}/{name}`. */
export function repositoryApi(wire: Wire, base: Slashed): RepositoryApi {
  return {
    getRepository: () => wire.get("getRepository", path`/repos/${base}`, repositoryAnswer),

    getBranchHead: (branch) =>
      wire.get("getBranchHead", path`/repos/${base}/branches/${slashed(branch)}`, branchAnswer),

    async getFile(filePath, ref) {
      const address = withQuery(path`/repos/${base}/contents/${slashed(filePath)}`, { ref });
      const file = await wire.get("getFile", address, fileAnswer);
      if (!file.ok) return file;
      const text = decodeBase64Text(file.value.content);
      if (text === null) return err({ reason: "unreadable", what: `${filePath} (not UTF-8 text)` });
      return ok({ sha: file.value.sha, text });
    },

    getTree: (treeSha, { recursive }) =>
      wire.get(
        "getTree",
        // Any value of `recursive` turns it on, "0" and "false" too: it is left out instead.
        withQuery(path`/repos/${base}/git/trees/${treeSha}`, { recursive: recursive ? 1 : undefined }),
        treeAnswer,
      ),

    getCommit: (commitSha) => wire.get("getCommit", path`/repos/${base}/git/commits/${commitSha}`, commitAnswer),

    listRefs: (start) => wire.get("listRefs", path`/repos/${base}/git/matching-refs/${slashed(start)}`, refsAnswer),

    getQueueTimeout: (branch) =>
      wire.get("getQueueTimeout", path`/repos/${base}/rules/branches/${slashed(branch)}`, rulesAnswer),

    async getRef(ref) {
      const short = ref.replace(/^refs\//, "");
      const found = await wire.get("getRef", path`/repos/${base}/git/ref/${slashed(short)}`, refAnswer);
      return !found.ok && found.error.reason === "not-found" ? ok(null) : found;
    },
  };
}

function decodeBase64Text(content: string): string | null {
  try {
    const bytes = Uint8Array.from(atob(content.replaceAll(/\s/g, "")), (char) => char.charCodeAt(0));
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
  } catch {
    return null;
  }
}
