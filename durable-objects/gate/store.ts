/**
 * Rows of the gate's database as typed values. No decision is made here; whoever calls holds the transaction.
 *
 * The gate is the only writer of its database, so what it has read or written once it need not ask for again: every row
 * read and written is paid for. What is remembered ends with a transaction that failed (`forget`).
 */
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import { storedConfig } from "../../shared/config/stored.ts";
import type { Attempt, GateRequest } from "../../shared/lifecycle/model.ts";
import { requestId as requestIdOf } from "../../shared/lifecycle/request-id.ts";
import type { RepositoryRef } from "../../shared/lifecycle/signal.ts";
import { audit, type AuditNote, type LedgerOp } from "../../shared/lifecycle/step.ts";
import type { Millis } from "../../shared/ports.ts";
import { MoneyTable, type MoneyLineIn, type MoneyRow } from "./money-table.ts";
import type { Sql, SqlValue } from "./ports.ts";
import { keepIn, Remembered, type Sealed } from "./remembered.ts";
import { FREE_LOCK, readLock, readRecord } from "./rows.ts";
import type { AuditRow, LedgerLine, LockRow, StrayRow } from "./rows.ts";
import { storedJson } from "./stored-json.ts";
import { TaskTable } from "./task-table.ts";

export type { AuditRow, Lane, LedgerLine, LockRow, StoredTask, StrayRow } from "./rows.ts";

const DOUBTED = "name_doubted";

export class Store extends TaskTable {
  readonly #sql: Sql;
  readonly #configs = new Map<string, RepositoryConfig>();
  readonly #counted = new Map<string, number>();
  readonly #records = new Map<string, GateRequest>();
  readonly #remembered: Remembered;

  constructor(sql: Sql) {
    const remembered = new Remembered();
    super(sql, remembered);
    this.#sql = sql;
    this.#remembered = remembered;
  }

  override mendTasks(now: Millis): number {
    const mended = super.mendTasks(now);
    if (mended > 0) {
      this.count("tasks.unreadable", mended);
      this.audit(now, null, audit("task.mended", null, { rows: mended }));
    }
    return mended;
  }

  /** A transaction failed: what was remembered meanwhile may never have been stored. */
  forget(): void {
    this.#remembered.clear();
  }

  // Who we are.

  repository(): { readonly repository: RepositoryRef; readonly installationId: string | null } | null {
    const id = this.meta("repository_id");
    const owner = this.meta("repository_owner");
    const name = this.meta("repository_name");
    if (id === null || owner === null || name === null) return null;
    return { repository: { id, owner, name }, installationId: this.meta("installation_id") };
  }

  /** GitHub has nothing of the name that is stored: a rename that nobody told, or damage. Cron then asks what it is called. */
  doubtName(): void {
    this.setMeta(DOUBTED, "1");
  }

  /** The repository's name is not known, or no longer believed. */
  isUnnamed(): boolean {
    return this.repository() === null || this.meta(DOUBTED) === "1";
  }

  /** Written only when GitHub named it differently than last time: this is called for every delivery. */
  rememberRepository(repository: RepositoryRef, installationId: string | null): void {
    // GitHub names a repository that is gone, or an installation as a whole, by its id alone.
    if (repository.owner === "" || repository.name === "") return;
    if (this.meta(DOUBTED) === "1") this.setMeta(DOUBTED, "");
    const known = this.repository();
    const installation = installationId ?? known?.installationId ?? null;
    const same =
      known?.repository.id === repository.id &&
      known.repository.owner === repository.owner &&
      known.repository.name === repository.name &&
      known.installationId === installation;
    if (same) return;
    this.setMeta("repository_id", repository.id);
    this.setMeta("repository_owner", repository.owner);
    this.setMeta("repository_name", repository.name);
    if (installation !== null) this.setMeta("installation_id", installation);
  }

  meta(key: string): string | null {
    const { meta } = this.#remembered;
    const known = meta.get(key);
    if (known !== undefined) return known;
    const read = this.#sql.exec<{ value: string }>(`SELECT value FROM meta WHERE key = ?`, key)[0]?.value ?? null;
    meta.set(key, read);
    return read;
  }

  setMeta(key: string, value: string): void {
    if (this.#remembered.meta.get(key) === value) return;
    this.#sql.exec(`INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)`, key, value);
    this.#remembered.meta.set(key, value);
  }

  // Deliveries.

  delivered(guid: string): boolean {
    return this.#sql.exec(`SELECT guid FROM deliveries WHERE guid = ?`, guid).length > 0;
  }

  markDelivered(guid: string, event: string, at: Millis, outcome: string): void {
    this.#sql.exec(`INSERT INTO deliveries (guid, event, at, outcome) VALUES (?, ?, ?, ?)`, guid, event, at, outcome);
  }

  forgetDeliveries(before: Millis): void {
    this.#sql.exec(`DELETE FROM deliveries WHERE at < ? AND guid NOT LIKE 'body:%'`, before);
  }

  /** The same for bodies that made something begin or end: few, and kept long, for nothing else tells a replay. */
  forgetOldBodies(before: Millis): void {
    this.#sql.exec(`DELETE FROM deliveries WHERE at < ? AND guid LIKE 'body:%'`, before);
  }

  /** Forgets the bodies of events whose name begins so. */
  forgetBodies(event: string): void {
    this.#sql.exec(`DELETE FROM deliveries WHERE guid LIKE 'body:%' AND event LIKE ?`, `${event}%`);
  }

  // Requests.

  request(id: string): GateRequest | null {
    const { requests } = this.#remembered;
    const known = requests.get(id);
    if (known !== undefined) return known;
    const read = this.#requests(`SELECT record FROM requests WHERE id = ?`, id)[0] ?? null;
    if (read !== null) keepIn(requests, id, read);
    return read;
  }

  requestsOfHead(headSha: string, kind: string): readonly GateRequest[] {
    return this.#requests(
      `SELECT record FROM requests WHERE head_sha = ? AND kind = ? ORDER BY generation`,
      headSha,
      kind,
    );
  }

  requestsOfPull(prNumber: number): readonly GateRequest[] {
    return this.#requests(
      `SELECT record FROM requests WHERE pr_number = ? ORDER BY opened_at DESC, generation DESC LIMIT 50`,
      prNumber,
    ).reverse();
  }

  requestOfRun(runId: string): GateRequest | null {
    return (
      this.#requests(
        `SELECT record FROM requests WHERE id = (SELECT request_id FROM runs WHERE run_id = ?)`,
        runId,
      )[0] ?? null
    );
  }

  requestOfCheckRun(checkRunId: string): GateRequest | null {
    return this.#requests(`SELECT record FROM requests WHERE check_run_id = ?`, checkRunId)[0] ?? null;
  }

  /** The request one of whose attempts registered this runner. */
  requestOfRunner(runnerId: string): GateRequest | null {
    const query = `SELECT record FROM requests WHERE id = (SELECT request_id FROM attempts WHERE runner_id = ?)`;
    return this.#requests(query, runnerId)[0] ?? null;
  }

  /** A stored request whose record does not read; `open`: that has not ended either, by its row. */
  isParked(id: string, which: "any" | "open" = "any"): boolean {
    const query = `SELECT record, state FROM requests WHERE id = ?`;
    const row = this.#sql.exec<{ record: string; state: string }>(query, id)[0];
    return row !== undefined && (which === "any" || row.state !== "concluded") && this.#read(row.record) === null;
  }

  /** Whether a record that does not read stands for this head: its generation is taken, whatever it says. */
  isHeadParked(headSha: string, kind: string): boolean {
    return this.#sql
      .exec<{ record: string }>(`SELECT record FROM requests WHERE head_sha = ? AND kind = ?`, headSha, kind)
      .some((row) => this.#read(row.record) === null);
  }

  openRequests(): readonly GateRequest[] {
    return this.#requests(`SELECT record FROM requests WHERE state <> 'concluded' ORDER BY opened_at`);
  }

  recentRequests(limit: number): readonly GateRequest[] {
    return this.#requests(`SELECT record FROM requests ORDER BY opened_at DESC LIMIT ?`, limit);
  }

  /** Concluded requests whose check is not, of the `limit` newest concluded ones. */
  unsaidRequests(limit: number): readonly GateRequest[] {
    // The text is looked at first: reading every record would cost more than all else that reconciling does.
    const open = this.#requests(
      `SELECT record FROM
         (SELECT record FROM requests WHERE state = 'concluded' ORDER BY opened_at DESC LIMIT ${Math.trunc(limit)})
       WHERE instr(record, '"completed":false') > 0`,
    );
    return open.filter((request) => !request.check.completed);
  }

  /** The id of the request that was opened last for this head, of whatever kind. */
  newestOfHead(headSha: string): string | null {
    const query = `SELECT id FROM requests WHERE head_sha = ? ORDER BY opened_at DESC, generation DESC LIMIT 1`;
    return this.#sql.exec<{ id: string }>(query, headSha)[0]?.id ?? null;
  }

  /** False: it stood there like this already. */
  saveRequest(request: GateRequest): boolean {
    const concludedAt = request.state.kind === "concluded" ? request.state.at : null;
    const record = JSON.stringify(request);
    // A look that found nothing new leaves the request as it was.
    const { records } = this.#remembered;
    if (records.get(request.id) === record) return false;
    keepIn(records, request.id, record);
    // Most saves change nothing that is indexed: then one row is written, and no entry of an index.
    const inPlace = this.#sql.exec(
      `UPDATE requests SET record = ?
       WHERE id = ? AND state = ? AND concluded_at IS ? AND check_run_id IS ? RETURNING id`,
      record,
      request.id,
      request.state.kind,
      concludedAt,
      request.check.checkRunId,
    );
    if (inPlace.length === 0) this.#saveWhole(request, concludedAt, record);
    this.#saveAttempt(request);
    // Its text says what it is: nobody has to parse it again.
    keepIn(this.#records, record, request);
    keepIn(this.#remembered.requests, request.id, request);
    return true;
  }

  #saveWhole(request: GateRequest, concludedAt: Millis | null, record: string): void {
    this.#sql.exec(
      `INSERT INTO requests
        (id, kind, pr_number, head_sha, generation, state, opened_at, concluded_at, check_run_id, record)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET state = excluded.state, concluded_at = excluded.concluded_at,
         check_run_id = excluded.check_run_id, record = excluded.record`,
      request.id,
      request.kind,
      request.prNumber,
      request.headSha,
      request.generation,
      request.state.kind,
      request.openedAt,
      concludedAt,
      request.check.checkRunId,
      record,
    );
  }

  /** What is the same as stored is not written: it would be paid for like any other row. */
  #saveAttempt(request: GateRequest): void {
    const state = request.state;
    const attempt = "attempt" in state ? state.attempt : null;
    if (attempt !== null) {
      const { attempts } = this.#remembered;
      const values = [attempt.pod?.id, attempt.proofHash, attempt.exitHash, attempt.runner?.id].join(" ");
      if (attempts.get(attempt.id) !== values) this.#writeAttempt(attempt, request);
      keepIn(attempts, attempt.id, values);
      if (attempt.run !== null) this.#rememberRun(attempt.run.runId, request.id);
    }
    if (state.kind === "preparing" && state.run !== null) this.#rememberRun(state.run.runId, request.id);
  }

  #writeAttempt(attempt: Attempt, request: GateRequest): void {
    this.#sql.exec(
      `INSERT INTO attempts (id, request_id, number, pod_name, pod_id, proof_hash, exit_hash, runner_id, opened_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET pod_id = coalesce(excluded.pod_id, pod_id),
           proof_hash = excluded.proof_hash, exit_hash = excluded.exit_hash,
           runner_id = coalesce(excluded.runner_id, runner_id)
         WHERE pod_id IS NOT coalesce(excluded.pod_id, pod_id)
           OR proof_hash IS NOT excluded.proof_hash OR exit_hash IS NOT excluded.exit_hash
           OR runner_id IS NOT coalesce(excluded.runner_id, runner_id)`,
      attempt.id,
      request.id,
      attempt.number,
      attempt.podName,
      attempt.pod?.id ?? null,
      attempt.proofHash,
      attempt.exitHash,
      attempt.runner?.id ?? null,
      request.openedAt,
    );
  }

  nextRequestId(): string {
    const next = Number(this.meta("next_request") ?? "1");
    this.setMeta("next_request", String(next + 1));
    return requestIdOf(next, this.meta("epoch") ?? "");
  }

  attempt(
    id: string,
  ): { readonly requestId: string; readonly proofHash: string | null; readonly exitHash: string | null } | null {
    const row = this.#sql.exec<{ request_id: string; proof_hash: string | null; exit_hash: string | null }>(
      `SELECT request_id, proof_hash, exit_hash FROM attempts WHERE id = ?`,
      id,
    )[0];
    return row === undefined ? null : { requestId: row.request_id, proofHash: row.proof_hash, exitHash: row.exit_hash };
  }

  attemptOfPodName(podName: string): string | null {
    return this.#sql.exec<{ id: string }>(`SELECT id FROM attempts WHERE pod_name = ?`, podName)[0]?.id ?? null;
  }

  // The lock and its queue.

  lock(): LockRow {
    return (this.#remembered.lock ??= this.#readLock());
  }

  #readLock(): LockRow {
    const row = this.#sql.exec<{ holder: string | null; fence: number; since: number | null }>(
      `SELECT holder, fence, since FROM lock WHERE id = 1`,
    )[0];
    return row === undefined ? FREE_LOCK : readLock(row, () => this.openRequests());
  }

  setLock(lock: LockRow): void {
    this.#sql.exec(
      `UPDATE lock SET holder = ?, fence = ?, since = ? WHERE id = 1`,
      lock.holder,
      lock.fence,
      lock.since,
    );
    this.#remembered.lock = lock;
  }

  enqueue(requestId: string, since: Millis): number {
    this.#remembered.waiting = null;
    this.#sql.exec(`INSERT OR IGNORE INTO queue (request_id, since) VALUES (?, ?)`, requestId, since);
    return this.#sql.exec<{ seq: number }>(`SELECT seq FROM queue WHERE request_id = ?`, requestId)[0]?.seq ?? 0;
  }

  dequeue(requestId: string): void {
    this.#remembered.waiting = null;
    this.#sql.exec(`DELETE FROM queue WHERE request_id = ?`, requestId);
  }

  firstInQueue(): string | null {
    return (
      this.#sql.exec<{ request_id: string }>(`SELECT request_id FROM queue ORDER BY seq LIMIT 1`)[0]?.request_id ?? null
    );
  }

  placeInQueue(requestId: string): number | null {
    if (this.queueLength() === 0) return null;
    const row = this.#sql.exec<{ seq: number }>(`SELECT seq FROM queue WHERE request_id = ?`, requestId)[0];
    if (row === undefined) return null;
    return this.#sql.exec<{ n: number }>(`SELECT count(*) AS n FROM queue WHERE seq <= ?`, row.seq)[0]?.n ?? null;
  }

  queue(limit: number): readonly { readonly requestId: string; readonly since: Millis }[] {
    return this.#sql
      .exec<{ request_id: string; since: number }>(`SELECT request_id, since FROM queue ORDER BY seq LIMIT ?`, limit)
      .map((row) => ({ requestId: row.request_id, since: row.since }));
  }

  queueLength(): number {
    const count = (): number => this.#sql.exec<{ n: number }>(`SELECT count(*) AS n FROM queue`)[0]?.n ?? 0;
    return (this.#remembered.waiting ??= count());
  }

  // Ledger and money.

  ledger(op: LedgerOp, requestId: string): void {
    if (op.kind === "open") {
      this.#sql.exec(
        `INSERT OR IGNORE INTO ledger (pod_id, attempt_id, request_id, gpu_id, tier, price_per_hour, paid_from)
         VALUES (?, ?, ?, ?, ?, ?, ?)`,
        op.podId,
        op.attemptId,
        requestId,
        op.gpuId,
        op.tier,
        op.pricePerHour,
        op.paidFrom,
      );
      return;
    }
    // Exactly one closing line per pod (I2): a second close of the same pod changes nothing.
    this.#sql.exec(
      `UPDATE ledger SET closed_at = ?, proven_at = ?, price_per_hour = coalesce(?, price_per_hour),
         estimate_micros = ?, outcome = ? WHERE pod_id = ? AND closed_at IS NULL`,
      op.closedAt,
      op.provenAt,
      op.pricePerHour,
      op.estimateMicros,
      op.outcome,
      op.podId,
    );
  }

  ledgerLines(limit: number): readonly LedgerLine[] {
    return this.#sql.exec<LedgerLine>(`SELECT * FROM ledger ORDER BY paid_from DESC LIMIT ?`, limit);
  }

  ledgerPodIds(): ReadonlySet<string> {
    return new Set(this.#sql.exec<{ pod_id: string }>(`SELECT pod_id FROM ledger`).map((row) => row.pod_id));
  }

  /** Pods we pay for: bought and not yet proven gone. */
  openLedgerPodIds(): readonly string[] {
    return this.#sql
      .exec<{ pod_id: string }>(`SELECT pod_id FROM ledger WHERE closed_at IS NULL`)
      .map((row) => row.pod_id);
  }

  openLedgerLines(): readonly LedgerLine[] {
    return this.#sql.exec<LedgerLine>(`SELECT * FROM ledger WHERE closed_at IS NULL ORDER BY paid_from`);
  }

  ledgerLine(podId: string): LedgerLine | null {
    return this.#sql.exec<LedgerLine>(`SELECT * FROM ledger WHERE pod_id = ?`, podId)[0] ?? null;
  }

  /** Lines of every pod that was bought for an attempt, closed ones too. */
  ledgerLinesOf(attemptId: string): readonly LedgerLine[] {
    return this.#sql.exec<LedgerLine>(`SELECT * FROM ledger WHERE attempt_id = ?`, attemptId);
  }

  reserveMoney(line: MoneyLineIn): void {
    new MoneyTable(this.#sql).reserve(line, false);
  }

  moneyOf(attemptId: string): MoneyRow | null {
    return new MoneyTable(this.#sql).of(attemptId);
  }

  settleMoney(attemptId: string, micros: number | null): void {
    new MoneyTable(this.#sql).settle(attemptId, micros);
  }

  // Audit, configurations, counters.

  audit(at: Millis, requestId: string | null, note: AuditNote): number {
    const added = this.#sql.exec<{ seq: number }>(
      `INSERT INTO audit (at, request_id, act, reason, facts) VALUES (?, ?, ?, ?, ?) RETURNING seq`,
      at,
      requestId,
      note.act,
      note.reason,
      JSON.stringify(note.facts),
    );
    const seq = added[0]?.seq ?? 0;
    this.#remembered.audited = seq;
    return seq;
  }

  auditAfter(seq: number, limit: number): readonly AuditRow[] {
    // The limit is part of the text: SQLite prepares a statement anew each time its limit is bound.
    return this.#sql.exec<AuditRow>(`SELECT * FROM audit WHERE seq > ? ORDER BY seq LIMIT ${Math.trunc(limit)}`, seq);
  }

  auditOf(requestId: string): readonly AuditRow[] {
    return this.#sql.exec<AuditRow>(`SELECT * FROM audit WHERE request_id = ? ORDER BY seq LIMIT 1000`, requestId);
  }

  /** Entries are sealed in order, so what is not sealed is the end: the look does not grow with the audit. */
  unsealedAudit(limit: number): readonly AuditRow[] {
    const sealed = this.lastSealed()?.seq ?? 0;
    const { audited } = this.#remembered;
    if (audited !== null && audited <= sealed) return [];
    const rows = this.auditAfter(sealed, limit);
    if (rows.length < limit) this.#remembered.audited = rows.at(-1)?.seq ?? sealed;
    return rows;
  }

  lastSealed(): Sealed | null {
    const known = this.#remembered.sealed;
    if (known !== undefined) return known;
    const row = this.#sql.exec<{ seq: number; hash: string }>(
      `SELECT seq, hash FROM audit WHERE hash IS NOT NULL ORDER BY seq DESC LIMIT 1`,
    )[0];
    this.#remembered.sealed = row ?? null;
    return row ?? null;
  }

  /** `facts`: in the place of the row's own, which do not read. */
  sealAudit(seq: number, hash: string, facts: string | null = null): void {
    const sealed = `UPDATE audit SET hash = ?, facts = coalesce(?, facts) WHERE seq = ? AND hash IS NULL`;
    this.#sql.exec(sealed, hash, facts, seq);
    this.#remembered.sealed = undefined;
  }

  /** A configuration never changes under its hash, so it is parsed once. */
  config(hash: string): RepositoryConfig | null {
    const kept = this.#configs.get(hash);
    if (kept !== undefined) return kept;
    const row = this.#sql.exec<{ config: string }>(`SELECT config FROM configs WHERE hash = ?`, hash)[0];
    if (row === undefined) return null;
    const config = storedConfig(storedJson(row.config));
    if (config === null) return null;
    // A handful at most are in use at once.
    if (this.#configs.size >= 20) this.#configs.clear();
    this.#configs.set(hash, config);
    return config;
  }

  rememberConfig(hash: string, config: RepositoryConfig): void {
    if (this.#configs.has(hash)) return;
    this.#sql.exec(`INSERT OR IGNORE INTO configs (hash, config) VALUES (?, ?)`, hash, JSON.stringify(config));
  }

  /**
   * Counters are kept in memory and written with `flushCounters`: they are told, never decided with, and a write per
   * delivery would cost more than the delivery.
   */
  count(name: string, by = 1): void {
    this.#counted.set(name, (this.#counted.get(name) ?? 0) + by);
  }

  flushCounters(): void {
    for (const [name, by] of this.#counted) {
      this.#sql.exec(
        `INSERT INTO counters (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = min(value + excluded.value, ${Number.MAX_SAFE_INTEGER})`,
        name,
        by,
      );
    }
    this.#counted.clear();
  }

  counters(): Readonly<Record<string, number>> {
    this.flushCounters();
    return Object.fromEntries(
      this.#sql
        .exec<{ name: string; value: number }>(`SELECT name, value FROM counters`)
        .map((row) => [row.name, row.value]),
    );
  }

  // Strays.

  stray(podId: string): StrayRow | null {
    return this.#sql.exec<StrayRow>(`SELECT * FROM strays WHERE pod_id = ?`, podId)[0] ?? null;
  }

  saveStray(row: StrayRow): void {
    this.#sql.exec(
      `INSERT OR REPLACE INTO strays (pod_id, why, since, done_at, record) VALUES (?, ?, ?, ?, ?)`,
      row.pod_id,
      row.why,
      row.since,
      row.done_at,
      row.record,
    );
  }

  openStrays(): readonly StrayRow[] {
    return this.#sql.exec<StrayRow>(`SELECT * FROM strays WHERE done_at IS NULL ORDER BY since`);
  }

  #rememberRun(runId: string, requestId: string): void {
    const { runs } = this.#remembered;
    if (runs.get(runId) === requestId) return;
    keepIn(runs, runId, requestId);
    this.#sql.exec(
      `INSERT INTO runs (run_id, request_id) VALUES (?, ?)
       ON CONFLICT (run_id) DO UPDATE SET request_id = excluded.request_id WHERE request_id <> excluded.request_id`,
      runId,
      requestId,
    );
  }

  /**
   * Records that read. One that does not (a newer deployment's, or damage) is parked: it hides no other and is counted; its
   * tasks wait, and cron takes care of a pod it may own.
   */
  #requests(query: string, ...bindings: SqlValue[]): GateRequest[] {
    return this.#sql.exec<{ record: string }>(query, ...bindings).flatMap((row) => {
      const parsed = this.#read(row.record);
      if (parsed === null) this.count("requests.unreadable");
      return parsed === null ? [] : [parsed];
    });
  }

  /** A step reads its request several times over: the same text is the same value, and is parsed once. */
  #read(record: string): GateRequest | null {
    const known = this.#records.get(record);
    if (known !== undefined) return known;
    const parsed = readRecord(record);
    if (parsed !== null) keepIn(this.#records, record, parsed);
    return parsed;
  }
}
