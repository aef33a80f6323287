import { describe, expect, it } from "vitest";
import { Forecast } from "../../durable-objects/gate/forecast.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import { checkView } from "../../shared/lifecycle/check-view.ts";
import { requestIn, states } from "../lifecycle/fixtures.ts";
import { nodeSql } from "../support/node-sql.ts";

const MINUTE = 60_000;
const FREE = { holder: null, fence: 1, since: null };

/** A gate whose requests held the lock for so many minutes each, and paid so many micro-dollars. */
function after(...held: readonly { readonly minutes: number; readonly micros: number }[]): Forecast {
  const sql = nodeSql();
  migrate(sql);
  const store = new Store(sql);
  let now = 0;
  for (const [index, { minutes, micros }] of held.entries()) {
    const id = `r${index + 1}`;
    store.audit(now, id, { act: "lock.granted", reason: null, facts: {} });
    now += minutes * MINUTE;
    const line = { attemptId: `${id}-1`, podId: `pod-${id}`, pricePerHour: 1 };
    store.ledger({ kind: "open", ...line, gpuId: null, tier: "t", paidFrom: now }, id);
    store.ledger({ kind: "close", ...line, closedAt: now, provenAt: now, estimateMicros: micros, outcome: "x" }, id);
    store.audit(now, id, { act: "lock.release", reason: null, facts: {} });
  }
  return new Forecast(sql);
}

describe("what a waiter may expect", () => {
  it("is nothing before the first run", () => {
    expect(after().expect(1, FREE, 20, 0)).toEqual({ etaMs: null, expectedMicros: null });
  });

  it("is the rest of the holder's mean time, and a mean time for everyone in between", () => {
    const forecast = after({ minutes: 4, micros: 10_000 }, { minutes: 6, micros: 30_000 });
    const lock = { holder: "r9", fence: 3, since: 100 * MINUTE };
    expect(forecast.expect(1, lock, 20, 102 * MINUTE)).toEqual({ etaMs: 3 * MINUTE, expectedMicros: 20_000 });
    expect(forecast.expect(3, lock, 20, 102 * MINUTE).etaMs).toBe(13 * MINUTE);
    // A holder that takes longer than usual may end at any moment.
    expect(forecast.expect(1, lock, 20, 120 * MINUTE).etaMs).toBe(0);
    expect(forecast.expect(null, lock, 20, 102 * MINUTE)).toEqual({ etaMs: null, expectedMicros: null });
  });

  it("looks at the configured number of runs, the newest first", () => {
    const forecast = after({ minutes: 60, micros: 900_000 }, { minutes: 4, micros: 10_000 });
    expect(forecast.expect(2, FREE, 1, 0)).toEqual({ etaMs: 4 * MINUTE, expectedMicros: 10_000 });
  });

  it("stands in the text of the waiting check", () => {
    const info = { place: 2, waiting: 3, holder: "r9", etaMs: 13 * MINUTE, expectedMicros: 20_000 };
    const view = checkView(requestIn(states.queued()), info);
    expect(view.title).toBe("Waiting for the GPU lock: place 2");
    expect(view.summary).toContain("about 13 min");
    expect(view.summary).toContain("USD 0.0200");
  });
});
