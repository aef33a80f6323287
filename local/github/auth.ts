/**
 * Who is calling: the App by its signed JWT, an installation by its token, or a running job by its own token.
 *
 * The public half of the App's key is all the server uses; the private half is only handed out, as GitHub does, as a
 * PKCS#1 PEM.
 */

import { createHash, createPublicKey, generateKeyPairSync, randomBytes, verify } from "node:crypto";
import { MARK, minted } from "../minted.ts";
import type { KeyObject } from "node:crypto";
import type { Millis } from "../../shared/ports.ts";
import type { Installation, Repository, World } from "./model.ts";
import { Refusal } from "./http.ts";

export type PermissionMap = Readonly<Record<string, "read" | "write">>;

export type Caller =
  | { readonly kind: "none" }
  | { readonly kind: "app" }
  | {
      readonly kind: "installation";
      readonly installation: Installation;
      readonly repositories: ReadonlySet<number> | null;
      readonly permissions: PermissionMap;
      readonly tokenHash: string;
    }
  | { readonly kind: "job"; readonly repository: Repository; readonly permissions: PermissionMap };

interface Token {
  readonly installation: Installation | null;
  readonly jobRepository: Repository | null;
  readonly repositories: ReadonlySet<number> | null;
  readonly permissions: PermissionMap;
  readonly expiresAt: Millis;
}

/** GitHub's wording for each of these is close to this; what counts is the status. */
const badCredentials = (): Refusal => new Refusal(401, "Bad credentials");

export class Credentials {
  readonly privateKeyPem: string;
  readonly #publicKey: KeyObject;
  readonly #appId: string;
  readonly #clientId: string;
  readonly #world: World;
  readonly #tokens = new Map<string, Token>();
  readonly #origin: () => string;

  /** `origin`: where its tokens are for. */
  constructor(world: World, appId: string, clientId: string, privateKeyPem: string | undefined, origin: () => string) {
    this.#origin = origin;
    this.#world = world;
    this.#appId = appId;
    this.#clientId = clientId;
    this.privateKeyPem =
      privateKeyPem ??
      generateKeyPairSync("rsa", { modulusLength: 2048 })
        .privateKey.export({ type: "pkcs1", format: "pem" })
        .toString();
    this.#publicKey = createPublicKey(this.privateKeyPem);
  }

  /** Resolves the `Authorization` header; refuses with 401 what GitHub refuses. */
  caller(authorization: string | undefined): Caller {
    if (authorization === undefined) return { kind: "none" };
    const match = /^(?:bearer|token) (\S+)$/i.exec(authorization);
    const secret = match?.[1];
    if (secret === undefined) throw badCredentials();
    if (secret.startsWith("ghs_")) return this.#byToken(secret);
    this.#checkJwt(secret);
    return { kind: "app" };
  }

  issue(input: Omit<Token, "expiresAt" | "jobRepository">, lifetimeMs: number): { token: string; expiresAt: Millis } {
    return this.#store({ ...input, jobRepository: null, expiresAt: this.#world.clock.now() + lifetimeMs });
  }

  /** The token a running job has, for its own repository alone: reads, unless its workflow file says which. */
  issueForJob(
    repository: Repository,
    permissions: PermissionMap = { actions: "read", contents: "read", pull_requests: "read" },
  ): string {
    return this.#store({
      installation: null,
      jobRepository: repository,
      repositories: null,
      permissions: { ...permissions, metadata: "read" },
      expiresAt: this.#world.clock.now() + 6 * 3_600_000,
    }).token;
  }

  revoke(tokenHash: string): void {
    this.#tokens.delete(tokenHash);
  }

  /** A job's token dies with its job. */
  revokeToken(token: string): void {
    this.#tokens.delete(hashOf(token));
  }

  /** Every token issued so far is dead from now on. */
  revokeAll(): void {
    this.#tokens.clear();
  }

  #store(token: Token): { token: string; expiresAt: Millis } {
    // The new form is `ghs_<app id>_<JWT>`, about 520 characters; readers must treat it as opaque.
    const part = (bytes: number): string => randomBytes(bytes).toString("base64url");
    const text = `ghs_${this.#appId}_${MARK}${part(22)}.${part(90)}.${part(256)}`;
    minted(text, { origin: this.#origin() });
    this.#tokens.set(hashOf(text), token);
    return { token: text, expiresAt: token.expiresAt };
  }

  #byToken(secret: string): Caller {
    const tokenHash = hashOf(secret);
    const token = this.#tokens.get(tokenHash);
    if (token === undefined || token.expiresAt <= this.#world.clock.now()) throw badCredentials();
    const { permissions, repositories, installation } = token;
    if (token.jobRepository !== null) return { kind: "job", repository: token.jobRepository, permissions };
    if (installation === null || installation.deleted) throw badCredentials();
    if (installation.suspendedAt !== null) throw new Refusal(403, "This installation has been suspended");
    return { kind: "installation", installation, repositories, permissions, tokenHash };
  }

  #checkJwt(jwt: string): void {
    const parts = jwt.split(".");
    const [header, payload, signature] = parts;
    if (parts.length !== 3 || header === undefined || payload === undefined || signature === undefined) {
      throw badCredentials();
    }
    const undecodable = (): Refusal => new Refusal(401, "A JSON web token could not be decoded");
    const head = decode(header);
    const claims = decode(payload);
    if (head === null || claims === null || head["alg"] !== "RS256") throw undecodable();
    const signed = Buffer.from(`${header}.${payload}`);
    if (!verify("RSA-SHA256", signed, this.#publicKey, Buffer.from(signature, "base64url"))) throw undecodable();
    const issuer = claims["iss"];
    if (String(issuer) !== this.#appId && issuer !== this.#clientId) {
      throw new Refusal(401, "'Issuer' claim ('iss') must be an Integer or a Client ID of this App");
    }
    const now = this.#world.clock.now() / 1000;
    const { iat, exp } = claims;
    if (typeof iat !== "number" || iat > now + 1) {
      throw new Refusal(
        401,
        "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued",
      );
    }
    if (typeof exp !== "number" || exp <= now) {
      throw new Refusal(
        401,
        "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires",
      );
    }
    if (exp > now + 600 + 1) throw new Refusal(401, "'Expiration time' claim ('exp') is too far in the future");
  }
}

function hashOf(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}

function decode(part: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, "base64url").toString("utf8"));
    return value !== null && typeof value === "object" ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

/** Whether a caller holds a need such as `checks=write`; write includes read, and metadata read comes with any grant. */
export function holds(caller: Caller, need: string): boolean {
  const [name, level] = need.split("=");
  if (name === undefined || caller.kind === "none" || caller.kind === "app") return false;
  const covers = (granted: string | undefined): boolean =>
    granted === "write" || (level === "read" && granted === "read") || (name === "metadata" && level === "read");
  if (!covers(caller.permissions[name])) return false;
  // An installation that lost a permission since the token was made has lost it in the token as well.
  return caller.kind === "job" || covers(caller.installation.permissions[name]);
}

/** Whether a caller can see a repository at all; what it cannot see answers 404. */
export function sees(caller: Caller, repository: Repository): boolean {
  if (caller.kind === "job") return caller.repository.id === repository.id;
  if (caller.kind !== "installation") return false;
  const { installation } = caller;
  if (installation.account.id !== repository.owner.id) return false;
  if (installation.repositories !== null && !installation.repositories.has(repository.id)) return false;
  return caller.repositories === null || caller.repositories.has(repository.id);
}
