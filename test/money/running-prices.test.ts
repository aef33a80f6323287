/** Prices that RunPod tells late, or as 0: a pod in progress and a stray are never booked as free. */
import { describe, expect, it } from "vitest";
import { bookRunning } from "../../durable-objects/gate/running.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import { beginRetained, beginStray, keepMoneyId, strayRecord } from "../../durable-objects/gate/strays.ts";
import { attemptAt, requestIn, states, T0 } from "../lifecycle/fixtures.ts";
import { nodeSql } from "../support/node-sql.ts";

const HOUR = 3_600_000;
/** USD per hour, so that an hour costs 360,000. */
const PRICE = 0.36;
const HOURLY = 360_000;

function world() {
  const sql = nodeSql();
  migrate(sql);
  const store = new Store(sql);
  const { pod } = attemptAt("online");
  if (pod === null) throw new Error("it has a pod");
  return {
    store,
    podId: pod.id,
    tick: (at: number) => {
      store.setMeta("booked_at", String(at));
      bookRunning(sql, store, at);
    },
    /** The pod of a request, bought at T0; its create told this price. */
    bought: (told: number | null, now: number | null, reserved: number) => {
      const of = { attemptId: "r1-1", podId: pod.id, gpuId: null, tier: "A", pricePerHour: told, paidFrom: T0 };
      store.ledger({ kind: "open", ...of }, "r1");
      const attempt = attemptAt("online", { pod: { ...pod, pricePerHour: now } });
      store.saveRequest(requestIn(states.executing({ attempt })));
      const line = { requestId: "r1", prNumber: 7, authorId: null, at: T0 };
      store.reserveMoney({ ...line, attemptId: "r1-1", micros: reserved });
      return {
        attempt,
        keep: (micros: number) => store.reserveMoney({ ...line, attemptId: keepMoneyId("r1-1"), micros }),
      };
    },
    micros: (id = "r1-1") => store.moneyOf(id)?.micros,
    acts: () => store.auditAfter(0, 9).map((row) => row.act),
  };
}

describe("a running pod costs what RunPod was seen to ask for it", () => {
  it.each([
    ["told as 0 while it was placed", 0],
    ["not told at the create", null],
    ["lower at the create", PRICE / 2],
  ])("its price %s", (_what, told) => {
    const { bought, tick, micros } = world();
    bought(told, PRICE, HOURLY / 6);
    tick(T0 + HOUR);
    expect(micros()).toBe(HOURLY);
  });

  it("its price never told: at most what the dearest pod costs", () => {
    const { bought, tick, micros } = world();
    bought(0, null, 1);
    tick(T0 + HOUR);
    expect(micros()).toBe(1_600_000);
  });
});

it("a stray that has stopped shows 0: that is no price, and it is not booked as free", () => {
  const { store, tick, micros } = world();
  beginStray(store, "p9", "second pod under one name", T0, T0, 0);
  const row = store.stray("p9") ?? expect.fail("the row is there");
  expect(strayRecord(row, store).attempt.pod?.pricePerHour).toBeNull();
  expect(store.ledgerLine("p9")?.price_per_hour).toBeNull();
  tick(T0 + HOUR);
  expect(micros("stray-p9")).toBe(1_600_000);
});

describe("a kept pod", () => {
  function kept() {
    const made = world();
    const { attempt, keep } = made.bought(PRICE, PRICE, HOURLY);
    keep(HOURLY / 2);
    const handed = { attempt, podId: made.podId, until: T0 + 1.5 * HOUR, by: "mira", reason: "a hang" };
    beginRetained(made.store, handed, "r1", [keepMoneyId("r1-1")], T0 + HOUR);
    made.store.saveRequest(requestIn(states.concluded()));
    return made;
  }

  it("I9: within its own minutes is no cost beyond what was set aside, and is counted once", () => {
    const { tick, micros, acts } = kept();
    tick(T0 + 1.5 * HOUR);
    expect(acts()).toEqual([]);
    expect((micros() ?? 0) + (micros(keepMoneyId("r1-1")) ?? 0)).toBe(1.5 * HOURLY);
  });

  it("beyond them it is, by so much", () => {
    const { tick, micros, acts } = kept();
    tick(T0 + 2 * HOUR);
    expect(acts()).toEqual(["money.beyond-reservation"]);
    expect((micros() ?? 0) + (micros(keepMoneyId("r1-1")) ?? 0)).toBe(2 * HOURLY);
  });
});
