/** `gpu-gate archive-key`: the content key of the test archives, computed from checkouts. */
import { parseArgs } from "node:util";
import { CONFIG_PATH } from "../../shared/config/schema.ts";
import {
  archiveKey,
  entriesFromLsTree,
  explainArchiveKeyError,
  type ArchiveKeyError,
  type TreeEntry,
} from "../../shared/hosted/archive-key.ts";
import type { Result } from "../../shared/result.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { existingFolder, required } from "../files.ts";
import { resolveCommit } from "../git.ts";
import { listTree } from "../list-tree.ts";
import { configFromCommit } from "../repository-config.ts";

const usage = `
gpu-gate archive-key --checkout DIR [--revision REV] [--trusted DIR] [--trusted-revision REV] [--explain]

Prints the content key of the test archives: the same key that the control plane computes for the same trees. It is made
from the committed content, never from changed files in the folder, and never from a branch, a ref or a commit id.

  --checkout          a checkout that has the tested revision
  --revision          the tested revision (default HEAD)
  --trusted           a checkout of the default branch, whose ${CONFIG_PATH} and workflow files count (default: --checkout)
  --trusted-revision  its revision (default HEAD)
  --explain           prints what the key is made from, line by line, for comparing two keys

Exit codes: 0 printed, 1 the trees have no key (the archives are then built afresh), 2 wrong call or no such revision.
`;

export const archiveKeyCommand: Command = {
  name: "archive-key",
  summary: "Compute the content key of the test archives from a checkout",
  usage,
  run: async (args, io) => {
    const { values } = parseArgs({
      args: [...args],
      options: {
        checkout: { type: "string" },
        revision: { type: "string", default: "HEAD" },
        trusted: { type: "string" },
        "trusted-revision": { type: "string", default: "HEAD" },
        explain: { type: "boolean", default: false },
      },
    });
    const checkout = await existingFolder(
      io,
      required(values.checkout, "--checkout", "The checkout"),
      "The checkout",
      "--checkout",
    );
    const trustedCheckout =
      values.trusted === undefined
        ? checkout
        : await existingFolder(io, values.trusted, "The trusted checkout", "--trusted");
    const tested = await commitOf(checkout, values.revision);
    const trusted = await commitOf(trustedCheckout, values["trusted-revision"]);

    const config = await configFromCommit(
      { ...io, cwd: trustedCheckout },
      trusted,
      "Commit one there, or name a checkout and a revision that have it with --trusted and --trusted-revision",
    );
    if (!config.ok) return refuse(io, config.error.join("\n"));
    const testedEntries = entriesOf(checkout, tested);
    if (!testedEntries.ok) return refuse(io, `gpu-gate archive-key: ${explainArchiveKeyError(testedEntries.error)}.`);
    const trustedEntries = entriesOf(trustedCheckout, trusted);
    if (!trustedEntries.ok) return refuse(io, `gpu-gate archive-key: ${explainArchiveKeyError(trustedEntries.error)}.`);
    const key = await archiveKey({ config: config.value, tested: testedEntries.value, trusted: trustedEntries.value });
    if (!key.ok) return refuse(io, `gpu-gate archive-key: ${explainArchiveKeyError(key.error)}.`);
    io.stdout(values.explain ? key.value.text : `${key.value.key}\n`);
    return EXIT_OK;
  },
};

async function commitOf(folder: string, revision: string): Promise<string> {
  const commit = await resolveCommit(folder, revision);
  if (!commit.ok) throw new UsageError(`In '${folder}': ${commit.error.detail}.`);
  return commit.value;
}

function entriesOf(folder: string, commit: string): Result<readonly TreeEntry[], ArchiveKeyError> {
  const listing = listTree(folder, commit);
  if (!listing.ok) throw new UsageError(`git cannot list ${commit} in '${folder}': ${listing.error.detail}.`);
  return entriesFromLsTree(listing.value);
}

function refuse(io: Io, why: string): number {
  io.stderr(`${why}\n`);
  return EXIT_NO;
}
