/**
 * What the duties of a cron tick need. Gates and the account may fail: every duty says what it does then.
 */
import type { SweepStart, Observations } from "../durable-objects/account/sweep-memory.ts";
import type { BoardClient } from "../durable-objects/board-client.ts";
import type { GateTick } from "../durable-objects/gate/gate.ts";
import type { AccountAnswer, PodListing } from "../durable-objects/gate/ports.ts";
import type { PodQuestion, PodStanding } from "../durable-objects/gate/standing.ts";
import type { ReapLimits } from "../shared/lifecycle/reap.ts";
import type { Clock, Millis } from "../shared/ports.ts";
import type { RunPodClient } from "../shared/runpod/client.ts";

/** The gate of one repository, as cron speaks to it. Each call rejects when the gate does not answer. */
export interface CronGate {
  tick(): Promise<GateTick>;
  podStandings(questions: readonly PodQuestion[], listedAt: Millis): Promise<readonly PodStanding[]>;
  adoptStray(podId: string, why: string, createdAt: Millis | null): Promise<boolean>;
}

/** The account behind the RunPod key. Each call rejects when the account does not answer. */
export interface CronAccount {
  registered(): Promise<readonly string[]>;
  listPods(notBefore: Millis): Promise<AccountAnswer<PodListing>>;
  beginSweep(leaseMs: Millis): Promise<SweepStart>;
  endSweep(observations: Observations): Promise<void>;
}

export interface CronPorts {
  readonly deployment: string;
  readonly allowedRepositories: ReadonlySet<string>;
  readonly gate: (repositoryId: string) => CronGate;
  readonly account: CronAccount;
  /** RunPod itself: a pod is deleted without any object's help when that is what is left. */
  readonly runpod: Pick<RunPodClient, "listPods" | "deletePod">;
  readonly board: BoardClient;
  readonly limits: ReapLimits;
  readonly clock: Clock;
  readonly log: (entry: Readonly<Record<string, string | number | boolean | null>>) => void;
}

/** How one duty went, in a sentence. */
export interface DutyReport {
  readonly name: string;
  readonly ok: boolean;
  readonly ms: Millis;
  readonly what: string;
}
