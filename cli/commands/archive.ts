/**
 * `gpu-gate archive`: sends any files as balanced parts with a manifest, puts them together again, and looks for parts
 * that an earlier run has sent.
 */
import { appendFile } from "node:fs/promises";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { allGiven, required, systemReason } from "../files.ts";
import { githubGet, repositoryOf } from "../github-get.ts";
import { findEarlier } from "../transport/find.ts";
import { joinArchive } from "../transport/join.ts";
import { findPartProblems, loadManifest } from "../transport/parts.ts";
import { splitArchive } from "../transport/split.ts";
import {
  DEFAULT_PARTS,
  explainPartProblem,
  isArchiveName,
  manifestFile,
  PARTS_MAX,
} from "../../shared/hosted/archive.ts";

const usage = `
gpu-gate archive split  --out DIR [--name NAME] [--parts ${DEFAULT_PARTS}] FOLDER|FILE...
gpu-gate archive verify --in DIR [--name NAME]
gpu-gate archive join   --in DIR [--name NAME] --out DIR
gpu-gate archive find   --key KEY [--trust WORKFLOW_FILE]...

split   sends the content of a folder, or single files, as NAME.part00, NAME.part01, ... of equal size, and NAME.manifest
        with the SHA-256 of every part and every file. Nothing is compressed; together the parts are one tar archive.
verify  reads every part and names each that is damaged, missing, empty, extra or swapped.
join    makes the folder --out from the parts; it appears only when every part and every file has been checked.
find    looks for archives that an earlier run of this repository built under the same content key. Trusted are only other
        runs of this job's own workflow file (and of those named with --trust), at the branch this run is at, by events
        that run that branch's file. Outputs found, run_id and artifact_ids go to GITHUB_OUTPUT. GPU_GATE_TOKEN reads
        (Actions: read). Any doubt means found=false, and the archives are built; what GitHub did not let it read is said.

  --out DIR    folder for the parts, or the folder that is made of them
  --in DIR     folder with the parts
  --name NAME  what parts and manifest are called, default archives
  --parts N    how many, 1 to ${PARTS_MAX}
  --key KEY    content key, as 'gpu-gate archive-key' prints it

An interrupted split or join goes on where it stopped when it is called again.
The manifest can be read by 'sha256sum --check'; workflows/join-archives.sh joins with bash, tar and coreutils alone.

Exit codes: 0 fine, 1 the parts are not what was sent, 2 wrong call or unusable input.
`;

export const archiveCommand: Command = {
  name: "archive",
  summary: "Split archives into checked parts and join them again",
  usage,
  run: async (args, io) => {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        in: { type: "string" },
        out: { type: "string" },
        name: { type: "string", default: "archives" },
        parts: { type: "string", default: String(DEFAULT_PARTS) },
        key: { type: "string" },
        trust: { type: "string", multiple: true, default: [] },
      },
    });
    const [action, ...inputs] = positionals;
    const { name } = values;
    if (!isArchiveName(name))
      throw new UsageError(`'${name}' cannot be the name of an archive; use letters, digits, '.', '_' and '-'.`);
    if (action === "split") {
      allGiven([inputs[0], "FOLDER or FILE", "what to split"], [values.out, "--out", "the folder for the parts"]);
      if (inputs.length === 0) throw new UsageError("Say what to split: a folder or files.");
      return split(
        io,
        inputs,
        required(values.out, "--out", "The folder for the parts"),
        name,
        partCount(values.parts),
      );
    }
    if (action === "find" && inputs.length > 0)
      throw new UsageError(`'${inputs[0]}' is one word too many; the key is given with --key.`);
    if (action === "find") return find(io, required(values.key, "--key", "The content key"), values.trust);
    if (action !== "join" && action !== "verify")
      throw new UsageError("Say what to do with the archive: split, join, verify or find.");
    if (inputs.length > 0)
      throw new UsageError(`'${inputs[0]}' is one word too many; the folder of the parts is given with --in.`);
    if (action === "join")
      allGiven([values.in, "--in", "the folder with the parts"], [values.out, "--out", "the folder to make"]);
    const folder = resolve(io.cwd, required(values.in, "--in", "The folder with the parts"));
    const target = action === "join" ? resolve(io.cwd, required(values.out, "--out", "The folder to make")) : null;
    const manifest = await loadManifest(folder, name);
    const problems =
      target === null
        ? findPartProblems(folder, manifest).map(explainPartProblem)
        : await joinArchive({ folder, manifest, target });
    if (problems.length > 0) {
      io.stderr(problems.map((problem) => `${problem}\n`).join(""));
      return EXIT_NO;
    }
    const files = manifest.entries.filter((entry) => entry.kind === "file").length;
    io.stdout(`${name}: ${manifest.parts.length} parts, ${files} files, all as they were sent.\n`);
    return EXIT_OK;
  },
};

async function split(io: Io, inputs: readonly string[], out: string, name: string, parts: number): Promise<number> {
  const manifest = await splitArchive({
    inputs: inputs.map((input) => resolve(io.cwd, input)),
    folder: resolve(io.cwd, out),
    name,
    parts,
  });
  for (const part of manifest.parts) io.stdout(`${part.sha256}  ${part.file}  ${part.bytes} bytes\n`);
  io.stdout(`${manifestFile(name)} speaks for them.\n`);
  return EXIT_OK;
}

async function find(io: Io, key: string, trusted: readonly string[]): Promise<number> {
  if (!/^[A-Za-z0-9._-]{1,200}$/.test(key))
    throw new UsageError(`'${key}' is no content key; gpu-gate archive-key makes one.`);
  const own = /^[^/]+\/[^/]+\/(\.github\/workflows\/[^@]+)@refs\/heads\/(.+)$/.exec(
    io.env["GITHUB_WORKFLOW_REF"] ?? "",
  );
  const [, path, branch] = own ?? [];
  const [currentRunId = "", actorId = "", repository = ""] = [
    io.env["GITHUB_RUN_ID"],
    io.env["GITHUB_ACTOR_ID"],
    io.env["GITHUB_REPOSITORY"],
  ];
  const isId = (text: string): boolean => /^\d+$/.test(text);
  if (path === undefined || branch === undefined || !isId(currentRunId) || !isId(actorId) || repository === "")
    throw new UsageError(
      "archive find belongs into a job at a branch: GITHUB_REPOSITORY, GITHUB_WORKFLOW_REF, GITHUB_RUN_ID and GITHUB_ACTOR_ID say which.",
    );
  const { owner, name } = repositoryOf(repository, io);
  const workflowPaths = new Set([path, ...trusted]);
  const lookup = { get: githubGet(io), owner, name, key, currentRunId, workflowPaths, branch, actorId };
  const earlier = await findEarlier(lookup);
  const found = earlier.kind === "found";
  if (found) io.stdout(`Run ${earlier.runId} has built ${key}: artifacts ${earlier.artifactIds}.\n`);
  else io.stdout(`Nothing to use again: ${earlier.why}. The archives are built.\n`);
  if (!found && earlier.cause !== null) io.stderr(`gpu-gate archive find: ${earlier.cause}.\n`);
  const file = io.env["GITHUB_OUTPUT"] ?? "";
  if (file === "") return EXIT_OK;
  const ids = found ? `run_id=${earlier.runId}\nartifact_ids=${earlier.artifactIds}\n` : "";
  try {
    await appendFile(file, `found=${found}\n${ids}`);
  } catch (error) {
    throw new UsageError(`GITHUB_OUTPUT cannot be written: ${systemReason(error)}.`, { cause: error });
  }
  return EXIT_OK;
}

function partCount(text: string): number {
  const count = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (count < 1 || count > PARTS_MAX)
    throw new UsageError(`--parts is a number from 1 to ${PARTS_MAX}, not '${text}'.`);
  return count;
}
