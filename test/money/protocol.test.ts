/**
 * The money protocol between gates and account (design 3.5), step by step and in any order: two repositories, ten attempts
 * at once, answers that get lost on the way there or back, crashes between any two steps, cron comparing in between.
 */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Account } from "../../durable-objects/account/account.ts";
import type { SeenPod } from "../../durable-objects/account/compare.ts";
import { gateMoney, reserveMoney, settleMoney, type MoneyAsked } from "../../durable-objects/gate/money.ts";
import { MoneyTable } from "../../durable-objects/gate/money-table.ts";
import type { AccountAnswer, AccountPort } from "../../durable-objects/gate/ports.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import { configFrom } from "../../shared/config/load.ts";
import { newRequest } from "../../shared/lifecycle/new-request.ts";
import type { RunPodClient } from "../../shared/runpod/client.ts";
import { nodeSql, type NodeSql } from "../support/node-sql.ts";

const USD = 1_000_000;
const T0 = Date.UTC(2026, 10, 30, 12);
const REPOSITORIES = ["101", "102"] as const;

/** Where a call between gate and account breaks. */
type Break = "none" | "lost-request" | "lost-answer";

const CONFIG = configFrom();

interface GateSide {
  readonly id: string;
  readonly sql: NodeSql;
  readonly store: Store;
  readonly money: MoneyTable;
}

class World {
  now = T0;
  breakNext: Break = "none";
  readonly account: Account;
  readonly gates: readonly GateSide[];
  readonly pods = new Map<string, SeenPod>();

  readonly cap: number;

  constructor(cap: number) {
    this.cap = cap;
    const clock = { now: () => this.now };
    // The books need no provider: the list of pods is this world's own.
    const runpod = {} as RunPodClient;
    this.account = new Account({ sql: nodeSql(), clock, runpod, monthlyCapMicros: cap });
    this.gates = REPOSITORIES.map((id) => {
      const sql = nodeSql();
      migrate(sql);
      return { id, sql, store: new Store(sql), money: new MoneyTable(sql) };
    });
  }

  ports(gate: GateSide) {
    const call = <T>(perform: () => T): Promise<AccountAnswer<T>> => {
      const broken = this.breakNext;
      this.breakNext = "none";
      if (broken === "lost-request") return Promise.resolve({ ok: false, why: "no answer" });
      const value = perform();
      return Promise.resolve(broken === "lost-answer" ? { ok: false, why: "no answer" } : { ok: true, value });
    };
    const account = {
      reserve: (attemptId: string, micros: number) => call(() => this.account.reserve(attemptId, gate.id, micros)),
      commit: (attemptId: string, micros: number) =>
        call(() => (this.account.commit(attemptId, micros, gate.id), null)),
      release: (attemptId: string) => call(() => (this.account.release(attemptId, gate.id), null)),
    } as AccountPort;
    return { sql: gate.sql, account, now: () => this.now };
  }

  asked(gate: GateSide, attempt: string, micros: number): MoneyAsked {
    const what = { kind: "pull-request", prNumber: 7, headSha: "a".repeat(40), generation: 1, row: 1 } as const;
    const request = newRequest(attempt.split("-")[0] ?? "", { ...what, actor: null, approvedBy: null }, T0);
    return { id: attempt, micros, repositoryId: gate.id, request, config: CONFIG };
  }

  /** Cron's tick, with a list that began now. */
  compare(answering: readonly GateSide[] = this.gates) {
    this.now += 60_000;
    const open = this.account.openReservations();
    const gates = answering.map((gate) => {
      const ids = open.filter((one) => one.repositoryId === gate.id).map((one) => one.attemptId);
      return { repositoryId: gate.id, money: gateMoney(gate.sql, gate.store, ids) };
    });
    const list = { startedAt: this.now, complete: true };
    return this.account.compareBooks({ list, pods: [...this.pods.values()], gates });
  }

  counted(): number {
    const { spent, reserved } = this.account.totals();
    return spent + reserved;
  }
}

const first = (world: World): GateSide => world.gates[0] ?? expect.fail("a world has gates");
const pod = (attemptId: string, repositoryId = "101"): SeenPod => ({
  podId: `pod-${attemptId}`,
  repositoryId,
  attemptId,
  pricePerHour: 1,
  createdAt: T0,
});

describe("each step, with a crash behind it", () => {
  it("reserve: a lost answer is asked again and counts once", async () => {
    const world = new World(10 * USD);
    const gate = first(world);
    world.breakNext = "lost-answer";
    const asked = world.asked(gate, "r1-1", USD);
    expect(await reserveMoney(asked, world.ports(gate))).toEqual({ kind: "unknown", why: "no answer" });
    expect(await reserveMoney(asked, world.ports(gate))).toEqual({ kind: "reserved" });
    expect(await reserveMoney(asked, world.ports(gate))).toEqual({ kind: "reserved" });
    expect(world.account.totals()).toEqual({ spent: 0, reserved: USD });
  });

  it("reserve: an intent whose call never left is not booked behind the cap's back", async () => {
    const world = new World(10 * USD);
    const gate = first(world);
    world.breakNext = "lost-request";
    await reserveMoney(world.asked(gate, "r1-1", USD), world.ports(gate));
    expect(world.compare()).toEqual([]);
    expect(world.compare()).toEqual([]);
    expect(world.account.totals()).toEqual({ spent: 0, reserved: 0 });
  });

  it("reserve: a refusal of the account gives the gate's own reservation back, for good", async () => {
    const world = new World(USD);
    const gate = first(world);
    const refused = await reserveMoney(world.asked(gate, "r1-1", 2 * USD), world.ports(gate));
    expect(refused).toMatchObject({ kind: "over-cap" });
    expect(gate.money.of("r1-1")).toMatchObject({ state: "released", micros: 0 });
    // The same attempt may not find money later, when there is room: its answer was given.
    expect(await reserveMoney(world.asked(gate, "r1-1", 1), world.ports(gate))).toMatchObject({ kind: "over-cap" });
  });

  it.each(["lost-request", "lost-answer"] as const)(
    "commit: %s is made up by a repeat, or by the next tick",
    async (broken) => {
      for (const repair of ["repeat", "tick"] as const) {
        const world = new World(10 * USD);
        const gate = first(world);
        await reserveMoney(world.asked(gate, "r1-1", 2 * USD), world.ports(gate));
        world.breakNext = broken;
        expect(await settleMoney("r1-1", USD, world.ports(gate))).toMatchObject({ kind: "unknown" });
        if (repair === "repeat") expect(await settleMoney("r1-1", USD, world.ports(gate))).toEqual({ kind: "settled" });
        else world.compare();
        expect(world.account.totals()).toEqual({ spent: USD, reserved: 0 });
      }
    },
  );

  it("release: a lost one is made up by the next tick, and a late reserve is refused", async () => {
    const world = new World(10 * USD);
    const gate = first(world);
    await reserveMoney(world.asked(gate, "r1-1", USD), world.ports(gate));
    world.breakNext = "lost-request";
    await settleMoney("r1-1", null, world.ports(gate));
    expect(world.compare()).toMatchObject([{ kind: "settled", attemptId: "r1-1" }]);
    expect(world.account.reserve("r1-1", "101", USD)).toMatchObject({ kind: "over-cap" });
    expect(world.counted()).toBe(0);
  });

  it("a release that overtakes its reservation makes the attempt final all the same", () => {
    const world = new World(10 * USD);
    world.account.release("r1-1", "101");
    expect(world.account.reserve("r1-1", "101", USD)).toMatchObject({ kind: "over-cap" });
    expect(world.counted()).toBe(0);
  });

  it("the same attempt number of two repositories is two attempts", () => {
    const world = new World(10 * USD);
    expect(world.account.reserve("r1-1", "101", USD)).toEqual({ kind: "reserved" });
    expect(world.account.reserve("r1-1", "102", USD)).toEqual({ kind: "reserved" });
    world.account.commit("r1-1", 5, "101");
    expect(world.account.totals()).toEqual({ spent: 5, reserved: USD });
  });

  it("while buying is paused nothing is reserved, and what is spent is still written down", () => {
    const world = new World(10 * USD);
    expect(world.account.reserve("r1-1", "101", USD)).toEqual({ kind: "reserved" });
    world.account.setPaused(true);
    expect(world.account.reserve("r2-1", "101", USD)).toMatchObject({
      kind: "over-cap",
      detail: expect.stringContaining("paused") as string,
    });
    world.account.commit("r1-1", 7, "101");
    expect(world.account.totals()).toEqual({ spent: 7, reserved: 0 });
    world.account.setPaused(false);
    expect(world.account.reserve("r3-1", "101", USD)).toEqual({ kind: "reserved" });
  });
});

describe("comparing the books", () => {
  it("gives back what its gate does not know and two complete lists do not show, never after one", () => {
    const world = new World(10 * USD);
    world.account.reserve("r9-1", "101", USD);
    expect(world.compare()).toEqual([]);
    expect(world.counted()).toBe(USD);
    expect(world.compare()).toEqual([{ kind: "released", repositoryId: "101", attemptId: "r9-1", micros: USD }]);
    expect(world.counted()).toBe(0);
  });

  it("never by time alone: a gate that does not answer keeps its reservations for ever", () => {
    const world = new World(10 * USD);
    world.account.reserve("r9-1", "101", USD);
    for (let tick = 0; tick < 50; tick += 1) {
      world.now += 86_400_000;
      expect(world.compare([])).toEqual([]);
    }
    expect(world.counted()).toBe(USD);
  });

  it("a pod in the list keeps the reservation of an attempt that its gate forgot, and grows it", () => {
    const world = new World(10 * USD);
    world.account.reserve("r9-1", "101", 100);
    world.pods.set("p", pod("r9-1"));
    expect(world.compare()).toMatchObject([{ kind: "raised", attemptId: "r9-1" }]);
    expect(world.counted()).toBe(16_667);
  });

  it("books at once what its gate holds open and the account lost, and buys nothing until there is room", async () => {
    const world = new World(3 * USD);
    const gate = first(world);
    await reserveMoney(world.asked(gate, "r1-1", 2 * USD), world.ports(gate));
    const bare = new World(3 * USD);
    // The same gate, before an account that lost everything.
    const seen = gateMoney(gate.sql, gate.store, []);
    expect(bare.account.compareBooks({ list: null, pods: [], gates: [{ repositoryId: "101", money: seen }] })).toEqual([
      { kind: "booked", repositoryId: "101", attemptId: "r1-1", micros: 2 * USD },
    ]);
    expect(bare.account.reserve("r2-1", "101", 2 * USD)).toMatchObject({ kind: "over-cap" });
    expect(bare.account.reserve("r2-2", "101", USD)).toEqual({ kind: "reserved" });
  });

  it("an attempt that is given back while the gates are asked is not booked again", async () => {
    const world = new World(10 * USD);
    const gate = first(world);
    await reserveMoney(world.asked(gate, "r1-1", USD), world.ports(gate));
    const list = { startedAt: world.now, complete: true };
    const seen = gateMoney(gate.sql, gate.store, ["r1-1"]);
    world.now += 100;
    await settleMoney("r1-1", null, world.ports(gate));
    expect(world.account.compareBooks({ list, pods: [], gates: [{ repositoryId: "101", money: seen }] })).toEqual([]);
    expect(world.counted()).toBe(0);
  });

  it("books a visible pod that no line is about, at the worst case, and settles it by its time when it has gone", () => {
    const world = new World(10 * USD);
    world.pods.set("p", pod("r5-1"));
    expect(world.compare()).toMatchObject([{ kind: "booked", attemptId: "r5-1", micros: 1_200_000 }]);
    world.pods.clear();
    world.compare();
    const gone = world.now;
    expect(world.compare()).toMatchObject([{ kind: "settled", attemptId: "r5-1" }]);
    expect(world.account.totals()).toEqual({ spent: Math.round((gone - T0) / 3.6), reserved: 0 });
  });

  it("a late pod of a settled attempt is money of its own", () => {
    const world = new World(10 * USD);
    world.account.reserve("r5-1", "101", USD);
    world.account.release("r5-1", "101");
    world.pods.set("p", pod("r5-1"));
    expect(world.compare()).toMatchObject([{ kind: "booked", attemptId: "stray-pod-r5-1" }]);
  });

  it("changes nothing when it runs again over the same facts", () => {
    const world = new World(10 * USD);
    world.pods.set("p", pod("r5-1"));
    world.account.reserve("r9-1", "102", USD);
    world.compare();
    const before = world.account.openReservations();
    const seen = {
      list: { startedAt: world.now, complete: true },
      pods: [...world.pods.values()],
      gates: world.gates.map((gate) => ({ repositoryId: gate.id, money: gateMoney(gate.sql, gate.store, ["r9-1"]) })),
    };
    expect(world.account.compareBooks(seen)).toEqual([]);
    expect(world.account.openReservations()).toEqual(before);
  });
});

describe("I9: whatever the order and whatever breaks", () => {
  type Act =
    | { readonly kind: "reserve"; readonly gate: number; readonly attempt: number; readonly broken: Break }
    | {
        readonly kind: "settle";
        readonly gate: number;
        readonly attempt: number;
        readonly spent: number | null;
        readonly broken: Break;
      }
    | { readonly kind: "tick"; readonly silent: boolean };

  const broken = fc.constantFrom<Break>("none", "lost-request", "lost-answer");
  const gateNo = fc.integer({ min: 0, max: 1 });
  const attemptNo = fc.integer({ min: 1, max: 10 });
  const act: fc.Arbitrary<Act> = fc.oneof(
    fc.record({ kind: fc.constant("reserve" as const), gate: gateNo, attempt: attemptNo, broken }),
    fc.record({
      kind: fc.constant("settle" as const),
      gate: gateNo,
      attempt: attemptNo,
      spent: fc.option(fc.integer({ min: 0, max: USD }), { nil: null }),
      broken,
    }),
    fc.record({ kind: fc.constant("tick" as const), silent: fc.boolean() }),
  );

  it("no create is allowed above a cap, no reservation is lost, and the books agree once calls get through", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(act, { maxLength: 60 }), fc.integer({ min: 1, max: 8 }), async (acts, capUsd) => {
        const world = new World(capUsd * USD);
        const allowed = new Set<string>();
        const final = new Set<string>();
        for (const one of acts) {
          const gate = world.gates[one.kind === "tick" ? 0 : one.gate] ?? first(world);
          if (one.kind === "tick") {
            world.compare(one.silent ? world.gates.slice(0, 1) : world.gates);
          } else if (one.kind === "reserve") {
            world.breakNext = one.broken;
            const id = `r${one.attempt}-1`;
            const answer = await reserveMoney(world.asked(gate, id, USD), world.ports(gate));
            if (answer.kind === "reserved") {
              // What the gate may now create is counted on both sides, within the cap, and was not settled before.
              expect(final.has(`${gate.id}/${id}`)).toBe(false);
              allowed.add(`${gate.id}/${id}`);
              expect(world.counted()).toBeLessThanOrEqual(world.cap);
              expect(world.account.openReservations()).toContainEqual({
                attemptId: id,
                repositoryId: gate.id,
                micros: USD,
              });
            }
          } else {
            const id = `r${one.attempt}-1`;
            const known = gate.money.of(id);
            if (known === null) continue;
            world.breakNext = one.broken;
            // A release is only for what was never bought; the lifecycle knows, here it is drawn.
            await settleMoney(id, one.spent, world.ports(gate));
            final.add(`${gate.id}/${id}`);
          }
          // Everything that may be created and is not settled at its gate is in the account's books.
          for (const key of allowed) {
            if (final.has(key)) continue;
            const [repositoryId, attemptId] = key.split("/");
            expect(world.account.openReservations()).toContainEqual({ attemptId, repositoryId, micros: USD });
          }
        }
        // Calls get through again: after two ticks both sides tell the same story.
        for (const gate of world.gates) {
          for (const row of gate.money.open()) {
            if (row.confirmed === 0) await settleMoney(row.attempt_id, null, world.ports(gate));
          }
        }
        world.compare();
        world.compare();
        for (const gate of world.gates) {
          const there = world.account.openReservations().filter((one) => one.repositoryId === gate.id);
          expect(there.map((one) => one.attemptId).toSorted()).toEqual(
            gate.money
              .open()
              .map((row) => row.attempt_id)
              .toSorted(),
          );
        }
        // Money spent in an answered or repaired call stands on both sides; a settle that never reached an attempt the
        // account knew is not told again, and cost nothing: without its yes nothing was ever created.
        const spent = world.gates.flatMap((gate) =>
          gate.sql.exec<{ id: string; micros: number }>(
            `SELECT attempt_id AS id, micros FROM money WHERE state = 'spent' AND confirmed = 1`,
          ),
        );
        const sum = spent.reduce((total, row) => total + row.micros, 0);
        expect(world.account.totals().spent).toBeGreaterThanOrEqual(sum);
        expect(world.account.totals().reserved).toBeLessThanOrEqual(world.cap);
      }),
      { numRuns: 100 },
    );
  });

  it("ten requests at once find the money of one cap, once", async () => {
    const world = new World(3 * USD);
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, index) => {
        const gate = world.gates[index % 2] ?? first(world);
        return reserveMoney(world.asked(gate, `r${index}-1`, USD), world.ports(gate));
      }),
    );
    expect(answers.filter((answer) => answer.kind === "reserved")).toHaveLength(3);
    expect(world.counted()).toBe(3 * USD);
  });
});
