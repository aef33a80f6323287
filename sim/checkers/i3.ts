/**
 * I3: no pod outlives the backstop by more than two cron ticks while RunPod's API answers. Nor does one that nobody waits for,
 * where nothing is broken, live until then: cron has seen it twice by its fourth look.
 */
import type { VirtualPod } from "../runpod.ts";
import { isRetained, looksSince, type Checker, type WorldView } from "../view.ts";

const BACKSTOP_MS = 7_200_000;
/** Two ticks, the longest pause between two orders, and what slow answers take. */
const GRACE_MS = 120_000 + 300_000 + 120_000;

export function i3(): Checker {
  return {
    name: "I3",
    step(world) {
      for (const pod of world.runpod.pods) {
        if (pod.releasedAt !== null) continue;
        if (isLeftOver(pod, world)) return `${pod.id} came late, is nobody's, and nobody removes it`;
        if (world.now - pod.createdAt < BACKSTOP_MS + GRACE_MS) continue;
        if (world.now - world.runpodUpSince < GRACE_MS) continue;
        const ordered = pod.deletes.at(-1);
        if (ordered !== undefined && world.now - ordered.performedAt < GRACE_MS) continue;
        // Calls that fail, and ticks that are lost, excuse while they last: the world must be calm.
        if (looksSince(world, world.now - GRACE_MS).length < 3) continue;
        if (!world.faults.healed && callsFail(world.faults.plan.weights)) continue;
        if (pod.env["GPU_GATE_KEEP"] === "true" && isRetained(world, pod, GRACE_MS)) continue;
        return `${pod.id} is ${Math.round((world.now - pod.createdAt) / 1000)} s old and nobody removes it`;
      }
      return null;
    },
  };
}

/** Looks of cron at a pod: suspected, confirmed, handed to its gate, and one that may have been under way when it came. */
const LOOKS = 4;
const SLACK_MS = 60_000;

/** What makes such pods, and hinders nobody who looks at them. */
const HARMLESS: ReadonlySet<string> = new Set(["runpod-late-pod", "twin-deployment"]);

function isLeftOver(pod: VirtualPod, world: WorldView): boolean {
  if (!pod.late || pod.deletes.length > 0 || pod.env["GPU_GATE_KEEP"] === "true") return false;
  const { healed, plan } = world.faults;
  if (!healed && [...plan.weights.keys()].some((kind) => !HARMLESS.has(kind))) return false;
  const visible = Math.max(pod.createdAt, pod.listedFrom, world.runpodUpSince);
  const look = looksSince(world, visible)[LOOKS - 1];
  return look !== undefined && world.now > look + SLACK_MS;
}

function callsFail(weights: ReadonlyMap<string, number>): boolean {
  return [...weights.keys()].some((kind) => kind.startsWith("runpod-") || kind.startsWith("object-"));
}
