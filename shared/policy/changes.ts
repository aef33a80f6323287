/**
 * What a change consists of: files with both names of a rename, and whatever is wrong with the list as a whole.
 *
 * A list that may be incomplete, and an entry that is no plain text file, can never make a change look cheaper: both
 * are code. The functions here turn what git and GitHub say into these terms.
 */

/** Entries that a path alone does not describe. */
export type SpecialEntry =
  | "submodule"
  | "symlink"
  | "mode-only"
  /** GitHub shows no change of content: a mode change or a binary file, and it does not say which. */
  | "no-visible-change"
  /** A status or mode nobody has reviewed. */
  | "unknown-status";

export interface ChangedFile {
  readonly path: string;
  /** The old name of a rename or the source of a copy; null when there is none. */
  readonly previousPath: string | null;
  readonly special: SpecialEntry | null;
}

export type ListProblem =
  | { readonly kind: "count-mismatch"; readonly received: number; readonly declared: number }
  | { readonly kind: "list-cap"; readonly declared: number }
  | { readonly kind: "unreadable"; readonly detail: string };

/** GitHub lists at most this many changed files of a pull request; a list that reaches it may have lost the rest. */
export const FILE_LIST_CAP = 3000;

/** Judges a list read from GitHub: `declared` is `changed_files` of the pull request. Null when nothing is wrong. */
export function listProblem(received: number, declared: number, cap: number = FILE_LIST_CAP): ListProblem | null {
  if (declared >= cap || received >= cap) return { kind: "list-cap", declared: Math.max(declared, received) };
  if (received !== declared) return { kind: "count-mismatch", received, declared };
  return null;
}

/** A file that is known by its name alone. */
export function plainFile(path: string): ChangedFile {
  return { path, previousPath: null, special: null };
}

/** What `GET /repos/{}/pulls/{}/files` says of one file, as far as the policy reads it. */
export interface ListedFile {
  readonly filename: string;
  readonly previous_filename?: string | null | undefined;
  readonly status: string;
  readonly changes: number;
  /** Absent for binary files and for large ones. */
  readonly patch?: string | null | undefined;
}

const LISTED_STATUS: ReadonlySet<string> = new Set(["added", "removed", "modified", "renamed", "copied"]);
const SUBMODULE_LINE = /^[+-]Subproject commit [0-9a-f]{40,64}$/m;

/**
 * One entry of GitHub's list. GitHub tells no file modes, so submodules and links are told by what their patch looks
 * like; a false alarm costs one run, a missed one would skip tests.
 */
export function fromListedFile(file: ListedFile): ChangedFile {
  return { path: file.filename, previousPath: file.previous_filename ?? null, special: specialOf(file) };
}

function specialOf(file: ListedFile): SpecialEntry | null {
  // `changed` and `unchanged` are what GitHub says of changes that touch no content.
  if (file.status === "changed" || file.status === "unchanged") return "mode-only";
  if (!LISTED_STATUS.has(file.status)) return "unknown-status";
  const patch = file.patch ?? "";
  if (SUBMODULE_LINE.test(patch)) return "submodule";
  if (looksLikeLink(patch)) return "symlink";
  if (file.status === "modified" && file.changes === 0) return "no-visible-change";
  return null;
}

/** A link's content is its target: one line without a line feed, on every side the patch shows. */
function looksLikeLink(patch: string): boolean {
  const lines = patch.split("\n");
  if (!/^@@ -(?:0,0|1) \+(?:0,0|1) @@/.test(lines[0] ?? "")) return false;
  const sides = lines.slice(1).filter((line) => line.startsWith("+") || line.startsWith("-"));
  const unended = lines.filter((line) => line.startsWith("\\ No newline at end of file"));
  return sides.length > 0 && unended.length === sides.length;
}

const MODE_LINK = "120000";
const MODE_SUBMODULE = "160000";
const MODE_ABSENT = "000000";

/**
 * One entry of `git diff --raw --no-renames`: the modes of both sides. Without rename detection a moved file is two
 * entries, one for each name, whatever git's limits and settings for renames are.
 */
export interface RawEntry {
  readonly oldMode: string;
  readonly newMode: string;
  /** `A`, `D`, `M` or `T`. */
  readonly status: string;
  readonly path: string;
}

const RAW_STATUS: ReadonlySet<string> = new Set(["A", "D", "M", "T"]);

export function fromRawEntry(entry: RawEntry): ChangedFile {
  return { path: entry.path, previousPath: null, special: specialOfRaw(entry) };
}

function specialOfRaw(entry: RawEntry): SpecialEntry | null {
  const { oldMode, newMode } = entry;
  if (oldMode === MODE_SUBMODULE || newMode === MODE_SUBMODULE) return "submodule";
  if (oldMode === MODE_LINK || newMode === MODE_LINK) return "symlink";
  if (!RAW_STATUS.has(entry.status)) return "unknown-status";
  const bothSides = oldMode !== MODE_ABSENT && newMode !== MODE_ABSENT;
  if (bothSides && oldMode !== newMode) return "mode-only";
  return null;
}
