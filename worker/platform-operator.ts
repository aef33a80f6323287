/** The operator's ports made from the Worker's bindings. */
import { platformBooks } from "../cron/platform-ports.ts";
import { logLine } from "../durable-objects/platform.ts";
import { ACCOUNT_NAME } from "../durable-objects/runpod-account.ts";
import { readSettings } from "../durable-objects/settings.ts";
import { systemClock } from "../shared/ports.ts";
import type { OperatorPorts } from "./operator-ports.ts";

export function platformOperatorPorts(env: Env): OperatorPorts {
  const account = () => env.RUNPOD_ACCOUNT.getByName(ACCOUNT_NAME);
  return {
    settings: readSettings(env),
    gate: (repositoryId) => {
      const stub = env.REPOSITORY_GATE.getByName(repositoryId);
      return {
        costs: async (from, to) => stub.costs(from, to),
        retain: async (word) => stub.retain(word),
        operator: async (word) => stub.operator(word),
        explain: async (question) => stub.explain(question),
        note: async (note) => {
          await stub.note(note);
        },
      };
    },
    account: {
      setPaused: async (paused) => {
        await account().setPaused(paused);
      },
      registered: async () => account().registered(),
    },
    books: platformBooks(env),
    clock: systemClock,
    log: logLine,
  };
}
