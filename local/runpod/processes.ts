/**
 * Containers as child processes: each in its own session and process group, with exactly the environment it was given.
 *
 * As in a container, the end of the first process is the end of all. Nothing outlives the server: see local/process-guard.ts.
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { exactly, killGroup, ProcessGuard } from "../process-guard.ts";

export interface Container {
  readonly processGroup: number;
  /** Resolves with the exit code (128 + signal number for a signal's end is not kept: a signal counts as 137). */
  readonly ended: Promise<number>;
  /** SIGTERM, and SIGKILL after the grace time; resolves when the first process has ended. */
  stop(graceMs: number): Promise<void>;
}

export interface ContainerSpec {
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly onLine: (line: string) => void;
}

export class Containers {
  readonly #guard = new ProcessGuard();
  readonly #running = new Set<Container>();

  /** Starts a container; null when its command cannot be started at all. */
  start(spec: ContainerSpec): Container | null {
    const [program, ...rest] = spec.argv;
    if (program === undefined) return null;
    this.#guard.start();
    const child = spawn(program, rest, {
      cwd: spec.cwd,
      env: exactly(spec.env),
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    child.on("error", (error) => spec.onLine(`the container could not be started: ${error.message}`));
    const group = child.pid;
    if (group === undefined) return null;
    this.#guard.watch(group);
    for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on("line", spec.onLine);

    const ended = new Promise<number>((resolve) => {
      child.on("exit", (code) => {
        killGroup(group, "SIGKILL");
        this.#guard.forget(group);
        this.#running.delete(container);
        resolve(code ?? 137);
      });
    });
    const container: Container = {
      processGroup: group,
      ended,
      stop: async (graceMs) => {
        killGroup(group, "SIGTERM");
        const hard = setTimeout(() => killGroup(group, "SIGKILL"), graceMs);
        await ended;
        clearTimeout(hard);
      },
    };
    this.#running.add(container);
    return container;
  }

  async close(graceMs: number): Promise<void> {
    await Promise.all([...this.#running].map(async (container) => container.stop(graceMs)));
    await this.#guard.close();
  }
}

/** What a create's `args` start: the JSON object `{"entrypoint": [...], "cmd": [...]}`, else words split at spaces. */
export function containerArgv(args: string, entrypoint: readonly string[], cmd: readonly string[]): readonly string[] {
  if (entrypoint.length > 0 || cmd.length > 0) return [...entrypoint, ...cmd];
  try {
    const value: unknown = JSON.parse(args);
    if (typeof value === "object" && value !== null) {
      const exec = value as { entrypoint?: unknown; cmd?: unknown };
      return [...strings(exec.entrypoint), ...strings(exec.cmd)];
    }
  } catch {
    // Not JSON: words.
  }
  return args.split(/\s+/).filter((word) => word !== "");
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}
