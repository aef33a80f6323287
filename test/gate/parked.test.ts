/** One stored record that does not read is parked: the others go on, its task waits, and its head is not opened twice. */
import { afterEach, describe, expect, it } from "vitest";
import { CONFIG } from "../../local/world/opening-day.ts";
import { nodeSql } from "../support/node-sql.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import { newRequest } from "../../shared/lifecycle/route.ts";
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
    const pull = repository.openPullRequest({ author: "mira", files: { "docs/a.md": "x\n" }, title: "docs" });
    await expect
      .poll(() => gate.store.requestsOfHead(pull.headSha, "pull-request")[0]?.check.completed, { timeout: 20_000 })
      .toBe(true);
    expect(gate.store.taskOf("main", "r900")?.kind).toBe("authorize");
  });
});
