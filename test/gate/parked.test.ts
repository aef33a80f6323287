/** One stored record that does not read is parked: the others go on, its task waits, and its head is not opened twice. */
import { afterEach, describe, expect, it } from "vitest";
import { CONFIG } from "../../local/world/opening-day.ts";
import { nodeSql } from "../support/node-sql.ts";
import { MoneyTable } from "../../durable-objects/gate/money-table.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import { newRequest } from "../../shared/lifecycle/new-request.ts";
import { parsePod, type Pod } from "../../shared/runpod/pod.ts";
import { goOn, lives, rentedIn, repositoryOf, restore } from "../recovery/stored-lives.ts";
import { REPOSITORY_ID, startGateWorld, type GateWorld } from "./world.ts";

let world: GateWorld | null = null;

afterEach(async () => {
  await world?.close();
  world = null;
});

const what = (headSha: string) => ({
  kind: "pull-request" as const,
  prNumber: 1,
  headSha,
  generation: 1,
  row: 1,
  actor: null,
  approvedBy: null,
});

describe("a record that does not read", () => {
  it("hides no other request and is told apart from none", () => {
    const sql = nodeSql();
    migrate(sql);
    const store = new Store(sql);
    store.saveRequest(newRequest("r1", what("a".repeat(40)), 1));
    store.saveRequest(newRequest("r2", what("b".repeat(40)), 2));
    sql.exec(`UPDATE requests SET record = '{"id":"r1","state":{"kind":"of-next-year"}}' WHERE id = 'r1'`);
    expect(store.openRequests().map((request) => request.id)).toEqual(["r2"]);
    expect([store.isParked("r1"), store.isParked("r2"), store.isParked("r3")]).toEqual([true, false, false]);
    expect(store.isHeadParked("a".repeat(40), "pull-request")).toBe(true);
    expect(store.counters()["requests.unreadable"]).toBeGreaterThan(0);
    sql.close();
  });

  it("lets the next pull request live its life, and keeps its own task for later", async () => {
    world = await startGateWorld();
    const { github, gate } = world;
    const repository = github.createRepository({
      owner: "acme",
      name: "tensors",
      id: Number(REPOSITORY_ID),
      files: { "README.md": "x\n", ".github/gpu-gate.yml": CONFIG },
    });
    repository.addCollaborator("mira", "admin");
    gate.store.saveRequest({
      ...newRequest("r900", what("c".repeat(40)), Date.now()),
      state: { kind: "authorizing", since: 0, tries: 0 },
    });
    gate.store.putTask("main", "r900", "authorize", { kind: "authorize" }, Date.now(), Date.now());
    world.sql.exec(`UPDATE requests SET record = 'not json' WHERE id = 'r900'`);
    gate.store.forget();
    const pull = repository.openPullRequest({ author: "mira", files: { "docs/a.md": "x\n" }, title: "docs" });
    await expect
      .poll(() => gate.store.requestsOfHead(pull.headSha, "pull-request")[0]?.check.completed, { timeout: 20_000 })
      .toBe(true);
    expect(gate.store.taskOf("main", "r900")?.kind).toBe("authorize");
  });
});

describe("a holder of the GPU lock that does not read", () => {
  const word = (action: "release" | "cancel" | "force", requestId: string) =>
    ({ action, requestId, by: "operator", reason: "it hangs", micros: null }) as const;

  /** A gate whose holder of the lock has a pod, somebody waiting behind it, and a record that does not read. */
  function stuck(name = "executing with a pod") {
    const life = lives.find((one) => one.name === name);
    if (life === undefined) throw new Error("there is no such stored life");
    const sql = nodeSql();
    restore(life, sql);
    const rented = rentedIn(life, sql);
    if (rented === null) throw new Error("it has a pod, or has asked for one");
    sql.exec(`UPDATE requests SET record = '{"id":"of next year"}' WHERE id = ?`, life.request);
    const outside = goOn(sql, life.at, repositoryOf(life));
    const { store } = outside.gate;
    const acts = () => store.auditOf(life.request).filter((row) => row.act === "operator.release");
    return { ...outside, store, sql, holder: life.request, podId: outside.rent(rented, life.request), rented, acts };
  }

  it("keeps the lock against every word but 'release', which is told which pod is in the way", async () => {
    const { gate, store, holder, podId, pass, pods, acts } = stuck();
    expect(gate.operator(word("cancel", holder))).toEqual({
      done: false,
      detail: `The stored record of ${holder} does not read; only \`release\` can be said of it.`,
    });
    expect(gate.operator(word("force", holder)).done).toBe(false);
    pass(3);
    const answer = await gate.releaseParked(word("release", holder));
    expect(answer).toMatchObject({ done: false, detail: expect.stringContaining(podId) });
    expect(store.lock().holder).toBe(holder);
    expect([...pods.keys()]).toEqual([podId]);
    expect(acts()).toHaveLength(1);
    expect(JSON.parse(acts()[0]?.facts ?? "")).toMatchObject({ by: "operator", why: "it hangs", done: false });
  });

  it("gives the lock up once its pod is proven gone and two lists show none; the next in the queue goes on", async () => {
    const { gate, store, holder, podId, pass, work, pods, acts } = stuck();
    const next = store.firstInQueue();
    expect(next).not.toBeNull();
    pass(3);
    await gate.releaseParked(word("release", holder));
    await work(5);
    expect(pods.size).toBe(0);
    const line = store.ledgerLine(podId);
    expect([line?.closed_at, line?.proven_at].every((at) => typeof at === "number")).toBe(true);
    expect(await gate.releaseParked(word("release", holder))).toMatchObject({ done: false });
    pass(0.1);
    expect(await gate.releaseParked(word("release", holder))).toMatchObject({ done: false });
    expect(store.lock().holder).toBe(holder);
    pass(0.1);
    expect(await gate.releaseParked(word("release", holder))).toMatchObject({ done: true });
    expect(store.lock().holder).not.toBe(holder);
    expect(acts().map((row) => (JSON.parse(row.facts) as { done: boolean }).done)).toEqual([false, false, false, true]);
    await work(120);
    expect(next === null ? null : store.request(next)?.state.kind).toBe("concluded");
  });

  it.each(["provisioning: create, call under way", "provisioning: look-up", "executing with a pod"])(
    "gives back what was set aside for it with the lock, and counts what it has cost: %s",
    async (name) => {
      const { gate, store, holder, pass, work, sql } = stuck(name);
      const open = () => new MoneyTable(sql).open().map((row) => row.attempt_id);
      expect(open().filter((id) => id.startsWith(`${holder}-`))).toHaveLength(1);
      const [before] = open();
      // Its pod was to be kept as well.
      const line = { requestId: holder, prNumber: null, authorId: null, micros: 500_000, at: 0 };
      store.reserveMoney({ ...line, attemptId: `${before}-keep` });
      pass(3);
      for (let times = 0; times < 20 && store.lock().holder === holder; times += 1) {
        await gate.releaseParked(word("release", holder));
        await work(1);
      }
      expect(store.lock().holder).not.toBe(holder);
      expect(open().filter((id) => id.startsWith(`${holder}-`))).toEqual([]);
      const spent = sql.exec(`SELECT state FROM money WHERE attempt_id = ? AND micros > 0`, before ?? "");
      expect(spent).toEqual(name.startsWith("executing") ? [{ state: "spent" }] : []);
    },
  );

  it("books what its pod has cost that was proven gone before anybody could settle it", async () => {
    const { gate, store, holder, podId, pass, work, pods, rented, sql } = stuck();
    pods.delete(podId);
    const price = { pricePerHour: 1.2, estimateMicros: 400_000, outcome: "passed" };
    store.ledger({ kind: "close", attemptId: rented.id, podId, closedAt: 2, provenAt: 2, ...price }, holder);
    pass(3);
    for (let times = 0; times < 20 && store.lock().holder === holder; times += 1) {
      await gate.releaseParked(word("release", holder));
      await work(1);
    }
    expect(store.lock().holder).not.toBe(holder);
    const spent = sql.exec(`SELECT state, micros FROM money WHERE attempt_id = ?`, rented.id);
    expect(spent).toEqual([{ state: "spent", micros: 400_000 }]);
  });

  it("keeps it while the list is not whole, and while a pod under its name may not show yet", async () => {
    const { gate, store, holder, podId, pass, pods, rented, cut } = stuck();
    expect((await gate.releaseParked(word("release", holder))).detail).toContain("does not show yet");
    pass(3);
    cut.lists = true;
    expect((await gate.releaseParked(word("release", holder))).detail).toContain("could not be read whole");
    cut.lists = false;
    // Its own pod is another's by now, and one that the ledger has never seen has the name of its attempt.
    pods.delete(podId);
    store.ledger(
      {
        kind: "close",
        attemptId: rented.id,
        podId,
        closedAt: 1,
        provenAt: 1,
        pricePerHour: 1,
        estimateMicros: 1,
        outcome: "",
      },
      holder,
    );
    pods.set("late", { ...rentAgain(rented.podName), id: "late" });
    expect((await gate.releaseParked(word("release", holder))).detail).toContain("late");
    expect(store.stray("late")).not.toBeNull();
    expect(store.lock().holder).toBe(holder);
  });
});

function rentAgain(name: string): Pod {
  const parsed = parsePod({ id: "late", name, status: "RUNNING", createdAt: "2026-11-30T12:00:00Z", env: {} });
  if (!parsed.ok) throw new Error(parsed.what);
  return parsed.pod;
}
