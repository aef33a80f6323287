/** What a request begins as. */
import { newKeep, type Keep } from "./keep.ts";
import type { GateRequest, Group } from "./model.ts";
import type { Actor } from "./signal.ts";

/** What opens a request; `row` is that of the design's table. */
export interface NewRequest {
  readonly kind: GateRequest["kind"];
  readonly prNumber: number | null;
  readonly headSha: string;
  /** The branch the pull request is said to target; left out where nobody said it. */
  readonly baseRef?: string;
  /** The commit a validation tests; left out for every other kind. */
  readonly revision?: string | null;
  /** The merge group; left out for every other kind. */
  readonly group?: Group;
  readonly generation: number;
  readonly row: number;
  readonly actor: Actor | null;
  readonly approvedBy: Actor | null;
  /** The operator's cap for this run, in place of the configured ones, micro-dollars. */
  readonly liftedMicros?: number;
  /** The same person's word to keep the pod for so long, should its job not pass. */
  readonly keepMinutes?: number;
}

/** The record a request begins as. */
export function newRequest(id: string, what: NewRequest, now: number): GateRequest {
  return {
    id,
    kind: what.kind,
    prNumber: what.prNumber,
    headSha: what.headSha,
    ...(what.baseRef === undefined ? {} : { baseRef: what.baseRef }),
    revision: what.revision ?? null,
    ...(what.group === undefined ? {} : { group: what.group }),
    ...(what.liftedMicros === undefined ? {} : { liftedMicros: what.liftedMicros }),
    generation: what.generation,
    openedAt: now,
    openedBy: { row: what.row, actor: what.actor },
    approvedBy: what.approvedBy,
    actor: what.actor,
    // A person who asked for it again does not wait for CI to start once more.
    triggerSeen: what.row === 3 || what.row === 4,
    terms: null,
    admission: null,
    prepared: null,
    counts: { attempts: 0, pods: 0, startupFailures: 0, idleRetries: 0, lostRetries: 0, outageRetries: 0 },
    spentMicros: 0,
    paidMs: 0,
    gpu: null,
    pricePerHour: null,
    tests: null,
    failedSteps: [],
    runUrl: null,
    tried: [],
    leftOut: [],
    runnerNote: null,
    stop: null,
    ...(what.keepMinutes === undefined ? {} : { keep: wish(what.actor, what.keepMinutes) }),
    pullMissing: 0,
    check: { series: 0, checkRunId: null, published: null, completed: false, saidUnproven: false, mayHaveTwins: false },
    task: null,
    state: { kind: "received" },
  };
}

function wish(actor: Actor | null, minutes: number): Keep {
  return newKeep(actor?.login ?? "somebody", "asked for when it was started", minutes * 60_000);
}
