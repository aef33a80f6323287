/**
 * A run is ours by where it comes from, and not by its name: nothing of one that somebody else started under our run's name is
 * read, nothing is bought for it, and it is never cancelled.
 */
import type { NetRequest } from "../net.ts";
import type { Checker, WorldView } from "../view.ts";

/** Calls that name a run which the gate takes for its own. */
const ABOUT_A_RUN: ReadonlySet<string> = new Set([
  "getRun",
  "getRunAttempt",
  "listJobs",
  "listArtifacts",
  "cancelRun",
  "createPod",
]);

export function ownRuns(): Checker {
  return {
    name: "runs",
    performing(world, operation, request) {
      if (!ABOUT_A_RUN.has(operation) || !request.caller.startsWith("gate")) return null;
      const id = operation === "createPod" ? runOfPod(request) : /\/actions\/runs\/(\d+)/.exec(request.path)?.[1];
      return id !== undefined && isLookAlike(world, id)
        ? `${operation} of run ${id}, which somebody else started under our run's name`
        : null;
    },
  };
}

function runOfPod(request: NetRequest): string | undefined {
  const { env } = JSON.parse(request.body) as { env: Record<string, string> };
  return env["GPU_GATE_RUN_ID"];
}

function isLookAlike(world: Pick<WorldView, "github">, id: string): boolean {
  return world.github.repositories.some((repository) => repository.runs.get(id)?.lookAlike === true);
}
