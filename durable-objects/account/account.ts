/**
 * The RunPod account shared by all gates: totals of money, the one pod list per tick, and the register of repositories.
 *
 * Its money is in money.ts (design 3.5), and what becomes of a difference in compare.ts.
 */
import * as z from "zod";
import { MICRO_PER_USD } from "../../shared/cost/estimate.ts";
import type { RepositoryRef } from "../../shared/lifecycle/signal.ts";
import type { Clock, Millis } from "../../shared/ports.ts";
import type { RunPodClient } from "../../shared/runpod/client.ts";
import type { Bill } from "../gate/bills.ts";
import type { AccountAnswer, PodListing, ReserveAnswer, Sql } from "../gate/ports.ts";
import { migrate } from "../gate/schema.ts";
import { compareBooks, type BookFinding, type BooksSeen } from "./compare.ts";
import { MarketReader, type Market } from "./market.ts";
import { keepMeta, metaOf } from "./meta.ts";
import { AccountMoney, MONEY_TABLES, type OpenReservation } from "./money.ts";
import { storedJson } from "../gate/stored-json.ts";

export interface AccountPorts {
  readonly sql: Sql;
  readonly clock: Clock;
  readonly runpod: RunPodClient;
  /** Cap over all repositories of the deployment in one UTC month, micro-dollars. */
  readonly monthlyCapMicros: number;
}

const MIGRATIONS: readonly (readonly string[])[] = [
  [
    ...MONEY_TABLES,
    `CREATE TABLE register (repository_id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL, at INTEGER NOT NULL)`,
    `CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)`,
  ],
];

/** `lastProblems`: what the last night found. `nextAt`: not before then. */
export type BillingTurn =
  | { readonly due: true; readonly lastProblems: readonly string[] }
  | { readonly due: false; readonly lastProblems: readonly string[]; readonly nextAt: Millis };

const DAY_MS = 86_400_000;

const problemsSchema = z.array(z.string()).catch([]);

export class Account {
  readonly #ports: AccountPorts;
  readonly #market: MarketReader;
  readonly #money: AccountMoney;
  /** Newer code wrote these tables: nothing is bought and no line is touched until that code is back. Lists go on. */
  readonly #readOnly: boolean;
  #listing: PodListing | null = null;
  #underWay: { readonly startedAt: Millis; readonly answer: Promise<AccountAnswer<PodListing>> } | null = null;
  #lists = 0;

  constructor(ports: AccountPorts) {
    this.#ports = ports;
    this.#market = new MarketReader(ports.runpod, ports.clock);
    this.#readOnly = migrate(ports.sql, MIGRATIONS).readOnly;
    this.#money = new AccountMoney(ports.sql);
  }

  /**
   * A list whose first request began at or after `notBefore`. Callers who ask together share one list: many gates cost one
   * request a tick, and one list can prove absence for all of them.
   *
   * `askedAt`: when the asker called, by a clock that need not be this object's. Then `notBefore` and the answer's instants are by
   * that clock too: else a list that began before a pod was created or deleted could pass for one that began after. Left out: this
   * object's clock.
   */
  async listPods(notBefore: Millis, askedAt?: Millis): Promise<AccountAnswer<PodListing>> {
    if (askedAt !== undefined) return this.#listPodsFor(notBefore, this.#ports.clock.now() - askedAt);
    const last = this.#listing;
    if (last !== null && last.startedAt >= notBefore && last.complete) return { ok: true, value: last };
    const running = this.#underWay;
    if (running !== null && running.startedAt >= notBefore) return running.answer;
    const startedAt = this.#ports.clock.now();
    const answer = this.#list().finally(() => {
      if (this.#underWay?.answer === answer) this.#underWay = null;
    });
    this.#underWay = { startedAt, answer };
    return answer;
  }

  /**
   * For an asker whose clock is behind this one by `behindMs` at most: the call's way here counts as behind as well, so that a list
   * never seems younger to it than it is.
   */
  async #listPodsFor(notBefore: Millis, behindMs: Millis): Promise<AccountAnswer<PodListing>> {
    const answer = await this.listPods(notBefore + behindMs);
    if (!answer.ok) return answer.retryAt === undefined ? answer : { ...answer, retryAt: answer.retryAt - behindMs };
    return { ok: true, value: { ...answer.value, startedAt: answer.value.startedAt - behindMs } };
  }

  /** RunPod's contract, prices and stock, at most `maxAgeMs` old: many gates cost one look. */
  market(maxAgeMs: Millis): Promise<AccountAnswer<Market>> {
    return this.#market.read(maxAgeMs);
  }

  get listsMade(): number {
    return this.#lists;
  }

  reserve(attemptId: string, repositoryId: string, micros: number): ReserveAnswer {
    const { sql, clock, monthlyCapMicros } = this.#ports;
    return sql.transaction((): ReserveAnswer => {
      if (this.#readOnly) {
        const detail = "The account's books were written by newer code than this: nothing is bought.";
        return { kind: "over-cap", because: "buying-paused", detail };
      }
      if (this.paused()) {
        const detail = "Buying is paused for this deployment by its operator.";
        return { kind: "over-cap", because: "buying-paused", detail };
      }
      return this.#money.reserve(attemptId, repositoryId, micros, monthlyCapMicros, clock.now());
    });
  }

  commit(attemptId: string, micros: number, repositoryId: string): void {
    const { sql, clock } = this.#ports;
    if (!this.#readOnly) sql.transaction(() => this.#money.commit(attemptId, repositoryId, micros, clock.now()));
  }

  release(attemptId: string, repositoryId: string): void {
    const { sql, clock } = this.#ports;
    if (!this.#readOnly) sql.transaction(() => this.#money.release(attemptId, repositoryId, clock.now()));
  }

  /** Compares the books with what the gates and RunPod's list say; see compare.ts. */
  compareBooks(seen: BooksSeen): readonly BookFinding[] {
    if (this.#readOnly) return [];
    return compareBooks(this.#ports.sql, seen, this.#ports.clock.now());
  }

  register(repository: RepositoryRef): void {
    this.#ports.sql.exec(
      `INSERT OR REPLACE INTO register (repository_id, owner, name, at) VALUES (?, ?, ?, ?)`,
      repository.id,
      repository.owner,
      repository.name,
      this.#ports.clock.now(),
    );
  }

  registered(): readonly RepositoryRef[] {
    return this.#ports.sql
      .exec<{ repository_id: string; owner: string; name: string }>(`SELECT repository_id, owner, name FROM register`)
      .map((row) => ({ id: row.repository_id, owner: row.owner, name: row.name }));
  }

  /** Takes a repository off the register, unless it was put there again since `registeredBefore`. */
  unregister(repositoryId: string, registeredBefore: Millis): boolean {
    const gone = this.#ports.sql.exec<{ repository_id: string }>(
      `DELETE FROM register WHERE repository_id = ? AND at < ? RETURNING repository_id`,
      repositoryId,
      registeredBefore,
    );
    return gone.length > 0;
  }

  openReservations(): readonly OpenReservation[] {
    return this.#money
      .open()
      .map((row) => ({ attemptId: row.attempt_id, repositoryId: row.repository_id, micros: row.micros }));
  }

  /** Micro-dollars of this UTC month: spent, and reserved now. */
  totals(): { readonly spent: number; readonly reserved: number } {
    return this.#money.totals(this.#ports.clock.now());
  }

  /** What RunPod charged for each pod in `[startMs, endMs)`, micro-dollars; the buckets are whole UTC days. */
  async bills(startMs: Millis, endMs: Millis): Promise<AccountAnswer<readonly Bill[]>> {
    const answer = await this.#ports.runpod.billingPods({ startMs, endMs, bucketSize: "day" });
    if (!answer.ok) return { ok: false, why: `RunPod's billing: ${answer.error.reason}` };
    const byPod = Map.groupBy(answer.value, (record) => record.podId);
    const bills = [...byPod].map(([podId, records]) => ({
      podId,
      micros: Math.round(records.reduce((sum, record) => sum + record.totalUsd, 0) * MICRO_PER_USD),
    }));
    return { ok: true, value: bills };
  }

  /** The repositories with a line that was open at `since`, or was opened or settled since, whether or not they are registered. */
  buyers(since: Millis): readonly string[] {
    return this.#money.repositoriesSince(since);
  }

  /** The nightly turn at the bills: due at most once a UTC day, and after a failed try not before `retryMs`. */
  takeBillingTurn(day: string, retryMs: Millis): BillingTurn {
    const { sql, clock } = this.#ports;
    return sql.transaction((): BillingTurn => {
      const now = clock.now();
      const lastProblems = problemsSchema.parse(storedJson(metaOf(this.#ports.sql, "billing_problems") ?? "[]"));
      const tried = Number(metaOf(this.#ports.sql, "billing_tried_at") ?? "0");
      if (metaOf(this.#ports.sql, "billing_day") === day)
        return { due: false, lastProblems, nextAt: Date.parse(day) + DAY_MS };
      if (now - tried < retryMs) return { due: false, lastProblems, nextAt: tried + retryMs };
      keepMeta(this.#ports.sql, "billing_tried_at", String(now));
      return { due: true, lastProblems };
    });
  }

  billingDone(day: string, problems: readonly string[]): void {
    keepMeta(this.#ports.sql, "billing_day", day);
    keepMeta(this.#ports.sql, "billing_problems", JSON.stringify(problems.slice(0, 50)));
  }

  paused(): boolean {
    return metaOf(this.#ports.sql, "paused") === "true";
  }

  setPaused(paused: boolean): void {
    keepMeta(this.#ports.sql, "paused", String(paused));
  }

  async #list(): Promise<AccountAnswer<PodListing>> {
    this.#lists += 1;
    const answer = await this.#ports.runpod.listPods();
    if (!answer.ok) {
      const { reason, retryAfterMs } = answer.error;
      const why = `RunPod's list of pods: ${reason}`;
      if (reason !== "rate-limited" || retryAfterMs === null) return { ok: false, why };
      return { ok: false, why, retryAt: this.#ports.clock.now() + retryAfterMs };
    }
    const listing = { startedAt: answer.value.startedAtMs, complete: answer.value.complete, pods: answer.value.pods };
    this.#listing = listing;
    return { ok: true, value: listing };
  }
}
