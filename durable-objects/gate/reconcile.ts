/**
 * Reconciling with GitHub: what webhooks did not tell. Open pull requests without a request get one; open requests look at
 * their pull request now. Takes no input, can run at any time, and does nothing twice.
 */
import type { GitHubClient } from "../../shared/github/client.ts";
import type { NewRequest } from "../../shared/lifecycle/route.ts";
import type { GatePorts } from "./ports.ts";
import type { Store, StoredTask } from "./store.ts";

export interface ReconcileHands {
  readonly openIfUnknown: (what: NewRequest) => string | null;
  readonly hint: (requestId: string) => void;
}

export async function reconcile(
  task: StoredTask,
  ports: GatePorts,
  store: Store,
  github: GitHubClient,
  hands: ReconcileHands,
): Promise<void> {
  const listed = await github.listOpenPulls();
  const now = ports.clock.now();
  store.removeTask(task.id);
  store.setMeta("reconciled_at", String(now));
  if (!listed.ok) {
    // Not an error of anybody's: the next round is the retry.
    store.count("reconcile.unreadable");
    return;
  }
  const heads = new Map(listed.value.items.map((pull) => [pull.number, pull.headSha]));
  for (const pull of listed.value.items) {
    const opened = hands.openIfUnknown({
      kind: "pull-request",
      prNumber: pull.number,
      headSha: pull.headSha,
      generation: 1,
      row: 1,
      actor: null,
      approvedBy: null,
    });
    if (opened !== null) store.count("reconcile.opened");
  }
  for (const request of store.openRequests()) {
    if (request.prNumber !== null && heads.get(request.prNumber) !== request.headSha) hands.hint(request.id);
  }
  store.count("reconcile.done");
}
