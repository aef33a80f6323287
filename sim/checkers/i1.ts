/**
 * I1: at most one paid pod per repository, ambiguous creates included. A pod that appears under a name nobody waits for any
 * more is exempt until two cron ticks could have seen it, and while its removal is under way.
 */
import type { VirtualPod } from "../runpod.ts";
import { isRetained, looksSince, podsOf, type Checker, type WorldView } from "../view.ts";

/** Two ticks, and the time a tick's own questions take. */
const TICKS = 2;
const SLACK_MS = 60_000;

export function i1(): Checker {
  return {
    name: "I1",
    step(world) {
      if (!severalArePaid(world)) return null;
      for (const repository of world.github.repositories) {
        const paid = podsOf(world, repository.id).filter((pod) => pod.releasedAt === null);
        if (paid.length < 2) continue;
        const counted = paid.filter((pod) => !exempt(pod, world) && !kept(pod, world));
        if (counted.length > 1) {
          return `${repository.name} pays for ${counted.length} pods: ${counted.map((pod) => `${pod.id} (${pod.name})`).join(", ")}`;
        }
      }
      return null;
    },
  };
}

/** Looked at after every event, and hardly ever so: nothing is made for it. */
function severalArePaid(world: WorldView): boolean {
  let paid = 0;
  for (const pod of world.runpod.pods) if (pod.releasedAt === null) paid += 1;
  return paid > 1;
}

/** Kept for debugging, and not counted; one whose record was destroyed stays until the backstop, and is not counted either. */
function kept(pod: VirtualPod, world: WorldView): boolean {
  if (pod.env["GPU_GATE_KEEP"] !== "true") return false;
  const destroyed = world.hosts.some((host) => host.destroyedRecords.has(pod.id));
  return destroyed || isRetained(world, pod, gateIsAway(pod, world) ? Infinity : RETENTION_SLACK_MS);
}

/**
 * Its gate, which alone knows when the keeping ends, is down or has hardly begun again. Nobody may take its silence for an
 * end (I11): the backstop is the bound then, and I3 holds it.
 */
function gateIsAway(pod: VirtualPod, world: WorldView): boolean {
  const host = world.hosts.find((one) => one.repository.id === pod.env["GPU_GATE_REPOSITORY_ID"]);
  return host !== undefined && (!host.up || world.now - host.startedAt < RETENTION_SLACK_MS);
}

/** What follows the end of a keeping: the removal, as long as RunPod may take its time. */
const RETENTION_SLACK_MS = 1_800_000;

/** The orders of removal it has had, or the ticks it has not yet had, excuse a late pod. */
export function exempt(pod: VirtualPod, world: WorldView): boolean {
  if (!pod.late) return false;
  if (pod.deletes.length > 0) return true;
  const visible = Math.max(pod.createdAt, pod.listedFrom, world.runpodUpSince);
  const second = looksSince(world, visible)[TICKS - 1];
  // Faults may take a tick's list away; only a calm world owes the removal at once.
  return second === undefined || world.now < second + SLACK_MS || !world.faults.healed;
}
