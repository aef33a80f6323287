/** The GitHub client in the runtime it ships to: signing, tokens, exact numbers, without Node's modules. */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { createGitHubApp } from "../../shared/github/app.ts";
import { checkAppKey, normalizeAppKey } from "../../shared/github/app-key.ts";
import { createGitHubClient } from "../../shared/github/client.ts";
import { parseExactJson } from "../../shared/github/exact-json.ts";
import { parseWebhook } from "../../shared/github/webhook.ts";
import { systemClock, type FetchLike } from "../../shared/ports.ts";

const RS256 = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
const REPOSITORY = { id: "101", owner: "octo", name: "engine", installationId: "77" };

/** The public half of the key the Worker has as a secret, made with WebCrypto alone. */
async function publicHalf(pem: string): Promise<CryptoKey> {
  const normalized = normalizeAppKey(pem);
  if (!normalized.ok) throw new Error(normalized.error.message);
  const der = Uint8Array.from(atob(normalized.value.replaceAll(/-----[^-]+-----|\s/g, "")), (c) => c.charCodeAt(0));
  const privateKey = await crypto.subtle.importKey("pkcs8", der, RS256, true, ["sign"]);
  const { n, e } = (await crypto.subtle.exportKey("jwk", privateKey)) as JsonWebKey;
  return crypto.subtle.importKey("jwk", { kty: "RSA", n: n ?? "", e: e ?? "" }, RS256, false, ["verify"]);
}

function base64url(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
}

/** A GitHub that lends a token only for a JWT which the public key verifies, and answers runs only to that token. */
function fakeGitHub(publicKey: CryptoKey): { fetch: FetchLike; asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    async fetch(input, init) {
      const { pathname } = new URL(input);
      asked.push(`${init?.method ?? "GET"} ${pathname}`);
      const authorization = new Headers(init?.headers).get("authorization") ?? "";
      if (pathname.endsWith("/access_tokens")) {
        const [head = "", payload = "", signature = ""] = authorization.replace(/^bearer /i, "").split(".");
        const signed = new TextEncoder().encode(`${head}.${payload}`);
        const good = await crypto.subtle.verify(RS256, publicKey, base64url(signature), signed);
        if (!good) return Response.json({ message: "A JSON web token could not be decoded" }, { status: 401 });
        return Response.json({ token: "ghs_workerd", expires_at: new Date(Date.now() + 3_600_000).toISOString() });
      }
      if (authorization !== "token ghs_workerd") return Response.json({ message: "Bad credentials" }, { status: 401 });
      return Response.json({ id: 101, full_name: "octo/engine", default_branch: "main", archived: false });
    },
  };
}

describe("the GitHub client in workerd", () => {
  it("has the key as GitHub hands it out, and can sign with it", async () => {
    expect(env.GITHUB_APP_PRIVATE_KEY).toContain("BEGIN RSA PRIVATE KEY");
    expect(await checkAppKey(env.GITHUB_APP_PRIVATE_KEY)).toEqual({ ok: true, value: { bits: 2048 } });
  });

  it("gets from a PKCS#1 key to a repository's answer, with one token for 20 concurrent calls", async () => {
    const github = fakeGitHub(await publicHalf(env.GITHUB_APP_PRIVATE_KEY));
    const app = createGitHubApp(
      { appId: env.GITHUB_APP_ID, privateKey: env.GITHUB_APP_PRIVATE_KEY, apiUrl: env.GITHUB_API_URL },
      { fetch: github.fetch, clock: systemClock },
    );
    if (!app.ok) throw new Error(app.error.message);
    const client = createGitHubClient({ app: app.value, repository: REPOSITORY, runners: { kind: "repository" } });
    const answers = await Promise.all(Array.from({ length: 20 }, () => client.getRepository()));
    expect(answers).toEqual(
      Array.from({ length: 20 }, () => ({
        ok: true,
        value: { id: "101", fullName: "octo/engine", defaultBranch: "main", archived: false },
      })),
    );
    expect(github.asked.filter((one) => one.startsWith("POST"))).toEqual(["POST /app/installations/77/access_tokens"]);
    expect(github.asked).toHaveLength(21);
  });

  it("goes through the runtime's own fetch, time-out included", async () => {
    const app = createGitHubApp(
      { appId: env.GITHUB_APP_ID, privateKey: env.GITHUB_APP_PRIVATE_KEY, apiUrl: env.GITHUB_API_URL },
      { fetch, clock: systemClock },
    );
    if (!app.ok) throw new Error(app.error.message);
    // Nothing leaves the test: the outbound service answers 599 to everything.
    expect(await app.value.asApp({ operation: "getApp", method: "GET", path: "/app" })).toEqual({
      ok: false,
      error: { reason: "server", status: 599 },
    });
  });

  it("keeps numbers beyond 2^53 exact", () => {
    expect(parseExactJson('{"id":9007199254740993,"n":1}')).toEqual({ id: "9007199254740993", n: 1 });
    const text = JSON.stringify({
      action: "archived",
      repository: { id: 1, name: "engine", owner: { login: "octo" } },
      installation: { id: 2 },
    })
      .replace('"id":1', '"id":9007199254740993')
      .replace('"id":2', '"id":18446744073709551615');
    expect(parseWebhook({ event: "repository", guid: "g", text })).toMatchObject({
      ok: true,
      value: { deliveries: [{ repository: { id: "9007199254740993" }, installationId: "18446744073709551615" }] },
    });
  });
});
