/** `gpu-gate lanes`: the lanes on your own machines, and whether anything stands behind them. */
import { parseArgs } from "node:util";
import * as z from "zod";
import { laneRows, type ConfiguredLane, type LaneRow } from "../../shared/policy/lanes.ts";
import { decideProbe, type ProbeVerdict, type RunnerListing } from "../../shared/policy/probe.ts";
import { readRunners, type GetPage } from "../../shared/policy/read-runners.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { githubGet, repositoryOf } from "../github-get.ts";
import { configFromFile } from "../repository-config.ts";

const usage = `
gpu-gate lanes [FILE] [--live] [--organisation] [--repository O/R] [--json]

Lists the lanes of FILE (default .github/gpu-gate.yml) that run on your own machines: name, label set, switch, checks.
A lane with nothing behind it is OPEN and its checks are NOT RUN, which is neither passed nor failed.

  --live           ask GitHub for each lane's switch and for runners (GPU_GATE_TOKEN needs "Variables: read" and
                   "Administration: read"; with --organisation also "Self-hosted runners: read")
  --organisation   also count the organisation's runners that the repository may use
  --repository O/R default GITHUB_REPOSITORY
  --json           print the rows as JSON

Exit code 0, or 1 when the configuration is not valid or a lane that is switched on has no machine behind it.
`;

export const lanesCommand: Command = {
  name: "lanes",
  summary: "List the lanes on your own machines: ready, or open and NOT RUN",
  usage,
  run: async (args, io) => {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        live: { type: "boolean", default: false },
        organisation: { type: "boolean", default: false },
        repository: { type: "string" },
        json: { type: "boolean", default: false },
      },
    });
    if (positionals.length > 1) throw new UsageError("Give one file at most.");
    const config = await configFromFile(io, positionals[0], "Name another: gpu-gate lanes FILE");
    if (!config.ok) {
      for (const problem of config.error) io.stderr(`${problem}\n`);
      return EXIT_NO;
    }
    const { lanes } = config.value;
    const verdicts = values.live
      ? await askAll(lanes, repositoryOf(values.repository, io), values.organisation, githubGet(io))
      : new Map<string, ProbeVerdict>();
    const rows = laneRows(lanes, verdicts);
    print(rows, values.json, io);
    return [...verdicts.values()].some((verdict) => verdict.fail) ? EXIT_NO : EXIT_OK;
  },
};

const variable = z.object({ value: z.string() });

/** Reads each switch, and the runners once if any lane is on. A switch that cannot be read counts as on and failed. */
async function askAll(
  lanes: Readonly<Record<string, ConfiguredLane>>,
  repository: { readonly owner: string; readonly name: string },
  organisation: boolean,
  get: GetPage,
): Promise<ReadonlyMap<string, ProbeVerdict>> {
  const verdicts = new Map<string, ProbeVerdict>();
  let runners: RunnerListing | null = null;
  for (const [name, { own }] of Object.entries(lanes)) {
    if (own === null) continue;
    const value = await readSwitch(own.switch, repository, get);
    if (value.kind === "unread") {
      const listing = { kind: "failure", what: value.what } as const;
      verdicts.set(name, decideProbe({ switchValue: "true", requiredLabels: own.runs_on, listing }));
      continue;
    }
    const { owner, name: repositoryName } = repository;
    if (value.text === "true") runners ??= await readRunners(get, { owner, repository: repositoryName, organisation });
    verdicts.set(name, decideProbe({ switchValue: value.text, requiredLabels: own.runs_on, listing: runners }));
  }
  return verdicts;
}

/** `GET /repos/{owner}/{repo}/actions/variables/{name}`; 404 is a variable that is not set. */
async function readSwitch(
  name: string,
  repository: { readonly owner: string; readonly name: string },
  get: GetPage,
): Promise<
  { readonly kind: "read"; readonly text: string | null } | { readonly kind: "unread"; readonly what: string }
> {
  const path = `/repos/${repository.owner}/${repository.name}/actions/variables/${name}`;
  const answer = await get(path);
  if (answer.kind === "failure") return { kind: "unread", what: answer.what };
  if (answer.status === 404) return { kind: "read", text: null };
  const parsed = answer.status === 200 ? variable.safeParse(parseJson(answer.body)) : null;
  if (parsed?.success === true) return { kind: "read", text: parsed.data.value };
  return { kind: "unread", what: `the switch ${name} could not be read (GET ${path} answered ${answer.status})` };
}

function print(rows: readonly LaneRow[], json: boolean, io: Io): void {
  if (json) {
    io.stdout(`${JSON.stringify(rows, null, 2)}\n`);
    return;
  }
  if (rows.length === 0) io.stdout("No lane runs on a machine of your own.\n");
  for (const row of rows) {
    io.stdout(`${row.name}  ${row.state}${row.word === "" ? "" : `  ${row.word}`}\n`);
    io.stdout(`  labels  ${row.labels.join(" ")}\n  switch  ${row.switchName}\n`);
    io.stdout(`  checks  ${row.checks.length === 0 ? "none" : row.checks.join(", ")}\n  why     ${row.why}\n`);
    if (row.runbook !== null) io.stdout(`  runbook ${row.runbook}\n`);
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
