/**
 * Requests that a maintainer's own workflow run opens (row 6 of what opens a request), and the single use of its tokens.
 *
 * The Worker has verified the token, the run and the person before anything here is called. What is decided here is what
 * only the gate can know, in the transaction that writes it: whether this run has asked before, and what else is under
 * way for the same head.
 */
import type { NewRequest } from "../../shared/lifecycle/new-request.ts";
import type { Actor, RepositoryRef } from "../../shared/lifecycle/signal.ts";
import { audit, type AuditNote } from "../../shared/lifecycle/step.ts";
import { verdict, type Verdict } from "../../shared/lifecycle/verdict.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { Millis } from "../../shared/ports.ts";
import type { Sql } from "./ports.ts";
import type { RetainAnswer, RetainWord } from "./retention.ts";
import type { Store } from "./store.ts";

export type DispatchedAsk =
  /** The pull request's head as it was read just now: the check's target and the tested revision are the same commit. */
  | { readonly kind: "recovery"; readonly prNumber: number; readonly headSha: string }
  /** One resolved commit, and the commit that gets the check. */
  | { readonly kind: "validation"; readonly revision: string; readonly headSha: string };

export interface Dispatched {
  readonly repository: RepositoryRef;
  /** The workflow run whose token asks. One run opens at most one request, however often it asks. */
  readonly runId: string;
  readonly actor: Actor;
  readonly ask: DispatchedAsk;
  /** Keep the pod for so long, should its job not pass: that of the request that is opened, or of the one that is joined. */
  readonly keepMinutes?: number;
}

export type DispatchedAnswer =
  | { readonly kind: "opened"; readonly requestId: string }
  /** This run asked before. */
  | { readonly kind: "repeated"; readonly requestId: string }
  /** Work for the same head is under way already: it is waited for, not bought twice. `keep`: what became of that word, if said. */
  | { readonly kind: "joined"; readonly requestId: string; readonly keep?: KeepAnswer }
  /** Another revision is being validated for the same check: one check cannot speak of two. */
  | { readonly kind: "busy"; readonly requestId: string }
  /** A newer version has written the stored state: nothing may be opened. */
  | { readonly kind: "read-only" };

/** Whether the pod of the request that was joined will be kept, as far as a word can make it; `why` is a sentence. */
export type KeepAnswer = { readonly kind: "noted" } | { readonly kind: "refused"; readonly why: string };

/** What the gate lends: each works inside the caller's transaction. */
export interface DispatchHands {
  readonly open: (what: NewRequest) => string;
  readonly stop: (requestId: string, word: Verdict) => void;
  /** Takes the word to keep a request's pod, as from anybody who may say it. */
  readonly keep: (word: RetainWord & { readonly target: { readonly requestId: string } }) => RetainAnswer;
  readonly audit: (requestId: string, note: AuditNote) => void;
}

const DISPATCH_MEMORY_MS: Millis = 90 * 86_400_000;

export function openDispatched(
  what: Dispatched,
  sql: Sql,
  store: Store,
  now: Millis,
  hands: DispatchHands,
): DispatchedAnswer {
  const { ask, actor, runId } = what;
  store.rememberRepository(what.repository, null);
  const asked = dispatchedRequest(sql, runId);
  if (asked !== null) return { kind: "repeated", requestId: asked };
  sql.exec(`DELETE FROM dispatches WHERE at < ?`, now - DISPATCH_MEMORY_MS);

  const own = store.requestsOfHead(ask.headSha, ask.kind);
  const open = own.at(-1);
  if (open !== undefined && open.state.kind !== "concluded") {
    if (ask.kind === "validation" && open.revision !== ask.revision) return { kind: "busy", requestId: open.id };
    return join(what, open, sql, now, hands);
  }
  if (ask.kind === "recovery") {
    const pull = store.requestsOfHead(ask.headSha, "pull-request").at(-1);
    if (pull !== undefined && moving(pull)) return join(what, pull, sql, now, hands);
    // What has only waited so far gives way: two checks of one name on one head would contradict each other.
    if (pull !== undefined && pull.state.kind !== "concluded") {
      hands.stop(
        pull.id,
        verdict("superseded", "newer-request", `${actor.login} asked for this commit in run ${runId}.`),
      );
    }
  }
  const requestId = hands.open({
    kind: ask.kind,
    prNumber: ask.kind === "recovery" ? ask.prNumber : null,
    headSha: ask.headSha,
    revision: ask.kind === "validation" ? ask.revision : null,
    generation: (open?.generation ?? 0) + 1,
    row: 6,
    actor,
    // A maintainer who dispatches the run by hand has given the word that `start:` may ask for.
    approvedBy: actor,
    ...(what.keepMinutes === undefined ? {} : { keepMinutes: what.keepMinutes }),
  });
  remember(sql, runId, requestId, now);
  hands.audit(requestId, audit("request.dispatched", null, { run: runId, actor: actor.id, kind: ask.kind }));
  return { kind: "opened", requestId };
}

/** The request that a dispatched run asked for; null when it has not. */
export function dispatchedRequest(sql: Sql, runId: string): string | null {
  return (
    sql.exec<{ request_id: string }>(`SELECT request_id FROM dispatches WHERE run_id = ?`, runId)[0]?.request_id ?? null
  );
}

/** `read-only`: nothing can be remembered, so nothing can be accepted. */
export type TokenUse = "fresh" | "spent" | "read-only";

/** Spends a token's id. Ids of tokens that are too old for anything by now are forgotten on the way. */
export function useToken(sql: Sql, jti: string, expiresAt: Millis, now: Millis): TokenUse {
  return sql.transaction(() => {
    sql.exec(`DELETE FROM tokens WHERE expires_at < ?`, now);
    if (sql.exec(`SELECT jti FROM tokens WHERE jti = ?`, jti).length > 0) return "spent";
    sql.exec(`INSERT INTO tokens (jti, expires_at) VALUES (?, ?)`, jti, expiresAt);
    return "fresh";
  });
}

/** Registrations of the runners on rented machines: never capacity of anybody's own lane. */
export function rentedRunnerIds(store: Store): readonly string[] {
  return store.openRequests().flatMap(({ state }) => {
    const attempt = "attempt" in state ? state.attempt : null;
    return attempt === null || attempt.runner === null ? [] : [attempt.runner.id];
  });
}

/** At most one open request per head and kind (design 3.1): the new word is noted in the audit of the one under way. */
function join(what: Dispatched, open: GateRequest, sql: Sql, now: Millis, hands: DispatchHands): DispatchedAnswer {
  remember(sql, what.runId, open.id, now);
  const facts = { row: 6, kind: what.ask.kind, run: what.runId, actor: what.actor.id };
  hands.audit(open.id, audit("request.asked-again", null, facts));
  const keep = keepOf(what, open.id, hands);
  return { kind: "joined", requestId: open.id, ...(keep === null ? {} : { keep }) };
}

/** The word to keep the pod belongs to the request that is joined, if it is not too late for it. Null: none was said. */
function keepOf(what: Dispatched, requestId: string, hands: DispatchHands): KeepAnswer | null {
  const { keepMinutes: minutes, actor, runId } = what;
  if (minutes === undefined) return null;
  const reason = `asked for by run ${runId}, which joined it`;
  const told = hands.keep({ target: { requestId }, by: actor.login, minutes, reason });
  if (told.kind !== "refused") return { kind: "noted" };
  hands.audit(requestId, audit("pod.keep-refused", null, { by: actor.login, minutes, why: told.detail }));
  return { kind: "refused", why: told.detail };
}

/** It has dispatched, queued or bought something: starting over would waste that. */
function moving(request: GateRequest): boolean {
  switch (request.state.kind) {
    case "preparing":
    case "queued":
    case "revalidating":
    case "provisioning":
    case "executing":
    case "cleaning":
      return true;
    case "received":
    case "authorizing":
    case "waiting":
    case "concluded":
      return false;
  }
}

function remember(sql: Sql, runId: string, requestId: string, now: Millis): void {
  sql.exec(`INSERT INTO dispatches (run_id, request_id, at) VALUES (?, ?, ?)`, runId, requestId, now);
}
