/**
 * Strays: pods that carry our name and belong to no open attempt. A late pod of a lost create, a second pod under one name,
 * a pod the reaper found. Each is removed by the same steps as any other and gets its own ledger line.
 *
 * A pod that is kept for debugging is here as well: its removal is the same, only that the first step is due at its end.
 */
import * as z from "zod";
import { configFrom } from "../../shared/config/load.ts";
import { termsFrom } from "../../shared/config/terms.ts";
import { RESERVED_MS } from "../../shared/cost/estimate.ts";
import {
  attemptSchema,
  teardownSchema,
  type Attempt,
  type GateRequest,
  type Limits,
} from "../../shared/lifecycle/model.ts";
import {
  advanceTeardown,
  beginTeardown,
  knownGone,
  newTeardown,
  paidWindow,
  repeatTeardown,
  type TeardownMove,
  type TeardownScope,
} from "../../shared/lifecycle/teardown.ts";
import type { Retain } from "../../shared/lifecycle/keep.ts";
import { audit, backoff, type LedgerOp } from "../../shared/lifecycle/step.ts";
import { taskSchema, type Done, type Task } from "../../shared/lifecycle/tasks.ts";
import type { Millis } from "../../shared/ports.ts";
import { openCost } from "./costs.ts";
import { costAtMost, spendUnasked } from "./money.ts";
import type { GatePorts } from "./ports.ts";
import type { RemovedPod } from "./removals.ts";
import { deletePod, listPods, recordMs, verifyGone } from "./remove-pod.ts";
import type { LedgerLine, Store, StoredTask, StrayRow } from "./store.ts";
import { readStored } from "./stored-json.ts";

const retainedSchema = z.object({
  until: z.number(),
  by: z.string(),
  reason: z.string(),
  requestId: z.string(),
  /** Money set aside for the keeping: one line per word. */
  moneyIds: z.array(z.string()),
});

const recordSchema = z.object({
  attempt: attemptSchema,
  teardown: teardownSchema,
  retained: retainedSchema.optional(),
});

/** Why the row of a kept pod is there. */
export const RETAINED = "retained";

/** Steps of a removal that a pod alone has. */
const STRAY_STEPS: ReadonlySet<string> = new Set(["record", "delete", "verify", "list"]);

export type StrayRecord = z.infer<typeof recordSchema>;
export type Retained = z.infer<typeof retainedSchema>;

/**
 * The record, or, where it does not read, what the ledger and the pod's id give: a removal and its proof need the id alone.
 * `readable` is false then: what keeps the pod is not known, so nothing does.
 */
export function strayRecord(row: StrayRow, store: Store): StrayRecord & { readonly readable: boolean } {
  const read = readStored(recordSchema, row.record);
  if (read.ok) return { ...read.value, readable: true };
  const line = store.ledgerLine(row.pod_id);
  const since = line?.paid_from ?? row.since;
  const attempt = strayAttempt(row.pod_id, since, line?.price_per_hour ?? null);
  const known = line === null ? attempt : { ...attempt, id: line.attempt_id };
  const teardown = newTeardown(row.since);
  if (row.why !== RETAINED || line === null) return { attempt: known, teardown, readable: false };
  const retained: Retained = {
    until: row.since,
    by: "",
    reason: "",
    requestId: line.request_id,
    moneyIds: [...keepMoneyIds(line.attempt_id, store)],
  };
  return { attempt: known, teardown, retained, readable: false };
}

/** Of what was set aside for keeping the pod of one attempt: one id for each word. */
export function keepMoneyId(attemptId: string, word = 1): string {
  return word === 1 ? `${attemptId}-keep` : `${attemptId}-keep-${word}`;
}

function keepMoneyIds(attemptId: string, store: Store): readonly string[] {
  const ids: string[] = [];
  for (let word = 1; store.moneyOf(keepMoneyId(attemptId, word)) !== null; word += 1) {
    ids.push(keepMoneyId(attemptId, word));
  }
  return ids;
}

/** Takes over a pod whose request ends without it. The caller holds the transaction. */
export function beginRetained(
  store: Store,
  kept: Retain,
  requestId: string,
  moneyIds: readonly string[],
  now: Millis,
): void {
  const scope = { attempt: kept.attempt, run: null, jobEnded: true, limits: limitsFor(store) };
  const move = beginTeardown(scope, false, kept.until);
  const { until, by, reason } = kept;
  const record: StrayRecord = {
    attempt: kept.attempt,
    teardown: move.teardown,
    retained: { until, by, reason, requestId, moneyIds: [...moneyIds] },
  };
  store.saveStray({ pod_id: kept.podId, why: RETAINED, since: now, done_at: null, record: JSON.stringify(record) });
  if (move.kind === "task") store.putTask("stray", kept.podId, move.task.kind, move.task, until, now);
}

/** A removal that is unproven for this long keeps anything from being bought (I9). Null while none is. */
export function deletionBlocks(
  store: Store,
  now: Millis,
): { readonly kind: "over-cap"; readonly because: "deletion-blocks"; readonly detail: string } | null {
  const { deletionLoudAfter } = limitsFor(store);
  const late = store.openStrays().find((row) => now - strayRecord(row, store).teardown.startedAt >= deletionLoudAfter);
  if (late === undefined) return null;
  const detail = `Pod ${late.pod_id} of this repository is not proven gone yet. Nothing is bought until it is.`;
  return { kind: "over-cap", because: "deletion-blocks", detail };
}

/** The open request whose attempt has this pod; null: none has. */
export function ownerOf(store: Store, podId: string): GateRequest | null {
  const owner = store.openRequests().find((request) => {
    const attempt = "attempt" in request.state ? request.state.attempt : null;
    return attempt?.pod?.id === podId;
  });
  return owner ?? null;
}

/**
 * `createdAt`: since when it is paid for, as far as whoever saw it can say; null counts as old: it is booked for as long as an
 * attempt is reserved for, as the account does, rather than for too little. `pricePerHour`: what whoever saw the pod was told,
 * in USD; its own record may be gone before it is read.
 */
export function beginStray(
  store: Store,
  podId: string,
  why: string,
  createdAt: Millis | null,
  now: Millis,
  pricePerHour: number | null = null,
): void {
  const known = store.stray(podId);
  // A kept pod that somebody else wants gone has reached its end, whatever the alarm did.
  if (known !== null && known.done_at === null && known.why === RETAINED) store.hurryTask("stray", podId, now);
  if (known !== null) return;
  // An attempt that owns it removes it itself.
  if (ownerOf(store, podId) !== null) return;
  // The earliest instant that somebody can vouch for. RunPod's clock may be ahead of ours.
  const told = Math.min(createdAt ?? now, store.ledgerLine(podId)?.paid_from ?? now);
  const unknown = createdAt === null && store.ledgerLine(podId) === null;
  const since = unknown ? now - RESERVED_MS : told;
  // What it costs is reckoned as of an old pod, what its absence takes as of a new one: RunPod may not know it yet.
  const attempt = strayAttempt(podId, since, pricePerHour, unknown ? now : since);
  const move = beginTeardown({ attempt, run: null, jobEnded: false, limits: limitsFor(store) }, false, now);
  openStray(store, podId, why, attempt, since, now);
  follow(store, podId, why, since, attempt, move, now);
}

/**
 * A pod that is gone by somebody else's order before this gate could remove it: booked up to `goneAt`, once it is proven gone
 * like any other. Whoever calls has made sure that nobody here removes it. In a transaction.
 */
export function beginRemoved(store: Store, removed: RemovedPod, now: Millis): void {
  const { podId, why, goneAt, pricePerHour } = removed;
  const line = store.ledgerLine(podId);
  // Of unknown age it counts as old: paid for as long as an attempt is reserved for, as the account books such a pod.
  const since = Math.min(line?.paid_from ?? removed.createdAt ?? goneAt - RESERVED_MS, goneAt);
  const attempt = strayAttempt(podId, since, pricePerHour ?? line?.price_per_hour ?? null);
  openStray(store, podId, why, attempt, since, now);
  // Asked for and seen to be gone: what is left is the proof, and its lists must be newer than this.
  const ordered = { ...newTeardown(now), step: "verify", deletedAt: goneAt } as const;
  follow(store, podId, why, since, attempt, repeatTeardown(ordered, scopeOf(attempt, store), now), now);
}

/** Its line, unless the ledger has one, and the first word of it in the audit. */
function openStray(store: Store, podId: string, why: string, attempt: Attempt, since: Millis, now: Millis): void {
  if (store.ledgerLine(podId) === null) {
    const pricePerHour = attempt.pod?.pricePerHour ?? null;
    store.ledger(
      { kind: "open", attemptId: attempt.id, podId, gpuId: null, tier: "stray", pricePerHour, paidFrom: since },
      "",
    );
  }
  store.audit(now, null, audit("stray.found", "reap-late-pod", { pod: podId, why }));
}

/** Performs the next removal step of a stray. */
export async function strayDone(task: StoredTask, ports: GatePorts, store: Store): Promise<void> {
  const row = store.stray(task.subject);
  if (row === null) return store.removeTask(task.id);
  if (row.done_at !== null) return tellAccount(task, row, ports, store);
  const step = readStored(taskSchema, task.payload);
  const done = step.ok && strayRecord(row, store).readable ? await performStep(step.value, ports, store) : null;
  if (done === null) return ports.sql.transaction(() => takeAnew(task, row, step.ok, ports, store));
  ports.sql.transaction(() => takeStep(task, row, done, ports, store));
}

/**
 * Somebody else's order has removed it: a removal whose order is still to come, or waits to be repeated, goes on behind it; a
 * kept pod's as well, whenever its end was to be. In a transaction. False: a call of its own is under way, and may answer that
 * the pod is there.
 */
export function strayOrdered(removed: RemovedPod, ports: GatePorts, store: Store): boolean {
  const { podId, pricePerHour, goneAt } = removed;
  const answers = [
    { task: "read-record", outcome: { pricePerHour } },
    { task: "delete-pod", outcome: { kind: "deleted", at: goneAt } },
  ] as const;
  for (const done of answers) {
    const row = store.stray(podId);
    if (row === null || row.done_at !== null) return true;
    const task = store.taskOf("stray", podId);
    if (task !== null && task.kind === done.task && task.startedAt === null) takeStep(task, row, done, ports, store);
  }
  const row = store.stray(podId);
  return row === null || knownGone(strayRecord(row, store).teardown) !== null;
}

function takeStep(task: StoredTask, row: StrayRow, done: Done, ports: GatePorts, store: Store): void {
  const now = ports.clock.now();
  const { attempt, teardown, retained } = strayRecord(row, store);
  store.removeTask(task.id);
  const price = done.task === "read-record" ? done.outcome.pricePerHour : null;
  const priced: Attempt =
    price === null || attempt.pod === null ? attempt : { ...attempt, pod: { ...attempt.pod, pricePerHour: price } };
  // A kept pod's was to begin at its end, and begins earlier where the pod was ordered to go before.
  const begun = { ...teardown, startedAt: Math.min(teardown.startedAt, now) };
  const move = advanceTeardown(begun, done, scopeOf(priced, store), now);
  follow(store, row.pod_id, row.why, row.since, priced, move, now, retained);
  closeBooks(row.pod_id, ports, store, now);
}

/** What is stored of it is damaged: the removal goes on from the step that its record names, or begins anew. */
function takeAnew(task: StoredTask, row: StrayRow, taskReads: boolean, ports: GatePorts, store: Store): void {
  const now = ports.clock.now();
  const { attempt, teardown, retained, readable } = strayRecord(row, store);
  store.removeTask(task.id);
  store.count("strays.unreadable");
  store.audit(now, null, audit("stray.unreadable", null, { pod: row.pod_id, record: readable, task: taskReads }));
  const scope = scopeOf(attempt, store);
  const stands = readable && !taskReads && STRAY_STEPS.has(teardown.step);
  const move = stands ? repeatTeardown(teardown, scope, now) : beginTeardown(scope, false, now);
  follow(store, row.pod_id, row.why, row.since, attempt, move, now, retained);
}

function scopeOf(attempt: Attempt, store: Store): TeardownScope {
  return { attempt, run: null, jobEnded: false, limits: limitsFor(store) };
}

/** The removal's own steps; a stray has none on GitHub's side. Null: this is none of them. */
async function performStep(task: z.infer<typeof taskSchema>, ports: GatePorts, store: Store): Promise<Done | null> {
  if (task.kind === "read-record") {
    const answer = await ports.runpod.getPod(task.podId, { timeoutMs: recordMs(store.meta("last_config"), store) });
    const price = answer.kind === "pod" ? answer.pod.costPerHour : null;
    return { task: task.kind, outcome: { pricePerHour: price !== null && price > 0 ? price : null } };
  }
  if (task.kind === "delete-pod") return deletePod(task.podId, ports);
  if (task.kind === "verify-gone") return verifyGone(task.podId, ports);
  if (task.kind === "list-pods") return listPods(task.podId, task.notBefore, ports);
  return null;
}

/** Once the pod is proven gone: its money is spent, its report is written, and its request knows what it cost. */
function closeBooks(podId: string, ports: GatePorts, store: Store, now: Millis): void {
  const row = store.stray(podId);
  const line = store.ledgerLine(podId);
  if (row === null || row.done_at === null || line === null || line.closed_at === null) return;
  const { attempt, teardown, retained } = strayRecord(row, store);
  const paidMs = Math.max(0, line.closed_at - line.paid_from);
  const micros = line.estimate_micros ?? costAtMost(line.price_per_hour, paidMs);
  spendUnasked(ports.sql, line, micros);
  for (const id of retained?.moneyIds ?? []) store.settleMoney(id, null);
  const request = retained === undefined ? null : store.request(retained.requestId);
  if (request !== null) {
    store.saveRequest({
      ...request,
      spentMicros: request.spentMicros + (line.estimate_micros ?? 0),
      paidMs: request.paidMs + paidMs,
    });
  }
  const owned = retained !== undefined;
  const closed = { request, attempt: owned ? attempt : null, recordPrice: teardown.recordPrice };
  openCost(ports.sql, store, closed, closingOf(line, row.why), now);
  const told: Task = {
    kind: "settle",
    attemptId: line.attempt_id,
    micros: store.moneyOf(line.attempt_id)?.micros ?? micros,
  };
  store.putTask("stray", podId, told.kind, told, now, now);
}

function closingOf(line: LedgerLine, why: string): Extract<LedgerOp, { kind: "close" }> {
  const closedAt = line.closed_at ?? 0;
  return {
    kind: "close",
    attemptId: line.attempt_id,
    podId: line.pod_id,
    closedAt,
    provenAt: line.proven_at ?? closedAt,
    pricePerHour: line.price_per_hour,
    estimateMicros: line.estimate_micros,
    outcome: line.outcome ?? why,
  };
}

/**
 * Behind the proof: what it cost counts in the deployment's month. Asked until the account has answered, which takes the same
 * twice: it may never have held a line of this pod, and no comparison of the books would miss what is settled here.
 */
async function tellAccount(task: StoredTask, row: StrayRow, ports: GatePorts, store: Store): Promise<void> {
  const line = store.ledgerLine(row.pod_id);
  if (line === null) return store.removeTask(task.id);
  const spent = store.moneyOf(line.attempt_id)?.micros ?? 0;
  const answers = [await ports.account.commit(line.attempt_id, spent)];
  for (const id of strayRecord(row, store).retained?.moneyIds ?? []) answers.push(await ports.account.release(id));
  if (answers.every((answer) => answer.ok)) return store.removeTask(task.id);
  const now = ports.clock.now();
  const again: Task = { kind: "settle", attemptId: line.attempt_id, micros: spent };
  store.putTask("stray", row.pod_id, again.kind, again, backoff(task.tries, now, null), now, task.tries);
}

function follow(
  store: Store,
  podId: string,
  why: string,
  since: Millis,
  attempt: Attempt,
  move: TeardownMove,
  now: Millis,
  retained?: Retained,
): void {
  const proven = move.teardown.provenAt !== null;
  const record = JSON.stringify({ attempt, teardown: move.teardown, retained });
  store.saveStray({ pod_id: podId, why, since, done_at: proven ? now : null, record });
  if (!proven && move.kind === "task") {
    store.putTask("stray", podId, move.task.kind, move.task, move.dueAt, now);
    return;
  }
  const window = paidWindow(attempt, move.teardown);
  store.ledger(
    {
      kind: "close",
      attemptId: attempt.id,
      podId,
      closedAt: move.teardown.deletedAt ?? now,
      provenAt: move.teardown.provenAt ?? now,
      pricePerHour: move.teardown.recordPrice,
      estimateMicros: window?.micros ?? null,
      outcome: why,
    },
    "",
  );
  store.audit(now, null, audit("stray.proven-gone", "reap-late-pod", { pod: podId, paidMs: window?.ms ?? null }));
}

/** A stray as the removal steps want it: a pod, and nothing on GitHub's side. One that has stopped shows 0, which is no price. */
function strayAttempt(podId: string, since: Millis, told: number | null, createSentAt = since): Attempt {
  const pricePerHour = told !== null && told > 0 ? told : null;
  return {
    id: `stray-${podId}`,
    number: 0,
    podName: "",
    label: "",
    reservedMicros: 0,
    runner: null,
    proofHash: null,
    exitHash: null,
    run: null,
    candidate: null,
    createSentAt,
    paidFrom: since,
    pod: {
      id: podId,
      gpuId: null,
      pricePerHour,
      dataCenterId: null,
      startedAt: null,
      runtimeSeen: false,
      machineSeen: false,
    },
    boot: { machineAt: null, containerAt: null },
    proof: null,
    onlineAt: null,
    exit: null,
    knownBad: 0,
    stranger: null,
  };
}

/** The newest configuration's limits; the defaults while none was ever read. */
function limitsFor(store: Store): Limits {
  const hash = store.meta("last_config");
  const config = (hash === null ? null : store.config(hash)) ?? configFrom();
  return termsFrom(config, "").limits;
}
