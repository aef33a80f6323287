/**
 * The operator's way out where the GPU lock is held by a request whose stored record does not read: no step of it can be
 * made, so none can give the lock up.
 *
 * What the record said of a pod is not known, so RunPod has to say that there is none: two complete lists, ten seconds apart,
 * without a pod of this request, after any create of its last step would have shown. A pod that is there, or that the ledger
 * still pays for, is removed and proven gone like one that nobody owns. Should the record read again some day, its fence is
 * an old one by then.
 */
import type { MicroUsd } from "../../shared/cost/estimate.ts";
import { audit, type AuditNote } from "../../shared/lifecycle/step.ts";
import type { Millis } from "../../shared/ports.ts";
import { podIsGone, type Pod } from "../../shared/runpod/pod.ts";
import { GPU_GATE_TAGS } from "../../shared/runpod/tags.ts";
import { costAtMost } from "./money.ts";
import { MoneyTable } from "./money-table.ts";
import type { OperatorAnswer, OperatorWord } from "./operator.ts";
import type { GatePorts, PodListing } from "./ports.ts";
import type { Store } from "./store.ts";
import { beginStray } from "./strays.ts";

/** A create that was lost shows within this time (the look-up's). */
const SHOWN_BY_MS = 180_000;
const LISTS_APART_MS = 10_000;
/** `<request> <start>` of the first complete list without a pod of it. */
const MARK = "parked_absent";

export interface ParkedHands {
  readonly freeLock: () => void;
  readonly audit: (requestId: string, note: AuditNote) => void;
}

/** `release` for a request that does not read. Whatever the answer, it is in the audit. */
export async function releaseParked(
  word: OperatorWord,
  ports: GatePorts,
  store: Store,
  hands: ParkedHands,
): Promise<OperatorAnswer> {
  const { requestId } = word;
  const now = ports.clock.now();
  const early = tooEarly(requestId, store, now);
  const listed = early === null ? await ports.account.listPods(now) : null;
  return ports.sql.transaction(() => {
    const answer = early ?? decide(requestId, listed?.ok === true ? listed.value : null, ports, store, hands);
    const facts = {
      by: word.by,
      why: word.reason,
      done: answer.done,
      answer: answer.detail.slice(0, 200),
      parked: true,
    };
    hands.audit(requestId, audit("operator.release", null, facts));
    return answer;
  });
}

function no(detail: string): OperatorAnswer {
  return { done: false, detail };
}

function tooEarly(requestId: string, store: Store, now: Millis): OperatorAnswer | null {
  if (store.lock().holder !== requestId) return no("It does not hold the GPU lock.");
  const steps = store.auditOf(requestId).filter((row) => !row.act.startsWith("operator."));
  const since = Math.max(store.lock().since ?? 0, steps.at(-1)?.at ?? 0);
  if (now - since >= SHOWN_BY_MS) return null;
  const seconds = Math.ceil((SHOWN_BY_MS - (now - since)) / 1000);
  return no(`Its last step may have rented a pod that does not show yet; ask again in ${seconds} s.`);
}

function decide(
  requestId: string,
  listing: PodListing | null,
  ports: GatePorts,
  store: Store,
  hands: ParkedHands,
): OperatorAnswer {
  if (listing === null || !listing.complete) return no("RunPod's list of pods could not be read whole; ask again.");
  // While RunPod answered, somebody else may have asked the same, or newer code may have read it.
  if (store.lock().holder !== requestId || !store.isParked(requestId)) return no("It does not hold the GPU lock.");
  const now = ports.clock.now();
  const names = podNamesOf(requestId, ports);
  const there = listing.pods.filter((pod) => !podIsGone(pod) && isOf(pod, requestId, names, ports, store));
  const paid = store.openLedgerLines().filter((line) => line.request_id === requestId);
  const left = new Set([...there.map((pod) => pod.id), ...paid.map((line) => line.pod_id)]);
  if (left.size > 0) {
    store.setMeta(MARK, "");
    for (const id of left) {
      const pod = there.find((one) => one.id === id);
      const paidFrom = paid.find((line) => line.pod_id === id)?.paid_from ?? null;
      beginStray(
        store,
        id,
        "its request does not read",
        paidFrom ?? pod?.createdAtMs ?? null,
        now,
        pod?.costPerHour ?? null,
      );
    }
    return no(
      `It may still pay for ${[...left].join(", ")}, which is removed now; ask again when that is proven gone.`,
    );
  }
  const [marked, at] = (store.meta(MARK) ?? "").split(" ");
  const first = marked === requestId ? Number(at) : null;
  if (first === null || listing.startedAt - first < LISTS_APART_MS) {
    if (first === null) store.setMeta(MARK, `${requestId} ${listing.startedAt}`);
    return no("No pod of it is left in RunPod's list; ask again in ten seconds, and a second list frees the lock.");
  }
  store.setMeta(MARK, "");
  // Nobody can settle it any more: set aside for good, it would be missing from every cap for ever. A pod that was proven gone
  // before its attempt was settled has cost what its line says. The account hears of it by comparing the books.
  const unsettled = new MoneyTable(ports.sql).open().filter((row) => row.request_id === requestId);
  for (const row of unsettled) store.settleMoney(row.attempt_id, spentBy(row.attempt_id, store));
  hands.freeLock();
  return { done: true, detail: "RunPod has no pod of it; the GPU lock is free, and the next in the queue has it." };
}

/** What the pods of an attempt have cost by the ledger, all of whose lines are closed; null: it had none. */
function spentBy(attemptId: string, store: Store): MicroUsd | null {
  const lines = store.ledgerLinesOf(attemptId);
  if (lines.length === 0) return null;
  return lines.reduce((sum, line) => {
    const paidMs = Math.max(0, (line.closed_at ?? line.paid_from) - line.paid_from);
    return sum + (line.estimate_micros ?? costAtMost(line.price_per_hour, paidMs));
  }, 0);
}

/** Names of every pod that an attempt of this request has asked for. */
function podNamesOf(requestId: string, { sql }: GatePorts): ReadonlySet<string> {
  const rows = sql.exec<{ pod_name: string }>(`SELECT pod_name FROM attempts WHERE request_id = ?`, requestId);
  return new Set(rows.map((row) => row.pod_name));
}

/** By id, by the name of one of its attempts, or by its tags: each alone is enough to keep the lock. */
function isOf(pod: Pod, requestId: string, names: ReadonlySet<string>, ports: GatePorts, store: Store): boolean {
  if (store.ledgerLine(pod.id)?.request_id === requestId || names.has(pod.name)) return true;
  const { tags } = pod;
  return (
    tags[GPU_GATE_TAGS.requestId] === requestId &&
    tags[GPU_GATE_TAGS.deployment] === ports.deployment &&
    tags[GPU_GATE_TAGS.repositoryId] === store.meta("repository_id")
  );
}
