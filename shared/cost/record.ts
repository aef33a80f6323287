/**
 * Which record of a pod its cost is told from: the one read just before the deletion, else the snapshot of its start.
 *
 * A record helps only if it is about that pod and has a readable start, a price and a window that is not negative.
 * Nothing is ever invented: when neither record helps there is no report, and the cost stays unknown.
 */
import * as z from "zod";
import { err, ok, type Result } from "../result.ts";
import { parseTimestampMicros } from "../time.ts";

export type RecordSource = "pre_delete" | "startup";

/** What a record says about cost and place, whichever version of RunPod's API wrote it. Null is unknown. */
export interface PodCostRecord {
  readonly podId: string | null;
  /** Microseconds since the epoch. */
  readonly startedAt: number | null;
  /** Dollars per hour after savings plans; RunPod v2's `cost` is this rate while the pod runs. */
  readonly adjustedPrice: number | null;
  /** Dollars per hour by the price list. */
  readonly listPrice: number | null;
  readonly machineId: string | null;
  readonly dataCenterId: string | null;
}

export interface ChosenRecord {
  readonly source: RecordSource;
  readonly record: PodCostRecord;
  /** The record as it was read. It may hold an environment: never print it. */
  readonly raw: Readonly<Record<string, unknown>>;
}

/** Why a source was passed over, in the order tried. */
export interface NoRecord {
  readonly reason: "no-usable-record";
  readonly tried: readonly { readonly source: RecordSource; readonly problem: RecordProblem }[];
}

export type RecordProblem = "missing" | "unreadable" | "other-pod" | "no-start" | "no-price" | "window-negative";

const text = z.string().nullish().catch(null);
/** A price that is no positive number (RunPod v2 answers 0 for a stopped pod) is no price. */
const price = z.number().positive().nullish().catch(null);

/** v2 names beside those of v1, which old records still carry. Every field may be absent or of another type. */
const podSchema = z.looseObject({
  id: text,
  startedAt: text,
  lastStartedAt: text,
  cost: price,
  adjustedCostPerHr: price,
  costPerHr: price,
  machineId: text,
  dataCenterId: text,
  machine: z.looseObject({ dataCenterId: text }).nullish().catch(null),
});

/** Reads a pod's record; null when it is no JSON object at all. */
export function readPodRecord(raw: unknown): PodCostRecord | null {
  const parsed = podSchema.safeParse(raw);
  if (!parsed.success) return null;
  const pod = parsed.data;
  const started = pod.startedAt ?? pod.lastStartedAt ?? null;
  return {
    podId: pod.id ?? null,
    startedAt: started === null ? null : parseTimestampMicros(started),
    adjustedPrice: pod.cost ?? pod.adjustedCostPerHr ?? null,
    listPrice: pod.costPerHr ?? null,
    machineId: pod.machineId ?? null,
    dataCenterId: pod.dataCenterId ?? pod.machine?.dataCenterId ?? null,
  };
}

/**
 * Chooses between the two sources, each the JSON text as it was kept, or null when there is none.
 * `podId` null accepts any pod: only old records without an id need that. `catalogPrice` (dollars per hour) is what the
 * price list said for the GPU, for a record that holds no price of its own.
 */
export function chooseRecord(input: {
  readonly preDelete: string | null;
  readonly startup: string | null;
  readonly podId: string | null;
  readonly deletedAt: number;
  readonly catalogPrice?: number;
}): Result<ChosenRecord, NoRecord> {
  const tried: { source: RecordSource; problem: RecordProblem }[] = [];
  for (const [source, kept] of [
    ["pre_delete", input.preDelete],
    ["startup", input.startup],
  ] as const) {
    const raw = kept === null ? null : parseObject(kept);
    const record = raw === null ? null : readPodRecord(raw);
    const problem =
      raw === null || record === null ? (kept === null ? "missing" : "unreadable") : problemOf(record, input);
    if (raw !== null && record !== null && problem === null) {
      const listPrice = record.listPrice ?? input.catalogPrice ?? null;
      return ok({ source, record: { ...record, listPrice }, raw });
    }
    tried.push({ source, problem: problem ?? "unreadable" });
  }
  return err({ reason: "no-usable-record", tried });
}

function problemOf(
  record: PodCostRecord,
  input: { readonly podId: string | null; readonly deletedAt: number; readonly catalogPrice?: number },
): RecordProblem | null {
  if (input.podId !== null && record.podId !== input.podId) return "other-pod";
  if (record.startedAt === null) return "no-start";
  if (record.adjustedPrice === null && record.listPrice === null && input.catalogPrice === undefined) return "no-price";
  return input.deletedAt < record.startedAt ? "window-negative" : null;
}

function parseObject(kept: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(kept);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : null;
  } catch {
    return null;
  }
}
