/**
 * The Worker as a child process that is started again when it dies, on the same port and the same stored state.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { rememberGroup } from "./leftovers.ts";

export interface WorkerOptions {
  readonly bundleDir: string;
  readonly worldDir: string;
  readonly port: number;
  readonly cronEveryMs: number;
  readonly vars: Readonly<Record<string, string>>;
  readonly onLog?: (line: string) => void;
}

export interface WorkerProcess {
  readonly url: string;
  /** Kills the process group with SIGKILL, as a crash would, and ends when it is gone; it is being started again then. */
  kill(): Promise<void>;
  /** The same, and waits until it is up again on its stored state. */
  crash(): Promise<void>;
  readonly starts: () => number;
  close(): Promise<void>;
}

export async function startWorker(options: WorkerOptions): Promise<WorkerProcess> {
  let child: ChildProcess | null = null;
  let starts = 0;
  let closing = false;
  let ready: Promise<void> = Promise.resolve();

  const launch = (): Promise<void> => {
    starts += 1;
    // A group of its own: workerd is a grandchild and must go with it.
    const started = spawn(process.execPath, [join(import.meta.dirname, "worker-host.ts")], {
      stdio: ["pipe", "pipe", "pipe"],
      detached: true,
    });
    child = started;
    if (started.pid !== undefined) rememberGroup(options.worldDir, started.pid);
    const job = {
      bundleDir: options.bundleDir,
      stateDir: join(options.worldDir, "worker-state"),
      port: options.port,
      cronEveryMs: options.cronEveryMs,
      vars: options.vars,
    };
    started.stdin?.on("error", () => undefined);
    started.stdin?.write(`${JSON.stringify(job)}\n`);
    return new Promise((resolve, reject) => {
      let output = "";
      const heard = (chunk: Buffer) => {
        output += chunk.toString();
        const lines = output.split("\n");
        output = lines.pop() ?? "";
        for (const line of lines) {
          if (line === "ready") resolve();
          else options.onLog?.(line);
        }
      };
      started.stdout?.on("data", heard);
      started.stderr?.on("data", heard);
      started.once("exit", (code) => {
        if (closing) return;
        reject(new Error(`the Worker's process ended (${code ?? "killed"})`));
        ready = launch();
        ready.catch(() => undefined);
      });
    });
  };

  ready = launch();
  await ready;
  const kill = async (): Promise<void> => {
    const pid = child?.pid;
    if (pid === undefined) return;
    const gone = new Promise<void>((resolve) => child?.once("exit", () => resolve()));
    process.kill(-pid, "SIGKILL");
    await gone;
  };
  return {
    url: `http://127.0.0.1:${options.port}`,
    starts: () => starts,
    kill,
    async crash() {
      await kill();
      await ready;
    },
    async close() {
      closing = true;
      const current = child;
      if (current === null || current.exitCode !== null) return;
      const gone = new Promise<void>((resolve) => current.once("exit", () => resolve()));
      current.stdin?.end();
      const hard = setTimeout(() => {
        if (current.pid !== undefined) process.kill(-current.pid, "SIGKILL");
      }, 5_000);
      await gone;
      clearTimeout(hard);
    },
  };
}
