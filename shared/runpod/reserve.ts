/**
 * The last of RunPod's quota is kept for deletions: a DELETE that has to wait for the next minute is paid for that long,
 * and nothing else that is asked has a price.
 *
 * The quota is per user, over three windows, and told on every answer. What other isolates and other programs use of it is
 * seen one answer late: this thins out the reads, it is no guarantee. A DELETE and a create are sent whatever stands here.
 */
import type { Millis } from "../ports.ts";
import { headerValue, parseRateLimit, type HeaderMap } from "./rate-limit.ts";

/** Kept free in each window while few pods are known of. */
const KEPT = 20;
/** Of a small quota this share while few pods are known of: there must be room to ask at all. */
const KEPT_SHARE = 1 / 3;
/** However many pods there are: without lists and proofs none of them ever counts as gone. */
const MOST_KEPT_SHARE = 2 / 3;

const POLICY = /"(?<name>[a-z]{1,20})"\s*;\s*q=(?<quota>\d{1,12})/gu;

interface Window {
  readonly remaining: number;
  readonly quota: number;
  readonly resetsAt: Millis;
}

export class DeletionReserve {
  readonly #windows = new Map<string, Window>();
  #pods = 0;

  /** As many pods of ours as the last list showed: all of their jobs may end in the same minute. */
  expect(pods: number): void {
    this.#pods = pods;
  }

  /** Takes in the headers of an answer. Those without a quota in them change nothing. */
  hear(headers: HeaderMap, now: Millis): void {
    const policy = headerValue(headers, "ratelimit-policy") ?? "";
    const quotas = new Map(
      [...policy.matchAll(POLICY)].map((match) => [match.groups?.["name"] ?? "", Number(match.groups?.["quota"])]),
    );
    for (const { name, remaining, resetsInMs } of parseRateLimit(headerValue(headers, "ratelimit"))) {
      const quota = quotas.get(name) ?? Number.POSITIVE_INFINITY;
      this.#windows.set(name, { remaining, quota, resetsAt: now + resetsInMs });
    }
  }

  /**
   * How long a read should wait, in milliseconds; null: there is room. `forDeletion`: what a deletion begins with, which may use
   * all but one request for each pod. An hour's quota may be short for an hour, and nobody would see what has to go meanwhile.
   */
  wait(now: Millis, forDeletion = false): Millis | null {
    const kept = (quota: number): number => (forDeletion ? this.#ofPods(quota) : this.#kept(quota));
    const waits = [...this.#windows.values()]
      .filter((window) => window.resetsAt > now && window.remaining < kept(window.quota))
      .map((window) => window.resetsAt - now);
    return waits.length === 0 ? null : Math.max(...waits);
  }

  #kept(quota: number): number {
    const usual = Math.min(KEPT, quota * KEPT_SHARE);
    return Math.floor(Math.max(usual, this.#ofPods(quota)));
  }

  #ofPods(quota: number): number {
    return Math.floor(Math.min(this.#pods, quota * MOST_KEPT_SHARE));
  }
}
