import { describe, expect, it } from "vitest";
import { migrate, SCHEMA_VERSION } from "../../durable-objects/gate/schema.ts";
import type { Sql } from "../../durable-objects/gate/ports.ts";
import { nodeSql } from "../support/node-sql.ts";

const tables = (sql: Sql): readonly string[] =>
  sql
    .exec<{ name: string }>(
      `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`,
    )
    .map((row) => row.name);
const version = (sql: Sql): number | undefined =>
  sql.exec<{ version: number }>(`SELECT version FROM schema_version WHERE id = 1`)[0]?.version;
const shape = (sql: Sql): readonly string[] =>
  sql
    .exec<{ sql: string | null }>(`SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name`)
    .map((row) => row.sql ?? "");

/** A small history of its own, so that the rule is tested and not the present tables. */
const HISTORY: readonly (readonly string[])[] = [
  [`CREATE TABLE pods (id TEXT PRIMARY KEY)`, `INSERT INTO pods (id) VALUES ('first')`],
  [`ALTER TABLE pods ADD COLUMN price REAL`, `UPDATE pods SET price = 0.2`],
  [`CREATE TABLE notes (text TEXT NOT NULL)`],
];

describe("migrate()", () => {
  it("gives a fresh database every table, the lock's one free row, and this code's version", () => {
    const sql = nodeSql();
    expect(migrate(sql)).toEqual({ readOnly: false });
    expect(version(sql)).toBe(SCHEMA_VERSION);
    expect(tables(sql)).toEqual(
      expect.arrayContaining(["requests", "tasks", "ledger", "money", "audit", "lock", "queue"]),
    );
    expect(sql.exec(`SELECT id, holder, fence, since FROM lock`)).toEqual([
      { id: 1, holder: null, fence: 0, since: null },
    ]);
  });

  it("changes nothing when the version is there already, whatever was stored meanwhile", () => {
    const sql = nodeSql();
    migrate(sql);
    sql.exec(`INSERT INTO meta (key, value) VALUES ('repository_id', '101')`);
    sql.exec(`UPDATE lock SET holder = 'r1', fence = 7, since = 5`);
    const before = shape(sql);
    expect(migrate(sql)).toEqual({ readOnly: false });
    expect(shape(sql)).toEqual(before);
    expect(sql.exec(`SELECT holder, fence FROM lock`)).toEqual([{ holder: "r1", fence: 7 }]);
    expect(sql.exec(`SELECT value FROM meta WHERE key <> 'epoch'`)).toEqual([{ value: "101" }]);
  });

  it("I12: leaves a newer version as it is and says read-only", () => {
    const sql = nodeSql();
    migrate(sql);
    sql.exec(`UPDATE schema_version SET version = ?`, SCHEMA_VERSION + 1);
    sql.exec(`CREATE TABLE tomorrow (id TEXT)`);
    const before = shape(sql);
    expect(migrate(sql)).toEqual({ readOnly: true });
    expect(shape(sql)).toEqual(before);
    expect(version(sql)).toBe(SCHEMA_VERSION + 1);
  });

  it.each([0, 1, 2, 3])("brings version %i of a history to the newest and keeps its rows", (from) => {
    const sql = nodeSql();
    migrate(sql, HISTORY.slice(0, from));
    if (from > 0) sql.exec(`INSERT INTO pods (id) VALUES ('kept')`);
    expect(migrate(sql, HISTORY)).toEqual({ readOnly: false });
    expect(version(sql)).toBe(HISTORY.length);
    expect(tables(sql)).toEqual(["notes", "pods", "schema_version"]);
    const ids = sql.exec<{ id: string }>(`SELECT id FROM pods ORDER BY id`).map((row) => row.id);
    expect(ids).toEqual(from > 0 ? ["first", "kept"] : ["first"]);
    // The second step ran over what the first version held, once.
    expect(sql.exec(`SELECT price FROM pods WHERE id = 'first'`)).toEqual([{ price: 0.2 }]);
  });

  it("is all or nothing: a statement that fails leaves the old version and the old tables", () => {
    const sql = nodeSql();
    migrate(sql, HISTORY.slice(0, 1));
    const broken = [...HISTORY.slice(0, 2), [`CREATE TABLE later (id TEXT)`, `CREATE TABLE nonsense (`]];
    expect(() => migrate(sql, broken)).toThrow(/incomplete input/);
    expect(version(sql)).toBe(1);
    expect(tables(sql)).toEqual(["pods", "schema_version"]);
    expect(sql.exec(`SELECT * FROM pods`)).toEqual([{ id: "first" }]);
  });
});

describe("what the gate's tables refuse by themselves", () => {
  const fresh = (): Sql => {
    const sql = nodeSql();
    migrate(sql);
    return sql;
  };
  const request = (sql: Sql, id: string, state: string, generation: number): void => {
    sql.exec(
      `INSERT INTO requests (id, kind, head_sha, generation, state, opened_at, record) VALUES (?, 'pull-request', 'abc', ?, ?, 1, '{}')`,
      id,
      generation,
      state,
    );
  };

  it("a second open request of one head and kind", () => {
    const sql = fresh();
    request(sql, "r1", "concluded", 1);
    request(sql, "r2", "queued", 2);
    expect(() => request(sql, "r3", "received", 3)).toThrow(/UNIQUE/);
  });

  it("the same generation twice", () => {
    const sql = fresh();
    request(sql, "r1", "concluded", 1);
    expect(() => request(sql, "r2", "concluded", 1)).toThrow(/UNIQUE/);
  });

  it("a second lock", () => {
    expect(() => fresh().exec(`INSERT INTO lock (id, fence) VALUES (2, 0)`)).toThrow(/CHECK/);
  });

  it("a second task in one lane of one subject", () => {
    const sql = fresh();
    const task = (): unknown =>
      sql.exec(
        `INSERT INTO tasks (lane, subject, kind, payload, due_at, created_at) VALUES ('main', 'r1', 'sleep', '{}', 1, 1)`,
      );
    task();
    expect(task).toThrow(/UNIQUE/);
  });

  it("a second ledger line for one pod, and a delivery processed twice", () => {
    const sql = fresh();
    const line = (): unknown =>
      sql.exec(`INSERT INTO ledger (pod_id, attempt_id, request_id, tier, paid_from) VALUES ('p', 'a', 'r', 't', 1)`);
    line();
    expect(line).toThrow(/UNIQUE/);
    const delivery = (): unknown =>
      sql.exec(`INSERT INTO deliveries (guid, event, at, outcome) VALUES ('g', 'ping', 1, '')`);
    delivery();
    expect(delivery).toThrow(/UNIQUE/);
  });

  it("a sequence number used again after its waiter has left", () => {
    const sql = fresh();
    sql.exec(`INSERT INTO queue (request_id, since) VALUES ('r1', 1)`);
    sql.exec(`DELETE FROM queue`);
    sql.exec(`INSERT INTO queue (request_id, since) VALUES ('r2', 1)`);
    expect(sql.exec(`SELECT seq FROM queue`)).toEqual([{ seq: 2 }]);
  });
});
