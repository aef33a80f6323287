/** A workflow file, understood: what the local world needs to run it. Every text that may hold an expression is a template. */
import type { ActionUse } from "./actions.ts";
import type { CacheMode, InputPlan, PermissionsPlan, Triggers } from "./schema.ts";
import type { Expression } from "./syntax.ts";
import type { Template } from "./template.ts";

/** What is wrong with a file, where. Line and column start at 1. */
export interface WorkflowProblem {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

export interface Condition {
  readonly source: string;
  readonly expression: Expression;
  /** False: `success()` is asked first, as GitHub does. */
  readonly asksForStatus: boolean;
}

export type Templates = Readonly<Record<string, Template>>;

export interface ConcurrencyPlan {
  readonly group: Template;
  readonly queue: "single" | "max";
  readonly cancelInProgress: Template;
}

interface StepBase {
  readonly id: string | null;
  /** Null: GitHub makes a name from what the step does. */
  readonly name: Template | null;
  readonly condition: Condition;
  readonly env: Templates;
  readonly timeoutMinutes: number | null;
  readonly continueOnError: boolean;
}

export interface RunStep extends StepBase {
  readonly kind: "run";
  readonly run: Template;
  /** `shell: bash` was written out: GitHub adds `-o pipefail` then, and only then. */
  readonly pipefail: boolean;
  readonly workingDirectory: Template | null;
}

export interface ActionStep extends StepBase {
  readonly kind: "uses";
  readonly uses: ActionUse;
  readonly with: Templates;
}

export type StepPlan = RunStep | ActionStep;

export interface JobPlan {
  readonly id: string;
  readonly name: Template;
  readonly needs: readonly string[];
  readonly condition: Condition;
  readonly runsOn: readonly Template[];
  readonly timeoutMinutes: number;
  /** Its failure fails no run, and to the jobs that need it it is a success; its check is red all the same. */
  readonly continueOnError: boolean;
  /** Effective: the job's own, else the workflow's, else null (the repository's default). */
  readonly permissions: PermissionsPlan | null;
  /** Effective; null is GitHub's default for the event. */
  readonly cacheMode: CacheMode | null;
  /** The environment whose secrets the job may read. */
  readonly environment: Template | null;
  readonly concurrency: ConcurrencyPlan | null;
  readonly failFast: boolean;
  /** Every combination of the matrix, in order; one empty combination where there is none. */
  readonly combinations: readonly Readonly<Record<string, string>>[];
  readonly env: Templates;
  readonly outputs: Templates;
  readonly steps: readonly StepPlan[];
}

export interface WorkflowPlan {
  readonly file: string;
  readonly name: string;
  readonly runName: Template | null;
  readonly triggers: Triggers;
  /** Inputs of `workflow_dispatch`. */
  readonly inputs: Readonly<Record<string, InputPlan>>;
  readonly concurrency: ConcurrencyPlan | null;
  readonly env: Templates;
  /** In an order in which every job comes after those it needs. */
  readonly jobs: readonly JobPlan[];
}
