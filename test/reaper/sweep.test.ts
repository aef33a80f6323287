import { describe, expect, it } from "vitest";
import { DEFAULT_REAP_LIMITS, type RunView } from "../../shared/lifecycle/reap.ts";
import {
  cancelAnswer,
  deleteAnswer,
  sweep,
  type SweepOptions,
  type SweepPod,
  type SweepPorts,
} from "../../shared/lifecycle/sweep.ts";

const NOW = Date.UTC(2026, 10, 30, 12);
const HOUR = 3_600_000;

function pod(id: string, more: Partial<SweepPod> = {}): SweepPod {
  return {
    id,
    own: true,
    createdAt: NOW - 600_000,
    ownCreatedAt: null,
    owner: { runId: `1${id}`, attempt: 1, workflowPath: "w.yml", repository: "101" },
    keepAsked: false,
    cost: {
      podId: id,
      startedAt: (NOW - 600_000) * 1000,
      adjustedPrice: 0.6,
      listPrice: null,
      machineId: null,
      dataCenterId: null,
    },
    gpuTypeId: "NVIDIA A40",
    ...more,
  };
}

function run(runId: string, more: Partial<Extract<RunView, { kind: "read" }>> = {}): RunView {
  return {
    kind: "read",
    runId,
    attempt: 1,
    status: "in_progress",
    workflowPath: "w.yml",
    repository: "101",
    updatedAt: NOW - HOUR,
    ...more,
  };
}

/** Ports that write down every call; each test replaces what it is about. */
function world(more: Partial<SweepPorts> = {}) {
  const calls: string[] = [];
  const base: SweepPorts = {
    readRun: (owner) => Promise.resolve(run(owner.runId)),
    askGate: () => Promise.resolve({ kind: "unreachable" }),
    readRetention: () => Promise.resolve({ kind: "none" }),
    deletePod: () => Promise.resolve({ kind: "gone" }),
    proveGone: () => Promise.resolve(true),
    cancelRun: () => Promise.resolve({ kind: "accepted" }),
    sleep: () => Promise.resolve(),
    now: () => NOW,
    ...more,
  };
  const noted = <A extends unknown[], R>(name: string, call: (...args: A) => R, what: (...args: A) => string) => {
    return (...args: A) => {
      calls.push(`${name} ${what(...args)}`);
      return call(...args);
    };
  };
  const ports: SweepPorts = {
    ...base,
    readRun: noted("read", base.readRun, (owner) => owner.runId),
    readRetention: noted("retention", base.readRetention, ({ id }) => id),
    deletePod: noted("delete", base.deletePod, (id) => id),
    proveGone: noted("prove", base.proveGone, (id) => id),
    cancelRun: noted("cancel", base.cancelRun, (owner) => owner.runId),
    sleep: noted("sleep", base.sleep, String),
  };
  return { ports, calls };
}

function options(more: Partial<SweepOptions> = {}): SweepOptions {
  return {
    execute: true,
    limits: DEFAULT_REAP_LIMITS,
    maxLookups: null,
    cursor: null,
    observations: new Map(),
    ...more,
  };
}

const OLD = { createdAt: NOW - 2 * HOUR };

describe("one pod", () => {
  it("I8: deletes, proves it gone, reads the run again and only then cancels this attempt", async () => {
    const { ports, calls } = world();
    const result = await sweep([pod("a", OLD)], ports, options());
    expect(calls).toEqual(["read 1a", "delete a", "prove a", "read 1a", "cancel 1a"]);
    expect(result.pods[0]).toMatchObject({ reason: "backstop", deleted: true, provenGone: true, runCancelled: true });
    expect(result.pods[0]?.cost).toMatchObject({ paidMicros: 600_000_000, cost: 100_000 });
  });

  it("a deletion that is not proven leaves the run alone and is an error", async () => {
    const { ports, calls } = world({ proveGone: () => Promise.resolve(false) });
    const result = await sweep([pod("a", OLD)], ports, options());
    expect(calls).toEqual(["read 1a", "delete a", "prove a"]);
    expect(result.pods[0]).toMatchObject({ deleted: true, provenGone: false });
    expect(result.errors).toHaveLength(1);
  });

  it("N88: a newer attempt, or one that ended meanwhile, is not cancelled", async () => {
    for (const second of [run("1a", { attempt: 2 }), run("1a", { status: "completed" }), { kind: "gone" } as const]) {
      let reads = 0;
      const { ports, calls } = world({
        readRun: () => Promise.resolve((reads += 1) === 1 ? run("1a") : second),
      });
      const result = await sweep([pod("a", OLD)], ports, options());
      expect(calls).not.toContain("cancel 1a");
      expect(result.errors).toEqual([]);
    }
  });

  it("a refused cancel is fine only if the run has ended by itself", async () => {
    for (const [status, errors] of [
      ["completed", 0],
      ["in_progress", 1],
    ] as const) {
      let reads = 0;
      const { ports } = world({
        readRun: () => Promise.resolve(run("1a", (reads += 1) < 3 ? {} : { status })),
        cancelRun: () => Promise.resolve({ kind: "conflict" }),
      });
      expect((await sweep([pod("a", OLD)], ports, options())).errors).toHaveLength(errors);
    }
  });

  it("DELETE is tried three times, 5 s apart; a refusal is not tried again", async () => {
    const again = world({ deletePod: () => Promise.resolve({ kind: "again", what: "HTTP 503" }) });
    const result = await sweep([pod("a", OLD)], again.ports, options());
    expect(again.calls).toEqual(["read 1a", "delete a", "sleep 5000", "delete a", "sleep 5000", "delete a"]);
    expect(result.pods[0]).toMatchObject({ deleted: false });
    expect(result.errors[0]?.what).toContain("HTTP 503");

    const refused = world({ deletePod: () => Promise.resolve({ kind: "refused", what: "HTTP 403" }) });
    await sweep([pod("a", OLD)], refused.ports, options());
    expect(refused.calls).toEqual(["read 1a", "delete a"]);
  });

  it("a dry run decides and touches nothing", async () => {
    const { ports, calls } = world();
    const result = await sweep([pod("a", OLD)], ports, options({ execute: false }));
    expect(calls).toEqual(["read 1a"]);
    expect(result.pods[0]).toMatchObject({ reason: "backstop", deleted: false });
  });

  it("N08: with GitHub down, an old pod is deleted all the same; its run stays uncancelled and is reported", async () => {
    for (const readRun of [
      () => Promise.resolve({ kind: "unknown", what: "503" } as const),
      () => Promise.reject(new Error("socket hang up")),
    ]) {
      const { ports, calls } = world({ readRun, askGate: () => Promise.reject(new Error("no memory")) });
      const result = await sweep([pod("a", OLD)], ports, options());
      expect(calls).toContain("delete a");
      expect(calls).not.toContain("cancel 1a");
      expect(result.errors).toHaveLength(1);
    }
  });

  it("a retention record is read once, only for a pod that is due", async () => {
    const { ports, calls } = world({
      readRetention: () => Promise.resolve({ kind: "until", until: NOW + HOUR }),
    });
    await sweep([pod("a", { keepAsked: true }), pod("b", { ...OLD, keepAsked: true })], ports, options());
    expect(calls).toEqual(["read 1a", "read 1b", "retention b"]);
  });

  it("a cost that the listing cannot tell stays unknown", async () => {
    const { ports } = world();
    const result = await sweep([pod("a", { ...OLD, cost: null })], ports, options());
    expect(result.pods[0]).toMatchObject({ deleted: true, cost: null });
  });
});

describe("many pods", () => {
  it("N42: one bad pod never stops the others, each error is told once", async () => {
    const { ports, calls } = world({
      deletePod: (id) => (id === "b" ? Promise.reject(new Error("boom")) : Promise.resolve({ kind: "gone" })),
    });
    const pods = ["a", "b", "c"].map((id) => pod(id, OLD));
    const result = await sweep(pods, ports, options());
    expect(calls.filter((call) => call.startsWith("delete"))).toEqual(["delete a", "delete b", "delete c"]);
    expect(result.errors).toEqual([{ podId: "b", what: "boom" }]);
  });

  it("others' pods are counted and cost no request", async () => {
    const { ports, calls } = world();
    const result = await sweep([pod("x", { ...OLD, own: false }), pod("y", { own: false })], ports, options());
    expect(result).toMatchObject({ foreign: 2, pods: [], errors: [] });
    expect(calls).toEqual([]);
  });

  it("a suspicion is handed to the next sweep, which acts on it; what recovered is forgotten", async () => {
    const gone = world({ readRun: () => Promise.resolve({ kind: "gone" }) });
    const first = await sweep([pod("a")], gone.ports, options());
    expect([...first.observations]).toEqual([["a", { suspicion: "run-gone", firstSeenAt: NOW }]]);
    const later = { ...gone.ports, now: () => NOW + 60_000 };
    const second = await sweep([pod("a")], later, options({ observations: first.observations }));
    expect(second.pods[0]).toMatchObject({ reason: "run-gone", deleted: true });
    const back = await sweep([pod("a")], world().ports, options({ observations: first.observations }));
    expect(back.observations.size).toBe(0);
  });

  it("I3: a bounded sweep takes overdue pods first, and still reaches everyone in turn", async () => {
    const pods = [
      ...Array.from({ length: 30 }, (_, index) => pod(`young-${String(index).padStart(2, "0")}`)),
      ...Array.from({ length: 4 }, (_, index) => pod(`old-${index}`, OLD)),
    ];
    // The old ones cannot be deleted: they stay, and must not eat every turn.
    const stuck = world({ deletePod: () => Promise.resolve({ kind: "refused", what: "HTTP 500" }) });
    const seen = new Set<string>();
    let cursor: string | null = null;
    for (let tick = 0; tick < 10; tick += 1) {
      const result = await sweep(pods, stuck.ports, options({ maxLookups: 8, cursor }));
      expect(result.pods).toHaveLength(8);
      expect(result.left).toBe(26);
      expect(result.pods.slice(0, 4).every(({ podId }) => podId.startsWith("old-"))).toBe(true);
      for (const { podId } of result.pods) seen.add(podId);
      ({ cursor } = result);
    }
    expect(seen.size).toBe(34);
  });

  it("a suspicion about a pod without a turn is kept for its turn", async () => {
    const observations = new Map([["b", { suspicion: "run-gone", firstSeenAt: NOW - 1 } as const]]);
    const result = await sweep([pod("a"), pod("b")], world().ports, options({ maxLookups: 1, observations }));
    expect(result.observations.get("b")).toEqual({ suspicion: "run-gone", firstSeenAt: NOW - 1 });
  });
});

it.each([
  [200, "gone"],
  [204, "gone"],
  [404, "gone"],
  [408, "again"],
  [429, "again"],
  [500, "again"],
  [503, "again"],
  [null, "again"],
  [400, "refused"],
  [401, "refused"],
  [403, "refused"],
  [302, "refused"],
])("DELETE answered %s is %s", (status, kind) => {
  expect(deleteAnswer(status).kind).toBe(kind);
});

it.each([
  [202, "accepted"],
  [409, "conflict"],
  [200, "failed"],
  [500, "failed"],
  [null, "failed"],
])("cancel answered %s is %s", (status, kind) => {
  expect(cancelAnswer(status).kind).toBe(kind);
});
