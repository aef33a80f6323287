/**
 * A tiny image registry: enough of the OCI distribution protocol to resolve `actions/actions-runner:latest` to a digest the
 * way a client of a public registry does it (anonymous token, HEAD of the manifest, `Docker-Content-Digest`).
 *
 * Like the real ones it answers 401 with `WWW-Authenticate` until a token is brought, and 404 to a client that does not
 * accept the index media type.
 */
import { createHash, randomBytes } from "node:crypto";
import { MARK, minted } from "../minted.ts";
import type { IncomingMessage } from "node:http";
import { json, listen, send } from "../runpod/http.ts";
import type { Answer } from "../runpod/http.ts";

const REPOSITORY = "actions/actions-runner";
const INDEX_TYPE = "application/vnd.oci.image.index.v1+json";
const TOKEN_MS = 300_000;

export interface LocalRegistry {
  /** Base address; the API is below `/v2/`. */
  readonly url: string;
  /** Publishes a new image under the tag and gives its digest. */
  publish(tag: string): string;
  /** Lets a tag point at what another tag points at. */
  retag(tag: string, as: string): void;
  /** From now on the tag does not exist. */
  remove(tag: string): void;
  /** Everything answers 503 while true. */
  setDown(down: boolean): void;
  /** The digest a tag points at, or null. */
  digest(tag: string): string | null;
  knows(digest: string): boolean;
  close(): Promise<void>;
}

export interface LocalRegistryOptions {
  readonly port?: number;
  readonly now?: () => number;
}

interface Manifest {
  readonly digest: string;
  readonly body: string;
}

export async function startLocalRegistry(options: LocalRegistryOptions = {}): Promise<LocalRegistry> {
  const now = options.now ?? Date.now;
  const tags = new Map<string, Manifest>();
  const manifests = new Map<string, Manifest>();
  const tokens = new Map<string, number>();
  let down = false;
  let published = 0;

  function publish(tag: string): string {
    published += 1;
    const manifest = makeManifest(published);
    tags.set(tag, manifest);
    manifests.set(manifest.digest, manifest);
    return manifest.digest;
  }

  function answer(request: IncomingMessage): Answer {
    if (down) return failure(503, "UNAVAILABLE");
    const target = new URL(request.url ?? "/", listening.url);
    if (target.pathname === "/token") return issueToken(target.searchParams.get("scope") ?? "");
    const match = /^\/v2\/(.+)\/manifests\/([^/]+)$/.exec(target.pathname);
    if (!match) return failure(404, "NOT_FOUND");
    const token = /^Bearer (.+)$/i.exec(request.headers.authorization ?? "")?.[1];
    if (token === undefined || (tokens.get(token) ?? 0) <= now()) return challenge(match[1] ?? "");
    if (request.method !== "GET" && request.method !== "HEAD") return failure(405, "UNSUPPORTED");
    const accept = request.headers.accept ?? "";
    const reference = match[2] ?? "";
    const manifest = reference.startsWith("sha256:") ? manifests.get(reference) : tags.get(reference);
    if (match[1] !== REPOSITORY || !manifest || !accept.includes(INDEX_TYPE)) return failure(404, "MANIFEST_UNKNOWN");
    return {
      status: 200,
      headers: { "Content-Type": INDEX_TYPE, "Docker-Content-Digest": manifest.digest },
      body: request.method === "HEAD" ? "" : manifest.body,
    };
  }

  function issueToken(scope: string): Answer {
    if (scope !== `repository:${REPOSITORY}:pull`) return failure(403, "DENIED");
    const token = minted(`${MARK}${randomBytes(16).toString("hex")}`, { origin: listening.url });
    tokens.set(token, now() + TOKEN_MS);
    return json(200, { token });
  }

  function challenge(repository: string): Answer {
    const refusal = failure(401, "UNAUTHORIZED");
    const fields = [`realm="${listening.url}/token"`, 'service="local"', `scope="repository:${repository}:pull"`];
    return { ...refusal, headers: { ...refusal.headers, "WWW-Authenticate": `Bearer ${fields.join(",")}` } };
  }

  const listening = await listen((request, response) => {
    request.resume();
    send(response, answer(request));
  }, options.port ?? 0);
  publish("latest");

  return {
    url: listening.url,
    publish,
    retag: (tag, as) => {
      const manifest = tags.get(as);
      if (manifest === undefined) throw new Error(`the registry has no tag ${as}`);
      tags.set(tag, manifest);
    },
    remove: (tag) => {
      tags.delete(tag);
    },
    setDown: (value) => {
      down = value;
    },
    digest: (tag) => tags.get(tag)?.digest ?? null,
    knows: (digest) => manifests.has(digest),
    close: listening.close,
  };
}

function makeManifest(number: number): Manifest {
  const child = `sha256:${createHash("sha256").update(`local image ${number}`).digest("hex")}`;
  const body = JSON.stringify({
    schemaVersion: 2,
    mediaType: INDEX_TYPE,
    manifests: [
      {
        mediaType: "application/vnd.oci.image.manifest.v1+json",
        digest: child,
        size: 1_000,
        platform: { architecture: "amd64", os: "linux" },
      },
    ],
  });
  return { digest: `sha256:${createHash("sha256").update(body).digest("hex")}`, body };
}

function failure(status: number, code: string): Answer {
  return json(status, { errors: [{ code, message: code.toLowerCase().replaceAll("_", " ") }] });
}
