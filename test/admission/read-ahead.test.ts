/** Reading ahead: the same answers and the same refusals as reading one after the other, in fewer rounds. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { authorize, type AuthorizeInput, type AuthorizePort } from "../../shared/authorize/authorize.ts";
import { readAhead, type Guess } from "../../shared/authorize/read-ahead.ts";
import { CONFIG_PATH } from "../../shared/config/schema.ts";
import type { GitHubFailure } from "../../shared/github/failure.ts";
import type { Pull } from "../../shared/github/pulls.ts";
import { err, ok, type Result } from "../../shared/result.ts";

const PREPARE = ".github/workflows/gpu-gate-prepare.yml";
const EXECUTE = ".github/workflows/gpu-gate-execute.yml";
const CONFIG = "version: 1\nfork_fallback:\n  instructions: Ask a maintainer.\n";

const PULL: Pull = {
  number: 7,
  state: "open",
  draft: false,
  merged: false,
  title: "code",
  author: { id: "11", login: "mira" },
  authorType: "User",
  headSha: "h1",
  headRef: "feature",
  headRepositoryId: "101",
  headRepositoryOwner: "acme",
  baseRef: "main",
  baseSha: "b1",
  baseRepositoryId: "101",
  changedFiles: 1,
  labels: [],
} as unknown as Pull;

const INPUT: AuthorizeInput = {
  repositoryId: "101",
  prNumber: 7,
  headSha: "h1",
  actor: { id: "12", login: "theo" },
  now: 1_000,
};

const GUESS: Guess = {
  repositoryId: "101",
  prNumber: 7,
  headSha: "h1",
  defaultBranch: "main",
  workflows: [PREPARE, EXECUTE],
  logins: ["mira", "theo"],
  merge: true,
};

const DOWN: GitHubFailure = { reason: "server", status: 503 };

interface Plan {
  /** Reads that fail, by their place in `READS`. */
  readonly broken: ReadonlySet<string>;
  readonly firstPull: Partial<Pull>;
  readonly secondPull: Partial<Pull>;
  readonly defaultBranch: string;
}

const GOOD: Plan = { broken: new Set(), firstPull: {}, secondPull: {}, defaultBranch: "main" };

/** A GitHub whose every answer takes one round; rounds are counted, and what was asked is noted in order. */
function gitHub(plan: Plan) {
  const asked: string[] = [];
  let pulls = 0;
  let filesRead = false;
  const answer = async <T>(name: string, value: T): Promise<Result<T, GitHubFailure>> => {
    asked.push(name);
    await new Promise((resolve) => setImmediate(resolve));
    if (name.startsWith("files")) filesRead = true;
    return plan.broken.has(name) ? err(DOWN) : ok(value);
  };
  const vouched: boolean[] = [];
  const port: AuthorizePort = {
    getRepository: () =>
      answer("repository", { id: "101", defaultBranch: plan.defaultBranch, owner: "acme", name: "tensors" } as never),
    getBranchHead: (branch) => answer(`head ${branch}`, `sha-${branch}`),
    getFile: (path, ref) =>
      answer(`file ${path}`, { sha: `blob ${path} ${ref}`, text: path === CONFIG_PATH ? CONFIG : "" }),
    getPull: (number) => {
      pulls += 1;
      if (pulls > 1) vouched.push(filesRead);
      return answer(`pull ${pulls}`, { ...PULL, number, ...plan.firstPull, ...(pulls > 1 ? plan.secondPull : {}) });
    },
    getRole: (login) =>
      answer(`role ${login}`, {
        roleName: login === "guest" ? "read" : "admin",
        userId: login === "mira" ? "11" : "12",
      } as never),
    getRef: (ref) => answer(`ref ${ref}`, "merge1"),
    getCommit: (sha) => answer(`commit ${sha}`, { sha, treeSha: "t1", parents: ["b1", "h1"] }),
    listPullFiles: () =>
      answer("files", {
        files: [{ filename: "src/a.rs", previousFilename: null, status: "added", changes: 1, patch: null }],
        complete: true,
      } as never),
  };
  return { port, asked, vouched };
}

async function both(plan: Plan, guess: Guess = GUESS) {
  const plain = gitHub(plan);
  const ahead = gitHub(plan);
  const one = await authorize(plain.port, INPUT);
  const two = await authorize(readAhead(ahead.port, guess), INPUT);
  return { one, two, plain, ahead };
}

describe("reading ahead", () => {
  test("admits what reading in order admits, and asks nothing twice", async () => {
    const { one, two, plain, ahead } = await both(GOOD);
    expect(one.outcome.kind).toBe("admitted");
    expect(two).toEqual(one);
    expect(ahead.asked.toSorted()).toEqual(plain.asked.toSorted());
  });

  test("takes a few rounds instead of one for each read", async () => {
    const { port, asked } = gitHub(GOOD);
    const waves: number[] = [];
    let before = 0;
    const done = authorize(readAhead(port, GUESS), INPUT);
    for (let round = 0; round < 20; round += 1) {
      if (asked.length > before) waves.push(asked.length - before);
      before = asked.length;
      await new Promise((resolve) => setImmediate(resolve));
    }
    await done;
    // The repository, the branch and the pull request; what these led to; then the merge commit and the second look at the
    // pull request, side by side unless hashing the configuration took longer than GitHub.
    expect(waves.slice(0, 2)).toEqual([3, 7]);
    expect(waves.length).toBeLessThanOrEqual(4);
  });

  test("the second look at the pull request begins when its files have been read", async () => {
    const { ahead } = await both(GOOD);
    expect(ahead.vouched).toEqual([true]);
  });

  const reads = [
    "repository",
    "head main",
    `file ${CONFIG_PATH}`,
    `file ${PREPARE}`,
    `file ${EXECUTE}`,
    "pull 1",
    "pull 2",
    "role mira",
    "role theo",
    "ref pull/7/merge",
    "commit merge1",
    "files",
  ];
  const pull = fc.record(
    {
      state: fc.constantFrom("open", "closed"),
      headSha: fc.constantFrom("h1", "h2"),
      baseRef: fc.constantFrom("main", "next"),
      headRepositoryId: fc.constantFrom("101", "202", null),
    },
    { requiredKeys: [] },
  ) as fc.Arbitrary<Partial<Pull>>;

  test("whatever fails and whatever changed, the outcome is the one of reading in order", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.subarray(reads, { maxLength: 3 }),
        pull,
        pull,
        fc.constantFrom("main", "trunk"),
        async (broken, firstPull, secondPull, defaultBranch) => {
          const plan = { broken: new Set(broken), firstPull, secondPull, defaultBranch };
          const { one, two, ahead } = await both(plan);
          expect(two).toEqual(one);
          expect(ahead.vouched.every(Boolean)).toBe(true);
        },
      ),
      { numRuns: 300 },
    );
  });

  test("a wrong guess costs requests and changes nothing", async () => {
    const { one, two } = await both(GOOD, {
      ...GUESS,
      defaultBranch: "old",
      workflows: ["x.yml"],
      logins: ["guest"],
      merge: false,
    });
    expect(two).toEqual(one);
  });
});
