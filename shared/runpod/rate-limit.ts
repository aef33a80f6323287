/**
 * How long RunPod asks us to wait: `Retry-After`, and the `RateLimit` header with its three windows.
 *
 * The quota is per user, over a minute, an hour and a day. `Retry-After` names one window only, so a caller that obeys it
 * alone can wake into the next exhausted one: the longest exhausted window counts (RunPod's own MCP server does the same).
 */
import type { Millis } from "../ports.ts";
import { parseHttpDate } from "../time.ts";

/** Response headers as plain data. Names may come in any letter case. */
export type HeaderMap = Readonly<Record<string, string>>;

export interface RateLimitWindow {
  /** `minute`, `hour` or `day`. */
  readonly name: string;
  readonly remaining: number;
  readonly resetsInMs: number;
}

export function headerValue(headers: HeaderMap, name: string): string | null {
  const wanted = name.toLowerCase();
  for (const [key, value] of Object.entries(headers)) {
    if (key.toLowerCase() === wanted) return value;
  }
  return null;
}

const DECIMAL = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

/**
 * A `Retry-After` value as milliseconds to wait from `now`, or null when it says nothing usable. Takes decimal seconds (a
 * negative number means now) and all HTTP date forms (a past date means now). Words that some languages read as numbers
 * (`inf`, `nan`, `1_0`, `0x10`) are refused.
 */
export function parseRetryAfter(value: string | null, now: Millis): number | null {
  const text = (value ?? "").trim();
  if (DECIMAL.test(text)) {
    const seconds = Number(text);
    return Number.isFinite(seconds) ? Math.max(0, seconds * 1000) : null;
  }
  const at = parseHttpDate(text);
  return at === null ? null : Math.max(0, at - now);
}

const WINDOW = /"(?<name>[a-z]{1,20})"(?<parameters>(?:\s*;\s*[a-z]+=\d{1,12})*)/gu;

/** Reads `"minute";r=0;t=12, "hour";r=2800;t=1812`. What cannot be read is left out; a missing header gives no windows. */
export function parseRateLimit(value: string | null): readonly RateLimitWindow[] {
  const windows: RateLimitWindow[] = [];
  for (const match of (value ?? "").matchAll(WINDOW)) {
    const parameters = match.groups?.["parameters"] ?? "";
    const remaining = /;\s*r=(\d+)/u.exec(parameters)?.[1];
    const resets = /;\s*t=(\d+)/u.exec(parameters)?.[1];
    if (remaining === undefined || resets === undefined) continue;
    windows.push({
      name: match.groups?.["name"] ?? "",
      remaining: Number(remaining),
      resetsInMs: Number(resets) * 1000,
    });
  }
  return windows;
}

/** The longer of `Retry-After` and the longest exhausted window, or null when neither says anything. */
export function waitAsked(headers: HeaderMap, now: Millis): number | null {
  const waits = parseRateLimit(headerValue(headers, "ratelimit"))
    .filter((window) => window.remaining === 0)
    .map((window) => window.resetsInMs);
  const named = parseRetryAfter(headerValue(headers, "retry-after"), now);
  if (named !== null) waits.push(named);
  return waits.length === 0 ? null : Math.max(...waits);
}
