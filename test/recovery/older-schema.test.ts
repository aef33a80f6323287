/** I12: what version 1 stored loads under this version, in every state, and every request of it goes on to a proper end. */
import { describe, expect, it } from "vitest";
import { beginEpoch, migrate, MIGRATIONS, SCHEMA_VERSION } from "../../durable-objects/gate/schema.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import type { Sql } from "../../durable-objects/gate/ports.ts";
import { stateKinds } from "../../shared/lifecycle/model.ts";
import { isRequestId } from "../../shared/lifecycle/request-id.ts";
import { nodeSql } from "../support/node-sql.ts";
import { goOn, lives, rentedIn, repositoryOf, restore, SCHEMA_1, type StoredLife } from "./stored-lives.ts";

const version = (sql: Sql) => sql.exec<{ version: number }>(`SELECT version FROM schema_version`)[0]?.version;
const rowsOf = (sql: Sql, table: string) => sql.exec(`SELECT * FROM ${table}`);

function stored(life: StoredLife): Sql {
  const sql = nodeSql();
  restore(life, sql);
  return sql;
}

describe("the stored lives", () => {
  it("are of version 1, with the tables that its migration still makes", () => {
    const sql = nodeSql();
    migrate(sql, MIGRATIONS.slice(0, 1));
    const made = sql.exec<{ sql: string }>(
      `SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid`,
    );
    // A released migration is never edited: this is what is out there.
    const plain = (text: string) => text.replace("IF NOT EXISTS ", "").replaceAll(/\s+/g, " ");
    expect(made.map((row) => plain(row.sql))).toEqual(SCHEMA_1.map(plain));
    for (const life of lives) expect([life.name, version(stored(life))]).toEqual([life.name, 1]);
  });

  it("have a request in every state but the one that no step leaves stored", () => {
    const states = new Set(
      lives.map(
        (life) =>
          stored(life).exec<{ state: string }>(`SELECT state FROM requests WHERE id = ?`, life.request)[0]?.state,
      ),
    );
    expect(states).toEqual(new Set(stateKinds.filter((kind) => kind !== "received")));
  });

  it("have pods that are rented, that may be, and none", () => {
    const pods = lives
      .map((life) => rentedIn(life, stored(life)))
      .map((one) => (one === null ? "none" : (one.pod?.id ?? "maybe")));
    expect(pods.filter((pod) => pod === "maybe")).toHaveLength(2);
    expect(pods.filter((pod) => pod === "none").length).toBeGreaterThan(8);
    expect(pods.filter((pod) => pod !== "none" && pod !== "maybe").length).toBeGreaterThan(3);
  });

  it.each(lives)("loads, changed in nothing but its version and its epoch: $name", (life) => {
    const sql = stored(life);
    const tables = Object.keys(life.tables).filter((name) => name !== "schema_version" && name !== "meta");
    const before = tables.map((name) => rowsOf(sql, name));
    const meta = rowsOf(sql, "meta");
    expect(migrate(sql)).toEqual({ readOnly: false });
    expect(version(sql)).toBe(SCHEMA_VERSION);
    expect(tables.map((name) => rowsOf(sql, name))).toEqual(before);
    expect(rowsOf(sql, "meta")).toEqual([...meta, { key: "epoch", value: "" }]);
    // Every record and every stored task reads under this version's schemas.
    const store = new Store(sql);
    const ids = sql.exec<{ id: string }>(`SELECT id FROM requests`).map((row) => row.id);
    expect(ids.filter((id) => store.isParked(id))).toEqual([]);
    for (const { id } of sql.exec<{ id: number }>(`SELECT id FROM tasks WHERE lane = 'main'`)) {
      const task = store.task(id);
      expect(task === null ? null : store.parseTask(task)).toMatchObject({ ok: true, value: { kind: task?.kind } });
    }
  });

  it.each(lives)("goes on to its end: $name", async (life) => {
    const sql = stored(life);
    const world = goOn(sql, life.at, repositoryOf(life));
    // A create that was under way may have bought something as well.
    const rented = rentedIn(life, sql);
    const podId = rented === null ? null : world.rent(rented, life.request);
    await world.work(360);
    const { store } = world.gate;
    expect(store.openRequests().map(({ id, state }) => [id, state.kind])).toEqual([]);
    expect([...world.pods.keys()]).toEqual([]);
    expect(world.bought).toEqual([]);
    const lines = store.ledgerLines(100);
    expect(lines.filter((line) => line.closed_at === null || line.proven_at === null)).toEqual([]);
    if (podId !== null) expect(lines.map((line) => line.pod_id)).toContain(podId);
    expect(store.lock().holder).toBeNull();
    expect(store.queueLength()).toBe(0);
    expect(store.request(life.request)?.check.completed).toBe(true);
    expect(sql.exec(`SELECT attempt_id FROM money WHERE state = 'reserved'`)).toEqual([]);
    // It counts on, in the form its names have always had.
    const next = Number(store.meta("next_request"));
    expect(store.nextRequestId()).toBe(`r${next}`);
  });
});

describe("moving up", () => {
  it("can be cut at any statement: the next start begins again, and ends the same", () => {
    const life = lives.find((one) => one.name.startsWith("executing"));
    if (life === undefined) throw new Error("there is a stored life that executes");
    const whole = stored(life);
    migrate(whole);
    const cutAfter = (statements: number, begin: () => Sql): { readonly sql: Sql; readonly cut: boolean } => {
      const sql = begin();
      let left = statements;
      const failing: Sql = {
        exec: (query, ...bindings) => {
          if (left === 0) throw new Error("the process ended");
          left -= 1;
          return sql.exec(query, ...bindings);
        },
        transaction: (body) => sql.transaction(body),
      };
      try {
        migrate(failing, MIGRATIONS, (made) => beginEpoch(made, { next: () => 0, bytes: (n) => new Uint8Array(n) }));
        return { sql, cut: false };
      } catch {
        return { sql, cut: true };
      }
    };
    const all = Object.keys(life.tables);
    let cuts = 0;
    for (let after = 0; after < 500; after += 1) {
      const { sql, cut } = cutAfter(after, () => stored(life));
      if (!cut) break;
      cuts += 1;
      expect([after, version(sql)]).toEqual([after, 1]);
      expect(migrate(sql)).toEqual({ readOnly: false });
      for (const name of all) expect(rowsOf(sql, name)).toEqual(rowsOf(whole, name));
    }
    // Reading the version, one statement of the new version, and writing the number.
    expect(cuts).toBeGreaterThan(2);
    // From nothing as well: a database that was cut while it was made is still one that was never there.
    for (const after of [0, 1, 2, 30, MIGRATIONS.flat().length + 2]) {
      const { sql, cut } = cutAfter(after, nodeSql);
      expect(cut).toBe(true);
      migrate(sql, MIGRATIONS, (made) => beginEpoch(made, { next: () => 0, bytes: (n) => new Uint8Array(n).fill(1) }));
      expect(sql.exec(`SELECT value FROM meta WHERE key = 'epoch'`)).toEqual([{ value: "ccccc" }]);
    }
  });
});

describe("a gate whose database is gone", () => {
  const opening = { kind: "pull-request", prNumber: 7, headSha: "a".repeat(40), generation: 1, row: 1 } as const;
  const open = (world: ReturnType<typeof goOn>) => {
    world.gate.introduce({ id: "101", owner: "acme", name: "tensors" }, "77");
    return world.gate.openIfUnknown({ ...opening, actor: null, approvedBy: null }) ?? "";
  };

  it("buys again: its requests are of another epoch, so the account has not settled them", () => {
    const books = nodeSql();
    const before = goOn(nodeSql(), 0, "101", books);
    const lost = open(before);
    expect(before.account.reserve(`${lost}-1`, "101", 1_000)).toEqual({ kind: "reserved" });
    before.account.commit(`${lost}-1`, 900, "101");
    // What the account says of a name that was used: without an epoch, nothing could ever be bought again.
    expect(before.account.reserve(`${lost}-1`, "101", 1_000)).toMatchObject({ kind: "over-cap" });

    const after = goOn(nodeSql(), 60_000, "101", books, 8);
    const fresh = open(after);
    expect([isRequestId(lost), isRequestId(fresh)]).toEqual([true, true]);
    expect(fresh).not.toBe(lost);
    expect(after.account.reserve(`${fresh}-1`, "101", 1_000)).toEqual({ kind: "reserved" });
  });

  it("keeps one epoch for as long as its database lives", () => {
    const sql = nodeSql();
    const first = open(goOn(sql, 0, "101"));
    const again = goOn(sql, 60_000, "101", nodeSql(), 8);
    expect(again.gate.store.nextRequestId().replace("r2", "r1")).toBe(first);
  });
});
