/** Helpers of the Worker's tests: signed deliveries, and a look into a gate's database. */
import { listDurableObjectIds, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";

export const SECRET = "test-webhook-secret";
export const HEAD = "a".repeat(40);

export function utf8(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(new TextEncoder().encode(text));
}

export async function sign(body: string | Uint8Array<ArrayBuffer>, secret = SECRET): Promise<string> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", new TextEncoder().encode(secret), algorithm, false, ["sign"]);
  const bytes = typeof body === "string" ? utf8(body) : body;
  const digest = new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes));
  return `sha256=${Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

export interface Sent {
  readonly event?: string;
  readonly guid?: string;
  readonly secret?: string;
  /** Replaces or, with null, removes headers. */
  readonly headers?: Readonly<Record<string, string | null>>;
}

/** Posts a delivery as GitHub would, unless told otherwise. */
export async function deliver(body: string | Uint8Array<ArrayBuffer>, sent: Sent = {}): Promise<Response> {
  const headers = new Headers({
    "content-type": "application/json",
    "x-github-event": sent.event ?? "pull_request",
    "x-github-delivery": sent.guid ?? crypto.randomUUID(),
    "x-hub-signature-256": await sign(body, sent.secret),
  });
  for (const [name, value] of Object.entries(sent.headers ?? {})) {
    if (value === null) headers.delete(name);
    else headers.set(name, value);
  }
  return exports.default.fetch(new Request("https://gate.test/github/webhooks", { method: "POST", headers, body }));
}

export function pullRequest(change: { repositoryId?: number; headSha?: string; action?: string; title?: string } = {}) {
  const { repositoryId = 101, headSha = HEAD, action = "opened", title = "A change" } = change;
  return {
    action,
    number: 7,
    pull_request: { number: 7, title, draft: false, head: { sha: headSha, ref: "topic", repo: { id: repositoryId } } },
    repository: { id: repositoryId, name: "engine", owner: { login: "octo" } },
    installation: { id: 77 },
    sender: { id: 5, login: "octocat" },
  };
}

export function gateStub(repositoryId = "101") {
  return env.REPOSITORY_GATE.getByName(repositoryId);
}

/** Rows of a gate's database, or whatever else is done to it there. */
export async function inGate(query: string, repositoryId = "101"): Promise<Record<string, unknown>[]> {
  return runInDurableObject(gateStub(repositoryId), (_gate, state) => state.storage.sql.exec(query).toArray());
}

export async function gatesTouched(): Promise<number> {
  return (await listDurableObjectIds(env.REPOSITORY_GATE)).length;
}
