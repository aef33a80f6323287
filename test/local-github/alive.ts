import { readFileSync } from "node:fs";

/** Is there such a process? One that has been killed and waits for its parent to notice is not alive. */
export function alive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
