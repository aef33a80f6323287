/**
 * The check said "deletion unproven", and the real verdict is known later: a new check run, but only for the request that was
 * opened last for its commit, of whatever kind.
 */
import { expect, it, describe } from "vitest";
import type { CheckRun } from "../../shared/github/checks.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import { verdict } from "../../shared/lifecycle/verdict.ts";
import { err, ok } from "../../shared/result.ts";
import type { GatePorts } from "../../durable-objects/gate/ports.ts";
import { FINISH, publishCheck } from "../../durable-objects/gate/publish.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import { HEAD, requestIn, states, T0 } from "../lifecycle/fixtures.ts";
import { nodeSql } from "../support/node-sql.ts";

const SAID = { series: 0, checkRunId: "5", published: "x", completed: true, saidUnproven: true, mayHaveTwins: false };

/** A publisher at a request whose check said "deletion unproven" and whose verdict is known by now. */
function publisher(mayCreate: () => boolean = () => true, whose: Partial<GateRequest> = {}) {
  const sql = nodeSql();
  migrate(sql);
  const store = new Store(sql);
  store.rememberRepository({ id: "101", owner: "o", name: "n" }, null);
  const concluded = { kind: "concluded", at: T0 + 9_000, verdict: verdict("passed", "tests-passed", "x") } as const;
  store.saveRequest(requestIn(concluded, { check: SAID, ...whose }));
  const runs: Pick<CheckRun, "id" | "externalId" | "status">[] = [{ id: "5", externalId: "r1:0", status: "completed" }];
  const made: string[] = [];
  const ended: string[] = [];
  const github = {
    createCheckRun: async ({ externalId = "" }) => {
      made.push(externalId);
      runs.push({ id: String(runs.length + 5), externalId, status: "in_progress" });
      if (!mayCreate()) return err({ reason: "transport", timeout: true });
      return ok({ id: runs.at(-1)?.id ?? "" });
    },
    updateCheckRun: async (id: string) => (ended.push(id), ok({ id })),
    listCheckRunsForRef: async () => ok({ items: runs, complete: true }),
  } as unknown as GitHubClient;
  const ports = { sql, clock: { now: () => T0 + 10_000 }, appId: "1", publicUrl: "" } as unknown as GatePorts;
  const queueInfo = () => ({ place: null, waiting: 0, holder: null, etaMs: null });
  const perform = async (tries: number, other: Partial<GitHubClient> = {}) => {
    if (store.taskOf("check", "r1") === null) store.putTask("check", "r1", "check", {}, T0, T0);
    const task = store.taskOf("check", "r1");
    if (task === null) throw new Error("the task must be there");
    await publishCheck(
      { ...task, tries },
      { ports, store, github: { ...github, ...other }, queueInfo },
      () => undefined,
    );
  };
  const open = (change: Partial<GateRequest>) => store.saveRequest(requestIn(states.queued(), { id: "r2", ...change }));
  const acts = () => store.auditAfter(0, 100).map((row) => `${row.request_id ?? ""} ${row.act}`);
  return { store, made, ended, perform, open, acts, check: () => store.request("r1")?.check };
}

describe("the real verdict", () => {
  it("is a new check run, the next of its series", async () => {
    const one = publisher();
    await one.perform(1);
    expect(one.made).toEqual(["r1:1"]);
    expect(one.check()).toMatchObject({ series: 1, checkRunId: "6", completed: true });
  });

  it.each([
    ["of the same kind", { generation: 2 }],
    ["that validates a commit", { kind: "validation", revision: "f".repeat(40) }],
    ["that recovers the pull request", { kind: "recovery" }],
    ["of a merge group", { kind: "merge-group", prNumber: null }],
  ] as const)("is none where the commit has a newer request %s, and the audit says so once", async (_, newer) => {
    const one = publisher();
    one.open({ openedAt: T0 + 5_000, ...newer });
    await one.perform(1);
    expect([one.made, one.ended, one.store.taskOf("check", "r1")]).toEqual([[], [], null]);
    await one.perform(1);
    expect(one.acts()).toEqual(["r1 check.overtaken"]);
    expect(one.check()).toMatchObject({ series: 0, checkRunId: "5", completed: true });
  });

  it("is one above an older request of another kind", async () => {
    const one = publisher();
    one.open({ openedAt: T0 - 5_000, kind: "validation", revision: "f".repeat(40) });
    await one.perform(1);
    expect(one.made).toEqual(["r1:1"]);
  });

  it("of a merge group is one whoever has opened a pull request at its commit since", async () => {
    const one = publisher(() => true, { kind: "merge-group", prNumber: null });
    one.open({ openedAt: T0 + 5_000 });
    await one.perform(1);
    expect(one.made).toEqual(["r1:1"]);
  });

  it("is not tried again once a newer request was opened: what a lost try has made is ended", async () => {
    let reached = false;
    const one = publisher(() => reached);
    await one.perform(1);
    expect(one.made).toEqual(["r1:1"]);
    reached = true;
    one.open({ openedAt: T0 + 9_500, kind: "validation", revision: "f".repeat(40) });
    await one.perform(2);
    expect([one.made, one.store.taskOf("check", "r1")?.kind]).toEqual([["r1:1"], FINISH]);
    await one.perform(1);
    expect(one.ended).toEqual(["6"]);
    expect(one.check()).toMatchObject({ series: 1, checkRunId: "6", completed: true });
  });
});

describe("a word about a commit whose merge group has had its answer", () => {
  const group = { headRef: "refs/heads/gh-readonly-queue/main/pr-7-abc", baseSha: "b".repeat(40), baseRef: "main" };
  const over = { kind: "concluded", at: T0, verdict: verdict("passed", "tests-passed", "x") } as const;

  function afterGroup(branch: () => unknown, answer: () => unknown) {
    const one = publisher();
    one.store.saveRequest(requestIn(over, { id: "r0", kind: "merge-group", prNumber: null, group, openedAt: T0 - 1 }));
    const fresh = { ...SAID, checkRunId: null, published: null, completed: false, saidUnproven: false };
    const request = one.store.request("r1");
    if (request !== null) one.store.saveRequest({ ...request, check: fresh });
    let made = 0;
    const github = {
      getRef: async () => branch(),
      createCheckRun: async () => ((made += 1), answer()),
      listCheckRunsForRef: async () => answer(),
    };
    return {
      ...one,
      perform: (tries: number) => one.perform(tries, github as unknown as Partial<GitHubClient>),
      made: () => made,
    };
  }

  const forbidden = err({ reason: "forbidden", acceptedPermissions: null, message: "suspended" });

  it.each([
    ["is there", ok(HEAD), forbidden],
    ["cannot be read for the moment", err({ reason: "transport", timeout: true }), ok({ id: "9" })],
  ])("waits while the queue's branch %s", async (_, branch, answer) => {
    const one = afterGroup(
      () => branch,
      () => answer,
    );
    for (const tries of [1, 12, 40]) await one.perform(tries);
    expect([one.made(), one.store.taskOf("check", "r1")?.kind]).toEqual([0, "check"]);
  });

  it("waits for a branch that the App may not read no longer than for its word, and the audit says so (I7)", async () => {
    const one = afterGroup(
      () => forbidden,
      () => forbidden,
    );
    let tries = 0;
    do {
      await one.perform((tries += 1));
    } while (one.store.taskOf("check", "r1")?.tries === tries && tries < 50);
    expect([one.acts(), one.store.taskOf("check", "r1")]).toEqual([["r1 check.unpublishable"], null]);
  });
});
