/** node:sqlite as the gate's `Sql`, with statements prepared once: what a Durable Object's storage does as well. */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { Sql, SqlValue } from "../durable-objects/gate/ports.ts";

export interface SimSql extends Sql {
  close(): void;
}

/** `touched` hears of every statement. */
export function simSql(touched: () => void): SimSql {
  const database = new DatabaseSync(":memory:");
  const statements = new Map<string, StatementSync>();
  let depth = 0;
  const prepared = (query: string): StatementSync => {
    let statement = statements.get(query);
    if (statement === undefined) {
      statement = database.prepare(query);
      statements.set(query, statement);
    }
    return statement;
  };
  return {
    exec: <Row extends Record<string, SqlValue>>(query: string, ...bindings: SqlValue[]): Row[] => {
      touched();
      return prepared(query).all(...bindings) as Row[];
    },
    transaction(body) {
      const name = `s${depth}`;
      depth += 1;
      prepared(`SAVEPOINT ${name}`).run();
      try {
        const value = body();
        prepared(`RELEASE ${name}`).run();
        return value;
      } catch (error) {
        prepared(`ROLLBACK TO ${name}`).run();
        prepared(`RELEASE ${name}`).run();
        throw error;
      } finally {
        depth -= 1;
      }
    },
    close: () => database.close(),
  };
}
