/** One command of a job: bash in a process group of its own, its output read for workflow commands, stopped as GitHub does. */

import { spawn } from "node:child_process";
import type { AnnotationReport } from "./client.ts";

/** On a cancel a command gets SIGINT, SIGTERM 7.5 s later, and is killed 2.5 s after that. */
const terminateAfterMs = 7_500;
const killAfterMs = 10_000;

export interface CommandOutcome {
  readonly outcome: "success" | "failure" | "cancelled";
  readonly annotations: readonly AnnotationReport[];
  readonly output: string;
}

/**
 * Runs `script` as a step does (`bash -e`, from a file so that its text meets no argument limit).
 * `argv` is what follows `bash`; the caller has written the file.
 */
export function runCommand(
  argv: readonly string[],
  options: { cwd: string; env: Record<string, string>; cancelled: AbortSignal },
): Promise<CommandOutcome> {
  return new Promise((resolve) => {
    const child = spawn("bash", argv, {
      cwd: options.cwd,
      env: options.env,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    const take = (chunk: Buffer): void => {
      output += chunk.toString("utf8");
      process.stdout.write(chunk);
    };
    child.stdout.on("data", take);
    child.stderr.on("data", take);
    const signal = (name: NodeJS.Signals): void => {
      if (child.pid === undefined) return;
      try {
        process.kill(-child.pid, name);
      } catch {
        // The group has ended already.
      }
    };
    const timers: NodeJS.Timeout[] = [];
    const stop = (): void => {
      signal("SIGINT");
      timers.push(
        setTimeout(() => signal("SIGTERM"), terminateAfterMs),
        setTimeout(() => signal("SIGKILL"), killAfterMs),
      );
    };
    options.cancelled.addEventListener("abort", stop, { once: true });
    if (options.cancelled.aborted) stop();
    let ended = false;
    const end = (ok: boolean): void => {
      if (ended) return;
      ended = true;
      for (const timer of timers) clearTimeout(timer);
      options.cancelled.removeEventListener("abort", stop);
      // What a step leaves running does not outlive it.
      signal("SIGKILL");
      const outcome = options.cancelled.aborted ? "cancelled" : ok ? "success" : "failure";
      resolve({ outcome, annotations: annotationsIn(output), output });
    };
    child.on("error", () => end(false));
    child.on("close", (code) => end(code === 0));
    // A grandchild may hold the pipes open after bash itself has ended.
    child.on("exit", (code) => timers.push(setTimeout(() => end(code === 0), 500)));
  });
}

/** The workflow commands `::notice`, `::warning` and `::error`, with the title they may carry. */
export function annotationsIn(output: string): AnnotationReport[] {
  return output.split("\n").flatMap((line) => {
    const found = /^::(notice|warning|error)(?: ([^:]*(?::[^:]+)*?))?::(.*)$/.exec(line.trimEnd());
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
