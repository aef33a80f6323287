/** What is asked of the vendors when many pods run at once: each saving that the load run showed to be needed. */
import { describe, expect, it } from "vitest";
import { Account } from "../../durable-objects/account/account.ts";
import { watchedSince } from "../../durable-objects/gate/observe.ts";
import { publishDue } from "../../durable-objects/gate/publish.ts";
import { RateLimit } from "../../local/github/rate-limit.ts";
import { createEtagCache } from "../../shared/github/etag.ts";
import type { CheckView } from "../../shared/lifecycle/check-view.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import { createRunPodClient } from "../../shared/runpod/client.ts";
import { probeBody } from "../../shared/runpod/create-body.ts";
import { DeletionReserve } from "../../shared/runpod/reserve.ts";
import { busiestMinute, installationHour } from "../../bench/load/quotas.ts";
import { json, REPOSITORY, stubApp, stubGitHub, T0 } from "../github/stub.ts";
import { nodeSql } from "../support/node-sql.ts";

const POLICY = '"minute";q=60;w=60, "hour";q=3000;w=3600';
const windows = (minute: number, hour: number) => ({
  RateLimit: `"minute";r=${minute};t=40, "hour";r=${hour};t=1800`,
  "RateLimit-Policy": POLICY,
});

describe("the reserve for deletions", () => {
  it("holds the rest back once the minute has only that left, until the minute is over", () => {
    const reserve = new DeletionReserve();
    reserve.hear(windows(20, 2_000), 0);
    expect(reserve.wait(0)).toBeNull();
    reserve.hear(windows(19, 2_000), 0);
    expect(reserve.wait(10_000)).toBe(30_000);
    expect(reserve.wait(40_000)).toBeNull();
  });

  it("keeps as much as there are pods of ours whose jobs may end together, and never all", () => {
    const reserve = new DeletionReserve();
    reserve.expect(35);
    reserve.hear(windows(35, 2_000), 0);
    expect(reserve.wait(0)).toBeNull();
    reserve.hear(windows(34, 2_000), 0);
    expect(reserve.wait(0)).toBe(40_000);
    reserve.expect(500);
    reserve.hear(windows(40, 2_500), 0);
    expect(reserve.wait(0)).toBeNull();
  });

  it("is open to the reaper's list, but for one request for each pod: an hour's quota may be short for an hour", () => {
    const reserve = new DeletionReserve();
    reserve.expect(3);
    reserve.hear(windows(60, 3), 0);
    expect(reserve.wait(0)).toBe(1_800_000);
    expect(reserve.wait(0, true)).toBeNull();
    reserve.hear(windows(60, 2), 0);
    expect(reserve.wait(0, true)).toBe(1_800_000);
  });

  it("waits for the longest window, and takes no more than a third of a small quota", () => {
    const reserve = new DeletionReserve();
    reserve.hear(windows(0, 3), 0);
    expect(reserve.wait(0)).toBe(1_800_000);
    const small = new DeletionReserve();
    small.hear({ RateLimit: '"minute";r=3;t=40', "RateLimit-Policy": '"minute";q=9;w=60' }, 0);
    expect(small.wait(0)).toBeNull();
  });

  it("holds back reads alone: never a DELETE, nor a create whose minute would run out", async () => {
    const asked: string[] = [];
    const client = createRunPodClient({
      apiKey: "k",
      baseUrl: "https://runpod.test",
      graphqlUrl: "https://runpod.test/graphql",
      userAgent: "gpu-gate-test",
      clock: { now: () => T0 },
      fetch: (_url, init) => {
        asked.push(init?.method ?? "GET");
        if (init?.method === "DELETE")
          return Promise.resolve(new Response(null, { status: 204, headers: windows(4, 9) }));
        return Promise.resolve(Response.json({ pods: [] }, { headers: windows(5, 2_000) }));
      },
    });
    expect(await client.listPods()).toMatchObject({ ok: true });
    expect(await client.listPods()).toMatchObject({
      ok: false,
      error: { reason: "rate-limited", retryAfterMs: 40_000 },
    });
    expect(await client.getPod("pod1")).toMatchObject({ kind: "failure", failure: { reason: "rate-limited" } });
    expect(await client.deletePod("pod1")).toEqual({ kind: "deleted" });
    const body = probeBody("NVIDIA L4", { kind: "allowed", versions: ["12.8"] });
    expect(await client.createPod(body, { timeoutMs: 1_000 })).not.toMatchObject({ kind: "rate-limited" });
    expect(asked).toEqual(["GET", "DELETE", "POST"]);
    expect(await client.listPods({ forDeletion: true })).toMatchObject({ ok: true });
  });
});

describe("one list of pods for all gates", () => {
  function rig() {
    const clock = { at: T0, now: () => clock.at };
    const runpod = createRunPodClient({
      apiKey: "k",
      baseUrl: "https://runpod.test",
      graphqlUrl: "https://runpod.test/graphql",
      userAgent: "gpu-gate-test",
      clock,
      fetch: () => Promise.resolve(Response.json({ pods: [] })),
    });
    return { clock, account: new Account({ sql: nodeSql(), clock, runpod, monthlyCapMicros: 0 }) };
  }

  it("serves fifty gates that look at their own instants with twelve lists a minute", async () => {
    const { clock, account } = rig();
    const dues = Array.from({ length: 50 * 12 }, (_, look) => T0 + look * 100);
    for (const due of dues) {
      clock.at = due;
      await account.listPods(watchedSince(due, 5_000));
    }
    expect(account.listsMade).toBeLessThanOrEqual(13);
  });

  it("never proves an absence with a list from before it was asked for", async () => {
    const { clock, account } = rig();
    await account.listPods(watchedSince(T0, 5_000));
    clock.at = T0 + 1;
    const answer = await account.listPods(T0 + 1);
    expect(answer).toMatchObject({ ok: true, value: { startedAt: T0 + 1 } });
  });
});

describe("conditional requests", () => {
  const entry = (text: string) => ({ etag: text.slice(0, 5), text, link: null });

  it("are remembered for a round of polls of fifty pods and two hundred repositories", () => {
    const cache = createEtagCache();
    const paths = Array.from({ length: 800 }, (_, index) => `path ${index}`);
    for (const path of paths) cache.set(path, entry("x".repeat(10_000)));
    expect(paths.filter((path) => cache.get(path) === undefined)).toEqual([]);
  });

  it("are forgotten, oldest first, where they would take too much memory", () => {
    const cache = createEtagCache(100, 1_000);
    for (const key of ["a", "b", "c"]) cache.set(key, entry(key.repeat(400)));
    expect(["a", "b", "c"].map((key) => cache.get(key) !== undefined)).toEqual([false, true, true]);
    cache.set("c", entry("c"));
    cache.set("d", entry("d".repeat(500)));
    expect(["b", "c", "d"].map((key) => cache.get(key) !== undefined)).toEqual([true, true, true]);
  });
});

describe("a rate limit of GitHub's", () => {
  it("is obeyed by every repository of the installation until its time, and by no other installation", async () => {
    const clock = { at: T0, now: () => clock.at };
    const stub = stubGitHub({
      "GET /repos/octo/engine": (_call, nth) =>
        nth === 1
          ? json({ message: "secondary rate limit" }, { status: 403, headers: { "retry-after": "60" } })
          : json({}),
      "GET /repos/octo/other": () => json({}),
      "POST /app/installations/78/access_tokens": () => json({ token: "t", expires_at: "2026-11-30T13:00:00Z" }),
    });
    const app = stubApp(stub, { deps: { clock } });
    const ask = (name: string, id: string, installationId: string) =>
      app.asRepository(
        { ...REPOSITORY, id, name, installationId },
        { operation: "getRepository", method: "GET", path: `/repos/octo/${name}` },
      );
    const limited = { ok: false, error: { reason: "rate-limited", retryAtMs: T0 + 60_000 } };
    expect(await ask("engine", "101", "77")).toMatchObject(limited);
    expect(await ask("other", "102", "77")).toMatchObject(limited);
    expect(stub.calls("GET /repos/octo/other")).toHaveLength(0);
    expect(await ask("other", "103", "78")).toMatchObject({ ok: true });
    clock.at = T0 + 60_000;
    expect(await ask("other", "102", "77")).toMatchObject({ ok: true });
  });
});

describe("words of a check", () => {
  const request = (writtenAt: number | undefined) => ({ check: { writtenAt } }) as unknown as GateRequest;
  const view = (status: string) => ({ status }) as unknown as CheckView;

  it("that lie between the first and the last keep a pace; those two do not wait", () => {
    expect(publishDue(request(undefined), view("queued"), T0)).toBe(T0);
    expect(publishDue(request(T0 - 1_000), view("in_progress"), T0)).toBe(T0 + 4_000);
    expect(publishDue(request(T0 - 9_000), view("in_progress"), T0)).toBe(T0);
    expect(publishDue(request(T0 - 1_000), view("completed"), T0)).toBe(T0);
    expect(publishDue(request(T0 + 99_000), view("in_progress"), T0)).toBe(T0);
  });
});

describe("the load run's own measures", () => {
  it("refuse the points that GitHub would refuse: five for a write, one for a read, by endpoint and minute", () => {
    const clock = { at: 0, now: () => clock.at };
    const limit = new RateLimit(clock);
    const writes = (count: number) => Array.from({ length: count }, () => limit.spend("i", "checks/update", "PATCH"));
    writes(500);
    limit.secondary = true;
    writes(180);
    expect(() => writes(1)).toThrow(/secondary rate limit/);
    limit.spend("i", "checks/get", "GET");
    clock.at = 60_000;
    writes(1);
  });

  it("count the busiest sixty seconds wherever they begin", () => {
    const at = (second: number) => ({ at: second * 1_000, weight: 1 });
    expect(busiestMinute([at(0), at(50), at(70), at(109), at(110), at(300)])).toBe(3);
    expect([10, 50, 200].map(installationHour)).toEqual([5_000, 6_500, 12_500]);
  });
});
