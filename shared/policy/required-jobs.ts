/**
 * Required jobs never disappear: for every required name there is a plan before the jobs run, and a verdict after.
 *
 * A job that is not needed still runs, on a cheap runner, and says that it had nothing to do; a name that reports
 * nothing would leave branch protection waiting, or, where absence is accepted, hide that nothing was tested. When the
 * classification itself failed, nobody knows what was needed, so every required name fails.
 */
import type { RepositoryConfig } from "../config/schema.ts";
import { unreachable, type Result } from "../result.ts";
import type { Classification } from "./classify.ts";

export type RequiredPlan =
  | { readonly kind: "run"; readonly name: string; readonly lane: string | null }
  | { readonly kind: "no-op"; readonly name: string; readonly lane: string; readonly reason: string }
  | { readonly kind: "failure"; readonly name: string; readonly reason: string };

/** Why there is no classification: one sentence for people. */
export interface ClassificationFailure {
  readonly reason: string;
}

type RequiredSource = Pick<RepositoryConfig, "required_checks" | "lanes">;

/** The plan for every required name, in the order of the configuration. A name that no lane owns always runs. */
export function requiredPlans(
  config: RequiredSource,
  classified: Result<Classification, ClassificationFailure>,
): RequiredPlan[] {
  const owners = new Map<string, string>();
  for (const [lane, { checks }] of Object.entries(config.lanes)) for (const check of checks) owners.set(check, lane);
  return config.required_checks.map(({ name }) => {
    if (!classified.ok) return { kind: "failure", name, reason: `classification failed: ${classified.error.reason}` };
    const lane = owners.get(name) ?? null;
    return lane === null ? { kind: "run", name, lane } : planFor(name, lane, classified.value);
  });
}

function planFor(name: string, lane: string, result: Classification): RequiredPlan {
  // A lane the classification does not know is not a lane that was turned off.
  if (!Object.hasOwn(result.lanes, lane)) {
    return { kind: "failure", name, reason: `the classification says nothing about the lane ${lane}` };
  }
  if (result.lanes[lane] === true) return { kind: "run", name, lane };
  const reason = `${result.classification}: ${lane} not asked for (${result.reasons[0].text})`;
  return { kind: "no-op", name, lane, reason };
}

/** What the job behind a required name reported; `absent` when there was none. */
export type JobReport =
  | "success"
  | "failure"
  | "cancelled"
  | "timed_out"
  | "skipped"
  | "absent"
  /** The job ran and found no device to test on. */
  | "no-device";

export interface RequiredOutcome {
  readonly name: string;
  readonly success: boolean;
  readonly reason: string;
}

/**
 * The verdict for one name. A lane that was asked for needs a real success: skipped, absent and a missing device are
 * failures. A lane that was not asked for still needs its no-op to have said so; a skipped job says nothing.
 */
export function requiredOutcome(plan: RequiredPlan, report: JobReport): RequiredOutcome {
  switch (plan.kind) {
    case "failure":
      return { name: plan.name, success: false, reason: plan.reason };
    case "no-op": {
      const done = report === "success";
      return { name: plan.name, success: done, reason: done ? plan.reason : `the no-op reported ${report}` };
    }
    case "run":
      return { name: plan.name, success: report === "success", reason: runReason(report) };
    default:
      return unreachable(plan, "required plan");
  }
}

function runReason(report: JobReport): string {
  switch (report) {
    case "success":
      return "ran and passed";
    case "failure":
      return "ran and failed";
    case "cancelled":
      return "was cancelled";
    case "timed_out":
      return "ran out of time";
    case "skipped":
      return "was needed and was skipped";
    case "absent":
      return "was needed and never reported";
    case "no-device":
      return "found no device to test on";
    default:
      return unreachable(report, "job report");
  }
}
