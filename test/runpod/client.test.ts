import { describe, expect, test } from "vitest";
import type { FetchLike } from "../../shared/ports.ts";
import { createRunPodClient } from "../../shared/runpod/client.ts";
import type { RunPodCall, RunPodClient } from "../../shared/runpod/client.ts";
import { buildCreateBody } from "../../shared/runpod/create-body.ts";

const KEY = "rpa_key-canary-0123456789";
const BASE = "https://runpod.test";
const NOW = Date.UTC(2026, 10, 30, 12);

interface Sent {
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly body: string | null;
  readonly redirect: string | undefined;
}

type Reply = Response | Error | ((sent: Sent) => Response);

function json(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return Response.json(body, { status, headers });
}

function problem(status: number, detail: string): Response {
  return json({ title: "x", status, detail }, status, { "content-type": "application/problem+json" });
}

/** A client whose network answers from a list, and everything it sent. An answer too many is a failed test. */
function rig(...replies: readonly Reply[]): {
  client: RunPodClient;
  sent: Sent[];
  calls: RunPodCall[];
  clock: { at: number };
} {
  const sent: Sent[] = [];
  const calls: RunPodCall[] = [];
  const clock = { at: NOW };
  const fetch: FetchLike = (url, init) => {
    const request = {
      url,
      method: init?.method ?? "GET",
      headers: new Headers(init?.headers),
      body: typeof init?.body === "string" ? init.body : null,
      redirect: init?.redirect,
    };
    sent.push(request);
    clock.at += 100;
    const reply = replies[sent.length - 1];
    if (reply === undefined) throw new Error("unexpected request");
    if (reply instanceof Error) return Promise.reject(reply);
    return Promise.resolve(typeof reply === "function" ? reply(request) : reply);
  };
  const client = createRunPodClient({
    apiKey: KEY,
    baseUrl: BASE,
    graphqlUrl: `${BASE}/graphql`,
    fetch,
    clock: { now: () => clock.at },
    userAgent: "gpu-gate-test",
    onCall: (call) => calls.push(call),
  });
  return { client, sent, calls, clock };
}

const BODY = (() => {
  const built = buildCreateBody({
    name: "gpu-gate-acme-a-1",
    image: `images.test/x@sha256:${"a".repeat(64)}`,
    gpuId: "NVIDIA L4",
    cuda: { kind: "min", version: "12.6" },
    diskGb: 100,
    entrypoint: ["bash", "-c"],
    cmd: ["echo script-canary"],
    env: {
      jitConfig: "jit-canary",
      proofNonce: "proof-canary",
      exitNonce: "exit-canary",
      controlUrl: "https://gate.test",
      owner: { deployment: "acme", repositoryId: "1", requestId: "r", attemptId: "a-1", runId: "2", keep: "false" },
      facts: {},
    },
  });
  if (!built.ok) throw new Error(built.error.reason);
  return built.value;
})();

const pod = (id: string, more: object = {}): object => ({
  id,
  name: `name-${id}`,
  status: "RUNNING",
  env: {},
  ...more,
});
const timeout = Object.assign(new Error(`timed out: ${BASE}?key=${KEY}`), { name: "TimeoutError" });

describe("every call", () => {
  const all: readonly (readonly [string, (client: RunPodClient) => Promise<unknown>])[] = [
    ["createPod", (client) => client.createPod(BODY, { timeoutMs: 1000 })],
    ["listPods", (client) => client.listPods()],
    ["getPod", (client) => client.getPod("p1")],
    ["deletePod", (client) => client.deletePod("p1")],
    ["getPodLogs", (client) => client.getPodLogs("p1")],
    ["catalogGpus", (client) => client.catalogGpus()],
    ["openApiDocument", (client) => client.openApiDocument()],
    ["publicPrices", (client) => client.publicPrices()],
    ["billingPods", (client) => client.billingPods({ startMs: NOW, endMs: NOW })],
    ["balance", (client) => client.balance()],
  ];
  const withoutKey = new Set(["openApiDocument", "publicPrices"]);

  test.each(all)("N123: %s has the key in the Authorization header only, or not at all", async (operation, call) => {
    const { client, sent } = rig(problem(500, "x"));
    await call(client);
    const [request] = sent;
    expect(request?.headers.get("authorization")).toBe(withoutKey.has(operation) ? null : `Bearer ${KEY}`);
    const { headers: _headers, ...rest } = request ?? { headers: null };
    expect(JSON.stringify(rest)).not.toContain(KEY);
  });

  test.each(all)("quirk 21: %s says who we are", async (_operation, call) => {
    const { client, sent } = rig(problem(500, "x"));
    await call(client);
    expect(sent[0]?.headers.get("user-agent")).toBe("gpu-gate-test");
  });

  test.each(all)("N151: whatever %s is answered, no secret comes back out of it", async (_operation, call) => {
    const echo = `${KEY} jit-canary proof-canary exit-canary script-canary`;
    const replies = [
      new Response(echo, { status: 400 }),
      problem(422, echo),
      problem(403, echo),
      new Response(echo, { status: 200 }),
      json({ error: echo }, 400),
      Object.assign(new Error(echo)),
    ];
    for (const reply of replies) {
      const { client, calls } = rig(reply);
      const shown = JSON.stringify([await call(client), calls]);
      expect(shown).not.toContain(KEY);
    }
  });

  test("N151: a create that is quoted back shows neither JIT config nor nonces", async () => {
    const { client } = rig((sent) => problem(422, `cannot use ${sent.body ?? ""}`));
    const shown = JSON.stringify(await client.createPod(BODY, { timeoutMs: 1000 }));
    for (const secret of ["jit-canary", "proof-canary", "exit-canary", "script-canary"])
      expect(shown).not.toContain(secret);
  });

  test("is told to the observer with its times, its request id and the quota, and without a URL", async () => {
    const headers = { "x-request-id": "req-7", ratelimit: '"minute";r=3;t=12' };
    const { client, calls } = rig(json({ pods: [] }, 200, headers));
    await client.listPods();
    expect(calls).toEqual([
      {
        operation: "listPods",
        method: "GET",
        status: 200,
        outcome: "answered",
        startedAtMs: NOW,
        durationMs: 100,
        requestId: "req-7",
        windows: [{ name: "minute", remaining: 3, resetsInMs: 12_000 }],
      },
    ]);
  });

  test("a redirect is not followed: it would carry the key away", async () => {
    const { client, sent } = rig(new Response(null, { status: 302, headers: { location: "https://evil.test/" } }));
    expect(await client.getPod("p1")).toMatchObject({ kind: "failure", failure: { reason: "invalid", status: 302 } });
    expect(sent.map((one) => one.redirect)).toEqual(["manual"]);
  });
});

test.each([BASE, `${BASE}/`, `${BASE}/v2`, `${BASE}/v2/`])("the base URL may be written as %s", async (baseUrl) => {
  const asked: string[] = [];
  const fetch: FetchLike = (url) => {
    asked.push(url);
    return Promise.resolve(json({ gpus: [] }));
  };
  const clock = { now: () => NOW };
  const client = createRunPodClient({ apiKey: KEY, baseUrl, graphqlUrl: "", fetch, clock, userAgent: "x" });
  await client.catalogGpus();
  expect(asked[0]).toMatch(/^https:\/\/runpod\.test\/v2\/catalog\/gpus\?/);
});

describe("createPod", () => {
  test("sends the body as it is, and gives the pod", async () => {
    const { client, sent } = rig(json(pod("p1", { status: "PROVISIONING" }), 201));
    expect(await client.createPod(BODY, { timeoutMs: 1000 })).toMatchObject({ kind: "created", pod: { id: "p1" } });
    expect(sent[0]).toMatchObject({ method: "POST", url: `${BASE}/v2/pods`, body: JSON.stringify(BODY) });
  });

  test("N02: a time-out and a broken connection are ambiguous, and are not repeated here", async () => {
    for (const [error, why] of [
      [timeout, "timeout"],
      [new TypeError("fetch failed"), "network"],
    ] as const) {
      const { client, sent } = rig(error);
      expect(await client.createPod(BODY, { timeoutMs: 1000 })).toMatchObject({ kind: "ambiguous", why });
      expect(sent).toHaveLength(1);
    }
  });

  test("a body that breaks off while it is read is ambiguous too", async () => {
    const broken = new ReadableStream({
      start: (controller) => {
        controller.enqueue(new TextEncoder().encode('{"id":'));
        controller.error(new Error("connection reset"));
      },
    });
    const { client } = rig(new Response(broken, { status: 201 }));
    expect(await client.createPod(BODY, { timeoutMs: 1000 })).toMatchObject({ kind: "ambiguous", why: "network" });
  });
});

describe("listPods", () => {
  test("reads every page and stamps the list with the time before the first request", async () => {
    const { client, sent } = rig(
      json({ pods: [pod("a")], pagination: { nextCursor: "c/1 ", hasNextPage: true } }),
      json({ pods: [pod("b")], pagination: { nextCursor: null, hasNextPage: false } }),
    );
    const list = await client.listPods();
    expect(list).toMatchObject({ ok: true, value: { complete: true, startedAtMs: NOW, pages: 2, malformed: [] } });
    expect(list.ok && list.value.pods.map((one) => one.id)).toEqual(["a", "b"]);
    expect(new URL(sent[1]?.url ?? "").searchParams.get("cursor")).toBe("c/1 ");
  });

  test("an answer without pagination is the end", async () => {
    const { client } = rig(json({ pods: [pod("a")] }));
    expect(await client.listPods()).toMatchObject({ ok: true, value: { complete: true, pages: 1 } });
  });

  test("a later page that fails leaves what was read, and says that it is not all", async () => {
    const { client } = rig(
      json({ pods: [pod("a")], pagination: { nextCursor: "1", hasNextPage: true } }),
      problem(503, "x"),
    );
    expect(await client.listPods()).toMatchObject({
      ok: true,
      value: { pods: [{ id: "a" }], complete: false, pages: 1, failure: { reason: "upstream" } },
    });
  });

  test("a first page that fails is a failure, not an empty list", async () => {
    for (const reply of [problem(500, "x"), json({ pods: {} }), json([]), new Response("<html>")]) {
      expect((await rig(reply).client.listPods()).ok).toBe(false);
    }
  });

  test("a page that names the next one is not the end, although it does not say that there is one", async () => {
    const { client, calls } = rig(
      json({ pods: [pod("a")], pagination: { nextCursor: "1" } }),
      json({ pods: [pod("b")], pagination: { nextCursor: null } }),
    );
    const list = await client.listPods();
    expect(list).toMatchObject({ ok: true, value: { complete: true, pods: [{ id: "a" }, { id: "b" }] } });
    expect(calls).toHaveLength(2);
  });

  test.each([
    ["names no cursor", { hasNextPage: true }],
    ["names an empty cursor", { hasNextPage: true, nextCursor: "" }],
  ])("a page that promises more and %s is not the end", async (_what, pagination) => {
    const { client } = rig(json({ pods: [pod("a")], pagination }));
    expect(await client.listPods()).toMatchObject({ ok: true, value: { complete: false } });
  });

  test("a cursor that comes back does not turn for ever", async () => {
    const page = (id: string): Response =>
      json({ pods: [pod(id)], pagination: { nextCursor: "1", hasNextPage: true } });
    const { client, sent } = rig(page("a"), page("b"));
    expect(await client.listPods()).toMatchObject({ ok: true, value: { complete: false, pages: 2 } });
    expect(sent).toHaveLength(2);
  });

  test("N42: one malformed entry is reported and loses none of the others", async () => {
    const { client } = rig(json({ pods: [pod("a"), null, { name: "no id" }, pod("b", { cost: "lots" }), pod("c")] }));
    const list = await client.listPods();
    expect(list.ok && list.value.pods.map((one) => one.id)).toEqual(["a", "b", "c"]);
    expect(list.ok && list.value.malformed).toEqual([
      { id: null, what: "a pod without a readable id" },
      { id: null, what: "a pod without a readable id" },
      { id: "b", what: "unreadable: cost" },
    ]);
  });

  test("an entry without an id may be any pod, so the list proves no absence; an unreadable price does not matter", async () => {
    expect(await rig(json({ pods: [{}] })).client.listPods()).toMatchObject({ value: { complete: false } });
    expect(await rig(json({ pods: [pod("b", { cost: "x" })] })).client.listPods()).toMatchObject({
      value: { complete: true },
    });
  });

  test("a pod that moved between two pages is there once, as last seen", async () => {
    const { client } = rig(
      json({ pods: [pod("a")], pagination: { nextCursor: "1", hasNextPage: true } }),
      json({ pods: [pod("a", { status: "EXITED" })] }),
    );
    expect(await client.listPods()).toMatchObject({ value: { pods: [{ id: "a", status: "EXITED" }] } });
  });
});

describe("N06: what counts as not found", () => {
  const gone: readonly (readonly [string, () => Response, boolean])[] = [
    ["RunPod's own 404 about a pod", () => problem(404, "pod not found"), true],
    ["an unknown path", () => problem(404, "The requested path was not found."), false],
    ["a proxy's page", () => new Response("<html>404</html>", { status: 404 }), false],
    ["nothing at all", () => new Response(null, { status: 404 }), false],
    ["the retired interface", () => json({ error: "pod not found", status: 404 }, 404), false],
  ];
  test.each(gone)("%s", async (_what, reply, notFound) => {
    const kind = notFound ? "not-found" : "failure";
    expect((await rig(reply()).client.getPod("p1")).kind).toBe(kind);
    expect((await rig(reply()).client.deletePod("p1")).kind).toBe(kind);
  });
});

describe("getPod and deletePod", () => {
  test("an id is encoded into the path, and an empty one never becomes the whole collection", async () => {
    const { client, sent } = rig(new Response(null, { status: 204 }));
    expect(await client.deletePod("a/../b")).toEqual({ kind: "deleted" });
    expect(sent[0]?.url).toBe(`${BASE}/v2/pods/a%2F..%2Fb`);
    for (const id of ["", ".", ".."]) {
      await expect(rig().client.deletePod(id)).rejects.toThrow("pod id");
    }
  });

  test("quirk 28: the empty 204 of a delete is no broken answer", async () => {
    expect(await rig(new Response(null, { status: 204 })).client.deletePod("p1")).toEqual({ kind: "deleted" });
  });

  test("another pod's record does not speak for this one", async () => {
    expect(await rig(json(pod("p2"))).client.getPod("p1")).toMatchObject({
      kind: "failure",
      failure: { reason: "unreadable" },
    });
  });

  test("an unreadable success shows nothing of what it held", async () => {
    const { client } = rig(json({ id: "p2", detail: "secret-of-a-pod" }));
    expect(JSON.stringify(await client.getPod("p1"))).not.toContain("secret-of-a-pod");
  });

  test.each([
    [408, "upstream"],
    [429, "rate-limited"],
    [500, "upstream"],
    [401, "unauthorized"],
    [402, "balance"],
    [403, "forbidden"],
    [409, "conflict"],
    [410, "retired"],
    [422, "invalid"],
  ] as const)("%i is %s", async (status, reason) => {
    expect(await rig(problem(status, "x")).client.deletePod("p1")).toMatchObject({ failure: { reason, status } });
  });

  test("N18: a failure carries the request id, the wait and the windows", async () => {
    const headers = { "x-request-id": "req-1", "retry-after": "5", ratelimit: '"hour";r=0;t=60' };
    const { client } = rig(json({ title: "x", status: 429, detail: "slow down" }, 429, headers));
    expect(await client.deletePod("p1")).toEqual({
      kind: "failure",
      failure: {
        reason: "rate-limited",
        operation: "deletePod",
        status: 429,
        requestId: "req-1",
        retryAfterMs: 60_000,
        windows: [{ name: "hour", remaining: 0, resetsInMs: 60_000 }],
        details: ["slow down", "x"],
      },
    });
  });
});

describe("logs", () => {
  const event = (source: string, line: string): string =>
    `id: 1\ndata: ${JSON.stringify({ source, line, ts: "t" })}\n\n`;

  test("lines come without secrets and control characters; a piece of an event is left out", async () => {
    const text = `${event("system", "pulling")}${event("container", "\u001b[31mjit-canary\u0007 failed")}data: {"sou`;
    const { client, sent } = rig(new Response(text, { headers: { "content-type": "text/event-stream" } }));
    expect(await client.getPodLogs("p1", { tail: 20, secrets: ["jit-canary"] })).toEqual({
      ok: true,
      value: {
        lines: [
          { source: "system", line: "pulling", at: "t" },
          { source: "container", line: "[31m[redacted] failed", at: "t" },
        ],
        unreadable: 0,
      },
    });
    expect(sent[0]?.url).toBe(`${BASE}/v2/pods/p1/logs?tail=20`);
  });

  test("a stream that never ends gives what had come when time ran out", async () => {
    const endless = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode(event("container", "one"))),
      pull: () => Promise.reject(timeout),
    });
    const { client } = rig(new Response(endless));
    expect(await client.getPodLogs("p1")).toMatchObject({ ok: true, value: { lines: [{ line: "one" }] } });
  });
});

describe("time limits", () => {
  test("a fraction of a millisecond, as back-off leaves it, is a limit like any other", async () => {
    const { client, sent } = rig(json({ id: "p1", name: "n" }, 201));
    expect(await client.createPod(BODY, { timeoutMs: 19_876.54 })).toMatchObject({ kind: "created" });
    expect(sent).toHaveLength(1);
  });
});

describe("market, contract and money", () => {
  test("the catalog is asked for pods, one GPU, secure cloud", async () => {
    const { client, sent } = rig(json({ gpus: [] }));
    expect(await client.catalogGpus()).toEqual({ ok: true, value: [] });
    expect(sent[0]?.url).toBe(`${BASE}/v2/catalog/gpus?include=AVAILABILITY&product=POD&count=1&cloud=SECURE`);
  });

  test("a catalog or document that does not read is a failure", async () => {
    expect(await rig(json({ gpus: 1 })).client.catalogGpus()).toMatchObject({ error: { reason: "unreadable" } });
    expect(await rig(new Response("nope")).client.openApiDocument()).toMatchObject({ error: { reason: "unreadable" } });
    expect(await rig(json({ errors: [{ message: "no" }] })).client.publicPrices()).toMatchObject({
      error: { reason: "unreadable" },
    });
  });

  test("billing: one bad record loses none of the others", async () => {
    const record = {
      podId: "p1",
      totalAmount: 1.5,
      gpuAmount: 1.4,
      diskAmount: 0.1,
      startTime: "2026-06-01T00:00:00Z",
    };
    const { client, sent } = rig(json({ records: [{ podId: "p1" }, record] }));
    expect(await client.billingPods({ startMs: NOW, endMs: NOW + 1, podId: "p 1" })).toEqual({
      ok: true,
      value: [{ podId: "p1", startMs: Date.UTC(2026, 5, 1), endMs: null, totalUsd: 1.5, gpuUsd: 1.4, diskUsd: 0.1 }],
    });
    expect(new URL(sent[0]?.url ?? "").searchParams.get("podId")).toBe("p 1");
  });

  test("the balance is told or unreadable, never zero for want of an answer", async () => {
    const answered = rig(json({ data: { myself: { clientBalance: 12.5, currentSpendPerHr: 0.4 } } }));
    expect(await answered.client.balance()).toEqual({ ok: true, value: { usd: 12.5, spendUsdPerHour: 0.4 } });
    expect((await rig(json({ data: { myself: null } })).client.balance()).ok).toBe(false);
  });
});

test("the key is in no answer, in whatever field RunPod wrote it", async () => {
  const escaped = Array.from(KEY, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
  const echoing = {
    id: "p1",
    name: "x",
    status: "RUNNING",
    cudaVersion: KEY,
    dataCenterId: "at",
    env: { GPU_GATE_REQUEST: KEY },
  };
  const text = JSON.stringify({ pods: [echoing], pagination: null }).replace('"at"', `"${escaped}"`);
  const { client } = rig(new Response(text, { headers: { "content-type": "application/json" } }));
  const answer = await client.listPods();
  expect(answer).toMatchObject({
    ok: true,
    value: { pods: [{ id: "p1", cudaVersion: "[redacted]", dataCenterId: "[redacted]" }] },
  });
  expect(JSON.stringify(answer)).not.toContain(KEY);
});
