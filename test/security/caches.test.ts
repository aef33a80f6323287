/** Caches between us and a reader: nothing that a caller adds to a request changes what others are shown, and nothing is kept. */
import { describe, expect, it } from "vitest";
import { ask, ports } from "../worker/ports.ts";

/** Routes that anybody may ask, answered and not. */
const ROUTES = [
  "/",
  "/api/status",
  "/healthz",
  "/api/costs",
  "/api/explain",
  "/v1/requests/r1",
  "/nothing",
  "/nothing.css",
];

/** What frameworks and proxies take an address from, beside the address. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  host: "evil.test",
  "x-forwarded-host": "evil.test",
  "x-forwarded-proto": "http",
  "x-forwarded-port": "1337",
  "x-forwarded-prefix": "/evil",
  "x-host": "evil.test",
  "x-original-url": "/api/status",
  "x-rewrite-url": "/api/status",
  "x-http-method-override": "POST",
  forwarded: "host=evil.test;proto=http",
  origin: "https://evil.test",
  referer: "https://evil.test/",
};

/** All that a reader sees; the page's nonce is new for each answer, as it must be. */
async function seen(path: string, init: RequestInit = {}) {
  const answer = await ask(ports(), path, init);
  const text = await answer.text();
  const nonce = /nonce-([\w+/=-]+)/.exec(answer.headers.get("content-security-policy") ?? "")?.[1];
  const plain = (value: string): string => (nonce === undefined ? value : value.replaceAll(nonce, "NONCE"));
  return {
    status: answer.status,
    headers: [...answer.headers].map(([name, value]) => [name, plain(value)]),
    text: plain(text),
    nonce: nonce ?? null,
  };
}

describe("an answer", () => {
  it.each(ROUTES)("of %s is kept by no cache", async (route) => {
    for (const method of ["GET", "POST", "HEAD", "OPTIONS"]) {
      const { headers } = await seen(route, { method });
      const named = new Map(headers.map(([name = "", value = ""]) => [name, value]));
      expect([method, named.get("cache-control")]).toEqual([method, "no-store"]);
      expect([named.get("expires"), named.get("etag"), named.get("age")]).toEqual([undefined, undefined, undefined]);
    }
  });

  it.each(ROUTES)("of %s is the same whatever other address the request claims to be for", async (route) => {
    const usual = await seen(route);
    for (const [name, value] of Object.entries(ELSEWHERE)) {
      const answer = await seen(route, { headers: { [name]: value } });
      expect({ ...answer, nonce: null }, name).toEqual({ ...usual, nonce: null });
      expect(JSON.stringify(answer), name).not.toContain("evil");
    }
  });

  it.each(["/", "/api/status", "/healthz", "/nothing"])("of %s repeats no word of the query", async (route) => {
    const usual = await seen(route);
    for (const query of ["?evil=1", "?utm_source=evil", "?callback=evil", "?_=evil&evil[]=evil", "?<evil>"]) {
      const answer = await seen(`${route}${query}`);
      expect({ ...answer, nonce: null }, query).toEqual({ ...usual, nonce: null });
    }
  });

  it.each(["/", "/api/status"])("of %s is no page of another name: a cache may believe an ending", async (route) => {
    for (const ending of ["/evil.css", "/x.js", "/%2fx.css", "/;x.css", "/..%2fx.png"]) {
      const answer = await seen(`${route === "/" ? "" : route}${ending}`);
      expect([ending, answer.status]).toEqual([ending, 404]);
    }
  });

  it("lets no other page read it: no route answers for another origin", async () => {
    for (const route of ROUTES) {
      const { headers } = await seen(route, { headers: { origin: "https://evil.test" } });
      expect(headers.filter(([name = ""]) => name.startsWith("access-control-"))).toEqual([]);
    }
  });

  it("of the page has a nonce of its own each time", async () => {
    const [one, other] = [await seen("/"), await seen("/")];
    expect([one.status, one.nonce === null, one.nonce === other.nonce]).toEqual([200, false, false]);
  });
});
