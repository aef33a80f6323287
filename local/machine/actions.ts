/** Performs the actions of `local/workflow/actions.ts`: what each of them does at the pinned commit, as far as we use it. */
import { resolve } from "node:path";
import { unreachable } from "../../shared/result.ts";
import { downloadArtifact, uploadArtifact } from "./artifacts.ts";
import { restoreCache, saveCache } from "./caches.ts";
import { checkout } from "./checkout.ts";
import { ActionProblem, type Services } from "./services.ts";
import type { AnnotationReport, JobFacts, Places, StepDone, StepWork } from "./work.ts";

export type ActionWork = Extract<StepWork, { kind: "action" }>;

export type ActionOutcome = Pick<StepDone, "outcome" | "outputs" | "annotations" | "log">;

export interface ActionHost {
  readonly facts: JobFacts;
  readonly places: Places;
  readonly services: Services;
  /** Environment of the programs an action starts: git and tar. */
  readonly toolEnv: NodeJS.ProcessEnv;
}

/** One action under way: what it may read and do. */
export interface ActionRun extends ActionHost {
  /** As given; an empty input counts as not given. */
  readonly inputs: Readonly<Record<string, string | undefined>>;
  readonly stopped: AbortSignal;
  /** A path from the workspace; it must stay in the workspace or the temporary folder. */
  inside(path: string): string;
  output(name: string, value: string): void;
  say(line: string): void;
  warn(line: string): void;
}

export async function performAction(
  work: ActionWork,
  host: ActionHost,
  cancelled: AbortSignal,
): Promise<ActionOutcome> {
  const outputs: Record<string, string> = {};
  const annotations: AnnotationReport[] = [];
  const lines: string[] = [];
  const timeout = new AbortController();
  const limit = work.timeoutMinutes;
  const timer = limit === null ? null : setTimeout(() => timeout.abort(), limit * 60_000);
  const run: ActionRun = {
    ...host,
    inputs: Object.fromEntries(Object.entries(work.with).filter(([, value]) => value !== "")),
    stopped: AbortSignal.any([cancelled, timeout.signal]),
    inside(path) {
      const { workspace, temp } = host.places;
      const full = resolve(workspace, path);
      if ([workspace, temp].some((root) => full === root || full.startsWith(`${root}/`))) return full;
      throw new ActionProblem(`'${path}' leads out of the workspace`);
    },
    output: (name, value) => void (outputs[name] = value),
    say: (line) => void lines.push(line),
    warn: (line) => {
      lines.push(line);
      annotations.push({ title: null, message: line, level: "warning" });
    },
  };
  const done = (outcome: ActionOutcome["outcome"]): ActionOutcome => ({
    outcome,
    outputs,
    annotations,
    log: lines.map((line) => `${line}\n`).join(""),
  });
  try {
    await perform(work, run);
    return done(cancelled.aborted ? "cancelled" : "success");
  } catch (problem) {
    if (cancelled.aborted) return done("cancelled");
    const message = timeout.signal.aborted
      ? `The action '${work.name}' has timed out after ${limit ?? 0} minutes.`
      : problem instanceof Error
        ? problem.message
        : String(problem);
    lines.push(message);
    annotations.push({ title: null, message, level: "failure" });
    return done("failure");
  } finally {
    if (timer !== null) clearTimeout(timer);
  }
}

async function perform(work: ActionWork, run: ActionRun): Promise<void> {
  switch (work.action) {
    case "actions/checkout":
      return checkout(run);
    case "actions/upload-artifact":
      return uploadArtifact(run);
    case "actions/download-artifact":
      return downloadArtifact(run);
    case "actions/cache":
    case "actions/cache/restore":
      return restoreCache(run);
    case "actions/cache/save":
      return saveCache(run);
    case "gpu-gate-probe":
      throw new ActionProblem("the probe of a lane asks for real machines; the local world does not perform it");
    default:
      return unreachable(work.action, "action");
  }
}
