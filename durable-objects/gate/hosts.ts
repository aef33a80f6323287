/**
 * The gate's memory of bad hosts: which card and which data centre an attempt failed on, when and why. Rows grow old and are
 * forgotten; how much an old one still counts is `shared/runpod/bad-hosts.ts`.
 */
import type { BadHost } from "../../shared/lifecycle/step.ts";
import type { Millis } from "../../shared/ports.ts";
import type { Sql } from "./ports.ts";

/** No configuration remembers for longer. */
const LONGEST_MEMORY_MS = 7 * 86_400_000;

/** Called inside the step's transaction; an attempt fails once. */
export function rememberHost(sql: Sql, host: BadHost, at: Millis): void {
  sql.exec(
    `INSERT OR IGNORE INTO bad_hosts (attempt_id, gpu_uuid, data_center, at, why) VALUES (?, ?, ?, ?, ?)`,
    host.attemptId,
    host.gpuUuid,
    host.dataCenterId,
    at,
    host.why,
  );
}

/** How often this card has failed since then. */
export function failuresOf(sql: Sql, gpuUuid: string, since: Millis): number {
  const row = sql.exec<{ n: number }>(
    `SELECT count(*) AS n FROM bad_hosts WHERE gpu_uuid = ? AND at > ?`,
    gpuUuid,
    since,
  )[0];
  return row?.n ?? 0;
}

export function badDataCenters(
  sql: Sql,
  since: Millis,
): readonly { readonly dataCenterId: string; readonly at: Millis }[] {
  return sql
    .exec<{ data_center: string; at: number }>(
      `SELECT data_center, at FROM bad_hosts WHERE data_center IS NOT NULL AND at > ? ORDER BY at DESC LIMIT 1000`,
      since,
    )
    .map((row) => ({ dataCenterId: row.data_center, at: row.at }));
}

export function forgetHosts(sql: Sql, now: Millis): void {
  sql.exec(`DELETE FROM bad_hosts WHERE at < ?`, now - LONGEST_MEMORY_MS);
}
