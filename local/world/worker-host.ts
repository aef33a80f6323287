/**
 * Hosts the Worker in workerd for the local world: one process of its own, so that it can be killed and started again on
 * its stored state like any other server.
 *
 * Started as `node worker-host.ts` with one JSON line on standard input. It says `ready` on standard output, fires the cron
 * trigger on a timer (workerd itself never does), and ends when its standard input ends: a killed parent leaves nothing.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { Miniflare } from "miniflare";
import * as z from "zod";

const jobSchema = z.object({
  bundleDir: z.string(),
  stateDir: z.string(),
  port: z.number().int(),
  cronEveryMs: z.number(),
  vars: z.record(z.string(), z.string()),
});

type Job = z.infer<typeof jobSchema>;

const CLASSES = ["RepositoryGate", "RunPodAccount", "FleetBoard"] as const;
const BINDINGS = {
  REPOSITORY_GATE: "RepositoryGate",
  RUNPOD_ACCOUNT: "RunPodAccount",
  FLEET_BOARD: "FleetBoard",
} as const;

function start(job: Job): Miniflare {
  const name = "gpu-gate";
  const text = Object.entries(job.vars).map(([key, value]) => [key, { type: "text" as const, value }] as const);
  const objects = Object.entries(BINDINGS).map(
    ([key, exportName]) => [key, { type: "durable-object" as const, worker: name, exportName }] as const,
  );
  return new Miniflare({
    host: "127.0.0.1",
    port: job.port,
    cf: false,
    enableDevRegistry: false,
    unsafeTriggerHandlers: true,
    telemetry: { enabled: false },
    resourcePersistencePath: job.stateDir,
    workers: [
      {
        config: {
          name,
          compatibilityDate: "2026-11-01",
          manifest: {
            mainModule: "index.js",
            modules: { "index.js": { type: "esm", contents: readFileSync(join(job.bundleDir, "index.js"), "utf8") } },
          },
          env: Object.fromEntries([...text, ...objects]),
          exports: Object.fromEntries(
            CLASSES.map((exportName) => [exportName, { type: "durable-object" as const, storage: "sqlite" as const }]),
          ),
        },
      },
    ],
  });
}

/** How long an end may take before the whole process group goes with it. */
const END_MS = 5_000;

async function main(): Promise<void> {
  const lines = createInterface({ input: process.stdin });
  let miniflare: Miniflare | null = null;
  let cron: NodeJS.Timeout | undefined;
  // Heard from the first moment on: an owner that dies while the Worker starts would otherwise leave it running for ever.
  const end = () => {
    clearInterval(cron);
    setTimeout(() => process.kill(-process.pid, "SIGKILL"), END_MS).unref();
    void (miniflare?.dispose() ?? Promise.resolve()).finally(() => process.exit(0));
  };
  lines.once("close", end);
  process.once("SIGTERM", end);
  const first = await new Promise<string>((resolve) => lines.once("line", resolve));
  const job = jobSchema.parse(JSON.parse(first));
  const running = start(job);
  miniflare = running;
  await running.ready;
  let ticking = false;
  cron = setInterval(() => {
    // One tick at a time, as the platform's own trigger would at one a minute.
    if (ticking) return;
    ticking = true;
    // By a request and not by Miniflare's own handle of the Worker: that one waits without reading the Worker's log, and
    // a Worker that says much meanwhile waits for its reader.
    void running
      .dispatchFetch("http://worker/cdn-cgi/local/scheduled?cron=*+*+*+*+*")
      .then((answer) => answer.text())
      .catch(() => undefined)
      .finally(() => (ticking = false));
  }, job.cronEveryMs);
  process.stdout.write("ready\n");
}

await main();
