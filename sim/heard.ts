/** To whom word of what people did goes, and what a gate has taken of it, for the checkers to hold it to. */
import type { Deliveries, Ignored } from "../shared/github/webhook.ts";
import type { Delivery, Signal } from "../shared/lifecycle/signal.ts";
import type { Millis } from "../shared/ports.ts";
import type { Repository } from "./github-model.ts";
import type { GateHost } from "./hosts.ts";

/** Who brought a pull request to its head, and what came of a press on a check's button. */
export function noteHeard(host: GateHost, signal: Signal, actions: readonly string[], madeAt: Millis): void {
  const { repository, gate } = host;
  if (signal.kind === "pull-request" && (signal.action === "opened" || signal.action === "synchronize")) {
    const pull = repository.pulls.get(signal.prNumber);
    // A word of an earlier stay at the head says nothing about who brought it there again.
    if (pull?.headSha === signal.headSha && madeAt >= pull.arrivedAt) pull.arrivalHeard = true;
  }
  if (signal.kind !== "check-run" || signal.action !== "rerequested") return;
  const check = repository.checks.get(signal.checkRunId);
  const opened = actions.map((said) => /^open (\S+)$/.exec(said)?.[1]).find((id) => id !== undefined);
  const request = opened === undefined ? null : gate.store.request(opened);
  if (check !== undefined && request !== null) repository.reruns.push({ check, opened: request.prNumber });
}

export function idsOf(repository: Repository): { readonly repositoryId: string; readonly installationId: string } {
  return { repositoryId: repository.id, installationId: repository.installationId };
}

/** To whom a delivery goes: the repository it names, or, of an installation as a whole, every gate. */
export function deliveriesOf(
  parsed: Deliveries | Ignored,
  hosts: readonly GateHost[],
): readonly { readonly to: GateHost; readonly delivery: Delivery }[] {
  if ("deliveries" in parsed) {
    return parsed.deliveries.flatMap((delivery) => {
      const to = hosts.find((host) => host.repository.id === delivery.repository.id);
      return to === undefined ? [] : [{ to, delivery }];
    });
  }
  const { everywhere } = parsed;
  if (everywhere === undefined) return [];
  return hosts.map((to) => ({
    to,
    delivery: { ...everywhere, repository: { id: to.repository.id, owner: "", name: "" } },
  }));
}
