/**
 * The runner image by digest: what `latest` means at this moment, asked at the image registry before anything is bought.
 *
 * A tag may mean another image a minute later, and an attempt's evidence must name what ran. So the tag is resolved to the
 * digest of its index once, and the digest goes into the create. Anonymous: the registry hands a pull token to anybody. If
 * the digest cannot be had, nothing is bought.
 */
import * as z from "zod";
import { isPrivateHost } from "../addresses.ts";
import type { FetchLike } from "../ports.ts";
import type { Result } from "../result.ts";
import { err, ok } from "../result.ts";
import { parseJson } from "./provider-text.ts";

/** GitHub's own runner image; it is what the start script on the pod was written for. */
export const RUNNER_IMAGE = "actions/actions-runner";

/** The index of all platforms first: a pod's host picks its own platform from it. */
const MANIFEST_TYPES = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
].join(", ");

export interface ImageRegistryOptions {
  /** Base URL of the registry, for example `https://registry.example`. */
  readonly registryUrl: string;
  readonly fetch: FetchLike;
  readonly userAgent: string;
  readonly repository?: string;
  readonly tag?: string;
  readonly timeoutMs?: number;
  readonly timeoutSignal?: (timeoutMs: number) => AbortSignal;
}

export interface ResolvedImage {
  /** `sha256:` and 64 hex digits. */
  readonly digest: string;
  /** What goes into the create: host, repository and digest. */
  readonly reference: string;
}

export interface ImageUnresolved {
  readonly reason: "image-unresolved";
  readonly step: "manifest" | "token";
  readonly why: "timeout" | "network" | "status" | "no-challenge" | "foreign-token-server" | "no-token" | "no-digest";
  readonly status: number | null;
}

const DIGEST = /^sha256:[0-9a-f]{64}$/;
const DEFAULT_TIMEOUT_MS = 10_000;
/** A token answer is a few kilobytes. */
const MAX_TOKEN_CHARACTERS = 64 * 1024;

/** Resolves a tag to a digest with at most three requests: manifest (401), token, manifest. */
export async function resolveImage(options: ImageRegistryOptions): Promise<Result<ResolvedImage, ImageUnresolved>> {
  const repository = options.repository ?? RUNNER_IMAGE;
  const registry = new URL(options.registryUrl);
  const manifestUrl = new URL(`/v2/${repository}/manifests/${encodeURIComponent(options.tag ?? "latest")}`, registry)
    .href;

  let answer = await request(options, "HEAD", manifestUrl, null);
  if (!("transport" in answer) && answer.status === 401) {
    const token = await pullToken(options, registry, repository, answer.headers.get("www-authenticate"));
    if (!token.ok) return token;
    answer = await request(options, "HEAD", manifestUrl, token.value);
  }
  if ("transport" in answer) return unresolved("manifest", answer.transport);
  if (answer.status !== 200) return unresolved("manifest", "status", answer.status);
  const digest = answer.headers.get("docker-content-digest") ?? "";
  if (!DIGEST.test(digest)) return unresolved("manifest", "no-digest", answer.status);
  return ok({ digest, reference: `${registry.host}/${repository}@${digest}` });
}

async function pullToken(
  options: ImageRegistryOptions,
  registry: URL,
  repository: string,
  challenge: string | null,
): Promise<Result<string, ImageUnresolved>> {
  const parameters = readChallenge(challenge ?? "");
  if (parameters === null) return unresolved("token", "no-challenge", 401);
  const realm = URL.canParse(parameters["realm"] ?? "", registry.href)
    ? new URL(parameters["realm"] ?? "", registry.href)
    : null;
  // A registry may keep its token server elsewhere, but never somewhere less protected than itself, nor where it cannot
  // be: its word must not send us to a machine of our own network.
  const elsewhere = realm !== null && realm.origin !== registry.origin;
  if (realm === null || (elsewhere && (realm.protocol !== "https:" || isPrivateHost(realm.hostname)))) {
    return unresolved("token", "foreign-token-server", 401);
  }
  if (parameters["service"] !== undefined) realm.searchParams.set("service", parameters["service"]);
  // Our own words, not the registry's: nothing but reading this one image is asked for.
  realm.searchParams.set("scope", `repository:${repository}:pull`);

  const answer = await request(options, "GET", realm.href, null);
  if ("transport" in answer) return unresolved("token", answer.transport);
  if (answer.status !== 200) return unresolved("token", "status", answer.status);
  const text = await answer.text().catch(() => "");
  const parsed = tokenAnswer.safeParse(parseJson(text.slice(0, MAX_TOKEN_CHARACTERS)));
  const token = parsed.success ? (parsed.data.token ?? parsed.data.access_token) : undefined;
  return token === undefined || !/^[\x21-\x7e]+$/.test(token) ? unresolved("token", "no-token", 200) : ok(token);
}

const tokenAnswer = z.object({ token: z.string().optional(), access_token: z.string().optional() });

/** The parameters of a `Bearer` challenge, or null when it is another scheme or names no realm. */
function readChallenge(header: string): Readonly<Record<string, string>> | null {
  if (!/^bearer\s/i.test(header)) return null;
  const parameters: Record<string, string> = {};
  for (const match of header.matchAll(/([a-z]+)="([^"]*)"/gi)) {
    const [, name, value] = match;
    if (name !== undefined && value !== undefined) parameters[name.toLowerCase()] = value;
  }
  return parameters["realm"] === undefined ? null : parameters;
}

async function request(
  options: ImageRegistryOptions,
  method: "HEAD" | "GET",
  url: string,
  token: string | null,
): Promise<Response | { readonly transport: "timeout" | "network" }> {
  const { fetch } = options;
  const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  const headers: Record<string, string> = { "User-Agent": options.userAgent, Accept: MANIFEST_TYPES };
  if (method === "GET") headers["Accept"] = "application/json";
  if (token !== null) headers["Authorization"] = `Bearer ${token}`;
  try {
    return await fetch(url, {
      method,
      headers,
      redirect: "manual",
      signal: options.timeoutSignal?.(timeoutMs) ?? AbortSignal.timeout(timeoutMs),
    });
  } catch (error) {
    const name = error instanceof Error ? error.name : "";
    return { transport: name === "TimeoutError" || name === "AbortError" ? "timeout" : "network" };
  }
}

function unresolved(
  step: ImageUnresolved["step"],
  why: ImageUnresolved["why"],
  status: number | null = null,
): Result<never, ImageUnresolved> {
  return err({ reason: "image-unresolved", step, why, status });
}
