/** The lock: its queue with ten thousand waiters, a holder that died while nobody looked, and a holder that is none any more. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { migrate } from "../../durable-objects/gate/schema.ts";
import type { Store } from "../../durable-objects/gate/store.ts";
import { Gate } from "../../durable-objects/gate/gate.ts";
import type { GatePorts } from "../../durable-objects/gate/ports.ts";
import type { WorkflowScript } from "../../local/github/index.ts";
import { EXECUTE, executeScript, SLOW_TESTS } from "../../local/world/workflows.ts";
import { fenced, isStale, refusedTo } from "../../shared/lifecycle/fence.ts";
import { taskSchema, type TaskKind } from "../../shared/lifecycle/tasks.ts";
import { verdict } from "../../shared/lifecycle/verdict.ts";
import { requestIn, states } from "../lifecycle/fixtures.ts";
import { nodeSql } from "../support/node-sql.ts";
import { startLife, verdictOf, type Life } from "./life.ts";

describe("a queue of ten thousand", () => {
  const WAITERS = 10_000;
  const SERVED = 500;

  /** A gate at rest: whatever it would do outside never happens. */
  function gateAtRest() {
    const sql = nodeSql();
    migrate(sql);
    const ports = {
      sql,
      alarm: { set: () => undefined },
      clock: { now: () => 1_000_000 },
      random: { next: () => 0.5, bytes: (length: number) => new Uint8Array(length) },
      deployment: "test",
      appId: "1",
      log: () => undefined,
    } as unknown as GatePorts;
    const gate = new Gate(ports);
    return { sql, store: gate.store, gate };
  }

  function waiter(store: Store, n: number): string {
    const id = `r${n}`;
    const head = n.toString(16).padStart(40, "0");
    const base = requestIn(states.queued(), { id, headSha: head, prNumber: n });
    const seq = store.enqueue(id, n);
    store.saveRequest({ ...base, state: { ...states.queued(), seq } });
    return id;
  }

  it("N65: is served first in, first out; nobody leaves it but by their own end", () => {
    const { sql, store, gate } = gateAtRest();
    const ids = sql.transaction(() => Array.from({ length: WAITERS }, (_, index) => waiter(store, index + 1)));
    expect(store.queueLength()).toBe(WAITERS);
    const over = verdict("cancelled", "cancelled-by-operator", "Enough.");
    // Every hundredth gives up while it waits. The first stop that frees the lock lets the next one in, and so on.
    const left = ids.filter((_, index) => index % 100 === 50);
    for (const id of left) expect(gate.stop(id, over)).toBe(true);
    const served: string[] = [];
    while (served.length < SERVED) {
      const { holder, fence } = store.lock();
      served.push(holder ?? "nobody");
      expect(fence).toBe(served.length);
      expect(gate.stop(holder ?? "", over)).toBe(true);
    }
    const gone = new Set(left);
    const expected = ids.filter((id) => !gone.has(id));
    expect(served).toEqual(expected.slice(0, SERVED));
    // Everybody else is still there, in the order in which they came.
    const waiting = store.queue(WAITERS).map((one) => one.requestId);
    expect([store.lock().holder, ...waiting]).toEqual(expected.slice(SERVED));
    sql.close();
  }, 60_000);

  it("tells each waiter its place", () => {
    const { sql, store } = gateAtRest();
    sql.transaction(() => {
      for (let n = 1; n <= WAITERS; n += 1) waiter(store, n);
    });
    expect([1, 2, 5_000, WAITERS].map((n) => store.placeInQueue(`r${n}`))).toEqual([1, 2, 5_000, WAITERS]);
    store.dequeue("r1");
    expect(store.placeInQueue("r2")).toBe(1);
    sql.close();
  }, 60_000);
});

let life: Life | null = null;
afterEach(async () => {
  await life?.close();
  life = null;
});

/** The GPU job as it is, its tests held back until this file is there. */
function lastingUntil(file: string, { repository }: Life): WorkflowScript {
  const plain = executeScript((sha) => repository.filesAt(sha));
  const held = { name: "Wait", run: `while [ ! -e ${file} ]; do sleep 0.1; done` };
  return {
    ...plain,
    plan: (context) => ({
      jobs: plain.plan(context).jobs.map((job) => ({ ...job, steps: [held, ...job.steps] })),
    }),
  };
}

async function slowLife(): Promise<Life> {
  life = await startLife();
  return life;
}

describe("N61: a holder whose run ended while we were down", () => {
  it("gives the lock up at the first tick after the restart, pod proven gone, and the next one is served", async () => {
    const one = await slowLife();
    const folder = mkdtempSync(join(tmpdir(), "gpu-gate-lock-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    // Its tests last until somebody waits behind it and nobody looks.
    one.github.setWorkflowScript(EXECUTE, lastingUntil(join(folder, "go"), one));
    const first = one.openCode("first");
    await one.until(first, "its tests", (request) => request.state.kind === "executing");
    const second = one.openCode("second");
    await one.until(second, "its place", (request) => request.state.kind === "queued");
    one.powerCut();
    writeFileSync(join(folder, "go"), "");
    await expect
      .poll(() => one.repository.runs(EXECUTE).map((run) => run.attempts.at(-1)?.status), { timeout: 60_000 })
      .toEqual(["completed"]);
    const gate = one.powerOn();
    gate.tick();
    await expect
      .poll(() => gate.store.requestsOfHead(first, "pull-request")[0]?.state.kind, { timeout: 60_000 })
      .toBe("concluded");
    const ended = gate.store.requestsOfHead(first, "pull-request")[0];
    expect(ended === undefined ? null : verdictOf(ended)).toMatchObject({ kind: "passed" });
    await expect.poll(() => gate.store.lock().holder, { timeout: 60_000 }).not.toBe(ended?.id);
    await expect
      .poll(() => gate.store.requestsOfHead(second, "pull-request")[0]?.state.kind, { timeout: 60_000 })
      .toBe("concluded");
    expect(one.runpod.pods().filter((pod) => pod.releasedAtMs === null)).toEqual([]);
  });
});

describe("N62: a holder that was overtaken", () => {
  it("removes its own pod, buys nothing more, and leaves the lock to whom it belongs", async () => {
    const one = await slowLife();
    const pull = one.repository.openPullRequest({
      author: "mira",
      title: "overtaken",
      files: { "src/overtaken.rs": "fn a() {}\n", [SLOW_TESTS]: "yes\n" },
    });
    await one.until(pull.headSha, "its tests", (request) => request.state.kind === "executing");
    const { fence } = one.gate.store.lock();
    one.gate.store.setLock({ holder: "r999", fence: fence + 1, since: Date.now() });
    const ended = await one.concluded(pull.headSha);
    expect(verdictOf(ended)).toMatchObject({ kind: "infrastructure", reason: "lock-lost" });
    expect(one.gate.store.lock()).toMatchObject({ holder: "r999", fence: fence + 1 });
    expect(one.runpod.pods().map((pod) => pod.releasedAtMs !== null)).toEqual([true]);
    expect(one.audits().filter((entry) => entry.act === "lock.fenced")).toHaveLength(1);
    expect(one.audits().some((entry) => entry.act === "lock.release")).toBe(false);
  });

  it("is not given what would buy or start something", () => {
    const holds = requestIn(states.executing());
    const fence = "hold" in holds.state && holds.state.hold !== null ? holds.state.hold.fence : 0;
    expect(isStale(holds, { holder: holds.id, fence })).toBe(false);
    expect(isStale(holds, { holder: holds.id, fence: fence + 1 })).toBe(true);
    expect(isStale(holds, { holder: null, fence })).toBe(true);
    expect(isStale(requestIn(states.queued()), { holder: "r9", fence: 9 })).toBe(false);
    expect(fenced(holds, { holder: "r9", fence: fence + 1 }).request.stop).toMatchObject({ reason: "lock-lost" });
    const refused = taskSchema.options
      .map((option) => option.shape.kind.value)
      .filter((kind: TaskKind) => refusedTo({ kind } as never) !== null);
    expect(refused.toSorted()).toEqual(["create-pod", "dispatch-execute", "dispatch-prepare", "mint", "reserve"]);
  });
});
