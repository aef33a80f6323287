/**
 * Which signals make the aggregator look at a head again. Pure; a signal is only a hint, what counts is what is read then.
 */
import { unreachable } from "../result.ts";
import type { Signal } from "./signal.ts";

/** External ids of the aggregator's own check runs begin so: they are never an input, and never a request's check. */
export const AGGREGATE_ID = "aggregate:";

export interface AggregateHint {
  readonly headSha: string;
  /** Set when the signal is about a pull request: this is its head now, and other heads of it are over. */
  readonly prNumber: number | null;
  /** `open`: the head belongs to an open pull request, or without one to a merge group. `again`: a person wants a new answer. `look`: something changed. */
  readonly kind: "open" | "again" | "look";
}

/** Whether a check run is one of the aggregator's own: made by this App, under an id of its making. */
export function isAggregateCheck(
  run: { readonly appId: string | null; readonly externalId: string | null },
  appId: string,
): boolean {
  return run.appId === appId && run.externalId?.startsWith(AGGREGATE_ID) === true;
}

export function aggregateHint(signal: Signal, appId: string): AggregateHint | null {
  const look = (headSha: string): AggregateHint => ({ headSha, prNumber: null, kind: "look" });
  const again = (headSha: string): AggregateHint => ({ headSha, prNumber: null, kind: "again" });
  switch (signal.kind) {
    case "pull-request": {
      const { action, headSha, prNumber } = signal;
      if (action === "labeled" || action === "unlabeled") return null;
      return { headSha, prNumber, kind: action === "closed" ? "look" : "open" };
    }
    case "check-run":
      // What the aggregator writes itself is no news to it; a press on "Re-run" there is.
      if (!isAggregateCheck(signal, appId)) return look(signal.headSha);
      return signal.action === "rerequested" ? again(signal.headSha) : null;
    case "check-suite":
      return signal.appId === appId ? again(signal.headSha) : null;
    case "workflow-run":
      return look(signal.headSha);
    case "merge-group":
      // The queue waits for the same required check on the group's own commit.
      return { headSha: signal.headSha, prNumber: null, kind: signal.action === "checks_requested" ? "open" : "look" };
    case "workflow-job":
    case "comment":
    case "repository":
    case "installation":
      return null;
    default:
      return unreachable(signal, "signal");
  }
}
