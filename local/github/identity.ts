/**
 * GitHub's identity tokens: who a running job is, signed by the issuer's own key, for the audience that the job names.
 *
 * A job with `id-token: write` finds an address and a password in its environment; both die with the job. The issuer is
 * the local GitHub itself, with its own key set beside it.
 *
 * Source: GitHub's "OpenID Connect reference": claims, the immutable `sub` of 2026, 300 s of life.
 */
import { createSign, generateKeyPairSync, randomBytes, randomUUID, type KeyObject } from "node:crypto";
import { MARK, minted } from "../minted.ts";
import type { Hub } from "./hub.ts";
import type { Job } from "./model.ts";
import { fullName } from "./model.ts";

/** Where the answers are: beside the REST API, and not part of it. */
export const IDENTITY_PATHS = /^\/(?:\.well-known\/(?:jwks|openid-configuration)|_identity\/token)$/;

const KEY_ID = "local-github-1";
const LIFETIME_S = 300;

interface Grant {
  readonly job: Job;
  readonly environment: string | null;
}

export interface IdentityAnswer {
  readonly status: number;
  readonly json: unknown;
}

export class IdentityTokens {
  readonly #hub: () => Hub;
  readonly #grants = new Map<string, Grant>();
  #keys: { readonly publicKey: KeyObject; readonly privateKey: KeyObject } | null = null;

  constructor(hub: () => Hub) {
    this.#hub = hub;
  }

  /** The variables of a job that may ask for tokens. */
  grant(job: Job, environment: string | null): Readonly<Record<string, string>> {
    const password = minted(`${MARK}${randomBytes(30).toString("base64url")}`, { origin: this.#hub().url });
    this.#grants.set(password, { job, environment });
    return {
      ACTIONS_ID_TOKEN_REQUEST_TOKEN: password,
      ACTIONS_ID_TOKEN_REQUEST_URL: `${this.#hub().url}/_identity/token?api-version=2.0`,
    };
  }

  revoke(job: Job): void {
    for (const [password, grant] of this.#grants) if (grant.job === job) this.#grants.delete(password);
  }

  answer(path: string, query: URLSearchParams, authorization: string | undefined): IdentityAnswer {
    const issuer = this.#hub().url;
    if (path.endsWith("/jwks")) {
      const { publicKey } = this.#signing();
      return {
        status: 200,
        json: { keys: [{ ...publicKey.export({ format: "jwk" }), kid: KEY_ID, alg: "RS256", use: "sig" }] },
      };
    }
    if (path.endsWith("/openid-configuration"))
      return {
        status: 200,
        json: {
          issuer,
          jwks_uri: `${issuer}/.well-known/jwks`,
          id_token_signing_alg_values_supported: ["RS256"],
          response_types_supported: ["id_token"],
        },
      };
    const grant = this.#grants.get(/^bearer (\S+)$/i.exec(authorization ?? "")?.[1] ?? "");
    if (grant === undefined) return { status: 401, json: { message: "This job may not ask for identity tokens." } };
    const owner = grant.job.run.repository.owner.login;
    return { status: 200, json: { value: this.#sign(grant, query.get("audience") ?? `${issuer}/${owner}`) } };
  }

  #sign(grant: Grant, audience: string): string {
    const payload = { ...this.#claims(grant), aud: audience };
    const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");
    const text = `${part({ alg: "RS256", typ: "JWT", kid: KEY_ID })}.${part(payload)}`;
    const signature = createSign("RSA-SHA256").update(text).sign(this.#signing().privateKey, "base64url");
    return minted(`${text}.${signature}`, { origin: URL.canParse(audience) ? new URL(audience).origin : audience });
  }

  #claims({ job, environment }: Grant): Readonly<Record<string, unknown>> {
    const { run } = job;
    const { repository, ref } = run;
    const { owner } = repository;
    const name = fullName(repository);
    const now = Math.floor(this.#hub().world.clock.now() / 1000);
    const pull = repository.pulls.find((one) => one.number === run.pullNumber);
    const who = `repo:${owner.login}@${owner.id}/${repository.name}@${repository.id}`;
    const what =
      environment === null
        ? run.event === "pull_request"
          ? "pull_request"
          : `ref:${ref}`
        : `environment:${environment}`;
    return {
      iss: this.#hub().url,
      sub: `${who}:${what}`,
      jti: randomUUID(),
      iat: now,
      nbf: now - LIFETIME_S,
      exp: now + LIFETIME_S,
      // A re-run keeps the first actor, whoever pressed the button.
      actor: run.actor.login,
      actor_id: String(run.actor.id),
      base_ref: pull?.base.branch ?? "",
      ...(environment === null ? {} : { environment }),
      event_name: run.event,
      head_ref: pull === undefined ? "" : run.headBranch,
      job_workflow_ref: `${name}/${run.workflow.path}@${ref}`,
      job_workflow_sha: run.sha,
      ref,
      ref_protected: String(ref === `refs/heads/${repository.defaultBranch}`),
      ref_type: ref.startsWith("refs/tags/") ? "tag" : "branch",
      repository: name,
      repository_id: String(repository.id),
      repository_owner: owner.login,
      repository_owner_id: String(owner.id),
      repository_visibility: repository.private ? "private" : "public",
      run_attempt: String(job.attempt),
      run_id: String(run.id),
      run_number: String(run.runNumber),
      runner_environment: job.selfHosted ? "self-hosted" : "github-hosted",
      sha: run.sha,
      workflow: run.name,
      workflow_ref: `${name}/${run.workflow.path}@${ref}`,
      workflow_sha: run.sha,
    };
  }

  /** Made when it is first needed: few local GitHubs are ever asked. */
  #signing(): { readonly publicKey: KeyObject; readonly privateKey: KeyObject } {
    this.#keys ??= generateKeyPairSync("rsa", { modulusLength: 2048 });
    return this.#keys;
  }
}
