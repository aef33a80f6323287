/** What was said at a commit that several pull requests have, and how it is asked about: for the tests of shared heads. */
import { expect } from "vitest";
import type { CodesOf } from "../../shared/audit/reasons.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { RouteView } from "../../shared/lifecycle/route.ts";
import type { Signal } from "../../shared/lifecycle/signal.ts";
import { verdict, type VerdictKind } from "../../shared/lifecycle/verdict.ts";
import { ADMISSION, BOB, HEAD, requestIn, T0 } from "./fixtures.ts";

export type Change = Partial<GateRequest>;

export function ended<K extends VerdictKind>(kind: K, reason: CodesOf<K>, change: Change = {}): GateRequest {
  return requestIn({ kind: "concluded", at: T0, verdict: verdict(kind, reason, "It ended.") }, change);
}

/** What #8 was told at the same head, after #7. */
export const SECOND = { id: "r2", prNumber: 8, generation: 2, openedAt: T0 + 1 };
export const forBase = (baseRef: string): Change => ({ admission: { ...ADMISSION, baseRef } });

export const passed = ended("passed", "tests-passed", forBase("main"));
export const refused = ended("refused", "author-not-permitted", { ...SECOND, admission: null, baseRef: "stage" });
export const fork = ended("refused", "fork", { ...SECOND, admission: null, baseRef: "stage" });
export const gone = () => true;

/** Somebody who may not spend approves (row 3), or asks for it once more (row 4). */
export function pressed(row: 3 | 4, change: Change = {}): GateRequest {
  const by = { openedBy: { row, actor: BOB }, actor: BOB, approvedBy: row === 3 ? BOB : null };
  return ended("refused", "actor-not-permitted", { id: "r2", generation: 2, openedAt: T0 + 1, ...by, ...change });
}

export function viewOf(...requests: readonly GateRequest[]): RouteView {
  return {
    appId: "1",
    repositoryId: "101",
    ofHead: (headSha, kind) => requests.filter((one) => one.headSha === headSha && one.kind === kind),
    ofPull: (prNumber) => requests.filter((one) => one.prNumber === prNumber),
    open: () => requests.filter((one) => one.state.kind !== "concluded"),
    ofRun: () => null,
    ofCheckRun: () => null,
    ofRunner: () => null,
  };
}

export type PullSignal = Extract<Signal, { kind: "pull-request" }>;

export function pull(action: PullSignal["action"], prNumber: number, change: Partial<PullSignal> = {}): Signal {
  const parts = { headRepositoryId: "101", draft: false, label: null, sender: BOB };
  return { kind: "pull-request", action, prNumber, headSha: HEAD, ...parts, ...change };
}

export const COMPARE = { kind: "reconcile" };
export const OPENS: unknown = expect.objectContaining({ kind: "open" });
