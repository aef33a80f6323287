/**
 * Whether an unpacked wheel is whole: its own RECORD lists every file with a SHA-256, and a ZIP wheel ends like one.
 * The format is that of the Python packaging specification "Recording installed projects".
 */
import { closeSync, fstatSync, openSync, readFileSync, readSync } from "node:fs";
import { join } from "node:path";

/** `sums` has the SHA-256 (hex) of every file of the tree, by path. Gives one sentence per problem. */
export function recordProblems(tree: string, sums: ReadonlyMap<string, string>): readonly string[] {
  return [...sums.keys()].flatMap((path) => {
    const root = /^(wheels-unpacked\/[^/]+)\/[^/]+\.dist-info\/RECORD$/.exec(path)?.[1];
    if (root !== undefined) return unpackedProblems(root, readFileSync(join(tree, path), "utf8"), sums);
    if (/^wheels\/[^/]+\.whl$/.test(path) && !endsLikeZip(join(tree, path)))
      return [`${path} is not a whole ZIP file.`];
    return [];
  });
}

function unpackedProblems(root: string, record: string, sums: ReadonlyMap<string, string>): readonly string[] {
  const rows = record.split(/\r?\n/).filter((line) => line !== "");
  if (rows.length === 0) return [`The RECORD of ${root} is empty.`];
  return rows.flatMap((line) => {
    const [, quoted, plain, digest = ""] = /^(?:"((?:[^"]|"")*)"|([^,"]*)),([^,]*),\d*$/.exec(line) ?? [];
    const name = quoted?.replaceAll('""', '"') ?? plain;
    if (name === undefined) return [`The RECORD of ${root} has the unreadable line '${line.slice(0, 80)}'.`];
    const path = `${root}/${name}`;
    const sum = sums.get(path);
    if (sum === undefined) return [`${path} is missing: the wheel's RECORD lists it.`];
    if (digest === "") return [];
    const [algorithm, value = ""] = digest.split("=");
    const matches = algorithm === "sha256" && Buffer.from(value, "base64url").toString("hex") === sum;
    return matches ? [] : [`${path} is not the file that the wheel's RECORD lists.`];
  });
}

// The end record of a ZIP file is 22 bytes and a comment, which wheels do not have.
const END_BYTES = 22;
const END_MARK = 0x06054b50;

function endsLikeZip(path: string): boolean {
  const file = openSync(path, "r");
  try {
    const { size } = fstatSync(file);
    const end = Buffer.alloc(END_BYTES);
    return (
      size > END_BYTES &&
      readSync(file, end, 0, END_BYTES, size - END_BYTES) === END_BYTES &&
      end.readUInt32LE(0) === END_MARK
    );
  } finally {
    closeSync(file);
  }
}
