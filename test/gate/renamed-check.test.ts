/** The required check is given another name in the configuration: open pull requests have their answers under it. */
import { expect, it } from "vitest";
import { CONFIG } from "./life.ts";
import { compare, ended, podsOf, said, sharedLife } from "./shared-heads.ts";

const FILE = ".github/gpu-gate.yml";

it("answers are said again under the new name by the next comparison, once, and nothing is rented for that", async (test) => {
  const world = await sharedLife(test);
  const { repository } = world;
  const code = repository.openPullRequest({ author: "mira", branch: "topic", files: { "src/a.rs": "x" } }).headSha;
  const refused = repository.openPullRequest({ author: "walt", files: { "src/b.rs": "x" } }).headSha;
  await ended(world, code, 1);
  await ended(world, refused, 1);
  repository.commit({ author: "mira", files: { [FILE]: `${CONFIG}check: { name: GPU }\n` } });
  for (let times = 0; times < 2; times += 1) await compare(world);
  await ended(world, code, 2);
  await ended(world, refused, 2);

  const under = (head: string, name: string) =>
    repository.checkRuns(head).flatMap((run) => (run.name === name ? [run.conclusion] : []));
  expect([under(code, "GPU"), under(code, "CI GPU gate")]).toEqual([["success"], ["success"]]);
  expect([under(refused, "GPU"), under(refused, "CI GPU gate")]).toEqual([["action_required"], ["action_required"]]);
  expect(said(world, code)).toEqual(["#1 tests-passed", "#1 given-back"]);
  expect(podsOf(world, code)).toBe(1);
});
