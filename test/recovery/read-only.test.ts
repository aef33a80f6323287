/** I12: stored state that newer code wrote. Nothing is decided about it, nothing is bought, and its pods still go in time. */
import { describe, expect, it } from "vitest";
import { reap } from "../../cron/reap.ts";
import type { CronPorts } from "../../cron/ports.ts";
import { wakeGates } from "../../cron/wake-gates.ts";
import { Account } from "../../durable-objects/account/account.ts";
import { Gate } from "../../durable-objects/gate/gate.ts";
import type { GatePorts, Sql } from "../../durable-objects/gate/ports.ts";
import { podStanding } from "../../durable-objects/gate/standing.ts";
import { DEFAULT_REAP_LIMITS } from "../../shared/lifecycle/reap.ts";
import { ok } from "../../shared/result.ts";
import { parsePod, type Pod } from "../../shared/runpod/pod.ts";
import { ownershipTags, podName } from "../../shared/runpod/tags.ts";
import { requestIn, states } from "../lifecycle/fixtures.ts";
import { nodeSql } from "../support/node-sql.ts";

const T0 = Date.UTC(2026, 10, 30, 12);
const HOUR = 3_600_000;

function gateOn(sql: Sql): { readonly gate: Gate; readonly calls: string[] } {
  const calls: string[] = [];
  const outside = new Proxy({}, { get: (_target, name) => () => calls.push(String(name)) });
  const gate = new Gate({
    sql,
    alarm: { set: () => undefined },
    clock: { now: () => T0 },
    random: { next: () => 0, bytes: (length: number) => new Uint8Array(length) },
    runpod: outside,
    account: outside,
    github: () => outside,
    deployment: "testing",
    appId: "1",
    log: () => undefined,
  } as unknown as GatePorts);
  return { gate, calls };
}

/** A gate with a request that pays for a pod, and then a version that this code does not know. */
function newerState(): { readonly sql: Sql; readonly podId: string } {
  const sql = nodeSql();
  const { gate } = gateOn(sql);
  const request = requestIn(states.executing());
  const podId = request.state.kind === "executing" ? (request.state.attempt.pod?.id ?? "") : "";
  gate.store.saveRequest(request);
  gate.store.putTask("main", request.id, "observe", { kind: "observe", want: {} }, T0, T0);
  sql.exec(`UPDATE schema_version SET version = version + 1`);
  return { sql, podId };
}

function podOf(id: string, ageMs: number): Pod {
  const owner = {
    deployment: "testing",
    repositoryId: "101",
    requestId: "r1",
    attemptId: "r1-1",
    runId: "900",
    keep: "false",
  };
  const parsed = parsePod({
    id,
    name: podName(owner),
    status: "RUNNING",
    createdAt: new Date(T0 - ageMs).toISOString(),
    env: ownershipTags(owner),
  });
  if (!parsed.ok) throw new Error(parsed.what);
  return parsed.pod;
}

function cronOver(gate: Gate, pods: Pod[]): { readonly ports: CronPorts; readonly deleted: string[] } {
  const deleted: string[] = [];
  const ports = {
    deployment: "testing",
    allowedRepositories: new Set(["101"]),
    gate: () => ({
      tick: () => Promise.resolve(gate.tick()),
      podStandings: (questions: Parameters<typeof podStanding>[1][], listedAt: number) =>
        Promise.resolve(questions.map((question) => podStanding(gate.store, question, listedAt, gate.readOnly))),
      adoptStray: (podId: string, why: string, createdAt: number | null) =>
        Promise.resolve(gate.adoptStray(podId, why, createdAt)),
      podsRemoved: (removed: Parameters<Gate["podsRemoved"]>[0]) => Promise.resolve(gate.podsRemoved(removed)),
    }),
    account: {
      registered: () => Promise.resolve([]),
      listPods: () => Promise.resolve({ ok: true, value: { startedAt: T0, complete: true, pods } }),
      beginSweep: () => Promise.resolve({ kind: "go", observations: {} }),
      owe: () => Promise.resolve(true),
      endSweep: () => Promise.resolve([]),
    },
    runpod: {
      deletePod: (podId: string) => {
        deleted.push(podId);
        return Promise.resolve({ kind: "deleted" });
      },
    },
    board: { read: () => Promise.resolve(ok(null)) },
    limits: DEFAULT_REAP_LIMITS,
    clock: { now: () => T0 },
    log: () => undefined,
  } as unknown as CronPorts;
  return { ports, deleted };
}

describe("a gate on newer state", () => {
  it("takes nothing, decides nothing, calls nobody", async () => {
    const { sql } = newerState();
    const { gate, calls } = gateOn(sql);
    expect(gate.readOnly).toBe(true);
    const before = JSON.stringify(sql.exec(`SELECT * FROM requests`)) + JSON.stringify(sql.exec(`SELECT * FROM tasks`));
    gate.tick();
    await gate.run();
    gate.hint("r1");
    expect(gate.stop("r1", { kind: "cancelled", reason: "cancelled-by-operator", detail: "" })).toBe(false);
    expect(gate.adoptStray("p", "reap-late-pod", T0)).toBe(false);
    expect(calls).toEqual([]);
    const after = JSON.stringify(sql.exec(`SELECT * FROM requests`)) + JSON.stringify(sql.exec(`SELECT * FROM tasks`));
    expect(after).toBe(before);
  });

  it("loses its pod at the backstop, by cron alone, and not before", async () => {
    const { sql, podId } = newerState();
    const { gate } = gateOn(sql);
    const young = cronOver(gate, [podOf(podId, 2 * HOUR - 1)]);
    const wake = await wakeGates(young.ports);
    expect(wake.problems).toEqual([]);
    await reap(young.ports, wake.visits);
    expect(young.deleted).toEqual([]);
    const old = cronOver(gate, [podOf(podId, 2 * HOUR)]);
    const status = await reap(old.ports, []);
    expect(status.reaped).toEqual([{ podId, repositoryId: "101", reason: "backstop", how: "deleted" }]);
    expect(old.deleted).toEqual([podId]);
  });

  describe("with a request that this code cannot read", () => {
    /** Newer code has written a record that this code does not parse, and the pod is in the ledger, or not there yet. */
    function unread(state: string, booked = true) {
      const { sql, podId } = newerState();
      sql.exec(`UPDATE requests SET record = '{}', state = ? WHERE id = 'r1'`, state);
      sql.exec(`DELETE FROM attempts`);
      sql.exec(
        `INSERT INTO attempts (id, request_id, number, pod_name, opened_at) VALUES ('r1-1', 'r1', 1, 'n', ?)`,
        T0,
      );
      if (booked) {
        const { gate } = gateOn(sql);
        const line = { attemptId: "r1-1", podId, gpuId: null, tier: "", pricePerHour: 1, paidFrom: T0 - HOUR } as const;
        gate.store.ledger({ kind: "open", ...line }, "r1");
      }
      return { gate: gateOn(sql).gate, podId };
    }

    it.each([
      ["booked", true],
      ["not booked yet", false],
    ])("keeps its pod, %s, until the backstop: a test may run on it", async (_what, booked) => {
      const { gate, podId } = unread("executing", booked);
      const young = cronOver(gate, [podOf(podId, HOUR)]);
      expect(await reap(young.ports, [])).toMatchObject({ own: 1, reaped: [], problems: [] });
      const old = cronOver(gate, [podOf(podId, 2 * HOUR)]);
      expect((await reap(old.ports, [])).reaped).toMatchObject([{ podId, reason: "backstop" }]);
      expect(old.deleted).toEqual([podId]);
    });

    it("holds none that the ledger has closed: RunPod shows again what was proven gone", () => {
      const { gate, podId } = unread("executing");
      const ends = { closedAt: T0, provenAt: T0, pricePerHour: 1, estimateMicros: 1, outcome: "gone" } as const;
      gate.store.ledger({ kind: "close", attemptId: "r1-1", podId, ...ends }, "r1");
      expect(podStanding(gate.store, { podId, attemptId: "r1-1" }, T0 + 1, true).kind).toBe("closed");
    });

    it("loses its pod at once where the request has ended, as it does on state that this code may write", async () => {
      const { gate, podId } = unread("concluded");
      expect((await reap(cronOver(gate, [podOf(podId, HOUR)]).ports, [])).reaped).toMatchObject([
        { reason: "late-pod" },
      ]);
      const open = unread("executing");
      const question = { podId: open.podId, attemptId: "r1-1" };
      expect(podStanding(open.gate.store, question, T0).kind).toBe("closed");
      expect(podStanding(open.gate.store, question, T0, true).kind).toBe("current");
    });
  });

  it("loses a pod that none of its requests holds as well: the gate takes no stray, so cron deletes", async () => {
    const { sql } = newerState();
    const { gate } = gateOn(sql);
    const { ports, deleted } = cronOver(gate, [podOf("another", 2 * HOUR)]);
    await reap(ports, []);
    expect(deleted).toEqual(["another"]);
  });

  it("loses its pods even when newer tables cannot be read any more", async () => {
    const { sql, podId } = newerState();
    sql.exec(`DROP TABLE ledger`);
    const { gate } = gateOn(sql);
    const { ports, deleted } = cronOver(gate, [podOf(podId, 2 * HOUR)]);
    const wake = await wakeGates({ ...ports, gate: () => ({ ...ports.gate("101"), tick: async () => gate.tick() }) });
    expect(wake.visits).toMatchObject([{ answered: false }]);
    await reap(
      {
        ...ports,
        gate: () => ({
          ...ports.gate("101"),
          podStandings: async (questions, listedAt) =>
            questions.map((question) => podStanding(gate.store, question, listedAt, gate.readOnly)),
        }),
      },
      wake.visits,
    );
    expect(deleted).toEqual([podId]);
  });
});

describe("the account on newer state", () => {
  it("lets nothing be bought, and changes nothing", () => {
    const sql = nodeSql();
    const ports = { sql, clock: { now: () => T0 }, runpod: {} as never, monthlyCapMicros: 1_000_000_000 };
    const present = new Account(ports);
    expect(present.reserve("r1-1", "101", 1_000)).toEqual({ kind: "reserved" });
    sql.exec(`UPDATE schema_version SET version = version + 1`);
    const account = new Account(ports);
    expect(account.reserve("r2-1", "101", 1_000)).toMatchObject({ kind: "over-cap" });
    account.commit("r1-1", 500, "101");
    account.release("r1-1", "101");
    expect(account.openReservations()).toEqual([{ attemptId: "r1-1", repositoryId: "101", micros: 1_000 }]);
  });
});
