/**
 * From answers to values: JSON, zod, pages and conditional requests, the same for every method of the clients.
 */

import * as z from "zod";
import { err, ok, type Result } from "../result.ts";
import { withQuery, type GitHubAnswer, type GitHubCall } from "./call.ts";
import type { EtagCache, EtagEntry } from "./etag.ts";
import { parseExactJson } from "./exact-json.ts";
import { NOT_JSON, type GitHubFailure } from "./failure.ts";
import { whereUnreadable } from "./schema.ts";

export type Reply<T> = Promise<Result<T, GitHubFailure>>;

/** A list with its pages read. `complete` false: there is more, or the list changed while it was read. */
export interface Listing<T> {
  readonly items: readonly T[];
  readonly complete: boolean;
}

/** Sends one call; `asApp` or `asRepository` of the App with the rest bound. */
export type Send = (call: GitHubCall) => Promise<Result<GitHubAnswer, GitHubFailure>>;

/** One page as the list reader wants it: `totalCount` null where the API gives none. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly totalCount: number | null;
}

export interface ListOptions<T> {
  /** What makes two items the same one: a list that shifts between two pages shows an item twice. */
  readonly key: (item: T) => string;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  /** 100 items a page. Reading stops here, with `complete` false. */
  readonly maxPages?: number;
}

export const PAGE_SIZE = 100;
/** GitHub serves at most 1,000 results of a filtered run list; the other lists we read are shorter. */
const PAGES_MAX = 20;

export interface Wire {
  /** GET one value. Conditional when the wire has a cache. */
  get<T>(operation: string, path: string, schema: z.ZodType<T>): Reply<T>;
  /** GET all pages of a list. Conditional, page by page, when the wire has a cache. */
  list<T>(operation: string, path: string, page: z.ZodType<Page<T>>, options: ListOptions<T>): Reply<Listing<T>>;
  /** A call that changes something; gives the answer unparsed. Never conditional, never repeated. */
  change(operation: string, method: "POST" | "PATCH" | "DELETE", path: string, body?: object): Reply<GitHubAnswer>;
}

/** `scope` separates what different callers remember under the same path (the repository's id). */
export function createWire(send: Send, scope: string, etags?: EtagCache): Wire {
  /** Reads and parses. Only what parsed is remembered: a body cut on its way would else come back with every 304. */
  async function read<T>(
    operation: string,
    path: string,
    schema: z.ZodType<T>,
  ): Reply<{ readonly value: T; readonly link: string | null }> {
    const call: GitHubCall = { operation, method: "GET", path };
    const key = `${scope} ${path}`;
    const known = etags?.get(key);
    const answer = await send(known === undefined ? call : { ...call, etag: known.etag });
    if (!answer.ok) return answer;
    const { status, etag, text, link } = answer.value;
    if (status === 304 && known !== undefined) {
      const before = parsedBefore(known, schema);
      return before.ok ? ok({ value: before.value, link: known.link }) : before;
    }
    const parsed = parseAnswer(answer.value, schema);
    if (!parsed.ok) return parsed;
    if (status !== 304 && etag !== null) etags?.set(key, { etag, text, link });
    return ok({ value: parsed.value, link });
  }

  return {
    async get(operation, path, schema) {
      const answer = await read(operation, path, schema);
      return answer.ok ? ok(answer.value.value) : answer;
    },

    async list(operation, path, page, options) {
      const items = new Map<string, ReturnType<typeof page.parse>["items"][number]>();
      const maxPages = options.maxPages ?? PAGES_MAX;
      for (let number = 1; number <= maxPages; number += 1) {
        const address = withQuery(path, { ...options.query, per_page: PAGE_SIZE, page: number });
        const answer = await read(operation, address, page);
        if (!answer.ok) return answer;
        const { value, link } = answer.value;
        for (const item of value.items) items.set(options.key(item), item);
        if (!hasNextPage(link, value.items.length)) {
          const { totalCount } = value;
          return ok({ items: [...items.values()], complete: totalCount === null || items.size === totalCount });
        }
      }
      return ok({ items: [...items.values()], complete: false });
    },

    change(operation, method, path, body) {
      return send({ operation, method, path, ...(body === undefined ? {} : { body }) });
    },
  };
}

/** What a remembered text said by which schema: an answer that comes back with every 304 is parsed once. */
const meanings = new WeakMap<EtagEntry, { readonly schema: z.ZodType; readonly value: unknown }>();

function parsedBefore<T>(entry: EtagEntry, schema: z.ZodType<T>): Result<T, GitHubFailure> {
  const known = meanings.get(entry);
  // The same schema made it, so it has that schema's type.
  if (known?.schema === schema) return ok(known.value as T);
  const parsed = parseAnswer(entry, schema);
  if (parsed.ok) meanings.set(entry, { schema, value: parsed.value });
  return parsed;
}

export function parseAnswer<T>(answer: Pick<GitHubAnswer, "text">, schema: z.ZodType<T>): Result<T, GitHubFailure> {
  let json: unknown;
  try {
    json = parseExactJson(answer.text);
  } catch {
    return err({ reason: "unreadable", what: NOT_JSON });
  }
  const parsed = schema.safeParse(json);
  return parsed.success ? ok(parsed.data) : err({ reason: "unreadable", what: whereUnreadable(parsed.error) });
}

/** Page schema of the endpoints that answer `{ total_count, <name>: [...] }`. */
export function countedPage<T>(name: string, item: z.ZodType<T>): z.ZodType<Page<T>> {
  return z
    .looseObject({ total_count: z.int().nonnegative() })
    .transform((body, context): unknown => {
      const list = body[name];
      if (list === undefined) context.addIssue({ code: "custom", message: `no ${name}`, path: [name] });
      return { totalCount: body.total_count, items: list };
    })
    .pipe(z.object({ totalCount: z.int(), items: z.array(item) }));
}

/** Page schema of the endpoints that answer a bare array. */
export function arrayPage<T>(item: z.ZodType<T>): z.ZodType<Page<T>> {
  return z.array(item).transform((items) => ({ items, totalCount: null }));
}

/** The link says it; where a proxy or a small server sends none, a full page means that there may be another. */
function hasNextPage(link: string | null, received: number): boolean {
  return link === null ? received >= PAGE_SIZE : /;\s*rel="?next"?/i.test(link);
}

/** The value of `name` in the query of a `Link` header's next page, or null. Only this value is taken, not the URL. */
export function nextPageParameter(link: string | null, name: string): string | null {
  const target = /<([^<>]*)>\s*;\s*rel="?next"?/i.exec(link ?? "")?.[1];
  if (target === undefined) return null;
  return new URLSearchParams(target.split("?")[1] ?? "").get(name);
}
