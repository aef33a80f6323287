/** A classification as a JSON document: what `gpu-gate classify` prints and what the control plane answers, the same. */
import type { RepositoryConfig } from "../config/schema.ts";
import { ok } from "../result.ts";
import type { Classification } from "./classify.ts";
import { requiredPlans } from "./required-jobs.ts";

/** `classification`, `run_<lane>` for every lane, the reasons, and what becomes of every required check. */
export function classificationDocument(
  config: Pick<RepositoryConfig, "required_checks" | "lanes">,
  result: Classification,
): Record<string, unknown> {
  const flags = Object.entries(result.lanes).map(([lane, on]) => [`run_${lane}`, on] as const);
  return {
    classification: result.classification,
    ...Object.fromEntries(flags),
    reason: result.reasons.map(({ text }) => text).join("; "),
    reasons: result.reasons,
    required: requiredPlans(config, ok(result)),
  };
}
