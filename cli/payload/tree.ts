/** A payload's tree on disk: what is in it, its marker, its checksums. */
import { createHash } from "node:crypto";
import { closeSync, openSync, lstatSync, readdirSync, readFileSync, readlinkSync, readSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { MARKER_FILE, type PayloadEntry } from "../../shared/hosted/payload.ts";
import { UsageError } from "../command.ts";
import { systemReason } from "../files.ts";

/** Every file and link below a folder, in the order of their paths. */
export function readTree(folder: string): readonly PayloadEntry[] {
  const entries: PayloadEntry[] = [];
  function visit(prefix: string): void {
    for (const name of readdirSync(join(folder, prefix)).sort()) {
      const path = prefix === "" ? name : `${prefix}/${name}`;
      const stats = lstatSync(join(folder, path));
      if (stats.isDirectory()) visit(path);
      else if (stats.isSymbolicLink()) entries.push({ kind: "link", path, target: readlinkSync(join(folder, path)) });
      else if (stats.isFile()) entries.push({ kind: "file", path, bytes: stats.size });
      else throw new UsageError(`'${path}' is neither a file, a folder nor a link, so it cannot be in a payload.`);
    }
  }
  try {
    visit("");
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`The folder '${folder}' cannot be read: ${systemReason(error)}.`, { cause: error });
  }
  return entries;
}

const markerSchema = z.object({
  format: z.literal(1),
  kind: z.string(),
  /** The NVRTC that compiled the tree's headers, or why none did. */
  headers: z.string(),
});

export type Marker = z.output<typeof markerSchema>;

/** Null when there is no marker, or none that can be read. */
export function readMarker(folder: string): Marker | null {
  try {
    return markerSchema.parse(JSON.parse(readFileSync(join(folder, MARKER_FILE), "utf8")));
  } catch {
    return null;
  }
}

const CHUNK_BYTES = 4 << 20;

/** SHA-256 of files, one after the other, through one buffer. */
export function fileHasher(): (path: string) => string {
  const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  return (path) => {
    const hash = createHash("sha256");
    const file = openSync(path, "r");
    try {
      for (;;) {
        const count = readSync(file, buffer, 0, buffer.length, null);
        if (count === 0) return hash.digest("hex");
        hash.update(buffer.subarray(0, count));
      }
    } finally {
      closeSync(file);
    }
  };
}
