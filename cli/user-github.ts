/**
 * GitHub with the maintainer's own token: the same typed client as the gate's, signed in as a person.
 *
 * The token comes from the environment or from `gh auth token` for the server that it goes to, is held in memory,
 * and goes to GitHub's API in a header.
 * The control plane never sees it: it learns who asks from the dispatched run.
 */
import { isHeaderWord, NO_HEADER_WORD } from "../shared/header-word.ts";
import { execFile } from "node:child_process";
import process from "node:process";
import { exchange, GITHUB_API_VERSION } from "../shared/github/call.ts";
import { createGitHubClient, type GitHubClient } from "../shared/github/client.ts";
import { createEtagCache } from "../shared/github/etag.ts";
import { err, ok, type Result } from "../shared/result.ts";
import { UsageError, type Io } from "./command.ts";
import { githubAddress } from "./addresses.ts";
import { repositoryOf } from "./github-get.ts";

/** As `gh` itself reads them. */
const TOKEN_VARIABLES = ["GH_TOKEN", "GITHUB_TOKEN"] as const;
const COMMAND_TIMEOUT_MS = 15_000;

/** The person's token, or what to do to have one. */
export async function userToken(io: Io): Promise<Result<string, string>> {
  for (const name of TOKEN_VARIABLES) {
    const value = (io.env[name] ?? "").trim();
    if (value !== "") return isHeaderWord(value) ? ok(value) : err(`${name} ${NO_HEADER_WORD}.`);
  }
  const printed = await output("gh", ["auth", "token", "--hostname", ghHost(io)], io);
  const token = printed?.trim() ?? "";
  if (token !== "" && isHeaderWord(token)) return ok(token);
  return err("there is no GitHub token: run 'gh auth login', or set GH_TOKEN to a token that may start workflows.");
}

/**
 * The server whose token `gh` is asked for: the one that it is sent to. Left to itself, `gh` answers for whichever server it
 * takes for its default, and that token would go to this one.
 */
function ghHost(io: Io): string {
  return new URL(githubAddress(io)).hostname.replace(/^api\./u, "");
}

/** The repository of the option, of GITHUB_REPOSITORY, or of this checkout's `origin`. */
export async function repositoryHere(
  option: string | undefined,
  io: Io,
): Promise<{ readonly owner: string; readonly name: string }> {
  const given = option ?? io.env["GITHUB_REPOSITORY"];
  if (given !== undefined && given !== "") return repositoryOf(given, io);
  const origin = (await output("git", ["remote", "get-url", "origin"], io))?.trim() ?? "";
  const match = /[/:]([\w.-]+)\/([\w.-]+?)(?:\.git)?\/?$/u.exec(origin);
  const [, owner, name] = match ?? [];
  if (owner === undefined || name === undefined) {
    throw new UsageError("which repository? Run this in a checkout, or give --repository owner/name.");
  }
  return { owner, name };
}

/** Answers that GitHub says are unchanged cost nothing of the rate limit, so waiting does not use it up. */
export function userGitHub(
  io: Io,
  token: string,
  repository: { readonly owner: string; readonly name: string },
): GitHubClient {
  const base = githubAddress(io);
  const deps = { fetch: io.fetch, clock: { now: io.now } };
  return createGitHubClient({
    repository: { id: `${repository.owner}/${repository.name}`, ...repository, installationId: null },
    runners: { kind: "repository" },
    etags: createEtagCache(),
    app: {
      asRepository: (_repository, call) =>
        exchange(
          deps,
          call,
          (fetch, signal) =>
            fetch(`${base}${call.path}`, {
              method: call.method,
              headers: {
                accept: "application/vnd.github+json",
                authorization: `Bearer ${token}`,
                "user-agent": "gpu-gate",
                "x-github-api-version": GITHUB_API_VERSION,
                ...(call.etag === undefined ? {} : { "if-none-match": call.etag }),
                ...(call.body === undefined ? {} : { "content-type": "application/json" }),
              },
              ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
              signal,
            }),
          [token],
        ),
    },
  });
}

/** What a program prints; null when it is not there or fails. Arguments are passed as they are, without a shell. */
function output(program: string, args: readonly string[], io: Io): Promise<string | null> {
  return new Promise((resolve) => {
    const options = { cwd: io.cwd, env: { ...process.env, ...io.env }, timeout: COMMAND_TIMEOUT_MS };
    execFile(program, [...args], options, (error, stdout) => resolve(error === null ? stdout : null));
  });
}
