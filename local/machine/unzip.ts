/** Reads a zip as it comes from GitHub's artifact download: every entry as bytes. */
import { crc32, inflateRawSync } from "node:zlib";
import { ActionProblem } from "./services.ts";

const endMark = 0x06054b50;
const centralMark = 0x02014b50;
const localMark = 0x04034b50;

/**
 * The files of a zip, by path. Throws an {@link ActionProblem} for what is no zip, a wrong checksum, or a path that leads
 * out of the folder it will be unpacked in.
 */
export function unzip(bytes: Buffer): Readonly<Record<string, Buffer>> {
  const end = bytes.lastIndexOf(Buffer.from("PK\x05\x06", "latin1"));
  if (end < 0 || bytes.length < end + 22 || bytes.readUInt32LE(end) !== endMark)
    throw new ActionProblem("the download is no zip");
  // No prototype: a name in a zip is no word of the language.
  const files: Record<string, Buffer> = Object.create(null) as Record<string, Buffer>;
  let at = bytes.readUInt32LE(end + 16);
  for (let count = bytes.readUInt16LE(end + 10); count > 0; count -= 1) {
    if (bytes.readUInt32LE(at) !== centralMark) throw new ActionProblem("the zip's directory is damaged");
    const method = bytes.readUInt16LE(at + 10);
    const sum = bytes.readUInt32LE(at + 16);
    const packed = bytes.readUInt32LE(at + 20);
    const nameLength = bytes.readUInt16LE(at + 28);
    const extra = bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32);
    const local = bytes.readUInt32LE(at + 42);
    const path = bytes.toString("utf8", at + 46, at + 46 + nameLength);
    at += 46 + nameLength + extra;
    if (path.endsWith("/")) continue;
    if (path.startsWith("/") || path.split("/").includes(".."))
      throw new ActionProblem(`the zip's entry '${path}' leads out of its folder`);
    if (bytes.readUInt32LE(local) !== localMark) throw new ActionProblem("the zip is damaged");
    const start = local + 30 + bytes.readUInt16LE(local + 26) + bytes.readUInt16LE(local + 28);
    const stored = bytes.subarray(start, start + packed);
    if (method !== 0 && method !== 8) throw new ActionProblem(`the zip's entry '${path}' is packed in an unknown way`);
    const content = method === 0 ? stored : inflateRawSync(stored);
    if (crc32(content) !== sum) throw new ActionProblem(`the zip's entry '${path}' is damaged`);
    files[path] = content;
  }
  return files;
}
