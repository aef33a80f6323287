/** The run that a pod names, read in the repository as the account's register has it, and reduced to what the reaper asks. */
import type { GatePorts } from "../durable-objects/gate/ports.ts";
import { describeFailure } from "../shared/github/failure.ts";
import type { RunView } from "../shared/lifecycle/reap.ts";
import type { RepositoryRef } from "../shared/lifecycle/signal.ts";
import { messageOf } from "./wake-gates.ts";

/** Never throws: whatever goes wrong is a run that nobody could read. */
export async function readRun(
  registered: () => Promise<readonly RepositoryRef[]>,
  clientFor: GatePorts["github"],
  repositoryId: string,
  runId: string,
): Promise<RunView> {
  try {
    const known = (await registered()).find((one) => one.id === repositoryId);
    if (known === undefined) return { kind: "unknown", what: "no register has the name of the pod's repository" };
    const answer = await clientFor(known, null, { kind: "repository" }).getRun(runId);
    if (answer.ok) {
      const { id, attempt, status, path, updatedAt, repositoryId: repository } = answer.value;
      return {
        kind: "read",
        runId: id,
        attempt,
        status: status ?? "unknown",
        workflowPath: path,
        repository,
        updatedAt,
      };
    }
    // A repository that the App no longer sees answers 404 as well: the pod then has two looks and its gate's word.
    if (answer.error.reason === "not-found" || answer.error.reason === "gone") return { kind: "gone" };
    return { kind: "unknown", what: `its run could not be read: ${describeFailure(answer.error)}` };
  } catch (error) {
    return { kind: "unknown", what: `its run could not be read: ${messageOf(error)}` };
  }
}

/** Asks at most once; a failure is asked again. */
export function once<T>(ask: () => Promise<T>): () => Promise<T> {
  let answer: Promise<T> | null = null;
  return () => {
    answer ??= ask().catch((error: unknown) => {
      answer = null;
      throw error;
    });
    return answer;
  };
}
