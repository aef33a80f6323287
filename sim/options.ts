/**
 * The command line of this repository's own tools: `--help` prints the usage and ends with 0, and what cannot be understood is
 * one sentence and exit 2, as everywhere else here.
 */
import process from "node:process";
import { parseArgs, type ParseArgsConfig } from "node:util";
import { argumentProblem } from "../shared/arguments.ts";

export interface Command {
  /** As it is typed, such as `npm run sim`. */
  readonly name: string;
  /** What `--help` prints. */
  readonly usage: string;
}

/** As `parseArgs`, with `--help`; ends the process where there is nothing to go on with. */
export function optionsOf<const T extends ParseArgsConfig>(
  command: Command,
  config: T,
): ReturnType<typeof parseArgs<T>> {
  if (process.argv.slice(2).includes("--help")) {
    process.stdout.write(command.usage);
    process.exit(0);
  }
  try {
    return parseArgs(config);
  } catch (error) {
    const problem = argumentProblem(error);
    if (problem === null) throw error;
    return misused(command, `${problem}; --help lists the options.`);
  }
}

/** The value of a numeric option: no less than `least`, and whole unless said otherwise. */
export function numberOf(
  command: Command,
  option: string,
  value: string,
  { least = 0, whole = true }: { readonly least?: number; readonly whole?: boolean } = {},
): number {
  const number = value.trim() === "" ? Number.NaN : Number(value);
  if (Number.isFinite(number) && number >= least && (!whole || Number.isSafeInteger(number))) return number;
  return misused(command, `--${option} takes a ${whole ? "whole " : ""}number of at least ${least}, not '${value}'.`);
}

/** One sentence about what was typed, and the end. */
export function misused(command: Command, sentence: string): never {
  process.stderr.write(`${command.name}: ${sentence}\n`);
  process.exit(2);
}
