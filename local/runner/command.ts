/**
 * One command of a job: bash in a process group of its own, its output read for workflow commands, stopped as GitHub does.
 *
 * The group is made by bash's job control and not by a new session, so that whoever ends the machine's session ends the
 * command too.
 */

import { spawn } from "node:child_process";
import type { AnnotationReport } from "./client.ts";

/** On a cancel a command gets SIGINT, SIGTERM 7.5 s later, and is killed 2.5 s after that. */
const terminateAfterMs = 7_500;
const killAfterMs = 10_000;
/** How long a grandchild may hold the output open after the command itself has ended. */
const drainMs = 500;

const inOwnGroup = 'set -m; bash "$@" </dev/null & echo $! >&3; exec 3>&-; wait $!';

export interface CommandOutcome {
  readonly outcome: "success" | "failure" | "cancelled";
  readonly annotations: readonly AnnotationReport[];
  readonly output: string;
}

export interface CommandOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly cancelled: AbortSignal;
  /** Told the command's process group, which may have members for longer than the command lives. */
  readonly onGroup: (group: number) => void;
}

/** Runs `bash <argv>` to its end. A cancel ends it early, whatever it does about the signals. */
export function runCommand(argv: readonly string[], options: CommandOptions): Promise<CommandOutcome> {
  const { cwd, cancelled, onGroup } = options;
  return new Promise((resolve) => {
    const env = { ...options.env } as NodeJS.ProcessEnv;
    const child = spawn("bash", ["-c", inOwnGroup, "step", ...argv], {
      cwd,
      env,
      stdio: ["ignore", "pipe", "pipe", "pipe"],
    });
    let output = "";
    const take = (chunk: Buffer): void => {
      output += chunk.toString("utf8");
      process.stdout.write(chunk);
    };
    child.stdout?.on("data", take);
    child.stderr?.on("data", take);

    let group: number | null = null;
    const timers: NodeJS.Timeout[] = [];
    const stop = (): void => {
      if (group === null) return;
      const known = group;
      signalGroup(known, "SIGINT");
      timers.push(
        setTimeout(() => signalGroup(known, "SIGTERM"), terminateAfterMs),
        setTimeout(() => signalGroup(known, "SIGKILL"), killAfterMs),
      );
    };
    child.stdio[3]?.on("data", (chunk: Buffer) => {
      group = Number(chunk.toString("utf8").trim());
      onGroup(group);
      if (cancelled.aborted) stop();
    });
    cancelled.addEventListener("abort", stop, { once: true });

    let ended = false;
    const end = (ok: boolean): void => {
      if (ended) return;
      ended = true;
      for (const timer of timers) clearTimeout(timer);
      cancelled.removeEventListener("abort", stop);
      child.stdout?.destroy();
      child.stderr?.destroy();
      const outcome = cancelled.aborted ? "cancelled" : ok ? "success" : "failure";
      resolve({ outcome, annotations: annotationsIn(output), output });
    };
    child.on("error", () => end(false));
    child.on("close", (code) => end(code === 0));
    child.on("exit", (code) => timers.push(setTimeout(() => end(code === 0), drainMs)));
  });
}

/** Signals a process group; one that has ended already is fine. */
export function signalGroup(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-group, signal);
  } catch {
    // Nobody is left in it.
  }
}

/** The workflow commands `::notice`, `::warning` and `::error` in a command's output, with the title they may carry. */
export function annotationsIn(output: string): AnnotationReport[] {
  return output.split("\n").flatMap((line) => {
    const found = /^::(notice|warning|error)(?: (.*?))?::(.*)$/.exec(line.trimEnd());
    const [, kind, properties = "", message = ""] = found ?? [];
    if (kind === undefined) return [];
    const title = /(?:^|,)title=([^,]*)/.exec(properties)?.[1];
    const level = kind === "error" ? "failure" : kind === "warning" ? "warning" : "notice";
    return [{ title: title === undefined ? null : unescape(title), message: unescape(message), level } as const];
  });
}

function unescape(text: string): string {
  return text
    .replaceAll("%0D", "\r")
    .replaceAll("%0A", "\n")
    .replaceAll("%3A", ":")
    .replaceAll("%2C", ",")
    .replaceAll("%25", "%");
}
