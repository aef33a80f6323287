/** Whose trigger run a request takes for its own, where several pull requests have runs at one commit. */
import { describe, expect, it } from "vitest";
import { observe } from "../../durable-objects/gate/observe.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import { ok } from "../../shared/result.ts";

const PATH = ".github/workflows/ci.yml";
const HEAD = "a".repeat(40);
const ALICE = { id: "501", login: "alice" };
const WALT = { id: "502", login: "walt" };

interface Begun {
  readonly id: string;
  readonly by: typeof ALICE;
  /** Left out: it has ended. */
  readonly status?: string;
}

/** Whose run is taken; the runs are given oldest first. */
async function taken(runs: readonly Begun[], by?: string, orAnybodys?: boolean, author?: string) {
  const items = runs.map(({ id, by: actor, status = "completed" }, at) => ({
    id,
    path: PATH,
    headSha: HEAD,
    headRepositoryId: "101",
    status,
    createdAt: at,
    actor,
    triggeringActor: actor,
  }));
  const github = { repository: { id: "101" }, listRuns: async () => ok({ items, complete: true }) };
  const context = { github: github as unknown as GitHubClient, ports: {} as never, dueAt: 0, tickMs: 5_000 };
  const whose =
    by === undefined
      ? {}
      : { by, ...(orAnybodys === undefined ? {} : { orAnybodys }), ...(author === undefined ? {} : { author }) };
  const { triggerRun } = await observe({ triggerRun: { path: PATH, headSha: HEAD, ...whose } }, context);
  return triggerRun?.known === true ? (triggerRun.value?.actor.login ?? null) : "unknown";
}

const own = { id: "1", by: ALICE };
const others = { id: "2", by: WALT };

describe("the trigger run at a commit that several pull requests have", () => {
  it("is the heard person's own, however late it is looked for and whoever ran something since", async () => {
    expect(await taken([own, others], ALICE.id, false)).toBe("alice");
    expect(await taken([own, others], ALICE.id, true)).toBe("alice");
  });

  it("is anybody's, the newest, where that person has none and no longer waits for one", async () => {
    expect(await taken([{ id: "3", by: { id: "503", login: "rea" } }, others], ALICE.id, true)).toBe("walt");
    expect(await taken([others], ALICE.id, false)).toBeNull();
  });

  it("is the author's before the newest of the commit, where the heard person has none", async () => {
    const rea = { id: "503", login: "rea" };
    expect(await taken([own, others], rea.id, true, ALICE.id)).toBe("alice");
    expect(await taken([own, others], rea.id, false, ALICE.id)).toBeNull();
    expect(await taken([own, others, { id: "3", by: rea }], rea.id, true, ALICE.id)).toBe("rea");
    expect(await taken([others], rea.id, true, ALICE.id)).toBe("walt");
  });

  it("is nobody's while theirs is there and has not begun", async () => {
    const rea = { id: "503", login: "rea" };
    const queued = { id: "3", by: rea, status: "queued" };
    expect(await taken([others, queued], rea.id, true, ALICE.id)).toBeNull();
    expect(await taken([others, { ...own, status: "queued" }], rea.id, true, ALICE.id)).toBeNull();
    expect(await taken([own, queued], rea.id, true, ALICE.id)).toBeNull();
    // Their earlier one has begun, and anybody else's is not waited for.
    expect(await taken([{ id: "1", by: rea }, queued], rea.id, true)).toBe("rea");
    expect(await taken([own, { ...others, status: "queued" }], rea.id, true)).toBe("alice");
    expect(await taken([others, { ...own, status: "queued" }])).toBe("walt");
  });

  it("is the heard person's alone in a look that was stored before there was a choice", async () => {
    expect(await taken([others], ALICE.id)).toBeNull();
  });

  it("is the newest where nobody was heard", async () => {
    expect(await taken([own, others])).toBe("walt");
  });
});
