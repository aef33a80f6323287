/** Cron's two looks at the money: the books of both sides each minute, RunPod's bill once a night. */
import { describe, expect, it } from "vitest";
import { reconcileBills } from "../../cron/billing.ts";
import { atRest, compareMoney } from "../../cron/compare-money.ts";
import type { BooksPorts, CronPorts } from "../../cron/ports.ts";
import { Account } from "../../durable-objects/account/account.ts";
import { recordBills, type Bill } from "../../durable-objects/gate/bills.ts";
import { gateMoney } from "../../durable-objects/gate/money.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import type { AuditNote } from "../../shared/lifecycle/step.ts";
import { ok } from "../../shared/result.ts";
import type { PodBilling, RunPodClient } from "../../shared/runpod/client.ts";
import { parsePod } from "../../shared/runpod/pod.ts";
import { ownershipTags, podName } from "../../shared/runpod/tags.ts";
import { nodeSql } from "../support/node-sql.ts";

const NIGHT = Date.UTC(2026, 10, 30, 2, 5);
const HOUR = 3_600_000;

class World {
  now = NIGHT;
  readonly sql = nodeSql();
  readonly store: Store;
  readonly account: Account;
  readonly logged: Readonly<Record<string, unknown>>[] = [];
  readonly notes: AuditNote[] = [];
  readonly silent = new Set<string>();
  bill: PodBilling[] = [];
  billingCalls = 0;
  pods: ReturnType<typeof pod>[] = [];

  constructor() {
    migrate(this.sql);
    this.store = new Store(this.sql);
    const runpod = {
      billingPods: async () => {
        this.billingCalls += 1;
        return ok(this.bill);
      },
    } as unknown as RunPodClient;
    const clock = { now: () => this.now };
    this.account = new Account({ sql: nodeSql(), clock, runpod, monthlyCapMicros: 100_000_000 });
  }

  get ports(): CronPorts {
    return {
      deployment: "testing",
      clock: { now: () => this.now },
      log: (entry: Readonly<Record<string, unknown>>) => void this.logged.push(entry),
      account: {
        listPods: async () => ({ ok: true, value: { startedAt: this.now, complete: true, pods: this.pods } }),
      },
    } as unknown as CronPorts;
  }

  get books(): BooksPorts {
    const account = this.account;
    return {
      account: {
        openReservations: async () => account.openReservations(),
        compareBooks: async (seen) => account.compareBooks(seen),
        bills: (from, to) => account.bills(from, to),
        buyers: async (since) => account.buyers(since),
        takeBillingTurn: async (day, retryMs) => account.takeBillingTurn(day, retryMs),
        billingDone: async (day, problems) => account.billingDone(day, problems),
      },
      gate: (id) => ({
        money: async (asked) => {
          if (this.silent.has(id)) throw new Error("reset");
          return gateMoney(this.sql, this.store, asked);
        },
        recordBills: async (bills, window) => {
          if (this.silent.has(id)) throw new Error("reset");
          return recordBills(this.sql, this.store, bills, window, this.now);
        },
        note: async (note) => void this.notes.push(note),
      }),
    };
  }

  /** A closed line of an hour that ended the day before. */
  closed(podId: string, pricePerHour: number | null, estimateMicros: number | null): void {
    const paidFrom = NIGHT - 20 * HOUR;
    this.store.ledger(
      { kind: "open", attemptId: `${podId}-a`, podId, gpuId: "g", tier: "t", pricePerHour, paidFrom },
      "r1",
    );
    const closedAt = paidFrom + HOUR;
    this.store.ledger(
      {
        kind: "close",
        attemptId: `${podId}-a`,
        podId,
        closedAt,
        provenAt: closedAt,
        pricePerHour,
        estimateMicros,
        outcome: "tests-passed",
      },
      "r1",
    );
  }
}

function pod(id: string, attemptId: string) {
  const identity = {
    deployment: "testing",
    repositoryId: "101",
    requestId: "r1",
    attemptId,
    runId: "9",
    keep: "false",
  };
  const parsed = parsePod({
    id,
    name: podName(identity),
    status: "RUNNING",
    cost: 1,
    createdAt: new Date(NIGHT).toISOString(),
    env: ownershipTags(identity),
  });
  if (!parsed.ok) throw new Error(parsed.what);
  return parsed.pod;
}

const charge = (podId: string, totalUsd: number): PodBilling => ({
  podId,
  startMs: null,
  endMs: null,
  totalUsd,
  gpuUsd: null,
  diskUsd: null,
});
const billed = (world: World, podId: string) => world.store.ledgerLine(podId)?.billed_micros;

describe("the nightly bill", () => {
  it("is written beside the estimate, its days summed; within 2 s it is no drift", async () => {
    const world = new World();
    world.closed("p1", 1, 1_000_000);
    // Two seconds at one dollar an hour are 556 micro-dollars.
    world.bill = [charge("p1", 0.5), charge("p1", 0.500_556)];
    const status = await reconcileBills(world.ports, world.books, ["101"]);
    expect(status).toMatchObject({ kind: "reconciled", pods: 1, drifts: [], problems: [] });
    expect(billed(world, "p1")).toBe(1_000_556);
    expect(world.store.ledgerLine("p1")?.estimate_micros).toBe(1_000_000);
  });

  it.each([
    ["more", 1_000_557],
    ["less", 999_443],
  ])(
    "one micro-dollar %s than 2 s explain is an alarm: on the board, in the log, in the audit, once",
    async (_, micros) => {
      const world = new World();
      world.closed("p1", 1, 1_000_000);
      world.bill = [charge("p1", micros / 1_000_000)];
      const status = await reconcileBills(world.ports, world.books, ["101"]);
      expect(status.drifts).toEqual([{ podId: "p1", estimate: 1_000_000, billed: micros, repositoryId: "101" }]);
      expect(status.problems[0]).toContain("Pod p1 was billed");
      expect(world.logged).toContainEqual({ event: "cron.bill-drift", pod: "p1", estimate: 1_000_000, billed: micros });
      expect(world.store.auditAfter(0, 10).map((row) => row.act)).toEqual(["bill.drift"]);
      // Later that day the board still says so, and nothing is asked or alarmed again.
      world.now += HOUR;
      const later = await reconcileBills(world.ports, world.books, ["101"]);
      expect(later).toMatchObject({ kind: "not-due", problems: status.problems });
      world.now += 23 * HOUR;
      expect((await reconcileBills(world.ports, world.books, ["101"])).drifts).toEqual([]);
      expect(world.billingCalls).toBe(2);
    },
  );

  it("a bill for a pod whose estimate was never known is a drift, not silence", async () => {
    const world = new World();
    world.closed("p1", null, null);
    world.bill = [charge("p1", 0.01)];
    expect((await reconcileBills(world.ports, world.books, ["101"])).drifts).toMatchObject([{ estimate: null }]);
  });

  it("reports charges for pods that no ledger knows, unless a gate was silent", async () => {
    const world = new World();
    world.bill = [charge("stranger", 2.5), charge("free", 0)];
    const status = await reconcileBills(world.ports, world.books, ["101"]);
    expect(status.unknown).toEqual({ pods: 1, micros: 2_500_000 });
    expect(status.problems).toEqual([
      "$2.5000 were charged in 7 days for 1 pod that no ledger knows: stranger. On an account that others use as well they are theirs.",
    ]);
    const other = new World();
    other.bill = world.bill;
    other.silent.add("101");
    const unsure = await reconcileBills(other.ports, other.books, ["101"]);
    expect(unsure.problems).toEqual(["The gate of repository 101 took no bills: reset."]);
    // The silent gate is asked again, but not every minute.
    other.silent.clear();
    other.now += 60_000;
    expect((await reconcileBills(other.ports, other.books, ["101"])).kind).toBe("not-due");
    other.now += HOUR;
    expect((await reconcileBills(other.ports, other.books, ["101"])).kind).toBe("reconciled");
  });

  it("asks a repository that was removed since, as long as its pods may be on the bill", async () => {
    const world = new World();
    world.closed("p1", 0.27, 100_000);
    world.now = NIGHT - 20 * HOUR;
    world.account.reserve("p1-a", "101", 200_000);
    world.account.commit("p1-a", 100_000, "101");
    world.now = NIGHT;
    world.bill = [charge("p1", 0.1)];
    const status = await reconcileBills(world.ports, world.books, ["102"]);
    expect(status).toMatchObject({ unknown: { pods: 0 }, problems: [] });
    expect(billed(world, "p1")).toBe(100_000);
    // Nobody knows whose pods they are while the account does not say whom to ask.
    const other = new World();
    other.bill = world.bill;
    const { account, ...books } = other.books;
    const mute = { ...account, buyers: () => Promise.reject(new Error("reset")) };
    const unsure = await reconcileBills(other.ports, { ...books, account: mute }, ["102"]);
    expect(unsure.problems).toEqual(["The account did not say who has bought in these days: reset."]);
    other.now += HOUR;
    expect((await reconcileBills(other.ports, other.books, ["102"])).problems).toHaveLength(1);
  });

  it("asks nobody whose last pod is older than the bill", async () => {
    const world = new World();
    world.account.reserve("old-a", "101", 200_000);
    world.account.commit("old-a", 100_000, "101");
    expect(await world.books.account.buyers(NIGHT)).toEqual(["101"]);
    expect(await world.books.account.buyers(NIGHT + 1)).toEqual([]);
    world.account.reserve("open-a", "102", 200_000);
    expect(await world.books.account.buyers(NIGHT + 1)).toEqual(["102"]);
  });

  it("waits for the night, and an operator need not", async () => {
    const world = new World();
    world.now = Date.UTC(2026, 10, 30, 1, 59);
    expect((await reconcileBills(world.ports, world.books, ["101"])).kind).toBe("not-due");
    expect((await reconcileBills(world.ports, world.books, ["101"], { now: true })).kind).toBe("reconciled");
  });

  it("leaves a pod alone that ended a moment ago, or began before the days that are looked at", async () => {
    const world = new World();
    world.closed("p1", 1, 1_000_000);
    const window = { since: 0, settledBefore: world.store.ledgerLine("p1")?.closed_at ?? 0 };
    const bill: Bill = { podId: "p1", micros: 1 };
    expect(recordBills(world.sql, world.store, [bill], window, NIGHT)).toEqual({ known: ["p1"], drifts: [] });
    const late = { since: NIGHT, settledBefore: NIGHT };
    expect(recordBills(world.sql, world.store, [bill], late, NIGHT)).toEqual({ known: ["p1"], drifts: [] });
    expect(billed(world, "p1")).toBeNull();
  });
});

describe("the books each minute", () => {
  it("release what nobody knows after the second look, and tell the board and the audit", async () => {
    const world = new World();
    world.account.reserve("r9-1", "101", 500);
    const first = await compareMoney(world.ports, world.books, ["101"]);
    expect(first).toMatchObject({ compared: 1, silent: 0, findings: [], problems: [] });
    world.now += 60_000;
    const second = await compareMoney(world.ports, world.books, ["101"]);
    expect(second.problems).toEqual(["Money of attempt r9-1 in repository 101 was released: $0.0005."]);
    expect(world.notes).toEqual([{ act: "money.released", reason: null, facts: { attempt: "r9-1", micros: 500 } }]);
  });

  it("ask the gate that only a reservation or a pod names", async () => {
    const world = new World();
    world.account.reserve("r9-1", "777", 500);
    world.pods = [pod("p5", "r5-1")];
    const status = await compareMoney(world.ports, world.books, []);
    expect(status.compared).toBe(2);
    expect(status.findings).toMatchObject([{ kind: "booked", repositoryId: "101", attemptId: "r5-1" }]);
  });

  it("touch nothing of a gate that does not answer", async () => {
    const world = new World();
    world.account.reserve("r9-1", "101", 500);
    world.silent.add("101");
    for (let tick = 0; tick < 3; tick += 1) {
      world.now += 60_000;
      const status = await compareMoney(world.ports, world.books, ["101"]);
      expect(status).toMatchObject({ compared: 0, silent: 1, findings: [] });
      expect(status.problems).toEqual(["The gate of repository 101 did not tell its money: reset."]);
    }
    expect(world.account.openReservations()).toHaveLength(1);
  });

  it("ask nobody but the account in a minute in which nothing can be open", async () => {
    const world = new World();
    world.silent.add("101");
    const account = { listPods: () => expect.unreachable("a second list") };
    const ports = { ...world.ports, account } as unknown as CronPorts;
    const rested = await compareMoney(ports, world.books, ["101"], true);
    expect(rested).toEqual({ compared: 1, silent: 0, findings: [], problems: [] });
    // What the account alone holds open is still asked about everywhere.
    world.account.reserve("r9-1", "101", 500);
    expect(await compareMoney(world.ports, world.books, ["101"], true)).toMatchObject({ silent: 1 });
  });
});

describe("a minute in which nothing can be open", () => {
  const visit = { id: "101", answered: true, open: 2, overdue: 0, pods: [], openMoney: 0 };
  const wake = { visits: [visit], registered: ["101"], problems: [], notices: [] };
  const swept = {
    kind: "swept",
    listed: 3,
    complete: true,
    own: 0,
    otherDeployments: 1,
    unclear: 0,
    foreign: 2,
    suspected: 0,
    reaped: [],
    problems: [],
  } as const;

  it("is one in which every gate and a whole list say so", () => {
    expect(atRest(wake, swept)).toBe(true);
    // What a gate wants seen of its runners, perhaps for days, says nothing about money.
    expect(atRest({ ...wake, notices: ["a runner is still registered"] }, swept)).toBe(true);
  });

  it.each([
    ["money that a gate holds", { ...wake, visits: [visit, { ...visit, openMoney: 1 }] }, swept],
    ["a gate that does not say, as a read-only one", { ...wake, visits: [{ ...visit, openMoney: undefined }] }, swept],
    ["a pod in a gate's ledger", { ...wake, visits: [{ ...visit, pods: ["p1"] }] }, swept],
    ["a gate that did not answer", { ...wake, visits: [{ ...visit, answered: false }] }, swept],
    ["a register that was not read", { ...wake, problems: ["no register"] }, swept],
    ["no visit at all", null, swept],
    ["a pod of ours", wake, { ...swept, own: 1 }],
    ["a pod that was just removed", wake, { ...swept, reaped: [{ podId: "p1" }] }],
    ["a list that was cut", wake, { ...swept, complete: false }],
    ["a list that nobody vouches for", wake, { ...swept, complete: undefined }],
    ["no list", wake, { ...swept, kind: "no-list" }],
    ["another sweep", wake, { ...swept, kind: "skipped" }],
    ["no sweep", wake, null],
  ] as const)("is not one with %s", (_what, visited, sweep) => {
    expect(atRest(visited as Parameters<typeof atRest>[0], sweep as Parameters<typeof atRest>[1])).toBe(false);
  });
});
