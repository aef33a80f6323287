/** Reading what a command was given, with errors that a person can act on. */
import { readFile } from "node:fs/promises";
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

/** The short reason inside a file-system error: "no such file or directory", without code and path. */
export function systemReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const match = /^E[A-Z]+: ([^,]+)/.exec(error.message);
  return match?.[1] ?? error.message;
}

/** A required option, or one sentence that says which is missing. */
export function required(value: string | undefined, option: string, what: string): string {
  if (value === undefined || value === "") throw new UsageError(`${what} is missing: give it with ${option}.`);
  return value;
}
