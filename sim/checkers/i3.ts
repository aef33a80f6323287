/** I3: no pod outlives the backstop by more than two cron ticks while RunPod's API answers. */
import { isRetained, type Checker } from "../view.ts";

const BACKSTOP_MS = 7_200_000;
/** Two ticks, the longest pause between two orders, and what slow answers take. */
const GRACE_MS = 120_000 + 300_000 + 120_000;

export function i3(): Checker {
  return {
    name: "I3",
    step(world) {
      for (const pod of world.runpod.pods) {
        if (pod.releasedAt !== null || world.now - pod.createdAt < BACKSTOP_MS + GRACE_MS) continue;
        if (world.now - world.runpodUpSince < GRACE_MS) continue;
        const ordered = pod.deletes.at(-1);
        if (ordered !== undefined && world.now - ordered.performedAt < GRACE_MS) continue;
        // Calls that fail, and ticks that are lost, excuse while they last: the world must be calm.
        if (world.ticks.filter((tick) => tick > world.now - GRACE_MS).length < 3) continue;
        if (!world.faults.healed && callsFail(world.faults.plan.weights)) continue;
        if (pod.env["GPU_GATE_KEEP"] === "true" && isRetained(world, pod, GRACE_MS)) continue;
        return `${pod.id} is ${Math.round((world.now - pod.createdAt) / 1000)} s old and nobody removes it`;
      }
      return null;
    },
  };
}

function callsFail(weights: ReadonlyMap<string, number>): boolean {
  return [...weights.keys()].some((kind) => kind.startsWith("runpod-") || kind.startsWith("object-"));
}
