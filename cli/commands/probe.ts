/** `gpu-gate probe`: what a hosted job runs before a job on a maintainer's own machine. */
import { appendFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { CONFIG_PATH, type RepositoryConfig } from "../../shared/config/schema.ts";
import { REASONS } from "../../shared/audit/reasons.ts";
import { admitProbe, describeSeen, probeReasonCode, type ProbeVerdict } from "../../shared/policy/probe.ts";
import { probeLive } from "../../shared/policy/read-runners.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { githubGet, repositoryOf } from "../github-get.ts";
import { configFromFile } from "../repository-config.ts";

const usage = `
gpu-gate probe --lane NAME [options]
gpu-gate probe --labels "self-hosted linux gpu-full" [options]

Says whether a job on your own machine may be queued: its lane is switched on, and one online runner carries every
label. A lane that is off is a clean skip (exit 0, available=false) and asks GitHub nothing. A lane that is on and has
no such runner fails loudly (exit 1), so that the job behind it is skipped instead of waiting for a day. A lane that the
configuration does not have is a wrong call (exit 2), on or off; one that is off is skipped when the configuration cannot be read.

  --lane NAME          a lane of the configuration (or LANE_NAME): its labels and runbook are taken from there
  --config FILE        default .github/gpu-gate.yml
  --labels TEXT        the whole label set, parted by blanks or commas (or LANE_LABELS), instead of a configured lane's
  --runbook URL        where a person finds what to do (or LANE_RUNBOOK)
  --repository O/R     default GITHUB_REPOSITORY
  --organisation       also count the organisation's runners that the repository may use
  --json               print the verdict as JSON

Environment: LANE_SWITCH holds the switch's value, only exactly 'true' is on. GPU_GATE_TOKEN (or GH_TOKEN) is a token
that may read runners: repository permission "Administration: read", for --organisation "Self-hosted runners: read".
The workflow's own token cannot be given either. Outputs enabled, registered and available go to GITHUB_OUTPUT.
`;

export const probeCommand: Command = {
  name: "probe",
  summary: "Ask whether a lane of your own machines can take a job now",
  usage,
  run: async (args, io) => {
    const { values } = parseArgs({
      args: [...args],
      options: {
        labels: { type: "string" },
        lane: { type: "string" },
        config: { type: "string", default: CONFIG_PATH },
        runbook: { type: "string" },
        repository: { type: "string" },
        organisation: { type: "boolean", default: false },
        json: { type: "boolean", default: false },
      },
    });
    // First the switch alone: a lane that is off is skipped cleanly, whatever else is wrong with it. Only a name that stands
    // for no lane is told at once: it would be found out on the day that the machine is wanted.
    const off = admitProbe({ switchValue: io.env["LANE_SWITCH"] ?? null, requiredLabels: [] });
    if (!off.ask && off.verdict.reason === "disabled") {
      await refuseUnknownLane(values, io);
      await writeOutputs(off.verdict, io);
      report(off.verdict, values.lane ?? io.env["LANE_NAME"] ?? "(unnamed)", "", values.json, io);
      return EXIT_OK;
    }
    const { labels, lane, runbook } = await contractOf(values, io);
    const verdict = await ask(labels, values.repository, values.organisation, io);
    await writeOutputs(verdict, io);
    report(verdict, lane, runbook, values.json, io);
    return verdict.fail ? EXIT_NO : EXIT_OK;
  },
};

interface Named {
  readonly labels?: string | undefined;
  readonly lane?: string | undefined;
  readonly config: string;
}

/** A usage error if no lane is named, or one that a readable configuration does not have. */
async function refuseUnknownLane(values: Named, io: Io): Promise<void> {
  if (given(values.labels ?? io.env["LANE_LABELS"]) !== undefined) return;
  const lane = given(values.lane ?? io.env["LANE_NAME"]);
  if (lane === undefined) throw new UsageError(NO_LANE_NAMED);
  const config = await configFromFile(io, values.config, CONFIG_ADVICE);
  if (config.ok) ownLane(config.value, lane);
}

const NO_LANE_NAMED = "Say which lane: give --lane, or its labels with --labels.";
const CONFIG_ADVICE = "Give another with --config";

function ownLane(config: RepositoryConfig, name: string): OwnLane {
  const own = Object.hasOwn(config.lanes, name) ? config.lanes[name]?.own : undefined;
  if (own !== undefined && own !== null) return own;
  const known = Object.entries(config.lanes).flatMap(([lane, { own: other }]) => (other === null ? [] : [lane]));
  const there = known.length === 0 ? "it has none" : `it has ${known.join(", ")}`;
  throw new UsageError(`The configuration has no lane '${name}' on a machine of your own; ${there}.`);
}

type OwnLane = NonNullable<RepositoryConfig["lanes"][string]["own"]>;

interface Contract {
  readonly lane: string;
  readonly labels: string;
  readonly runbook: string;
}

/** The label set as it was given, else that of the configured lane. */
async function contractOf(values: Named & { readonly runbook?: string | undefined }, io: Io): Promise<Contract> {
  const lane = given(values.lane ?? io.env["LANE_NAME"]);
  const labels = given(values.labels ?? io.env["LANE_LABELS"]);
  const runbook = given(values.runbook ?? io.env["LANE_RUNBOOK"]);
  if (labels !== undefined) return { lane: lane ?? labels, labels, runbook: runbook ?? "" };
  if (lane === undefined) throw new UsageError(NO_LANE_NAMED);
  const config = await configFromFile(io, values.config, CONFIG_ADVICE);
  if (!config.ok) throw new UsageError(config.error[0] ?? `${values.config} is not valid.`);
  const own = ownLane(config.value, lane);
  return { lane, labels: own.runs_on.join(" "), runbook: runbook ?? own.runbook ?? "" };
}

/** An empty input of an action is an input that was not given. */
function given(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}

async function ask(
  labels: string,
  repository: string | undefined,
  organisation: boolean,
  io: Io,
): Promise<ProbeVerdict> {
  const admitted = admitProbe({ switchValue: io.env["LANE_SWITCH"] ?? null, requiredLabels: labels });
  if (!admitted.ask) return admitted.verdict;
  const { owner, name } = repositoryOf(repository, io);
  return await probeLive(admitted.labels, githubGet(io), { owner, repository: name, organisation });
}

async function writeOutputs(verdict: ProbeVerdict, io: Io): Promise<void> {
  const file = io.env["GITHUB_OUTPUT"];
  if (file === undefined || file === "") return;
  const { enabled, registered, available } = verdict;
  await appendFile(file, `enabled=${enabled}\nregistered=${registered}\navailable=${available}\n`);
}

function report(verdict: ProbeVerdict, lane: string, runbook: string, json: boolean, io: Io): void {
  const code = probeReasonCode(verdict.reason);
  const { sentence, whatToDo } = REASONS[code];
  if (json) io.stdout(`${JSON.stringify({ lane, code, ...verdict })}\n`);
  const text = `Lane ${lane}: ${sentence} (${code})`;
  if (!verdict.fail) {
    if (!json) io.stdout(`${text}\n`);
    return;
  }
  const way = runbook === "" ? whatToDo : `${whatToDo} Runbook: ${runbook}`;
  const message = `${text} Seen: ${describeSeen(verdict.seen)} ${way}`;
  // GitHub's workflow command: the message becomes an annotation of the run.
  io.stderr(`::error title=${property(`Lane ${lane} is not available`)}::${data(message)}\n`);
}

/** GitHub decodes exactly these in a workflow command's data; anything unencoded could start a command of its own. */
function data(text: string): string {
  return text.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
}

function property(text: string): string {
  return data(text).replaceAll(":", "%3A").replaceAll(",", "%2C");
}
