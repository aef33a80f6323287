/**
 * The cost reports of a repository's pods, one per closed ledger line.
 *
 * The report is written in the transaction that closes the line, from what is known then. What GitHub says about the job is
 * added by a task of its own, after the deletion and beside the verdict: best effort, a few tries, and nothing waits for
 * it but the last word of the check, for a moment.
 */
import * as z from "zod";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import { costMarkdown } from "../../shared/cost/markdown.ts";
import {
  costReport,
  costReportSchema,
  stageRulesOf,
  type CostFacts,
  type CostReport,
  type ToldCost,
} from "../../shared/cost/report.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import { observeSteps } from "../../shared/hosted/observations.ts";
import { runRefSchema, type Attempt, type GateRequest } from "../../shared/lifecycle/model.ts";
import type { LedgerOp } from "../../shared/lifecycle/step.ts";
import type { Millis } from "../../shared/ports.ts";
import type { Sql } from "./ports.ts";
import type { Store, StoredTask } from "./store.ts";
import { readStored, storedJson } from "./stored-json.ts";
import { parkTask } from "./unreadable.ts";

/** Tries at reading the jobs, 3 s apart at first: the run was told to end, and a cancel takes its time. */
const TRIES = 8;
/** How long after the verdict its check may still wait for the report. */
const CHECK_PATIENCE_MS = 3_000;
/** Lines in one answer. */
const ANSWER_LINES = 2_000;

const storedSchema = z.object({
  facts: z.custom<CostFacts>((value) => typeof value === "object" && value !== null),
  report: costReportSchema,
});
const taskPayloadSchema = z.object({ run: runRefSchema, jobName: z.string() });

type CostRow = { attempt_id: string; request_id: string; at: number; report: string };
type ToldRow = CostRow & { billed_micros: number | null; record: string | null };

export interface ClosedPod {
  /** Null for a pod that no request owned. */
  readonly request: GateRequest | null;
  readonly attempt: Attempt | null;
  /** USD per hour, as RunPod showed it just before the deletion. */
  readonly recordPrice: number | null;
}

/** Who a pod belonged to, told from its request as it was when the pod was proven gone. */
export function closedPod(request: GateRequest): ClosedPod {
  const { state } = request;
  const teardown = state.kind === "cleaning" || state.kind === "provisioning" ? state.teardown : null;
  return {
    request,
    attempt: "attempt" in state ? state.attempt : null,
    recordPrice: teardown?.recordPrice ?? null,
  };
}

/** The first report of a closed line, and the task that completes it. The caller holds the transaction. */
export function openCost(
  sql: Sql,
  store: Store,
  closed: ClosedPod,
  op: Extract<LedgerOp, { kind: "close" }>,
  now: Millis,
): void {
  const { request, attempt } = closed;
  const line = store.ledgerLine(op.podId);
  if (line === null) return;
  const facts: CostFacts = {
    about: {
      attemptId: op.attemptId,
      podId: op.podId,
      requestId: request?.id ?? null,
      attemptNumber: request === null ? null : (attempt?.number ?? null),
      prNumber: request?.prNumber ?? null,
      headSha: request?.headSha ?? null,
      testedSha: request?.admission?.testedSha ?? null,
      outcome: op.outcome,
      accepted: attempt !== null && attempt.proof !== null && attempt.onlineAt !== null,
    },
    place: { gpu: line.gpu_id, tier: line.tier, dataCenter: attempt?.pod?.dataCenterId ?? null },
    prices: {
      preDelete: closed.recordPrice,
      startup: attempt?.pod?.pricePerHour ?? null,
      list: attempt?.candidate?.price ?? op.pricePerHour,
    },
    paidFrom: line.paid_from,
    deletedAt: op.closedAt,
    provenAt: op.provenAt,
    createMs:
      attempt === null || attempt.createSentAt === null || attempt.number === 0
        ? null
        : Math.max(0, line.paid_from - attempt.createSentAt),
    boot: request === null ? null : (attempt?.boot ?? null),
  };
  const run = attempt?.run ?? null;
  const report = costReport(facts, run === null ? { jobs: [], rules: NO_RULES, observations: {} } : null);
  save(sql, request?.id ?? "", now, { facts, report });
  if (request !== null) tellCheck(sql, store, request.id);
  if (run === null || request === null) return;
  const jobName = request.terms?.evidence.jobName ?? "";
  store.putTask("cost", op.attemptId, "read-jobs", { run, jobName }, now, now);
}

const NO_RULES = { gpuJobNameEndsWith: "", steps: [] };

/** Completes a report with what the run's jobs say. Gives the request whose check may now say more, if there is one. */
export async function readCost(
  task: StoredTask,
  sql: Sql,
  store: Store,
  github: GitHubClient,
  now: () => Millis,
): Promise<string | null> {
  const stored = load(sql, task.subject);
  if (stored === null) {
    store.removeTask(task.id);
    return null;
  }
  const read = readStored(taskPayloadSchema, task.payload);
  if (!read.ok) {
    sql.transaction(() => parkTask(task, read.error, store, now()));
    return null;
  }
  const { run } = read.value;
  const listed = await github.listJobs(run.runId, run.attempt);
  const jobs = listed.ok ? listed.value.items : [];
  const ended = listed.ok && jobs.every((job) => job.status === "completed");
  const at = now();
  const requestId = stored.facts.about.requestId ?? "";
  const config = configOf(store, requestId);
  return sql.transaction(() => {
    if (!store.hasTask(task.id)) return null;
    if (listed.ok && config !== null) {
      const report = costReport(stored.facts, {
        jobs,
        rules: stageRulesOf(config),
        observations: observeSteps(config.evidence.observations, jobs),
      });
      save(sql, requestId, null, { facts: stored.facts, report });
      tellCheck(sql, store, requestId);
    }
    if (ended || task.tries >= TRIES) store.removeTask(task.id);
    else
      store.putTask("cost", task.subject, task.kind, storedJson(task.payload), at + 3_000 * task.tries, at, task.tries);
    return requestId === "" ? null : requestId;
  });
}

/** Whether the last word of this request's check waits a moment: its newest report is being completed. */
export function costUnderWay(sql: Sql, request: GateRequest, now: Millis): boolean {
  if (request.state.kind !== "concluded" || now - request.state.at >= CHECK_PATIENCE_MS) return false;
  const waiting = sql.exec<{ n: number }>(
    `SELECT count(*) AS n FROM tasks WHERE lane = 'cost' AND tries <= 1
       AND subject IN (SELECT attempt_id FROM costs WHERE request_id = ?)`,
    request.id,
  )[0];
  return (waiting?.n ?? 0) > 0;
}

export interface CostLines {
  readonly complete: boolean;
  readonly costs: readonly ToldCost[];
}

/** The reports of lines closed in `[from, to)`, oldest first. */
export function costLines(sql: Sql, repositoryId: string, from: Millis, to: Millis): CostLines {
  const rows = sql.exec<ToldRow>(
    `SELECT costs.*, ledger.billed_micros AS billed_micros, requests.record AS record FROM costs
       JOIN ledger ON ledger.pod_id = costs.pod_id
       LEFT JOIN requests ON requests.id = costs.request_id
     WHERE costs.at >= ? AND costs.at < ? ORDER BY costs.at, costs.pod_id LIMIT ?`,
    from,
    to,
    ANSWER_LINES + 1,
  );
  const costs = rows.slice(0, ANSWER_LINES).flatMap((row) => {
    const stored = storedSchema.safeParse(storedJson(row.report));
    if (!stored.success) return [];
    const { report } = stored.data;
    const end = row.record === null ? null : (endSchema.safeParse(storedJson(row.record)).data ?? null);
    const verdict = end?.state.kind === "concluded" ? (end.state.verdict ?? null) : null;
    const spoken = verdict !== null && (verdict.kind === "passed" || verdict.kind === "failed");
    const decisive = spoken && report.accepted && report.attemptNumber === end?.counts.attempts;
    const told = verdict === null ? null : { kind: verdict.kind, reason: verdict.reason };
    return [{ ...report, repositoryId, verdict: told, decisive, billed: row.billed_micros }];
  });
  return { complete: rows.length <= ANSWER_LINES, costs };
}

const endSchema = z.object({
  counts: z.object({ attempts: z.number() }),
  state: z.object({ kind: z.string(), verdict: z.object({ kind: z.string(), reason: z.string() }).optional() }),
});

function save(sql: Sql, requestId: string, at: Millis | null, stored: z.infer<typeof storedSchema>): void {
  const text = JSON.stringify(stored);
  const { attemptId, podId } = stored.facts.about;
  if (at === null) {
    sql.exec(`UPDATE costs SET report = ? WHERE pod_id = ?`, text, podId);
    return;
  }
  sql.exec(
    `INSERT OR IGNORE INTO costs (pod_id, attempt_id, request_id, at, report) VALUES (?, ?, ?, ?, ?)`,
    podId,
    attemptId,
    requestId,
    at,
    text,
  );
}

function load(sql: Sql, attemptId: string): z.infer<typeof storedSchema> | null {
  const row = sql.exec<CostRow>(`SELECT * FROM costs WHERE attempt_id = ? ORDER BY at LIMIT 1`, attemptId)[0];
  if (row === undefined) return null;
  const parsed = storedSchema.safeParse(storedJson(row.report));
  return parsed.success ? parsed.data : null;
}

/** Puts the request's reports, as Markdown, where its check is made from. */
function tellCheck(sql: Sql, store: Store, requestId: string): void {
  const request = store.request(requestId);
  if (request === null) return;
  const reports = sql
    .exec<CostRow>(`SELECT * FROM costs WHERE request_id = ? ORDER BY at LIMIT 50`, requestId)
    .flatMap((row): CostReport[] => {
      const parsed = storedSchema.safeParse(storedJson(row.report));
      return parsed.success ? [parsed.data.report] : [];
    });
  store.saveRequest({ ...request, costReport: costMarkdown(reports) });
}

function configOf(store: Store, requestId: string): RepositoryConfig | null {
  const hash = store.request(requestId)?.terms?.configHash ?? null;
  return hash === null ? null : store.config(hash);
}
