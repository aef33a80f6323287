/**
 * Every other route: the workflow API with genuine tokens and damaged bodies, the operator's calls, the pod's calls, the
 * pages and reports with damaged queries. No 5xx but the one that says to come back later, no stack, no secret, no redirect
 * and no header that the caller wrote.
 */
import * as fc from "fast-check";
import { ok } from "../../shared/result.ts";
import { createApp } from "../../worker/app.ts";
import { mountCostsApi } from "../../worker/costs-api.ts";
import { mountExplainApi } from "../../worker/explain-api.ts";
import { mountOperatorApi } from "../../worker/operator-api.ts";
import type { OperatorPorts } from "../../worker/operator-ports.ts";
import { claims, GATE_URL, openBench, RECOVERY, runOf, sign, VALIDATION } from "../../test/oidc/harness.ts";
import { gate, ports, SETTINGS } from "../../test/worker/ports.ts";
import { byteChange, damagedBytes, encode, ENCODINGS, type ByteChange, type Encoding } from "../bytes.ts";
import { damagedJson, jsonChange, type JsonChange } from "../json.ts";
import { target, unfit, type Session } from "../target.ts";

const OPERATOR = "operator-token-of-this-fuzz";
const SECRETS = [OPERATOR, SETTINGS.runpodApiKey, ...SETTINGS.webhookSecrets.filter((one) => one.length > 8)];

interface Route {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  /** Needs an OIDC token of this kind, or the operator's, or a pod's nonce, or none. */
  readonly who: "recovery" | "validation" | "reader" | "operator" | "pod" | "nobody";
}

const PROOF = {
  podId: "p2",
  gpuName: "NVIDIA RTX A4000",
  gpuUuid: "GPU-1",
  vramMb: 16_000,
  cuda: "12.8",
  nvrtc: "12.8",
  gpuCount: 1,
  scriptSha256: "a".repeat(64),
};

const ROUTES: readonly Route[] = [
  { method: "POST", path: "/v1/recover", body: { pr_number: 7, keep_minutes: 5 }, who: "recovery" },
  { method: "POST", path: "/v1/validate", body: { revision: "d".repeat(40) }, who: "validation" },
  { method: "GET", path: "/v1/requests/r1", body: null, who: "recovery" },
  { method: "POST", path: "/v1/classify", body: {}, who: "reader" },
  { method: "POST", path: "/v1/probe", body: { lane: "desk", organisation: false }, who: "reader" },
  { method: "POST", path: "/v1/operator/pause", body: { paused: true, reason: "x" }, who: "operator" },
  {
    method: "POST",
    path: "/v1/operator/retain",
    body: { repository: "101", pod: "p", minutes: 5, reason: "x" },
    who: "operator",
  },
  {
    method: "POST",
    path: "/v1/operator/request",
    body: { repository: "101", request: "r1", action: "approve", usd: 1 },
    who: "operator",
  },
  { method: "POST", path: "/v1/operator/billing", body: {}, who: "operator" },
  { method: "POST", path: "/pod/v1/101/r1-1/proof", body: PROOF, who: "pod" },
  { method: "POST", path: "/pod/v1/101/r1-1/exit", body: { code: 1, reason: "smoke", gpuUuid: "GPU-1" }, who: "pod" },
  { method: "GET", path: "/api/costs?from=2026-11-01&to=2026-11-30", body: null, who: "operator" },
  { method: "GET", path: "/api/explain?repository=101&pr=7", body: null, who: "operator" },
  { method: "GET", path: "/api/status", body: null, who: "nobody" },
  { method: "GET", path: "/healthz", body: null, who: "nobody" },
  { method: "GET", path: "/", body: null, who: "nobody" },
];

const PATHS = [
  "",
  "/",
  "%",
  "%00",
  "%2e%2e%2f",
  "//evil.test",
  "?x=%ff",
  "&pr=1e999",
  "&from=%F0%9F%A6%84",
  "?pr[]=1",
  "&pr=__proto__",
  ";a=b",
  "%0d%0aX-Evil:1",
  "/../../v1/recover",
  "?from=0000-00-00&to=9999999999",
  "&request=r1&pod=p",
  "#x",
  "é",
] as const;
const METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"] as const;

export interface RouteCase {
  readonly route: number;
  readonly method: number | null;
  readonly path: number;
  readonly json: readonly JsonChange[];
  readonly bytes: readonly ByteChange[];
  readonly encoding: Encoding;
  readonly authorised: boolean;
}

export const routes = target<RouteCase>({
  name: "routes",
  about: "the workflow API, operator's and pod's calls, pages and reports",
  share: 20,
  sample: 120,
  cases: fc.record({
    route: fc.nat(ROUTES.length - 1),
    method: fc.oneof({ weight: 8, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: fc.nat(METHODS.length - 1) }),
    path: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(PATHS.length - 1) }),
    json: fc.array(jsonChange, { maxLength: 3 }),
    bytes: fc.oneof(
      { weight: 6, arbitrary: fc.constant([]) },
      { weight: 1, arbitrary: fc.array(byteChange, { minLength: 1, maxLength: 3 }) },
    ),
    encoding: fc.oneof(
      { weight: 8, arbitrary: fc.constant("utf8" as const) },
      { weight: 1, arbitrary: fc.constantFrom(...ENCODINGS) },
    ),
    authorised: fc.oneof({ weight: 4, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) }),
  }),
  open: async () => openRoutes(newBench),
});

interface RouteBench {
  readonly send: (path: string, init: RequestInit) => Promise<Response>;
  /** What the routes made happen: nothing may, for a caller without a word. */
  readonly acts: string[];
  /** Exceptions that a route caught and worded as "did not answer". */
  readonly caught: () => readonly string[];
}

const PER_BENCH = 300;

export function openRoutes(made: () => RouteBench): Session<RouteCase> {
  let bench = made();
  let tried = 0;
  return {
    async judge(given) {
      tried += 1;
      if (tried % PER_BENCH === 0) bench = made();
      const route = ROUTES[given.route % ROUTES.length];
      if (route === undefined) return null;
      const method = given.method === null ? route.method : (METHODS[given.method] ?? "GET");
      const path = route.path + (PATHS[given.path % PATHS.length] ?? "");
      const headers = new Headers({ "content-type": "application/json" });
      const word = given.authorised ? wordOf(route.who) : null;
      if (word !== null) headers.set("authorization", `Bearer ${word}`);
      const bodiless = method === "GET" || method === "HEAD";
      const json = given.json.length === 0 ? JSON.stringify(route.body) : damagedJson(route.body, given.json);
      const body = bodiless ? {} : { body: damagedBytes(encode(json, given.encoding), given.bytes) };
      const acts = bench.acts.length;
      const caught = bench.caught().length;
      const answer = await bench.send(path, { method, headers, ...body });
      const text = await answer.text();
      const shown = `${method} ${path}: ${answer.status} ${text.slice(0, 200)}`;
      const fresh = bench.caught().slice(caught);
      if (fresh.length > 0) return `${shown}: an exception was taken for a silence: ${fresh[0]?.slice(0, 300)}`;
      if (answer.status >= 500 && !(answer.status === 503 && text.includes('"unavailable"')))
        return `answered ${shown}`;
      if (answer.status >= 300 && answer.status < 400) return `sent the caller elsewhere: ${shown}`;
      if (answer.status >= 400 && text === "" && method !== "HEAD") return `refused without a sentence: ${shown}`;
      if (answer.headers.has("x-evil")) return `a header of the caller's came back: ${shown}`;
      if (!answer.headers.has("x-content-type-options")) return `without its security headers: ${shown}`;
      if (word === null && route.who !== "nobody" && bench.acts.length > acts)
        return `did ${bench.acts.at(-1)} for nobody: ${shown}`;
      // The page holds its own script and style; a stack would be in neither.
      return unfit(path === "/" ? "" : text, SECRETS);
    },
    close: async () => undefined,
  };
}

function wordOf(who: Route["who"]): string | null {
  switch (who) {
    case "recovery":
      return sign(claims());
    case "validation":
      return sign(
        claims({
          job_workflow_ref: `octo/engine/${VALIDATION}@refs/heads/main`,
          workflow_ref: `octo/engine/${VALIDATION}@refs/heads/main`,
        }),
      );
    case "reader":
      return sign(claims({ aud: `${GATE_URL}/v1/read-only` }));
    case "operator":
      return OPERATOR;
    case "pod":
      return "a".repeat(64);
    case "nobody":
      return null;
  }
}

function newBench(): RouteBench {
  const acts: string[] = [];
  const bench = openBench({
    run: runOf({ path: RECOVERY }),
    view: null,
    opened: (what) => (acts.push(`open ${what.runId}`), { kind: "opened", requestId: "r1" }),
  });
  const settings = ok({ ...SETTINGS, operatorToken: OPERATOR });
  const given = ports({
    settings,
    gate: () => gate({ podCall: async () => (acts.push("pod call"), false) }),
  });
  const did = (what: string): void => void acts.push(what);
  const operator: OperatorPorts = {
    settings,
    gate: () => ({
      costs: async () => ({ costs: [], complete: true }),
      retain: async () => (did("retain"), { kind: "refused", why: "no" }) as never,
      operator: async () => (did("operator"), { done: false, why: "no" }) as never,
      explain: async () => "[]",
      note: async () => undefined,
    }),
    account: { setPaused: async () => did("pause"), registered: async () => [] },
    books: {
      account: {
        openReservations: async () => [],
        compareBooks: async () => [],
        bills: async () => ({ ok: false, why: "not here" }),
        takeBillingTurn: async () => ({ due: false, lastProblems: [], nextAt: 0 }),
        billingDone: async () => undefined,
      },
      gate: () => ({
        money: async () => ({}),
        recordBills: async () => ({ known: [], drifts: [] }),
        note: async () => undefined,
      }),
    } as never,
    clock: { now: () => Date.UTC(2026, 10, 30, 12) },
    log: (entry) => given.log(entry),
  };
  const app = createApp(() => given);
  mountCostsApi(app, () => operator);
  mountExplainApi(app, () => operator);
  mountOperatorApi(app, () => operator);
  return {
    acts,
    caught: () => [
      ...given.logged.filter((entry) => entry["event"] === "worker.error").map((entry) => JSON.stringify(entry)),
      ...bench.log.filter((entry) => entry["event"] === "workflow-api.failed").map((entry) => JSON.stringify(entry)),
    ],
    send: async (path, init) => {
      const url = `${GATE_URL}${path}`;
      const workflow = /^\/v1\/(?:recover|validate|requests\/|classify|probe)/.test(new URL(url).pathname);
      if (!workflow) return app.request(url, init);
      const answer = await bench.request(url, init);
      // The headers are put on by the app around it.
      const headers = new Headers(answer.headers);
      headers.set("x-content-type-options", "nosniff");
      return new Response(answer.body, { status: answer.status, headers });
    },
  };
}
