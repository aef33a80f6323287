/** Reading what a command was given, with errors that a person can act on. */
import { readFile, stat } from "node:fs/promises";
import { resolve } from "node:path";
import { UsageError, type Io } from "./command.ts";

/** The text of a file, or of standard input for `-`. `what` names its role in the error: "the table", "the inventory". */
export async function readText(io: Io, path: string, what: string): Promise<string> {
  return new TextDecoder().decode(await readBytes(io, path, what));
}

export async function readBytes(io: Io, path: string, what: string): Promise<Uint8Array> {
  if (path === "-") return await io.stdin();
  try {
    return await readFile(resolve(io.cwd, path));
  } catch (error) {
    throw new UsageError(`${what} cannot be read: ${systemReason(error)} ('${path}').`, { cause: error });
  }
}

/** The whole path of a folder that has to be there. `what` names its role in the error, `option` where it was given. */
export async function existingFolder(io: Io, path: string, what: string, option: string): Promise<string> {
  const folder = resolve(io.cwd, path);
  const found = await stat(folder).catch((error: unknown) => {
    const absent = (error as { code?: unknown }).code === "ENOENT";
    const why = absent ? "the folder does not exist" : systemReason(error);
    throw new UsageError(`${what} cannot be read: ${why} ('${path}', given with ${option}).`, { cause: error });
  });
  if (found.isDirectory()) return folder;
  throw new UsageError(`${what} must be a folder, and '${path}' (given with ${option}) is a file.`);
}

/** The short reason inside a file-system error: "no such file or directory", without code and path. */
export function systemReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const [, code = "", words] = /^(E[A-Z]+): ([^,]+)/.exec(error.message) ?? [];
  return IN_PLAIN_WORDS[code] ?? words ?? error.message;
}

/** Where the system's own words say what it tried and not what is the matter. */
const IN_PLAIN_WORDS: Readonly<Record<string, string>> = {
  EISDIR: "it is a folder, not a file",
  ENOTDIR: "a part of its path is a file, not a folder",
};

/** What every command of a kind needs, all that is missing in one sentence: `[value, how it is given, what it is]`. */
export function allGiven(...wanted: readonly (readonly [string | undefined, string, string])[]): void {
  const missing = wanted.filter(([value]) => value === undefined || value === "");
  if (missing.length < 2) return;
  const list = missing.map(([, how, what]) => `${how} (${what})`);
  throw new UsageError(`Missing are ${list.slice(0, -1).join(", ")} and ${list.at(-1) ?? ""}.`);
}

/** A required option, or one sentence that says which is missing. */
export function required(value: string | undefined, option: string, what: string): string {
  if (value === undefined || value === "") throw new UsageError(`${what} is missing: give it with ${option}.`);
  return value;
}
