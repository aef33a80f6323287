import { describe, expect, test } from "vitest";
import type { FetchLike } from "../../shared/ports.ts";
import { resolveImage } from "../../shared/runpod/image.ts";

const REGISTRY = "https://images.test";
const DIGEST = `sha256:${"b".repeat(64)}`;
const CHALLENGE = `Bearer realm="${REGISTRY}/token",service="images.test",scope="repository:actions/actions-runner:pull"`;

interface Sent {
  readonly method: string;
  readonly url: string;
  readonly authorization: string | null;
  readonly accept: string;
}

function resolve(...replies: readonly (Response | Error)[]) {
  const sent: Sent[] = [];
  const fetch: FetchLike = (url, init) => {
    const headers = new Headers(init?.headers);
    sent.push({
      method: init?.method ?? "",
      url,
      authorization: headers.get("authorization"),
      accept: headers.get("accept") ?? "",
    });
    const reply = replies[sent.length - 1];
    if (reply === undefined) throw new Error("unexpected request");
    return reply instanceof Error ? Promise.reject(reply) : Promise.resolve(reply);
  };
  return { sent, result: resolveImage({ registryUrl: REGISTRY, fetch, userAgent: "gpu-gate-test" }) };
}

const manifest = (digest: string | null): Response =>
  new Response(null, { status: 200, headers: digest === null ? {} : { "docker-content-digest": digest } });
const challenge = (text = CHALLENGE): Response =>
  new Response(null, { status: 401, headers: { "www-authenticate": text } });
const token = (body: unknown = { token: "anonymous" }): Response => Response.json(body);

describe("resolving the runner image", () => {
  test("asks, is sent for a token, asks again, and gives a reference by digest", async () => {
    const { sent, result } = resolve(challenge(), token(), manifest(DIGEST));
    expect(await result).toEqual({
      ok: true,
      value: { digest: DIGEST, reference: `images.test/actions/actions-runner@${DIGEST}` },
    });
    expect(sent.map((one) => [one.method, one.authorization])).toEqual([
      ["HEAD", null],
      ["GET", null],
      ["HEAD", "Bearer anonymous"],
    ]);
    expect(sent[0]?.url).toBe(`${REGISTRY}/v2/actions/actions-runner/manifests/latest`);
    expect(sent[2]?.accept).toContain("application/vnd.oci.image.index.v1+json");
    expect(sent[2]?.accept).toContain("application/vnd.docker.distribution.manifest.list.v2+json");
  });

  test("only pulling this one image is asked for, whatever the registry proposes", async () => {
    const greedy = `Bearer realm="${REGISTRY}/token",service="s",scope="repository:other:push"`;
    const { sent, result } = resolve(challenge(greedy), token({ access_token: "t" }), manifest(DIGEST));
    expect((await result).ok).toBe(true);
    expect(new URL(sent[1]?.url ?? "").searchParams.get("scope")).toBe("repository:actions/actions-runner:pull");
  });

  test("a registry that asks for no token needs one request", async () => {
    const { sent, result } = resolve(manifest(DIGEST));
    expect((await result).ok).toBe(true);
    expect(sent).toHaveLength(1);
  });

  const timeout = Object.assign(new Error("x"), { name: "TimeoutError" });
  test.each<[string, readonly (Response | Error)[], string, string]>([
    ["no answer", [timeout], "manifest", "timeout"],
    ["a broken line", [new TypeError("x")], "manifest", "network"],
    ["an unknown image", [new Response(null, { status: 404 })], "manifest", "status"],
    ["a redirect", [new Response(null, { status: 307 })], "manifest", "status"],
    ["another kind of challenge", [challenge('Basic realm="x"')], "token", "no-challenge"],
    ["a challenge without a realm", [challenge('Bearer service="x"')], "token", "no-challenge"],
    [
      "an unprotected token server",
      [challenge('Bearer realm="http://elsewhere.test/token"')],
      "token",
      "foreign-token-server",
    ],
    ["a realm that is no address", [challenge('Bearer realm="file:///token"')], "token", "foreign-token-server"],
    ["a token server that fails", [challenge(), new Response("x", { status: 503 })], "token", "status"],
    ["a token answer without token", [challenge(), token({})], "token", "no-token"],
    ["a token that would break a header", [challenge(), token({ token: "a\r\nb" })], "token", "no-token"],
    ["a refusal with the token", [challenge(), token(), challenge()], "manifest", "status"],
    ["a manifest without digest", [manifest(null)], "manifest", "no-digest"],
    ["a digest that is none", [manifest("sha256:xyz")], "manifest", "no-digest"],
    ["another kind of digest", [manifest(`sha512:${"b".repeat(128)}`)], "manifest", "no-digest"],
  ])("%s: nothing may be bought", async (_what, replies, step, why) => {
    expect(await resolve(...replies).result).toMatchObject({
      ok: false,
      error: { reason: "image-unresolved", step, why },
    });
  });
});
