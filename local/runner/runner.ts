/**
 * The stand-in Actions runner: connects with a JIT config, takes exactly one job, runs it, ends with 0.
 *
 * Exit 1 means it never got as far as a job: a bad config, a refused connect, or a server that stayed away. A job that fails
 * is still a runner that worked.
 */

import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { ServerClient } from "./client.ts";
import { readJitConfig } from "./config.ts";
import { runJob } from "./job.ts";

async function main(argv: readonly string[]): Promise<number> {
  const at = argv.indexOf("--jitconfig");
  const blob = at < 0 ? undefined : argv[at + 1];
  if (blob === undefined) {
    console.error("run.sh: give the configuration as --jitconfig <blob>.");
    return 1;
  }
  const settings = readJitConfig(blob);
  if ("problem" in settings) {
    console.error(`run.sh: ${settings.problem}`);
    return 1;
  }
  const server = new ServerClient(settings.serverUrl);
  const connected = await server.connect(blob);
  if (typeof connected === "string") {
    console.error(`run.sh: the server refused this runner: ${connected}`);
    return 1;
  }
  console.log(`√ Connected to GitHub as ${connected.runnerName}`);
  console.log("Listening for Jobs");
  const job = await server.nextJob();
  if (job === "removed") {
    console.error("run.sh: this runner has been removed; it can take no job any more.");
    return 1;
  }
  const work = resolve(settings.workFolder);
  mkdirSync(work, { recursive: true });
  console.log(`Running job: ${job.jobName}`);
  const conclusion = await runJob(server, job, work);
  await server.complete(job.jobId, conclusion);
  console.log(`Job ${job.jobName} completed with result: ${conclusion}`);
  return 0;
}

main(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code;
  },
  (problem: unknown) => {
    console.error(`run.sh: ${problem instanceof Error ? problem.message : String(problem)}`);
    process.exitCode = 1;
  },
);
