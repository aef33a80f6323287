/** Pieces of the repository configuration that several sections share: names, paths, ids, lanes. */
import * as z from "zod";

/** A name that may appear in a check, a log or an output: one line, no control characters, no blank ends. */
export const oneLine = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .regex(/^[^\p{Cc}\p{Zl}\p{Zp}]+$/u, "must be one line without control characters")
    .regex(/^\S(?:.*\S)?$/su, "must not begin or end with a blank");

/** Account, group or installation ids: beyond 2^53 a number loses digits, so they are written in quotes. */
export const idText = z.string().regex(/^[1-9][0-9]{0,19}$/, 'must be a number in quotes, such as "1234"');

/**
 * A path exactly as git prints it: relative, `/` between parts, no `.` or `..` part. Matching is exact in case and
 * prefix, so an entry that git could never print would never match and is refused instead.
 */
const gitPath = (folder: boolean) =>
  z
    .string()
    .min(1)
    .max(1000)
    .refine((value) => isGitPath(folder && value.endsWith("/") ? value.slice(0, -1) : value), {
      error:
        "must be a path as git prints it: no leading `/` or `./`, no empty, `.` or `..` part, no blank at either end",
    });

export const fileName = gitPath(false);

export const folderPrefix = gitPath(true).regex(/\/$/, "must end with `/`: `docs` would also match `docs-old.rs`");

export const workflowPath = z
  .string()
  .max(300)
  .regex(/^\.github\/workflows\/[A-Za-z0-9._-]+\.ya?ml$/, "must be `.github/workflows/<name>.yml`");

/** Whether git could print this path: it refuses empty, `.`, `..` and `.git` parts, and NUL ends a name. */
export function isGitPath(path: string): boolean {
  if (path.includes("\u0000") || path.trim() !== path) return false;
  return path.split("/").every((part) => part !== "" && part !== "." && part !== ".." && part.toLowerCase() !== ".git");
}

const MAX_PATTERNS = 2000;

export const pathSet = z.strictObject({
  files: z.array(fileName).max(MAX_PATTERNS).default([]).describe("Exact paths, exact case."),
  prefixes: z.array(folderPrefix).max(MAX_PATTERNS).default([]).describe("Folders, each ending with `/`."),
});

/** Lane names become workflow outputs (`run_<name>`). */
export const LANE_NAME = /^[a-z][a-z0-9_]{0,39}$/;

export const laneSchema = z.strictObject({
  asked_by: z
    .array(z.enum(["docs", "ci"]))
    .max(2)
    .default([])
    .describe("Light classes that ask for the lane; code always does."),
  control: pathSet.prefault({}).describe("Light paths that ask for the lane because they steer it."),
  hosted_only: pathSet
    .prefault({})
    .describe("Light paths known never to ask for the lane; written down so that nobody adds them to `control`."),
  checks: z.array(oneLine(200)).max(50).default([]).describe("Check names this lane owns; a check has one owner."),
  own: z
    .strictObject({
      runs_on: z
        .array(z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$/, "must be a runner label"))
        .min(1)
        .max(20)
        .describe("The exact label set of the job's `runs-on`; one online runner must carry all of them."),
      switch: z
        .string()
        .regex(/^[A-Z_][A-Z0-9_]{0,99}$/, "must be a repository variable's name in capitals")
        .describe("Repository variable; the lane is on only when its value is exactly `true`."),
      runbook: z
        .url({ protocol: /^https$/ })
        .nullable()
        .default(null)
        .describe("Page that says how to bring the lane's machines back."),
      probe: oneLine(200).nullable().default(null).describe("Check name of the job that probes for the runner."),
    })
    .nullable()
    .default(null)
    .describe("Present when the lane runs on a machine of your own."),
});
