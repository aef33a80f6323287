/** The account's single values by name. */
import type { Sql } from "../gate/ports.ts";

export function metaOf(sql: Sql, key: string): string | null {
  return sql.exec<{ value: string }>(`SELECT value FROM meta WHERE key = ?`, key)[0]?.value ?? null;
}

/** What stands there already is not written: cron says most of these every minute. */
export function keepMeta(sql: Sql, key: string, value: string): void {
  sql.exec(
    `INSERT INTO meta (key, value) VALUES (?, ?)
     ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value <> excluded.value`,
    key,
    value,
  );
}

/** The values whose keys begin with `prefix`, in the order of their keys. */
export function metasUnder(sql: Sql, prefix: string): readonly { readonly key: string; readonly value: string }[] {
  return sql.exec<{ key: string; value: string }>(
    `SELECT key, value FROM meta WHERE key >= ? AND key < ? ORDER BY key`,
    prefix,
    `${prefix}\u{10ffff}`,
  );
}

export function dropMeta(sql: Sql, key: string): void {
  sql.exec(`DELETE FROM meta WHERE key = ?`, key);
}
