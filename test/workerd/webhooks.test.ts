/** `POST /github/webhooks` in the runtime: every answer, exact bytes, and acceptance as one transaction. */
import { evictDurableObject, reset } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { deliver, gateStub, HEAD, inGate, pullRequest, sign, utf8 } from "./worker.ts";

const STAR = JSON.stringify({ action: "created", repository: { id: 101 } });
const LIMIT = 25 * 1024 * 1024;

let logged: string[] = [];

beforeEach(() => {
  logged = [];
  vi.spyOn(console, "log").mockImplementation((line: unknown) => void logged.push(String(line)));
});

afterEach(async () => {
  vi.restoreAllMocks();
  await reset();
});

async function said(answer: Response): Promise<string> {
  const text = await answer.text();
  expect(text).toMatch(/^[A-Z].*[.]$/);
  return `${answer.status} ${text}`;
}

describe("what is refused, in this order", () => {
  it.each([
    ["application/x-www-form-urlencoded", 415],
    ["text/plain", 415],
    ["application/jsonp", 415],
    ["application/json; charset=utf-8", 202],
    ["Application/JSON", 202],
  ])("content type %s is answered %i", async (type, status) => {
    const answer = await deliver(STAR, { event: "star", headers: { "content-type": type } });
    expect(answer.status).toBe(status);
  });

  it("no content type at all is 415", async () => {
    const body = utf8(STAR);
    expect(await said(await deliver(body, { headers: { "content-type": null } }))).toContain("415 The content type");
  });

  it("more than 25 MB announced is 413 without reading", async () => {
    const answer = await deliver("{}", { headers: { "content-length": String(LIMIT + 1) } });
    expect(await said(answer)).toContain("413 The body is larger");
  });

  it("more than 25 MB without an announced length is 413, and reading stops there", async () => {
    let pulled = 0;
    const stream = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          pulled += 1;
          if (pulled > 100) controller.close();
          else controller.enqueue(new Uint8Array(1024 * 1024));
        },
      },
      { highWaterMark: 0 },
    );
    const answer = await exports.default.fetch(
      new Request("https://gate.test/github/webhooks", {
        method: "POST",
        headers: { "content-type": "application/json", "x-hub-signature-256": `sha256=${"0".repeat(64)}` },
        body: stream,
      }),
    );
    expect(answer.status).toBe(413);
    expect(pulled).toBeLessThan(40);
  });

  it("exactly 25 MB, signed, is read", async () => {
    const body = new Uint8Array(LIMIT).fill(0x20);
    body.set(utf8(STAR));
    expect((await deliver(body, { event: "star" })).status).toBe(202);
  });

  it.each([null, "", "sha256=", "x", `sha256=${"g".repeat(64)}`, `sha256=${"A".repeat(64)}`, `sha1=${"0".repeat(40)}`])(
    "the signature header %s is 401 by its form",
    async (header) => {
      const answer = await deliver(STAR, { headers: { "x-hub-signature-256": header } });
      expect(await said(answer)).toContain("401 The header X-Hub-Signature-256");
    },
  );

  it("two signatures in one header are 401", async () => {
    const good = await sign(STAR);
    const answer = await deliver(STAR, { headers: { "x-hub-signature-256": `${good}, ${good}` } });
    expect(answer.status).toBe(401);
  });

  it("another secret's signature is 401", async () => {
    expect(await said(await deliver(STAR, { secret: "It's a Secret to Everybody" }))).toContain("401 The signature");
  });

  it("an empty body is 400", async () => {
    expect(await said(await deliver(""))).toContain("400 The body is empty");
  });

  it("an unsigned body is never parsed: what is no JSON is 401, not 400", async () => {
    expect((await deliver("{", { secret: "wrong" })).status).toBe(401);
    expect(await said(await deliver("{"))).toBe("400 The body is not JSON.");
  });

  it.each(["x-github-event", "x-github-delivery"])("a missing %s is 400, after the signature", async (name) => {
    expect(await said(await deliver(STAR, { headers: { [name]: null } }))).toContain("400 The header X-GitHub-");
    expect((await deliver(STAR, { headers: { [name]: null }, secret: "wrong" })).status).toBe(401);
  });

  it("an event name that could not be repeated in a log is 400", async () => {
    expect((await deliver(STAR, { event: "a b<c>" })).status).toBe(400);
  });

  it("a known event without what it needs is 400 and names the field", async () => {
    const broken = JSON.stringify({ ...pullRequest(), pull_request: { number: 7 } });
    expect(await said(await deliver(broken))).toContain("400 The pull_request event cannot be read: pull_request.head");
  });

  it("says neither the secret nor the expected digest, in no answer and no log line", async () => {
    const expected = (await sign(STAR)).slice("sha256=".length);
    const answer = await deliver(STAR, { headers: { "x-hub-signature-256": `sha256=${"0".repeat(64)}` } });
    const everything = `${await answer.text()}${JSON.stringify([...answer.headers])}${logged.join("\n")}`;
    expect(logged.join("\n")).toContain("webhook.refused");
    expect(everything).not.toContain(expected);
    expect(everything).not.toContain("test-webhook-secret");
  });
});

describe("the signature is over the bytes", () => {
  const title = (text: string) => JSON.stringify({ action: "created", title: text });

  it.each([
    ["emoji", title("🦀 ship it 👩‍👩‍👧")],
    ["a raw line separator", title("a\u2028b").replace("\\u2028", "\u2028")],
    ["a lone carriage return", `{"action":\r"created"}`],
    ["an escaped lone surrogate", '{"action":"created","title":"\\ud83d"}'],
    ["a NUL", '{"action":"created","title":"\u0000"}'],
    ["trailing white space", `${title("x")}\n  `],
  ])("%s verifies, and one flipped bit does not", async (_what, text) => {
    const bytes = utf8(text);
    const signature = await sign(bytes);
    expect((await deliver(bytes, { event: "star" })).status).toBe(202);
    const flipped = bytes.slice();
    flipped[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
    const answer = await deliver(flipped, { event: "star", headers: { "x-hub-signature-256": signature } });
    expect(answer.status).toBe(401);
  });

  it("a byte order mark is part of what is signed", async () => {
    const body = utf8(`\u{feff}${STAR}`);
    expect(body[0]).toBe(0xef);
    expect((await deliver(body, { event: "star" })).status).toBe(202);
    const withoutMark = await sign(STAR);
    const answer = await deliver(body, { event: "star", headers: { "x-hub-signature-256": withoutMark } });
    expect(answer.status).toBe(401);
  });

  it("an invalid byte is never replaced: signed it is 400, with the replacement's signature it is 401", async () => {
    const before = utf8('{"action":"created","title":"');
    const after = utf8('"}');
    const body = new Uint8Array([...before, 0xff, ...after]);
    expect(await said(await deliver(body, { event: "star" }))).toBe("400 The body is not UTF-8 text.");
    const replaced = await sign(new TextDecoder().decode(body));
    const answer = await deliver(body, { event: "star", headers: { "x-hub-signature-256": replaced } });
    expect(answer.status).toBe(401);
  });
});

describe("what is ignored, visibly", () => {
  it("an event nobody here acts on is 202, with its name, a log line and a count", async () => {
    const before = await ignoredCount("event sponsorship");
    const answer = await deliver(STAR, { event: "sponsorship" });
    expect(await said(answer)).toBe("202 Ignored: event sponsorship.");
    expect(logged.join("\n")).toContain('"what":"event sponsorship"');
    expect(await ignoredCount("event sponsorship")).toBe(before + 1);
  });

  it("an action nobody here acts on is 202 and named", async () => {
    const answer = await deliver(JSON.stringify(pullRequest({ action: "auto_merge_enabled" })));
    expect(await said(answer)).toBe("202 Ignored: pull_request.auto_merge_enabled.");
  });

  it.each([102, 1010, 1])("repository %i, which is not on the allow-list, has no gate", async (repositoryId) => {
    const answer = await deliver(JSON.stringify(pullRequest({ repositoryId })));
    expect(await said(answer)).toBe("202 Ignored: pull_request of a repository that is not on the allow-list.");
  });

  async function ignoredCount(what: string): Promise<number> {
    const health = await exports.default.fetch(new Request("https://gate.test/healthz"));
    const { tallies } = await health.json<{ tallies: Record<string, number> }>();
    return tallies[`webhooks.ignored.${what}`] ?? 0;
  }
});

describe("what is accepted", () => {
  it("reaches the gate of its repository, which opens a request for the head", async () => {
    const answer = await deliver(JSON.stringify(pullRequest()), { guid: "guid-1" });
    expect(await said(answer)).toBe("202 Accepted.");
    expect(await inGate("SELECT guid, event FROM deliveries")).toEqual([{ guid: "guid-1", event: "pull_request" }]);
    expect(await inGate("SELECT head_sha, pr_number, generation FROM requests")).toEqual([
      { head_sha: HEAD, pr_number: 7, generation: 1 },
    ]);
  });

  it("the same delivery again changes nothing and says so", async () => {
    const body = JSON.stringify(pullRequest());
    await deliver(body, { guid: "guid-1" });
    expect(await said(await deliver(body, { guid: "guid-1" }))).toContain("202 Processed before");
    expect(await inGate("SELECT count(*) AS n FROM deliveries")).toEqual([{ n: 1 }]);
    expect(await inGate("SELECT count(*) AS n FROM requests")).toEqual([{ n: 1 }]);
  });

  it("ten copies at once are one acceptance", async () => {
    const body = JSON.stringify(pullRequest());
    const texts = await Promise.all(
      Array.from({ length: 10 }, async () => (await deliver(body, { guid: "guid-1" })).text()),
    );
    expect(texts.filter((text) => text === "Accepted.")).toHaveLength(1);
    expect(await inGate("SELECT count(*) AS n FROM requests")).toEqual([{ n: 1 }]);
  });

  it("a hundred different ones at once are a hundred acceptances, each with a place of its own", async () => {
    const numbers = Array.from({ length: 100 }, (_, index) => index + 1);
    const texts = await Promise.all(
      numbers.map(async (number) => {
        const head = number.toString(16).padStart(40, "0");
        const { pull_request, ...rest } = pullRequest();
        const pull = { ...pull_request, number, head: { ...pull_request.head, sha: head } };
        const body = JSON.stringify({ ...rest, number, pull_request: pull });
        return (await deliver(body, { guid: `guid-${number}` })).text();
      }),
    );
    expect(new Set(texts)).toEqual(new Set(["Accepted."]));
    expect(await inGate("SELECT count(*) AS n, count(DISTINCT head_sha) AS heads FROM requests")).toEqual([
      { n: 100, heads: 100 },
    ]);
    expect(await inGate("SELECT count(DISTINCT id) AS n FROM requests")).toEqual([{ n: 100 }]);
  });

  it("an acceptance that fails is 503 and leaves nothing, so that its redelivery is processed", async () => {
    await inGate("CREATE TRIGGER full BEFORE INSERT ON deliveries BEGIN SELECT RAISE(ABORT, 'disk full'); END");
    const body = JSON.stringify(pullRequest());
    expect(await said(await deliver(body, { guid: "guid-1" }))).toContain("503 The repository's gate did not answer");
    expect(await inGate("SELECT count(*) AS n FROM requests")).toEqual([{ n: 0 }]);
    await inGate("DROP TRIGGER full");
    expect(await said(await deliver(body, { guid: "guid-1" }))).toBe("202 Accepted.");
    expect(await inGate("SELECT count(*) AS n FROM requests")).toEqual([{ n: 1 }]);
  });

  it("a gate with a newer database takes nothing and is asked again later", async () => {
    await inGate("UPDATE schema_version SET version = 999");
    await evictDurableObject(gateStub());
    expect(await said(await deliver(JSON.stringify(pullRequest())))).toContain(
      "503 The repository's gate is read-only",
    );
  });

  it("an installation that names several repositories reaches those on the allow-list only", async () => {
    const body = JSON.stringify({
      action: "created",
      installation: { id: 77 },
      repositories: [100, 101, 102].map((id) => ({ id, name: `r${id}`, full_name: `octo/r${id}` })),
      sender: { id: 5, login: "octocat" },
    });
    expect(await said(await deliver(body, { event: "installation" }))).toBe("202 Accepted.");
    expect(await inGate("SELECT event FROM deliveries")).toEqual([{ event: "installation" }]);
  });
});

describe("every answer", () => {
  it.each([
    ["GET", "/github/webhooks", 404],
    ["GET", "/nothing", 404],
    ["PUT", "/", 404],
    ["GET", "/do/call/destroy", 404],
  ])("%s %s is %i: one sentence, no stack, security headers", async (method, path, status) => {
    const answer = await exports.default.fetch(new Request(`https://gate.test${path}`, { method }));
    expect(answer.status).toBe(status);
    expect(await answer.text()).toBe("There is nothing at this address.");
    expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    expect(answer.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(answer.headers.get("cache-control")).toBe("no-store");
  });
});
