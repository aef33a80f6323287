/**
 * What `recover` and `validate` do alike: a trusted workflow is started in the user's own name at the default branch, and its
 * verdict is waited for if asked. What is started, and how its own arguments read, is each command's.
 */
import { EXIT_NO, EXIT_OK, type Io } from "./command.ts";
import {
  awaitVerdict,
  dispatch,
  readTrusted,
  secondsOption,
  type Dispatch,
  type Problem,
  type Trusted,
} from "./dispatch.ts";
import { keepInput } from "./keep.ts";
import { repositoryHere, userGitHub, userToken } from "./user-github.ts";
import type { GitHubClient } from "../shared/github/client.ts";
import type { Result } from "../shared/result.ts";

/** The options of both, for `parseArgs`. */
export const START_OPTIONS = {
  keep: { type: "string" },
  wait: { type: "boolean", default: false },
  repository: { type: "string" },
  poll: { type: "string", default: "15" },
  timeout: { type: "string", default: "36000" },
} as const;

interface StartValues {
  readonly keep?: string | undefined;
  readonly wait: boolean;
  readonly repository?: string | undefined;
  readonly poll: string;
  readonly timeout: string;
}

export interface Started extends Dispatch {
  /** Behind the run's number in the line that says it was started; empty for nothing. */
  readonly about: string;
}

/**
 * Starts what `choose` names. Gives the exit code: with `--wait` the verdict's, else whether a run was started. Unusable
 * values are a UsageError; everything else that goes wrong is one sentence on stderr.
 */
export async function startTrusted(
  command: string,
  values: StartValues,
  io: Io,
  choose: (trusted: Trusted, client: GitHubClient) => Promise<Result<Started, Problem>>,
): Promise<number> {
  const keep = keepInput(values.keep);
  const pollMs = secondsOption(values.poll, "--poll");
  const timeoutMs = secondsOption(values.timeout, "--timeout");
  const repository = await repositoryHere(values.repository, io);
  const fail = (problem: Problem): number => {
    io.stderr(`gpu-gate ${command}: ${problem}\n`);
    return EXIT_NO;
  };

  const token = await userToken(io);
  if (!token.ok) return fail(token.error);
  const client = userGitHub(io, token.value, repository);
  const trusted = await readTrusted(client);
  if (!trusted.ok) return fail(trusted.error);
  const chosen = await choose(trusted.value, client);
  if (!chosen.ok) return fail(chosen.error);
  const { workflow, inputs, runName, about } = chosen.value;
  const run = await dispatch({ workflow, inputs: { ...inputs, ...keep }, runName }, trusted.value, client, io, pollMs);
  if (!run.ok) return fail(run.error);
  io.stdout(`Started ${workflow} at ${trusted.value.defaultBranch}: run ${run.value}${about}\n`);
  if (!values.wait) return EXIT_OK;
  const waiting = { runId: run.value, checkName: trusted.value.config.check.name, pollMs, timeoutMs };
  const verdict = await awaitVerdict(waiting, client, io);
  if (!verdict.ok) return fail(verdict.error);
  return verdict.value ? EXIT_OK : EXIT_NO;
}
