/**
 * Puts the parts together again: one pass over them, every part and every file checked by its hash, constant memory.
 *
 * Files are written to a folder beside the target, which gets its name only when everything has been checked: whatever
 * happens before, the target is not there. An interrupted join goes on where it stopped.
 */
import { createHash } from "node:crypto";
import {
  chmodSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { UsageError } from "../command.ts";
import {
  explainPartProblem,
  layOut,
  writeManifest,
  type Manifest,
  type ManifestEntry,
  type ManifestPart,
} from "../../shared/hosted/archive.ts";
import { paddingAfter, TAR_END_BYTES, tarHeader } from "../../shared/hosted/tar.ts";
import { openJournal, type Journal } from "./journal.ts";
import { findPartProblems, listParts } from "./parts.ts";
import { writeAll, type Digest } from "./write-all.ts";

const CHUNK_BYTES = 4 << 20;

export interface JoinRequest {
  /** Absolute path of the folder with the parts. */
  readonly folder: string;
  readonly manifest: Manifest;
  /** Absolute path of the folder to be made; it must not exist, or be empty. */
  readonly target: string;
}

/** Thrown inside a join when the bytes are not what the manifest says; the parts are then looked at one by one. */
class Mismatch extends Error {}

/** Makes the target. Gives what is wrong, one sentence each; empty when the target is there and complete. */
export async function joinArchive(request: JoinRequest): Promise<readonly string[]> {
  const { folder, manifest, target } = request;
  refuseFullTarget(target);
  const names = listParts(folder, manifest.name);
  const complete =
    names.length === manifest.parts.length && manifest.parts.every((part) => sizeOf(folder, part) === part.bytes);
  if (!complete) return findPartProblems(folder, manifest).map(explainPartProblem);

  const staging = `${target}.joining`;
  const subject = createHash("sha256")
    .update(await writeManifest(manifest))
    .digest("hex");
  mkdirSync(dirname(target), { recursive: true });
  const journal = openJournal(staging, subject, (done) => samePartsAsBefore(folder, manifest, done));
  try {
    writeEntries(request, join(staging, "files"), journal);
  } catch (error) {
    if (!(error instanceof Mismatch)) throw error;
    rmSync(staging, { recursive: true, force: true });
    const problems = findPartProblems(folder, manifest).map(explainPartProblem);
    return problems.length > 0 ? problems : [error.message];
  }
  if (statSync(target, { throwIfNoEntry: false }) !== undefined) rmdirSync(target);
  renameSync(join(staging, "files"), target);
  rmSync(staging, { recursive: true });
  return [];
}

function writeEntries({ folder, manifest }: JoinRequest, files: string, journal: Journal): void {
  const { entries } = manifest;
  const { offsets } = layOut(entries);
  const source = new PartSource(folder, manifest.parts, journal);
  const first = journal.done.filter(([kind]) => kind === "entry").length;
  source.begin(offsets[first] ?? layOut(entries).bytes - TAR_END_BYTES);
  mkdirSync(files, { recursive: true });
  try {
    for (const entry of entries.slice(first)) {
      if (!Buffer.from(tarHeader(entry)).equals(source.takeAll(tarHeader(entry).length)))
        throw new Mismatch(`The parts do not hold '${entry.path}' where the manifest says.`);
      if (entry.kind === "dir") mkdirSync(join(files, entry.path), { recursive: true });
      if (entry.kind === "file") writeFileEntry(entry, join(files, entry.path), source);
      journal.add("entry");
    }
    if (source.takeAll(TAR_END_BYTES).some((byte) => byte !== 0))
      throw new Mismatch("The parts do not end where the archive does.");
  } finally {
    source.close();
  }
  // Links last: until here no path can lead through one.
  for (const entry of entries) {
    if (entry.kind !== "link") continue;
    rmSync(join(files, entry.path), { force: true });
    symlinkSync(entry.target, join(files, entry.path));
  }
}

function writeFileEntry(entry: Extract<ManifestEntry, { kind: "file" }>, path: string, source: PartSource): void {
  const hash = createHash("sha256");
  const file = openSync(path, "w", 0o644);
  try {
    for (let left = entry.bytes; left > 0;) {
      const chunk = source.take(left);
      hash.update(chunk);
      writeAll(file, chunk);
      left -= chunk.length;
    }
  } finally {
    closeSync(file);
  }
  if (entry.executable) chmodSync(path, 0o755);
  source.takeAll(paddingAfter(entry.bytes));
  if (hash.digest("hex") !== entry.sha256)
    throw new Mismatch(`'${entry.path}' is damaged: its SHA-256 is not the one in the manifest.`);
}

interface OpenPart {
  readonly file: number;
  /** Null where an earlier run has checked the part. */
  readonly hash: Digest | null;
  left: number;
}

/** The stream of the archive read from its parts, each part hashed unless an earlier run has done so. */
class PartSource {
  readonly #folder: string;
  readonly #parts: readonly ManifestPart[];
  readonly #journal: Journal;
  readonly #buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  #chunk = this.#buffer.subarray(0, 0);
  #index = 0;
  #open: OpenPart | null = null;

  constructor(folder: string, parts: readonly ManifestPart[], journal: Journal) {
    this.#folder = folder;
    this.#parts = parts;
    this.#journal = journal;
  }

  /** Moves to an offset in the stream. Parts before it that no run has checked yet are read and checked on the way. */
  begin(offset: number): void {
    const checked = this.#checked();
    let start = 0;
    for (const [index, part] of this.#parts.entries()) {
      const end = start + part.bytes;
      if (index >= checked || end > offset) {
        this.#index = index;
        for (let left = Math.max(0, offset - start); left > 0;) left -= this.take(left).length;
        return;
      }
      start = end;
    }
    this.#index = this.#parts.length;
  }

  /** At least one and at most `limit` next bytes, valid until the next call. */
  take(limit: number): Buffer {
    if (this.#chunk.length === 0) this.#fill();
    const piece = this.#chunk.subarray(0, limit);
    this.#chunk = this.#chunk.subarray(piece.length);
    return piece;
  }

  takeAll(count: number): Buffer {
    const all = Buffer.alloc(count);
    for (let at = 0; at < count;) at += this.take(count - at).copy(all, at);
    return all;
  }

  close(): void {
    if (this.#open !== null) closeSync(this.#open.file);
    this.#open = null;
  }

  #checked(): number {
    return this.#journal.done.filter(([kind]) => kind === "part").length;
  }

  #fill(): void {
    this.#open ??= this.#begin();
    const open = this.#open;
    const count = readSync(open.file, this.#buffer, 0, Math.min(this.#buffer.length, open.left), null);
    if (count === 0) throw new Mismatch("A part became shorter while it was read.");
    this.#chunk = this.#buffer.subarray(0, count);
    open.hash?.update(this.#chunk);
    open.left -= count;
    if (open.left === 0) this.#end(open);
  }

  #begin(): OpenPart {
    const part = this.#parts[this.#index];
    if (part === undefined) throw new Mismatch("The parts are shorter than the archive.");
    const hash = this.#index < this.#checked() ? null : createHash("sha256");
    return { file: openSync(join(this.#folder, part.file), "r"), hash, left: part.bytes };
  }

  #end({ hash }: OpenPart): void {
    const part = this.#parts[this.#index];
    this.close();
    this.#index += 1;
    if (part === undefined || hash === null) return;
    if (hash.digest("hex") !== part.sha256) throw new Mismatch(`${part.file} is damaged.`);
    this.#journal.add("part", markOf(this.#folder, part));
  }
}

/** A part that was checked and has changed since makes everything begin anew. */
function samePartsAsBefore(folder: string, manifest: Manifest, done: Journal["done"]): boolean {
  const checked = done.filter(([kind]) => kind === "part");
  return checked.every(([, mark], index) => {
    const part = manifest.parts[index];
    return part !== undefined && mark === markOf(folder, part);
  });
}

function markOf(folder: string, part: ManifestPart): string {
  const stats = statSync(join(folder, part.file));
  return `${stats.size} ${stats.mtimeMs} ${stats.ino}`;
}

function sizeOf(folder: string, part: ManifestPart): number | null {
  return statSync(join(folder, part.file), { throwIfNoEntry: false })?.size ?? null;
}

function refuseFullTarget(target: string): void {
  const stats = statSync(target, { throwIfNoEntry: false });
  if (stats === undefined) return;
  if (!stats.isDirectory()) throw new UsageError(`'${target}' is not a folder; name one that is to be made.`);
  if (readdirSync(target).length > 0)
    throw new UsageError(`The folder '${target}' is not empty; name one that is to be made.`);
}
