/** Who is asked about, and who must be permitted, before a merge group is tested; over a small history of commits. */
import { describe, expect, test } from "vitest";
import { authorizeMergeGroup, type MergeGroupInput, type MergeGroupPort } from "../../shared/authorize/merge-group.ts";
import { CONFIG_PATH } from "../../shared/config/schema.ts";
import type { GitHubFailure } from "../../shared/github/failure.ts";
import type { Pull } from "../../shared/github/pulls.ts";
import { err, ok } from "../../shared/result.ts";

const HOME = "101";
const APP = "4711";
const NAME = "CI GPU gate";
const DOWN: GitHubFailure = { reason: "server", status: 503 };
const REF = "refs/heads/gh-readonly-queue/main/pr-7-a0";
const CONFIG = `version: 1
paths:
  docs:
    files: [README.md]
fork_fallback:
  instructions: Ask a maintainer.
`;
const ROLES: Readonly<Record<string, string>> = { mira: "admin", mona: "maintain", walt: "write" };
const person = (login: string) => ({ id: `id-${login}`, login });

interface Stand {
  readonly number: number;
  readonly head: string;
  readonly author?: string;
  readonly from?: string;
  readonly base?: string;
  readonly file?: string;
}

interface World {
  /** Each commit's parents; `m0` is the default branch. */
  readonly commits: Readonly<Record<string, readonly string[]>>;
  readonly pulls: readonly Stand[];
  /** Heads with a success of ours. */
  readonly green: readonly string[];
  readonly head: string;
  readonly branch?: string | null;
}

function reachable(world: World, from: string): ReadonlySet<string> {
  const seen = new Set<string>();
  const next = [from];
  for (let sha = next.pop(); sha !== undefined; sha = next.pop()) {
    if (seen.has(sha)) continue;
    seen.add(sha);
    next.push(...(world.commits[sha] ?? []));
  }
  return seen;
}

function between(world: World, base: string, head: string): string[] {
  const had = reachable(world, base);
  return [...reachable(world, head)].filter((sha) => !had.has(sha)).toReversed();
}

function pullOf(one: Stand): Pull {
  return {
    number: one.number,
    state: "open",
    draft: false,
    author: person(one.author ?? "mira"),
    authorType: "User",
    headSha: one.head,
    headRepositoryId: one.from ?? HOME,
    baseRef: one.base ?? "main",
    baseRepositoryId: HOME,
    changedFiles: 1,
  } as unknown as Pull;
}

async function decide(
  world: World,
  asked: { readonly actor?: string; readonly ageMs?: number } = {},
  change: Partial<MergeGroupPort> = {},
) {
  const file = (filename: string) => ({
    filename,
    previousFilename: null,
    status: "modified",
    sha: null,
    changes: 1,
    patch: "@@",
  });
  const port: MergeGroupPort = {
    getRepository: () => Promise.resolve(ok({ id: HOME, fullName: "a/b", defaultBranch: "main", archived: false })),
    getBranchHead: () => Promise.resolve(ok("m0")),
    getFile: (path) => Promise.resolve(ok({ sha: `blob ${path}`, text: path === CONFIG_PATH ? CONFIG : "" })),
    getPull: (number) => {
      const found = world.pulls.find((one) => one.number === number);
      return Promise.resolve(found === undefined ? err({ reason: "not-found" }) : ok(pullOf(found)));
    },
    getRole: (login) => {
      const roleName = ROLES[login];
      return Promise.resolve(
        roleName === undefined
          ? err({ reason: "not-found" })
          : ok({ userId: `id-${login}`, roleName, permission: "write" }),
      );
    },
    getRef: (ref) => Promise.resolve(ok(ref === REF ? (world.branch === undefined ? world.head : world.branch) : null)),
    listPullFiles: (number) => {
      const found = world.pulls.find((one) => one.number === number);
      return Promise.resolve(ok({ files: [file(found?.file ?? "src/a.rs")], complete: true }));
    },
    getCommit: (sha) => {
      const parents = world.commits[sha];
      return Promise.resolve(
        parents === undefined ? err({ reason: "not-found" }) : ok({ sha, treeSha: `tree ${sha}`, parents }),
      );
    },
    listCommitsBetween: (base, head) => Promise.resolve(ok({ items: between(world, base, head), complete: true })),
    listPullsForCommit: (sha) => {
      const items = world.pulls.filter((one) => between(world, "m0", one.head).includes(sha)).map(pullOf);
      return Promise.resolve(ok({ items, complete: true }));
    },
    listCheckRunsForRef: (sha) => {
      const items = world.green.includes(sha)
        ? [{ name: NAME, appId: APP, status: "completed", conclusion: "success" } as never]
        : [];
      return Promise.resolve(ok({ items, complete: true }));
    },
    compareFiles: () =>
      Promise.resolve(ok({ files: [file("src/a.rs")], complete: true, status: "ahead", mergeBaseSha: "m0" })),
    getQueueTimeout: () => Promise.resolve(ok(null)),
    ...change,
  };
  const input: MergeGroupInput = {
    repositoryId: HOME,
    appId: APP,
    headSha: world.head,
    group: { headRef: REF, baseSha: "m0", baseRef: "refs/heads/main" },
    actor: asked.actor === undefined ? null : person(asked.actor),
    openedAt: 0,
    now: asked.ageMs ?? 0,
  };
  return (await authorizeMergeGroup(port, input)).outcome;
}

/** One member of two commits, merged by the queue. */
const PLAIN: World = {
  commits: { m0: [], p1: ["m0"], p2: ["p1"], q1: ["m0", "p2"] },
  pulls: [{ number: 7, head: "p2" }],
  green: ["p2"],
  head: "q1",
};

describe("who asked for a merge group", () => {
  test("the queue: nobody but the members' authors is asked about", async () => {
    expect(await decide(PLAIN)).toMatchObject({ kind: "admitted", admission: { actor: { login: "mira" } } });
  });

  test("a person: one who may cause spending, and stands in the admission as who did", async () => {
    expect(await decide(PLAIN, { actor: "mona" })).toMatchObject({
      kind: "admitted",
      admission: { author: { login: "mira" }, actor: { login: "mona" } },
    });
    for (const actor of ["walt", "eve"]) {
      expect(await decide(PLAIN, { actor })).toMatchObject({ kind: "refused", reason: "actor-not-permitted" });
    }
    const getRole = () => Promise.resolve(err(DOWN));
    expect(await decide(PLAIN, { actor: "mona" }, { getRole })).toMatchObject({ kind: "unknown" });
  });
});

describe("a merge group that is no more", () => {
  test.each([null, "q2"])("its branch is %s: nothing is rented, whoever asks", async (branch) => {
    const gone = { ...PLAIN, branch };
    expect(await decide(gone, { actor: "mira" })).toMatchObject({ kind: "closed" });
    expect(await decide(gone, { ageMs: 30_000 })).toMatchObject({ kind: "closed" });
    // One that was announced just now may not be shown everywhere yet.
    expect(await decide(gone, { ageMs: 29_999 })).toMatchObject({ kind: "unknown" });
  });

  test("I11: a branch that could not be read is none that is gone", async () => {
    const getRef = () => Promise.resolve(err(DOWN));
    expect(await decide(PLAIN, { actor: "mira" }, { getRef })).toMatchObject({ kind: "unknown" });
  });
});

describe("a member's check that is being made anew", () => {
  const showing = (...shown: readonly (string | null)[]): Partial<MergeGroupPort> => ({
    listCheckRunsForRef: () => {
      const items = shown.map((conclusion) => {
        const status = conclusion === null ? "in_progress" : "completed";
        return { name: NAME, appId: APP, status, conclusion } as never;
      });
      return Promise.resolve(ok({ items, complete: true }));
    },
  });

  test("is waited for, as another pull request at the commit has it asked for", async () => {
    for (const shown of [showing(null), showing("success", null)]) {
      expect(await decide(PLAIN, { ageMs: 119_999 }, shown)).toMatchObject({ kind: "unknown" });
      expect(await decide(PLAIN, { ageMs: 120_000 }, shown)).toMatchObject({ kind: "members" });
    }
  });

  test("is not waited for beside one that is not green, or where there is none", async () => {
    for (const shown of [
      showing(),
      showing("failure"),
      showing("failure", null),
      showing(null, "success", "cancelled"),
    ]) {
      expect(await decide(PLAIN, {}, shown)).toMatchObject({ kind: "members" });
    }
  });
});

describe("a member that was answered in shadow mode", () => {
  const SHADOW = `${NAME} (shadow)`;
  /** Its checks by name, as GitHub filters them; `shadow`: what the configuration says by now. */
  const answered = (shadow: boolean, ...names: readonly string[]): Partial<MergeGroupPort> => ({
    getFile: (path) =>
      Promise.resolve(ok({ sha: path, text: path === CONFIG_PATH ? `${CONFIG}shadow: ${shadow}\n` : "" })),
    listCheckRunsForRef: (_sha, { name }) => {
      const items = names.flatMap((one) =>
        one === name ? [{ name, appId: APP, status: "completed", conclusion: "success" } as never] : [],
      );
      return Promise.resolve(ok({ items, complete: true }));
    },
  });

  test("is waited for once shadow mode is off: it is asked about for real", async () => {
    expect(await decide(PLAIN, { ageMs: 119_999 }, answered(false, SHADOW))).toMatchObject({ kind: "unknown" });
    expect(await decide(PLAIN, { ageMs: 120_000 }, answered(false, SHADOW))).toMatchObject({ kind: "members" });
    expect(await decide(PLAIN, {}, answered(false))).toMatchObject({ kind: "members" });
  });

  test("counts while shadow mode is on, and one that was not is not waited for", async () => {
    expect(await decide(PLAIN, {}, answered(true, SHADOW))).not.toMatchObject({ kind: "members" });
    expect(await decide(PLAIN, {}, answered(true, NAME))).toMatchObject({ kind: "members" });
  });
});

describe("the members of a merge group", () => {
  const withPull = (world: World, ...more: readonly Stand[]): World => ({ ...world, pulls: [...world.pulls, ...more] });
  const members = async (world: World) => {
    const outcome = await decide(world);
    if (outcome.kind === "admitted") return outcome.admission.title;
    return "detail" in outcome ? `${outcome.kind}: ${outcome.detail}` : outcome.kind;
  };

  test("are what the queue merged, the named one last", async () => {
    const two: World = {
      commits: { ...PLAIN.commits, r1: ["m0"], q0: ["m0", "r1"], q1: ["q0", "p2"] },
      pulls: [
        { number: 7, head: "p2" },
        { number: 9, head: "r1", author: "mona" },
      ],
      green: ["p2", "r1"],
      head: "q1",
    };
    expect(await members(two)).toBe("Merge group of #9, #7");
    expect(await members({ ...two, green: ["p2"] })).toContain("members: #9 has no green");
    expect(await members({ ...two, green: ["r1"] })).toContain("members: #7 has no green");
    expect(await members({ ...two, pulls: two.pulls.slice(0, 1) })).toMatch(/Commit (q0|r1) .* no open/);
    const walts = { number: 9, head: "r1", author: "walt" };
    expect(await decide(withPull(PLAIN, walts))).toMatchObject({ kind: "admitted" });
    expect(await decide({ ...two, pulls: [...PLAIN.pulls, walts] })).toMatchObject({ reason: "author-not-permitted" });
  });

  const commits = { ...PLAIN.commits, t1: ["p2"] };
  test.each([
    ["stacked on a member", { number: 8, head: "t1", author: "walt" }],
    ["of a member's earlier commit", { number: 8, head: "p1", author: "walt" }],
    ["of a fork, of a member's earlier commit", { number: 8, head: "p1", author: "eve", from: "202" }],
    ["of a fork, of a member's very head", { number: 8, head: "p2", author: "eve", from: "202" }],
    ["of a member's very head, for another branch", { number: 8, head: "p2", author: "walt", base: "next" }],
  ] as const)("are not joined by a pull request %s", async (_, other) => {
    expect(await members(withPull({ ...PLAIN, commits }, other))).toBe("Merge group of #7");
  });

  test("nor by one for another branch at the head of a member that is not named", async () => {
    const two: World = {
      commits: { ...PLAIN.commits, r1: ["m0"], q0: ["m0", "r1"], q1: ["q0", "p2"] },
      pulls: [
        { number: 7, head: "p2" },
        { number: 9, head: "r1" },
        { number: 8, head: "r1", author: "walt", base: "next" },
      ],
      green: ["p2", "r1"],
      head: "q1",
    };
    expect(await members(two)).toBe("Merge group of #9, #7");
    // For the same branch it is the same change, and one author who may stands behind it.
    for (const number of [8, 10]) {
      const again = { number, head: "r1", author: "eve", from: "202" };
      const pulls = [...two.pulls.filter((one) => one.number !== 8), again];
      expect(await decide({ ...two, pulls })).toMatchObject({ kind: "admitted" });
      const walts = { number: 9, head: "r1", author: "walt" };
      expect(await decide({ ...two, pulls: [...PLAIN.pulls, walts, again] })).toMatchObject({
        reason: "author-not-permitted",
      });
    }
  });

  test("make every commit somebody's: what only another pull request has in common is mapped by it", async () => {
    // The branch was taken in at p2; a commit that the member itself no longer lists is still told of the stacked one.
    const world = withPull({ ...PLAIN, commits }, { number: 8, head: "t1", author: "walt" });
    const listPullsForCommit = (sha: string) => {
      const items = sha === "p1" ? [{ number: 8, head: "t1" }] : sha === "p2" ? [{ number: 7, head: "p2" }] : [];
      return Promise.resolve(ok({ items: items.map(pullOf), complete: true }));
    };
    expect(await decide(world, {}, { listPullsForCommit })).toMatchObject({ kind: "admitted" });
    const nobodys = () => Promise.resolve(ok({ items: [], complete: true }));
    expect(await decide(world, {}, { listPullsForCommit: nobodys })).toMatchObject({ kind: "members" });
    const cut = () => Promise.resolve(ok({ items: [pullOf({ number: 7, head: "p2" })], complete: false }));
    expect(await decide(world, {}, { listPullsForCommit: cut })).toMatchObject({ kind: "members" });
  });

  test("are not replaced by a pull request built onto the queue's own commits", async () => {
    // r1 was taken in, and its pull request is gone; #8 has the queue's commits in its history.
    const world: World = {
      commits: { ...PLAIN.commits, r1: ["m0"], q0: ["m0", "r1"], q1: ["q0", "p2"], t1: ["q1"] },
      pulls: [
        { number: 7, head: "p2" },
        { number: 8, head: "t1", author: "walt" },
      ],
      green: ["p2"],
      head: "q1",
    };
    expect(await members(world)).toContain("members: Commit q0");
  });

  test("by squash: the one commit is the named member's, whatever else has its commits", async () => {
    const squash = { ...PLAIN, commits: { ...commits, q1: ["m0"] } };
    expect(await members(withPull(squash, { number: 8, head: "t1", author: "walt" }))).toBe("Merge group of #7");
    const two = { ...squash, commits: { ...squash.commits, q0: ["m0"], q1: ["q0"] } };
    expect(await members(two)).toContain("members: Commit q0");
  });

  test("by rebase: a commit that was kept is its pull request's; rewritten ones are nobody's", async () => {
    const kept: World = {
      ...PLAIN,
      head: "p2",
      pulls: [
        { number: 7, head: "p2" },
        { number: 9, head: "p1" },
      ],
    };
    expect(await members({ ...kept, green: ["p1", "p2"] })).toBe("Merge group of #9, #7");
    expect(await members(kept)).toContain("members: #9 has no green");
    const written = { ...PLAIN, commits: { ...PLAIN.commits, s1: ["m0"], q1: ["s1"] } };
    expect(await members(written)).toContain("members: Commit s1");
  });

  test("I11: what could not be read makes nobody a member, nor nobody", async () => {
    const down = () => Promise.resolve(err(DOWN));
    for (const read of ["getCommit", "listPullsForCommit", "listCommitsBetween", "getPull"] as const) {
      expect(await decide(PLAIN, {}, { [read]: down })).toMatchObject({ kind: "unknown" });
    }
  });
});
