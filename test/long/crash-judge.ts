/**
 * What a life of the crash matrix may have ended as, by the providers' books and by the kills that really took place: where
 * they were ordered says nothing, since a kill takes everything with it that is under way beside the call that it waited for.
 */
import type { PodEntry } from "../../local/runpod/types.ts";
import type { LifeEvent } from "./crash-life.ts";
import { subjectOf, wordsOf } from "./crash-wire.ts";

export interface LedgerLine {
  readonly pod_id: string;
}

/** By RunPod's own books: all gone, one ledger line each, never two alive at once, and no more than one replaced. */
export function judgePods(name: string, pods: readonly PodEntry[], ledger: readonly LedgerLine[]): string[] {
  const problems: string[] = [];
  for (const pod of pods) {
    if (pod.releasedAtMs === null) problems.push(`${name}: pod ${pod.id} is still paid for`);
    const lines = ledger.filter((line) => line.pod_id === pod.id);
    if (lines.length !== 1) problems.push(`${name}: pod ${pod.id} has ${lines.length} ledger lines`);
  }
  if (pods.length > 2) problems.push(`${name}: ${pods.length} pods were bought`);
  const byStart = pods.toSorted((a, b) => a.createdAtMs - b.createdAtMs);
  for (const [index, pod] of byStart.entries()) {
    const before = byStart[index - 1];
    if (before !== undefined && (before.releasedAtMs === null || before.releasedAtMs > pod.createdAtMs)) {
      problems.push(`${name}: pods ${before.id} and ${pod.id} were paid for at the same time`);
    }
  }
  return problems;
}

/** No start of a run may be sent twice, whatever became of its answer (design 3.3). */
export function judgeStarts(name: string, events: readonly LifeEvent[]): string[] {
  const sent = new Map<string, number>();
  for (const event of events) {
    if (event.kind !== "call" || !event.own) continue;
    const subject = subjectOf(event.call);
    if (subject?.kind !== "dispatch") continue;
    const what = `${wordsOf(event.call)} for ${subject.attempt ?? subject.request}`;
    sent.set(what, (sent.get(what) ?? 0) + 1);
  }
  return [...sent].flatMap(([what, times]) => (times > 1 ? [`${name}: ${what} was sent ${times} times`] : []));
}

/** The last that the gate is told before it starts a run. Up to there a kill takes no start with it. */
const BEFORE_START = [
  {
    workflow: "gpu-gate-prepare.yml",
    told: /\/git\/trees\//,
    start: /gpu-gate-prepare\.yml\/dispatches$/,
    list: /gpu-gate-prepare\.yml\/runs/,
  },
  {
    workflow: "gpu-gate-execute.yml",
    told: /\/generate-jitconfig$/,
    start: /gpu-gate-execute\.yml\/dispatches$/,
    list: /gpu-gate-execute\.yml\/runs/,
  },
] as const;

/**
 * Whether a kill took the start of a run with it, and at which call: this life's own start never reached GitHub; the kill
 * came after the last that the gate must be told to start the run, and before it first looked for one by its name. Null: no
 * kill did, and a life that ends without its run has ended wrongly.
 */
export function lostStart(events: readonly LifeEvent[]): string | null {
  for (const { workflow, told, start, list } of BEFORE_START) {
    const got = (method: "GET" | "POST" | null, path: RegExp) => (event: LifeEvent) =>
      event.kind === "call" &&
      event.reached &&
      (method === null || event.call.method === method) &&
      path.test(event.call.path);
    const isStart = got("POST", start);
    const look = events.findIndex(got("GET", list));
    if (look < 0 || events.some((event) => event.kind === "call" && event.own && isStart(event))) continue;
    const before = events.slice(0, look);
    const known = before.findLastIndex(got(null, told));
    const kill = before.slice(known + 1).findLast(isKill);
    if (known >= 0 && kill !== undefined) return `${workflow} was never started: killed at ${kill.at}`;
  }
  return null;
}

function isKill(event: LifeEvent): event is Extract<LifeEvent, { readonly kind: "kill" }> {
  return event.kind === "kill";
}
