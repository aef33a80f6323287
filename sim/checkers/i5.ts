/**
 * I5: no secret where it does not belong. Every secret that exists in this world is known to its providers; none may stand
 * in what is sent to GitHub, in a log line, or in an address, and a pod gets what is on the list and nothing else.
 */
import { POD_ENV, POD_FACTS } from "../../shared/runpod/create-body.ts";
import { GPU_GATE_TAGS } from "../../shared/runpod/tags.ts";
import type { NetRequest } from "../net.ts";
import type { Checker, WorldView } from "../view.ts";

const ALLOWED = new Set<string>([
  ...Object.values(POD_ENV),
  ...Object.values(POD_FACTS),
  ...Object.values(GPU_GATE_TAGS),
]);

export function i5(): Checker {
  let read = 0;
  return {
    name: "I5",
    performing(world, operation, request) {
      const secrets = secretsOf(world);
      const place = secretIn(secrets, `${request.path}?${request.query.toString()}`);
      if (place) return `the address of ${operation} holds a secret`;
      if (operation === "createPod") return createProblem(world, request);
      return secretIn(secrets, request.body) ? `${operation} sends a secret` : null;
    },
    step(world) {
      if (read === world.log.length) return null;
      const secrets = secretsOf(world);
      for (; read < world.log.length; read += 1) {
        const line = world.log[read] ?? "";
        if (secretIn(secrets, line)) return `a log line holds a secret: ${line.slice(0, 60)}`;
      }
      return null;
    },
    end(world) {
      const secrets = secretsOf(world);
      for (const host of world.hosts) {
        for (const table of ["requests", "audit", "attempts", "tasks", "deliveries", "meta"]) {
          const text = JSON.stringify(host.sql.exec(`SELECT * FROM ${table}`));
          if (secretIn(secrets, text)) return `the table ${table} holds a secret`;
        }
      }
      return null;
    },
  };
}

function secretsOf(world: WorldView): readonly string[] {
  const secrets = [world.runpod.apiKey, ...world.github.tokens];
  for (const repository of world.github.repositories)
    for (const runner of repository.runners.values()) secrets.push(runner.jit);
  for (const pod of world.runpod.pods) {
    for (const name of Object.values(POD_ENV)) {
      const value = pod.env[name];
      if (name !== POD_ENV.controlUrl && value !== undefined) secrets.push(value);
    }
  }
  return secrets;
}

function secretIn(secrets: readonly string[], text: string): boolean {
  return text !== "" && secrets.some((secret) => text.includes(secret));
}

function createProblem(world: WorldView, request: NetRequest): string | null {
  const body = JSON.parse(request.body) as { env: Record<string, string>; args: string };
  const stranger = Object.keys(body.env).find((name) => !ALLOWED.has(name));
  if (stranger !== undefined) return `a pod is given ${stranger}`;
  const keys = [world.runpod.apiKey, ...world.github.tokens];
  return keys.some((key) => request.body.includes(key)) ? "a pod is given a key" : null;
}
