/** The test merge that is tested must be of the head that gets the check (I4): GitHub makes it late, or not at all. */
import { expect, test } from "vitest";
import { authorize, type AuthorizePort } from "../../shared/authorize/authorize.ts";
import { CONFIG_PATH } from "../../shared/config/schema.ts";
import type { Pull } from "../../shared/github/pulls.ts";
import { ok } from "../../shared/result.ts";

const CONFIG = "version: 1\nfork_fallback:\n  instructions: Ask a maintainer.\n";
const MIRA = { id: "11", login: "mira" };

/** The pull request's head is `h2`; `merges` is what stands at its test merge, by the head it was made of. */
function admitted(merge: { readonly of: string } | null, mergeable: boolean | null) {
  const pull = {
    number: 7,
    state: "open",
    draft: false,
    title: "code",
    author: MIRA,
    authorType: "User",
    headSha: "h2",
    headRepositoryId: "101",
    baseRef: "main",
    baseSha: "b1",
    baseRepositoryId: "101",
    changedFiles: 1,
    mergeable,
  } as unknown as Pull;
  const files = [{ filename: "src/a.rs", previousFilename: null, status: "added", sha: null, changes: 1, patch: null }];
  const port: AuthorizePort = {
    getRepository: () => Promise.resolve(ok({ id: "101", fullName: "a/b", defaultBranch: "main", archived: false })),
    getBranchHead: () => Promise.resolve(ok("d1")),
    getFile: (path) => Promise.resolve(ok({ sha: "f1", text: path === CONFIG_PATH ? CONFIG : "" })),
    getPull: () => Promise.resolve(ok(pull)),
    getRole: () => Promise.resolve(ok({ userId: MIRA.id, roleName: "admin", permission: "admin" })),
    getRef: () => Promise.resolve(ok(merge === null ? null : "m1")),
    getCommit: (sha) => Promise.resolve(ok({ sha, treeSha: "t1", parents: ["b1", merge?.of ?? ""] })),
    listPullFiles: () => Promise.resolve(ok({ files, complete: true })),
  };
  return authorize(port, { repositoryId: "101", prNumber: 7, headSha: "h2", actor: MIRA, now: 0 });
}

test("a test merge of this head is what is tested", async () => {
  const { outcome } = await admitted({ of: "h2" }, true);
  expect(outcome).toMatchObject({ kind: "admitted", admission: { testedSha: "m1" } });
});

test.each([null, true])("one of the head before (mergeable: %s) is waited out, never tested", async (mergeable) => {
  expect((await admitted({ of: "h1" }, mergeable)).outcome.kind).toBe("unknown");
});

test("one that GitHub has not made yet is waited for", async () => {
  expect((await admitted(null, null)).outcome.kind).toBe("unknown");
});

test.each([null, { of: "h1" }])("in conflict there is none of this head, whatever stands there (%o)", async (merge) => {
  expect((await admitted(merge, false)).outcome).toMatchObject({ kind: "refused", reason: "tested-revision-missing" });
});
