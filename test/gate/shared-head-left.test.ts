/** What is believed of another pull request at a commit: that it has left, and what its refusals take from others. */
import { describe, expect, it } from "vitest";
import type { FetchLike } from "../../shared/ports.ts";
import { CONFIG, type Life } from "./life.ts";
import { at, compare, conclusion, ended, eventually, nextSecond, podsOf, said, sharedLife } from "./shared-heads.ts";

const COMMENT = `${CONFIG}start: comment\n`;
const WORD = "/gpu run";
const topic = { author: "mira", branch: "topic", files: { "src/a.rs": "x" } };

/** GitHub's lists of pull requests lack this one, as when a page slipped; `lacked`: how often that was so. */
function listWithout(): { number: number | null; lacked: number; fetch: (next: FetchLike) => FetchLike } {
  const list: ReturnType<typeof listWithout> = {
    number: null,
    lacked: 0,
    fetch: (next) => async (input, init) => {
      if (list.number === null || !/\/pulls\?/.test(input)) return next(input, init);
      // A copy that is still good would be kept, and have it.
      const headers = new Headers(init?.headers);
      headers.delete("if-none-match");
      const answer = await next(input, { ...init, headers: Object.fromEntries(headers) });
      const items = (JSON.parse(await answer.text()) as { number: number }[]).filter(
        (one) => one.number !== list.number,
      );
      list.lacked += 1;
      return new Response(JSON.stringify(items), { status: 200, headers: { "content-type": "application/json" } });
    },
  };
  return list;
}

describe("a list that lacks an open pull request", () => {
  it.concurrent("paints nothing green by which that one could be merged", async (test) => {
    const list = listWithout();
    const world = await sharedLife(test, CONFIG, list.fetch);
    const { repository } = world;
    const { headSha } = repository.openPullRequest(topic);
    await ended(world, headSha, 1);
    const { number } = repository.openPullRequest(at("walt", "stage"));
    await ended(world, headSha, 2);
    list.number = number;
    await compare(world);
    expect(list.lacked).toBeGreaterThan(0);
    expect(said(world, headSha)).toEqual(["#1 tests-passed", "#2 author-not-permitted"]);
    expect(conclusion(world, headSha)).toBe("action_required");
    // It is closed indeed now.
    repository.close(number, "walt");
    await ended(world, headSha, 3);
    expect(conclusion(world, headSha)).toBe("success");
  });
});

describe("a comment of who may not approve", () => {
  /** A pull request that waits for a comment, and has had one of a stranger's. */
  async function commented(world: Life): Promise<{ number: number; headSha: string }> {
    const first = world.repository.openPullRequest(topic);
    await ended(world, first.headSha, 1);
    await nextSecond();
    world.repository.comment(first.number, WORD, "stranger");
    await ended(world, first.headSha, 2);
    return first;
  }

  it.concurrent("leaves a commit approvable, also with a stranger's pull request that comes and goes", async (test) => {
    const world = await sharedLife(test, COMMENT);
    const { repository } = world;
    const { number, headSha } = await commented(world);
    const fork = repository.openPullRequest({ ...at("stranger", "stage"), fork: true });
    await compare(world);
    repository.close(fork.number, "stranger");
    await compare(world);
    expect(said(world, headSha)).toEqual(["#1 awaiting-approval", "#1 actor-not-permitted"]);
    await nextSecond();
    repository.comment(number, WORD, "mira");
    const approved = await world.until(headSha, "generation 3", ({ generation }) => generation === 3);
    expect(approved).toMatchObject({ prNumber: number, approvedBy: { login: "mira" } });
  });

  it.concurrent("leaves it approvable while a stranger's pull request is open for the same base", async (test) => {
    const world = await sharedLife(test, COMMENT);
    const { repository } = world;
    const { number, headSha } = await commented(world);
    repository.openPullRequest({ ...at("stranger", "main"), fork: true });
    await compare(world);
    await nextSecond();
    repository.comment(number, WORD, "mira");
    const approved = await world.until(headSha, "her approval", (one) => one.approvedBy?.login === "mira");
    expect(approved).toMatchObject({ prNumber: number, generation: 3 });
  });

  it.concurrent("is looked at twice, however often it is made, and takes nothing from a maintainer's", async (test) => {
    const world = await sharedLife(test, COMMENT);
    const { repository } = world;
    const { number, headSha } = await commented(world);
    for (let more = 0; more < 2; more += 1) {
      await nextSecond();
      repository.comment(number, WORD, "stranger");
      await world.github.webhooks.settled();
      await ended(world, headSha, 3);
    }
    expect(said(world, headSha)).toEqual(["#1 awaiting-approval", "#1 actor-not-permitted", "#1 actor-not-permitted"]);
    repository.comment(number, WORD, "mira");
    expect(await ended(world, headSha, 4)).toMatchObject({ approvedBy: { login: "mira" } });
    expect(conclusion(world, headSha)).toBe("success");
  });
});

describe("a documentation change that was refused for a fork's code at its commit, when it was asked for again", () => {
  /** The stranger's change is code for `old`, which left before that code came to `main`. */
  async function refused(world: Life): Promise<{ headSha: string; fork: number }> {
    const { repository } = world;
    repository.commit({ branch: "old", files: { "NOTES.md": "old" } });
    repository.commit({ files: { "src/base.rs": "1" } });
    const words = repository.openPullRequest({ author: "mira", branch: "topic", files: { "README.md": "# words\n" } });
    const { headSha } = words;
    const waved = await ended(world, headSha, 1);
    const fork = repository.openPullRequest({ ...at("stranger", "old"), fork: true }).number;
    await ended(world, headSha, 2);
    repository.rerequestCheck(Number(waved.check.checkRunId), "mira");
    expect(await ended(world, headSha, 3)).toMatchObject({
      prNumber: words.number,
      heldBy: { prNumber: fork, baseRef: "old" },
    });
    expect(conclusion(world, headSha)).toBe("action_required");
    return { headSha, fork };
  }

  const gone: Readonly<Record<string, (world: Life, fork: number) => Promise<void>>> = {
    "is closed": async ({ repository }, fork) => repository.close(fork, "stranger"),
    "is closed, and its webhook lost": async (world, fork) => {
      world.github.webhooks.next({ event: "pull_request", action: "closed" }, "vanish");
      world.repository.close(fork, "stranger");
      await compare(world);
    },
    "is retargeted to the same base": async ({ repository }, fork) => repository.retarget(fork, "main", "stranger"),
  };
  for (const [how, leave] of Object.entries(gone)) {
    it.concurrent(`is asked about once more when that fork's pull request ${how}`, async (test) => {
      const world = await sharedLife(test);
      const { headSha, fork } = await refused(world);
      await compare(world);
      expect(said(world, headSha)).toEqual(["#1 docs-only", "#2 fork", "#1 fork"]);
      await leave(world, fork);
      expect(await ended(world, headSha, 4)).toMatchObject({ prNumber: 1 });
      expect(said(world, headSha)[3]).toBe("#1 docs-only");
      expect(conclusion(world, headSha)).toBe("success");
      await compare(world);
      expect(said(world, headSha)).toHaveLength(4);
      expect(podsOf(world, headSha)).toBe(0);
    });
  }
});

it.concurrent("a pull request whose last answer is a recovery's gets that back", async (test) => {
  const world = await sharedLife(test);
  const { repository, gate } = world;
  const first = repository.openPullRequest(topic);
  const { headSha } = first;
  await ended(world, headSha, 1);
  const asked = gate.openDispatched({
    repository: { id: "101", owner: "acme", name: "tensors" },
    runId: "77",
    actor: { id: String(world.github.user("mira").id), login: "mira" },
    ask: { kind: "recovery", prNumber: first.number, headSha },
  });
  if (asked.kind !== "opened") throw new Error(asked.kind);
  const recovery = () => gate.store.request(asked.requestId);
  await eventually("the recovery's check", () => recovery()?.check.completed === true);
  expect(recovery()).toMatchObject({ state: { verdict: { kind: "passed" } } });
  const { number } = repository.openPullRequest(at("walt", "stage"));
  await ended(world, headSha, 2);
  repository.close(number, "walt");
  const given = await ended(world, headSha, 3);
  expect(given).toMatchObject({ prNumber: first.number, counts: { pods: 0 } });
  expect(JSON.stringify(given.state)).toContain(asked.requestId);
  expect(conclusion(world, headSha)).toBe("success");
});
