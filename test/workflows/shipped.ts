/** The workflow files we ship, as text and as plans, and a way to run one step's script with bash. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { decideStep, type JobState, type StepResult } from "../../local/workflow/steps.ts";
import type { WorkflowPlan } from "../../local/workflow/model.ts";
import { parseWorkflow } from "../../local/workflow/parse.ts";
import { planRun, type RunEvent } from "../../local/workflow/run.ts";

export const ROOT = join(import.meta.dirname, "../..");
export const FOLDER = join(ROOT, "workflows");

/** Configurations to copy that lie in the same folder; every other YAML file is a workflow. */
const CONFIGURATIONS = ["gpu-gate.tenferro.yml"];

export function shippedWorkflows(): readonly { readonly name: string; readonly text: string }[] {
  return readdirSync(FOLDER)
    .filter((name) => /\.ya?ml$/.test(name) && !CONFIGURATIONS.includes(name))
    .map((name) => ({ name, text: readFileSync(join(FOLDER, name), "utf8") }));
}

export function shippedText(name: string): string {
  return readFileSync(join(FOLDER, name), "utf8");
}

export function shippedPlan(name: string): WorkflowPlan {
  const parsed = parseWorkflow(shippedText(name), name);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.error));
  return parsed.value;
}

export const SHA = "0123456789abcdef0123456789abcdef01234567";

export const EXECUTE_INPUTS = {
  request: "r-1",
  attempt: "a-1",
  label: "gate-5f3a",
  prepare_run_id: "77",
  artifact_ids: "1,2,3,4,5,6",
  tested_sha: SHA,
};

export const PREPARE_INPUTS = { request: "r-1", tested_sha: SHA, archive_key: "v1-ubuntu24.04-abc" };

export function dispatched(github: RunEvent["github"] = {}): RunEvent {
  return {
    name: "workflow_dispatch",
    github: {
      ref: "refs/heads/main",
      ref_name: "main",
      sha: "f".repeat(40),
      run_attempt: "1",
      repository: "o/r",
      event: { repository: { default_branch: "main" } },
      ...github,
    },
    vars: { GPU_GATE_URL: "https://gate.example" },
  };
}

export interface StepAsked {
  readonly workflow: string;
  readonly job: string;
  readonly step: string;
  readonly event?: RunEvent;
  readonly inputs: Readonly<Record<string, string>>;
  /** Outputs of earlier steps by id; every earlier step succeeded. */
  readonly outputs?: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** What a step is told to do, after the steps before it went well. */
export function resolveStep(asked: StepAsked): {
  readonly script: string;
  readonly env: Readonly<Record<string, string>>;
} {
  const run = planRun(shippedPlan(asked.workflow), asked.event ?? dispatched(), asked.inputs);
  if (!run.ok) throw new Error(run.error.message);
  const job = run.value.jobs.find((one) => one.plan.id === asked.job);
  if (job === undefined) throw new Error(`no job ${asked.job}`);
  const done: StepResult[] = [];
  for (const step of job.plan.steps) {
    const state: JobState = { results: new Map(), steps: done, cancelled: false, runner: { temp: "/tmp" } };
    const decision = decideStep(run.value, job, state);
    if (decision?.name === asked.step) {
      if (decision.kind !== "run") throw new Error(`${asked.step} is no script: ${decision.kind}`);
      return decision;
    }
    done.push({ outcome: "success", outputs: asked.outputs?.[step.id ?? ""] ?? {} });
  }
  throw new Error(`no step ${asked.step}`);
}

/** Runs a script as GitHub does (`bash -e`), with nothing but the given environment and the usual PATH. */
export function bash(
  script: string,
  env: Readonly<Record<string, string>>,
  cwd: string,
  path = process.env["PATH"] ?? "",
): { readonly code: number | null; readonly out: string } {
  const run = spawnSync("bash", ["--noprofile", "--norc", "-e", "-c", script], {
    cwd,
    // The types of the Worker's bindings claim every environment.
    env: { PATH: path, HOME: cwd, ...env } as unknown as NodeJS.ProcessEnv,
    encoding: "utf8",
  });
  return { code: run.status, out: `${run.stdout}${run.stderr}` };
}
