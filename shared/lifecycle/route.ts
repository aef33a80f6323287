/**
 * Routing: what a signal means for the requests of a repository (design 3.1, "what opens a request").
 *
 * Pure. A signal opens a request, brings a look forward, or means nothing here; it never decides anything else. Every row
 * of the design's table is one arm below, by its number.
 */
import type { Millis } from "../ports.ts";
import type { ReasonCode } from "../audit/reasons.ts";
import { unreachable } from "../result.ts";
import { isAggregateCheck } from "./aggregate-hints.ts";
import type { GateRequest } from "./model.ts";
import type { NewRequest } from "./new-request.ts";
import {
  answerFor,
  answersOf,
  groupAnswersOf,
  isDraftsWait,
  isGreen,
  isNobodys,
  isPress,
  needsAnswer,
  nextGeneration,
  ownAnswer,
  withoutPresses,
} from "./needs-answer.ts";
import type { Actor, Signal } from "./signal.ts";
import { verdict, type Verdict } from "./verdict.ts";

/** What the gate knows that routing needs. Each list is newest generation last. */
export interface RouteView {
  readonly appId: string;
  /** The repository's id; null as long as no delivery named it. */
  readonly repositoryId: string | null;
  /** Whether the configuration, as it was last read, has shadow mode on; left out: it was not read. */
  readonly shadow?: boolean | undefined;
  readonly ofHead: (headSha: string, kind: GateRequest["kind"]) => readonly GateRequest[];
  readonly ofPull: (prNumber: number) => readonly GateRequest[];
  readonly open: () => readonly GateRequest[];
  readonly ofRun: (runId: string) => GateRequest | null;
  readonly ofCheckRun: (checkRunId: string) => GateRequest | null;
  /** The request one of whose attempts registered this runner. */
  readonly ofRunner: (runnerId: string) => GateRequest | null;
}

export type RouteAction =
  | { readonly kind: "open"; readonly request: NewRequest }
  /** Look now. `stranger`: a job that is not the request's was given to this runner of its. */
  | { readonly kind: "hint"; readonly requestId: string; readonly stranger?: Stranger }
  /** Compare with GitHub now: something exists that no request knows. */
  | { readonly kind: "reconcile" }
  /** A person asked for what is under way: noted in its audit, nothing else. */
  | { readonly kind: "asked"; readonly requestId: string; readonly row: number; readonly actor: Actor }
  /** Another pull request has the head that this open request is for: its check is theirs as well. */
  | { readonly kind: "also"; readonly requestId: string; readonly prNumber: number; readonly baseRef?: string }
  /** Another pull request has the head whose answer this is: who caused it is remembered, should it be asked about. */
  | { readonly kind: "heard"; readonly requestId: string; readonly prNumber: number; readonly baseRef?: string }
  /** This open request's pull request is said to target this branch now: remembered, and looked at. */
  | { readonly kind: "base"; readonly requestId: string; readonly baseRef: string }
  /** Who caused this open request, of which nobody had told before. */
  | { readonly kind: "actor"; readonly requestId: string; readonly actor: Actor }
  /** Nothing outside follows this request any more: it ends. */
  | { readonly kind: "stop"; readonly requestId: string; readonly verdict: Verdict }
  /** An attempt of one of our runs that we did not start. */
  | { readonly kind: "uninvited"; readonly requestId: string; readonly run: RunAttempt }
  | { readonly kind: "note"; readonly why: string };

export interface RunAttempt {
  readonly runId: string;
  readonly attempt: number;
}

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
      // Row 4: "re-run all checks" on the suite means the newest word that stands on this head.
      if (signal.appId !== view.appId) return [note("another App's suite")];
      return again(view, signal.headSha, null, signal.sender);
    case "merge-group":
      return mergeGroup(signal, view);
    case "comment":
      return comment(signal, view);
    case "repository":
      return repository(signal, view);
    case "installation":
      return installation(signal, view);
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
      const left = leavesAWord(signal, view) ? [{ kind: "reconcile" } as const] : [];
      return [...appears(signal, view, hints), ...left];
    }
    case "labeled": {
      // Row 3: the label in force when the check said that it waits for one.
      const known = view.ofHead(signal.headSha, "pull-request");
      const terms = known.at(-1)?.terms;
      if (terms?.start === "label" && signal.label === terms.startWord)
        return approve(view, known, signal.prNumber, signal.sender, hints);
      return hints.length > 0 ? hints : [note("not the label that starts a run")];
    }
    case "edited":
      return edited(signal, view, hints);
    case "closed":
      if (leavesAWord(signal, view)) return [...hints, { kind: "reconcile" }];
      return hints.length > 0 ? hints : [note("no open request of this pull request")];
    case "unlabeled":
    case "converted_to_draft":
      return hints.length > 0 ? hints : [note("no open request of this pull request")];
    default:
      return unreachable(signal.action, "pull request action");
  }
}

/** Row 1: always opens the request, unless there is an answer for this head that still stands. */
function appears(
  signal: Extract<Signal, { kind: "pull-request" }>,
  view: RouteView,
  hints: readonly RouteAction[],
): readonly RouteAction[] {
  const { prNumber, headSha, sender, baseRef } = signal;
  const known = answersAt(headSha, view);
  const newest = known.at(-1);
  const generation = nextGeneration(view.ofHead(headSha, "pull-request"));
  const next = open({ ...signal, generation, row: 1, actor: sender });
  if (newest === undefined) return [...hints, next];
  // The webhook of this very head, later than the comparison with GitHub: it says whose permission counts.
  const caused = signal.action === "opened" || signal.action === "synchronize";
  const isOwn = newest.prNumber === prNumber;
  if (caused && isOwn && isNobodys(newest)) return [...hints, next];
  const base = baseRef === undefined ? {} : { baseRef };
  if (newest.state.kind !== "concluded") {
    if (caused && isOwn && isStillNobodys(newest))
      return [{ kind: "actor", requestId: newest.id, actor: sender }, ...hints];
    // Whoever is no draft must not wait for one.
    const drafts: readonly RouteAction[] =
      isDraftsWait(newest) && !signal.draft && !isOwn ? [{ kind: "reconcile" }] : [];
    if (isOwn || newest.alsoPulls?.includes(prNumber) === true) {
      const actions = [...hints, ...drafts];
      return actions.length > 0 ? actions : [note("a request for this head exists")];
    }
    return [...hints, { kind: "also", requestId: newest.id, prNumber, ...base }, ...drafts];
  }
  const fork = view.repositoryId === null ? {} : { fork: signal.headRepositoryId !== view.repositoryId };
  // Out of order, a late word about an earlier push must not end what is under way: only the reopening undoes a close.
  const undone = signal.action === "reopened" || !endedAs(newest, "closed") || !isOwn;
  const asking = { prNumber, baseRef, ...fork };
  const needed = undone && needsAnswer(known, asking);
  // What is only to be given back goes by the base that GitHub shows.
  const has = ownAnswer(known, asking) ?? answerFor(known, asking);
  if (needed && has === null && needsAnswer(known, { prNumber, ...fork })) return [...hints, next];
  const heard: readonly RouteAction[] =
    caused && !isOwn && fork.fork !== true ? [{ kind: "heard", requestId: newest.id, prNumber, ...base }] : [];
  const compared: readonly RouteAction[] = needed ? [{ kind: "reconcile" }] : [];
  const actions = [...hints, ...heard, ...compared];
  return actions.length > 0 ? actions : [note("a request for this head exists")];
}

/**
 * It is gone from a head where the last word, and no good one, is its own: others with that head have none of theirs any
 * more. The comparison with GitHub finds them, so that a lost webhook changes only the time.
 */
function leavesAWord(signal: Extract<Signal, { kind: "pull-request" }>, view: RouteView): boolean {
  const { action, prNumber, headSha } = signal;
  const elsewhere = view.ofPull(prNumber).findLast((request) => request.headSha !== headSha)?.headSha;
  const left = action === "closed" ? headSha : elsewhere;
  if (left === undefined) return false;
  const known = answersAt(left, view);
  const last = withoutPresses(known).at(-1);
  if (last?.heldBy?.prNumber === prNumber) return true;
  if (last?.prNumber !== prNumber || last.state.kind !== "concluded" || isGreen(last)) return false;
  const others = known.flatMap((one) => [
    ...(one.prNumber === null ? [] : [String(one.prNumber)]),
    ...(one.alsoPulls ?? []).map(String),
    ...Object.keys(one.alsoBy ?? {}),
  ]);
  return others.some((other) => other !== String(prNumber));
}

/** Found by comparing with GitHub, and still early enough to be told who caused it. */
function isStillNobodys({ kind, openedBy, actor, state }: GateRequest): boolean {
  if (kind !== "pull-request" || openedBy.actor !== null || actor !== null) return false;
  return state.kind === "received" || state.kind === "authorizing" || state.kind === "waiting";
}

/**
 * Another title, or another base. An answer is for a change, and the same commit is another change against another base. The
 * word itself opens nothing, since it may be late and the base another again: the comparison with GitHub does, which finds
 * the same when the word is lost.
 */
function edited(
  signal: Extract<Signal, { kind: "pull-request" }>,
  view: RouteView,
  hints: readonly RouteAction[],
): readonly RouteAction[] {
  const { prNumber, baseRef, headSha } = signal;
  const nothing = hints.length > 0 ? hints : [note("no open request of this pull request")];
  if (baseRef === undefined) return nothing;
  const moved = view
    .ofPull(prNumber)
    .filter((request) => request.state.kind !== "concluded" && request.baseRef !== baseRef)
    .map((request): RouteAction => ({ kind: "base", requestId: request.id, baseRef }));
  if (moved.length > 0) return [...moved, ...hints];
  const known = answersAt(headSha, view);
  const another = needsAnswer(known, { prNumber, baseRef }) && !needsAnswer(known, { prNumber });
  return another ? [...hints, { kind: "reconcile" }] : nothing;
}

function workflowRun(signal: Extract<Signal, { kind: "workflow-run" }>, view: RouteView): readonly RouteAction[] {
  const owner = view.ofRun(signal.runId);
  if (owner !== null) {
    if (signal.runAttempt <= 1) return [hint(owner)];
    const run = { runId: signal.runId, attempt: signal.runAttempt };
    return [{ kind: "uninvited", requestId: owner.id, run }];
  }
  // Row 2: the trigger lets an open request go on. The request reads the run itself; this only wakes it.
  const known = answersAt(signal.headSha, view);
  const waiting = known.filter((request) => request.state.kind !== "concluded");
  if (waiting.length > 0) return waiting.map(hint);
  if (signal.action !== "in_progress") return [note("no request waits for this run")];
  // A workflow runs for a merge group that nobody told us of.
  if (signal.event === "merge_group" && view.ofHead(signal.headSha, "merge-group").length === 0) {
    return [{ kind: "reconcile" }];
  }
  if (signal.event !== "pull_request") return [note("no request waits for this run")];
  const newest = known.at(-1);
  // A pull request that nobody told us of.
  if (newest === undefined) return [{ kind: "reconcile" }];
  // The check said that it waits for exactly this run, and had given up on it.
  if (
    endedFor(newest, "trigger-not-started") &&
    newest.prNumber !== null &&
    newest.terms?.workflows.trigger === signal.workflowPath
  ) {
    const { prNumber, headSha, generation } = newest;
    return [open({ prNumber, headSha, generation: generation + 1, row: 2, actor: signal.triggeringActor })];
  }
  return [note("this head is concluded")];
}

/** Row 5. A group has one request; asked for again, it is the same one. */
function mergeGroup(signal: Extract<Signal, { kind: "merge-group" }>, view: RouteView): readonly RouteAction[] {
  const ofGroup = view.ofHead(signal.headSha, "merge-group");
  const newest = ofGroup.at(-1);
  switch (signal.action) {
    case "checks_requested": {
      const known = groupAnswersOf(signal.headSha, view.ofHead, view.shadow);
      if (known.length > 0) return [note("a request for this group exists")];
      const { headSha, headRef, baseSha, baseRef } = signal;
      const group = { headRef, baseSha, baseRef };
      const generation = nextGeneration(ofGroup);
      const parts = { prNumber: null, generation, row: 5, actor: null, approvedBy: null };
      return [{ kind: "open", request: { kind: "merge-group", headSha, group, ...parts } }];
    }
    case "destroyed": {
      if (newest === undefined || newest.state.kind === "concluded") return [note("no open request of this group")];
      const word = verdict("cancelled", "merge-group-destroyed", "The merge queue dissolved this group.");
      return [{ kind: "stop", requestId: newest.id, verdict: word }];
    }
    default:
      return unreachable(signal.action, "merge group action");
  }
}

function repository(signal: Extract<Signal, { kind: "repository" }>, view: RouteView): readonly RouteAction[] {
  switch (signal.action) {
    // The id stays: requests go on under the new name, and look whether they still may.
    case "renamed":
    case "transferred":
    case "unarchived":
      return [...view.open().map(hint), { kind: "reconcile" }];
    case "archived":
    case "deleted": {
      const word = verdict("cancelled", "repository-gone", `The repository was ${signal.action}.`);
      return stopAll(view, word);
    }
    default:
      return unreachable(signal.action, "repository action");
  }
}

function installation(signal: Extract<Signal, { kind: "installation" }>, view: RouteView): readonly RouteAction[] {
  switch (signal.action) {
    case "created":
    case "added":
    case "unsuspend":
      return [{ kind: "reconcile" }];
    case "deleted":
    case "removed":
    case "suspend": {
      const what = signal.action === "suspend" ? "suspended" : "removed from this repository";
      return stopAll(view, verdict("cancelled", "app-removed", `The App was ${what}.`));
    }
    default:
      return unreachable(signal.action, "installation action");
  }
}

/** GitHub no longer lets us speak: everything ends, and deletion needs RunPod alone. */
function stopAll(view: RouteView, word: Verdict): readonly RouteAction[] {
  const underWay = view.open();
  if (underWay.length === 0) return [note("no open request")];
  return underWay.map((one): RouteAction => ({ kind: "stop", requestId: one.id, verdict: word }));
}

/** GitHub gives a runner to any job whose labels match: the runner's id tells whether a job of another run has ours. */
function workflowJob(signal: Extract<Signal, { kind: "workflow-job" }>, view: RouteView): readonly RouteAction[] {
  const { runnerId, runId, runAttempt } = signal;
  const owner = view.ofRun(runId);
  // A run that waits for a machine is told of by its jobs alone.
  if (owner !== null && runAttempt > 1) {
    return [{ kind: "uninvited", requestId: owner.id, run: { runId, attempt: runAttempt } }];
  }
  const hints = owner === null ? [] : [hint(owner)];
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
      if (signal.appId !== view.appId) return [note("not a check of ours")];
      return again(view, signal.headSha, pressedOf(signal, view), signal.sender);
    }
    case "requested_action": {
      if (signal.appId !== view.appId || signal.identifier !== APPROVE_BUTTON) return [note("not a button of ours")];
      const whose = pressedOf(signal, view)?.prNumber ?? null;
      return approve(view, view.ofHead(signal.headSha, "pull-request"), whose, signal.sender, []);
    }
    case "created":
    case "completed": {
      // Another check of this head moved: the pre-gate may be ready.
      const waiting = everyKind(view, signal.headSha).filter(
        (request) => request.state.kind === "preparing" && request.terms?.preGate.includes(signal.name),
      );
      return waiting.length > 0 ? waiting.map(hint) : [note("no request waits for this check")];
    }
    default:
      return unreachable(signal.action, "check run action");
  }
}

/** The request whose check was pressed: one whose creation was never answered is known by the request that it names. */
function pressedOf(signal: Extract<Signal, { kind: "check-run" }>, view: RouteView): GateRequest | null {
  const id = signal.externalId?.split(":")[0];
  return view.ofCheckRun(signal.checkRunId) ?? everyKind(view, signal.headSha).find((one) => one.id === id) ?? null;
}

function comment(signal: Extract<Signal, { kind: "comment" }>, view: RouteView): readonly RouteAction[] {
  // Row 3: for a comment the newest commit of the pull request whose check waited when it was written.
  // GitHub's times are rounded down: a comment of the same second may have been made before the check spoke.
  const created = Date.parse(signal.createdAt);
  const waiting = view
    .ofPull(signal.prNumber)
    .filter((request) => endedFor(request, "awaiting-approval") && request.terms?.start === "comment")
    .filter((request) => endedBy(request, created))
    .findLast((request) => !isElsewhere(standing(view.ofHead(request.headSha, request.kind)), created));
  const word = waiting?.terms?.startWord ?? null;
  const line = signal.firstLine.trim();
  if (waiting === undefined || word === null || !line.startsWith(word)) return [note("not a command")];
  // `/gpu run`, or `/gpu run keep 60`: the permission that is asked for the run covers the keeping.
  const said = /^(?: +keep +([1-9]\d{0,2}))?$/.exec(line.slice(word.length));
  if (said === null) return [note("not a command")];
  const known = view.ofHead(waiting.headSha, "pull-request");
  const [action, ...rest] = approve(view, known, signal.prNumber, signal.sender, []);
  if (said[1] === undefined || action?.kind !== "open") return action === undefined ? rest : [action, ...rest];
  return [{ ...action, request: { ...action.request, keepMinutes: Number(said[1]) } }, ...rest];
}

function answersAt(headSha: string, view: RouteView): readonly GateRequest[] {
  return answersOf(headSha, view.ofHead, view.shadow);
}

/** The request whose word stands on this head: who may not approve or ask again takes nothing from those who may. */
function standing(known: readonly GateRequest[]): GateRequest | undefined {
  return known.findLast((request) => !isPress(request));
}

function isRefusedApproval(request: GateRequest): boolean {
  return request.openedBy.row === 3 && endedFor(request, "actor-not-permitted");
}

function endedBy(request: GateRequest, at: Millis): boolean {
  return request.state.kind === "concluded" && request.state.at <= at;
}

/**
 * An approval of this commit had come to nothing by then, because the head was at another. Without this a commit that was left
 * would take every later comment for itself, and one to which the head came back could never be approved by one.
 */
function isElsewhere(newest: GateRequest | undefined, at: Millis): boolean {
  return newest !== undefined && newest.openedBy.row === 3 && endedFor(newest, "head-moved") && endedBy(newest, at);
}

/** What a check may wait for that an approval of its commit gives. */
const APPROVABLE: readonly ReasonCode[] = ["awaiting-approval", "trigger-not-started", "actor-unknown"];

/**
 * Row 3: the next generation for exactly this commit, of the pull request where the word was said or whose check was pressed:
 * another one that waits at the same commit has another author and perhaps another base. Null: whose is not known.
 */
function approve(
  view: RouteView,
  known: readonly GateRequest[],
  whose: number | null,
  by: Actor,
  otherwise: readonly RouteAction[],
): readonly RouteAction[] {
  const newest = known.at(-1);
  if (newest === undefined) return otherwise.length > 0 ? otherwise : [note("no request for this head")];
  const busy = answersAt(newest.headSha, view).findLast(({ state }) => state.kind !== "concluded");
  if (busy !== undefined) return [{ kind: "asked", requestId: busy.id, row: 3, actor: by }, ...otherwise];
  // Each word would cost a look at who may: somebody who was refused twice at this commit is not asked about again.
  const refused = known.filter((request) => isRefusedApproval(request) && request.openedBy.actor?.id === by.id);
  if (refused.length >= 2) {
    return otherwise.length > 0 ? otherwise : [note("who may not approve was told so twice at this head")];
  }
  const waits = standing(known);
  if (waits === undefined || !APPROVABLE.some((reason) => endedFor(waits, reason))) {
    return otherwise.length > 0 ? otherwise : [note("nothing waits for approval at this head")];
  }
  const own = standing(known.filter((request) => request.prNumber === whose));
  if (own !== undefined && !APPROVABLE.some((reason) => endedFor(own, reason))) {
    return otherwise.length > 0 ? otherwise : [note("this pull request does not wait for approval")];
  }
  // Somebody's press on the check of another may be newer: what waits is what is approved.
  const { headSha } = waits;
  const prNumber = whose ?? waits.prNumber;
  return [open({ prNumber, headSha, generation: newest.generation + 1, row: 3, actor: by, approvedBy: by })];
}

/**
 * Row 4: a new generation of the request whose check it is, or of the newest on this head. One commit has one run under
 * way, whatever kind of request asked for it.
 */
export function again(
  view: Pick<RouteView, "ofHead">,
  headSha: string,
  whose: GateRequest | null,
  by: Actor,
): readonly RouteAction[] {
  const all = everyKind(view, headSha);
  const busy = all.findLast((request) => request.state.kind !== "concluded");
  if (busy !== undefined) return [{ kind: "asked", requestId: busy.id, row: 4, actor: by }, hint(busy)];
  const kind = whose?.headSha === headSha ? whose.kind : all.at(-1)?.kind;
  const newest = kind === undefined ? undefined : view.ofHead(headSha, kind).at(-1);
  if (newest === undefined) return [note("no request for this head")];
  // Several pull requests may have this head: it is the one whose check was pressed that is asked about, as it stands by now.
  const pressed = whose?.headSha === headSha ? whose : newest;
  const ofPressed = view.ofHead(headSha, newest.kind).filter(({ prNumber }) => prNumber === pressed.prNumber);
  const asked = (pressed.prNumber === null ? null : ofPressed.at(-1)) ?? pressed;
  return [
    {
      kind: "open",
      request: {
        kind: newest.kind,
        prNumber: asked.prNumber,
        headSha,
        revision: asked.revision,
        ...(asked.group === undefined ? {} : { group: asked.group }),
        generation: newest.generation + 1,
        row: 4,
        actor: by,
        // An approval dies with its generation's head; a re-run of the same head by a person is that person's word.
        approvedBy: asked.approvedBy === null ? null : by,
      },
    },
  ];
}

const KINDS: readonly GateRequest["kind"][] = ["pull-request", "merge-group", "recovery", "validation"];

/** The requests of a commit, whatever asked for them, oldest first. */
function everyKind(view: Pick<RouteView, "ofHead">, headSha: string): readonly GateRequest[] {
  return KINDS.flatMap((kind) => view.ofHead(headSha, kind)).toSorted((a, b) => a.openedAt - b.openedAt);
}

function open(what: {
  readonly prNumber: number | null;
  readonly headSha: string;
  readonly baseRef?: string;
  readonly generation: number;
  readonly row: number;
  readonly actor: Actor | null;
  readonly approvedBy?: Actor;
}): RouteAction {
  const { prNumber, headSha, baseRef, generation, row, actor, approvedBy = null } = what;
  const base = baseRef === undefined ? {} : { baseRef };
  return {
    kind: "open",
    request: { kind: "pull-request", prNumber, headSha, ...base, generation, row, actor, approvedBy },
  };
}

function endedAs(request: GateRequest, kind: string): boolean {
  return request.state.kind === "concluded" && request.state.verdict.kind === kind;
}

function endedFor(request: GateRequest, reason: ReasonCode): boolean {
  return request.state.kind === "concluded" && request.state.verdict.reason === reason;
}

function hint(request: GateRequest): RouteAction {
  return { kind: "hint", requestId: request.id };
}

function note(why: string): RouteAction {
  return { kind: "note", why };
}
