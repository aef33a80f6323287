/** What the reaper deletes by itself while a gate cannot be told: remembered before the order, and told until it is booked. */
import { beforeEach, describe, expect, it } from "vitest";
import { reap } from "../../cron/reap.ts";
import type { CronPorts } from "../../cron/ports.ts";
import { SweepMemory, type OwedRemoval } from "../../durable-objects/account/sweep-memory.ts";
import type { PodListing } from "../../durable-objects/gate/ports.ts";
import type { RemovedPod } from "../../durable-objects/gate/removals.ts";
import { DEFAULT_REAP_LIMITS } from "../../shared/lifecycle/reap.ts";
import { err } from "../../shared/result.ts";
import type { RunPodFailure } from "../../shared/runpod/failure.ts";
import { parsePod, type Pod } from "../../shared/runpod/pod.ts";
import { ownershipTags, podName } from "../../shared/runpod/tags.ts";
import { nodeSql } from "../support/node-sql.ts";

const T0 = Date.UTC(2026, 10, 30, 12);
const MINUTE = 60_000;
const HOUR = 3_600_000;
const LOST = { reason: "network", operation: "deletePod", status: null } as unknown as RunPodFailure;

let now = T0;
let pods: Pod[] = [];
let complete = true;
/** `read-only`: it answers, and takes nothing. */
let gateIs: "up" | "down" | "read-only" = "down";
let accountIs: "up" | "down" = "up";
/** What becomes of an order to delete. */
let order: "answered" | "done-but-lost" | "not-done" | "not-found" = "answered";
let did: string[] = [];
let logged: unknown[] = [];
let told: RemovedPod[] = [];
let memory: SweepMemory;
let forgets = false;
/** How long a call takes that the account does not answer. */
let hangsMs = 0;

beforeEach(() => {
  now = T0;
  pods = [];
  complete = true;
  gateIs = "down";
  accountIs = "up";
  order = "answered";
  did = [];
  logged = [];
  told = [];
  forgets = false;
  hangsMs = 0;
  const sql = nodeSql();
  sql.exec("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)");
  memory = new SweepMemory(sql);
});

function add(id: string, ageMs = 3 * HOUR): void {
  const owner = {
    deployment: "testing",
    repositoryId: "101",
    requestId: "r1",
    attemptId: "r1-1",
    runId: "9",
    keep: "false",
  };
  const parsed = parsePod({
    id,
    name: podName(owner),
    status: "RUNNING",
    createdAt: new Date(now - ageMs).toISOString(),
    cost: 0.5,
    env: ownershipTags(owner),
  });
  if (!parsed.ok) throw new Error(parsed.what);
  pods.push(parsed.pod);
}

async function asked<T>(there: boolean, body: () => T): Promise<T> {
  now += there ? 0 : hangsMs;
  if (!there) throw new Error("no answer");
  return body();
}

const gate = {
  podStandings: (questions: readonly unknown[]) =>
    asked(gateIs !== "down", () => questions.map(() => ({ kind: "closed", since: null }))),
  adoptStray: (podId: string) =>
    asked(gateIs !== "down", () => (gateIs === "read-only" ? false : (did.push(`adopt ${podId}`), true))),
  podsRemoved: (removed: readonly RemovedPod[]) =>
    asked(gateIs !== "down", () => {
      if (gateIs === "read-only") return [];
      told.push(...removed);
      return removed.map((one) => one.podId);
    }),
};

function portsNow(): CronPorts {
  const up = accountIs === "up";
  return {
    deployment: "testing",
    allowedRepositories: new Set(["101"]),
    gate: () => gate,
    account: {
      listPods: () => asked(true, () => ({ ok: true, value: listing() })),
      beginSweep: (leaseMs: number) => asked(up, () => memory.begin(now, leaseMs)),
      owe: (removal: OwedRemoval) => asked(up, () => (did.push(`owe ${removal.podId}`), memory.owe(removal))),
      endSweep: (...said: Parameters<SweepMemory["end"]>) => asked(up && !forgets, () => memory.end(...said)),
    },
    runpod: {
      listPods: () => Promise.resolve(err(LOST)),
      deletePod: (podId: string) => {
        did.push(`DELETE ${podId}`);
        now += 500;
        if (order !== "not-done") pods = pods.filter((pod) => pod.id !== podId);
        if (order === "answered") return Promise.resolve({ kind: "deleted" });
        if (order === "not-found") return Promise.resolve({ kind: "not-found" });
        return Promise.resolve({ kind: "failure", failure: LOST });
      },
    },
    limits: DEFAULT_REAP_LIMITS,
    clock: { now: () => now },
    log: (entry: unknown) => logged.push(entry),
  } as unknown as CronPorts;
}

const listing = (): PodListing => ({ startedAt: now, complete, pods });

const UNPRICED = { createdAt: null, pricePerHour: null, goneAt: null };

/** One sweep, and a minute. */
async function sweep() {
  const status = await reap(portsNow(), []);
  now += MINUTE;
  return status;
}

const remembered = (): readonly OwedRemoval[] => {
  const start = memory.begin(now, 0);
  memory.end({});
  return start.kind === "go" ? (start.owed ?? []) : [];
};

describe("a pod that is deleted while its gate is silent", () => {
  it("is remembered before the order, and told to the gate when that answers again, once", async () => {
    add("p1");
    const first = await sweep();
    expect(did).toEqual(["owe p1", "DELETE p1"]);
    expect(first).toMatchObject({ unbooked: 1, repositories: ["101"] });
    expect(first.problems.join()).toContain("has not booked what was deleted from here, p1");
    const goneAt = T0 + 500;
    expect(remembered()).toMatchObject([{ podId: "p1", repositoryId: "101", goneAt }]);
    expect(await sweep()).toMatchObject({ unbooked: 1, repositories: ["101"] });
    gateIs = "up";
    // Its gate works on it from now on, so its repository stays where cron visits it.
    expect(await sweep()).toMatchObject({ unbooked: 0, repositories: ["101"], problems: [] });
    expect(told).toEqual([
      { podId: "p1", attemptId: "r1-1", why: "reap-backstop", createdAt: T0 - 3 * HOUR, pricePerHour: 0.5, goneAt },
    ]);
    expect(remembered()).toEqual([]);
    expect(await sweep()).toMatchObject({ unbooked: 0, repositories: [] });
    expect(told).toHaveLength(1);
  });

  it("does not delay the deletion of others by a gate that hangs: it is told behind the last, once for all", async () => {
    for (const id of ["p1", "p2", "p3"]) add(id);
    const ports = portsNow();
    const sentAt: number[] = [];
    let answered: readonly string[] = [];
    const podsRemoved = (removed: readonly RemovedPod[]) => {
      answered = removed.map((one) => one.podId);
      return asked(false, (): never => never());
    };
    hangsMs = 10_000;
    gateIs = "read-only";
    const { deletePod } = ports.runpod;
    const { unbooked } = await reap(
      {
        ...ports,
        gate: () => ({ ...ports.gate("101"), podsRemoved }),
        runpod: { ...ports.runpod, deletePod: (id) => (sentAt.push(now), deletePod(id)) },
      },
      [],
    );
    expect(sentAt).toEqual([T0, T0 + 500, T0 + 1_000]);
    expect(answered).toEqual(["p1", "p2", "p3"]);
    expect(unbooked).toBe(3);
    expect(remembered()).toMatchObject([{ goneAt: T0 + 500 }, { goneAt: T0 + 1_000 }, { goneAt: T0 + 1_500 }]);
  });

  it("nor by a gate that hangs when it is handed a pod: it is waited for once in a sweep", async () => {
    for (const id of ["p1", "p2", "p3"]) add(id);
    const ports = portsNow();
    const sentAt: number[] = [];
    hangsMs = 10_000;
    gateIs = "read-only";
    const { deletePod } = ports.runpod;
    const { problems } = await reap(
      {
        ...ports,
        gate: () => ({ ...ports.gate("101"), adoptStray: () => asked(false, (): never => never()) }),
        runpod: { ...ports.runpod, deletePod: (id) => (sentAt.push(now), deletePod(id)) },
      },
      [],
    );
    expect(sentAt).toEqual([T0 + 10_000, T0 + 10_500, T0 + 11_000]);
    expect(problems.filter((one) => one.includes("did not take pod"))).toHaveLength(1);
  });

  it("is told in the same sweep to a gate that answers again by then", async () => {
    add("p1");
    const { deletePod } = portsNow().runpod;
    const ports = portsNow();
    await reap({ ...ports, runpod: { ...ports.runpod, deletePod: (id) => ((gateIs = "up"), deletePod(id)) } }, []);
    expect(told).toMatchObject([{ podId: "p1", goneAt: T0 + 500 }]);
    expect(remembered()).toEqual([]);
  });

  it("waits for a gate that answers and may write nothing", async () => {
    add("p1");
    gateIs = "read-only";
    expect((await sweep()).reaped).toMatchObject([{ podId: "p1", how: "deleted" }]);
    expect((await sweep()).problems.join()).toContain("it took no note");
    gateIs = "up";
    await sweep();
    expect(told).toMatchObject([{ podId: "p1", why: "reap-late-pod", goneAt: T0 + 500 }]);
  });

  it("survives a sweep that dies behind its order", async () => {
    add("p1");
    forgets = true;
    await sweep();
    forgets = false;
    gateIs = "up";
    // It is taken for alive for one tick more.
    expect((await sweep()).kind).toBe("skipped");
    await sweep();
    // When the 204 came has died with it: the first list without the pod stands for it.
    expect(told).toMatchObject([{ podId: "p1", goneAt: T0 + 2 * MINUTE + 500 }]);
  });
});

describe("an order without an answer", () => {
  it("that was carried out is known by the first complete list without the pod", async () => {
    add("p1");
    order = "done-but-lost";
    expect((await sweep()).reaped).toMatchObject([{ how: "failed" }]);
    gateIs = "up";
    complete = false;
    await sweep();
    expect(told).toEqual([]);
    complete = true;
    const at = now;
    await sweep();
    expect(told).toMatchObject([{ podId: "p1", goneAt: at }]);
  });

  it("that was not carried out is told nobody: the gate takes the pod when it is back", async () => {
    add("p1");
    order = "not-done";
    await sweep();
    gateIs = "up";
    await sweep();
    expect(did).toEqual(["owe p1", "DELETE p1", "adopt p1"]);
    expect(told).toEqual([]);
    pods = [];
    await sweep();
    // Its gate has it by then and says so; until that word the reaper cannot know.
    expect(told).toMatchObject([{ podId: "p1" }]);
    expect(remembered()).toEqual([]);
  });

  it("is not proven by a list that began before it", async () => {
    const orderedAt = T0 + MINUTE;
    // By a sweep that runs beside this one: the guard is an aid.
    memory.owe({ podId: "p1", repositoryId: "101", attemptId: null, why: "reap-backstop", ...UNPRICED, orderedAt });
    gateIs = "up";
    await sweep();
    await sweep();
    expect(told).toEqual([]);
    await sweep();
    expect(told).toMatchObject([{ podId: "p1", goneAt: T0 + 2 * MINUTE }]);
  });

  it("proves nothing of a newborn, which a list may not show yet", async () => {
    memory.owe({
      podId: "p1",
      repositoryId: "101",
      attemptId: "r1-1",
      why: "reap-completed",
      createdAt: T0 - 90_000,
      pricePerHour: null,
      orderedAt: T0 - 1_000,
      goneAt: null,
    });
    gateIs = "up";
    await sweep();
    expect(told).toEqual([]);
    await sweep();
    expect(told).toMatchObject([{ podId: "p1", goneAt: T0 + MINUTE }]);
  });

  it("does not move a time that is known: a list that lags shows the pod once more, and RunPod has none", async () => {
    add("p1");
    const shown = pods;
    await sweep();
    pods = shown;
    order = "not-found";
    await sweep();
    expect(remembered()).toMatchObject([{ podId: "p1", goneAt: T0 + 500 }]);
  });
});

it("a pod whose deletion is ordered again keeps the price and the age that only the first order knew", async () => {
  add("p1");
  order = "not-done";
  await sweep();
  pods = pods.map((pod) => ({ ...pod, costPerHour: 0, createdAtMs: null }));
  order = "answered";
  const ports = portsNow();
  const { deletePod } = ports.runpod;
  await reap({ ...ports, runpod: { ...ports.runpod, deletePod: (id) => ((gateIs = "up"), deletePod(id)) } }, []);
  expect(told).toMatchObject([{ podId: "p1", createdAt: T0 - 3 * HOUR, pricePerHour: 0.5, goneAt: now }]);
});

describe("an account that remembers nothing", () => {
  it.each([
    ["that hangs is waited for once", 10_000, 1],
    ["that refuses is asked for each", 1, 2],
  ])("%s; it keeps no pod alive, and what nobody knows is said aloud", async (_, takesMs, times) => {
    add("p1");
    add("p2");
    accountIs = "down";
    hangsMs = takesMs;
    const { problems } = await sweep();
    expect(did).toEqual(["DELETE p1", "DELETE p2"]);
    expect(problems.filter((one) => one.startsWith("The account took no note"))).toHaveLength(times);
    expect(problems.join()).toContain("Pod p2 may have been deleted without being booked");
    expect(logged).toContainEqual(expect.objectContaining({ event: "cron.unbooked", pod: "p1", repository: "101" }));
  });

  it("says nothing of the sort when the gate was told", async () => {
    add("p1");
    accountIs = "down";
    const ports = portsNow();
    const { deletePod } = ports.runpod;
    await reap({ ...ports, runpod: { ...ports.runpod, deletePod: (id) => ((gateIs = "up"), deletePod(id)) } }, []);
    expect(told).toMatchObject([{ podId: "p1" }]);
    expect(logged).not.toContainEqual(expect.objectContaining({ event: "cron.unbooked" }));
  });

  it("is made up for at the end of the sweep, and loses none of the sweeps before", async () => {
    add("p0");
    await sweep();
    add("p1");
    const ports = portsNow();
    const silent = {
      ...ports.account,
      beginSweep: () => asked(false, (): never => never()),
      owe: () => asked(false, () => true),
    };
    await reap({ ...ports, account: silent }, []);
    expect(remembered()).toMatchObject([{ podId: "p0" }, { podId: "p1" }]);
  });

  it("that misses the end of a sweep is told a second time", async () => {
    add("p1");
    const ports = portsNow();
    let tries = 0;
    const endSweep: CronPorts["account"]["endSweep"] = (...said) => asked((tries += 1) > 1, () => memory.end(...said));
    await reap({ ...ports, account: { ...ports.account, owe: () => asked(false, () => true), endSweep } }, []);
    expect(remembered()).toMatchObject([{ podId: "p1", goneAt: T0 + 500 }]);
    expect(logged).not.toContainEqual(expect.objectContaining({ event: "cron.unbooked" }));
  });

  it("that misses the end of a sweep with nothing to tell is told a second time too, and keeps out no other sweep", async () => {
    const ports = portsNow();
    let tries = 0;
    const endSweep: CronPorts["account"]["endSweep"] = (...said) => asked((tries += 1) > 1, () => memory.end(...said));
    await reap({ ...ports, account: { ...ports.account, endSweep } }, []);
    now += MINUTE;
    expect((await sweep()).kind).toBe("swept");
    expect(tries).toBe(2);
  });

  it("says which pods found no room or do not read", async () => {
    add("p1");
    const ports = portsNow();
    const full = { ...ports.account, owe: () => asked(true, () => false), endSweep: () => asked(true, () => ["p1"]) };
    const first = await reap({ ...ports, account: full }, []);
    expect(first.problems.join()).toContain("too many are remembered already");
    const start = { kind: "go", observations: {}, unreadable: ["p7"] } as const;
    const settled: (readonly string[])[] = [];
    const damaged = {
      ...ports.account,
      beginSweep: () => asked(true, () => start),
      endSweep: (...said: Parameters<CronPorts["account"]["endSweep"]>) =>
        asked(true, () => (settled.push(said[2]), [])),
    };
    const second = await reap({ ...ports, account: damaged }, []);
    expect(second.problems.join()).toContain("Pod p7 may have been deleted without being booked");
    expect(settled).toEqual([["p7"]]);
  });
});

function never(): never {
  throw new Error("never");
}

it("reads RunPod's own list from what is kept of its quota for deletions, where the account gives none", async () => {
  const { account, runpod, ...others } = portsNow();
  const options: unknown[] = [];
  const ports: CronPorts = {
    ...others,
    account: { ...account, listPods: () => Promise.resolve({ ok: false, why: "held back" }) },
    runpod: { ...runpod, listPods: (given) => (options.push(given), Promise.resolve(err(LOST))) },
  };
  await reap(ports, []);
  expect(options).toEqual([{ forDeletion: true }]);
});
