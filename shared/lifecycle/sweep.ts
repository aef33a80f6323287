/**
 * One sweep of the reaper over a list of pods: reads what each decision needs, decides, and carries it out.
 *
 * The order per pod is fixed: read the run, decide, DELETE, prove the pod gone, and only then cancel the run's attempt.
 * One bad pod never stops the others; each error is in the result. Cron and `gpu-gate sweep` run this same code with
 * their own ports.
 *
 * A sweep may be bounded by a number of look-ups (a platform limits the requests of one tick). Then pods over the
 * backstop come first, for they need no look-up to be due, and the rest continues where the last sweep ended.
 */
import { stageCost, type StageReport } from "../cost/stage-cost.ts";
import type { PodCostRecord } from "../cost/record.ts";
import type { Millis } from "../ports.ts";
import { unreachable } from "../result.ts";
import {
  decideReap,
  type GateView,
  type Observation,
  type OwnerRef,
  type ReapInput,
  type ReapLimits,
  type ReapReason,
  type RetentionView,
  type RunView,
} from "./reap.ts";

const DELETE_TRIES = 3;
const DELETE_PAUSE_MS = 5_000;

export interface SweepPod {
  readonly id: string;
  readonly own: boolean;
  readonly createdAt: Millis | null;
  readonly ownCreatedAt: Millis | null;
  readonly owner: OwnerRef | null;
  readonly keepAsked: boolean;
  /** What the listing said about the price, for the cost of the deleted pod; null when it said nothing. */
  readonly cost: PodCostRecord | null;
  readonly gpuTypeId: string;
}

/** One answer to one DELETE. `gone` is 2xx or 404; what may be asked again is `again`. */
export type DeleteAnswer =
  | { readonly kind: "gone" }
  | { readonly kind: "again"; readonly what: string }
  | { readonly kind: "refused"; readonly what: string };

/** One answer to one cancel request: 202, 409, or anything else. */
export type CancelAnswer =
  | { readonly kind: "accepted" }
  | { readonly kind: "conflict" }
  | { readonly kind: "failed"; readonly what: string };

/** Reads a DELETE's status; null is a transport failure. What may pass by itself is asked again, a refusal is not. */
export function deleteAnswer(status: number | null): DeleteAnswer {
  if (status === null) return { kind: "again", what: "no answer" };
  if ((status >= 200 && status < 300) || status === 404) return { kind: "gone" };
  const passing = status === 408 || status === 429 || status >= 500;
  return { kind: passing ? "again" : "refused", what: `HTTP ${status}` };
}

/** Reads a cancel request's status; null is a transport failure. */
export function cancelAnswer(status: number | null): CancelAnswer {
  if (status === 202) return { kind: "accepted" };
  if (status === 409) return { kind: "conflict" };
  return { kind: "failed", what: status === null ? "no answer" : `HTTP ${status}` };
}

/** What a sweep may do outside. None of these throws in normal failure; if one does, only its pod is affected. */
export interface SweepPorts {
  readonly readRun: (owner: OwnerRef) => Promise<RunView>;
  readonly askGate: (pod: SweepPod) => Promise<GateView>;
  readonly readRetention: (pod: SweepPod) => Promise<RetentionView>;
  readonly deletePod: (podId: string) => Promise<DeleteAnswer>;
  /** Whether the pod is proven gone by the rule of absence; false leaves its run alone. */
  readonly proveGone: (podId: string) => Promise<boolean>;
  readonly cancelRun: (owner: OwnerRef) => Promise<CancelAnswer>;
  readonly sleep: (durationMs: Millis) => Promise<void>;
  readonly now: () => Millis;
}

export interface SweepOptions {
  /** False: decide and report, touch nothing. */
  readonly execute: boolean;
  readonly limits: ReapLimits;
  /** Pods that may be looked up in this sweep; null is all of them. */
  readonly maxLookups: number | null;
  /** Where the last bounded sweep ended; null starts at the front. */
  readonly cursor: string | null;
  readonly observations: ReadonlyMap<string, Observation>;
}

export interface SweptPod {
  readonly podId: string;
  readonly owner: OwnerRef | null;
  /** Null when it is left alone. */
  readonly reason: ReapReason | null;
  /** DELETE was confirmed. */
  readonly deleted: boolean;
  readonly provenGone: boolean;
  readonly runCancelled: boolean;
  readonly cost: StageReport | null;
}

export interface SweepResult {
  readonly checkedAt: Millis;
  readonly execute: boolean;
  /** Own pods that were looked at. */
  readonly pods: readonly SweptPod[];
  readonly errors: readonly { readonly podId: string; readonly what: string }[];
  /** Pods of others, counted and not touched. */
  readonly foreign: number;
  /** Own pods that this bounded sweep did not get to. */
  readonly left: number;
  readonly cursor: string | null;
  /** Suspicions to hand to the next sweep; whatever is not here any more has been cleared. */
  readonly observations: ReadonlyMap<string, Observation>;
}

/** Sweeps over a list of pods that was read just before. */
export async function sweep(pods: readonly SweepPod[], ports: SweepPorts, options: SweepOptions): Promise<SweepResult> {
  const checkedAt = ports.now();
  const own = inOrder(
    pods.filter((pod) => pod.own),
    checkedAt,
    options,
  );
  const turn = options.maxLookups === null ? own : own.slice(0, options.maxLookups);
  const swept: SweptPod[] = [];
  const errors: { podId: string; what: string }[] = [];
  const observations = new Map<string, Observation>();
  for (const pod of turn) {
    const record: Mutable<SweptPod> = {
      podId: pod.id,
      owner: pod.owner,
      reason: null,
      deleted: false,
      provenGone: false,
      runCancelled: false,
      cost: null,
    };
    swept.push(record);
    try {
      await sweepOne(pod, record, observations, ports, options);
    } catch (error) {
      errors.push({ podId: pod.id, what: error instanceof Error ? error.message : "an error nobody planned for" });
    }
  }
  // Suspicions about pods that had no turn wait for theirs; a bounded sweep must not forget them.
  const untouched = own.slice(turn.length);
  for (const pod of untouched) {
    const earlier = options.observations.get(pod.id);
    if (earlier !== undefined) observations.set(pod.id, earlier);
  }
  return {
    checkedAt,
    execute: options.execute,
    pods: swept,
    errors,
    foreign: pods.length - own.length,
    left: untouched.length,
    cursor: untouched.length === 0 ? null : (turn.at(-1)?.id ?? options.cursor),
    observations,
  };
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Why a pod's turn ended early: told in the result, never a stack. */
class SweepFailure extends Error {}

async function sweepOne(
  pod: SweepPod,
  record: Mutable<SweptPod>,
  observations: Map<string, Observation>,
  ports: SweepPorts,
  options: SweepOptions,
): Promise<void> {
  // A port that breaks must not protect a pod from the backstop: what it would have told is unknown, no more.
  const gate = await ports.askGate(pod).catch((): GateView => ({ kind: "unreachable" }));
  const run = await readRun(pod.owner, ports);
  const facts: ReapInput = {
    ...pod,
    run,
    gate,
    retention: { kind: "not-read" },
    observed: options.observations.get(pod.id) ?? null,
    now: ports.now(),
    limits: options.limits,
  };
  let decision = decideReap(facts);
  if (decision.kind === "read-retention") {
    decision = decideReap({ ...facts, retention: await readRetention(pod, ports) });
  }
  switch (decision.kind) {
    case "keep":
      return;
    case "observe":
      observations.set(pod.id, { suspicion: decision.suspicion, firstSeenAt: decision.firstSeenAt });
      return;
    case "error":
      throw new SweepFailure(decision.what);
    case "read-retention":
      throw new SweepFailure("the retention record was asked for twice");
    case "reap":
      record.reason = decision.reason;
      if (options.execute) await reap(pod, record, ports);
      return;
    default:
      unreachable(decision, "reap decision");
  }
}

async function readRun(owner: OwnerRef | null, ports: SweepPorts): Promise<RunView> {
  if (owner === null) return { kind: "unknown", what: "nothing names a run" };
  return await ports.readRun(owner).catch((): RunView => ({ kind: "unknown", what: "the run could not be read" }));
}

async function readRetention(pod: SweepPod, ports: SweepPorts): Promise<RetentionView> {
  return await ports
    .readRetention(pod)
    .catch((): RetentionView => ({ kind: "unreadable", what: "the retention record could not be read" }));
}

async function reap(pod: SweepPod, record: Mutable<SweptPod>, ports: SweepPorts): Promise<void> {
  await deleteWithRetries(pod.id, ports);
  record.deleted = true;
  record.cost = costOfSwept(pod, ports.now());
  record.provenGone = await ports.proveGone(pod.id);
  if (!record.provenGone) throw new SweepFailure("deleted, but not yet proven gone; its run is left alone");
  if (pod.owner !== null) record.runCancelled = await cancelOwnAttempt(pod.owner, ports);
}

async function deleteWithRetries(podId: string, ports: SweepPorts): Promise<void> {
  let what = "";
  for (let attempt = 1; attempt <= DELETE_TRIES; attempt += 1) {
    const answer = await ports.deletePod(podId);
    if (answer.kind === "gone") return;
    if (answer.kind === "refused") throw new SweepFailure(`deletion refused: ${answer.what}`);
    what = answer.what;
    if (attempt < DELETE_TRIES) await ports.sleep(DELETE_PAUSE_MS);
  }
  throw new SweepFailure(`deletion not confirmed: ${what}`);
}

/** The run may have been started again while the pod went: only this very attempt, unfinished, is ever cancelled. */
async function cancelOwnAttempt(owner: OwnerRef, ports: SweepPorts): Promise<boolean> {
  const run = await readRun(owner, ports);
  // A run that is gone has nothing left to cancel.
  if (run.kind === "gone") return false;
  if (run.kind === "unknown") throw new SweepFailure(`the pod is gone, but its run could not be read: ${run.what}`);
  if (run.attempt !== owner.attempt || run.status === "completed") return false;
  const answer = await ports.cancelRun(owner);
  if (answer.kind === "accepted") return true;
  if (answer.kind === "conflict") {
    // A run that completed by itself meanwhile answers so.
    const again = await readRun(owner, ports);
    if (again.kind === "read" && again.status === "completed") return false;
    throw new SweepFailure("the pod is gone, but its run refused to be cancelled");
  }
  throw new SweepFailure(`the pod is gone, but its run was not cancelled: ${answer.what}`);
}

/** The whole paid time of a pod that no job explains; null when the listing told no start or no price. */
function costOfSwept(pod: SweepPod, deletedAt: Millis): StageReport | null {
  if (pod.cost === null) return null;
  const report = stageCost({
    record: pod.cost,
    gpuTypeId: pod.gpuTypeId,
    deletedAt: deletedAt * 1000,
    jobs: [],
    rules: { gpuJobNameEndsWith: "", steps: [] },
  });
  return report.cost === null || report.flags.includes("window-negative") ? null : report;
}

/**
 * Overdue pods first, but with others waiting they get half of the turn at most: pods that cannot be deleted must not
 * keep the sweep from ever reaching the rest.
 */
function inOrder(own: readonly SweepPod[], now: Millis, options: SweepOptions): readonly SweepPod[] {
  const { maxLookups, cursor } = options;
  if (maxLookups === null) return own;
  const isOverdue = (pod: SweepPod) =>
    now - (pod.createdAt ?? pod.ownCreatedAt ?? -Infinity) >= options.limits.backstopMs;
  const byId = own.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const start = cursor === null ? 0 : byId.findIndex((pod) => pod.id > cursor);
  const rotated = start <= 0 ? byId : [...byId.slice(start), ...byId.slice(0, start)];
  const overdue = rotated.filter(isOverdue);
  const others = rotated.filter((pod) => !isOverdue(pod));
  const first = Math.max(Math.ceil(maxLookups / 2), maxLookups - others.length);
  return [...overdue.slice(0, first), ...others, ...overdue.slice(first)];
}
