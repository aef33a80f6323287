/**
 * What a `gpu-gate` command is: a name, a page of help, and a function from arguments to an exit code.
 *
 * Commands touch the outside only through `Io`, so that tests run them in process. Exit codes: 0 fine, 1 the answer is
 * "no" (a check failed, a verdict is red), 2 the call was wrong (usage, unreadable input).
 */
import type { FetchLike, Millis } from "../shared/ports.ts";

export interface Io {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  /** All of standard input; a command asks only when its arguments say so. */
  readonly stdin: () => Promise<Uint8Array>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly fetch: FetchLike;
  readonly now: () => Millis;
}

export interface Command {
  readonly name: string;
  /** One line for the list of commands. */
  readonly summary: string;
  /** The whole help page, shown by `gpu-gate <name> --help`. */
  readonly usage: string;
  readonly run: (args: readonly string[], io: Io) => Promise<number>;
}

export const EXIT_OK = 0;
export const EXIT_NO = 1;
export const EXIT_USAGE = 2;

/** Thrown by argument parsing: the message is one sentence for the user, without a stack. */
export class UsageError extends Error {}
