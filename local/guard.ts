/**
 * The parent-death watch: a process of its own that ends what a local server started when that server is gone.
 *
 * The server writes `+<process group>` when a process starts and `-<process group>` when it has ended. However the server
 * dies (kill -9 included), the kernel closes the pipe; the guard then ends what is left and itself. It lives in its own
 * session, so that Ctrl-C in a terminal reaches the server and not the guard.
 */
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { killGroup } from "./process-guard.ts";

const GRACE_MS = 1_000;

const groups = new Set<number>();
for await (const line of createInterface({ input: process.stdin })) {
  const group = Number(line.slice(1));
  if (!Number.isInteger(group) || group <= 1) continue;
  if (line.startsWith("+")) groups.add(group);
  else groups.delete(group);
}
for (const group of groups) killGroup(group, "SIGTERM");
if (groups.size > 0) await pause(GRACE_MS);
for (const group of groups) killGroup(group, "SIGKILL");
