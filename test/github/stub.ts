/**
 * A GitHub of a few routes, in process: records what was asked and answers what the test says. A request that no route
 * answers gets 501 and so fails the call that made it.
 */

import { generateKeyPairSync } from "node:crypto";
import { createGitHubApp, type GitHubApp, type GitHubAppConfig, type GitHubAppDeps } from "../../shared/github/app.ts";
import { createGitHubClient, type GitHubClient } from "../../shared/github/client.ts";
import type { EtagCache } from "../../shared/github/etag.ts";
import type { RunnerScope } from "../../shared/github/runners.ts";
import type { FetchLike, Millis } from "../../shared/ports.ts";
import { minted } from "../../local/minted.ts";

export const T0: Millis = Date.parse("2026-11-30T12:00:00Z");
export const API = "https://github.test";
export const TOKEN = minted("ghs_stubTokenStubTokenStubTokenStubToken", { origin: API });
export const REPOSITORY = { id: "101", owner: "octo", name: "engine", installationId: "77" } as const;

export const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
export const PKCS1 = minted(privateKey.export({ type: "pkcs1", format: "pem" }).toString(), "nobody");

export interface Seen {
  readonly method: string;
  /** Path and query as sent. */
  readonly path: string;
  readonly headers: Headers;
  readonly body: unknown;
}

export type Handler = (seen: Seen, nth: number) => Response | Promise<Response>;

export interface Stub {
  readonly fetch: FetchLike;
  readonly seen: Seen[];
  /** The calls of one route, as "METHOD /path" without the query. */
  calls(route: string): Seen[];
}

export interface AnswerInit {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

export function json(body: unknown, init: AnswerInit = {}): Response {
  return rawJson(JSON.stringify(body), init);
}

/** For bodies whose numbers must not pass through JavaScript. */
export function rawJson(text: string, { status = 200, headers = {} }: AnswerInit = {}): Response {
  return new Response(text, { status, headers: { "content-type": "application/json", ...headers } });
}

export function tokenAnswer(token = TOKEN, expiresAt: Millis = T0 + 3_600_000): Response {
  return json({ token, expires_at: new Date(expiresAt).toISOString(), permissions: {} }, { status: 201 });
}

export const MINT = "POST /app/installations/77/access_tokens";
export const LOOK_UP = "GET /repos/octo/engine/installation";

export function stubGitHub(routes: Readonly<Record<string, Handler>>): Stub {
  const seen: Seen[] = [];
  // A 404 makes the App ask whether it has a place here at all: it has, unless a test says otherwise.
  const here = { [MINT]: () => tokenAnswer(), [LOOK_UP]: () => json({ id: 77 }) };
  const all: Readonly<Record<string, Handler>> = { ...here, ...routes };
  const routeOf = (call: Seen): string => `${call.method} ${call.path.split("?")[0] ?? ""}`;
  const calls = (route: string): Seen[] => seen.filter((call) => routeOf(call) === route);
  return {
    seen,
    calls,
    async fetch(input, init) {
      const text = init?.body;
      const call: Seen = {
        method: init?.method ?? "GET",
        path: input.slice(API.length),
        headers: new Headers(init?.headers),
        body: typeof text === "string" && text !== "" ? JSON.parse(text) : undefined,
      };
      seen.push(call);
      const handler = all[routeOf(call)];
      if (handler === undefined) return json({ message: `no route ${routeOf(call)}` }, { status: 501 });
      return handler(call, calls(routeOf(call)).length);
    },
  };
}

export function stubApp(
  stub: Pick<Stub, "fetch">,
  options: { readonly deps?: Partial<GitHubAppDeps>; readonly config?: Partial<GitHubAppConfig> } = {},
): GitHubApp {
  const app = createGitHubApp(
    { appId: "1234", privateKey: PKCS1, apiUrl: API, ...options.config },
    { fetch: stub.fetch, clock: { now: () => T0 }, ...options.deps },
  );
  if (!app.ok) throw new Error(app.error.message);
  return app.value;
}

export function stubClient(
  routes: Readonly<Record<string, Handler>>,
  options: { readonly runners?: RunnerScope; readonly etags?: EtagCache } = {},
): { readonly client: GitHubClient; readonly stub: Stub } {
  const stub = stubGitHub(routes);
  const client = createGitHubClient({
    app: stubApp(stub),
    repository: REPOSITORY,
    runners: options.runners ?? { kind: "repository" },
    ...(options.etags === undefined ? {} : { etags: options.etags }),
  });
  return { client, stub };
}

/** A commit name made of one hex digit. */
export function shaOf(digit: string): string {
  return digit.repeat(40);
}
