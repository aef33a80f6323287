/**
 * Cuts files into balanced parts with a manifest, in one pass and constant memory.
 *
 * Reads, hashes and writes synchronously through one buffer: a hosted job does nothing else meanwhile. Parts become
 * visible only when all are complete, the manifest last; an interrupted run goes on where it stopped.
 */
import { createHash } from "node:crypto";
import { closeSync, mkdirSync, openSync, readSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { UsageError } from "../command.ts";
import { writeAll, type Digest } from "./write-all.ts";
import {
  balancedSizes,
  layOut,
  manifestFile,
  partFile,
  writeManifest,
  type Manifest,
  type ManifestEntry,
} from "../../shared/hosted/archive.ts";
import { assert } from "../../shared/result.ts";
import { paddingAfter, TAR_END_BYTES, tarHeader, type TarEntry } from "../../shared/hosted/tar.ts";
import { openJournal, type Journal } from "./journal.ts";
import { findSources } from "./sources.ts";

const CHUNK_BYTES = 4 << 20;

export interface SplitRequest {
  /** Absolute paths of folders (their content is sent) and files. */
  readonly inputs: readonly string[];
  /** Absolute path of the folder that gets the parts and the manifest; made when it is not there. */
  readonly folder: string;
  readonly name: string;
  readonly parts: number;
}

/** Writes the parts and the manifest and gives the manifest. Throws UsageError for inputs that cannot be sent. */
export async function splitArchive(request: SplitRequest): Promise<Manifest> {
  const around = request.inputs.find((input) => request.folder === input || request.folder.startsWith(`${input}/`));
  if (around !== undefined)
    throw new UsageError(`The parts would be written into '${around}', which is to be sent; name another --out.`);
  const { entries, locations, identity } = findSources(request.inputs);
  const { offsets, bytes } = layOut(entries);
  const sizes = balancedSizes(bytes, request.parts);
  mkdirSync(request.folder, { recursive: true });
  const staging = join(request.folder, `.${request.name}.splitting`);
  const subject = createHash("sha256").update(`${request.parts}\n${identity}`).digest("hex");
  const journal = openJournal(staging, subject, (done) =>
    done
      .filter(([kind]) => kind === "part")
      .every((_line, index) => sizeOnDisk(join(staging, partFile(request.name, index))) === sizes[index]),
  );

  const fileSums = journal.done.flatMap(([kind, sum = ""]) => (kind === "file" ? [sum] : []));
  const sink = new PartSink(staging, request.name, sizes, journal);
  // Back to the header of the first entry that still has bytes to be hashed or written.
  const unhashed = offsets[indexOfFile(entries, fileSums.length)] ?? bytes;
  const first = offsets.findLastIndex((offset) => offset <= Math.min(unhashed, sink.written));
  sink.position = offsets[first] ?? 0;
  let files = entries.slice(0, first).filter((entry) => entry.kind === "file").length;
  const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  for (const entry of entries.slice(first)) {
    sink.put(tarHeader(entry));
    if (entry.kind !== "file") continue;
    const sum = sendFile(entry, locations.get(entry.path) ?? "", buffer, sink);
    if (files === fileSums.length) {
      fileSums.push(sum);
      journal.add("file", sum);
    }
    files += 1;
  }
  sink.put(new Uint8Array(TAR_END_BYTES));
  assert(sink.sums.length === request.parts, "the last part ends with the archive");

  const sums = fileSums.values();
  const manifest: Manifest = {
    name: request.name,
    parts: sink.sums.map((sha256, index) => ({
      file: partFile(request.name, index),
      bytes: sizes[index] ?? 0,
      sha256,
    })),
    entries: entries.map((entry): ManifestEntry =>
      entry.kind === "file" ? { ...entry, sha256: sums.next().value ?? "" } : entry,
    ),
  };
  await publish(request, staging, manifest);
  return manifest;
}

/** A manifest from before would vouch for parts that are being replaced, so it goes first and the new one comes last. */
async function publish({ folder, name }: SplitRequest, staging: string, manifest: Manifest): Promise<void> {
  const text = await writeManifest(manifest);
  writeFileSync(join(staging, manifestFile(name)), text);
  rmSync(join(folder, manifestFile(name)), { force: true });
  for (const part of manifest.parts) renameSync(join(staging, part.file), join(folder, part.file));
  renameSync(join(staging, manifestFile(name)), join(folder, manifestFile(name)));
  rmSync(staging, { recursive: true });
}

/** Sends a file's content and padding; gives its SHA-256. */
function sendFile(
  entry: Extract<TarEntry, { kind: "file" }>,
  location: string,
  buffer: Buffer,
  sink: PartSink,
): string {
  const hash = createHash("sha256");
  const file = openSync(location, "r");
  try {
    let left = entry.bytes;
    while (left > 0) {
      const count = readSync(file, buffer, 0, Math.min(buffer.length, left), null);
      if (count === 0) break;
      const chunk = buffer.subarray(0, count);
      hash.update(chunk);
      sink.put(chunk);
      left -= count;
    }
    if (left > 0 || readSync(file, buffer, 0, 1, null) > 0)
      throw new UsageError(`'${location}' changed while it was read; run the split again when nothing writes to it.`);
  } finally {
    closeSync(file);
  }
  sink.put(new Uint8Array(paddingAfter(entry.bytes)));
  return hash.digest("hex");
}

interface OpenPart {
  readonly file: number;
  readonly hash: Digest;
  left: number;
}

/** The stream of the archive, cut into part files. What an earlier run has written is passed over. */
class PartSink {
  /** Offset in the stream of the next byte that is put. */
  position = 0;
  /** SHA-256 of each complete part. */
  readonly sums: string[] = [];
  /** Offset in the stream up to which parts are complete. */
  written = 0;
  readonly #folder: string;
  readonly #name: string;
  readonly #sizes: readonly number[];
  readonly #journal: Journal;
  #open: OpenPart | null = null;

  constructor(folder: string, name: string, sizes: readonly number[], journal: Journal) {
    this.#folder = folder;
    this.#name = name;
    this.#sizes = sizes;
    this.#journal = journal;
    for (const [kind, sum] of journal.done) {
      if (kind !== "part" || sum === undefined) continue;
      this.written += sizes[this.sums.length] ?? 0;
      this.sums.push(sum);
    }
  }

  put(bytes: Uint8Array): void {
    let rest = bytes.subarray(Math.min(bytes.length, Math.max(0, this.written - this.position)));
    this.position += bytes.length;
    while (rest.length > 0) {
      this.#open ??= this.#begin();
      const piece = rest.subarray(0, this.#open.left);
      this.#open.hash.update(piece);
      writeAll(this.#open.file, piece);
      this.#open.left -= piece.length;
      this.written += piece.length;
      rest = rest.subarray(piece.length);
      if (this.#open.left === 0) this.#end(this.#open);
    }
  }

  #begin(): OpenPart {
    const index = this.sums.length;
    const file = openSync(join(this.#folder, partFile(this.#name, index)), "w", 0o644);
    return { file, hash: createHash("sha256"), left: this.#sizes[index] ?? 0 };
  }

  #end({ file, hash }: OpenPart): void {
    closeSync(file);
    const sum = hash.digest("hex");
    this.sums.push(sum);
    this.#journal.add("part", sum);
    this.#open = null;
  }
}

/** Position among the entries of the n-th file, or one past the end. */
function indexOfFile(entries: readonly TarEntry[], n: number): number {
  let seen = 0;
  const index = entries.findIndex((entry) => entry.kind === "file" && seen++ === n);
  return index === -1 ? entries.length : index;
}

function sizeOnDisk(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.size ?? null;
}
