/**
 * What was tested, by content: one row for each request that ended with a tested tree. Read inside the lock, before money
 * is spent, to see whether the identical tree passed under the identical rules (shared/policy/reuse.ts decides).
 *
 * The rows are this gate's own. A check run on GitHub is not asked: anybody's workflow may publish one of any name, and its
 * text may be changed.
 */
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import type { Admission, GateRequest, Terms } from "../../shared/lifecycle/model.ts";
import { reusableGate, type EarlierGate, type GateKind, type ReuseInputs } from "../../shared/policy/reuse.ts";
import type { Millis } from "../../shared/ports.ts";
import type { Sql } from "./ports.ts";

/** How long a row is kept. GitHub's artifacts and logs are gone by then as well. */
const MEMORY_MS: Millis = 90 * 86_400_000;

type Row = {
  request_id: string;
  tree_sha: string;
  workflows: string;
  config_hash: string;
  kind: string;
  evidence: number;
  at: number;
};

/**
 * Whether an earlier green may stand for this request at all. A person who asks for a test again (rows 4 and 6) gets one;
 * a merge group gets one unless its policy says otherwise.
 */
export function mayReuse(request: GateRequest, config: RepositoryConfig | null): boolean {
  if (request.openedBy.row === 4 || request.openedBy.row === 6) return false;
  return request.kind !== "merge-group" || config?.merge_queue.policy === "reuse";
}

/** The request whose green stands for this admission; null: test. */
export function greenFor(
  sql: Sql,
  admission: Admission,
  terms: Terms,
): { readonly requestId: string; readonly treeSha: string } | null {
  const inputs = inputsOf(admission, terms);
  if (inputs.treeSha === "") return null;
  const rows = sql.exec<Row>(`SELECT * FROM greens WHERE tree_sha = ? ORDER BY at`, inputs.treeSha);
  const found = reusableGate(rows.map(gateOf), inputs);
  return found === null ? null : { requestId: `r${found.id}`, treeSha: inputs.treeSha };
}

/** Written with the verdict. What tested nothing (refused, superseded before its job, ...) says nothing about a tree. */
export function rememberTested(sql: Sql, request: GateRequest, now: Millis): void {
  const { state, admission, terms } = request;
  if (state.kind !== "concluded" || admission === null || terms === null) return;
  const kind = kindOf(request);
  if (kind === null) return;
  const inputs = inputsOf(admission, terms);
  if (inputs.treeSha === "") return;
  sql.exec(`DELETE FROM greens WHERE at < ?`, now - MEMORY_MS);
  sql.exec(
    `INSERT OR REPLACE INTO greens (request_id, tree_sha, workflows, config_hash, kind, evidence, at)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
    request.id,
    inputs.treeSha,
    inputs.workflows,
    inputs.configHash,
    kind,
    kind === "failed" ? 0 : 1,
    state.at,
  );
}

function kindOf(request: GateRequest): GateKind | null {
  if (request.state.kind !== "concluded") return null;
  const { verdict } = request.state;
  if (verdict.kind === "passed") return verdict.reason === "tests-passed" ? "paid" : "failed";
  if (verdict.kind === "reused") return "reused";
  // A machine was rented and no success came of it: an older success is in doubt. What was only called off says nothing.
  const doubt = verdict.kind === "failed" || verdict.kind === "infrastructure" || verdict.kind === "deadline";
  return doubt && request.counts.pods > 0 ? "failed" : null;
}

/** A part that is missing makes the inputs match nothing. */
function inputsOf(admission: Admission, terms: Terms): ReuseInputs {
  const blobs = Object.entries(admission.workflowBlobs).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const whole = blobs.length > 0 && blobs.every(([, blob]) => blob !== "missing");
  return {
    treeSha: admission.treeSha ?? "",
    workflows: whole ? blobs.map(([path, blob]) => `${path}=${blob}`).join(" ") : "",
    configHash: terms.configHash,
  };
}

function gateOf(row: Row): EarlierGate {
  return {
    id: row.request_id.slice(1),
    inputs: { treeSha: row.tree_sha, workflows: row.workflows, configHash: row.config_hash },
    kind: row.kind === "paid" || row.kind === "reused" ? row.kind : "failed",
    success: row.kind === "paid" || row.kind === "reused",
    evidence: row.evidence === 1,
    completedAt: new Date(row.at).toISOString(),
  };
}
