/**
 * What the duties of a cron tick need. Gates and the account may fail: every duty says what it does then.
 */
import type { Observations, OwedRemoval, SweepStart } from "../durable-objects/account/sweep-memory.ts";
import type { BoardClient } from "../durable-objects/board-client.ts";
import type { BillingTurn } from "../durable-objects/account/account.ts";
import type { BookFinding, BooksSeen } from "../durable-objects/account/compare.ts";
import type { OpenReservation } from "../durable-objects/account/money.ts";
import type { Turn } from "../durable-objects/account/turns.ts";
import type { Bill, BillsTaken, BillWindow } from "../durable-objects/gate/bills.ts";
import type { GateTick } from "../durable-objects/gate/gate.ts";
import type { GateMoney } from "../durable-objects/gate/money.ts";
import type { AccountAnswer, PodListing } from "../durable-objects/gate/ports.ts";
import type { RemovedPod } from "../durable-objects/gate/removals.ts";
import type { RetentionRecord } from "../durable-objects/gate/retention.ts";
import type { PodQuestion, PodStanding } from "../durable-objects/gate/standing.ts";
import type { GitHubAppClient } from "../shared/github/app-client.ts";
import type { ReapLimits, RunView } from "../shared/lifecycle/reap.ts";
import type { RepositoryRef } from "../shared/lifecycle/signal.ts";
import type { AuditNote } from "../shared/lifecycle/step.ts";
import type { Clock, Millis } from "../shared/ports.ts";
import type { RunPodClient } from "../shared/runpod/client.ts";

/** The gate of one repository, as cron speaks to it. Each call rejects when the gate does not answer. */
export interface CronGate {
  tick(): Promise<GateTick>;
  podStandings(questions: readonly PodQuestion[], listedAt: Millis): Promise<readonly PodStanding[]>;
  adoptStray(podId: string, why: string, createdAt: Millis | null, pricePerHour: number | null): Promise<boolean>;
  /** Pods that are gone by cron's order. Gives those that the gate need not be told of again. */
  podsRemoved(removed: readonly RemovedPod[]): Promise<readonly string[]>;
  /** What keeps a pod for debugging; null: nothing does. */
  retentionOf?(podId: string): Promise<RetentionRecord | null>;
  /** Tells the repository's name to a gate that never heard a delivery. */
  introduce?(repository: RepositoryRef, installationId: string): Promise<void>;
}

/** The account behind the RunPod key. Each call rejects when the account does not answer. */
export interface CronAccount {
  registered(): Promise<readonly string[]>;
  listPods(notBefore: Millis): Promise<AccountAnswer<PodListing>>;
  beginSweep(leaseMs: Millis): Promise<SweepStart>;
  /** Remembers a deletion before it is ordered. False: there is no room for it. */
  owe(removal: OwedRemoval): Promise<boolean>;
  /** `settled`, `owed`: removals that are no longer owed, and those that are. Gives the pods that found no room. */
  endSweep(
    observations: Observations,
    cursor: string | null,
    settled: readonly string[],
    owed: readonly OwedRemoval[],
  ): Promise<readonly string[]>;
  /** Takes a repository off the register, unless it was put there again since. */
  unregister?(repositoryId: string, registeredBefore: Millis): Promise<boolean>;
}

/** GitHub as cron asks it; left out where there is none (its own sweep then lives by gates and ages). */
export interface CronGitHub {
  readonly app: Pick<
    GitHubAppClient,
    "listHookDeliveries" | "redeliver" | "listInstallations" | "listInstallationRepositories"
  >;
  /** The run that a pod names, in its repository. Never throws. */
  readonly readRun: (repositoryId: string, runId: string) => Promise<RunView>;
  readonly turns: TurnsPort;
  /** Between two looks at the list of deliveries. */
  readonly redeliveryMs: Millis;
  /** Between two looks for the names of repositories. */
  readonly findMs: Millis;
}

/** Whose turn it is, and what a duty remembers: kept by the account. */
export interface TurnsPort {
  take(duty: string, everyMs: Millis): Promise<Turn>;
  keep(duty: string, memory: string, more: boolean): Promise<void>;
}

/** Requests that the reaper may make in one tick. */
export interface ReapBudget {
  /** Runs read at GitHub. */
  readonly lookups: number;
  /** Pods removed. */
  readonly removals: number;
}

export interface CronPorts {
  readonly deployment: string;
  readonly allowedRepositories: ReadonlySet<string>;
  readonly gate: (repositoryId: string) => CronGate;
  readonly account: CronAccount;
  /** RunPod itself: a pod is deleted without any object's help when that is what is left. */
  readonly runpod: Pick<RunPodClient, "listPods" | "deletePod">;
  /** For comparing books and bills; left out where nothing is bought. */
  readonly books?: BooksPorts;
  readonly board: BoardClient;
  readonly github?: CronGitHub;
  readonly limits: ReapLimits;
  /** Left out: no bound. */
  readonly budget?: ReapBudget;
  readonly clock: Clock;
  readonly log: (entry: Readonly<Record<string, string | number | boolean | null>>) => void;
}

/** The sides of the money: the account's lines, and each gate's. Each call rejects when the other does not answer. */
export interface BooksPorts {
  readonly account: {
    openReservations(): Promise<readonly OpenReservation[]>;
    compareBooks(seen: BooksSeen): Promise<readonly BookFinding[]>;
    bills(startMs: Millis, endMs: Millis): Promise<AccountAnswer<readonly Bill[]>>;
    /** The repositories that had money set aside or spent at or after this. */
    buyers(since: Millis): Promise<readonly string[]>;
    takeBillingTurn(day: string, retryMs: Millis): Promise<BillingTurn>;
    billingDone(day: string, problems: readonly string[]): Promise<void>;
  };
  readonly gate: (repositoryId: string) => {
    money(asked: readonly string[]): Promise<GateMoney>;
    recordBills(bills: readonly Bill[], window: BillWindow): Promise<BillsTaken>;
    note(note: AuditNote): Promise<void>;
  };
}

/** How one duty went, in a sentence. */
export interface DutyReport {
  readonly name: string;
  readonly ok: boolean;
  readonly ms: Millis;
  readonly what: string;
}
