/** `gpu-gate archive`: sends any files as balanced parts with a manifest, and puts them together again. */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { required } from "../files.ts";
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

split   sends the content of a folder, or single files, as NAME.part00, NAME.part01, ... of equal size, and NAME.manifest
        with the SHA-256 of every part and every file. Nothing is compressed; together the parts are one tar archive.
verify  reads every part and names each that is damaged, missing, empty, extra or swapped.
join    makes the folder --out from the parts; it appears only when every part and every file has been checked.

An interrupted split or join goes on where it stopped when it is called again. NAME is 'archives' unless given.
The manifest can be read by 'sha256sum --check'; workflows/join-archives.sh joins with bash, tar and coreutils alone.

Exit codes: 0 fine, 1 the parts are not what was sent, 2 wrong call or unusable input.
`;

export const archiveCommand: Command = {
  name: "archive",
  summary: "split archives into checked parts and join them again",
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
      },
    });
    const [action, ...inputs] = positionals;
    const { name } = values;
    if (!isArchiveName(name))
      throw new UsageError(`'${name}' cannot be the name of an archive; use letters, digits, '.', '_' and '-'.`);
    if (action === "split") {
      if (inputs.length === 0) throw new UsageError("Say what to split: a folder or files.");
      return split(
        io,
        inputs,
        required(values.out, "--out", "The folder for the parts"),
        name,
        partCount(values.parts),
      );
    }
    if (action !== "join" && action !== "verify")
      throw new UsageError("Say what to do with the archive: split, join or verify.");
    if (inputs.length > 0)
      throw new UsageError(`'${inputs[0]}' is one word too many; the folder of the parts is given with --in.`);
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

function partCount(text: string): number {
  const count = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (count < 1 || count > PARTS_MAX)
    throw new UsageError(`--parts is a number from 1 to ${PARTS_MAX}, not '${text}'.`);
  return count;
}
