/** Each purpose's token against what GitHub asks of the calls that are made with it: all of it, and nothing else. */
import { expect, it } from "vitest";
import { servedRoutes } from "../../local/github/index.ts";
import type { GitHubCall } from "../../shared/github/call.ts";
import { createGitHubClient, type GitHubClient } from "../../shared/github/client.ts";
import { PERMISSIONS, purposeOf, type Purpose } from "../../shared/github/purpose.ts";
import { err } from "../../shared/result.ts";

const SHA = "a".repeat(40);
type Asked = Pick<GitHubCall, "method" | "path">;

/** What the client asks, method by method. `read` takes any path: its callers' paths are in BESIDE. */
/** Besides what every repository's client asks with a token: a plain read, and who the client is, which the App asks as itself. */
const NO_TOKENS = ["repository", "read", "getOwnLogin"] as const;
type Untold = (typeof NO_TOKENS)[number];

const CALLS: Readonly<Record<Exclude<keyof GitHubClient, Untold>, (client: GitHubClient) => unknown>> = {
  getRepository: (client) => client.getRepository(),
  getBranchHead: (client) => client.getBranchHead("release/1"),
  getFile: (client) => client.getFile(".github/gpu-gate.yml", SHA),
  getTree: (client) => client.getTree(SHA, { recursive: true }),
  getCommit: (client) => client.getCommit(SHA),
  getRef: (client) => client.getRef("pull/7/merge"),
  listRefs: (client) => client.listRefs("heads/gh-readonly-queue/"),
  getQueueTimeout: (client) => client.getQueueTimeout("main"),
  getPull: (client) => client.getPull(7),
  listPullFiles: (client) => client.listPullFiles(7),
  listOpenPullsByHead: (client) => client.listOpenPullsByHead("acme:b"),
  listOpenPulls: (client) => client.listOpenPulls(),
  listPullsForCommit: (client) => client.listPullsForCommit(SHA),
  compareFiles: (client) => client.compareFiles(SHA, SHA),
  listCommitsBetween: (client) => client.listCommitsBetween(SHA, SHA),
  getRole: (client) => client.getRole("mira"),
  createCheckRun: (client) => client.createCheckRun({ name: "n", headSha: SHA, state: { status: "queued" } }),
  updateCheckRun: (client) => client.updateCheckRun("7", {}),
  listCheckRunsForRef: (client) => client.listCheckRunsForRef(SHA, { filter: "latest" }),
  getCheckRunAnnotations: (client) => client.getCheckRunAnnotations("7"),
  getWorkflow: (client) => client.getWorkflow("x.yml"),
  dispatchWorkflow: (client) => client.dispatchWorkflow("x.yml", "main", {}),
  findRunsByName: (client) => client.findRunsByName("x.yml", "n", 0),
  getRun: (client) => client.getRun("7"),
  getRunAttempt: (client) => client.getRunAttempt("7", 1),
  listRuns: (client) => client.listRuns({ event: "merge_group" }),
  listJobs: (client) => client.listJobs("7", 1),
  listArtifacts: (client) => client.listArtifacts("7"),
  cancelRun: (client) => client.cancelRun("7"),
  getRepositoryVariable: (client) => client.getRepositoryVariable("LANE"),
  createJitRunner: (client) => client.createJitRunner({ name: "n", labels: ["l"] }),
  getRunner: (client) => client.getRunner("7"),
  listRunners: (client) => client.listRunners(),
  findRunnerByName: (client) => client.findRunnerByName("n"),
  deleteRunner: (client) => client.deleteRunner("7"),
};

/** Asked past the client: by the lanes' probe and the doctor for a repository, and for an installation as a whole. */
const BESIDE: readonly Asked[] = [
  { method: "GET", path: "/repos/acme/tensors/actions/variables/LANE" },
  { method: "GET", path: "/repos/acme/tensors/actions/runners" },
  { method: "GET", path: "/orgs/acme/actions/runners" },
  { method: "GET", path: "/orgs/acme/actions/runner-groups/2" },
  { method: "GET", path: "/repos/acme/tensors/rules/branches/main" },
  { method: "GET", path: "/repos/acme/tensors/branches/main/protection/required_status_checks" },
  { method: "GET", path: `/repos/acme/tensors/commits/${SHA}/status` },
];

async function everyCall(): Promise<readonly Asked[]> {
  const asked: Asked[] = [...BESIDE];
  const repository = { id: "101", owner: "acme", name: "tensors", installationId: "7" };
  const app = {
    asRepository: (_: unknown, call: GitHubCall) => {
      asked.push({ method: call.method, path: call.path.split("?")[0] ?? "" });
      return Promise.resolve(err({ reason: "not-found" } as const));
    },
  };
  for (const runners of [{ kind: "repository" }, { kind: "organization", org: "acme", groupId: "2" }] as const) {
    const client = createGitHubClient({ app, repository, runners });
    for (const call of Object.values(CALLS)) await call(client);
  }
  return asked;
}

/** What GitHub asks of a call, such as `contents=read`; the local GitHub's routes say it, each from GitHub's documentation. */
function needOf({ method, path }: Asked): string {
  const route = servedRoutes.find((one) => {
    const pattern = one.path
      .replaceAll(/\{(?:path|ref|branch|basehead|tree_sha)\}/g, ".+")
      .replaceAll(/\{\w+\}/g, "[^/]+");
    return one.method === method && new RegExp(`^${pattern}$`).test(path);
  });
  const [need, ...others] = route?.permission ?? [];
  if (need === undefined || others.length > 0) throw new Error(`no one permission is known for ${method} ${path}`);
  return need;
}

it("each purpose's token has what its calls need, at no higher level, and no permission that none of them needs", async () => {
  const needs: Record<string, Set<string>> = { repositories: new Set(["metadata=read"]) };
  for (const call of await everyCall()) (needs[purposeOf(call)] ??= new Set()).add(needOf(call));
  const granted = (purpose: Purpose) => Object.entries(PERMISSIONS[purpose]).map(([name, level]) => `${name}=${level}`);
  const purposes = Object.keys(PERMISSIONS) as Purpose[];
  expect(Object.fromEntries(Object.entries(needs).map(([purpose, set]) => [purpose, [...set].toSorted()]))).toEqual(
    Object.fromEntries(purposes.map((purpose) => [purpose, granted(purpose).toSorted()])),
  );
});

it("the table above knows every method of the client", async () => {
  const app = { asRepository: () => Promise.resolve(err({ reason: "not-found" } as const)) };
  const repository = { id: "101", owner: "acme", name: "tensors", installationId: "7" };
  const client = createGitHubClient({ app, repository, runners: { kind: "repository" } });
  const methods = Object.keys(client).filter((name) => !NO_TOKENS.some((none) => none === name));
  expect(Object.keys(CALLS).toSorted()).toEqual(methods.toSorted());
});
