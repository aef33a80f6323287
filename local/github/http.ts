/** How the local GitHub's routes look: what a handler gets, what it gives, and GitHub's way of refusing and paging. */

import type * as z from "zod";
import type { Hub } from "./hub.ts";
import type { Caller } from "./auth.ts";
import type { Account, Repository } from "./model.ts";

export type ApiVersion = "2022-11-28" | "2026-03-10";
export const apiVersions: readonly ApiVersion[] = ["2022-11-28", "2026-03-10"];

export interface Call {
  readonly hub: Hub;
  readonly caller: Caller;
  readonly version: ApiVersion;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly body: unknown;
  /** Path as asked for, without the query. */
  readonly path: string;
  /** The repository named by the path, already found visible to the caller. */
  readonly found: { readonly repository: Repository | null; readonly organization: Account | null };
}

export interface Answer {
  readonly status: number;
  readonly json?: unknown;
  readonly raw?: Buffer;
  /** The body is somebody else's (a webhook payload): the API version does not apply to it. */
  readonly unversioned?: true;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Route {
  readonly method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  /** As in the OpenAPI document; `{name*}` takes the rest of the path. */
  readonly path: string;
  readonly operation: string;
  readonly as: "app" | "installation" | "any" | "open";
  /** Any one of these is enough, e.g. `["issues=write", "pull_requests=write"]`. */
  readonly permission?: readonly string[];
  readonly handle: (call: Call) => Answer | Promise<Answer>;
}

/** A refusal in GitHub's form. Thrown by handlers, written by the server. */
export class Refusal extends Error {
  readonly status: number;
  readonly errors: readonly unknown[] | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    message: string,
    extra: { errors?: readonly unknown[]; headers?: Record<string, string> } = {},
  ) {
    super(message);
    this.status = status;
    this.errors = extra.errors;
    this.headers = extra.headers ?? {};
  }

  toAnswer(): Answer {
    const json = {
      message: this.message,
      ...(this.errors === undefined ? {} : { errors: this.errors }),
      documentation_url: "https://docs.github.com/rest",
      status: String(this.status),
    };
    return { status: this.status, json, headers: this.headers };
  }
}

export function notFound(): Refusal {
  return new Refusal(404, "Not Found");
}

export function invalid(message: string, field?: string): Refusal {
  const errors = field === undefined ? undefined : [{ resource: "Request", field, code: "invalid" }];
  return new Refusal(422, message, errors === undefined ? {} : { errors });
}

export function repositoryOf(call: Call): Repository {
  if (call.found.repository === null) throw notFound();
  return call.found.repository;
}

export function organizationOf(call: Call): Account {
  if (call.found.organization === null) throw notFound();
  return call.found.organization;
}

export function param(call: Call, name: string): string {
  const value = call.params[name];
  if (value === undefined) throw new Error(`the route has no parameter ${name}`);
  return value;
}

/** A numeric id from the path; anything else is a 404, as nothing has that id. */
export function idParam(call: Call, name: string): number {
  const text = param(call, name);
  if (!/^\d{1,15}$/.test(text)) throw notFound();
  return Number(text);
}

/**
 * The JSON body through a schema; 422 with the first problem where GitHub would name the field. Some routes list problems as
 * plain strings (`validation-error-simple` in the OpenAPI document).
 */
export function readBody<T>(call: Call, schema: z.ZodType<T>, problems: "objects" | "strings" = "objects"): T {
  const parsed = schema.safeParse(call.body ?? {});
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const field = issue?.path.map(String).join(".") ?? "";
  const problem = `${field === "" ? "body" : field}: ${issue?.message ?? "is not valid"}`;
  throw new Refusal(422, `Invalid request.\n\n${problem}`, {
    errors: problems === "strings" ? [problem] : [{ resource: "Request", field, code: "invalid" }],
  });
}

function pageNumber(call: Call, name: string, fallback: number, max: number): number {
  const text = call.query.get(name);
  const value = text !== null && /^\d{1,9}$/.test(text) ? Number(text) : fallback;
  return Math.min(Math.max(value, 1), max);
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly total: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** One page of a list: `per_page` 30 unless told, at most 100, with the `Link` header GitHub puts beside it. */
export function paged<T>(call: Call, all: readonly T[]): Page<T> {
  const perPage = pageNumber(call, "per_page", 30, 100);
  const page = pageNumber(call, "page", 1, 1_000_000);
  const last = Math.max(1, Math.ceil(all.length / perPage));
  const link = (to: number, rel: string): string => {
    const query = new URLSearchParams(call.query);
    query.set("page", String(to));
    return `<${call.hub.url}${call.path}?${query.toString()}>; rel="${rel}"`;
  };
  const links = [
    ...(page > 1 ? [link(Math.min(page - 1, last), "prev")] : []),
    ...(page < last ? [link(page + 1, "next"), link(last, "last")] : []),
    ...(page > 1 ? [link(1, "first")] : []),
  ];
  return {
    items: all.slice((page - 1) * perPage, page * perPage),
    total: all.length,
    headers: links.length > 0 ? { link: links.join(", ") } : {},
  };
}

/** A page answered as a bare array. */
export function listAnswer<T>(call: Call, all: readonly T[], render: (item: T) => unknown): Answer {
  const page = paged(call, all);
  return { status: 200, json: page.items.map(render), headers: page.headers };
}

/** A page answered as `{total_count, <key>: [...]}`. */
export function countedAnswer<T>(call: Call, key: string, all: readonly T[], render: (item: T) => unknown): Answer {
  const page = paged(call, all);
  return { status: 200, json: { total_count: page.total, [key]: page.items.map(render) }, headers: page.headers };
}

const removedIn2026 = new Set(["merge_commit_sha", "assignee", "has_downloads", "use_squash_pr_title_as_default"]);

/** What an answer looks like under an API version: 2026-03-10 dropped some fields. */
export function forVersion(version: ApiVersion, value: unknown): unknown {
  if (version === "2022-11-28") return value;
  if (Array.isArray(value)) return value.map((item) => forVersion(version, item));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !removedIn2026.has(key))
      .map(([key, item]) => [key, forVersion(version, item)]),
  );
}
