/** Writes `docs/local-world.md` from the rules the local servers keep; `--check` only says whether the page is current. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { githubRules } from "../local/github/rules.ts";
import { runpodRules, type VendorRule } from "../local/runpod/rules.ts";

const ROOT = join(import.meta.dirname, "..");
const FILE = join(ROOT, "docs/local-world.md");

export interface Server {
  readonly title: string;
  readonly rules: readonly VendorRule[];
  /** Where the tests are that hold this server to its rules. */
  readonly tests: string;
}

export const servers: readonly Server[] = [
  { title: "GitHub", rules: githubRules, tests: "test/local-github" },
  { title: "RunPod", rules: runpodRules, tests: "test/local-runpod" },
];

/** The test file of `folder` that has a test of this title; null if none has. */
export function testFileOf(title: string, folder: string): string | null {
  const quoted = ['"', "'", "`"].map((quote) => `${quote}${title}${quote}`);
  const found = readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith(".test.ts") && name !== "rules.test.ts")
    .find((name) => {
      const text = readFileSync(join(ROOT, folder, name), "utf8");
      return quoted.some(
        (literal) => text.includes(`(${literal}`) || text.includes(`${literal}, `) || text.includes(`${literal},\n`),
      );
    });
  return found === undefined ? null : `${folder}/${found}`;
}

const INTRO = `# The local world

A local GitHub and a local RunPod: real HTTP servers on 127.0.0.1 that keep the vendors' rules, so that passing here means
something. Nothing in them knows the gate; the gate reaches them by its ordinary address settings.

This page is written by \`scripts/local-world-doc.ts\` from \`local/github/rules.ts\` and \`local/runpod/rules.ts\`; do not edit it
by hand.

## Run it

\`npm start\` builds the Worker as a deployment would, starts both servers, the image registry and the Worker in workerd, prints the
address of the status page, plays an opening day, and stays up until Ctrl-C. \`npm start -- --once\` plays the day and exits: 0 only
if every verdict is the expected one, every pod is proven gone in RunPod's own books, and every estimate fits RunPod's bill.
\`--port N\` gives the Worker a fixed port, \`--crash-worker\` kills the Worker's process in mid-day and starts it again,
\`--logs\` shows its log lines. The links of the status page lead to plain pages of the local GitHub: a pull request with everything its checks say, a run with its
jobs and steps. Times are short by configuration (\`CONFIG\` in \`local/world/opening-day.ts\`), never by a special code path.

The day's repository is \`local/world/project/\` with the shipped \`workflows/ci.yml\`, \`workflows/gpu-gate-prepare.yml\` and
\`workflows/gpu-gate-execute.yml\`, byte for byte, and the bundled tool, all read when the day begins. CI classifies the change, the preparation
builds, tests, splits and uploads, the pod downloads, verifies, reconstructs and tests: the files' own steps, as real processes. What stands in for
what a machine may lack (Rust, a Mac, compiled tests, NVRTC) is listed in [workflows.md](workflows.md).

Whatever it starts belongs to one folder under \`.local-world\` and ends with it; a start after a crash removes first what the
crashed one left.

## Try it

A world that stays up prints, at its start, one line for a second terminal: \`export GPU_GATE_URL=... GPU_GATE_OPERATOR_TOKEN=...\`. The
token is made for this world alone and ends with it. After the day the first terminal takes words, each with Enter: \`docs\`, \`code\`,
\`slow\` (its tests hold the GPU lock for half a minute), \`fail\` and \`fork\` open one more pull request each, and every change of
any request is told there. \`rerun N\` presses "Re-run" on the gate's check of pull request N.

In the second terminal, with that line entered:

| try | type there first | then here, each behind \`npm run gpu-gate --\` | what comes of it |
| --- | --- | --- | --- |
| look | | \`status\`, \`queue\`, \`costs --group gpu\`, \`explain '#5'\` | the day as the gate has it; why the fork was refused |
| stop all buying | | \`pause --reason "lunch"\`, then \`code\` there | the check ends as \`buying-paused\`; after \`resume\` type \`rerun N\` there, which presses "Re-run" on the check of pull request N |
| call one off | \`slow\`, then \`code\` | \`operator cancel --repository 101 --request REQUEST\` | \`Cancelled\`, and no pod was rented for it |
| keep a pod | \`slow\`, then \`fail\` | \`retain --repository 101 --request REQUEST --minutes 1\` before the pod of \`fail\` is rented | the failed run's pod stays, on the status page with its running cost, and is gone a minute later |
| let it go sooner | | \`retain --repository 101 --pod POD --minutes 0\` | the kept pod is removed now and proven gone |

\`REQUEST\` and \`POD\` are the ids that \`status\` prints; 101 is the repository's number, which \`status\` prints too.

## What each part keeps

| part | where | keeps | a scenario can |
| --- | --- | --- | --- |
| GitHub | \`local/github\` | the App's key, installations and their tokens, repositories with git objects, pull requests, checks, runs and jobs, runners, artifacts, webhook deliveries; books of every call and every start of a job | open, push to, close, label and comment on pull requests, press a check's button, re-run, change roles and permissions, suspend, uninstall, rename, lose webhooks, answer wrongly, be down (\`local/github/faults.ts\`) |
| RunPod | \`local/runpod\` | catalog with stock and prices, pods as child processes with exactly their environment, logs, bills by its own clock, the balance, quotas | run out of capacity or balance, answer 500 although it was done, lag, lie about the GPU, crash a container, refuse an image, be down (\`local/runpod/faults.ts\`) |
| image registry | \`local/registry\` | the runner image's tag and digests | publish, remove, be down |
| runner | \`local/runner\` | one job, then nothing: connects with its single-use configuration, runs the job's commands, reports its steps | be killed with its pod |
| workflows | \`local/workflow\` | the documented subset of the workflow syntax in which the files under \`workflows/\` are written; an unknown key, an unlisted action or another commit of one ends the run as \`startup_failure\` with file and line | put any workflow file into a tree and have it run, or register a script for its path instead |
| machines | \`local/machine\` | a job's folder and environment, its steps as processes in groups of their own, the listed actions: real git checkouts, artifacts as zips with digests, caches by exact key and cache mode | time a step out, cancel a job in the middle of a command |

## Rules, facts, tests

\`github-facts.md\` and \`runpod-facts.md\` are the project's collected facts, by section; \`openapi\` is GitHub's own description
(npm package \`@octokit/openapi\`), \`openapi-v2\` RunPod's. A rule without a fact, or whose test does not exist, fails
\`test/house/local-world.test.ts\`.
`;

/** The page. Throws for a rule without a fact or without a test: such a rule cannot be shown. */
export function localWorldPage(of: readonly Server[] = servers): string {
  const sections = of.flatMap(({ title, rules, tests }) => [
    "",
    `### ${title}`,
    "",
    "| rule | fact | test |",
    "| --- | --- | --- |",
    ...rules.map((rule) => row(rule, tests)),
  ]);
  return `${INTRO}${sections.join("\n")}\n`;
}

function row(rule: VendorRule, folder: string): string {
  if (rule.fact.trim() === "") throw new Error(`The rule ${rule.id} rests on no fact: name a section or a route.`);
  const file = testFileOf(rule.test, folder);
  if (file === null) throw new Error(`The rule ${rule.id} names a test that ${folder} does not have: ${rule.test}`);
  const cells = [rule.sentence, `\`${rule.fact}\``, `\`${file}\`: ${rule.test}`];
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}

if (import.meta.main) {
  const page = localWorldPage();
  if (process.argv.includes("--check")) {
    if (readFileSync(FILE, "utf8") !== page) {
      process.stderr.write("docs/local-world.md is not current. Run: node scripts/local-world-doc.ts\n");
      process.exitCode = 1;
    }
  } else writeFileSync(FILE, page);
}
