/**
 * The deployment's GitHub App: one instance, kept by the caller, that signs what is asked as the App and lends
 * installation tokens to what is asked for a repository.
 *
 * `@octokit/app` makes the JWT (RS256, and a second try when GitHub says our clock is off). Everything else about a
 * call is in `call.ts`: Octokit throws, and a gate needs to know what happened.
 *
 * A repository's installation can change under our feet (the App reinstalled, the repository transferred). So an
 * installation id is a memory, not a fact: when GitHub refuses it, it is looked up once more, and once only.
 */

import { App } from "@octokit/app";
import { Octokit } from "@octokit/core";
import * as z from "zod";
import type { Clock, FetchLike, Millis } from "../ports.ts";
import { err, ok, type Result } from "../result.ts";
import { normalizeAppKey, type AppKeyProblem } from "./app-key.ts";
import {
  exchange,
  exchangeOnce,
  GITHUB_API_VERSION,
  path,
  type CallReport,
  type GitHubAnswer,
  type GitHubCall,
} from "./call.ts";
import { parseExactJson } from "./exact-json.ts";
import { failureClass, type GitHubFailure } from "./failure.ts";
import { githubId } from "./schema.ts";
import { narrowed, purposeOf, type Purpose, type TokenScope } from "./purpose.ts";
import { createInstallationTokens, joined } from "./tokens.ts";

export interface GitHubAppConfig {
  /** The App's id as digits, or its client id. */
  readonly appId: string;
  /** PEM in any spelling `normalizeAppKey` takes. */
  readonly privateKey: string;
  /** `https://api.github.com`, a GHES `/api/v3`, or a local server. */
  readonly apiUrl: string;
  /** Default `gpu-gate`. GitHub refuses requests without one. */
  readonly userAgent?: string;
  /** Default time-out of an exchange, 10 s. */
  readonly timeoutMs?: number;
}

export interface GitHubAppDeps {
  readonly fetch: FetchLike;
  readonly clock: Clock;
  /** Hears of every HTTP exchange, token requests included. Must not throw. */
  readonly onCall?: (report: CallReport) => void;
}

/** A repository to call for. The id is what identifies it; `installationId` null means: look it up. */
export interface RepositoryHandle {
  readonly id: string;
  readonly owner: string;
  readonly name: string;
  readonly installationId: string | null;
}

export interface GitHubApp {
  /** Calls with the App's JWT. */
  asApp(call: GitHubCall): Promise<Result<GitHubAnswer, GitHubFailure>>;
  /** Calls with a token of an installation, whatever repository it is about. */
  asInstallation(installationId: string, call: GitHubCall): Promise<Result<GitHubAnswer, GitHubFailure>>;
  /** Calls with a token of the repository's installation. */
  asRepository(repository: RepositoryHandle, call: GitHubCall): Promise<Result<GitHubAnswer, GitHubFailure>>;
  /** The installation id in use for a repository: known, given, or looked up. */
  installationOf(repository: RepositoryHandle): Promise<Result<string, GitHubFailure>>;
}

/**
 * Refusals of a token that may mean that the repository has another installation now. 422 is one: the old installation is
 * there and no longer has this repository.
 */
const STALE: readonly GitHubFailure["reason"][] = ["not-found", "unauthorized", "unprocessable"];

/** What is left of an installation's quota for calls that somebody waits for: one part in so many. */
const RESERVED = 10;

/** How long a look-up vouches for an installation id, so that plain 404s do not each cost a look-up. */
const VOUCHED_MS = 600_000;

type InstallationMemory = { readonly installationId: string; readonly checkedAt: Millis | null };
type RateLimited = Extract<GitHubFailure, { reason: "rate-limited" }>;
type Quota = { readonly remaining: number; readonly limit: number; readonly resetAt: Millis };
type Access = { readonly scope: TokenScope; readonly token: string };

/** Builds the App. Fails only for a key that cannot be used; makes no request. */
export function createGitHubApp(config: GitHubAppConfig, deps: GitHubAppDeps): Result<GitHubApp, AppKeyProblem> {
  const privateKey = normalizeAppKey(config.privateKey);
  if (!privateKey.ok) return privateKey;

  const base = config.apiUrl.replace(/\/+$/, "");
  const silent = { debug: nothing, info: nothing, warn: nothing, error: nothing };
  const GateOctokit = Octokit.defaults({
    baseUrl: base,
    userAgent: config.userAgent ?? "gpu-gate",
    log: silent,
  });
  const app = new App({ appId: config.appId, privateKey: privateKey.value, Octokit: GateOctokit, log: silent });
  const userAgent = app.octokit.request.endpoint.DEFAULTS.headers["user-agent"] ?? "gpu-gate";

  const installations = new Map<string, InstallationMemory>();
  const limited = new Map<string, RateLimited>();
  const quotas = new Map<string, Quota>();
  const lookups = new Map<string, Promise<Result<string, GitHubFailure>>>();
  const tokens = createInstallationTokens(deps.clock, (scope) =>
    asApp({
      operation: "createInstallationToken",
      method: "POST",
      path: path`/app/installations/${scope.installationId}/access_tokens`,
      body: narrowed(scope),
    }),
  );

  const timed = (call: GitHubCall): GitHubCall =>
    config.timeoutMs === undefined ? call : { timeoutMs: config.timeoutMs, ...call };
  const headersOf = (call: GitHubCall): Record<string, string> => ({
    accept: "application/vnd.github+json",
    "x-github-api-version": GITHUB_API_VERSION,
    ...(call.etag === undefined ? {} : { "if-none-match": call.etag }),
  });

  /**
   * With an installation's token, unless GitHub has said that no call of this installation helps before some instant. Its
   * quota is shared by all its repositories: calls made all the same are refused too, and may get the App banned.
   */
  async function lent(used: Access, call: GitHubCall): Promise<Result<GitHubAnswer, GitHubFailure>> {
    const { installationId } = used.scope;
    const told = limited.get(installationId);
    if (told !== undefined && deps.clock.now() < told.retryAtMs) return err(told);
    const quota = quotas.get(installationId);
    if (call.background === true && quota !== undefined && isLow(quota, deps.clock.now())) {
      return err({ reason: "rate-limited", retryAtMs: quota.resetAt, scope: "primary" });
    }
    const watched = { ...deps, onCall: (report: CallReport) => (note(installationId, report), deps.onCall?.(report)) };
    const headers = { ...headersOf(call), "user-agent": userAgent, authorization: `token ${used.token}` };
    const answer = await exchangeOnce(watched, timed(call), base, headers, [used.token]);
    // What was under way meanwhile and succeeded says nothing about what comes next: only its time ends a limit.
    if (!answer.ok && answer.error.reason === "rate-limited") {
      const known = limited.get(installationId);
      if (known === undefined || known.retryAtMs < answer.error.retryAtMs) limited.set(installationId, answer.error);
    }
    return answer;
  }

  /** Searches and the like have quotas of their own, which say nothing about the rest. */
  function note(installationId: string, { rate }: CallReport): void {
    const { remaining, limit, reset: resetAt, resource } = rate;
    if (resource !== "core" || remaining === null || limit === null || resetAt === null) return;
    quotas.set(installationId, { remaining, limit, resetAt });
  }

  function asApp(call: GitHubCall): Promise<Result<GitHubAnswer, GitHubFailure>> {
    return exchange(deps, timed(call), (fetch, signal) =>
      app.octokit.request({
        method: call.method,
        url: call.path,
        headers: headersOf(call),
        // As text: Octokit's own serializer rewrites some strings that look like big numbers.
        ...(call.body === undefined ? {} : { data: JSON.stringify(call.body) }),
        request: { fetch, signal, log: silent },
      }),
    );
  }

  async function lookUp(repository: RepositoryHandle): Promise<Result<string, GitHubFailure>> {
    const answer = await asApp({
      operation: "getInstallationForRepository",
      method: "GET",
      path: path`/repos/${repository.owner}/${repository.name}/installation`,
    });
    if (!answer.ok) return answer;
    const installationId = readId(answer.value.text);
    if (installationId === null) return err({ reason: "unreadable", what: "the installation's id" });
    installations.set(repository.id, { installationId, checkedAt: deps.clock.now() });
    return ok(installationId);
  }

  /** Concurrent look-ups of one repository are one. */
  async function discover(repository: RepositoryHandle): Promise<Result<string, GitHubFailure>> {
    let running = lookups.get(repository.id);
    if (running === undefined) {
      running = lookUp(repository).finally(() => lookups.delete(repository.id));
      lookups.set(repository.id, running);
    }
    const asked = running;
    return joined(asked, () => {
      if (lookups.get(repository.id) === asked) lookups.delete(repository.id);
    });
  }

  async function installationOf(repository: RepositoryHandle): Promise<Result<string, GitHubFailure>> {
    const known = installations.get(repository.id);
    if (known !== undefined) return ok(known.installationId);
    if (repository.installationId === null) return discover(repository);
    installations.set(repository.id, { installationId: repository.installationId, checkedAt: null });
    return ok(repository.installationId);
  }

  /** Whether the id in memory was confirmed by a look-up not long ago. */
  function isVouchedFor(repository: RepositoryHandle): boolean {
    const checkedAt = installations.get(repository.id)?.checkedAt ?? null;
    return checkedAt !== null && deps.clock.now() - checkedAt < VOUCHED_MS;
  }

  /** A token, after one look-up if GitHub does not know the remembered installation any more. */
  async function access(repository: RepositoryHandle, purpose: Purpose): Promise<Result<Access, GitHubFailure>> {
    const installation = await installationOf(repository);
    if (!installation.ok) return installation;
    const scope = { installationId: installation.value, repositoryId: repository.id, purpose };
    const token = await tokens.get(scope);
    if (token.ok) return ok({ scope, token: token.value });
    if (!STALE.includes(token.error.reason)) return token;
    const found = await discover(repository);
    if (!found.ok) return isUndecided(found.error) ? found : token;
    if (found.value === installation.value) return token;
    const moved = { ...scope, installationId: found.value };
    const second = await tokens.get(moved);
    return second.ok ? ok({ scope: moved, token: second.value }) : second;
  }

  /**
   * What to try once more with after a refusal, or null. 401: the token was revoked. 403 and 404 may mean that the
   * repository moved to another installation; they usually do not, so the look-up is not repeated for a while.
   */
  async function otherAccess(
    repository: RepositoryHandle,
    used: Access,
    refusal: GitHubFailure,
  ): Promise<Result<Access, GitHubFailure> | null> {
    if (refusal.reason === "unauthorized") {
      tokens.drop(used.scope, used.token);
      return access(repository, used.scope.purpose);
    }
    if (refusal.reason !== "not-found" && refusal.reason !== "forbidden") return null;
    if (isVouchedFor(repository)) return null;
    const found = await discover(repository);
    if (!found.ok) return isUndecided(found.error) ? found : null;
    if (found.value === used.scope.installationId) return null;
    return access(repository, used.scope.purpose);
  }

  async function asRepository(
    repository: RepositoryHandle,
    call: GitHubCall,
  ): Promise<Result<GitHubAnswer, GitHubFailure>> {
    const first = await access(repository, purposeOf(call));
    if (!first.ok) return first;
    const answer = await lent(first.value, call);
    if (answer.ok) return answer;
    const second = await otherAccess(repository, first.value, answer.error);
    if (second === null) return answer;
    return second.ok ? lent(second.value, call) : second;
  }

  async function asInstallation(
    installationId: string,
    call: GitHubCall,
  ): Promise<Result<GitHubAnswer, GitHubFailure>> {
    const scope: TokenScope = { installationId, repositoryId: "", purpose: "repositories" };
    const token = await tokens.get(scope);
    return token.ok ? lent({ scope, token: token.value }, call) : token;
  }

  return ok({ asApp, asInstallation, asRepository, installationOf });
}

/** Whether the App has a place here could not be asked, so that it may: a "not found" on the way there says nothing yet (I11). */
function isUndecided(failure: GitHubFailure): boolean {
  return failureClass(failure) === "retry-later";
}

function nothing(): void {}

const withId = z.object({ id: githubId });

function readId(text: string): string | null {
  try {
    const parsed = withId.safeParse(parseExactJson(text));
    return parsed.success ? parsed.data.id : null;
  } catch {
    return null;
  }
}

function isLow({ remaining, limit, resetAt }: Quota, now: Millis): boolean {
  return now < resetAt && remaining * RESERVED < limit;
}
