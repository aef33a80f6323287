/**
 * The repository's side of the money protocol (design 3.5): an attempt's money is reserved before anything is bought, first
 * here under the repository's caps, then at the account under the deployment's; it is settled when the ledger line closes.
 *
 * A row is `reserved` from the intent on and `confirmed` once the account's yes is stored; nothing is created before that.
 * `spent` and `released` are final. Everything may be repeated.
 */
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import { costOf, microUsd, type MicroUsd } from "../../shared/cost/estimate.ts";
import { admit, describeExceeded, totalsFor, type Caps, type MoneyLine } from "../../shared/cost/budget.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { Outcomes } from "../../shared/lifecycle/tasks.ts";
import type { Millis } from "../../shared/ports.ts";
import { MoneyTable, type MoneyRow } from "./money-table.ts";
import type { AccountPort, GatePorts, Sql } from "./ports.ts";
import type { LedgerLine, Store } from "./store.ts";

/** Lines older than this count in no window. */
const WINDOW_MS = 62 * 86_400_000;

/** The dearest pod that may be bought, USD per hour: stands in for a price that nobody told us. */
const UNKNOWN_PRICE = microUsd(1.6);

export interface MoneyPorts {
  readonly sql: Sql;
  readonly account: AccountPort;
  readonly now: () => Millis;
}

export function moneyPorts(ports: Pick<GatePorts, "sql" | "account" | "clock">): MoneyPorts {
  return { sql: ports.sql, account: ports.account, now: () => ports.clock.now() };
}

export interface MoneyAsked {
  /** What the money is for: an attempt, or the keeping of its pod. */
  readonly id: string;
  readonly micros: MicroUsd;
  readonly repositoryId: string;
  readonly request: GateRequest;
  readonly config: RepositoryConfig;
}

/** Asks both sides. Nothing may be created before this has answered `reserved`. */
export async function reserveMoney(asked: MoneyAsked, ports: MoneyPorts): Promise<Outcomes["reserve"]> {
  const money = new MoneyTable(ports.sql);
  // The caps and the reservation are one transaction: two requests never find the same money.
  const here = ports.sql.transaction(() => reserveHere(asked, money, ports.now()));
  if (here.kind !== "reserved") return here;
  const answer = await ports.account.reserve(asked.id, asked.micros);
  if (!answer.ok) return { kind: "unknown", why: answer.why };
  if (answer.value.kind === "reserved") money.confirm(asked.id);
  else money.settle(asked.id, null);
  return answer.value;
}

function reserveHere(asked: MoneyAsked, money: MoneyTable, now: Millis): Outcomes["reserve"] {
  const known = money.of(asked.id);
  if (known?.state === "reserved") return { kind: "reserved" };
  if (known !== null) return { kind: "over-cap", detail: "This attempt's money is settled already." };
  const spender = {
    repositoryId: asked.repositoryId,
    requestId: asked.request.id,
    prNumber: asked.request.prNumber,
    authorId: asked.request.admission?.author.id ?? null,
  };
  const lines = money
    .lines(now - WINDOW_MS, spender.requestId, spender.prNumber)
    .map((row) => moneyLine(row, asked.repositoryId));
  const admission = admit(asked.micros, capsOf(asked.config, asked.request), totalsFor(lines, spender, now));
  if (!admission.admitted) return { kind: "over-cap", detail: admission.exceeded.map(describeExceeded).join(" ") };
  const { requestId, prNumber, authorId } = spender;
  money.reserve({ attemptId: asked.id, requestId, prNumber, authorId, micros: asked.micros, at: now }, false);
  return { kind: "reserved" };
}

/** Null releases: no pod was ever bought with this money. */
export async function settleMoney(id: string, micros: MicroUsd | null, ports: MoneyPorts): Promise<Outcomes["settle"]> {
  new MoneyTable(ports.sql).settle(id, micros);
  const answer = micros === null ? await ports.account.release(id) : await ports.account.commit(id, micros);
  return answer.ok ? { kind: "settled" } : { kind: "unknown", why: answer.why };
}

/** A row as the caps count it: of this repository, spent or still set aside. */
export function moneyLine(row: MoneyRow, repositoryId: string): MoneyLine {
  return {
    openedAt: row.at,
    state: row.state === "spent" ? "spent" : "reserved",
    amount: row.micros,
    repositoryId,
    requestId: row.request_id,
    prNumber: row.pr_number,
    authorId: row.author_id,
  };
}

function capsOf(config: RepositoryConfig, request: GateRequest): Caps {
  const { budget } = config;
  if (request.liftedMicros !== undefined) {
    // The operator's word for one run. The deployment's own cap stays: it is the account's.
    const run = request.liftedMicros;
    return { run, day: null, month: null, "pull-request": null, author: null, deployment: null };
  }
  return {
    run: microUsd(budget.per_run),
    day: microUsd(budget.per_day),
    month: microUsd(budget.per_month),
    "pull-request": budget.per_pr === null ? null : microUsd(budget.per_pr),
    author: budget.per_author === null ? null : microUsd(budget.per_author),
    // Held by the account, over all repositories.
    deployment: null,
  };
}

/** What a pod cost in this time; at an unknown price, what the dearest pod would have. */
export function costAtMost(pricePerHour: number | null, durationMs: Millis): MicroUsd {
  return costOf(pricePerHour === null ? UNKNOWN_PRICE : microUsd(pricePerHour), durationMs);
}

/** Ends the money of a pod that no request settles; one that no tick has seen yet gets its line now. */
export function spendUnasked(sql: Sql, line: LedgerLine, micros: MicroUsd): void {
  const money = new MoneyTable(sql);
  money.reserve(unasked(line, micros), true);
  money.settle(line.attempt_id, micros);
}

/** The money line of a pod that nobody asked for. */
export function unasked(line: LedgerLine, micros: MicroUsd) {
  const { attempt_id: attemptId, request_id: requestId, paid_from: at } = line;
  return { attemptId, requestId, prNumber: null, authorId: null, micros, at };
}

export interface OpenMoney {
  readonly attemptId: string;
  readonly micros: MicroUsd;
}

export interface MoneyStanding {
  readonly attemptId: string;
  /** `asking`: the account's yes is not stored yet. `unknown`: this gate has never heard of it. */
  readonly state: "asking" | "reserved" | "spent" | "released" | "unknown";
  readonly micros: MicroUsd;
}

export interface GateMoney {
  /** Every attempt that may cost money: the account said yes, or a pod runs. */
  readonly open: readonly OpenMoney[];
  /** In the order of the question. */
  readonly standings: readonly MoneyStanding[];
}

/** What the account is compared with: this gate's open money, and where the attempts stand that the account holds open. */
export function gateMoney(sql: Sql, store: Store, asked: readonly string[]): GateMoney {
  const money = new MoneyTable(sql);
  const running = new Set(store.openLedgerLines().map((line) => line.attempt_id));
  const asking = (row: MoneyRow) => row.state === "reserved" && row.confirmed === 0 && !running.has(row.attempt_id);
  return {
    open: money
      .open()
      .filter((row) => !asking(row))
      .map((row) => ({ attemptId: row.attempt_id, micros: row.micros })),
    standings: asked.map((attemptId): MoneyStanding => {
      const row = money.of(attemptId);
      if (row === null) return { attemptId, state: "unknown", micros: 0 };
      if (asking(row)) return { attemptId, state: "asking", micros: row.micros };
      const final = row.state === "spent" || row.state === "released" ? row.state : null;
      return { attemptId, state: final ?? "reserved", micros: row.micros };
    }),
  };
}
