/** GitHub shows the youngest check run of a name: what was said last of a commit is in it, whichever creation was slower. */
import { describe, expect, it } from "vitest";
import type { FetchLike } from "../../shared/ports.ts";
import { CONFIG } from "./life.ts";
import { at, conclusion, ended, eventually, said, sharedLife } from "./shared-heads.ts";

/** Holds the first creation of a check run back until it is let go. */
function slowFirst(): { readonly fetch: (next: FetchLike) => FetchLike; readonly held: () => boolean; go: () => void } {
  const gate = Promise.withResolvers<void>();
  let creations = 0;
  return {
    held: () => creations > 0,
    go: () => gate.resolve(),
    fetch: (next) => async (input, init) => {
      if (init?.method === "POST" && new URL(input).pathname.endsWith("/check-runs")) {
        creations += 1;
        if (creations === 1) await gate.promise;
      }
      return next(input, init);
    },
  };
}

describe("a check run whose creation was slow", () => {
  it("does not hide the word about another pull request that was said meanwhile", async (test) => {
    const slow = slowFirst();
    const world = await sharedLife(test, CONFIG, slow.fetch);
    const { repository } = world;
    const { headSha } = repository.openPullRequest({ author: "mira", branch: "topic", files: { "src/a.rs": "x" } });
    await eventually("the first creation", slow.held);
    await eventually("its end", () => said(world, headSha).join() === "#1 tests-passed");
    repository.openPullRequest(at("walt", "stage"));
    await ended(world, headSha, 2);
    slow.go();
    await eventually(
      "both checks",
      () => repository.checkRuns(headSha).filter(({ name }) => name === "CI GPU gate").length > 1,
    );
    await world.gate.run();
    expect(said(world, headSha)).toEqual(["#1 tests-passed", "#2 author-not-permitted"]);
    await eventually("the last word", () => conclusion(world, headSha) === "action_required");
  });
});
