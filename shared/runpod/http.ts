/**
 * One HTTP call to RunPod: time limit, size limit, identification, and a record for whoever counts calls.
 *
 * The key stands in the `Authorization` header and nowhere else. A redirect is not followed: it would carry the key to
 * another host. Errors of `fetch` may quote the URL, so only their kind is kept.
 */
import { timeLimit } from "../http.ts";
import type { Clock, FetchLike, Millis } from "../ports.ts";
import type { HttpAnswer, TransportFailure } from "./classify.ts";
import { requestIdOf } from "./failure.ts";
import { withoutSecrets } from "./provider-text.ts";
import { headerValue, parseRateLimit } from "./rate-limit.ts";
import type { RateLimitWindow } from "./rate-limit.ts";

/** What is told about each call. Holds no URL, no body and no header but RunPod's own request id. */
export interface RunPodCall {
  readonly operation: string;
  readonly method: string;
  /** Null when there was no answer. */
  readonly status: number | null;
  readonly outcome: "answered" | "timeout" | "network";
  readonly startedAtMs: Millis;
  readonly durationMs: number;
  readonly requestId: string | null;
  readonly windows: readonly RateLimitWindow[];
}

export interface HttpPorts {
  readonly fetch: FetchLike;
  readonly clock: Clock;
  /** RunPod's edge refuses clients without one (403, code 1010), so it is always sent. */
  readonly userAgent: string;
  readonly onCall?: ((call: RunPodCall) => void) | undefined;
  /** A signal that fires after so many milliseconds; a test or the simulator brings its own. */
  readonly timeoutSignal?: ((timeoutMs: number) => AbortSignal) | undefined;
}

export interface HttpCall {
  readonly operation: string;
  readonly method: "GET" | "POST" | "DELETE";
  readonly url: string;
  /** Null: the call is made without credentials. */
  readonly apiKey: string | null;
  readonly json?: unknown;
  /** What nobody may read out of the answer, whatever RunPod quotes; blotted out of its body and its headers. */
  readonly secrets?: readonly string[];
  readonly accept?: string;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** For endless streams: what has come when time or room runs out is the answer. */
  readonly keepPartial?: boolean;
}

export async function callRunPod(ports: HttpPorts, call: HttpCall): Promise<HttpAnswer | TransportFailure> {
  const startedAtMs = ports.clock.now();
  const answer = await attempt(ports, call);
  const answered = !("transport" in answer);
  ports.onCall?.({
    operation: call.operation,
    method: call.method,
    status: answered ? answer.status : null,
    outcome: answered ? "answered" : answer.transport,
    startedAtMs,
    durationMs: Math.max(0, ports.clock.now() - startedAtMs),
    requestId: answered ? requestIdOf(answer) : null,
    windows: answered ? parseRateLimit(headerValue(answer.headers, "ratelimit")) : [],
  });
  return answer;
}

async function attempt(ports: HttpPorts, call: HttpCall): Promise<HttpAnswer | TransportFailure> {
  const headers: Record<string, string> = {
    "User-Agent": ports.userAgent,
    Accept: call.accept ?? "application/json, application/problem+json",
  };
  if (call.apiKey !== null) headers["Authorization"] = `Bearer ${call.apiKey}`;
  if (call.json !== undefined) headers["Content-Type"] = "application/json";
  // Called as a plain function: the platform's fetch refuses a foreign `this`.
  const { fetch } = ports;
  // Back-off with jitter leaves fractions of a millisecond, which a timeout signal refuses.
  const timeoutMs = Math.max(1, Math.ceil(call.timeoutMs));
  const limit = ports.timeoutSignal === undefined ? timeLimit(timeoutMs) : null;
  const signal = limit?.signal ?? ports.timeoutSignal?.(timeoutMs);
  try {
    const response = await fetch(call.url, {
      method: call.method,
      headers,
      redirect: "manual",
      ...(signal === undefined ? {} : { signal }),
      ...(call.json === undefined ? {} : { body: JSON.stringify(call.json) }),
    });
    const bodyText = await readBounded(response, call.maxBytes, call.keepPartial === true);
    const clean = (text: string): string => withoutSecrets(text, call.secrets ?? []);
    const told = [...response.headers].map(([name, value]) => [name, clean(value)] as const);
    return {
      status: response.status,
      contentType: response.headers.get("content-type"),
      bodyText: clean(bodyText),
      headers: Object.fromEntries(told),
    };
  } catch (error) {
    const name = error instanceof Error ? error.name : "";
    return { transport: name === "TimeoutError" || name === "AbortError" ? "timeout" : "network" };
  } finally {
    limit?.lift();
  }
}

/**
 * The body as text, at most `maxBytes` of it. A longer one is cut there, which makes JSON unreadable, which is the right
 * word for it. With `keepPartial` a stream that breaks or runs out of time gives what had come.
 */
async function readBounded(response: Response, maxBytes: number, keepPartial: boolean): Promise<string> {
  if (response.body === null) return "";
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  try {
    while (bytes < maxBytes) {
      const chunk = await reader.read();
      if (chunk.done) return text + decoder.decode();
      const part: Uint8Array = chunk.value.subarray(0, maxBytes - bytes);
      bytes += part.byteLength;
      text += decoder.decode(part, { stream: true });
    }
  } catch (error) {
    if (!keepPartial) throw error;
    return text;
  }
  await reader.cancel().catch(() => undefined);
  return text;
}
