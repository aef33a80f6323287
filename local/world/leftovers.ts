/**
 * What an earlier local world may have left: its folder and, if it was killed, its server process.
 *
 * A world writes the process group of its Worker host into its folder before using it. The next start ends such a group if
 * it still runs what was written there (a recycled pid is somebody else's), and removes the folder.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";

const PID_FILE = "worker.pid";

export function rememberGroup(worldDir: string, pid: number): void {
  writeFileSync(join(worldDir, PID_FILE), String(pid));
}

/** Removes every earlier world below `root` whose owner no longer runs. Returns how many were removed. */
export function clearLeftovers(root: string): number {
  mkdirSync(root, { recursive: true });
  let removed = 0;
  for (const name of readdirSync(root)) {
    const dir = join(root, name);
    const owner = Number(/^world-(\d+)$/.exec(name)?.[1] ?? "0");
    if (owner === 0 || runs(owner, "start.ts")) continue;
    const file = join(dir, PID_FILE);
    if (existsSync(file)) endGroup(Number(readFileSync(file, "utf8")));
    rmSync(dir, { recursive: true, force: true });
    removed += 1;
  }
  return removed;
}

/** Ends a process group of ours: only if its leader is a Worker host. */
function endGroup(pid: number): void {
  if (!Number.isInteger(pid) || pid <= 1 || !runs(pid, "worker-host.ts")) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // Gone between the look and the signal.
  }
}

function runs(pid: number, script: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(script);
  } catch {
    return false;
  }
}
