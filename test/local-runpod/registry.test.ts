import { createHash } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import * as z from "zod";
import { startLocalRegistry } from "../../local/registry/server.ts";
import type { LocalRegistry } from "../../local/registry/server.ts";

const INDEX = "application/vnd.oci.image.index.v1+json";
let registry: LocalRegistry;
let now = 0;

beforeEach(async () => {
  now = 1_000_000;
  registry = await startLocalRegistry({ now: () => now });
});

afterEach(async () => {
  await registry.close();
});

async function token(): Promise<string> {
  const scope = "repository:actions/actions-runner:pull";
  const reply = await fetch(`${registry.url}/token?service=local&scope=${scope}`);
  return z.object({ token: z.string() }).parse(await reply.json()).token;
}

async function manifest(reference: string, options: { method?: string; bearer?: string; accept?: string } = {}) {
  return fetch(`${registry.url}/v2/actions/actions-runner/manifests/${reference}`, {
    method: options.method ?? "HEAD",
    headers: {
      Accept: options.accept ?? INDEX,
      ...(options.bearer ? { Authorization: `Bearer ${options.bearer}` } : {}),
    },
  });
}

describe("the local image registry", () => {
  it("sends a client without a token to the token service", async () => {
    const reply = await manifest("latest");
    expect(reply.status).toBe(401);
    const challenge = reply.headers.get("www-authenticate") ?? "";
    expect(challenge).toBe(
      `Bearer realm="${registry.url}/token",service="local",scope="repository:actions/actions-runner:pull"`,
    );
    expect((await fetch(`${registry.url}/token?scope=repository:other/image:pull`)).status).toBe(403);
  });

  it("resolves latest to the digest of exactly the manifest it serves", async () => {
    const bearer = await token();
    const head = await manifest("latest", { bearer });
    const digest = head.headers.get("docker-content-digest") ?? "";
    expect([head.status, await head.text()]).toEqual([200, ""]);
    const body = await (await manifest(digest, { bearer, method: "GET" })).text();
    expect(digest).toBe(`sha256:${createHash("sha256").update(body).digest("hex")}`);
    expect([registry.digest("latest"), registry.knows(digest)]).toEqual([digest, true]);
  });

  it("moves latest when a release is published, and keeps the old digest", async () => {
    const old = registry.digest("latest") ?? "";
    const fresh = registry.publish("latest");
    expect(fresh).not.toBe(old);
    expect((await manifest("latest", { bearer: await token() })).headers.get("docker-content-digest")).toBe(fresh);
    expect(registry.knows(old)).toBe(true);
  });

  it("answers 404 for a missing tag and for a client that does not accept an index", async () => {
    const bearer = await token();
    expect((await manifest("v0", { bearer })).status).toBe(404);
    expect((await manifest("latest", { bearer, accept: "text/html" })).status).toBe(404);
    registry.remove("latest");
    expect((await manifest("latest", { bearer })).status).toBe(404);
  });

  it("lets tokens expire, and can be down", async () => {
    const bearer = await token();
    now += 300_000;
    expect((await manifest("latest", { bearer })).status).toBe(401);
    registry.setDown(true);
    expect((await manifest("latest", { bearer: "x" })).status).toBe(503);
  });
});
