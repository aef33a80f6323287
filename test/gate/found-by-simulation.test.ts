/** Faults that the simulator found, each held by a test of its own. */
import { expect, test } from "vitest";
import { lookAtHead } from "../../durable-objects/gate/aggregate.ts";
import { Aggregates } from "../../durable-objects/gate/aggregates.ts";
import { Gate } from "../../durable-objects/gate/gate.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import type { GatePorts } from "../../durable-objects/gate/ports.ts";
import { publishCheck } from "../../durable-objects/gate/publish.ts";
import type { Store } from "../../durable-objects/gate/store.ts";
import { strayRecord } from "../../durable-objects/gate/strays.ts";
import { configFrom } from "../../shared/config/load.ts";
import { RESERVED_MS } from "../../shared/cost/estimate.ts";
import { termsFrom } from "../../shared/config/terms.ts";
import { authorize, type AuthorizePort } from "../../shared/authorize/authorize.ts";
import { createEtagCache } from "../../shared/github/etag.ts";
import type { GitHubAnswer } from "../../shared/github/call.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import { NOT_JSON } from "../../shared/github/failure.ts";
import { createWire } from "../../shared/github/wire.ts";
import { systemRandom } from "../../shared/ports.ts";
import { err, ok } from "../../shared/result.ts";
import * as z from "zod";
import { nodeSql } from "../support/node-sql.ts";

const HEAD = "a".repeat(40);
const actor = { id: "7", login: "mona" };
const repository = { id: "101", owner: "acme", name: "widgets" };

/** A gate whose every way out is cut: what it reaches for is in `reached`. */
function gateWith(github: Partial<GitHubClient>) {
  let now = 1_000_000;
  const reached: string[] = [];
  const nobody = (name: string) =>
    new Proxy({} as GatePorts["account"] & GatePorts["runpod"], {
      get: (_target, method) => () => {
        reached.push(`${name}.${String(method)}`);
        return Promise.resolve({ ok: false, why: "cut" });
      },
    });
  const sql = nodeSql();
  // Not begun by a gate: its ids carry no epoch.
  migrate(sql);
  const ports: GatePorts = {
    sql,
    alarm: { set: () => undefined },
    clock: { now: () => now },
    random: systemRandom,
    account: nobody("account"),
    runpod: nobody("runpod"),
    github: () =>
      new Proxy(github as GitHubClient, {
        get: (target, method) => {
          const own: unknown = Reflect.get(target, method);
          if (own !== undefined) return own;
          return () => {
            reached.push(`github.${String(method)}`);
            return Promise.resolve(err({ reason: "server", status: 500 }));
          };
        },
      }),
    resolveImage: () => Promise.resolve({ ok: false, why: "cut" }),
    publicUrl: "https://gate.test",
    deployment: "test",
    appId: "4711",
    log: () => undefined,
  };
  return { ports, sql, reached, pass: (ms: number) => (now += ms) };
}

const opened = {
  guid: "g1",
  event: "pull_request",
  repository,
  installationId: "77",
  signal: {
    kind: "pull-request",
    action: "opened",
    prNumber: 1,
    headSha: HEAD,
    headRepositoryId: "101",
    draft: false,
    label: null,
    sender: actor,
  },
} as const;

test("a body that was cut on its way is not remembered with its etag", async () => {
  const asked: (string | undefined)[] = [];
  const bodies = ['{"id": 1', '{"id": 1}'];
  const wire = createWire(
    (call) => {
      asked.push(call.etag);
      const answer: GitHubAnswer = { status: 200, text: bodies[asked.length - 1] ?? "", etag: '"same"', link: null };
      return Promise.resolve(ok(answer));
    },
    "101",
    createEtagCache(),
  );
  const schema = z.object({ id: z.number() });
  expect(await wire.get("get", "/x", schema)).toEqual(err({ reason: "unreadable", what: NOT_JSON }));
  expect(await wire.get("get", "/x", schema)).toEqual(ok({ id: 1 }));
  expect(asked).toEqual([undefined, undefined]);
});

test("a cut answer for the configuration file is asked for again, and is no broken configuration", async () => {
  const port = {
    getRepository: () =>
      Promise.resolve(ok({ id: "101", fullName: "acme/widgets", defaultBranch: "main", archived: false })),
    getBranchHead: () => Promise.resolve(ok(HEAD)),
    getFile: () => Promise.resolve(err({ reason: "unreadable", what: NOT_JSON })),
  } as unknown as AuthorizePort;
  const { outcome } = await authorize(port, { repositoryId: "101", prNumber: 1, headSha: HEAD, actor, now: 0 });
  expect(outcome.kind).toBe("unknown");
});

test("a gate that finds a newer schema performs no stored task, takes no word and changes no row", async () => {
  const { ports, sql, reached, pass } = gateWith({});
  new Gate(ports).accept(opened);
  sql.exec("UPDATE schema_version SET version = 99 WHERE id = 1");
  const gate = new Gate(ports);
  expect(gate.readOnly).toBe(true);
  const before = JSON.stringify([
    sql.exec("SELECT * FROM tasks"),
    sql.exec("SELECT * FROM requests"),
    sql.exec("SELECT * FROM audit"),
  ]);
  pass(60_000);
  await gate.run();
  gate.hint("r1");
  expect(gate.stop("r1", { kind: "cancelled", reason: "cancelled-by-operator", detail: "" })).toBe(false);
  expect(gate.adoptStray("p1", "reap-late-pod", 0)).toBe(false);
  expect(await gate.podCall("r1-1", "nonce", { kind: "exit", code: 0 })).toBe(false);
  const after = JSON.stringify([
    sql.exec("SELECT * FROM tasks"),
    sql.exec("SELECT * FROM requests"),
    sql.exec("SELECT * FROM audit"),
  ]);
  expect(after).toBe(before);
  expect(reached).toEqual([]);
});

test("a stray is booked with the price its finder saw", () => {
  const { ports } = gateWith({});
  const gate = new Gate(ports);
  gate.accept(opened);
  gate.adoptStray("p1", "reap-late-pod", 5, 0.79);
  expect(gate.store.ledgerLine("p1")).toMatchObject({ price_per_hour: 0.79, paid_from: 5, closed_at: null });
});

test("a stray of unknown age is booked as an old one, and its absence still taken for a new one's", () => {
  const { ports, sql } = gateWith({});
  const gate = new Gate(ports);
  gate.accept(opened);
  const now = ports.clock.now();
  gate.adoptStray("p1", "reap-late-pod", null, 0.79);
  expect(gate.store.ledgerLine("p1")).toMatchObject({ paid_from: now - RESERVED_MS });
  const attemptOf = (podId: string) => {
    const row = gate.store.stray(podId);
    return row === null ? null : strayRecord(row, gate.store).attempt;
  };
  expect(attemptOf("p1")).toMatchObject({ paidFrom: now - RESERVED_MS, createSentAt: now });
  // One that our own ledger knows is as old as its line, whatever is said of it.
  sql.exec(
    "INSERT INTO ledger (pod_id, attempt_id, request_id, tier, paid_from) VALUES ('p2', 'r1-1', 'r1', 't', ?)",
    now - 7_000,
  );
  gate.adoptStray("p2", "reap-late-pod", null, 0.79);
  expect(attemptOf("p2")?.paidFrom).toBe(now - 7_000);
  // RunPod's clock may be ahead of ours.
  gate.adoptStray("p3", "reap-late-pod", now + 9_000, 0.79);
  expect(gate.store.ledgerLine("p3")).toMatchObject({ paid_from: now });
});

test("the second check of a create that was sent twice is concluded like the first", async () => {
  const known = { id: "1", externalId: "r1:0", status: "queued" };
  const late = { id: "2", externalId: "r1:0", status: "queued" };
  const other = { id: "3", externalId: "r9:0", status: "queued" };
  let listed: object[] = [];
  const updated: string[] = [];
  const { ports } = gateWith({
    listCheckRunsForRef: () => Promise.resolve(ok({ items: listed, complete: true })),
    createCheckRun: () => Promise.resolve(ok(known)),
    updateCheckRun: (id: string) => {
      updated.push(id);
      return Promise.resolve(ok({ ...known, id }));
    },
  } as unknown as Partial<GitHubClient>);
  const gate = new Gate(ports);
  gate.accept(opened);
  const request = gate.store.request("r1");
  if (request === null) throw new Error("the request must be there");
  const verdict = { kind: "closed", reason: "closed", detail: "" } as const;
  gate.store.saveRequest({ ...request, task: null, state: { kind: "concluded", at: 0, verdict } });
  const perform = (tries: number, kind: string) => {
    const id = gate.store.putTask("check", "r1", kind, {}, 0, 0, tries);
    const task = gate.store.task(id);
    if (task === null) throw new Error("the task must be there");
    const queueInfo = (requestId: string) => ({ ...gate.queueInfo(requestId) });
    return publishCheck(
      task,
      { ports, store: gate.store, github: ports.github(repository, "77", { kind: "repository" }), queueInfo },
      () => undefined,
    );
  };
  // The answer of an earlier create was lost, and its check run is not there yet: a second one is made.
  await perform(2, "check");
  expect(waitingTask(gate.store)).toBe("twins");
  listed = [{ ...known, status: "completed" }, late, other];
  await perform(1, "twins");
  expect(updated).toEqual(["2"]);
  expect(waitingTask(gate.store)).toBeUndefined();
});

test("the aggregator's check of a head that ended while the App might not speak is concluded once it may", async () => {
  let state = "open";
  let mayWrite = true;
  const said: unknown[] = [];
  const run = { id: "9", externalId: "aggregate:x:1", status: "in_progress" };
  const { ports, pass } = gateWith({
    getPull: () => Promise.resolve(ok({ state, headSha: HEAD, headRef: "topic", draft: false })),
    listCheckRunsForRef: () => Promise.resolve(ok({ items: [], complete: true })),
    createCheckRun: () => Promise.resolve(ok(run)),
    updateCheckRun: (_id: string, change: { readonly state: unknown }) => {
      if (!mayWrite)
        return Promise.resolve(err({ reason: "forbidden", acceptedPermissions: null, message: "archived" }));
      said.push(change.state);
      return Promise.resolve(ok(run));
    },
  } as unknown as Partial<GitHubClient>);
  const gate = new Gate(ports);
  gate.accept(opened);
  const config = configFrom({ version: 1, required_checks: [{ name: "tests" }], aggregator: { name: "All checks" } });
  gate.store.rememberConfig("hash", config);
  gate.store.setMeta("last_config", "hash");
  const aggregates = new Aggregates(ports.sql, gate.store);
  aggregates.open(HEAD, 1, ports.clock.now());
  const look = async (): Promise<void> => {
    const task = gate.store.taskOf("aggregate", HEAD);
    if (task === null) throw new Error("a look must be planned");
    pass(5_000);
    const github = ports.github(repository, "77", { kind: "repository" });
    await lookAtHead(task, { ports, store: gate.store, aggregates, github, repositoryId: repository.id });
  };
  await look();
  [state, mayWrite] = ["closed", false];
  for (let times = 0; times < 20; times += 1) await look();
  mayWrite = true;
  await look();
  expect(said.at(-1)).toMatchObject({ status: "completed" });
  expect(gate.store.taskOf("aggregate", HEAD)).toBeNull();
});

test("the second check run of an aggregator's create that was sent twice is concluded like the first", async () => {
  let state = "open";
  const said = new Map<string, unknown>();
  const externalId = `aggregate:${HEAD.slice(0, 12)}:1`;
  const run = (id: string) => ({ id, externalId, appId: "4711", name: "All checks", status: "in_progress" });
  const { ports, pass } = gateWith({
    getPull: () => Promise.resolve(ok({ state, headSha: HEAD, headRef: "topic", draft: false })),
    // The create that was given up arrives behind the one that was answered.
    listCheckRunsForRef: () =>
      Promise.resolve(ok({ items: state === "open" ? [] : [run("9"), run("10")], complete: true })),
    createCheckRun: () => Promise.resolve(ok(run("9"))),
    updateCheckRun: (id: string, change: { readonly state: unknown }) => {
      said.set(id, change.state);
      return Promise.resolve(ok(run(id)));
    },
  } as unknown as Partial<GitHubClient>);
  const gate = new Gate(ports);
  gate.accept(opened);
  const config = configFrom({ version: 1, required_checks: [{ name: "tests" }], aggregator: { name: "All checks" } });
  gate.store.rememberConfig("hash", config);
  gate.store.setMeta("last_config", "hash");
  const aggregates = new Aggregates(ports.sql, gate.store);
  aggregates.open(HEAD, 1, ports.clock.now());
  for (const now of ["open", "closed"]) {
    state = now;
    const task = gate.store.taskOf("aggregate", HEAD);
    if (task === null) throw new Error("a look must be planned");
    pass(5_000);
    const github = ports.github(repository, "77", { kind: "repository" });
    await lookAtHead(task, { ports, store: gate.store, aggregates, github, repositoryId: repository.id });
  }
  expect(said.get("9")).toMatchObject({ status: "completed" });
  expect(said.get("10")).toEqual(said.get("9"));
});

test("an aggregator's check that an older word of ours opened again after its conclusion is concluded again", async () => {
  let state = "open";
  let arrived = false;
  let answers = true;
  const said: unknown[] = [];
  const run = () => ({
    id: "9",
    externalId: `aggregate:${HEAD.slice(0, 12)}:1`,
    appId: "4711",
    name: "All checks",
    status: state === "open" || arrived ? "in_progress" : "completed",
  });
  const { ports, pass } = gateWith({
    getPull: () => Promise.resolve(ok({ state, headSha: HEAD, headRef: "topic", draft: false })),
    listCheckRunsForRef: () => Promise.resolve(ok({ items: said.length === 0 ? [] : [run()], complete: true })),
    createCheckRun: () => {
      said.push("made");
      return Promise.resolve(ok(run()));
    },
    updateCheckRun: (_id: string, change: { readonly state: unknown }) => {
      if (!answers) return Promise.resolve(err({ reason: "transport", timeout: true }));
      said.push(change.state);
      arrived = false;
      return Promise.resolve(ok(run()));
    },
  } as unknown as Partial<GitHubClient>);
  const gate = new Gate(ports);
  gate.accept(opened);
  const config = configFrom({ version: 1, required_checks: [{ name: "tests" }], aggregator: { name: "All checks" } });
  gate.store.rememberConfig("hash", config);
  gate.store.setMeta("last_config", "hash");
  const aggregates = new Aggregates(ports.sql, gate.store);
  aggregates.open(HEAD, 1, ports.clock.now());
  const look = async (after: number): Promise<void> => {
    const task = gate.store.taskOf("aggregate", HEAD);
    if (task === null) throw new Error("a look must be planned");
    pass(after);
    const github = ports.github(repository, "77", { kind: "repository" });
    await lookAtHead(task, { ports, store: gate.store, aggregates, github, repositoryId: repository.id });
  };
  await look(5_000);
  // The conclusion is given up once, and said again: GitHub may perform the first word whenever it likes.
  [state, answers] = ["closed", false];
  await look(11_000);
  [answers, arrived] = [true, true];
  await look(2_000);
  expect(said.at(-1)).toMatchObject({ status: "completed" });
  const ended = said.length;
  arrived = true;
  await look(90_000);
  expect(said.slice(ended)).toEqual([said[ended - 1]]);
  // Nothing can arrive behind that any more.
  expect(gate.store.taskOf("aggregate", HEAD)).toBeNull();
});

test("a check that an older word of ours opened again after its conclusion is concluded again", async () => {
  const known = { id: "1", externalId: "r1:0", status: "queued" };
  let listed: object[] = [];
  const updated: string[] = [];
  const { ports } = gateWith({
    listCheckRunsForRef: () => Promise.resolve(ok({ items: listed, complete: true })),
    createCheckRun: () => Promise.resolve(ok(known)),
    updateCheckRun: (id: string) => {
      updated.push(id);
      return Promise.resolve(ok({ ...known, id }));
    },
  } as unknown as Partial<GitHubClient>);
  const gate = new Gate(ports);
  gate.accept(opened);
  const id = gate.store.openRequests()[0]?.id ?? "";
  known.externalId = `${id}:0`;
  const perform = async (tries: number, kind: string): Promise<void> => {
    const task = gate.store.task(gate.store.putTask("check", id, kind, {}, 0, 0, tries));
    if (task === null) throw new Error("the task must be there");
    const github = ports.github(repository, "77", { kind: "repository" });
    const queueInfo = (requestId: string) => ({ ...gate.queueInfo(requestId) });
    await publishCheck(task, { ports, store: gate.store, github, queueInfo }, () => undefined);
  };
  await perform(1, "check");
  const request = gate.store.request(id);
  if (request === null) throw new Error("the request must be there");
  const verdict = { kind: "closed", reason: "closed", detail: "" } as const;
  gate.store.saveRequest({ ...request, task: null, state: { kind: "concluded", at: 0, verdict } });
  // The first try of this word had no answer: GitHub may perform it whenever it likes.
  listed = [{ ...known }];
  await perform(2, "check");
  expect(gate.store.taskOf("check", id)?.kind).toBe("twins");
  listed = [{ ...known, status: "in_progress" }];
  await perform(1, "twins");
  expect(updated).toEqual(["1", "1"]);
});

test("a check that was made before its configuration was read takes the configured name, and shadow mode's", async () => {
  const written: { readonly id?: string; readonly name?: string }[] = [];
  const { ports } = gateWith({
    createCheckRun: (run: { readonly name: string }) => {
      written.push({ name: run.name });
      return Promise.resolve(ok({ id: "1", name: run.name, externalId: "r1:0", status: "queued" }));
    },
    updateCheckRun: (id: string, change: { readonly name?: string }) => {
      written.push({ id, ...change });
      return Promise.resolve(ok({ id, externalId: "r1:0", status: "completed" }));
    },
  } as unknown as Partial<GitHubClient>);
  const gate = new Gate(ports);
  gate.accept(opened);
  const publish = async () => {
    const task = gate.store.task(gate.store.putTask("check", "r1", "check", {}, 0, 0));
    if (task === null) throw new Error("the task must be there");
    const github = ports.github(repository, "77", { kind: "repository" });
    const queueInfo = (requestId: string) => ({ ...gate.queueInfo(requestId) });
    await publishCheck(task, { ports, store: gate.store, github, queueInfo }, () => undefined);
  };
  await publish();
  const request = gate.store.request("r1");
  if (request === null) throw new Error("the request must be there");
  const terms = { ...termsFrom(configFrom(), "hash"), checkName: "Our gate", shadow: true };
  const verdict = { kind: "refused", reason: "author-not-permitted", detail: "" } as const;
  gate.store.saveRequest({ ...request, terms, task: null, state: { kind: "concluded", at: 0, verdict } });
  await publish();
  // Shadow mode always succeeds: under the required check's own name that would be a false green.
  expect(written.map(({ id, name }) => ({ id, name }))).toEqual([
    { id: undefined, name: "CI GPU gate" },
    { id: "1", name: "Our gate (shadow)" },
  ]);
});

function waitingTask(store: Store): string | undefined {
  return store.taskOf("check", "r1")?.kind;
}

test("RunPod's answer to cron's order ends what a pod costs, though the gate's own orders failed", async () => {
  const listed = { startedAt: 0, complete: true, pods: [] as object[] };
  const { ports: cut, pass } = gateWith({});
  const calls: string[] = [];
  const ports: GatePorts = {
    ...cut,
    runpod: {
      getPod: () => Promise.resolve({ kind: calls.includes("told") ? "not-found" : "pod", pod: { costPerHour: 1 } }),
      deletePod: () => {
        calls.push("delete");
        return Promise.resolve({ kind: "failure", failure: { reason: "server", status: 500 } });
      },
    } as unknown as GatePorts["runpod"],
    account: {
      listPods: () => Promise.resolve(ok({ ...listed, startedAt: cut.clock.now() })),
      commit: () => Promise.resolve(ok(null)),
      goneSince: () => Promise.resolve(ok(null)),
    } as unknown as GatePorts["account"],
  };
  const gate = new Gate(ports);
  gate.accept(opened);
  const boughtAt = ports.clock.now();
  gate.adoptStray("p1", "reap-late-pod", boughtAt, 1);
  for (let times = 0; times < 8; times += 1) {
    pass(60_000);
    await gate.run();
  }
  const tried = calls.length;
  expect(tried).toBeGreaterThan(3);
  expect(gate.store.ledgerLine("p1")).toMatchObject({ closed_at: null });
  pass(1_000);
  const orderedAt = ports.clock.now();
  const removed = {
    podId: "p1",
    attemptId: null,
    why: "reap-backstop",
    createdAt: 5,
    pricePerHour: 9,
    goneAt: orderedAt,
  };
  expect(gate.podsRemoved([removed])).toEqual(["p1"]);
  expect(gate.podsRemoved([removed])).toEqual(["p1"]);
  calls.push("told");
  for (let times = 0; times < 8; times += 1) {
    await gate.run();
    pass(60_000);
  }
  expect(calls.filter((call) => call === "delete")).toHaveLength(tried);
  expect(gate.store.ledgerLine("p1")).toMatchObject({ closed_at: orderedAt });
  expect(gate.store.ledgerLine("p1")?.proven_at).toBeGreaterThan(orderedAt);
});
