import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { at, listOf, openBench } from "./harness.ts";
import type { Bench, Json, Reply } from "./harness.ts";

let bench: Bench;
beforeEach(async () => {
  bench = await openBench();
  bench.github.setWorkflowScript(execute, {
    name: "Execute",
    on: ["workflow_dispatch"],
    plan: ({ inputs }) => ({
      jobs: [
        {
          name: "GPU tests",
          runsOn: ["self-hosted", inputs["label"] ?? "none"],
          steps: [{ name: "Check the machine" }, { name: "Run the tests" }],
          annotations: [{ title: "tests", message: "7" }],
        },
      ],
    }),
  });
});
afterEach(() => bench.close());

const execute = ".github/workflows/execute.yml";
const base = "/repos/octo/lab/actions";

function mint(name: string, labels: readonly string[], where = base, groupId = 1): Promise<Reply> {
  return bench.call("POST", `${where}/runners/generate-jitconfig`, { name, runner_group_id: groupId, labels });
}

async function minted(name: string, labels: readonly string[]): Promise<{ id: number; blob: string }> {
  const reply = await mint(name, labels);
  expect(reply.status).toBe(201);
  return { id: Number(at(reply.body, "runner", "id")), blob: String(at(reply.body, "encoded_jit_config")) };
}

/** The runner's side of the protocol, by hand. */
function runner(path: string, body?: Json, token?: string, method = "POST"): Promise<Reply> {
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return bench.raw(method, `/_runner/${path}`, {
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

async function connect(blob: string): Promise<string> {
  const reply = await runner("session", { jitConfig: blob });
  expect(reply.status).toBe(200);
  return String(at(reply.body, "sessionToken"));
}

async function take(token: string): Promise<Json> {
  for (let polls = 0; polls < 20; polls += 1) {
    const reply = await runner("job", undefined, token, "GET");
    if (reply.status === 200) return reply.body as Json;
  }
  throw new Error("no job came");
}

async function show(id: number): Promise<Reply> {
  return bench.call("GET", `${base}/runners/${id}`);
}

const ofJob = (name: string) => (payload: Json) => at(payload, "workflow_job", "name") === name;

describe("a JIT config", () => {
  it("registers an offline runner at once, with exactly the labels asked for", async () => {
    const reply = await mint("r1", ["self-hosted", "Fresh-1"]);
    expect(reply.status).toBe(201);
    expect(at(reply.body, "runner")).toMatchObject({
      name: "r1",
      os: "unknown",
      status: "offline",
      busy: false,
      ephemeral: true,
      version: null,
    });
    expect(listOf(at(reply.body, "runner"), "labels").map((label) => label["name"])).toEqual([
      "self-hosted",
      "Fresh-1",
    ]);
    const list = await bench.call("GET", `${base}/runners?name=r1`);
    expect(listOf(list.body, "runners").map((one) => one["status"])).toEqual(["offline"]);
  });

  it("is base64 of a JSON map from file name to base64 content", async () => {
    const { blob } = await minted("r1", ["x"]);
    const files = JSON.parse(Buffer.from(blob, "base64").toString()) as Record<string, string>;
    expect(Object.keys(files)).toEqual([".runner", ".credentials", ".credentials_rsaparams"]);
    const settings: unknown = JSON.parse(Buffer.from(files[".runner"] ?? "", "base64").toString());
    expect([at(settings, "serverUrl"), at(settings, "Ephemeral")]).toEqual([bench.github.url, true]);
  });

  it("is refused with 409 for a name that exists", async () => {
    await minted("twin", ["x"]);
    const again = await mint("twin", ["y"]);
    expect([again.status, String(at(again.body, "message"))]).toEqual([409, expect.stringMatching(/already exists/i)]);
  });

  it("is refused with 422 without labels or with more than 100, and with 404 for an unknown group", async () => {
    const many = Array.from({ length: 101 }, (_, index) => `l${index}`);
    const statuses = [await mint("a", []), await mint("b", many), await mint("c", ["x"], base, 77)].map(
      (reply) => reply.status,
    );
    expect(statuses).toEqual([422, 422, 404]);
  });

  it("works once: a second connect with it is refused", async () => {
    const { blob } = await minted("r1", ["x"]);
    await connect(blob);
    expect((await runner("session", { jitConfig: blob })).status).toBe(409);
    expect(bench.github.books.runners.map((one) => one.what)).toEqual(["registered", "connected", "refused"]);
  });

  it("is dead once its runner is deleted, and so is anything that is not a config", async () => {
    const { id, blob } = await minted("r1", ["x"]);
    expect((await bench.call("DELETE", `${base}/runners/${id}`)).status).toBe(204);
    expect([
      (await runner("session", { jitConfig: blob })).status,
      (await runner("session", { jitConfig: "bm90aGluZw==" })).status,
    ]).toEqual([401, 401]);
    expect([(await show(id)).status, (await bench.call("DELETE", `${base}/runners/${id}`)).status]).toEqual([404, 404]);
  });
});

describe("a job for a self-hosted runner", () => {
  it("stays queued until a runner with all its labels connects, in whatever case they are written", async () => {
    bench.repo.dispatchWorkflow(execute, "ada", { label: "Fresh-7" });
    await bench.hook("workflow_job", "queued");
    const half = await minted("half", ["fresh-7"]);
    await connect(half.blob);
    const right = await minted("right", ["SELF-HOSTED", "FRESH-7"]);
    expect(bench.github.books.jobs.map((job) => job.what)).toEqual(["queued"]);
    const job = await take(await connect(right.blob));
    const started = await bench.hook("workflow_job", "in_progress");
    expect(job["jobId"]).toBe(at(started.payload, "workflow_job", "id"));
    expect([
      at(started.payload, "workflow_job", "runner_id"),
      at(started.payload, "workflow_job", "runner_name"),
    ]).toEqual([right.id, "right"]);
    expect(at(started.payload, "workflow_job", "labels")).toEqual(["self-hosted", "Fresh-7"]);
    expect([at((await show(right.id)).body, "busy"), at((await show(half.id)).body, "busy")]).toEqual([true, false]);
  });

  it("carries what the real runner puts into GITHUB variables", async () => {
    const runId = bench.repo.dispatchWorkflow(execute, "ada", { label: "l" });
    const { blob } = await minted("r", ["self-hosted", "l"]);
    const job = await take(await connect(blob));
    expect(job).toMatchObject({
      runId,
      facts: {
        repository: "octo/lab",
        variables: {
          GITHUB_RUN_ID: String(runId),
          GITHUB_RUN_ATTEMPT: "1",
          GITHUB_REPOSITORY_ID: String(bench.repo.id),
          GITHUB_WORKFLOW_REF: `octo/lab/${execute}@refs/heads/main`,
          GITHUB_SHA: bench.repo.sha(),
        },
      },
    });
    expect(listOf(job, "steps").map((step) => [step["number"], step["name"]])).toEqual([
      [2, "Check the machine"],
      [3, "Run the tests"],
    ]);
    // The job's own token reads its repository, and nothing more.
    const headers = { authorization: `Bearer ${String(at(job, "facts", "token"))}` };
    const read = await bench.raw("GET", `${base}/runs/${runId}`, { headers });
    const write = await bench.raw("POST", `${base}/runs/${runId}/cancel`, { headers });
    expect([read.status, write.status]).toEqual([200, 403]);
  });

  it("goes to any runner whose labels match, whichever run it was minted for", async () => {
    const { blob } = await minted("mine", ["self-hosted", "shared"]);
    const stranger = bench.repo.dispatchWorkflow(execute, "mallory", { label: "shared" });
    const job = await take(await connect(blob));
    expect(job["runId"]).toBe(stranger);
  });

  it("reports its steps and its annotations, and its runner is gone afterwards", async () => {
    bench.repo.dispatchWorkflow(execute, "ada", { label: "l" });
    const { id, blob } = await minted("r", ["self-hosted", "l"]);
    const token = await connect(blob);
    const { jobId } = await take(token);
    const busy = await bench.call("DELETE", `${base}/runners/${id}`);
    await runner(
      "steps",
      { jobId, steps: [{ number: 2, name: "Check the machine", status: "in_progress", conclusion: null }] },
      token,
    );
    const during = await bench.call("GET", `${base}/jobs/${String(jobId)}`);
    await runner(
      "steps",
      { jobId, steps: [{ name: "Set up runner", status: "completed", conclusion: "success" }] },
      token,
    );
    const steps = [2, 3].map((number) => ({ number, name: "", status: "completed", conclusion: "success" }));
    await runner("steps", { jobId, steps, annotations: [{ title: "t", message: "live" }] }, token);
    await runner("complete", { jobId, conclusion: "success" }, token);
    const done = await bench.hook("workflow_job", "completed");
    expect([busy.status, String(at(busy.body, "message"))]).toEqual([
      422,
      expect.stringMatching(/still running a job/),
    ]);
    expect(listOf(during.body, "steps").map((step) => step["status"])).toEqual([
      "queued",
      "in_progress",
      "queued",
      "queued",
    ]);
    expect(
      listOf(done.payload["workflow_job"], "steps").map((step) => [step["number"], step["name"], step["conclusion"]]),
    ).toEqual([
      [1, "Set up job", "success"],
      [2, "Set up runner", "success"],
      [3, "Check the machine", "success"],
      [4, "Run the tests", "success"],
      [5, "Complete job", "success"],
    ]);
    const notes = await bench.call("GET", `${String(at(done.payload, "workflow_job", "check_run_url"))}/annotations`);
    expect(listOf(notes.body).map((note) => note["message"])).toEqual(["live", "7"]);
    expect((await show(id)).status).toBe(404);
    expect((await runner("job", undefined, token, "GET")).status).toBe(410);
  });

  it("is told to stop when its run is cancelled, and ends when the runner says so", async () => {
    const runId = bench.repo.dispatchWorkflow(execute, "ada", { label: "l" });
    const { blob } = await minted("r", ["self-hosted", "l"]);
    const token = await connect(blob);
    const { jobId } = await take(token);
    bench.repo.cancelRun(runId);
    let told = false;
    for (let asks = 0; asks < 500 && !told; asks += 1)
      told = at((await runner("steps", { jobId }, token)).body, "cancel") === true;
    expect(told).toBe(true);
    expect(at((await bench.call("GET", `${base}/runs/${runId}`)).body, "status")).toBe("in_progress");
    await runner("complete", { jobId, conclusion: "cancelled" }, token);
    const done = await bench.hook("workflow_run", "completed");
    expect(at(done.payload, "workflow_run", "conclusion")).toBe("cancelled");
  });

  it("is ended by the server when the runner does not stop", async () => {
    const own = await openBench({ timing: { cancelHardMs: 60, runnerLostMs: 60_000 } });
    own.github.setWorkflowScript(execute, {
      name: "E",
      on: ["workflow_dispatch"],
      plan: () => ({ jobs: [{ name: "gpu", runsOn: ["l"], steps: [{ name: "s" }] }] }),
    });
    const runId = own.repo.dispatchWorkflow(execute, "ada");
    const reply = await own.call("POST", `${base}/runners/generate-jitconfig`, {
      name: "r",
      runner_group_id: 1,
      labels: ["l"],
    });
    await own.raw("POST", "/_runner/session", {
      body: JSON.stringify({ jitConfig: at(reply.body, "encoded_jit_config") }),
    });
    await own.hook("workflow_job", "in_progress");
    own.repo.cancelRun(runId);
    const done = await own.hook("workflow_run", "completed");
    await own.close();
    expect(at(done.payload, "workflow_run", "conclusion")).toBe("cancelled");
  });

  it("fails, and says why, when its runner is not heard of any more", async () => {
    const own = await openBench({ timing: { runnerLostMs: 50 } });
    own.github.setWorkflowScript(execute, {
      name: "E",
      on: ["workflow_dispatch"],
      plan: () => ({ jobs: [{ name: "gpu", runsOn: ["l"], steps: [{ name: "s" }] }] }),
    });
    own.repo.dispatchWorkflow(execute, "ada");
    const reply = await own.call("POST", `${base}/runners/generate-jitconfig`, {
      name: "r",
      runner_group_id: 1,
      labels: ["l"],
    });
    await own.raw("POST", "/_runner/session", {
      body: JSON.stringify({ jitConfig: at(reply.body, "encoded_jit_config") }),
    });
    const done = await own.hook("workflow_job", "completed");
    const notes = await own.call("GET", `${String(at(done.payload, "workflow_job", "check_run_url"))}/annotations`);
    const books = own.github.books.runners.map((one) => one.what);
    await own.close();
    expect(at(done.payload, "workflow_job", "conclusion")).toBe("failure");
    expect(String(listOf(notes.body)[0]?.["message"])).toMatch(/lost communication/);
    expect(books).toContain("lost");
  });
});

describe("standing runners", () => {
  it("show as online or offline with their labels, and take matching jobs while online", async () => {
    const standing = bench.repo.registerRunner({ name: "box", labels: ["self-hosted", "box"], online: false });
    const runId = bench.repo.dispatchWorkflow(execute, "ada", { label: "box" });
    await bench.hook("workflow_job", "queued");
    expect(at((await show(standing.id)).body, "status")).toBe("offline");
    standing.setOnline(true);
    const done = await bench.hook("workflow_job", "completed");
    expect([at(done.payload, "workflow_job", "run_id"), at(done.payload, "workflow_job", "runner_name")]).toEqual([
      runId,
      "box",
    ]);
    expect(at((await show(standing.id)).body, "status")).toBe("online");
  });
});

describe("an organisation's runners", () => {
  const org = "/orgs/octo/actions";

  it("are listed at the organisation only, and need its own permission", async () => {
    const reply = await mint("org-1", ["self-hosted", "o"], org);
    expect(reply.status).toBe(201);
    const [atOrg, atRepo] = [await bench.call("GET", `${org}/runners`), await bench.call("GET", `${base}/runners`)];
    expect([at(atOrg.body, "total_count"), at(atRepo.body, "total_count")]).toEqual([1, 0]);
    bench.github.installation("octo").setPermissions({ metadata: "read", administration: "write" });
    const refused = await mint("org-2", ["x"], org);
    expect([refused.status, refused.headers.get("x-accepted-github-permissions")]).toEqual([
      403,
      "organization_self_hosted_runners=write",
    ]);
  });

  it("in a group restricted to a workflow run that workflow only, at its ref only", async () => {
    const group = bench.github.createRunnerGroup("octo", {
      name: "gpu",
      restrictedToWorkflows: true,
      selectedWorkflows: [`octo/lab/${execute}@refs/heads/main`],
    });
    const shown = await bench.call("GET", `${org}/runner-groups/${group}`);
    expect(shown.body).toMatchObject({
      restricted_to_workflows: true,
      selected_workflows: [`octo/lab/${execute}@refs/heads/main`],
    });
    bench.github.setWorkflowScript(".github/workflows/ci.yml", {
      name: "CI",
      on: ["pull_request"],
      plan: () => ({ jobs: [{ name: "thief", runsOn: ["self-hosted", "l"], steps: [] }] }),
    });
    bench.repo.openPullRequest({ author: "mallory", fork: true, files: { "a.rs": "a\n" } });
    await bench.hook("workflow_job", "queued", ofJob("thief"));
    const reply = await mint("g1", ["self-hosted", "l"], org, group);
    const token = await connect(String(at(reply.body, "encoded_jit_config")));
    const mine = bench.repo.dispatchWorkflow(execute, "ada", { label: "l" });
    expect((await take(token))["runId"]).toBe(mine);
  });

  it("do not serve public repositories unless their group allows it", async () => {
    const group = bench.github.createRunnerGroup("octo", { name: "private only", allowsPublicRepositories: false });
    const reply = await mint("p1", ["self-hosted", "l"], org, group);
    await connect(String(at(reply.body, "encoded_jit_config")));
    const open = await mint("p2", ["self-hosted", "l"], org, 1);
    const token = await connect(String(at(open.body, "encoded_jit_config")));
    bench.repo.dispatchWorkflow(execute, "ada", { label: "l" });
    await take(token);
    expect(bench.github.books.runners.filter((one) => one.what === "job-started").map((one) => one.name)).toEqual([
      "p2",
    ]);
  });
});
