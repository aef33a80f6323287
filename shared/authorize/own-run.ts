/**
 * Finds a run that we started and whose start was not answered. Request ids are public, and with them the run's name: a writer
 * may start a workflow file of their own under it, at a branch or a tag. So the name only narrows the list, and where the run
 * comes from decides (`run-origin.ts`): the exact file, at the default branch of this repository, dispatched, by ourselves.
 */
import type { Run } from "../github/actions.ts";
import type { GitHubClient } from "../github/client.ts";
import { describeFailure } from "../github/failure.ts";
import type { FindRunOutcome } from "../lifecycle/tasks.ts";
import { comesFrom, type RunOrigin } from "../policy/run-origin.ts";
import type { Millis } from "../ports.ts";

export type OwnRunPort = Pick<GitHubClient, "findRunsByName" | "getOwnLogin">;

export interface OwnRun {
  /** By its numeric id, as GitHub's runs name it. */
  readonly repositoryId: string;
  /** Path of the workflow file. */
  readonly workflowPath: string;
  /** The branch that it was dispatched at: the default branch. */
  readonly branch: string;
  /** The run's whole name. */
  readonly name: string;
  /** Not made before then. */
  readonly since: Millis;
}

const DISPATCHED: ReadonlySet<string> = new Set(["workflow_dispatch"]);

/**
 * `none`: GitHub lists no such run, and showed its whole list. Unknown is everything else that is not exactly one run: a
 * failed read, a cut list, and two runs of which nobody can say which was meant.
 */
export async function findOwnRun(port: OwnRunPort, wanted: OwnRun): Promise<FindRunOutcome> {
  const file = wanted.workflowPath.split("/").at(-1) ?? "";
  const listed = await port.findRunsByName(file, wanted.name, wanted.since);
  if (!listed.ok) return { kind: "unknown", why: describeFailure(listed.error) };
  const trusted = {
    repository: wanted.repositoryId,
    workflowPaths: new Set([wanted.workflowPath]),
    events: DISPATCHED,
    branch: wanted.branch,
    actor: null,
  };
  const there = listed.value.items.filter((run) => comesFrom(originOf(run), trusted));
  const none = (): FindRunOutcome =>
    listed.value.complete ? { kind: "none" } : { kind: "unknown", why: "the list of runs was cut" };
  if (there.length === 0) return none();
  const login = await port.getOwnLogin();
  if (!login.ok) return { kind: "unknown", why: `who started the run of this name: ${describeFailure(login.error)}` };
  const [run, second] = there.filter((one) => comesFrom(originOf(one), { ...trusted, actor: login.value }));
  if (run === undefined) return none();
  if (second === undefined) return { kind: "found", runId: run.id };
  return { kind: "unknown", why: `runs ${run.id} and ${second.id} have the same name and the same beginning` };
}

function originOf(run: Run): RunOrigin {
  return {
    workflowPath: run.path,
    event: run.event,
    headRepository: run.headRepositoryId,
    headBranch: run.headBranch,
    actor: run.actor?.login ?? null,
  };
}
