/** One row that does not read stops its own matter at most: removals go on by the pod's id, the rest waits and is told. */
import { describe, expect, it } from "vitest";
import { parkTask } from "../../durable-objects/gate/unreadable.ts";
import { HORIZON_MS } from "../../durable-objects/gate/mended-tasks.ts";
import { beginRetained, beginStray, strayRecord } from "../../durable-objects/gate/strays.ts";
import { keepMoneyId, retentionOf } from "../../durable-objects/gate/retention.ts";
import { Aggregates } from "../../durable-objects/gate/aggregates.ts";
import { nodeSql } from "../support/node-sql.ts";
import { goOn, lives, rentedIn, repositoryOf, restore } from "./stored-lives.ts";

const DAMAGE = ["not json", "null", "[]", '{"kind":"of-next-year"}'];
const WEEK_MS = 7 * 86_400_000;

/** A life that went on in a gate of today, with its pod, if it has one. */
function living(life: (typeof lives)[number]) {
  const sql = nodeSql();
  restore(life, sql);
  const rented = rentedIn(life, sql);
  const outside = goOn(sql, life.at, repositoryOf(life));
  const podId = rented === null ? null : outside.rent(rented, life.request);
  return { ...outside, sql, store: outside.gate.store, podId, rented };
}

function executing() {
  const life = lives.find((one) => one.name.startsWith("executing"));
  if (life === undefined) throw new Error("there is a stored life that executes");
  const found = living(life);
  if (found.podId === null || found.rented === null) throw new Error("it has a pod");
  return { ...found, request: life.request, at: life.at, podId: found.podId, rented: found.rented };
}

describe("a request's own task that does not read", () => {
  it.each(lives.map((life) => [life.name, life] as const))("is asked for anew: %s", async (_name, life) => {
    const { sql, store, work, pods } = living(life);
    sql.exec(`UPDATE tasks SET payload = ? WHERE lane = 'main'`, DAMAGE[life.name.length % DAMAGE.length] ?? "");
    const faults = store.counters()["tasks.failed"] ?? 0;
    await work(24 * 60);
    expect(store.counters()["tasks.failed"] ?? 0).toBe(faults);
    expect(store.openRequests()).toEqual([]);
    expect(pods.size).toBe(0);
    expect(store.openLedgerPodIds()).toEqual([]);
  });
});

describe("a task whose row does not say whose turn it is, or when", () => {
  const damages = [
    [`lane = 'x'`, "no such lane"],
    [`due_at = 'x'`, "no instant"],
    [`due_at = 9007199254740993`, "an instant that never comes"],
    [`due_at = 9e999`, "an instant beyond every number"],
  ] as const;
  it.each(lives.flatMap((life) => damages.map(([set, what]) => [what, life.name, set, life] as const)))(
    "is placed again, and its request comes to its end: %s, %s",
    async (_what, _name, set, life) => {
      const { sql, store, work, pods } = living(life);
      sql.exec(`UPDATE tasks SET ${set} WHERE lane = 'main'`);
      store.forget();
      await work(24 * 60);
      expect(store.openRequests()).toEqual([]);
      expect(pods.size).toBe(0);
      expect(store.openLedgerPodIds()).toEqual([]);
    },
  );

  it.each(damages)("does not keep a gate from starting, nor its alarm firing for ever: %s", (set) => {
    const life = lives.find((one) => one.name.startsWith("executing"));
    if (life === undefined) throw new Error("there is a stored life that executes");
    const sql = nodeSql();
    restore(life, sql);
    sql.exec(`UPDATE tasks SET ${set} WHERE lane = 'main'`);
    const { store } = goOn(sql, life.at, repositoryOf(life)).gate;
    expect(store.nextDue()).toEqual(expect.any(Number));
    expect(store.dueTasks(life.at + WEEK_MS, 100).length).toBeGreaterThan(0);
    expect(sql.exec(`SELECT id FROM tasks WHERE lane = 'x' OR due_at > ?`, life.at + WEEK_MS)).toEqual([]);
    expect(sql.exec(`SELECT act FROM audit WHERE act = 'task.mended'`)).toHaveLength(1);
  });

  it.each(damages)("holds nothing up that is due in a gate that runs: %s", (set) => {
    const { sql, store, at } = executing();
    sql.exec(`DELETE FROM tasks`);
    store.putTask("stray", "pod8", "delete-pod", {}, at, at);
    sql.exec(`UPDATE tasks SET ${set}`);
    store.forget();
    expect(store.nextDue()).toEqual(expect.any(Number));
    expect(store.dueTasks(at, 5)).toMatchObject([{ lane: "stray", subject: "pod8", dueAt: at }]);
  });

  it("waits until its instant when that can be, and is as old as it can be when its beginning cannot", () => {
    const { sql, store, at } = executing();
    sql.exec(`DELETE FROM tasks`);
    store.putTask("stray", "pod8", "delete-pod", {}, at + HORIZON_MS, at);
    expect(store.mendTasks(at)).toBe(0);
    expect(store.dueTasks(at, 5)).toEqual([]);
    expect(store.nextDue()).toBe(at + HORIZON_MS);
    for (const set of [`created_at = 'x'`, `created_at = 9e300`, `created_at = 9e300, started_at = 9e300`]) {
      sql.exec(`UPDATE tasks SET created_at = ?, started_at = NULL`, at);
      sql.exec(`UPDATE tasks SET ${set}`);
      expect(store.mendTasks(at + 1)).toBe(1);
      const startedAt = set.includes("started") ? at + 1 : null;
      expect(store.taskOf("stray", "pod8")).toMatchObject({ createdAt: at + 1, startedAt, dueAt: at + HORIZON_MS });
    }
  });

  it("ends nothing early as a deadline that never comes", () => {
    const { sql, store, at, request } = executing();
    sql.exec(`DELETE FROM tasks`);
    store.putTask("deadline", request, "deadline", {}, at, at);
    sql.exec(`UPDATE tasks SET due_at = 9e300`);
    expect(store.mendTasks(at)).toBe(1);
    expect(sql.exec(`SELECT id FROM tasks`)).toEqual([]);
  });

  it("counts as under way only while somebody performs it", () => {
    const { sql, store, at, gate } = executing();
    sql.exec(`DELETE FROM tasks`);
    store.putTask("stray", "pod8", "delete-pod", {}, at, at);
    expect(store.nextDue()).toBe(at);
    sql.exec(`UPDATE tasks SET started_at = -1`);
    expect(store.dueTasks(at, 5)).toEqual([]);
    expect(store.nextDue()).toBeNull();
    gate.tick();
    expect(store.taskOf("stray", "pod8")).toMatchObject({ startedAt: null });
    expect(store.nextDue()).toEqual(expect.any(Number));
  });

  it("is told its lane by whom it is about and what is to be done", () => {
    const { sql, store, at, request } = executing();
    sql.exec(`DELETE FROM tasks`);
    const head = `INSERT INTO aggregates (head_sha, pr_number, live, heard_at, record) VALUES (?, 9, 1, 0, '')`;
    sql.exec(head, "c".repeat(40));
    const placed: readonly (readonly [Parameters<typeof store.putTask>[0], string, string])[] = [
      ["main", request, "observe"],
      ["check", request, "twins"],
      ["deadline", request, "deadline"],
      ["reconcile", "repository", "reconcile"],
      ["stray", "pod9", "delete-pod"],
      ["cost", "a1", "read-jobs"],
      ["rerun", "7001", "uninvited"],
      ["aggregate", "c".repeat(40), "look"],
    ];
    for (const [lane, subject, kind] of placed) store.putTask(lane, subject, kind, {}, at, at);
    const before = sql.exec(`SELECT id, lane FROM tasks ORDER BY id`);
    expect(before).toHaveLength(placed.length);
    sql.exec(`UPDATE tasks SET lane = 'x' || id`);
    expect(store.mendTasks(at)).toBe(placed.length);
    expect(sql.exec(`SELECT id, lane FROM tasks ORDER BY id`)).toEqual(before);
    expect(store.mendTasks(at)).toBe(0);
  });

  it("keeps its instant where that reads; a deadline without one is set again and ends nothing early", () => {
    const { sql, store, at, request } = executing();
    sql.exec(`DELETE FROM tasks`);
    store.putTask("deadline", request, "deadline", {}, at + WEEK_MS, at);
    sql.exec(`UPDATE tasks SET lane = 'x'`);
    expect(store.mendTasks(at)).toBe(1);
    expect(store.taskOf("deadline", request)?.dueAt).toBe(at + WEEK_MS);
    sql.exec(`UPDATE tasks SET due_at = 'x'`);
    expect(store.mendTasks(at)).toBe(1);
    expect(sql.exec(`SELECT id FROM tasks`)).toEqual([]);
  });

  it("goes where its lane has a newer one, or nobody knows whose it is", () => {
    const { sql, store, at } = executing();
    sql.exec(`DELETE FROM tasks`);
    store.putTask("stray", "pod9", "delete-pod", {}, at, at);
    store.putTask("stray", "nobody", "of-next-year", {}, at, at);
    sql.exec(`UPDATE tasks SET lane = 'x'`);
    const newer = store.putTask("stray", "pod9", "verify-gone", {}, at, at);
    expect(store.dueTasks(at, 5).map(({ id }) => id)).toEqual([newer]);
    expect(sql.exec(`SELECT id FROM tasks`)).toHaveLength(1);
  });
});

describe("a stray whose record does not read", () => {
  it.each(DAMAGE)("is deleted, proven gone and booked all the same: %j", async (damage) => {
    const { sql, store, at, work, pods, rented } = executing();
    const id = "late";
    pods.set(id, { ...[...pods.values()][0], id, name: rented.podName } as never);
    beginStray(store, id, "reap-late-pod", at, at, 0.5);
    sql.exec(`UPDATE strays SET record = ? WHERE pod_id = ?`, damage, id);
    await work(24 * 60);
    expect(pods.has(id)).toBe(false);
    const line = store.ledgerLine(id);
    expect([line?.closed_at, line?.proven_at].every((time) => typeof time === "number")).toBe(true);
    expect(line?.estimate_micros).toBeGreaterThanOrEqual(0);
    expect(store.taskOf("stray", id)).toBeNull();
    expect(sql.exec(`SELECT 1 AS told FROM audit WHERE act = 'stray.unreadable'`)).toHaveLength(1);
  });

  it("goes on from its step where only the task's words are damaged", async () => {
    const { sql, store, at, work, pods } = executing();
    pods.set("late", { ...[...pods.values()][0], id: "late" } as never);
    beginStray(store, "late", "reap-late-pod", at, at);
    sql.exec(`UPDATE tasks SET payload = 'not json' WHERE lane = 'stray'`);
    await work(24 * 60);
    expect(pods.has("late")).toBe(false);
    expect(store.stray("late")?.done_at).not.toBeNull();
  });

  it("is kept by nothing, and gives back what was set aside for keeping it", async () => {
    const { sql, store, at, podId, rented, request } = executing();
    const money = keepMoneyId(rented.id);
    const columns = sql.exec<{ name: string }>(`SELECT name FROM pragma_table_info('money')`).slice(1);
    const others = columns.map(({ name }) => name).join(", ");
    sql.exec(`INSERT INTO money SELECT ?, ${others} FROM money LIMIT 1`, money);
    expect(store.moneyOf(money)).not.toBeNull();
    beginRetained(
      store,
      { attempt: rented, podId, until: at + WEEK_MS, by: "mira", reason: "x" },
      request,
      [money],
      at,
    );
    expect(retentionOf(store, podId)?.by).toBe("mira");
    sql.exec(`UPDATE strays SET record = '{}' WHERE pod_id = ?`, podId);
    expect(retentionOf(store, podId)).toBeNull();
    const row = store.stray(podId) ?? expect.fail("the row is there");
    expect(strayRecord(row, store)).toMatchObject({
      readable: false,
      attempt: { id: rented.id },
      retained: { requestId: request, moneyIds: [money] },
    });
  });
});

describe("work beside a request that does not read", () => {
  it.each(["rerun", "cost"] as const)("of the lane %s waits a day, is told, and goes after a week", async (lane) => {
    const { sql, store, at } = executing();
    store.putTask(lane, "r-x", "uninvited", {}, at, at);
    const task = store.taskOf(lane, "r-x") ?? expect.fail("it is there");
    parkTask(task, { reason: "unreadable", where: "attempt" }, store, at + 1);
    const parked = store.taskOf(lane, "r-x") ?? expect.fail("it waits");
    expect(parked.dueAt).toBe(at + 1 + 86_400_000);
    expect(sql.exec(`SELECT act FROM audit WHERE act = 'task.parked'`)).toHaveLength(1);
    parkTask(parked, { reason: "unreadable", where: "attempt" }, store, at + WEEK_MS);
    expect(store.taskOf(lane, "r-x")).toBeNull();
    expect(sql.exec(`SELECT act FROM audit WHERE act = 'task.given-up'`)).toHaveLength(1);
  });

  it("is parked by the lane that meets it", async () => {
    const { sql, store, at, work } = executing();
    store.putTask("rerun", "4711", "uninvited", {}, at, at);
    await work(2);
    expect(store.taskOf("rerun", "4711")?.dueAt).toBeGreaterThan(at + 80_000_000);
    expect(sql.exec(`SELECT act FROM audit WHERE act = 'task.parked'`)).toHaveLength(1);
  });

  it("facts that were damaged before their seal are sealed as such, and the chain goes on", async () => {
    const { sql, store, gate } = executing();
    store.audit(1, null, { act: "pod.proof", reason: null, facts: { a: 1 } });
    store.audit(2, null, { act: "pod.exit", reason: null, facts: { b: 2 } });
    sql.exec(`UPDATE audit SET facts = '{"a":' WHERE act = 'pod.proof' AND hash IS NULL`);
    await gate.run();
    expect(store.unsealedAudit(10)).toEqual([]);
    expect(sql.exec(`SELECT facts FROM audit WHERE act = 'pod.proof' AND at = 1`)).toEqual([
      { facts: '{"unreadable":true}' },
    ]);
  });

  it("a head of the aggregator hides no other head", () => {
    const { sql, store } = executing();
    const aggregates = new Aggregates(sql, store);
    for (const [head, record] of [
      ["a", "not json"],
      ["b", "{}"],
    ]) {
      sql.exec(
        `INSERT INTO aggregates (head_sha, pr_number, live, heard_at, record) VALUES (?, 1, 1, 5, ?)`,
        head ?? "",
        record ?? "",
      );
    }
    expect(aggregates.row("a")).toMatchObject({ unreadable: true, record: { check: { series: 0, unsure: true } } });
    expect(() => aggregates.compare([], 9)).not.toThrow();
    expect(store.taskOf("aggregate", "b")).not.toBeNull();
  });
});

describe("a fence that is no number", () => {
  it.each(["x", "", -1, 9_007_199_254_740_991, 1.5])("is counted on from what is held: %j", async (fence) => {
    const { sql, store, work, pods } = executing();
    sql.exec(`UPDATE lock SET fence = ? WHERE id = 1`, fence);
    expect(Number.isSafeInteger(store.lock().fence + 1)).toBe(true);
    const waited = store.firstInQueue();
    expect(waited).not.toBeNull();
    await work(24 * 60);
    const rows = sql.exec<{ id: string }>(`SELECT id FROM requests`);
    expect(rows.filter(({ id }) => store.isParked(id))).toEqual([]);
    expect(store.openRequests()).toEqual([]);
    expect(pods.size).toBe(0);
  });
});

describe("a count that was damaged to the largest number", () => {
  it("stays one that can be read: nothing that counts on is thrown out of the gate", async () => {
    const { sql, store, at, gate, work } = executing();
    store.count("tasks.recovered");
    store.flushCounters();
    sql.exec(`UPDATE counters SET value = ?`, Number.MAX_SAFE_INTEGER);
    store.count("tasks.recovered", 7);
    expect(store.counters()["tasks.recovered"]).toBe(Number.MAX_SAFE_INTEGER);
    sql.exec(`UPDATE tasks SET tries = ?`, Number.MAX_SAFE_INTEGER);
    const [task] = store.dueTasks(at + WEEK_MS, 10);
    store.startTask(task?.id ?? 0, at);
    expect(store.task(task?.id ?? 0)?.tries).toBeLessThan(2_000_000);
    sql.exec(`UPDATE tasks SET started_at = NULL`);
    await work(24 * 60);
    expect(gate.store.openRequests()).toEqual([]);
  });
});
