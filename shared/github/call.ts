/**
 * One exchange with GitHub: what is asked, what came back, and how it was watched.
 *
 * What the App signs goes through Octokit; what has its token, which is nearly everything, is sent as it is. The bytes go
 * through here either way, with the time-out, the size bound and the observation, and whatever happened is a `Result`.
 */

import type { Clock, FetchLike, Millis } from "../ports.ts";
import { readBodyText, safeText, timedOut, timeLimit, untilAborted } from "../http.ts";
import { err, ok, type Result } from "../result.ts";
import { failureFromAnswer, type GitHubFailure } from "./failure.ts";

/** The version every shape in this folder was written for. Without the header GitHub still answers as 2022-11-28. */
export const GITHUB_API_VERSION = "2026-03-10";

/** Larger than any answer the gate reads: a recursive tree is at most 7 MB (GitHub's documented bound). */
export const BODY_LIMIT_BYTES = 16 * 1024 * 1024;

export const CALL_TIMEOUT_MS = 10_000;

export interface GitHubCall {
  /** The name in the metrics and the audit, such as `getPull`. */
  readonly operation: string;
  readonly method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  /** Path and query, percent-encoded, made with `path` below; starts with `/`. */
  readonly path: string;
  readonly body?: object;
  /** Default: 10 s, for each HTTP exchange of the call. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Sent as `If-None-Match`. */
  readonly etag?: string;
  /** Nobody waits for it: it is not sent while the installation's quota is nearly used up. */
  readonly background?: boolean;
}

/** A success (2xx), or 304 to a call that sent an etag. */
export interface GitHubAnswer {
  readonly status: number;
  readonly text: string;
  readonly etag: string | null;
  readonly link: string | null;
}

/** What an observer hears of each HTTP exchange. Neither bodies, headers nor credentials are in it. */
export interface CallReport {
  readonly operation: string;
  readonly method: string;
  /** Null: no answer. */
  readonly status: number | null;
  readonly durationMs: number;
  readonly rate: {
    readonly limit: number | null;
    readonly remaining: number | null;
    readonly reset: Millis | null;
    readonly resource: string | null;
  };
  /** `x-github-request-id`, which GitHub's support asks for. */
  readonly requestId: string | null;
}

export interface CallDeps {
  readonly fetch: FetchLike;
  readonly clock: Clock;
  readonly onCall?: ((report: CallReport) => void) | undefined;
}

/** How Octokit sends a prepared request: `send` gets the fetch to use and the signal it has to end by. */
export type Sender = (fetch: FetchLike, signal: AbortSignal) => Promise<unknown>;

type Answered = Result<GitHubAnswer, GitHubFailure>;

/** One call's HTTP exchanges: each is bounded, read and reported, and the last one counts. */
class Exchanges {
  last: Answered | null = null;
  readonly #deps: CallDeps;
  readonly #call: GitHubCall;
  readonly #secrets: readonly string[];

  constructor(deps: CallDeps, call: GitHubCall, secrets: readonly string[]) {
    this.#deps = deps;
    this.#call = call;
    this.#secrets = secrets;
  }

  /** Throws what the fetch throws, or the time-out; `last` says then what it was. */
  async one(url: string, init: RequestInit): Promise<{ readonly response: Response; readonly text: string }> {
    const { clock } = this.#deps;
    const limit = timeLimit(this.#call.timeoutMs ?? CALL_TIMEOUT_MS, this.#call.signal);
    const started = clock.now();
    this.last = err({ reason: "transport", timeout: false });
    const heard: { response: Response | null } = { response: null };
    try {
      return await untilAborted(this.#read(url, init, limit.signal, heard), limit.signal);
    } catch (error) {
      this.last = err({ reason: "transport", timeout: timedOut(limit.signal) });
      throw error;
    } finally {
      limit.lift();
      report(this.#deps, this.#call, heard.response, clock.now() - started);
    }
  }

  async #read(url: string, init: RequestInit, signal: AbortSignal, heard: { response: Response | null }) {
    const { fetch, clock } = this.#deps;
    const response = await sameServerFetch(fetch, url, { ...init, signal });
    heard.response = response;
    const body = await readBodyText(response, BODY_LIMIT_BYTES);
    // Given up meanwhile: that word stands.
    if (signal.aborted) return { response, text: "" };
    if (!body.ok && body.error.reason === "too-large")
      this.last = err({ reason: "unreadable", what: "the body (too large)" });
    if (body.ok) this.last = readAnswer(response, body.value, this.#call, clock.now(), this.#secrets);
    return { response, text: body.ok ? body.value : "" };
  }
}

const DOTS: Answered = err({
  reason: "unprocessable",
  message: "a name that is '.' or '..' cannot be part of a GitHub address",
});

const NO_ANSWER: Answered = err({ reason: "transport", timeout: false });

/** Performs one call that is ready to be sent: the address is `base` and the call's path. */
export async function exchangeOnce(
  deps: CallDeps,
  call: GitHubCall,
  base: string,
  headers: Readonly<Record<string, string>>,
  secrets: readonly string[] = [],
): Promise<Answered> {
  if (hasDotSegment(call.path)) return DOTS;
  const exchanges = new Exchanges(deps, call, secrets);
  const { method } = call;
  const body = call.body === undefined ? null : JSON.stringify(call.body);
  const init: RequestInit = {
    method,
    headers: body === null ? headers : { ...headers, "content-type": "application/json; charset=utf-8" },
    ...(body === null ? {} : { body }),
  };
  // What failed is in `last`.
  await exchanges.one(`${base}${call.path}`, init).catch(() => undefined);
  return exchanges.last ?? NO_ANSWER;
}

/**
 * Performs one call through Octokit. `send` may make more than one HTTP exchange (Octokit corrects a skewed clock and asks
 * again): the last one counts, each one is reported.
 */
export async function exchange(
  deps: CallDeps,
  call: GitHubCall,
  send: Sender,
  secrets: readonly string[] = [],
): Promise<Answered> {
  if (hasDotSegment(call.path)) return DOTS;
  const exchanges = new Exchanges(deps, call, secrets);
  const watchedFetch: FetchLike = async (url, init) => {
    const { response, text } = await exchanges.one(url, requestInit(init));
    return forOctokit(response, text);
  };

  // The whole call, a second exchange and signing included, stays bounded even if `send` should hang.
  const overall = timeLimit((call.timeoutMs ?? CALL_TIMEOUT_MS) * 2 + 1_000, call.signal);
  try {
    await untilAborted(send(watchedFetch, overall.signal), overall.signal);
  } catch (error) {
    // Octokit throws for every status from 300 on; that exchange has been read already.
    if (overall.signal.aborted)
      return exchanges.last ?? err({ reason: "transport", timeout: timedOut(overall.signal) });
    if (exchanges.last === null) {
      return err({ reason: "unauthorized", message: `the request could not be signed (${nameOf(error)})` });
    }
  } finally {
    overall.lift();
  }
  return exchanges.last ?? NO_ANSWER;
}

/** Builds a path: every value becomes one percent-encoded segment, except `slashed` values, which keep their slashes. */
export function path(strings: TemplateStringsArray, ...values: readonly (string | number | Slashed)[]): string {
  const encoded = values.map((value) =>
    typeof value === "object" ? value.slashed.split("/").map(encodeURIComponent).join("/") : encodeURIComponent(value),
  );
  return strings.map((text, index) => text + (encoded[index] ?? "")).join("");
}

/** A value of several segments: a file's path, a branch's name. */
export interface Slashed {
  readonly slashed: string;
}

export function slashed(value: string): Slashed {
  return { slashed: value };
}

/** Adds a query; undefined values are left out. */
export function withQuery(base: string, query: Readonly<Record<string, string | number | undefined>>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.append(name, String(value));
  const text = search.toString();
  return text === "" ? base : `${base}?${text}`;
}

/** URL parsing would remove such segments and so reach another address than the one that was built. */
function hasDotSegment(fullPath: string): boolean {
  const [pathOnly = ""] = fullPath.split("?");
  return pathOnly.split("/").some((segment) => /^(?:\.|%2e){1,2}$/i.test(segment));
}

/** A repository that was renamed is answered with one redirection; more than a few lead nowhere. */
const MAX_REDIRECTIONS = 3;

/**
 * A renamed or transferred repository's old address redirects. `fetch` itself would turn a redirected POST into a GET, and
 * a dispatch into a 404: the request is sent again as it is, and only to the same server, since it carries the token.
 */
export async function sameServerFetch(fetch: FetchLike, url: string, init: RequestInit): Promise<Response> {
  let address = url;
  for (let hop = 0; ; hop += 1) {
    const response = await fetch(address, { ...init, redirect: "manual" });
    const location = response.headers.get("location");
    if (![301, 302, 307, 308].includes(response.status) || location === null || hop === MAX_REDIRECTIONS)
      return response;
    const next = new URL(location, address);
    if (next.origin !== new URL(address).origin) return response;
    await response.body?.cancel();
    address = next.href;
  }
}

/** Octokit's init without its extras (`duplex`), which not every fetch knows. */
function requestInit(init: RequestInit | undefined): RequestInit {
  return {
    method: init?.method ?? "GET",
    headers: init?.headers ?? {},
    ...(init?.body === undefined || init.body === null ? {} : { body: init.body }),
  };
}

function readAnswer(
  response: Response,
  text: string,
  call: GitHubCall,
  now: Millis,
  secrets: readonly string[],
): Result<GitHubAnswer, GitHubFailure> {
  const { status, headers } = response;
  const notModified = status === 304 && call.etag !== undefined;
  if ((status >= 200 && status < 300) || notModified) {
    return ok({ status, text, etag: headers.get("etag"), link: headers.get("link") });
  }
  return err(failureFromAnswer({ status, headers, text }, now, secrets));
}

/**
 * What Octokit sees: that it went well, or of an error its status, message and date, from which it tells a skewed clock. It
 * would make an exception of every 304 too, which is how most polls are answered and is long read here.
 */
function forOctokit(response: Response, text: string): Response {
  if (response.status < 400) return new Response(null, { status: 204 });
  const headers = new Headers();
  for (const name of ["content-type", "date"]) {
    const value = response.headers.get(name);
    if (value !== null) headers.set(name, value);
  }
  return new Response(text, { status: response.status, headers });
}

function report(deps: CallDeps, call: GitHubCall, response: Response | null, durationMs: number): void {
  const header = (name: string): string | null => response?.headers.get(name) ?? null;
  const count = (name: string): number | null => {
    const value = header(name);
    return value !== null && /^\d{1,12}$/.test(value) ? Number(value) : null;
  };
  const resetSeconds = count("x-ratelimit-reset");
  deps.onCall?.({
    operation: call.operation,
    method: call.method,
    status: response?.status ?? null,
    durationMs,
    rate: {
      limit: count("x-ratelimit-limit"),
      remaining: count("x-ratelimit-remaining"),
      reset: resetSeconds === null ? null : resetSeconds * 1_000,
      resource: header("x-ratelimit-resource"),
    },
    requestId: header("x-github-request-id"),
  });
}

function nameOf(error: unknown): string {
  return error instanceof Error ? safeText(error.name, 60) : "unknown";
}
