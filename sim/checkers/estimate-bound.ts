/**
 * How far an estimate may be from RunPod's bill: 2 s, one request's duration at either end, and how far clocks are apart (I2, and
 * what I9 takes as spent).
 */
import type { Millis } from "../../shared/ports.ts";
import type { VirtualPod } from "../runpod.ts";
import type { WorldView } from "../view.ts";

/** The longest that an answer is on its way. */
const SLOW_ANSWER_MS = 30_100;

/** Of a request whose answer is counted from. */
export function boundMs({ faults, clocks }: WorldView): Millis {
  return 2_000 + (faults.plan.weights.has("runpod-slow") ? SLOW_ANSWER_MS : 1_000) + clocks.widest * 2;
}

/** How much less than the bill it may be: the order that ended it may be counted from when it was sent. */
export function shortMs(world: WorldView, pod: VirtualPod): Millis {
  const releasing = pod.deletes.findLast(({ performedAt }) => performedAt === pod.releasedAt);
  return boundMs(world) + (releasing === undefined ? 0 : releasing.performedAt - releasing.askedAt);
}

/** What so much time of this pod costs, micro-dollars. */
export function worthOf(pod: VirtualPod, ms: Millis): number {
  return (ms * pod.price * 1_000_000) / 3_600_000;
}
