/** Keeping a pod for debugging: the word, the money before it, the end, and what cron spares. */
import { describe, expect, it } from "vitest";
import { runCron } from "../../cron/index.ts";
import type { CronPorts } from "../../cron/ports.ts";
import { Account } from "../../durable-objects/account/account.ts";
import { gateMoney } from "../../durable-objects/gate/money.ts";
import type { AccountPort, GatePorts } from "../../durable-objects/gate/ports.ts";
import {
  keepMoneyId,
  keptPods,
  releaseKeeping,
  reserveKeeping,
  retainPod,
  retentionOf,
} from "../../durable-objects/gate/retention.ts";
import { bookRunning } from "../../durable-objects/gate/running.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { podStanding } from "../../durable-objects/gate/standing.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import { beginRetained, beginStray, deletionBlocks, strayRecord } from "../../durable-objects/gate/strays.ts";
import { configFrom } from "../../shared/config/load.ts";
import type { RepositoryConfigInput } from "../../shared/config/schema.ts";
import { termsFrom } from "../../shared/config/terms.ts";
import { awaitsJobEnd, newKeep, retain, type Keep } from "../../shared/lifecycle/keep.ts";
import { attemptSchema, requestSchema, type Attempt, type GateRequest } from "../../shared/lifecycle/model.ts";
import { newRequest } from "../../shared/lifecycle/new-request.ts";
import { DEFAULT_REAP_LIMITS } from "../../shared/lifecycle/reap.ts";
import { ok } from "../../shared/result.ts";
import type { RunPodClient } from "../../shared/runpod/client.ts";
import { parsePod } from "../../shared/runpod/pod.ts";
import { ownershipTags, podName } from "../../shared/runpod/tags.ts";
import { ATTEMPT, POD, request as provisioning } from "../worker/request.ts";
import { nodeSql } from "../support/node-sql.ts";

const T0 = Date.UTC(2026, 10, 30, 12);
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const PRICE = 0.36;

const attempt = (more: object = {}): Attempt =>
  attemptSchema.parse({
    ...ATTEMPT,
    id: "r1-1",
    createSentAt: T0,
    paidFrom: T0 + 1_000,
    pod: { ...POD, id: "p1", gpuId: "NVIDIA L4", pricePerHour: PRICE },
    ...more,
  });

class World {
  now = T0;
  readonly sql = nodeSql();
  readonly store: Store;
  readonly account: Account;
  readonly config;
  reachable = true;

  constructor(input: Partial<RepositoryConfigInput> = {}) {
    this.config = configFrom({ version: 1, ...input });
    migrate(this.sql);
    this.store = new Store(this.sql);
    this.store.rememberRepository({ id: "101", owner: "o", name: "n" }, null);
    this.store.rememberConfig("hash", this.config);
    this.store.setMeta("last_config", "hash");
    const clock = { now: () => this.now };
    this.account = new Account({ sql: nodeSql(), clock, runpod: {} as RunPodClient, monthlyCapMicros: 100_000_000 });
  }

  get ports(): GatePorts {
    const call = async <T>(perform: () => T) =>
      this.reachable ? ({ ok: true, value: perform() } as const) : ({ ok: false, why: "no answer" } as const);
    const account = {
      reserve: (id: string, micros: number) => call(() => this.account.reserve(id, "101", micros)),
      commit: (id: string, micros: number) => call(() => (this.account.commit(id, micros, "101"), null)),
      release: (id: string) => call(() => (this.account.release(id, "101"), null)),
    } as AccountPort;
    return { sql: this.sql, clock: { now: () => this.now }, account } as unknown as GatePorts;
  }

  /** A request in the middle of provisioning, with a word to keep its pod or without. */
  request(keep?: Keep, change: (state: GateRequest) => GateRequest = (one) => one): GateRequest {
    const terms = termsFrom(this.config, "hash");
    const request = change({ ...provisioning(ATTEMPT), terms, ...(keep === undefined ? {} : { keep }) });
    this.store.saveRequest(request);
    return request;
  }

  asked(request: GateRequest) {
    return { id: "r1-1", micros: 1_000, repositoryId: "101", request, config: this.config };
  }

  /** A pod that is kept already. `prices`, USD an hour: what its ledger line was opened with, and what RunPod told last. */
  kept(until: number, prices: { line: number | null; told: number | null } = { line: PRICE, told: PRICE }): void {
    const keep: Keep = { ...newKeep("mira", "a hang", HOUR), attemptId: "r1-1", podId: "p1", until, maxLife: 3 * HOUR };
    const verdict = { kind: "failed", reason: "tests-failed", detail: "" } as const;
    this.request(keep, (one) =>
      requestSchema.parse({ ...one, task: null, state: { kind: "concluded", at: T0, verdict } }),
    );
    this.store.ledger(
      {
        kind: "open",
        attemptId: "r1-1",
        podId: "p1",
        gpuId: "NVIDIA L4",
        tier: "t",
        pricePerHour: prices.line,
        paidFrom: T0,
      },
      "r1",
    );
    const pod = { ...POD, id: "p1", gpuId: "NVIDIA L4", pricePerHour: prices.told };
    const handed = { attempt: attempt({ pod }), podId: "p1", until, by: "mira", reason: "a hang" };
    beginRetained(this.store, handed, "r1", [keepMoneyId("r1-1")], this.now);
  }

  keepOf(id = "r1"): Keep | undefined {
    return this.store.request(id)?.keep;
  }
}

/** Provisioning whose money is being reserved: the last moment at which a pod can still be told to stay. */
function reserving({ state }: GateRequest): GateRequest["state"] {
  return state.kind === "provisioning" ? { ...state, step: "reserve" } : state;
}

const word = (target: { podId: string } | { requestId: string }, minutes: number) => ({
  target,
  by: "mira",
  minutes,
  reason: "a hang",
});

describe("the core's rule", () => {
  const keep: Keep = { ...newKeep("mira", "a hang", HOUR), attemptId: "r1-1", maxLife: 3 * HOUR };

  it("keeps the pod of a job that did not pass, for the asked time", () => {
    expect(retain(keep, attempt(), "failed", T0 + 600_000)?.until).toBe(T0 + 600_000 + HOUR);
    expect(retain(keep, attempt(), "cancelled", T0)).not.toBeNull();
  });

  it("never that of one that passed: green needs a pod that is proven gone", () => {
    expect(retain(keep, attempt(), "passed", T0)).toBeNull();
  });

  it("never beyond the longest life, counted from the create", () => {
    const late = T0 + 2.5 * HOUR;
    expect(retain(keep, attempt(), "failed", late)?.until).toBe(T0 + 3 * HOUR);
    expect(retain(keep, attempt(), "failed", T0 + 3 * HOUR)).toBeNull();
  });

  it("the configuration's own word is about failed tests only", () => {
    const own = {
      ...keep,
      ...newKeep("configuration", "keep_on_failure", HOUR, true),
      attemptId: "r1-1",
      maxLife: HOUR,
    };
    expect(retain(own, attempt(), "failed", T0)).not.toBeNull();
    expect(retain(own, attempt(), "cancelled", T0)).toBeNull();
  });

  it("no word, a refused one, one for another attempt, a pod that is not there: nothing is kept", () => {
    expect(retain(undefined, attempt(), "failed", T0)).toBeNull();
    expect(retain({ ...keep, refused: "over the cap" }, attempt(), "failed", T0)).toBeNull();
    expect(retain({ ...keep, attemptId: "r1-2" }, attempt(), "failed", T0)).toBeNull();
    expect(retain({ ...keep, attemptId: null }, attempt(), "failed", T0)).toBeNull();
    expect(retain(keep, attempt({ pod: null }), "failed", T0)).toBeNull();
  });

  it("a pod whose runner has ended waits a minute for its job's end, and no longer", () => {
    const exited = attempt({ exit: { at: T0, code: 1 } });
    expect(awaitsJobEnd(keep, exited, T0 + 59_999)).toBe(true);
    expect(awaitsJobEnd(keep, exited, T0 + 60_000)).toBe(false);
    expect(awaitsJobEnd(undefined, exited, T0)).toBe(false);
  });
});

describe("the money before it", () => {
  it("is reserved with the attempt, at the plan's dearest price, on both sides", async () => {
    const world = new World();
    await reserveKeeping(world.asked(world.request(newKeep("mira", "a hang", HOUR))), world.ports, world.store);
    expect(world.keepOf()).toMatchObject({ attemptId: "r1-1", refused: null, maxLife: 3 * HOUR });
    // The plan of this request says USD 1 an hour.
    const open = [{ attemptId: "r1-1-keep", micros: 1_000_000 }];
    expect(gateMoney(world.sql, world.store, []).open).toEqual(open);
    expect(world.account.openReservations()).toEqual([{ ...open[0], repositoryId: "101" }]);
    await releaseKeeping("r1-1", world.ports, world.store);
    expect(world.account.totals()).toEqual({ spent: 0, reserved: 0 });
  });

  it("the deployment's own limit ends a keeping sooner, and minutes that are never spared are not reserved", async () => {
    const world = new World();
    const ports = { ...world.ports, maxRetentionMs: HOUR / 2 };
    await reserveKeeping(world.asked(world.request(newKeep("mira", "a hang", 12 * HOUR))), ports, world.store);
    expect(world.keepOf()).toMatchObject({ refused: null, duration: HOUR / 2, maxLife: HOUR / 2 });
    expect(world.account.totals().reserved).toBe(500_000);
    const kept = new World();
    kept.kept(T0 + HOUR / 4);
    kept.now = T0 + MINUTE;
    const more = await retainPod(word({ podId: "p1" }, 120), { ...kept.ports, maxRetentionMs: HOUR / 2 }, kept.store);
    expect(more).toEqual({ kind: "kept", podId: "p1", until: T0 + HOUR / 2 });
  });

  it("a plan that knows its dearest pod reserves at that price, not at the ceiling", async () => {
    const world = new World();
    const request = world.request(newKeep("mira", "a hang", HOUR), (one) => {
      if (one.state.kind !== "provisioning") return one;
      return { ...one, state: { ...one.state, plan: { ...one.state.plan, reservedPrice: 0.4 } } };
    });
    await reserveKeeping(world.asked(request), world.ports, world.store);
    expect(world.account.totals().reserved).toBe(400_000);
  });

  it("no reservation, no keeping: the repository's cap, the account's silence, and the audit says why", async () => {
    const capped = new World({ budget: { per_run: 0.5 } });
    await reserveKeeping(capped.asked(capped.request(newKeep("mira", "a hang", HOUR))), capped.ports, capped.store);
    expect(capped.keepOf()?.refused).toContain("The cap per run is $0.5000");
    expect(capped.store.auditAfter(0, 9).map((row) => row.act)).toEqual(["pod.keep-refused"]);
    const alone = new World();
    alone.reachable = false;
    await reserveKeeping(alone.asked(alone.request(newKeep("mira", "a hang", HOUR))), alone.ports, alone.store);
    expect(alone.keepOf()?.refused).toContain("could not be reserved");
  });

  it("nobody's word and keep_on_failure off: nothing is reserved; on: it is, for the configured time", async () => {
    const off = new World();
    await reserveKeeping(off.asked(off.request()), off.ports, off.store);
    expect([off.keepOf(), off.account.openReservations()]).toEqual([undefined, []]);
    const on = new World({ retention: { keep_on_failure: true, duration: 1800 } });
    await reserveKeeping(on.asked(on.request()), on.ports, on.store);
    expect(on.keepOf()).toMatchObject({ by: "configuration", failuresOnly: true, duration: 1_800_000 });
    expect(on.account.totals().reserved).toBe(500_000);
  });
});

describe("a maintainer's word", () => {
  it("is noted while the pod is not being rented, and can be taken back", async () => {
    const world = new World();
    world.request(undefined, (one) => requestSchema.parse({ ...one, state: { kind: "received" } }));
    expect(await retainPod(word({ requestId: "r1" }, 30), world.ports, world.store)).toMatchObject({ kind: "noted" });
    expect(world.keepOf()).toMatchObject({ by: "mira", duration: 30 * MINUTE, attemptId: null });
    expect(await retainPod(word({ requestId: "r1" }, 0), world.ports, world.store)).toMatchObject({ kind: "noted" });
    expect(world.keepOf()).toMatchObject({ declined: true });
    expect(await retainPod(word({ requestId: "r1" }, 20), world.ports, world.store)).toMatchObject({ kind: "noted" });
    expect(world.keepOf()).toMatchObject({ duration: 20 * MINUTE, refused: null });
    expect(world.keepOf()?.declined).toBeUndefined();
    expect(world.store.auditAfter(0, 9).map(({ act }) => act)).toEqual(Array(3).fill("pod.keep-asked"));
  });

  it.each([
    ["before the pod is asked for", (one: GateRequest) => ({ ...one, state: { kind: "received" } })],
    ["while its pod is being rented", (one: GateRequest) => one],
  ])("that nothing is kept stands against keep_on_failure: %s", async (_, change) => {
    const world = new World({ retention: { keep_on_failure: true, duration: 1800 } });
    world.request(undefined, (one) => requestSchema.parse(change(one)));
    const answer = await retainPod(word({ requestId: "r1" }, 0), world.ports, world.store);
    expect(answer).toEqual({ kind: "noted", detail: "Its pod will not be kept." });
    world.store.saveRequest({ ...(world.store.request("r1") as GateRequest), state: provisioning(ATTEMPT).state });
    await reserveKeeping(world.asked(world.store.request("r1") as GateRequest), world.ports, world.store);
    expect(world.account.totals().reserved).toBe(0);
    expect(retain(world.keepOf(), attempt(), "failed", T0)).toBeNull();
    // The pod was rented without its flag by then: no later word can keep it.
    world.store.saveRequest({
      ...(world.store.request("r1") as GateRequest),
      state: requestSchema.parse({ ...provisioning(attempt()) }).state,
    });
    expect(await retainPod(word({ requestId: "r1" }, 30), world.ports, world.store)).toMatchObject({ kind: "refused" });
  });

  it("is told at once when the budget has no room for it", async () => {
    const noted = async (input: Partial<RepositoryConfigInput>, minutes: number) => {
      const world = new World(input);
      world.request(undefined, (one) => requestSchema.parse({ ...one, state: { kind: "received" } }));
      return retainPod(word({ requestId: "r1" }, minutes), world.ports, world.store);
    };
    const plain = "Its pod is kept if the GPU job does not pass and the budget has room for it.";
    const detail = expect.stringMatching(/Keeping a pod for 3600 s reserves .* ask for 48 minutes or fewer/);
    expect(await noted({}, 60)).toEqual({ kind: "noted", detail });
    // The reviewed price leaves room for so long; the ceiling, which a plan may come to, would not.
    expect(await noted({}, 48)).toMatchObject({ detail: expect.stringContaining("as dear as that") });
    expect(await noted({}, 40)).toEqual({ kind: "noted", detail: plain });
    expect(await noted({ budget: { per_run: 3.52 } }, 60)).toEqual({ kind: "noted", detail: plain });
  });

  it("I9: keeps no pod whose minutes were refused: the answer says why, and the next attempt asks for what was said last", async () => {
    const world = new World({ budget: { per_run: 0.6 } });
    const rented = provisioning(attempt());
    const asked = world.asked(
      world.request(newKeep("mira", "a hang", HOUR), (one) => ({ ...one, state: rented.state })),
    );
    await reserveKeeping(asked, world.ports, world.store);
    const answer = await retainPod(word({ requestId: "r1" }, 30), world.ports, world.store);
    expect(answer).toMatchObject({ kind: "refused", detail: expect.stringContaining("The cap per run is $0.6000") });
    expect(retain(world.keepOf(), attempt(), "failed", T0)).toBeNull();
    const before = world.store.request("r1") as GateRequest;
    const next = provisioning({ ...ATTEMPT, id: "r1-2" });
    world.store.saveRequest({ ...next, keep: world.keepOf(), terms: before.terms, state: reserving(next) });
    expect(await retainPod(word({ requestId: "r1" }, 30), world.ports, world.store)).toMatchObject({ kind: "noted" });
    const again = { ...world.asked(world.store.request("r1") as GateRequest), id: "r1-2" };
    await reserveKeeping(again, world.ports, world.store);
    expect(world.keepOf()).toMatchObject({ attemptId: "r1-2", duration: 30 * MINUTE, refused: null });
    expect(world.account.totals().reserved).toBe(500_000);
  });

  it("that nothing is kept stands, said while the account is asked for the minutes; another word is not lost then", async () => {
    for (const [minutes, kept] of [
      [0, { declined: true }],
      [90, { by: "mira", failuresOnly: false, duration: 30 * MINUTE, refused: null }],
    ] as const) {
      const world = new World({ retention: { keep_on_failure: true, duration: 1800 } });
      const asked = world.asked(world.request(undefined, (one) => ({ ...one, state: reserving(one) })));
      const { account } = world.ports;
      const meanwhile = {
        ...account,
        reserve: async (id: string, micros: number) => {
          await retainPod(word({ requestId: "r1" }, minutes), world.ports, world.store);
          return account.reserve(id, micros);
        },
      };
      await reserveKeeping(asked, { ...world.ports, account: meanwhile }, world.store);
      expect(world.keepOf()).toMatchObject(kept);
    }
  });

  it("comes too late once the pod is being rented, is gone, or never was", async () => {
    const world = new World();
    world.request();
    expect(await retainPod(word({ requestId: "r1" }, 30), world.ports, world.store)).toMatchObject({ kind: "refused" });
    expect(await retainPod(word({ requestId: "r9" }, 30), world.ports, world.store)).toMatchObject({ kind: "refused" });
    expect(await retainPod(word({ podId: "p9" }, 30), world.ports, world.store)).toMatchObject({ kind: "refused" });
    expect(await retainPod(word({ requestId: "r1" }, -1), world.ports, world.store)).toMatchObject({ kind: "refused" });
  });

  it("about a kept pod: longer for more money, shorter for none, at once for 0", async () => {
    const world = new World();
    world.kept(T0 + HOUR);
    world.now = T0 + 30 * MINUTE;
    const longer = await retainPod(word({ podId: "p1" }, 60), world.ports, world.store);
    expect(longer).toEqual({ kind: "kept", podId: "p1", until: T0 + 90 * MINUTE });
    // Half an hour more at this pod's own price.
    expect(world.account.openReservations()).toEqual([
      { attemptId: "r1-1-keep-2", repositoryId: "101", micros: 180_000 },
    ]);
    expect(world.store.taskOf("stray", "p1")?.dueAt).toBe(T0 + 90 * MINUTE);
    const shorter = await retainPod(word({ podId: "p1" }, 10), world.ports, world.store);
    expect(shorter).toMatchObject({ until: T0 + 40 * MINUTE });
    expect(world.account.openReservations()).toHaveLength(1);
    expect(await retainPod(word({ podId: "p1" }, 0), world.ports, world.store)).toEqual({ kind: "ended", podId: "p1" });
    expect(world.store.taskOf("stray", "p1")?.dueAt).toBe(world.now);
    // What is being deleted cannot be kept any more.
    expect(await retainPod(word({ podId: "p1" }, 60), world.ports, world.store)).toMatchObject({ kind: "refused" });
  });

  it("that its end overtakes puts off nothing, and sets no money aside", async () => {
    const world = new World();
    world.kept(T0 + HOUR);
    world.now = T0 + 30 * MINUTE;
    const answer = retainPod(word({ podId: "p1" }, 60), world.ports, world.store);
    world.now = T0 + HOUR;
    expect(await answer).toMatchObject({ kind: "refused" });
    expect(world.store.taskOf("stray", "p1")?.dueAt).toBe(T0 + HOUR);
    expect(world.account.openReservations()).toEqual([]);
    expect(world.store.moneyOf("r1-1-keep-2")?.state).toBe("released");
  });

  it("that the account did not answer sets nothing aside, and does not spoil the next one", async () => {
    const world = new World();
    world.kept(T0 + HOUR);
    world.reachable = false;
    expect(await retainPod(word({ podId: "p1" }, 90), world.ports, world.store)).toMatchObject({ kind: "refused" });
    expect(world.store.moneyOf("r1-1-keep-2")?.state).toBe("released");
    world.reachable = true;
    expect(await retainPod(word({ podId: "p1" }, 90), world.ports, world.store)).toMatchObject({ kind: "kept" });
  });

  it("never beyond the longest life, and not without the money", async () => {
    const world = new World();
    world.kept(T0 + HOUR);
    expect(await retainPod(word({ podId: "p1" }, 700), world.ports, world.store)).toMatchObject({
      until: T0 + 3 * HOUR,
    });
    const poor = new World({ budget: { per_run: 0 } });
    poor.kept(T0 + HOUR);
    expect(await retainPod(word({ podId: "p1" }, 90), poor.ports, poor.store)).toMatchObject({ kind: "refused" });
    expect(retentionOf(poor.store, "p1")?.until).toBe(T0 + HOUR);
  });
});

describe("a kept pod", () => {
  it("is shown with its end and what it has cost until now", () => {
    const world = new World();
    world.kept(T0 + HOUR);
    expect(keptPods(world.store, T0 + 10 * MINUTE)).toEqual([
      {
        podId: "p1",
        requestId: "r1",
        prNumber: 7,
        gpu: "NVIDIA L4",
        pricePerHour: PRICE,
        since: T0,
        costMicros: 60_000,
        retainedUntil: T0 + HOUR,
        retainedBy: "mira",
      },
    ]);
  });

  it.each([
    ["told last, where its line has an older one", { line: 0.6, told: PRICE }, PRICE],
    ["of its line, where RunPod told none", { line: 0.6, told: null }, 0.6],
    ["unknown, where nobody told any", { line: null, told: null }, null],
  ])("is shown at the price %s", (_what, prices, shown) => {
    const world = new World();
    world.kept(T0 + HOUR, prices);
    expect(keptPods(world.store, T0 + 10 * MINUTE)).toMatchObject([
      { pricePerHour: shown, costMicros: shown === null ? null : (shown * 1_000_000) / 6 },
    ]);
  });

  it("blocks nothing before its end; a removal that is not proven ten minutes after it does", () => {
    const world = new World();
    world.kept(T0 + HOUR);
    expect(deletionBlocks(world.store, T0 + HOUR + 10 * MINUTE - 1)).toBeNull();
    expect(deletionBlocks(world.store, T0 + HOUR + 10 * MINUTE)).toMatchObject({ because: "deletion-blocks" });
  });

  it("is removed when somebody finds it over its end, by its own lane and once", () => {
    const world = new World();
    world.kept(T0 + HOUR);
    beginStray(world.store, "p1", "reap-backstop", T0, T0 + HOUR + 1);
    expect(world.store.taskOf("stray", "p1")?.dueAt).toBe(T0 + HOUR);
    beginStray(world.store, "p1", "reap-backstop", T0, T0 + 30 * MINUTE);
    expect(world.store.taskOf("stray", "p1")?.dueAt).toBe(T0 + 30 * MINUTE);
    const row = world.store.stray("p1") ?? expect.fail("the row is there");
    expect(strayRecord(row, world.store).retained?.until).toBe(T0 + HOUR);
    expect(world.store.openStrays()).toHaveLength(1);
  });

  it("costs beyond what is set aside are booked at the tick, on the audit once", () => {
    const world = new World();
    world.kept(T0 + HOUR);
    world.store.reserveMoney({ attemptId: "r1-1", requestId: "r1", prNumber: 7, authorId: null, micros: 100, at: T0 });
    bookRunning(world.sql, world.store, T0 + MINUTE);
    bookRunning(world.sql, world.store, T0 + 2 * MINUTE);
    expect(world.store.moneyOf("r1-1")).toMatchObject({ micros: 12_000, state: "reserved", raised: 1 });
    expect(world.store.auditAfter(0, 9).map((row) => row.act)).toEqual(["money.beyond-reservation"]);
  });

  it("its standing is `current` until its end and `closed` from then on", () => {
    const world = new World();
    world.kept(T0 + HOUR);
    const question = { podId: "p1", attemptId: "r1-1" };
    expect(podStanding(world.store, question, T0)).toMatchObject({ kind: "current", retained: true });
    expect(podStanding(world.store, question, T0 + HOUR)).toMatchObject({ kind: "closed", retained: true });
  });
});

describe("cron", () => {
  /** One pod of ours, created at T0, before a reaper that asks this gate. */
  async function sweep(
    at: number,
    gate: { retained: boolean; until: number | "none" | "unreadable" | "gate-down" },
    flag = "true",
  ) {
    const identity = {
      deployment: "testing",
      repositoryId: "101",
      requestId: "r1",
      attemptId: "r1-1",
      runId: "9",
      keep: flag,
    };
    const pod = parsePod({
      id: "p1",
      name: podName(identity),
      status: "RUNNING",
      createdAt: new Date(T0).toISOString(),
      env: ownershipTags(identity),
    });
    if (!pod.ok) throw new Error(pod.what);
    const did: string[] = [];
    const down = () => {
      throw new Error("reset");
    };
    const { until } = gate;
    const ports = {
      deployment: "testing",
      allowedRepositories: new Set(["101"]),
      limits: DEFAULT_REAP_LIMITS,
      clock: { now: () => at },
      log: () => undefined,
      gate: () => ({
        tick: async () => ({ overdue: 0, open: 0, pods: [] }),
        podStandings: async () =>
          until === "gate-down"
            ? down()
            : [
                {
                  kind: typeof until === "number" && until <= at ? "closed" : "current",
                  since: T0,
                  retained: gate.retained,
                },
              ],
        adoptStray: async () => (did.push("handed over"), true),
        podsRemoved: async () => (until === "gate-down" ? down() : ["p1"]),
        retentionOf: async () =>
          until === "unreadable" || until === "gate-down"
            ? down()
            : until === "none"
              ? null
              : { podId: "p1", until, by: "mira", reason: "" },
      }),
      account: {
        registered: async () => [],
        listPods: async () => ({ ok: true, value: { startedAt: at, complete: true, pods: [pod.pod] } }),
        beginSweep: async () => ({ kind: "go", observations: {} }),
        owe: async () => true,
        endSweep: async () => [],
      },
      runpod: { deletePod: async () => (did.push("deleted"), { kind: "deleted" }) },
      board: { write: async () => ok(null) },
    } as unknown as CronPorts;
    await runCron(ports);
    return did;
  }

  it("spares a kept pod beyond the backstop, until its end", async () => {
    expect(await sweep(T0 + 2.5 * HOUR, { retained: true, until: T0 + 2.6 * HOUR })).toEqual([]);
  });

  it("I3: at its end it goes, young or old, handed to its gate", async () => {
    expect(await sweep(T0 + HOUR, { retained: true, until: T0 + HOUR })).toEqual(["handed over"]);
    expect(await sweep(T0 + 2.5 * HOUR, { retained: true, until: T0 + 2.4 * HOUR })).toEqual(["handed over"]);
  });

  it("I3: never longer than the longest life from its creation, whatever its record says", async () => {
    expect(await sweep(T0 + 3 * HOUR, { retained: true, until: T0 + 9 * HOUR })).toEqual(["deleted"]);
  });

  it.each(["none", "unreadable", "gate-down"] as const)(
    "I3: at the backstop a flag on the pod spares nothing: record %s",
    async (until) => {
      expect(await sweep(T0 + 2 * HOUR, { retained: false, until })).toEqual(["deleted"]);
    },
  );

  it("below the backstop a record that cannot be read costs nobody their pod", async () => {
    expect(await sweep(T0 + HOUR, { retained: true, until: "unreadable" })).toEqual([]);
  });
});

it("a request's own record survives a store and a load with its word", () => {
  const request = newRequest(
    "r1",
    {
      kind: "pull-request",
      prNumber: 7,
      headSha: "a".repeat(40),
      generation: 1,
      row: 1,
      actor: null,
      approvedBy: null,
    },
    T0,
  );
  const told = { ...request, keep: newKeep("mira", "a hang", HOUR), costReport: "text" };
  expect(requestSchema.parse(JSON.parse(JSON.stringify(told)))).toEqual(told);
  expect(requestSchema.parse(JSON.parse(JSON.stringify(request)))).toEqual(request);
});
