/**
 * The Worker's ports made from its bindings, once per environment object: settings are parsed, the key is tried and
 * tallies begin once per isolate, not once per request.
 */
import { boardClient } from "../durable-objects/board-client.ts";
import { logLine } from "../durable-objects/platform.ts";
import { ACCOUNT_NAME } from "../durable-objects/runpod-account.ts";
import { readSettings } from "../durable-objects/settings.ts";
import { checkAppKey } from "../shared/github/app-key.ts";
import { systemClock } from "../shared/ports.ts";
import type { AppPorts } from "./ports.ts";
import { Tallies } from "./tallies.ts";

const made = new WeakMap<Env, AppPorts>();

export function platformPorts(env: Env): AppPorts {
  const known = made.get(env);
  if (known !== undefined) return known;
  const ports = makePorts(env);
  made.set(env, ports);
  return ports;
}

function makePorts(env: Env): AppPorts {
  let key: Awaited<ReturnType<typeof checkAppKey>> | null = null;
  return {
    settings: readSettings(env),
    gate: (repositoryId) => {
      const stub = env.REPOSITORY_GATE.getByName(repositoryId);
      return {
        accept: async (delivery) => stub.accept(delivery),
        podCall: async (attemptId, nonce, word) => stub.podCall(attemptId, nonce, word),
        view: async () => stub.view(),
      };
    },
    registered: async () => env.RUNPOD_ACCOUNT.getByName(ACCOUNT_NAME).registered(),
    board: boardClient(env.FLEET_BOARD),
    // The answer is kept, not the promise: one request must not wait for another request's work.
    checkKey: async (pem) => (key ??= await checkAppKey(pem)),
    tallies: new Tallies(systemClock.now()),
    clock: systemClock,
    log: logLine,
  };
}
