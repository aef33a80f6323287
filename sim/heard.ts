/** What a gate has taken of what people did, for the checkers to hold it to. */
import type { Signal } from "../shared/lifecycle/signal.ts";
import type { Millis } from "../shared/ports.ts";
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
