/** A database as the version before this one left it. */
import { SCHEMA_VERSION } from "../durable-objects/gate/schema.ts";
import type { Sql } from "../durable-objects/gate/ports.ts";

/** What a step up added, taken away again: a version whose steps only add columns or tables can be simulated. */
export function olderSchema(sql: Sql): string {
  return `schema ${SCHEMA_VERSION} has no version before it (${sql.exec("SELECT version FROM schema_version").length} row)`;
}
