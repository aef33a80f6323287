/**
 * What the Worker's routes need from their surroundings, and the same made from the platform's bindings.
 *
 * Routes see no binding and no environment: tests bring their own ports. A stub's failure stays an exception here; each
 * route says what it means for its caller.
 */
import type { BoardClient } from "../durable-objects/board-client.ts";
import type { Accepted, PodWord } from "../durable-objects/gate/gate.ts";
import type { GateView } from "../durable-objects/gate/view.ts";
import type { Settings } from "../durable-objects/settings.ts";
import type { AppKeyProblem } from "../shared/github/app-key.ts";
import type { Delivery, RepositoryRef } from "../shared/lifecycle/signal.ts";
import type { Clock } from "../shared/ports.ts";
import type { Result } from "../shared/result.ts";
import type { Tallies } from "./tallies.ts";

/** The gate of one repository, as far as the Worker speaks to it. */
export interface GateStub {
  accept(delivery: Delivery): Promise<Accepted>;
  podCall(attemptId: string, nonce: string, word: PodWord): Promise<boolean>;
  view(): Promise<GateView>;
}

export type LogEntry = Readonly<Record<string, string | number | boolean | null>>;

export interface AppPorts {
  /** The deployment's settings, or every problem with them. */
  readonly settings: Result<Settings, readonly string[]>;
  readonly gate: (repositoryId: string) => GateStub;
  /** Repositories that have bought something: the account's register. */
  readonly registered: () => Promise<readonly RepositoryRef[]>;
  readonly board: BoardClient;
  /** Whether the App's key can sign. */
  readonly checkKey: (pem: string) => Promise<Result<unknown, AppKeyProblem>>;
  readonly tallies: Tallies;
  readonly clock: Clock;
  readonly log: (entry: LogEntry) => void;
}
