/** The parts as they lie in a folder: the manifest that speaks for them, and what is wrong with them. */
import { createHash } from "node:crypto";
import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { UsageError } from "../command.ts";
import { systemReason } from "../files.ts";
import {
  judgeParts,
  manifestFile,
  parseManifest,
  type FoundPart,
  type Manifest,
  type PartProblem,
} from "../../shared/hosted/archive.ts";

const CHUNK_BYTES = 4 << 20;
// A line per file; a tree of a million files is not what an archive is for.
const MANIFEST_MAX_BYTES = 256 << 20;

/** Reads and checks the manifest. Throws UsageError when there is none or when it cannot be trusted. */
export async function loadManifest(folder: string, name: string): Promise<Manifest> {
  const path = join(folder, manifestFile(name));
  let text: string;
  try {
    if (statSync(path).size > MANIFEST_MAX_BYTES) throw new Error("it is too large to be a manifest");
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new UsageError(`${manifestFile(name)} cannot be read in '${folder}': ${systemReason(error)}.`, {
      cause: error,
    });
  }
  const manifest = await parseManifest(name, text);
  if (!manifest.ok) throw new UsageError(`${manifestFile(name)} is refused: ${manifest.error.problem}.`);
  return manifest.value;
}

/** Names of the files that look like parts of that archive. */
export function listParts(folder: string, name: string): readonly string[] {
  return readdirSync(folder)
    .filter((file) => file.startsWith(`${name}.part`))
    .sort();
}

/** Reads every part in full and names each one that is not what the manifest says. */
export function findPartProblems(folder: string, manifest: Manifest): readonly PartProblem[] {
  const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  const found = listParts(folder, manifest.name).map((file) => hashPart(join(folder, file), file, buffer));
  return judgeParts(manifest, found);
}

function hashPart(path: string, name: string, buffer: Buffer): FoundPart {
  const hash = createHash("sha256");
  const file = openSync(path, "r");
  try {
    let bytes = 0;
    for (;;) {
      const count = readSync(file, buffer, 0, buffer.length, null);
      if (count === 0) return { file: name, bytes, sha256: hash.digest("hex") };
      hash.update(buffer.subarray(0, count));
      bytes += count;
    }
  } finally {
    closeSync(file);
  }
}
