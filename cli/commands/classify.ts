/** `gpu-gate classify`: the change policy in a terminal or a hosted job; the gate's own decision, byte for byte. */
import { appendFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import { plainFile, type ChangedFile } from "../../shared/policy/changes.ts";
import { classify, type Classification } from "../../shared/policy/classify.ts";
import { classificationDocument } from "../../shared/policy/document.ts";
import { outputText } from "../../shared/policy/outputs.ts";
import { pathsFromText } from "../../shared/policy/paths.ts";
import { err, ok, type Result } from "../../shared/result.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { systemReason } from "../files.ts";
import { changedFiles, resolveCommit } from "../git.ts";
import { configFromCommit, configFromFile } from "../repository-config.ts";
import { runWhatIf } from "../what-if.ts";

const usage = `
gpu-gate classify [options] [PATH...]
gpu-gate classify --config NEW.yml [--against OLD.yml] --since 90d [--ref REV] [--json]

Says which class a change has and which lanes it asks for, as JSON. Where GITHUB_OUTPUT is set, the same goes there as
classification, run_<lane> and reason. Whatever goes wrong ends with exit code 1 and no outputs, never with fewer lanes.

The changed files come from one place:
  PATH...             arguments
  --stdin             standard input, one path a line
  -0, --null          standard input, paths parted by NUL
  --base A --head B   git: everything B changed since it left A, a moved file under both names
Paths from arguments and standard input are trimmed and lose one leading './'. With --exact they are taken as they are.

  --event NAME        the event, default pull_request; push runs everything but the paid GPU
  --config FILE       default: .github/gpu-gate.yml, with --base the one in that commit
  --json              with --since: the whole replay as JSON; the decision itself is JSON always

With --since the local history is replayed under two configurations and what would have changed is printed: --config is
the new one, --against the old one (default .github/gpu-gate.yml). --since takes 90d, 12w, 36h or a date; --ref is the
branch, default HEAD. Each commit of its first-parent line counts as one pull request.
`;

const options = {
  stdin: { type: "boolean", default: false },
  null: { type: "boolean", short: "0", default: false },
  exact: { type: "boolean", default: false },
  base: { type: "string" },
  head: { type: "string" },
  event: { type: "string", default: "pull_request" },
  config: { type: "string" },
  against: { type: "string" },
  since: { type: "string" },
  ref: { type: "string" },
  json: { type: "boolean", default: false },
} as const;

type Values = ReturnType<typeof parse>["values"];

function parse(args: readonly string[]) {
  return parseArgs({ args: [...args], options, allowPositionals: true });
}

export const classifyCommand: Command = {
  name: "classify",
  summary: "Say what a change is and which lanes it asks for; replay history under a new configuration",
  usage,
  run: async (args, io) => {
    const { values, positionals } = parse(args);
    if (values.since !== undefined) return await runWhatIf(whatIfOptions(values, positionals), io);
    if (values.against !== undefined || values.ref !== undefined) {
      throw new UsageError("--against and --ref belong to --since.");
    }
    const result = await classifyOnce(values, positionals, io);
    if (!result.ok) return refuse(io, result.error);
    return await publish(result.value.config, result.value.result, io);
  },
};

function whatIfOptions(values: Values, positionals: readonly string[]) {
  const { config, against, since, ref, json } = values;
  if (config === undefined)
    throw new UsageError("--since compares two configurations: name the new one with --config.");
  if (positionals.length > 0 || values.stdin || values.null || values.base !== undefined || values.head !== undefined) {
    throw new UsageError("--since reads the history; leave out paths, --stdin, --base and --head.");
  }
  return { config, against, since: since ?? "", ref: ref ?? "HEAD", json };
}

type Problems = readonly string[];

async function classifyOnce(
  values: Values,
  positionals: readonly string[],
  io: Io,
): Promise<Result<{ config: RepositoryConfig; result: Classification }, Problems>> {
  const listed = await listFiles(values, positionals, io);
  if (!listed.ok) return listed;
  const { files, base } = listed.value;
  const config =
    values.config === undefined && base !== null
      ? await configFromCommit(io, base, "Give one with --config")
      : await configFromFile(io, values.config, "Give another with --config");
  if (!config.ok) return config;
  const result = classify(config.value, { event: values.event, files, problem: null });
  return ok({ config: config.value, result });
}

interface Listed {
  readonly files: readonly ChangedFile[];
  /** The base commit, when git was asked: its configuration is the trusted one. */
  readonly base: string | null;
}

async function listFiles(values: Values, positionals: readonly string[], io: Io): Promise<Result<Listed, Problems>> {
  const fromStdin = values.stdin || values.null;
  const fromGit = values.base !== undefined || values.head !== undefined;
  const sources = [positionals.length > 0, fromStdin, fromGit].filter(Boolean).length;
  if (sources > 1) throw new UsageError("give paths, --stdin or --base with --head, not several of them.");
  if (sources === 0 && values.event !== "push") {
    throw new UsageError("no changed files were given: give paths, --stdin, or --base with --head.");
  }
  if (fromGit) return await filesFromGit(values.base, values.head, io);
  const raw = fromStdin ? await pathsFromStdin(values.null ? "\u0000" : "\n", io) : positionals;
  const paths = values.exact ? raw.filter((path) => path !== "") : pathsFromText(raw);
  return ok({ files: paths.map(plainFile), base: null });
}

async function pathsFromStdin(separator: string, io: Io): Promise<string[]> {
  // A byte order mark is part of a name, not a greeting: dropping it could turn an unknown name into documentation.
  return new TextDecoder("utf-8", { ignoreBOM: true, fatal: false }).decode(await io.stdin()).split(separator);
}

async function filesFromGit(
  base: string | undefined,
  head: string | undefined,
  io: Io,
): Promise<Result<Listed, Problems>> {
  if (base === undefined || head === undefined) throw new UsageError("--base and --head belong together.");
  const from = await resolveCommit(io.cwd, base);
  if (!from.ok) return err([`${from.error.detail}.`]);
  const to = await resolveCommit(io.cwd, head);
  if (!to.ok) return err([`${to.error.detail}.`]);
  const files = await changedFiles(io.cwd, from.value, to.value);
  return files.ok ? ok({ files: files.value, base: from.value }) : err([`${files.error.detail}.`]);
}

async function publish(config: RepositoryConfig, result: Classification, io: Io): Promise<number> {
  const file = io.env["GITHUB_OUTPUT"];
  if (file !== undefined && file !== "") {
    const text = outputText(result);
    if (!text.ok) {
      return refuse(io, [
        `the value of '${text.error.name}' holds a line break (a file name does); it is not written as an output.`,
      ]);
    }
    try {
      await appendFile(file, text.value);
    } catch (error) {
      return refuse(io, [`GITHUB_OUTPUT cannot be written: ${systemReason(error)}.`]);
    }
  }
  io.stdout(`${JSON.stringify(classificationDocument(config, result), null, 2)}\n`);
  return EXIT_OK;
}

function refuse(io: Io, problems: Problems): number {
  for (const problem of problems) io.stderr(`gpu-gate classify: ${problem}\n`);
  io.stderr("gpu-gate classify: no classification, so nothing may be skipped; this is a failure.\n");
  return EXIT_NO;
}
