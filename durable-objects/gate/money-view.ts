/** What a repository has spent and set aside today and this month, beside what it may. */
import { microUsd, type MicroUsd } from "../../shared/cost/estimate.ts";
import { totalsFor, type Total } from "../../shared/cost/budget.ts";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import type { Millis } from "../../shared/ports.ts";
import { moneyLine } from "./money.ts";
import { MoneyTable } from "./money-table.ts";
import type { Sql } from "./ports.ts";

/** Micro-dollars of one window. */
export interface WindowMoney {
  /** By our own estimate, of pods that are gone. */
  readonly spent: MicroUsd;
  /** Set aside for what runs or is about to be bought, at the most it may cost. */
  readonly reserved: MicroUsd;
  /** Null: no configuration was read yet. */
  readonly cap: MicroUsd | null;
}

/** UTC day and UTC month, as the caps count them. */
export interface MoneyView {
  readonly day: WindowMoney;
  readonly month: WindowMoney;
}

/** No day of a month is longer ago. */
const MONTH_MS = 31 * 86_400_000;

export function moneyView(sql: Sql, config: RepositoryConfig | null, now: Millis): MoneyView {
  const nobody = { repositoryId: "", requestId: "", prNumber: null, authorId: null };
  const lines = new MoneyTable(sql).lines(now - MONTH_MS, nobody.requestId, nobody.prNumber);
  const totals = totalsFor(
    lines.map((row) => moneyLine(row, nobody.repositoryId)),
    nobody,
    now,
  );
  const capped = ({ spent, reserved }: Total, cap: number | undefined): WindowMoney => ({
    spent,
    reserved,
    cap: cap === undefined ? null : microUsd(cap),
  });
  return { day: capped(totals.day, config?.budget.per_day), month: capped(totals.month, config?.budget.per_month) };
}
