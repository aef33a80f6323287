/**
 * The cost of a request's pods as Markdown, for the details of its check. Bounded: a check's text has a limit.
 */
import { inMarkdown } from "../text.ts";
import { formatUsd } from "./estimate.ts";
import type { CostReport } from "./report.ts";

/** Names from outside are short, or cut. */
const safe = (text: string): string => inMarkdown(text, 100);

const STAGES_SHOWN = 40;
const PODS_SHOWN = 20;

/** Empty text for no report. The last pod is shown by stages, those before it in a line each. */
export function costMarkdown(reports: readonly CostReport[]): string {
  const last = reports.at(-1);
  if (last === undefined) return "";
  const earlier = reports.slice(0, -1).slice(-PODS_SHOWN);
  return [
    "<details><summary>Cost</summary>",
    "",
    facts(last),
    "",
    ...stages(last),
    ...(earlier.length === 0 ? [] : ["", "Pods before it:", "", ...earlierPods(earlier)]),
    "",
    "</details>",
  ].join("\n");
}

function facts(report: CostReport): string {
  const price =
    report.pricePerHour === null
      ? "price unknown"
      : `USD ${report.pricePerHour}/h (${report.priceSource === "list" ? "list price" : "this pod's rate"})`;
  const place = report.dataCenter === null ? "place unknown" : safe(report.dataCenter);
  const cached = Object.entries(report.observations).map(
    ([name, seen]) => `${safe(name)}: ${seen === null ? "unknown" : seen ? "yes" : "no"}`,
  );
  const flags = report.flags.length === 0 ? "" : ` Doubts: ${report.flags.join(", ")}.`;
  const gpu = `${safe(report.gpu ?? "GPU unknown")}, tier ${safe(report.tier ?? "unknown")}, ${place}, ${price}.`;
  return `${gpu}${cached.length === 0 ? "" : ` ${cached.join(", ")}.`}${flags}`;
}

function stages(report: CostReport): string[] {
  const rows = (report.stages ?? []).slice(0, STAGES_SHOWN);
  return [
    "| Stage | Seconds | Cost |",
    "| --- | ---: | ---: |",
    ...rows.map((stage) => `| ${words(stage.name)} | ${seconds(stage.durationMs)} | ${money(stage.cost)} |`),
    `| **Paid** | **${seconds(report.paidMs)}** | **${money(report.cost)}** |`,
  ];
}

function earlierPods(reports: readonly CostReport[]): string[] {
  return [
    "| Pod | GPU | Seconds | Cost | Ended |",
    "| --- | --- | ---: | ---: | --- |",
    ...reports.map(
      (report) =>
        `| ${safe(report.podId)} | ${safe(report.gpu ?? "unknown")} | ${seconds(report.paidMs)} | ${money(report.cost)} | ${safe(report.outcome)} |`,
    ),
  ];
}

function words(name: string): string {
  return safe(name.replaceAll("_", " "));
}

function seconds(durationMs: number): string {
  return (durationMs / 1000).toFixed(1);
}

function money(cost: number | null): string {
  return cost === null ? "unknown" : formatUsd(cost);
}
