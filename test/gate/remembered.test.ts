/** What a store remembers of its rows: it asks once, and a transaction that failed leaves nothing behind. */
import { describe, expect, it } from "vitest";
import { Gate } from "../../durable-objects/gate/gate.ts";
import type { GatePorts, Sql } from "../../durable-objects/gate/ports.ts";
import { audit } from "../../shared/lifecycle/step.ts";
import { requestIn, states } from "../lifecycle/fixtures.ts";
import { nodeSql } from "../support/node-sql.ts";

function watchedGate() {
  const plain = nodeSql();
  const asked: string[] = [];
  const sql: Sql = {
    exec: (query, ...bindings) => {
      asked.push(query);
      return plain.exec(query, ...bindings);
    },
    transaction: (body) => plain.transaction(body),
  };
  const ports = {
    sql,
    alarm: { set: () => undefined },
    clock: { now: () => 1_000_000 },
    random: { next: () => 0.5, bytes: (length: number) => new Uint8Array(length) },
    log: () => undefined,
  } as unknown as GatePorts;
  const { store, sql: own } = new Gate(ports);
  asked.length = 0;
  return { store, sql: own, asked };
}

describe("a store", () => {
  it("asks for what it has read or written no second time", () => {
    const { store, asked } = watchedGate();
    store.setMeta("last_config", "abc");
    store.setLock({ holder: "r1", fence: 3, since: 5 });
    store.saveRequest(requestIn(states.queued(), { id: "r1" }));
    store.putTask("main", "r1", "sleep", { kind: "sleep" }, 2_000_000, 1_000_000);
    store.dueTasks(1_000_000, 5);
    asked.length = 0;
    expect(store.meta("last_config")).toBe("abc");
    expect(store.lock()).toEqual({ holder: "r1", fence: 3, since: 5 });
    expect(store.request("r1")?.state.kind).toBe("queued");
    expect(store.dueTasks(1_999_999, 5)).toEqual([]);
    store.setMeta("last_config", "abc");
    expect(asked).toEqual([]);
    expect(store.dueTasks(2_000_000, 5)).toHaveLength(1);
  });

  it("knows nothing of a transaction that failed", () => {
    const { store, sql } = watchedGate();
    store.setLock({ holder: null, fence: 1, since: null });
    store.saveRequest(requestIn(states.queued(), { id: "r1" }));
    const failing = (): void =>
      sql.transaction(() => {
        store.setMeta("last_config", "abc");
        store.setLock({ holder: "r1", fence: 2, since: 5 });
        store.enqueue("r1", 1);
        store.putTask("main", "r1", "sleep", { kind: "sleep" }, 1, 1);
        store.audit(1, "r1", audit("lock.release", null, {}));
        store.saveRequest(requestIn(states.authorizing(), { id: "r1" }));
        expect(store.queueLength()).toBe(1);
        expect(store.nextDue()).toBe(1);
        throw new Error("the disk is full");
      });
    expect(failing).toThrow("full");
    expect(store.meta("last_config")).toBeNull();
    expect(store.lock()).toEqual({ holder: null, fence: 1, since: null });
    expect(store.queueLength()).toBe(0);
    expect(store.nextDue()).toBeNull();
    expect(store.unsealedAudit(5)).toEqual([]);
    expect(store.request("r1")?.state.kind).toBe("queued");
  });
});
