/**
 * RunPod's own bill, from its own clock: from the create until the pod is really gone, at the rate it was rented for.
 *
 * Nobody else's estimate is looked at, so that a ledger can be checked against it. Reports say that billing starts at the
 * create and not when the container is usable (runpod-facts.md section 6.11); the exact instant is not documented.
 */
import type { PodRecord } from "./pods.ts";
import type { Bill } from "./types.ts";

const HOUR_MS = 3_600_000;

/** Micro-dollars for this long at this rate. */
export function microDollars(usdPerHour: number, ms: number): number {
  return Math.round((usdPerHour * 1_000_000 * Math.max(0, ms)) / HOUR_MS);
}

export function billOf(pod: PodRecord, now: number): Bill {
  return {
    podId: pod.id,
    name: pod.name,
    gpuId: pod.gpuId,
    rentedAtMs: pod.createdAt,
    releasedAtMs: pod.releasedAt,
    ratePerHour: pod.ratePerHour,
    microDollars: microDollars(pod.ratePerHour, (pod.releasedAt ?? now) - pod.createdAt),
  };
}

const bucketSizes = ["hour", "day", "week", "month", "year"] as const;
export type BucketSize = (typeof bucketSizes)[number];

export interface BillingQuery {
  readonly bucketSize: BucketSize;
  readonly startMs: number;
  readonly endMs: number;
  readonly podId: string | null;
}

/** Reads the query of `GET /v2/billing/pods`; a string is what is wrong with it. */
export function readBillingQuery(query: URLSearchParams, now: number): BillingQuery | string {
  const bucketSize = bucketSizes.find((size) => size === (query.get("bucketSize") ?? "day"));
  if (!bucketSize) return `bucketSize must be one of ${bucketSizes.join(", ")}`;
  const start = instant(query.get("startTime"), now - 30 * 24 * HOUR_MS);
  const end = instant(query.get("endTime"), now);
  if (start === null || end === null) return "startTime and endTime must be RFC 3339 times";
  const lastN = query.get("lastN");
  if (lastN !== null && !/^[1-9]\d*$/.test(lastN)) return "lastN must be 1 or more";
  let startMs = bucketStart(start, bucketSize);
  if (lastN !== null) {
    startMs = bucketStart(now, bucketSize);
    for (let index = 1; index < Number(lastN); index += 1) startMs = bucketStart(startMs - 1, bucketSize);
  }
  const lastStart = bucketStart(end, bucketSize);
  return {
    bucketSize,
    startMs,
    endMs: lastStart === end ? end : bucketEnd(lastStart, bucketSize),
    podId: query.get("podId"),
  };
}

/** The answer of `GET /v2/billing/pods`: one record per pod and bucket in which it cost something. */
export function billingAnswer(pods: readonly PodRecord[], query: BillingQuery, now: number): Record<string, unknown> {
  const records = pods
    .filter((pod) => query.podId === null || pod.id === query.podId)
    .flatMap((pod) => podRecords(pod, query, now));
  const total = records.reduce((sum, record) => sum + record.micro, 0);
  return {
    records: records.map((record) => ({
      startTime: iso(record.from),
      endTime: iso(record.to),
      podId: record.podId,
      ...amounts(record.micro),
    })),
    metadata: {
      query: {
        startTime: iso(query.startMs),
        endTime: iso(query.endMs),
        bucketSize: query.bucketSize,
        podId: query.podId,
      },
      recordCount: records.length,
      totals: amounts(total),
      uniquePodCount: new Set(records.map((record) => record.podId)).size,
    },
  };
}

function podRecords(
  pod: PodRecord,
  query: BillingQuery,
  now: number,
): { from: number; to: number; podId: string; micro: number }[] {
  const paidUntil = Math.min(pod.releasedAt ?? now, query.endMs);
  const records = [];
  let from = bucketStart(Math.max(pod.createdAt, query.startMs), query.bucketSize);
  while (from < paidUntil) {
    const to = bucketEnd(from, query.bucketSize);
    const micro = microDollars(pod.ratePerHour, Math.min(paidUntil, to) - Math.max(pod.createdAt, from));
    records.push({ from, to, podId: pod.id, micro });
    from = to;
  }
  return records;
}

function amounts(micro: number): Record<string, number> {
  return { totalAmount: micro / 1_000_000, gpuAmount: micro / 1_000_000, cpuAmount: 0, diskAmount: 0 };
}

function instant(text: string | null, fallback: number): number | null {
  if (text === null) return fallback;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : at;
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

function bucketStart(ms: number, size: BucketSize): number {
  const at = new Date(ms);
  const [year, month, day] = [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()];
  switch (size) {
    case "hour":
      return ms - (ms % HOUR_MS);
    case "day":
      return Date.UTC(year, month, day);
    case "week":
      return Date.UTC(year, month, day - ((at.getUTCDay() + 6) % 7));
    case "month":
      return Date.UTC(year, month);
    case "year":
      return Date.UTC(year, 0);
  }
}

function bucketEnd(start: number, size: BucketSize): number {
  const at = new Date(start);
  const [year, month] = [at.getUTCFullYear(), at.getUTCMonth()];
  switch (size) {
    case "hour":
      return start + HOUR_MS;
    case "day":
      return start + 24 * HOUR_MS;
    case "week":
      return start + 7 * 24 * HOUR_MS;
    case "month":
      return Date.UTC(year, month + 1);
    case "year":
      return Date.UTC(year + 1, 0);
  }
}
