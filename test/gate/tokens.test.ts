/** Tokens by purpose, over a whole life of a pull request: what each may do, and that nothing needs more. */
import { expect, it } from "vitest";
import * as z from "zod";
import { narrowed, purposeOf } from "../../shared/github/purpose.ts";
import { CONFIG, startLife, verdictOf, type Life } from "./life.ts";

const bodySchema = z.object({ repository_ids: z.array(z.number()), permissions: z.record(z.string(), z.string()) });

/** The permissions of every token minted so far, each token once, in the order of their first names. */
function minted(world: Life): readonly (readonly string[])[] {
  const bodies = world.github.books.requests
    .filter((request) => request.operation === "apps/create-installation-access-token")
    .map((request) => bodySchema.parse(request.body));
  expect(bodies.every((body) => body.repository_ids.length === 1 && body.repository_ids[0] === 101)).toBe(true);
  return bodies
    .map((body) => Object.entries(body.permissions).map(([name, level]) => `${name}:${level}`))
    .toSorted((a, b) => (a[0] ?? "").localeCompare(b[0] ?? ""));
}

/** What was refused for want of a permission: the local GitHub holds every token to what it was minted for. */
function refused(world: Life) {
  return world.github.books.requests
    .filter((request) => request.as === "installation" && request.status === 403)
    .map(({ method, path }) => `${method} ${path}`);
}

const READ = ["metadata:read", "contents:read", "pull_requests:read", "actions:read", "checks:read"];

it.concurrent("a life needs five tokens, each for this repository and for one purpose", async (test) => {
  const world = await startLife();
  test.onTestFinished(() => world.close());
  const head = world.openCode("matmul");
  expect(verdictOf(await world.concluded(head))).toMatchObject({ kind: "passed" });
  expect(minted(world)).toEqual([
    ["actions:write"],
    ["administration:read"],
    ["administration:write"],
    ["checks:write"],
    READ,
  ]);
  expect(refused(world)).toEqual([]);
});

it.concurrent("with an organisation's runners no token reaches a repository's administration, and the App need not hold it", async (test) => {
  const config = `${CONFIG}runner:\n  scope: organization\n  group_id: "1"\n`;
  const world = await startLife({ config, organization: true });
  test.onTestFinished(() => world.close());
  world.github.installation("acme").withhold("administration");
  const head = world.openCode("matmul");
  expect(verdictOf(await world.concluded(head))).toMatchObject({ kind: "passed" });
  expect(minted(world)).toEqual([
    ["actions:write"],
    ["checks:write"],
    READ,
    ["organization_self_hosted_runners:read"],
    ["organization_self_hosted_runners:write"],
  ]);
  expect(refused(world)).toEqual([]);
  const made = world.github.books.requests.filter((request) => request.path.endsWith("/generate-jitconfig"));
  expect(made.map((request) => [request.path, request.status])).toEqual([
    ["/orgs/acme/actions/runners/generate-jitconfig", 201],
  ]);
});

it.each([
  ["GET", "/repos/a/b", "read"],
  ["GET", "/repos/a/b/commits/abc/check-runs?filter=all", "read"],
  ["GET", "/repos/a/b/actions/runs/1/attempts/1/jobs", "read"],
  ["GET", "/repos/a/b/actions/variables/LANE", "variables"],
  ["POST", "/repos/a/b/check-runs", "checks"],
  ["PATCH", "/repos/a/b/check-runs/7", "checks"],
  ["POST", "/repos/a/b/actions/workflows/x.yml/dispatches", "actions"],
  ["POST", "/repos/a/b/actions/runs/7/cancel", "actions"],
  ["GET", "/repos/a/b/actions/runners?name=x", "repository-runners-read"],
  ["GET", "/repos/a/b/actions/runners/7", "repository-runners-read"],
  ["POST", "/repos/a/b/actions/runners/generate-jitconfig", "repository-runners"],
  ["DELETE", "/repos/a/b/actions/runners/7", "repository-runners"],
  ["GET", "/orgs/a/actions/runners?name=x", "organization-runners-read"],
  ["GET", "/orgs/a/actions/runner-groups/2", "organization-runners-read"],
  ["POST", "/orgs/a/actions/runners/generate-jitconfig", "organization-runners"],
  ["DELETE", "/orgs/a/actions/runners/7", "organization-runners"],
  ["GET", "/repos/a/b/commits/abc/status", "statuses"],
  ["GET", "/repos/a/b/branches/release/1/protection/required_status_checks", "settings"],
  ["GET", "/repos/a/b/branches/release/1", "read"],
  ["GET", "/repos/a/b/git/matching-refs/heads/gh-readonly-queue/", "read"],
  // What nobody thought of may only read, and so fails.
  ["POST", "/repos/a/b/git/refs", "read"],
  ["PATCH", "/repos/a/b", "read"],
  ["DELETE", "/repos/actions/runners", "read"],
] as const)("%s %s is done with the token to %s", (method, path, purpose) => {
  expect(purposeOf({ method, path })).toBe(purpose);
});

it("a token for one repository names it by its id; an id no number holds gets none for the others", () => {
  const scope = { installationId: "77", purpose: "checks" } as const;
  expect(narrowed({ ...scope, repositoryId: "101" })).toEqual({
    repository_ids: [101],
    permissions: { checks: "write" },
  });
  expect(narrowed({ ...scope, repositoryId: "9007199254740993" })).toEqual({
    repository_ids: [0],
    permissions: { checks: "write" },
  });
});
