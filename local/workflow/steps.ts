/**
 * What the next step of a job is to do, and what the job concludes and hands on when all steps have ended.
 *
 * Pure: the engine performs the step and comes back with its outcome and outputs.
 */
import { ok, type Result } from "../../shared/result.ts";
import type { ActionName } from "./actions.ts";
import type { Context, ExpressionProblem, Status, Value } from "./evaluate.ts";
import { holds, jobContext } from "./jobs.ts";
import type { StepPlan, Templates } from "./model.ts";
import type { Conclusion, JobResult, PlannedJob, RunPlan } from "./run.ts";
import { render } from "./template.ts";

/** How one step ended: `outcome` before, `conclusion` after `continue-on-error`. */
export interface StepResult {
  readonly outcome: Conclusion;
  readonly outputs: Readonly<Record<string, string>>;
}

/** A job under way, as the engine knows it. */
export interface JobState {
  readonly results: ReadonlyMap<string, JobResult>;
  /** Results of the steps that ended, in order. */
  readonly steps: readonly StepResult[];
  readonly cancelled: boolean;
  /** Set by earlier steps through GITHUB_ENV. */
  readonly extraEnv?: Readonly<Record<string, string>>;
  /** The `runner` context: `temp`, `os`, `arch`. */
  readonly runner: { readonly [key: string]: Value };
  /** `github.workspace`; known only on the machine. */
  readonly workspace?: string;
}

export type StepDecision =
  | { readonly kind: "skip"; readonly name: string }
  | { readonly kind: "broken"; readonly name: string; readonly message: string }
  | {
      readonly kind: "run";
      readonly name: string;
      readonly script: string;
      readonly pipefail: boolean;
      readonly workingDirectory: string | null;
      readonly env: Readonly<Record<string, string>>;
      readonly timeoutMinutes: number | null;
    }
  | {
      readonly kind: "action";
      readonly name: string;
      readonly action: ActionName;
      readonly with: Readonly<Record<string, string>>;
      readonly env: Readonly<Record<string, string>>;
      readonly timeoutMinutes: number | null;
    };

/** What the next step is to do, or null when all steps have ended. */
export function decideStep(run: RunPlan, job: PlannedJob, state: JobState): StepDecision | null {
  const step = job.plan.steps[state.steps.length];
  if (step === undefined) return null;
  const env = stepEnv(run, job, step, state);
  if (!env.ok) return { kind: "broken", name: stepName(step), message: env.error.message };
  const context = stepContext(run, job, state, env.value);
  const name = step.name === null ? ok(stepName(step)) : render(step.name, context);
  if (!name.ok) return { kind: "broken", name: step.name?.source ?? "", message: name.error.message };
  const condition = holds(step.condition, context);
  if (!condition.ok) return { kind: "broken", name: name.value, message: condition.error.message };
  if (!condition.value) return { kind: "skip", name: name.value };
  const common = { name: name.value, env: env.value, timeoutMinutes: step.timeoutMinutes };
  if (step.kind === "uses") {
    const inputs = renderAll(step.with, context);
    if (!inputs.ok) return { kind: "broken", name: name.value, message: inputs.error.message };
    return { kind: "action", ...common, action: step.uses.action, with: inputs.value };
  }
  const script = render(step.run, context);
  if (!script.ok) return { kind: "broken", name: name.value, message: script.error.message };
  const folder = step.workingDirectory === null ? ok(null) : render(step.workingDirectory, context);
  if (!folder.ok) return { kind: "broken", name: name.value, message: folder.error.message };
  return {
    kind: "run",
    ...common,
    script: script.value,
    pipefail: step.pipefail,
    workingDirectory: folder.value,
  };
}

/** A step's name as written, or the one GitHub makes from what the step does. */
export function stepName(step: StepPlan): string {
  if (step.name !== null) return step.name.source;
  if (step.kind === "uses") return `Run ${step.uses.action}${step.uses.sha === null ? "" : `@${step.uses.sha}`}`;
  return `Run ${step.run.source.trim().split("\n")[0] ?? ""}`;
}

/** What a job concludes and hands on once its steps have ended. */
export function concludeJob(run: RunPlan, job: PlannedJob, state: JobState): Result<JobResult, ExpressionProblem> {
  const status = stepStatus(job, state);
  const outputs = renderAll(job.plan.outputs, stepContext(run, job, state, {}));
  if (!outputs.ok) return outputs;
  const ended = status.failure ? "failure" : "success";
  return ok({ conclusion: state.cancelled ? "cancelled" : ended, outputs: outputs.value });
}

function stepStatus(job: PlannedJob, state: JobState): Status {
  const failed = state.steps.some(
    (result, index) => result.outcome === "failure" && !(job.plan.steps[index]?.continueOnError ?? false),
  );
  return { success: !failed && !state.cancelled, failure: failed && !state.cancelled, cancelled: state.cancelled };
}

function stepContext(run: RunPlan, job: PlannedJob, state: JobState, env: Readonly<Record<string, string>>): Context {
  const base = jobContext(run, job, state.results, state.cancelled);
  const steps: Record<string, Value> = {};
  job.plan.steps.forEach((step, index) => {
    const result = state.steps[index];
    if (step.id === null || result === undefined) return;
    const forgiven = result.outcome === "failure" && step.continueOnError;
    steps[step.id] = {
      outputs: result.outputs,
      outcome: result.outcome,
      conclusion: forgiven ? "success" : result.outcome,
    };
  });
  const github =
    state.workspace === undefined
      ? base.values["github"]
      : { ...(base.values["github"] as Readonly<Record<string, Value>>), workspace: state.workspace };
  const values = { ...base.values, github: github ?? {}, steps, env, runner: state.runner };
  return { values, status: stepStatus(job, state) };
}

/** Environment of a step: the workflow's, the job's, what earlier steps set, its own; later ones win and see the earlier. */
function stepEnv(
  run: RunPlan,
  job: PlannedJob,
  step: StepPlan,
  state: JobState,
): Result<Readonly<Record<string, string>>, ExpressionProblem> {
  let env: Record<string, string> = {};
  for (const layer of [run.workflow.env, job.plan.env, step.env]) {
    if (layer === step.env) env = { ...env, ...state.extraEnv };
    const values = renderAll(layer, stepContext(run, job, state, env));
    if (!values.ok) return values;
    env = { ...env, ...values.value };
  }
  return ok(env);
}

function renderAll(
  templates: Templates,
  context: Context,
): Result<Readonly<Record<string, string>>, ExpressionProblem> {
  const values: Record<string, string> = {};
  for (const [key, template] of Object.entries(templates)) {
    const value = render(template, context);
    if (!value.ok) return value;
    values[key] = value.value;
  }
  return ok(values);
}
