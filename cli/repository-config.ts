/** Reading a repository's configuration for a command: from a file, or from a commit. */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { parseRepositoryConfig, problemText } from "../shared/config/load.ts";
import { CONFIG_PATH, type RepositoryConfig } from "../shared/config/schema.ts";
import { err, ok, type Result } from "../shared/result.ts";
import type { Io } from "./command.ts";
import { systemReason } from "./files.ts";
import { fileAt } from "./git.ts";

/** Why there is no configuration, one line for each thing to put right. */
export type ConfigFailure = readonly string[];

/** `advice` is the end of the sentence about a file that cannot be read: how this very command is given another. */
export async function configFromFile(
  io: Io,
  file: string | undefined,
  advice: string,
): Promise<Result<RepositoryConfig, ConfigFailure>> {
  const path = file ?? CONFIG_PATH;
  let text: string;
  try {
    text = await readFile(resolve(io.cwd, path), "utf8");
  } catch (error) {
    return err([`${path}: the configuration cannot be read: ${systemReason(error)}. ${advice}.`]);
  }
  return parsed(text, path);
}

/** As `configFromFile`, from a commit of the repository in `io.cwd`. */
export async function configFromCommit(
  io: Io,
  commit: string,
  advice: string,
): Promise<Result<RepositoryConfig, ConfigFailure>> {
  const text = await fileAt(io.cwd, commit, CONFIG_PATH);
  const file = `${commit.slice(0, 12)}:${CONFIG_PATH}`;
  if (!text.ok) return err([`${file}: the configuration cannot be read: ${text.error.detail}. ${advice}.`]);
  return parsed(text.value, file);
}

function parsed(text: string, file: string): Result<RepositoryConfig, ConfigFailure> {
  const config = parseRepositoryConfig(text);
  return config.ok ? ok(config.value) : err(config.error.map((problem) => problemText(problem, file)));
}
