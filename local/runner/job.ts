/**
 * One job from its first step to its conclusion, as the real runner goes about it: the job-started hook, then the steps in
 * order, each a child process; after a failure or a cancel only those that always run.
 */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { JobMessage, ServerClient, StepMessage } from "./client.ts";
import { runCommand, signalGroup } from "./command.ts";
import type { CommandOutcome } from "./command.ts";

/** Between two heartbeats; each also asks whether the job has been cancelled. */
const heartbeatMs = 250;

export async function runJob(
  server: ServerClient,
  job: JobMessage,
  workRoot: string,
): Promise<"success" | "failure" | "cancelled"> {
  const cancel = new AbortController();
  const work = new Workplace(job, workRoot);
  const heartbeat = setInterval(() => {
    server.report(job.jobId, {}).then(
      (answer) => answer.cancel && cancel.abort(),
      () => {},
    );
  }, heartbeatMs);
  try {
    const tell = async (report: Parameters<ServerClient["report"]>[1]): Promise<void> => {
      if ((await server.report(job.jobId, report)).cancel) cancel.abort();
    };
    await tell({ steps: [{ number: 1, name: "Set up job", status: "completed", conclusion: "success" }] });
    let failed = false;
    const hook = process.env["ACTIONS_RUNNER_HOOK_JOB_STARTED"] ?? "";
    if (hook !== "") {
      const name = "Set up runner";
      await tell({ steps: [{ name, status: "in_progress", conclusion: null }] });
      const result = await work.command([hook], {}, cancel.signal);
      await tell({
        steps: [{ name, status: "completed", conclusion: result.outcome }],
        annotations: result.annotations,
        log: result.output,
      });
      if (result.outcome !== "success") {
        // A stranger's job ends here, before any of its steps, the always-running ones included.
        const rest = job.steps.map(
          (step) => ({ number: step.number, name: step.name, status: "completed", conclusion: "skipped" }) as const,
        );
        await tell({ steps: rest });
        return result.outcome === "cancelled" ? "cancelled" : "failure";
      }
    }
    for (const step of job.steps) {
      const { number, name } = step;
      if ((failed || cancel.signal.aborted) && !step.always) {
        await tell({ steps: [{ number, name, status: "completed", conclusion: "skipped" }] });
        continue;
      }
      await tell({ steps: [{ number, name, status: "in_progress", conclusion: null }] });
      // An always-running step goes on after a cancel, so it is not stopped by the one that came before it.
      const stop = step.always && cancel.signal.aborted ? new AbortController().signal : cancel.signal;
      const result = await work.run(step, stop);
      failed ||= result.outcome === "failure";
      await tell({
        steps: [{ number, name, status: "completed", conclusion: result.outcome }],
        annotations: result.annotations,
        log: result.output,
      });
    }
    return cancel.signal.aborted ? "cancelled" : failed ? "failure" : "success";
  } finally {
    clearInterval(heartbeat);
    work.close();
  }
}

/** The folder and the environment of one job. */
class Workplace {
  readonly folder: string;
  readonly #temp: string;
  readonly #job: JobMessage;
  readonly #added: Record<string, string> = {};
  readonly #groups: number[] = [];

  constructor(job: JobMessage, root: string) {
    const repository = job.repository.split("/").at(-1) ?? "repository";
    this.#job = job;
    this.folder = join(root, repository, repository);
    this.#temp = join(root, "_temp");
    mkdirSync(this.folder, { recursive: true });
    mkdirSync(this.#temp, { recursive: true });
  }

  /** What the real runner sets for a step; the job's token only where the step names `${{ github.token }}`. */
  #env(step: Readonly<Record<string, string>>): Record<string, string> {
    const job = this.#job;
    const own = Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined);
    const given = { ...job.env, ...this.#added, ...step };
    return {
      ...Object.fromEntries(own),
      CI: "true",
      GITHUB_ACTIONS: "true",
      GITHUB_ACTOR: job.actor,
      GITHUB_API_URL: job.apiUrl,
      GITHUB_ENV: join(this.#temp, "env"),
      GITHUB_EVENT_NAME: job.eventName,
      GITHUB_JOB: job.jobName,
      GITHUB_OUTPUT: join(this.#temp, "output"),
      GITHUB_REF: job.ref,
      GITHUB_REPOSITORY: job.repository,
      GITHUB_REPOSITORY_ID: String(job.repositoryId),
      GITHUB_RUN_ATTEMPT: String(job.runAttempt),
      GITHUB_RUN_ID: String(job.runId),
      GITHUB_RUN_NUMBER: String(job.runNumber),
      GITHUB_SERVER_URL: job.serverUrl,
      GITHUB_SHA: job.sha,
      GITHUB_STEP_SUMMARY: join(this.#temp, "summary"),
      GITHUB_WORKFLOW: job.workflow,
      GITHUB_WORKFLOW_REF: job.workflowRef,
      GITHUB_WORKSPACE: this.folder,
      RUNNER_OS: "Linux",
      RUNNER_TEMP: this.#temp,
      ...Object.fromEntries(
        Object.entries(given).map(([name, value]) => [name, value.replaceAll("${{ github.token }}", job.token)]),
      ),
    };
  }

  command(
    argv: readonly string[],
    stepEnv: Readonly<Record<string, string>>,
    cancelled: AbortSignal,
  ): Promise<CommandOutcome> {
    const onGroup = (group: number): void => void this.#groups.push(group);
    return runCommand(argv, { cwd: this.folder, env: this.#env(stepEnv), cancelled, onGroup });
  }

  /** Ends what the steps left running. */
  close(): void {
    for (const group of this.#groups) signalGroup(group, "SIGKILL");
  }

  async run(step: StepMessage, cancelled: AbortSignal): Promise<CommandOutcome> {
    if (step.run === undefined) return { ...(await pretend(step, cancelled)), annotations: [], output: "" };
    for (const file of ["env", "output", "summary"]) writeFileSync(join(this.#temp, file), "");
    const script = join(this.#temp, `step-${step.number}.sh`);
    writeFileSync(script, step.run);
    const argv = ["--noprofile", "--norc", "-eo", "pipefail", script];
    const result = await this.command(argv, step.env, cancelled);
    // `NAME=value` lines a step left for the steps after it.
    for (const line of readFileSync(join(this.#temp, "env"), "utf8").split("\n")) {
      const at = line.indexOf("=");
      if (at > 0) this.#added[line.slice(0, at)] = line.slice(at + 1);
    }
    return result;
  }
}

/** A step without a command: time passes, and its script says how it ends. */
function pretend(step: StepMessage, cancelled: AbortSignal): Promise<Pick<CommandOutcome, "outcome">> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      cancelled.removeEventListener("abort", end);
      resolve({ outcome: cancelled.aborted ? "cancelled" : step.conclusion });
    };
    const timer = setTimeout(end, step.sleepMs);
    cancelled.addEventListener("abort", end, { once: true });
    if (cancelled.aborted) end();
  });
}
