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
