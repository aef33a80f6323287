import * as z from "zod";
import { readInventory } from "../../../shared/hosted/inventory.ts";
import {
  checkPartition,
  LANES,
  nextestFilter,
  readPartition,
  reportPartition,
  type TestIdentity,
} from "../../../shared/hosted/partition.ts";
import type { CorpusAdapter } from "../adapter.ts";

const schema = z.object({ table: z.string(), inventory: z.unknown(), lane: z.enum(LANES), expected: z.unknown() });

const pair = ({ binary, test }: TestIdentity) => [binary, test];

/** The corpus runs the host and the gpu lane somewhere in every case, so these two count as run. */
export const adapter: CorpusAdapter = {
  corpus: "partition",
  run: (testCase) => {
    const { table, inventory, lane, expected } = schema.parse(testCase);
    const actual = answer(table, inventory, lane);
    return { pass: canonical(actual) === canonical(expected), expected, actual };
  },
};

function answer(table: string, inventory: unknown, lane: z.infer<typeof schema>["lane"]): unknown {
  const rows = readPartition(table);
  if (!rows.ok) return { read: { ok: false } };
  const listed = readInventory("nextest", JSON.stringify(inventory));
  const checked = listed.ok ? checkPartition(rows.value, listed.value) : listed;
  const report = reportPartition(rows.value, ["host", "gpu"]);
  return {
    read: { ok: true, tests: rows.value.length },
    validate: checked.ok
      ? { ok: true }
      : {
          ok: false,
          unclassified: checked.error.reason === "mismatch" ? checked.error.unclassified.map(pair) : [],
          absent: checked.error.reason === "mismatch" ? checked.error.absent.map(pair) : [],
        },
    filter: nextestFilter(rows.value, lane),
    report: {
      counts: report.counts,
      notRun: report.notRun.map((row) => [row.lane, ...pair(row)]),
      executing: lane,
    },
  };
}

/** JSON with sorted keys: the order of keys carries no meaning. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
