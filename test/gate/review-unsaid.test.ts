/** A verdict that GitHub would not take for a while is said when the App may speak again: no check hangs for ever (I7). */
import { expect, test } from "vitest";
import { Gate } from "../../durable-objects/gate/gate.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import type { GatePorts } from "../../durable-objects/gate/ports.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import { systemRandom } from "../../shared/ports.ts";
import { err, ok } from "../../shared/result.ts";
import { nodeSql } from "../support/node-sql.ts";

const HEAD = "a".repeat(40);
const MINUTE = 60_000;

/** A repository without a configuration: every request ends at once, and its check is all there is to say. */
function gate(checksAllowed: () => boolean) {
  let now = Date.UTC(2026, 10, 30, 12);
  const created: string[] = [];
  const github: Partial<GitHubClient> = {
    getRepository: () => Promise.resolve(ok({ id: "101", fullName: "a/b", defaultBranch: "main", archived: false })),
    getBranchHead: () => Promise.resolve(ok("d".repeat(40))),
    listOpenPulls: () => Promise.resolve(ok({ items: [], complete: true })),
    listCheckRunsForRef: () => Promise.resolve(ok({ items: [], complete: true })),
    createCheckRun: (fields) => {
      if (!checksAllowed()) {
        return Promise.resolve(err({ reason: "forbidden", acceptedPermissions: "checks=write", message: "no" }));
      }
      created.push(fields.externalId ?? "");
      return Promise.resolve(ok({ id: String(created.length) } as never));
    },
  };
  const missing = () => Promise.resolve(err({ reason: "not-found" }));
  const cut = new Proxy({} as never, { get: () => () => Promise.resolve({ ok: false, why: "cut" }) });
  const ports: GatePorts = {
    sql: nodeSql(),
    alarm: { set: () => undefined },
    clock: { now: () => now },
    random: systemRandom,
    account: cut,
    runpod: cut,
    github: () =>
      new Proxy(github as GitHubClient, { get: (own, method): unknown => Reflect.get(own, method) ?? missing }),
    resolveImage: () => Promise.resolve({ ok: false, why: "cut" }),
    publicUrl: "https://gate.test",
    deployment: "test",
    appId: "4711",
    log: () => undefined,
  };
  // Not begun by this gate: its ids carry no epoch.
  migrate(ports.sql);
  const made = new Gate(ports);
  const minutes = async (count: number): Promise<void> => {
    for (let minute = 0; minute < count; minute += 1) {
      now += MINUTE;
      made.tick();
      await made.run();
    }
  };
  return { gate: made, created, minutes };
}

const opened = {
  guid: "g1",
  event: "pull_request",
  repository: { id: "101", owner: "a", name: "b" },
  installationId: "77",
  signal: {
    kind: "pull-request",
    action: "opened",
    prNumber: 1,
    headSha: HEAD,
    headRepositoryId: "101",
    draft: false,
    label: null,
    sender: { id: "7", login: "mona" },
  },
} as const;

test("what GitHub forbade for an hour is published once when it allows it again", async () => {
  let allowed = false;
  const { gate: it, created, minutes } = gate(() => allowed);
  it.accept(opened);
  await minutes(60);
  expect(it.store.request("r1")).toMatchObject({ state: { kind: "concluded" }, check: { completed: false } });
  allowed = true;
  await minutes(15);
  expect(it.store.request("r1")?.check.completed).toBe(true);
  expect(created).toEqual(["r1:0"]);
});
