/** What a tick books of pods that are not proven gone: up to now, to when they were gone, or to when cron had them gone at the latest. */
import { describe, expect, it } from "vitest";
import { bookRunning } from "../../durable-objects/gate/running.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import { beginRemoved, beginRetained, beginStray } from "../../durable-objects/gate/strays.ts";
import type { Teardown } from "../../shared/lifecycle/model.ts";
import { attemptAt, requestIn, states, T0 } from "../lifecycle/fixtures.ts";
import { nodeSql } from "../support/node-sql.ts";

const MINUTE = 60_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** USD per hour, so that an hour costs 360,000. */
const PRICE = 0.36;
const HOURLY = 360_000;

function world() {
  const sql = nodeSql();
  migrate(sql);
  const store = new Store(sql);
  const attemptId = "r1-1";
  const pod = attemptAt("online").pod;
  if (pod === null) throw new Error("it has a pod");
  return {
    store,
    podId: pod.id,
    tick: (at: number) => bookRunning(sql, store, at),
    /** The pod of a request: bought at T0, with ten minutes set aside. */
    bought: () => {
      const of = { attemptId, podId: pod.id, gpuId: null, tier: "A", pricePerHour: PRICE, paidFrom: T0 };
      store.ledger({ kind: "open", ...of }, "r1");
      const money = { attemptId, requestId: "r1", prNumber: 7, authorId: null, micros: HOURLY / 6, at: T0 };
      store.reserveMoney(money);
    },
    cleaning: (step: Teardown["step"], deletedAt: number | null) => {
      const state = states.cleaning(step);
      store.saveRequest(requestIn({ ...state, teardown: { ...state.teardown, step, deletedAt } }));
    },
    micros: (id = attemptId) => store.moneyOf(id)?.micros,
  };
}

describe("a pod that is known to be gone", () => {
  it("of nobody's costs nothing from then on, however late its gate is told and however long the proof takes", () => {
    const { store, tick, micros } = world();
    const removed = { podId: "p1", attemptId: null, why: "reap-backstop", createdAt: T0 - HOUR, pricePerHour: PRICE };
    beginRemoved(store, { ...removed, goneAt: T0 }, T0 + 5 * DAY);
    for (const at of [0, MINUTE, 2 * MINUTE, HOUR]) tick(T0 + 5 * DAY + at);
    expect(micros("stray-p1")).toBe(HOURLY);
  });

  it("of a request costs nothing from the answer of its deletion on", () => {
    const { bought, cleaning, tick, micros, store } = world();
    bought();
    cleaning("list", T0 + HOUR);
    tick(T0 + 2 * HOUR);
    tick(T0 + 2 * HOUR + MINUTE);
    expect(micros()).toBe(HOURLY);
    expect(store.auditAfter(0, 9)).toMatchObject([{ act: "money.beyond-reservation" }]);
  });

  it("costs on where it was seen after that answer, or where its order has none", () => {
    for (const deletedAt of [T0 + HOUR, null]) {
      const { bought, cleaning, tick, micros } = world();
      bought();
      cleaning("delete", deletedAt);
      tick(T0 + HOUR);
      tick(T0 + HOUR + MINUTE);
      expect(micros()).toBe(HOURLY + HOURLY / 60);
    }
  });
});

describe("the first tick after a silence", () => {
  it("takes a pod for gone by when cron had it gone at the latest; what nobody deleted counts in full from the next", () => {
    const { bought, tick, micros } = world();
    bought();
    const back = T0 + 5 * DAY;
    tick(back);
    expect(micros()).toBe(2 * HOURLY + HOURLY / 30);
    tick(back + MINUTE);
    expect(micros()).toBe(5 * 24 * HOURLY + HOURLY / 60);
  });

  it("finds no silence in a tick that was lost", () => {
    const { bought, tick, micros } = world();
    bought();
    for (const at of [0, 1, 2, 4, 6]) tick(T0 + DAY + at * MINUTE);
    expect(micros()).toBe(24 * HOURLY + HOURLY / 10);
  });

  it("lets a kept pod cost up to its end", () => {
    const { bought, tick, micros, store, podId } = world();
    bought();
    const end = { podId, until: T0 + 3 * HOUR, by: "mira", reason: "a hang" };
    beginRetained(store, { attempt: attemptAt("online"), ...end }, "r1", [], T0 + HOUR);
    tick(T0 + 5 * DAY);
    expect(micros()).toBe(3 * HOURLY + HOURLY / 30);
  });

  it("counts a young pod up to now", () => {
    const { tick, micros, store } = world();
    beginStray(store, "p1", "reap-late-pod", T0, T0, PRICE);
    tick(T0 + HOUR);
    expect(micros("stray-p1")).toBe(HOURLY);
  });
});
