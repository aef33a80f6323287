/** "No GPU is needed" is said of a commit, and what one pull request is refused is not had by another at the same commit. */
import { describe, expect, test } from "vitest";
import { withSiblings, type SiblingsPort } from "../../shared/authorize/siblings.ts";
import { parseRepositoryConfig } from "../../shared/config/load.ts";
import { CONFIG_PATH } from "../../shared/config/schema.ts";
import type { GitHubFailure } from "../../shared/github/failure.ts";
import type { Pull } from "../../shared/github/pulls.ts";
import { err, ok } from "../../shared/result.ts";
import { ADMISSION, TERMS } from "../lifecycle/fixtures.ts";

const HOME = "101";
const FORK = "202";
const DOWN: GitHubFailure = { reason: "server", status: 503 };
const CONFIG = `version: 1
paths:
  docs:
    files: [README.md]
fork_fallback:
  instructions: Ask a maintainer.
`;

interface Stand {
  readonly number: number;
  readonly author: string;
  readonly from: string | null;
  readonly base: string;
  readonly file: string;
  readonly head?: string;
  readonly state?: "open" | "closed";
}

/** The asking pull request is 7, whose own change is documentation for main. */
function asking(more: Partial<Stand> = {}): Stand {
  return { number: 7, author: "mira", from: HOME, base: "main", file: "README.md", ...more };
}

function other(more: Partial<Stand> = {}): Stand {
  return { number: 8, author: "mona", from: HOME, base: "next", file: "src/a.rs", ...more };
}

const ROLES: Readonly<Record<string, string>> = { mira: "admin", mona: "maintain", walt: "write" };

function pullOf(one: Stand): Pull {
  return {
    number: one.number,
    state: one.state ?? "open",
    draft: false,
    author: { id: `id-${one.author}`, login: one.author },
    authorType: "User",
    headSha: one.head ?? "h1",
    headRepositoryId: one.from,
    baseRef: one.base,
    baseRepositoryId: HOME,
    changedFiles: 1,
  } as unknown as Pull;
}

/** `later`: what a pull request is once its files have been read. */
async function decide(
  stands: readonly Stand[],
  change: Partial<SiblingsPort> = {},
  later: readonly Stand[] = [],
  testedFor: readonly string[] = [],
) {
  const parsed = parseRepositoryConfig(CONFIG);
  if (!parsed.ok) throw new Error("the configuration does not read");
  let read = false;
  const find = (number: number) => [...(read ? later : []), ...stands].find((one) => one.number === number);
  const port: SiblingsPort = {
    getPull: (number) => {
      const found = find(number);
      return Promise.resolve(found === undefined ? err({ reason: "not-found" }) : ok(pullOf(found)));
    },
    listPullFiles: (number) => {
      const filename = find(number)?.file ?? "";
      read = true;
      const file = { filename, previousFilename: null, status: "modified", sha: null, changes: 1, patch: "@@" };
      return Promise.resolve(ok({ files: [file], complete: true }));
    },
    getFile: (path) => Promise.resolve(ok({ sha: `blob ${path}`, text: path === CONFIG_PATH ? CONFIG : "" })),
    getRole: (login) =>
      Promise.resolve(
        ROLES[login] === undefined
          ? err({ reason: "not-found" })
          : ok({ userId: `id-${login}`, roleName: ROLES[login], permission: "write" }),
      ),
    listPullsForCommit: () => Promise.resolve(ok({ items: stands.map(pullOf), complete: true })),
    listOpenPulls: () => Promise.resolve(ok({ items: stands.map(pullOf), complete: true })),
    listRefs: () => Promise.resolve(ok([])),
    ...change,
  };
  const admission = { ...ADMISSION, baseRef: "main", gpuRequired: false, workflowBlobs: {} };
  const about = { repositoryId: HOME, prNumber: 7, headSha: "h1", config: parsed.value, testedFor: new Set(testedFor) };
  const outcome = await withSiblings(port, { kind: "admitted", terms: TERMS, admission }, about);
  if (outcome.kind === "admitted") return outcome.admission.gpuRequired ? "tested" : "not required";
  return outcome.kind === "refused" ? outcome.reason : outcome.kind;
}

/** What GitHub tells of a commit that the default branch has: who brought it there, and nobody else. */
const ofDefaultBranch: Partial<SiblingsPort> = {
  listPullsForCommit: () => {
    const merged = { ...pullOf(asking({ number: 3, state: "closed" })), merged: true };
    return Promise.resolve(ok({ items: [merged], complete: true }));
  },
};

describe("a commit that is documentation for the asking pull request", () => {
  test.each([
    ["is one of a merge queue's", ok([{ ref: "refs/heads/gh-readonly-queue/main/pr-3-0", sha: "h1" }]), "unknown"],
    ["is beside a merge queue", ok([{ ref: "refs/heads/gh-readonly-queue/main/pr-3-0", sha: "h2" }]), "not required"],
    ["may be one of a merge queue's", err(DOWN), "unknown"],
  ] as const)("and %s: the queue takes no answer but its group's", async (_, refs, expected) => {
    const listRefs: SiblingsPort["listRefs"] = (start) =>
      Promise.resolve(start === "heads/gh-readonly-queue/" ? refs : ok([]));
    expect(await decide([asking()], { listRefs })).toBe(expected);
  });

  test.each(["main", "stage", "stable"])("and code for stage, which was tested there if %s was", async (base) => {
    for (const sibling of [other({ base: "stage", author: "walt" }), other({ base: "stage", from: FORK })]) {
      // A fork's is never tested, and is shown whatever the commit was tested for.
      const stands = base === "stage" || sibling.from === FORK;
      const expected = stands ? "not required" : "author-not-permitted";
      expect(await decide([asking(), sibling], {}, [], [base])).toBe(expected);
    }
  });

  test.each([
    ["documentation", other({ file: "README.md" }), "not required"],
    ["documentation from a fork", other({ file: "README.md", from: FORK, author: "eve" }), "not required"],
    ["a writer's documentation", other({ file: "README.md", author: "walt" }), "not required"],
    ["code", other(), "tested"],
    ["a writer's code", other({ author: "walt" }), "author-not-permitted"],
    ["a fork's code", other({ from: FORK, author: "eve" }), "fork"],
    ["a maintainer's code in a fork", other({ from: FORK }), "fork"],
    ["code of a fork that is gone", other({ from: null }), "fork"],
    ["code, and closed", other({ state: "closed", author: "walt" }), "not required"],
    ["code at another commit", other({ head: "h2", author: "walt" }), "not required"],
    ["code for the same base, as a list in doubt says", other({ base: "main", author: "walt" }), "not required"],
  ] as const)("and %s for another: from here", async (_, sibling, expected) => {
    expect(await decide([asking(), sibling])).toBe(expected);
  });

  test.each([
    ["documentation", other({ file: "README.md" }), "not required"],
    ["code", other(), "fork"],
    ["a writer's code", other({ author: "walt" }), "fork"],
    ["a fork's code", other({ from: FORK, author: "eve" }), "fork"],
  ] as const)("and %s for another: from a fork, gone or not, nothing is rented", async (_, sibling, expected) => {
    expect(await decide([asking({ from: FORK, author: "eve" }), sibling])).toBe(expected);
    expect(await decide([asking({ from: FORK }), sibling])).toBe(expected);
    expect(await decide([asking({ from: null }), sibling])).toBe(expected);
  });

  test("each of several others counts, whichever comes first", async () => {
    const good = other();
    const bad = other({ number: 9, base: "old", author: "walt" });
    expect(await decide([asking(), good, bad])).toBe("author-not-permitted");
    expect(await decide([asking(), bad, good])).toBe("author-not-permitted");
  });

  test("and is in the default branch: the others are found all the same", async () => {
    expect(await decide([asking(), other()], ofDefaultBranch)).toBe("tested");
    expect(await decide([asking(), other({ author: "walt" })], ofDefaultBranch)).toBe("author-not-permitted");
    expect(await decide([asking({ from: FORK, author: "eve" }), other()], ofDefaultBranch)).toBe("fork");
    expect(await decide([asking()], ofDefaultBranch)).toBe("not required");
  });

  test.each(["not-found", "unprocessable"] as const)("and GitHub knows no pull request of it (%s)", async (reason) => {
    const listPullsForCommit = () => Promise.resolve(err({ reason } as GitHubFailure));
    expect(await decide([asking(), other({ author: "walt" })], { listPullsForCommit })).toBe("author-not-permitted");
  });

  test("and has more pull requests than GitHub lists: nothing is said of those that were not seen", async () => {
    const some = () => Promise.resolve(ok({ items: [pullOf(asking())], complete: false }));
    expect(await decide([asking(), other()], { listPullsForCommit: some })).toBe("tested");
    expect(await decide([asking(), other()], { listPullsForCommit: some, listOpenPulls: some })).toBe("unknown");
  });

  test("I11: what could not be read admits nothing", async () => {
    const down = () => Promise.resolve(err(DOWN));
    const stands = [asking(), other()];
    expect(await decide(stands, { listPullsForCommit: down })).toBe("unknown");
    expect(await decide(stands, { ...ofDefaultBranch, listOpenPulls: down })).toBe("unknown");
    expect(await decide(stands, { getRole: down })).toBe("unknown");
    expect(await decide(stands, { listPullFiles: down })).toBe("unknown");
    expect(await decide(stands, { getPull: down })).toBe("unknown");
    expect(await decide(stands, { getFile: down })).toBe("unknown");
  });

  test("the list of files was of this head and this base, or it says nothing", async () => {
    const words = other({ file: "README.md" });
    expect(await decide([asking(), words], {}, [other({ base: "old" })])).toBe("unknown");
    expect(await decide([asking(), words], {}, [other({ head: "h2" })])).toBe("not required");
  });

  test("the asking one is looked at again before anything is rented", async () => {
    const stands = [asking(), other()];
    expect(await decide(stands, {}, [asking({ state: "closed" })])).toBe("closed");
    expect(await decide(stands, {}, [asking({ head: "h2" })])).toBe("moved");
  });
});
