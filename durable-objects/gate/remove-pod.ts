/** The three calls that remove a pod and prove it gone, as the removal's steps know them: for requests and strays alike. */
import type { Done, UnknownOfRunPod } from "../../shared/lifecycle/tasks.ts";
import type { Millis } from "../../shared/ports.ts";
import type { RunPodFailure } from "../../shared/runpod/failure.ts";
import { limitMillis } from "../../shared/config/limits.ts";
import type { GatePorts } from "./ports.ts";
import type { Store } from "./store.ts";

/** The part of a gate's ports that a removal needs. */
export type RemovalPorts = Pick<GatePorts, "runpod" | "account" | "clock">;

/** Where no configuration is known: the design's five seconds. */
const RECORD_MS = 5_000;

/** How long reading a pod's record may hold up its deletion (`limits.pod_record`). */
export function recordMs(configHash: string | null, store: Pick<Store, "config">): Millis {
  const config = configHash === null ? null : store.config(configHash);
  return config === null ? RECORD_MS : limitMillis(config).pod_record;
}

/** A pod that is not there may have been deleted by cron while this gate was not: that is when it stopped to cost. */
export async function deletePod(podId: string, { runpod, account, clock }: RemovalPorts): Promise<Done> {
  const answer = await runpod.deletePod(podId);
  if (answer.kind === "failure") return { task: "delete-pod", outcome: unknownOf(answer.failure, clock.now()) };
  if (answer.kind === "deleted") return { task: "delete-pod", outcome: { kind: "deleted" } };
  const gone = await account.goneSince(podId);
  // Nothing is lost by asking again: the proof, which comes next, needs the account as well.
  if (!gone.ok) return { task: "delete-pod", outcome: { kind: "unknown", why: gone.why } };
  const outcome =
    gone.value === null ? ({ kind: "not-found" } as const) : ({ kind: "deleted", at: gone.value } as const);
  return { task: "delete-pod", outcome };
}

export async function verifyGone(podId: string, { runpod, clock }: RemovalPorts): Promise<Done> {
  const answer = await runpod.getPod(podId);
  if (answer.kind === "failure") return { task: "verify-gone", outcome: unknownOf(answer.failure, clock.now()) };
  const gone = answer.kind === "not-found" || answer.pod.status === "TERMINATED";
  return { task: "verify-gone", outcome: { kind: gone ? "gone" : "alive" } };
}

export async function listPods(podId: string, notBefore: Millis, { account }: RemovalPorts): Promise<Done> {
  const answer = await account.listPods(notBefore);
  if (!answer.ok) {
    const { why, retryAt } = answer;
    return { task: "list-pods", outcome: { kind: "unknown", why, ...(retryAt === undefined ? {} : { retryAt }) } };
  }
  const { startedAt, complete, pods } = answer.value;
  const alive = pods.some((pod) => pod.id === podId && pod.status !== "TERMINATED");
  return { task: "list-pods", outcome: { kind: "listed", startedAt, complete, alive } };
}

function unknownOf({ reason, retryAfterMs }: RunPodFailure, now: Millis): UnknownOfRunPod {
  const why = reason;
  if (reason !== "rate-limited" || retryAfterMs === null) return { kind: "unknown", why };
  return { kind: "unknown", why, retryAt: now + retryAfterMs };
}
