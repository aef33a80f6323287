/**
 * Starting a trusted workflow by hand and waiting for its verdict: shared by `recover` and `validate`.
 *
 * Always at the default branch: nothing here takes a workflow ref. What is waited for is GitHub's own word, step by step:
 * the dispatched run, the note in which it says which request is ours, then that request's check by that App. A check of
 * the same name by anybody else says nothing.
 */
import { setTimeout as pause } from "node:timers/promises";
import { findOwnRun } from "../shared/authorize/own-run.ts";
import { parseRepositoryConfig, problemText } from "../shared/config/load.ts";
import { CONFIG_PATH, type RepositoryConfig } from "../shared/config/schema.ts";
import type { CheckRun } from "../shared/github/checks.ts";
import type { GitHubClient } from "../shared/github/client.ts";
import { describeFailure, failureClass, type GitHubFailure } from "../shared/github/failure.ts";
import { safeText } from "../shared/http.ts";
import { REQUEST_ID } from "../shared/lifecycle/request-id.ts";
import type { Millis } from "../shared/ports.ts";
import { err, ok, type Result } from "../shared/result.ts";
import { outOfMarkdown } from "../shared/text.ts";
import { UsageError, type Io } from "./command.ts";

/** What the default branch says, as the control plane reads it. */
export interface Trusted {
  readonly repositoryId: string;
  readonly defaultBranch: string;
  readonly config: RepositoryConfig;
}

/** Why it did not work, one sentence. */
export type Problem = string;

export async function readTrusted(client: GitHubClient): Promise<Result<Trusted, Problem>> {
  const repository = await client.getRepository();
  if (!repository.ok) return err(asked("the repository", repository.error));
  const { id: repositoryId, defaultBranch } = repository.value;
  const file = await client.getFile(CONFIG_PATH, defaultBranch);
  if (!file.ok) {
    if (file.error.reason === "not-found") return err(`there is no ${CONFIG_PATH} on ${defaultBranch}.`);
    return err(asked(CONFIG_PATH, file.error));
  }
  const config = parseRepositoryConfig(file.value.text);
  if (config.ok) return ok({ repositoryId, defaultBranch, config: config.value });
  return err(config.error.map((problem) => problemText(problem, `${defaultBranch}:${CONFIG_PATH}`)).join(" "));
}

export interface Dispatch {
  /** Path of the workflow file on the default branch. */
  readonly workflow: string;
  readonly inputs: Readonly<Record<string, string>>;
  /** The run's name, by which a dispatch with a lost answer is found. */
  readonly runName: string;
}

/** How long a dispatch whose answer was lost is looked for. It is never repeated: two runs are two requests. */
const LOOK_UP_MS: Millis = 120_000;

export async function dispatch(
  what: Dispatch,
  trusted: Trusted,
  client: GitHubClient,
  io: Io,
  pollMs: Millis,
): Promise<Result<string, Problem>> {
  const since = io.now();
  const answer = await client.dispatchWorkflow(what.workflow, trusted.defaultBranch, what.inputs);
  if (answer.ok && answer.value.runId !== null) return ok(answer.value.runId);
  if (!answer.ok && !mayHaveStarted(answer.error)) return err(asked(`a run of ${what.workflow}`, answer.error));
  io.stderr("GitHub's answer to the dispatch was lost; looking for the run instead of starting another.\n");
  const wanted = {
    repositoryId: trusted.repositoryId,
    workflowPath: what.workflow,
    branch: trusted.defaultBranch,
    name: what.runName,
    // A minute of slack: GitHub's clock is not this machine's.
    since: since - 60_000,
  };
  let why = "";
  do {
    const found = await findOwnRun(client, wanted);
    if (found.kind === "found") return ok(found.runId);
    why = found.kind === "unknown" ? ` (${found.why})` : "";
    await pause(pollMs);
  } while (io.now() - since < LOOK_UP_MS);
  return err(
    `no run of ${what.workflow} that is yours alone appeared${why}. Look at the Actions tab before starting another.`,
  );
}

function mayHaveStarted(failure: GitHubFailure): boolean {
  return failure.reason === "server" || failure.reason === "transport" || failure.reason === "unreadable";
}

export interface Waiting {
  readonly runId: string;
  readonly checkName: string;
  readonly pollMs: Millis;
  readonly timeoutMs: Millis;
}

/** Waits for the verdict, telling each change. True: the check is green. */
export async function awaitVerdict(what: Waiting, client: GitHubClient, io: Io): Promise<Result<boolean, Problem>> {
  const began = io.now();
  const deadline = began + what.timeoutMs;
  const say = teller(io, began);
  const request = await awaitRequest(what, client, say, deadline, io);
  if (!request.ok) return request;
  say(`request ${request.value.id}, check on ${request.value.headSha}`);
  for (;;) {
    const listed = await client.listCheckRunsForRef(request.value.headSha, {
      filter: "all",
      name: what.checkName,
      appId: request.value.appId,
    });
    if (!listed.ok && failureClass(listed.error) !== "retry-later") return err(asked("the check", listed.error));
    const ours = listed.ok ? newestOf(listed.value.items, request.value) : undefined;
    if (!listed.ok) say(`GitHub does not answer (${describeFailure(listed.error)})`);
    if (ours !== undefined) {
      say(`${ours.status === "completed" ? (ours.conclusion ?? "completed") : ours.status}: ${ours.title ?? ""}`);
      if (ours.status === "completed") return ok(finish(ours, io));
    }
    if (io.now() >= deadline)
      return err(late(what, `The check goes on by itself: ${ours?.htmlUrl ?? "see the commit"}`));
    await pause(what.pollMs);
  }
}

interface Request {
  readonly id: string;
  readonly appId: string;
  /** The commit that gets the check, as the control plane read it: a push may have come in between. */
  readonly headSha: string;
}

/** The dispatched run has to end well, and its note names the request. */
async function awaitRequest(
  what: Waiting,
  client: GitHubClient,
  say: (text: string) => void,
  deadline: Millis,
  io: Io,
): Promise<Result<Request, Problem>> {
  for (;;) {
    const run = await client.getRun(what.runId);
    if (!run.ok && failureClass(run.error) !== "retry-later") return err(asked(`run ${what.runId}`, run.error));
    if (run.ok) {
      const { status, conclusion, attempt, htmlUrl } = run.value;
      if (attempt > 1) return err(`run ${what.runId} was re-run by somebody; a re-run is never accepted. ${htmlUrl}`);
      if (status === "completed") {
        if (conclusion !== "success") return err(`the run ended as ${conclusion ?? "nothing"}: ${htmlUrl}`);
        const request = await noteOf(what.runId, client);
        if (request !== "none-yet") return request;
      }
      say(`run ${what.runId}: ${status ?? "unknown"}`);
    }
    if (io.now() >= deadline) return err(late(what, "The run has not said which request it asked for."));
    await pause(what.pollMs);
  }
}

/** The title of the note in the recovery and validation workflows. */
const NOTE_TITLE = "gpu-gate request";
const NOTE = new RegExp(`^(${REQUEST_ID}) of App (\\d+) at ([0-9a-f]{40,64})$`);

async function noteOf(runId: string, client: GitHubClient): Promise<Result<Request, Problem> | "none-yet"> {
  const jobs = await client.listJobs(runId, 1);
  if (!jobs.ok)
    return failureClass(jobs.error) === "retry-later" ? "none-yet" : err(asked("the run's jobs", jobs.error));
  for (const { checkRunId } of jobs.value.items) {
    if (checkRunId === null) continue;
    const notes = await client.getCheckRunAnnotations(checkRunId);
    if (!notes.ok)
      return failureClass(notes.error) === "retry-later" ? "none-yet" : err(asked("the run's note", notes.error));
    for (const { title, message } of notes.value.items) {
      const [, id, appId, headSha] = (title === NOTE_TITLE ? NOTE.exec(message ?? "") : null) ?? [];
      if (id !== undefined && appId !== undefined && headSha !== undefined) return ok({ id, appId, headSha });
    }
  }
  return err("the run ended without naming its request: copy the current workflow files to the default branch.");
}

/** The gate writes `<request>:<series>` into its checks; the newest series has the last word. */
function newestOf(runs: readonly CheckRun[], request: Request): CheckRun | undefined {
  const series = (run: CheckRun): number => {
    const [id, number] = (run.externalId ?? "").split(":");
    return id === request.id && run.appId === request.appId ? Number(number) : -1;
  };
  return runs.filter((run) => series(run) >= 0).toSorted((a, b) => series(b) - series(a))[0];
}

function finish(check: CheckRun, io: Io): boolean {
  if (check.summary !== null) io.stdout(`${plain(check.summary)}\n`);
  if (check.htmlUrl !== null) io.stdout(`${check.htmlUrl}\n`);
  return check.conclusion === "success";
}

/** The check's text on a terminal: lines kept, control characters and Markdown's escapes gone. */
function plain(text: string): string {
  return text
    .split("\n")
    .map((line) => safeText(outOfMarkdown(line), 500))
    .join("\n")
    .trim();
}

/** Prints a line when it differs from the last, with the time that has passed. */
function teller(io: Io, began: Millis): (text: string) => void {
  let last = "";
  return (text) => {
    if (text === last) return;
    last = text;
    const seconds = Math.round((io.now() - began) / 1000);
    io.stdout(
      `${String(Math.floor(seconds / 60)).padStart(3)}:${String(seconds % 60).padStart(2, "0")}  ${safeText(text)}\n`,
    );
  };
}

function asked(what: string, failure: GitHubFailure): Problem {
  if (failure.reason === "not-found")
    return `GitHub has no ${what.replace(/^(?:the|a) /, "")} that your token can see.`;
  return `GitHub did not give ${what}: ${describeFailure(failure)}`;
}

function late(what: Waiting, then: string): Problem {
  return `no verdict within ${Math.round(what.timeoutMs / 1000)} s. ${then}`;
}

/** `--poll` and `--timeout`, in seconds. */
export function secondsOption(text: string, option: string): Millis {
  if (!/^\d{1,6}(?:\.\d{1,3})?$/.test(text))
    throw new UsageError(`${option} takes a number of seconds, not '${text}'.`);
  return Math.round(Number(text) * 1000);
}
