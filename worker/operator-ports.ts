/** What the operator's routes and the cost report need from their surroundings, and the same made from the bindings. */
import { platformBooks } from "../cron/platform-ports.ts";
import type { BooksPorts } from "../cron/ports.ts";
import type { CostLines } from "../durable-objects/gate/costs.ts";
import type { RetainAnswer, RetainWord } from "../durable-objects/gate/retention.ts";
import { logLine } from "../durable-objects/platform.ts";
import { ACCOUNT_NAME } from "../durable-objects/runpod-account.ts";
import { readSettings, type Settings } from "../durable-objects/settings.ts";
import type { RepositoryRef } from "../shared/lifecycle/signal.ts";
import type { AuditNote } from "../shared/lifecycle/step.ts";
import { systemClock, type Clock, type Millis } from "../shared/ports.ts";
import type { Result } from "../shared/result.ts";
import type { LogEntry } from "./ports.ts";

export interface OperatorGate {
  costs(from: Millis, to: Millis): Promise<CostLines>;
  retain(word: RetainWord): Promise<RetainAnswer>;
  note(note: AuditNote): Promise<void>;
}

export interface OperatorPorts {
  readonly settings: Result<Settings, readonly string[]>;
  /** A failure of either is thrown. */
  readonly gate: (repositoryId: string) => OperatorGate;
  readonly account: {
    setPaused(paused: boolean): Promise<void>;
    registered(): Promise<readonly RepositoryRef[]>;
  };
  readonly books: BooksPorts;
  readonly clock: Clock;
  readonly log: (entry: LogEntry) => void;
}

export function platformOperatorPorts(env: Env): OperatorPorts {
  const account = () => env.RUNPOD_ACCOUNT.getByName(ACCOUNT_NAME);
  return {
    settings: readSettings(env),
    gate: (repositoryId) => {
      const stub = env.REPOSITORY_GATE.getByName(repositoryId);
      return {
        costs: async (from, to) => stub.costs(from, to),
        retain: async (word) => stub.retain(word),
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

/** Every repository that is served or has bought something. */
export async function knownRepositories(settings: Settings, ports: OperatorPorts): Promise<readonly string[]> {
  const registered = await ports.account.registered();
  return [...new Set([...settings.allowedRepositories, ...registered.map((one) => one.id)])];
}
