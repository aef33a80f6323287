/** The lock's queue at 10,000 waiters: what one enqueue and one grant cost at the beginning and at the end. */
import { Store } from "../durable-objects/gate/store.ts";
import { migrate } from "../durable-objects/gate/schema.ts";
import { nodeSql } from "../test/support/node-sql.ts";
import type { BenchRow } from "./row.ts";

const WAITERS = 10_000;
const SAMPLE = 1_000;

export function run(): Promise<readonly BenchRow[]> {
  const sql = nodeSql();
  migrate(sql);
  const store = new Store(sql);
  const enqueue = (from: number, to: number) => {
    const before = performance.now();
    for (let n = from; n < to; n += 1) sql.transaction(() => store.enqueue(`r${n}`, n));
    return ((performance.now() - before) * 1000) / (to - from);
  };
  const first = enqueue(0, SAMPLE);
  enqueue(SAMPLE, WAITERS - SAMPLE);
  const last = enqueue(WAITERS - SAMPLE, WAITERS);
  const grant = (count: number) => {
    const before = performance.now();
    for (let n = 0; n < count; n += 1) {
      sql.transaction(() => {
        const head = store.firstInQueue();
        if (head !== null) store.dequeue(head);
        const lock = store.lock();
        store.setLock({ holder: head, fence: lock.fence + 1, since: n });
      });
    }
    return ((performance.now() - before) * 1000) / count;
  };
  const full = grant(SAMPLE);
  grant(WAITERS - 2 * SAMPLE);
  const empty = grant(SAMPLE);
  sql.close();
  return Promise.resolve([
    { name: "enqueue, first 1,000 of 10,000", value: first, unit: "us" },
    { name: "enqueue, last 1,000 of 10,000", value: last, unit: "us", note: "flat when close to the first" },
    { name: "grant with 10,000 waiting", value: full, unit: "us" },
    { name: "grant with 1,000 waiting", value: empty, unit: "us", note: "flat when close to the one above" },
  ]);
}
