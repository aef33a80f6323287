/**
 * Keeping a pod for debugging: somebody's word about one request, bound to one pod once there is one, and with an end.
 *
 * The word alone keeps nothing. Its minutes are reserved before the pod is bought (`attemptId` is then the attempt whose pod
 * it is), and the pod is handed over only when its job has ended by itself and did not pass: a green check needs a pod that
 * is proven gone, and there is nothing to debug behind it. The request then ends with its verdict and gives up the lock;
 * the pod has a removal lane of its own, whose first step is due at `until`.
 */
import * as z from "zod";
import type { Millis } from "../ports.ts";
import type { Attempt } from "./model.ts";
import type { VerdictKind } from "./verdict.ts";

const millis = z.number();

export const keepSchema = z.object({
  /** Login of the person, or `configuration`. Shown on the check. */
  by: z.string(),
  reason: z.string(),
  /** The configuration keeps the pods of failed tests; a person's word keeps that of any job that did not pass. */
  failuresOnly: z.boolean(),
  duration: millis,
  /** Longest life of the pod, from its creation, as configured when the money was reserved. */
  maxLife: millis.nullable(),
  attemptId: z.string().nullable(),
  podId: z.string().nullable(),
  until: millis.nullable(),
  /** Why nothing is kept, in a sentence. */
  refused: z.string().nullable(),
  /** Somebody said that this request's pod is not kept. It stands against the configuration, until a later word. */
  declined: z.literal(true).optional(),
});

export type Keep = z.infer<typeof keepSchema>;

/** What the gate does with a kept pod. */
export interface Retain {
  readonly attempt: Attempt;
  readonly podId: string;
  readonly until: Millis;
  readonly by: string;
  readonly reason: string;
}

export function newKeep(by: string, reason: string, duration: Millis, failuresOnly = false): Keep {
  return {
    by,
    reason,
    failuresOnly,
    duration,
    maxLife: null,
    attemptId: null,
    podId: null,
    until: null,
    refused: null,
  };
}

/** The word that nothing is kept: remembered, because the configuration would otherwise keep the pod all the same. */
export function declinedKeep(by: string, reason: string): Keep {
  return { ...newKeep(by, reason, 0), refused: `${by} said that it is not kept.`, declined: true };
}

/** A pod that outlives its job says so by a flag on itself; the flag keeps its container up and exempts from nothing. */
export function flagged(keep: Keep | undefined, attemptId: string): boolean {
  return keep?.attemptId === attemptId && keep.refused === null;
}

/** How long after the runner's last word a flagged pod waits for GitHub to say how the job ended. */
export const JOB_END_PATIENCE_MS = 60_000;

/** Whether this pod, whose runner has ended, is left alone for now: the job's end is about to be told. */
export function awaitsJobEnd(keep: Keep | undefined, attempt: Attempt, now: Millis): boolean {
  return flagged(keep, attempt.id) && attempt.exit !== null && now - attempt.exit.at < JOB_END_PATIENCE_MS;
}

/**
 * What becomes of the pod of a job that ended as `ended`; null: it is not kept. Its end is counted from now, and never
 * beyond the longest life of a kept pod.
 */
export function retain(keep: Keep | undefined, attempt: Attempt, ended: VerdictKind, now: Millis): Retain | null {
  if (ended === "passed" || (keep?.failuresOnly === true && ended !== "failed")) return null;
  if (keep === undefined || attempt.pod === null || !flagged(keep, attempt.id) || keep.maxLife === null) return null;
  const born = attempt.createSentAt ?? attempt.paidFrom ?? 0;
  const until = Math.min(now + keep.duration, born + keep.maxLife);
  return until <= now ? null : { attempt, podId: attempt.pod.id, until, by: keep.by, reason: keep.reason };
}
