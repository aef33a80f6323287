import { request } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import * as z from "zod";
import { CAPACITY_TEXT } from "../../local/runpod/create.ts";
import { API_KEY, GPU, openWorld, pod, podList, problem, T0 } from "./harness.ts";
import type { World } from "./harness.ts";
import { leaksOnPurpose } from "../support/watch.ts";

// The books are shown a secret, to leave it out.
leaksOnPurpose(/ in the address of GET http:\S+\/v2\/pods$/);

const graphqlBody = z.object({ data: z.unknown().optional(), errors: z.array(z.unknown()).optional() });

let world: World;

beforeEach(async () => {
  world = await openWorld();
});

afterEach(async () => {
  await world.close();
});

async function reopen(options: Parameters<typeof openWorld>[0]): Promise<void> {
  await world.close();
  world = await openWorld(options);
}

describe("who may ask", () => {
  it("answers 401 as a problem document without a valid bearer key", async () => {
    for (const value of ["", "Bearer ", "Bearer wrong", `Basic ${API_KEY}`]) {
      const reply = await world.call("GET", "/pods", undefined, { Authorization: value });
      expect(problem(reply)).toMatchObject({ title: "Unauthorized", status: 401 });
      expect(reply.status).toBe(401);
    }
  });

  it("refuses a client without a User-Agent at the edge, not in JSON", async () => {
    const { status, type, body } = await bareGet(`${world.runpod.url}/pods`);
    expect([status, body]).toEqual([403, "error code: 1010"]);
    expect(type).not.toContain("json");
  });

  it("answers 410 on every v1 path", async () => {
    const response = await fetch(world.runpod.url.replace("/v2", "/v1/pods"), { headers: { "User-Agent": "t" } });
    expect(response.status).toBe(410);
  });

  it("answers unknown paths with 404 and other methods with 405", async () => {
    expect(problem(await world.call("GET", "/nothing"))).toMatchObject({ detail: "The requested path was not found." });
    const reply = await world.call("PUT", "/pods", {});
    expect(problem(reply).status).toBe(405);
    expect(reply.headers.get("allow")).toBe("GET, POST");
  });

  it("sends rate limit headers on every authenticated answer and 429 with Retry-After", async () => {
    await reopen({ quotas: { minute: 3, hour: 10, day: 10 } });
    const replies = [
      await world.call("GET", "/pods"),
      await world.call("GET", "/pods/x"),
      await world.create({ x: 1 }),
    ];
    for (const [index, reply] of replies.entries()) {
      expect(reply.headers.get("ratelimit")).toContain(`"minute";r=${2 - index};t=60, "hour";r=${9 - index}`);
      expect(reply.headers.get("ratelimit-policy")).toBe('"minute";q=3;w=60, "hour";q=10;w=3600, "day";q=10;w=86400');
    }
    world.pass(20_000);
    const refused = await world.call("GET", "/pods");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "40"]);
    world.pass(40_000);
    expect((await world.call("GET", "/pods")).status).toBe(200);
    const scripted = { kind: "rate-limited", retryAfter: "Mon, 30 Nov 2026 12:05:00 GMT" } as const;
    world.runpod.faults.next({ method: "GET" }, scripted);
    expect((await world.call("GET", "/pods")).headers.get("retry-after")).toBe(scripted.retryAfter);
  });
});

describe("creating", () => {
  it("refuses unknown or wrong fields of a create with 422 and errors", async () => {
    for (const change of [
      { gpuTypeIds: [GPU] },
      { gpu: { id: GPU, count: 1, interruptible: true } },
      { name: "" },
      { image: undefined },
      { env: { A: 1 } },
      { gpu: { id: GPU, count: 0 } },
      { cloud: "ALL" },
      { mounts: { persistent: { size: 5, path: "/x" } } },
    ]) {
      const refusal = problem(await world.create(change));
      expect([change, refusal.status, refusal.errors?.length]).toEqual([change, 422, 1]);
    }
    const unknown = problem(await world.create({ dockerArgs: "x" }));
    expect(unknown.errors).toEqual(["$: additional properties 'dockerArgs' not allowed"]);
    expect(world.runpod.pods()).toEqual([]);
  });

  it("words a missing gpu.count as no capacity", async () => {
    expect(problem(await world.create({ gpu: { id: GPU } }))).toMatchObject({ status: 400, detail: CAPACITY_TEXT });
  });

  it("words a wrong GPU id as no capacity", async () => {
    const reply = await world.create({ gpu: { id: "NVIDIA RTX 4090", count: 1 } });
    expect(problem(reply)).toMatchObject({ status: 400, detail: CAPACITY_TEXT });
  });

  it("enforces data centres and words the refusal as no capacity", async () => {
    expect(problem(await world.create({ dataCenterIds: ["XX-NO-1"] })).detail).toBe(CAPACITY_TEXT);
    expect((await world.create({ dataCenterIds: ["XX-NO-1", "EU-RO-1"] })).status).toBe(201);
    world.pass(1_000);
    await world.call("GET", "/pods");
    const [only] = podList(await world.call("GET", "/pods")).pods;
    expect(only?.dataCenterId).toBe("EU-RO-1");
  });

  it("filters hosts by CUDA version and words an empty result as no capacity", async () => {
    const gpu = { id: GPU, count: 1 };
    expect((await world.create({ gpu: { ...gpu, allowedCudaVersions: ["12.6"] } })).status).toBe(201);
    expect((await world.create({ gpu: { ...gpu, minCudaVersion: "12.10" } })).status).toBe(201);
    for (const filter of [{ allowedCudaVersions: ["12.7"] }, { minCudaVersion: "13.1" }]) {
      expect(problem(await world.create({ gpu: { ...gpu, ...filter } })).detail).toBe(CAPACITY_TEXT);
    }
    world.pass(1_000);
    const versions = podList(await world.call("GET", "/pods")).pods.map((seen) => seen.cudaVersion);
    expect(versions.sort((a, b) => String(a).localeCompare(String(b)))).toEqual(["12.6", "13.0"]);
  });

  it("tells no capacity by text only, as a 400", async () => {
    world.runpod.setStock(GPU, "NONE");
    const soldOut = problem(await world.create());
    expect(soldOut).toEqual({ title: "Bad Request", status: 400, detail: CAPACITY_TEXT });
    const rule = problem(await world.create({ cpu: { id: "cpu5c", vcpuCount: 2 } }));
    expect([rule.status, rule.detail === CAPACITY_TEXT]).toEqual([400, false]);
    world.runpod.setStock(GPU, "LOW");
    expect((await world.create()).status).toBe(201);
    world.runpod.faults.next({ gpuId: GPU }, { kind: "capacity" }, 2);
    for (let index = 0; index < 2; index += 1) expect(problem(await world.create()).detail).toBe(CAPACITY_TEXT);
    expect((await world.create()).status).toBe(201);
  });

  it("refuses a create above 102,400 bytes with 413", async () => {
    const size = (await bodySize({ env: { A: "" } })) + 0;
    const fits = await world.create({ env: { A: "x".repeat(102_400 - size) } });
    expect(fits.status).toBe(201);
    const over = await world.create({ env: { A: "x".repeat(102_401 - size) } });
    expect(problem(over).status).toBe(413);
  });

  it("refuses more than 50 environment variables", async () => {
    const env = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`V${index}`, ""]));
    expect((await world.create({ env: env(50) })).status).toBe(201);
    expect(problem(await world.create({ env: env(51) })).status).toBe(400);
  });

  it("refuses a create with 402 when the balance is below one hour", async () => {
    world.runpod.setPrice(GPU, 0.5);
    world.runpod.setBalance(0.49);
    expect(problem(await world.create()).status).toBe(402);
    world.runpod.setBalance(0.5);
    expect((await world.create()).status).toBe(201);
  });

  it("may refuse an image by digest or unknown to its registry with 422", async () => {
    const unknown = { image: `ghcr.io/actions/actions-runner@sha256:${"0".repeat(64)}` };
    expect((await world.create(unknown)).status).toBe(201);
    world.runpod.setImagePolicy("refuse-digest");
    expect(problem(await world.create(unknown)).status).toBe(422);
    expect((await world.create()).status).toBe(201);
    world.runpod.setImagePolicy("known-only");
    expect(problem(await world.create(unknown)).status).toBe(422);
    const digest = await resolveLatest(world.runpod.registryUrl);
    expect((await world.create({ image: `ghcr.io/actions/actions-runner@${digest}` })).status).toBe(201);
  });

  it("rents two pods for the same create sent twice", async () => {
    const ids = [pod(await world.create()).id, pod(await world.create()).id];
    expect(new Set(ids).size).toBe(2);
  });

  it("may create a pod and then answer 500, cut the connection, hang or send garbage", async () => {
    const { faults } = world.runpod;
    faults.next({ method: "POST" }, { kind: "done-but", status: 500, body: "Internal Server Error" });
    expect(await world.create()).toMatchObject({ status: 500, text: "Internal Server Error" });
    faults.next({ method: "POST" }, { kind: "drop", done: true });
    await expect(world.create()).rejects.toThrow("fetch failed");
    faults.next({ method: "POST" }, { kind: "garbage" });
    const garbage = await world.create();
    expect(garbage.status).toBe(201);
    expect(() => JSON.parse(garbage.text) as unknown).toThrow(SyntaxError);
    expect(world.runpod.pods()).toHaveLength(3);

    faults.next({ method: "POST" }, { kind: "drop", done: false });
    await expect(world.create()).rejects.toThrow("fetch failed");
    faults.next({ method: "POST", name: /nobody/ }, { kind: "answer", status: 500 });
    expect((await world.create()).status).toBe(201);
    expect(faults.pending()).toBe(1);
    expect(world.runpod.pods()).toHaveLength(4);

    faults.next({ route: "/v2/pods" }, { kind: "hang", done: true });
    const patience = new AbortController();
    const hanging = fetch(`${world.runpod.url}/pods`, {
      headers: { Authorization: `Bearer ${API_KEY}`, "User-Agent": "t" },
      signal: patience.signal,
    });
    // Another request is answered while the first one still waits.
    expect((await world.call("GET", "/pods")).status).toBe(200);
    patience.abort();
    await expect(hanging).rejects.toThrow("abort");
  });

  it("keeps books of every request without anything secret", async () => {
    await world.create({ env: { GPU_GATE_JIT_CONFIG: "canary-jit", GPU_GATE_REQUEST: "r1" } });
    await world.call("GET", "/pods?token=canary-query");
    const [first, second] = world.runpod.requests();
    expect(first).toMatchObject({ method: "POST", route: "/v2/pods", status: 201, create: { gpuId: GPU } });
    expect(second).toMatchObject({ method: "GET", route: "/v2/pods", status: 200, create: null });
    expect(world.runpod.pods()[0]?.tags).toEqual({ GPU_GATE_REQUEST: "r1" });
    const books = JSON.stringify([world.runpod.requests(), world.runpod.pods(), world.runpod.bills()]);
    for (const secret of ["canary", API_KEY, "rpa_pod"]) expect(books).not.toContain(secret);
  });
});

describe("reading and deleting", () => {
  it("lists a new pod only after a while", async () => {
    const { id } = pod(await world.create());
    expect(podList(await world.call("GET", "/pods")).pods).toEqual([]);
    expect((await world.call("GET", `/pods/${id}`)).status).toBe(200);
    world.pass(500);
    expect(podList(await world.call("GET", "/pods")).pods.map((seen) => seen.id)).toEqual([id]);
  });

  it("may answer 404 to GET and DELETE of a newborn pod", async () => {
    world.runpod.nextPod({ timing: { newbornMs: 3_000 } });
    const { id } = pod(await world.create());
    expect(problem(await world.call("GET", `/pods/${id}`)).status).toBe(404);
    expect((await world.call("DELETE", `/pods/${id}`)).status).toBe(404);
    world.pass(3_000);
    expect((await world.call("GET", `/pods/${id}`)).status).toBe(200);
    expect(podList(await world.call("GET", "/pods")).pods).toHaveLength(1);
  });

  it("deletes with 204 and no body, then answers 404", async () => {
    const { id } = pod(await world.create());
    world.pass(500);
    const reply = await world.call("DELETE", `/pods/${id}`);
    expect([reply.status, reply.text]).toEqual([204, ""]);
    expect((await world.call("GET", `/pods/${id}`)).status).toBe(404);
    expect((await world.call("DELETE", `/pods/${id}`)).status).toBe(404);
    expect(podList(await world.call("GET", "/pods")).pods).toEqual([]);
  });

  it("may show TERMINATED for a while after a delete", async () => {
    world.runpod.nextPod({ timing: { terminatedMs: 5_000 } });
    const { id } = pod(await world.create());
    world.pass(500);
    await world.call("DELETE", `/pods/${id}`);
    expect(pod(await world.call("GET", `/pods/${id}`))).toMatchObject({ status: "TERMINATED", cost: 0 });
    expect(podList(await world.call("GET", "/pods")).pods).toEqual([]);
    world.pass(5_000);
    expect((await world.call("GET", `/pods/${id}`)).status).toBe(404);
  });

  it("may accept a delete although the pod lives on for some reads", async () => {
    const { id } = pod(await world.create());
    world.pass(500);
    world.runpod.faults.next({ method: "DELETE" }, { kind: "lives-on", reads: 2 });
    expect((await world.call("DELETE", `/pods/${id}`)).status).toBe(204);
    world.pass(60_000);
    expect((await world.call("GET", `/pods/${id}`)).status).toBe(200);
    expect(podList(await world.call("GET", "/pods")).pods).toHaveLength(1);
    expect((await world.call("GET", `/pods/${id}`)).status).toBe(200);
    expect((await world.call("GET", `/pods/${id}`)).status).toBe(404);
    expect(world.runpod.bills()[0]?.releasedAtMs).toBe(T0 + 60_500);
  });

  it("ignores unknown query keys", async () => {
    await world.create();
    world.pass(500);
    const reply = await world.call("GET", "/pods?name=other&status=EXITED");
    expect(podList(reply).pods).toHaveLength(1);
  });

  it("pages its list by cursor", async () => {
    for (let index = 0; index < 5; index += 1) {
      await world.create({ name: `p${index}` });
      world.pass(10);
    }
    world.pass(500);
    const names: string[] = [];
    let cursor: string | null = "";
    let pages = 0;
    while (cursor !== null) {
      const page = podList(await world.call("GET", `/pods?limit=2${cursor && `&cursor=${cursor}`}`));
      names.push(...page.pods.map((seen) => seen.name));
      expect(page.pagination?.hasNextPage).toBe(page.pagination?.nextCursor !== null);
      cursor = page.pagination?.nextCursor ?? null;
      pages += 1;
    }
    expect([names, pages]).toEqual([["p0", "p1", "p2", "p3", "p4"], 3]);
    await reopen({ pagination: false });
    expect(podList(await world.call("GET", "/pods")).pagination).toBeUndefined();
  });

  it("returns the environment in clear on reads", async () => {
    const { id } = pod(await world.create({ env: { SECRET: "in clear" } }));
    world.pass(500);
    expect(pod(await world.call("GET", `/pods/${id}`)).env).toEqual({ SECRET: "in clear" });
    expect(podList(await world.call("GET", "/pods")).pods[0]?.env).toEqual({ SECRET: "in clear" });
  });

  it("can be down in three ways", async () => {
    world.runpod.faults.down();
    expect((await world.call("GET", "/pods")).status).toBe(503);
    world.runpod.faults.down("edge");
    expect((await world.call("GET", "/pods")).text).toContain("<html>");
    world.runpod.faults.down("drop");
    await expect(world.call("GET", "/pods")).rejects.toThrow("fetch failed");
    world.runpod.faults.up();
    expect((await world.call("GET", "/pods")).status).toBe(200);
  });
});

describe("money and catalog", () => {
  it("bills from rent to release by its own clock", async () => {
    world.runpod.setPrice(GPU, 0.36);
    world.runpod.nextPod({ boot: "never" });
    const { id } = pod(await world.create());
    world.pass(10_000);
    expect(world.runpod.bills()).toMatchObject([{ podId: id, releasedAtMs: null, microDollars: 1_000 }]);
    world.runpod.setPrice(GPU, 9);
    world.pass(10_000);
    await world.call("DELETE", `/pods/${id}`);
    world.pass(3_600_000);
    expect(world.runpod.bills()).toEqual([
      {
        podId: id,
        name: "gpu-gate-a1",
        gpuId: GPU,
        rentedAtMs: T0,
        releasedAtMs: T0 + 20_000,
        ratePerHour: 0.36,
        microDollars: 2_000,
      },
    ]);
    expect(world.runpod.balance()).toBeCloseTo(100 - 0.002, 9);
  });

  it("terminates pods at a balance of zero", async () => {
    world.runpod.setPrice(GPU, 1);
    world.runpod.setBalance(1);
    const { id } = pod(await world.create());
    const foreign = world.runpod.rentForeignPod({ name: "theirs" });
    world.pass(3_599_000);
    expect((await world.call("GET", `/pods/${id}`)).status).toBe(200);
    world.pass(1_000);
    expect((await world.call("GET", `/pods/${id}`)).status).toBe(404);
    expect((await world.call("GET", `/pods/${foreign}`)).status).toBe(200);
  });

  it("tells each pod's bill per bucket", async () => {
    world.runpod.setPrice(GPU, 1);
    const { id } = pod(await world.create());
    world.pass(5_400_000);
    await world.call("DELETE", `/pods/${id}`);
    await world.create();
    const reply = await world.call("GET", `/billing/pods?bucketSize=hour&lastN=3&podId=${id}`);
    expect(JSON.parse(reply.text)).toMatchObject({
      records: [
        { startTime: "2026-11-30T12:00:00.000Z", podId: id, totalAmount: 1, gpuAmount: 1, cpuAmount: 0 },
        { startTime: "2026-11-30T13:00:00.000Z", endTime: "2026-11-30T14:00:00.000Z", totalAmount: 0.5 },
      ],
      metadata: { recordCount: 2, uniquePodCount: 1, totals: { totalAmount: 1.5 }, query: { podId: id } },
    });
    expect(problem(await world.call("GET", "/billing/pods?bucketSize=minute")).status).toBe(400);
  });

  it("shows prices, and stock only with include and product together", async () => {
    world.runpod.setPrice(GPU, 0.5);
    world.runpod.setStock(GPU, "MEDIUM");
    const list = async (query: string) => {
      const reply = await world.call("GET", `/catalog/gpus${query}`);
      const gpus = z.object({ gpus: z.array(z.looseObject({ id: z.string() })) }).parse(JSON.parse(reply.text)).gpus;
      return gpus.find((gpu) => gpu.id === GPU);
    };
    expect(await list("")).toMatchObject({ price: { secure: 0.5, community: 0.35 }, memory: 24 });
    expect(await list("")).not.toHaveProperty("availability");
    const full = await list("?include=AVAILABILITY&product=POD&count=1&cloud=SECURE");
    expect(full).toMatchObject({ availability: "MEDIUM" });
    expect(full?.["cudaVersions"]).toContainEqual({ version: "12.8", available: true });
    expect(problem(await world.call("GET", "/catalog/gpus?include=AVAILABILITY")).status).toBe(400);
    expect(problem(await world.call("GET", "/catalog/gpus?product=POD")).status).toBe(400);
    const one = await world.call("GET", `/catalog/gpus/${encodeURIComponent(GPU)}`);
    expect(JSON.parse(one.text)).toMatchObject({ id: GPU });
    expect(problem(await world.call("GET", "/catalog/gpus/none")).status).toBe(404);
  });

  it("tells prices by GraphQL without a key and the balance only with one", async () => {
    world.runpod.setStock(GPU, "NONE");
    const ask = async (query: string, headers: Record<string, string> = {}) => {
      const body = JSON.stringify({ query });
      const init = { method: "POST", body, headers: { "User-Agent": "t", ...headers } };
      const response = await fetch(world.runpod.graphqlUrl, init);
      return { status: response.status, body: graphqlBody.parse(await response.json()) };
    };
    const query = "query { gpuTypes { id price: securePrice lowestPrice(input: {gpuCount: 1}) { stockStatus } } }";
    const { gpuTypes } = z
      .object({ gpuTypes: z.array(z.looseObject({ id: z.string() })) })
      .parse((await ask(query)).body.data);
    expect(gpuTypes.find((gpu) => gpu.id === GPU)).toEqual({
      id: GPU,
      price: 0.43,
      lowestPrice: { stockStatus: null },
    });
    expect(gpuTypes.find((gpu) => gpu.id === "NVIDIA A40")).toMatchObject({ lowestPrice: { stockStatus: "High" } });
    expect(gpuTypes.some((gpu) => gpu.id === "unknown")).toBe(true);
    expect((await ask("{ gpuTypes { lowestPrice { interruptablePrice } } }")).status).toBe(400);
    const mine = "{ myself { clientBalance currentSpendPerHr } }";
    expect((await ask(mine)).body.errors).toHaveLength(1);
    const keyed = await ask(mine, { Authorization: `Bearer ${API_KEY}` });
    expect(keyed.body.data).toEqual({ myself: { clientBalance: 100, currentSpendPerHr: 0 } });
  });

  it("serves its OpenAPI document without a key", async () => {
    const reply = await world.call("GET", "/openapi.json", undefined, { Authorization: "" });
    expect(JSON.parse(reply.text)).toMatchObject({ openapi: "3.1.0" });
  });

  it("rents the same ids and hosts for the same seed", async () => {
    const first = pod(await world.create()).id;
    await reopen({});
    expect(pod(await world.create()).id).toBe(first);
    await reopen({ seed: 2 });
    expect(pod(await world.create()).id).not.toBe(first);
  });
});

async function bodySize(change: Readonly<Record<string, unknown>>): Promise<number> {
  await world.create(change);
  return world.runpod.requests().at(-1)?.create?.bytes ?? 0;
}

/** fetch always sends a User-Agent; this does not. */
async function bareGet(url: string): Promise<{ status: number; type: string; body: string }> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { headers: { Authorization: `Bearer ${API_KEY}` } }, (response) => {
      let body = "";
      response.on("data", (chunk: Buffer) => (body += chunk.toString()));
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, type: response.headers["content-type"] ?? "", body }),
      );
    });
    asked.on("error", reject).end();
  });
}

async function resolveLatest(registryUrl: string): Promise<string> {
  const scope = "repository:actions/actions-runner:pull";
  const issued = await fetch(`${registryUrl}/token?service=local&scope=${scope}`);
  const { token } = z.object({ token: z.string() }).parse(await issued.json());
  const manifest = await fetch(`${registryUrl}/v2/actions/actions-runner/manifests/latest`, {
    method: "HEAD",
    headers: { Authorization: `Bearer ${token}`, Accept: "application/vnd.oci.image.index.v1+json" },
  });
  return manifest.headers.get("docker-content-digest") ?? "";
}
