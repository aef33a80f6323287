/** One cron tick in the runtime, the fleet board it leaves, and health and status page after it. RunPod is a stub. */
import {
  createExecutionContext,
  createScheduledController,
  evictDurableObject,
  reset,
  runInDurableObject,
  waitOnExecutionContext,
} from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { boardClient } from "../../durable-objects/board-client.ts";
import { ACCOUNT_NAME } from "../../durable-objects/runpod-account.ts";
import { ownershipTags, podName } from "../../shared/runpod/tags.ts";
import worker from "../../worker/index.ts";
import { BOARD } from "../worker/ports.ts";
import { deliver, inGate, pullRequest } from "./worker.ts";

interface StubPod {
  readonly id: string;
  readonly createdAt: string;
  readonly deployment: string;
}

/** What is waited for comes at once; this is for a machine that is busy with other things. */
const PATIENCE = { timeout: 20_000 };

let pods: StubPod[] = [];
let deleted: string[] = [];
let runpodDown = false;
/** A pod that RunPod does not delete. */
let stuck = "";

beforeEach(() => {
  pods = [];
  deleted = [];
  runpodDown = false;
  stuck = "";
  vi.spyOn(console, "log").mockImplementation(() => undefined);
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    // GitHub has neither deliveries nor installations, RunPod has no bills.
    if (url.pathname.startsWith("/app/")) return Response.json([]);
    if (url.pathname.startsWith("/v2/billing")) return Response.json({ records: [] });
    if (url.host !== "runpod.test" || runpodDown) return new Response("not here", { status: 599 });
    const id = /^\/v2\/pods\/(\w+)$/.exec(url.pathname)?.[1];
    if (init?.method === "DELETE" && id !== undefined) {
      if (id === stuck) return new Response("not now", { status: 500 });
      deleted.push(id);
      pods = pods.filter((one) => one.id !== id);
      return new Response(null, { status: 204 });
    }
    return Response.json({ pods: pods.map(shown), pagination: { nextCursor: null, hasNextPage: false } });
  });
});

afterEach(async () => {
  vi.restoreAllMocks();
  await reset();
});

function shown({ id, createdAt, deployment }: StubPod) {
  const owner = { deployment, repositoryId: "101", requestId: "r9", attemptId: `a-${id}`, runId: "900", keep: "false" };
  return { id, name: podName(owner), status: "RUNNING", createdAt, env: ownershipTags(owner) };
}

function pod(id: string, ageMs: number, deployment = "gpu-gate"): StubPod {
  return { id, createdAt: new Date(Date.now() - ageMs).toISOString(), deployment };
}

async function tick(change: Partial<Env> = {}): Promise<void> {
  const context = createExecutionContext();
  const controller = createScheduledController({ cron: "* * * * *", scheduledTime: new Date() });
  await worker.scheduled(controller, { ...env, ...change });
  await waitOnExecutionContext(context);
}

async function get(path: string): Promise<Response> {
  return exports.default.fetch(new Request(`https://gate.test${path}`));
}

describe("a cron tick", () => {
  it("leaves a board that outlives its object, and makes health warn no more", async () => {
    expect(await (await get("/healthz")).json()).toMatchObject({
      ok: true,
      warnings: ["Cron has not run yet in this deployment."],
    });
    pods = [pod("theirs", 60_000, "another")];
    await tick();
    await evictDurableObject(env.FLEET_BOARD.getByName("fleet"));
    const read = await boardClient(env.FLEET_BOARD).read();
    expect(read).toMatchObject({
      ok: true,
      value: {
        gates: [{ id: "101", answered: true, open: 0, overdue: 0 }],
        pods: { listed: 1, own: 0, otherDeployments: 1 },
        problems: [],
      },
    });
    expect(await (await get("/healthz")).json()).toMatchObject({ ok: true, problems: [], warnings: [] });
  });

  it("deletes a pod beyond the backstop, and leaves another deployment's of the same age", async () => {
    pods = [pod("mine", 7_300_000), pod("theirs", 7_300_000, "another")];
    await tick();
    await vi.waitFor(() => expect(deleted).toEqual(["mine"]), PATIENCE);
    expect(pods.map((left) => left.id)).toEqual(["theirs"]);
    expect(await inGate("SELECT pod_id, why FROM strays")).toEqual([{ pod_id: "mine", why: "reap-backstop" }]);
  });

  it("remembers a suspicion between ticks, and reaps at the second sight a cycle later", async () => {
    pods = [pod("orphan", 60_000)];
    await tick();
    expect(await inGate("SELECT pod_id FROM strays")).toEqual([]);
    // A cycle passes: the suspicion is as old as the next tick wants it.
    await runInDurableObject(env.RUNPOD_ACCOUNT.getByName(ACCOUNT_NAME), (_account, state) => {
      const old = JSON.stringify({ orphan: { suspicion: "unknown-pod", firstSeenAt: Date.now() - 60_000 } });
      state.storage.sql.exec("UPDATE meta SET value = ? WHERE key = 'sweep_observations'", old);
    });
    await tick();
    expect(await inGate("SELECT pod_id, why FROM strays")).toEqual([{ pod_id: "orphan", why: "reap-unknown-pod" }]);
    await vi.waitFor(() => expect(deleted).toEqual(["orphan"]), PATIENCE);
  });

  it("says what it could not see when RunPod is down, and still visits the gates", async () => {
    runpodDown = true;
    await tick();
    const read = await boardClient(env.FLEET_BOARD).read();
    expect(read).toMatchObject({ ok: true, value: { pods: null, gates: [{ id: "101", answered: true }] } });
    expect(JSON.stringify(read)).toContain("No list from RunPod");
  });
});

describe("a deployment whose configuration does not read", () => {
  it.each<[string, Partial<Env>]>([
    ["a secret is missing", { GITHUB_WEBHOOK_SECRET: "" }],
    ["its limits are no JSON", { DEPLOYMENT_LIMITS: "{per_month: 1" }],
    ["an address is none", { OIDC_ISSUER_URL: "tomorrow" }],
  ])("I3: still deletes its own pods beyond the backstop: %s", async (_what, change) => {
    pods = [pod("mine", 7_300_000), pod("young", 60_000), pod("theirs", 7_300_000, "another")];
    await tick(change);
    expect(deleted).toEqual(["mine"]);
    // No object was asked: none of them starts.
    expect(await boardClient(env.FLEET_BOARD).read()).toEqual({ ok: true, value: null });
  });

  it("touches nothing where the key, or whose pods they are, is what does not read", async () => {
    pods = [pod("mine", 7_300_000)];
    await tick({ RUNPOD_API_KEY: "" });
    await tick({ DEPLOYMENT: "GPU gate" });
    expect(deleted).toEqual([]);
  });

  it("goes on after a pod that RunPod does not delete, and after a list that it does not give", async () => {
    const broken = { GITHUB_WEBHOOK_SECRET: "" };
    pods = [pod("stuck", 7_300_000), pod("mine", 7_300_000)];
    runpodDown = true;
    await tick(broken);
    expect(deleted).toEqual([]);
    runpodDown = false;
    stuck = "stuck";
    await tick(broken);
    expect(deleted).toEqual(["mine"]);
  });
});

describe("the fleet board", () => {
  it("stores non-ASCII text as it is", async () => {
    const board = boardClient(env.FLEET_BOARD);
    expect(await board.read()).toEqual({ ok: true, value: null });
    await board.write({ ...BOARD, problems: ["Läuft nicht \u2028 🦀"] });
    expect(await board.read()).toEqual({ ok: true, value: { ...BOARD, problems: ["Läuft nicht \u2028 🦀"] } });
  });

  it.each(["destroy", "reset", "persist", "setAlarm", "toJSON", "constructor"])(
    "has no call %s, and is unharmed by it",
    async (name) => {
      const board = boardClient(env.FLEET_BOARD);
      await board.write(BOARD);
      const stub = env.FLEET_BOARD.getByName("fleet");
      const answer = await stub.fetch(`https://board.test/do/call/${name}`, { headers: { "do-content": "[]" } });
      expect(answer.status).toBe(404);
      expect(await board.read()).toEqual({ ok: true, value: BOARD });
    },
  );

  it("holds no secret of the environment", async () => {
    await boardClient(env.FLEET_BOARD).write(BOARD);
    const kept = await runInDurableObject(env.FLEET_BOARD.getByName("fleet"), async (board, state) => [
      JSON.stringify(Object.keys((board as unknown as { state: object }).state)),
      JSON.stringify([...(await state.storage.list())]),
    ]);
    expect(kept.join(" ")).not.toMatch(/SECRET|KEY|test-runpod-key/);
  });
});

describe("the page after a delivery and a tick", () => {
  it("shows the repository's open request, and no secret", async () => {
    await deliver(JSON.stringify(pullRequest()));
    await tick();
    const text = await (await get("/")).text();
    expect(text).toContain("octo/engine");
    expect(text).toContain("/octo/engine/pull/7");
    const status = await get("/api/status");
    const json = await status.text();
    expect(json).toContain('"repository":"octo/engine"');
    for (const secret of [env.GITHUB_WEBHOOK_SECRET, env.RUNPOD_API_KEY, env.GITHUB_APP_PRIVATE_KEY]) {
      expect(text).not.toContain(secret);
      expect(json).not.toContain(secret);
    }
  });
});
