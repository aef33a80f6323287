/**
 * The check publisher: compares what the check should say with what was last written, and writes the difference.
 *
 * One writer, one lane. A concluded check run is never touched again; if more must be said (the real verdict after
 * "deletion unproven"), it is a new check run, the next in the series.
 */
import { checkView, type CheckView } from "../../shared/lifecycle/check-view.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import { answersOf, isGreen, isShownToOthers } from "../../shared/lifecycle/needs-answer.ts";
import { APPROVE_BUTTON } from "../../shared/lifecycle/route.ts";
import { audit } from "../../shared/lifecycle/step.ts";
import { isLaterId } from "../../shared/ids.ts";
import { describeFailure, failureClass, type GitHubFailure } from "../../shared/github/failure.ts";
import type { CheckState } from "../../shared/github/checks.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import type { Millis } from "../../shared/ports.ts";
import { costUnderWay } from "./costs.ts";
import type { GatePorts } from "./ports.ts";
import type { Store, StoredTask } from "./store.ts";

export interface PublishContext {
  readonly ports: GatePorts;
  readonly store: Store;
  readonly github: GitHubClient;
  readonly queueInfo: (requestId: string) => Parameters<typeof checkView>[1];
}

/** Tries when GitHub says that this App may not speak here any more, before the audit says so instead. */
const FORBIDDEN_TRIES = 12;

/** The check lane's second kind of task, how long a lost create may still be under way, and how often it is looked for. */
const TWINS = "twins";
export const TWINS_AFTER_MS: Millis = 90_000;
const TWINS_TRIES = 20;

/**
 * The check lane's kind of task that ends the check run of a request that a newer one of its head has overtaken, and makes
 * none. Without a run it is looked for three times, until a lost create has had its time.
 */
export const FINISH = "finish";
const FINISH_TRIES = 4;

/** How often it is looked whether the merge queue is done with a commit that another request would speak of, see `isTheQueues`. */
const QUEUE_LOOK_MS: Millis = 30_000;

/** The check lane's kind of task that waits for its turn, see `publishDue`. */
export const PACED = "paced";
/**
 * Between two words of one check. States follow each other within seconds, GitHub takes about 80 writes a minute from all
 * repositories of an installation, and 900 points a minute on one endpoint at five a write: who reads a check that is under
 * way reads the newest word either way.
 */
const PACE_MS = 5_000;

/** When a word may be written: the first and the last at once, what lies between them at its pace. */
export function publishDue(request: GateRequest, view: CheckView, now: Millis): Millis {
  const last = request.check.writtenAt;
  // A clock that went back must not hold a word up for longer than the pace itself.
  if (view.status === "completed" || last === undefined || last > now) return now;
  return Math.max(now, last + PACE_MS);
}

/** Whether the check has something to say that it has not said. */
export function wantsPublishing(request: GateRequest, view: CheckView): boolean {
  if (request.check.completed && !nextInSeries(request)) return false;
  return request.check.published !== fingerprint(view);
}

/** "Deletion unproven" was said, and now the real verdict is known. */
function nextInSeries(request: GateRequest): boolean {
  return request.check.saidUnproven && request.state.kind === "concluded";
}

/** Performs the check task of a request and schedules the next one if there is more to say. */
export async function publishCheck(
  task: StoredTask,
  context: PublishContext,
  again: (requestId: string) => void,
): Promise<void> {
  const { store, ports } = context;
  let request = store.request(task.subject);
  if (request === null) return store.removeTask(task.id);
  if (task.kind === TWINS) return concludeTwins(task, request, context, again);
  if (task.kind === FINISH) return finish(task, request, context);
  const begins = request.check.completed && nextInSeries(request);
  const begun = !request.check.completed && request.check.series > 0 && request.check.checkRunId === null;
  // The real verdict is published only while this is its commit's newest request, at each try: all of them speak in checks
  // of one name, and GitHub shows the newest.
  if ((begins || begun) && !isNewestOfHead(request, store)) return overtaken(task, request, begun, context);
  const queues = await isTheQueues(request, context);
  const unread = typeof queues === "object" ? queues : null;
  // Where the App may read nothing for good, GitHub's answer to the word itself is what the audit tells (I7).
  const mayAsk = unread === null || failureClass(unread) === "retry-later" || task.tries < FORBIDDEN_TRIES;
  if (queues !== false && mayAsk) {
    const now = ports.clock.now();
    const due = Math.max(now + QUEUE_LOOK_MS, unread === null ? 0 : retryAt(unread));
    store.putTask("check", request.id, "check", {}, due, now, unread === null ? task.tries - 1 : task.tries);
    return;
  }
  if (begins) {
    const check = {
      series: request.check.series + 1,
      checkRunId: null,
      published: null,
      completed: false,
      saidUnproven: false,
      mayHaveTwins: false,
    };
    request = { ...request, check };
    store.saveRequest(request);
  }
  if (waitsForOthers(request, store, ports.clock.now())) {
    store.putTask("check", request.id, "check", {}, ports.clock.now() + 300, ports.clock.now(), task.tries - 1);
    return;
  }
  if (costUnderWay(ports.sql, request, ports.clock.now())) {
    // A moment's patience for the last word: a concluded check is never touched again.
    store.putTask("check", request.id, "check", {}, ports.clock.now() + 300, ports.clock.now(), task.tries - 1);
    return;
  }
  const view = checkView(request, context.queueInfo(request.id));
  if (!wantsPublishing(request, view)) return store.removeTask(task.id);

  const written = await write(request, view, task.tries > 1, context);
  const now = ports.clock.now();
  if (!written.ok) {
    const mute = failureClass(written.failure) !== "retry-later" && task.tries >= FORBIDDEN_TRIES;
    ports.sql.transaction(() => {
      if (mute) {
        // GitHub no longer lets the App speak: the audit says what the check cannot (I7).
        store.removeTask(task.id);
        store.audit(now, request.id, audit("check.unpublishable", null, { why: describeFailure(written.failure) }));
        return;
      }
      const pause = Math.max(pauseAfter(task.tries), retryAt(written.failure) - now);
      store.putTask("check", request.id, "check", {}, now + pause, now, task.tries);
    });
    return;
  }
  ports.sql.transaction(() => {
    store.removeTask(task.id);
    // The request may have moved on meanwhile: only what the publisher owns is written.
    const current = store.request(task.subject);
    if (current === null) return;
    const completed = view.status === "completed";
    store.saveRequest({
      ...current,
      check: {
        series: view.series,
        checkRunId: written.id,
        published: fingerprint(view),
        completed,
        saidUnproven: completed && request.state.kind !== "concluded",
        mayHaveTwins: request.check.mayHaveTwins || written.mayHaveTwins,
        writtenAt: now,
      },
    });
    const uncovered = coveredNewest(request.headSha, store);
    if (uncovered !== null) {
      store.saveRequest(uncovered);
      again(uncovered.id);
    }
    if (completed && (request.check.mayHaveTwins || written.mayHaveTwins)) {
      store.putTask("check", request.id, TWINS, {}, now + TWINS_AFTER_MS, now);
      return;
    }
    again(task.subject);
  });
}

/** When the list was asked for by which GitHub was last compared with, every open pull request to its end; in `meta`. */
export const COMPARED_AT = "compared_at";

/** So long a green waits for the words of other pull requests at its commit at most. */
const OTHERS_MS: Millis = 30_000;

/**
 * Whether a green waits for what is to stand over it. Another pull request at the commit, to which it is no answer, could be merged by
 * it meanwhile: GitHub is compared with first, and what that opens or gives back has its check run. A green without a run of its own
 * would come to stand over those, and does not wait.
 */
function waitsForOthers(request: GateRequest, store: Store, now: Millis): boolean {
  const { state, headSha, check } = request;
  if (state.kind !== "concluded" || check.completed || check.checkRunId === null || !isGreen(request)) return false;
  if (now - state.at >= OTHERS_MS || request.kind === "merge-group" || request.kind === "validation") return false;
  const newest = store.request(store.newestOfHead(headSha) ?? "");
  if (newest !== null && newest.id !== request.id && newest.check.checkRunId === null) return true;
  const isCompared = Number(store.meta(COMPARED_AT) ?? "0") >= state.at;
  const ofHead = answersOf(headSha, (head, kind) => store.requestsOfHead(head, kind));
  return !isCompared && isShownToOthers(request, ofHead);
}

/**
 * The newest request of a commit, with a check run of its own still to be made: its word was said, and one that an earlier request
 * had begun to create before is the younger of the two, so that GitHub shows that one. Null: what was said last is shown.
 */
function coveredNewest(headSha: string, store: Store): GateRequest | null {
  const newest = store.request(store.newestOfHead(headSha) ?? "");
  if (newest?.state.kind !== "concluded" || !newest.check.completed || newest.check.checkRunId === null) return null;
  const shown = newest.check.checkRunId;
  const earlier = (["pull-request", "recovery"] as const).flatMap((kind) => store.requestsOfHead(headSha, kind));
  const covers = ({ id, check: { checkRunId } }: GateRequest): boolean =>
    id !== newest.id && checkRunId !== null && isLaterId(checkRunId, shown);
  if (newest.kind === "merge-group" || newest.kind === "validation" || !earlier.some(covers)) return null;
  const series = newest.check.series + 1;
  const anew = { checkRunId: null, published: null, completed: false, saidUnproven: false, mayHaveTwins: false };
  return { ...newest, check: { ...anew, series } };
}

/**
 * Whether no newer request speaks for this commit. A merge group's commit is the group's: a pull request that somebody opens
 * at it takes no word from the group.
 */
export function isNewestOfHead(request: GateRequest, store: Store): boolean {
  const { id, headSha, kind } = request;
  if (kind !== "merge-group") return store.newestOfHead(headSha) === id;
  return store.requestsOfHead(headSha, kind).at(-1)?.id === id;
}

/**
 * Whether a merge queue still waits for this commit, and this request is not the group's. The queue takes the newest check of
 * the name, whoever's pull request it is about: anybody can open one at a group's commit, against a base where it is
 * documentation or from a fork that is refused, and would have the group merged or thrown out by it. So such a check waits
 * until the queue's branch has left the commit. Gives the failure where that cannot be read: it may still be there.
 */
async function isTheQueues(
  { kind, headSha }: GateRequest,
  { store, github }: PublishContext,
): Promise<boolean | GitHubFailure> {
  if (kind === "merge-group") return false;
  const groups = store.requestsOfHead(headSha, "merge-group");
  if (groups.some(({ state }) => state.kind !== "concluded")) return true;
  // The queue acts on the group's last word a moment later: until then nothing may be put over it.
  for (const headRef of new Set(groups.flatMap(({ group }) => group?.headRef ?? []))) {
    const branch = await github.getRef(headRef);
    if (!branch.ok) return branch.error;
    if (branch.value === headSha) return true;
  }
  return false;
}

/** A newer request speaks for this head. A run of ours that a lost create may have made is ended; none is made. */
function overtaken(task: StoredTask, request: GateRequest, begun: boolean, { ports, store }: PublishContext): void {
  const now = ports.clock.now();
  ports.sql.transaction(() => {
    store.removeTask(task.id);
    if (begun) {
      store.putTask("check", request.id, FINISH, {}, now, now);
      return;
    }
    // What it said last stands, and it has nothing more to say; the audit has the word that GitHub has not.
    store.saveRequest({ ...request, check: { ...request.check, saidUnproven: false } });
    store.audit(now, request.id, audit("check.overtaken", null, {}));
  });
}

/**
 * A create whose answer was lost may still arrive after a second one was sent: GitHub then has two check runs, and the one
 * nobody writes to would hang as "queued" for ever, the newest of its name. Whatever of this series is unfinished says the
 * same as the one we know. So does our own run where an older word of ours, given up for want of an answer, arrived after the
 * conclusion and opened it again.
 */
async function concludeTwins(
  task: StoredTask,
  request: GateRequest,
  context: PublishContext,
  again: (requestId: string) => void,
): Promise<void> {
  const { store, ports, github } = context;
  const view = checkView(request, context.queueInfo(request.id));
  const fields = fieldsOf(request, view, ports);
  // By any name: the configuration that names it was read after the first of them was made.
  const listed = await github.listCheckRunsForRef(request.headSha, { filter: "all", appId: ports.appId });
  let failure = listed.ok ? null : listed.error;
  for (const run of listed.ok ? listed.value.items : []) {
    if (run.externalId !== fields.externalId || run.status === "completed") continue;
    const answer = await github.updateCheckRun(run.id, fields);
    if (!answer.ok) failure = answer.error;
  }
  const now = ports.clock.now();
  ports.sql.transaction(() => {
    store.removeTask(task.id);
    if (failure !== null && task.tries < TWINS_TRIES) {
      const pause = Math.max(pauseAfter(task.tries), retryAt(failure) - now);
      store.putTask("check", request.id, TWINS, {}, now + pause, now, task.tries);
      return;
    }
    const current = store.request(task.subject);
    if (current !== null) store.saveRequest({ ...current, check: { ...current.check, mayHaveTwins: false } });
    again(task.subject);
  });
}

/** Ends whatever check run of this series is there and unfinished. An update of a run changes nothing about their order. */
async function finish(task: StoredTask, request: GateRequest, context: PublishContext): Promise<void> {
  const { store, ports, github } = context;
  const view = checkView(request, context.queueInfo(request.id));
  const fields = fieldsOf(request, view, ports);
  const listed = await github.listCheckRunsForRef(request.headSha, { filter: "all", appId: ports.appId });
  let failure = listed.ok ? null : listed.error;
  const known = request.check.checkRunId;
  const mine = (listed.ok ? listed.value.items : []).filter(
    (run) => run.externalId === fields.externalId || run.id === known,
  );
  for (const run of mine) {
    if (run.status === "completed") continue;
    const answer = await github.updateCheckRun(run.id, fields);
    if (!answer.ok) failure = answer.error;
  }
  const now = ports.clock.now();
  ports.sql.transaction(() => {
    store.removeTask(task.id);
    if (failure !== null) {
      // Given up here, it is found unsaid again by the next reconciliation that has an answer.
      if (failureClass(failure) !== "retry-later" && task.tries >= FORBIDDEN_TRIES) return;
      const pause = Math.max(pauseAfter(task.tries), retryAt(failure) - now);
      store.putTask("check", request.id, FINISH, {}, now + pause, now, task.tries);
      return;
    }
    if (mine.length === 0 && task.tries < FINISH_TRIES) {
      store.putTask("check", request.id, FINISH, {}, now + TWINS_AFTER_MS, now, task.tries);
      return;
    }
    const current = store.request(task.subject);
    if (current === null) return;
    // Nothing was ever there, and a newer request speaks for this head: the audit has the word that GitHub has not.
    if (mine.length === 0) store.audit(now, request.id, audit("check.overtaken", null, {}));
    const id = known ?? mine[0]?.id ?? null;
    const check = { ...current.check, checkRunId: id, published: fingerprint(view), completed: true };
    store.saveRequest({ ...current, check });
  });
}

type Written =
  | { readonly ok: true; readonly id: string; readonly mayHaveTwins: boolean }
  | { readonly ok: false; readonly failure: GitHubFailure };

async function write(
  request: GateRequest,
  view: CheckView,
  repeated: boolean,
  context: PublishContext,
): Promise<Written> {
  const { github, ports } = context;
  const fields = fieldsOf(request, view, ports);
  let id = request.check.checkRunId;
  // A create that was given up may still make a second run, and an update that was given up may still undo a later one.
  const mayHaveTwins = repeated;
  if (repeated) {
    // An earlier create or conclusion may have succeeded without our hearing of it: a completed run is not touched again.
    const listed = await github.listCheckRunsForRef(request.headSha, { filter: "all", appId: ports.appId });
    if (!listed.ok) return { ok: false, failure: listed.error };
    const found = listed.value.items.find((run) =>
      id === null ? run.externalId === fields.externalId : run.id === id,
    );
    if (found !== undefined && found.status === "completed") return { ok: true, id: found.id, mayHaveTwins };
    id = found?.id ?? id;
  }
  const answer =
    id === null
      ? await github.createCheckRun({ ...fields, headSha: request.headSha })
      : await github.updateCheckRun(id, fields);
  return answer.ok ? { ok: true, id: answer.value.id, mayHaveTwins } : { ok: false, failure: answer.error };
}

function fieldsOf(request: GateRequest, view: CheckView, ports: GatePorts) {
  return {
    name: view.name,
    externalId: `${request.id}:${view.series}`,
    ...(ports.publicUrl === "" ? {} : { detailsUrl: `${ports.publicUrl}/` }),
    output: { title: view.title, summary: view.summary, text: view.text },
    actions: view.approveButton
      ? [{ label: "Run on a GPU", description: "Rent a GPU for this commit", identifier: APPROVE_BUTTON }]
      : [],
    state: stateOf(view),
  };
}

function stateOf(view: CheckView): CheckState {
  if (view.conclusion !== null) return { status: "completed", conclusion: view.conclusion };
  return { status: view.status === "queued" ? "queued" : "in_progress" };
}

function pauseAfter(tries: number): Millis {
  return Math.min(300_000, 1_000 * 2 ** Math.min(9, Math.max(0, tries - 1)));
}

function retryAt(failure: GitHubFailure): Millis {
  return failure.reason === "rate-limited" ? failure.retryAtMs : 0;
}

/** What tells two views apart, short enough to store with the request: FNV-1a over the text, twice, and its length. */
export function fingerprint(view: unknown): string {
  const text = JSON.stringify(view);
  return `${text.length}-${fnv(text, 0x811c9dc5)}-${fnv(text, 0x9747b28c)}`;
}

function fnv(text: string, seed: number): string {
  let hash = seed;
  for (let index = 0; index < text.length; index += 1) {
    hash ^= text.charCodeAt(index);
    hash = Math.imul(hash, 0x01000193);
  }
  return (hash >>> 0).toString(16);
}
