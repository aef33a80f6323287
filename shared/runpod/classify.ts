/**
 * What a create answer means: the one place where RunPod's statuses and texts become a decision.
 *
 * Money hangs on the difference between "nothing was created" and "perhaps something was". RunPod has no idempotency key,
 * has created pods and answered 500, and sends stock-outs under any status (500 in v1, 400 in v2), told only by text. So:
 * known capacity words on any answer that is not 2xx mean nothing was created; every other 5xx, 408, broken connection and
 * unreadable 2xx is ambiguous and must be looked up by the pod's name before anything else is bought.
 *
 * Sources: runpod-facts sections 3.4 and 4; the v2 OpenAPI document, `createPod`.
 */
import type { Millis } from "../ports.ts";
import { parsePod } from "./pod.ts";
import type { Pod } from "./pod.ts";
import { readProviderBody, shownDetails } from "./provider-text.ts";
import type { ProviderBody } from "./provider-text.ts";
import { headerValue, waitAsked } from "./rate-limit.ts";
import type { HeaderMap } from "./rate-limit.ts";
import type { TagNames } from "./tags.ts";

export interface HttpAnswer {
  readonly status: number;
  /** The `Content-Type` header, null when there is none. */
  readonly contentType: string | null;
  readonly bodyText: string;
  /** Names in any letter case. */
  readonly headers: HeaderMap;
}

/** No answer: the deadline passed, or the connection broke. Neither says whether the request arrived. */
export interface TransportFailure {
  readonly transport: "timeout" | "network";
}

export type CreateAnswer = HttpAnswer | TransportFailure;

export type AmbiguousWhy = "timeout" | "network" | "http-408" | "http-5xx" | "unreadable-2xx";

export type CreateOutcome =
  | { readonly kind: "created"; readonly pod: Pod }
  /** No GPU of this type is free; nothing was created. Next candidate, without waiting. */
  | { readonly kind: "capacity" }
  /** Nothing was created. The same name may be tried again after the wait (null: our own back-off). */
  | { readonly kind: "rate-limited"; readonly retryAfterMs: number | null }
  /** A pod may exist. Look it up by name before anything else is bought. */
  | {
      readonly kind: "ambiguous";
      readonly why: AmbiguousWhy;
      readonly status: number | null;
      readonly retryAfterMs: number | null;
    }
  /** The account has no money: no candidate will succeed. */
  | { readonly kind: "balance" }
  /** This account may not use this pool: skip the candidate. */
  | { readonly kind: "pool-forbidden"; readonly details: readonly string[] }
  /** The network edge refused the client (Cloudflare 1010 and its kind). Says nothing about the key or the GPU. */
  | { readonly kind: "edge-blocked" }
  | { readonly kind: "unauthorized" }
  /** RunPod does not take this image: no candidate will succeed. */
  | { readonly kind: "image-refused"; readonly details: readonly string[] }
  /**
   * The request is wrong. A 400 may also be a shortage in words we do not know, so one such answer condemns its candidate
   * and only all of them the request; a 422 breaks the contract everywhere.
   */
  | { readonly kind: "invalid"; readonly status: number; readonly details: readonly string[] }
  /** The interface itself is gone (410, or an answer in the retired v1 envelope). */
  | { readonly kind: "retired"; readonly status: number };

/** Words of a shortage, in any letter case; seen under 400, 500 and 200 (GraphQL). The last one answers a start, not a create. */
const CAPACITY_WORDS = [
  "no available machine",
  "no longer any instances available",
  "no instances currently available",
  "no instances available",
  "does not have the resources",
  "could not find any pods with required specifications",
  "not enough free gpus",
];

export function speaksOfCapacity(text: string): boolean {
  const plain = text.replaceAll(/\s+/g, " ").toLowerCase();
  return CAPACITY_WORDS.some((words) => plain.includes(words));
}

/** GraphQL names its refusal INSUFFICIENT_BALANCE; v2 has the status 402. The exact prose was never recorded. */
const BALANCE = /insufficient[ _-](?:balance|funds|credits?)/i;

export function speaksOfBalance(text: string): boolean {
  return BALANCE.test(text);
}

/** The name of our own field, quoted with the rest of the request, says nothing. */
const IMAGE = /\b(?:image|manifest|digest)\b(?!["']\s*:)/i;
/** "missing property 'image'" is about our body, not about the image. */
const SCHEMA_VIOLATION = /missing propert|additional propert|required propert|\bimage is required\b/i;

export interface ClassifyOptions {
  readonly now: Millis;
  /** Values that were sent and must not be quoted back: keys, JIT config, nonces, the start command. */
  readonly secrets?: readonly string[];
  readonly tagNames?: TagNames;
  /** How the pod of a 2xx is read; the v2 shape unless told otherwise. */
  readonly readPod?: typeof parsePod;
}

/** Classifies one answer to a create. Total: every status and every body has exactly one outcome. */
export function classifyCreate(answer: CreateAnswer, options: ClassifyOptions): CreateOutcome {
  if ("transport" in answer) {
    return { kind: "ambiguous", why: answer.transport, status: null, retryAfterMs: null };
  }
  const { status } = answer;
  const body = readProviderBody(answer.bodyText);

  if (status >= 200 && status <= 299) return classifySuccess(answer, body, options);
  // A time-out says nothing about what came of the request, whatever words stand with it.
  if (status !== 408 && (speaksOfCapacity(answer.bodyText) || body.words.some(speaksOfCapacity)))
    return { kind: "capacity" };
  if (status === 408 || (status >= 500 && status <= 599)) {
    return {
      kind: "ambiguous",
      why: status === 408 ? "http-408" : "http-5xx",
      status,
      retryAfterMs: waitAsked(answer.headers, options.now),
    };
  }
  if (status === 429) return { kind: "rate-limited", retryAfterMs: waitAsked(answer.headers, options.now) };
  if (status === 402 || body.words.some(speaksOfBalance)) return { kind: "balance" };
  if (status === 401) return { kind: "unauthorized" };
  if (isEdgeBlock(answer, body)) return { kind: "edge-blocked" };
  if (status === 410 || body.legacyEnvelope) return { kind: "retired", status };

  // Without what we sent: a start script that is quoted back speaks of images, too.
  const details = shownDetails(body, options.secrets ?? []);
  if (status === 403) return { kind: "pool-forbidden", details };
  if ((status === 422 || status === 400) && details.some(refusesImage)) return { kind: "image-refused", details };
  return { kind: "invalid", status, details };
}

/** A 403 that is not RunPod's own JSON comes from the edge: treat it as an outage, not as a dead key. */
export function isEdgeBlock(answer: HttpAnswer, body: ProviderBody): boolean {
  if (answer.status !== 403) return false;
  const html = /\bhtml\b/i.test(answer.contentType ?? headerValue(answer.headers, "content-type") ?? "");
  return body.edge || html || typeof body.json !== "object" || body.json === null;
}

function classifySuccess(answer: HttpAnswer, body: ProviderBody, options: ClassifyOptions): CreateOutcome {
  const parsed = (options.readPod ?? parsePod)(body.json, options.tagNames);
  if (parsed.ok) return { kind: "created", pod: parsed.pod };
  return { kind: "ambiguous", why: "unreadable-2xx", status: answer.status, retryAfterMs: null };
}

function refusesImage(word: string): boolean {
  return IMAGE.test(word) && !SCHEMA_VIOLATION.test(word);
}
