/**
 * The HTTP side of the local GitHub: one request in, one answer out, and a line in the books.
 *
 * Order of checks: outage, ordered fault, latency, User-Agent, API version, credentials, rate limit, route, visibility of
 * the repository (404), permission (403), handler, ETag.
 */

import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { holds, sees } from "./auth.ts";
import type { Caller } from "./auth.ts";
import type { FaultBehaviour } from "./faults.ts";
import { faultName } from "./faults.ts";
import { apiVersions, forVersion, notFound, Refusal } from "./http.ts";
import type { Answer, ApiVersion, Route } from "./http.ts";
import type { Hub } from "./hub.ts";
import { IDENTITY_PATHS } from "./identity.ts";
import type { Account, Repository } from "./model.ts";
import { fullName } from "./model.ts";
import { pageAt } from "./pages.ts";
import { handleRunnerRequest } from "./runner-protocol.ts";

interface Compiled {
  readonly route: Route;
  readonly pattern: RegExp;
  readonly names: readonly string[];
}

function compile(route: Route): Compiled {
  const names: string[] = [];
  const source = route.path.replaceAll(/\{([a-z_]+)(\*?)\}/g, (_all, name: string, rest: string) => {
    names.push(name);
    return rest === "*" ? "(.+)" : "([^/]+)";
  });
  return { route, pattern: new RegExp(`^${source}$`), names };
}

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  readonly rawBody: Buffer;
}

interface Served {
  readonly answer: Answer;
  readonly operation: string | null;
  readonly caller: Caller;
  readonly version: ApiVersion | null;
}

const json = "application/json; charset=utf-8";

/** Titles and branches are other people's words: no page may run or load anything. */
const PAGE_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
};

export class ApiServer {
  readonly #hub: () => Hub;
  readonly #routes: readonly Compiled[];
  readonly #server: Server;

  constructor(hub: () => Hub, routes: readonly Route[]) {
    this.#hub = hub;
    this.#routes = routes.map(compile);
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch((problem: unknown) => {
        hub().books.problems.push(problem instanceof Error ? (problem.stack ?? problem.message) : String(problem));
        if (!response.headersSent) response.writeHead(500);
        response.end();
      });
    });
    this.#server.keepAliveTimeout = 30_000;
  }

  listen(port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, "127.0.0.1", () => {
        const address = this.#server.address();
        resolve(address !== null && typeof address === "object" ? address.port : port);
      });
    });
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const hub = this.#hub();
    const started = performance.now();
    const at = hub.world.clock.now();
    const url = new URL(request.url ?? "/", "http://local");
    const asked: Asked = {
      method: request.method ?? "GET",
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
      rawBody: await readAll(request),
    };
    const { outage } = hub.faults;
    const fault: FaultBehaviour | null =
      outage === "503"
        ? { status: 503, body: "<html><title>Unicorn! · GitHub</title></html>" }
        : outage === "drop"
          ? "drop"
          : hub.faults.take(asked.method, asked.path);
    if (IDENTITY_PATHS.test(asked.path) && fault === null) {
      const { status, json: answer } = hub.identity.answer(asked.path, asked.query, asked.headers.authorization);
      this.#send(response, { status, json: answer }, {});
      return;
    }
    if (asked.path.startsWith("/_runner/")) {
      if (fault !== null && fault !== "done-but-500" && !(typeof fault === "object" && "delayMs" in fault)) {
        if (typeof fault === "object") this.#send(response, { status: fault.status, json: fault.body ?? {} }, {});
        else response.destroy();
        return;
      }
      await handleRunnerRequest(hub, asked, response);
      return;
    }

    if (asked.method === "GET" && fault === null && this.#match(asked) === null) {
      const page = pageAt(hub, asked.path);
      if (page !== null) {
        response.writeHead(200, PAGE_HEADERS).end(page);
        return;
      }
    }

    const served = await this.#withFault(hub, asked, fault);
    const record = (status: number | "dropped"): void => {
      hub.books.requests.push({
        at,
        method: asked.method,
        path: asked.path,
        query: asked.query.toString(),
        operation: served.operation,
        status,
        tookMs: Math.round(performance.now() - started),
        as: served.caller.kind,
        installationId: served.caller.kind === "installation" ? served.caller.installation.id : null,
        apiVersion: headerOf(asked, "x-github-api-version"),
        userAgent: headerOf(asked, "user-agent"),
        body: readable(asked.rawBody),
        fault: fault === null ? null : faultName(fault),
      });
    };
    if (fault === "drop" || fault === "done-but-drop") {
      record("dropped");
      response.destroy();
      return;
    }
    const { answer, caller } = served;
    const key = bucketKey(caller);
    let final: Answer = {
      ...answer,
      json: answer.unversioned === true ? answer.json : forVersion(served.version ?? "2022-11-28", answer.json),
    };
    const headers: Record<string, string> = {};
    if (asked.method === "GET" && answer.status === 200) {
      const etag = `W/"${createHash("sha256")
        .update(answer.raw ?? JSON.stringify(final.json) ?? "")
        .digest("hex")}"`;
      headers["etag"] = etag;
      if (headerOf(asked, "if-none-match") === etag)
        final = { status: 304, ...(answer.headers === undefined ? {} : { headers: answer.headers }) };
    }
    // A 304 is free of charge; so is asking about the limit itself.
    if (final.status !== 304 && served.operation !== "rate-limit/get" && caller.kind !== "none")
      hub.rateLimit.count(key);
    Object.assign(headers, hub.rateLimit.headers(key), {
      "x-github-request-id": `LOCAL:${hub.world.nextId("request", 0)}`,
    });
    if (served.version !== null) headers["x-github-api-version-selected"] = served.version;
    record(final.status);
    this.#send(response, final, headers);
  }

  async #withFault(hub: Hub, asked: Asked, fault: FaultBehaviour | null): Promise<Served> {
    const nobody: Omit<Served, "answer"> = {
      operation: this.#operationOf(asked),
      caller: { kind: "none" },
      version: null,
    };
    if (fault === "drop") return { ...nobody, answer: { status: 500 } };
    if (fault !== null && typeof fault === "object" && "status" in fault) {
      const body = fault.body ?? {
        message: "Ordered fault",
        documentation_url: "https://docs.github.com/rest",
        status: String(fault.status),
      };
      return { ...nobody, answer: { status: fault.status, json: body, headers: fault.headers ?? {} } };
    }
    const delay = hub.timing.latencyMs + (fault !== null && typeof fault === "object" ? fault.delayMs : 0);
    if (delay > 0) await hub.timers.wait(delay);
    const served = await this.#route(hub, asked);
    if (fault !== "done-but-500") return served;
    return { ...served, answer: new Refusal(500, "Server Error").toAnswer() };
  }

  #operationOf(asked: Asked): string | null {
    return this.#match(asked)?.route.operation ?? null;
  }

  #match(asked: Asked): { route: Route; params: Record<string, string> } | null {
    for (const { route, pattern, names } of this.#routes) {
      if (route.method !== asked.method) continue;
      const found = pattern.exec(asked.path);
      if (found === null) continue;
      const params = Object.fromEntries(names.map((name, index) => [name, safeDecode(found[index + 1] ?? "")]));
      return { route, params };
    }
    return null;
  }

  async #route(hub: Hub, asked: Asked): Promise<Served> {
    let caller: Caller = { kind: "none" };
    let version: ApiVersion | null = null;
    let operation: string | null = null;
    try {
      if ((headerOf(asked, "user-agent") ?? "") === "") {
        throw new Refusal(
          403,
          "Request forbidden by administrative rules. Please make sure your request has a User-Agent header.",
        );
      }
      const wanted = headerOf(asked, "x-github-api-version") ?? "2022-11-28";
      version = apiVersions.find((known) => known === wanted) ?? null;
      if (version === null) throw new Refusal(400, `"${wanted}" is not a supported REST API version.`);
      caller = hub.credentials.caller(asked.headers.authorization);
      if (asked.path !== "/rate_limit") hub.rateLimit.check(bucketKey(caller));

      const byId = /^\/repositories\/(\d+)(\/.*)?$/.exec(asked.path);
      if (byId !== null) {
        const repository = hub.world.repositories.get(Number(byId[1]));
        if (repository === undefined || repository.deleted) throw notFound();
        return await this.#route(hub, { ...asked, path: `/repos/${fullName(repository)}${byId[2] ?? ""}` });
      }
      const match = this.#match(asked);
      if (match === null) throw notFound();
      const { route, params } = match;
      operation = route.operation;
      if (caller.kind === "installation") hub.rateLimit.spend(bucketKey(caller), operation, asked.method);
      if (route.as === "app" && caller.kind !== "app") {
        throw new Refusal(401, "A JSON web token could not be decoded");
      }
      if (route.as === "installation" && caller.kind !== "installation" && caller.kind !== "job") {
        throw caller.kind === "none"
          ? new Refusal(401, "Requires authentication")
          : new Refusal(403, "Resource not accessible by integration");
      }
      const found = this.#find(hub, caller, route, params, asked);
      if ("redirect" in found) return { answer: found.redirect, operation, caller, version };
      this.#requirePermission(caller, route);
      const body = asked.rawBody.length === 0 ? undefined : parseJson(asked.rawBody);
      if (body === unreadable) throw new Refusal(400, "Problems parsing JSON");
      const answer = await route.handle({
        hub,
        caller,
        version,
        params,
        query: asked.query,
        body,
        path: asked.path,
        found,
      });
      return { answer, operation, caller, version };
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) throw refusal;
      return { answer: refusal.toAnswer(), operation, caller, version };
    }
  }

  #requirePermission(caller: Caller, route: Route): void {
    const needs = route.permission;
    if (needs === undefined || needs.some((need) => holds(caller, need))) return;
    throw new Refusal(403, "Resource not accessible by integration", {
      headers: { "x-accepted-github-permissions": needs.join("; ") },
    });
  }

  #find(
    hub: Hub,
    caller: Caller,
    route: Route,
    params: Record<string, string>,
    asked: Asked,
  ): { repository: Repository | null; organization: Account | null } | { redirect: Answer } {
    const { owner, repo, org } = params;
    if (owner !== undefined && repo !== undefined) {
      const repository = hub.world.repository(owner, repo);
      if (repository !== undefined) {
        if (route.as === "installation" && !sees(caller, repository)) throw notFound();
        return { repository, organization: null };
      }
      const moved = hub.world.formerNames.get(`${owner}/${repo}`.toLowerCase());
      const renamed = moved === undefined ? undefined : hub.world.repositories.get(moved);
      if (renamed === undefined || renamed.deleted || (route.as === "installation" && !sees(caller, renamed)))
        throw notFound();
      const rest = asked.path.split("/").slice(4).join("/");
      const query = asked.query.toString();
      const location = `${hub.url}/repositories/${renamed.id}${rest === "" ? "" : `/${rest}`}${query === "" ? "" : `?${query}`}`;
      return {
        redirect: { status: 301, json: { message: "Moved Permanently", url: location }, headers: { location } },
      };
    }
    if (org !== undefined) {
      const organization = hub.world.account(org);
      if (organization === undefined || organization.type !== "Organization") throw notFound();
      if (
        route.as === "installation" &&
        (caller.kind !== "installation" || caller.installation.account.id !== organization.id)
      )
        throw notFound();
      return { repository: null, organization };
    }
    return { repository: null, organization: null };
  }

  #send(response: ServerResponse, answer: Answer, headers: Record<string, string>): void {
    const text = typeof answer.json === "string" ? answer.json : undefined;
    const body = answer.raw ?? (answer.json === undefined ? null : Buffer.from(text ?? JSON.stringify(answer.json)));
    const type = answer.raw !== undefined ? "application/octet-stream" : text !== undefined ? "text/html" : json;
    const bare = body === null || answer.status === 204 || answer.status === 304;
    response.writeHead(answer.status, {
      ...headers,
      ...(bare ? {} : { "content-type": type, "content-length": String(body.length) }),
      ...answer.headers,
    });
    response.end(bare ? undefined : body);
  }
}

function bucketKey(caller: Caller): string {
  if (caller.kind === "installation") return `installation ${caller.installation.id}`;
  return caller.kind === "job" ? `job ${caller.repository.id}` : caller.kind;
}

function headerOf(asked: Asked, name: string): string | null {
  const value = asked.headers[name];
  return Array.isArray(value) ? (value[0] ?? null) : (value ?? null);
}

const unreadable = Symbol("unreadable JSON");

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return unreadable;
  }
}

function readable(bytes: Buffer): unknown {
  const value = bytes.length === 0 ? null : parseJson(bytes);
  return value === unreadable ? null : value;
}

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export async function readAll(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}
