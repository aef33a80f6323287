/** The small read-only GitHub client of the hosted jobs' commands: one GET, one answer, never an exception. */
import { isHeaderWord, NO_HEADER_WORD } from "../shared/header-word.ts";
import type { GetPage } from "../shared/policy/read-runners.ts";
import { sameServerFetch } from "../shared/github/call.ts";
import { githubAddress } from "./addresses.ts";
import { UsageError, type Io } from "./command.ts";
import { whyNoAnswer } from "./no-answer.ts";

const TIMEOUT_MS = 30_000;
/** The API version this project is written against (GitHub sends the newest by default, which may drop fields). */
const API_VERSION = "2026-03-10";

/** Names of the environment variables that may hold the token, the most specific first. */
export const TOKEN_VARIABLES = ["GPU_GATE_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"] as const;

/** Builds the client from the environment. The token goes to `GITHUB_API_URL` only, and only in the header. */
export function githubGet(io: Io): GetPage {
  const failed =
    (what: string): GetPage =>
    () =>
      Promise.resolve({ kind: "failure", what });
  const variable = TOKEN_VARIABLES.find((one) => (io.env[one] ?? "").trim() !== "");
  if (variable === undefined) return failed(`no token: set ${TOKEN_VARIABLES[0]} to one that may read`);
  const token = (io.env[variable] ?? "").trim();
  if (!isHeaderWord(token)) return failed(`${variable} ${NO_HEADER_WORD}`);
  const base = githubAddress(io);
  return async (path) => {
    try {
      const response = await sameServerFetch(io.fetch, `${base}${path}`, {
        headers: {
          accept: "application/vnd.github+json",
          authorization: `Bearer ${token}`,
          "user-agent": "gpu-gate",
          "x-github-api-version": API_VERSION,
        },
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      return { kind: "answer", status: response.status, body: await response.text() };
    } catch (error) {
      return { kind: "failure", what: `GET ${path} got no answer from ${new URL(base).host}: ${whyNoAnswer(error)}` };
    }
  };
}

/** `owner/name` from an option or GITHUB_REPOSITORY, in its two parts. */
export function repositoryOf(option: string | undefined, io: Io): { readonly owner: string; readonly name: string } {
  const text = option ?? io.env["GITHUB_REPOSITORY"] ?? "";
  const match = /^([\w.-]+)\/([\w.-]+)$/u.exec(text);
  // Of dots alone, it would be a step up in an address.
  const [, owner, name] = match?.some((part) => /^\.+$/.test(part)) === false ? match : [];
  if (owner === undefined || name === undefined) {
    if (text === "")
      throw new UsageError("The repository is missing: give --repository owner/name or set GITHUB_REPOSITORY.");
    throw new UsageError(`The repository must be written as owner/name, not '${text}'; set --repository.`);
  }
  return { owner, name };
}
