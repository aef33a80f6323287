/** A draft waits until it is ready, which may be never: no other pull request at its commit waits with it. */
import { expect, it, type TestContext } from "vitest";
import { CONFIG } from "./life.ts";
import { at, compare, conclusion, ended, podsOf, said, sharedLife } from "./shared-heads.ts";

const topic = { author: "mira", branch: "topic", files: { "src/a.rs": "x" } };
const life = (test: TestContext) => sharedLife(test, CONFIG);

it.concurrent("one opened at the draft's commit is tested, and the draft is asked about when it is ready", async (test) => {
  const world = await life(test);
  const { repository } = world;
  const draft = repository.openPullRequest({ ...topic, base: "stage", draft: true });
  const { headSha } = draft;
  await world.until(headSha, "the draft's wait", ({ state }) => state.kind === "waiting");
  repository.openPullRequest(at("mira", "main"));
  await ended(world, headSha, 2);
  expect(said(world, headSha)).toEqual(["#1 draft-gave-way", "#2 tests-passed"]);
  expect(conclusion(world, headSha)).toBe("success");
  repository.setDraft(draft.number, false);
  await ended(world, headSha, 3);
  expect(said(world, headSha)[2]).toBe("#1 identical-tree");
  expect(podsOf(world, headSha)).toBe(1);
});

it.concurrent("one opened before anybody knew that the other is a draft does not wait for it either", async (test) => {
  const world = await life(test);
  const { repository } = world;
  const { headSha } = repository.openPullRequest({ ...topic, base: "stage", draft: true });
  repository.openPullRequest(at("mira", "main"));
  await ended(world, headSha, 2);
  expect(said(world, headSha)).toEqual(["#1 draft-gave-way", "#2 tests-passed"]);
});

for (const how of ["heard", "lost"] as const) {
  it.concurrent(`one that was tested keeps its green beside a draft for another base that was ${how}`, async (test) => {
    const world = await life(test);
    const { github, repository } = world;
    const { headSha } = repository.openPullRequest(topic);
    await ended(world, headSha, 1);
    if (how === "lost") github.webhooks.next({ event: "pull_request", action: "opened" }, "vanish");
    repository.openPullRequest({ ...at("mira", "stage"), draft: true });
    await compare(world);
    expect(said(world, headSha)).toEqual(["#1 tests-passed"]);
    expect(conclusion(world, headSha)).toBe("success");
  });
}
