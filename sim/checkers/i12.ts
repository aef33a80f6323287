/**
 * I12: stored state of the last two schema versions loads: a gate on it works. One that finds a newer schema buys nothing,
 * starts nothing and writes nothing; it still loses its pods in time (I3).
 */
import { SCHEMA_VERSION } from "../../durable-objects/gate/schema.ts";
import type { GateHost } from "../hosts.ts";
import type { Checker } from "../view.ts";

/** What a gate may do at the providers while it may not write: read, and order pods gone. */
const ALLOWED = new Set(["deletePod", "getPod", "getPodLogs", "listPods", "installationToken", "installation"]);

export function i12(): Checker {
  /** Of each read-only instance, by its start: what had been written when it was first seen. */
  const found = new Map<GateHost, { readonly startedAt: number; readonly writes: number }>();
  return {
    name: "I12",
    performing(world, operation, request) {
      if (request.method === "GET" || ALLOWED.has(operation)) return null;
      const host = world.hosts.find((one) => request.caller === `gate ${one.repository.id}`);
      // What was sent before the instance ended may still arrive.
      if (host === undefined || !host.up || !host.gate.readOnly || request.askedAt <= host.startedAt) return null;
      return `a read-only gate performs ${operation}`;
    },
    step(world) {
      for (const host of world.hosts) {
        if (!host.up || !host.gate.readOnly) {
          found.delete(host);
          continue;
        }
        const before = found.get(host);
        if (before === undefined || before.startedAt !== host.startedAt) {
          found.set(host, { startedAt: host.startedAt, writes: host.writes });
          const version = stored(host);
          if (version <= SCHEMA_VERSION) return `a gate takes its own schema ${version} for a newer one`;
        } else if (before.writes !== host.writes && stored(host) > SCHEMA_VERSION) {
          return "a read-only gate writes";
        }
      }
      return null;
    },
    end(world) {
      for (const host of world.hosts) {
        if (host.up && host.gate.readOnly)
          return `${host.repository.name} is read-only, though its schema is ours again`;
        if (stored(host) !== SCHEMA_VERSION) return `${host.repository.name} is left on schema ${stored(host)}`;
      }
      return null;
    },
  };
}

function stored(host: GateHost): number {
  return host.sql.exec<{ version: number }>("SELECT version FROM schema_version WHERE id = 1")[0]?.version ?? 0;
}
