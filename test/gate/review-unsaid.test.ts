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
function gate(checksAllowed: () => boolean, runs: Listed[] = []) {
  let now = Date.UTC(2026, 10, 30, 12);
  const created: string[] = [];
  const updated: string[] = [];
  const github: Partial<GitHubClient> = {
    getRepository: () => Promise.resolve(ok({ id: "101", fullName: "a/b", defaultBranch: "main", archived: false })),
    getBranchHead: () => Promise.resolve(ok("d".repeat(40))),
    listOpenPulls: () => Promise.resolve(ok({ items: [], complete: true })),
    listCheckRunsForRef: () => Promise.resolve(ok({ items: runs as never, complete: true })),
    updateCheckRun: (id) => {
      updated.push(id);
      for (const run of runs) if (run.id === id) run.status = "completed";
      return Promise.resolve(ok({ id } as never));
    },
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
  return { gate: made, created, updated, minutes };
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

type Listed = { readonly id: string; readonly externalId: string; status: string };

test("an older check that stood open while the App was away is ended, and none is made above a newer one", async () => {
  let allowed = true;
  const runs: Listed[] = [];
  const { gate: it, created, updated, minutes } = gate(() => allowed, runs);
  it.accept(opened);
  const first = it.store.request("r1");
  if (first === null) throw new Error("the request must be there");
  // GitHub has the first one's check run, and never heard how it ended; the second one's was never made.
  allowed = false;
  await minutes(30);
  for (const [id, generation, checkRunId] of [
    ["r1", 1, "71"],
    ["r2", 2, null],
    ["r3", 3, "73"],
  ] as const) {
    const request = it.store.request("r1") ?? first;
    const openedAt = first.openedAt + generation;
    const completed = id === "r3";
    const check = { ...request.check, checkRunId, completed, published: null, mayHaveTwins: false };
    it.store.saveRequest({ ...request, id, generation, openedAt, check });
    if (checkRunId !== null)
      runs.push({ id: checkRunId, externalId: `${id}:0`, status: completed ? "completed" : "queued" });
  }
  allowed = true;
  await minutes(15);
  expect(updated).toEqual(["71"]);
  expect(created).toEqual([]);
  expect(["r1", "r2"].map((id) => it.store.request(id)?.check.completed)).toEqual([true, true]);
  const acts = it.store.auditAfter(0, 100).map((row) => `${row.request_id ?? ""} ${row.act}`);
  expect(acts).toContain("r2 check.overtaken");
});

test("the late check run of an older request's lost create is ended too", async () => {
  const runs: Listed[] = [];
  const { gate: it, created, updated, minutes } = gate(() => true, runs);
  it.accept(opened);
  await minutes(30);
  const request = it.store.request("r1");
  if (request === null) throw new Error("the request must be there");
  created.length = 0;
  updated.length = 0;
  const lost = { ...request.check, checkRunId: null, completed: false, published: null };
  it.store.saveRequest({ ...request, check: lost });
  it.store.saveRequest({ ...request, id: "r2", generation: 2, openedAt: request.openedAt + 1 });
  for (let waited = 0; waited < 10 && it.store.taskOf("check", "r1") === null; waited += 1) await minutes(1);
  expect(it.store.request("r1")?.check.completed).toBe(false);
  runs.push({ id: "74", externalId: "r1:0", status: "queued" });
  await minutes(10);
  expect(updated).toEqual(["74"]);
  expect(created).toEqual([]);
  expect(it.store.request("r1")?.check).toMatchObject({ completed: true, checkRunId: "74" });
});
