/**
 * What every HTTP client here needs and no provider owns: bounded bodies, bounded waiting, readable `Retry-After`, and
 * text that is safe to show.
 *
 * Nothing in this file knows GitHub or RunPod. Nothing here reads the clock; `now` is a parameter.
 */

import { err, ok, type Result } from "./result.ts";
import type { Millis } from "./ports.ts";
import { onOneLine } from "./text.ts";

export type BodyProblem = { readonly reason: "too-large" } | { readonly reason: "interrupted" };

/**
 * Reads a response body as UTF-8 text, up to `limitBytes`. A larger body is refused without being held in memory, and
 * the stream is cancelled. A connection that breaks on the way is `interrupted`.
 */
export async function readBodyText(response: Response, limitBytes: number): Promise<Result<string, BodyProblem>> {
  if (response.body === null) return ok("");
  const declared = Number(response.headers.get("content-length") ?? "0");
  const reader = response.body.getReader();
  try {
    if (declared > limitBytes) {
      await reader.cancel();
      return err({ reason: "too-large" });
    }
    const decoder = new TextDecoder();
    let text = "";
    let seen = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return ok(text + decoder.decode());
      const chunk: Uint8Array = value;
      seen += chunk.byteLength;
      if (seen > limitBytes) {
        await reader.cancel();
        return err({ reason: "too-large" });
      }
      text += decoder.decode(chunk, { stream: true });
    }
  } catch {
    return err({ reason: "interrupted" });
  }
}

/** A signal that ends after `timeoutMs`, or earlier when `outer` ends. */
export function timeoutSignal(timeoutMs: number, outer?: AbortSignal): AbortSignal {
  const own = AbortSignal.timeout(timeoutMs);
  return outer === undefined ? own : AbortSignal.any([own, outer]);
}

/** A time limit that its owner lifts when what it bounds is done, so that no timer lives on for nothing. */
export interface TimeLimit {
  readonly signal: AbortSignal;
  lift(): void;
}

/** Ends after `timeoutMs`, or earlier when `outer` ends, unless it is lifted before. */
export function timeLimit(timeoutMs: number, outer?: AbortSignal): TimeLimit {
  const own = new AbortController();
  const expire = (): void => own.abort(new DOMException("The operation timed out.", "TimeoutError"));
  const timer = setTimeout(expire, timeoutMs);
  const signal = outer === undefined ? own.signal : AbortSignal.any([own.signal, outer]);
  return { signal, lift: () => clearTimeout(timer) };
}

/** Whether a signal ended because its time was up, not because somebody cancelled. */
export function timedOut(signal: AbortSignal): boolean {
  const reason: unknown = signal.reason;
  return signal.aborted && reason instanceof Error && reason.name === "TimeoutError";
}

/**
 * Waits for `work`, but no longer than `signal` allows: rejects with the signal's reason. For work that may not watch
 * the signal by itself (an injected fetch, a promise begun by another request).
 */
export async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) {
    // The loser's own failure has been answered for: without this it would surface as an unhandled rejection.
    work.catch(() => undefined);
    throw signal.reason;
  }
  let stop: (() => void) | undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    stop = () => signal.removeEventListener("abort", onAbort);
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    stop?.();
  }
}

/**
 * The instant a `Retry-After` header names: whole seconds from `now`, or an HTTP date (RFC 9110, section 10.2.3).
 * Null when absent or unreadable.
 */
export function retryAfterInstant(header: string | null, now: Millis): Millis | null {
  if (header === null) return null;
  const value = header.trim();
  if (/^\d{1,9}$/.test(value)) return now + Number(value) * 1_000;
  if (!/^[A-Z][a-z]{2},? .*GMT$/.test(value)) return null;
  const instant = Date.parse(value);
  return Number.isNaN(instant) ? null : instant;
}

const SECRET_SHAPES: readonly RegExp[] = [
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g,
  // GitHub's tokens, the long ones with a JWT inside included; RunPod's keys.
  /\b(?:gh[a-z]_|github_pat_|rpa_)[A-Za-z0-9_.-]+/g,
  // Any JWT, and with it any App JWT and OIDC token.
  /\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?/g,
  /\b(bearer|token|basic)\s+[A-Za-z0-9+/=_.~-]{8,}/gi,
];

/** Of a longer text nothing beyond this is looked at: some shapes take time that grows faster than their text. */
const LOOKED_AT = 4;

/**
 * Makes text from outside fit to show: secrets replaced, control characters gone, one line, cut at `limit` characters.
 * `secrets` are exact strings that must not appear, for what no pattern can know.
 */
export function safeText(text: string, limit = 300, secrets: readonly string[] = []): string {
  let safe = text;
  for (const secret of secrets) if (secret.length >= 6) safe = safe.replaceAll(secret, "[redacted]");
  safe = safe.slice(0, Math.max(limit, 1_000) * LOOKED_AT);
  for (const shape of SECRET_SHAPES) safe = safe.replace(shape, "[redacted]");
  safe = onOneLine(safe).trim();
  return safe.length > limit ? `${safe.slice(0, limit - 1)}…` : safe;
}
