/** Every served route is asked once and answers as GitHub describes it, in npm's description and in the project's own cut. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { servedRoutes } from "../../local/github/index.ts";
import { at, listOf, openBench } from "./harness.ts";
import type { Bench } from "./harness.ts";
import { Contract, npmContract, subsetDocument, subsetPresent } from "./openapi.ts";

const described = servedRoutes.filter((route) => route.operation !== "(download)");

interface Seen {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly body: unknown;
}

let bench: Bench;
const seen: Seen[] = [];

beforeAll(async () => {
  bench = await openBench();
  const { github, repo } = bench;
  github.setWorkflowScript(".github/workflows/ci.yml", {
    name: "CI",
    on: ["pull_request", "workflow_dispatch"],
    plan: () => ({
      jobs: [
        {
          name: "tests",
          steps: [{ name: "Test" }],
          annotations: [{ message: "1" }],
          artifacts: [{ name: "a" }, { name: "b" }],
        },
      ],
    }),
  });
  github.setWorkflowScript(".github/workflows/execute.yml", {
    name: "Execute",
    on: ["workflow_dispatch"],
    plan: () => ({ jobs: [{ name: "gpu", runsOn: ["nobody"], steps: [{ name: "Test" }] }] }),
  });
  github.createRepository({ owner: "hermit", name: "cave" });
  repo.setVariable("GPU", "on");
  repo.addCollaborator("grace", "maintain");
  const pull = repo.openPullRequest({
    author: "ada",
    files: { "src/lib.rs": "fn x() {}\n", "b.md": "b\n" },
    title: "Change",
  });
  repo.addLabel(pull.number, "gpu", "grace");
  const comment = repo.comment(pull.number, "/gpu", "grace");
  const ended = await bench.hook("workflow_run", "completed");
  const run = String(at(ended.payload, "workflow_run", "id"));
  await github.webhooks.settled();
  const R = "/repos/octo/lab";

  const ask = async (method: string, path: string, body?: unknown, asApp = false): Promise<unknown> => {
    const reply = await (asApp ? bench.app(method, path, body) : bench.call(method, path, body));
    seen.push({ method, path: path.split("?")[0] ?? path, status: reply.status, body: reply.body });
    return reply.body;
  };
  const asApp = (method: string, path: string, body?: unknown): Promise<unknown> => ask(method, path, body, true);

  await asApp("GET", "/app");
  await asApp("GET", "/app/hook/config");
  await asApp("PATCH", "/app/hook/config", { content_type: "json" });
  const [delivery] = listOf(await asApp("GET", "/app/hook/deliveries"));
  await asApp("GET", `/app/hook/deliveries/${String(delivery?.["id"])}`);
  await asApp("POST", `/app/hook/deliveries/${String(delivery?.["id"])}/attempts`);
  const [installation] = listOf(await asApp("GET", "/app/installations"));
  await asApp("GET", `/app/installations/${String(installation?.["id"])}`);
  await asApp("POST", `/app/installations/${String(installation?.["id"])}/access_tokens`, {
    repository_ids: [repo.id],
    permissions: { checks: "write" },
  });
  await asApp("GET", `${R}/installation`);
  await asApp("GET", "/orgs/octo/installation");
  await asApp("GET", "/users/hermit/installation");
  await ask("GET", "/installation/repositories");
  await ask("GET", "/rate_limit");
  await ask("GET", "/meta");

  await ask("GET", R);
  await ask("GET", `${R}/collaborators/grace/permission`);
  await ask("GET", `${R}/actions/variables`);
  await ask("GET", `${R}/actions/variables/GPU`);
  repo.setBranchRules("main", [
    {
      type: "required_status_checks",
      ruleset_source_type: "Repository",
      ruleset_source: "octo/lab",
      ruleset_id: 1,
      parameters: {
        strict_required_status_checks_policy: false,
        required_status_checks: [{ context: "CI GPU gate", integration_id: 1234 }],
      },
    },
  ]);
  await ask("GET", `${R}/rules/branches/main`);
  repo.protectBranch("main", [{ context: "CI GPU gate", appId: null }]);
  await ask("GET", `${R}/branches/main/protection/required_status_checks`);
  repo.publishRelease("v1.0.0");
  await ask("GET", `${R}/releases`);
  await ask("POST", `${R}/statuses/${pull.headSha}`, { state: "success", context: "x" });
  await ask("GET", `${R}/commits/${pull.headSha}/status`);

  await ask("GET", `${R}/contents`);
  await ask("GET", `${R}/contents/README.md`);
  const commit = await ask("GET", `${R}/git/commits/${repo.sha()}`);
  const tree = await ask("GET", `${R}/git/trees/${String(at(commit, "tree", "sha"))}?recursive=1`);
  const blob = listOf(tree, "tree").find((entry) => entry["type"] === "blob");
  await ask("GET", `${R}/git/blobs/${String(blob?.["sha"])}`);
  await ask("GET", `${R}/git/ref/heads/main`);
  await ask("GET", `${R}/git/matching-refs/heads/ma`);
  await ask("GET", `${R}/commits/${pull.headSha}`);
  await ask("GET", `${R}/commits/${pull.headSha}/pulls`);
  await ask("GET", `${R}/compare/main...${pull.headSha}`);
  await ask("GET", `${R}/branches/main`);

  await ask("GET", `${R}/pulls`);
  await ask("GET", `${R}/pulls/${pull.number}`);
  for (const part of ["files", "commits", "reviews"]) await ask("GET", `${R}/pulls/${pull.number}/${part}`);
  await ask("GET", `${R}/issues/${pull.number}/comments`);
  const mine = await ask("POST", `${R}/issues/${pull.number}/comments`, { body: "hello" });
  await ask("PATCH", `${R}/issues/comments/${String(at(mine, "id"))}`, { body: "better" });
  await ask("POST", `${R}/issues/comments/${comment}/reactions`, { content: "eyes" });
  await ask("GET", `${R}/issues/${pull.number}/labels`);
  await ask("POST", `${R}/issues/${pull.number}/labels`, { labels: ["more"] });
  await ask("DELETE", `${R}/issues/${pull.number}/labels/more`);

  const check = await ask("POST", `${R}/check-runs`, {
    name: "CI GPU gate",
    head_sha: pull.headSha,
    output: { title: "t", summary: "s" },
  });
  const checkId = String(at(check, "id"));
  await ask("GET", `${R}/check-runs/${checkId}`);
  await ask("PATCH", `${R}/check-runs/${checkId}`, { conclusion: "failure" });
  await ask("GET", `${R}/check-runs/${checkId}/annotations`);
  await ask("POST", `${R}/check-runs/${checkId}/rerequest`);
  const suite = await ask("POST", `${R}/check-suites`, { head_sha: repo.sha() });
  await ask("GET", `${R}/check-suites/${String(at(suite, "id"))}`);
  await ask("GET", `${R}/check-suites/${String(at(suite, "id"))}/check-runs`);
  await ask("POST", `${R}/check-suites/${String(at(suite, "id"))}/rerequest`);
  await ask("GET", `${R}/commits/${pull.headSha}/check-runs`);
  await ask("GET", `${R}/commits/${pull.headSha}/check-suites`);

  const A = `${R}/actions`;
  await ask("GET", `${A}/workflows`);
  await ask("GET", `${A}/workflows/ci.yml`);
  const dispatched = await ask("POST", `${A}/workflows/execute.yml/dispatches`, { ref: "main" });
  const waiting = String(at(dispatched, "workflow_run_id"));
  await ask("GET", `${A}/workflows/ci.yml/runs`);
  await ask("GET", `${A}/runs`);
  await ask("GET", `${A}/runs/${run}`);
  await ask("GET", `${A}/runs/${run}/attempts/1`);
  const jobs = await ask("GET", `${A}/runs/${run}/attempts/1/jobs`);
  await ask("GET", `${A}/runs/${run}/jobs`);
  const job = String(listOf(jobs, "jobs")[0]?.["id"]);
  await ask("GET", `${A}/jobs/${job}`);
  await ask("GET", `${A}/jobs/${job}/logs`);
  const artifacts = await ask("GET", `${A}/runs/${run}/artifacts`);
  await ask("GET", `${A}/artifacts`);
  const artifact = String(listOf(artifacts, "artifacts")[0]?.["id"]);
  await ask("GET", `${A}/artifacts/${artifact}`);
  await ask("GET", `${A}/artifacts/${artifact}/zip`);
  await ask("DELETE", `${A}/artifacts/${artifact}`);
  await ask("POST", `${A}/runs/${run}/rerun`);
  await ask("POST", `${A}/runs/${waiting}/cancel`);
  // A run of its own: the first may have ended by its cancel by now.
  const doomed = String(
    at(await ask("POST", `${A}/workflows/execute.yml/dispatches`, { ref: "main" }), "workflow_run_id"),
  );
  await ask("POST", `${A}/runs/${doomed}/force-cancel`);
  repo.setForkApproval(true);
  const fork = repo.openPullRequest({ author: "mallory", fork: true, files: { "c.md": "c\n" } });
  const held = await bench.hook(
    "workflow_run",
    "requested",
    (payload) => at(payload, "workflow_run", "head_sha") === fork.headSha,
  );
  await ask("POST", `${A}/runs/${String(at(held.payload, "workflow_run", "id"))}/approve`);

  for (const scope of [A, "/orgs/octo/actions"]) {
    const made = await ask("POST", `${scope}/runners/generate-jitconfig`, {
      name: "r",
      runner_group_id: 1,
      labels: ["x"],
    });
    const id = String(at(made, "runner", "id"));
    await ask("GET", `${scope}/runners`);
    await ask("GET", `${scope}/runners/downloads`);
    await ask("GET", `${scope}/runners/${id}`);
    await ask("GET", `${scope}/runners/${id}/labels`);
    await ask("DELETE", `${scope}/runners/${id}`);
  }
  const groups = "/orgs/octo/actions/runner-groups";
  await ask("GET", groups);
  const group = await ask("POST", groups, { name: "gpu", visibility: "selected", selected_repository_ids: [repo.id] });
  await ask("GET", `${groups}/${String(at(group, "id"))}`);
  await ask("PATCH", `${groups}/${String(at(group, "id"))}`, {
    restricted_to_workflows: true,
    selected_workflows: ["octo/lab/x.yml@main"],
  });
  await ask("GET", `${groups}/${String(at(group, "id"))}/repositories`);
  await ask("DELETE", "/installation/token");
});
afterAll(() => bench.close());

describe("every served route", () => {
  it("exists in GitHub's description under the operation it is booked as", () => {
    const strangers = described
      .filter((route) => !npmContract().has(route.method, route.path))
      .map((route) => `${route.method} ${route.path}`);
    // Listing the root folder is the same operation with an empty path.
    expect(strangers).toEqual(["GET /repos/{owner}/{repo}/contents"]);
  });

  it("was asked here and answered with success, in the form GitHub describes", () => {
    const answered = new Set(
      bench.github.books.requests
        .filter((one) => one.status !== "dropped" && one.status < 400)
        .map((one) => one.operation),
    );
    expect(described.map((route) => route.operation).filter((operation) => !answered.has(operation))).toEqual([]);
    expect(seen.filter((one) => one.status >= 400)).toEqual([]);
  });

  it.skipIf(!subsetPresent)(
    "also fits the project's own cut of the description (skipped where ../shared is absent)",
    () => {
      const subset = new Contract(subsetDocument);
      const problems = seen.map((one) => subset.problems(one.method, one.path, one.status, one.body));
      expect(problems.flatMap((found) => found ?? [])).toEqual([]);
      expect(problems.filter((found) => found !== null).length).toBeGreaterThan(70);
    },
  );

  it("would be refused by this check if a required field were missing", () => {
    const run = seen.find((one) => /\/actions\/runs\/\d+$/.test(one.path));
    const complete = run?.body as Record<string, unknown> | undefined;
    const rest = { ...complete, head_sha: undefined };
    expect(npmContract().problems("GET", run?.path ?? "", 200, complete)).toEqual([]);
    expect(npmContract().problems("GET", run?.path ?? "", 200, rest)).not.toEqual([]);
  });
});
