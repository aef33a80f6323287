/** The workflow API in the runtime it is for: the Worker's own route, and a token's signature with workerd's own crypto. */
import { exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { createTokenKeys } from "../../shared/oidc/jwks.ts";

const encode = (value: unknown): string =>
  btoa(JSON.stringify(value)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

async function signed(header: object, payload: object) {
  const algorithm = {
    name: "RSASSA-PKCS1-v1_5",
    modulusLength: 2048,
    publicExponent: new Uint8Array([1, 0, 1]),
    hash: "SHA-256",
  };
  const pair = (await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"])) as CryptoKeyPair;
  const text = `${encode(header)}.${encode(payload)}`;
  const bytes = new Uint8Array(
    await crypto.subtle.sign(algorithm.name, pair.privateKey, new TextEncoder().encode(text)),
  );
  const signature = btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
  const { n, e } = (await crypto.subtle.exportKey("jwk", pair.publicKey)) as JsonWebKey;
  return { token: `${text}.${signature}`, jwk: { kty: "RSA", kid: "key-1", n, e, use: "sig", alg: "RS256" } };
}

describe("in workerd", () => {
  it("the Worker serves /v1 and refuses a call without a token", async () => {
    const answer = await exports.default.fetch("https://gate.test/v1/recover", { method: "POST", body: "{}" });
    expect(answer.status).toBe(401);
    expect(await answer.json()).toEqual({ error: "token", message: "This token is not accepted here." });
    expect(answer.headers.get("www-authenticate")).toBe("Bearer");
  });

  it("a token of a key that cannot be fetched is 'come again', not a forgery", async () => {
    const { token } = await signed({ alg: "RS256", kid: "key-1" }, { iss: "x" });
    const headers = { authorization: `Bearer ${token}` };
    const answer = await exports.default.fetch("https://gate.test/v1/recover", { method: "POST", body: "{}", headers });
    expect(answer.status).toBe(503);
  });

  it("verifies what was signed and refuses what was changed", async () => {
    const { token, jwk } = await signed({ alg: "RS256", kid: "key-1" }, { repository_id: "101" });
    const keys = createTokenKeys("https://issuer.test", {
      clock: { now: () => Date.now() },
      fetch: async () => Response.json({ keys: [jwk] }),
    });
    expect(await keys.verify(token)).toEqual({ ok: true, value: { repository_id: "101" } });
    const [header, , signature] = token.split(".");
    const changed = `${header}.${encode({ repository_id: "102" })}.${signature}`;
    expect(await keys.verify(changed)).toEqual({
      ok: false,
      error: { kind: "refused", refusal: { reason: "signature" } },
    });
  });
});
