/** I12: a gate that finds a newer schema buys nothing, starts nothing and writes nothing; it still loses its pods in time (I3). */
import type { Checker } from "../view.ts";

const FORBIDDEN = new Set(["createPod", "dispatch", "mint", "createCheck", "updateCheck", "cancelRun"]);

export function i12(): Checker {
  return {
    name: "I12",
    performing(world, operation, request) {
      if (!FORBIDDEN.has(operation)) return null;
      const host = world.hosts.find((one) => request.caller === `gate ${one.repository.id}`);
      // What was sent before the instance ended may still arrive.
      if (host === undefined || !host.up || !host.gate.readOnly || request.askedAt <= host.startedAt) return null;
      return `a read-only gate performs ${operation}`;
    },
  };
}
