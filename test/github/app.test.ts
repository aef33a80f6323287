import { verify } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createGitHubApp } from "../../shared/github/app.ts";
import { path, type CallReport, type GitHubCall } from "../../shared/github/call.ts";
import {
  API,
  json,
  LOOK_UP,
  MINT,
  PKCS1,
  publicKey,
  REPOSITORY,
  stubApp,
  stubGitHub,
  T0,
  TOKEN,
  tokenAnswer,
} from "./stub.ts";

const QUESTION = "GET /repos/octo/engine";
const question: GitHubCall = { operation: "getRepository", method: "GET", path: "/repos/octo/engine" };
const installation = (id: number) => () => json({ id });
const refused = (status: number) => () => json({ message: "Refused" }, { status });

function movableClock(): { now: () => number; at: number } {
  const clock = { at: T0, now: () => clock.at };
  return clock;
}

describe("createGitHubApp", () => {
  it("refuses a key it cannot use before any request", () => {
    const stub = stubGitHub({});
    const app = createGitHubApp(
      { appId: "1", privateKey: "nonsense", apiUrl: API },
      { fetch: stub.fetch, clock: { now: () => T0 } },
    );
    expect(app).toMatchObject({ ok: false, error: { reason: "not-pem" } });
    expect(stub.seen).toEqual([]);
  });

  it("asks for a token with a JWT that the App's key signed, valid for at most ten minutes", async () => {
    const stub = stubGitHub({ [QUESTION]: () => json({}) });
    await stubApp(stub).asRepository(REPOSITORY, question);
    const [mint] = stub.calls(MINT);
    const jwt = mint?.headers.get("authorization")?.replace(/^bearer /i, "") ?? "";
    const [head = "", payload = "", signature = ""] = jwt.split(".");
    const signed = Buffer.from(`${head}.${payload}`);
    expect(verify("sha256", signed, publicKey, Buffer.from(signature, "base64url"))).toBe(true);
    expect(JSON.parse(Buffer.from(head, "base64url").toString())).toMatchObject({ alg: "RS256" });
    const claims = JSON.parse(Buffer.from(payload, "base64url").toString());
    expect(String(claims.iss)).toBe("1234");
    expect(claims.exp - claims.iat).toBeLessThanOrEqual(600);
  });

  it("sends the pinned API version, an own User-Agent and the token with every call", async () => {
    const stub = stubGitHub({ [QUESTION]: () => json({}) });
    await stubApp(stub).asRepository(REPOSITORY, question);
    expect(stub.seen.map((call) => call.headers.get("x-github-api-version"))).toEqual(["2026-03-10", "2026-03-10"]);
    for (const call of stub.seen) expect(call.headers.get("user-agent")).toMatch(/^gpu-gate /);
    expect(stub.calls(QUESTION)[0]?.headers.get("authorization")).toBe(`token ${TOKEN}`);
    expect(stub.calls(QUESTION)[0]?.headers.get("accept")).toBe("application/vnd.github+json");
  });

  it("keeps the path prefix of an enterprise server and forgives a slash at its end", async () => {
    const urls: string[] = [];
    const app = stubApp(
      {
        fetch: async (url) => {
          urls.push(url);
          return url.includes("access_tokens") ? tokenAnswer() : json({});
        },
      },
      { config: { apiUrl: "https://ghes.test/api/v3/" } },
    );
    await app.asRepository(REPOSITORY, question);
    expect(urls).toEqual([
      "https://ghes.test/api/v3/app/installations/77/access_tokens",
      "https://ghes.test/api/v3/repos/octo/engine",
    ]);
  });

  it("sends a body as it is, strings that look like big numbers included", async () => {
    const stub = stubGitHub({ "POST /repos/octo/engine/things": () => json({}) });
    const body = { title: "12345678901234567890n", nested: { n: [1, "2n"] } };
    await stubApp(stub).asRepository(REPOSITORY, {
      operation: "x",
      method: "POST",
      path: "/repos/octo/engine/things",
      body,
    });
    expect(stub.calls("POST /repos/octo/engine/things")[0]?.body).toEqual(body);
    expect(stub.calls("POST /repos/octo/engine/things")[0]?.headers.get("content-type")).toMatch(/^application\/json/);
  });

  it("corrects a clock that GitHub finds wrong, and asks again once", async () => {
    const stub = stubGitHub({
      "GET /app": (_call, nth) =>
        nth === 1
          ? json(
              {
                message:
                  "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued",
              },
              { status: 401, headers: { date: new Date(Date.now() - 90_000).toUTCString() } },
            )
          : json({ id: 1 }),
    });
    const answer = await stubApp(stub).asApp({ operation: "getApp", method: "GET", path: "/app" });
    expect(answer).toMatchObject({ ok: true, value: { status: 200 } });
    const issuedAt = stub.seen.map((call) => {
      const payload = call.headers.get("authorization")?.split(".")[1] ?? "";
      return JSON.parse(Buffer.from(payload, "base64url").toString()).iat;
    });
    expect(issuedAt).toHaveLength(2);
    expect(issuedAt[0] - issuedAt[1]).toBeGreaterThan(60);
  });
});

describe("installation tokens", () => {
  it("are minted once for many concurrent calls and reused afterwards (N140)", async () => {
    const stub = stubGitHub({ [QUESTION]: () => json({}) });
    const app = stubApp(stub);
    await Promise.all(Array.from({ length: 20 }, () => app.asRepository(REPOSITORY, question)));
    await app.asRepository(REPOSITORY, question);
    expect(stub.calls(MINT)).toHaveLength(1);
    expect(stub.calls(QUESTION)).toHaveLength(21);
  });

  it("are replaced a minute before they end, by the injected clock (N146)", async () => {
    const clock = movableClock();
    const stub = stubGitHub({
      [QUESTION]: () => json({}),
      [MINT]: (_call, nth) => tokenAnswer(`ghs_number${nth}`, clock.at + 3_600_000),
    });
    const app = stubApp(stub, { deps: { clock } });
    await app.asRepository(REPOSITORY, question);
    clock.at = T0 + 3_540_000 - 1;
    await app.asRepository(REPOSITORY, question);
    expect(stub.calls(MINT)).toHaveLength(1);
    clock.at = T0 + 3_540_000;
    await app.asRepository(REPOSITORY, question);
    expect(stub.calls(MINT)).toHaveLength(2);
    expect(stub.calls(QUESTION).map((call) => call.headers.get("authorization"))).toEqual([
      "token ghs_number1",
      "token ghs_number1",
      "token ghs_number2",
    ]);
  });

  it("live the documented hour when their end cannot be read", async () => {
    const clock = movableClock();
    const stub = stubGitHub({ [QUESTION]: () => json({}), [MINT]: () => json({ token: TOKEN, expires_at: "soon" }) });
    const app = stubApp(stub, { deps: { clock } });
    for (const after of [0, 3_539_999, 3_540_000]) {
      clock.at = T0 + after;
      await app.asRepository(REPOSITORY, question);
    }
    expect(stub.calls(MINT)).toHaveLength(2);
  });

  it("are made anew once when GitHub no longer takes one in the middle of a sweep", async () => {
    const stub = stubGitHub({
      [QUESTION]: (call) => (call.headers.get("authorization") === "token ghs_number1" ? refused(401)() : json({})),
      [MINT]: (_call, nth) => tokenAnswer(`ghs_number${nth}`),
    });
    const app = stubApp(stub);
    const answers = await Promise.all([app.asRepository(REPOSITORY, question), app.asRepository(REPOSITORY, question)]);
    expect(answers.map((answer) => answer.ok)).toEqual([true, true]);
    expect(stub.calls(MINT)).toHaveLength(2);
    expect(stub.calls(LOOK_UP)).toHaveLength(0);
  });

  it("are asked for a second time and no more when GitHub refuses every one", async () => {
    const stub = stubGitHub({ [QUESTION]: refused(401) });
    expect(await stubApp(stub).asRepository(REPOSITORY, question)).toEqual({
      ok: false,
      error: { reason: "unauthorized", message: "Refused" },
    });
    expect(stub.calls(QUESTION)).toHaveLength(2);
    expect(stub.calls(MINT)).toHaveLength(2);
  });

  it("of two Apps in one process are never mixed up, though the installation id is the same", async () => {
    const first = stubGitHub({ [QUESTION]: () => json({}), [MINT]: () => tokenAnswer("ghs_first") });
    const second = stubGitHub({ [QUESTION]: () => json({}), [MINT]: () => tokenAnswer("ghs_second") });
    await Promise.all([
      stubApp(first).asRepository(REPOSITORY, question),
      stubApp(second).asRepository(REPOSITORY, question),
    ]);
    expect(first.calls(QUESTION)[0]?.headers.get("authorization")).toBe("token ghs_first");
    expect(second.calls(QUESTION)[0]?.headers.get("authorization")).toBe("token ghs_second");
  });

  it("of two installations go to the calls of their own repositories (N145)", async () => {
    const stub = stubGitHub({
      "POST /app/installations/1/access_tokens": () => tokenAnswer("ghs_one"),
      "POST /app/installations/2/access_tokens": () => tokenAnswer("ghs_two"),
      "GET /repos/one/x": () => json({}),
      "GET /repos/two/x": () => json({}),
    });
    const app = stubApp(stub);
    for (const owner of ["one", "two"]) {
      const handle = { id: owner, owner, name: "x", installationId: owner === "one" ? "1" : "2" };
      await app.asRepository(handle, { operation: "x", method: "GET", path: path`/repos/${owner}/x` });
    }
    expect(stub.calls("GET /repos/one/x")[0]?.headers.get("authorization")).toBe("token ghs_one");
    expect(stub.calls("GET /repos/two/x")[0]?.headers.get("authorization")).toBe("token ghs_two");
  });

  it("keep installation ids beyond 2^53 exact", async () => {
    const mint = "POST /app/installations/9007199254740993/access_tokens";
    const stub = stubGitHub({
      [LOOK_UP]: () => new Response('{"id":9007199254740993}'),
      [mint]: () => tokenAnswer(),
      [QUESTION]: () => json({}),
    });
    await stubApp(stub).asRepository({ ...REPOSITORY, installationId: null }, question);
    expect(stub.calls(mint)).toHaveLength(1);
  });
});

describe("the installation of a repository", () => {
  it("is looked up once when nobody gave it, for concurrent calls too", async () => {
    const stub = stubGitHub({ [LOOK_UP]: installation(77), [QUESTION]: () => json({}) });
    const app = stubApp(stub);
    const handle = { ...REPOSITORY, installationId: null };
    await Promise.all([1, 2, 3].map(() => app.asRepository(handle, question)));
    expect(stub.calls(LOOK_UP)).toHaveLength(1);
    expect(await app.installationOf(handle)).toEqual({ ok: true, value: "77" });
  });

  it("is looked up once more when GitHub does not know it after a reinstall (N143)", async () => {
    const stub = stubGitHub({
      [MINT]: refused(404),
      [LOOK_UP]: installation(78),
      "POST /app/installations/78/access_tokens": () => tokenAnswer("ghs_new"),
      [QUESTION]: () => json({}),
    });
    const app = stubApp(stub);
    expect(await app.asRepository(REPOSITORY, question)).toMatchObject({ ok: true });
    expect(await app.asRepository(REPOSITORY, question)).toMatchObject({ ok: true });
    expect(await app.installationOf(REPOSITORY)).toEqual({ ok: true, value: "78" });
    expect(stub.calls(MINT)).toHaveLength(1);
    expect(stub.calls(LOOK_UP)).toHaveLength(1);
  });

  it("is found again behind a revoked token of the old installation", async () => {
    const stub = stubGitHub({
      [MINT]: (_call, nth) => (nth === 1 ? tokenAnswer("ghs_old") : refused(404)()),
      [LOOK_UP]: installation(78),
      "POST /app/installations/78/access_tokens": () => tokenAnswer("ghs_new"),
      [QUESTION]: (call) => (call.headers.get("authorization") === "token ghs_new" ? json({}) : refused(401)()),
    });
    expect(await stubApp(stub).asRepository(REPOSITORY, question)).toMatchObject({ ok: true });
  });

  it.each([403, 404])("is found again when a transfer makes the old one answer %i", async (status) => {
    const stub = stubGitHub({
      [LOOK_UP]: installation(78),
      "POST /app/installations/78/access_tokens": () => tokenAnswer("ghs_new"),
      [QUESTION]: (call) => (call.headers.get("authorization") === "token ghs_new" ? json({}) : refused(status)()),
    });
    expect(await stubApp(stub).asRepository(REPOSITORY, question)).toMatchObject({ ok: true });
  });

  it("is not looked up for each plain 404: one look-up vouches for ten minutes", async () => {
    const clock = movableClock();
    const stub = stubGitHub({ [LOOK_UP]: installation(77), [QUESTION]: refused(404) });
    const app = stubApp(stub, { deps: { clock } });
    for (let time = 0; time < 3; time += 1) {
      expect(await app.asRepository(REPOSITORY, question)).toEqual({ ok: false, error: { reason: "not-found" } });
    }
    expect(stub.calls(LOOK_UP)).toHaveLength(1);
    clock.at = T0 + 600_000;
    await app.asRepository(REPOSITORY, question);
    expect(stub.calls(LOOK_UP)).toHaveLength(2);
    expect(stub.calls(QUESTION)).toHaveLength(4);
  });

  it.each([
    ["token", { [MINT]: refused(404), [QUESTION]: () => json({}) }],
    ["call", { [QUESTION]: refused(404) }],
  ])("is not called gone by a %s's 404 while the look-up fails", async (_what, answers) => {
    let down = true;
    const stub = stubGitHub({ [LOOK_UP]: () => (down ? refused(502)() : refused(404)()), ...answers });
    const app = stubApp(stub);
    expect(await app.asRepository(REPOSITORY, question)).toMatchObject({ ok: false, error: { reason: "server" } });
    down = false;
    expect(await app.asRepository(REPOSITORY, question)).toMatchObject({ ok: false, error: { reason: "not-found" } });
  });

  it("that is gone gives the refusal of the token, after one look-up", async () => {
    const stub = stubGitHub({ [MINT]: refused(404), [LOOK_UP]: refused(404), [QUESTION]: () => json({}) });
    expect(await stubApp(stub).asRepository(REPOSITORY, question)).toEqual({
      ok: false,
      error: { reason: "not-found" },
    });
    expect(stub.calls(LOOK_UP)).toHaveLength(1);
    expect(stub.calls(QUESTION)).toHaveLength(0);
  });

  it("that is suspended is a matter of configuration, not of another look-up", async () => {
    const stub = stubGitHub({ [MINT]: refused(403), [QUESTION]: () => json({}) });
    expect(await stubApp(stub).asRepository(REPOSITORY, question)).toMatchObject({
      ok: false,
      error: { reason: "forbidden" },
    });
    expect(stub.calls(LOOK_UP)).toHaveLength(0);
  });
});

describe("a call that gets no proper answer", () => {
  it("times out on a fetch that never ends, and does not wait for it", async () => {
    const app = stubApp({ fetch: () => new Promise<never>(() => undefined) }, { config: { timeoutMs: 20 } });
    expect(await app.asApp({ operation: "getApp", method: "GET", path: "/app" })).toEqual({
      ok: false,
      error: { reason: "transport", timeout: true },
    });
  });

  it("times out on a body that never ends", async () => {
    const app = stubApp({ fetch: async () => new Response(new ReadableStream()) }, { config: { timeoutMs: 20 } });
    expect(await app.asApp({ operation: "getApp", method: "GET", path: "/app" })).toEqual({
      ok: false,
      error: { reason: "transport", timeout: true },
    });
  });

  it("passes the signal on, so that a real fetch is ended too", async () => {
    let ended = false;
    const app = stubApp(
      {
        fetch: (_url, init) =>
          new Promise((_resolve, reject) => {
            init?.signal?.addEventListener("abort", () => {
              ended = true;
              reject(new Error("aborted"));
            });
          }),
      },
      { config: { timeoutMs: 20 } },
    );
    await app.asApp({ operation: "getApp", method: "GET", path: "/app" });
    expect(ended).toBe(true);
  });

  it("reports a broken connection without its text, which may hold an address or a key", async () => {
    const app = stubApp({ fetch: () => Promise.reject(new TypeError(`connect failed ${TOKEN}`)) });
    expect(await app.asApp({ operation: "getApp", method: "GET", path: "/app" })).toEqual({
      ok: false,
      error: { reason: "transport", timeout: false },
    });
  });

  it("reports a cancellation by the caller as no time-out", async () => {
    const app = stubApp({ fetch: () => new Promise<never>(() => undefined) });
    const call: GitHubCall = { operation: "getApp", method: "GET", path: "/app", signal: AbortSignal.abort() };
    expect(await app.asApp(call)).toEqual({ ok: false, error: { reason: "transport", timeout: false } });
  });

  it("refuses a body that is too large", async () => {
    const app = stubApp({ fetch: async () => new Response("x".repeat(16 * 1024 * 1024 + 1)) });
    expect(await app.asApp({ operation: "getApp", method: "GET", path: "/app" })).toEqual({
      ok: false,
      error: { reason: "unreadable", what: "the body (too large)" },
    });
  });

  it("tells a key that cannot sign from a GitHub that cannot be reached, and sends nothing", async () => {
    const hollow = "-----BEGIN RSA PRIVATE KEY-----\nMAYCAQACAQE=\n-----END RSA PRIVATE KEY-----";
    const stub = stubGitHub({});
    const app = stubApp(stub, { config: { privateKey: hollow } });
    expect(await app.asApp({ operation: "getApp", method: "GET", path: "/app" })).toMatchObject({
      ok: false,
      error: { reason: "unauthorized" },
    });
    expect(stub.seen).toEqual([]);
  });

  it.each(["/repos/octo/../x", "/repos/./x", "/repos/%2E%2e/x", "/repos/x/.."])(
    "never sends a path whose segments a URL parser would remove: %s",
    async (bad) => {
      const stub = stubGitHub({});
      const answer = await stubApp(stub).asApp({ operation: "x", method: "GET", path: bad });
      expect(answer).toMatchObject({ ok: false, error: { reason: "unprocessable" } });
      expect(stub.seen).toEqual([]);
    },
  );

  it("never shows the token it was made with, even if GitHub echoes it", async () => {
    const odd = "unusual-token-form-0123456789";
    const stub = stubGitHub({
      [MINT]: () => tokenAnswer(odd),
      [QUESTION]: (call) =>
        json(
          { message: `bad: ${call.headers.get("authorization")?.slice("token ".length)} ${PKCS1}` },
          { status: 422 },
        ),
    });
    const answer = JSON.stringify(await stubApp(stub).asRepository(REPOSITORY, question));
    expect(answer).not.toContain(odd);
    expect(answer).not.toContain(PKCS1.split("\n")[3]);
    expect(answer).toContain("unprocessable");
  });
});

describe("the observer", () => {
  it("hears of each exchange: its name, its length, its rate limit, and no content", async () => {
    const reports: CallReport[] = [];
    const clock = movableClock();
    const stub = stubGitHub({
      [QUESTION]: () => {
        clock.at += 250;
        return json(
          { secret: TOKEN },
          {
            headers: {
              "x-ratelimit-limit": "5000",
              "x-ratelimit-remaining": "4999",
              "x-ratelimit-reset": "1796040000",
              "x-ratelimit-resource": "core",
              "x-github-request-id": "ABCD:1",
            },
          },
        );
      },
    });
    const app = stubApp(stub, { deps: { clock, onCall: (report) => reports.push(report) } });
    await app.asRepository(REPOSITORY, question);
    expect(reports).toEqual([
      {
        operation: "createInstallationToken",
        method: "POST",
        status: 201,
        durationMs: 0,
        rate: { limit: null, remaining: null, reset: null, resource: null },
        requestId: null,
      },
      {
        operation: "getRepository",
        method: "GET",
        status: 200,
        durationMs: 250,
        rate: { limit: 5_000, remaining: 4_999, reset: 1_796_040_000_000, resource: "core" },
        requestId: "ABCD:1",
      },
    ]);
    expect(JSON.stringify(reports)).not.toContain(TOKEN);
  });

  it("hears of a call without an answer", async () => {
    const reports: CallReport[] = [];
    const app = stubApp(
      { fetch: () => Promise.reject(new Error("down")) },
      { deps: { onCall: (report) => reports.push(report) } },
    );
    await app.asApp({ operation: "getApp", method: "GET", path: "/app" });
    expect(reports.map((report) => [report.operation, report.status])).toEqual([["getApp", null]]);
  });
});

describe("a call that nobody waits for", () => {
  const RESET = T0 / 1000 + 1_800;
  const left = (remaining: number, more: Readonly<Record<string, string>> = {}) =>
    json(
      {},
      {
        headers: {
          "x-ratelimit-limit": "5000",
          "x-ratelimit-remaining": String(remaining),
          "x-ratelimit-reset": String(RESET),
          "x-ratelimit-resource": "core",
          ...more,
        },
      },
    );
  const background = { ...question, background: true };
  const opened = (answer: () => Response) => {
    const clock = movableClock();
    const stub = stubGitHub({ [QUESTION]: answer, [MINT.replace("77", "78")]: () => tokenAnswer() });
    return { clock, app: stubApp(stub, { deps: { clock } }), asked: () => stub.calls(QUESTION).length };
  };

  it("N136: is kept back while little of the quota is left; a call that somebody waits for goes", async () => {
    const { app, asked, clock } = opened(() => left(499));
    // Nothing is known yet.
    expect((await app.asRepository(REPOSITORY, background)).ok).toBe(true);
    expect(await app.asRepository(REPOSITORY, background)).toEqual({
      ok: false,
      error: { reason: "rate-limited", retryAtMs: RESET * 1000, scope: "primary" },
    });
    expect(asked()).toBe(1);
    expect((await app.asRepository(REPOSITORY, question)).ok).toBe(true);
    expect(asked()).toBe(2);
    clock.at = RESET * 1000 - 1;
    expect((await app.asRepository(REPOSITORY, background)).ok).toBe(false);
    clock.at = RESET * 1000;
    expect((await app.asRepository(REPOSITORY, background)).ok).toBe(true);
  });

  it("goes while a tenth is left, and whatever is left of another quota or of another installation's", async () => {
    for (const answer of [
      () => left(500),
      () => left(0, { "x-ratelimit-resource": "search" }),
      () => left(1, { "x-ratelimit-limit": "many" }),
      () => json({}),
    ]) {
      const { app, asked } = opened(answer);
      await app.asRepository(REPOSITORY, question);
      expect((await app.asRepository(REPOSITORY, background)).ok).toBe(true);
      expect(asked()).toBe(2);
    }
    const { app, asked } = opened(() => left(3));
    await app.asInstallation("77", question);
    expect((await app.asInstallation("77", background)).ok).toBe(false);
    expect(await app.asInstallation("78", background)).toMatchObject({ ok: true });
    expect(asked()).toBe(2);
  });
});
