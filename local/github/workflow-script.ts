/**
 * What a workflow file does, said as data instead of by its text: for tests that need a run of a certain form.
 *
 * A script belongs to a workflow file's path and stands in for the text. It runs only where that file exists in the tree
 * GitHub would read it from. A file without a script is interpreted (`workflow-files.ts`).
 */

import type { Files } from "./git.ts";
import type { Artifact } from "./model.ts";

export interface AnnotationPlan {
  readonly message: string;
  readonly title?: string | null;
  readonly level?: "notice" | "warning" | "failure";
  readonly path?: string;
  readonly line?: number;
}

export interface ArtifactPlan {
  readonly name: string;
  readonly files?: Readonly<Record<string, string | Uint8Array>>;
  /** From creation; GitHub's default is 90 days. */
  readonly expiresInMs?: number;
}

export interface StepPlan {
  readonly name: string;
  /** A bash command. Executed by a connected runner; a hosted job only waits `durationMs`. */
  readonly run?: string;
  readonly durationMs?: number;
  readonly conclusion?: "success" | "failure";
  /** `if: always()`: goes on after a failure or a cancel. */
  readonly always?: boolean;
  readonly env?: Readonly<Record<string, string>>;
  /** What a hosted step does instead of waiting: its promise is the step. A rejection is a failure. */
  readonly perform?: (job: HostedJobView) => Promise<"success" | "failure">;
}

/** What a performing hosted step can see and do. */
export interface HostedJobView {
  readonly runId: number;
  readonly attempt: number;
  readonly jobId: number;
  readonly cancelled: () => boolean;
  readonly annotate: (annotation: AnnotationPlan) => void;
  readonly upload: (artifact: ArtifactPlan) => Artifact;
}

export interface JobPlan {
  readonly name: string;
  readonly needs?: readonly string[];
  /** `if: always()`: runs whatever its needs did. */
  readonly always?: boolean;
  /** `if: false` once its turn comes: concludes skipped. */
  readonly skip?: boolean;
  /** Defaults to a hosted Linux machine. Labels of no hosted image wait for a runner. */
  readonly runsOn?: readonly string[];
  readonly steps: readonly StepPlan[];
  readonly env?: Readonly<Record<string, string>>;
  readonly annotations?: readonly AnnotationPlan[];
  readonly artifacts?: readonly ArtifactPlan[];
}

export interface WorkflowPlan {
  readonly jobs: readonly JobPlan[];
  /** The file does not parse, or the run cannot start: it ends as `startup_failure` without a job. */
  readonly startupFailure?: boolean;
}

/** What a run knows when its plan is asked for. */
export interface RunContext {
  readonly runId: number;
  readonly attempt: number;
  readonly event: string;
  readonly inputs: Readonly<Record<string, string>>;
  readonly headSha: string;
  /** GITHUB_SHA. */
  readonly sha: string;
  readonly ref: string;
  readonly pullNumber: number | null;
  readonly repositoryId: number;
  readonly repository: string;
  readonly actor: string;
  /** The tree the workflow file was read from. */
  readonly files: Files;
}

export interface WorkflowScript {
  readonly name: string;
  /** Events that start it: `workflow_dispatch`, `pull_request`, `push`, `merge_group`. */
  readonly on: readonly string[];
  /** Declared dispatch inputs; when given, any other is refused as GitHub does. */
  readonly inputs?: readonly string[];
  /** `run-name`. Defaults to the head commit's first line, or the workflow's name for a dispatch. */
  readonly runName?: (context: Omit<RunContext, "files" | "runId">) => string;
  readonly plan: (context: RunContext) => WorkflowPlan;
}

const hostedLabel = /^(ubuntu|macos|windows)-/i;

export function isSelfHosted(labels: readonly string[]): boolean {
  return !labels.some((label) => hostedLabel.test(label));
}
