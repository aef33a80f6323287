/**
 * The webhook path under Miniflare: 25 KB body, HMAC, one gate, one durable write, against a bare Worker that does one
 * durable write, in the same run. Then resident memory after a minute of load over 200 repositories.
 */
import { createHmac, generateKeyPairSync, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import process from "node:process";
import { Miniflare } from "miniflare";
import { buildBundle } from "../local/world/world.ts";
import { percentile, type BenchRow } from "./row.ts";

const SECRET = "bench-webhook-secret";
const CONNECTIONS = 16;
const REQUESTS = 4_000;
const REPOSITORIES = 200;
const MEMORY_SECONDS = Number(process.env["GPU_GATE_BENCH_MEMORY_SECONDS"] ?? "60");

const BARE = `
import { DurableObject } from "cloudflare:workers";
export class Bare extends DurableObject {
  constructor(state, env) {
    super(state, env);
    state.storage.sql.exec("CREATE TABLE IF NOT EXISTS t (id TEXT PRIMARY KEY)");
  }
  write(id) { this.ctx.storage.sql.exec("INSERT INTO t (id) VALUES (?)", id); }
}
export default {
  async fetch(request, env) {
    await request.text();
    await env.BARE.getByName("one").write(request.headers.get("x-github-delivery"));
    return new Response("ok", { status: 202 });
  },
};`;

export async function run(): Promise<readonly BenchRow[]> {
  const bundle = readFileSync(join(await buildBundle(join(import.meta.dirname, "..", "dist")), "index.js"), "utf8");
  const gate = await measure(gateWorker(bundle), (n) => delivery(String(100 + (n % 1))));
  const bare = await measure(bareWorker(), () => delivery("100"));
  const memory = await memoryOver(bundle);
  return [
    { name: "bare Worker, one durable write", value: bare.perSecond, unit: "req/s", note: latency(bare) },
    { name: "webhook path, one gate", value: gate.perSecond, unit: "req/s", note: latency(gate) },
    {
      name: "share of the bare Worker",
      value: (100 * gate.perSecond) / bare.perSecond,
      unit: "%",
      note: "target 50 or more",
    },
    ...memory,
  ];
}

interface Measured {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
}

function latency(measured: Measured): string {
  return `p50 ${measured.p50.toFixed(1)} ms, p99 ${measured.p99.toFixed(1)} ms, ${CONNECTIONS} connections`;
}

interface Delivery {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const FILLER = "x".repeat(24_200);

/** A signed delivery of about 25 KB that changes nothing but the gate's list of deliveries. */
function delivery(repositoryId: string): Delivery {
  const body = JSON.stringify({
    action: "edited",
    number: 1,
    pull_request: {
      number: 1,
      draft: false,
      body: FILLER,
      head: { sha: "a".repeat(40), ref: "change", repo: { id: Number(repositoryId) } },
    },
    repository: {
      id: Number(repositoryId),
      name: "tensors",
      full_name: "acme/tensors",
      owner: { login: "acme", id: 1 },
    },
    sender: { id: 2, login: "mira" },
    installation: { id: 3 },
  });
  const signature = createHmac("sha256", SECRET).update(body).digest("hex");
  return {
    body,
    headers: {
      "content-type": "application/json",
      "x-github-event": "pull_request",
      "x-github-delivery": randomUUID(),
      "x-hub-signature-256": `sha256=${signature}`,
    },
  };
}

async function measure(miniflare: Miniflare, make: (n: number) => Delivery): Promise<Measured> {
  const url = await miniflare.ready;
  const times: number[] = [];
  try {
    await load(url, 200, make, []);
    const before = performance.now();
    await load(url, REQUESTS, make, times);
    const seconds = (performance.now() - before) / 1000;
    return { perSecond: REQUESTS / seconds, p50: percentile(times, 0.5), p99: percentile(times, 0.99) };
  } finally {
    await miniflare.dispose();
  }
}

async function load(url: URL, count: number, make: (n: number) => Delivery, times: number[]): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const n = next;
      next += 1;
      const { headers, body } = make(n);
      const before = performance.now();
      const status = await post(url, agent, headers, body);
      times.push(performance.now() - before);
      if (status !== 202) throw new Error(`a delivery was answered ${status}`);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
  agent.destroy();
}

function post(url: URL, agent: Agent, headers: Readonly<Record<string, string>>, body: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(
      `${url.origin}/github/webhooks`,
      { method: "POST", agent, headers: { ...headers, "content-length": Buffer.byteLength(body) } },
      (answer) => {
        answer.resume();
        answer.once("end", () => resolve(answer.statusCode ?? 0));
      },
    );
    sent.once("error", reject);
    sent.end(body);
  });
}

async function memoryOver(bundle: string): Promise<readonly BenchRow[]> {
  const before = new Set(workerds());
  const miniflare = gateWorker(bundle);
  const url = await miniflare.ready;
  const pid = workerds().find((candidate) => !before.has(candidate));
  try {
    const until = performance.now() + MEMORY_SECONDS * 1000;
    let sent = 0;
    while (performance.now() < until) {
      await load(url, 400, (n) => delivery(String(100 + ((sent + n) % REPOSITORIES))), []);
      sent += 400;
    }
    const rss = pid === undefined ? 0 : residentMiB(pid);
    return [
      {
        name: `resident memory, ${REPOSITORIES} repositories, ${MEMORY_SECONDS} s`,
        value: rss,
        unit: "MiB",
        note: `${sent} deliveries`,
      },
    ];
  } finally {
    await miniflare.dispose();
  }
}

function workerds(): number[] {
  const children = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, "utf8");
  return children
    .split(" ")
    .map(Number)
    .filter((pid) => pid > 0 && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("workerd"));
}

function residentMiB(pid: number): number {
  const kib = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "0";
  return Number(kib) / 1024;
}

function gateWorker(bundle: string): Miniflare {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const vars = {
    DEPLOYMENT: "bench",
    GITHUB_APP_ID: "1",
    GITHUB_APP_PRIVATE_KEY: privateKey.export({ type: "pkcs1", format: "pem" }).toString(),
    GITHUB_WEBHOOK_SECRET: SECRET,
    GITHUB_WEBHOOK_SECRET_PREVIOUS: "",
    GITHUB_ALLOWED_REPOSITORIES: Array.from({ length: REPOSITORIES }, (_, n) => String(100 + n)).join(","),
    GITHUB_API_URL: "http://127.0.0.1:9",
    GITHUB_WEB_URL: "http://127.0.0.1:9",
    RUNPOD_API_KEY: "bench",
    RUNPOD_API_URL: "http://127.0.0.1:9",
    RUNPOD_GRAPHQL_URL: "http://127.0.0.1:9",
    OIDC_ISSUER_URL: "http://127.0.0.1:9",
    IMAGE_REGISTRY_URL: "http://127.0.0.1:9",
    PUBLIC_URL: "http://127.0.0.1:9",
    STATUS_PAGE: "off",
    DEPLOYMENT_LIMITS: "",
  };
  return instance("gpu-gate", bundle, vars, {
    REPOSITORY_GATE: "RepositoryGate",
    RUNPOD_ACCOUNT: "RunPodAccount",
    FLEET_BOARD: "FleetBoard",
  });
}

function bareWorker(): Miniflare {
  return instance("bare", BARE, {}, { BARE: "Bare" });
}

function instance(
  name: string,
  contents: string,
  vars: Readonly<Record<string, string>>,
  objects: Readonly<Record<string, string>>,
): Miniflare {
  const text = Object.entries(vars).map(([key, value]) => [key, { type: "text" as const, value }] as const);
  const bound = Object.entries(objects).map(
    ([key, exportName]) => [key, { type: "durable-object" as const, worker: name, exportName }] as const,
  );
  return new Miniflare({
    host: "127.0.0.1",
    port: 0,
    cf: false,
    enableDevRegistry: false,
    telemetry: { enabled: false },
    workers: [
      {
        config: {
          name,
          compatibilityDate: "2026-11-01",
          manifest: { mainModule: "index.js", modules: { "index.js": { type: "esm", contents } } },
          env: Object.fromEntries([...text, ...bound]),
          exports: Object.fromEntries(
            Object.values(objects).map((exportName) => [
              exportName,
              { type: "durable-object" as const, storage: "sqlite" as const },
            ]),
          ),
        },
      },
    ],
  });
}
