/**
 * The backstop while the deployment's configuration does not read: no gate, no account and no cron of the usual kind starts
 * then, and a pod that was rented before the faulty deploy would run on until somebody mends it (I3).
 *
 * Needs RunPod's key and the deployment's name, and decides as the reaper does without any gate's answer: ours by its tags,
 * and older than the backstop. What keeps a pod for debugging cannot be read, so it keeps nothing. Books nothing: a gate that
 * is back finds its pod gone, and RunPod's bill has the rest.
 */
import { decideReap, reapReasonCode, type ReapLimits } from "../shared/lifecycle/reap.ts";
import type { Clock } from "../shared/ports.ts";
import type { RunPodClient } from "../shared/runpod/client.ts";
import { podIsGone } from "../shared/runpod/pod.ts";
import { ownedBy } from "../shared/runpod/tags.ts";
import type { CronPorts } from "./ports.ts";

export interface BackstopPorts {
  readonly deployment: string;
  readonly runpod: Pick<RunPodClient, "listPods" | "deletePod">;
  readonly limits: ReapLimits;
  readonly clock: Clock;
  readonly log: CronPorts["log"];
}

export interface BackstopReport {
  /** False: RunPod's list could not be read. */
  readonly listed: boolean;
  readonly deleted: readonly string[];
  readonly failed: readonly string[];
}

/** One tick. Null ports: not even that much is configured. Never throws for what RunPod does; each tick asks anew. */
export async function backstopAlone(ports: BackstopPorts | null): Promise<BackstopReport | null> {
  if (ports === null) return null;
  const { deployment, runpod, limits, clock, log } = ports;
  const list = await runpod.listPods({ forDeletion: true });
  if (!list.ok) {
    log({ event: "cron.backstop-alone", listed: false, why: list.error.reason });
    return { listed: false, deleted: [], failed: [] };
  }
  const deleted: string[] = [];
  const failed: string[] = [];
  for (const pod of list.value.pods) {
    if (podIsGone(pod)) continue;
    const decision = decideReap({
      own: ownedBy(pod, deployment).kind === "own",
      createdAt: pod.createdAtMs,
      ownCreatedAt: null,
      owner: null,
      run: { kind: "unknown", what: "no run is read" },
      gate: { kind: "unreachable" },
      keepAsked: false,
      retention: { kind: "unreadable", what: "no gate is asked" },
      observed: null,
      now: clock.now(),
      limits,
    });
    if (decision.kind !== "reap") continue;
    const answer = await runpod.deletePod(pod.id);
    (answer.kind === "failure" ? failed : deleted).push(pod.id);
    log({ event: "cron.reaped", pod: pod.id, reason: reapReasonCode(decision.reason), how: answer.kind });
  }
  return { listed: true, deleted, failed };
}
