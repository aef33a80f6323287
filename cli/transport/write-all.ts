import { writeSync } from "node:fs";

/** A running SHA-256: the two calls of node:crypto's Hash that are used. */
export interface Digest {
  readonly update: (bytes: Uint8Array) => unknown;
  readonly digest: (encoding: "hex") => string;
}

/** Writes all of `bytes`: one write call may take only a part of a large buffer. */
export function writeAll(file: number, bytes: Uint8Array): void {
  let at = 0;
  while (at < bytes.length) at += writeSync(file, bytes, at, bytes.length - at);
}
