/**
 * I8: a run of ours is cancelled only after its pod is gone, and only when the last read before showed exactly this attempt,
 * unfinished.
 */
import { EXECUTE, PREPARE, type Repository } from "../github-model.ts";
import { podsOf, type Checker } from "../view.ts";

export function i8(): Checker {
  const seen = new Map<Repository, number>();
  return {
    name: "I8",
    step(world) {
      for (const repository of world.github.repositories) {
        for (const cancel of repository.cancels.slice(seen.get(repository) ?? 0)) {
          const { run } = cancel;
          if (cancel.lastRead === null) return `run ${run.id} is cancelled without having been read`;
          // Above the first it is the uninvited attempt of a run of ours, which is the only other cancel there is.
          if (cancel.lastRead.attempt !== 1 && run.path !== EXECUTE && run.path !== PREPARE)
            return `attempt ${cancel.lastRead.attempt} of run ${run.id} is cancelled; it is nobody's of ours`;
          if (cancel.attempt !== cancel.lastRead.attempt && !world.faults.plan.weights.has("user-reruns"))
            return `attempt ${cancel.attempt} of run ${run.id} is cancelled; ${cancel.lastRead.attempt} was read`;
          if (cancel.lastRead.status === "completed")
            return `run ${run.id} is cancelled although it was read as completed`;
          if (run.path !== EXECUTE) continue;
          const pod = podsOf(world, repository.id).find(
            (one) => one.env["GPU_GATE_RUN_ID"] === run.id && !one.late && one.createdAt <= cancel.at,
          );
          if (pod !== undefined && (pod.releasedAt === null || pod.releasedAt > cancel.at)) {
            return `run ${run.id} is cancelled before its pod ${pod.id} is gone`;
          }
        }
        seen.set(repository, repository.cancels.length);
      }
      return null;
    },
  };
}
