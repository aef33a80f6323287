/** I7: every request ends in a concluded check with a reason from the list, and every open head has its answer. */
import { isReasonCode } from "../../shared/audit/reasons.ts";
import type { Millis } from "../../shared/ports.ts";
import { APP_ID, type Repository } from "../github-model.ts";
import type { Checker } from "../view.ts";

/** The App was thrown out while this request lived, or came back later than a verdict is still worth saying. */
function wasSilent(repository: Repository, since: Millis): boolean {
  return repository.silences.some((one) => one.until === null || one.until > since);
}

export function i7(): Checker {
  return {
    name: "I7",
    wrote(_world, _repository, check) {
      return check.status === "completed" && check.conclusion === null
        ? "a check was completed without a conclusion"
        : null;
    },
    end(world) {
      for (const host of world.hosts) {
        const { repository } = host;
        const checks = [...repository.checks.values()].filter((check) => check.appId === APP_ID);
        const unfinished = checks.find((check) => check.status !== "completed");
        // Where the App may not speak any more nobody can be told: the audit says so.
        if (repository.standing !== "ok") continue;
        if (unfinished !== undefined) return `check ${unfinished.externalId ?? "?"} hangs as ${unfinished.status}`;
        for (const request of host.gate.store.recentRequests(1000)) {
          const { state } = request;
          if (state.kind !== "concluded") return `${request.id} is still ${state.kind}`;
          if (!isReasonCode(state.verdict.reason))
            return `${request.id} ended for '${state.verdict.reason}', which is no reason code`;
          const series = checks.filter((check) => check.externalId?.startsWith(`${request.id}:`) === true);
          if (series.length === 0 && !wasSilent(repository, request.openedAt)) return `${request.id} has no check`;
        }
        for (const pull of repository.pulls.values()) {
          if (pull.state !== "open") continue;
          const told = checks.some((check) => check.headSha === pull.headSha);
          if (!told) return `the head of #${pull.number} never got a check`;
        }
      }
      return null;
    },
  };
}
