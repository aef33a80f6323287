/**
 * What the commands ask of git: resolve a revision, read a file of it, the raw difference of two, and the history.
 *
 * Names come NUL-separated, so that no name can be mistaken for two. Options that a user's git settings could change
 * (renames, order, hidden submodules, external tools) are set on every call. Failures are typed results.
 */
import { execFile, spawn } from "node:child_process";
import { fromRawEntry, type ChangedFile } from "../shared/policy/changes.ts";
import type { PastChange } from "../shared/policy/what-if.ts";
import { err, ok, type Result } from "../shared/result.ts";

export interface GitFailure {
  readonly reason: "git-failed";
  /** One line for people: git's own last words. */
  readonly detail: string;
}

const MAX_OUTPUT_BYTES = 256 * 1024 * 1024;
const DIFF_OPTIONS = ["--raw", "-z", "--no-renames", "--no-abbrev", "--no-color", "--no-ext-diff", "--no-relative"];
const SUBMODULES_SHOWN = "--ignore-submodules=none";

/** The commit that a branch, tag or SHA names. */
export async function resolveCommit(cwd: string, revision: string): Promise<Result<string, GitFailure>> {
  const answer = await git(cwd, ["rev-parse", "--verify", "--quiet", "--end-of-options", `${revision}^{commit}`]);
  if (!answer.ok) {
    // About a revision that it does not know, git says nothing (--quiet); what it does say is about something else.
    const other = /not a git repository|ENOENT/.exec(answer.error.detail)?.[0];
    if (other === "ENOENT") return err({ reason: "git-failed", detail: "git cannot be started: is it installed?" });
    if (other !== undefined) return err({ reason: "git-failed", detail: "this is not a git repository" });
    return err({ reason: "git-failed", detail: `'${revision}' names no commit here` });
  }
  return ok(answer.value.trim());
}

/** A file's text in a commit. */
export async function fileAt(cwd: string, commit: string, path: string): Promise<Result<string, GitFailure>> {
  return await git(cwd, ["cat-file", "blob", `${commit}:${path}`]);
}

/** What a pull request of `head` onto `base` changes: from their merge base to the head, as GitHub shows it. */
export async function changedFiles(
  cwd: string,
  base: string,
  head: string,
): Promise<Result<ChangedFile[], GitFailure>> {
  const mergeBase = await git(cwd, ["merge-base", base, head]);
  if (!mergeBase.ok)
    return err({ reason: "git-failed", detail: "base and head have no common commit (a shallow clone?)" });
  const from = mergeBase.value.trim();
  const diff = await git(cwd, ["diff", ...DIFF_OPTIONS, SUBMODULES_SHOWN, from, head, "--"]);
  if (!diff.ok) return diff;
  const files: ChangedFile[] = [];
  const parser = rawParser({ commit: () => {}, file: (file) => files.push(file) });
  return parser.push(diff.value) && parser.end() ? ok(files) : err(UNREADABLE);
}

const UNREADABLE: GitFailure = { reason: "git-failed", detail: "git's answer could not be read" };

/**
 * Every change of a branch since an instant, newest first, a merge as one change against its first parent. Streams:
 * one call of git, one change in memory at a time.
 */
export async function history(
  cwd: string,
  options: { readonly commit: string; readonly sinceSeconds: number },
  each: (change: PastChange) => void,
): Promise<Result<number, GitFailure>> {
  const args = [
    "log",
    ...DIFF_OPTIONS,
    SUBMODULES_SHOWN,
    "--first-parent",
    "--diff-merges=first-parent",
    "--no-show-signature",
    `--since=${options.sinceSeconds}`,
    "--format=commit %H %ct %s",
    options.commit,
    "--",
  ];
  let count = 0;
  let open: { sha: string; committedAt: number; subject: string; files: ChangedFile[] } | null = null;
  const close = (): void => {
    if (open === null) return;
    each(open);
    count += 1;
    open = null;
  };
  const parser = rawParser({
    commit: (sha, committedAt, subject) => {
      close();
      open = { sha, committedAt, subject, files: [] };
    },
    file: (file) => open?.files.push(file),
  });
  const ended = await stream(cwd, args, parser);
  if (!ended.ok) return ended;
  close();
  return ok(count);
}

interface RawParser {
  /** False when the text is not what git's raw format allows. */
  readonly push: (text: string) => boolean;
  readonly end: () => boolean;
}

/** Reads `:modes blobs status NUL path NUL`, with `commit ...` lines between them, from pieces of any size. */
function rawParser(take: {
  readonly commit: (sha: string, committedAt: number, subject: string) => void;
  readonly file: (file: ChangedFile) => void;
}): RawParser {
  let rest = "";
  let header: { oldMode: string; newMode: string; status: string } | null = null;
  const token = (text: string): boolean => {
    if (header !== null) {
      take.file(fromRawEntry({ ...header, path: text }));
      header = null;
      return true;
    }
    const line = text.replace(/^\n+/, "");
    if (line === "") return true;
    const raw = /^:(\d{6}) (\d{6}) \S+ \S+ ([A-Z])\d*$/.exec(line);
    if (raw !== null) {
      header = { oldMode: raw[1] ?? "", newMode: raw[2] ?? "", status: raw[3] ?? "" };
      return true;
    }
    const commit = /^commit ([0-9a-f]{40,64}) (\d+) (.*)$/s.exec(line);
    if (commit === null) return false;
    take.commit(commit[1] ?? "", Number(commit[2]), commit[3] ?? "");
    return true;
  };
  return {
    push: (text) => {
      const tokens = (rest + text).split("\u0000");
      rest = tokens.pop() ?? "";
      return tokens.every(token);
    },
    end: () => {
      const last = rest;
      rest = "";
      return token(last) && header === null;
    },
  };
}

function git(cwd: string, args: readonly string[]): Promise<Result<string, GitFailure>> {
  return new Promise((resolve) => {
    const options = { cwd, maxBuffer: MAX_OUTPUT_BYTES, encoding: "utf8" as const };
    execFile("git", [...args], options, (error, stdout, stderr) => {
      resolve(error === null ? ok(stdout) : err(failure(stderr, error.message)));
    });
  });
}

function stream(cwd: string, args: readonly string[], parser: RawParser): Promise<Result<null, GitFailure>> {
  return new Promise((resolve) => {
    const child = spawn("git", [...args], { cwd, stdio: ["ignore", "pipe", "pipe"] });
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true, fatal: false });
    let readable = true;
    let words = "";
    child.stdout.on("data", (chunk: Buffer) => {
      readable &&= parser.push(decoder.decode(chunk, { stream: true }));
    });
    child.stderr.on("data", (chunk: Buffer) => {
      words = (words + chunk.toString()).slice(-2000);
    });
    child.on("error", (error) => resolve(err(failure("", error.message))));
    child.on("close", (code) => {
      if (code !== 0) resolve(err(failure(words, `git ended with ${code}`)));
      else resolve(readable && parser.push(decoder.decode()) && parser.end() ? ok(null) : err(UNREADABLE));
    });
  });
}

function failure(stderr: string, fallback: string): GitFailure {
  const line = stderr.trim().split("\n").at(-1) ?? "";
  return { reason: "git-failed", detail: line === "" ? fallback : line.replace(/^fatal: /, "") };
}
