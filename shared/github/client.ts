/**
 * The GitHub client of one repository: every question the gate asks, each with a typed answer.
 *
 * No method throws for what GitHub says or does not say, and none repeats a call: when to ask again is the gate's
 * decision. The one exception is a look-up of the installation after a refusal (app.ts).
 */

import * as z from "zod";
import type { GitHubApp, RepositoryHandle } from "./app.ts";
import { actionsApi, type ActionsApi } from "./actions.ts";
import { path, slashed } from "./call.ts";
import { checksApi, type ChecksApi } from "./checks.ts";
import type { EtagCache } from "./etag.ts";
import { describeFailure } from "./failure.ts";
import { pullsApi, type PullsApi } from "./pulls.ts";
import { repositoryApi, type RepositoryApi } from "./repository.ts";
import { runnersApi, type RunnersApi, type RunnerScope } from "./runners.ts";
import { createWire, type Reply } from "./wire.ts";

/** One answered GET as it came, or why there is none. */
export type PlainAnswer =
  | { readonly kind: "answer"; readonly status: number; readonly body: string }
  | { readonly kind: "failure"; readonly what: string };

export interface GitHubClient extends RepositoryApi, PullsApi, ChecksApi, ActionsApi, RunnersApi {
  readonly repository: RepositoryHandle;
  /** A plain read of one path, never conditional, with the App's own permissions: for lists that others judge whole. */
  read(path: string): Promise<PlainAnswer>;
  /**
   * Login of whoever starts what this client starts, as GitHub's runs name their actor: the App's bot, `<slug>[bot]`, which no
   * account of a person can be called; without an App the person whose token is used.
   */
  getOwnLogin(): Reply<string>;
}

export interface GitHubClientDeps {
  /** Without `asApp` the calls are a person's, with a token of their own. */
  readonly app: Pick<GitHubApp, "asRepository"> & Partial<Pick<GitHubApp, "asApp">>;
  readonly repository: RepositoryHandle;
  readonly runners: RunnerScope;
  /** With a cache, GETs are conditional. One cache may serve several repositories. */
  readonly etags?: EtagCache;
  /** Every call is one that nobody waits for (see `GitHubCall.background`). */
  readonly background?: boolean;
}

const appAnswer = z.object({ slug: z.string().min(1) }).transform((app) => `${app.slug}[bot]`);
const userAnswer = z.object({ login: z.string().min(1) }).transform((user) => user.login);

export function createGitHubClient({ app, repository, runners, etags, background }: GitHubClientDeps): GitHubClient {
  const kept = background === true ? { background } : {};
  const wire = createWire((call) => app.asRepository(repository, { ...call, ...kept }), repository.id, etags);
  const { asApp } = app;
  const own = asApp === undefined ? null : createWire((call) => asApp({ ...call, ...kept }), "app");
  const base = slashed(`${repository.owner}/${repository.name}`);
  return {
    repository,
    async read(address) {
      const answer = await app.asRepository(repository, { operation: "read", method: "GET", path: address, ...kept });
      if (answer.ok) return { kind: "answer", status: answer.value.status, body: answer.value.text };
      return { kind: "failure", what: describeFailure(answer.error) };
    },
    getOwnLogin: () =>
      own === null ? wire.get("getUser", path`/user`, userAnswer) : own.get("getApp", path`/app`, appAnswer),
    ...repositoryApi(wire, base),
    ...pullsApi(wire, base),
    ...checksApi(wire, base),
    ...actionsApi(wire, base),
    ...runnersApi(wire, base, runners),
  };
}
