/** Tokens by purpose, over a whole life of a pull request: what each may do, and that nothing needs more. */
import { expect, it } from "vitest";
import * as z from "zod";
import { narrowed, purposeOf } from "../../shared/github/purpose.ts";
import { startLife, verdictOf } from "./life.ts";

const bodySchema = z.object({ repository_ids: z.array(z.number()), permissions: z.record(z.string(), z.string()) });

it("a life needs four tokens, each for this repository and for one purpose", async (test) => {
  const world = await startLife();
  test.onTestFinished(() => world.close());
  const head = world.openCode("matmul");
  expect(verdictOf(await world.concluded(head))).toMatchObject({ kind: "passed" });
  const minted = world.github.books.requests
    .filter((request) => request.operation === "apps/create-installation-access-token")
    .map((request) => bodySchema.parse(request.body));
  expect(minted.every((body) => body.repository_ids.length === 1 && body.repository_ids[0] === 101)).toBe(true);
  expect(
    minted
      .map((body) => Object.entries(body.permissions).map(([name, level]) => `${name}:${level}`))
      .toSorted((a, b) => (a[0] ?? "").localeCompare(b[0] ?? "")),
  ).toEqual([
    ["actions:write"],
    ["administration:write"],
    ["checks:write"],
    ["metadata:read", "contents:read", "pull_requests:read", "actions:read", "checks:read"],
  ]);
  // The local GitHub holds every token to what it was minted for: nothing was refused for want of a permission.
  const refused = world.github.books.requests.filter(
    (request) => request.as === "installation" && request.status === 403,
  );
  expect(refused).toEqual([]);
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
  ["GET", "/repos/a/b/actions/runners?name=x", "repository-runners"],
  ["POST", "/repos/a/b/actions/runners/generate-jitconfig", "repository-runners"],
  ["DELETE", "/orgs/a/actions/runners/7", "organization-runners"],
  // What nobody thought of may only read, and so fails.
  ["POST", "/repos/a/b/git/refs", "read"],
  ["PATCH", "/repos/a/b", "read"],
  ["DELETE", "/repos/actions/runners", "read"],
] as const)("%s %s is done with the token to %s", (method, path, purpose) => {
  expect(purposeOf({ method, path })).toBe(purpose);
});

it("a token for one repository names it by its id; an id no number holds narrows by purpose alone", () => {
  const scope = { installationId: "77", purpose: "checks" } as const;
  expect(narrowed({ ...scope, repositoryId: "101" })).toEqual({
    repository_ids: [101],
    permissions: { checks: "write" },
  });
  expect(narrowed({ ...scope, repositoryId: "9007199254740993" })).toEqual({ permissions: { checks: "write" } });
});
