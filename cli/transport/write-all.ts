import { writeSync } from "node:fs";

/** Writes all of `bytes`: one write call may take only a part of a large buffer. */
export function writeAll(file: number, bytes: Uint8Array): void {
  let at = 0;
  while (at < bytes.length) at += writeSync(file, bytes, at, bytes.length - at);
}
