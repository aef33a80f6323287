/**
 * The primary rate limit: one bucket per installation (and one for the App itself), an hour long, told on every answer.
 *
 * `exhaust` empties the buckets on order, in GitHub's two forms: a primary limit (remaining 0, wait for the reset) and a
 * secondary one (a message, and `retry-after`).
 */

import type { Clock, Millis } from "../../shared/ports.ts";
import { Refusal } from "./http.ts";

const hour = 3_600_000;
/** "Rate limits for the REST API": so many points a minute on one endpoint. */
const POINTS_A_MINUTE = 900;

export interface Exhaustion {
  readonly kind: "primary" | "secondary";
  readonly status: 403 | 429;
  readonly forMs: number;
}

interface Bucket {
  used: number;
  resetAt: Millis;
}

export class RateLimit {
  readonly #clock: Clock;
  readonly #buckets = new Map<string, Bucket>();
  #exhaustion: (Exhaustion & { readonly until: Millis }) | null = null;
  limit = 5000;
  /** Whether the published secondary limit of points a minute on one endpoint is in force too. */
  secondary = false;
  readonly #points = new Map<string, { minute: number; points: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  exhaust(exhaustion: Exhaustion): void {
    this.#exhaustion = { ...exhaustion, until: this.#clock.now() + exhaustion.forMs };
  }

  restore(): void {
    this.#exhaustion = null;
    this.#buckets.clear();
  }

  /** Throws GitHub's refusal when this caller has to wait. */
  check(key: string): void {
    const now = this.#clock.now();
    const ordered = this.#exhaustion;
    if (ordered !== null && ordered.until > now) {
      if (ordered.kind === "secondary") {
        const seconds = Math.max(1, Math.ceil((ordered.until - now) / 1000));
        throw new Refusal(
          ordered.status,
          "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
          {
            headers: { "retry-after": String(seconds) },
          },
        );
      }
      throw new Refusal(ordered.status, "API rate limit exceeded for this installation.");
    }
    if (this.#bucket(key).used >= this.limit) throw new Refusal(403, "API rate limit exceeded for this installation.");
  }

  /** Takes a request into the points of its endpoint, when those are in force: a read is one, a write five. */
  spend(key: string, endpoint: string, method: string): void {
    if (!this.secondary) return;
    const minute = Math.floor(this.#clock.now() / 60_000);
    const name = `${key} ${endpoint}`;
    const known = this.#points.get(name);
    const used = known?.minute === minute ? known : { minute, points: 0 };
    used.points += method === "GET" ? 1 : 5;
    this.#points.set(name, used);
    if (used.points <= POINTS_A_MINUTE) return;
    const message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
    throw new Refusal(403, message, { headers: { "retry-after": "60" } });
  }

  count(key: string): void {
    this.#bucket(key).used += 1;
  }

  numbers(key: string): { limit: number; remaining: number; used: number; reset: number } {
    const bucket = this.#bucket(key);
    const ordered = this.#exhaustion;
    if (ordered !== null && ordered.kind === "primary" && ordered.until > this.#clock.now()) {
      return { limit: this.limit, remaining: 0, used: this.limit, reset: Math.ceil(ordered.until / 1000) };
    }
    const used = Math.min(bucket.used, this.limit);
    return { limit: this.limit, remaining: this.limit - used, used, reset: Math.ceil(bucket.resetAt / 1000) };
  }

  headers(key: string): Record<string, string> {
    const { limit, remaining, used, reset } = this.numbers(key);
    return {
      "x-ratelimit-limit": String(limit),
      "x-ratelimit-remaining": String(remaining),
      "x-ratelimit-used": String(used),
      "x-ratelimit-reset": String(reset),
      "x-ratelimit-resource": "core",
    };
  }

  #bucket(key: string): Bucket {
    const now = this.#clock.now();
    const known = this.#buckets.get(key);
    if (known !== undefined && known.resetAt > now) return known;
    const fresh: Bucket = { used: 0, resetAt: now + hour };
    this.#buckets.set(key, fresh);
    return fresh;
  }
}
