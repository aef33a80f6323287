/** Runs `npm start`'s script as a user would and waits for it; a second one can kill it in the middle. */
import { randomUUID } from "node:crypto";
import { spawn, type ChildProcess } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";

const ROOT = join(import.meta.dirname, "..", "..");
/** In the environment of every command started here and, where its world hands it on, of whatever that starts. */
const MARK = `GPU_GATE_TEST_COMMAND=${randomUUID()}`;

export interface Running {
  readonly child: ChildProcess;
  readonly output: () => string;
  /** The exit code; null when it was killed. */
  readonly ended: Promise<number | null>;
  /** Resolves when the output contains `text`; rejects when the command ends first. */
  readonly said: (text: string) => Promise<void>;
}

export function startCommand(args: readonly string[]): Running {
  const child = spawn(process.execPath, [join(ROOT, "local", "start.ts"), ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...Object.fromEntries([MARK.split("=")]) },
  });
  let text = "";
  const waiters: { readonly text: string; readonly resolve: () => void }[] = [];
  const hear = (chunk: Buffer) => {
    text += chunk.toString();
    for (const waiter of waiters) if (text.includes(waiter.text)) waiter.resolve();
  };
  child.stdout.on("data", hear);
  child.stderr.on("data", hear);
  const ended = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
  return {
    child,
    output: () => text,
    ended,
    said: (wanted) =>
      new Promise((resolve, reject) => {
        if (text.includes(wanted)) return resolve();
        waiters.push({ text: wanted, resolve });
        void ended.then(() => reject(new Error(`ended without saying '${wanted}':\n${text}`)));
      }),
  };
}

/** The table at the end, without what differs from run to run (seconds and cost). */
export function verdictsOf(output: string): string[] {
  const rows = output.split("\n").filter((line) => /^#\d+ {2}/.test(line) && !line.includes("opened by"));
  return rows.map((row) => row.replace(/\s+\d+\.\d+\s+\d+\.\d{6}/, "").replace(/\s{2,}/g, " | "));
}

/**
 * Processes that commands of this file started, and whatever works in this checkout's worlds (a pod's environment is made anew), each
 * by its command line: what must be empty once a world has ended. Other tests run Workers of their own meanwhile.
 */
export function worldProcesses(): string[] {
  const marks = [MARK, join(ROOT, ".local-world")];
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const line = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
        const environment = readFileSync(`/proc/${pid}/environ`, "utf8");
        return marks.some((mark) => line.includes(mark) || environment.includes(mark)) ? [`${pid}: ${line}`] : [];
      } catch {
        return [];
      }
    });
}
