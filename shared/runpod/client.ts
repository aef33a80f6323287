/**
 * RunPod as the gate sees it: REST v2 for everything that has a price, the public GraphQL query for prices as a fallback.
 *
 * Every call gives a typed result; nothing here throws for what RunPod or the network does. Answers are parsed tolerantly
 * (RunPod adds and drops fields without notice) and reduced: see pod.ts for what is let through. There are no retries here:
 * when to try again is a decision of the lifecycle, which alone knows what is at stake.
 */
import * as z from "zod";
import type { Clock, FetchLike, Millis } from "../ports.ts";
import type { Result } from "../result.ts";
import { assert, err, ok } from "../result.ts";
import { parseTimestamp } from "../time.ts";
import { classifyCreate } from "./classify.ts";
import type { CreateOutcome, HttpAnswer, TransportFailure } from "./classify.ts";
import type { CreateBody } from "./create-body.ts";
import { secretsOf } from "./create-body.ts";
import { failureOf, saysNotFound } from "./failure.ts";
import type { RunPodFailure, RunPodFailureReason } from "./failure.ts";
import { callRunPod } from "./http.ts";
import type { HttpCall, RunPodCall } from "./http.ts";
import { readLogStream } from "./logs.ts";
import type { PodLogs } from "./logs.ts";
import { offersFromCatalog, offersFromGraphql, PRICING_QUERY } from "./offers.ts";
import type { Offer } from "./offers.ts";
import { parsePod } from "./pod.ts";
import type { Pod } from "./pod.ts";
import { parseJson } from "./provider-text.ts";
import { GPU_GATE_TAGS } from "./tags.ts";
import type { TagNames } from "./tags.ts";
import { DeletionReserve } from "./reserve.ts";

export type { RunPodCall } from "./http.ts";
export type { RunPodFailure } from "./failure.ts";

export interface RunPodClientOptions {
  readonly apiKey: string;
  /** `https://api.runpod.io`, with or without `/v2` at its end. */
  readonly baseUrl: string;
  readonly graphqlUrl: string;
  readonly fetch: FetchLike;
  readonly clock: Clock;
  readonly userAgent: string;
  readonly onCall?: (call: RunPodCall) => void;
  readonly timeoutSignal?: (timeoutMs: number) => AbortSignal;
  readonly tagNames?: TagNames;
  /** For calls without their own limit. */
  readonly timeoutMs?: number;
  /** Pods per page of a list. */
  readonly pageSize?: number;
  /** What is known of the quota; shared by the clients of one key. */
  readonly reserve?: DeletionReserve;
}

/** An entry of a list that could not be fully read. Without an id it is not among the pods. */
export interface MalformedPod {
  readonly id: string | null;
  readonly what: string;
}

export interface PodList {
  /** Each pod once. Order is RunPod's. */
  readonly pods: readonly Pod[];
  /**
   * True only if every page was read and every entry had an id. Only a complete list can show that a pod is absent.
   */
  readonly complete: boolean;
  /** Our clock before the first request: what was deleted later than this may still be in the list. */
  readonly startedAtMs: Millis;
  readonly pages: number;
  readonly malformed: readonly MalformedPod[];
  /** Why later pages are missing, when they are. */
  readonly failure: RunPodFailure | null;
}

export type GetPodAnswer =
  | { readonly kind: "pod"; readonly pod: Pod }
  | { readonly kind: "not-found" }
  | { readonly kind: "failure"; readonly failure: RunPodFailure };

export type DeletePodAnswer =
  /** RunPod took the order. Not yet a proof of absence. */
  | { readonly kind: "deleted" }
  /** RunPod does not know the pod. Right after a create this proves nothing: new pods answer 404 for a while. */
  | { readonly kind: "not-found" }
  | { readonly kind: "failure"; readonly failure: RunPodFailure };

export interface PodBilling {
  readonly podId: string;
  readonly startMs: Millis | null;
  readonly endMs: Millis | null;
  readonly totalUsd: number;
  readonly gpuUsd: number | null;
  readonly diskUsd: number | null;
}

export interface Balance {
  readonly usd: number | null;
  readonly spendUsdPerHour: number | null;
}

export interface RunPodClient {
  /** Sends one create; the outcome says whether a pod exists, may exist, or does not. `timeoutMs` is what is left of the walk. */
  createPod(body: CreateBody, options: { readonly timeoutMs: number }): Promise<CreateOutcome>;
  /**
   * All pods of the account, every page. Fails only when not even the first page could be read. `forDeletion`: it is asked to see
   * what has to be removed, and takes from what is kept of the quota for that.
   */
  listPods(options?: { readonly forDeletion?: boolean }): Promise<Result<PodList, RunPodFailure>>;
  getPod(podId: string, options?: { readonly timeoutMs?: number }): Promise<GetPodAnswer>;
  deletePod(podId: string): Promise<DeletePodAnswer>;
  /** The newest lines of a pod's log, best effort. The stream has no end of its own: time and size bound it. */
  getPodLogs(podId: string, options?: PodLogOptions): Promise<Result<PodLogs, RunPodFailure>>;
  /** Price, stock and CUDA versions of every GPU type on the secure cloud; stock for pods of one GPU. */
  catalogGpus(): Promise<Result<readonly Offer[], RunPodFailure>>;
  /** The live OpenAPI document, unparsed. Public: asked without the key. */
  openApiDocument(): Promise<Result<unknown, RunPodFailure>>;
  /** Prices without the catalog, from the public GraphQL query. Asked without the key. */
  publicPrices(): Promise<Result<readonly Offer[], RunPodFailure>>;
  billingPods(query: BillingQuery): Promise<Result<readonly PodBilling[], RunPodFailure>>;
  /** Money left, from GraphQL (v2 has no such route). A restricted key gets `forbidden`. */
  balance(): Promise<Result<Balance, RunPodFailure>>;
}

export interface PodLogOptions {
  readonly tail?: number;
  readonly timeoutMs?: number;
  /** Values that must not appear in a line. */
  readonly secrets?: readonly string[];
}

export interface BillingQuery {
  readonly startMs: Millis;
  readonly endMs: Millis;
  readonly podId?: string;
  readonly bucketSize?: "hour" | "day" | "week" | "month" | "year";
}

const DEFAULT_TIMEOUT_MS = 15_000;
/** Upstream waits this long for prices, and prices are worth no more. */
const PRICING_TIMEOUT_MS = 20_000;
const DOCUMENT_TIMEOUT_MS = 30_000;
const LOG_TIMEOUT_MS = 3_000;

/** Each pod carries its start command of several kilobytes, so pages are kept smaller than RunPod would allow (1,000). */
const DEFAULT_PAGE_SIZE = 200;
/** A cursor that never ends must end here: 200 x 200 pods are more than any account holds. */
const MAX_PAGES = 200;

const MAX_BODY_BYTES = 32 * 1024 * 1024;
const MAX_LOG_BYTES = 64 * 1024;

const listPage = z.object({
  pods: z.array(z.unknown()),
  pagination: z
    .object({ nextCursor: z.string().nullable().optional(), hasNextPage: z.boolean().optional() })
    .nullable()
    .optional(),
});

const money = z.number().nullable().optional().catch(null);
const billingAnswer = z.object({ records: z.array(z.unknown()) });
const billingRecord = z.object({
  podId: z.string().min(1),
  totalAmount: z.number(),
  gpuAmount: money,
  diskAmount: money,
  startTime: z.unknown().optional(),
  endTime: z.unknown().optional(),
});
const balanceAnswer = z.object({
  data: z.object({ myself: z.object({ clientBalance: money, currentSpendPerHr: money }) }),
});

/** What RunPod would say a few requests later, said without asking it. */
function heldBack(waitMs: number): HttpAnswer {
  return {
    status: 429,
    contentType: "application/problem+json",
    bodyText: JSON.stringify({ status: 429, detail: "Held back: the rest of the quota is kept for deletions." }),
    headers: { "retry-after": String(Math.ceil(waitMs / 1000)) },
  };
}

/** Carries tags of ours and is still there. */
function isOurs(pod: Pod): boolean {
  return pod.status !== "TERMINATED" && Object.keys(pod.tags).length > 0;
}

export function createRunPodClient(options: RunPodClientOptions): RunPodClient {
  const base = options.baseUrl.replace(/\/+$/, "").replace(/\/v2$/, "");
  const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  const tagNames = options.tagNames ?? GPU_GATE_TAGS;

  type Asked = Pick<HttpCall, "operation" | "method"> &
    Partial<HttpCall> & { readonly path: string; readonly forDeletion?: boolean };

  const reserve = options.reserve ?? new DeletionReserve();

  /**
   * A call to REST v2 with the key. What is left of the quota is for deletions: reads are held back here then. A create is
   * not: its walk has a minute, and held back for that long it would end as if there were no capacity.
   */
  const rest = async (asked: Asked): Promise<HttpAnswer | TransportFailure> => {
    const { path, forDeletion, ...call } = asked;
    const wait = call.method === "GET" ? reserve.wait(options.clock.now(), forDeletion) : null;
    if (wait !== null) return heldBack(wait);
    const answer = await callRunPod(options, {
      apiKey: options.apiKey,
      timeoutMs,
      maxBytes: MAX_BODY_BYTES,
      ...call,
      secrets: [options.apiKey, ...(call.secrets ?? [])],
      url: base + path,
    });
    // An answer to nobody speaks of nobody's quota.
    if (!("transport" in answer) && call.apiKey !== null) reserve.hear(answer.headers, options.clock.now());
    return answer;
  };

  const graphql = (operation: string, query: string, apiKey: string | null): Promise<HttpAnswer | TransportFailure> =>
    callRunPod(options, {
      operation,
      method: "POST",
      url: options.graphqlUrl,
      apiKey,
      json: { query },
      secrets: [options.apiKey],
      timeoutMs: PRICING_TIMEOUT_MS,
      maxBytes: MAX_BODY_BYTES,
    });

  const fail = (
    operation: string,
    answer: HttpAnswer | TransportFailure,
    reason?: RunPodFailureReason,
    secrets: readonly string[] = [],
  ): RunPodFailure =>
    failureOf(operation, answer, {
      now: options.clock.now(),
      secrets: [options.apiKey, ...secrets],
      ...(reason === undefined ? {} : { reason }),
    });

  const isAnswer = (answer: HttpAnswer | TransportFailure): answer is HttpAnswer => !("transport" in answer);
  const isSuccess = (answer: HttpAnswer | TransportFailure): answer is HttpAnswer =>
    isAnswer(answer) && answer.status >= 200 && answer.status <= 299;

  const podPath = (podId: string, tail = ""): string => {
    // An empty id would turn "this pod" into "all pods".
    assert(podId !== "" && podId !== "." && podId !== "..", "a pod id is needed");
    return `/v2/pods/${encodeURIComponent(podId)}${tail}`;
  };

  return {
    createPod: async (body, { timeoutMs: left }) => {
      assert(left > 0, "a create needs time left");
      const secrets = secretsOf(body);
      const answer = await rest({
        operation: "createPod",
        method: "POST",
        path: "/v2/pods",
        json: body,
        secrets,
        timeoutMs: left,
      });
      return classifyCreate(answer, {
        now: options.clock.now(),
        secrets: [options.apiKey, ...secrets],
        tagNames,
      });
    },

    listPods: async (list = {}) => {
      const startedAtMs = options.clock.now();
      const pods = new Map<string, Pod>();
      const malformed: MalformedPod[] = [];
      const cursors = new Set<string>();
      let cursor: string | null = null;
      let pages = 0;
      let failure: RunPodFailure | null = null;
      let reachedEnd = false;

      while (pages < MAX_PAGES) {
        const query = new URLSearchParams({ limit: String(options.pageSize ?? DEFAULT_PAGE_SIZE) });
        if (cursor !== null) query.set("cursor", cursor);
        const path = `/v2/pods?${query.toString()}`;
        const answer = await rest({ operation: "listPods", method: "GET", path, ...list });
        const page = isSuccess(answer) ? listPage.safeParse(parseJson(answer.bodyText)) : null;
        if (page === null || !page.success) {
          failure = fail("listPods", answer);
          if (pages === 0) return err(failure);
          break;
        }
        pages += 1;
        for (const entry of page.data.pods) {
          const parsed = parsePod(entry, tagNames);
          if (!parsed.ok) malformed.push({ id: null, what: parsed.what });
          else {
            pods.set(parsed.pod.id, parsed.pod);
            const { id, unreadable } = parsed.pod;
            if (unreadable.length > 0) malformed.push({ id, what: `unreadable: ${unreadable.join(", ")}` });
          }
        }
        const next: string | null = page.data.pagination?.nextCursor ?? null;
        // Older answers have no `pagination` at all: then this page was everything. One that names a next page without saying
        // that there is one is not the end: what stands on it would count as gone.
        const more = page.data.pagination?.hasNextPage ?? (next !== null && next !== "");
        if (!more) {
          reachedEnd = true;
          break;
        }
        // Another page is promised and cannot be asked for, or we were here before: not the end, so not complete.
        if (next === null || next === "" || cursors.has(next)) break;
        cursors.add(next);
        cursor = next;
      }

      // By tags alone, of whatever deployment: too much kept costs a moment, too little a minute of a pod.
      if (reachedEnd) reserve.expect([...pods.values()].filter(isOurs).length);
      const complete = reachedEnd && malformed.every((entry) => entry.id !== null);
      return ok({ pods: [...pods.values()], complete, startedAtMs, pages, malformed, failure });
    },

    getPod: async (podId, given) => {
      const answer = await rest({
        operation: "getPod",
        method: "GET",
        path: podPath(podId),
        timeoutMs: given?.timeoutMs ?? timeoutMs,
      });
      if (isAnswer(answer) && saysNotFound(answer)) return { kind: "not-found" };
      if (!isSuccess(answer)) return { kind: "failure", failure: fail("getPod", answer) };
      const parsed = parsePod(parseJson(answer.bodyText), tagNames);
      // Another pod's record must never speak for this one.
      if (!parsed.ok || parsed.pod.id !== podId) {
        return { kind: "failure", failure: fail("getPod", answer, "unreadable") };
      }
      return { kind: "pod", pod: parsed.pod };
    },

    deletePod: async (podId) => {
      const answer = await rest({ operation: "deletePod", method: "DELETE", path: podPath(podId) });
      // 204 has no body; older servers said 200. Either way the lists prove it, not this answer.
      if (isSuccess(answer)) return { kind: "deleted" };
      if (isAnswer(answer) && saysNotFound(answer)) return { kind: "not-found" };
      return { kind: "failure", failure: fail("deletePod", answer) };
    },

    getPodLogs: async (podId, given = {}) => {
      const answer = await rest({
        operation: "getPodLogs",
        method: "GET",
        path: podPath(podId, `/logs?tail=${Math.min(5000, Math.max(0, Math.trunc(given.tail ?? 100)))}`),
        accept: "text/event-stream",
        secrets: given.secrets ?? [],
        timeoutMs: given.timeoutMs ?? LOG_TIMEOUT_MS,
        maxBytes: MAX_LOG_BYTES,
        keepPartial: true,
      });
      const secrets = [options.apiKey, ...(given.secrets ?? [])];
      if (!isSuccess(answer)) return err(fail("getPodLogs", answer, undefined, secrets));
      return ok(readLogStream(answer.bodyText, secrets));
    },

    catalogGpus: async () => {
      const answer = await rest({
        operation: "catalogGpus",
        method: "GET",
        path: "/v2/catalog/gpus?include=AVAILABILITY&product=POD&count=1&cloud=SECURE",
      });
      if (!isSuccess(answer)) return err(fail("catalogGpus", answer));
      const offers = offersFromCatalog(parseJson(answer.bodyText));
      return offers.ok ? offers : err(fail("catalogGpus", answer));
    },

    openApiDocument: async () => {
      const answer = await rest({
        operation: "openApiDocument",
        method: "GET",
        path: "/v2/openapi.json",
        apiKey: null,
        timeoutMs: DOCUMENT_TIMEOUT_MS,
      });
      if (!isSuccess(answer)) return err(fail("openApiDocument", answer));
      const document = parseJson(answer.bodyText);
      return typeof document === "object" && document !== null ? ok(document) : err(fail("openApiDocument", answer));
    },

    publicPrices: async () => {
      const answer = await graphql("publicPrices", PRICING_QUERY, null);
      if (!isSuccess(answer)) return err(fail("publicPrices", answer));
      const offers = offersFromGraphql(answer.status, answer.bodyText);
      return offers.ok ? offers : err(fail("publicPrices", answer));
    },

    billingPods: async (query) => {
      const parameters = new URLSearchParams({
        startTime: new Date(query.startMs).toISOString(),
        endTime: new Date(query.endMs).toISOString(),
        bucketSize: query.bucketSize ?? "hour",
      });
      if (query.podId !== undefined) parameters.set("podId", query.podId);
      const path = `/v2/billing/pods?${parameters.toString()}`;
      const answer = await rest({ operation: "billingPods", method: "GET", path });
      if (!isSuccess(answer)) return err(fail("billingPods", answer));
      const parsed = billingAnswer.safeParse(parseJson(answer.bodyText));
      if (!parsed.success) return err(fail("billingPods", answer));
      return ok(parsed.data.records.flatMap(readBillingRecord));
    },

    balance: async () => {
      const answer = await graphql("balance", "query { myself { clientBalance currentSpendPerHr } }", options.apiKey);
      if (!isSuccess(answer)) return err(fail("balance", answer));
      const parsed = balanceAnswer.safeParse(parseJson(answer.bodyText));
      if (!parsed.success) return err(fail("balance", answer));
      const { clientBalance, currentSpendPerHr } = parsed.data.data.myself;
      return ok({ usd: clientBalance ?? null, spendUsdPerHour: currentSpendPerHr ?? null });
    },
  };
}

/** A record without a pod or an amount is left out: a guessed cost is worse than a missing one. */
function readBillingRecord(value: unknown): readonly PodBilling[] {
  const parsed = billingRecord.safeParse(value);
  if (!parsed.success) return [];
  const { podId, totalAmount, gpuAmount, diskAmount, startTime, endTime } = parsed.data;
  return [
    {
      podId,
      startMs: parseTimestamp(startTime),
      endMs: parseTimestamp(endTime),
      totalUsd: totalAmount,
      gpuUsd: gpuAmount ?? null,
      diskUsd: diskAmount ?? null,
    },
  ];
}
