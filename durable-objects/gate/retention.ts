/**
 * The shell's side of keeping a pod for debugging: the word, its money, its end, and the record that cron asks for.
 *
 * The money comes first: the minutes are reserved with the attempt, by the same protocol, before the pod is bought. No
 * reservation, no keeping; the run itself goes on without. A pod that is kept already may be kept longer, again only when
 * the added minutes can be reserved.
 */
import { keepingNote } from "../../shared/config/notes.ts";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import { microUsd, reservationOf } from "../../shared/cost/estimate.ts";
import { declinedKeep, newKeep, type Keep } from "../../shared/lifecycle/keep.ts";
import { reservedPriceOf, type GateRequest } from "../../shared/lifecycle/model.ts";
import { audit } from "../../shared/lifecycle/step.ts";
import type { Outcomes } from "../../shared/lifecycle/tasks.ts";
import type { Millis } from "../../shared/ports.ts";
import { costAtMost, moneyPorts, reserveMoney, settleMoney, type MoneyAsked } from "./money.ts";
import type { GatePorts } from "./ports.ts";
import { keepMoneyId, RETAINED, strayRecord, type StrayRecord } from "./strays.ts";
import type { Store } from "./store.ts";
import type { PodView } from "./view.ts";

export { keepMoneyId } from "./strays.ts";

export interface RetainWord {
  /** A pod that is kept already, or the request whose pod shall be. */
  readonly target: { readonly podId: string } | { readonly requestId: string };
  /** Login of the maintainer; whoever calls has made sure that it is one. */
  readonly by: string;
  /** 0 ends the keeping now. */
  readonly minutes: number;
  readonly reason: string;
}

export type RetainAnswer =
  /** The word is noted; the pod will be kept if its job does not pass and the money allows it. */
  | { readonly kind: "noted"; readonly detail: string }
  | { readonly kind: "kept"; readonly podId: string; readonly until: Millis }
  | { readonly kind: "ended"; readonly podId: string }
  | { readonly kind: "refused"; readonly detail: string };

/** The record of a kept pod; null when nothing keeps it. */
export interface RetentionRecord {
  readonly podId: string;
  readonly until: Millis;
  readonly by: string;
  readonly reason: string;
}

const refuse = (detail: string): RetainAnswer => ({ kind: "refused", detail });

/** Takes a person's word. Nothing is promised that is not reserved. */
export async function retainPod(word: RetainWord, ports: GatePorts, store: Store): Promise<RetainAnswer> {
  if (!Number.isFinite(word.minutes) || word.minutes < 0)
    return refuse("Say for how many minutes; 0 ends the keeping.");
  return "podId" in word.target
    ? changeEnd(word.target.podId, word, ports, store)
    : noteWord(word.target.requestId, word, ports, store);
}

/** The word about a request whose pod is still to be bought; `refused` where it comes too late. */
export function noteWord(requestId: string, word: RetainWord, ports: GatePorts, store: Store): RetainAnswer {
  const request = store.request(requestId);
  if (request === null) return refuse(`There is no request ${requestId} here.`);
  const { state } = request;
  const keptPod = request.keep?.podId ?? null;
  if (keptPod !== null) return refuse(`Its pod ${keptPod} is kept already; name the pod instead.`);
  if (state.kind === "concluded" || state.kind === "cleaning")
    return refuse("This request has no pod that could be kept.");
  const now = ports.clock.now();
  const note = (keep: Keep): void =>
    ports.sql.transaction(() => {
      store.saveRequest({ ...request, keep });
      store.audit(
        now,
        requestId,
        audit("pod.keep-asked", null, { by: word.by, minutes: word.minutes, why: word.reason }),
      );
    });
  if (word.minutes === 0) {
    note(declinedKeep(word.by, word.reason));
    return { kind: "noted", detail: "Its pod will not be kept." };
  }
  const attempt = "attempt" in state ? state.attempt : null;
  // A word that was taken back is none.
  const before = request.keep?.declined === true ? undefined : request.keep;
  // The container ends with the job unless the pod was told otherwise when it was bought.
  if (attempt !== null && before === undefined && !(state.kind === "provisioning" && state.step === "reserve")) {
    return refuse(
      "This request's pod is being rented already, without the word to keep it: say so before, and run again.",
    );
  }
  // Rented without its minutes: a word alone keeps nothing (I9).
  if (attempt !== null && before?.attemptId === attempt.id && before.refused !== null)
    return refuse(`Nothing was reserved for keeping this request's pod. ${before.refused}`);
  note({ ...newKeep(word.by, word.reason, word.minutes * 60_000), ...attached(before) });
  const detail = "Its pod is kept if the GPU job does not pass and the budget has room for it.";
  const config = request.terms === null ? null : store.config(request.terms.configHash);
  // The operator's word for this run stands in place of the caps that are reckoned with here.
  const room = config === null || request.liftedMicros !== undefined ? null : keepingNote(config, word.minutes * 60);
  return { kind: "noted", detail: room === null ? detail : `${detail} ${room.say}` };
}

/** A later word about the same pod changes who and why; the minutes that were reserved stay. */
function attached(before: Keep | undefined): Partial<Keep> {
  if (before === undefined || before.attemptId === null || before.refused !== null) return {};
  return { attemptId: before.attemptId, maxLife: before.maxLife, duration: before.duration };
}

async function changeEnd(podId: string, word: RetainWord, ports: GatePorts, store: Store): Promise<RetainAnswer> {
  const row = store.stray(podId);
  if (row === null || row.done_at !== null || row.why !== RETAINED) return refuse(`Pod ${podId} is not a kept pod.`);
  const { readable, ...record } = strayRecord(row, store);
  const { retained } = record;
  const now = ports.clock.now();
  if (!readable) {
    store.hurryTask("stray", podId, now);
    return refuse(`What is stored of the kept pod ${podId} does not read; it is being deleted.`);
  }
  if (retained === undefined || !isAsleep(podId, now, store)) return refuse(`Pod ${podId} is being deleted.`);
  if (word.minutes === 0) {
    setEnd(podId, record, now, [], word, ports, store);
    return { kind: "ended", podId };
  }
  const request = store.request(retained.requestId);
  const terms = request?.terms ?? null;
  const config = terms === null ? null : store.config(terms.configHash);
  if (request === null || config === null) return refuse("The configuration of its request is not known any more.");
  const born = record.attempt.createSentAt ?? record.attempt.paidFrom ?? 0;
  const until = Math.min(now + word.minutes * 60_000, born + longestLife(config, ports));
  if (until <= now) return refuse("The pod has reached the longest life of a kept pod.");
  const added: string[] = [];
  if (until > retained.until) {
    const id = unusedMoneyId(record.attempt.id, retained.moneyIds.length + 1, store);
    const micros = reservationOf(hourly(record.attempt.pod?.pricePerHour ?? null, config), until - retained.until);
    const asked = { id, micros, repositoryId: store.meta("repository_id") ?? "", request, config };
    const reserved = await reserveMoney(asked, moneyPorts(ports));
    if (reserved.kind !== "reserved") {
      // An account that did not answer may have set it aside all the same.
      await settleMoney(id, null, moneyPorts(ports));
      return refuse(whyNot(reserved));
    }
    added.push(id);
  }
  // Its end may have come while the account answered: a removal that has begun is never put off, and the minutes go back.
  const later = store.stray(podId);
  const { readable: reads, ...still } = later === null ? { readable: false, ...record } : strayRecord(later, store);
  if (!reads || !isAsleep(podId, ports.clock.now(), store)) {
    for (const id of added) await settleMoney(id, null, moneyPorts(ports));
    return refuse(`Pod ${podId} is being deleted.`);
  }
  setEnd(podId, still, until, added, word, ports, store);
  return { kind: "kept", podId, until };
}

/** An id that was refused once is final: the next word gets one of its own. */
function unusedMoneyId(attemptId: string, from: number, store: Store): string {
  let word = from;
  while (store.moneyOf(keepMoneyId(attemptId, word)) !== null) word += 1;
  return keepMoneyId(attemptId, word);
}

/** Whether the pod's removal has not begun and is not due. */
function isAsleep(podId: string, now: Millis, store: Store): boolean {
  const task = store.taskOf("stray", podId);
  return task !== null && task.startedAt === null && task.kind === "read-record" && task.dueAt > now;
}

function setEnd(
  podId: string,
  record: StrayRecord,
  until: Millis,
  moneyIds: readonly string[],
  word: RetainWord,
  ports: GatePorts,
  store: Store,
): void {
  const { retained } = record;
  const row = store.stray(podId);
  if (retained === undefined || row === null) return;
  const now = ports.clock.now();
  ports.sql.transaction(() => {
    const next: StrayRecord = {
      ...record,
      teardown: { ...record.teardown, startedAt: until },
      retained: { ...retained, until, by: word.by, reason: word.reason, moneyIds: [...retained.moneyIds, ...moneyIds] },
    };
    store.saveStray({ ...row, record: JSON.stringify(next) });
    store.putTask("stray", podId, "read-record", { kind: "read-record", podId }, until, now);
    store.audit(
      now,
      retained.requestId,
      audit("pod.retained", null, { pod: podId, until, by: word.by, why: word.reason }),
    );
  });
}

/** Sets aside the minutes of a wished keeping, with the attempt's own money. Whatever comes of it, the attempt goes on. */
export async function reserveKeeping(asked: MoneyAsked, ports: GatePorts, store: Store): Promise<void> {
  const request = store.request(asked.request.id);
  if (request === null) return;
  const keep = request.keep ?? configured(asked.config);
  if (keep === null || keep.podId !== null || keep.declined === true) return;
  const state = request.state;
  const price = state.kind === "provisioning" ? reservedPriceOf(state.plan) : null;
  const maxLife = longestLife(asked.config, ports);
  // Whatever was asked for, the pod goes at the end of the longest life: later minutes are not paid, so not reserved.
  const duration = Math.min(keep.duration, maxLife);
  const micros = reservationOf(hourly(price, asked.config), duration);
  const reserved = await reserveMoney({ ...asked, id: keepMoneyId(asked.id), micros, request }, moneyPorts(ports));
  const kept: Keep = {
    ...keep,
    duration,
    attemptId: asked.id,
    maxLife,
    refused: reserved.kind === "reserved" ? null : whyNot(reserved),
  };
  ports.sql.transaction(() => {
    const current = store.request(request.id);
    // Taken back while the account was asked: that stands, and the minutes go back with the attempt.
    if (current === null || current.keep?.declined === true) return;
    // A word that came meanwhile changes who and why; what was reserved is what there is.
    const later = current.keep ?? kept;
    const { by, reason, failuresOnly } = request.keep === current.keep ? kept : later;
    store.saveRequest({ ...current, keep: { ...kept, by, reason, failuresOnly } });
    if (kept.refused === null) return;
    store.audit(ports.clock.now(), request.id, audit("pod.keep-refused", null, { why: kept.refused }));
  });
}

/** The minutes of a pod that is gone without having been kept are given back. */
export async function releaseKeeping(attemptId: string, ports: GatePorts, store: Store): Promise<Outcomes["settle"]> {
  const id = keepMoneyId(attemptId);
  return store.moneyOf(id) === null ? { kind: "settled" } : settleMoney(id, null, moneyPorts(ports));
}

/** What keeps this pod. Cron asks before it spares a pod; no answer and no record keep nothing. */
export function retentionOf(store: Store, podId: string): RetentionRecord | null {
  const row = store.stray(podId);
  if (row === null || row.done_at !== null || row.why !== RETAINED) return null;
  const { retained, readable } = strayRecord(row, store);
  return retained === undefined || !readable
    ? null
    : { podId, until: retained.until, by: retained.by, reason: retained.reason };
}

/** Kept pods, as everybody may see them: still paid for, each with its end. */
export function keptPods(store: Store, now: Millis): readonly PodView[] {
  return store.openStrays().flatMap((row): PodView[] => {
    if (row.why !== RETAINED) return [];
    const { attempt, retained } = strayRecord(row, store);
    const line = store.ledgerLine(row.pod_id);
    if (retained === undefined || line === null) return [];
    const since = line.paid_from;
    const pricePerHour = attempt.pod?.pricePerHour ?? line.price_per_hour;
    return [
      {
        podId: row.pod_id,
        requestId: retained.requestId,
        prNumber: store.request(retained.requestId)?.prNumber ?? null,
        gpu: attempt.pod?.gpuId ?? line.gpu_id,
        pricePerHour,
        since,
        costMicros: pricePerHour === null ? null : costAtMost(pricePerHour, now - since),
        retainedUntil: retained.until,
        retainedBy: retained.by,
      },
    ];
  });
}

function configured(config: RepositoryConfig): Keep | null {
  const { keep_on_failure: always, duration } = config.retention;
  return always ? newKeep("configuration", "keep_on_failure", duration * 1000, true) : null;
}

/** From the pod's creation: the repository's own word, and never longer than the deployment's reaper would spare it. */
function longestLife(config: RepositoryConfig, ports: Pick<GatePorts, "maxRetentionMs">): Millis {
  return Math.min(config.retention.max_retention * 1000, ports.maxRetentionMs ?? Infinity);
}

function hourly(known: number | null, config: RepositoryConfig): number {
  return microUsd(known ?? config.gpu.price_ceiling_usd_per_hour);
}

function whyNot(outcome: Exclude<Outcomes["reserve"], { kind: "reserved" }>): string {
  return outcome.kind === "over-cap" ? outcome.detail : `The money for it could not be reserved: ${outcome.why}.`;
}

export function keptFor(request: GateRequest, attemptId: string): readonly string[] {
  return request.keep?.attemptId === attemptId ? [keepMoneyId(attemptId)] : [];
}
