/** `gpu-gate costs`: what the GPUs cost, per pod or summed, from the control plane's ledgers. */
import { parseArgs } from "node:util";
import * as z from "zod";
import { formatUsd } from "../../shared/cost/estimate.ts";
import { costsAnswerSchema, type ToldCost } from "../../shared/cost/report.ts";
import { groupCosts, GROUPINGS, totalCosts, type CostGroup, type Grouping } from "../../shared/cost/summary.ts";
import { safeText } from "../../shared/http.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { addressOf, callControlPlane, operatorToken, TOKEN_VARIABLE, tokenIfSet } from "../control-plane.ts";

const usage = `
gpu-gate costs [--from DAY] [--to DAY] [--group gpu|pr|reason] [--format table|csv|json] [--reconcile] [--url URL]

What rented GPUs cost, by the gates' own ledgers: cost per success, cost of rejected machines, seconds paid for nothing.
The billed amount stands beside our estimate once RunPod's bill was read (each night, or now with --reconcile).

  --from DAY     first day, UTC (2026-11-01); default the first of this month
  --to DAY       last day, UTC, counted whole; default now. Both may be instants (2026-11-30T12:00:00Z)
  --group WORD   sum by GPU type, by pull request, or by the reason of the end; table and csv without it list the pods
  --format WORD  table (default), csv (plain numbers, units in the header, empty for unknown) or json
  --reconcile    have the control plane compare RunPod's bill first; needs the operator's token
  --url URL      address of the control plane, default GPU_GATE_URL

Where the status page is off, set ${TOKEN_VARIABLE} to the deployment's OPERATOR_TOKEN.
Exit codes: 0 complete, 1 no answer or an incomplete one, 2 wrong call.
`;

const FORMATS = ["table", "csv", "json"] as const;
const billingSchema = z.object({ kind: z.string(), problems: z.array(z.string()) });

export const costsCommand: Command = {
  name: "costs",
  summary: "Show what the GPUs cost: per pod, GPU, pull request or reason; as a table, CSV or JSON",
  usage,
  run: async (args, io) => {
    const { values } = parseArgs({
      args: [...args],
      options: {
        from: { type: "string" },
        to: { type: "string" },
        group: { type: "string" },
        format: { type: "string", default: "table" },
        reconcile: { type: "boolean", default: false },
        url: { type: "string" },
      },
    });
    const format = oneOf(values.format, FORMATS, "--format");
    const group = values.group === undefined ? null : oneOf(values.group, GROUPINGS, "--group");
    const url = addressOf(values.url, io);
    if (values.reconcile && !(await reconcile(url, io))) return EXIT_NO;
    const query = new URLSearchParams();
    for (const name of ["from", "to"] as const) {
      const day = values[name];
      if (day !== undefined) query.set(name, dayOf(day, name));
    }
    const address = `${url}/api/costs?${query.toString()}`;
    const call = { address, open: "with the status page", ...tokenIfSet(io) } as const;
    const answer = await callControlPlane(call, costsAnswerSchema, io);
    if (!answer.ok) {
      io.stderr(`gpu-gate costs: ${answer.error}\n`);
      return EXIT_NO;
    }
    const { costs, complete } = answer.value;
    io.stdout(render(costs, group, format));
    if (!complete)
      io.stderr("gpu-gate costs: not every line is here: a gate did not answer, or the time is too long.\n");
    return complete ? EXIT_OK : EXIT_NO;
  },
};

/** A day as the control plane takes it. */
function dayOf(text: string, name: string): string {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  if (Number.isNaN(at) || new Date(at).toISOString().slice(0, 10) !== text)
    throw new UsageError(`--${name} is a day such as 2026-11-30, not '${text}'.`);
  return text;
}

async function reconcile(url: string, io: Io): Promise<boolean> {
  const address = `${url}/v1/operator/billing`;
  const call = { address, open: "to the operator", token: operatorToken(io), body: {} } as const;
  const answer = await callControlPlane(call, billingSchema, io);
  if (!answer.ok) io.stderr(`gpu-gate costs: ${answer.error}\n`);
  else for (const problem of answer.value.problems) io.stderr(`gpu-gate costs: ${safeText(problem)}\n`);
  return answer.ok;
}

function render(costs: readonly ToldCost[], by: Grouping | null, format: (typeof FORMATS)[number]): string {
  if (format === "json") {
    const value = by === null ? costs : [...groupCosts(costs, by), totalCosts(costs)];
    return `${JSON.stringify(value, null, 2)}\n`;
  }
  if (format === "csv") return csv(by === null ? podCells(costs) : groupCells(costs, by));
  const rows = by === null ? podRows(costs) : groupRows(costs, by);
  return table(by === null ? [...rows, ...totalOfPods(costs)] : rows);
}

/** The last line is the sum. */
function groupRows(costs: readonly ToldCost[], by: Grouping): string[][] {
  const head = [
    by,
    "pods",
    "successes",
    "cost",
    "per success",
    "rejected pods",
    "rejected cost",
    "paid s",
    "wasted s",
    "billed",
  ];
  return [head, ...[...groupCosts(costs, by), totalCosts(costs)].map(groupRow)];
}

function groupRow(group: CostGroup): string[] {
  return [
    group.key,
    String(group.pods),
    String(group.successes),
    `${formatUsd(group.cost)}${group.unpriced > 0 ? ` + ${group.unpriced} unknown` : ""}`,
    group.costPerSuccess === null ? "-" : formatUsd(group.costPerSuccess),
    String(group.rejected),
    formatUsd(group.rejectedCost),
    seconds(group.paidMs),
    seconds(group.wastedMs),
    group.billedPods === 0 ? "-" : `${formatUsd(group.billed)} of ${group.billedPods}`,
  ];
}

function podRows(costs: readonly ToldCost[]): string[][] {
  const head = [
    "ended",
    "repository",
    "pr",
    "request",
    "pod",
    "gpu",
    "tier",
    "usd/h",
    "paid s",
    "cost",
    "billed",
    "verdict",
    "pod's end",
  ];
  const rows = costs.map((cost) => [
    new Date(cost.deletedAt).toISOString(),
    cost.repositoryId,
    cost.prNumber === null ? "-" : String(cost.prNumber),
    cost.requestId ?? "-",
    cost.podId,
    cost.gpu ?? "unknown",
    cost.tier ?? "unknown",
    cost.pricePerHour === null ? "unknown" : String(cost.pricePerHour),
    seconds(cost.paidMs),
    cost.cost === null ? "unknown" : formatUsd(cost.cost),
    cost.billed === null ? "-" : formatUsd(cost.billed),
    cost.verdict?.kind ?? "-",
    cost.outcome,
  ]);
  return [head, ...rows];
}

/** For a spreadsheet: plain numbers with the unit in the header, an empty cell for what is not known. */
function groupCells(costs: readonly ToldCost[], by: Grouping): string[][] {
  const head = [
    by,
    "pods",
    "successes",
    "cost usd",
    "unpriced pods",
    "usd per success",
    "rejected pods",
    "rejected cost usd",
    "paid s",
    "wasted s",
    "billed usd",
    "billed pods",
  ];
  const rows = [...groupCosts(costs, by), totalCosts(costs)].map((group) => [
    group.key,
    String(group.pods),
    String(group.successes),
    usd(group.unpriced > 0 && group.unpriced === group.pods ? null : group.cost),
    String(group.unpriced),
    usd(group.costPerSuccess),
    String(group.rejected),
    usd(group.rejectedCost),
    seconds(group.paidMs),
    seconds(group.wastedMs),
    usd(group.billedPods === 0 ? null : group.billed),
    String(group.billedPods),
  ]);
  return [head, ...rows];
}

function podCells(costs: readonly ToldCost[]): string[][] {
  const head = [
    "ended",
    "repository",
    "pr",
    "request",
    "pod",
    "gpu",
    "tier",
    "usd/h",
    "paid s",
    "cost usd",
    "billed usd",
    "verdict",
    "pod's end",
  ];
  const rows = costs.map((cost) => [
    new Date(cost.deletedAt).toISOString(),
    cost.repositoryId,
    String(cost.prNumber ?? ""),
    cost.requestId ?? "",
    cost.podId,
    cost.gpu ?? "",
    cost.tier ?? "",
    String(cost.pricePerHour ?? ""),
    seconds(cost.paidMs),
    usd(cost.cost),
    usd(cost.billed),
    cost.verdict?.kind ?? "",
    cost.outcome,
  ]);
  return [head, ...rows];
}

/** Takes millionths of a dollar, gives dollars with all their places. */
function usd(micros: number | null): string {
  return micros === null ? "" : (micros / 1_000_000).toFixed(6);
}

function totalOfPods(costs: readonly ToldCost[]): string[][] {
  const all = totalCosts(costs);
  const success = all.costPerSuccess === null ? "no success" : `${formatUsd(all.costPerSuccess)} a success`;
  const words = `${all.pods} pods, ${formatUsd(all.cost)}, ${success}, ${formatUsd(all.rejectedCost)} on rejected machines, ${seconds(all.wastedMs)} s wasted`;
  return [[], [words]];
}

function seconds(durationMs: number): string {
  return (durationMs / 1000).toFixed(1);
}

/** What makes a spreadsheet compute: in full width too, and behind signs that some of them skip. */
const FORMULA = /^[\s\p{Cc}\p{Cf}]*[=+\-@＝＋－＠]/u;
const NUMBER = /^[+-]?\d+(?:\.\d+)?$/;

/** RFC 4180. A cell that a spreadsheet would take for a formula begins with an apostrophe. */
function csv(rows: readonly (readonly string[])[]): string {
  const cell = (text: string) => {
    const inert = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
  };
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

function table(rows: readonly (readonly string[])[]): string {
  const shown = rows.map((row) => row.map((text) => safeText(text)));
  const columns = shown.filter((row) => row.length > 1);
  const widths = (columns[0] ?? []).map((_, at) => Math.max(...columns.map((row) => row[at]?.length ?? 0)));
  return shown
    .map(
      (row) =>
        `${row
          .map((text, at) => (row.length > 1 ? text.padEnd(widths[at] ?? 0) : text))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
}

function oneOf<T extends string>(text: string, words: readonly T[], option: string): T {
  const found = words.find((word) => word === text);
  if (found === undefined) throw new UsageError(`${option} must be one of ${words.join(", ")}.`);
  return found;
}
