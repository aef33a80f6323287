/**
 * The local RunPod: an HTTP server on 127.0.0.1 that keeps RunPod's rules (rules.ts lists them) and really starts what a pod
 * would run. Routes and order of checks are here; everything else is in the modules next to it.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { startLocalRegistry } from "../registry/server.ts";
import { billingAnswer, billOf, readBillingQuery } from "./billing.ts";
import { Catalog, catalogRow, defaultCatalog } from "./catalog.ts";
import { admit, CAPACITY_TEXT, MAX_CREATE_BYTES } from "./create.ts";
import { Faults, nameMatches } from "./faults.ts";
import type { FaultBehaviour } from "./faults.ts";
import { graphqlAnswer } from "./graphql.ts";
import { json, listen, parseJson, problem, readBody, send, text } from "./http.ts";
import type { Answer } from "./http.ts";
import { defaultQuotas, RateLimits } from "./limits.ts";
import { sseEvent } from "./logs.ts";
import type { LogSource } from "./logs.ts";
import { openApiDocument } from "./openapi.ts";
import { Pods } from "./pods.ts";
import type { PodRecord } from "./pods.ts";
import { Containers } from "./processes.ts";
import { SeededRandom } from "./random.ts";
import { defaultTiming } from "./types.ts";
import type { ImagePolicy, LocalRunPod, LocalRunPodOptions, PodEntry, PodScript, RequestEntry } from "./types.ts";
import { podAnswer } from "./view.ts";

/** Most pods on one page of a list. */
const MAX_PAGE = 1_000;
/** The pod's variables a scenario may see in the books. */
const TAG_NAME = /^GPU_GATE_(DEPLOYMENT|REPOSITORY_ID|REQUEST|ATTEMPT|RUN_ID|RUN_ATTEMPT)$/;
const DEFAULT_BALANCE_USD = 100;

interface Call {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly route: string;
  readonly podId: string | null;
  readonly key: string | null;
  readonly bytes: number;
  readonly body: unknown;
  readonly create: RequestEntry["create"];
}

/** Starts the server, its image registry and its process guard. */
export async function startLocalRunPod(options: LocalRunPodOptions): Promise<LocalRunPod> {
  const now = options.now ?? Date.now;
  const seed = options.seed ?? 1;
  const timing = { ...defaultTiming, ...options.timing };
  const catalog = new Catalog(options.catalog ?? defaultCatalog);
  const faults = new Faults();
  const limits = new RateLimits(options.quotas ?? defaultQuotas);
  const containers = new Containers();
  const registry = await startLocalRegistry({ port: options.registryPort ?? 0 });
  const { stateDir, imageDir } = options;
  const random = new SeededRandom(seed);
  const pods = new Pods({ stateDir, imageDir, seed, random, catalog, containers, timing, now });
  const books: RequestEntry[] = [];
  const scripts: { script: PodScript; name?: string | RegExp; gpuId?: string }[] = [];
  let imagePolicy: ImagePolicy = "accept";
  let credit = options.balance ?? DEFAULT_BALANCE_USD;

  const billed = (): number =>
    pods.all().reduce((sum, pod) => sum + (pod.foreign ? 0 : billOf(pod, now()).microDollars), 0) / 1_000_000;
  const balance = (): number => credit - billed();

  /** At zero all pods stop, and those without a network volume are terminated (runpod-facts.md section 6.30). */
  function settle(): void {
    pods.advance();
    if (balance() > 0) return;
    for (const pod of pods.all()) if (!pod.foreign) pods.release(pod);
  }

  function takeScript(name: string, gpuId: string): PodScript {
    const index = scripts.findIndex(
      (entry) =>
        (entry.name === undefined || nameMatches(entry.name, name)) &&
        (entry.gpuId === undefined || entry.gpuId === gpuId),
    );
    return index < 0 ? {} : (scripts.splice(index, 1)[0]?.script ?? {});
  }

  function createPod(call: Call): Answer {
    if (call.bytes > MAX_CREATE_BYTES) return problem(413, `the request is larger than ${MAX_CREATE_BYTES} bytes`);
    if (call.body === undefined) return problem(400, "the request body is not JSON");
    const knowsDigest = (digest: string): boolean => registry.knows(digest);
    const admission = admit(call.body, { catalog, imagePolicy, balance: balance(), knowsDigest });
    if (!admission.ok) {
      const { status, detail, errors } = admission.refusal;
      return problem(status, detail, errors);
    }
    const script = takeScript(admission.body.name, admission.offer.id);
    const pod = pods.rent(admission.body, admission.offer, admission.image, script);
    return json(201, podAnswer(pod, now()));
  }

  function listPods(call: Call): Answer {
    const limit = Math.min(Math.max(Number(call.query.get("limit") ?? MAX_PAGE) || MAX_PAGE, 1), MAX_PAGE);
    const cursor = call.query.get("cursor");
    const after = cursor === null ? "" : Buffer.from(cursor, "base64url").toString();
    const rows = pods
      .all()
      .filter((pod) => pods.listed(pod))
      .map((pod) => ({ pod, order: `${String(pod.createdAt).padStart(15, "0")}/${pod.id}` }))
      .sort((a, b) => (a.order < b.order ? -1 : 1))
      .filter((row) => row.order > after);
    const page = rows.slice(0, limit);
    const hasNextPage = rows.length > page.length;
    const nextCursor = hasNextPage ? Buffer.from(page.at(-1)?.order ?? "").toString("base64url") : null;
    const answer = json(200, {
      pods: page.map(({ pod }) => podAnswer(pod, now())),
      ...(options.pagination === false ? {} : { pagination: { nextCursor, hasNextPage } }),
    });
    for (const { pod } of page) pods.noteRead(pod);
    return answer;
  }

  function withPod(call: Call, then: (pod: PodRecord) => Answer): Answer {
    const pod = pods.get(call.podId ?? "");
    return pod && pods.visible(pod) ? then(pod) : problem(404, "pod not found");
  }

  function deletePod(pod: PodRecord, lives: number | null): Answer {
    if (pod.releasedAt !== null) return problem(404, "pod not found");
    if (lives === null) pods.release(pod);
    else pod.livesOnReads = lives;
    return { status: 204, headers: {}, body: "" };
  }

  function listGpus(call: Call): Answer {
    const include = call.query.get("include");
    const product = call.query.get("product");
    if (include !== null && include !== "AVAILABILITY") return problem(400, "include must be AVAILABILITY");
    if (include !== null && product === null) return problem(400, "product is required with include=AVAILABILITY");
    if (include === null && product !== null) return problem(400, "product is valid only with include=AVAILABILITY");
    return json(200, { gpus: catalog.all().map((offer) => catalogRow(offer, include !== null)) });
  }

  function getGpu(call: Call): Answer {
    const offer = catalog.find(decodeURIComponent(call.path.slice("/v2/catalog/gpus/".length)));
    return offer
      ? json(200, catalogRow(offer, call.query.get("include") !== null))
      : problem(404, "resource not found");
  }

  function billing(call: Call): Answer {
    const query = readBillingQuery(call.query, now());
    return typeof query === "string" ? problem(400, query) : json(200, billingAnswer(pods.all(), query, now()));
  }

  function podLogs(call: Call, pod: PodRecord): Answer {
    const asked = call.query.get("source");
    const source: LogSource | undefined = asked === "container" || asked === "system" ? asked : undefined;
    const tail = Math.min(Number(call.query.get("tail") ?? 100) || 0, 5_000);
    return {
      status: 200,
      headers: { "Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no" },
      body: "",
      stream: (write, end) => {
        for (const line of pod.logs.tail(tail, source)) write(sseEvent(line));
        return pod.logs.listen((line) => {
          if (line === null) end();
          else if (!source || line.source === source) write(sseEvent(line));
        });
      },
    };
  }

  /** What the request does when nothing interferes. */
  function perform(call: Call, lives: number | null): Answer {
    const allowed = allowedMethods(call.route);
    if (allowed.length === 0) return problem(404, "The requested path was not found.");
    if (!allowed.includes(call.method)) {
      const refusal = problem(405, "The requested method is not allowed for this path.");
      return { ...refusal, headers: { ...refusal.headers, Allow: allowed.join(", ") } };
    }
    switch (`${call.method} ${call.route}`) {
      case "POST /v2/pods":
        return createPod(call);
      case "GET /v2/pods":
        return listPods(call);
      case "GET /v2/pods/{id}":
        return withPod(call, (pod) => {
          const answer = json(200, podAnswer(pod, now()));
          pods.noteRead(pod);
          return answer;
        });
      case "DELETE /v2/pods/{id}":
        return withPod(call, (pod) => deletePod(pod, lives));
      case "GET /v2/pods/{id}/logs":
        return withPod(call, (pod) => podLogs(call, pod));
      case "GET /v2/catalog/gpus":
        return listGpus(call);
      case "GET /v2/catalog/gpus/{id}":
        return getGpu(call);
      default:
        return billing(call);
    }
  }

  function graphql(call: Call): Answer {
    const query = (call.body as { query?: unknown } | undefined)?.query;
    if (call.method !== "POST" || typeof query !== "string") return json(400, { errors: [{ message: "no query" }] });
    const spendPerHour = pods.all().reduce((sum, pod) => sum + (pod.releasedAt === null ? pod.ratePerHour : 0), 0);
    const keyed = call.key === options.apiKey;
    const answer = graphqlAnswer(query, { offers: catalog.all(), balance: balance(), spendPerHour, keyed });
    return json(answer.status, answer.body);
  }

  /** A pod-scoped key reads and ends its own pod, nothing else. */
  function keyRefusal(call: Call): Answer | null {
    if (call.key === options.apiKey) return null;
    if (call.key === null) return problem(401, "missing bearer token");
    const own = pods.byKey(call.key);
    if (!own || own.releasedAt !== null) return problem(401, "invalid bearer token");
    return call.route === "/v2/pods/{id}" && call.podId === own.id ? null : problem(403, "access denied");
  }

  function takeFault(call: Call): FaultBehaviour | null {
    return faults.take({ ...call, gpuId: call.create?.gpuId ?? null, name: call.create?.name ?? null });
  }

  /** Null: cut the connection. Undefined: never answer. */
  function answerTo(call: Call, userAgent: string | undefined): Answer | null | undefined {
    switch (faults.outage) {
      case "503":
        return text(503, "");
      case "drop":
        return null;
      case "edge":
        return { status: 502, headers: { "Content-Type": "text/html" }, body: "<html>bad gateway</html>" };
      case null:
        break;
    }
    // The edge in front of the API refuses clients without a name, and not in the API's words.
    if (!userAgent) return text(403, "error code: 1010");
    if (call.path.startsWith("/v1/")) return problem(410, "REST v1 has been retired");
    settle();
    if (call.route === "/graphql") return meet(takeFault(call), () => graphql(call));
    if (call.route === "/v2/openapi.json") return meet(takeFault(call), () => json(200, openApiDocument));
    const refusal = keyRefusal(call);
    if (refusal) return refusal;
    const verdict = limits.take(now());
    const fault = verdict.allowed ? takeFault(call) : null;
    const answer = verdict.allowed
      ? meet(fault, () => perform(call, fault?.kind === "lives-on" ? fault.reads : null))
      : problem(429, "rate limit exceeded");
    return answer ? { ...answer, headers: { ...verdict.headers, ...answer.headers } } : answer;
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const raw = await readBody(request);
    const call = readCall(request, raw);
    if (options.latencyMs) await pause(options.latencyMs);
    const answer = answerTo(call, request.headers["user-agent"]);
    const { method, route, podId, create } = call;
    books.push({ atMs: now(), method, route, podId, status: answer?.status ?? null, create });
    if (answer === undefined) return;
    if (answer === null) response.destroy();
    else send(response, { ...answer, headers: { "x-request-id": `local-${books.length}`, ...answer.headers } });
  }

  const listening = await listen((request, response) => {
    handle(request, response).catch((error: unknown) => {
      console.error("local RunPod:", error);
      response.destroy();
    });
  }, options.port ?? 0);

  function known(podId: string): PodRecord {
    const pod = pods.get(podId);
    if (!pod) throw new Error(`the local RunPod has no pod ${JSON.stringify(podId)}`);
    return pod;
  }

  return {
    url: `${listening.url}/v2`,
    graphqlUrl: `${listening.url}/graphql`,
    registryUrl: registry.url,
    registry,
    faults,
    setStock: (gpuId, level) => catalog.setStock(gpuId, level),
    setPrice: (gpuId, usdPerHour) => catalog.setPrice(gpuId, usdPerHour),
    setBalance: (usd) => {
      credit = usd + billed();
    },
    balance,
    setImagePolicy: (policy) => {
      imagePolicy = policy;
    },
    nextPod: (script, which) => {
      scripts.push({ script, ...which });
    },
    setUtilization: (podId, percent) => {
      known(podId).utilization = percent;
    },
    setGpuReport: (podId, report) => pods.setGpuReport(known(podId), report),
    rentForeignPod: (foreign) => {
      const offer = catalog.find(foreign.gpuId ?? "NVIDIA RTX A4000") ?? catalog.all()[0];
      if (!offer) throw new Error("the local catalog is empty");
      return pods.rentForeign(foreign.name, foreign.env ?? {}, offer, foreign.createdAtMs ?? now()).id;
    },
    crashContainer: (podId) => {
      void known(podId).container?.stop(0);
    },
    bills: () => pods.all().map((pod) => billOf(pod, now())),
    requests: () => [...books],
    pods: () => pods.all().map(podEntry),
    logs: (podId) =>
      known(podId)
        .logs.tail(5_000, "container")
        .map((line) => line.line),
    close: async () => {
      await listening.close();
      pods.close();
      await containers.close(timing.killGraceMs);
      await registry.close();
    },
  };
}

/** The answer with a fault in its way: null cuts the connection, undefined never answers. */
function meet(fault: FaultBehaviour | null, work: () => Answer): Answer | null | undefined {
  if (fault === null) return work();
  switch (fault.kind) {
    case "answer":
      return instead(fault);
    case "done-but":
      work();
      return instead(fault);
    case "drop":
      if (fault.done) work();
      return null;
    case "hang":
      if (fault.done) work();
      return undefined;
    case "garbage":
      return { ...work(), headers: { "Content-Type": "application/json" }, body: '{"id": "' };
    case "capacity":
      return problem(400, CAPACITY_TEXT);
    case "rate-limited": {
      const refusal = problem(429, "rate limit exceeded for the minute window");
      return { ...refusal, headers: { ...refusal.headers, "Retry-After": fault.retryAfter ?? "1" } };
    }
    case "lives-on":
      return work();
  }
}

function instead(fault: { status: number; body?: string; headers?: Readonly<Record<string, string>> }): Answer {
  const answer = fault.body === undefined ? problem(fault.status, "scripted fault") : text(fault.status, fault.body);
  return { ...answer, headers: { ...answer.headers, ...fault.headers } };
}

const routes: readonly (readonly [pattern: RegExp, route: string, methods: readonly string[]])[] = [
  [/^\/v2\/openapi\.json$/, "/v2/openapi.json", ["GET"]],
  [/^\/graphql$/, "/graphql", ["POST"]],
  [/^\/v2\/pods$/, "/v2/pods", ["GET", "POST"]],
  [/^\/v2\/pods\/[^/]+$/, "/v2/pods/{id}", ["GET", "DELETE"]],
  [/^\/v2\/pods\/[^/]+\/logs$/, "/v2/pods/{id}/logs", ["GET"]],
  [/^\/v2\/catalog\/gpus$/, "/v2/catalog/gpus", ["GET"]],
  [/^\/v2\/catalog\/gpus\/[^/]+$/, "/v2/catalog/gpus/{id}", ["GET"]],
  [/^\/v2\/billing\/pods$/, "/v2/billing/pods", ["GET"]],
];

function allowedMethods(route: string): readonly string[] {
  return routes.find(([, name]) => name === route)?.[2] ?? [];
}

function readCall(request: IncomingMessage, raw: Buffer): Call {
  const target = new URL(request.url ?? "/", "http://local");
  const method = request.method ?? "GET";
  const route = routes.find(([pattern]) => pattern.test(target.pathname))?.[1] ?? "(unknown)";
  const body = raw.length > 0 ? parseJson(raw.toString("utf8")) : undefined;
  return {
    method,
    path: target.pathname,
    query: target.searchParams,
    route,
    podId: route.startsWith("/v2/pods/{id}") ? (target.pathname.split("/")[3] ?? null) : null,
    key: /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1] ?? null,
    bytes: raw.length,
    body,
    create: method === "POST" && route === "/v2/pods" ? createFacts(body, raw.length) : null,
  };
}

function createFacts(body: unknown, bytes: number): RequestEntry["create"] {
  const asked = (body ?? {}) as { name?: unknown; gpu?: { id?: unknown } | null };
  const word = (value: unknown): string => (typeof value === "string" ? value : "");
  return { name: word(asked.name), gpuId: word(asked.gpu?.id), bytes };
}

function podEntry(pod: PodRecord): PodEntry {
  const env = pod.body.env ?? {};
  return {
    id: pod.id,
    name: pod.name,
    gpuId: pod.gpuId,
    status: pod.status,
    foreign: pod.foreign,
    createdAtMs: pod.createdAt,
    releasedAtMs: pod.releasedAt,
    containerStarts: pod.containerStarts,
    processGroup: pod.container?.processGroup ?? null,
    envNames: Object.keys(env).sort(),
    tags: Object.fromEntries(Object.entries(env).filter(([name]) => TAG_NAME.test(name))),
  };
}
