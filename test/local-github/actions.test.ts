import { createHash } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { WorkflowPlan } from "../../local/github/index.ts";
import { at, listOf, openBench } from "./harness.ts";
import type { Bench, Json } from "./harness.ts";

let bench: Bench;
beforeEach(async () => {
  bench = await openBench();
});
afterEach(() => bench.close());

const base = "/repos/octo/lab/actions";
const execute = ".github/workflows/execute.yml";

function script(
  plan: WorkflowPlan | ((inputs: Readonly<Record<string, string>>) => WorkflowPlan),
  inputs?: readonly string[],
): void {
  bench.github.setWorkflowScript(execute, {
    name: "Execute",
    on: ["workflow_dispatch"],
    ...(inputs === undefined ? {} : { inputs }),
    runName: (context) => `execute ${context.inputs["request"] ?? ""}`,
    plan: (context) => (typeof plan === "function" ? plan(context.inputs) : plan),
  });
}

const hosted: WorkflowPlan = {
  jobs: [
    {
      name: "build",
      steps: [{ name: "Compile", durationMs: 3 }],
      artifacts: [{ name: "archives", files: { "a.txt": "a\n" } }],
    },
    {
      name: "test",
      needs: ["build"],
      steps: [{ name: "Run" }],
      annotations: [{ title: "count", message: "12 tests" }],
    },
  ],
};

function dispatch(body: Json = {}, headers: Record<string, string> = {}) {
  return bench.call("POST", `${base}/workflows/execute.yml/dispatches`, { ref: "main", ...body }, headers);
}

async function dispatched(body: Json = {}): Promise<number> {
  const reply = await dispatch(body);
  expect(reply.status).toBe(200);
  return Number(at(reply.body, "workflow_run_id"));
}

const ofRun = (id: number) => (payload: Json) => at(payload, "workflow_run", "id") === id;
const ofJob = (name: string) => (payload: Json) => at(payload, "workflow_job", "name") === name;

describe("a dispatch", () => {
  it("answers 200 with the run under 2026-03-10, and 204 without it under 2022-11-28", async () => {
    script(hosted);
    const now = await dispatch();
    const id = Number(at(now.body, "workflow_run_id"));
    expect([now.status, at(now.body, "run_url")]).toEqual([200, `${bench.github.url}${base}/runs/${id}`]);
    expect(String(at(now.body, "html_url"))).toContain(`/actions/runs/${id}`);
    const old = { "x-github-api-version": "2022-11-28" };
    expect([(await dispatch({}, old)).status, (await dispatch({ return_run_details: true }, old)).status]).toEqual([
      204, 200,
    ]);
  });

  it("runs at the head of the named branch, with its inputs in the run's name", async () => {
    script(hosted);
    bench.repo.commit({ files: { "later.txt": "x\n" } });
    const id = await dispatched({ inputs: { request: "r-1" } });
    const reply = await bench.call("GET", `${base}/runs/${id}`);
    expect(reply.body).toMatchObject({
      event: "workflow_dispatch",
      head_sha: bench.repo.sha(),
      head_branch: "main",
      display_title: "execute r-1",
      path: execute,
      run_attempt: 1,
      actor: { login: `${bench.github.appSlug}[bot]` },
    });
    expect(bench.github.books.dispatches).toMatchObject([
      { workflowPath: execute, ref: "main", inputs: { request: "r-1" }, runId: id },
    ]);
  });

  it("is refused for a SHA or a branch that is not there", async () => {
    script(hosted);
    expect([(await dispatch({ ref: bench.repo.sha() })).status, (await dispatch({ ref: "nope" })).status]).toEqual([
      422, 422,
    ]);
  });

  it("is refused for a workflow that is not on the default branch, is not active, or has no such trigger", async () => {
    script(hosted);
    bench.repo.commit({ files: { ".github/workflows/only-here.yml": "x\n" }, branch: "side" });
    const missing = await bench.call("POST", `${base}/workflows/only-here.yml/dispatches`, { ref: "side" });
    bench.repo.setWorkflowState(execute, "disabled_manually");
    const disabled = await dispatch();
    const shown = await bench.call("GET", `${base}/workflows/execute.yml`);
    bench.github.setWorkflowScript(".github/workflows/ci.yml", {
      name: "CI",
      on: ["push"],
      plan: () => ({ jobs: [] }),
    });
    const untriggered = await bench.call("POST", `${base}/workflows/ci.yml/dispatches`, { ref: "main" });
    expect([missing.status, disabled.status, at(shown.body, "state"), untriggered.status]).toEqual([
      404,
      422,
      "disabled_manually",
      422,
    ]);
  });

  it("is refused with more than 25 inputs, or with one the workflow does not declare", async () => {
    script(hosted, ["request"]);
    const many = Object.fromEntries(Array.from({ length: 26 }, (_, index) => [`i${index}`, "x"]));
    expect([(await dispatch({ inputs: many })).status, (await dispatch({ inputs: { other: "x" } })).status]).toEqual([
      422, 422,
    ]);
    expect((await dispatch({ inputs: { request: "x" } })).status).toBe(200);
  });

  it("of a file that cannot run ends as startup_failure without a job", async () => {
    script({ jobs: [], startupFailure: true });
    const id = await dispatched();
    const done = await bench.hook("workflow_run", "completed", ofRun(id));
    expect([
      at(done.payload, "workflow_run", "conclusion"),
      at((await bench.call("GET", `${base}/runs/${id}/jobs`)).body, "total_count"),
    ]).toEqual(["startup_failure", 0]);
  });
});

describe("a run", () => {
  it("moves from queued to completed, its jobs in the order of their needs", async () => {
    script(hosted);
    const id = await dispatched();
    const requested = await bench.hook("workflow_run", "requested", ofRun(id));
    const build = await bench.hook("workflow_job", "in_progress", ofJob("build"));
    const done = await bench.hook("workflow_run", "completed", ofRun(id));
    expect([
      at(requested.payload, "workflow_run", "status"),
      at(requested.payload, "workflow_run", "conclusion"),
    ]).toEqual(["queued", null]);
    expect(at(build.payload, "workflow_job", "runner_name")).toMatch(/^GitHub Actions/);
    expect([at(done.payload, "workflow_run", "status"), at(done.payload, "workflow_run", "conclusion")]).toEqual([
      "completed",
      "success",
    ]);
    const jobs = listOf((await bench.call("GET", `${base}/runs/${id}/jobs`)).body, "jobs");
    // Told by the run's own times: deliveries may overtake each other on a busy machine.
    const [first, second] = jobs;
    expect(Date.parse(String(second?.["created_at"]))).toBeGreaterThanOrEqual(
      Date.parse(String(first?.["completed_at"])),
    );
    expect(
      jobs.map((job) => [
        job["name"],
        job["conclusion"],
        listOf(job, "steps").map((step) => [step["number"], step["name"], step["conclusion"]]),
      ]),
    ).toEqual([
      [
        "build",
        "success",
        [
          [1, "Set up job", "success"],
          [2, "Compile", "success"],
          [3, "Complete job", "success"],
        ],
      ],
      [
        "test",
        "success",
        [
          [1, "Set up job", "success"],
          [2, "Run", "success"],
          [3, "Complete job", "success"],
        ],
      ],
    ]);
  });

  it("tells in_progress three times", async () => {
    script(hosted);
    const id = await dispatched();
    const told = [];
    for (let count = 0; count < 3; count += 1) told.push(await bench.hook("workflow_run", "in_progress", ofRun(id)));
    await bench.hook("workflow_run", "completed", ofRun(id));
    await bench.github.webhooks.settled();
    expect(new Set(told.map((one) => one.guid)).size).toBe(3);
    expect(told.map((one) => at(one.payload, "workflow_run", "status"))).toEqual([
      "in_progress",
      "in_progress",
      "in_progress",
    ]);
    expect(bench.hooks.filter((one) => one.event === "workflow_run" && one.action === "in_progress").length).toBe(3);
  });

  it("writes one check run per job for GitHub Actions, with the job's annotations", async () => {
    script(hosted);
    const id = await dispatched();
    await bench.hook("workflow_run", "completed", ofRun(id));
    const jobs = listOf((await bench.call("GET", `${base}/runs/${id}/jobs`)).body, "jobs");
    const url = String(jobs[1]?.["check_run_url"]);
    const check = await bench.call("GET", url);
    const notes = await bench.call("GET", `${url}/annotations`);
    expect([
      at(check.body, "name"),
      at(check.body, "conclusion"),
      at(check.body, "app", "slug"),
      at(check.body, "head_sha"),
    ]).toEqual(["test", "success", "github-actions", bench.repo.sha()]);
    expect(listOf(notes.body)).toMatchObject([{ annotation_level: "notice", title: "count", message: "12 tests" }]);
  });

  it("lets a hosted step do real work: annotate, upload, and fail by throwing", async () => {
    script({
      jobs: [
        {
          name: "build",
          steps: [
            {
              name: "Pack",
              perform: (job) => {
                job.annotate({ message: `run ${job.runId}` });
                job.upload({ name: "made", files: { "x.txt": "x\n" } });
                return Promise.resolve("success");
              },
            },
            { name: "Break", perform: () => Promise.reject(new Error("broken")) },
          ],
        },
      ],
    });
    const id = await dispatched();
    const done = await bench.hook("workflow_job", "completed", ofJob("build"));
    const steps = listOf(done.payload["workflow_job"], "steps").map((step) => [step["name"], step["conclusion"]]);
    expect(steps.slice(1, 3)).toEqual([
      ["Pack", "success"],
      ["Break", "failure"],
    ]);
    const notes = await bench.call("GET", `${String(at(done.payload, "workflow_job", "check_run_url"))}/annotations`);
    expect(listOf(notes.body).map((note) => note["message"])).toEqual([`run ${id}`]);
    const artifacts = await bench.call("GET", `${base}/runs/${id}/artifacts`);
    expect(listOf(artifacts.body, "artifacts").map((one) => one["name"])).toEqual(["made"]);
  });

  it("skips what needs a failed job, and concludes failure", async () => {
    script({
      jobs: [
        {
          name: "build",
          steps: [{ name: "Compile", conclusion: "failure" }, { name: "Pack" }, { name: "Report", always: true }],
        },
        { name: "test", needs: ["build"], steps: [] },
        { name: "tell", needs: ["build"], always: true, steps: [] },
      ],
    });
    const id = await dispatched();
    const done = await bench.hook("workflow_run", "completed", ofRun(id));
    const jobs = listOf((await bench.call("GET", `${base}/runs/${id}/jobs`)).body, "jobs");
    expect(at(done.payload, "workflow_run", "conclusion")).toBe("failure");
    expect(jobs.map((job) => [job["name"], job["conclusion"]])).toEqual([
      ["build", "failure"],
      ["test", "skipped"],
      ["tell", "success"],
    ]);
    expect(listOf(jobs[0], "steps").map((step) => step["conclusion"])).toEqual([
      "success",
      "failure",
      "skipped",
      "success",
      "success",
    ]);
  });

  it("is found in lists by event, branch, commit and time", async () => {
    script(hosted);
    // Before the run is made: midnight may pass in between.
    const today = new Date().toISOString().slice(0, 10);
    const id = await dispatched();
    const total = async (query: string): Promise<unknown> =>
      at((await bench.call("GET", `${base}/workflows/execute.yml/runs?${query}`)).body, "total_count");
    expect(await total(`event=workflow_dispatch&branch=main&created=%3E%3D${today}`)).toBe(1);
    expect([
      await total("event=push"),
      await total("branch=side"),
      await total(`created=%3C${today}`),
      await total(`head_sha=${bench.repo.sha()}`),
    ]).toEqual([0, 0, 0, 1]);
    const all = await bench.call("GET", `${base}/runs`);
    expect(listOf(all.body, "workflow_runs").map((run) => run["id"])).toEqual([id]);
  });
});

describe("artifacts", () => {
  it("have an id, a digest over the zip that is served, and an expiry", async () => {
    script(hosted);
    const id = await dispatched();
    await bench.hook("workflow_run", "completed", ofRun(id));
    const list = await bench.call("GET", `${base}/runs/${id}/artifacts?name=archives`);
    const [artifact] = listOf(list.body, "artifacts");
    expect(artifact).toMatchObject({
      name: "archives",
      expired: false,
      workflow_run: { id, repository_id: bench.repo.id, head_repository_id: bench.repo.id },
    });
    expect(Date.parse(String(artifact?.["expires_at"]))).toBeGreaterThan(Date.now());
    const moved = await bench.call("GET", `${base}/artifacts/${String(artifact?.["id"])}/zip`);
    const location = moved.headers.get("location") ?? "";
    const bytes = (await bench.raw("GET", location)).bytes;
    expect([moved.status, `sha256:${createHash("sha256").update(bytes).digest("hex")}`]).toEqual([
      302,
      artifact?.["digest"],
    ]);
    expect(Buffer.from(bytes).subarray(0, 4).toString("latin1")).toBe("PK\x03\x04");
  });

  it("are gone with 410 once expired, and their links are good for one minute", async () => {
    let now = Date.now();
    const own = await openBench({ clock: { now: () => now } });
    own.github.setWorkflowScript(execute, {
      name: "Execute",
      on: ["workflow_dispatch"],
      plan: () => ({ jobs: [{ name: "build", steps: [], artifacts: [{ name: "short", expiresInMs: 300_000 }] }] }),
    });
    own.repo.dispatchWorkflow(execute, "ada");
    await own.hook("workflow_run", "completed");
    const list = await own.call("GET", `${base}/artifacts`);
    const id = String(listOf(list.body, "artifacts")[0]?.["id"]);
    const link = (await own.call("GET", `${base}/artifacts/${id}/zip`)).headers.get("location") ?? "";
    now += 61_000;
    const late = await own.raw("GET", link);
    now += 300_000;
    const expired = await own.call("GET", `${base}/artifacts/${id}/zip`);
    const shown = await own.call("GET", `${base}/artifacts/${id}`);
    await own.close();
    expect([late.status, expired.status, at(shown.body, "expired")]).toEqual([403, 410, true]);
  });
});

describe("cancelling", () => {
  const slow: WorkflowPlan = { jobs: [{ name: "long", steps: [{ name: "Wait", durationMs: 600_000 }] }] };

  it("is accepted with 202 first; the run ends later, as cancelled; then 409", async () => {
    script(slow);
    const id = await dispatched();
    await bench.hook("workflow_job", "in_progress", ofJob("long"));
    const accepted = await bench.call("POST", `${base}/runs/${id}/cancel`);
    const job = await bench.hook("workflow_job", "completed", ofJob("long"));
    const done = await bench.hook("workflow_run", "completed", ofRun(id));
    const again = await bench.call("POST", `${base}/runs/${id}/cancel`);
    expect([accepted.status, again.status]).toEqual([202, 409]);
    const [asked, ended] = ["cancel-requested", "completed"].map((what) =>
      bench.github.books.runs.find((run) => run.what === what),
    );
    expect((ended?.at ?? 0) - (asked?.at ?? 0)).toBeGreaterThanOrEqual(25);
    expect([at(job.payload, "workflow_job", "conclusion"), at(done.payload, "workflow_run", "conclusion")]).toEqual([
      "cancelled",
      "cancelled",
    ]);
  });

  it("ends a run whose job still waits for a runner, without the job ever being in progress", async () => {
    script({ jobs: [{ name: "gpu", runsOn: ["self-hosted", "nobody"], steps: [] }] });
    const id = await dispatched();
    await bench.hook("workflow_job", "queued", ofJob("gpu"));
    bench.repo.cancelRun(id);
    const done = await bench.hook("workflow_run", "completed", ofRun(id));
    expect(at(done.payload, "workflow_run", "conclusion")).toBe("cancelled");
    expect(bench.github.books.jobs.map((job) => job.what)).toEqual(["queued", "completed"]);
  });

  it("goes on with jobs that always run", async () => {
    script({ jobs: [...slow.jobs, { name: "tell", needs: ["long"], always: true, steps: [] }] });
    const id = await dispatched();
    await bench.hook("workflow_job", "in_progress", ofJob("long"));
    await bench.call("POST", `${base}/runs/${id}/cancel`);
    const tell = await bench.hook("workflow_job", "completed", ofJob("tell"));
    const done = await bench.hook("workflow_run", "completed", ofRun(id));
    expect([at(tell.payload, "workflow_job", "conclusion"), at(done.payload, "workflow_run", "conclusion")]).toEqual([
      "success",
      "cancelled",
    ]);
  });
});

describe("running again", () => {
  it("keeps the run's id, first actor and commit, makes a new attempt with new jobs, and tells no requested", async () => {
    script(hosted);
    const id = await dispatched();
    await bench.hook("workflow_run", "completed", ofRun(id));
    bench.repo.commit({ files: { "x.txt": "x\n" } });
    expect(bench.repo.rerunWorkflow(id, "grace")).toBe(2);
    const done = await bench.hook("workflow_run", "completed", ofRun(id));
    expect(done.payload).toMatchObject({
      workflow_run: {
        id,
        run_attempt: 2,
        triggering_actor: { login: "grace" },
        actor: { login: `${bench.github.appSlug}[bot]` },
      },
    });
    expect(bench.hooks.filter((one) => one.event === "workflow_run" && one.action === "requested").length).toBe(1);
    const ids = async (path: string): Promise<unknown[]> =>
      listOf((await bench.call("GET", path)).body, "jobs").map((job) => job["id"]);
    const [first, second, all] = [
      await ids(`${base}/runs/${id}/attempts/1/jobs`),
      await ids(`${base}/runs/${id}/attempts/2/jobs`),
      await ids(`${base}/runs/${id}/jobs?filter=all`),
    ];
    expect(first.some((one) => second.includes(one))).toBe(false);
    expect(all).toEqual([...first, ...second]);
    expect(await ids(`${base}/runs/${id}/jobs`)).toEqual(second);
    const earlier = await bench.call("GET", `${base}/runs/${id}/attempts/1`);
    expect([at(earlier.body, "run_attempt"), at(earlier.body, "conclusion")]).toEqual([1, "success"]);
  });

  it("is refused while the run is under way", async () => {
    script({ jobs: [{ name: "gpu", runsOn: ["nobody"], steps: [] }] });
    const id = await dispatched();
    expect((await bench.call("POST", `${base}/runs/${id}/rerun`)).status).toBe(403);
  });
});

describe("pull_request workflows", () => {
  beforeEach(() => {
    bench.github.setWorkflowScript(".github/workflows/ci.yml", {
      name: "CI",
      on: ["pull_request"],
      plan: () => ({ jobs: ["rustfmt", "clippy", "tests"].map((name) => ({ name, steps: [{ name: "Run" }] })) }),
    });
  });

  it("run by themselves on opening and on every push, with check runs on the head commit", async () => {
    const pull = bench.repo.openPullRequest({ author: "ada", files: { "a.rs": "a\n" } });
    const first = await bench.hook("workflow_run", "completed");
    const head = bench.repo.push(pull.number, { files: { "a.rs": "b\n" } });
    const second = await bench.hook("workflow_run", "completed");
    expect([at(first.payload, "workflow_run", "head_sha"), at(second.payload, "workflow_run", "head_sha")]).toEqual([
      pull.headSha,
      head,
    ]);
    expect(listOf(second.payload["workflow_run"], "pull_requests").map((one) => one["number"])).toEqual([pull.number]);
    const checks = await bench.call("GET", `/repos/octo/lab/commits/${head}/check-runs?app_id=15368`);
    expect(
      listOf(checks.body, "check_runs")
        .map((run) => `${String(run["name"])} ${String(run["conclusion"])}`)
        .sort(),
    ).toEqual(["clippy success", "rustfmt success", "tests success"]);
  });

  it("of forks wait for approval where the repository asks for it", async () => {
    bench.repo.setForkApproval(true);
    bench.repo.openPullRequest({ author: "mallory", fork: true, files: { "a.rs": "a\n" } });
    const held = await bench.hook("workflow_run", "requested");
    expect([at(held.payload, "workflow_run", "status"), at(held.payload, "workflow_run", "conclusion")]).toEqual([
      "completed",
      "action_required",
    ]);
    bench.repo.approveRun(Number(at(held.payload, "workflow_run", "id")));
    expect(at((await bench.hook("workflow_run", "completed")).payload, "workflow_run", "conclusion")).toBe("success");
  });
});
