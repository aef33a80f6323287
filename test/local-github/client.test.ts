/** The product's own GitHub client and webhook parser against the local GitHub: they must understand all it says. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createGitHubApp } from "../../shared/github/app.ts";
import { createGitHubAppClient } from "../../shared/github/app-client.ts";
import { createGitHubClient } from "../../shared/github/client.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import { parseWebhook } from "../../shared/github/webhook.ts";
import type { Result } from "../../shared/result.ts";
import { systemClock } from "../../shared/ports.ts";
import { at, openBench } from "./harness.ts";
import type { Bench } from "./harness.ts";

let bench: Bench;
let client: GitHubClient;
let asApp: ReturnType<typeof createGitHubAppClient>;

beforeAll(async () => {
  bench = await openBench();
  bench.github.setWorkflowScript(".github/workflows/ci.yml", {
    name: "CI",
    on: ["pull_request"],
    plan: () => ({
      jobs: [{ name: "clippy", steps: [{ name: "Lint" }], annotations: [{ title: "count", message: "3" }] }],
    }),
  });
  bench.github.setWorkflowScript(".github/workflows/execute.yml", {
    name: "Execute",
    on: ["workflow_dispatch"],
    runName: (context) => `execute ${context.inputs["request"] ?? ""}`,
    plan: () => ({ jobs: [{ name: "gpu", steps: [{ name: "Test", durationMs: 60_000 }] }] }),
  });
  const app = value(
    createGitHubApp(
      { appId: bench.github.appId, privateKey: bench.github.privateKeyPem, apiUrl: bench.github.url },
      { fetch: (input, init) => fetch(input, init), clock: systemClock },
    ),
  );
  asApp = createGitHubAppClient(app);
  const repository = { id: String(bench.repo.id), owner: "octo", name: "lab", installationId: null };
  client = createGitHubClient({ app, repository, runners: { kind: "organization", org: "octo", groupId: "1" } });
});
afterAll(() => bench.close());

function value<T, E>(result: Result<T, E>): T {
  if (!result.ok) throw new Error(`refused: ${JSON.stringify(result.error)}`);
  return result.value;
}

describe("the product's client", () => {
  it("reads the App, its installation and its webhook settings", async () => {
    expect(value(await asApp.getApp()).id).toBe(bench.github.appId);
    expect(value(await asApp.getInstallationForRepository("octo", "lab")).id).toBe(
      String(bench.github.installation("octo").id),
    );
    expect(value(await asApp.getHookConfig())).toMatchObject({ contentType: "json", hasSecret: true });
  });

  it("reads the repository's files, trees, commits and refs", async () => {
    const head = value(await client.getBranchHead("main"));
    expect(head).toBe(bench.repo.sha());
    expect(value(await client.getFile("README.md", head)).text).toBe("# lab\n");
    const tree = value(await client.getTree(value(await client.getCommit(head)).treeSha, { recursive: true }));
    expect([tree.truncated, tree.entries.some((entry) => entry.path === "src/lib.rs")]).toEqual([false, true]);
    expect(await client.getFile("absent", head)).toMatchObject({ ok: false, error: { reason: "not-found" } });
    expect(value(await client.getRef("pull/999/merge"))).toBe(null);
  });

  it("reads a pull request from every side", async () => {
    const opened = bench.repo.openPullRequest({ author: "ada", branch: "topic", files: { "src/new.rs": "x\n" } });
    await bench.hook(
      "workflow_run",
      "completed",
      (payload) => at(payload, "workflow_run", "head_sha") === opened.headSha,
    );
    const pull = value(await client.getPull(opened.number));
    expect([pull.headSha, pull.baseSha, pull.headRepositoryId]).toEqual([
      opened.headSha,
      bench.repo.sha(),
      String(bench.repo.id),
    ]);
    expect(value(await client.listPullFiles(opened.number))).toMatchObject({ complete: true });
    expect(value(await client.listOpenPullsByHead("octo:topic")).items.map((one) => one.number)).toEqual([
      opened.number,
    ]);
    expect(value(await client.listPullsForCommit(opened.headSha)).items.map((one) => one.number)).toEqual([
      opened.number,
    ]);
    expect(value(await client.getRef(`pull/${opened.number}/merge`))).toBe(bench.repo.mergeSha(opened.number));
    expect(value(await client.compareFiles("main", opened.headSha)).files.length).toBe(1);
    bench.repo.addCollaborator("grace", "maintain", 77);
    expect(value(await client.getRole("grace"))).toMatchObject({
      userId: "77",
      roleName: "maintain",
      permission: "write",
    });
  });

  it("publishes a check and reads those of others, with a job's annotations", async () => {
    const { headSha } = bench.repo.openPullRequest({ author: "ada", files: { "src/other.rs": "x\n" } });
    const run = await bench.hook(
      "workflow_run",
      "completed",
      (payload) => at(payload, "workflow_run", "head_sha") === headSha,
    );
    const made = value(
      await client.createCheckRun({ name: "CI GPU gate", headSha, state: { status: "queued" }, externalId: "r1" }),
    );
    const checks = value(await client.listCheckRunsForRef(headSha, { filter: "latest" })).items;
    expect(checks.map((check) => check.name).sort()).toEqual(["CI GPU gate", "clippy"]);
    expect(checks.find((check) => check.id === made.id)?.externalId).toBe("r1");
    const [job] = value(await client.listJobs(String(at(run.payload, "workflow_run", "id")), 1)).items;
    expect(value(await client.getCheckRunAnnotations(job?.checkRunId ?? "")).items).toMatchObject([
      { title: "count", message: "3" },
    ]);
  });

  it("dispatches a run, finds it by its name, reads its jobs and cancels it", async () => {
    const since = Date.now() - 60_000;
    const { runId } = value(await client.dispatchWorkflow("execute.yml", "main", { request: "r-9" }));
    expect(value(await client.findRunsByName("execute.yml", "execute r-9", since)).items.map((run) => run.id)).toEqual([
      runId,
    ]);
    await bench.hook("workflow_job", "in_progress", (payload) => at(payload, "workflow_job", "name") === "gpu");
    expect(value(await client.cancelRun(runId ?? ""))).toBe("accepted");
    await bench.hook("workflow_run", "completed", (payload) => String(at(payload, "workflow_run", "id")) === runId);
    expect([value(await client.getRun(runId ?? "")).conclusion, value(await client.cancelRun(runId ?? ""))]).toEqual([
      "cancelled",
      "not-cancellable",
    ]);
  });

  it("mints a runner, finds it, and deletes it", async () => {
    const jit = value(await client.createJitRunner({ name: "pod-1", labels: ["self-hosted", "fresh"] }));
    expect(await client.createJitRunner({ name: "pod-1", labels: ["x"] })).toMatchObject({
      ok: false,
      error: { reason: "conflict" },
    });
    expect(value(await client.findRunnerByName("pod-1"))).toMatchObject({
      id: jit.runnerId,
      status: "offline",
      busy: false,
    });
    expect([value(await client.deleteRunner(jit.runnerId)), value(await client.deleteRunner(jit.runnerId))]).toEqual([
      "deleted",
      "gone",
    ]);
  });

  it("reads a variable", async () => {
    bench.repo.setVariable("gpu_mode", "on");
    expect(value(await client.getRepositoryVariable("GPU_MODE"))).toBe("on");
  });
});

describe("the product's webhook parser", () => {
  it("reads every event it acts on out of what the local GitHub sends", async () => {
    const { repo, github } = bench;
    const { number, headSha } = repo.openPullRequest({ author: "ada", files: { "src/third.rs": "x\n" } });
    await bench.hook("workflow_run", "completed", (payload) => at(payload, "workflow_run", "head_sha") === headSha);
    repo.push(number, { files: { "src/third.rs": "y\n" } });
    repo.setDraft(number, true);
    repo.addLabel(number, "gpu", "grace");
    repo.comment(number, "/gpu", "grace");
    const check = value(
      await client.createCheckRun({
        name: "CI GPU gate",
        headSha,
        state: { status: "completed", conclusion: "failure" },
      }),
    );
    repo.rerequestCheck(Number(check.id), "grace");
    repo.rerequestSuite(headSha, "grace");
    repo.mergeGroup([number]);
    repo.close(number);
    github.installation("octo").suspend();
    github.installation("octo").unsuspend();
    await github.webhooks.settled();
    const parsed = bench.hooks.map((hook) => ({
      hook,
      result: parseWebhook({ event: hook.event, guid: hook.guid, text: hook.raw.toString("utf8") }),
    }));
    expect(
      parsed.filter(({ result }) => !result.ok).map(({ hook, result }) => [hook.event, hook.action, result]),
    ).toEqual([]);
    const kinds = parsed.flatMap(({ result }) =>
      result.ok && "deliveries" in result.value ? result.value.deliveries.map((one) => one.signal.kind) : [],
    );
    expect([...new Set(kinds)].sort()).toEqual([
      "check-run",
      "check-suite",
      "comment",
      "merge-group",
      "pull-request",
      "workflow-job",
      "workflow-run",
    ]);
  });
});
