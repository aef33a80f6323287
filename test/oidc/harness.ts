/**
 * The workflow API in process: its own token issuer with real keys, the real checks and the real single-use memory, a
 * GitHub of a few routes, and a gate that records what it is asked to open.
 */
import { createHmac, createSign, generateKeyPairSync, type KeyObject } from "node:crypto";
import { Hono } from "hono";
import { useToken, type Dispatched, type DispatchedAnswer } from "../../durable-objects/gate/dispatched.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import type { RequestView } from "../../durable-objects/gate/view.ts";
import { readSettings } from "../../durable-objects/settings.ts";
import { minted } from "../../local/minted.ts";
import { createTokenKeys } from "../../shared/oidc/jwks.ts";
import type { Millis } from "../../shared/ports.ts";
import { mountWorkflowApi } from "../../worker/workflow-api.ts";
import type { WorkflowPorts } from "../../worker/workflow-ports.ts";
import { mountSweepApi, type SweepPorts } from "../../worker/workflow-sweep.ts";
import { json, shaOf, stubClient, T0, type Handler } from "../github/stub.ts";
import { nodeSql } from "../support/node-sql.ts";
import { said, saidIn } from "../support/said.ts";

export const ISSUER = "https://issuer.test";
export const GATE_URL = "https://gate.test";
export const READ_ONLY = `${GATE_URL}/v1/read-only`;
export const NOW: Millis = T0;
export const HEAD = shaOf("a");
export const MAIN = shaOf("c");
export const RECOVERY = ".github/workflows/gpu-gate-recovery.yml";
export const VALIDATION = ".github/workflows/gpu-gate-validation.yml";

export type Json = Record<string, unknown>;

export interface SigningKey {
  readonly kid: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

export function signingKey(kid: string, modulusLength = 2048): SigningKey {
  return { kid, ...generateKeyPairSync("rsa", { modulusLength }) };
}

export const KEY = signingKey("key-1");

export function jwk(key: SigningKey): Json {
  return { ...key.publicKey.export({ format: "jwk" }), kid: key.kid, alg: "RS256", use: "sig" };
}

let serial = 0;

/** A token's claims as GitHub sends them for the recovery workflow dispatched by mira on main, unless told otherwise. */
export function claims(change: Json = {}): Json {
  serial += 1;
  const seconds = Math.floor(NOW / 1000);
  return {
    iss: ISSUER,
    aud: GATE_URL,
    exp: seconds + 290,
    iat: seconds - 10,
    nbf: seconds - 310,
    jti: `00000000-0000-4000-8000-${String(serial).padStart(12, "0")}`,
    sub: "repo:octo@9/engine@101:ref:refs/heads/main",
    repository: "octo/engine",
    repository_id: "101",
    repository_owner: "octo",
    repository_owner_id: "9",
    repository_visibility: "public",
    actor: "mira",
    actor_id: "501",
    event_name: "workflow_dispatch",
    ref: "refs/heads/main",
    ref_type: "branch",
    ref_protected: "true",
    sha: MAIN,
    job_workflow_ref: `octo/engine/${RECOVERY}@refs/heads/main`,
    job_workflow_sha: MAIN,
    workflow: "GPU gate recover",
    workflow_ref: `octo/engine/${RECOVERY}@refs/heads/main`,
    workflow_sha: MAIN,
    run_id: "7001",
    run_number: "3",
    run_attempt: "1",
    runner_environment: "github-hosted",
    base_ref: "",
    head_ref: "",
    ...change,
  };
}

export function base64url(value: unknown): string {
  return Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
}

/** Signs whatever it is given: header and payload are the caller's business. */
export function sign(payload: Json, options: { readonly key?: SigningKey; readonly header?: Json } = {}): string {
  const key = options.key ?? KEY;
  const header = { alg: "RS256", typ: "JWT", kid: key.kid, ...options.header };
  const text = `${base64url(header)}.${base64url(payload)}`;
  return `${text}.${createSign("RSA-SHA256").update(text).sign(key.privateKey, "base64url")}`;
}

/** The oldest forgery: HMAC, with the issuer's public key as the secret. */
export function signWithPublicKey(payload: Json, alg = "HS256"): string {
  const text = `${base64url({ alg, typ: "JWT", kid: KEY.kid })}.${base64url(payload)}`;
  const secret = KEY.publicKey.export({ type: "spki", format: "pem" });
  return `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
}

export const MIRA = { id: 501, login: "mira" };
export const WALT = { id: 502, login: "walt" };

/** The run behind the token, as GitHub's API gives it. */
export function runOf(change: Json = {}): Json {
  return {
    id: 7001,
    run_attempt: 1,
    status: "in_progress",
    conclusion: null,
    event: "workflow_dispatch",
    path: RECOVERY,
    workflow_id: 55,
    display_title: "gpu-gate recover pull request 7",
    head_sha: MAIN,
    head_branch: "main",
    repository: { id: 101 },
    head_repository: { id: 101 },
    actor: MIRA,
    triggering_actor: MIRA,
    created_at: "2026-11-30T11:59:00Z",
    updated_at: "2026-11-30T11:59:00Z",
    run_started_at: "2026-11-30T11:59:00Z",
    html_url: "https://github.test/octo/engine/actions/runs/7001",
    ...change,
  };
}

export function pullOf(change: Json = {}): Json {
  const head = { sha: HEAD, ref: "topic", repo: { id: 101, full_name: "octo/engine" } };
  const base = { sha: MAIN, ref: "main", repo: { id: 101 } };
  return {
    number: 7,
    state: "open",
    draft: false,
    merged: false,
    title: "A change",
    labels: [],
    user: { ...MIRA, type: "User" },
    head,
    base,
    changed_files: 1,
    ...change,
  };
}

export const CONFIG = `version: 1
paths:
  docs:
    prefixes: [docs/]
lanes:
  desk:
    control: { prefixes: [docs/desk/] }
    checks: [desk tests]
    own:
      runs_on: [self-hosted, desk]
      switch: DESK_ON
      runbook: https://runbook.test/desk
`;

export function file(text: string): Json {
  return { type: "file", sha: shaOf("f"), encoding: "base64", content: Buffer.from(text).toString("base64") };
}

export interface Setup {
  readonly routes?: Readonly<Record<string, Handler>>;
  readonly run?: Json | null;
  readonly repository?: Json;
  readonly config?: string;
  readonly roles?: Readonly<Record<string, { readonly id: number; readonly role: string }>>;
  readonly env?: Json;
  /** What the key set's address answers. */
  readonly keys?: () => Response | Promise<Response>;
  readonly opened?: (what: Dispatched) => DispatchedAnswer;
  readonly view?: RequestView | null;
  readonly rented?: readonly string[];
  /** Cron, for the sweep's route; without it there is no such route. */
  readonly sweep?: SweepPorts;
}

export interface Bench {
  readonly log: Readonly<Record<string, unknown>>[];
  readonly opened: Dispatched[];
  readonly asked: readonly string[];
  readonly keyFetches: () => number;
  /** What the platform was asked to go on with when the caller is gone. */
  readonly goingOn: readonly Promise<unknown>[];
  setNow(at: Millis): void;
  /** POST with a bearer token; GET when there is no body. */
  call(path: string, token: string | null, body?: unknown): Promise<Response>;
  /** POST with exactly these headers and this body. */
  send(path: string, headers: Readonly<Record<string, string>>, body: BodyInit): Promise<Response>;
  request(path: string, init: RequestInit): Promise<Response>;
}

const NOT_FOUND = (): Response => json({ message: "Not Found" }, { status: 404 });

export function openBench(setup: Setup = {}): Bench {
  let now = NOW;
  const clock = { now: () => now };
  const roles = setup.roles ?? { mira: { id: 501, role: "admin" }, walt: { id: 502, role: "write" } };
  const permission =
    (login: string): Handler =>
    () => {
      const known = roles[login];
      if (known === undefined) return NOT_FOUND();
      return json({ permission: "write", role_name: known.role, user: { id: known.id } });
    };
  const repo = "/repos/octo/engine";
  const { client, stub } = stubClient({
    [`GET ${repo}`]: () =>
      json({ id: 101, full_name: "octo/engine", owner: { id: 9 }, default_branch: "main", ...setup.repository }),
    [`GET ${repo}/branches/main`]: () => json({ commit: { sha: MAIN } }),
    [`GET ${repo}/branches/trunk`]: () => json({ commit: { sha: MAIN } }),
    [`GET ${repo}/contents/.github/gpu-gate.yml`]: () => json(file(setup.config ?? CONFIG)),
    [`GET ${repo}/actions/runs/7001`]: () => (setup.run === null ? NOT_FOUND() : json(setup.run ?? runOf())),
    [`GET ${repo}/pulls/7`]: () => json(pullOf()),
    [`GET ${repo}/pulls/8`]: NOT_FOUND,
    [`GET ${repo}/collaborators/mira/permission`]: permission("mira"),
    [`GET ${repo}/collaborators/walt/permission`]: permission("walt"),
    ...setup.routes,
  });
  const settings = readSettings({
    DEPLOYMENT: "test",
    GITHUB_APP_ID: "1234",
    GITHUB_APP_PRIVATE_KEY: "canary-the-key-of-the-app",
    GITHUB_WEBHOOK_SECRET: "canary-webhook-secret",
    GITHUB_ALLOWED_REPOSITORIES: "101,102",
    GITHUB_API_URL: "https://github.test",
    GITHUB_WEB_URL: "https://github.test",
    RUNPOD_API_KEY: "canary-the-key-of-runpod",
    RUNPOD_API_URL: "https://runpod.test",
    RUNPOD_GRAPHQL_URL: "https://runpod.test/graphql",
    OIDC_ISSUER_URL: ISSUER,
    IMAGE_REGISTRY_URL: "https://registry.test",
    PUBLIC_URL: GATE_URL,
    STATUS_PAGE: "off",
    DEPLOYMENT_LIMITS: "",
    ...setup.env,
  });
  const sql = nodeSql();
  migrate(sql);
  const log: Readonly<Record<string, unknown>>[] = [];
  const opened: Dispatched[] = [];
  const fetched: string[] = [];
  const ports: WorkflowPorts = {
    settings,
    keys: createTokenKeys(ISSUER, {
      clock,
      fetch: async (input) => {
        fetched.push(input);
        return setup.keys === undefined ? json({ keys: [jwk(KEY)] }) : setup.keys();
      },
    }),
    gate: () => ({
      useToken: async (jti, expiresAt) => useToken(sql, jti, expiresAt, now),
      openDispatched: async (what) => {
        opened.push(what);
        return setup.opened?.(what) ?? { kind: "opened", requestId: "r1" };
      },
      dispatchedRequest: async (runId, requestId) =>
        runId === "7001" && requestId === "r1" ? (setup.view ?? null) : null,
      rentedRunnerIds: async () => setup.rented ?? [],
    }),
    github: () => ({
      client,
      get: async (path) => {
        const answer = await stub.fetch(`https://github.test${path}`);
        return { kind: "answer", status: answer.status, body: await answer.text() };
      },
    }),
    clock,
    log: (entry) => {
      said("the log", JSON.stringify(entry));
      log.push(entry);
    },
  };
  const app = new Hono<{ Bindings: Env }>();
  mountWorkflowApi(app, () => ports);
  const { sweep } = setup;
  if (sweep !== undefined)
    mountSweepApi(
      app,
      () => sweep,
      () => ports,
    );
  const goingOn: Promise<unknown>[] = [];
  const context = {
    waitUntil: (work: Promise<unknown>) => void goingOn.push(work),
    passThroughOnException: () => undefined,
    props: {},
  } as unknown as ExecutionContext;
  const ask = async (path: string, init: RequestInit): Promise<Response> => {
    const shown = new Headers(init.headers).get("authorization")?.split(" ").at(-1) ?? "";
    // Tokens are as bad as the caller; what a caller shows may not come out again.
    if (/^ey[\w-]+\.[\w-]{20,}\./.test(shown)) minted(shown, { origin: GATE_URL });
    return saidIn(path, await app.request(path, init, undefined, context));
  };
  return {
    log,
    opened,
    goingOn,
    get asked() {
      return stub.seen.map((call) => `${call.method} ${call.path}`);
    },
    keyFetches: () => fetched.length,
    setNow(at) {
      now = at;
    },
    request: ask,
    send: (path, headers, body) => ask(path, { method: "POST", headers, body }),
    async call(path, token, body) {
      const headers = token === null ? {} : { authorization: `Bearer ${token}` };
      if (body === undefined) return ask(path, { headers });
      const text = typeof body === "string" ? body : JSON.stringify(body);
      return ask(path, { method: "POST", headers, body: text });
    },
  };
}
