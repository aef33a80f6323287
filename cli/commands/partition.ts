/** `gpu-gate partition`: checks, uses and reports the audited partition of a test inventory. */
import { parseArgs } from "node:util";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { allGiven, readText, required } from "../files.ts";
import { unreachable } from "../../shared/result.ts";
import { guessFormat, readInventory, type InventoryFormat } from "../../shared/hosted/inventory.ts";
import {
  checkPartition,
  isLane,
  LANES,
  nextestFilter,
  NO_BINARY,
  readPartition,
  reportPartition,
  testsOf,
  type ClassifiedTest,
  type PartitionError,
  type TestIdentity,
  type TestLane,
} from "../../shared/hosted/partition.ts";

const usage = `
gpu-gate partition check  --table FILE --inventory FILE [--format nextest|junit|plain]
gpu-gate partition filter --table FILE --inventory FILE --lane LANE [--as nextest|list]
gpu-gate partition report --table FILE --inventory FILE --ran LANE [--ran LANE]...

The --table has one row per test: lane, binary and test, with tabs between. Lanes (--lane, --ran): ${LANES.join(", ")}.
Every command first checks that table and inventory name exactly the same tests, and prints each that differs.

  --inventory  what the runner lists: 'cargo nextest list --message-format json', a JUnit file, or one test a line
               (optionally binary, tab, test; without a binary the table's column is '${NO_BINARY}'). '-' reads standard input.
  --format     says which of them it is; guessed from the first character otherwise
  filter       prints what selects the lane: a nextest filterset (-E), or with --as list the plain list of tests
  report       counts the lanes and prints NOT RUN for each test of a lane that is not among --ran

Exit codes: 0 fine, 1 table and inventory differ, 2 wrong call or unreadable input.
`;

export const partitionCommand: Command = {
  name: "partition",
  summary: "Check, filter and report the audited split of the tests into lanes",
  usage,
  run: async (args, io) => {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        table: { type: "string" },
        inventory: { type: "string" },
        format: { type: "string" },
        lane: { type: "string" },
        as: { type: "string", default: "nextest" },
        ran: { type: "string", multiple: true },
      },
    });
    const [action, ...rest] = positionals;
    if ((action !== "check" && action !== "filter" && action !== "report") || rest.length > 0)
      throw new UsageError("Say what to do with the partition: check, filter or report.");
    // A wrong lane before a missing file: whoever named it must not have to come twice for it.
    const ran = (values.ran ?? []).map(laneOption);
    if (values.lane !== undefined) laneOption(values.lane);
    allGiven(
      [values.table, "--table", "the table"],
      [values.inventory, "--inventory", "what the runner lists"],
      [action === "filter" ? values.lane : "no matter", "--lane", "the lane"],
      [action === "report" ? values.ran?.[0] : "no matter", "--ran", "a lane that ran"],
    );
    const lane = action === "filter" ? laneOption(required(values.lane, "--lane", "The lane")) : undefined;
    if (action === "report" && ran.length === 0) throw new UsageError("Say which lanes ran, each with --ran.");
    if (values.as !== "nextest" && values.as !== "list")
      throw new UsageError(`The filter can be written as 'nextest' or 'list', not '${values.as}'.`);

    const rows = await loadTable(io, required(values.table, "--table", "The table"));
    const inventoryText = await readText(
      io,
      required(values.inventory, "--inventory", "The inventory"),
      "The inventory",
    );
    const inventory = readInventory(formatOption(values.format, inventoryText), inventoryText);
    if (!inventory.ok) throw new UsageError(`The inventory is of no use: ${inventory.error.problem}.`);
    const checked = checkPartition(rows, inventory.value);
    if (!checked.ok) {
      io.stderr(explain(checked.error));
      return EXIT_NO;
    }
    if (action === "check") io.stdout(`The partition is exhaustive and disjoint: ${checked.value.tests} tests.\n`);
    else if (lane !== undefined)
      io.stdout(values.as === "list" ? listOf(testsOf(rows, lane)) : `${nextestFilter(rows, lane)}\n`);
    else io.stdout(reportText(rows, ran));
    return EXIT_OK;
  },
};

async function loadTable(io: Io, path: string): Promise<readonly ClassifiedTest[]> {
  const rows = readPartition(await readText(io, path, "The table"));
  if (!rows.ok) throw new UsageError(`Line ${rows.error.line} of the table is wrong: ${rows.error.problem}.`);
  return rows.value;
}

function laneOption(text: string): TestLane {
  if (!isLane(text)) throw new UsageError(`'${text}' is not a lane; the lanes are ${LANES.join(", ")}.`);
  return text;
}

function formatOption(format: string | undefined, text: string): InventoryFormat {
  if (format === undefined) return guessFormat(text);
  if (format === "nextest" || format === "junit" || format === "plain") return format;
  throw new UsageError(`'${format}' is not an inventory format; use nextest, junit or plain.`);
}

function listOf(tests: readonly TestIdentity[]): string {
  return tests.map(({ binary, test }) => `${binary === NO_BINARY ? test : `${binary}\t${test}`}\n`).join("");
}

function reportText(rows: readonly ClassifiedTest[], ran: readonly TestLane[]): string {
  const report = reportPartition(rows, ran);
  const counts = LANES.flatMap((lane) => {
    const count = report.counts[lane];
    return count === undefined ? [] : [`${lane} ${count}${ran.includes(lane) ? "" : " (NOT RUN)"}`];
  });
  const lines = report.notRun.map(({ lane, binary, test }) => `NOT RUN (${lane}): ${binary} ${test}`);
  return [`Partition: ${counts.join(", ")}.`, ...lines, ""].join("\n");
}

/** Every difference on a line of its own, so that the table can be mended in one go. */
function explain(error: PartitionError): string {
  const names = (what: string, tests: readonly TestIdentity[]) =>
    tests.map(({ binary, test }) => `${what}: ${binary} ${test}\n`).join("");
  switch (error.reason) {
    case "mismatch":
      return (
        "The table and the inventory differ; read the body of each test below, then put it into its lane or take it out.\n" +
        names("unclassified", error.unclassified) +
        names("absent", error.absent)
      );
    case "repeated":
      return `The inventory lists some tests more than once, so the lanes could not be kept apart.\n${names("repeated", error.repeated)}`;
    case "empty":
      return "The inventory is empty, and no test is not the same as all tests passing.\n";
    case "count":
      return `The inventory says that it has ${error.declared} tests but lists ${error.listed}; make it again.\n`;
    default:
      return unreachable(error, "partition error");
  }
}
