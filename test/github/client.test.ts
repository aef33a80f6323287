import { fromListedFile } from "../../shared/policy/changes.ts";
import { describe, expect, it } from "vitest";
import { createGitHubAppClient } from "../../shared/github/app-client.ts";
import { createEtagCache } from "../../shared/github/etag.ts";
import type { Run } from "../../shared/github/actions.ts";
import { json, rawJson, shaOf, stubApp, stubClient, stubGitHub, T0, type Handler } from "./stub.ts";

const R = "/repos/octo/engine";

function pageOf(call: { readonly path: string }): number {
  return Number(new URLSearchParams(call.path.split("?")[1]).get("page"));
}

/** Serves `all` in pages of 100 with GitHub's `Link` header. */
function pages(all: readonly unknown[], wrap: (items: readonly unknown[]) => unknown = (items) => items): Handler {
  return (call) => {
    const page = pageOf(call);
    const link = page * 100 < all.length ? `<https://github.test/x?page=${page + 1}>; rel="next"` : `<x>; rel="first"`;
    return json(wrap(all.slice((page - 1) * 100, page * 100)), { headers: { link } });
  };
}

const pull = {
  number: 7,
  state: "open",
  draft: false,
  merged: false,
  title: "Faster kernels",
  labels: [{ id: 1, name: "run-gpu" }],
  user: { id: 5, login: "mona", type: "User" },
  head: { sha: shaOf("a"), ref: "patch-1", repo: { id: 555, full_name: "mona/engine" } },
  base: { sha: shaOf("b"), ref: "main", repo: { id: 101, full_name: "octo/engine" } },
  changed_files: 3,
  mergeable: null,
};

describe("pull requests", () => {
  it("are read without merge_commit_sha, which API version 2026-03-10 no longer has", async () => {
    const { client } = stubClient({ [`GET ${R}/pulls/7`]: () => json(pull) });
    expect(await client.getPull(7)).toEqual({
      ok: true,
      value: {
        number: 7,
        state: "open",
        draft: false,
        merged: false,
        title: "Faster kernels",
        labels: ["run-gpu"],
        headSha: shaOf("a"),
        headRef: "patch-1",
        headRepositoryId: "555",
        headRepositoryFullName: "mona/engine",
        baseSha: shaOf("b"),
        baseRef: "main",
        baseRepositoryId: "101",
        author: { id: "5", login: "mona" },
        authorType: "User",
        changedFiles: 3,
        // The fixture has none: GitHub has not looked yet.
        mergeable: null,
      },
    });
  });

  it("of a deleted fork have no head repository, of a deleted user an author without rights", async () => {
    const gone = { ...pull, user: null, head: { ...pull.head, repo: null } };
    const { client } = stubClient({ [`GET ${R}/pulls/7`]: () => json(gone) });
    expect(await client.getPull(7)).toMatchObject({
      ok: true,
      value: { headRepositoryId: null, headRepositoryFullName: null, author: { id: "0", login: "ghost" } },
    });
  });

  it("in a list count as merged when they were", async () => {
    const { merged: _merged, changed_files: _files, ...listed } = pull;
    const { client } = stubClient({
      [`GET ${R}/commits/${shaOf("a")}/pulls`]: () =>
        json([{ ...listed, state: "closed", merged_at: "2026-11-01T00:00:00Z" }]),
    });
    expect(await client.listPullsForCommit(shaOf("a"))).toMatchObject({
      ok: true,
      value: { items: [{ merged: true, state: "closed" }], complete: true },
    });
  });

  it("are unreadable, not guessed, without a field that decides", async () => {
    const { client } = stubClient({ [`GET ${R}/pulls/7`]: () => json({ ...pull, changed_files: undefined }) });
    expect(await client.getPull(7)).toEqual({
      ok: false,
      error: { reason: "unreadable", what: "changed_files (invalid_type)" },
    });
  });

  it("are asked for by their whole head, owner and branch", async () => {
    const { client, stub } = stubClient({ [`GET ${R}/pulls`]: () => json([]) });
    await client.listOpenPullsByHead("mona:feature/a&b");
    expect(stub.seen[1]?.path).toBe(`${R}/pulls?state=open&head=mona%3Afeature%2Fa%26b&per_page=100&page=1`);
  });
});

describe("the changed files of a pull request", () => {
  const files = (count: number): object[] =>
    Array.from({ length: count }, (_, index) => ({ filename: `f${index}`, status: "modified", sha: null, changes: 1 }));

  it("come from all pages, with the old names of renames", async () => {
    const all = [
      ...files(150),
      {
        filename: "new",
        previous_filename: "old",
        status: "renamed",
        sha: shaOf("c"),
        changes: 0,
        patch: "@".repeat(5_000),
      },
    ];
    const { client, stub } = stubClient({ [`GET ${R}/pulls/7/files`]: pages(all) });
    const listed = await client.listPullFiles(7);
    expect(listed.ok && listed.value.complete).toBe(true);
    expect(listed.ok && listed.value.files).toHaveLength(151);
    expect(listed.ok && listed.value.files.at(-1)).toEqual({
      filename: "new",
      previousFilename: "old",
      status: "renamed",
      sha: shaOf("c"),
      changes: 0,
      patch: "@".repeat(600),
    });
    expect(stub.calls(`GET ${R}/pulls/7/files`).map(pageOf)).toEqual([1, 2]);
  });

  it.each([
    ["new", `@@ -0,0 +1 @@\n+${"./".repeat(2_000)}src\n\\ No newline at end of file`, "added"],
    [
      "led elsewhere",
      `@@ -1 +1 @@\n-${"a/".repeat(900)}\n\\ No newline at end of file\n+${"b/".repeat(900)}\n\\ No newline at end of file`,
      "modified",
    ],
  ])("are links however long what they lead to is: %s", async (_, patch, status) => {
    const link = { filename: "docs/a", status, sha: shaOf("c"), changes: 1, patch };
    const { client } = stubClient({ [`GET ${R}/pulls/7/files`]: pages([link]) });
    const listed = await client.listPullFiles(7);
    const [file] = listed.ok ? listed.value.files : [];
    expect(file?.patch?.length).toBeLessThanOrEqual(600);
    expect(file === undefined ? null : fromListedFile(file).special).toBe("symlink");
  });

  it.each([
    [2_999, true],
    [3_000, false],
  ])("that are %i are complete: %s, since GitHub ends its list at 3,000 without a word", async (count, complete) => {
    const { client } = stubClient({ [`GET ${R}/pulls/7/files`]: pages(files(count)) });
    const listed = await client.listPullFiles(7);
    expect(listed.ok && [listed.value.files.length, listed.value.complete]).toEqual([count, complete]);
  });

  it("fail as a whole when one page fails", async () => {
    const first = pages(files(150));
    const { client } = stubClient({
      [`GET ${R}/pulls/7/files`]: (call, nth) => (nth === 1 ? first(call, nth) : json({}, { status: 502 })),
    });
    expect(await client.listPullFiles(7)).toEqual({ ok: false, error: { reason: "server", status: 502 } });
  });

  it.each([
    [299, true],
    [300, false],
  ])("of a comparison that are %i are complete: %s", async (count, complete) => {
    const { client, stub } = stubClient({
      [`GET ${R}/compare/${shaOf("b")}...mona%3Apatch`]: () =>
        json({ status: "diverged", merge_base_commit: { sha: shaOf("c") }, files: files(count) }),
    });
    const compared = await client.compareFiles(shaOf("b"), "mona:patch");
    expect(compared.ok && compared.value.complete).toBe(complete);
    expect(compared.ok && compared.value.mergeBaseSha).toBe(shaOf("c"));
    expect(stub.calls(`GET ${R}/compare/${shaOf("b")}...mona%3Apatch`)).toHaveLength(1);
  });
});

describe("roles", () => {
  const role =
    (body: unknown, status = 200): Handler =>
    () =>
      json(body, { status });

  it("give the real role beside the legacy permission, and whose it is", async () => {
    const { client } = stubClient({
      [`GET ${R}/collaborators/mona/permission`]: role({ permission: "write", role_name: "maintain", user: { id: 5 } }),
    });
    expect(await client.getRole("mona")).toEqual({
      ok: true,
      value: { userId: "5", roleName: "maintain", permission: "write" },
    });
  });

  it.each<[string, Handler]>([
    ["404", role({ message: "Not Found" }, 404)],
    ["a record without a user", role({ permission: "none", role_name: "none", user: null })],
  ])("of somebody unknown are not found: %s", async (_name, handler) => {
    const { client } = stubClient({
      [`GET ${R}/collaborators/who/permission`]: handler,
      [`GET ${R}/installation`]: () => json({ id: 77 }),
    });
    expect(await client.getRole("who")).toEqual({ ok: false, error: { reason: "not-found" } });
  });

  it("are asked for with the login as one segment, whatever it holds", async () => {
    const { client, stub } = stubClient({});
    await client.getRole("a/b?c#d{e}:f");
    expect(stub.seen[1]?.path).toBe(`${R}/collaborators/a%2Fb%3Fc%23d%7Be%7D%3Af/permission`);
  });
});

describe("the repository", () => {
  it("gives a file's text in UTF-8 at a ref with slashes", async () => {
    const content = Buffer.from("grün: 1\n").toString("base64");
    const { client, stub } = stubClient({
      [`GET ${R}/contents/.github/gpu%20gate.yml`]: () =>
        json({
          type: "file",
          encoding: "base64",
          sha: shaOf("d"),
          content: `${content.slice(0, 5)}\n${content.slice(5)}\n`,
        }),
    });
    expect(await client.getFile(".github/gpu gate.yml", "release/1")).toEqual({
      ok: true,
      value: { sha: shaOf("d"), text: "grün: 1\n" },
    });
    expect(stub.seen[1]?.path).toMatch(/\?ref=release%2F1$/);
  });

  it.each<[string, unknown, string]>([
    ["a directory", [], "the body (invalid_type)"],
    ["a file above 1 MB", { type: "file", encoding: "none", sha: shaOf("d"), content: "" }, "encoding (invalid_value)"],
    ["a submodule", { type: "submodule", sha: shaOf("d") }, "type (invalid_value)"],
    [
      "bytes that are no text",
      { type: "file", encoding: "base64", sha: shaOf("d"), content: "//79" },
      "x (not UTF-8 text)",
    ],
  ])("does not take %s for a text file", async (_name, body, what) => {
    const { client } = stubClient({ [`GET ${R}/contents/x`]: () => json(body) });
    expect(await client.getFile("x", "main")).toEqual({ ok: false, error: { reason: "unreadable", what } });
  });

  it("flags a tree that GitHub cut, and asks for depth only when wanted", async () => {
    const { client, stub } = stubClient({
      [`GET ${R}/git/trees/${shaOf("a")}`]: () => json({ sha: shaOf("a"), truncated: true, tree: [] }),
    });
    expect(await client.getTree(shaOf("a"), { recursive: true })).toMatchObject({
      ok: true,
      value: { truncated: true },
    });
    await client.getTree(shaOf("a"), { recursive: false });
    expect(stub.seen.slice(1).map((call) => call.path.split("?")[1])).toEqual(["recursive=1", undefined]);
  });

  it("says null for a ref that is not there, such as the test merge of a conflict", async () => {
    const { client } = stubClient({
      [`GET ${R}/git/ref/pull/7/merge`]: () => json({ message: "Not Found" }, { status: 404 }),
      [`GET ${R}/git/ref/pull/8/merge`]: () => json({ ref: "refs/pull/8/merge", object: { sha: shaOf("e") } }),
      [`GET ${R}/installation`]: () => json({ id: 77 }),
    });
    expect(await client.getRef("refs/pull/7/merge")).toEqual({ ok: true, value: null });
    expect(await client.getRef("pull/8/merge")).toEqual({ ok: true, value: shaOf("e") });
  });
});

const check = {
  id: 900,
  name: "CI GPU gate",
  head_sha: shaOf("a"),
  status: "queued",
  app: { id: 1234 },
  external_id: "",
};

describe("check runs", () => {
  it("are created with GitHub's names for what was said, cut to its limits", async () => {
    const { client, stub } = stubClient({ [`POST ${R}/check-runs`]: () => json(check, { status: 201 }) });
    const created = await client.createCheckRun({
      name: "CI GPU gate",
      headSha: shaOf("a"),
      state: { status: "completed", conclusion: "timed_out", completedAt: T0 },
      externalId: "r1",
      startedAt: T0 - 1_000,
      output: { title: "t", summary: "s".repeat(70_000) },
      actions: [{ label: "Run the GPU tests now", description: "d", identifier: "run" }],
    });
    expect(created).toMatchObject({ ok: true, value: { id: "900", appId: "1234", externalId: null } });
    const body = stub.calls(`POST ${R}/check-runs`)[0]?.body;
    expect(body).toMatchObject({
      name: "CI GPU gate",
      head_sha: shaOf("a"),
      status: "completed",
      conclusion: "timed_out",
      completed_at: "2026-11-30T12:00:00.000Z",
      started_at: "2026-11-30T11:59:59.000Z",
      external_id: "r1",
      actions: [{ label: "Run the GPU tests n…", description: "d", identifier: "run" }],
    });
    expect(JSON.stringify(body)).toContain("Cut here");
    expect(JSON.stringify(body).length).toBeLessThan(66_500);
  });

  it("are updated with what changes and nothing else", async () => {
    const { client, stub } = stubClient({ [`PATCH ${R}/check-runs/900`]: () => json(check) });
    await client.updateCheckRun("900", { output: { title: "t", summary: "s" }, actions: [] });
    expect(stub.calls(`PATCH ${R}/check-runs/900`)[0]?.body).toEqual({
      output: { title: "t", summary: "s" },
      actions: [],
    });
  });

  it("of a ref are complete only if as many came as GitHub counted", async () => {
    const runs = Array.from({ length: 120 }, (_, index) => ({ ...check, id: index + 1 }));
    const listed = async (total: number): Promise<unknown> => {
      const { client } = stubClient({
        [`GET ${R}/commits/${shaOf("a")}/check-runs`]: pages(runs, (items) => ({
          total_count: total,
          check_runs: items,
        })),
      });
      const listing = await client.listCheckRunsForRef(shaOf("a"), { filter: "latest" });
      return listing.ok && [listing.value.items.length, listing.value.complete];
    };
    expect(await listed(120)).toEqual([120, true]);
    expect(await listed(121)).toEqual([120, false]);
  });

  it("keep annotations that are equal: each one counts", async () => {
    const annotation = { path: ".github", start_line: 1, end_line: 1, annotation_level: "notice", message: "12 tests" };
    const { client } = stubClient({ [`GET ${R}/check-runs/900/annotations`]: () => json([annotation, annotation]) });
    const listing = await client.getCheckRunAnnotations("900");
    expect(listing.ok && listing.value.items.map((item) => [item.level, item.message, item.title])).toEqual([
      ["notice", "12 tests", null],
      ["notice", "12 tests", null],
    ]);
  });
});

const run = {
  id: 1001,
  run_attempt: 2,
  status: "completed",
  conclusion: "success",
  event: "workflow_dispatch",
  path: ".github/workflows/gpu-execute.yml@refs/heads/main",
  workflow_id: 3,
  display_title: "gpu r1 a1",
  head_sha: shaOf("a"),
  head_branch: "main",
  repository: { id: 101 },
  head_repository: { id: 101 },
  actor: { id: 1, login: "gate[bot]" },
  triggering_actor: { id: 5, login: "mona" },
  created_at: "2026-11-30T12:00:00Z",
  updated_at: "yesterday",
  run_started_at: "2026-11-30T12:00:01Z",
  html_url: "https://github.test/octo/engine/actions/runs/1001",
};
const dispatches = `POST ${R}/actions/workflows/gpu-execute.yml/dispatches`;

describe("workflow runs", () => {
  it("are dispatched without return_run_details and give the id of the run", async () => {
    const { client, stub } = stubClient({
      [dispatches]: () => rawJson('{"workflow_run_id":9007199254740993,"run_url":"x","html_url":"y"}'),
    });
    expect(await client.dispatchWorkflow(".github/workflows/gpu-execute.yml", "main", { request: "r1" })).toEqual({
      ok: true,
      value: { runId: "9007199254740993" },
    });
    expect(stub.calls(dispatches)[0]?.body).toEqual({ ref: "main", inputs: { request: "r1" } });
  });

  it.each<[string, () => Response]>([
    ["204", () => new Response(null, { status: 204 })],
    ["200 without an id", () => json({})],
    ["200 that is no JSON", () => new Response("<html>")],
  ])("count as dispatched, id unknown, after %s", async (_name, answer) => {
    const { client } = stubClient({ [dispatches]: answer });
    expect(await client.dispatchWorkflow("gpu-execute.yml", "main", {})).toEqual({ ok: true, value: { runId: null } });
  });

  it("are dispatched once, whatever goes wrong", async () => {
    const { client, stub } = stubClient({ [dispatches]: () => Promise.reject(new Error("reset")) });
    expect(await client.dispatchWorkflow("gpu-execute.yml", "main", {})).toEqual({
      ok: false,
      error: { reason: "transport", timeout: false },
    });
    expect(stub.calls(dispatches)).toHaveLength(1);
  });

  it("are read with both actors, the bare path, and null for a time that cannot be read", async () => {
    const { client } = stubClient({ [`GET ${R}/actions/runs/1001`]: () => json(run) });
    const expected: Run = {
      id: "1001",
      attempt: 2,
      status: "completed",
      conclusion: "success",
      event: "workflow_dispatch",
      path: ".github/workflows/gpu-execute.yml",
      workflowId: "3",
      displayTitle: "gpu r1 a1",
      headSha: shaOf("a"),
      headBranch: "main",
      repositoryId: "101",
      headRepositoryId: "101",
      actor: { id: "1", login: "gate[bot]" },
      triggeringActor: { id: "5", login: "mona" },
      createdAt: T0,
      updatedAt: null,
      runStartedAt: T0 + 1_000,
      htmlUrl: "https://github.test/octo/engine/actions/runs/1001",
    };
    expect(await client.getRun("1001")).toEqual({ ok: true, value: expected });
  });

  it("are found by exactly their name among those of the right time", async () => {
    const others = [
      { ...run, id: 1, display_title: "gpu r1 a11" },
      { ...run, id: 2, display_title: "GPU r1 a1" },
    ];
    const { client, stub } = stubClient({
      [`GET ${R}/actions/workflows/gpu-execute.yml/runs`]: () =>
        json({ total_count: 3, workflow_runs: [run, ...others] }),
    });
    const found = await client.findRunsByName("gpu-execute.yml", "gpu r1 a1", T0 + 999);
    expect(found.ok && [found.value.items.map((item) => item.id), found.value.complete]).toEqual([["1001"], true]);
    expect(stub.seen[1]?.path).toContain("event=workflow_dispatch&created=%3E%3D2026-11-30T12%3A00%3A00Z&");
  });

  it("are searched to GitHub's end of 1,000, and then known to be incomplete", async () => {
    const all = Array.from({ length: 1_200 }, (_, index) => ({ ...run, id: index + 1 }));
    const { client, stub } = stubClient({
      [`GET ${R}/actions/runs`]: pages(all, (items) => ({ total_count: 1_200, workflow_runs: items })),
    });
    const listing = await client.listRuns({ status: "in_progress" });
    expect(listing.ok && [listing.value.items.length, listing.value.complete]).toEqual([1_000, false]);
    expect(stub.calls(`GET ${R}/actions/runs`)).toHaveLength(10);
  });

  it.each([
    [202, "accepted"],
    [409, "not-cancellable"],
  ])("answer a cancel with %i: %s", async (status, value) => {
    const { client } = stubClient({ [`POST ${R}/actions/runs/1001/cancel`]: () => json({ message: "x" }, { status }) });
    expect(await client.cancelRun("1001")).toEqual({ ok: true, value });
  });

  it("have jobs with steps, the runner as a string or null, and the check run of their annotations", async () => {
    const job = {
      id: 5,
      run_id: 1001,
      run_attempt: 2,
      name: "gpu",
      status: "in_progress",
      conclusion: null,
      head_sha: shaOf("a"),
      labels: ["self-hosted", "gpu-1"],
      runner_id: 23,
      runner_name: "gpu-r1-a1",
      check_run_url: "https://github.test/repos/octo/engine/check-runs/444",
      created_at: "2026-11-30T12:00:00Z",
      started_at: "2026-11-30T12:00:02Z",
      completed_at: null,
      html_url: null,
      steps: [{ number: 1, name: "Test", status: "in_progress", conclusion: null, started_at: "2026-11-30T12:00:03Z" }],
    };
    const { client } = stubClient({
      [`GET ${R}/actions/runs/1001/attempts/2/jobs`]: () =>
        json({ total_count: 2, jobs: [job, { ...job, id: 6, runner_id: 0, runner_name: "", steps: undefined }] }),
    });
    expect(await client.listJobs("1001", 2)).toMatchObject({
      ok: true,
      value: {
        complete: true,
        items: [
          {
            id: "5",
            attempt: 2,
            runnerId: "23",
            runnerName: "gpu-r1-a1",
            checkRunId: "444",
            startedAt: T0 + 2_000,
            completedAt: null,
            steps: [{ number: 1, name: "Test", startedAt: T0 + 3_000, completedAt: null }],
          },
          { id: "6", runnerId: null, runnerName: null, steps: [] },
        ],
      },
    });
  });

  it("have artifacts with digest and origin", async () => {
    const artifact = {
      id: 8,
      name: "archive",
      size_in_bytes: 10,
      expired: false,
      digest: "sha256:ab",
      created_at: "2026-11-30T12:00:00Z",
      expires_at: "2026-12-01T12:00:00Z",
      workflow_run: { id: 1001, repository_id: 101, head_repository_id: 101, head_branch: "main" },
    };
    const { client } = stubClient({
      [`GET ${R}/actions/runs/1001/artifacts`]: () => json({ total_count: 1, artifacts: [artifact] }),
    });
    expect(await client.listArtifacts("1001")).toEqual({
      ok: true,
      value: {
        complete: true,
        items: [
          {
            id: "8",
            name: "archive",
            sizeBytes: 10,
            expired: false,
            digest: "sha256:ab",
            createdAt: T0,
            expiresAt: T0 + 86_400_000,
            runId: "1001",
            repositoryId: "101",
            headRepositoryId: "101",
          },
        ],
      },
    });
  });
});

const runner = {
  id: 23,
  name: "gpu-r1-a1",
  os: "linux",
  status: "online",
  busy: false,
  labels: [{ id: 1, name: "gpu-1" }],
};
const organization = { kind: "organization", org: "octo", groupId: "4" } as const;

describe("runners", () => {
  it.each<[string, Parameters<typeof stubClient>[1], string, number]>([
    ["repository", {}, `POST ${R}/actions/runners/generate-jitconfig`, 1],
    ["organisation", { runners: organization }, "POST /orgs/octo/actions/runners/generate-jitconfig", 4],
  ])("are made in the %s's group, with the labels as registered", async (_name, options, route, group) => {
    const { client, stub } = stubClient(
      { [route]: () => json({ runner, encoded_jit_config: "c2VjcmV0" }, { status: 201 }) },
      options,
    );
    expect(await client.createJitRunner({ name: "gpu-r1-a1", labels: ["gpu-1"] })).toEqual({
      ok: true,
      value: { runnerId: "23", labels: ["gpu-1"], jitConfig: "c2VjcmV0" },
    });
    expect(stub.calls(route)[0]?.body).toEqual({
      name: "gpu-r1-a1",
      runner_group_id: group,
      labels: ["gpu-1"],
      work_folder: "_work",
    });
  });

  it("whose name exists are a conflict, and an unreadable answer does not show the configuration", async () => {
    const route = `POST ${R}/actions/runners/generate-jitconfig`;
    const { client } = stubClient({
      [route]: (_call, nth) =>
        nth === 1
          ? json({ message: "Already exists - A runner with the name gpu-r1-a1 already exists." }, { status: 409 })
          : json({ runner: {}, encoded_jit_config: "c2VjcmV0" }, { status: 201 }),
    });
    const wanted = { name: "gpu-r1-a1", labels: ["gpu-1"] };
    expect(await client.createJitRunner(wanted)).toMatchObject({ ok: false, error: { reason: "conflict" } });
    const unreadable = await client.createJitRunner(wanted);
    expect(unreadable).toMatchObject({ ok: false, error: { reason: "unreadable" } });
    expect(JSON.stringify(unreadable)).not.toContain("c2VjcmV0");
  });

  it("are all listed, number 1,001 too, and none twice when the list shifts (N137)", async () => {
    const all = Array.from({ length: 1_001 }, (_, index) => ({ ...runner, id: index + 1, name: `r${index + 1}` }));
    all.splice(100, 0, { ...runner, id: 100, name: "r100" });
    const { client } = stubClient({
      [`GET ${R}/actions/runners`]: pages(all, (items) => ({ total_count: 1_001, runners: items })),
    });
    const listing = await client.listRunners();
    expect(listing.ok && [listing.value.items.length, listing.value.complete]).toEqual([1_001, true]);
    expect(listing.ok && listing.value.items.at(-1)?.name).toBe("r1001");
  });

  it("are read to the end without Link headers too", async () => {
    const all = Array.from({ length: 200 }, (_, index) => ({ ...runner, id: index + 1 }));
    const { client, stub } = stubClient({
      [`GET ${R}/actions/runners`]: (call) =>
        json({ total_count: 200, runners: all.slice((pageOf(call) - 1) * 100, pageOf(call) * 100) }),
    });
    const listing = await client.listRunners();
    expect(listing.ok && [listing.value.items.length, listing.value.complete]).toEqual([200, true]);
    expect(stub.calls(`GET ${R}/actions/runners`)).toHaveLength(3);
  });

  it("are found by exactly their name; null only from a complete list", async () => {
    const listing =
      (total: number, names: string[]): Handler =>
      () =>
        json({ total_count: total, runners: names.map((name, index) => ({ ...runner, id: index + 1, name })) });
    const find = async (handler: Handler): Promise<unknown> => {
      const { client } = stubClient({ [`GET ${R}/actions/runners`]: handler });
      const found = await client.findRunnerByName("gpu-1");
      return found.ok ? (found.value?.id ?? null) : found.error.reason;
    };
    expect(await find(listing(2, ["gpu-11", "gpu-1"]))).toBe("2");
    expect(await find(listing(1, ["gpu-11"]))).toBeNull();
    expect(await find(listing(0, []))).toBeNull();
    expect(await find(listing(5, ["gpu-11"]))).toBe("unreadable");
  });

  it.each([
    [204, "", "deleted"],
    [404, "Not Found", "gone"],
    [422, "Runner gpu-r1-a1 is still running a job", "busy"],
  ])("that are deleted with the answer %i %s are %s", async (status, message, value) => {
    const { client } = stubClient({
      [`DELETE ${R}/actions/runners/23`]: () =>
        status === 204 ? new Response(null, { status }) : json({ message }, { status }),
      [`GET ${R}/installation`]: () => json({ id: 77 }),
    });
    expect(await client.deleteRunner("23")).toEqual({ ok: true, value });
  });

  it("whose deletion is refused for another reason are not called busy", async () => {
    const { client } = stubClient({
      [`DELETE ${R}/actions/runners/23`]: () => json({ message: "Validation Failed" }, { status: 422 }),
    });
    expect(await client.deleteRunner("23")).toMatchObject({ ok: false, error: { reason: "unprocessable" } });
  });
});

describe("conditional requests", () => {
  it("give the remembered value when GitHub says that nothing changed", async () => {
    const { client, stub } = stubClient(
      {
        [`GET ${R}/actions/runs/1001`]: (call) =>
          call.headers.get("if-none-match") === '"v1"'
            ? new Response(null, { status: 304 })
            : json(run, { headers: { etag: '"v1"' } }),
      },
      { etags: createEtagCache() },
    );
    const first = await client.getRun("1001");
    const second = await client.getRun("1001");
    expect(second).toEqual(first);
    expect(second.ok).toBe(true);
    expect(stub.calls(`GET ${R}/actions/runs/1001`).map((call) => call.headers.get("if-none-match"))).toEqual([
      null,
      '"v1"',
    ]);
  });

  it("take a new value when there is one", async () => {
    const { client } = stubClient(
      {
        [`GET ${R}/actions/runs/1001`]: (_call, nth) =>
          json({ ...run, status: nth === 1 ? "queued" : "in_progress" }, { headers: { etag: `"v${nth}"` } }),
      },
      { etags: createEtagCache() },
    );
    await client.getRun("1001");
    expect(await client.getRun("1001")).toMatchObject({ ok: true, value: { status: "in_progress" } });
  });

  it("remember page by page, the link to the next one included", async () => {
    // GitHub may fill a page with fewer than were asked for: then only the link tells that there is more.
    const serve = (page: number): Response =>
      json(
        { total_count: 2, runners: [{ ...runner, id: page }] },
        { headers: { etag: `"p${page}"`, link: page === 1 ? '<x?page=2>; rel="next"' : '<x?page=1>; rel="first"' } },
      );
    const { client } = stubClient(
      {
        [`GET ${R}/actions/runners`]: (call) =>
          call.headers.get("if-none-match") === null ? serve(pageOf(call)) : new Response(null, { status: 304 }),
      },
      { etags: createEtagCache() },
    );
    const first = await client.listRunners();
    expect(await client.listRunners()).toEqual(first);
    expect(first.ok && first.value.items.map((item) => item.id)).toEqual(["1", "2"]);
  });

  it("are not made without a cache, and never for a change", async () => {
    const { client, stub } = stubClient({
      [`GET ${R}/actions/runs/1001`]: () => json(run, { headers: { etag: '"v1"' } }),
    });
    await client.getRun("1001");
    await client.getRun("1001");
    expect(stub.seen.every((call) => call.headers.get("if-none-match") === null)).toBe(true);
  });
});

describe("createEtagCache", () => {
  it("forgets what was used longest ago, and keeps no giant", () => {
    const cache = createEtagCache(2);
    const entry = (text: string): { etag: string; text: string; link: null } => ({ etag: text, text, link: null });
    cache.set("a", entry("a"));
    cache.set("b", entry("b"));
    cache.get("a");
    cache.set("c", entry("c"));
    cache.set("a", { ...entry("a"), text: "x".repeat(600_000) });
    expect(["a", "b", "c"].map((key) => cache.get(key)?.etag)).toEqual([undefined, undefined, "c"]);
  });
});

describe("the App's own questions", () => {
  const delivery = (id: string): string =>
    `{"id":${id},"guid":"g","delivered_at":"2026-11-30T12:00:00Z","redelivery":false,"duration":0.1,"status":"OK","status_code":200,"event":"ping","action":null,"installation_id":null,"repository_id":0}`;

  it("list deliveries page by page with ids beyond 2^53 exact", async () => {
    const stub = stubGitHub({
      "GET /app/hook/deliveries": (_call, nth) =>
        rawJson(`[${delivery("118446744073709551615")},${delivery("9007199254740993")}]`, {
          headers:
            nth === 1 ? { link: '<https://github.test/app/hook/deliveries?per_page=2&cursor=v1_42>; rel="next"' } : {},
        }),
    });
    const admin = createGitHubAppClient(stubApp(stub));
    const first = await admin.listHookDeliveries({ pageSize: 2 });
    expect(first).toMatchObject({
      ok: true,
      value: {
        nextCursor: "v1_42",
        deliveries: [
          { id: "118446744073709551615", guid: "g", deliveredAt: T0, status: "OK", repositoryId: null },
          { id: "9007199254740993" },
        ],
      },
    });
    const second = await admin.listHookDeliveries({ pageSize: 2, cursor: "v1_42" });
    expect(second.ok && second.value.nextCursor).toBeNull();
    expect(stub.seen.map((call) => call.path)).toEqual([
      "/app/hook/deliveries?per_page=2",
      "/app/hook/deliveries?per_page=2&cursor=v1_42",
    ]);
    for (const call of stub.seen) expect(call.headers.get("authorization")).toMatch(/^bearer ey/);
  });

  it("ask for a redelivery by the exact id, and do not show the webhook secret", async () => {
    const stub = stubGitHub({
      "POST /app/hook/deliveries/118446744073709551615/attempts": () => json({}, { status: 202 }),
      "GET /app/hook/config": () =>
        json({ url: "https://gate.test", content_type: "form", insecure_ssl: "0", secret: "*****" }),
    });
    const admin = createGitHubAppClient(stubApp(stub));
    expect(await admin.redeliver("118446744073709551615")).toEqual({ ok: true, value: "accepted" });
    expect(await admin.getHookConfig()).toEqual({
      ok: true,
      value: { url: "https://gate.test", contentType: "form", verifiesTls: true, hasSecret: true },
    });
  });

  it("tell a suspended installation", async () => {
    const installation = {
      id: 77,
      app_id: 1234,
      account: { login: "octo", type: "Organization" },
      repository_selection: "selected",
      permissions: { checks: "write" },
      events: ["pull_request"],
      suspended_at: "2026-11-01T00:00:00Z",
    };
    const stub = stubGitHub({ [`GET ${R}/installation`]: () => json(installation) });
    expect(await createGitHubAppClient(stubApp(stub)).getInstallationForRepository("octo", "engine")).toMatchObject({
      ok: true,
      value: { id: "77", accountType: "Organization", suspended: true, permissions: { checks: "write" } },
    });
  });
});
