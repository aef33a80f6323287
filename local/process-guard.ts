/**
 * Process groups that must not outlive whoever started them: signalled with their session, watched by a guard process.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

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

/** Nothing of the server's own environment: the Worker's generated types would want its variables in every process. */
export function exactly(env: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  const own = { ...env } as NodeJS.ProcessEnv;
  return own;
}

/** Tells guard.ts which groups are alive. Started with the first of them: what has no children needs no watch. */
export class ProcessGuard {
  #guard: ChildProcess | null = null;

  /** Starts the guard before there is anything to watch, so that the first process need not wait for it unwatched. */
  start(): void {
    this.#guard ??= start();
  }

  watch(group: number): void {
    this.#tell(`+${group}`);
  }

  forget(group: number): void {
    this.#tell(`-${group}`);
  }

  /** Ends the guard, which ends what it was not told to forget. */
  async close(): Promise<void> {
    const guard = this.#guard;
    if (guard === null || guard.exitCode !== null || guard.signalCode !== null) return;
    const gone = new Promise<void>((resolve) => {
      guard.once("exit", () => resolve());
    });
    guard.ref();
    guard.stdin?.end();
    await gone;
  }

  #tell(line: string): void {
    this.start();
    this.#guard?.stdin?.write(`${line}\n`);
  }
}

function start(): ChildProcess {
  const guard = spawn(process.execPath, [join(import.meta.dirname, "guard.ts")], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
    env: exactly({}),
  });
  // A guard that cannot be written to has ended; the server's own close() still works.
  guard.stdin.on("error", () => undefined);
  guard.unref();
  return guard;
}
