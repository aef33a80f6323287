/** A database as the version before this one left it: what the last step up added is taken away again. */
import type { Sql } from "../durable-objects/gate/ports.ts";
import { SCHEMA_VERSION } from "../durable-objects/gate/schema.ts";

/** What undoes each step, by the version that it led to. A new step of the schema has its line here. */
const UNDO: Readonly<Record<number, readonly string[]>> = {
  2: ["DELETE FROM meta WHERE key = 'epoch'"],
};

/** Takes the newest step back; the next start makes it again, on everything that is stored by then. */
export function olderSchema(sql: Sql): string {
  const undo = UNDO[SCHEMA_VERSION];
  if (undo === undefined) throw new Error(`sim/schema-steps.ts does not say what undoes schema ${SCHEMA_VERSION}`);
  sql.transaction(() => {
    for (const statement of undo) sql.exec(statement);
    sql.exec("UPDATE schema_version SET version = ? WHERE id = 1", SCHEMA_VERSION - 1);
  });
  return `the database is as version ${SCHEMA_VERSION - 1} left it`;
}
