/**
 * The gate's database: one schema, one version number, migrations in order. Documented in docs/storage.md.
 *
 * A stored version newer than this code puts the gate into read-only mode: it decides nothing new and still deletes pods.
 */
import { newEpoch } from "../../shared/lifecycle/request-id.ts";
import type { Random } from "../../shared/ports.ts";
import type { Sql } from "./ports.ts";

export const SCHEMA_VERSION = 2;

export const MIGRATIONS: readonly (readonly string[])[] = [
  [
    `CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)`,
    // One row per delivery that was processed, by GitHub's guid: a redelivery of a processed one changes nothing.
    `CREATE TABLE deliveries (
      guid TEXT PRIMARY KEY, event TEXT NOT NULL, at INTEGER NOT NULL, outcome TEXT NOT NULL) WITHOUT ROWID`,
    `CREATE INDEX deliveries_at ON deliveries (at)`,
    `CREATE TABLE requests (
      id TEXT PRIMARY KEY, kind TEXT NOT NULL, pr_number INTEGER, head_sha TEXT NOT NULL, generation INTEGER NOT NULL,
      state TEXT NOT NULL, opened_at INTEGER NOT NULL, concluded_at INTEGER, check_run_id TEXT, record TEXT NOT NULL)`,
    `CREATE UNIQUE INDEX requests_head ON requests (head_sha, kind, generation)`,
    `CREATE UNIQUE INDEX requests_open ON requests (head_sha, kind) WHERE state <> 'concluded'`,
    `CREATE INDEX requests_pull ON requests (pr_number, opened_at)`,
    `CREATE INDEX requests_check ON requests (check_run_id)`,
    `CREATE INDEX requests_state ON requests (state, opened_at)`,
    // The lock: one row. The queue: first in, first out by sequence number.
    `CREATE TABLE lock (id INTEGER PRIMARY KEY CHECK (id = 1), holder TEXT, fence INTEGER NOT NULL, since INTEGER)`,
    `INSERT INTO lock (id, holder, fence, since) VALUES (1, NULL, 0, NULL)`,
    `CREATE TABLE queue (seq INTEGER PRIMARY KEY AUTOINCREMENT, request_id TEXT NOT NULL UNIQUE, since INTEGER NOT NULL)`,
    // Every attempt ever begun; a pod's calls are checked against it by hash.
    `CREATE TABLE attempts (
      id TEXT PRIMARY KEY, request_id TEXT NOT NULL, number INTEGER NOT NULL, pod_name TEXT NOT NULL, pod_id TEXT,
      proof_hash TEXT, exit_hash TEXT, runner_id TEXT, opened_at INTEGER NOT NULL)`,
    `CREATE INDEX attempts_pod ON attempts (pod_id)`,
    `CREATE INDEX attempts_runner ON attempts (runner_id)`,
    `CREATE INDEX attempts_name ON attempts (pod_name)`,
    // Machines on which an attempt failed by the machine's doing: avoided for a while.
    `CREATE TABLE bad_hosts (
      attempt_id TEXT PRIMARY KEY, gpu_uuid TEXT, data_center TEXT, at INTEGER NOT NULL, why TEXT NOT NULL)`,
    `CREATE INDEX bad_hosts_gpu ON bad_hosts (gpu_uuid, at)`,
    // Our runs, so that a webhook about one finds its request.
    `CREATE TABLE runs (run_id TEXT PRIMARY KEY, request_id TEXT NOT NULL)`,
    // One line per pod ever bought: opened when we learn of it, closed when it is proven gone.
    `CREATE TABLE ledger (
      pod_id TEXT PRIMARY KEY, attempt_id TEXT NOT NULL, request_id TEXT NOT NULL, gpu_id TEXT, tier TEXT NOT NULL,
      price_per_hour REAL, paid_from INTEGER NOT NULL, closed_at INTEGER, proven_at INTEGER, estimate_micros INTEGER,
      outcome TEXT, billed_micros INTEGER)`,
    // Money of one attempt: reserved before anything is bought, then spent or released, then final. Confirmed: the account
    // has said yes. Raised: its pod has cost more than was reserved.
    `CREATE TABLE money (
      attempt_id TEXT PRIMARY KEY, request_id TEXT NOT NULL, pr_number INTEGER, author_id TEXT, micros INTEGER NOT NULL,
      state TEXT NOT NULL, at INTEGER NOT NULL, confirmed INTEGER NOT NULL DEFAULT 0, raised INTEGER NOT NULL DEFAULT 0)`,
    `CREATE INDEX money_at ON money (at)`,
    // The stage report of each closed ledger line, as JSON.
    `CREATE TABLE costs (
      attempt_id TEXT PRIMARY KEY, pod_id TEXT NOT NULL UNIQUE, request_id TEXT NOT NULL, at INTEGER NOT NULL,
      report TEXT NOT NULL)`,
    `CREATE INDEX costs_at ON costs (at)`,
    `CREATE INDEX costs_request ON costs (request_id)`,
    // Pods that carry our name and belong to no open attempt: removed on their own.
    `CREATE TABLE strays (
      pod_id TEXT PRIMARY KEY, why TEXT NOT NULL, since INTEGER NOT NULL, done_at INTEGER, record TEXT NOT NULL)`,
    // Intent before call: a task is stored, marked running, performed, and removed with its outcome.
    `CREATE TABLE tasks (
      id INTEGER PRIMARY KEY AUTOINCREMENT, lane TEXT NOT NULL, subject TEXT NOT NULL, kind TEXT NOT NULL,
      payload TEXT NOT NULL, due_at INTEGER NOT NULL, created_at INTEGER NOT NULL, started_at INTEGER,
      tries INTEGER NOT NULL DEFAULT 0)`,
    `CREATE UNIQUE INDEX tasks_lane ON tasks (lane, subject)`,
    `CREATE INDEX tasks_due ON tasks (due_at)`,
    // Heads that the aggregator answers for. Live: of an open pull request. The record is the look's, the rest the hints'.
    `CREATE TABLE aggregates (
      head_sha TEXT PRIMARY KEY, pr_number INTEGER NOT NULL, live INTEGER NOT NULL, heard_at INTEGER NOT NULL,
      again_at INTEGER, draft_at INTEGER, record TEXT NOT NULL)`,
    `CREATE INDEX aggregates_pull ON aggregates (pr_number, live)`,
    `CREATE INDEX aggregates_live ON aggregates (live, heard_at)`,
    `CREATE TABLE audit (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, request_id TEXT, act TEXT NOT NULL, reason TEXT,
      facts TEXT NOT NULL, hash TEXT)`,
    `CREATE INDEX audit_request ON audit (request_id, seq)`,
    // Identity tokens of hosted jobs are good for one call: their ids, until the tokens are too old anyway.
    `CREATE TABLE tokens (jti TEXT PRIMARY KEY, expires_at INTEGER NOT NULL)`,
    // Which request a maintainer's dispatched run asked for: the same run asking again gets the same one.
    `CREATE TABLE dispatches (run_id TEXT PRIMARY KEY, request_id TEXT NOT NULL, at INTEGER NOT NULL)`,
    // Which trees were tested, under which rules, and how that ended.
    `CREATE TABLE greens (
      request_id TEXT PRIMARY KEY, tree_sha TEXT NOT NULL, workflows TEXT NOT NULL, config_hash TEXT NOT NULL,
      kind TEXT NOT NULL, evidence INTEGER NOT NULL, at INTEGER NOT NULL)`,
    `CREATE INDEX greens_tree ON greens (tree_sha, at)`,
    `CREATE INDEX greens_at ON greens (at)`,
    `CREATE TABLE configs (hash TEXT PRIMARY KEY, config TEXT NOT NULL)`,
    `CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL)`,
  ],
  // Ids carry the epoch of the database that counted them. One that counted without an epoch goes on so: names in flight
  // keep their form.
  [`INSERT INTO meta (key, value) VALUES ('epoch', '')`],
];

/** A database that was empty until now gets an epoch of its own, so that no id it gives was ever given before. */
export function beginEpoch(sql: Sql, random: Random): void {
  sql.exec(`UPDATE meta SET value = ? WHERE key = 'epoch'`, newEpoch(random));
}

/**
 * Brings the database to this code's version, in one transaction: a crash leaves the old version whole, and the next start
 * begins again. `created` is done within it, for a database that was empty. Read-only: a newer version was found, and
 * nothing may be decided.
 */
export function migrate(
  sql: Sql,
  migrations: readonly (readonly string[])[] = MIGRATIONS,
  created: (sql: Sql) => void = () => undefined,
): { readonly readOnly: boolean } {
  return sql.transaction(() => {
    sql.exec(
      `CREATE TABLE IF NOT EXISTS schema_version (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL)`,
    );
    const found = sql.exec<{ version: number }>(`SELECT version FROM schema_version WHERE id = 1`)[0]?.version ?? 0;
    if (found > migrations.length) return { readOnly: true };
    for (const [index, statements] of migrations.entries()) {
      if (index < found) continue;
      for (const statement of statements) sql.exec(statement);
    }
    if (found === 0) created(sql);
    if (found !== migrations.length) {
      sql.exec(`INSERT OR REPLACE INTO schema_version (id, version) VALUES (1, ?)`, migrations.length);
    }
    return { readOnly: false };
  });
}
