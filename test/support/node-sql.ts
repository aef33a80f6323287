/** node:sqlite as the gate's `Sql`: the same statements and transactions, in memory or in a file, without workerd. */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { Sql, SqlValue } from "../../durable-objects/gate/ports.ts";

export interface NodeSql extends Sql {
  close(): void;
}

export function nodeSql(file = ":memory:"): NodeSql {
  const database = new DatabaseSync(file);
  /** The gate's statements are few and constant: preparing them is most of what they cost. */
  const statements = new Map<string, StatementSync>();
  const prepared = (query: string): StatementSync => {
    const known = statements.get(query);
    if (known !== undefined) return known;
    const made = database.prepare(query);
    statements.set(query, made);
    return made;
  };
  let depth = 0;
  return {
    exec: <Row extends Record<string, SqlValue>>(query: string, ...bindings: SqlValue[]): Row[] =>
      prepared(query).all(...bindings) as Row[],
    transaction(body) {
      // Savepoints nest, as transactionSync does.
      const name = `s${depth}`;
      depth += 1;
      database.exec(`SAVEPOINT ${name}`);
      try {
        const value = body();
        database.exec(`RELEASE ${name}`);
        return value;
      } catch (error) {
        database.exec(`ROLLBACK TO ${name}`);
        database.exec(`RELEASE ${name}`);
        throw error;
      } finally {
        depth -= 1;
      }
    },
    close: () => database.close(),
  };
}
