/** A pull request that targets another branch is another change at the same commit: it has to earn its answer anew. */
import { describe, expect, it, type TestContext } from "vitest";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { FetchLike } from "../../shared/ports.ts";
import { startLife, verdictOf, type Life } from "./life.ts";

const NAME = "CI GPU gate";
const EDITED = { event: "pull_request", action: "edited" };

/** A repository whose branch `stage` has code that `main` does not have. */
async function life(test: TestContext, fetch?: (next: FetchLike) => FetchLike): Promise<Life> {
  const world = await startLife(fetch === undefined ? {} : { fetch });
  test.onTestFinished(() => world.close());
  world.repository.addCollaborator("walt", "write");
  world.repository.commit({ branch: "stage", author: "mira", files: { "src/more.rs": "x" } });
  return world;
}

function ended(world: Life, head: string, generation: number): Promise<GateRequest> {
  return world.until(
    head,
    `the end of generation ${generation}`,
    (one) => one.generation === generation && one.state.kind === "concluded" && one.check.completed,
  );
}

function conclusions(world: Life, head: string) {
  return world.repository
    .checkRuns(head)
    .filter((run) => run.name === NAME)
    .map((run) => run.conclusion);
}

function compare(world: Life): Promise<void> {
  world.gate.store.putTask("reconcile", "repository", "reconcile", {}, Date.now(), Date.now());
  return world.gate.run();
}

/** How the word of the new base comes: the same must come of it. */
const WAYS = {
  heard: { before: () => undefined, after: () => Promise.resolve() },
  lost: { before: ({ github }: Life) => github.webhooks.next(EDITED, "vanish"), after: compare },
  late: { before: ({ github }: Life) => github.webhooks.next(EDITED, { delayMs: 500 }), after: compare },
  doubled: { before: ({ github }: Life) => github.webhooks.next(EDITED, "duplicate"), after: compare },
} as const;

describe("a base that was changed", () => {
  for (const [how, way] of Object.entries(WAYS)) {
    it.concurrent(`takes back 'not required', once; its webhook is ${how}`, async (test) => {
      const world = await life(test);
      const { repository } = world;
      const words = { author: "mira", branch: "topic", base: "stage", files: { "README.md": "# words\n" } };
      const { number, headSha } = repository.openPullRequest(words);
      expect(verdictOf(await ended(world, headSha, 1))).toMatchObject({ kind: "not-required" });
      way.before(world);
      repository.retarget(number, "main", "walt");
      await way.after(world);
      const second = await ended(world, headSha, 2);
      expect(second.admission).toMatchObject({ baseRef: "main", gpuRequired: true });
      expect(verdictOf(second)).toMatchObject({ kind: "passed" });
      await world.github.webhooks.settled();
      await compare(world);
      expect(conclusions(world, headSha)).toEqual(["success", "success"]);
      expect(world.gate.store.requestsOfHead(headSha, "pull-request")).toHaveLength(2);
    });
  }

  it.concurrent("is looked at for the new one although another at the head has its answer", async (test) => {
    const world = await life(test);
    const { repository } = world;
    repository.commit({ branch: "stage2", author: "mira", files: { "src/other.rs": "x" } });
    const first = repository.openPullRequest({ author: "mira", branch: "topic", files: { "src/a.rs": "x" } });
    const { headSha } = first;
    await ended(world, headSha, 1);
    const again = { author: "mira", branch: "topic", base: "stage", asItIs: true, files: {} };
    const second = repository.openPullRequest(again);
    await world.until(headSha, "its test", ({ generation, state }) => generation === 2 && state.kind === "executing");
    repository.retarget(second.number, "stage2", "mira");
    expect(await ended(world, headSha, 3)).toMatchObject({
      prNumber: second.number,
      admission: { baseRef: "stage2" },
    });
    await compare(world);
    expect(conclusions(world, headSha)).toEqual(["success", "cancelled", "success"]);
  });

  it.concurrent("of which GitHub's list and its single read disagree is looked at twice, and not without a pause", async (test) => {
    let behind = false;
    const fetch: (next: FetchLike) => FetchLike = (next) => async (input, init) => {
      const answer = await next(input, init);
      if (!behind || answer.status !== 200 || !/\/pulls\/\d+(?:\?|$)/.test(input)) return answer;
      const text = (await answer.text()).replaceAll(/"ref":\s*"main"/g, '"ref":"stage"');
      return new Response(text, { status: 200, headers: { "content-type": "application/json" } });
    };
    const world = await life(test, fetch);
    const words = { author: "mira", branch: "topic", base: "stage", files: { "README.md": "# words\n" } };
    const { number, headSha } = world.repository.openPullRequest(words);
    await ended(world, headSha, 1);
    behind = true;
    world.repository.retarget(number, "main", "mira");
    await ended(world, headSha, 3);
    await world.gate.run();
    expect(world.gate.store.requestsOfHead(headSha, "pull-request")).toHaveLength(3);
    expect(world.gate.store.taskOf("reconcile", "repository")).toBeNull();
  });

  it.concurrent("ends what is under way for the old one, and what follows is for the new one", async (test) => {
    const world = await life(test);
    const { repository } = world;
    const { number, headSha } = repository.openPullRequest({
      author: "mira",
      branch: "topic",
      draft: true,
      files: { "src/a.rs": "x" },
    });
    await world.until(headSha, "the draft's wait", ({ state }) => state.kind === "waiting");
    repository.retarget(number, "stage");
    const second = await world.until(
      headSha,
      "the next request's wait",
      ({ generation, state }) => generation === 2 && state.kind === "waiting",
    );
    expect(second.admission).toMatchObject({ baseRef: "stage" });
    const [first] = world.gate.store.requestsOfHead(headSha, "pull-request");
    expect(first === undefined ? null : verdictOf(first)).toMatchObject({ kind: "superseded", reason: "base-moved" });
  });

  it.concurrent("during the test gives the pod back, and the test for the new base is the answer", async (test) => {
    const world = await life(test);
    const { repository } = world;
    const { number, headSha } = repository.openPullRequest({
      author: "mira",
      branch: "topic",
      files: { "src/a.rs": "x" },
    });
    await world.until(headSha, "the test", ({ state }) => state.kind === "executing");
    repository.retarget(number, "stage");
    const second = await ended(world, headSha, 2);
    expect(verdictOf(second)).toMatchObject({ kind: "passed" });
    expect(second.admission).toMatchObject({ baseRef: "stage" });
    expect(conclusions(world, headSha)).toEqual(["cancelled", "success"]);
    expect(world.gate.store.openLedgerPodIds()).toEqual([]);
  });
});

it.concurrent("a test for one base is no answer for a second pull request with the head and another base", async (test) => {
  const world = await life(test);
  const { repository } = world;
  const first = repository.openPullRequest({ author: "mira", branch: "topic", files: { "src/a.rs": "x" } });
  expect(verdictOf(await ended(world, first.headSha, 1))).toMatchObject({ kind: "passed" });
  const second = { author: "mira", branch: "topic", base: "stage", asItIs: true, files: {} };
  const { number, headSha } = repository.openPullRequest(second);
  expect(headSha).toBe(first.headSha);
  const own = await ended(world, headSha, 2);
  expect(own).toMatchObject({ prNumber: number, admission: { baseRef: "stage" } });
  await compare(world);
  expect(world.gate.store.requestsOfHead(headSha, "pull-request")).toHaveLength(2);
});
