/**
 * A pod that its gate never heard of, deleted while that gate could not be told: the create was carried out, its answer died
 * with the gate, and cron finds the pod at RunPod alone. RunPod bills it; so the ledger must have it, once, and for as long.
 */
import { beforeEach, expect, it } from "vitest";
import { reap } from "../../cron/reap.ts";
import type { CronPorts } from "../../cron/ports.ts";
import { Account } from "../../durable-objects/account/account.ts";
import { SweepMemory } from "../../durable-objects/account/sweep-memory.ts";
import { Gate } from "../../durable-objects/gate/gate.ts";
import type { GatePorts, PodListing, Sql } from "../../durable-objects/gate/ports.ts";
import { podStanding } from "../../durable-objects/gate/standing.ts";
import { DEFAULT_REAP_LIMITS } from "../../shared/lifecycle/reap.ts";
import { systemRandom } from "../../shared/ports.ts";
import { ok } from "../../shared/result.ts";
import { parsePod, type Pod } from "../../shared/runpod/pod.ts";
import { ownershipTags, podName } from "../../shared/runpod/tags.ts";
import { nodeSql } from "../support/node-sql.ts";

const T0 = Date.UTC(2026, 10, 30, 12);
const MINUTE = 60_000;
const HOUR = 3_600_000;
const PRICE = 0.5;

let now = T0;
let rented: Pod[] = [];
/** How long RunPod bills each pod. */
let billedMs: Record<string, number> = {};
let gateSql: Sql;
let accountSql: Sql;
/** Null: it is down. What it has stored stays. */
let gate: Gate | null = null;
let memory: SweepMemory;
let accountAnswers = true;
let heard: "all" | "answers-lost" = "all";

beforeEach(() => {
  now = T0;
  billedMs = {};
  heard = "all";
  accountAnswers = true;
  gateSql = nodeSql();
  accountSql = nodeSql();
  const ports = { sql: accountSql, clock: { now: () => now }, runpod: {} as never, monthlyCapMicros: 1_000_000 };
  // Makes its tables.
  new Account(ports).paused();
  memory = new SweepMemory(accountSql);
  gate = null;
  const owner = {
    deployment: "testing",
    repositoryId: "101",
    requestId: "r1",
    attemptId: "r1-1",
    runId: "9",
    keep: "false",
  };
  const createdAt = new Date(T0).toISOString();
  const pod = { id: "p1", name: podName(owner), status: "RUNNING", createdAt, cost: PRICE, env: ownershipTags(owner) };
  const parsed = parsePod(pod);
  if (!parsed.ok) throw new Error(parsed.what);
  rented = [parsed.pod];
});

function startGate(): Gate {
  return new Gate({
    sql: gateSql,
    alarm: { set: () => undefined },
    clock: { now: () => now },
    random: systemRandom,
    runpod: {
      getPod: (id: string) =>
        Promise.resolve(rented.some((pod) => pod.id === id) ? { kind: "pod", pod: rented[0] } : { kind: "not-found" }),
      deletePod: (id: string) => Promise.resolve(deletePod(id)),
    },
    account: {
      listPods: () => Promise.resolve(ok(listing())),
      commit: () => Promise.resolve(ok(null)),
      goneSince: async (id: string) => (accountAnswers ? ok(memory.goneSince(id)) : { ok: false, why: "down" }),
    },
    github: () => new Proxy({}, { get: () => () => Promise.resolve({ ok: false, error: { reason: "server" } }) }),
    deployment: "testing",
    appId: "1",
    log: () => undefined,
  } as unknown as GatePorts);
}

function deletePod(id: string) {
  const found = rented.find((pod) => pod.id === id);
  if (found === undefined) return { kind: "not-found" } as const;
  rented = rented.filter((pod) => pod !== found);
  billedMs[id] = now - T0;
  return { kind: "deleted" } as const;
}

const listing = (): PodListing => ({ startedAt: now, complete: true, pods: rented });

async function inGate<T>(body: (up: Gate) => T): Promise<T> {
  if (gate === null) throw new Error("the gate is down");
  const value = body(gate);
  if (heard === "answers-lost") throw new Error("its answer was lost");
  return value;
}

/** One minute of the deployment: cron's sweep, and whatever the gate has to do. */
async function minute() {
  const ports = {
    deployment: "testing",
    allowedRepositories: new Set(["101"]),
    gate: () => ({
      podStandings: (questions: Parameters<typeof podStanding>[1][], listedAt: number) =>
        inGate((up) => questions.map((question) => podStanding(up.store, question, listedAt))),
      adoptStray: (...said: Parameters<Gate["adoptStray"]>) => inGate((up) => up.adoptStray(...said)),
      podsRemoved: (removed: Parameters<Gate["podsRemoved"]>[0]) => inGate((up) => up.podsRemoved(removed)),
    }),
    account: {
      listPods: async () => ok(listing()),
      beginSweep: async (leaseMs: number) => memory.begin(now, leaseMs),
      owe: async (...said: Parameters<SweepMemory["owe"]>) => memory.owe(...said),
      endSweep: async (...said: Parameters<SweepMemory["end"]>) => memory.end(...said),
    },
    runpod: { deletePod: async (id: string) => deletePod(id) },
    limits: DEFAULT_REAP_LIMITS,
    clock: { now: () => now },
    log: () => undefined,
  } as unknown as CronPorts;
  const status = await reap(ports, []);
  for (let step = 0; step < 4; step += 1) await gate?.run();
  now += MINUTE;
  return status;
}

async function minutes(count: number): Promise<void> {
  for (let each = 0; each < count; each += 1) await minute();
}

const ledger = () =>
  gateSql.exec<{ pod_id: string; closed_at: number; estimate_micros: number }>("SELECT * FROM ledger");

function expectBooked(): void {
  const billed = billedMs["p1"] ?? NaN;
  expect(ledger()).toMatchObject([
    { pod_id: "p1", closed_at: T0 + billed, estimate_micros: Math.round((PRICE * 1_000_000 * billed) / HOUR) },
  ]);
}

it("goes at the backstop with its gate down, and stands in the ledger once that is up, hours later", async () => {
  await minutes(119);
  expect(rented).toHaveLength(1);
  await minutes(2);
  expect(billedMs).toEqual({ p1: 2 * HOUR });
  await minutes(90);
  // Nor does the account's own death lose it: what it remembers is stored.
  memory = new SweepMemory(accountSql);
  gate = startGate();
  expect(ledger()).toEqual([]);
  await minutes(5);
  expectBooked();
  expect(gate.store.openStrays()).toEqual([]);
  await minutes(5);
  expectBooked();
});

it("goes with its gate read-only after a roll-back, and is booked when newer code is back", async () => {
  const version = () => gateSql.exec<{ version: number }>("SELECT version FROM schema_version")[0]?.version ?? 0;
  startGate();
  const known = version();
  gateSql.exec("UPDATE schema_version SET version = ?", known + 1);
  gate = startGate();
  expect(gate.readOnly).toBe(true);
  await minutes(30);
  // It answers that it knows no such pod: seen twice, and gone.
  expect(rented).toEqual([]);
  expect(ledger()).toEqual([]);
  gateSql.exec("UPDATE schema_version SET version = ?", known);
  gate = startGate();
  await minutes(5);
  expectBooked();
});

it("is booked to its end by a gate that had begun with it, and that looks before anybody has told it", async () => {
  startGate().adoptStray("p1", "reap-late-pod", T0, PRICE);
  // It dies before its order, and cron waits for the backstop.
  await minutes(121);
  expect(billedMs).toEqual({ p1: 2 * HOUR });
  await minutes(90);
  gate = startGate();
  accountAnswers = false;
  await gate.run();
  expect(ledger()).toMatchObject([{ pod_id: "p1", closed_at: null }]);
  accountAnswers = true;
  now += MINUTE;
  await gate.run();
  now += MINUTE;
  await gate.run();
  expectBooked();
  await minutes(5);
  expectBooked();
});

it("has one line when the gate was told and nobody heard that it was", async () => {
  await minutes(121);
  gate = startGate();
  heard = "answers-lost";
  await minutes(5);
  expectBooked();
  expect((await minute()).unbooked).toBe(1);
  heard = "all";
  expect((await minute()).unbooked).toBe(0);
  await minutes(3);
  expectBooked();
});
