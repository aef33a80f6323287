/** What a pull request was told is no way to spend for those who may not, and is not lost by what they do. */
import { describe, expect, it } from "vitest";
import { BROKEN_TESTS } from "../../local/world/workflows.ts";
import { CONFIG } from "./life.ts";
import { at, compare, conclusion, ended, podsOf, said, sharedLife, UNTRIGGERED } from "./shared-heads.ts";

const LABEL = `${CONFIG}start: label\n`;
const topic = { author: "mira", branch: "topic", files: { "src/a.rs": "x" } };

describe("a writer who may not spend", () => {
  it.concurrent("buys no other test of a commit that failed by closing and reopening its second pull request", async (test) => {
    const world = await sharedLife(test);
    const { repository } = world;
    repository.commit({ branch: "stage", author: "mira", files: { [BROKEN_TESTS]: "x" } });
    const { headSha } = repository.openPullRequest(topic);
    await ended(world, headSha, 1);
    const { number } = repository.openPullRequest(at("mira", "stage"));
    await ended(world, headSha, 2);
    const bought = podsOf(world, headSha);
    for (const generation of [3, 5]) {
      repository.close(number, "walt");
      await ended(world, headSha, generation);
      expect(conclusion(world, headSha)).toBe("success");
      repository.reopen(number, "walt");
      await ended(world, headSha, generation + 1);
      expect(conclusion(world, headSha)).toBe("failure");
    }
    const [green, red] = ["#1 given-back", "#2 tests-failed"];
    expect(said(world, headSha)).toEqual(["#1 tests-passed", red, green, red, green, red]);
    expect(podsOf(world, headSha)).toBe(bought);
  });

  it.concurrent("buys no test against a base that has moved by opening and closing a second pull request", async (test) => {
    const world = await sharedLife(test);
    const { repository } = world;
    const { headSha } = repository.openPullRequest(topic);
    await ended(world, headSha, 1);
    for (const generation of [2, 4]) {
      repository.commit({ author: "mira", files: { [`src/moved${generation}.rs`]: "x" } });
      const { number } = repository.openPullRequest(at("walt", "stage"));
      await ended(world, headSha, generation);
      repository.close(number, "walt");
      await ended(world, headSha, generation + 1);
    }
    const given = "#1 given-back";
    const passed = "#1 tests-passed";
    const of = (number: number) => `#${number} author-not-permitted`;
    expect(said(world, headSha)).toEqual([passed, of(2), given, of(3), given]);
    expect(podsOf(world, headSha)).toBe(1);
  });

  it.concurrent("cannot have an approval for one base spent on another", async (test) => {
    const world = await sharedLife(test, LABEL);
    const { repository } = world;
    repository.commit({ branch: "stage2", author: "mira", files: { "src/other.rs": "x" } });
    const first = repository.openPullRequest(topic);
    const { headSha } = first;
    await ended(world, headSha, 1);
    repository.addLabel(first.number, "run-gpu", "mira");
    await ended(world, headSha, 2);
    const { number } = repository.openPullRequest(at("mira", "stage"));
    await ended(world, headSha, 3);
    repository.retarget(first.number, "stage2", "walt");
    await world.github.webhooks.settled();
    repository.close(number, "walt");
    await ended(world, headSha, 4);
    await compare(world);
    expect(said(world, headSha)).toEqual([
      "#1 awaiting-approval",
      "#1 tests-passed",
      "#2 awaiting-approval",
      "#1 awaiting-approval",
    ]);
    expect(world.request(headSha)).toMatchObject({ approvedBy: null });
    expect(podsOf(world, headSha)).toBe(1);
  });

  it.concurrent("buys nothing by retargeting somebody's pull request away and back", async (test) => {
    const world = await sharedLife(test, UNTRIGGERED);
    const { repository } = world;
    repository.commit({ branch: "stage", author: "mira", files: { [BROKEN_TESTS]: "x" } });
    repository.commit({ branch: "stage2", author: "mira", files: { "src/other.rs": "x" } });
    const { headSha } = repository.openPullRequest(topic);
    await ended(world, headSha, 1);
    const { number } = repository.openPullRequest(at("mira", "stage"));
    await ended(world, headSha, 2);
    const bought = podsOf(world, headSha);
    repository.retarget(number, "stage2", "walt");
    await ended(world, headSha, 3);
    repository.retarget(number, "stage", "walt");
    await ended(world, headSha, 4);
    const unknown = "#2 actor-unknown";
    expect(said(world, headSha)).toEqual(["#1 tests-passed", "#2 tests-failed", unknown, unknown]);
    expect(podsOf(world, headSha)).toBe(bought);
  });

  it.concurrent("takes no green by asking for it again: it is given back without a pod", async (test) => {
    const world = await sharedLife(test);
    const { repository } = world;
    const { headSha } = repository.openPullRequest(topic);
    const passed = await ended(world, headSha, 1);
    repository.rerequestCheck(Number(passed.check.checkRunId), "walt");
    await ended(world, headSha, 3);
    expect(said(world, headSha)).toEqual(["#1 tests-passed", "#1 actor-not-permitted", "#1 given-back"]);
    expect(conclusion(world, headSha)).toBe("success");
    expect(podsOf(world, headSha)).toBe(1);
    await compare(world);
    expect(said(world, headSha)).toHaveLength(3);
  });
});

describe("an approver who may not approve any more", () => {
  it.concurrent("still has what was approved: it comes back green at once, when another that covered it is closed", async (test) => {
    const world = await sharedLife(test, LABEL);
    const { repository } = world;
    repository.addCollaborator("ben", "admin");
    const first = repository.openPullRequest(topic);
    const { headSha } = first;
    await ended(world, headSha, 1);
    repository.addLabel(first.number, "run-gpu", "ben");
    await ended(world, headSha, 2);
    repository.setRole("ben", "read");
    const { number } = repository.openPullRequest(at("walt", "stage"));
    await ended(world, headSha, 3);
    repository.close(number, "walt");
    expect(await ended(world, headSha, 4)).toMatchObject({ prNumber: first.number, approvedBy: { login: "ben" } });
    expect(conclusion(world, headSha)).toBe("success");
    expect(podsOf(world, headSha)).toBe(1);
    // There is nothing that a second label would be for.
    repository.removeLabel(first.number, "run-gpu", "mira");
    repository.addLabel(first.number, "run-gpu", "mira");
    await compare(world);
    expect(said(world, headSha)).toEqual([
      "#1 awaiting-approval",
      "#1 tests-passed",
      "#2 author-not-permitted",
      "#1 given-back",
    ]);
  });
});
