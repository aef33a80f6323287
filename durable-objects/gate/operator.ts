/**
 * The operator's words about one request, and what the gate can tell about it. Whoever calls has made sure that it is the
 * operator's word; each one leaves a line in the audit, also where it is refused.
 */
import { isReasonCode, REASONS } from "../../shared/audit/reasons.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { NewRequest } from "../../shared/lifecycle/new-request.ts";
import { audit, type AuditNote } from "../../shared/lifecycle/step.ts";
import { verdict, type Verdict } from "../../shared/lifecycle/verdict.ts";
import type { Millis } from "../../shared/ports.ts";
import { unreachable } from "../../shared/result.ts";
import type { Store } from "./store.ts";
import { storedJson } from "./stored-json.ts";
import { requestView, type RequestView } from "./view.ts";

export const operatorActions = ["cancel", "force", "release", "approve"] as const;

export interface OperatorWord {
  /**
   * `cancel` ends a request, `force` also takes every pause out of its removal, `release` frees a GPU lock whose holder is
   * gone, `approve` opens the next generation of a request that ended over budget, under a cap of its own.
   */
  readonly action: (typeof operatorActions)[number];
  readonly requestId: string;
  readonly by: string;
  readonly reason: string;
  /** For `approve`: what the run may cost, micro-dollars. */
  readonly micros: number | null;
}

export interface OperatorAnswer {
  readonly done: boolean;
  /** One sentence. */
  readonly detail: string;
}

/** What the gate lends: each works inside the caller's transaction. */
export interface OperatorHands {
  readonly stop: (requestId: string, word: Verdict) => boolean;
  readonly open: (what: NewRequest) => string;
  readonly freeLock: () => void;
  readonly audit: (requestId: string, note: AuditNote) => void;
}

export function obeyOperator(word: OperatorWord, store: Store, now: Millis, hands: OperatorHands): OperatorAnswer {
  const request = store.request(word.requestId);
  if (request === null) return { done: false, detail: whyNot(word.requestId, store) };
  const answer = act(word, request, store, now, hands);
  const facts = { by: word.by, why: word.reason, done: answer.done, answer: answer.detail.slice(0, 200) };
  hands.audit(request.id, audit(`operator.${word.action}`, null, facts));
  return answer;
}

function whyNot(requestId: string, store: Store): string {
  if (!store.isParked(requestId)) return `There is no request ${requestId} in this repository.`;
  return `The stored record of ${requestId} does not read; only \`release\` can be said of it.`;
}

function act(
  word: OperatorWord,
  request: GateRequest,
  store: Store,
  now: Millis,
  hands: OperatorHands,
): OperatorAnswer {
  const ended = verdict("cancelled", "cancelled-by-operator", `Ended by ${word.by}. ${word.reason}`.trim());
  switch (word.action) {
    case "cancel":
      return hands.stop(request.id, ended)
        ? { done: true, detail: "It ends now; what was rented is deleted first." }
        : { done: false, detail: `It is ${request.state.kind} already.` };
    case "force": {
      const stopped = hands.stop(request.id, ended);
      // A removal that pauses between its tries makes the next one now.
      store.hurryTask("main", request.id, now);
      const open = store.request(request.id)?.state.kind !== "concluded";
      if (!stopped && !open) return { done: false, detail: "It has ended, and nothing of it is left to delete." };
      return { done: true, detail: open ? "Its removal is tried now, without a pause." : "It has ended." };
    }
    case "release": {
      const lock = store.lock();
      if (lock.holder !== request.id) return { done: false, detail: "It does not hold the GPU lock." };
      if (request.state.kind !== "concluded") {
        // Its pod may be there: a second one beside it is what the lock exists against.
        return { done: false, detail: `It is ${request.state.kind} and may own a pod; cancel it instead.` };
      }
      hands.freeLock();
      return { done: true, detail: "The GPU lock is free; the next in the queue has it." };
    }
    case "approve": {
      if (request.state.kind !== "concluded" || request.state.verdict.kind !== "over-budget") {
        return { done: false, detail: "Only a request that ended over budget can be approved." };
      }
      if (word.micros === null || word.micros <= 0) return { done: false, detail: "Say what the run may cost." };
      const newest = store.requestsOfHead(request.headSha, request.kind).at(-1);
      if (newest?.id !== request.id) return { done: false, detail: `${newest?.id ?? "Another request"} is newer.` };
      const requestId = hands.open({
        kind: request.kind,
        prNumber: request.prNumber,
        headSha: request.headSha,
        revision: request.revision,
        ...(request.group === undefined ? {} : { group: request.group }),
        generation: request.generation + 1,
        row: 4,
        // Whoever caused it is authorised afresh: the operator's word is about money alone.
        actor: request.actor,
        approvedBy: request.approvedBy,
        liftedMicros: word.micros,
      });
      return { done: true, detail: `Request ${requestId} may cost USD ${(word.micros / 1_000_000).toFixed(2)}.` };
    }
    default:
      return unreachable(word.action, "operator's action");
  }
}

/** A pull request, a request, or a pod. */
export interface ExplainQuestion {
  readonly prNumber?: number;
  readonly requestId?: string;
  readonly podId?: string;
}

export interface Decision {
  readonly seq: number;
  readonly at: Millis;
  readonly act: string;
  readonly reason: string | null;
  /** The sentence of the reason in docs/reason-codes.md. */
  readonly rule: string | null;
  readonly facts: Readonly<Record<string, unknown>>;
}

export interface Explanation {
  readonly request: RequestView;
  readonly decisions: readonly Decision[];
}

const MOST_REQUESTS = 20;

/** Every decision about what is asked for, oldest first: facts, the rule, and what came of it. */
export function explain(question: ExplainQuestion, store: Store): readonly Explanation[] {
  return requestsOf(question, store)
    .slice(-MOST_REQUESTS)
    .map((request) => ({
      request: requestView(request, store),
      decisions: store.auditOf(request.id).map((row) => ({
        seq: row.seq,
        at: row.at,
        act: row.act,
        reason: row.reason,
        rule: row.reason !== null && isReasonCode(row.reason) ? REASONS[row.reason].sentence : null,
        facts: (storedJson(row.facts) ?? {}) as Record<string, unknown>,
      })),
    }));
}

function requestsOf({ prNumber, requestId, podId }: ExplainQuestion, store: Store): readonly GateRequest[] {
  if (prNumber !== undefined) return store.requestsOfPull(prNumber);
  const id = requestId ?? (podId === undefined ? undefined : store.ledgerLine(podId)?.request_id);
  const request = id === undefined ? null : store.request(id);
  return request === null ? [] : [request];
}
