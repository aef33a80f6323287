/** Workflow files put into a local GitHub and run, with the questions that their tests ask of a run. */
import { mkdtempSync, readFileSync, existsSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach } from "vitest";
import type { Job, WorkflowRun } from "../../local/github/model.ts";
import { PINS } from "../../local/workflow/actions.ts";
import { at, openBench } from "./harness.ts";
import type { Bench, Json } from "./harness.ts";

/** The workflow file that the helpers write. */
export const FILE = ".github/workflows/w.yml";

/** An action as it is written, at the commit that is performed. */
export const pin = (action: string): string =>
  `${action}@${PINS[action.split("/").slice(0, 2).join("/")]?.sha ?? "of no action"}`;

export const dispatchable = (jobs: string, more = ""): string =>
  `name: W\non: workflow_dispatch\n${more}jobs:\n${jobs}`;

export const oneJob = (steps: string, more = ""): string =>
  dispatchable(`  job:\n    runs-on: ubuntu-24.04\n${more}    steps:\n${steps}`);

export const ofRun =
  (id: number) =>
  (payload: Json): boolean =>
    at(payload, "workflow_run", "id") === id;

export interface Workflows {
  readonly bench: Bench;
  /** A folder of the test's own, outside of every workspace. */
  readonly folder: string;
  readonly put: (text: string, path?: string) => void;
  readonly dispatch: (inputs?: Readonly<Record<string, string>>) => number;
  readonly ended: (id: number) => Promise<WorkflowRun>;
  /** Puts the file, dispatches it, waits for the run's end. */
  readonly runs: (text: string, inputs?: Readonly<Record<string, string>>) => Promise<WorkflowRun>;
  /** What a job's annotations say, as `level: message`. */
  readonly notesOf: (job: Job) => readonly string[];
}

/** A fresh local GitHub for each test of the file; `current()` is the one of the test that runs. */
export function workflows(): () => Workflows {
  let made: Workflows;
  beforeEach(async () => {
    const folder = mkdtempSync(join(tmpdir(), "gpu-gate-hosted-"));
    const bench = await openBench({ hosted: { folder: join(folder, "machines") }, timing: { cancelHardMs: 20_000 } });
    made = workflowsOf(bench, folder);
  });
  afterEach(async () => {
    await made.bench.close();
    rmSync(made.folder, { recursive: true, force: true });
  });
  return () => made;
}

function workflowsOf(bench: Bench, folder: string): Workflows {
  const put = (text: string, path = FILE): void => void bench.repo.commit({ files: { [path]: text } });
  const dispatch = (inputs: Readonly<Record<string, string>> = {}): number =>
    bench.repo.dispatchWorkflow(FILE, "ada", inputs);
  const ended = async (id: number): Promise<WorkflowRun> => {
    await bench.hook("workflow_run", "completed", ofRun(id));
    const run = bench.repo.runs().find((one) => one.id === id);
    if (run === undefined) throw new Error("no such run");
    return run;
  };
  return {
    bench,
    folder,
    put,
    dispatch,
    ended,
    runs: (text, inputs) => {
      put(text);
      return ended(dispatch(inputs));
    },
    notesOf: (job) =>
      (bench.repo.checkRuns(job.run.headSha).find((check) => check.id === job.id)?.annotations ?? []).map(
        (note) => `${note.level}: ${note.message}`,
      ),
  };
}

export const jobsOf = (run: WorkflowRun): readonly Job[] => run.attempts.at(-1)?.jobs ?? [];

export function jobOf(run: WorkflowRun, name = "job"): Job {
  const job = jobsOf(run).find((one) => one.name === name);
  if (job !== undefined) return job;
  const why = run.attempts.flatMap((attempt) => attempt.annotations.map((note) => note.message));
  throw new Error(`no job ${name}: ${[...jobsOf(run).map((one) => one.name), ...why].join(", ")}`);
}

export const conclusions = (run: WorkflowRun): unknown =>
  Object.fromEntries(jobsOf(run).map((job) => [job.name, job.conclusion]));

export const stepsOf = (job: Job): unknown => job.steps.slice(1, -1).map((step) => [step.name, step.conclusion]);

/** Looks again until it is so; the test's own limit is the end. */
export async function until(so: () => boolean): Promise<void> {
  while (!so()) await new Promise((resolve) => setTimeout(resolve, 10));
}

/** The process ids that a step wrote into a file, once it has written them. */
export async function pidsIn(file: string): Promise<readonly number[]> {
  await until(() => existsSync(file) && readFileSync(file, "utf8").includes("\n"));
  return readFileSync(file, "utf8").trim().split(" ").map(Number);
}
