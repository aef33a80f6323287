/** How long the probe's own decision takes over 1,000 runners: the worst case, where only the last one matches. */
import { decideProbe } from "../shared/policy/probe.ts";

export interface BenchRow {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly note?: string;
}

const RUNNERS = 1000;
const ROUNDS = 200;

export async function run(): Promise<BenchRow[]> {
  const pages = Array.from({ length: RUNNERS / 100 }, (_, page) => JSON.stringify(runnerPage(page)));
  const input = {
    switchValue: "true",
    requiredLabels: ["self-hosted", "linux", "gpu-full"],
    listing: { kind: "pages", pages },
  } as const;
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = performance.now();
    const verdict = decideProbe(input);
    times.push(performance.now() - before);
    if (!verdict.available) throw new Error("the benchmark's last runner must match");
  }
  times.sort((a, b) => a - b);
  const note = "ten pages of JSON text parsed and judged; the bound is 5 ms";
  return Promise.resolve([
    {
      name: "probe: 1,000 runners, slowest of 200",
      value: times[ROUNDS - 1] ?? 0,
      unit: "ms",
      note: `${note}; mostly the first`,
    },
    { name: "probe: 1,000 runners, median", value: times[Math.floor(ROUNDS / 2)] ?? 0, unit: "ms", note },
    { name: "probe: 1,000 runners, p99", value: times[Math.floor(ROUNDS * 0.99)] ?? 0, unit: "ms", note },
  ]);
}

function runnerPage(page: number): unknown {
  const runners = Array.from({ length: 100 }, (_, index) => {
    const id = page * 100 + index + 1;
    const labels = ["self-hosted", "Linux", "X64", id === RUNNERS ? "gpu-full" : "cpu", `host-${id}`];
    return {
      id,
      name: `runner-${id}`,
      os: "linux",
      status: "online",
      busy: false,
      labels: labels.map((name, label) => ({ id: label, name, type: "custom" })),
    };
  });
  return { total_count: RUNNERS, runners };
}
