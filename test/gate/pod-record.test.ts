/** The pod's record is read before it is deleted, for as long as the configuration lets that hold a deletion up. */
import { expect, it } from "vitest";
import { Gate } from "../../durable-objects/gate/gate.ts";
import { perform } from "../../durable-objects/gate/perform.ts";
import type { GatePorts } from "../../durable-objects/gate/ports.ts";
import { configFrom } from "../../shared/config/load.ts";
import { systemRandom } from "../../shared/ports.ts";
import { ok } from "../../shared/result.ts";
import { requestIn, states, T0 } from "../lifecycle/fixtures.ts";
import { nodeSql } from "../support/node-sql.ts";

function gateAt() {
  const waits: unknown[] = [];
  const ports = {
    sql: nodeSql(),
    alarm: { set: () => undefined },
    clock: { now: () => T0 },
    random: systemRandom,
    runpod: {
      getPod: (_: string, options?: { readonly timeoutMs?: number }) => {
        waits.push(options?.timeoutMs);
        return Promise.resolve({ kind: "not-found" });
      },
      deletePod: () => Promise.resolve({ kind: "deleted" }),
    },
    account: { listPods: () => Promise.resolve(ok({ startedAt: T0, complete: true, pods: [] })) },
    github: () => ({}),
    deployment: "testing",
    appId: "1",
    log: () => undefined,
  } as unknown as GatePorts;
  const gate = new Gate(ports);
  return { gate, ports, waits };
}

it.each([
  ["0.7 s where the configuration says so", { pod_record: 0.7 }, 700],
  ["5 s where it says nothing", {}, 5_000],
])("a request's pod: %s", async (_, limits, ms) => {
  const { gate, ports, waits } = gateAt();
  const request = requestIn(states.cleaning("record"));
  gate.store.rememberConfig(request.terms?.configHash ?? "", configFrom({ limits }));
  const context = { ports, store: gate.store, request, createdAt: T0, repository: {}, github: {}, secrets: {} };
  await perform({ kind: "read-record", podId: "p1" }, context as unknown as Parameters<typeof perform>[1]);
  expect(waits).toEqual([ms]);
});

it.each([
  ["0.7 s where the newest configuration says so", { pod_record: 0.7 }, 700],
  ["5 s where none is known", null, 5_000],
])("a pod that nobody owns: %s", async (_, limits, ms) => {
  const { gate, waits } = gateAt();
  if (limits !== null) {
    gate.store.rememberConfig("newest", configFrom({ limits }));
    gate.store.setMeta("last_config", "newest");
  }
  expect(gate.adoptStray("p1", "nobody's", T0, 0.4)).toBe(true);
  await gate.run();
  expect(waits[0]).toBe(ms);
});
