/**
 * RunPod's answers, damaged on their way into the client. Whatever arrives, the client gives a result and never throws, and
 * nothing dangerous may be read out of it: no pod is gone, no price is nothing, no list is whole that the text itself does
 * not say so.
 */
import * as fc from "fast-check";
import { planCandidates } from "../../shared/runpod/candidates.ts";
import { createRunPodClient, type RunPodClient } from "../../shared/runpod/client.ts";
import { checkCreateContract } from "../../shared/runpod/contract.ts";
import { probeBody, type CreateBody } from "../../shared/runpod/create-body.ts";
import { byteChange, damagedBytes, type ByteChange } from "../bytes.ts";
import { damagedJson, jsonChange, type JsonChange } from "../json.ts";
import { target, thrown, unfit, type Session } from "../target.ts";

const KEY = "rpa_FUZZKEYFUZZKEYFUZZKEY0123456789";

const POD = {
  id: "pod0001",
  name: "gpu-gate-fuzz-101-r1-1",
  status: "RUNNING",
  gpu: { id: "NVIDIA RTX A4000", count: 1 },
  cloud: "SECURE",
  dataCenterId: "EU-RO-1",
  ssh: { proxy: { host: "x", port: 22 } },
  cost: 0.17,
  createdAt: "2026-11-30T11:50:00Z",
  startedAt: "2026-11-30T11:51:00.123Z",
  runtime: { gpus: [{ util: 3 }], cpu: { util: 5 } },
  cudaVersion: "12.8",
  env: {
    GPU_GATE_DEPLOYMENT: "fuzz",
    GPU_GATE_REPOSITORY_ID: "101",
    GPU_GATE_REQUEST: "r1",
    GPU_GATE_ATTEMPT: "r1-1",
    GPU_GATE_RUN_ID: "7001",
    GPU_GATE_KEEP: "false",
    RUNPOD_API_KEY: KEY,
  },
};

const BASES = {
  list: {
    pods: [POD, { ...POD, id: "pod0002", status: "EXITED", cost: 0 }],
    pagination: { nextCursor: null, hasNextPage: false },
  },
  get: POD,
  delete: {},
  create: { ...POD, status: "PROVISIONING", runtime: null },
  catalog: {
    gpus: [
      {
        id: "NVIDIA RTX A4000",
        memory: 16,
        secure: true,
        price: { secure: 0.17 },
        availability: "HIGH",
        cudaVersions: [{ version: "12.8" }],
      },
      { id: "NVIDIA L4", memory: 24, secure: true, price: { secure: 0.39 }, availability: "NONE", cudaVersions: [] },
    ],
  },
  prices: {
    data: {
      gpuTypes: [
        {
          id: "NVIDIA L4",
          memoryInGb: 24,
          secureCloud: true,
          securePrice: 0.39,
          lowestPrice: { stockStatus: "High", uninterruptablePrice: 0.3 },
        },
      ],
    },
  },
  balance: { data: { myself: { clientBalance: 12.5, currentSpendPerHr: 0.2 } } },
  bills: {
    records: [
      {
        podId: "pod0001",
        totalAmount: 0.05,
        gpuAmount: 0.04,
        diskAmount: 0.01,
        startTime: "2026-11-30T11:00:00Z",
        endTime: "2026-11-30T12:00:00Z",
      },
    ],
  },
  problem: { title: "Bad Request", detail: "There are no longer any instances available", errors: ["x"], status: 400 },
  contract: {
    paths: {
      "/v2/pods": {
        post: { requestBody: { content: { "application/json": { schema: { $ref: "#/components/schemas/P" } } } } },
      },
    },
    components: {
      schemas: {
        P: { type: "object", properties: { name: { type: "string" }, gpu: { $ref: "#/components/schemas/P" } } },
      },
    },
  },
  logs: { source: "container", line: "[gpu-gate] REFUSED (smoke) x", ts: "2026-11-30T11:50:00Z" },
} as const;

const NAMES = Object.keys(BASES) as readonly (keyof typeof BASES)[];
const ASKS = [
  "listPods",
  "getPod",
  "deletePod",
  "createPod",
  "catalogGpus",
  "publicPrices",
  "balance",
  "billingPods",
  "openApiDocument",
  "getPodLogs",
] as const;
const STATUSES = [
  200, 200, 200, 200, 201, 202, 204, 299, 301, 400, 401, 402, 403, 404, 404, 408, 409, 410, 422, 429, 500, 502, 503,
  504, 520, 599,
] as const;
const HEADERS: readonly Readonly<Record<string, string>>[] = [
  { "content-type": "application/json" },
  { "content-type": "text/html" },
  { "content-type": "application/problem+json", "retry-after": "1e9" },
  { "retry-after": "-5" },
  { "retry-after": "Mon, 30 Nov 2026 12:00:99 GMT" },
  { "retry-after": "9".repeat(400), ratelimit: '"a";r=0;t=99999999999999999999' },
  { "x-request-id": "<script>", "ratelimit-policy": ";;;;q=" },
  {},
];

export interface RunPodCase {
  readonly ask: (typeof ASKS)[number];
  /** Null: the base that fits the question. */
  readonly base: number | null;
  readonly json: readonly JsonChange[];
  readonly bytes: readonly ByteChange[];
  readonly status: number;
  readonly headers: number;
  readonly broken: "no" | "reject" | "mid-body" | "empty" | "html";
}

export const runpodAnswers = target<RunPodCase>({
  name: "runpod-answers",
  about: "RunPod's answers, damaged on their way into the client",
  share: 40,
  sample: 400,
  cases: fc.record({
    ask: fc.constantFrom(...ASKS),
    base: fc.oneof({ weight: 5, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: fc.nat(NAMES.length - 1) }),
    json: fc.array(jsonChange, { maxLength: 4 }),
    bytes: fc.oneof(
      { weight: 5, arbitrary: fc.constant([]) },
      { weight: 1, arbitrary: fc.array(byteChange, { minLength: 1, maxLength: 3 }) },
    ),
    status: fc.constantFrom(...STATUSES),
    headers: fc.nat(HEADERS.length - 1),
    broken: fc.oneof(
      { weight: 12, arbitrary: fc.constant("no" as const) },
      { weight: 1, arbitrary: fc.constantFrom("reject", "mid-body", "empty", "html") },
    ),
  }),
  open: async () => openRunPod(createRunPodClient),
});

const FITTING: Readonly<Record<RunPodCase["ask"], keyof typeof BASES>> = {
  listPods: "list",
  getPod: "get",
  deletePod: "delete",
  createPod: "create",
  catalogGpus: "catalog",
  publicPrices: "prices",
  balance: "balance",
  billingPods: "bills",
  openApiDocument: "contract",
  getPodLogs: "logs",
};

const NOW = Date.UTC(2026, 10, 30, 12);
const BODY: CreateBody = probeBody("NVIDIA RTX A4000", { kind: "allowed", versions: ["12.8"] });

export function openRunPod(made: typeof createRunPodClient): Session<RunPodCase> {
  return {
    async judge(given) {
      const base = BASES[given.base === null ? FITTING[given.ask] : (NAMES[given.base] ?? "get")];
      let text = given.json.length === 0 ? JSON.stringify(base) : damagedJson(base, given.json);
      if (given.ask === "getPodLogs") text = `data: ${text}\n\n`;
      const bytes =
        given.broken === "empty"
          ? new Uint8Array()
          : given.broken === "html"
            ? Buffer.from("<html>down</html>")
            : damagedBytes(Buffer.from(text), given.bytes);
      const body = Buffer.from(bytes).toString("utf8");
      let calls = 0;
      const client = made({
        apiKey: KEY,
        baseUrl: "https://runpod.test",
        graphqlUrl: "https://runpod.test/graphql",
        clock: { now: () => NOW },
        userAgent: "gpu-gate-fuzz",
        fetch: async () => {
          calls += 1;
          if (given.broken === "reject") throw new TypeError("fetch failed");
          const empty = given.status === 204;
          return new Response(empty ? null : given.broken === "mid-body" ? breaking(bytes) : Uint8Array.from(bytes), {
            status: given.status,
            headers: HEADERS[given.headers % HEADERS.length] ?? {},
          });
        },
      });
      let answer: unknown;
      try {
        answer = await ask(client, given.ask);
      } catch (error) {
        return `${given.ask} threw ${thrown(error)}`;
      }
      const wrong = judge(given, body, answer, calls);
      if (wrong !== null)
        return `${given.ask}: ${wrong}: ${JSON.stringify(answer)?.slice(0, 400)} from ${given.status} ${body.slice(0, 300)}`;
      // The contract is handed on as it came, to be compared and not to be shown.
      return given.ask === "openApiDocument" ? null : unfit(JSON.stringify(answer) ?? "", [KEY]);
    },
    close: async () => undefined,
  };
}

function ask(client: RunPodClient, what: RunPodCase["ask"]): Promise<unknown> {
  switch (what) {
    case "getPod":
    case "deletePod":
    case "getPodLogs":
      return client[what]("pod0001");
    case "createPod":
      return client.createPod(BODY, { timeoutMs: 5_000 });
    case "billingPods":
      return client.billingPods({ startMs: NOW - 3_600_000, endMs: NOW });
    case "listPods":
    case "catalogGpus":
    case "publicPrices":
    case "balance":
    case "openApiDocument":
      return client[what]();
  }
}

function breaking(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(bytes.slice(0, Math.floor(bytes.byteLength / 2)));
      controller.error(new TypeError("terminated"));
    },
  });
}

type Loose = Readonly<Record<string, unknown>>;

function judge(given: RunPodCase, body: string, answer: unknown, calls: number): string | null {
  const json = jsonOf(body);
  const good = given.status >= 200 && given.status <= 299 && given.broken !== "reject";
  const whole = given.broken !== "mid-body" && given.status !== 204;
  const told = answer as Loose;
  const value = told["ok"] === true ? told["value"] : undefined;
  if (value !== undefined && !good) return "a refusal was read as an answer";
  switch (given.ask) {
    case "listPods": {
      if (calls > 201) return `it asked ${calls} times`;
      if (value === undefined) return null;
      const list = value as {
        readonly pods: readonly { readonly id: string; readonly status: string; readonly costPerHour: number | null }[];
        readonly complete: boolean;
      };
      const entries = isObject(json) && Array.isArray(json["pods"]) ? (json["pods"] as readonly unknown[]) : null;
      if (entries === null || !whole) return "a list was read out of something that is none";
      const ids = entries.map((entry) => (isObject(entry) ? entry["id"] : undefined));
      if (list.complete && !ids.every((id) => typeof id === "string" && id !== ""))
        return "a list with an entry that has no id counts as complete";
      if (list.complete && isObject(json) && more(json["pagination"]))
        return "a list that promises more counts as complete";
      for (const pod of list.pods) {
        const raw = entries.filter((entry) => isObject(entry) && entry["id"] === pod.id) as readonly Loose[];
        if (pod.status === "TERMINATED" && !raw.some((entry) => entry["status"] === "TERMINATED"))
          return "a pod counts as gone that the answer does not call so";
        if (pod.costPerHour === 0 && !raw.some((entry) => Number(entry["cost"]) === 0))
          return "a price was read as nothing";
        if (pod.costPerHour !== null && !(Number.isFinite(pod.costPerHour) && pod.costPerHour >= 0))
          return "a price that is none";
      }
      return null;
    }
    case "getPod": {
      if (told["kind"] === "not-found" && given.status !== 404) return "a pod counts as not found without a 404";
      if (told["kind"] !== "pod") return null;
      const pod = told["pod"] as { readonly id: string; readonly status: string };
      if (!good || !isObject(json) || json["id"] !== "pod0001" || pod.id !== "pod0001")
        return "another pod speaks for this one";
      return pod.status === "TERMINATED" && json["status"] !== "TERMINATED"
        ? "a pod counts as gone that the answer does not call so"
        : null;
    }
    case "deletePod":
      if (told["kind"] === "deleted" && !good) return "a deletion counts as taken that was not";
      return told["kind"] === "not-found" && given.status !== 404 ? "a pod counts as not found without a 404" : null;
    case "createPod": {
      const kind = String(told["kind"]);
      if (kind === "created" && !(good && isObject(json) && typeof json["id"] === "string" && json["id"] !== ""))
        return "a pod was read out of nothing";
      // Money may be running: only RunPod's own refusal proves that it is not.
      const unclear = good || given.broken === "reject" || given.status === 408;
      if (unclear && kind !== "created" && kind !== "ambiguous")
        return "nothing counts as bought although it may have been";
      const wait = told["retryAfterMs"];
      if (typeof wait === "number" && !(wait >= 0 && Number.isFinite(wait))) return "a wait that is none";
      return null;
    }
    case "catalogGpus":
    case "publicPrices": {
      if (value === undefined) return null;
      const offers = value as Parameters<typeof planCandidates>[0]["offers"];
      const plan = planCandidates({
        tiers: [{ name: "t", gpuIds: ["NVIDIA RTX A4000", "NVIDIA L4"] }],
        offers,
        minVramGb: 8,
        maxPriceCandidates: Infinity,
        ceilingUsdPerHour: 1.6,
        shape: "per-id",
      });
      if (!(plan.highestUsdPerHour > 0) && plan.candidates.length > 0) return "a plan that reserves nothing";
      const bad = plan.candidates.find(({ price }) => price !== null && !(price > 0 && price <= 1.6));
      return bad === undefined ? null : `a candidate at the price ${String(bad.price)}`;
    }
    case "balance": {
      const usd = (value as Loose | undefined)?.["usd"];
      return typeof usd === "number" && !Number.isFinite(usd) ? "a balance that is none" : null;
    }
    case "billingPods": {
      const bills = (value ?? []) as readonly Loose[];
      return bills.some((bill) => typeof bill["totalUsd"] !== "number" || !Number.isFinite(bill["totalUsd"]))
        ? "a bill that is none"
        : null;
    }
    case "openApiDocument":
      // Reading a broken contract must end, and never say yes to a body that it does not describe.
      if (value !== undefined) checkCreateContract(value, BODY);
      return null;
    case "getPodLogs": {
      const logs = value as { readonly lines: readonly { readonly line: string }[] } | undefined;
      return logs?.lines.some(({ line }) => /[\n\r]/.test(line) || line.length > 400) === true
        ? "a log line that breaks its line"
        : null;
    }
  }
}

function more(pagination: unknown): boolean {
  return isObject(pagination) && pagination["hasNextPage"] === true;
}

function isObject(value: unknown): value is Loose {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
