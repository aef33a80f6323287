/**
 * The git objects of one repository network: blobs, trees and commits under the ids real git would give them.
 *
 * A fork shares the store of its parent, as on GitHub. Nothing is ever removed, so a head that moved on stays readable.
 */

import { createHash } from "node:crypto";
import { deflateSync } from "node:zlib";

/** Path to text. A commit's whole content; directories exist only through the paths. */
export type Files = Readonly<Record<string, string>>;
/** Path to new text, or null for a removed file. */
export type Changes = Readonly<Record<string, string | null>>;

export interface Person {
  readonly name: string;
  readonly email: string;
}

export interface Commit {
  readonly sha: string;
  readonly tree: string;
  readonly parents: readonly string[];
  readonly message: string;
  readonly author: Person;
  /** UTC milliseconds, whole seconds as git keeps them. */
  readonly at: number;
}

export interface TreeEntry {
  readonly path: string;
  readonly mode: "100644" | "040000";
  readonly type: "blob" | "tree";
  readonly sha: string;
  /** Bytes; blobs only. */
  readonly size?: number;
}

export interface FileChange {
  readonly filename: string;
  readonly status: "added" | "removed" | "modified" | "renamed";
  readonly previousFilename?: string;
  readonly sha: string;
  readonly additions: number;
  readonly deletions: number;
  readonly patch: string;
}

type ObjectKind = "blob" | "tree" | "commit";

function objectId(kind: ObjectKind, content: Buffer): string {
  return createHash("sha1").update(`${kind} ${content.length}\0`).update(content).digest("hex");
}

export class GitStore {
  readonly #blobs = new Map<string, string>();
  readonly #trees = new Map<string, readonly TreeEntry[]>();
  readonly #files = new Map<string, Files>();
  readonly #commits = new Map<string, Commit>();
  readonly #contents = new Map<string, { readonly kind: ObjectKind; readonly content: Buffer }>();
  readonly #loose = new Map<string, Buffer>();

  /** Stores a tree for these files and gives its id. */
  writeTree(files: Files): string {
    const sha = this.#writeDirectory(Object.entries(files).map(([path, text]) => [path.split("/"), text] as const));
    this.#files.set(sha, { ...files });
    return sha;
  }

  /** `committer` is the author unless somebody else made the commit of the author's work, as a merge queue does. */
  commit(input: {
    files: Files;
    parents: readonly string[];
    message: string;
    author: Person;
    committer?: Person;
    at: number;
  }): Commit {
    const tree = this.writeTree(input.files);
    const seconds = Math.floor(input.at / 1000);
    const signature = ({ name, email }: Person): string => `${name} <${email}> ${seconds} +0000`;
    const text = [
      `tree ${tree}`,
      ...input.parents.map((parent) => `parent ${parent}`),
      `author ${signature(input.author)}`,
      `committer ${signature(input.committer ?? input.author)}`,
      "",
      input.message,
    ].join("\n");
    const sha = this.#store("commit", Buffer.from(text));
    const { parents, message, author } = input;
    const commit: Commit = { sha, tree, parents, message, author, at: seconds * 1000 };
    this.#commits.set(sha, commit);
    return commit;
  }

  findCommit(sha: string): Commit | undefined {
    return this.#commits.get(sha);
  }

  readCommit(sha: string): Commit {
    const commit = this.#commits.get(sha);
    if (commit === undefined) throw new Error(`no commit ${sha} in this repository`);
    return commit;
  }

  blob(sha: string): string | undefined {
    return this.#blobs.get(sha);
  }

  /** The entries of one tree object, not recursive. */
  tree(sha: string): readonly TreeEntry[] | undefined {
    return this.#trees.get(sha);
  }

  /** Every entry below a tree, directories included, paths from its root, in git's order. */
  walk(sha: string, prefix = ""): TreeEntry[] {
    return (this.#trees.get(sha) ?? []).flatMap((entry) => {
      const here = { ...entry, path: prefix + entry.path };
      return entry.type === "tree" ? [here, ...this.walk(entry.sha, `${here.path}/`)] : [here];
    });
  }

  filesAt(commitSha: string): Files {
    return this.#files.get(this.readCommit(commitSha).tree) ?? {};
  }

  /** The commits from `sha` back to the beginning, newest first, each once. */
  history(sha: string): Commit[] {
    const seen = new Set<string>();
    const todo = [sha];
    const found: Commit[] = [];
    for (let next = todo.shift(); next !== undefined; next = todo.shift()) {
      if (seen.has(next)) continue;
      seen.add(next);
      const commit = this.#commits.get(next);
      if (commit === undefined) continue;
      found.push(commit);
      todo.push(...commit.parents);
    }
    return found;
  }

  /** The newest common ancestor, or undefined for unrelated histories. */
  mergeBase(left: string, right: string): string | undefined {
    const ancestors = new Set(this.history(left).map((commit) => commit.sha));
    return this.history(right).find((commit) => ancestors.has(commit.sha))?.sha;
  }

  /** Commits reachable from `head` and not from `base`, oldest first, as the pull request page lists them. */
  commitsBetween(base: string, head: string): Commit[] {
    const known = new Set(this.history(base).map((commit) => commit.sha));
    return this.history(head)
      .filter((commit) => !known.has(commit.sha))
      .reverse();
  }

  /** What changed from one commit to another, by path, with whole-file renames paired as git pairs them. */
  diff(from: string, to: string): FileChange[] {
    return diffFiles(this.filesAt(from), this.filesAt(to), (text) => objectId("blob", Buffer.from(text)));
  }

  /** Three-way merge by whole file. Null when both sides changed one path differently. */
  merge(base: string, head: string): Files | null {
    const ancestor = this.mergeBase(base, head);
    const before = ancestor === undefined ? {} : this.filesAt(ancestor);
    const ours = this.filesAt(base);
    const theirs = this.filesAt(head);
    const merged: Record<string, string> = {};
    for (const path of new Set([...Object.keys(ours), ...Object.keys(theirs), ...Object.keys(before)])) {
      const [was, our, their] = [before[path], ours[path], theirs[path]];
      if (our !== their && our !== was && their !== was) return null;
      const text = our === was ? their : our;
      if (text !== undefined) merged[path] = text;
    }
    return merged;
  }

  /**
   * What a fetch of a commit brings: the ids of its objects and those of `depth` generations of its history (0: all of
   * it), and the commits whose parents are left out.
   */
  reachable(sha: string, depth: number): { readonly ids: ReadonlySet<string>; readonly shallow: readonly string[] } {
    const ids = new Set<string>();
    const shallow: string[] = [];
    let generation = [sha];
    for (let level = 1; generation.length > 0; level += 1) {
      const parents: string[] = [];
      for (const id of generation) {
        const commit = this.#commits.get(id);
        if (commit === undefined || ids.has(id)) continue;
        ids.add(id).add(commit.tree);
        for (const entry of this.walk(commit.tree)) ids.add(entry.sha);
        if (depth > 0 && level >= depth && commit.parents.length > 0) shallow.push(id);
        else parents.push(...commit.parents);
      }
      generation = parents;
    }
    return { ids, shallow };
  }

  /** An object as git keeps it in a file of its own: header and content, compressed. */
  looseObject(id: string): Buffer {
    const known = this.#loose.get(id);
    if (known !== undefined) return known;
    const stored = this.#contents.get(id);
    if (stored === undefined) throw new Error(`no object ${id} in this repository`);
    const header = Buffer.from(`${stored.kind} ${stored.content.length}\0`);
    const loose = deflateSync(Buffer.concat([header, stored.content]), { level: 1 });
    this.#loose.set(id, loose);
    return loose;
  }

  #store(kind: ObjectKind, content: Buffer): string {
    const id = objectId(kind, content);
    if (!this.#contents.has(id)) this.#contents.set(id, { kind, content });
    return id;
  }

  #writeDirectory(files: readonly (readonly [readonly string[], string])[]): string {
    const directories = new Map<string, (readonly [readonly string[], string])[]>();
    const entries: TreeEntry[] = [];
    for (const [segments, text] of files) {
      const [name, ...rest] = segments;
      if (name === undefined || name === "") throw new Error(`bad file path ${segments.join("/")}`);
      if (rest.length > 0) {
        directories.set(name, [...(directories.get(name) ?? []), [rest, text]]);
      } else {
        const bytes = Buffer.from(text);
        const sha = this.#store("blob", bytes);
        this.#blobs.set(sha, text);
        entries.push({ path: name, mode: "100644", type: "blob", sha, size: bytes.length });
      }
    }
    for (const [name, inside] of directories) {
      entries.push({ path: name, mode: "040000", type: "tree", sha: this.#writeDirectory(inside) });
    }
    // Git sorts a directory as if its name ended in a slash.
    const key = (entry: TreeEntry): string => (entry.type === "tree" ? `${entry.path}/` : entry.path);
    entries.sort((a, b) => (key(a) < key(b) ? -1 : 1));
    const parts = entries.flatMap((entry) => [
      Buffer.from(`${entry.mode.replace(/^0/, "")} ${entry.path}\0`),
      Buffer.from(entry.sha, "hex"),
    ]);
    const sha = this.#store("tree", Buffer.concat(parts));
    this.#trees.set(sha, entries);
    return sha;
  }
}

export function applyChanges(files: Files, changes: Changes): Files {
  const result: Record<string, string> = { ...files };
  for (const [path, text] of Object.entries(changes)) {
    if (text === null) delete result[path];
    else result[path] = text;
  }
  return result;
}

function lines(text: string): number {
  return text === "" ? 0 : text.replace(/\n$/, "").split("\n").length;
}

function diffFiles(before: Files, after: Files, blobId: (text: string) => string): FileChange[] {
  const removed = Object.keys(before).filter((path) => after[path] === undefined);
  const changes: FileChange[] = [];
  const renamedFrom = new Set<string>();
  for (const [path, text] of Object.entries(after)) {
    const old = before[path];
    if (old === text) continue;
    const sha = blobId(text);
    if (old !== undefined) {
      const [additions, deletions] = [lines(text), lines(old)];
      changes.push({ filename: path, status: "modified", sha, additions, deletions, patch: "@@ whole file @@" });
      continue;
    }
    const source = removed.find((candidate) => !renamedFrom.has(candidate) && before[candidate] === text);
    if (source === undefined) {
      changes.push({ filename: path, status: "added", sha, additions: lines(text), deletions: 0, patch: "@@ new @@" });
    } else {
      renamedFrom.add(source);
      changes.push({
        filename: path,
        status: "renamed",
        previousFilename: source,
        sha,
        additions: 0,
        deletions: 0,
        patch: "",
      });
    }
  }
  for (const path of removed) {
    if (renamedFrom.has(path)) continue;
    const text = before[path] ?? "";
    changes.push({
      filename: path,
      status: "removed",
      sha: blobId(text),
      additions: 0,
      deletions: lines(text),
      patch: "@@ removed @@",
    });
  }
  return changes.sort((a, b) => (a.filename < b.filename ? -1 : 1));
}
