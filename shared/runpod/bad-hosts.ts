/**
 * Bad hosts: v2 names no host, so a machine that failed is known by its GPU's UUID (from the pod's own words) and, weaker, by
 * its data centre. The memory decays: a machine that failed once may have been unlucky, and machines are repaired.
 */
import type { Millis } from "../ports.ts";

/** A remembered failure still counts so much: 1 when it has just been, 0 at the end of the memory. */
export function weightOf(at: Millis, now: Millis, memoryMs: Millis): number {
  if (memoryMs <= 0) return 0;
  return Math.min(1, Math.max(0, 1 - (now - at) / memoryMs));
}

/** A card that failed this often within the memory is declined when its proof comes: before a runner is accepted. */
export const DECLINED_FROM = 2;

/** A data centre is large: so much must have failed there, old failures counting less, before it is left out. */
const AVOIDED_FROM = 2;

/**
 * The configured data centres without those where pods keep failing. RunPod takes a list of wanted ones and no list of
 * unwanted ones, so a configuration that names none is left as it is; and so is one of which nothing would be left.
 */
export function withoutBadDataCenters(
  configured: readonly string[],
  remembered: readonly { readonly dataCenterId: string; readonly at: Millis }[],
  now: Millis,
  memoryMs: Millis,
): readonly string[] {
  const weights = new Map<string, number>();
  for (const { dataCenterId, at } of remembered) {
    weights.set(dataCenterId, (weights.get(dataCenterId) ?? 0) + weightOf(at, now, memoryMs));
  }
  const good = configured.filter((id) => (weights.get(id) ?? 0) < AVOIDED_FROM);
  return good.length === 0 ? configured : good;
}
