/** What the operator's routes and the cost report need from their surroundings. */
import type { BooksPorts } from "../cron/ports.ts";
import type { CostLines } from "../durable-objects/gate/costs.ts";
import type { ExplainQuestion, OperatorAnswer, OperatorWord } from "../durable-objects/gate/operator.ts";
import type { RetainAnswer, RetainWord } from "../durable-objects/gate/retention.ts";
import type { Settings } from "../durable-objects/settings.ts";
import type { RepositoryRef } from "../shared/lifecycle/signal.ts";
import type { AuditNote } from "../shared/lifecycle/step.ts";
import type { Clock, Millis } from "../shared/ports.ts";
import type { Result } from "../shared/result.ts";
import type { LogEntry } from "./ports.ts";

export interface OperatorGate {
  costs(from: Millis, to: Millis): Promise<CostLines>;
  retain(word: RetainWord): Promise<RetainAnswer>;
  note(note: AuditNote): Promise<void>;
  operator(word: OperatorWord): Promise<OperatorAnswer>;
  /** `Explanation[]` as JSON. */
  explain(question: ExplainQuestion): Promise<string>;
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

/** Every repository that is served or has bought something. */
export async function knownRepositories(settings: Settings, ports: OperatorPorts): Promise<readonly string[]> {
  const registered = await ports.account.registered();
  return [...new Set([...settings.allowedRepositories, ...registered.map((one) => one.id)])];
}
