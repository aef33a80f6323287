import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { at, listOf, openBench } from "./harness.ts";
import type { Bench } from "./harness.ts";

let bench: Bench;
beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());

describe("every request", () => {
  it("needs a User-Agent", async () => {
    const { request } = await import("node:http");
    const status = await new Promise((resolve, reject) => {
      const asked = request(`${bench.github.url}/rate_limit`, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      asked.on("error", reject);
      asked.end();
    });
    expect(status).toBe(403);
  });

  it("is refused when it names an API version that does not exist", async () => {
    expect(
      (await bench.call("GET", "/repos/octo/lab", undefined, { "x-github-api-version": "2031-01-01" })).status,
    ).toBe(400);
  });

  it("is refused when its body is not JSON", async () => {
    const headers = { authorization: `token ${await bench.token()}` };
    const reply = await bench.raw("POST", "/repos/octo/lab/check-runs", { headers, body: "{no" });
    expect(reply.status).toBe(400);
  });

  it("is in the books with its operation, its answer and who asked, and without any credential", async () => {
    const token = await bench.token();
    await bench.raw("GET", "/repos/octo/lab/git/ref/heads/main", { headers: { authorization: `token ${token}` } });
    const last = bench.github.books.requests.at(-1);
    expect(last).toMatchObject({
      method: "GET",
      operation: "git/get-ref",
      status: 200,
      as: "installation",
      userAgent: "test",
      fault: null,
    });
    expect(JSON.stringify(bench.github.books)).not.toContain(token);
  });
});

describe("API version 2026-03-10", () => {
  it("has no merge_commit_sha in pull requests; 2022-11-28 has", async () => {
    const { number } = bench.repo.openPullRequest({ author: "ada", files: { "src/lib.rs": "fn one() {}\n" } });
    const path = `/repos/octo/lab/pulls/${number}`;
    const now = await bench.call("GET", path);
    const old = await bench.call("GET", path, undefined, { "x-github-api-version": "2022-11-28" });
    expect(Object.keys(now.body as object)).not.toContain("merge_commit_sha");
    expect(Object.keys(old.body as object)).toContain("merge_commit_sha");
  });

  it("has no rate beside resources", async () => {
    const now = await bench.call("GET", "/rate_limit");
    const old = await bench.call("GET", "/rate_limit", undefined, { "x-github-api-version": "2022-11-28" });
    expect([at(now.body, "rate"), at(now.body, "resources", "core", "limit")]).toEqual([undefined, 5000]);
    expect(at(old.body, "rate", "limit")).toBe(5000);
  });
});

describe("lists", () => {
  beforeAll(() => {
    for (let index = 0; index < 130; index += 1) bench.repo.setVariable(`V${String(index).padStart(3, "0")}`, "x");
  });

  it("have 30 entries a page unless told, at most 100, and a Link to the next and the last", async () => {
    const path = "/repos/octo/lab/actions/variables";
    const plain = await bench.call("GET", path);
    const greedy = await bench.call("GET", `${path}?per_page=500`);
    expect([listOf(plain.body, "variables").length, listOf(greedy.body, "variables").length]).toEqual([30, 100]);
    expect(at(plain.body, "total_count")).toBe(130);
    expect(plain.headers.get("link")).toContain(`<${bench.github.url}${path}?page=2>; rel="next"`);
    expect(plain.headers.get("link")).toContain('page=5>; rel="last"');
  });

  it("end without a next link, and together hold every entry once", async () => {
    const seen: unknown[] = [];
    let next: string | null = "/repos/octo/lab/actions/variables?per_page=40";
    for (let pages = 0; next !== null && pages < 10; pages += 1) {
      const reply = await bench.call("GET", next);
      seen.push(...listOf(reply.body, "variables").map((one) => one["name"]));
      next = /<([^>]+)>; rel="next"/.exec(reply.headers.get("link") ?? "")?.[1] ?? null;
    }
    expect([seen.length, new Set(seen).size]).toEqual([130, 130]);
  });
});

describe("conditional requests", () => {
  it("answer 304 without a body while nothing changed, and cost nothing", async () => {
    const path = "/repos/octo/lab/git/ref/heads/main";
    const first = await bench.call("GET", path);
    const etag = first.headers.get("etag") ?? "";
    const again = await bench.call("GET", path, undefined, { "if-none-match": etag });
    expect([again.status, again.bytes.length]).toEqual([304, 0]);
    expect(again.headers.get("x-ratelimit-used")).toBe(first.headers.get("x-ratelimit-used"));
    bench.repo.commit({ files: { "NEWS.md": "news\n" } });
    const changed = await bench.call("GET", path, undefined, { "if-none-match": etag });
    expect(changed.status).toBe(200);
  });
});

describe("rate limits", () => {
  it("are told on every answer, and count down", async () => {
    const first = await bench.call("GET", "/repos/octo/lab");
    const second = await bench.call("GET", "/repos/octo/missing");
    const remaining = (reply: { headers: Headers }): number => Number(reply.headers.get("x-ratelimit-remaining"));
    expect(first.headers.get("x-ratelimit-limit")).toBe("5000");
    expect(remaining(second)).toBe(remaining(first) - 1);
    expect(Number(second.headers.get("x-ratelimit-used"))).toBe(5000 - remaining(second));
    expect(Number(first.headers.get("x-ratelimit-reset"))).toBeGreaterThan(Date.now() / 1000);
  });

  it("answer 403 or 429 with remaining 0 and the reset when exhausted", async () => {
    for (const status of [403, 429] as const) {
      bench.github.rateLimit.exhaust({ kind: "primary", status, forMs: 60_000 });
      const reply = await bench.call("GET", "/repos/octo/lab");
      expect([reply.status, reply.headers.get("x-ratelimit-remaining")]).toEqual([status, "0"]);
      expect(Number(reply.headers.get("x-ratelimit-reset"))).toBeGreaterThan(Date.now() / 1000);
      bench.github.rateLimit.restore();
    }
    expect((await bench.call("GET", "/repos/octo/lab")).status).toBe(200);
  });

  it("have a secondary form with retry-after", async () => {
    bench.github.rateLimit.exhaust({ kind: "secondary", status: 429, forMs: 30_000 });
    const reply = await bench.call("GET", "/repos/octo/lab");
    bench.github.rateLimit.restore();
    expect([
      reply.status,
      reply.headers.get("retry-after"),
      reply.headers.get("x-ratelimit-remaining") === "0",
    ]).toEqual([429, "30", false]);
  });
});

describe("renamed repositories", () => {
  it("answer 301 to their permanent address, which serves them", async () => {
    const repo = bench.github.createRepository({ owner: "octo", name: "old-name" });
    repo.rename("new-name");
    const moved = await bench.call("GET", "/repos/octo/old-name/git/ref/heads/main?x=1");
    const location = moved.headers.get("location") ?? "";
    expect([moved.status, location]).toEqual([
      301,
      `${bench.github.url}/repositories/${repo.id}/git/ref/heads/main?x=1`,
    ]);
    expect(at((await bench.call("GET", location)).body, "object", "sha")).toBe(repo.sha());
    expect(at((await bench.call("GET", "/repos/octo/new-name")).body, "id")).toBe(repo.id);
  });
});

describe("ordered faults", () => {
  it("answer a chosen status as often as asked, then work again", async () => {
    bench.github.faults.next(
      { method: "GET", path: /\/git\/ref\// },
      { status: 502, headers: { "retry-after": "1" } },
      2,
    );
    const ask = () => bench.call("GET", "/repos/octo/lab/git/ref/heads/main");
    const answers = [await ask(), await ask(), await ask()];
    expect(answers.map((one) => one.status)).toEqual([502, 502, 200]);
    expect(answers[0]?.headers.get("retry-after")).toBe("1");
  });

  it("drop a request without carrying it out", async () => {
    const before = bench.github.books.checkWrites.length;
    bench.github.faults.next({ method: "POST" }, "drop");
    await expect(
      bench.call("POST", "/repos/octo/lab/check-runs", { name: "lost", head_sha: bench.repo.sha() }),
    ).rejects.toThrow(/fetch failed|terminated/);
    expect(bench.github.books.checkWrites.length).toBe(before);
    expect(bench.github.books.requests.at(-1)).toMatchObject({
      operation: "checks/create",
      status: "dropped",
      fault: "drop",
    });
  });

  it("carry a request out and then answer 500, or nothing", async () => {
    const before = bench.github.books.checkWrites.length;
    const ask = () => bench.call("POST", "/repos/octo/lab/check-runs", { name: "done", head_sha: bench.repo.sha() });
    bench.github.faults.next({ method: "POST", path: /check-runs$/ }, "done-but-500");
    expect((await ask()).status).toBe(500);
    bench.github.faults.next({ method: "POST", path: /check-runs$/ }, "done-but-drop");
    await expect(ask()).rejects.toThrow(/fetch failed|terminated/);
    expect(bench.github.books.checkWrites.length).toBe(before + 2);
  });

  it("take the whole service away and give it back", async () => {
    bench.github.faults.down(true);
    const headers = { authorization: `token x` };
    const away = await fetch(`${bench.github.url}/repos/octo/lab`, { headers });
    bench.github.faults.down("drop");
    await expect(fetch(`${bench.github.url}/repos/octo/lab`, { headers })).rejects.toThrow(/fetch failed|terminated/);
    bench.github.faults.down(false);
    expect([away.status, (await bench.call("GET", "/repos/octo/lab")).status]).toEqual([503, 200]);
  });
});
