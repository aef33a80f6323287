/**
 * What makes a tier list acceptable, checked when the configuration loads, long before any money is at stake.
 *
 * Two kinds of rule. Shape: names and ids are there and no id stands in two tiers, or the order of a walk would depend on
 * which one is read. Money: the H100 class and everything reviewed above the ceiling is refused here, so that no
 * market price and no typing error can let one through later.
 */
import * as z from "zod";
import type { Tier } from "./candidates.ts";
import { isH100Class } from "./default-tiers.ts";

/** The raw form of a tier list, as a configuration holds it. Says nothing about its sense: see `validateTiers`. */
export const tierListSchema = z.array(z.object({ name: z.string(), gpuIds: z.array(z.string()) }));

export const cudaVersionListSchema = z.array(z.string());

/** Problems of the list's shape, each one sentence that names the culprit. Empty: it is fine. */
export function tierShapeProblems(tiers: readonly Tier[]): readonly string[] {
  const problems: string[] = [];
  if (tiers.length === 0) problems.push("There is no GPU tier: name at least one with one GPU id.");
  const owner = new Map<string, number>();
  for (const [index, tier] of tiers.entries()) {
    const called = tier.name === "" ? `Tier ${index + 1}` : `Tier "${tier.name}"`;
    if (tier.name === "") problems.push(`${called} has no name.`);
    if (tier.gpuIds.length === 0) problems.push(`${called} has no GPU id.`);
    for (const id of tier.gpuIds) {
      if (id.trim() === "") problems.push(`${called} has an empty GPU id.`);
      const earlier = owner.get(id);
      if (earlier !== undefined && earlier !== index)
        problems.push(`GPU id "${id}" stands in two tiers: keep it in one.`);
      owner.set(id, earlier ?? index);
    }
  }
  return problems;
}

/** Problems with a list of CUDA versions (`major.minor` each). Empty: it is fine. */
export function cudaVersionProblems(versions: readonly string[]): readonly string[] {
  const problems: string[] = [];
  if (versions.length === 0) problems.push("There is no CUDA version: name at least one, such as 12.8.");
  for (const [index, version] of versions.entries()) {
    if (version === "") problems.push("A CUDA version is empty.");
    if (versions.indexOf(version) !== index) problems.push(`CUDA version "${version}" is named twice.`);
  }
  return problems;
}

export interface TierLimits {
  /** USD per hour for one GPU. */
  readonly ceilingUsdPerHour: number;
}

/** Everything wrong with a tier list: its shape, then the H100 class, then reviewed prices above the ceiling. */
export function validateTiers(tiers: readonly Tier[], limits: TierLimits): readonly string[] {
  const problems = [...tierShapeProblems(tiers)];
  for (const tier of tiers) {
    const most = tier.maxUsdPerHour ?? null;
    if (most !== null && !(most <= limits.ceilingUsdPerHour)) {
      problems.push(
        `Tier "${tier.name}" allows USD ${most} per hour, above the ceiling of ${limits.ceilingUsdPerHour}.`,
      );
    }
    for (const id of new Set(tier.gpuIds)) {
      if (isH100Class(id)) {
        problems.push(`GPU id "${id}" in tier "${tier.name}" is of the H100 class or above, which is never rented.`);
      }
      const reviewed = tier.reviewedUsdPerHour?.[id];
      if (reviewed !== undefined && !(reviewed <= limits.ceilingUsdPerHour)) {
        problems.push(
          `GPU id "${id}" in tier "${tier.name}" was reviewed at USD ${reviewed} per hour, above the ceiling of ` +
            `${limits.ceilingUsdPerHour}.`,
        );
      }
    }
  }
  return problems;
}
