/** Every file of a commit, as git's own bytes: names need not be UTF-8, and only the bytes tell. */
import { spawnSync } from "node:child_process";
import { err, ok, type Result } from "../shared/result.ts";
import type { GitFailure } from "./git.ts";

const OUTPUT_MAX_BYTES = 512 << 20;

/** `git ls-tree -r -z` of a commit id. Reads objects only; nothing of the checkout is run. */
export function listTree(folder: string, commit: string): Result<Uint8Array, GitFailure> {
  const args = ["-C", folder, "ls-tree", "-r", "-z", "--full-tree", commit];
  const run = spawnSync("git", args, { maxBuffer: OUTPUT_MAX_BYTES });
  if (run.error === undefined && run.status === 0) return ok(run.stdout);
  const words = run.error?.message ?? run.stderr.toString("utf8").trim().split("\n").at(-1) ?? "";
  return err({ reason: "git-failed", detail: words.replace(/^fatal: /, "") });
}
