/** What a comparison with GitHub, or the end of a request, opens for a pull request: by what is so at that moment. */
import { expect, it } from "vitest";
import type { FetchLike } from "../../shared/ports.ts";
import { at, compare, ended, said, sharedLife, UNTRIGGERED } from "./shared-heads.ts";

const draft = { author: "mira", branch: "topic", files: { "src/a.rs": "x" }, draft: true };

it("a pull request that is closed while the comparison reads the configuration is not asked about again", async (test) => {
  const started: { during: (() => Promise<void>) | null } = { during: null };
  const world = await sharedLife(test, UNTRIGGERED, (next: FetchLike): FetchLike => async (input, init) => {
    const answer = await next(input, init);
    const meanwhile = /gpu-gate\.yml/.test(input) ? started.during : null;
    started.during = meanwhile === null ? started.during : null;
    await meanwhile?.();
    return answer;
  });
  const { headSha, number } = world.repository.openPullRequest(draft);
  await world.until(headSha, "the draft's wait", (one) => one.state.kind === "waiting");
  started.during = async () => {
    world.repository.close(number);
    await ended(world, headSha, 1);
  };
  await compare(world);
  expect(started.during).toBeNull();
  expect(said(world, headSha)).toEqual(["#1 closed"]);
});

it("a pull request that waited for another's answer is asked about with the base that it was told with", async (test) => {
  const world = await sharedLife(test, UNTRIGGERED);
  const { headSha, number } = world.repository.openPullRequest(draft);
  await world.until(headSha, "the draft's wait", (one) => one.state.kind === "waiting");
  world.repository.openPullRequest(at("mira", "stage"));
  await world.github.webhooks.settled();
  world.repository.close(number);
  const next = await world.until(headSha, "the next one's request", (one) => one.generation === 2);
  expect(next).toMatchObject({ prNumber: 2, baseRef: "stage", openedBy: { actor: { login: "mira" } } });
});
