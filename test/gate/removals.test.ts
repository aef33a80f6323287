/** Pods that cron had deleted, told to their gate late, twice, or while somebody still looks for them: one line each. */
import { describe, expect, it } from "vitest";
import { Gate } from "../../durable-objects/gate/gate.ts";
import type { GatePorts } from "../../durable-objects/gate/ports.ts";
import type { RemovedPod } from "../../durable-objects/gate/removals.ts";
import { beginRetained, deletionBlocks, keepMoneyId } from "../../durable-objects/gate/strays.ts";
import { RESERVED_MS } from "../../shared/cost/estimate.ts";
import { systemRandom } from "../../shared/ports.ts";
import { ok } from "../../shared/result.ts";
import { attemptAt, requestIn, states, T0 } from "../lifecycle/fixtures.ts";
import { nodeSql } from "../support/node-sql.ts";

const MINUTE = 60_000;
const HOUR = 3_600_000;
const GONE_AT = T0 - HOUR;

/** Deleted an hour ago, after half an hour at 0.8 USD. */
const REMOVED: RemovedPod = {
  podId: "p1",
  attemptId: "r1-1",
  why: "reap-completed",
  createdAt: GONE_AT - HOUR / 2,
  pricePerHour: 0.8,
  goneAt: GONE_AT,
};

function gateAt() {
  let now = T0;
  const asked: string[] = [];
  const alive = new Set<string>();
  /** Calls that the account does not answer: so many, from now on. */
  const lost = { commits: 0 };
  const gate = new Gate({
    sql: nodeSql(),
    alarm: { set: () => undefined },
    clock: { now: () => now },
    random: systemRandom,
    runpod: {
      getPod: (id: string) => {
        asked.push(`get ${id}`);
        return Promise.resolve(
          alive.has(id) ? { kind: "pod", pod: { status: "RUNNING", costPerHour: 0.8 } } : { kind: "not-found" },
        );
      },
      deletePod: (id: string) => {
        asked.push(`delete ${id}`);
        return Promise.resolve({ kind: alive.delete(id) ? "deleted" : "not-found" });
      },
    },
    account: {
      listPods: () => Promise.resolve(ok({ startedAt: now, complete: true, pods: [] })),
      goneSince: () => Promise.resolve(ok(null)),
      release: () => Promise.resolve(ok(null)),
      commit: (id: string, micros: number) => {
        asked.push(`commit ${id} ${micros}`);
        return Promise.resolve(lost.commits-- > 0 ? SILENT : ok(null));
      },
    },
    github: () => new Proxy({}, { get: () => () => Promise.resolve({ ok: false, error: { reason: "server" } }) }),
    deployment: "testing",
    appId: "1",
    log: () => undefined,
  } as unknown as GatePorts);
  const rest = async (): Promise<void> => {
    for (let times = 0; times < 8; times += 1) {
      await gate.run();
      now += MINUTE;
    }
  };
  const lines = () => gate.sql.exec<{ pod_id: string }>("SELECT * FROM ledger");
  return { gate, asked, alive, lost, rest, lines };
}

const SILENT = { ok: false, why: "the account did not answer" } as const;

describe("a pod that this gate never heard of", () => {
  it("is booked up to when it was gone, once it is proven gone, and no longer", async () => {
    const { gate, asked, rest, lines } = gateAt();
    expect(gate.podsRemoved([REMOVED])).toEqual(["p1"]);
    expect(lines()).toMatchObject([{ pod_id: "p1", closed_at: null, outcome: null }]);
    await rest();
    const line = gate.store.ledgerLine("p1");
    expect(line).toMatchObject({
      closed_at: GONE_AT,
      estimate_micros: 400_000,
      outcome: "reap-completed",
      tier: "stray",
    });
    expect(line?.proven_at).toBeGreaterThan(T0);
    expect(asked).toEqual(["get p1", "commit stray-p1 400000"]);
  });

  it("is told to the account until that has answered: nobody else would ever say what it cost", async () => {
    const { gate, asked, lost, rest } = gateAt();
    lost.commits = 2;
    gate.podsRemoved([REMOVED]);
    await rest();
    const told = "commit stray-p1 400000";
    expect(asked).toEqual(["get p1", told, told, told]);
    await rest();
    expect(asked).toHaveLength(4);
    expect(gate.store.taskOf("stray", "p1")).toBeNull();
  });

  it("has one line however often it is told of", async () => {
    const { gate, rest, lines } = gateAt();
    gate.podsRemoved([REMOVED]);
    expect(gate.podsRemoved([REMOVED, { ...REMOVED, goneAt: T0 }])).toEqual(["p1", "p1"]);
    await rest();
    const [closed] = lines();
    expect(gate.podsRemoved([{ ...REMOVED, goneAt: T0 }])).toEqual(["p1"]);
    await rest();
    expect(lines()).toEqual([closed]);
  });

  it("that is there all the same is deleted from here, and booked to that time", async () => {
    const { gate, asked, alive, rest, lines } = gateAt();
    alive.add("p1");
    gate.podsRemoved([REMOVED]);
    await rest();
    expect(asked).toContain("delete p1");
    expect(lines()).toMatchObject([{ pod_id: "p1" }]);
    expect(gate.store.ledgerLine("p1")?.closed_at).toBeGreaterThan(T0);
  });

  it("whose price and age nobody knew is booked at the most that it can have cost", async () => {
    const { gate, rest } = gateAt();
    gate.podsRemoved([{ ...REMOVED, createdAt: null, pricePerHour: null }]);
    await rest();
    expect(gate.store.ledgerLine("p1")).toMatchObject({
      paid_from: GONE_AT - RESERVED_MS,
      closed_at: GONE_AT,
      estimate_micros: null,
    });
    // 1.6 USD an hour for the 72 minutes that an attempt is reserved for.
    expect(gate.store.moneyOf("stray-p1")).toMatchObject({ state: "spent", micros: 1_920_000 });
  });

  it("whose age alone nobody knew counts as old, at the price that was told", async () => {
    const { gate, rest } = gateAt();
    gate.podsRemoved([{ ...REMOVED, createdAt: null }]);
    await rest();
    expect(gate.store.ledgerLine("p1")).toMatchObject({ closed_at: GONE_AT, estimate_micros: 960_000 });
  });
});

it("a pod whose request has proven it gone and closed its line keeps that line", async () => {
  const { gate, rest, lines } = gateAt();
  const of = { attemptId: "r1-1", podId: "p1", pricePerHour: 0.8 };
  gate.store.ledger({ kind: "open", gpuId: null, tier: "A", paidFrom: GONE_AT - HOUR, ...of }, "r1");
  const end = { closedAt: GONE_AT + MINUTE, provenAt: T0, estimateMicros: 1, outcome: "tests-passed" };
  gate.store.ledger({ kind: "close", ...of, ...end }, "r1");
  const closed = lines();
  expect(gate.podsRemoved([REMOVED])).toEqual(["p1"]);
  await rest();
  expect(lines()).toEqual(closed);
  expect(gate.store.stray("p1")).toBeNull();
});

describe("a pod that is kept for debugging", () => {
  const kept = () => {
    const world = gateAt();
    const attempt = attemptAt("online", { id: "r1-1", paidFrom: GONE_AT - HOUR });
    const podId = attempt.pod?.id ?? "";
    const { store } = world.gate;
    const of = { attemptId: "r1-1", podId, pricePerHour: 0.8 };
    store.ledger({ kind: "open", gpuId: null, tier: "A", paidFrom: GONE_AT - HOUR, ...of }, "r1");
    const money = { requestId: "r1", prNumber: 7, authorId: null, at: GONE_AT - HOUR };
    store.reserveMoney({ ...money, attemptId: "r1-1", micros: 1_000_000 });
    store.reserveMoney({ ...money, attemptId: keepMoneyId("r1-1"), micros: 700_000 });
    const end = { podId, until: T0 + 2 * HOUR, by: "mira", reason: "a hang" };
    beginRetained(store, { attempt, ...end }, "r1", [keepMoneyId("r1-1")], T0 - 2 * HOUR);
    return { ...world, store, podId };
  };

  it("is booked at once where it was deleted before its end, and keeps neither money nor anything else waiting", async () => {
    const { gate, store, podId, asked, rest } = kept();
    expect(gate.podsRemoved([{ ...REMOVED, podId }])).toEqual([podId]);
    const word = { target: { podId }, by: "mira", minutes: 170, reason: "longer" };
    expect(await gate.retain(word)).toMatchObject({
      kind: "refused",
      detail: expect.stringContaining("being deleted"),
    });
    await rest();
    expect(store.ledgerLine(podId)).toMatchObject({ closed_at: GONE_AT, estimate_micros: 800_000 });
    expect(store.moneyOf("r1-1")).toMatchObject({ state: "spent", micros: 800_000 });
    expect(store.moneyOf(keepMoneyId("r1-1"))).toMatchObject({ state: "released" });
    expect(store.openStrays()).toEqual([]);
    expect(asked).not.toContain(`delete ${podId}`);
  });

  it("whose proof does not come blocks what is bought from its deletion on, not from its end", () => {
    const { gate, store, podId } = kept();
    gate.podsRemoved([{ ...REMOVED, podId }]);
    expect(deletionBlocks(store, T0 + 11 * MINUTE)).toMatchObject({ because: "deletion-blocks" });
  });

  it("is told again while a call of its own is under way, which may find it alive", () => {
    const { gate, store, podId } = kept();
    store.startTask(store.taskOf("stray", podId)?.id ?? 0, T0);
    expect(gate.podsRemoved([{ ...REMOVED, podId }])).toEqual([]);
    expect(store.taskOf("stray", podId)?.kind).toBe("read-record");
  });
});

describe("a pod that an open request may have", () => {
  const looking = (id: string) =>
    requestIn(states.provisioning("look-up", { attempt: attemptAt("ambiguous", { id }) }));

  it("is told again until the attempt that looks for it has ended", async () => {
    const { gate, rest, lines } = gateAt();
    const request = looking("r1-1");
    gate.store.saveRequest(request);
    expect(gate.podsRemoved([REMOVED, { ...REMOVED, podId: "p2", attemptId: "r9-1" }])).toEqual(["p2"]);
    gate.store.saveRequest({ ...request, state: states.received() });
    expect(gate.podsRemoved([REMOVED])).toEqual(["p1"]);
    await rest();
    expect(lines().map((line) => line.pod_id)).toEqual(["p2", "p1"]);
  });

  it("is told again to a request that has not come to its order, and no more once that is answered", () => {
    const { gate } = gateAt();
    const told = (step: Parameters<typeof states.cleaning>[0], kind: string, deletedAt: number | null) => {
      const state = states.cleaning(step);
      const request = requestIn({ ...state, teardown: { ...state.teardown, step, deletedAt } });
      gate.store.saveRequest(request);
      gate.store.putTask("main", request.id, kind, { kind, podId: "pod-1" }, T0 + HOUR, T0);
      return gate.podsRemoved([{ ...REMOVED, podId: "pod-1" }]);
    };
    expect(told("record", "read-record", null)).toEqual([]);
    expect(told("verify", "verify-gone", T0)).toEqual(["pod-1"]);
  });

  it("is left to the request that has it, whose order to delete it need not be repeated", () => {
    const { gate, lines } = gateAt();
    const state = states.cleaning("delete");
    const podId = state.attempt?.pod?.id ?? "";
    gate.store.saveRequest(requestIn(state));
    const id = requestIn(state).id;
    gate.store.putTask("main", id, "delete-pod", { kind: "delete-pod", podId }, T0 + HOUR, T0);
    expect(gate.podsRemoved([{ ...REMOVED, podId }])).toEqual([podId]);
    expect(gate.store.taskOf("main", id)?.kind).toBe("verify-gone");
    expect(gate.store.request(id)?.state).toMatchObject({ teardown: { deletedAt: GONE_AT } });
    expect(gate.store.stray(podId)).toBeNull();
    expect(lines()).toEqual([]);
  });

  it("goes on by a request that names an earlier id of its task: one whose record did not read meanwhile", () => {
    const { gate } = gateAt();
    const state = states.cleaning("delete");
    const podId = state.attempt?.pod?.id ?? "";
    const request = requestIn(state, { task: { id: 990, kind: "delete-pod" } });
    gate.store.saveRequest(request);
    gate.store.putTask("main", request.id, "delete-pod", { kind: "delete-pod", podId }, T0 + HOUR, T0);
    expect(gate.podsRemoved([{ ...REMOVED, podId }])).toEqual([podId]);
    expect(gate.store.request(request.id)?.state).toMatchObject({ teardown: { step: "verify", deletedAt: GONE_AT } });
    const next = gate.store.taskOf("main", request.id);
    expect(next?.kind).toBe("verify-gone");
    expect(gate.store.request(request.id)?.task?.id).toBe(next?.id);
  });
});
