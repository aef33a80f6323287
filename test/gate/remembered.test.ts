/** What a store remembers of its rows: it asks once, and a transaction that failed leaves nothing behind. */
import { describe, expect, it } from "vitest";
import { Gate } from "../../durable-objects/gate/gate.ts";
import type { GatePorts, Sql } from "../../durable-objects/gate/ports.ts";
import type { Store, StoredTask } from "../../durable-objects/gate/store.ts";
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

describe("a task that is done", () => {
  const DUE = 1_000_000;
  const watch = (store: Store, subject: string, dueAt: number, payload: object = { kind: "observe" }): number =>
    store.putTask("main", subject, "observe", payload, dueAt, DUE);

  function begun(store: Store): StoredTask {
    const id = watch(store, "r1", DUE);
    store.startTask(id, DUE);
    const task = store.task(id);
    if (task === null) throw new Error("it was stored");
    return task;
  }

  it("keeps its row and its id when the same comes next, so that its request need not be written", () => {
    const { store, asked } = watchedGate();
    const task = begun(store);
    const request = { ...requestIn(states.queued(), { id: "r1" }), task: { id: task.id, kind: "observe" } as const };
    store.saveRequest(request);
    asked.length = 0;
    const taken = store.finishing(task, () => {
      const id = watch(store, "r1", DUE + 5_000);
      store.saveRequest({ ...request, task: { id, kind: "observe" } });
    });
    expect(taken).toBe(true);
    expect(asked.filter((query) => !query.startsWith("SELECT"))).toEqual([expect.stringMatching(/^UPDATE tasks/)]);
    expect(store.task(task.id)).toMatchObject({ dueAt: DUE + 5_000, startedAt: null, tries: 0 });
  });

  it.each([
    ["another kind", (store: Store) => store.putTask("main", "r1", "sleep", { kind: "observe" }, DUE, DUE)],
    ["another payload", (store: Store) => watch(store, "r1", DUE, { kind: "observe", more: 1 })],
  ])("makes way for %s, under a new id", (_name, next) => {
    const { store } = watchedGate();
    const task = begun(store);
    store.finishing(task, () => void next(store));
    expect(store.task(task.id)).toBeNull();
    expect(store.taskOf("main", "r1")).toMatchObject({ startedAt: null });
  });

  it("is gone when nothing comes next, whatever is stored for others", () => {
    const { store } = watchedGate();
    const task = begun(store);
    store.finishing(task, () => void watch(store, "r2", DUE));
    expect([store.taskOf("main", "r1"), store.taskOf("main", "r2")]).toEqual([null, expect.anything()]);
  });

  it("was replaced while it ran: its outcome is nobody's, and what asks for the same has an id of its own", () => {
    const { store } = watchedGate();
    const task = begun(store);
    const other = watch(store, "r1", DUE);
    expect(other).not.toBe(task.id);
    expect(store.finishing(task, () => expect.unreachable())).toBe(false);
    expect(store.task(other)).toMatchObject({ startedAt: null });
  });

  it("that was removed by what it set going is put anew, not brought back into a row that is gone", () => {
    const { store } = watchedGate();
    const task = begun(store);
    store.finishing(task, () => {
      store.removeTask(task.id);
      watch(store, "r1", DUE);
    });
    expect(store.taskOf("main", "r1")).toMatchObject({ startedAt: null });
  });
});
