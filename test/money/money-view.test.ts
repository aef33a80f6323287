import { beforeEach, describe, expect, it } from "vitest";
import { moneyView } from "../../durable-objects/gate/money-view.ts";
import { MoneyTable } from "../../durable-objects/gate/money-table.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import type { Sql } from "../../durable-objects/gate/ports.ts";
import { configFrom } from "../../shared/config/load.ts";
import { nodeSql } from "../support/node-sql.ts";

const NOW = Date.UTC(2026, 11, 2, 12);
const DAY = 86_400_000;

let sql: Sql;
let money: MoneyTable;
beforeEach(() => {
  sql = nodeSql();
  migrate(sql);
  money = new MoneyTable(sql);
});

/** `spent`: null while it is set aside. */
function line(id: string, at: number, micros: number, spent: number | null): void {
  money.reserve({ attemptId: id, requestId: "r1", prNumber: 7, authorId: "1", micros, at }, true);
  if (spent !== null) money.settle(id, spent);
}

describe("what a repository has spent", () => {
  it("is told for the UTC day and month beside the caps", () => {
    line("today", NOW - 3_600_000, 900_000, 100_000);
    line("yesterday", NOW - DAY, 900_000, 20_000);
    line("last month", NOW - 3 * DAY, 900_000, 3_000);
    const config = configFrom({ budget: { per_day: 5, per_month: 40 } });
    expect(moneyView(sql, config, NOW)).toEqual({
      day: { spent: 100_000, reserved: 0, cap: 5_000_000 },
      month: { spent: 120_000, reserved: 0, cap: 40_000_000 },
    });
  });

  it("holds what is set aside in both, however old that is, and nothing that was released", () => {
    line("now", NOW, 900_000, null);
    line("since last month", NOW - 3 * DAY, 50_000, null);
    line("released", NOW, 7_000, null);
    money.settle("released", null);
    expect(moneyView(sql, null, NOW)).toEqual({
      day: { spent: 0, reserved: 950_000, cap: null },
      month: { spent: 0, reserved: 950_000, cap: null },
    });
  });

  it("counts the first of the month on its last day", () => {
    line("first", Date.UTC(2026, 11, 1), 900_000, 100_000);
    expect(moneyView(sql, null, Date.UTC(2026, 11, 31, 23, 59, 59)).month.spent).toBe(100_000);
  });
});
