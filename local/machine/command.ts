/**
 * One command of a job: bash in a process group of its own, stopped as GitHub does, its output kept.
 *
 * On a rented machine the group is made by bash's job control and not by a new session, so that whoever ends the
 * machine's session ends the command too. On a hosted one the command gets a session: there, the session is the machine.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { Writable } from "node:stream";

/** On a cancel a command gets SIGINT, SIGTERM 7.5 s later, and is killed 2.5 s after that. */
const terminateAfterMs = 7_500;
const killAfterMs = 10_000;
/** How long a grandchild may hold the output open after the command itself has ended. */
const drainMs = 500;

/** The outer shell says nothing of its own: with job control on it would report the command's end among its output. */
const inOwnGroup = 'set -m; bash "$@" </dev/null & echo $! >&3; exec 3>&- >/dev/null 2>&1; wait $!';

/**
 * Waits for a word before it becomes the command: whoever watches over the group has been told of it by then. A caller that
 * dies first says nothing, and nothing runs.
 */
const afterAWord = 'read -r _ <&3 && exec 3<&- && exec bash "$@"';

/** The most output that is kept of one command, in characters. */
const maxOutput = 4_000_000;

export interface CommandOutcome {
  readonly outcome: "success" | "failure" | "cancelled";
  readonly output: string;
  /** Its time ran out: the outcome is a failure. */
  readonly timedOut: boolean;
}

export interface CommandOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly cancelled: AbortSignal;
  /** Ends the command at once, without a word. */
  readonly killed?: AbortSignal;
  readonly timeoutMs?: number | null;
  /** A session of its own instead of a group in the caller's. */
  readonly ownSession?: boolean;
  /** Told the command's process group, which may have members for longer than the command lives. */
  readonly onGroup: (group: number) => void;
  /** Told the output as it comes. */
  readonly onOutput?: (chunk: Buffer) => void;
}

/** Runs `bash <argv>` to its end. A cancel ends it early, whatever it does about the signals. */
export function runCommand(argv: readonly string[], options: CommandOptions): Promise<CommandOutcome> {
  const { cancelled, killed } = options;
  return new Promise((resolve) => {
    const child = start(argv, options);
    let output = "";
    const take = (chunk: Buffer): void => {
      if (output.length < maxOutput) output += chunk.toString("utf8");
      options.onOutput?.(chunk);
    };
    child.stdout?.on("data", take);
    child.stderr?.on("data", take);

    let group: number | null = null;
    let timedOut = false;
    const timers: NodeJS.Timeout[] = [];
    const after = (ms: number, action: () => void): void => void timers.push(setTimeout(action, ms));
    const kill = (): void => {
      if (group !== null) signalGroup(group, "SIGKILL");
    };
    const stop = (): void => {
      if (group === null) return;
      const known = group;
      signalGroup(known, "SIGINT");
      after(terminateAfterMs, () => signalGroup(known, "SIGTERM"));
      after(killAfterMs, kill);
    };
    const known = (value: number): void => {
      group = value;
      options.onGroup(value);
      if (killed?.aborted === true) kill();
      else if (cancelled.aborted) stop();
    };
    const [, , , side] = child.stdio;
    side?.on("error", () => undefined);
    if (options.ownSession !== true) side?.on("data", (chunk: Buffer) => known(Number(chunk.toString("utf8").trim())));
    else if (child.pid !== undefined) {
      known(child.pid);
      if (side instanceof Writable) side.end("go\n");
    }
    cancelled.addEventListener("abort", stop, { once: true });
    killed?.addEventListener("abort", kill, { once: true });
    const { timeoutMs = null } = options;
    if (timeoutMs !== null) {
      after(timeoutMs, () => {
        timedOut = true;
        stop();
      });
    }

    let ended = false;
    const end = (succeeded: boolean): void => {
      if (ended) return;
      ended = true;
      for (const timer of timers) clearTimeout(timer);
      cancelled.removeEventListener("abort", stop);
      killed?.removeEventListener("abort", kill);
      child.stdout?.destroy();
      child.stderr?.destroy();
      const stopped = cancelled.aborted || killed?.aborted === true;
      resolve({ outcome: stopped ? "cancelled" : succeeded && !timedOut ? "success" : "failure", output, timedOut });
    };
    child.on("error", (problem) => {
      output += `${problem.message}\n`;
      end(false);
    });
    child.on("close", (code) => end(code === 0));
    child.on("exit", (code) => after(drainMs, () => end(code === 0)));
  });
}

function start(argv: readonly string[], options: CommandOptions): ChildProcess {
  const env = { ...options.env } as NodeJS.ProcessEnv;
  const { cwd } = options;
  return options.ownSession === true
    ? spawn("bash", ["-c", afterAWord, "step", ...argv], {
        cwd,
        env,
        detached: true,
        stdio: ["ignore", "pipe", "pipe", "pipe"],
      })
    : spawn("bash", ["-c", inOwnGroup, "step", ...argv], { cwd, env, stdio: ["ignore", "pipe", "pipe", "pipe"] });
}

/** Signals a process group; one that has ended already is fine. */
export function signalGroup(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-group, signal);
  } catch {
    // Nobody is left in it.
  }
}
