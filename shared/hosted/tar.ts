/**
 * The tar blocks that carry files between jobs: POSIX ustar, with pax records for long names and large files.
 *
 * Only a writer: the reader makes the same blocks again from the manifest and compares, so that nothing that an archive
 * claims is ever believed. Owner, group and time are constants: the same files give the same bytes everywhere.
 */
import { assert } from "../result.ts";

export type TarEntry =
  | { readonly kind: "dir"; readonly path: string }
  | { readonly kind: "file"; readonly path: string; readonly executable: boolean; readonly bytes: number }
  | { readonly kind: "link"; readonly path: string; readonly target: string };

export const TAR_BLOCK = 512;

/** Two empty blocks end an archive. */
export const TAR_END_BYTES = 2 * TAR_BLOCK;

const NAME_BYTES = 100;
/** Eleven octal digits; larger sizes travel in a pax record. */
const SIZE_MAX = 0o77_777_777_777;
// 2000-01-01T00:00:00Z. GNU tar complains about times at or before the epoch.
const MODIFIED_SECONDS = 946_684_800;

const utf8 = new TextEncoder();

/** The header blocks of one entry, without its content: one block, or three where a pax record is needed. */
export function tarHeader(entry: TarEntry): Uint8Array {
  const name = entry.kind === "dir" ? `${entry.path}/` : entry.path;
  const target = entry.kind === "link" ? entry.target : "";
  const bytes = entry.kind === "file" ? entry.bytes : 0;
  const records = [
    utf8.encode(name).length > NAME_BYTES ? paxRecord("path", name) : "",
    utf8.encode(target).length > NAME_BYTES ? paxRecord("linkpath", target) : "",
    bytes > SIZE_MAX ? paxRecord("size", String(bytes)) : "",
  ].join("");
  const type = { dir: "5", file: "0", link: "2" }[entry.kind];
  const mode = entry.kind === "file" && !entry.executable ? 0o644 : 0o755;
  const own = block({ name, target, bytes: bytes > SIZE_MAX ? 0 : bytes, mode, type });
  if (records === "") return own;
  const body = utf8.encode(records);
  const pax = block({ name: "pax", target: "", bytes: body.length, mode: 0o644, type: "x" });
  const all = new Uint8Array(pax.length + body.length + paddingAfter(body.length) + own.length);
  all.set(pax, 0);
  all.set(body, pax.length);
  all.set(own, all.length - own.length);
  return all;
}

/** Zero bytes between content of that length and the next block. */
export function paddingAfter(bytes: number): number {
  return (TAR_BLOCK - (bytes % TAR_BLOCK)) % TAR_BLOCK;
}

interface Fields {
  readonly name: string;
  readonly target: string;
  readonly bytes: number;
  readonly mode: number;
  readonly type: string;
}

function block({ name, target, bytes, mode, type }: Fields): Uint8Array {
  const header = new Uint8Array(TAR_BLOCK);
  const text = (at: number, width: number, value: string) => header.set(utf8.encode(value).subarray(0, width), at);
  const octal = (at: number, width: number, value: number) =>
    text(at, width, value.toString(8).padStart(width - 1, "0"));
  text(0, NAME_BYTES, name);
  octal(100, 8, mode);
  octal(108, 8, 0);
  octal(116, 8, 0);
  octal(124, 12, bytes);
  octal(136, 12, MODIFIED_SECONDS);
  text(148, 8, "        ");
  text(156, 1, type);
  text(157, NAME_BYTES, target);
  text(257, 8, "ustar\u000000");
  // The checksum is taken with its own field as blanks, and written as six digits, NUL, blank.
  const sum = header.reduce((total, byte) => total + byte, 0);
  text(148, 8, `${sum.toString(8).padStart(6, "0")}\u0000 `);
  return header;
}

/** `<length> <key>=<value>\n`, where the length counts itself. */
function paxRecord(key: string, value: string): string {
  const rest = utf8.encode(` ${key}=${value}\n`).length;
  let length = rest + String(rest).length;
  if (String(length).length !== String(rest).length) length = rest + String(length).length;
  assert(utf8.encode(`${length} ${key}=${value}\n`).length === length, "a pax record knows its own length");
  return `${length} ${key}=${value}\n`;
}
