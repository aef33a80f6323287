/**
 * Containers as child processes: each in its own session and process group, with exactly the environment it was given.
 *
 * As in a container, the end of the first process is the end of all. Nothing outlives the server: see guard.ts.
 */
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** Signals every process of the group, and those of its session that moved to a group of their own (Linux only). */
export function killGroup(group: number, signal: NodeJS.Signals): void {
  for (const target of [-group, ...sessionMembers(group)]) {
    try {
      process.kill(target, signal);
    } catch {
      // Already gone.
    }
  }
}

/** Process ids whose session is this one, read from /proc; empty where there is no /proc. */
function sessionMembers(session: number): number[] {
  let names: string[];
  try {
    names = readdirSync("/proc");
  } catch {
    return [];
  }
  return names.filter((name) => /^\d+$/.test(name) && sessionOf(name) === session).map(Number);
}

function sessionOf(pid: string): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The command name may hold spaces and brackets; the fields after it are state, parent, group, session.
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[3]);
  } catch {
    return null;
  }
}

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

/** Nothing of the server's own environment: the Worker's generated types would want its variables in every process. */
function exactly(env: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  return { ...env } as NodeJS.ProcessEnv;
}

export class Containers {
  #guard: Guard | null = null;
  readonly #running = new Set<Container>();

  /** Starts a container; null when its command cannot be started at all. */
  start(spec: ContainerSpec): Container | null {
    const [program, ...rest] = spec.argv;
    if (program === undefined) return null;
    const child = spawn(program, rest, {
      cwd: spec.cwd,
      env: exactly(spec.env),
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    child.on("error", (error) => spec.onLine(`the container could not be started: ${error.message}`));
    const group = child.pid;
    if (group === undefined) return null;
    this.#tell(`+${group}`);
    for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on("line", spec.onLine);

    const ended = new Promise<number>((resolve) => {
      child.on("exit", (code) => {
        killGroup(group, "SIGKILL");
        this.#tell(`-${group}`);
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
    await this.#guard?.close();
  }

  #tell(line: string): void {
    this.#guard ??= startGuard();
    this.#guard.tell(line);
  }
}

interface Guard {
  readonly tell: (line: string) => void;
  readonly close: () => Promise<void>;
}

/** Started with the first container: what has no children needs no watch. */
function startGuard(): Guard {
  const guard = spawn(process.execPath, [join(import.meta.dirname, "guard.ts")], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
    env: exactly({}),
  });
  const gone = new Promise<void>((resolve) => {
    guard.once("exit", () => resolve());
  });
  // A guard that cannot be written to has ended; the server's own close() still works.
  guard.stdin.on("error", () => undefined);
  guard.unref();
  return {
    tell: (line) => {
      guard.stdin.write(`${line}\n`);
    },
    close: async () => {
      guard.ref();
      guard.stdin.end();
      await gone;
    },
  };
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
