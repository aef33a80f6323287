/**
 * `npm run load`: many repositories, webhooks without pause and in bursts, and pods running meanwhile, against the Worker's
 * real bundle. Exit 0 only if nothing was lost and everything came to rest. `--help` lists the options.
 */
import { writeFileSync } from "node:fs";
import process from "node:process";
import { optionsOf, type Command } from "../../sim/options.ts";
import { runLoad, type LoadOptions } from "./run.ts";
import { table } from "./table.ts";

const COMMAND: Command = {
  name: "npm run load",
  usage: `npm run load -- [options]

  --repositories N   on the allow-list, all of one installation (200)
  --pods N           gated pull requests, each with its pod, in as many repositories (50)
  --rate N           deliveries a second (50)
  --seconds N        for so long (60)
  --bursts N         bursts after that (2)
  --burst N          deliveries at once in each (2000)
  --ramp N           seconds over which the gated pull requests are opened (90)
  --runpod-minute N  RunPod's requests a minute; hour and day are 50 and 833 times that (60)
  --fast             the product's time limits a hundred times shorter, RunPod's quota a hundred times larger
  --json FILE        the whole report as JSON
`,
};

/** The product's pauses and limits, much shorter; wide enough for a machine that is busy with other things. */
export const FAST_LIMITS = `evidence:
  min_seconds: 0.2
limits:
  watch_poll: 0.3
  watch_poll_tests: 0.2
  delete_retry: 0.2
  delete_pause_base: 0.2
  absence_after_create: 1
  absence_list_gap: 0.2
  reconcile: 60
`;

async function main(): Promise<number> {
  const { values } = optionsOf(COMMAND, {
    options: {
      repositories: { type: "string", default: "200" },
      pods: { type: "string", default: "50" },
      rate: { type: "string", default: "50" },
      seconds: { type: "string", default: "60" },
      bursts: { type: "string", default: "2" },
      burst: { type: "string", default: "2000" },
      ramp: { type: "string", default: "90" },
      "runpod-minute": { type: "string", default: "60" },
      fast: { type: "boolean", default: false },
      json: { type: "string" },
    },
  });
  const number = (
    name: "repositories" | "pods" | "rate" | "seconds" | "bursts" | "burst" | "ramp" | "runpod-minute",
  ) => {
    const value = Number(values[name]);
    if (Number.isInteger(value) && value >= 0 && value <= 100_000) return value;
    throw new Error(`--${name} takes a whole number from 0 to 100000, not '${values[name]}'.`);
  };
  const minute = number("runpod-minute") * (values.fast ? 100 : 1);
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());
  const options: Omit<LoadOptions, "say" | "stop"> = {
    repositories: number("repositories"),
    pods: number("pods"),
    perSecond: number("rate"),
    seconds: number("seconds"),
    bursts: number("bursts"),
    burst: number("burst"),
    rampSeconds: number("ramp"),
    quota: { minute, hour: minute * 50, day: minute * 833 },
    limits: values.fast ? FAST_LIMITS : "",
    leastJobMs: values.fast ? 1_000 : 22_000,
    cronEveryMs: values.fast ? 1_500 : 60_000,
  };
  if (options.pods > options.repositories || options.repositories === 0)
    throw new Error("--repositories must be at least 1 and no less than --pods: each pod has a repository of its own.");
  const began = Date.now();
  const say = (text: string) =>
    process.stdout.write(`${((Date.now() - began) / 1000).toFixed(1).padStart(6)}s  ${text}\n`);
  say("building and starting the world");
  const report = await runLoad({ ...options, say, stop: stop.signal });
  process.stdout.write(`\n${table(report)}\n\n`);
  if (values.json !== undefined) {
    const written = { options, report };
    writeFileSync(values.json, `${JSON.stringify(written, null, 2)}\n`);
  }
  const { problems } = report.judged;
  for (const problem of problems.slice(0, 50)) process.stdout.write(`NOT RIGHT: ${problem}\n`);
  if (problems.length > 50) process.stdout.write(`... and ${problems.length - 50} more\n`);
  if (problems.length === 0) say("nothing was lost, nothing is left, every pod is proven gone and its bill fits");
  return problems.length === 0 ? 0 : 1;
}

if (import.meta.main) {
  process.exitCode = await main().catch((error: unknown) => {
    process.stderr.write(`npm run load: ${error instanceof Error ? error.message : String(error)}\n`);
    return 2;
  });
  process.exit();
}
