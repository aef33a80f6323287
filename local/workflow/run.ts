/**
 * One run of a planned workflow: is it triggered, are its inputs right, what is it called, which jobs does it have.
 *
 * Pure. jobs.ts says what may happen to a job next, steps.ts to a step; the engine keeps all results.
 */
import { err, ok, type Result } from "../../shared/result.ts";
import { textOf, type Context, type ExpressionProblem, type Status, type Value } from "./evaluate.ts";
import type { ConcurrencyPlan, JobPlan, WorkflowPlan } from "./model.ts";
import { inputProblem } from "./parse.ts";
import type { InputPlan, TriggerName } from "./schema.ts";
import { render } from "./template.ts";

export interface RunEvent {
  readonly name: string;
  /** The `github` context: `ref`, `sha`, `event`, `repository`, `run_id`, ... */
  readonly github: { readonly [key: string]: Value };
  /** Repository variables, and the secrets this event may see. */
  readonly vars?: Readonly<Record<string, string>>;
  readonly secrets?: Readonly<Record<string, string>>;
}

/** A concurrency group, as it is called. */
export interface Group {
  readonly group: string;
  readonly queue: "single" | "max";
  readonly cancelInProgress: boolean;
}

export interface PlannedJob {
  /** `id`, or `id (values)` for one combination of a matrix. Unique in the run. */
  readonly key: string;
  readonly plan: JobPlan;
  readonly matrix: Readonly<Record<string, string>>;
}

export interface RunPlan {
  readonly workflow: WorkflowPlan;
  readonly event: RunEvent;
  /** Typed: booleans and numbers are such. */
  readonly inputs: { readonly [name: string]: Value };
  /** What the run is called; the workflow's name where the file does not say. */
  readonly name: string;
  /** The concurrency group the run waits in, if any. */
  readonly concurrency: Group | null;
  readonly jobs: readonly PlannedJob[];
}

export type RunProblem =
  | { readonly reason: "not-triggered"; readonly message: string }
  | { readonly reason: "inputs"; readonly message: string }
  | { readonly reason: "expression"; readonly message: string };

export type Conclusion = "success" | "failure" | "cancelled" | "skipped";

export interface JobResult {
  readonly conclusion: Conclusion;
  readonly outputs: Readonly<Record<string, string>>;
}

/** Checks the event and the inputs as GitHub does at dispatch, and lays out the jobs. */
export function planRun(
  workflow: WorkflowPlan,
  event: RunEvent,
  given: Readonly<Record<string, string>> = {},
): Result<RunPlan, RunProblem> {
  const refused = triggerProblem(workflow, event);
  if (refused !== null) return err({ reason: "not-triggered", message: refused });
  const inputs = event.name === "workflow_dispatch" ? fillInputs(workflow.inputs, given) : ok({});
  if (!inputs.ok) return inputs;
  const context = baseContext(workflow, event, inputs.value);
  const name = workflow.runName === null ? ok(workflow.name) : render(workflow.runName, context);
  if (!name.ok) return expressionProblem("run-name", name.error);
  const jobs = workflow.jobs.flatMap((plan) =>
    plan.combinations.map((matrix) => ({ key: keyOf(plan, matrix), plan, matrix })),
  );
  const concurrency = concurrencyOf(workflow.concurrency, context);
  if (!concurrency.ok) return expressionProblem("concurrency", concurrency.error);
  return ok({ workflow, event, inputs: inputs.value, name: name.value, concurrency: concurrency.value, jobs });
}

function expressionProblem(where: string, problem: ExpressionProblem): Result<never, RunProblem> {
  return err({ reason: "expression", message: `${where}: ${problem.message}` });
}

function keyOf(plan: JobPlan, matrix: Readonly<Record<string, string>>): string {
  const values = Object.values(matrix);
  return values.length === 0 ? plan.id : `${plan.id} (${values.join(", ")})`;
}

function triggerProblem(workflow: WorkflowPlan, event: RunEvent): string | null {
  const trigger = workflow.triggers[event.name as TriggerName];
  if (trigger === undefined) return `${workflow.file} is not triggered by '${event.name}'`;
  const { ref = null, base_ref: base = null } = event.github;
  const filter = trigger as { branches?: readonly string[]; types?: readonly string[] };
  const branch = event.name === "push" ? textOf(ref).replace(/^refs\/heads\//, "") : textOf(base);
  if (filter.branches !== undefined && !filter.branches.includes(branch))
    return `${workflow.file} does not run for the branch '${branch}'`;
  const action = (event.github["event"] as { action?: Value } | undefined)?.action ?? null;
  const types = filter.types ?? (event.name === "pull_request" ? ["opened", "synchronize", "reopened"] : undefined);
  if (types !== undefined && !types.includes(textOf(action)))
    return `${workflow.file} does not run for '${textOf(action)}'`;
  const schedule = (event.github["event"] as { schedule?: Value } | undefined)?.schedule ?? null;
  if (event.name === "schedule" && !(workflow.triggers.schedule ?? []).some((one) => one.cron === schedule))
    return `${workflow.file} does not run at '${textOf(schedule)}'`;
  return null;
}

/** Defaults filled in, unknown and missing ones refused, as a dispatch is answered 422. */
function fillInputs(
  declared: Readonly<Record<string, InputPlan>>,
  given: Readonly<Record<string, string>>,
): Result<{ readonly [name: string]: Value }, RunProblem> {
  const unknown = Object.keys(given).find((name) => declared[name] === undefined);
  if (unknown !== undefined) return err({ reason: "inputs", message: `Unexpected inputs provided: ["${unknown}"]` });
  const values: Record<string, Value> = {};
  for (const [name, input] of Object.entries(declared)) {
    const text = given[name] ?? input.default;
    if (text === undefined || text === "") {
      if (input.required && (text === undefined || input.default === undefined)) {
        return err({ reason: "inputs", message: `Required input '${name}' not provided` });
      }
      values[name] = input.type === "boolean" ? false : "";
      continue;
    }
    const problem = inputProblem(name, input, text);
    if (problem !== null) return err({ reason: "inputs", message: problem });
    values[name] = typed(input, text);
  }
  return ok(values);
}

function typed(input: InputPlan, text: string): Value {
  if (input.type === "boolean") return text === "true";
  return input.type === "number" ? Number(text) : text;
}

const RUNNING: Status = { success: true, failure: false, cancelled: false };

/** What every expression of the run can see. */
export function baseContext(
  workflow: WorkflowPlan,
  event: RunEvent,
  inputs: { readonly [name: string]: Value },
): Context {
  const github = { ...event.github, event_name: event.name, workflow: workflow.name };
  return { values: { github, inputs, vars: event.vars ?? {}, secrets: event.secrets ?? {} }, status: RUNNING };
}

export function concurrencyOf(plan: ConcurrencyPlan | null, context: Context): Result<Group | null, ExpressionProblem> {
  if (plan === null) return ok(null);
  const group = render(plan.group, context);
  if (!group.ok) return group;
  const cancel = render(plan.cancelInProgress, context);
  if (!cancel.ok) return cancel;
  return ok({ group: group.value, queue: plan.queue, cancelInProgress: cancel.value === "true" });
}
