/**
 * The workflow files of a tree that have no script: read once, asked which events start them, laid out as a run.
 *
 * A file that is not understood still counts as triggered by the events it names, and its run ends as `startup_failure`
 * with every reason: passing it over would look like a repository without that workflow.
 */
import { err, ok, type Result } from "../../shared/result.ts";
import { namedTriggers } from "../workflow/document.ts";
import type { WorkflowPlan, WorkflowProblem } from "../workflow/model.ts";
import { parseWorkflow } from "../workflow/parse.ts";
import { planRun, type RunEvent, type RunPlan } from "../workflow/run.ts";
import type { Files } from "./git.ts";
import type { AnnotationPlan } from "./workflow-script.ts";

export type Parsed = Result<WorkflowPlan, readonly WorkflowProblem[]>;

const workflowPath = /^\.github\/workflows\/[^/]+\.ya?ml$/;

/** Paths of the workflow files of a tree. */
export function workflowPaths(files: Files): string[] {
  return Object.keys(files).filter((path) => workflowPath.test(path));
}

export class WorkflowFiles {
  readonly #parsed = new Map<string, Parsed>();

  parse(path: string, text: string): Parsed {
    const key = `${path}\n${text}`;
    const known = this.#parsed.get(key);
    if (known !== undefined) return known;
    const parsed = parseWorkflow(text, path);
    this.#parsed.set(key, parsed);
    return parsed;
  }

  /** The name a file gives itself; its path where it gives none. */
  nameOf(path: string, text: string | undefined): string {
    const parsed = text === undefined ? null : this.parse(path, text);
    return parsed !== null && parsed.ok ? parsed.value.name : path;
  }

  isTriggered(path: string, text: string, event: RunEvent): boolean {
    const parsed = this.parse(path, text);
    if (!parsed.ok) return namedTriggers(text)?.includes(event.name) ?? false;
    const run = planRun(parsed.value, event);
    return run.ok || run.error.reason !== "not-triggered";
  }

  /** Why GitHub refuses to dispatch this file with these inputs; null when it accepts, a broken file included. */
  dispatchProblem(
    path: string,
    text: string,
    event: RunEvent,
    inputs: Readonly<Record<string, string>>,
  ): string | null {
    const parsed = this.parse(path, text);
    if (!parsed.ok) return null;
    const run = planRun(parsed.value, event, inputs);
    if (run.ok || run.error.reason === "expression") return null;
    return run.error.reason === "not-triggered"
      ? "Workflow does not have 'workflow_dispatch' trigger"
      : run.error.message;
  }

  /** The run's plan, or what its page shows instead of jobs. */
  plan(
    path: string,
    text: string,
    event: RunEvent,
    inputs: Readonly<Record<string, string>>,
  ): Result<RunPlan, readonly AnnotationPlan[]> {
    const parsed = this.parse(path, text);
    if (!parsed.ok) {
      return err(
        parsed.error.map(({ line, column, message }) => ({
          path,
          line,
          level: "failure" as const,
          title: "Invalid workflow file",
          message: `${path}:${line}:${column}: ${message}`,
        })),
      );
    }
    const run = planRun(parsed.value, event, inputs);
    if (run.ok) return ok(run.value);
    return err([{ path, level: "failure", title: "Invalid workflow file", message: `${path}: ${run.error.message}` }]);
  }
}
