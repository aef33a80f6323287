/**
 * The RunPod account shared by all gates: totals of money, the one pod list per tick, and the register of repositories.
 *
 * Money (design 3.5): a reservation is made before anything is bought, idempotently by attempt id; `commit` replaces it by
 * what was spent, `release` drops it; after either the attempt id is final and a late `reserve` is refused. A reservation
 * never expires by time.
 */
import { admit, describeExceeded, totalsFor, type MoneyLine } from "../../shared/cost/budget.ts";
import type { RepositoryRef } from "../../shared/lifecycle/signal.ts";
import type { Clock, Millis } from "../../shared/ports.ts";
import type { RunPodClient } from "../../shared/runpod/client.ts";
import type { AccountAnswer, PodListing, ReserveAnswer, Sql } from "../gate/ports.ts";
import { migrate } from "../gate/schema.ts";
import { MarketReader, type Market } from "./market.ts";

export interface AccountPorts {
  readonly sql: Sql;
  readonly clock: Clock;
  readonly runpod: RunPodClient;
  /** Cap over all repositories of the deployment in one UTC month, micro-dollars. */
  readonly monthlyCapMicros: number;
}

const MIGRATIONS: readonly (readonly string[])[] = [
  [
    `CREATE TABLE money (
      attempt_id TEXT PRIMARY KEY, repository_id TEXT NOT NULL, micros INTEGER NOT NULL, state TEXT NOT NULL, at INTEGER NOT NULL)`,
    `CREATE INDEX money_at ON money (at)`,
    `CREATE TABLE register (repository_id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL, at INTEGER NOT NULL)`,
    `CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)`,
  ],
];

type MoneyRow = { attempt_id: string; repository_id: string; micros: number; state: string; at: number };

export class Account {
  readonly #ports: AccountPorts;
  readonly #market: MarketReader;
  #listing: PodListing | null = null;
  #underWay: { readonly startedAt: Millis; readonly answer: Promise<AccountAnswer<PodListing>> } | null = null;
  #lists = 0;

  constructor(ports: AccountPorts) {
    this.#ports = ports;
    this.#market = new MarketReader(ports.runpod, ports.clock);
    migrate(ports.sql, MIGRATIONS);
  }

  /**
   * A list whose first request began at or after `notBefore`. Callers who ask together share one list: many gates cost one
   * request a tick, and one list can prove absence for all of them.
   */
  async listPods(notBefore: Millis): Promise<AccountAnswer<PodListing>> {
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

  /** RunPod's contract, prices and stock, at most `maxAgeMs` old: many gates cost one look. */
  market(maxAgeMs: Millis, gpuCount: number): Promise<AccountAnswer<Market>> {
    return this.#market.read(maxAgeMs, gpuCount);
  }

  get listsMade(): number {
    return this.#lists;
  }

  reserve(attemptId: string, repositoryId: string, micros: number): ReserveAnswer {
    const { sql, clock } = this.#ports;
    return sql.transaction((): ReserveAnswer => {
      const now = clock.now();
      if (this.paused()) return { kind: "over-cap", detail: "Buying is paused for this deployment by its operator." };
      const known = sql.exec<MoneyRow>(`SELECT * FROM money WHERE attempt_id = ?`, attemptId)[0];
      if (known !== undefined) {
        if (known.state === "reserved") return { kind: "reserved" };
        return { kind: "over-cap", detail: "This attempt's money is settled already." };
      }
      const rows = sql.exec<MoneyRow>(
        `SELECT * FROM money WHERE state <> 'released' AND (at >= ? OR state = 'reserved')`,
        now - 32 * 86_400_000,
      );
      const lines: MoneyLine[] = rows.map((row) => ({
        openedAt: row.at,
        state: row.state === "spent" ? "spent" : "reserved",
        amount: row.micros,
        repositoryId: row.repository_id,
        requestId: "",
        prNumber: null,
        authorId: null,
      }));
      const spender = { repositoryId, requestId: attemptId, prNumber: null, authorId: null };
      const caps = {
        run: null,
        "pull-request": null,
        author: null,
        day: null,
        month: null,
        deployment: this.#ports.monthlyCapMicros,
      };
      const admission = admit(micros, caps, totalsFor(lines, spender, now));
      if (!admission.admitted) return { kind: "over-cap", detail: admission.exceeded.map(describeExceeded).join(" ") };
      sql.exec(
        `INSERT INTO money (attempt_id, repository_id, micros, state, at) VALUES (?, ?, ?, 'reserved', ?)`,
        attemptId,
        repositoryId,
        micros,
        now,
      );
      return { kind: "reserved" };
    });
  }

  commit(attemptId: string, micros: number): void {
    this.#ports.sql.exec(
      `UPDATE money SET state = 'spent', micros = ? WHERE attempt_id = ? AND state = 'reserved'`,
      micros,
      attemptId,
    );
  }

  release(attemptId: string): void {
    this.#ports.sql.exec(
      `UPDATE money SET state = 'released', micros = 0 WHERE attempt_id = ? AND state = 'reserved'`,
      attemptId,
    );
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

  openReservations(): readonly {
    readonly attemptId: string;
    readonly repositoryId: string;
    readonly micros: number;
  }[] {
    return this.#ports.sql
      .exec<MoneyRow>(`SELECT * FROM money WHERE state = 'reserved'`)
      .map((row) => ({ attemptId: row.attempt_id, repositoryId: row.repository_id, micros: row.micros }));
  }

  /** Micro-dollars of this UTC month: spent, and reserved now. */
  totals(): { readonly spent: number; readonly reserved: number } {
    const now = new Date(this.#ports.clock.now());
    const month = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1);
    const sum = (query: string, ...bindings: number[]) =>
      this.#ports.sql.exec<{ sum: number | null }>(query, ...bindings)[0]?.sum ?? 0;
    return {
      spent: sum(`SELECT sum(micros) AS sum FROM money WHERE state = 'spent' AND at >= ?`, month),
      reserved: sum(`SELECT sum(micros) AS sum FROM money WHERE state = 'reserved'`),
    };
  }

  paused(): boolean {
    return this.#ports.sql.exec<{ value: string }>(`SELECT value FROM meta WHERE key = 'paused'`)[0]?.value === "true";
  }

  setPaused(paused: boolean): void {
    this.#ports.sql.exec(`INSERT OR REPLACE INTO meta (key, value) VALUES ('paused', ?)`, String(paused));
  }

  async #list(): Promise<AccountAnswer<PodListing>> {
    this.#lists += 1;
    const answer = await this.#ports.runpod.listPods();
    if (!answer.ok) return { ok: false, why: `RunPod's list of pods: ${answer.error.reason}` };
    const listing = { startedAt: answer.value.startedAtMs, complete: answer.value.complete, pods: answer.value.pods };
    this.#listing = listing;
    return { ok: true, value: listing };
  }
}
