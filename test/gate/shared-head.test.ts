/** Several pull requests at one commit, for several bases: what one of them is told takes nothing from the others. */
import { describe, expect, it } from "vitest";
import type { FetchLike } from "../../shared/ports.ts";
import { CONFIG, type Life } from "./life.ts";
import { at, compare, conclusion, ended, eventually, said, sharedLife as life, UNTRIGGERED } from "./shared-heads.ts";

const CLOSED = { event: "pull_request", action: "closed" };

describe("a fork's pull request at a tested commit, for another base", () => {
  it.concurrent("leaves the check as it was earned, heard or not", async (test) => {
    const world = await life(test);
    const { repository } = world;
    const { headSha } = repository.openPullRequest({ author: "mira", branch: "topic", files: { "src/a.rs": "x" } });
    await ended(world, headSha, 1);
    const fork = { ...at("stranger", "stage"), fork: true };
    expect(repository.openPullRequest(fork).headSha).toBe(headSha);
    await compare(world);
    await compare(world);
    expect(said(world, headSha)).toEqual(["#1 tests-passed"]);
    expect(conclusion(world, headSha)).toBe("success");
  });
});

describe("a pull request that was refused at another's commit", () => {
  for (const [how, before] of Object.entries({
    heard: () => undefined,
    lost: ({ github }: Life) => github.webhooks.next(CLOSED, "vanish"),
  })) {
    it.concurrent(`gives the other its green back when it is closed; its webhook is ${how}`, async (test) => {
      const world = await life(test);
      const { repository } = world;
      const { headSha } = repository.openPullRequest({ author: "mira", branch: "topic", files: { "src/a.rs": "x" } });
      await ended(world, headSha, 1);
      const { number } = repository.openPullRequest(at("walt", "stage"));
      await ended(world, headSha, 2);
      expect(conclusion(world, headSha)).toBe("action_required");
      before(world);
      repository.close(number, "walt");
      if (how === "lost") await compare(world);
      await ended(world, headSha, 3);
      expect(said(world, headSha)).toEqual(["#1 tests-passed", "#2 author-not-permitted", "#1 given-back"]);
      expect(conclusion(world, headSha)).toBe("success");
      await compare(world);
      expect(said(world, headSha)).toHaveLength(3);
    });
  }

  it.concurrent("gives it back by the approval that it had", async (test) => {
    const world = await life(test, `${CONFIG}start: label\n`);
    const { repository } = world;
    const first = repository.openPullRequest({ author: "mira", branch: "topic", files: { "src/a.rs": "x" } });
    const { headSha } = first;
    await ended(world, headSha, 1);
    repository.addLabel(first.number, "run-gpu", "mira");
    await ended(world, headSha, 2);
    const { number } = repository.openPullRequest(at("walt", "stage"));
    await ended(world, headSha, 3);
    repository.close(number, "walt");
    expect(await ended(world, headSha, 4)).toMatchObject({ prNumber: first.number, approvedBy: { login: "mira" } });
    expect(said(world, headSha)[3]).toBe("#1 given-back");
  });

  it.concurrent("is not what a press on the other's check asks about", async (test) => {
    const world = await life(test);
    const { repository } = world;
    const { headSha } = repository.openPullRequest({ author: "mira", branch: "topic", files: { "src/a.rs": "x" } });
    const first = await ended(world, headSha, 1);
    repository.openPullRequest(at("walt", "stage"));
    await ended(world, headSha, 2);
    repository.rerequestCheck(Number(first.check.checkRunId), "mira");
    // Behind it the other's own word is put back.
    await ended(world, headSha, 4);
    const [, , asked] = world.gate.store.requestsOfHead(headSha, "pull-request");
    expect(asked).toMatchObject({ prNumber: first.prNumber, admission: { baseRef: "main" }, openedBy: { row: 4 } });
  });
});

describe("a test that passes while another pull request at the commit has another answer", () => {
  /** What was written to the checks of a life, in order: of which request, and what it concluded as. */
  function written() {
    const words: string[] = [];
    const fetch = (next: FetchLike): FetchLike => {
      return async (input, init) => {
        const answer = await next(input, init);
        if (
          !/\/check-runs(?:\/\d+)?$/.test(new URL(input).pathname) ||
          init?.method === undefined ||
          init.method === "GET"
        )
          return answer;
        const body = JSON.parse(typeof init.body === "string" ? init.body : "{}") as {
          external_id?: string;
          conclusion?: string;
        };
        words.push(`${body.external_id?.split(":")[0]} ${body.conclusion ?? "under way"}`);
        return answer;
      };
    };
    return { words, fetch };
  }

  it.concurrent("is said once that answer stands over it, when it was asked for again", async (test) => {
    const { words, fetch } = written();
    const world = await life(test, CONFIG, fetch);
    const { repository } = world;
    const { headSha } = repository.openPullRequest({ author: "mira", branch: "topic", files: { "src/a.rs": "x" } });
    const first = await ended(world, headSha, 1);
    repository.openPullRequest(at("walt", "stage"));
    await ended(world, headSha, 2);
    repository.rerequestCheck(Number(first.check.checkRunId), "mira");
    await ended(world, headSha, 4);
    expect(said(world, headSha)).toEqual([
      "#1 tests-passed",
      "#2 author-not-permitted",
      "#1 tests-passed",
      "#2 author-not-permitted",
    ]);
    const [, , again, back] = world.gate.store.requestsOfHead(headSha, "pull-request");
    await eventually("the green", () => words.includes(`${again?.id} success`));
    expect(words.indexOf(`${back?.id} action_required`)).toBeLessThan(words.indexOf(`${again?.id} success`));
    expect(conclusion(world, headSha)).toBe("action_required");
  });

  it.concurrent("is said once the other one, which waited for it, has a check of its own", async (test) => {
    const { words, fetch } = written();
    const world = await life(test, CONFIG, fetch);
    const { repository } = world;
    const { headSha } = repository.openPullRequest({ author: "mira", branch: "topic", files: { "src/a.rs": "x" } });
    await world.until(headSha, "the first one's test", ({ state }) => state.kind === "executing");
    repository.openPullRequest(at("walt", "stage"));
    await ended(world, headSha, 2);
    expect(said(world, headSha)).toEqual(["#1 tests-passed", "#2 author-not-permitted"]);
    const [first, second] = world.gate.store.requestsOfHead(headSha, "pull-request");
    await eventually("the green", () => words.includes(`${first?.id} success`));
    const begun = words.findIndex((word) => word.startsWith(`${second?.id} `));
    expect(begun).toBeGreaterThan(-1);
    expect(begun).toBeLessThan(words.indexOf(`${first?.id} success`));
    expect(conclusion(world, headSha)).toBe("action_required");
  });
});

it.concurrent("a trigger run of another pull request at the commit does not say who caused this one", async (test) => {
  const world = await life(test);
  const { repository } = world;
  const { headSha, number } = repository.openPullRequest({
    author: "mira",
    branch: "topic",
    files: { "src/a.rs": "x" },
  });
  // Both trigger runs have begun before the first look; the newer one is the writer's.
  repository.openPullRequest(at("walt", "main"));
  expect(await ended(world, headSha, 1)).toMatchObject({ prNumber: number, actor: { login: "mira" } });
  expect(said(world, headSha)).toEqual(["#1 tests-passed"]);
});

describe("who opened a second pull request at a commit, for another base and without a trigger workflow", () => {
  const second = at("mira", "stage");

  it.concurrent("is known where it was heard after the first one's answer", async (test) => {
    const world = await life(test, UNTRIGGERED);
    const { repository } = world;
    const { headSha } = repository.openPullRequest({ author: "mira", branch: "topic", files: { "src/a.rs": "x" } });
    await ended(world, headSha, 1);
    repository.openPullRequest(second);
    expect(await ended(world, headSha, 2)).toMatchObject({ actor: { login: "mira" }, admission: { baseRef: "stage" } });
    expect(said(world, headSha)).toEqual(["#1 tests-passed", "#2 tests-passed"]);
  });

  it.concurrent("is known where it was heard while the first one ran", async (test) => {
    const world = await life(test, UNTRIGGERED);
    const { repository } = world;
    const { headSha } = repository.openPullRequest({ author: "mira", branch: "topic", files: { "src/a.rs": "x" } });
    await world.until(headSha, "its test", ({ state }) => state.kind === "executing");
    repository.openPullRequest(second);
    expect(await ended(world, headSha, 2)).toMatchObject({ actor: { login: "mira" }, admission: { baseRef: "stage" } });
    expect(said(world, headSha)).toEqual(["#1 tests-passed", "#2 tests-passed"]);
  });

  it.concurrent("is not taken for whoever retargeted it since", async (test) => {
    const world = await life(test, UNTRIGGERED);
    const { repository } = world;
    repository.commit({ branch: "stage2", author: "mira", files: { "src/other.rs": "x" } });
    const { headSha } = repository.openPullRequest({ author: "mira", branch: "topic", files: { "src/a.rs": "x" } });
    await ended(world, headSha, 1);
    const { number } = repository.openPullRequest({ ...second, base: "main" });
    await world.github.webhooks.settled();
    repository.retarget(number, "stage2", "walt");
    await ended(world, headSha, 2);
    expect(said(world, headSha)).toEqual(["#1 tests-passed", "#2 actor-unknown"]);
  });
});
