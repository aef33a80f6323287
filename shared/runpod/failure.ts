/**
 * How a read or a delete at RunPod can fail: one small record, tagged by reason, safe to store and to show.
 *
 * A failure is never an answer. In particular only RunPod's own "no such pod" counts as a 404; an unknown path, a proxy's
 * page and the retired API also answer 404, and none of them says that a pod is gone.
 */
import type { Millis } from "../ports.ts";
import { isEdgeBlock, speaksOfBalance } from "./classify.ts";
import type { HttpAnswer, TransportFailure } from "./classify.ts";
import { readProviderBody, shownDetails } from "./provider-text.ts";
import type { ProviderBody } from "./provider-text.ts";
import { headerValue, parseRateLimit, waitAsked } from "./rate-limit.ts";
import type { RateLimitWindow } from "./rate-limit.ts";

export type RunPodFailureReason =
  /** Later: nothing is known to be wrong with the request. */
  | "timeout"
  | "network"
  | "rate-limited"
  | "upstream"
  | "edge-blocked"
  | "unreadable"
  /** Not until a person changes something. */
  | "unauthorized"
  | "forbidden"
  | "balance"
  | "retired"
  /** This request will never work. */
  | "conflict"
  | "invalid";

export interface RunPodFailure {
  readonly reason: RunPodFailureReason;
  /** Which of our calls, for example `listPods`. Never a URL. */
  readonly operation: string;
  readonly status: number | null;
  /** RunPod's own id of the answer: what its support asks for. */
  readonly requestId: string | null;
  /** How long RunPod asks us to stay away; null when it does not say. */
  readonly retryAfterMs: number | null;
  readonly windows: readonly RateLimitWindow[];
  /** RunPod's words, shortened and without secrets. */
  readonly details: readonly string[];
}

export function requestIdOf(answer: HttpAnswer): string | null {
  const id = headerValue(answer.headers, "x-request-id");
  return id !== null && /^[\w.:/=+-]{1,100}$/.test(id) ? id : null;
}

/** The failure an answer stands for, when the caller did not want that status. */
export function failureOf(
  operation: string,
  answer: HttpAnswer | TransportFailure,
  options: { readonly now: Millis; readonly secrets?: readonly string[]; readonly reason?: RunPodFailureReason },
): RunPodFailure {
  if ("transport" in answer) {
    return {
      reason: answer.transport,
      operation,
      status: null,
      requestId: null,
      retryAfterMs: null,
      windows: [],
      details: [],
    };
  }
  const body = readProviderBody(answer.bodyText);
  const failed = answer.status < 200 || answer.status > 299;
  return {
    reason: options.reason ?? reasonOf(answer, body),
    operation,
    status: answer.status,
    requestId: requestIdOf(answer),
    retryAfterMs: failed ? waitAsked(answer.headers, options.now) : null,
    windows: parseRateLimit(headerValue(answer.headers, "ratelimit")),
    // A success we could not read may hold a whole pod, environment included: none of it is shown.
    details: failed ? shownDetails(body, options.secrets ?? []) : [],
  };
}

function reasonOf(answer: HttpAnswer, body: ProviderBody): RunPodFailureReason {
  const { status } = answer;
  if (status >= 200 && status <= 299) return "unreadable";
  if (status === 408 || status >= 500) return "upstream";
  if (status === 429) return "rate-limited";
  if (status === 402 || body.words.some(speaksOfBalance)) return "balance";
  if (status === 401) return "unauthorized";
  if (isEdgeBlock(answer, body)) return "edge-blocked";
  if (status === 410 || body.legacyEnvelope) return "retired";
  if (status === 403) return "forbidden";
  if (status === 409) return "conflict";
  if (status === 404 && typeof body.json !== "object") return "unreadable";
  return "invalid";
}

/**
 * True only for RunPod's own 404 about a resource: a problem document that does not speak of an unknown path. v2 words an
 * unknown route as "The requested path was not found."
 */
export function saysNotFound(answer: HttpAnswer): boolean {
  if (answer.status !== 404) return false;
  const body = readProviderBody(answer.bodyText);
  if (typeof body.json !== "object" || body.json === null || body.edge || body.legacyEnvelope) return false;
  return body.words.length > 0 && !body.words.some((word) => /requested path/i.test(word));
}
