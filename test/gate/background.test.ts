/** Which of the gate's calls to GitHub give way to others when the quota is nearly used up. */
import { expect, it } from "vitest";
import { Gate } from "../../durable-objects/gate/gate.ts";
import type { GatePorts } from "../../durable-objects/gate/ports.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import { err } from "../../shared/result.ts";
import { nodeSql } from "../support/node-sql.ts";

it("N136: comparing with GitHub does; what a request waits for does not", async () => {
  let now = Date.UTC(2026, 10, 30);
  const asked: string[] = [];
  const ports = {
    sql: nodeSql(),
    alarm: { set: () => undefined },
    clock: { now: () => now },
    random: { next: () => 0.5, bytes: (length: number) => new Uint8Array(length) },
    account: { register: async () => ({ ok: true, value: null }) },
    github: (_repository: unknown, _installation: unknown, _scope: unknown, background?: boolean) =>
      new Proxy({} as GitHubClient, {
        get: (_own, name) => () => {
          asked.push(`${String(name)} ${background === true ? "gives way" : "goes first"}`);
          return Promise.resolve(err({ reason: "server", status: 500 }));
        },
      }),
    publicUrl: "",
    deployment: "test",
    appId: "1",
    log: () => undefined,
  } as unknown as GatePorts;
  const gate = new Gate(ports);
  gate.introduce({ id: "101", owner: "acme", name: "tensors" }, "77");
  await gate.run();
  expect(new Set(asked)).toEqual(new Set(["listOpenPulls gives way"]));
  asked.length = 0;
  const what = { kind: "pull-request", prNumber: 7, headSha: "a".repeat(40), generation: 1, row: 1 } as const;
  gate.openIfUnknown({ ...what, actor: null, approvedBy: null });
  now += 1_000;
  await gate.run();
  expect(asked.length).toBeGreaterThan(1);
  expect(asked.filter((call) => !call.endsWith("goes first"))).toEqual([]);
});
