/** What accepted callers get: what each route asks GitHub, what it hands to the gate, and what it says when it cannot. */
import { describe, expect, it } from "vitest";
import type { RequestView } from "../../durable-objects/gate/view.ts";
import { parseRepositoryConfig } from "../../shared/config/load.ts";
import { classify } from "../../shared/policy/classify.ts";
import { plainFile } from "../../shared/policy/changes.ts";
import { classificationDocument } from "../../shared/policy/document.ts";
import { createApp } from "../../worker/app.ts";
import { json, shaOf, type Handler } from "../github/stub.ts";
import {
  claims,
  CONFIG,
  HEAD,
  KEY,
  MAIN,
  openBench,
  pullOf,
  READ_ONLY,
  runOf,
  sign,
  signingKey,
  VALIDATION,
  type Json,
} from "./harness.ts";

const REPO = "/repos/octo/engine";
const MERGED = shaOf("d");
const commit =
  (sha: string): Handler =>
  () =>
    json({ sha, tree: { sha: shaOf("e") }, parents: [] });
const gone: Handler = () => json({ message: "Not Found" }, { status: 404 });
const down: Handler = () => json({ message: "sorry" }, { status: 502 });

const recover = (): string => sign(claims());
const validationClaims = (more: Json = {}): Json => {
  const workflow = `octo/engine/${VALIDATION}@refs/heads/main`;
  return claims({ job_workflow_ref: workflow, workflow_ref: workflow, ...more });
};
const validate = (): string => sign(validationClaims());
const validationRun = runOf({ path: VALIDATION });

describe("POST /v1/recover", () => {
  it("asks the gate for the pull request's head, in the name of who dispatched the run", async () => {
    const bench = openBench();
    const answer = await bench.call("/v1/recover", recover(), { pr_number: 7 });
    expect(answer.status).toBe(202);
    expect(await answer.json()).toEqual({
      request: "r1",
      state: "opened",
      check: "CI GPU gate",
      head_sha: HEAD,
      app_id: "1234",
      progress: "/v1/requests/r1",
    });
    expect(bench.opened).toEqual([
      {
        repository: { id: "101", owner: "octo", name: "engine" },
        runId: "7001",
        actor: { id: "501", login: "mira" },
        ask: { kind: "recovery", prNumber: 7, headSha: HEAD },
      },
    ]);
  });

  it.each([
    [undefined, {}],
    [{ kind: "noted" }, { keep: "noted" }],
    [
      { kind: "refused", why: "Too late." },
      { keep: "refused", keep_why: "Too late." },
    ],
  ] as const)("says of a joined request what became of the word to keep its pod: %j", async (keep, said) => {
    const joined = { kind: "joined", requestId: "r1", ...(keep === undefined ? {} : { keep }) } as const;
    const bench = openBench({ opened: () => joined });
    const answer = await bench.call("/v1/recover", recover(), { pr_number: 7, keep_minutes: 30 });
    const { keep: word, keep_why: why, ...rest } = await answer.json<Json>();
    expect([answer.status, rest["state"], rest["request"]]).toEqual([202, "joined", "r1"]);
    expect({ keep: word, keep_why: why }).toEqual({ keep: undefined, keep_why: undefined, ...said });
    expect(bench.opened).toMatchObject([{ keepMinutes: 30 }]);
  });

  it.each([
    ["no body", "", 422, "pr_number"],
    ["no JSON", "pr_number=7", 400, "not JSON"],
    ["zero", { pr_number: 0 }, 422, "pr_number"],
    ["text", { pr_number: "7" }, 422, "pr_number"],
    ["a fraction", { pr_number: 7.5 }, 422, "pr_number"],
    ["a workflow ref", { pr_number: 7, ref: "refs/heads/evil" }, 422, '"ref" is not a key here'],
    ["a revision", { pr_number: 7, revision: HEAD }, 422, '"revision" is not a key here'],
    ["five kilobytes", { pr_number: 7, pad: "x".repeat(5000) }, 413, "4096 bytes"],
  ])("refuses %s with a sentence, and opens nothing", async (_what, body, status, words) => {
    const bench = openBench();
    const answer = await bench.call("/v1/recover", recover(), body);
    const said = await answer.json<Json>();
    expect(answer.status).toBe(status);
    expect(said["message"]).toContain(words);
    expect(bench.opened).toEqual([]);
  });

  it("says which role is missing: who asks is known by then", async () => {
    const bench = openBench({ roles: { mira: { id: 501, role: "write" } } });
    const answer = await bench.call("/v1/recover", recover(), { pr_number: 7 });
    expect(answer.status).toBe(403);
    expect(await answer.json()).toEqual({
      error: "not-permitted",
      message: "mira needs the role admin or maintain here and has write.",
    });
    expect(bench.opened).toEqual([]);
    expect(bench.log).toMatchObject([{ event: "workflow-api.not-permitted", actor: "501", role: "write" }]);
  });

  it("takes the role of the account, not of the login", async () => {
    const bench = openBench({ roles: { mira: { id: 9999, role: "admin" } } });
    expect((await bench.call("/v1/recover", recover(), { pr_number: 7 })).status).toBe(403);
    expect(bench.opened).toEqual([]);
  });

  it.each<[string, Handler, number]>([
    ["not there", gone, 404],
    ["closed", () => json(pullOf({ state: "closed" })), 409],
    ["unreadable now", down, 503],
  ])("a pull request that is %s opens nothing", async (_what, handler, status) => {
    const bench = openBench({ routes: { [`GET ${REPO}/pulls/7`]: handler } });
    expect((await bench.call("/v1/recover", recover(), { pr_number: 7 })).status).toBe(status);
    expect(bench.opened).toEqual([]);
  });

  it.each([
    `GET ${REPO}`,
    `GET ${REPO}/branches/main`,
    `GET ${REPO}/actions/runs/7001`,
    `GET ${REPO}/collaborators/mira/permission`,
  ])("a GitHub that does not answer %s is 'come again', never 'yes'", async (route) => {
    const bench = openBench({ routes: { [route]: down } });
    const answer = await bench.call("/v1/recover", recover(), { pr_number: 7 });
    expect(answer.status).toBe(503);
    expect(answer.headers.get("retry-after")).toBe("30");
    expect(bench.opened).toEqual([]);
  });

  it("names the configuration when that is what is wrong", async () => {
    const bench = openBench({ config: "version: 1\nwat: 1\n" });
    const answer = await bench.call("/v1/recover", recover(), { pr_number: 7 });
    expect(answer.status).toBe(422);
    expect(await answer.json()).toMatchObject({ error: "configuration" });
  });

  it("an issuer whose keys cannot be read is 503, and the log says so", async () => {
    const bench = openBench({ keys: () => new Response("", { status: 500 }) });
    const answer = await bench.call("/v1/recover", recover(), { pr_number: 7 });
    expect(answer.status).toBe(503);
    expect(bench.log).toEqual([{ event: "workflow-api.keys-unavailable", why: "the issuer answered 500" }]);
  });

  it("a deployment without an address of its own accepts no token", async () => {
    const bench = openBench({ env: { PUBLIC_URL: "" } });
    expect((await bench.call("/v1/recover", sign(claims({ aud: "" })), { pr_number: 7 })).status).toBe(503);
  });

  it("a gate that does not answer is 503, without its words", async () => {
    const bench = openBench({
      opened: () => {
        throw new Error("object reset, secret inside");
      },
    });
    const answer = await bench.call("/v1/recover", recover(), { pr_number: 7 });
    expect(answer.status).toBe(503);
    expect(await answer.text()).not.toContain("secret");
  });
});

describe("POST /v1/validate", () => {
  const routes = {
    [`GET ${REPO}/git/commits/${MERGED}`]: commit(MERGED),
    [`GET ${REPO}/git/commits/${HEAD}`]: commit(HEAD),
  };

  it("asks for one resolved commit, which also gets the check", async () => {
    const bench = openBench({ routes, run: validationRun });
    const answer = await bench.call("/v1/validate", validate(), { revision: MERGED });
    expect(answer.status).toBe(202);
    expect(bench.opened.map((what) => what.ask)).toEqual([{ kind: "validation", revision: MERGED, headSha: MERGED }]);
  });

  it("puts the check where it is told", async () => {
    const bench = openBench({ routes, run: validationRun });
    await bench.call("/v1/validate", validate(), { revision: MERGED, check_head: HEAD });
    expect(bench.opened.map((what) => what.ask)).toEqual([{ kind: "validation", revision: MERGED, headSha: HEAD }]);
  });

  it.each([
    ["a branch", { revision: "main" }, "revision"],
    ["a short commit", { revision: MERGED.slice(0, 12) }, "revision"],
    ["capitals", { revision: MERGED.toUpperCase() }, "revision"],
    ["a pull request too", { revision: MERGED, pr_number: 7 }, '"pr_number" is not a key here'],
    ["a check target that moves", { revision: MERGED, check_head: "HEAD" }, "check_head"],
    ["a commit nobody has", { revision: shaOf("1") }, "is not a commit of this repository"],
    ["a check target nobody has", { revision: MERGED, check_head: shaOf("1") }, "is not a commit of this repository"],
  ])("refuses %s", async (_what, body, words) => {
    const unknown = { [`GET ${REPO}/git/commits/${shaOf("1")}`]: gone };
    const bench = openBench({ routes: { ...routes, ...unknown }, run: validationRun });
    const answer = await bench.call("/v1/validate", validate(), body);
    expect(answer.status).toBe(422);
    expect((await answer.json<Json>())["message"]).toContain(words);
    expect(bench.opened).toEqual([]);
  });

  it("does not take the recovery workflow's token", async () => {
    const bench = openBench({ routes });
    expect((await bench.call("/v1/validate", recover(), { revision: MERGED })).status).toBe(403);
    expect(bench.opened).toEqual([]);
  });

  it("says when the check speaks of another revision already", async () => {
    const bench = openBench({ routes, run: validationRun, opened: () => ({ kind: "busy", requestId: "r4" }) });
    const answer = await bench.call("/v1/validate", validate(), { revision: MERGED });
    expect(answer.status).toBe(409);
    expect((await answer.json<Json>())["message"]).toContain("r4");
  });
});

const VIEW: RequestView = {
  id: "r1",
  prNumber: 7,
  headSha: HEAD,
  title: "A change",
  generation: 2,
  state: "executing",
  step: null,
  headline: "GPU tests are running",
  verdict: null,
  reason: null,
  detail: null,
  conclusion: null,
  published: false,
  openedAt: 1,
  concludedAt: null,
  gpu: "NVIDIA L4",
  pricePerHour: 0.4,
  paidMs: 0,
  costMicros: 0,
  pods: 1,
};

describe("GET /v1/requests/:id", () => {
  it.each([
    ["recovery", recover],
    ["validation", validate],
  ])("tells the %s run that asked what became of it", async (_what, token) => {
    const bench = openBench({ view: VIEW });
    const answer = await bench.call("/v1/requests/r1", token());
    expect(answer.status).toBe(200);
    expect(await answer.json()).toMatchObject({
      request: "r1",
      state: "executing",
      headline: "GPU tests are running",
      verdict: null,
    });
  });

  it.each([
    ["another run", "/v1/requests/r1", { run_id: "7002" }, 404],
    ["another request", "/v1/requests/r2", {}, 404],
    ["no request at all", "/v1/requests/%2e%2e", {}, 404],
    ["a re-run", "/v1/requests/r1", { run_attempt: "2" }, 403],
    ["a token that only reads lanes", "/v1/requests/r1", { aud: READ_ONLY }, 401],
  ])("tells %s nothing", async (_what, path, change, status) => {
    const bench = openBench({ view: VIEW });
    const answer = await bench.call(path, sign(claims(change)));
    expect(answer.status).toBe(status);
    expect(await answer.text()).not.toContain("executing");
  });
});

const CI = ".github/workflows/ci.yml";
const readClaims = (more: Json = {}): Json => {
  const workflow = `octo/engine/${CI}@refs/pull/7/merge`;
  const event = { event_name: "pull_request", ref: "refs/pull/7/merge", sha: shaOf("9") };
  return claims({ aud: READ_ONLY, job_workflow_ref: workflow, workflow_ref: workflow, ...event, ...more });
};
const reading = (more: Json = {}): string => sign(readClaims(more));
const ciRun = (more: Json = {}): Json =>
  runOf({ event: "pull_request", path: CI, head_sha: HEAD, head_branch: "topic", ...more });
const files =
  (...names: string[]): Handler =>
  () =>
    json(
      names.map((filename) => ({
        filename,
        status: "modified",
        sha: shaOf("b"),
        changes: 3,
        patch: "@@ -1 +1 @@\n-a\n+b",
      })),
    );

describe("POST /v1/classify", () => {
  it("answers what gpu-gate classify prints for the same files, with the outputs beside it", async () => {
    const bench = openBench({ run: ciRun(), routes: { [`GET ${REPO}/pulls/7/files`]: files("docs/guide.md") } });
    const answer = await bench.call("/v1/classify", reading(), {});
    const config = parseRepositoryConfig(CONFIG);
    if (!config.ok) throw new Error("the test's configuration must be valid");
    const change = { event: "pull_request", files: [plainFile("docs/guide.md")], problem: null };
    expect(answer.status).toBe(200);
    expect(await answer.json()).toEqual({
      ...(JSON.parse(JSON.stringify(classificationDocument(config.value, classify(config.value, change)))) as Json),
      outputs: {
        classification: "docs-only",
        run_gpu: "false",
        run_desk: "false",
        reason: "documentation: docs/guide.md",
      },
      run: "7001",
      head_sha: HEAD,
    });
  });

  it("a list that is not complete asks for everything", async () => {
    const routes = {
      [`GET ${REPO}/pulls/7`]: () => json(pullOf({ changed_files: 2 })),
      [`GET ${REPO}/pulls/7/files`]: files("docs/guide.md"),
    };
    const bench = openBench({ run: ciRun(), routes });
    const answer = await (await bench.call("/v1/classify", reading(), {})).json<Json>();
    expect(answer["outputs"]).toMatchObject({ classification: "code", run_gpu: "true", run_desk: "true" });
  });

  it.each([
    ["a push", "push", { run_gpu: "false", run_desk: "true", classification: "code" }],
    ["a merge group", "merge_group", { run_gpu: "true", run_desk: "true", classification: "code" }],
    ["a schedule", "schedule", { run_gpu: "true", run_desk: "true" }],
  ])("%s runs in full", async (_what, event, outputs) => {
    const bench = openBench({ run: ciRun({ event, head_branch: "main" }) });
    const answer = await bench.call("/v1/classify", reading({ event_name: event, ref: "refs/heads/main" }), {});
    expect((await answer.json<Json>())["outputs"]).toMatchObject(outputs);
  });

  it.each<[string, Readonly<Record<string, Handler>>, number]>([
    ["the files cannot be read", { [`GET ${REPO}/pulls/7/files`]: down }, 503],
    ["the pull request cannot be read", { [`GET ${REPO}/pulls/7`]: down }, 503],
    [
      "the head moved before",
      {
        [`GET ${REPO}/pulls/7`]: () =>
          json(pullOf({ head: { sha: MAIN, ref: "t", repo: { id: 101, full_name: "octo/engine" } } })),
      },
      409,
    ],
    [
      "the head moved meanwhile",
      {
        [`GET ${REPO}/pulls/7/files`]: files("docs/guide.md"),
        [`GET ${REPO}/pulls/7`]: (_seen, nth) =>
          json(
            nth === 1
              ? pullOf()
              : pullOf({ head: { sha: MAIN, ref: "t", repo: { id: 101, full_name: "octo/engine" } } }),
          ),
      },
      409,
    ],
  ])("when %s there is no answer that turns a lane off", async (_what, routes, status) => {
    const bench = openBench({ run: ciRun(), routes });
    const answer = await bench.call("/v1/classify", reading(), {});
    expect(answer.status).toBe(status);
    expect(await answer.text()).not.toContain("run_gpu");
  });

  it("a re-run of CI may read its lanes: nothing is spent by reading", async () => {
    const bench = openBench({
      run: ciRun({ run_attempt: 3 }),
      routes: { [`GET ${REPO}/pulls/7/files`]: files("src/a.rs") },
    });
    expect((await bench.call("/v1/classify", reading({ run_attempt: "3" }), {})).status).toBe(200);
  });

  it.each<[string, Json, Json, 401 | 403, Json]>([
    ["the audience that opens requests", { aud: "https://gate.test" }, {}, 401, { reason: "audience" }],
    ["a fork's run", {}, { head_repository: { id: 102 } }, 403, { reason: "fork", headRepositoryId: "102" }],
    ["a run whose fork is gone", {}, { head_repository: null }, 403, { reason: "fork" }],
    ["another repository's run", {}, { repository: { id: 102 } }, 403, { reason: "run-differs", what: "repository" }],
    ["another attempt", {}, { run_attempt: 2 }, 403, { reason: "run-differs", what: "attempt" }],
    ["a run that is over", {}, { status: "completed" }, 403, { reason: "run-finished" }],
    ["pull_request_target", { event_name: "pull_request_target" }, {}, 403, { reason: "event" }],
    ["workflow_run", { event_name: "workflow_run" }, {}, 403, { reason: "event" }],
    ["a self-hosted machine", { runner_environment: "self-hosted" }, {}, 403, { reason: "runner-environment" }],
    ["an old token", { iat: 1, nbf: 1 }, {}, 401, { reason: "too-old" }],
    ["another name", { repository: "octo/other" }, {}, 403, { reason: "repository" }],
  ])("refuses %s, vaguely outside and precisely in the log", async (_what, change, run, status, reason) => {
    const bench = openBench({ run: ciRun(run), routes: { [`GET ${REPO}/pulls/7/files`]: files("docs/guide.md") } });
    const answer = await bench.call("/v1/classify", reading(change), {});
    expect([answer.status, await answer.json()]).toEqual([
      status,
      { error: "token", message: "This token is not accepted here." },
    ]);
    expect(bench.log).toMatchObject([{ event: "workflow-api.refused", ...reason }]);
  });

  it("a reading token opens nothing, whatever else is right about it", async () => {
    const bench = openBench();
    expect((await bench.call("/v1/recover", sign(claims({ aud: READ_ONLY })), { pr_number: 7 })).status).toBe(401);
    expect(bench.opened).toEqual([]);
  });
});

describe("POST /v1/probe", () => {
  const on: Handler = () => json({ name: "DESK_ON", value: "true" });
  const runners =
    (...list: Json[]): Handler =>
    () =>
      json({ total_count: list.length, runners: list });
  const machine = (more: Json = {}): Json => ({
    id: 31,
    name: "desk-1",
    status: "online",
    busy: false,
    labels: [{ name: "self-hosted" }, { name: "desk" }],
    ...more,
  });
  const SWITCH = `GET ${REPO}/actions/variables/DESK_ON`;
  const RUNNERS = `GET ${REPO}/actions/runners`;
  const probe = async (routes: Readonly<Record<string, Handler>>, rented: readonly string[] = []) => {
    const bench = openBench({ run: ciRun(), routes, rented });
    const answer = await bench.call("/v1/probe", reading(), { lane: "desk" });
    return { bench, status: answer.status, said: await answer.json<Json>() };
  };

  it("admits a lane that is on and has an online machine with every label", async () => {
    const { status, said } = await probe({ [SWITCH]: on, [RUNNERS]: runners(machine()) });
    expect(status).toBe(200);
    expect(said).toMatchObject({
      lane: "desk",
      available: true,
      fail: false,
      outputs: { enabled: "true", registered: "true", available: "true" },
    });
  });

  it("a lane that is off is a clean skip and asks for no runner", async () => {
    const { bench, said } = await probe({ [SWITCH]: gone });
    expect(said).toMatchObject({ enabled: false, available: false, fail: false, code: "lane-disabled" });
    expect(bench.asked.filter((call) => call.includes("/runners"))).toEqual([]);
  });

  it.each<[string, Handler, Handler, string]>([
    ["nothing there", on, runners(), "lane-no-match"],
    ["only part of the labels", on, runners(machine({ labels: [{ name: "desk" }] })), "lane-no-match"],
    ["offline", on, runners(machine({ status: "offline" })), "lane-offline"],
    ["runners that cannot be read", on, down, "lane-probe-failed"],
    ["a switch that cannot be read", down, runners(machine()), "lane-probe-failed"],
  ])("fails loudly with its runbook: %s", async (_what, variable, list, code) => {
    const { said } = await probe({ [SWITCH]: variable, [RUNNERS]: list });
    expect(said).toMatchObject({ available: false, fail: true, code, runbook: "https://runbook.test/desk" });
    expect(said["message"]).toContain("Seen:");
  });

  it("a rented machine is nobody's own capacity", async () => {
    const { said } = await probe({ [SWITCH]: on, [RUNNERS]: runners(machine()) }, ["31"]);
    expect(said).toMatchObject({ available: false, fail: true, code: "lane-no-match" });
  });

  it.each(["gpu", "nobody", "__proto__", "constructor"])("knows no own lane called %s", async (lane) => {
    const bench = openBench({ run: ciRun() });
    const answer = await bench.call("/v1/probe", reading(), { lane });
    expect(answer.status).toBe(422);
  });
});

describe("the Worker's app", () => {
  it("serves the workflow API, and refuses a call without a token there too", async () => {
    const app = createApp(() => {
      throw new Error("no port of the other routes is needed");
    });
    const answer = await app.request("/v1/recover", { method: "POST" }, {});
    // No settings in this environment: nothing can be accepted, and nothing is guessed.
    expect(answer.status).toBe(503);
    expect(answer.headers.get("cache-control")).toBe("no-store");
  });
});

describe("keys", () => {
  it("are checked before anything in the token is believed", async () => {
    const bench = openBench({ keys: () => json({ keys: [] }) });
    const answer = await bench.call("/v1/classify", sign(readClaims(), { key: signingKey(KEY.kid) }), {});
    expect(answer.status).toBe(401);
    expect(bench.asked).toEqual([]);
  });
});
