import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  costOf,
  driftsFromBill,
  formatUsd,
  microUsd,
  ownEstimate,
  reservationOf,
  worstCase,
} from "../../shared/cost/estimate.ts";

describe("micro-dollars", () => {
  it("an hour costs the price, half of it half the price", () => {
    expect(costOf(microUsd(0.44), 3_600_000)).toBe(440_000);
    expect(costOf(microUsd(0.44), 1_800_000)).toBe(220_000);
  });

  it("spent rounds half up, reserved rounds up", () => {
    // One micro-dollar an hour for half an hour is exactly half a micro-dollar.
    expect(costOf(1, 1_800_000)).toBe(1);
    expect(costOf(1, 1_799_999)).toBe(0);
    expect(reservationOf(1, 1)).toBe(1);
    expect(reservationOf(1, 0)).toBe(0);
  });

  it("N148: a negative time costs nothing", () => {
    expect(costOf(440_000, -5_000)).toBe(0);
    expect(ownEstimate(440_000, 2_000, 1_000)).toBe(0);
  });

  it("a dollar amount that floating point cannot hold is still a whole number", () => {
    expect(microUsd(0.1 + 0.2)).toBe(300_000);
    expect(microUsd(1.49)).toBe(1_490_000);
  });

  it("refuses a price that is no whole number of micro-dollars", () => {
    expect(() => costOf(0.44, 1_000)).toThrow("whole number");
    expect(() => microUsd(Number.NaN)).toThrow("finite");
  });

  it("a reservation is never below the cost of any shorter time at any lower price", () => {
    const price = fc.integer({ min: 1, max: 1_600_000 });
    const time = fc.integer({ min: 0, max: 4_320_000 });
    fc.assert(
      fc.property(price, price, time, time, (a, b, s, t) => {
        const reserved = reservationOf(Math.max(a, b), Math.max(s, t));
        expect(reserved).toBeGreaterThanOrEqual(costOf(Math.min(a, b), Math.min(s, t)));
      }),
    );
  });
});

describe("the worst case", () => {
  it("is the highest price of the plan for 4,320 s", () => {
    expect(worstCase([440_000, 1_600_000, 200_000])).toBe(1_920_000);
  });

  it("of an empty plan is unknown, not free", () => {
    expect(worstCase([])).toBeNull();
  });
});

it("drift is more than 2 s and one request at the pod's price", () => {
  const price = microUsd(0.36); // 100 micro-dollars a second
  expect(driftsFromBill(1_000, 1_000 + 250, price, 500)).toBe(false);
  expect(driftsFromBill(1_000, 1_000 + 251, price, 500)).toBe(true);
  expect(driftsFromBill(1_000, 1_000 - 251, price, 500)).toBe(true);
});

it.each([
  [0, "$0.0000"],
  [69_667, "$0.0697"],
  [1_490_000, "$1.4900"],
  [49, "$0.0000"],
  [999_999, "$1.0000"],
  [-1_500, "-$0.0015"],
])("%i micro-dollars read %s", (amount, text) => {
  expect(formatUsd(amount)).toBe(text);
});
