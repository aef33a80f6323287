/** Shadow mode is turned off: what was said in shadow stands under another name, and is no answer to anybody any more. */
import { expect, it } from "vitest";
import { CONFIG, verdictOf } from "./life.ts";
import { at, compare, ended, eventually, sharedLife } from "./shared-heads.ts";

const BASE = `${CONFIG}pre_gate: []\n`;

it("the required check of an open pull request appears with the next comparison, and a second one's at the commit is tested", async (test) => {
  const world = await sharedLife(test, `${BASE}shadow: true\n`);
  const docs = world.repository.openPullRequest({ author: "mira", files: { "README.md": "# more\n" } }).headSha;
  const code = world.repository.openPullRequest({ author: "mira", branch: "topic", files: { "src/a.rs": "x" } });
  await ended(world, docs, 1);
  expect(verdictOf(await ended(world, code.headSha, 1))).toMatchObject({ reason: "shadow-mode" });
  world.repository.close(code.number);
  await compare(world);
  expect(world.gate.store.requestsOfHead(docs, "pull-request")).toHaveLength(1);

  world.repository.commit({ files: { ".github/gpu-gate.yml": BASE } });
  await compare(world);
  const again = await ended(world, docs, 2);
  expect(verdictOf(again)).toMatchObject({ reason: "docs-only" });
  // By the webhook that was heard in shadow.
  expect(again.openedBy.actor).toMatchObject({ login: "mira" });
  const checks = world.repository.checkRuns(docs).map((run) => [run.name, run.conclusion]);
  expect(checks.filter(([name]) => name?.startsWith("CI GPU gate"))).toEqual([
    ["CI GPU gate (shadow)", "success"],
    ["CI GPU gate", "success"],
  ]);
  world.repository.openPullRequest(at("mira", "main"));
  expect(verdictOf(await ended(world, code.headSha, 2))).toMatchObject({ kind: "passed" });
});

it("the check of a merge group that still waits in the queue appears as well, once", async (test) => {
  const world = await sharedLife(test, `${BASE}shadow: true\n`);
  const { gate, repository } = world;
  const { number, headSha } = repository.openPullRequest({ author: "mira", files: { "README.md": "# more\n" } });
  const other = repository.openPullRequest({ author: "mira", branch: "other", files: { "README.md": "# other\n" } });
  await ended(world, headSha, 1);
  await ended(world, other.headSha, 1);
  const group = repository.mergeGroup([number]);
  const gone = repository.mergeGroup([other.number]);
  const said = (sha: string) => gate.store.requestsOfHead(sha, "merge-group").map(({ state }) => state.kind);
  const conclusions = (sha: string) =>
    repository.checkRuns(sha).flatMap((run) => (run.name === "CI GPU gate" ? [run.conclusion] : []));
  await eventually("what is said in shadow", () =>
    [group, gone].every((one) => String(said(one.headSha)) === "concluded"),
  );
  repository.destroyMergeGroup(gone.headRef, "dequeued");
  await compare(world);
  expect(said(group.headSha)).toEqual(["concluded"]);

  repository.commit({ files: { ".github/gpu-gate.yml": BASE } });
  await compare(world);
  await eventually("the group's check", () => String(conclusions(group.headSha)) === "success");
  await compare(world);
  expect(said(group.headSha)).toEqual(["concluded", "concluded"]);
  expect(said(gone.headSha)).toEqual(["concluded"]);
});
