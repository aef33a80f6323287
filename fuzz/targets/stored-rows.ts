/**
 * Rows of the gate's and the account's databases, damaged between two steps while requests live: records that are no JSON or
 * of another shape, words where numbers were, states nobody has met. Nothing may be thrown out of the gate, nothing may be
 * bought twice, no check may turn green, every pod must go, at the latest at its backstop, and every request that no damaged
 * row is about must come to its end and say so.
 */
import * as fc from "fast-check";
import type { SqlValue } from "../../durable-objects/gate/ports.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import { checkersFor } from "../../sim/checkers/index.ts";
import type { SimSql } from "../../sim/sql.ts";
import type { Checker } from "../../sim/view.ts";
import { wrongType } from "../json.ts";
import { live } from "../life.ts";
import { target } from "../target.ts";

export interface RowDamage {
  readonly where: "gate" | "account";
  /** Thousandths of the first twenty virtual minutes. */
  readonly when: number;
  readonly table: number;
  readonly row: number;
  readonly column: number;
  readonly by: number;
  readonly crash: boolean;
}

export interface RowsCase {
  readonly seed: number;
  readonly damage: readonly RowDamage[];
}

const damage: fc.Arbitrary<RowDamage> = fc.record({
  where: fc.oneof(
    { weight: 4, arbitrary: fc.constant("gate" as const) },
    { weight: 1, arbitrary: fc.constant("account" as const) },
  ),
  when: fc.nat(999),
  table: fc.nat(30),
  row: fc.nat(50),
  column: fc.nat(20),
  by: fc.nat(200),
  crash: fc.boolean(),
});

export const storedRows = target<RowsCase>({
  name: "stored-rows",
  about: "whole lives in the simulator with damaged rows",
  share: 0.3,
  sample: 0,
  hangMs: 180_000,
  cases: fc.record({ seed: fc.nat(1_000_000), damage: fc.array(damage, { minLength: 1, maxLength: 5 }) }),
  open: async () => openRows(() => checkersFor().filter(({ name }) => HOLDING.has(name))),
});

/** What must hold whatever the rows say: the other checkers read those rows to know what to expect. */
const HOLDING = new Set(["I1", "I3", "I5"]);

export function openRows(checkers: () => readonly Checker[]) {
  return {
    async judge(given: RowsCase): Promise<string | null> {
      const done: string[] = [];
      const touched = new Set<string>();
      const { wrong } = await live({
        seed: given.seed,
        pulls: 2,
        checkers: checkers(),
        healMs: 4 * 3_600_000,
        atEnd(ended) {
          const alive = ended.runpod.pods.filter((pod) => pod.releasedAt === null);
          if (alive.length > 0) return `${alive.length} pods live on`;
          const waiting = openOthers(ended.hosts[0]?.sql, touched);
          return waiting.length === 0 ? null : `${waiting.join(", ")} never ended`;
        },
        prepare(made) {
          for (const one of given.damage) {
            made.scheduler.in(one.when * 1_200, "row damaged", () => {
              const [host] = made.hosts;
              if (host === undefined) return;
              const said = damageRow(one.where === "gate" ? host.sql : made.account.sql, one, touched);
              if (said !== null) done.push(said);
              if (one.crash && one.where === "gate") host.crash(500);
            });
          }
        },
      });
      return wrong === null ? null : `${wrong} (after ${done.join("; ")})`;
    },
    close: async () => undefined,
  };
}

/** Requests without an end, or whose end was not said, that no damaged row was about. */
function openOthers(sql: SimSql | undefined, touched: ReadonlySet<string>): readonly string[] {
  if (sql === undefined) return [];
  const store = new Store(sql);
  const { holder } = store.lock();
  // Who waits behind a holder that does not read waits for the operator's word (docs/operations.md).
  const stuck = holder !== null && store.isParked(holder);
  const rows = sql.exec<{ id: string }>("SELECT id FROM requests");
  return rows.flatMap(({ id }) => {
    if ([...touched].some((text) => text.includes(id))) return [];
    const request = store.request(id);
    if (request === null) return [`${id} (unreadable)`];
    if (stuck && request.state.kind === "queued") return [];
    if (request.state.kind !== "concluded") return [`${id} (${request.state.kind})`];
    return request.check.completed ? [] : [`${id} (unsaid)`];
  });
}

const WORDS: readonly SqlValue[] = ["x", "", "of-next-year", "null", "NaN", "-1", "1e999", "__proto__", "\ud800", "[]"];
/** Values in the place of a number: no number, or one that nobody can have meant. */
const NUMBERS: readonly SqlValue[] = ["x", "", -1, 9_007_199_254_740_991, 1.5, "9e99", "2026-11-30"];
/** A lie of the right form cannot be told from the truth: ids, hashes and names are left alone. */
const TEXT_COLUMNS = new Set(["state", "kind", "lane", "outcome", "act", "tier", "why", "value"]);
const JSON_TEXTS = ["not json", "", "null", "[]", "{}", "0", '"x"', '{"id":', '{"__proto__":{"polluted":1}}'];

/** What was done, and into `touched` whatever text the row held; null when there was nothing to damage there. */
export function damageRow(
  sql: Pick<SimSql, "exec">,
  { table, row, column, by }: RowDamage,
  touched = new Set<string>(),
): string | null {
  const tables = sql
    .exec<{ name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
    )
    .map(({ name }) => name)
    .filter(
      (name) =>
        name !== "schema_version" && (sql.exec<{ n: number }>(`SELECT count(*) AS n FROM "${name}"`)[0]?.n ?? 0) > 0,
    );
  const name = tables[table % Math.max(1, tables.length)];
  if (name === undefined) return null;
  const columns = sql.exec<{ name: string; type: string; pk: number }>(
    `SELECT name, type, pk FROM pragma_table_info('${name}')`,
  );
  const rows = sql.exec<Record<string, SqlValue>>(`SELECT * FROM "${name}"`);
  const present = rows[row % rows.length] ?? {};
  const looksJson = (value: SqlValue | undefined): value is string => typeof value === "string" && /^[[{]/.test(value);
  const open = columns.filter(
    (one) => one.pk === 0 && (one.type !== "TEXT" || TEXT_COLUMNS.has(one.name) || looksJson(present[one.name])),
  );
  const chosen = open[column % Math.max(1, open.length)];
  const key = columns.find((one) => one.pk > 0);
  if (chosen === undefined || key === undefined) return null;
  const was = present[chosen.name];
  let value: SqlValue | undefined;
  if (looksJson(was)) {
    value = by % 2 === 0 ? JSON_TEXTS[by % JSON_TEXTS.length] : wrongType(JSON.parse(was), [{ at: by * 7, by }]);
  } else value = chosen.type === "TEXT" ? WORDS[by % WORDS.length] : NUMBERS[by % NUMBERS.length];
  try {
    sql.exec(
      `UPDATE "${name}" SET "${chosen.name}" = ? WHERE "${key.name}" = ?`,
      value ?? null,
      present[key.name] ?? null,
    );
  } catch {
    // A constraint of the schema would not have it.
    return null;
  }
  // Whatever else stands in the row may be of whom it is about.
  for (const text of Object.values(present)) if (typeof text === "string") touched.add(text);
  const which = name === "meta" ? `[${String(present["key"])}]` : "";
  return `${name}${which}.${chosen.name} = ${JSON.stringify(value)?.slice(0, 120)}`;
}
