/**
 * Whether a RunPod key may delete pods. A key that may create and not delete would rent what nobody can give back, so this is
 * proven before anything is bought: RunPod is asked to delete a pod that does not exist, and must say that it knows none.
 */
import { unreachable } from "../result.ts";
import type { RunPodClient, RunPodFailure } from "./client.ts";

/** Looks like a pod's id, which is fourteen letters and digits, and is no pod's: RunPod draws its own at random. */
export const NO_POD = "gpugatenopod00";

export type MayDelete =
  | { readonly kind: "yes" }
  /** RunPod refuses this key. */
  | { readonly kind: "refused"; readonly reason: RunPodFailure["reason"] }
  /** No answer that says either. */
  | { readonly kind: "unknown"; readonly reason: RunPodFailure["reason"] };

export async function mayDelete(client: Pick<RunPodClient, "deletePod">): Promise<MayDelete> {
  const answer = await client.deletePod(NO_POD);
  if (answer.kind !== "failure") return { kind: "yes" };
  const { reason } = answer.failure;
  switch (reason) {
    case "unauthorized":
    case "forbidden":
      return { kind: "refused", reason };
    // That an order for no pod makes no sense is said to a key that was let through.
    case "invalid":
    case "conflict":
    case "balance":
      return { kind: "yes" };
    case "timeout":
    case "network":
    case "rate-limited":
    case "upstream":
    case "edge-blocked":
    case "unreadable":
    case "retired":
      return { kind: "unknown", reason };
    default:
      return unreachable(reason, "failure of a DELETE");
  }
}
