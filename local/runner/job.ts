/**
 * One job from its first step to its conclusion, as the real runner goes about it: the job-started hook, then the steps in
 * order, each a child process; after a failure or a cancel only those that ask for it.
 *
 * An interpreted job's steps come one by one: the server decides after each result. A script's job brings them all.
 */

import { Services } from "../machine/services.ts";
import { annotationsIn } from "../machine/workflow-commands.ts";
import { playSteps, type JobConclusion, type StepDone } from "../machine/work.ts";
import { Workplace } from "../machine/workplace.ts";
import type { JobMessage, Report, ServerClient, StepMessage } from "./client.ts";

/** Between two heartbeats; each also asks whether the job has been cancelled. */
const heartbeatMs = 250;

export async function runJob(server: ServerClient, job: JobMessage, workRoot: string): Promise<JobConclusion> {
  const cancel = new AbortController();
  const own = Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const work = new Workplace({
    facts: job.facts,
    root: workRoot,
    inherited: Object.fromEntries(own),
    services: new Services((ask) => server.service(job.jobId, ask)),
    onOutput: (chunk) => void process.stdout.write(chunk),
  });
  const heartbeat = setInterval(() => {
    server.report(job.jobId, {}).then(
      (answer) => answer.cancel && cancel.abort(),
      () => {},
    );
  }, heartbeatMs);
  const tell = async (report: Report): Promise<void> => {
    if ((await server.report(job.jobId, report)).cancel) cancel.abort();
  };
  try {
    await tell({ steps: [{ number: 1, name: "Set up job", status: "completed", conclusion: "success" }] });
    const refused = await runHook(work, tell, cancel.signal);
    if (refused !== null) {
      // A stranger's job ends here, before any of its steps, the always-running ones included.
      const rest = job.steps.map(
        (step) => ({ number: step.number, name: step.name, status: "completed", conclusion: "skipped" }) as const,
      );
      await tell({ steps: rest });
      return refused;
    }
    if (!job.interpreted) return await playScript(job, work, tell, cancel.signal);
    return await playSteps({
      places: work.places,
      next: (ask) => server.next(job.jobId, ask),
      perform: (step, cancelled) => work.perform(step, cancelled),
      cancelled: cancel.signal,
    });
  } finally {
    clearInterval(heartbeat);
    work.close();
  }
}

type Tell = (report: Report) => Promise<void>;

/** Runs the machine's job-started hook. Null when there is none or it lets the job in; else how the job ends. */
async function runHook(work: Workplace, tell: Tell, cancelled: AbortSignal): Promise<"failure" | "cancelled" | null> {
  const hook = process.env["ACTIONS_RUNNER_HOOK_JOB_STARTED"] ?? "";
  if (hook === "") return null;
  const name = "Set up runner";
  await tell({ steps: [{ name, status: "in_progress", conclusion: null }] });
  const { outcome, output } = await work.command([hook], {}, cancelled);
  await tell({
    steps: [{ name, status: "completed", conclusion: outcome }],
    annotations: annotationsIn(output),
    log: output,
  });
  return outcome === "success" ? null : outcome;
}

async function playScript(
  job: JobMessage,
  work: Workplace,
  tell: Tell,
  cancelled: AbortSignal,
): Promise<JobConclusion> {
  let failed = false;
  const added: Record<string, string> = {};
  for (const step of job.steps) {
    const { number, name } = step;
    if ((failed || cancelled.aborted) && !step.always) {
      await tell({ steps: [{ number, name, status: "completed", conclusion: "skipped" }] });
      continue;
    }
    await tell({ steps: [{ number, name, status: "in_progress", conclusion: null }] });
    // An always-running step goes on after a cancel, so it is not stopped by the one that came before it.
    const stop = step.always && cancelled.aborted ? new AbortController().signal : cancelled;
    const result =
      step.run === undefined
        ? await pretend(step, stop)
        : await work.perform(
            {
              kind: "run",
              index: number,
              name,
              script: step.run,
              pipefail: true,
              workingDirectory: null,
              timeoutMinutes: null,
              env: withToken({ ...job.env, ...added, ...step.env }, job.facts.token),
            },
            stop,
          );
    Object.assign(added, result.env);
    failed ||= result.outcome === "failure";
    await tell({
      steps: [{ number, name, status: "completed", conclusion: result.outcome }],
      annotations: result.annotations,
      log: result.log,
    });
  }
  return cancelled.aborted ? "cancelled" : failed ? "failure" : "success";
}

/** The job's token, only where a step names it. */
function withToken(env: Readonly<Record<string, string>>, token: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).map(([name, value]) => [name, value.replaceAll("${{ github.token }}", token)]),
  );
}

type ScriptedResult = Pick<StepDone, "outcome" | "annotations" | "log" | "env">;

/** A step without a command: time passes, and its script says how it ends. */
function pretend(step: StepMessage, cancelled: AbortSignal): Promise<ScriptedResult> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      cancelled.removeEventListener("abort", end);
      resolve({ outcome: cancelled.aborted ? "cancelled" : step.conclusion, annotations: [], log: "", env: {} });
    };
    const timer = setTimeout(end, step.sleepMs);
    cancelled.addEventListener("abort", end, { once: true });
    if (cancelled.aborted) end();
  });
}
