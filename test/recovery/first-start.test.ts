/** A task keeps the instant of its first start: what a lost create may have bought is looked for, and paid, from then on. */
import { describe, expect, it, vi } from "vitest";
import type { Gate } from "../../durable-objects/gate/gate.ts";
import type { Sql } from "../../durable-objects/gate/ports.ts";
import { nodeSql } from "../support/node-sql.ts";
import { goOn, lives, rentedIn, repositoryOf, restore, type StoredLife } from "./stored-lives.ts";

const MINUTE = 60_000;

function lifeOf(name: string): { life: StoredLife; sql: Sql } {
  const life = lives.find((one) => one.name.startsWith(name));
  if (life === undefined) throw new Error(`there is no stored life ${name}`);
  const sql = nodeSql();
  restore(life, sql);
  return { life, sql };
}

/** The Durable Object starts again over what is stored, so many minutes after the stored instant. */
const startAgain = ({ life, sql }: ReturnType<typeof lifeOf>, minutes: number) =>
  goOn(sql, life.at + minutes * MINUTE, repositoryOf(life));

function taskOf(gate: Gate, { request }: StoredLife) {
  const task = gate.store.taskOf("main", request);
  if (task === null) throw new Error("its task is stored");
  return task;
}

function createSentAt(gate: Gate, { request }: StoredLife): number | null | undefined {
  const state = gate.store.request(request)?.state;
  return state !== undefined && "attempt" in state ? state.attempt?.createSentAt : undefined;
}

describe("a create whose answer was lost", () => {
  it("is looked for from its first start on, when the process dies again before that is written down", async () => {
    const lost = lifeOf("provisioning: create");
    for (const minutes of [1, 2]) {
      const { gate } = startAgain(lost, minutes);
      gate.store.startTask(taskOf(gate, lost.life).id, lost.life.at + minutes * MINUTE);
    }
    const { gate } = startAgain(lost, 3);
    expect(taskOf(gate, lost.life)).toMatchObject({ createdAt: lost.life.at, startedAt: null, tries: 3 });
    await gate.run();
    expect(createSentAt(gate, lost.life)).toBe(lost.life.at);
  });

  it("is looked for from its first start on, when a fault of ours threw meanwhile", async () => {
    const lost = lifeOf("provisioning: create");
    const { gate, pass } = startAgain(lost, 1);
    const fault = vi.spyOn(gate.store, "finishing").mockImplementation(() => {
      throw new Error("a fault of ours");
    });
    for (const minutes of [1, 1]) {
      await gate.run();
      pass(minutes);
    }
    expect(taskOf(gate, lost.life)).toMatchObject({ createdAt: lost.life.at, tries: 3 });
    fault.mockRestore();
    await gate.run();
    expect(createSentAt(gate, lost.life)).toBe(lost.life.at);
  });

  it("is looked for from its first start on, when its request did not read for a while", async () => {
    const lost = lifeOf("provisioning: create");
    const rented = rentedIn(lost.life, lost.sql);
    const { record } = lost.sql.exec<{ record: string }>(
      `SELECT record FROM requests WHERE id = ?`,
      lost.life.request,
    )[0] ?? { record: "" };
    lost.sql.exec(`UPDATE requests SET record = 'not json' WHERE id = ?`, lost.life.request);
    const { gate, pass, rent } = startAgain(lost, 1);
    if (rented !== null) rent(rented, lost.life.request);
    for (const minutes of [6, 6]) {
      await gate.run();
      pass(minutes);
    }
    expect(taskOf(gate, lost.life)).toMatchObject({ kind: "create-pod", createdAt: lost.life.at, tries: 1 });
    lost.sql.exec(`UPDATE requests SET record = ? WHERE id = ?`, record, lost.life.request);
    gate.store.forget();
    await gate.run();
    // It goes on as its own: an outcome that its request does not take would leave it with nothing to do for ever.
    expect(gate.store.taskOf("main", lost.life.request)).not.toBeNull();
    expect(createSentAt(gate, lost.life)).toBe(lost.life.at);
  });
});

describe("a task of a request that does not read", () => {
  it("is not counted as tried while it waits: nothing was called", async () => {
    const waiting = lifeOf("preparing: dispatch");
    waiting.sql.exec(`UPDATE requests SET record = 'not json' WHERE id = ?`, waiting.life.request);
    const { gate, pass } = startAgain(waiting, 0);
    for (const minutes of [6, 6, 6]) {
      await gate.run();
      pass(minutes);
    }
    expect(taskOf(gate, waiting.life)).toMatchObject({ createdAt: waiting.life.at, tries: 0 });
  });
});

describe("a sleep", () => {
  it("that was cut off by a restart has slept since it began, not since it was last looked at", async () => {
    const asleep = lifeOf("provisioning: create");
    const { life, sql } = asleep;
    sql.exec(
      `UPDATE tasks SET kind = 'sleep', payload = '{"kind":"sleep"}', started_at = ?, tries = 1 WHERE lane = 'main' AND subject = ?`,
      life.at + 5 * MINUTE,
      life.request,
    );
    const { gate } = startAgain(asleep, 6);
    expect(taskOf(gate, life)).toMatchObject({ kind: "sleep", createdAt: life.at });
  });
});
