/** When a healed world has come to rest, as far as the gates themselves know. */
import { APP_ID } from "./github-model.ts";
import { leftRegistrations } from "./github-runners.ts";
import type { WorldView } from "./view.ts";

/** Nothing open, nothing rented, nothing left to say. */
export function isQuiet({ runpod, account, hosts }: Pick<WorldView, "runpod" | "account" | "hosts">): boolean {
  if (runpod.pods.some((pod) => pod.releasedAt === null)) return false;
  // Nor is a gate still to be told what cron deleted.
  if (account.sql.exec("SELECT key FROM meta WHERE key LIKE 'owed:%'").length > 0) return false;
  return hosts.every((host) => {
    if (!host.up) return false;
    const { store } = host.gate;
    if ([...host.repository.groups.values()].some((group) => group.over === null)) return false;
    if (store.openRequests().length > 0 || store.openStrays().length > 0) return false;
    const busy =
      host.sql.exec<{ n: number }>("SELECT count(*) AS n FROM tasks WHERE lane NOT IN ('reconcile', 'aggregate')")[0]
        ?.n ?? 0;
    if (busy > 0) return false;
    // Reconciling may still find a head that nobody told us of.
    if (host.repository.standing !== "ok") return true;
    // Nor may a registration stay behind: the next look at the list finds it.
    if (leftRegistrations(host.repository).length > 0) return false;
    // The aggregator may still wait for others.
    for (const check of host.repository.checks.values()) {
      if (check.appId === APP_ID && check.status !== "completed") return false;
    }
    // Nor has everything been said while a head has a request and no check: that comes with the next reconciliation.
    const told = new Set<string>();
    for (const check of host.repository.checks.values()) if (check.appId === APP_ID) told.add(check.headSha);
    return [...host.repository.pulls.values()].every(
      (pull) =>
        pull.state !== "open" ||
        (told.has(pull.headSha) && store.requestsOfHead(pull.headSha, "pull-request").length > 0),
    );
  });
}
