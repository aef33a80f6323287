/**
 * What the product asked of the vendors, minute by minute, from the vendors' own books, beside their published limits.
 *
 * GitHub (facts: docs/local-world.md): an installation's hour of 5,000 requests, 50 more for each repository above 20, at
 * most 12,500; 304s are free of it. Besides, 100 requests at once and 900 points a minute on one endpoint (a read is one
 * point, a write five), and about 80 writes that create content. RunPod: 60 a minute, 3,000 an hour, 50,000 a day per user
 * are the figures of its own description; it tells the real ones on each answer.
 */
import type { Books } from "../../local/github/index.ts";
import type { LocalRunPod } from "../../local/runpod/types.ts";

const MINUTE_MS = 60_000;

export interface Use {
  /** Requests in the busiest minute. */
  readonly busiest: number;
  readonly limit: number;
  /** Free in the busiest minute, in percent of the limit; below zero: broken. */
  readonly headroom: number;
}

export function installationHour(repositories: number): number {
  return Math.min(12_500, 5_000 + 50 * Math.max(0, repositories - 20));
}

export const GITHUB_ENDPOINT_POINTS = 900;
export const GITHUB_AT_ONCE = 100;
export const GITHUB_CONTENT_MINUTE = 80;

export interface GitHubUse {
  readonly requests: number;
  readonly unchanged: number;
  readonly refused: number;
  /** Requests and those that count (not 304), a minute, by operation. */
  readonly byOperation: Readonly<Record<string, { readonly perMinute: number; readonly counted: number }>>;
  /** Counted requests of the window, as an hour of them. */
  readonly hour: Use;
  readonly endpointPoints: Use & { readonly endpoint: string };
  readonly atOnce: Use;
  readonly content: Use;
}

interface Window {
  readonly from: number;
  readonly to: number;
}

/** What one installation's token was used for in the window. */
export function githubUse(books: Books, window: Window, repositories: number): GitHubUse {
  const all = books.requests.filter(
    (one) => one.as === "installation" && one.at >= window.from && one.at < window.to && one.status !== "dropped",
  );
  const minutes = Math.max(1 / 60, (window.to - window.from) / MINUTE_MS);
  const counted = all.filter((one) => one.status !== 304);
  const operations = Map.groupBy(all, (one) => one.operation ?? "unknown");
  const points = [...operations].map(([endpoint, list]) => ({
    endpoint,
    points: busiestMinute(list.map((one) => ({ at: one.at, weight: one.method === "GET" ? 1 : 5 }))),
  }));
  const worst = points.toSorted((a, b) => b.points - a.points)[0] ?? { endpoint: "none", points: 0 };
  const writes = all.filter((one) => one.method === "POST" || one.method === "PATCH");
  return {
    requests: all.length,
    unchanged: all.length - counted.length,
    refused: all.filter((one) => one.status === 403 || one.status === 429).length,
    byOperation: Object.fromEntries(
      [...operations]
        .map(
          ([name, list]) =>
            [
              name,
              {
                perMinute: round(list.length / minutes),
                counted: round(list.filter((one) => one.status !== 304).length / minutes),
              },
            ] as const,
        )
        .toSorted((a, b) => b[1].perMinute - a[1].perMinute),
    ),
    hour: use(Math.round((counted.length / minutes) * 60), installationHour(repositories)),
    endpointPoints: { endpoint: worst.endpoint, ...use(worst.points, GITHUB_ENDPOINT_POINTS) },
    atOnce: use(mostAtOnce(all), GITHUB_AT_ONCE),
    content: use(busiestMinute(writes.map((one) => ({ at: one.at, weight: 1 }))), GITHUB_CONTENT_MINUTE),
  };
}

export interface RunPodUse {
  readonly requests: number;
  readonly refused: number;
  readonly byRoute: Readonly<Record<string, number>>;
  readonly minute: Use;
  /** The window's requests as an hour, and as a day, of them. */
  readonly hour: Use;
  readonly day: Use;
}

export interface RunPodQuota {
  readonly minute: number;
  readonly hour: number;
  readonly day: number;
}

/** What the account's key was used for in the window. What needs no key, and pods' own calls, are not of the quota. */
export function runpodUse(runpod: LocalRunPod, window: Window, quota: RunPodQuota): RunPodUse {
  const all = runpod
    .requests()
    .filter((one) => one.atMs >= window.from && one.atMs < window.to)
    .filter((one) => one.route.startsWith("/v2/") && one.route !== "/v2/openapi.json");
  const minutes = Math.max(1 / 60, (window.to - window.from) / MINUTE_MS);
  const routes = Map.groupBy(all, (one) => `${one.method} ${one.route}`);
  const perMinute = all.length / minutes;
  return {
    requests: all.length,
    refused: all.filter((one) => one.status === 429).length,
    byRoute: Object.fromEntries([...routes].map(([name, list]) => [name, round(list.length / minutes)])),
    minute: use(busiestMinute(all.map((one) => ({ at: one.atMs, weight: 1 }))), quota.minute),
    hour: use(Math.round(perMinute * 60), quota.hour),
    day: use(Math.round(perMinute * 1_440), quota.day),
  };
}

function use(busiest: number, limit: number): Use {
  return { busiest, limit, headroom: round(100 - (100 * busiest) / limit) };
}

/** The most weight in any stretch of sixty seconds. */
export function busiestMinute(events: readonly { readonly at: number; readonly weight: number }[]): number {
  const sorted = events.toSorted((a, b) => a.at - b.at);
  let most = 0;
  let sum = 0;
  let first = 0;
  for (const event of sorted) {
    sum += event.weight;
    for (let old = sorted[first]; old !== undefined && old.at <= event.at - MINUTE_MS; old = sorted[first]) {
      sum -= old.weight;
      first += 1;
    }
    most = Math.max(most, sum);
  }
  return most;
}

function mostAtOnce(requests: readonly { readonly at: number; readonly tookMs: number }[]): number {
  const edges = requests
    .flatMap((one) => [
      { at: one.at, step: 1 },
      { at: one.at + Math.max(1, one.tookMs), step: -1 },
    ])
    .toSorted((a, b) => a.at - b.at || a.step - b.step);
  let now = 0;
  let most = 0;
  for (const edge of edges) {
    now += edge.step;
    most = Math.max(most, now);
  }
  return most;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
