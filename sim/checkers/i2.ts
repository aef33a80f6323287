/**
 * I2: every pod ever created is proven gone, and the ledger has exactly one closing line for it. "Proven" must be true: no
 * line may close while RunPod still bills the pod.
 */
import type { Checker, WorldView } from "../view.ts";

type Line = { pod_id: string; proven_at: number | null; closed_at: number | null; estimate_micros: number | null };

export function i2(): Checker {
  let looked = -1;
  return {
    name: "I2",
    step(world) {
      const writes = world.hosts.reduce((sum, host) => sum + host.writes, 0);
      if (writes === looked) return null;
      looked = writes;
      for (const pod of world.runpod.pods) {
        if (pod.releasedAt !== null) continue;
        const line = lines(world, pod.id).find((one) => one.closed_at !== null || one.proven_at !== null);
        if (line !== undefined) return `the ledger calls ${pod.id} gone while RunPod bills it`;
      }
      return null;
    },
    end(world) {
      for (const pod of world.runpod.pods) {
        if (pod.releasedAt === null) return `${pod.id} (${pod.name}) was never released`;
        const mine = lines(world, pod.id);
        if (mine.length !== 1) {
          // Lost before anybody could learn of it: there is nothing to book.
          if (mine.length === 0 && neverSeen(pod)) continue;
          return `${pod.id} has ${mine.length} lines in the ledger`;
        }
        const line = mine[0];
        if (line?.closed_at === null || line?.proven_at === null) return `${pod.id} has no closing line in the ledger`;
        const wrong = estimateProblem(world, pod, line?.estimate_micros ?? null);
        if (wrong !== null) return wrong;
      }
      return null;
    },
  };
}

function lines(world: WorldView, podId: string): Line[] {
  return world.hosts.flatMap((host) =>
    host.sql.exec<Line>("SELECT pod_id, proven_at, closed_at, estimate_micros FROM ledger WHERE pod_id = ?", podId),
  );
}

type Pod = WorldView["runpod"]["pods"][number];

/** RunPod lost it without any order of ours, before a list or an answer showed it. */
function neverSeen(pod: Pod): boolean {
  return pod.vanished && pod.deletes.length === 0;
}

/**
 * Estimate against bill: 2 s, one request's duration at either end and the skew. Where RunPod itself kept a pod after its
 * order, or lost it unasked, the difference is RunPod's and no estimate can know it.
 */
function estimateProblem(world: WorldView, pod: Pod, micros: number | null): string | null {
  const last = pod.deletes.at(-1);
  if (pod.vanished || last === undefined || pod.livesUntil > 0) return null;
  // A stopped pod tells no price any more: a stray that was found so late is booked at the most it can have cost.
  if (micros === null) return bookedAtMost(world, pod) ? null : `${pod.id} was closed without an estimate`;
  const bill = world.runpod.billed(pod);
  // A create or a delete takes a minute at most before its caller gives up.
  const calm = world.faults.plan.weights.size === 0;
  const boundMs = 2_000 + Math.abs(world.skew) * 2 + (calm ? 1_000 : 150_000);
  const bound = (boundMs * pod.price * 1_000_000) / 3_600_000;
  // A pod that came late and was adopted is reckoned from our order on, and one whose DELETE was answered to a gate that had
  // crashed to the next look: more than the bill, and never less.
  const reckonedHigh = pod.late || world.faults.plan.weights.has("crash-gate");
  const tooMuch = reckonedHigh ? 0 : micros - bill;
  if (bill - micros <= bound && tooMuch <= bound) return null;
  const seconds = ((micros - bill) * 3_600_000) / (pod.price * 1_000_000) / 1000;
  return `${pod.id}: estimate and bill are ${seconds.toFixed(1)} s apart`;
}

function bookedAtMost(world: WorldView, pod: Pod): boolean {
  return world.hosts.some((host) =>
    host.sql
      .exec<{ state: string; micros: number }>(
        "SELECT state, micros FROM money WHERE attempt_id = ?",
        `stray-${pod.id}`,
      )
      .some((line) => line.state === "spent" && line.micros >= world.runpod.billed(pod) - 1_000),
  );
}
