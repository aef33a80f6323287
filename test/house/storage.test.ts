import { describe, expect, it } from "vitest";
import * as z from "zod";
import { Account } from "../../durable-objects/account/account.ts";
import { aggregateRecordSchema } from "../../durable-objects/gate/aggregates.ts";
import type { Sql } from "../../durable-objects/gate/ports.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { configFrom } from "../../shared/config/load.ts";
import { requestSchema, stateKinds, stateSchema } from "../../shared/lifecycle/model.ts";
import { taskSchema } from "../../shared/lifecycle/tasks.ts";
import { reasonEntry, isReasonCode } from "../../shared/audit/reasons.ts";
import { BEGIN, END, examples } from "../../scripts/storage-examples.ts";
import { nodeSql } from "../support/node-sql.ts";
import { filesUnder, read } from "./source.ts";

const page = read("docs/storage.md");
const section = (title: string): string => page.split(/^## /m).find((part) => part.startsWith(`${title}\n`)) ?? "";

function gateSql(): Sql {
  const sql = nodeSql();
  migrate(sql);
  return sql;
}

function accountSql(): Sql {
  const sql = nodeSql();
  // The account makes its own tables when it is made; nothing is asked of RunPod for that.
  void new Account({ sql, clock: { now: () => 0 }, runpod: {} as never, monthlyCapMicros: 0 });
  return sql;
}

/** `table.column` of every table there is. */
function columnsOf(sql: Sql): readonly string[] {
  return sql
    .exec<{ name: string }>(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`)
    .flatMap(({ name }) =>
      sql.exec<{ name: string }>(`SELECT name FROM pragma_table_info('${name}')`).map((row) => `${name}.${row.name}`),
    )
    .sort();
}

describe.each([
  ["RepositoryGate", gateSql(), [] as readonly string[]],
  // Both have a version row and a table of single values: described once.
  ["RunPodAccount", accountSql(), ["schema_version.id", "schema_version.version", "meta.key", "meta.value"]],
] as const)("docs/storage.md on %s", (title, sql, elsewhere) => {
  const text = section(title);
  // First cells of the table of columns.
  const named = [...text.matchAll(/^\| ((?:`[a-z_]+\.[a-z_]+`(?:, )?)+) \|/gm)].flatMap((match) =>
    (match[1] ?? "").split(", ").map((cell) => cell.replaceAll("`", "")),
  );
  const columns = columnsOf(sql);
  const tables = new Set(columns.map((column) => column.split(".")[0] ?? ""));

  it("has a row for every table, and none for a table that is not there", () => {
    const rows = [...text.matchAll(/^\| `([a-z_]+)` \| [^|]+ \| [^|]+ \|$/gm)].map((match) => match[1] ?? "");
    expect(rows.sort()).toEqual([...tables].sort());
  });

  it("names every column, and no column that is not there", () => {
    expect([...named, ...elsewhere].sort()).toEqual([...new Set([...columns, ...elsewhere])].sort());
  });
});

describe("docs/storage.md on single values", () => {
  it("names every key that the code writes", () => {
    const written = filesUnder("durable-objects", ".ts").flatMap((file) =>
      [...read(file).matchAll(/(?:setMeta|#set)\("([a-z_]+)"|VALUES \('([a-z_]+)', \?\)/g)].map(
        (match) => match[1] ?? match[2] ?? "",
      ),
    );
    expect(written).toContain("repository_id");
    expect(written.filter((key) => !page.includes(`\`${key}\``))).toEqual([]);
  });
});

/** A row's JSON column with the schema by which the code reads it back. */
function parseRow(table: string, row: Readonly<Record<string, unknown>>): z.ZodSafeParseResult<unknown> {
  if (table === "tasks") return taskSchema.safeParse(row["payload"]);
  if (table === "audit")
    return z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])).safeParse(row["facts"]);
  if (table === "aggregates") return aggregateRecordSchema.safeParse(row["record"]);
  if (table !== "requests") return z.unknown().safeParse(row);
  const record = row["record"] as Readonly<Record<string, unknown>>;
  return "id" in record ? requestSchema.safeParse(record) : stateSchema.safeParse(record["state"]);
}

describe("the example rows of docs/storage.md", () => {
  const shown = page.slice(page.indexOf(BEGIN), page.indexOf(END));
  const rows = shown
    .split(/^### /m)
    .slice(1)
    .flatMap((part) => {
      const stage = part.split("\n")[0] ?? "";
      return [...part.matchAll(/^`([a-z_]+)`\n\n```json\n([\s\S]*?)\n```$/gm)].map((match) => ({
        stage,
        table: match[1] ?? "",
        row: z.record(z.string(), z.unknown()).parse(JSON.parse(match[2] ?? "")),
      }));
    });
  const columns = columnsOf(gateSql());

  it("show every table at least once", () => {
    const tables = [...new Set(columns.map((column) => column.split(".")[0] ?? ""))];
    expect(tables.filter((table) => table !== "schema_version" && !rows.some((row) => row.table === table))).toEqual(
      [],
    );
  });

  it("show a request at every state it can rest in", () => {
    const states = new Set(rows.filter(({ table }) => table === "requests").map(({ row }) => row["state"]));
    // `received` and `revalidating` are passed through within one step of this life.
    expect(stateKinds.filter((kind) => !states.has(kind))).toEqual(["received", "revalidating"]);
  });

  it("have exactly the columns of their tables", () => {
    for (const { stage, table, row } of rows) {
      const own = columns
        .filter((column) => column.startsWith(`${table}.`))
        .map((column) => column.slice(table.length + 1));
      expect([stage, table, Object.keys(row).sort()]).toEqual([stage, table, own]);
    }
  });

  it("parse as what the code reads back", () => {
    const problems = rows.flatMap(({ stage, table, row }) => {
      const parsed = parseRow(table, row);
      return parsed.success ? [] : [`${stage} ${table}: ${z.prettifyError(parsed.error)}`];
    });
    expect(problems).toEqual([]);
    expect(rows.filter(({ table, row }) => table === "requests" && "id" in (row["record"] as object))).toHaveLength(1);
  });

  it("use reason codes that exist", () => {
    const ended = rows.find(({ stage, table }) => stage === "concluded" && table === "requests");
    const { state } = z
      .object({ state: z.object({ verdict: z.object({ reason: z.string() }) }) })
      .parse(ended?.row["record"]);
    expect(isReasonCode(state.verdict.reason) && reasonEntry(state.verdict.reason).sentence).toBeTruthy();
  });

  it("can be made again: the life still goes from the webhook to a green check", () => {
    const again = examples();
    expect(again.map(({ stage, table }) => `${stage} ${table}`)).toEqual(
      rows.map(({ stage, table }) => `${stage} ${table}`),
    );
    expect(again.find(({ table }) => table === "configs")?.row["config"]).toBe(JSON.stringify(configFrom()));
  });
});
