/** The load run's numbers as lines for people. */
import { words, type LoadReport } from "./run.ts";

export function table(report: LoadReport): string {
  const { judged, memoryMiB: memory, jobEndToDelete: ends } = report;
  const rows: [string, string][] = [
    ["sustained", words(report.sustained)],
    ...report.bursts.map((burst, index): [string, string] => [`burst ${index + 1}`, words(burst)]),
    ["redelivered", String(report.redelivered)],
    ["accounted for", `${judged.found} of ${judged.heard} once in the books, ${judged.strangers} in none`],
    ["GitHub's own", `${judged.githubs} deliveries, ${judged.githubsTaken} in the books`],
    ["requests", `${judged.requests}, ${judged.pods} pods, estimate within ${judged.worstBillDifferenceMs} ms of bill`],
    [
      "memory of workerd",
      `idle ${memory.idle}, pods ${memory.pods}, sustained ${memory.sustained}, end ${memory.end} MiB`,
    ],
    ["job's end to DELETE", `p50 ${ends.p50} p95 ${ends.p95} max ${ends.max} ms`],
    ["ramp, drain", `${report.rampSeconds.toFixed(0)} s, ${report.drainSeconds.toFixed(0)} s`],
    ["servers late", `p99 ${report.serversLateMs} ms`],
    [
      "log",
      Object.entries(report.logged)
        .map(([name, count]) => `${name} ${count}`)
        .join(", ") || "nothing",
    ],
  ];
  for (const [name, { seconds, github, runpod }] of Object.entries(report.quota)) {
    const { hour, endpointPoints, atOnce, content } = github;
    rows.push(
      [
        `GitHub, ${name} (${seconds} s)`,
        `${github.requests} requests, ${github.unchanged} answered 304, ${github.refused} refused`,
      ],
      ["", `hour ${hour.busiest} of ${hour.limit} (${hour.headroom} % free)`],
      [
        "",
        `${endpointPoints.endpoint}: ${endpointPoints.busiest} of ${endpointPoints.limit} points (${endpointPoints.headroom} % free)`,
      ],
      [
        "",
        `at once ${atOnce.busiest} of ${atOnce.limit}; content ${content.busiest} of about ${content.limit} a minute`,
      ],
      [
        `RunPod, ${name}`,
        `${runpod.requests} requests, ${runpod.refused} refused; minute ${runpod.minute.busiest} of ${runpod.minute.limit} (${runpod.minute.headroom} % free)`,
      ],
      [
        "",
        `hour ${runpod.hour.busiest} of ${runpod.hour.limit}, day ${runpod.day.busiest} of ${runpod.day.limit} (${runpod.day.headroom} % free)`,
      ],
    );
  }
  return rows.map(([name, value]) => `${name.padEnd(24)}${value}`).join("\n");
}
