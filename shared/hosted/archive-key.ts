/**
 * The content key of the test archives: the same files and settings give the same key, whatever they are called.
 *
 * It is made from the configured paths of the tested tree, the trusted workflow files and the GPU settings of the default
 * branch; never from a branch, a ref or a commit, so that a pull request, its recovery and a merge of the same content
 * share one build. The control plane reads trees through GitHub's API, hosted jobs through `git ls-tree`; both turn them
 * into the same entries and compute the key here.
 */
import * as z from "zod";
import { sha256Hex, stableJson } from "../config/hash.ts";
import type { RepositoryConfig } from "../config/schema.ts";
import { byCodePoint } from "../policy/paths.ts";
import { err, ok, unreachable, type Result } from "../result.ts";

/** A file of a tree: its path as git has it, its mode, and the id of its content (for a submodule, of its commit). */
export interface TreeEntry {
  readonly path: string;
  readonly mode: string;
  readonly sha: string;
}

export interface ArchiveKeyInputs {
  /** The effective configuration of the default branch. */
  readonly config: Pick<RepositoryConfig, "archive_key" | "gpu" | "runner" | "workflows">;
  /** Every file of the tested tree. */
  readonly tested: readonly TreeEntry[];
  /** Every file of the default branch's tree, or at least its workflow files. */
  readonly trusted: readonly TreeEntry[];
}

export type ArchiveKeyError =
  | { readonly reason: "truncated-tree" }
  | { readonly reason: "unreadable-tree"; readonly problem: string }
  | { readonly reason: "unreadable-path"; readonly path: string }
  | { readonly reason: "workflow-missing"; readonly path: string }
  | { readonly reason: "nothing-selected" };

export interface ArchiveKey {
  readonly key: string;
  /** What was hashed, line by line, for finding out why two keys differ. */
  readonly text: string;
}

const MODES = ["100644", "100755", "120000", "160000"] as const;
const SHA = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

/** Computes the key `<namespace>-<64 hex digits>`. The order of the entries does not matter. */
export async function archiveKey(inputs: ArchiveKeyInputs): Promise<Result<ArchiveKey, ArchiveKeyError>> {
  const { archive_key: rules, gpu, runner, workflows } = inputs.config;
  const selects = selector(rules.include, rules.exclude);
  const selected = inputs.tested.filter((entry) => selects(entry.path));
  if (selected.length === 0) return err({ reason: "nothing-selected" });
  const workflowPaths = [workflows.prepare, workflows.execute];
  const trusted = workflowPaths.map((path) => inputs.trusted.find((entry) => entry.path === path));
  const missing = trusted.indexOf(undefined);
  if (missing !== -1) return err({ reason: "workflow-missing", path: workflowPaths[missing] ?? "" });
  // A name that is not UTF-8 reaches us with replacement characters: two such files could not be told apart.
  const unreadable = selected.find((entry) => entry.path.includes("\uFFFD"));
  if (unreadable !== undefined) return err({ reason: "unreadable-path", path: unreadable.path });
  const lines = [
    "gpu-gate archive key 1",
    `gpu ${stableJson({ gpu, runner })}`,
    ...trusted.flatMap((entry) => (entry === undefined ? [] : [entryLine("workflow", entry)])),
    ...selected.toSorted((a, b) => byCodePoint(a.path, b.path)).map((entry) => entryLine("tree", entry)),
  ];
  const text = `${lines.join("\n")}\n`;
  return ok({ key: `${rules.namespace}-${await sha256Hex(text)}`, text });
}

/** Quoted, because git allows blanks and line breaks in names. */
function entryLine(kind: string, entry: TreeEntry): string {
  return `${kind} ${entry.mode} ${entry.sha} ${JSON.stringify(entry.path)}`;
}

const treeAnswer = z.object({
  truncated: z.boolean(),
  tree: z.array(z.object({ path: z.string(), mode: z.string(), type: z.string(), sha: z.string() })),
});

/** Reads `GET /repos/{owner}/{repo}/git/trees/{sha}?recursive=1`. A truncated answer has no key: the build is then fresh. */
export function entriesFromTreeApi(answer: unknown): Result<readonly TreeEntry[], ArchiveKeyError> {
  const parsed = treeAnswer.safeParse(answer);
  if (!parsed.success) return err({ reason: "unreadable-tree", problem: "the answer is not a tree" });
  if (parsed.data.truncated) return err({ reason: "truncated-tree" });
  return checkEntries(parsed.data.tree.filter((entry) => entry.type !== "tree"));
}

/** Reads the bytes of `git ls-tree -r -z --full-tree <revision>`. */
export function entriesFromLsTree(output: Uint8Array): Result<readonly TreeEntry[], ArchiveKeyError> {
  const records = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true }).decode(output).split("\u0000");
  if (records.pop() !== "") return err({ reason: "unreadable-tree", problem: "the listing was cut off" });
  const entries: TreeEntry[] = [];
  for (const record of records) {
    const [, mode, sha, path] = /^(\d{6}) (?:blob|commit) ([0-9a-f]+)\t([\s\S]+)$/.exec(record) ?? [];
    if (mode === undefined || sha === undefined || path === undefined)
      return err({
        reason: "unreadable-tree",
        problem: `'${record.slice(0, 80)}' is not an entry of a recursive listing`,
      });
    entries.push({ path, mode, sha });
  }
  return checkEntries(entries);
}

function checkEntries(entries: readonly TreeEntry[]): Result<readonly TreeEntry[], ArchiveKeyError> {
  const odd = entries.find(({ mode, sha }) => !(MODES as readonly string[]).includes(mode) || !SHA.test(sha));
  if (odd !== undefined)
    return err({ reason: "unreadable-tree", problem: `the entry of '${odd.path}' has an unknown mode or id` });
  if (new Set(entries.map((entry) => entry.path)).size !== entries.length)
    return err({ reason: "unreadable-tree", problem: "a path is listed twice" });
  return ok(entries.map(({ path, mode, sha }) => ({ path, mode, sha })));
}

/** Whether a path is included and not excluded. Patterns are whole paths: `*` within a folder, `**` any folders. */
function selector(include: readonly string[], exclude: readonly string[]): (path: string) => boolean {
  const includes = include.map(matcher);
  const excludes = exclude.map(matcher);
  return (path) => includes.some((matches) => matches(path)) && !excludes.some((matches) => matches(path));
}

/**
 * The tree's names are the pull request's: a regular expression with several stars would take, for a name made for it, a
 * time that no run has. Here every part of the pattern looks at every part of the name once at most.
 */
function matcher(pattern: string): (path: string) => boolean {
  const parts = pattern.split("/").map((part) => (part === "**" ? part : part.split(/\*+/)));
  return (path) => {
    const names = path.split("/");
    // After each part of the pattern: how many parts of the name may be behind us.
    let reached = new Set([0]);
    for (const [index, part] of parts.entries()) {
      const next = new Set<number>();
      if (part === "**") {
        const first = Math.min(...reached);
        if (index === parts.length - 1) return first < names.length && names.slice(first).join("/") !== "";
        for (let at = first; at < names.length; at += 1) {
          next.add(at);
          if (names[at] === "") break;
        }
      } else for (const at of reached) if (at < names.length && fits(part, names[at] ?? "")) next.add(at + 1);
      if (next.size === 0) return false;
      reached = next;
    }
    return reached.has(names.length);
  };
}

/** Whether a name begins with the first piece, ends with the last and has the others in their order between. */
function fits(pieces: readonly string[] | string, name: string): boolean {
  const [first = "", ...rest] = pieces;
  const last = rest.pop();
  if (last === undefined) return name === first;
  if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last)) return false;
  const end = name.length - last.length;
  let at = first.length;
  for (const piece of rest) {
    const found = name.indexOf(piece, at);
    if (found === -1 || found + piece.length > end) return false;
    at = found + piece.length;
  }
  return true;
}

/** One sentence for a person. */
export function explainArchiveKeyError(error: ArchiveKeyError): string {
  switch (error.reason) {
    case "truncated-tree":
      return "the tree is too large for GitHub to list in full, so it has no key";
    case "unreadable-tree":
      return `the tree cannot be read: ${error.problem}`;
    case "unreadable-path":
      return `the name '${error.path}' is not UTF-8, so the tree has no key; rename or exclude it`;
    case "workflow-missing":
      return `the default branch has no ${error.path}; the key is made from it`;
    case "nothing-selected":
      return "no file of the tested tree matches archive_key.include, so the key would be the same for every tree";
    default:
      return unreachable(error, "archive key error");
  }
}
