/**
 * Verdicts, and the one table that says what each becomes on the required check.
 *
 * `neutral` and `skipped` are not here: GitHub counts both as passing a required check (github-facts section 8), so a
 * control plane that used them would let an untested pull request merge.
 */
import * as z from "zod";
import type { CodesOf } from "../audit/reasons.ts";

export const verdictKinds = [
  "passed",
  "reused",
  "not-required",
  "failed",
  "infrastructure",
  "deadline",
  "refused",
  "over-budget",
  "awaiting-approval",
  "superseded",
  "closed",
  "cancelled",
] as const;

export type VerdictKind = (typeof verdictKinds)[number];

export type CheckConclusion = "success" | "failure" | "timed_out" | "action_required" | "cancelled";

/** Design section 3, the verdict table. A new kind does not compile until it has a row. */
export const conclusionOf: Readonly<Record<VerdictKind, CheckConclusion>> = {
  passed: "success",
  reused: "success",
  "not-required": "success",
  failed: "failure",
  infrastructure: "failure",
  deadline: "timed_out",
  refused: "action_required",
  "over-budget": "action_required",
  "awaiting-approval": "action_required",
  superseded: "cancelled",
  closed: "cancelled",
  cancelled: "cancelled",
};

export const verdictSchema = z.object({
  kind: z.enum(verdictKinds),
  /** A code from `shared/audit/reasons.ts`. */
  reason: z.string(),
  /** One or two sentences for people: what was seen. Never a secret, never a raw provider body. */
  detail: z.string(),
});

export type Verdict = z.infer<typeof verdictSchema>;

/** A verdict with its reason; a code of another class, or one that is not in the list, does not compile. */
export function verdict<K extends VerdictKind>(kind: K, reason: CodesOf<K>, detail: string): Verdict {
  return { kind, reason, detail };
}
