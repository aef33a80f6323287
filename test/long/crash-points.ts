/**
 * Where the Worker is killed: for every kind of task and every lane a point before its call leaves and one after whoever
 * is asked has done it. A kind without both does not compile, and `test/recovery/crash-points.test.ts` says so as well.
 *
 * The wire between the Worker and the providers tells where a life stands. Tasks that call nobody outside (a reservation, a
 * pause) are bracketed: killed when the answer before them has left the provider, and when the call after them arrives.
 */
import type { Lane } from "../../durable-objects/gate/store.ts";
import type { TaskKind } from "../../shared/lifecycle/tasks.ts";

/** The aggregator's check in the matrix's world. */
export const AGGREGATE = "Required checks";

export type Upstream = "github" | "runpod";

/** A request of the Worker, as the wire sees it. */
export interface WireCall {
  readonly upstream: Upstream;
  readonly method: string;
  readonly path: string;
  readonly body: string;
}

/** What has been answered in this life so far. */
export interface LifeFacts {
  readonly prepared: boolean;
  readonly executed: boolean;
  readonly created: boolean;
  readonly deleted: boolean;
  readonly cancelled: boolean;
  /** What was done to provoke a kind that no healthy life has. */
  readonly provoked: boolean;
  /** A person has started the ended GPU run anew. */
  readonly rerun: boolean;
  /** A merge group stands and has been asked for. */
  readonly grouped: boolean;
}

/**
 * `plain`: a pull request that passes. `closing`: closed while its tests run. `stray`: a pod of ours that nobody owns.
 * `rerun`: passes, then somebody re-runs the GPU run. `late-group`: a merge group whose tests outlast the queue's patience.
 */
export type Scenario = "plain" | "closing" | "stray" | "rerun" | "late-group";

type Match = (call: WireCall, life: LifeFacts) => boolean;

/** `before`: killed as the call arrives, which is not passed on. `after`: passed on, killed as its answer comes back. */
export interface Moment {
  readonly when: "before" | "after";
  readonly match: Match;
}

export interface CrashPoint {
  readonly before: Moment;
  readonly after: Moment;
  readonly scenario: Scenario;
  /**
   * Sides on which the life ends without its tests, nothing bought: a start that may have been sent is looked for by its
   * run's name and never sent twice (design 3.3), so one that was not sent ends as `workflow-unavailable`. Such a point has a
   * life to itself. A kill at any other call can meet a start that is under way as well: `crash-judge.ts` tells by the calls.
   */
  readonly mayEnd?: readonly ("before" | "after")[];
  /** One call of this kind meets this first, so that the life takes the way on which the kind lies. */
  readonly provoke?: { readonly match: Match; readonly how: "lose-answer" | "rate-limit" };
}

const is = (upstream: Upstream, method: string, path: RegExp): Match => {
  return (call) => call.upstream === upstream && call.method === method && path.test(call.path);
};

const and =
  (match: Match, life: (facts: LifeFacts) => boolean): Match =>
  (call, facts) =>
    match(call, facts) && life(facts);

/** Before and after one and the same call. */
function around(match: Match, more: Partial<CrashPoint> = {}): CrashPoint {
  return { before: { when: "before", match }, after: { when: "after", match }, scenario: "plain", ...more };
}

/** Of a task that calls nobody: from the answer of one call to the arrival of another. */
function between(from: Match, to: Match, more: Partial<CrashPoint> = {}): CrashPoint {
  return { before: { when: "after", match: from }, after: { when: "before", match: to }, scenario: "plain", ...more };
}

const files = is("github", "GET", /\/pulls\/\d+\/files/);
const dispatchPrepare = is("github", "POST", /gpu-gate-prepare\.yml\/dispatches$/);
const dispatchExecute = is("github", "POST", /gpu-gate-execute\.yml\/dispatches$/);
const mint = is("github", "POST", /\/generate-jitconfig$/);
const create = is("runpod", "POST", /^\/v2\/pods$/);
const listPods = is("runpod", "GET", /^\/v2\/pods(?:\?|$)/);
const getPod = is("runpod", "GET", /^\/v2\/pods\/\w+$/);
const deletePod = is("runpod", "DELETE", /^\/v2\/pods\/\w+$/);
const prices = is("runpod", "GET", /^\/v2\/catalog\/gpus/);
const jobs = is("github", "GET", /\/actions\/runs\/\d+\/attempts\/\d+\/jobs/);
const run = is("github", "GET", /\/actions\/runs\/\d+\/attempts\/\d+$/);
const deregister = is("github", "DELETE", /\/actions\/runners\/\d+$/);
const trees = is("github", "GET", /\/git\/trees\//);
const changeCheck = is("github", "PATCH", /\/check-runs\/\d+$/);
const cancel = is("github", "POST", /\/actions\/runs\/\d+\/cancel$/);
const ownCheck: Match = (call, life) => changeCheck(call, life) && !isAggregate(call);
/** The aggregator's check: named at its creation, and known by the gate's own id for it in every later change. */
const isAggregate = (call: WireCall): boolean =>
  call.body.includes(`"${AGGREGATE}"`) || call.body.includes('"external_id":"aggregate:');
const writeAggregate: Match = (call) => call.upstream === "github" && call.method === "POST" && isAggregate(call);
const concludeCheck: Match = (call, life) => ownCheck(call, life) && call.body.includes('"conclusion"');

export const TASK_POINTS: Readonly<Record<TaskKind, CrashPoint>> = {
  authorize: around(and(files, (life) => !life.prepared)),
  observe: around(and(jobs, (life) => life.executed && !life.deleted)),
  "dispatch-prepare": around(dispatchPrepare, { mayEnd: ["before"] }),
  "find-prepare": around(is("github", "GET", /gpu-gate-prepare\.yml\/runs/), {
    provoke: { match: dispatchPrepare, how: "lose-answer" },
  }),
  recheck: around(and(files, (life) => life.prepared)),
  plan: around(and(prices, (life) => life.prepared)),
  reserve: between(
    and(prices, (life) => life.prepared),
    mint,
  ),
  mint: around(mint),
  "find-runner": around(is("github", "GET", /\/actions\/runners(?:\?|$)/), {
    provoke: { match: mint, how: "lose-answer" },
  }),
  "dispatch-execute": around(dispatchExecute, { mayEnd: ["before"] }),
  "find-execute": around(is("github", "GET", /gpu-gate-execute\.yml\/runs/), {
    provoke: { match: dispatchExecute, how: "lose-answer" },
  }),
  "create-pod": around(create),
  "look-up-pod": around(
    and(listPods, (life) => life.provoked),
    { provoke: { match: create, how: "lose-answer" } },
  ),
  sleep: between(
    and(create, (life) => life.provoked && !life.created),
    and(create, (life) => life.provoked),
    { provoke: { match: create, how: "rate-limit" } },
  ),
  deregister: around(deregister),
  "read-record": around(and(getPod, (life) => life.created && !life.deleted)),
  "delete-pod": around(deletePod),
  "verify-gone": around(and(getPod, (life) => life.deleted)),
  "list-pods": around(and(listPods, (life) => life.deleted)),
  "cancel-run": around(cancel, { scenario: "closing" }),
  // A run that ended by itself may have been read to its end already; one that was cancelled is read after that.
  "read-run": around(
    and(run, (life) => life.cancelled),
    { scenario: "closing" },
  ),
  settle: between(deregister, concludeCheck),
};

/** Lanes other than the main one. Null: its calls are told in words instead of a point of their own. */
export const LANE_POINTS: Readonly<Record<Lane, CrashPoint | string>> = {
  main: "the kinds of task above",
  check: around(concludeCheck),
  cost: around(and(jobs, (life) => life.deleted)),
  stray: around(deletePod, { scenario: "stray" }),
  reconcile: around(is("github", "GET", /\/pulls\?.*state=open/)),
  aggregate: around(writeAggregate),
  rerun: around(
    and(cancel, (life) => life.rerun),
    { scenario: "rerun" },
  ),
  // Calls nobody: killed at the last look at the job before the time is up, and when the deletion that follows arrives.
  deadline: between(
    and(jobs, (life) => life.grouped && life.created && !life.deleted),
    and(deletePod, (life) => life.grouped),
    { scenario: "late-group" },
  ),
};

/** Calls that a task makes before the one that may not be made twice: killed there it has done nothing, and is done again. */
export const EARLY_POINTS: Readonly<Record<string, CrashPoint>> = {
  "dispatch-prepare's reads": around(and(trees, (life) => !life.prepared)),
};

export interface NamedPoint {
  readonly name: string;
  readonly point: CrashPoint;
  readonly side: "before" | "after";
}

/** Every point, both sides: the matrix. */
export function allPoints(): readonly NamedPoint[] {
  const named: [string, CrashPoint][] = [
    ...Object.entries(TASK_POINTS),
    ...Object.entries(EARLY_POINTS),
    ...Object.entries(LANE_POINTS).flatMap(([lane, point]): [string, CrashPoint][] =>
      typeof point === "string" ? [] : [[`lane ${lane}`, point]],
    ),
  ];
  return named.flatMap(([name, point]) => (["before", "after"] as const).map((side) => ({ name, point, side })));
}

/**
 * The order in which points that wait for the same call get it: a kill before it first. Answered, the call may be done for
 * good, and none would come for the other.
 */
export function inTurn(points: readonly NamedPoint[]): readonly NamedPoint[] {
  const isAfter = ({ point, side }: NamedPoint): number => Number(point[side].when === "after");
  return points.toSorted((a, b) => isAfter(a) - isAfter(b));
}
