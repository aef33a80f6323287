/**
 * What may happen to a job now: wait for others, be skipped, or start with these labels.
 *
 * Pure: asked again after every change. The rules about ancestors are GitHub's.
 */
import { ok, type Result } from "../../shared/result.ts";
import { evaluate, isTrue, type Context, type ExpressionProblem } from "./evaluate.ts";
import type { Condition } from "./model.ts";
import { baseContext, concurrencyOf, type Group, type JobResult, type PlannedJob, type RunPlan } from "./run.ts";
import { render } from "./template.ts";

export type JobDecision =
  | { readonly kind: "wait" }
  | { readonly kind: "skip" }
  | {
      readonly kind: "start";
      readonly name: string;
      readonly labels: readonly string[];
      /** The job's own group, in which it may have to wait. */
      readonly concurrency: Group | null;
      readonly environment: string | null;
    }
  | { readonly kind: "broken"; readonly message: string };

/**
 * What to do with a job now. `results` holds every job that has ended, by key; `cancelled` says that somebody cancelled
 * the run.
 */
export function decideJob(
  run: RunPlan,
  job: PlannedJob,
  results: ReadonlyMap<string, JobResult>,
  cancelled = false,
): JobDecision {
  const needed = run.jobs.filter((other) => job.plan.needs.includes(other.plan.id));
  if (needed.some((other) => !results.has(other.key))) return { kind: "wait" };
  const context = jobContext(run, job, results, cancelled);
  const condition = holds(job.plan.condition, context);
  if (!condition.ok) return { kind: "broken", message: condition.error.message };
  if (!condition.value) return { kind: "skip" };
  const name = render(job.plan.name, context);
  if (!name.ok) return { kind: "broken", message: name.error.message };
  const labels: string[] = [];
  for (const template of job.plan.runsOn) {
    const label = render(template, context);
    if (!label.ok) return { kind: "broken", message: label.error.message };
    labels.push(label.value);
  }
  const environment = job.plan.environment === null ? ok(null) : render(job.plan.environment, context);
  if (!environment.ok) return { kind: "broken", message: environment.error.message };
  const concurrency = concurrencyOf(job.plan.concurrency, context);
  if (!concurrency.ok) return { kind: "broken", message: concurrency.error.message };
  return {
    kind: "start",
    name: name.value,
    labels,
    concurrency: concurrency.value,
    environment: environment.value,
  };
}

/** `success()` of a job: every ancestor succeeded (a skipped one did not). `failure()`: any ancestor failed. */
export function jobContext(
  run: RunPlan,
  job: PlannedJob,
  results: ReadonlyMap<string, JobResult>,
  cancelled: boolean,
): Context {
  const base = baseContext(run.workflow, run.event, run.inputs);
  const ancestors = ancestorsOf(run, job.plan.needs).map((id) => mergedResult(run, id, results).conclusion);
  const needs = Object.fromEntries(
    job.plan.needs.map((id) => {
      const { conclusion, outputs } = mergedResult(run, id, results);
      return [id, { result: conclusion, outputs }];
    }),
  );
  const status = {
    success: !cancelled && ancestors.every((one) => one === "success"),
    failure: !cancelled && ancestors.includes("failure"),
    cancelled,
  };
  return { values: { ...base.values, needs, matrix: job.matrix }, status };
}

function ancestorsOf(run: RunPlan, needs: readonly string[]): readonly string[] {
  const found = new Set<string>();
  const visit = (ids: readonly string[]): void => {
    for (const id of ids) {
      if (found.has(id)) continue;
      found.add(id);
      visit(run.jobs.find((job) => job.plan.id === id)?.plan.needs ?? []);
    }
  };
  visit(needs);
  return [...found];
}

/** The combinations of a matrix as one: the worst conclusion; later combinations' outputs win. A forgiven failure is none. */
function mergedResult(run: RunPlan, id: string, results: ReadonlyMap<string, JobResult>): JobResult {
  const all = run.jobs.filter((job) => job.plan.id === id).flatMap((job) => results.get(job.key) ?? []);
  const forgiven = run.jobs.some((job) => job.plan.id === id && job.plan.continueOnError);
  const seen = all.map(({ conclusion }) => (forgiven && conclusion === "failure" ? "success" : conclusion));
  const worst = (["failure", "cancelled", "success"] as const).find((one) => seen.includes(one));
  const outputs: Record<string, string> = {};
  for (const result of all) Object.assign(outputs, result.outputs);
  return { conclusion: worst ?? "skipped", outputs };
}

/** `success() &&` stands in front of a condition that asks for no status. */
export function holds(condition: Condition, context: Context): Result<boolean, ExpressionProblem> {
  if (!condition.asksForStatus && !context.status.success) return ok(false);
  const value = evaluate(condition.expression, context);
  return value.ok ? ok(isTrue(value.value)) : value;
}
