/** A local GitHub per test, a webhook receiver beside it, and calls whose every answer is held against the OpenAPI document. */

import { createSign } from "node:crypto";
import { createServer } from "node:http";
import type { IncomingHttpHeaders } from "node:http";
import { startLocalGitHub } from "../../local/github/index.ts";
import type { LocalGitHub, LocalGitHubOptions, RepositoryControl } from "../../local/github/index.ts";
import { npmContract } from "./openapi.ts";

export const SECRET = "test-webhook-secret";

export type Json = Record<string, unknown>;

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  /** The parsed JSON body, or null. */
  readonly body: unknown;
  readonly bytes: Uint8Array;
}

export interface Delivered {
  readonly event: string;
  readonly action: string | null;
  readonly guid: string;
  readonly headers: IncomingHttpHeaders;
  readonly raw: Buffer;
  readonly payload: Json;
}

export interface Bench {
  readonly github: LocalGitHub;
  readonly repo: RepositoryControl;
  /** Every webhook received, in order of arrival. */
  readonly hooks: readonly Delivered[];
  /** What the receiver answers from now on. */
  answerHooks(with_: { status?: number; hang?: boolean }): void;
  /** The next webhook that fits and has not been taken by an earlier call. */
  hook(event: string, action: string | null, fits?: (payload: Json) => boolean): Promise<Delivered>;
  app(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply>;
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply>;
  raw(method: string, path: string, init?: { body?: string; headers?: Record<string, string> }): Promise<Reply>;
  token(narrow?: unknown, installation?: number): Promise<string>;
  close(): Promise<void>;
}

export interface Claims {
  iss?: unknown;
  iat?: unknown;
  exp?: unknown;
}

export function appJwt(
  github: LocalGitHub,
  claims: Claims = {},
  header: Json = { alg: "RS256", typ: "JWT" },
  key?: string,
): string {
  const now = Math.floor(Date.now() / 1000);
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = `${part(header)}.${part({ iss: github.appId, iat: now - 60, exp: now + 500, ...claims })}`;
  return `${text}.${createSign("RSA-SHA256")
    .update(text)
    .sign(key ?? github.privateKeyPem, "base64url")}`;
}

const quick = {
  hostedStartMs: 1,
  inProgressGapMs: 1,
  cancelMs: 30,
  mergeabilityMs: 1,
  pollMs: 200,
  runnerLostMs: 1_000,
};

/** Starts a local GitHub with the repository octo/lab (owned by an organisation), and a receiver for its webhooks. */
export async function openBench(options: Partial<LocalGitHubOptions> = {}): Promise<Bench> {
  const hooks: Delivered[] = [];
  const taken = new Set<Delivered>();
  let waiting: { fits: (one: Delivered) => boolean; resolve: (one: Delivered) => void }[] = [];
  let behaviour: { status?: number; hang?: boolean } = {};
  const receiver = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const raw = Buffer.concat(chunks);
      const payload = JSON.parse(raw.toString("utf8")) as Json;
      const one: Delivered = {
        event: String(request.headers["x-github-event"]),
        action: typeof payload["action"] === "string" ? payload["action"] : null,
        guid: String(request.headers["x-github-delivery"]),
        headers: request.headers,
        raw,
        payload,
      };
      hooks.push(one);
      if (behaviour.hang !== true) response.writeHead(behaviour.status ?? 202).end("taken");
      const next = waiting.find((waiter) => waiter.fits(one));
      if (next === undefined) return;
      taken.add(one);
      waiting = waiting.filter((waiter) => waiter !== next);
      next.resolve(one);
    });
  });
  const port = await new Promise<number>((resolve) => {
    receiver.listen(0, "127.0.0.1", () => {
      const address = receiver.address();
      resolve(address !== null && typeof address === "object" ? address.port : 0);
    });
  });
  const { timing, ...rest } = options;
  const github = await startLocalGitHub({
    webhookSecret: SECRET,
    webhookUrl: `http://127.0.0.1:${port}/hooks`,
    timing: { ...quick, ...timing },
    ...rest,
  });
  const repo = github.createRepository({
    owner: "octo",
    name: "lab",
    organization: true,
    files: {
      "README.md": "# lab\n",
      "src/lib.rs": "fn main() {}\n",
      ".github/workflows/ci.yml": "name: CI\n",
      ".github/workflows/execute.yml": "name: Execute\n",
    },
  });

  const send = async (method: string, path: string, headers: Record<string, string>, body?: string): Promise<Reply> => {
    const url = path.startsWith("http") ? path : `${github.url}${path}`;
    const response = await fetch(url, { method, headers, redirect: "manual", ...(body === undefined ? {} : { body }) });
    const bytes = new Uint8Array(await response.arrayBuffer());
    const json = (response.headers.get("content-type") ?? "").includes("json");
    const parsed: unknown = json && bytes.length > 0 ? JSON.parse(Buffer.from(bytes).toString("utf8")) : null;
    const { pathname } = new URL(url);
    const problems = npmContract().problems(method, pathname, response.status, parsed) ?? [];
    if (problems.length > 0) throw new Error(`not as GitHub describes it: ${problems.join("; ")}`);
    return { status: response.status, headers: response.headers, body: parsed, bytes };
  };
  const usual = { "user-agent": "test", "x-github-api-version": "2026-03-10", accept: "application/vnd.github+json" };
  const authed = (
    secret: string,
    method: string,
    path: string,
    body: unknown,
    headers: Record<string, string>,
  ): Promise<Reply> =>
    send(
      method,
      path,
      {
        ...usual,
        authorization: `Bearer ${secret}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      body === undefined ? undefined : JSON.stringify(body),
    );
  let kept: Promise<string> | null = null;
  const bench: Bench = {
    github,
    repo,
    hooks,
    answerHooks: (with_) => {
      behaviour = with_;
    },
    hook: (event, action, fits = () => true) => {
      const matches = (one: Delivered): boolean => one.event === event && one.action === action && fits(one.payload);
      const already = hooks.find((one) => !taken.has(one) && matches(one));
      if (already !== undefined) {
        taken.add(already);
        return Promise.resolve(already);
      }
      return new Promise((resolve) => {
        waiting.push({ fits: matches, resolve });
      });
    },
    app: (method, path, body, headers = {}) => authed(appJwt(github), method, path, body, headers),
    call: async (method, path, body, headers = {}) => {
      kept ??= bench.token();
      return authed(await kept, method, path, body, headers);
    },
    raw: (method, path, init = {}) => send(method, path, { ...usual, ...init.headers }, init.body),
    token: async (narrow, installation) => {
      const id = installation ?? github.installation("octo").id;
      const reply = await bench.app("POST", `/app/installations/${id}/access_tokens`, narrow ?? {});
      if (reply.status !== 201) throw new Error(`no token: ${reply.status} ${JSON.stringify(reply.body)}`);
      return String((reply.body as Json)["token"]);
    },
    close: async () => {
      await github.close();
      receiver.closeAllConnections();
      await new Promise((resolve) => receiver.close(resolve));
    },
  };
  return bench;
}

/** Walks into JSON: `at(body, "check_suite", "id")`. Undefined where there is nothing. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  let here = value;
  for (const key of path) {
    if (here === null || typeof here !== "object") return undefined;
    here = (here as Record<string | number, unknown>)[key];
  }
  return here;
}

export function listOf(value: unknown, key?: string): Json[] {
  const list = key === undefined ? value : at(value, key);
  if (!Array.isArray(list)) throw new Error(`no list: ${JSON.stringify(value)}`);
  return list as Json[];
}
