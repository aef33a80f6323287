/**
 * `recover` and `validate`: what is started, what is waited for, and that the maintainer's token goes to GitHub alone.
 * GitHub is a stub of a few routes; the command line is the real one, in process.
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { API, json, shaOf, stubGitHub, type Handler, type Stub } from "../github/stub.ts";
import { gpuGate, type Answer } from "../hosted/io.ts";

const REPO = "/repos/octo/engine";
const HEAD = shaOf("a");
const MERGED = shaOf("d");
const TOKEN = "gho_maintainersOwnToken0123456789";
const RECOVERY_FILE = "gpu-gate-recovery.yml";
const VALIDATION_FILE = "gpu-gate-validation.yml";
const DISPATCH = `POST ${REPO}/actions/workflows/${RECOVERY_FILE}/dispatches`;

const pull = (more: object = {}) => ({
  number: 7,
  state: "open",
  title: "A change",
  labels: [],
  user: { id: 1, login: "ada" },
  head: { sha: HEAD, ref: "topic", repo: { id: 101, full_name: "octo/engine" } },
  base: { sha: shaOf("c"), ref: "main", repo: { id: 101 } },
  changed_files: 1,
  ...more,
});

const run = (more: object = {}) => ({
  id: 7001,
  run_attempt: 1,
  status: "completed",
  conclusion: "success",
  event: "workflow_dispatch",
  path: `.github/workflows/${RECOVERY_FILE}`,
  workflow_id: 5,
  display_title: "gpu-gate recover pull request 7",
  head_sha: shaOf("c"),
  head_branch: "trunk",
  repository: { id: 101 },
  head_repository: { id: 101 },
  actor: { id: 501, login: "mira" },
  html_url: "https://github.test/octo/engine/actions/runs/7001",
  ...more,
});

const check = (more: object = {}) => ({
  id: 9001,
  name: "CI GPU gate",
  head_sha: HEAD,
  status: "completed",
  conclusion: "success",
  external_id: "r12:0",
  app: { id: 1234 },
  html_url: "https://github.test/octo/engine/runs/9001",
  output: { title: "Passed: 42 GPU tests", summary: "42 GPU tests passed." },
  started_at: null,
  completed_at: null,
  ...more,
});

const checks = (...runs: object[]) => json({ total_count: runs.length, check_runs: runs });
const note = (message: string) =>
  json([
    { path: ".github", start_line: 1, end_line: 1, annotation_level: "notice", title: "gpu-gate request", message },
  ]);
const file = (text: string) =>
  json({ type: "file", sha: shaOf("f"), encoding: "base64", content: Buffer.from(text).toString("base64") });
const gone: Handler = () => json({ message: "Not Found" }, { status: 404 });
const down: Handler = () => json({ message: "sorry" }, { status: 502 });

function github(more: Readonly<Record<string, Handler>> = {}): Stub {
  return stubGitHub({
    [`GET ${REPO}`]: () => json({ id: 101, full_name: "octo/engine", default_branch: "trunk" }),
    [`GET ${REPO}/contents/.github/gpu-gate.yml`]: () => file("version: 1\n"),
    [`GET ${REPO}/pulls/7`]: () => json(pull()),
    "GET /user": () => json({ id: 501, login: "mira" }),
    [DISPATCH]: () => json({ workflow_run_id: 7001, run_url: "x", html_url: "x" }),
    [`POST ${REPO}/actions/workflows/${VALIDATION_FILE}/dispatches`]: () => json({ workflow_run_id: 7001 }),
    [`GET ${REPO}/actions/runs/7001`]: () => json(run()),
    [`GET ${REPO}/actions/runs/7001/attempts/1/jobs`]: () =>
      json({
        total_count: 1,
        jobs: [
          {
            id: 61,
            run_id: 7001,
            name: "Ask for recovery",
            status: "completed",
            conclusion: "success",
            head_sha: shaOf("c"),
            labels: ["ubuntu-24.04"],
            check_run_url: `${API}${REPO}/check-runs/8001`,
          },
        ],
      }),
    [`GET ${REPO}/check-runs/8001/annotations`]: () => note(`r12 of App 1234 at ${HEAD}`),
    [`GET ${REPO}/commits/${HEAD}/check-runs`]: () => checks(check()),
    ...more,
  });
}

function call(stub: Stub, args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Answer> {
  let now = Date.parse("2026-11-30T12:00:00Z");
  return gpuGate(args, {
    fetch: stub.fetch,
    env: { GITHUB_API_URL: API, GITHUB_REPOSITORY: "octo/engine", GH_TOKEN: TOKEN, ...env },
    // Each look at the clock is a second later: limits pass without waiting.
    now: () => (now += 1_000),
  });
}

const recover = (stub: Stub, ...more: string[]): Promise<Answer> =>
  call(stub, ["recover", "7", "--poll", "0", ...more]);

describe("gpu-gate recover", () => {
  it("dispatches the recovery workflow at the default branch with the number alone", async () => {
    const stub = github();
    const answer = await recover(stub);
    expect(answer.code).toBe(0);
    expect(stub.calls(DISPATCH).map((seen) => seen.body)).toEqual([{ ref: "trunk", inputs: { pr_number: "7" } }]);
    expect(answer.out).toContain("run 7001");
  });

  it("passes on how long the machine is to be kept, and only a time that the control plane takes", async () => {
    const stub = github();
    expect((await recover(stub, "--keep", "60")).code).toBe(0);
    expect(stub.calls(DISPATCH)[0]?.body).toEqual({ ref: "trunk", inputs: { pr_number: "7", keep_minutes: "60" } });
    for (const wrong of ["0", "721", "1h", ""]) expect((await recover(stub, "--keep", wrong)).code).toBe(2);
    expect(stub.calls(DISPATCH)).toHaveLength(1);
  });

  it("takes the number as it is written everywhere", async () => {
    const stub = github();
    expect((await call(stub, ["recover", "#7", "--poll", "0"])).code).toBe(0);
    expect(stub.calls(DISPATCH)).toHaveLength(1);
  });

  it("takes the workflow's path from the default branch's configuration", async () => {
    const own = `POST ${REPO}/actions/workflows/again.yml/dispatches`;
    const stub = github({
      [`GET ${REPO}/contents/.github/gpu-gate.yml`]: () =>
        file("version: 1\nworkflows: { recovery: .github/workflows/again.yml }\n"),
      [own]: () => json({ workflow_run_id: 7001 }),
    });
    expect((await recover(stub)).code).toBe(0);
    expect(stub.calls(own)).toHaveLength(1);
  });

  it.each([
    [["recover"], "PR_NUMBER must be a number above zero"],
    [["recover", "0"], "PR_NUMBER must be a number above zero"],
    [["recover", "-3"], "recover"],
    [["recover", "7x"], "PR_NUMBER must be a number above zero"],
    [["recover", "refs/pull/7/head"], "PR_NUMBER must be a number above zero"],
    [["recover", "7", "8"], "one pull request at a time"],
    [["recover", "7", "--ref", "evil"], "--ref"],
    [["recover", "7", "--workflow-ref=evil"], "--workflow-ref"],
    [["recover", "7", "--revision", HEAD], "--revision"],
    [["recover", "7", "--poll", "soon"], "--poll takes a number of seconds"],
    [["recover", "7", "--repository", "octo"], "owner/name"],
  ])("%j is a wrong call and asks GitHub nothing", async (args, words) => {
    const stub = github();
    const answer = await call(stub, args);
    expect(answer.code).toBe(2);
    expect(answer.err).toContain(words);
    expect(stub.seen).toEqual([]);
  });

  it.each<[string, Readonly<Record<string, Handler>>, string]>([
    ["not there", { [`GET ${REPO}/pulls/7`]: gone }, "could not be read"],
    ["closed", { [`GET ${REPO}/pulls/7`]: () => json(pull({ state: "closed" })) }, "not open"],
    [
      "in a repository without a configuration",
      { [`GET ${REPO}/contents/.github/gpu-gate.yml`]: gone },
      "there is no .github/gpu-gate.yml on trunk",
    ],
  ])("a pull request that is %s starts nothing", async (_what, routes, words) => {
    const stub = github(routes);
    const answer = await recover(stub);
    expect([answer.code, stub.calls(DISPATCH)]).toEqual([1, []]);
    expect(answer.err).toContain(words);
  });

  it("says what GitHub refused", async () => {
    const stub = github({
      [DISPATCH]: () => json({ message: "Resource not accessible by personal access token" }, { status: 403 }),
    });
    const answer = await recover(stub);
    expect(answer.code).toBe(1);
    expect(answer.err).toContain("not accessible");
    expect(stub.calls(DISPATCH)).toHaveLength(1);
  });

  it("a lost answer is looked up by the run's name, never sent again", async () => {
    const list = `GET ${REPO}/actions/workflows/${RECOVERY_FILE}/runs`;
    const stub = github({
      [DISPATCH]: down,
      [list]: (_seen, nth) => {
        const others = [
          run({ id: 6999, display_title: "gpu-gate recover pull request 77" }),
          run({ id: 6998, actor: { id: 502, login: "walt" } }),
          run({ id: 6997, head_branch: "evil" }),
        ];
        const runs = nth === 1 ? others : [...others, run()];
        return json({ total_count: runs.length, workflow_runs: runs });
      },
    });
    const answer = await recover(stub);
    expect([answer.code, stub.calls(DISPATCH).length, stub.calls(list).length]).toEqual([0, 1, 2]);
    expect(answer.out).toContain("run 7001");
  });

  it("of two runs that could be the one, none is taken", async () => {
    const list = `GET ${REPO}/actions/workflows/${RECOVERY_FILE}/runs`;
    const two = () => json({ total_count: 2, workflow_runs: [run(), run({ id: 7002 })] });
    const answer = await recover(github({ [DISPATCH]: down, [list]: two }));
    expect(answer.code).toBe(1);
    expect(answer.err).toMatch(/7001.*7002.*Actions tab/u);
  });

  it("gives up looking for a run that never appears, and says where to look", async () => {
    const stub = github({
      [DISPATCH]: down,
      [`GET ${REPO}/actions/workflows/${RECOVERY_FILE}/runs`]: () => json({ total_count: 0, workflow_runs: [] }),
    });
    const answer = await recover(stub);
    expect([answer.code, stub.calls(DISPATCH).length]).toEqual([1, 1]);
    expect(answer.err).toContain("Actions tab");
  });
});

describe("gpu-gate recover --wait", () => {
  it("tells each change once and ends green with the check", async () => {
    const stub = github({
      [`GET ${REPO}/actions/runs/7001`]: (_seen, nth) =>
        json(nth < 3 ? run({ status: "in_progress", conclusion: null }) : run()),
      [`GET ${REPO}/commits/${HEAD}/check-runs`]: (_seen, nth) => {
        if (nth === 1) return checks();
        if (nth < 4)
          return checks(
            check({ status: "queued", conclusion: null, output: { title: "Waiting for the GPU lock: place 2" } }),
          );
        return checks(check());
      },
    });
    const answer = await recover(stub, "--wait");
    expect(answer.code).toBe(0);
    const told = answer.out
      .split("\n")
      .filter((line) => /^\s*\d+:\d\d {2}/.test(line))
      .map((line) => line.replace(/^\s*\d+:\d\d {2}/, ""));
    expect(told).toEqual([
      "run 7001: in_progress",
      `request r12, check on ${HEAD}`,
      "queued: Waiting for the GPU lock: place 2",
      "success: Passed: 42 GPU tests",
    ]);
    expect(answer.out).toContain("42 GPU tests passed.");
  });

  it.each(["failure", "timed_out", "action_required", "cancelled", "neutral", "skipped", "something new", null])(
    "only success is success: %s ends with 1",
    async (conclusion) => {
      const stub = github({ [`GET ${REPO}/commits/${HEAD}/check-runs`]: () => checks(check({ conclusion })) });
      expect((await recover(stub, "--wait")).code).toBe(1);
    },
  );

  it.each([
    ["another App's check of the same name", check({ id: 9002, app: { id: 15368 } })],
    ["an older request's check", check({ id: 9002, external_id: "r11:0" })],
    ["a request whose id only begins alike", check({ id: 9002, external_id: "r123:0" })],
    ["a check without an id of ours", check({ id: 9002, external_id: null })],
  ])("%s says nothing about this request", async (_what, foreign) => {
    const mine = check({ conclusion: "failure" });
    const stub = github({
      [`GET ${REPO}/commits/${HEAD}/check-runs`]: (_seen, nth) => (nth < 3 ? checks(foreign) : checks(foreign, mine)),
    });
    expect((await recover(stub, "--wait")).code).toBe(1);
  });

  it("follows the head that the control plane read, when a push came in between", async () => {
    const moved = shaOf("e");
    const stub = github({
      [`GET ${REPO}/check-runs/8001/annotations`]: () => note(`r12 of App 1234 at ${moved}`),
      [`GET ${REPO}/commits/${moved}/check-runs`]: () => checks(check({ head_sha: moved })),
    });
    expect((await recover(stub, "--wait")).code).toBe(0);
  });

  it("the newest word counts: 'deletion unproven' is followed by the real verdict", async () => {
    const stub = github({
      [`GET ${REPO}/commits/${HEAD}/check-runs`]: () =>
        checks(check({ conclusion: "failure" }), check({ id: 9002, external_id: "r12:1", conclusion: "success" })),
    });
    expect((await recover(stub, "--wait")).code).toBe(0);
  });

  it.each<[string, Readonly<Record<string, Handler>>, string]>([
    [
      "the run was refused",
      { [`GET ${REPO}/actions/runs/7001`]: () => json(run({ conclusion: "failure" })) },
      "ended as failure",
    ],
    ["somebody re-ran it", { [`GET ${REPO}/actions/runs/7001`]: () => json(run({ run_attempt: 2 })) }, "re-run"],
    [
      "the workflow file is an old one",
      { [`GET ${REPO}/check-runs/8001/annotations`]: () => json([]) },
      "without naming its request",
    ],
    [
      "the note is of another form",
      { [`GET ${REPO}/check-runs/8001/annotations`]: () => note("r12 of App 1234 at ../../evil") },
      "without naming its request",
    ],
  ])("ends with 1 when %s", async (_what, routes, words) => {
    const answer = await recover(github(routes), "--wait");
    expect(answer.code).toBe(1);
    expect(answer.err).toContain(words);
  });

  it("goes on through an outage of GitHub", async () => {
    const stub = github({
      [`GET ${REPO}/actions/runs/7001`]: (seen, nth) => (nth < 3 ? down(seen, nth) : json(run())),
      [`GET ${REPO}/commits/${HEAD}/check-runs`]: (seen, nth) => (nth < 3 ? down(seen, nth) : checks(check())),
    });
    expect((await recover(stub, "--wait")).code).toBe(0);
  });

  it("gives up after its time and says that the request goes on", async () => {
    const stub = github({
      [`GET ${REPO}/commits/${HEAD}/check-runs`]: () => checks(check({ status: "in_progress", conclusion: null })),
    });
    const answer = await recover(stub, "--wait", "--timeout", "60");
    expect(answer.code).toBe(1);
    expect(answer.err).toContain("no verdict within 60 s");
    expect(answer.err).toContain("goes on by itself");
  });
});

describe("gpu-gate validate", () => {
  const validate = (stub: Stub, ...args: string[]) => call(stub, ["validate", "--poll", "0", ...args]);
  const DISPATCHED = `POST ${REPO}/actions/workflows/${VALIDATION_FILE}/dispatches`;

  it("dispatches the validation workflow with the commit", async () => {
    const stub = github();
    expect((await validate(stub, "--revision", MERGED)).code).toBe(0);
    expect(stub.calls(DISPATCHED).map((seen) => seen.body)).toEqual([
      { ref: "trunk", inputs: { revision: MERGED, check_head: "" } },
    ]);
  });

  it("waits for the check on the commit that gets it", async () => {
    const stub = github();
    const answer = await validate(stub, "--revision", MERGED, "--check-head", HEAD, "--wait");
    expect(answer.code).toBe(0);
    expect(stub.calls(DISPATCHED)[0]?.body).toEqual({ ref: "trunk", inputs: { revision: MERGED, check_head: HEAD } });
  });

  it.each([
    [[], "--revision"],
    [["--revision", "main"], "40 lower-case hex digits"],
    [["--revision", MERGED.slice(0, 39)], "40 lower-case hex digits"],
    [["--revision", MERGED, "--check-head", "HEAD"], "--check-head takes a whole commit id"],
    [["--revision", MERGED, "--keep", "999"], "--keep takes 1 to 720 minutes"],
    [["7", "--revision", MERGED], "a validation has no pull request"],
    [["--revision", MERGED, "--pr", "7"], "--pr"],
    [["--revision", MERGED, "--ref", "evil"], "--ref"],
  ])("%j is a wrong call and asks GitHub nothing", async (args, words) => {
    const stub = github();
    const answer = await validate(stub, ...args);
    expect(answer.code).toBe(2);
    expect(answer.err).toContain(words);
    expect(stub.seen).toEqual([]);
  });
});

describe("the maintainer's token", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpu-gate-gh-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  function gh(script: string): Readonly<Record<string, string>> {
    writeFileSync(join(folder, "gh"), `#!/bin/sh\n${script}\n`);
    chmodSync(join(folder, "gh"), 0o755);
    return { PATH: `${folder}${delimiter}${process.env["PATH"] ?? ""}`, GH_TOKEN: "", GITHUB_TOKEN: "" };
  }

  it("goes to GitHub's address in a header and is printed nowhere", async () => {
    const stub = github();
    const elsewhere: string[] = [];
    const answer = await gpuGate(["recover", "7", "--wait", "--poll", "0"], {
      env: { GITHUB_API_URL: API, GITHUB_REPOSITORY: "octo/engine", GH_TOKEN: TOKEN },
      fetch: (input, init) => {
        if (!input.startsWith(`${API}/`)) elsewhere.push(input);
        return stub.fetch(input, init);
      },
    });
    expect(answer.code).toBe(0);
    expect(elsewhere).toEqual([]);
    expect(new Set(stub.seen.map((seen) => seen.headers.get("authorization")))).toEqual(new Set([`Bearer ${TOKEN}`]));
    expect(JSON.stringify(stub.seen.map(({ path, body }) => [path, body]))).not.toContain(TOKEN);
    expect(answer.out + answer.err).not.toContain(TOKEN);
  });

  // One server's token is nothing to show to another: gh is told for which it is.
  it.each([
    ["", "github.com"],
    ["https://api.github.com/", "github.com"],
    ["https://api.octo.ghe.com", "octo.ghe.com"],
    ["https://ghe.octo.test/api/v3", "ghe.octo.test"],
  ])("is asked of gh for the server that it goes to, when the environment has none: %j", async (api, host) => {
    const asked: string[] = [];
    const env = gh(`[ "$*" = "auth token --hostname ${host}" ] && echo gho_fromTheKeyring`);
    const answer = await gpuGate(["recover", "7"], {
      env: { GITHUB_REPOSITORY: "octo/engine", GITHUB_API_URL: api, ...env },
      fetch: async (input, init) => {
        asked.push(new URL(input).origin, new Headers(init?.headers).get("authorization") ?? "");
        return new Response("{}", { status: 404 });
      },
    });
    expect(answer.err).not.toContain("gh auth login");
    const origin = new URL(api || "https://api.github.com").origin;
    expect(asked.slice(0, 2)).toEqual([origin, "Bearer gho_fromTheKeyring"]);
  });

  it.each([
    ["gh is signed out", "exit 1"],
    ["gh prints something else", "echo please log in"],
  ])("without one nothing is asked: %s", async (_what, script) => {
    const stub = github();
    const answer = await call(stub, ["recover", "7"], gh(script));
    expect(answer.code).toBe(1);
    expect(answer.err).toContain("gh auth login");
    expect(stub.seen).toEqual([]);
  });
});
