/** Turns a complete tree into what travels, with a checksum file, and checks what arrived. */
import {
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import {
  MARKER_FILE,
  payloadProblems,
  SUMS_FILE,
  wheelProblems,
  type PayloadEntry,
  type PayloadKind,
} from "../../shared/hosted/payload.ts";
import { pathProblem } from "../../shared/hosted/archive.ts";
import { UsageError } from "../command.ts";
import { fileHasher, readMarker, readTree } from "./tree.ts";
import { recordProblems } from "./wheel-record.ts";

export interface PackRequest {
  readonly tree: string;
  readonly kind: PayloadKind;
  readonly kindName: string;
  readonly target: string;
}

/** Makes the target from a complete tree; gives what is wrong, one sentence each. Files are linked, not copied, where possible. */
export function packTree({ tree, kind, kindName, target }: PackRequest): readonly string[] {
  if (existsSync(target) && readdirSync(target).length > 0)
    throw new UsageError(`The folder '${target}' is not empty; name one that is to be made.`);
  const entries = readTree(tree).filter((entry) => entry.path !== SUMS_FILE);
  const problems = [...treeProblems(tree, kind, kindName, entries)];
  if (problems.length > 0) return problems;
  const hash = fileHasher();
  const sums = new Map(
    entries.flatMap((entry) => (entry.kind === "file" ? [[entry.path, hash(join(tree, entry.path))] as const] : [])),
  );
  const torn = recordProblems(tree, sums);
  if (torn.length > 0) return torn;

  const staging = `${target}.packing`;
  rmSync(staging, { recursive: true, force: true });
  for (const entry of entries) {
    const path = join(staging, entry.path);
    mkdirSync(dirname(path), { recursive: true });
    if (entry.kind === "link") symlinkSync(entry.target, path);
    else linkOrCopy(join(tree, entry.path), path);
  }
  writeFileSync(join(staging, SUMS_FILE), sumsText(entries, sums));
  rmSync(target, { recursive: true, force: true });
  renameSync(staging, target);
  return [];
}

/** What is wrong with a tree, staged or packed; a packed one is also held against its checksum file. */
export function verifyTree({ tree, kind, kindName }: Omit<PackRequest, "target">): readonly string[] {
  const entries = readTree(tree);
  const problems = [...treeProblems(tree, kind, kindName, entries)];
  if (!entries.some((entry) => entry.path === SUMS_FILE)) return problems;
  const hash = fileHasher();
  const travelled = entries.filter((entry) => entry.path !== SUMS_FILE);
  const sums = new Map(
    travelled.flatMap((entry) => (entry.kind === "file" ? [[entry.path, hash(join(tree, entry.path))] as const] : [])),
  );
  const expected = new Set(readFileSync(join(tree, SUMS_FILE), "utf8").split("\n").filter(Boolean));
  const found = new Set(sumsText(travelled, sums).split("\n").filter(Boolean));
  const nameOf = (line: string) => (line.startsWith("#link\t") ? (line.split("\t")[1] ?? "") : line.slice(66));
  const known = new Set([...expected].map(nameOf));
  const present = new Set([...found].map(nameOf));
  for (const line of found)
    if (!expected.has(line))
      problems.push(known.has(nameOf(line)) ? `${nameOf(line)} is damaged.` : `${nameOf(line)} is extra.`);
  for (const name of known) if (!present.has(name)) problems.push(`${name} is missing.`);
  return problems;
}

function* treeProblems(
  tree: string,
  kind: PayloadKind,
  kindName: string,
  entries: readonly PayloadEntry[],
): Generator<string> {
  const marker = readMarker(tree);
  if (marker === null)
    yield `The tree has no completion marker (${MARKER_FILE}): make it with 'gpu-gate payload stage'.`;
  else if (marker.kind !== kindName) yield `The tree was staged as ${marker.kind}, not as ${kindName}.`;
  yield* payloadProblems(kind, entries);
  yield* wheelProblems(entries);
  for (const { path } of entries) {
    const problem = pathProblem(path);
    if (problem !== null) yield `'${path}' ${problem}.`;
  }
}

function sumsText(entries: readonly PayloadEntry[], sums: ReadonlyMap<string, string>): string {
  const lines = entries.map((entry) =>
    entry.kind === "link" ? `#link\t${entry.path}\t${entry.target}` : `${sums.get(entry.path) ?? ""}  ${entry.path}`,
  );
  return `${lines.join("\n")}\n`;
}

/** Gigabytes are not copied on one disk; on another disk, or where links are not allowed, they are. */
function linkOrCopy(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    copyFileSync(from, to);
  }
}
