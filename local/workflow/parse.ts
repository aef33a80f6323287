/**
 * A workflow file's text to a plan, or to every reason why the local world does not understand it.
 *
 * Pure. Three passes: the shape (schema.ts), the expressions, and how jobs and steps refer to each other. What is not
 * understood is an error with file, line and column, never something left out.
 */
import type * as z from "zod";
import { err, ok, type Result } from "../../shared/result.ts";
import { ACTIONS, parseUses, type ActionName, type UsesProblem } from "./actions.ts";
import { parseCron } from "./cron.ts";
import { readDocument, type Path, type Place, type SourceDocument } from "./document.ts";
import type {
  ConcurrencyPlan,
  Condition,
  JobPlan,
  StepPlan,
  Templates,
  WorkflowPlan,
  WorkflowProblem,
} from "./model.ts";
import { TRIGGER_NAMES, workflowSchema, type InputPlan, type RawJob, type RawStep, type Triggers } from "./schema.ts";
import { asksForStatus, parseExpression } from "./syntax.ts";
import { parseTemplate, plainTemplate, type Template } from "./template.ts";

/** GitHub's limit for one dispatch. */
const MAX_INPUTS = 25;
const MAX_COMBINATIONS = 256;

export function parseWorkflow(text: string, file: string): Result<WorkflowPlan, readonly WorkflowProblem[]> {
  const document = readDocument(text, file);
  if (!document.ok) return document;
  const parsed = workflowSchema.safeParse(document.value.value);
  if (!parsed.success) return err(parsed.error.issues.flatMap((issue) => shapeProblems(issue, [], document.value)));
  const builder = new Builder(document.value);
  const plan = builder.workflow(parsed.data);
  return builder.problems.length === 0 ? ok(plan) : err(builder.problems);
}

type Issue = z.core.$ZodIssue;

/** One problem per unknown key; of a union the branch that came closest speaks. */
function shapeProblems(issue: Issue, above: Path, document: SourceDocument): readonly WorkflowProblem[] {
  const path = [...above, ...issue.path];
  const problem = (place: Place, message: string): WorkflowProblem => ({ file: document.file, ...place, message });
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) =>
      problem(document.keyPlaceOf([...path, key]), `the key '${key}' is not supported here`),
    );
  }
  if (issue.code === "invalid_key") {
    const reason = issue.issues[0]?.message ?? "not allowed";
    return [problem(document.keyPlaceOf(path), `the key '${String(path.at(-1))}' is not supported here: ${reason}`)];
  }
  if (issue.code === "invalid_union") {
    const branches = issue.errors.filter(
      (branch) => !branch.some((one) => one.path.length === 0 && one.code === "invalid_type"),
    );
    const [closest] = branches;
    if (closest !== undefined) return closest.flatMap((one) => shapeProblems(one, path, document));
  }
  const where = path.length === 0 ? "the file" : `'${path.map(String).join(".")}'`;
  return [problem(document.placeOf(path), `${where} is not understood: ${issue.message}`)];
}

class Builder {
  readonly problems: WorkflowProblem[] = [];
  readonly #document: SourceDocument;

  constructor(document: SourceDocument) {
    this.#document = document;
  }

  workflow(raw: z.output<typeof workflowSchema>): WorkflowPlan {
    const triggers = this.#triggers(raw.on);
    const dispatch = triggers.workflow_dispatch;
    const inputs = dispatch !== undefined && "inputs" in dispatch ? (dispatch.inputs ?? {}) : {};
    this.#checkInputs(inputs);
    this.#checkSchedules(triggers);
    const jobs = Object.entries(raw.jobs).map(([id, job]) => this.#job(id, job, raw));
    return {
      file: this.#document.file,
      name: raw.name ?? this.#document.file,
      runName: raw["run-name"] === undefined ? null : this.#template(raw["run-name"], ["run-name"]),
      triggers,
      inputs,
      concurrency: this.#concurrency(raw.concurrency, ["concurrency"]),
      env: this.#templates(raw.env, ["env"]),
      jobs: this.#inOrder(jobs),
    };
  }

  #problem(place: Place, message: string): void {
    this.problems.push({ file: this.#document.file, line: place.line, column: place.column, message });
  }

  #triggers(on: readonly string[] | Triggers): Triggers {
    if (!Array.isArray(on)) return on as Triggers;
    const known = (on as readonly string[]).flatMap((name, index) => {
      if (TRIGGER_NAMES.some((one) => one === name)) return [[name, {}] as const];
      this.#problem(
        this.#document.placeOf(on.length === 1 ? ["on"] : ["on", index]),
        `the trigger '${name}' is not supported`,
      );
      return [];
    });
    return Object.fromEntries(known);
  }

  #checkInputs(inputs: Readonly<Record<string, InputPlan>>): void {
    const path = ["on", "workflow_dispatch", "inputs"];
    const names = Object.keys(inputs);
    if (names.length > MAX_INPUTS)
      this.#problem(this.#document.placeOf(path), `${names.length} inputs are more than the ${MAX_INPUTS} of GitHub`);
    for (const [name, input] of Object.entries(inputs)) {
      const place = this.#document.keyPlaceOf([...path, name]);
      if (input.type === "choice" && (input.options?.length ?? 0) === 0)
        this.#problem(place, `the choice '${name}' has no options`);
      if (input.default === undefined) continue;
      const problem = inputProblem(name, input, input.default);
      if (problem !== null) this.#problem(place, problem);
    }
  }

  #checkSchedules(triggers: Triggers): void {
    for (const [index, { cron }] of (triggers.schedule ?? []).entries()) {
      const parsed = parseCron(cron);
      if (!parsed.ok)
        this.#problem(
          this.#document.placeOf(["on", "schedule", index, "cron"]),
          `the schedule '${cron}' ${parsed.error}`,
        );
    }
  }

  #job(id: string, raw: RawJob, workflow: z.output<typeof workflowSchema>): JobPlan {
    const path = ["jobs", id];
    return {
      id,
      name: raw.name === undefined ? defaultName(id, raw) : this.#template(raw.name, [...path, "name"]),
      needs: raw.needs,
      condition: this.#condition(raw.if, [...path, "if"]),
      runsOn: raw["runs-on"].map((label) => this.#template(label, [...path, "runs-on"])),
      timeoutMinutes: raw["timeout-minutes"],
      continueOnError: raw["continue-on-error"],
      permissions: raw.permissions ?? workflow.permissions ?? null,
      cacheMode: raw["cache-mode"] ?? workflow["cache-mode"] ?? null,
      environment: raw.environment === undefined ? null : this.#template(raw.environment, [...path, "environment"]),
      concurrency: this.#concurrency(raw.concurrency, [...path, "concurrency"]),
      failFast: raw.strategy?.["fail-fast"] ?? true,
      combinations: this.#combinations(raw, path),
      env: this.#templates(raw.env, [...path, "env"]),
      outputs: this.#templates(raw.outputs, [...path, "outputs"]),
      steps: this.#steps(raw.steps, [...path, "steps"]),
    };
  }

  #combinations(raw: RawJob, path: Path): readonly Readonly<Record<string, string>>[] {
    let rows: Readonly<Record<string, string>>[] = [{}];
    for (const [key, values] of Object.entries(raw.strategy?.matrix ?? {})) {
      const place = this.#document.keyPlaceOf([...path, "strategy", "matrix", key]);
      if (key === "include" || key === "exclude") this.#problem(place, `'${key}' of a matrix is not supported`);
      rows = rows.flatMap((row) => values.map((value) => ({ ...row, [key]: value })));
      if (rows.length > MAX_COMBINATIONS) {
        this.#problem(place, `the matrix has more than ${MAX_COMBINATIONS} combinations`);
        return [{}];
      }
    }
    return rows;
  }

  #steps(steps: readonly RawStep[], path: Path): readonly StepPlan[] {
    const ids = new Set<string>();
    return steps.flatMap((step, index): StepPlan[] => {
      const at = [...path, index];
      if (step.id !== undefined && ids.has(step.id))
        this.#problem(this.#document.placeOf([...at, "id"]), `the step id '${step.id}' is taken`);
      if (step.id !== undefined) ids.add(step.id);
      const plan = this.#step(step, at);
      return plan === null ? [] : [plan];
    });
  }

  #step(raw: RawStep, path: Path): StepPlan | null {
    const base = {
      id: raw.id ?? null,
      name: raw.name === undefined ? null : this.#template(raw.name, [...path, "name"]),
      condition: this.#condition(raw.if, [...path, "if"]),
      env: this.#templates(raw.env, [...path, "env"]),
      timeoutMinutes: raw["timeout-minutes"] ?? null,
      continueOnError: raw["continue-on-error"],
    };
    if ((raw.run === undefined) === (raw.uses === undefined)) {
      this.#problem(this.#document.placeOf(path), "a step has either 'run' or 'uses'");
      return null;
    }
    if (raw.run !== undefined) {
      if (Object.keys(raw.with).length > 0)
        this.#problem(this.#document.keyPlaceOf([...path, "with"]), "'with' belongs to 'uses'");
      const folder = raw["working-directory"];
      return {
        ...base,
        kind: "run",
        run: this.#template(raw.run, [...path, "run"]),
        pipefail: raw.shell === "bash",
        workingDirectory: folder === undefined ? null : this.#template(folder, [...path, "working-directory"]),
      };
    }
    const uses = parseUses(raw.uses ?? "");
    if (!uses.ok) {
      this.#problem(this.#document.placeOf([...path, "uses"]), `'${raw.uses ?? ""}' ${usesProblem(uses.error)}`);
      return null;
    }
    this.#checkWith(uses.value.action, raw, path);
    return { ...base, kind: "uses", uses: uses.value, with: this.#templates(raw.with, [...path, "with"]) };
  }

  #checkWith(action: ActionName, raw: RawStep, path: Path): void {
    for (const key of Object.keys(raw.with)) {
      if (!ACTIONS[action].includes(key)) {
        this.#problem(
          this.#document.keyPlaceOf([...path, "with", key]),
          `the input '${key}' of ${action} is not supported`,
        );
      }
    }
    for (const key of ["working-directory", "shell"] as const) {
      if (raw[key] !== undefined) this.#problem(this.#document.keyPlaceOf([...path, key]), `'${key}' belongs to 'run'`);
    }
  }

  #concurrency(raw: z.output<typeof workflowSchema>["concurrency"], path: Path): ConcurrencyPlan | null {
    if (raw === undefined) return null;
    const queue = "queue" in raw ? (raw.queue ?? "single") : "single";
    const cancel = "cancel-in-progress" in raw ? (raw["cancel-in-progress"] ?? "false") : "false";
    if (queue === "max" && cancel !== "false")
      this.#problem(this.#document.placeOf(path), "'queue: max' cannot be combined with 'cancel-in-progress'");
    return {
      group: this.#template(raw.group, [...path, "group"]),
      queue,
      cancelInProgress: this.#template(cancel, [...path, "cancel-in-progress"]),
    };
  }

  #templates(raw: Readonly<Record<string, string>>, path: Path): Templates {
    return Object.fromEntries(Object.entries(raw).map(([key, value]) => [key, this.#template(value, [...path, key])]));
  }

  #template(source: string, path: Path): Template {
    const parsed = parseTemplate(source);
    if (parsed.ok) return parsed.value;
    this.#problem(
      this.#document.placeOf(path),
      `in '${excerpt(source, parsed.error.offset)}': ${parsed.error.message}`,
    );
    return plainTemplate(source);
  }

  /** `if` may stand with or without `${{ }}` around it. */
  #condition(source: string | undefined, path: Path): Condition {
    const written = source ?? "success()";
    const inner = /^\s*\$\{\{(.*)\}\}\s*$/s.exec(written)?.[1] ?? written;
    const parsed = parseExpression(inner);
    if (parsed.ok) return { source: written, expression: parsed.value, asksForStatus: asksForStatus(parsed.value) };
    this.#problem(this.#document.placeOf(path), `in '${excerpt(inner, parsed.error.offset)}': ${parsed.error.message}`);
    return { source: written, expression: { kind: "literal", value: false }, asksForStatus: true };
  }

  /** Jobs after those they need. A need that does not exist, or a circle, is a problem. */
  #inOrder(jobs: readonly JobPlan[]): readonly JobPlan[] {
    const ordered: JobPlan[] = [];
    let waiting = [...jobs];
    for (const job of jobs) {
      for (const need of job.needs) {
        if (!jobs.some((other) => other.id === need)) {
          this.#problem(
            this.#document.placeOf(["jobs", job.id, "needs"]),
            `'${job.id}' needs '${need}', which is no job`,
          );
          return jobs;
        }
      }
    }
    while (waiting.length > 0) {
      const ready = waiting.filter((job) => job.needs.every((need) => ordered.some((other) => other.id === need)));
      const [stuck] = waiting;
      if (ready.length === 0 && stuck !== undefined) {
        this.#problem(
          this.#document.keyPlaceOf(["jobs", stuck.id]),
          `'${stuck.id}' is in a circle of jobs that need each other`,
        );
        return jobs;
      }
      ordered.push(...ready);
      waiting = waiting.filter((job) => !ready.includes(job));
    }
    return ordered;
  }
}

/** GitHub names a matrix job `id (value, value)`. */
function defaultName(id: string, raw: RawJob): Template {
  const keys = Object.keys(raw.strategy?.matrix ?? {});
  if (keys.length === 0) return plainTemplate(id);
  const parsed = parseTemplate(`${id} (${keys.map((key) => `\${{ matrix['${key}'] }}`).join(", ")})`);
  return parsed.ok ? parsed.value : plainTemplate(id);
}

function usesProblem(problem: UsesProblem): string {
  return problem.reason === "unknown"
    ? `is not one of the actions performed here, pinned by commit (${Object.keys(ACTIONS).join(", ")})`
    : `is another commit of it than the one performed here, ${problem.sha} (${problem.version})`;
}

function excerpt(source: string, offset: number): string {
  return source
    .slice(Math.max(0, offset - 20), offset + 30)
    .replaceAll(/\s+/g, " ")
    .trim();
}

/** Why a value does not fit an input, or null. */
export function inputProblem(name: string, input: InputPlan, value: string): string | null {
  switch (input.type) {
    case "string":
      return null;
    case "boolean":
      return value === "true" || value === "false" ? null : `the input '${name}' must be true or false, not '${value}'`;
    case "number":
      return value.trim() !== "" && Number.isFinite(Number(value))
        ? null
        : `the input '${name}' must be a number, not '${value}'`;
    case "choice":
      return input.options?.includes(value) === true
        ? null
        : `the input '${name}' must be one of ${input.options?.join(", ") ?? "nothing"}, not '${value}'`;
  }
}
