/** The links of the local world lead somewhere: what a check says can be read, and nothing in it runs. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { openBench, type Bench } from "./harness.ts";

let bench: Bench;
let head = "";
let number = 0;
const HOSTILE = `<script>document.title = "owned"</script>`;

beforeAll(async () => {
  bench = await openBench();
  const pull = bench.repo.openPullRequest({ author: "ada", title: HOSTILE, files: { "a.md": "a\n" } });
  head = pull.headSha;
  number = pull.number;
  const base = "/repos/octo/lab/check-runs";
  const check = { name: "CI GPU gate", head_sha: head, status: "completed" };
  const output = { title: "Tests passed", summary: "USD 0.05", text: HOSTILE };
  for (const conclusion of ["failure", "success"]) {
    await bench.call("POST", base, { ...check, conclusion, output });
  }
});

afterAll(() => bench.close());

async function page(path: string): Promise<string> {
  const answer = await fetch(`${bench.github.url}${path}`, { headers: { accept: "text/html" } });
  expect([path, answer.status, answer.headers.get("content-type")]).toEqual([path, 200, "text/html; charset=utf-8"]);
  const text = await answer.text();
  expect(text).not.toContain("<script");
  return text;
}

it("a pull request's page, found from the repository's, has every check, the newest before earlier ones", async () => {
  const own = "/octo/lab";
  expect(await page("/")).toContain(`href="${own}"`);
  expect(await page(own)).toContain(`href="${own}/pull/${number}"`);
  const text = await page(`${own}/pull/${number}`);
  expect(text).toContain("&lt;script&gt;");
  expect(text).toContain("USD 0.05");
  expect(text.indexOf("success")).toBeLessThan(text.indexOf("Earlier ones"));
  expect(text.indexOf("failure")).toBeGreaterThan(text.indexOf("Earlier ones"));
});

it("whatever has an html_url in an answer has a page there", async () => {
  const list = await bench.call("GET", `/repos/octo/lab/commits/${head}/check-runs`);
  const { check_runs: checks } = list.body as { check_runs: { html_url: string }[] };
  expect(checks.length).toBeGreaterThan(0);
  for (const { html_url: address } of checks) expect(await page(new URL(address).pathname)).toContain("CI GPU gate");
  await page(`/octo/lab/commit/${head}`);
});

it("what is not there is GitHub's 404 as before", async () => {
  for (const path of ["/nobody/nothing", "/octo/lab/pull/999", "/a", "/%ff/%ff"]) {
    const answer = await bench.raw("GET", path);
    expect([answer.status, answer.body]).toMatchObject([404, { message: "Not Found" }]);
  }
});

it("a check with words of its own stands open before the others, and the repository's page shows its title", async () => {
  await bench.call("POST", "/repos/octo/lab/check-runs", { name: "A job", head_sha: head, status: "in_progress" });
  const text = await page(`/octo/lab/pull/${number}`);
  expect(text.indexOf("CI GPU gate")).toBeLessThan(text.indexOf("A job"));
  expect(text.match(/<details open>/g)).toHaveLength(1);
  expect(await page("/octo/lab")).toMatch(/CI GPU gate <span class="soft">Tests passed/);
});
