/** node:sqlite as the gate's `Sql`: the same statements and transactions, in memory or in a file, without workerd. */
import { DatabaseSync } from "node:sqlite";
import type { Sql, SqlValue } from "../../durable-objects/gate/ports.ts";

export interface NodeSql extends Sql {
  close(): void;
}

export function nodeSql(file = ":memory:"): NodeSql {
  const database = new DatabaseSync(file);
  let depth = 0;
  return {
    exec: <Row extends Record<string, SqlValue>>(query: string, ...bindings: SqlValue[]): Row[] =>
      database.prepare(query).all(...bindings) as Row[],
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
