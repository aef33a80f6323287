/**
 * How any set of files travels as a fixed number of balanced parts: one tar stream cut at byte positions, and a manifest
 * with the SHA-256 of every part and of every file.
 *
 * The manifest is text that `sha256sum --check` reads: its own facts stand in lines that begin with `#`, which that tool
 * skips. Part lines name `<name>.part00`, file lines `<name>/<path>`. It is checked before anything is used, and its last
 * line holds the SHA-256 of everything above.
 */
import { sha256Hex } from "../config/hash.ts";
import { err, ok, unreachable, type Result } from "../result.ts";
import { paddingAfter, TAR_END_BYTES, tarHeader, type TarEntry } from "./tar.ts";

/** The part count of GitHub's artifact download: five run at once. */
export const DEFAULT_PARTS = 5;
export const PARTS_MAX = 99;

export type ManifestEntry =
  | Exclude<TarEntry, { kind: "file" }>
  | (Extract<TarEntry, { kind: "file" }> & { readonly sha256: string });

export interface ManifestPart {
  readonly file: string;
  readonly bytes: number;
  readonly sha256: string;
}

export interface Manifest {
  /** Prefix of the part files and of the manifest itself. */
  readonly name: string;
  readonly parts: readonly ManifestPart[];
  /** In the order of the tar stream; a folder stands before what it holds. */
  readonly entries: readonly ManifestEntry[];
}

export type ManifestError = { readonly reason: "bad-manifest"; readonly problem: string };

const HEAD = "#gpu-gate-archive 1";
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
const SHA = /^[0-9a-f]{64}$/;
// Control characters, and the backslash that makes sha256sum escape a name.
// oxlint-disable-next-line no-control-regex
const UNSAFE = /[\u0000-\u001F\u007F\\]/u;

export function partFile(name: string, index: number): string {
  return `${name}.part${String(index).padStart(2, "0")}`;
}

export function manifestFile(name: string): string {
  return `${name}.manifest`;
}

export function isArchiveName(name: string): boolean {
  return NAME.test(name);
}

/** Null when a path may travel; else what is wrong with it, as the end of a sentence. */
export function pathProblem(path: string): string | null {
  if (UNSAFE.test(path)) return "has a control character or a backslash in its name";
  if (path.split("/").some((part) => part === "" || part === "." || part === ".."))
    return "is not a plain relative path";
  return null;
}

/** Null when a link stays inside the files that travel; else what is wrong, as the end of a sentence. */
export function linkProblem(path: string, target: string): string | null {
  if (target === "" || UNSAFE.test(target)) return "has an unreadable target";
  if (target.startsWith("/")) return `points to an absolute path (${target})`;
  let depth = path.split("/").length - 1;
  let down = false;
  for (const part of target.split("/")) {
    // After a name, `..` may lead out of wherever another link leads: only in front is it the folder that it seems.
    if (part === ".." && down) return `climbs up behind a name (${target})`;
    if (part === "..") depth -= 1;
    else if (part !== "" && part !== ".") down = true;
    if (depth < 0) return `points outside of the folder (${target})`;
  }
  return null;
}

/** Where each entry's header begins in the stream, and where the stream ends. */
export interface Layout {
  readonly offsets: readonly number[];
  readonly bytes: number;
}

export function layOut(entries: readonly TarEntry[]): Layout {
  const offsets: number[] = [];
  let bytes = 0;
  for (const entry of entries) {
    offsets.push(bytes);
    const content = entry.kind === "file" ? entry.bytes : 0;
    bytes += tarHeader(entry).length + content + paddingAfter(content);
  }
  return { offsets, bytes: bytes + TAR_END_BYTES };
}

/** Sizes that add up to `bytes` and differ by at most one byte. */
export function balancedSizes(bytes: number, parts: number): readonly number[] {
  const small = Math.floor(bytes / parts);
  const larger = bytes - small * parts;
  return Array.from({ length: parts }, (_unused, index) => small + (index < larger ? 1 : 0));
}

export async function writeManifest(manifest: Manifest): Promise<string> {
  const lines = [
    HEAD,
    ...manifest.parts.flatMap((part) => [`#part\t${part.bytes}`, `${part.sha256}  ${part.file}`]),
    ...manifest.entries.flatMap((entry) => {
      if (entry.kind === "dir") return [`#dir\t${entry.path}`];
      if (entry.kind === "link") return [`#link\t${entry.path}\t${entry.target}`];
      return [
        `#file\t${entry.executable ? 755 : 644}\t${entry.bytes}`,
        `${entry.sha256}  ${manifest.name}/${entry.path}`,
      ];
    }),
  ];
  const body = `${lines.join("\n")}\n`;
  return `${body}#sum\t${await sha256Hex(body)}\n`;
}

/** Reads a manifest of that name; anything unexpected in it refuses the whole. */
export async function parseManifest(name: string, text: string): Promise<Result<Manifest, ManifestError>> {
  const bad = (problem: string) => err<ManifestError>({ reason: "bad-manifest", problem });
  const sumAt = text.lastIndexOf("#sum\t");
  const body = text.slice(0, Math.max(0, sumAt));
  if (!text.startsWith(`${HEAD}\n`)) return bad("it does not begin like a manifest of this version");
  if (sumAt === -1 || text.slice(sumAt) !== `#sum\t${await sha256Hex(body)}\n`) return bad("it is damaged or cut off");

  const parts: ManifestPart[] = [];
  const entries: ManifestEntry[] = [];
  const lines = body.split("\n").slice(1, -1);
  for (let index = 0; index < lines.length; index += 1) {
    const fields = (lines[index] ?? "").split("\t");
    const [kind, first = "", second = ""] = fields;
    if (kind === "#part" && fields.length === 2) {
      const line = hashLine(lines[(index += 1)]);
      const file = partFile(name, parts.length);
      if (line?.name !== file) return bad(`the line of ${file} is wrong`);
      parts.push({ file, bytes: sizeOf(first), sha256: line.sha256 });
    } else if (kind === "#dir" && fields.length === 2) entries.push({ kind: "dir", path: first });
    else if (kind === "#link" && fields.length === 3) entries.push({ kind: "link", path: first, target: second });
    else if (kind === "#file" && fields.length === 3 && (first === "644" || first === "755")) {
      const line = hashLine(lines[(index += 1)]);
      if (line?.name.startsWith(`${name}/`) !== true) return bad("a file line is wrong");
      const path = line.name.slice(name.length + 1);
      entries.push({ kind: "file", path, executable: first === "755", bytes: sizeOf(second), sha256: line.sha256 });
    } else return bad("it has a line of an unknown kind");
  }
  const problem = contentProblem(parts, entries);
  return problem === null ? ok({ name, parts, entries }) : bad(problem);
}

function hashLine(line: string | undefined): { sha256: string; name: string } | null {
  if (line?.slice(64, 66) !== "  " || !SHA.test(line.slice(0, 64))) return null;
  return { sha256: line.slice(0, 64), name: line.slice(66) };
}

/** NaN for anything that is not a plain size, which no comparison lets through. */
function sizeOf(text: string): number {
  return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
}

/** What a manifest with a right sum could still get wrong: sizes, names, the order of folders, links that lead out. */
function contentProblem(parts: readonly ManifestPart[], entries: readonly ManifestEntry[]): string | null {
  if (parts.length === 0 || parts.length > PARTS_MAX) return "it lists no parts, or too many";
  const folders = new Set<string>([""]);
  const paths = new Set<string>();
  for (const entry of entries) {
    const problem = pathProblem(entry.path) ?? (entry.kind === "link" ? linkProblem(entry.path, entry.target) : null);
    if (problem !== null) return `'${entry.path}' ${problem}`;
    if (paths.has(entry.path)) return `'${entry.path}' is listed twice`;
    if (!folders.has(entry.path.split("/").slice(0, -1).join("/")))
      return `the folder of '${entry.path}' is not listed before it`;
    if (entry.kind === "file" && !Number.isSafeInteger(entry.bytes)) return `'${entry.path}' has no readable size`;
    paths.add(entry.path);
    if (entry.kind === "dir") folders.add(entry.path);
  }
  const sizes = balancedSizes(layOut(entries).bytes, parts.length);
  return parts.every((part, index) => part.bytes === sizes[index])
    ? null
    : "the sizes of its parts do not fit its files";
}

/** A file found under the name of a part, read in full. */
export interface FoundPart {
  readonly file: string;
  readonly bytes: number;
  readonly sha256: string;
}

export type PartProblem =
  | { readonly file: string; readonly reason: "missing" | "empty" | "extra" | "damaged" }
  | { readonly file: string; readonly reason: "swapped"; readonly holds: string }
  | { readonly file: string; readonly reason: "size"; readonly bytes: number; readonly expected: number };

/** Compares what was found with the manifest, part by part; files that the manifest does not know come last. */
export function judgeParts(manifest: Manifest, found: readonly FoundPart[]): readonly PartProblem[] {
  const problems = manifest.parts.flatMap((part): PartProblem[] => {
    const seen = found.find((one) => one.file === part.file);
    if (seen === undefined) return [{ file: part.file, reason: "missing" }];
    if (seen.sha256 === part.sha256 && seen.bytes === part.bytes) return [];
    if (seen.bytes === 0) return [{ file: part.file, reason: "empty" }];
    const owner = manifest.parts.find((other) => other.sha256 === seen.sha256);
    if (owner !== undefined) return [{ file: part.file, reason: "swapped", holds: owner.file }];
    if (seen.bytes === part.bytes) return [{ file: part.file, reason: "damaged" }];
    return [{ file: part.file, reason: "size", bytes: seen.bytes, expected: part.bytes }];
  });
  const known = new Set(manifest.parts.map((part) => part.file));
  const extra = found
    .filter((one) => !known.has(one.file))
    .map((one) => ({ file: one.file, reason: "extra" as const }));
  return [...problems, ...extra];
}

/** One sentence for a person. */
export function explainPartProblem(problem: PartProblem): string {
  switch (problem.reason) {
    case "missing":
      return `${problem.file} is missing.`;
    case "empty":
      return `${problem.file} is empty.`;
    case "extra":
      return `${problem.file} is extra: the manifest does not list it.`;
    case "damaged":
      return `${problem.file} is damaged: its SHA-256 is not the one in the manifest.`;
    case "swapped":
      return `${problem.file} is swapped: it holds the content of ${problem.holds}.`;
    case "size":
      return `${problem.file} is damaged: it has ${problem.bytes} bytes instead of ${problem.expected}.`;
    default:
      return unreachable(problem, "part problem");
  }
}
