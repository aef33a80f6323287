/**
 * Everything a call to GitHub can fail with, as data. No HTTP answer is ever thrown.
 *
 * The rules for rate limits are GitHub's own ("Rate limits for the REST API"): obey `retry-after` if present; else, if
 * `x-ratelimit-remaining` is 0, wait for `x-ratelimit-reset`; else wait at least a minute.
 */

import * as z from "zod";
import { retryAfterInstant, safeText } from "../http.ts";
import { unreachable } from "../result.ts";
import type { Millis } from "../ports.ts";

export type GitHubFailure =
  /** 401: the JWT or the token was not accepted, also after a new one was made. */
  | { readonly reason: "unauthorized"; readonly message: string }
  /** 403 that is no rate limit. `acceptedPermissions` is what GitHub says would do, such as `checks=write`. */
  | { readonly reason: "forbidden"; readonly acceptedPermissions: string | null; readonly message: string }
  | { readonly reason: "not-found" }
  /** 410, or 451: it was there and will not come back. */
  | { readonly reason: "gone" }
  | { readonly reason: "conflict"; readonly message: string }
  /** 422, 400 and every other refusal of what was asked. */
  | { readonly reason: "unprocessable"; readonly message: string }
  /** 403 or 429 with a rate limit's marks. `retryAtMs` is the instant before which no call helps. */
  | { readonly reason: "rate-limited"; readonly retryAtMs: Millis; readonly scope: "primary" | "secondary" }
  /** 5xx and 408. A call that changes something may have been performed. */
  | { readonly reason: "server"; readonly status: number }
  /** No answer. A call that changes something may have been performed. */
  | { readonly reason: "transport"; readonly timeout: boolean }
  /** An answer that does not say what GitHub documents. `what` names the place, never the value. */
  | { readonly reason: "unreadable"; readonly what: string };

/** What an unreadable answer says that is no JSON at all: cut on its way, or not GitHub's. Asking again may help. */
export const NOT_JSON = "the body (not JSON)";

/** What the caller should do: ask again later, stop asking, or have a person change the installation or the deployment. */
export type FailureClass = "retry-later" | "give-up" | "fix-configuration";

export function failureClass(failure: GitHubFailure): FailureClass {
  switch (failure.reason) {
    case "unauthorized":
    case "forbidden":
      return "fix-configuration";
    case "not-found":
    case "gone":
    case "conflict":
    case "unprocessable":
      return "give-up";
    case "rate-limited":
    case "server":
    case "transport":
    case "unreadable":
      return "retry-later";
    default:
      return unreachable(failure, "GitHub failure");
  }
}

/** One sentence for a log or an audit entry. Holds no secret: messages were made safe when the failure was made. */
export function describeFailure(failure: GitHubFailure): string {
  switch (failure.reason) {
    case "unauthorized":
      return `GitHub did not accept the App's credentials: ${failure.message}`;
    case "forbidden":
      return failure.acceptedPermissions === null
        ? `GitHub forbids this: ${failure.message}`
        : `GitHub forbids this (it wants ${failure.acceptedPermissions}): ${failure.message}`;
    case "not-found":
      return "GitHub does not know it, or does not show it to this App";
    case "gone":
      return "GitHub says it is gone for good";
    case "conflict":
      return `GitHub reports a conflict: ${failure.message}`;
    case "unprocessable":
      return `GitHub refused the request: ${failure.message}`;
    case "rate-limited":
      return `GitHub's ${failure.scope} rate limit is used up until ${new Date(failure.retryAtMs).toISOString()}`;
    case "server":
      return `GitHub answered ${failure.status}`;
    case "transport":
      return failure.timeout ? "GitHub did not answer in time" : "GitHub could not be reached";
    case "unreadable":
      return `GitHub's answer could not be read at ${failure.what}`;
    default:
      return unreachable(failure, "GitHub failure");
  }
}

/** GitHub's advice when a secondary limit names no time. */
const SECONDARY_WAIT_MS = 60_000;

const errorBody = z.object({
  message: z.string().optional(),
  errors: z
    .array(z.union([z.string(), z.object({ message: z.string().optional(), code: z.string().optional() })]))
    .optional(),
});

/**
 * Turns an answer that is no success into a failure.
 *
 * `secrets` are strings that must not appear in a message (the token the call was made with).
 */
export function failureFromAnswer(
  answer: { readonly status: number; readonly headers: Headers; readonly text: string },
  now: Millis,
  secrets: readonly string[] = [],
): GitHubFailure {
  const { status, headers } = answer;
  const message = safeText(messageOf(answer.text, status), 300, secrets);
  if (status === 429 || (status === 403 && isRateLimit(headers, message))) return rateLimited(headers, message, now);
  switch (status) {
    case 401:
      return { reason: "unauthorized", message };
    case 403: {
      const accepted = headers.get("x-accepted-github-permissions");
      return { reason: "forbidden", acceptedPermissions: accepted === null ? null : safeText(accepted, 200), message };
    }
    case 404:
      return { reason: "not-found" };
    case 408:
      return { reason: "server", status };
    case 409:
      return { reason: "conflict", message };
    case 410:
    case 451:
      return { reason: "gone" };
    default:
      if (status >= 500) return { reason: "server", status };
      if (status >= 400) return { reason: "unprocessable", message };
      return { reason: "unreadable", what: `status ${status}` };
  }
}

function isRateLimit(headers: Headers, message: string): boolean {
  return (
    headers.get("retry-after") !== null ||
    headers.get("x-ratelimit-remaining")?.trim() === "0" ||
    /rate limit|abuse detection/i.test(message)
  );
}

/** No quota of GitHub's takes longer to come back (github-facts section 5); a header that says so is not believed. */
const LONGEST_WAIT_MS: Millis = 3_600_000;

function rateLimited(headers: Headers, message: string, now: Millis): GitHubFailure {
  const exhausted = headers.get("x-ratelimit-remaining")?.trim() === "0";
  const scope = exhausted && !/secondary|abuse/i.test(message) ? "primary" : "secondary";
  const after = retryAfterInstant(headers.get("retry-after"), now);
  if (after !== null) return { reason: "rate-limited", retryAtMs: Math.min(after, now + LONGEST_WAIT_MS), scope };
  const reset = headers.get("x-ratelimit-reset")?.trim() ?? "";
  if (exhausted && /^\d{1,12}$/.test(reset)) {
    const retryAtMs = Math.min(Number(reset) * 1_000, now + LONGEST_WAIT_MS);
    // A reset that is not ahead (clocks differ, or it passed while the answer travelled) must not become a busy loop.
    if (retryAtMs > now) return { reason: "rate-limited", retryAtMs, scope };
  }
  return { reason: "rate-limited", retryAtMs: now + SECONDARY_WAIT_MS, scope };
}

/** GitHub's `message`, with the texts of `errors` behind it. Never the body itself: it may echo what was sent. */
function messageOf(text: string, status: number): string {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return `status ${status}`;
  }
  const parsed = errorBody.safeParse(body);
  if (!parsed.success) {
    const bare = z.object({ message: z.string() }).safeParse(body);
    return bare.success ? bare.data.message : `status ${status}`;
  }
  const details = (parsed.data.errors ?? []).map((error) =>
    typeof error === "string" ? error : (error.message ?? error.code ?? ""),
  );
  return [parsed.data.message ?? `status ${status}`, ...details.filter((detail) => detail !== "")].join(": ");
}
