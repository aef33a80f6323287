/**
 * The gates' own books, read from the files that workerd left behind: what was stored is judged, not what a page says.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

export interface GateBooks {
  readonly repositoryId: string;
  /** By guid. */
  readonly deliveries: ReadonlyMap<string, { readonly event: string; readonly outcome: string }>;
  readonly requests: readonly GateRow[];
  readonly ledger: readonly LedgerRow[];
  readonly lockHolder: string | null;
  readonly waiting: number;
  /** Tasks that should have been done a while ago. */
  readonly overdue: readonly string[];
  readonly counters: Readonly<Record<string, number>>;
}

export interface GateRow {
  readonly id: string;
  readonly headSha: string;
  readonly generation: number;
  readonly state: string;
  readonly verdict: string | null;
  readonly reason: string | null;
}

export interface LedgerRow {
  readonly podId: string;
  readonly closedAt: number | null;
  readonly provenAt: number | null;
  readonly estimateMicros: number | null;
}

const OVERDUE_MS = 30_000;

/** Every gate's database below `stateDir`. The Worker must have ended. */
export function readGates(stateDir: string, now: number): readonly GateBooks[] {
  const files = readdirSync(stateDir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".sqlite"))
    .map((entry) => join(entry.parentPath, entry.name));
  return files.flatMap((file) => {
    const database = new DatabaseSync(file);
    try {
      return readGate(database, now);
    } finally {
      database.close();
    }
  });
}

type Row = Record<string, unknown>;

function readGate(database: DatabaseSync, now: number): readonly GateBooks[] {
  const all = (query: string, ...values: (string | number)[]): Row[] => database.prepare(query).all(...values);
  const tables = new Set(all(`SELECT name FROM sqlite_master WHERE type = 'table'`).map((row) => row["name"]));
  if (!tables.has("deliveries") || !tables.has("ledger")) return [];
  const id = all(`SELECT value FROM meta WHERE key = 'repository_id'`)[0]?.["value"];
  if (typeof id !== "string") return [];
  return [
    {
      repositoryId: id,
      deliveries: new Map(
        all(`SELECT guid, event, outcome FROM deliveries`).map((row) => [
          text(row["guid"]),
          { event: text(row["event"]), outcome: text(row["outcome"]) },
        ]),
      ),
      requests: all(`SELECT id, head_sha, generation, state, record FROM requests`).map((row) => {
        const record = JSON.parse(text(row["record"])) as {
          state: { verdict?: { kind?: string; reason?: string } };
        };
        return {
          id: text(row["id"]),
          headSha: text(row["head_sha"]),
          generation: Number(row["generation"]),
          state: text(row["state"]),
          verdict: record.state.verdict?.kind ?? null,
          reason: record.state.verdict?.reason ?? null,
        };
      }),
      ledger: all(`SELECT pod_id, closed_at, proven_at, estimate_micros FROM ledger`).map((row) => ({
        podId: text(row["pod_id"]),
        closedAt: number(row["closed_at"]),
        provenAt: number(row["proven_at"]),
        estimateMicros: number(row["estimate_micros"]),
      })),
      lockHolder: optional(all(`SELECT holder FROM lock`)[0]?.["holder"]),
      waiting: Number(all(`SELECT count(*) AS n FROM queue`)[0]?.["n"] ?? 0),
      overdue: all(`SELECT lane, kind, subject FROM tasks WHERE due_at < ?`, now - OVERDUE_MS).map(
        (row) => `${text(row["lane"])} ${text(row["kind"])} ${text(row["subject"])}`,
      ),
      counters: Object.fromEntries(
        all(`SELECT name, value FROM counters`).map((row) => [text(row["name"]), Number(row["value"])]),
      ),
    },
  ];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function optional(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
