import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { at, listOf, openBench } from "./harness.ts";
import type { Bench } from "./harness.ts";

let bench: Bench;
let head: string;
beforeAll(async () => {
  bench = await openBench();
  head = bench.repo.openPullRequest({ author: "ada", files: { "a.md": "a\n" } }).headSha;
});
afterAll(() => bench.close());

const base = "/repos/octo/lab";
const output = { title: "t", summary: "s" };

async function create(extra: Record<string, unknown> = {}): Promise<number> {
  const reply = await bench.call("POST", `${base}/check-runs`, { name: "CI GPU gate", head_sha: head, ...extra });
  expect(reply.status).toBe(201);
  return Number(at(reply.body, "id"));
}

describe("check runs", () => {
  it("take a conclusion as completed, whatever the status says", async () => {
    const id = await create({ status: "in_progress", conclusion: "action_required", output });
    const reply = await bench.call("GET", `${base}/check-runs/${id}`);
    expect([at(reply.body, "status"), at(reply.body, "conclusion")]).toEqual(["completed", "action_required"]);
    expect(Date.parse(String(at(reply.body, "completed_at")))).not.toBeNaN();
  });

  it("need a conclusion to be completed", async () => {
    const id = await create();
    expect((await bench.call("PATCH", `${base}/check-runs/${id}`, { status: "completed" })).status).toBe(422);
  });

  it("are refused on a commit that is not there", async () => {
    expect((await bench.call("POST", `${base}/check-runs`, { name: "x", head_sha: "f".repeat(40) })).status).toBe(422);
  });

  const long = (length: number): string => "x".repeat(length);
  it.each([
    ["a summary above 65,535 characters", { output: { title: "t", summary: long(65_536) } }],
    ["a text above 65,535 characters", { output: { title: "t", summary: "s", text: long(65_536) } }],
    ["a summary without a title", { output: { summary: "s" } }],
    [
      "more than 50 annotations",
      {
        output: {
          ...output,
          annotations: Array.from({ length: 51 }, () => ({
            path: "a",
            start_line: 1,
            end_line: 1,
            annotation_level: "notice",
            message: "m",
          })),
        },
      },
    ],
    [
      "more than three buttons",
      { actions: Array.from({ length: 4 }, () => ({ label: "l", description: "d", identifier: "i" })) },
    ],
    ["a button label above 20 characters", { actions: [{ label: long(21), description: "d", identifier: "i" }] }],
    ["a button description above 40 characters", { actions: [{ label: "l", description: long(41), identifier: "i" }] }],
    ["a button identifier above 20 characters", { actions: [{ label: "l", description: "d", identifier: long(21) }] }],
    ["a status that only Actions may set", { status: "waiting" }],
    ["the conclusion stale, which only GitHub sets", { conclusion: "stale" }],
  ])("refuse %s", async (_what, extra) => {
    expect((await bench.call("POST", `${base}/check-runs`, { name: "x", head_sha: head, ...extra })).status).toBe(422);
  });

  it("take exactly the limits", async () => {
    const id = await create({
      output: { title: "t", summary: long(65_535), text: long(65_535) },
      actions: Array.from({ length: 3 }, () => ({ label: long(20), description: long(40), identifier: long(20) })),
    });
    const { body } = await bench.call("GET", `${base}/check-runs/${id}`);
    expect(String(at(body, "output", "text")).length).toBe(65_535);
  });

  it("collect annotations over updates", async () => {
    const id = await create();
    const one = (message: string) => ({
      output: {
        ...output,
        annotations: [{ path: "a", start_line: 1, end_line: 1, annotation_level: "notice", message }],
      },
    });
    await bench.call("PATCH", `${base}/check-runs/${id}`, one("first"));
    await bench.call("PATCH", `${base}/check-runs/${id}`, one("second"));
    const list = await bench.call("GET", `${base}/check-runs/${id}/annotations`);
    expect(listOf(list.body).map((entry) => entry["message"])).toEqual(["first", "second"]);
  });

  it("of another App cannot be written", async () => {
    bench.github.setWorkflowScript(".github/workflows/ci.yml", {
      name: "CI",
      on: ["push"],
      plan: () => ({ jobs: [{ name: "clippy", steps: [{ name: "Lint" }] }] }),
    });
    bench.repo.commit({ files: { "p.txt": "p\n" } });
    const job = await bench.hook("workflow_job", "completed");
    const id = String(at(job.payload, "workflow_job", "id"));
    const write = await bench.call("PATCH", `${base}/check-runs/${id}`, { name: "mine" });
    const again = await bench.call("POST", `${base}/check-runs/${id}/rerequest`);
    expect([write.status, again.status]).toEqual([403, 403]);
  });

  it("list the latest of a name by default, and all on request, by App", async () => {
    const older = await create({ name: "twice", conclusion: "failure" });
    const newer = await create({ name: "twice" });
    const ids = async (query: string): Promise<unknown[]> =>
      listOf(
        (await bench.call("GET", `${base}/commits/${head}/check-runs?check_name=twice${query}`)).body,
        "check_runs",
      ).map((run) => run["id"]);
    expect(await ids("")).toEqual([newer]);
    expect(await ids("&filter=all")).toEqual([newer, older]);
    expect([await ids(`&app_id=${bench.github.appId}`), await ids("&app_id=15368")]).toEqual([[newer], []]);
  });

  it("keep their whole history in the books, writes after completion marked", async () => {
    const id = await create({ name: "history" });
    await bench.call("PATCH", `${base}/check-runs/${id}`, { conclusion: "success", output });
    await bench.call("PATCH", `${base}/check-runs/${id}`, { conclusion: "failure" });
    const writes = bench.github.books.checkWrites.filter((write) => write.checkRunId === id);
    expect(writes.map((write) => [write.kind, write.status, write.conclusion, write.afterCompleted])).toEqual([
      ["create", "queued", null, false],
      ["update", "completed", "success", false],
      ["update", "completed", "failure", true],
    ]);
  });
});

describe("re-requests and buttons", () => {
  it("reset the suite and leave the check run as it was", async () => {
    const id = await create({ name: "again", conclusion: "failure" });
    bench.repo.rerequestCheck(id, "grace");
    const told = await bench.hook("check_run", "rerequested");
    expect([at(told.payload, "check_run", "id"), at(told.payload, "sender", "login")]).toEqual([id, "grace"]);
    const run = await bench.call("GET", `${base}/check-runs/${id}`);
    const suite = await bench.call("GET", `${base}/check-suites/${String(at(run.body, "check_suite", "id"))}`);
    expect([at(run.body, "status"), at(run.body, "conclusion"), at(suite.body, "status")]).toEqual([
      "completed",
      "failure",
      "queued",
    ]);
  });

  it("press a button only on a completed check run that has it, and name it to the App", async () => {
    const actions = [{ label: "Approve", description: "Start the GPU run", identifier: "approve" }];
    const id = await create({ name: "buttons", actions });
    expect(() => bench.repo.pressButton(id, "approve", "grace")).toThrow(/only a completed one/);
    await bench.call("PATCH", `${base}/check-runs/${id}`, { conclusion: "action_required", output });
    expect(() => bench.repo.pressButton(id, "other", "grace")).toThrow(/no button/);
    bench.repo.pressButton(id, "approve", "grace");
    const told = await bench.hook("check_run", "requested_action");
    expect([
      at(told.payload, "requested_action", "identifier"),
      at(told.payload, "check_run", "head_sha"),
      at(told.payload, "sender", "login"),
    ]).toEqual(["approve", head, "grace"]);
  });

  it("re-request a whole suite of the App", async () => {
    await create({ name: "suite", conclusion: "success" });
    bench.repo.rerequestSuite(head, "grace");
    const told = await bench.hook("check_suite", "rerequested");
    expect([at(told.payload, "check_suite", "head_sha"), at(told.payload, "check_suite", "app", "id")]).toEqual([
      head,
      Number(bench.github.appId),
    ]);
  });
});
