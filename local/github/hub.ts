/** The parts of one local GitHub, as its modules hand them to each other. */

import type { Credentials } from "./auth.ts";
import type { Books } from "./books.ts";
import type { Engine } from "./engine.ts";
import type { Faults } from "./faults.ts";
import type { Account, World } from "./model.ts";
import type { IdentityTokens } from "./identity.ts";
import type { RateLimit } from "./rate-limit.ts";
import type { RunnerDesk } from "./runner-desk.ts";
import type { Timers } from "./timers.ts";
import type { Webhooks } from "./webhooks.ts";

/** Waits of the local GitHub, in milliseconds. Production GitHub has the same waits, longer. */
export interface Timing {
  /** Added to every REST answer. */
  readonly latencyMs: number;
  /** From a run's creation to its first hosted job. */
  readonly hostedStartMs: number;
  /** Between the three `in_progress` deliveries of a run. */
  readonly inProgressGapMs: number;
  /** From the 202 of a cancel to the first job that ends by it. */
  readonly cancelMs: number;
  /** From the 202 of a cancel until the server ends what still runs on a runner (GitHub: five minutes). */
  readonly cancelHardMs: number;
  /** A runner not heard of for this long is offline and its job is lost. */
  readonly runnerLostMs: number;
  /** The longest wait of one runner poll. */
  readonly pollMs: number;
  /** From a push until `mergeable` is known. */
  readonly mergeabilityMs: number;
  /** Lifetime of an installation token (GitHub: one hour). */
  readonly tokenLifetimeMs: number;
  /** A receiver that has not answered by then has failed (GitHub: ten seconds). */
  readonly webhookTimeoutMs: number;
}

export const defaultTiming: Timing = {
  latencyMs: 0,
  hostedStartMs: 20,
  inProgressGapMs: 15,
  cancelMs: 150,
  cancelHardMs: 15_000,
  runnerLostMs: 10_000,
  pollMs: 5_000,
  mergeabilityMs: 10,
  tokenLifetimeMs: 3_600_000,
  webhookTimeoutMs: 10_000,
};

export interface AppIdentity {
  readonly id: number;
  readonly slug: string;
  readonly name: string;
  readonly clientId: string;
  readonly owner: Account;
  /** Events the App is subscribed to; installation events come always. */
  readonly events: ReadonlySet<string>;
  /** What the App asks for; the default of a new installation. */
  readonly permissions: Readonly<Record<string, "read" | "write">>;
}

export interface Hub {
  readonly world: World;
  readonly books: Books;
  readonly timers: Timers;
  readonly timing: Timing;
  readonly app: AppIdentity;
  readonly credentials: Credentials;
  readonly webhooks: Webhooks;
  readonly faults: Faults;
  readonly rateLimit: RateLimit;
  readonly engine: Engine;
  readonly identity: IdentityTokens;
  readonly desk: RunnerDesk;
  /** REST base address, without a slash at the end. */
  readonly url: string;
}
