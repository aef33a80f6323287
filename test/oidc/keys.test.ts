/**
 * Goal: the issuer may rotate its keys, be slow or be down, and strangers may invent key ids, without a good token being
 * called forged or the issuer being flooded.
 */
import { describe, expect, it } from "vitest";
import { COOL_DOWN_MS, createTokenKeys, FRESH_MS, STALE_MS } from "../../shared/oidc/jwks.ts";
import type { Millis } from "../../shared/ports.ts";
import { claims, ISSUER, jwk, KEY, NOW, sign, signingKey, type Json } from "./harness.ts";

const NEXT = signingKey("key-2");
const SMALL = signingKey("key-small", 1024);

type Answer = { readonly keys: readonly Json[] } | (() => Response) | "down";

function issuer(first: Answer) {
  let answer = first;
  let now: Millis = NOW;
  const asked: { url: string; init: RequestInit | undefined }[] = [];
  const keys = createTokenKeys(ISSUER, {
    clock: { now: () => now },
    fetch: async (url, init) => {
      asked.push({ url, init });
      if (answer === "down") throw new TypeError("no route to host");
      return typeof answer === "function" ? answer() : Response.json(answer);
    },
  });
  return {
    asked,
    answer: (next: Answer) => void (answer = next),
    pass: (ms: Millis) => void (now += ms),
    /** `ok`, or why not. */
    async verify(token: string): Promise<string> {
      const result = await keys.verify(token);
      if (result.ok) return "ok";
      return result.error.kind === "refused" ? result.error.refusal.reason : "unavailable";
    },
  };
}

const good = (key = KEY): string => sign(claims(), { key });

describe("the issuer's keys", () => {
  it("are asked for once, at the issuer's own address, and kept", async () => {
    const world = issuer({ keys: [jwk(KEY)] });
    expect(await world.verify(good())).toBe("ok");
    world.pass(FRESH_MS - 1);
    expect(await world.verify(good())).toBe("ok");
    expect(world.asked.map((call) => call.url)).toEqual([`${ISSUER}/.well-known/jwks`]);
  });

  it("rotate: an unknown key id is worth one look, and the new key counts at once", async () => {
    const world = issuer({ keys: [jwk(KEY)] });
    await world.verify(good());
    world.answer({ keys: [jwk(KEY), jwk(NEXT)] });
    world.pass(COOL_DOWN_MS);
    expect(await world.verify(good(NEXT))).toBe("ok");
    expect(world.asked).toHaveLength(2);
  });

  it("a key taken out of the set is refused at the next look", async () => {
    const world = issuer({ keys: [jwk(KEY)] });
    await world.verify(good());
    world.answer({ keys: [jwk(NEXT)] });
    world.pass(FRESH_MS);
    expect(await world.verify(good())).toBe("unknown-key");
  });

  it("invented key ids cost the issuer one question per cool-down, however many come", async () => {
    const world = issuer({ keys: [jwk(KEY)] });
    await world.verify(good());
    world.pass(COOL_DOWN_MS);
    for (let n = 0; n < 50; n += 1) {
      expect(await world.verify(sign(claims(), { header: { kid: `made-up-${n}` } }))).toBe("unknown-key");
    }
    expect(world.asked).toHaveLength(2);
  });

  it("calls that come together share one question", async () => {
    const world = issuer({ keys: [jwk(KEY)] });
    const all = await Promise.all(Array.from({ length: 20 }, () => world.verify(good())));
    expect(new Set(all)).toEqual(new Set(["ok"]));
    expect(world.asked).toHaveLength(1);
  });

  it("an outage is no verdict: a first call is told to come again, and asks again after the cool-down", async () => {
    const world = issuer("down");
    expect(await world.verify(good())).toBe("unavailable");
    world.answer({ keys: [jwk(KEY)] });
    expect(await world.verify(good())).toBe("unavailable");
    world.pass(COOL_DOWN_MS);
    expect(await world.verify(good())).toBe("ok");
    expect(world.asked).toHaveLength(2);
  });

  it("known keys outlast an outage of hours, not for ever", async () => {
    const world = issuer({ keys: [jwk(KEY)] });
    await world.verify(good());
    world.answer("down");
    world.pass(STALE_MS - 1);
    expect(await world.verify(good())).toBe("ok");
    world.pass(COOL_DOWN_MS);
    expect(await world.verify(good())).toBe("unavailable");
  });

  it("an unknown key during an outage is not called a forgery", async () => {
    const world = issuer({ keys: [jwk(KEY)] });
    await world.verify(good());
    world.answer("down");
    world.pass(COOL_DOWN_MS);
    expect(await world.verify(good(NEXT))).toBe("unavailable");
    expect(await world.verify(good(NEXT))).toBe("unavailable");
    expect(await world.verify(good())).toBe("ok");
  });

  it.each<[string, Answer]>([
    ["an error page", () => new Response("oops", { status: 502 })],
    ["a redirect", () => new Response(null, { status: 302, headers: { location: "https://evil.test/jwks" } })],
    ["no JSON", () => new Response("<html>", { status: 200 })],
    ["JSON of another shape", () => Response.json({ keys: "many" })],
    ["a megabyte", () => new Response(" ".repeat(1_000_000), { status: 200 })],
  ])("%s in place of keys is an outage", async (_what, answer) => {
    const world = issuer(answer);
    expect(await world.verify(good())).toBe("unavailable");
    expect(world.asked[0]?.init?.redirect).toBe("manual");
  });

  it("keys that cannot be GitHub's are passed over: symmetric, private use, short, of one id twice", async () => {
    const twice = signingKey(KEY.kid);
    const odd: Json[] = [{ kty: "oct", kid: "a", k: "c2VjcmV0" }, { ...jwk(NEXT), use: "enc" }, jwk(SMALL)];
    const world = issuer({ keys: [...odd, jwk(KEY)] });
    expect(await world.verify(good())).toBe("ok");
    expect(await world.verify(good(NEXT))).toBe("unknown-key");
    expect(await world.verify(good(SMALL))).not.toBe("ok");
    const confused = issuer({ keys: [jwk(twice), jwk(KEY)] });
    expect(await confused.verify(good())).toBe("unknown-key");
    expect(await confused.verify(good(twice))).toBe("unknown-key");
  });
});
