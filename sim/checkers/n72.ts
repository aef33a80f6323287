/**
 * N72: registrations of ours do not pile up at GitHub. Once everything is at rest none is left that is offline, whatever GitHub
 * said to the orders to remove it; nobody else's runner is ever ordered gone, and none of ours that its attempt still needs.
 */
import { leftRegistrations } from "../github-runners.ts";
import type { GateHost } from "../hosts.ts";
import { isRetained, podsOf, type Checker, type WorldView } from "../view.ts";

export function n72(): Checker {
  return {
    name: "N72",
    performing(world, operation, request) {
      if (operation !== "deleteRunner") return null;
      const id = request.path.split("/").at(-1) ?? "";
      const theirs = world.github.repositories.flatMap(({ ownRunners }) => ownRunners).find((one) => one.id === id);
      if (theirs !== undefined) return `${theirs.name}, a runner of the maintainers' own, is ordered gone`;
      for (const host of world.hosts) {
        const runner = host.repository.runners.get(id);
        const needed = runner === undefined ? null : neededBy(world, host, runner);
        if (needed !== null) return `the runner ${runner?.name} is ordered gone, and ${needed}`;
      }
      return null;
    },
    end(world) {
      for (const { repository } of world.hosts) {
        // Where the App has no place nobody can remove anything.
        const left = repository.standing === "ok" ? leftRegistrations(repository)[0] : undefined;
        if (left !== undefined) return `the runner ${left.name} is still registered in ${repository.name}`;
      }
      return null;
    },
  };
}

/** What of a request's record says whether it may order its own runner gone. */
interface Standing {
  readonly state?: {
    readonly step?: string;
    readonly attempt?: { readonly id?: string } | null;
    readonly teardown?: object | null;
  };
}

/** Why this runner's attempt still needs it; null when it does not. Told by what is stored, since a teardown orders the same. */
function neededBy(
  world: WorldView,
  host: GateHost,
  runner: { readonly id: string; readonly name: string },
): string | null {
  const attempt = host.sql.exec<{ id: string; request_id: string }>(
    "SELECT id, request_id FROM attempts WHERE runner_id = ? OR pod_name = ?",
    runner.id,
    runner.name,
  )[0];
  if (attempt === undefined) return null;
  const row = host.sql.exec<{ record: string }>("SELECT record FROM requests WHERE id = ?", attempt.request_id)[0];
  const state = row === undefined ? undefined : standingOf(row.record).state;
  // Before it mints again an attempt removes what an unanswered mint of its own registered.
  if (state?.attempt?.id === attempt.id) {
    const over = (state.teardown ?? null) !== null || state.step === "find-runner";
    return over ? null : `its attempt ${attempt.id} has not come to its teardown`;
  }
  const lines = host.sql.exec<{ pod_id: string }>(
    "SELECT pod_id FROM ledger WHERE attempt_id = ? AND closed_at IS NULL",
    attempt.id,
  );
  const living = podsOf(world, host.repository.id).find(
    (pod) => lines.some((line) => line.pod_id === pod.id) && pod.releasedAt === null && pod.deletes.length === 0,
  );
  // One that is kept for debugging outlives its request, whose order may have been on its way for long.
  if (living === undefined || isRetained(world, living, Infinity) || host.destroyedRecords.has(living.id)) return null;
  return `its pod ${living.id} was never ordered deleted`;
}

/** A record that was damaged says nothing. */
function standingOf(record: string): Standing {
  try {
    return JSON.parse(record) as Standing;
  } catch {
    return {};
  }
}
