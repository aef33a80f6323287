/** A green waits for the word that is to stand over it, half a minute at most: then GitHub may be silent for hours. */
import { describe, expect, it } from "vitest";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import { verdict } from "../../shared/lifecycle/verdict.ts";
import { ok } from "../../shared/result.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import type { GatePorts } from "../../durable-objects/gate/ports.ts";
import { COMPARED_AT, publishCheck } from "../../durable-objects/gate/publish.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import { requestIn, T0 } from "../lifecycle/fixtures.ts";
import { nodeSql } from "../support/node-sql.ts";

const PASSED = verdict("passed", "tests-passed", "x");
const REFUSED = verdict("refused", "author-not-permitted", "x");
const WAITS_MS = 30_000;

const check = (checkRunId: string | null, completed: boolean) => ({
  series: 0,
  checkRunId,
  published: null,
  completed,
  saidUnproven: false,
  mayHaveTwins: false,
});
const ended = (at: number, word: typeof PASSED, more: Partial<GateRequest>): GateRequest =>
  requestIn({ kind: "concluded", at, verdict: word }, more);

/** Pull request 7 passed at T0; 8, for another base, was refused before it. Looked at `after` its end. */
async function saidAfter(after: number, change: (store: Store) => void = () => undefined): Promise<boolean> {
  const sql = nodeSql();
  migrate(sql);
  const store = new Store(sql);
  store.rememberRepository({ id: "101", owner: "o", name: "n" }, null);
  const refused = { id: "r1", prNumber: 8, baseRef: "next", admission: null, openedAt: T0 - 2_000 };
  store.saveRequest(ended(T0 - 1_000, REFUSED, { ...refused, check: check("4", true) }));
  const passed = { id: "r2", prNumber: 7, generation: 2, openedAt: T0 - 500, check: check("5", false) };
  store.saveRequest(ended(T0, PASSED, passed));
  change(store);
  const task = store.task(store.putTask("check", "r2", "check", {}, T0, T0));
  if (task === null) throw new Error("the task must be there");
  let said = false;
  const github = {
    updateCheckRun: async (id: string) => ((said = true), ok({ id })),
    createCheckRun: async () => ((said = true), ok({ id: "6" })),
  } as unknown as GitHubClient;
  const ports = { sql, clock: { now: () => T0 + after }, appId: "1", publicUrl: "" } as unknown as GatePorts;
  const queueInfo = () => ({ place: null, waiting: 0, holder: null, etaMs: null });
  await publishCheck(task, { ports, store, github, queueInfo }, () => undefined);
  if (!said) expect(store.taskOf("check", "r2")?.dueAt).toBe(T0 + after + 300);
  return said;
}

describe("a green at a commit with another pull request's refusal", () => {
  it("waits while nobody has compared with GitHub since, and half a minute at most", async () => {
    expect(await saidAfter(0)).toBe(false);
    expect(await saidAfter(WAITS_MS - 1)).toBe(false);
    expect(await saidAfter(WAITS_MS)).toBe(true);
  });

  it("is said once GitHub was compared with after its end", async () => {
    expect(await saidAfter(1_000, (store) => store.setMeta(COMPARED_AT, String(T0 - 1)))).toBe(false);
    expect(await saidAfter(1_000, (store) => store.setMeta(COMPARED_AT, String(T0)))).toBe(true);
  });

  it("waits for the check run of what the comparison opened", async () => {
    const compared = (checkRunId: string | null) => (store: Store) => {
      store.setMeta(COMPARED_AT, String(T0));
      const newer = { id: "r3", prNumber: 8, baseRef: "next", generation: 3, openedAt: T0 + 100, admission: null };
      store.saveRequest(ended(T0 + 100, REFUSED, { ...newer, check: check(checkRunId, false) }));
    };
    expect(await saidAfter(1_000, compared(null))).toBe(false);
    expect(await saidAfter(1_000, compared("6"))).toBe(true);
    expect(await saidAfter(WAITS_MS, compared(null))).toBe(true);
  });

  it("without a check run of its own it does not wait: it would come to stand over that word", async () => {
    const unmade = (store: Store): void => {
      const request = store.request("r2");
      if (request !== null) store.saveRequest({ ...request, check: check(null, false) });
    };
    expect(await saidAfter(0, unmade)).toBe(true);
  });

  it("does not wait where there is no other, or the other had left", async () => {
    const other = (word: typeof PASSED | null) => (store: Store) => {
      const request = store.request("r1");
      if (request === null) return;
      if (word === null) store.saveRequest({ ...request, prNumber: 7 });
      else store.saveRequest({ ...request, state: { kind: "concluded", at: T0 - 1_000, verdict: word } });
    };
    expect(await saidAfter(0, other(null))).toBe(true);
    expect(await saidAfter(0, other(verdict("superseded", "head-moved", "x")))).toBe(true);
    expect(await saidAfter(0, other(verdict("closed", "closed", "x")))).toBe(true);
  });
});
