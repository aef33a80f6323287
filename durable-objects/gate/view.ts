/**
 * What a person may see of a gate: the queue, the pod in use, the last verdicts. No secret, no nonce, no label.
 */
import { checkView } from "../../shared/lifecycle/check-view.ts";
import { conclusionOf } from "../../shared/lifecycle/verdict.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { Millis } from "../../shared/ports.ts";
import { moneyView, type MoneyView } from "./money-view.ts";
import type { Sql } from "./ports.ts";
import { keptPods } from "./retention.ts";
import { laneViews, type LaneView } from "./lanes.ts";
import type { LedgerLine, Store } from "./store.ts";

export interface RequestView {
  readonly id: string;
  readonly prNumber: number | null;
  readonly headSha: string;
  readonly title: string;
  readonly generation: number;
  readonly state: string;
  readonly step: string | null;
  readonly headline: string;
  readonly verdict: string | null;
  readonly reason: string | null;
  readonly detail: string | null;
  readonly conclusion: string | null;
  readonly published: boolean;
  readonly openedAt: Millis;
  readonly concludedAt: Millis | null;
  readonly gpu: string | null;
  readonly pricePerHour: number | null;
  readonly paidMs: Millis;
  readonly costMicros: number;
  readonly pods: number;
}

export interface PodView {
  readonly podId: string;
  readonly requestId: string;
  readonly prNumber: number | null;
  readonly gpu: string | null;
  readonly pricePerHour: number | null;
  readonly since: Millis;
  readonly costMicros: number | null;
  /** Kept for debugging: when that ends, and on whose word. */
  readonly retainedUntil?: Millis;
  readonly retainedBy?: string;
}

export interface GateView {
  readonly repository: string | null;
  readonly at: Millis;
  readonly lock: { readonly holder: string | null; readonly since: Millis | null; readonly fence: number };
  readonly queue: readonly RequestView[];
  readonly open: readonly RequestView[];
  readonly recent: readonly RequestView[];
  readonly pods: readonly PodView[];
  readonly money: MoneyView;
  readonly ledger: readonly LedgerLine[];
  /** Lanes on the maintainers' own machines: READY, or open state whose checks are NOT RUN. */
  readonly lanes: readonly LaneView[];
  readonly counters: Readonly<Record<string, number>>;
}

/** `sql`: the database that the store reads. */
export function gateView(store: Store, sql: Sql, now: Millis): GateView {
  const known = store.repository();
  const lock = store.lock();
  const queue = store.queue(100);
  const toView = (request: GateRequest) => requestView(request, store);
  const open = store.openRequests();
  return {
    repository: known === null ? null : `${known.repository.owner}/${known.repository.name}`,
    at: now,
    lock: { holder: lock.holder, since: lock.since, fence: lock.fence },
    queue: queue.flatMap((row) => {
      const request = store.request(row.requestId);
      return request === null ? [] : [toView(request)];
    }),
    open: open.map(toView),
    recent: store.recentRequests(100).map(toView),
    pods: [...open.flatMap((request) => podView(request, now)), ...keptPods(store, now)],
    money: moneyView(sql, store.config(store.meta("last_config") ?? ""), now),
    ledger: store.ledgerLines(200),
    lanes: laneViews(store, now),
    counters: store.counters(),
  };
}

/** One request as a person may see it. */
export function requestView(request: GateRequest, store: Store): RequestView {
  const state = request.state;
  const view = checkView(request, {
    place: store.placeInQueue(request.id),
    waiting: 0,
    holder: null,
    etaMs: null,
  });
  const ended = state.kind === "concluded" ? state.verdict : null;
  return {
    id: request.id,
    prNumber: request.prNumber,
    headSha: request.headSha,
    title: request.admission?.title ?? "",
    generation: request.generation,
    state: state.kind,
    step: "step" in state ? state.step : null,
    headline: view.title,
    verdict: ended?.kind ?? null,
    reason: ended?.reason ?? null,
    detail: ended?.detail ?? null,
    conclusion: ended === null ? null : conclusionOf[ended.kind],
    published: request.check.completed,
    openedAt: request.openedAt,
    concludedAt: state.kind === "concluded" ? state.at : null,
    gpu: request.gpu,
    pricePerHour: request.pricePerHour,
    paidMs: request.paidMs,
    costMicros: request.spentMicros,
    pods: request.counts.pods,
  };
}

function podView(request: GateRequest, now: Millis): PodView[] {
  const state = request.state;
  if (state.kind !== "provisioning" && state.kind !== "executing" && state.kind !== "cleaning") return [];
  const attempt = state.attempt;
  if (attempt === null || attempt.pod === null || attempt.paidFrom === null) return [];
  if (state.kind !== "executing" && (state.teardown?.provenAt ?? null) !== null) return [];
  const price = attempt.pod.pricePerHour;
  return [
    {
      podId: attempt.pod.id,
      requestId: request.id,
      prNumber: request.prNumber,
      gpu: attempt.pod.gpuId,
      pricePerHour: price,
      since: attempt.paidFrom,
      costMicros: price === null ? null : Math.round((price * 1_000_000 * (now - attempt.paidFrom)) / 3_600_000),
    },
  ];
}
