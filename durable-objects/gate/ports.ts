/**
 * What the gate needs from its surroundings. The Durable Object, the tests and the simulator each bring their own.
 */
import type { GitHubClient } from "../../shared/github/client.ts";
import type { RunnerScope } from "../../shared/github/runners.ts";
import type { RepositoryRef } from "../../shared/lifecycle/signal.ts";
import type { Clock, Millis, Random } from "../../shared/ports.ts";
import type { Pod } from "../../shared/runpod/pod.ts";
import type { RunPodClient } from "../../shared/runpod/client.ts";
import type { Market } from "../account/market.ts";

export type SqlValue = string | number | null;

/** Synchronous SQL with transactions: a Durable Object's storage, or node:sqlite outside. */
export interface Sql {
  exec<Row extends Record<string, SqlValue>>(query: string, ...bindings: SqlValue[]): Row[];
  /** All writes of `body` or none. A throw rolls back and is thrown on. */
  transaction<T>(body: () => T): T;
}

export interface AlarmPort {
  /** The object's one alarm. An earlier instant replaces a later one; null removes it. */
  set(at: Millis | null): void;
}

/** One list of all pods of the account, shared by all gates. */
export interface PodListing {
  readonly startedAt: Millis;
  readonly complete: boolean;
  readonly pods: readonly Pod[];
}

/** `retryAt`: RunPod's quota is why, and is back then. */
export type AccountAnswer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly why: string; readonly retryAt?: Millis };

export type ReserveAnswer =
  | { readonly kind: "reserved" }
  | { readonly kind: "over-cap"; readonly because?: "buying-paused"; readonly detail: string };

/** The account behind the RunPod key: totals of money, and the pod list. Never throws: a failure is an answer. */
export interface AccountPort {
  /** A list whose first request began at or after `notBefore`. */
  listPods(notBefore: Millis): Promise<AccountAnswer<PodListing>>;
  /** RunPod's contract, prices and stock for pods of so many GPUs, at most `maxAgeMs` old. */
  market(maxAgeMs: Millis): Promise<AccountAnswer<Market>>;
  reserve(attemptId: string, micros: number): Promise<AccountAnswer<ReserveAnswer>>;
  commit(attemptId: string, micros: number): Promise<AccountAnswer<null>>;
  release(attemptId: string): Promise<AccountAnswer<null>>;
  /** When a pod was gone that cron has deleted and that this gate has not booked; null: the account knows of none such. */
  goneSince(podId: string): Promise<AccountAnswer<Millis | null>>;
  /** Puts this repository on the account's register, so that cron visits it. Written before the first dispatch. */
  register(repository: RepositoryRef): Promise<AccountAnswer<null>>;
}

export interface GatePorts {
  readonly sql: Sql;
  readonly alarm: AlarmPort;
  readonly clock: Clock;
  readonly random: Random;
  readonly account: AccountPort;
  readonly runpod: RunPodClient;
  /** A client for the repository as GitHub named it last. `background`: its calls give way to all others when the quota is low. */
  readonly github: (
    repository: RepositoryRef,
    installationId: string | null,
    scope: RunnerScope,
    background?: boolean,
  ) => GitHubClient;
  /** `registry/name:tag` as `registry/name@sha256:...`, asked at the image registry at most `maxAgeMs` ago. */
  readonly resolveImage: (image: string, maxAgeMs: Millis) => Promise<AccountAnswer<string>>;
  /** The runner's releases as GitHub lists them. Absent: the runner's age is not watched. */
  readonly runnerReleases?: (
    repository: RepositoryRef,
    installationId: string | null,
  ) => Promise<AccountAnswer<readonly unknown[]>>;
  /** Address the pod calls back to, without a trailing slash. */
  readonly publicUrl: string;
  readonly deployment: string;
  /** The deployment's own limit: its reaper spares no kept pod for longer, from its creation. Absent: the configuration's. */
  readonly maxRetentionMs?: Millis;
  readonly appId: string;
  /** One event as fields, never a sentence with values inside; nothing secret reaches it. */
  readonly log: (entry: Readonly<Record<string, unknown>>) => void;
}
