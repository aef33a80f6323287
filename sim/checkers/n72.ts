/**
 * N72: registrations of ours do not pile up at GitHub. Once everything is at rest none is left that is offline, whatever GitHub
 * said to the orders to remove it; and nobody else's runner is ever ordered gone.
 */
import { leftRegistrations } from "../github-runners.ts";
import type { Checker } from "../view.ts";

export function n72(): Checker {
  return {
    name: "N72",
    performing(world, operation, request) {
      if (operation !== "deleteRunner") return null;
      const id = request.path.split("/").at(-1) ?? "";
      const theirs = world.github.repositories.flatMap(({ ownRunners }) => ownRunners).find((one) => one.id === id);
      return theirs === undefined ? null : `${theirs.name}, a runner of the maintainers' own, is ordered gone`;
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
