import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  CAPS,
  admit,
  describeExceeded,
  totalsFor,
  utcDay,
  utcMonth,
  type Caps,
  type MoneyLine,
  type Totals,
} from "../../shared/cost/budget.ts";

const USD = 1_000_000;
const CAPS_SET: Caps = {
  run: 3 * USD,
  "pull-request": null,
  author: null,
  day: 20 * USD,
  month: 200 * USD,
  deployment: 400 * USD,
};

function totals(more: Partial<Totals> = {}): Totals {
  const nothing = { spent: 0, reserved: 0 };
  return {
    run: nothing,
    "pull-request": nothing,
    author: nothing,
    day: nothing,
    month: nothing,
    deployment: nothing,
    ...more,
  };
}

describe("I9: admission", () => {
  it("N164: 4 of 5 dollars spent and a worst case of 3 is refused before the create", () => {
    const verdict = admit(3 * USD, { ...CAPS_SET, day: 5 * USD }, totals({ day: { spent: 4 * USD, reserved: 0 } }));
    expect(verdict).toEqual({
      admitted: false,
      exceeded: [{ cap: "day", limit: 5 * USD, spent: 4 * USD, reserved: 0, asked: 3 * USD, whoMayLift: "operator" }],
    });
  });

  it("reserved money counts like spent money", () => {
    const day = { spent: 0, reserved: 18 * USD };
    expect(admit(2 * USD, CAPS_SET, totals({ day })).admitted).toBe(true);
    expect(admit(2 * USD + 1, CAPS_SET, totals({ day })).admitted).toBe(false);
  });

  it("names every cap in the way, the narrowest first, and who may lift each", () => {
    const full = { spent: 1000 * USD, reserved: 0 };
    const verdict = admit(USD, CAPS_SET, totals({ run: full, month: full, deployment: full }));
    expect(verdict.admitted ? [] : verdict.exceeded.map(({ cap, whoMayLift }) => [cap, whoMayLift])).toEqual([
      ["run", "operator"],
      ["month", "operator"],
      ["deployment", "nobody"],
    ]);
  });

  it("a lifted cap does not lift the others", () => {
    const full = { spent: 1000 * USD, reserved: 0 };
    const verdict = admit(USD, CAPS_SET, totals({ day: full, month: full }), new Set(["day"]));
    expect(verdict.admitted ? null : verdict.exceeded.map(({ cap }) => cap)).toEqual(["month"]);
    expect(admit(USD, CAPS_SET, totals({ day: full }), new Set(["day"])).admitted).toBe(true);
  });

  it.each([[Number.NaN], [Infinity], [0], [-1], [0.5]])("an amount of %d is never admitted", (asked) => {
    const none: Caps = { run: null, "pull-request": null, author: null, day: null, month: null, deployment: null };
    expect(admit(asked, CAPS_SET, totals(), new Set(CAPS)).admitted).toBe(false);
    expect(admit(asked, none, totals()).admitted).toBe(false);
  });

  it("spent plus reserved stays at or below every cap, whoever asks in whatever order", () => {
    const asks = fc.array(fc.record({ amount: fc.integer({ min: 1, max: 4 * USD }), pays: fc.boolean() }));
    fc.assert(
      fc.property(asks, (list) => {
        const day = { spent: 0, reserved: 0 };
        for (const { amount, pays } of list) {
          if (!admit(amount, { ...CAPS_SET, run: null }, totals({ day })).admitted) continue;
          if (pays) day.spent += amount;
          else day.reserved += amount;
          expect(day.spent + day.reserved).toBeLessThanOrEqual(20 * USD);
        }
      }),
    );
  });

  it.each([
    ["day", "operator", /operator may lift it for this run \(`gpu-gate operator approve`\)/u],
    ["deployment", "nobody", /not lifted for one run.*`DEPLOYMENT_LIMITS`/u],
  ] as const)("says which cap, how much and whose word helps: %s", (cap, whoMayLift, word) => {
    const amounts = { limit: 400 * USD, spent: 399 * USD, reserved: USD, asked: 2 * USD };
    const text = describeExceeded({ cap, ...amounts, whoMayLift });
    expect(text).toMatch(/\$400\.0000.*\$399\.0000 spent.*\$1\.0000 reserved.*\$2\.0000 asked/u);
    expect(text).toMatch(word);
  });
});

describe("totals", () => {
  const NOW = Date.UTC(2026, 10, 30, 23, 59, 59, 999);
  const spender = { repositoryId: "101", requestId: "r1", prNumber: 7, authorId: "5" };
  const line = (more: Partial<MoneyLine>): MoneyLine => ({
    ...spender,
    openedAt: NOW,
    state: "spent",
    amount: 1,
    ...more,
  });

  it("days and months are UTC", () => {
    expect([utcDay(NOW), utcDay(NOW + 1)]).toEqual(["2026-11-30", "2026-12-01"]);
    expect([utcMonth(NOW), utcMonth(NOW + 1)]).toEqual(["2026-11", "2026-12"]);
  });

  it.each([
    ["its own line", {}, [1, 1, 1, 1, 1, 1]],
    ["another request of the pull request", { requestId: "r2" }, [0, 1, 1, 1, 1, 1]],
    ["another pull request of the author", { requestId: "r2", prNumber: 8 }, [0, 0, 1, 1, 1, 1]],
    ["another author", { requestId: "r2", prNumber: 8, authorId: "6" }, [0, 0, 0, 1, 1, 1]],
    ["yesterday's line of the same request", { openedAt: NOW - 86_400_000 }, [1, 1, 0, 0, 1, 1]],
    ["last month's", { requestId: "r0", prNumber: 1, openedAt: NOW - 40 * 86_400_000 }, [0, 0, 0, 0, 0, 0]],
    ["another repository", { repositoryId: "202" }, [0, 0, 0, 0, 0, 1]],
    ["an unknown author's", { requestId: "r2", prNumber: null, authorId: null }, [0, 0, 0, 1, 1, 1]],
  ] as const)("%s", (_, more, counts) => {
    const sums = totalsFor([line(more)], spender, NOW);
    expect(CAPS.map((cap) => sums[cap].spent)).toEqual(counts);
  });

  it("an open reservation of last month still counts today: its money may still be spent", () => {
    const old = line({ state: "reserved", openedAt: NOW - 40 * 86_400_000 });
    const sums = totalsFor([old], spender, NOW);
    expect(CAPS.map((cap) => sums[cap].reserved)).toEqual([1, 1, 1, 1, 1, 1]);
  });

  it("a spender without a pull request or author shares no total with others like it", () => {
    const nobody = { ...spender, requestId: "r9", prNumber: null, authorId: null };
    const sums = totalsFor([line({ requestId: "r8", prNumber: null, authorId: null })], nobody, NOW);
    expect([sums["pull-request"].spent, sums.author.spent]).toEqual([0, 0]);
  });
});
