/**
 * Routing: what a signal means for the requests of a repository (design 3.1, "what opens a request").
 *
 * Pure. A signal opens a request, brings a look forward, or means nothing here; it never decides anything else. Every row
 * of the design's table is one arm below, by its number.
 */
import { unreachable } from "../result.ts";
import { isAggregateCheck } from "./aggregate-hints.ts";
import { newKeep, type Keep } from "./keep.ts";
import type { GateRequest } from "./model.ts";
import type { Actor, Signal } from "./signal.ts";

/** What the gate knows that routing needs. Each list is newest generation last. */
export interface RouteView {
  readonly appId: string;
  readonly ofHead: (headSha: string, kind: GateRequest["kind"]) => readonly GateRequest[];
  readonly ofPull: (prNumber: number) => readonly GateRequest[];
  readonly ofRun: (runId: string) => GateRequest | null;
  readonly ofCheckRun: (checkRunId: string) => GateRequest | null;
  /** The request one of whose attempts registered this runner. */
  readonly ofRunner: (runnerId: string) => GateRequest | null;
}

export interface NewRequest {
  readonly kind: GateRequest["kind"];
  readonly prNumber: number | null;
  readonly headSha: string;
  /** The commit a validation tests; left out for every other kind. */
  readonly revision?: string | null;
  readonly generation: number;
  readonly row: number;
  readonly actor: Actor | null;
  readonly approvedBy: Actor | null;
  /** The same person's word to keep the pod for so long, should its job not pass. */
  readonly keepMinutes?: number;
}

export type RouteAction =
  | { readonly kind: "open"; readonly request: NewRequest }
  /** Look now. `stranger`: a job that is not the request's was given to this runner of its. */
  | { readonly kind: "hint"; readonly requestId: string; readonly stranger?: Stranger }
  /** Compare with GitHub now: something exists that no request knows. */
  | { readonly kind: "reconcile" }
  | { readonly kind: "note"; readonly why: string };

/** A job of another run on a runner of ours. */
export interface Stranger {
  readonly runnerId: string;
  readonly runId: string;
}

/** Identifier of the button on a check that waits for approval; GitHub allows 20 characters. */
export const APPROVE_BUTTON = "approve-gpu-run";

export function route(signal: Signal, view: RouteView): readonly RouteAction[] {
  switch (signal.kind) {
    case "pull-request":
      return pullRequest(signal, view);
    case "workflow-run":
      return workflowRun(signal, view);
    case "workflow-job":
      return workflowJob(signal, view);
    case "check-run":
      return checkRun(signal, view);
    case "check-suite":
      // Row 4: "re-run all checks" on the suite means every request whose check is in it.
      if (signal.appId !== view.appId) return [note("another App's suite")];
      return again(view.ofHead(signal.headSha, "pull-request"), 4, signal.sender);
    case "merge-group":
      return [note("merge queues are not served yet")];
    case "comment":
      return comment(signal, view);
    case "repository":
    case "installation":
      return [{ kind: "reconcile" }];
    default:
      return unreachable(signal, "signal");
  }
}

function pullRequest(signal: Extract<Signal, { kind: "pull-request" }>, view: RouteView): readonly RouteAction[] {
  // Whatever happened, the open requests of this pull request look again: an older head finds itself superseded.
  const hints = view
    .ofPull(signal.prNumber)
    .filter((request) => request.state.kind !== "concluded")
    .map(hint);
  switch (signal.action) {
    case "opened":
    case "reopened":
    case "synchronize":
    case "ready_for_review": {
      // Row 1: always opens the request, unless any generation for this head exists.
      const known = view.ofHead(signal.headSha, "pull-request");
      const newest = known.at(-1);
      if (newest === undefined) return [...hints, open(signal.prNumber, signal.headSha, 1, 1, signal.sender, null)];
      // Reopened after its request ended because it was closed: the head needs a new answer.
      if (signal.action === "reopened" && endedAs(newest, "closed")) {
        return [...hints, open(signal.prNumber, signal.headSha, newest.generation + 1, 1, signal.sender, null)];
      }
      return hints.length > 0 ? hints : [note("a request for this head exists")];
    }
    case "labeled": {
      // Row 3: the label in force when the check said that it waits for one.
      const newest = view.ofHead(signal.headSha, "pull-request").at(-1);
      if (newest?.terms?.start === "label" && signal.label === newest.terms.startWord) {
        return approve(newest, signal.sender, hints);
      }
      return hints.length > 0 ? hints : [note("not the label that starts a run")];
    }
    case "unlabeled":
    case "edited":
    case "converted_to_draft":
    case "closed":
      return hints.length > 0 ? hints : [note("no open request of this pull request")];
    default:
      return unreachable(signal.action, "pull request action");
  }
}

function workflowRun(signal: Extract<Signal, { kind: "workflow-run" }>, view: RouteView): readonly RouteAction[] {
  const owner = view.ofRun(signal.runId);
  if (owner !== null) return [hint(owner)];
  // Row 2: the trigger lets an open request go on. The request reads the run itself; this only wakes it.
  const waiting = view.ofHead(signal.headSha, "pull-request").filter((request) => request.state.kind !== "concluded");
  if (waiting.length > 0) return waiting.map(hint);
  if (signal.event === "pull_request" && signal.action === "in_progress") {
    if (view.ofHead(signal.headSha, "pull-request").length > 0) return [note("this head is concluded")];
    // A pull request that nobody told us of.
    return [{ kind: "reconcile" }];
  }
  return [note("no request waits for this run")];
}

/** GitHub gives a runner to any job whose labels match: the runner's id tells whether a job of another run has ours. */
function workflowJob(signal: Extract<Signal, { kind: "workflow-job" }>, view: RouteView): readonly RouteAction[] {
  const owner = view.ofRun(signal.runId);
  const hints = owner === null ? [] : [hint(owner)];
  const { runnerId, runId } = signal;
  const runnerOf = runnerId === null ? null : view.ofRunner(runnerId);
  if (runnerId === null || runnerOf === null) return hints.length > 0 ? hints : [note("not a run of ours")];
  const attempt = "attempt" in runnerOf.state ? runnerOf.state.attempt : null;
  if (attempt?.runner?.id !== runnerId || attempt.run?.runId === runId) return hints;
  return [...hints, { kind: "hint", requestId: runnerOf.id, stranger: { runnerId, runId } }];
}

function checkRun(signal: Extract<Signal, { kind: "check-run" }>, view: RouteView): readonly RouteAction[] {
  // "Re-run" on the aggregator's check asks for a new judgement of the checks, never for a GPU.
  if (isAggregateCheck(signal, view.appId)) return [note("the aggregator's own check")];
  switch (signal.action) {
    case "rerequested": {
      const owner = view.ofCheckRun(signal.checkRunId) ?? view.ofHead(signal.headSha, "pull-request").at(-1) ?? null;
      if (owner === null || signal.appId !== view.appId) return [note("not a check of ours")];
      return again(view.ofHead(signal.headSha, owner.kind), 4, signal.sender);
    }
    case "requested_action": {
      const newest = view.ofHead(signal.headSha, "pull-request").at(-1);
      if (signal.appId !== view.appId || signal.identifier !== APPROVE_BUTTON || newest === undefined) {
        return [note("not a button of ours")];
      }
      return approve(newest, signal.sender, []);
    }
    case "created":
    case "completed": {
      // Another check of this head moved: the pre-gate may be ready.
      const waiting = view
        .ofHead(signal.headSha, "pull-request")
        .filter((request) => request.state.kind === "preparing" && request.terms?.preGate.includes(signal.name));
      return waiting.length > 0 ? waiting.map(hint) : [note("no request waits for this check")];
    }
    default:
      return unreachable(signal.action, "check run action");
  }
}

function comment(signal: Extract<Signal, { kind: "comment" }>, view: RouteView): readonly RouteAction[] {
  // Row 3: for a comment the newest request of the pull request whose check waited when it was written.
  const created = Date.parse(signal.createdAt);
  const waiting = view
    .ofPull(signal.prNumber)
    .filter((request) => endedAs(request, "awaiting-approval") && request.terms?.start === "comment")
    .filter((request) => request.state.kind === "concluded" && request.state.at <= created)
    .at(-1);
  const word = waiting?.terms?.startWord ?? null;
  const line = signal.firstLine.trim();
  if (waiting === undefined || word === null || !line.startsWith(word)) return [note("not a command")];
  // `/gpu run`, or `/gpu run keep 60`: the permission that is asked for the run covers the keeping.
  const said = /^(?: +keep +([1-9]\d{0,2}))?$/.exec(line.slice(word.length));
  if (said === null) return [note("not a command")];
  const [action, ...rest] = approve(waiting, signal.sender, []);
  if (said[1] === undefined || action?.kind !== "open") return action === undefined ? rest : [action, ...rest];
  return [{ ...action, request: { ...action.request, keepMinutes: Number(said[1]) } }, ...rest];
}

function approve(newest: GateRequest, by: Actor, otherwise: readonly RouteAction[]): readonly RouteAction[] {
  if (!endedAs(newest, "awaiting-approval")) {
    return otherwise.length > 0 ? otherwise : [note("nothing waits for approval at this head")];
  }
  return [open(newest.prNumber, newest.headSha, newest.generation + 1, 3, by, by)];
}

/** Row 4: a new generation if the last one is concluded, else a note. */
function again(known: readonly GateRequest[], row: number, by: Actor): readonly RouteAction[] {
  const newest = known.at(-1);
  if (newest === undefined) return [note("no request for this head")];
  if (newest.state.kind !== "concluded") return [hint(newest), note("a request for this head is under way")];
  return [
    {
      kind: "open",
      request: {
        kind: newest.kind,
        prNumber: newest.prNumber,
        headSha: newest.headSha,
        revision: newest.revision,
        generation: newest.generation + 1,
        row,
        actor: by,
        // An approval dies with its generation's head; a re-run of the same head by a person is that person's word.
        approvedBy: newest.approvedBy === null ? null : by,
      },
    },
  ];
}

function open(
  prNumber: number | null,
  headSha: string,
  generation: number,
  row: number,
  actor: Actor | null,
  approvedBy: Actor | null,
): RouteAction {
  return {
    kind: "open",
    request: { kind: "pull-request", prNumber, headSha, generation, row, actor, approvedBy },
  };
}

function endedAs(request: GateRequest, kind: string): boolean {
  return request.state.kind === "concluded" && request.state.verdict.kind === kind;
}

function hint(request: GateRequest): RouteAction {
  return { kind: "hint", requestId: request.id };
}

function note(why: string): RouteAction {
  return { kind: "note", why };
}

/** The record a request begins as. */
export function newRequest(id: string, what: NewRequest, now: number): GateRequest {
  return {
    id,
    kind: what.kind,
    prNumber: what.prNumber,
    headSha: what.headSha,
    revision: what.revision ?? null,
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
