/**
 * Takes a repository off the account's register once its gate has nothing open and no pod that is not proven gone. The
 * register is for cron alone: who is not on it, nor on the allow-list, nor named by a pod or a reservation, is not visited.
 */
import type { Millis } from "../shared/ports.ts";
import type { CronPorts } from "./ports.ts";
import type { ReapStatus } from "./reap.ts";
import type { WakeStatus } from "./wake-gates.ts";

/** A gate registers before each first dispatch. What was registered this shortly before the tick stays, clocks apart or not. */
const YOUNG_MS = 600_000;

/** Gives the repositories it took off. Without a look at RunPod's list nobody is. */
export async function tidyRegister(
  ports: CronPorts,
  wake: WakeStatus | null,
  reaped: ReapStatus | null,
  tickStartedAt: Millis,
): Promise<readonly string[]> {
  const { account } = ports;
  if (account.unregister === undefined || wake === null || reaped?.kind !== "swept") return [];
  const withPods = new Set(reaped.repositories);
  const registered = new Set(wake.registered);
  const removed: string[] = [];
  for (const { id, answered, open, pods } of wake.visits) {
    if (!registered.has(id) || !answered || open > 0 || pods.length > 0 || withPods.has(id)) continue;
    if (await account.unregister(id, tickStartedAt - YOUNG_MS)) removed.push(id);
  }
  return removed;
}
