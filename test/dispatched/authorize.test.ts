/**
 * Who may spend on one commit, and on which: validations against fork commits, check targets that were not tested, and
 * recoveries, which test the head whatever the configuration says.
 */
import { describe, expect, it } from "vitest";
import { authorize } from "../../shared/authorize/authorize.ts";
import { authorizeValidation } from "../../shared/authorize/validation.ts";
import { json, shaOf, stubClient, T0, type Handler } from "../github/stub.ts";

const REPO = "/repos/octo/engine";
const MAIN = shaOf("c");
const REVISION = shaOf("d");
const TARGET = shaOf("a");
const MIRA = { id: "501", login: "mira" };

const gone: Handler = () => json({ message: "Not Found" }, { status: 404 });
const down: Handler = () => json({ message: "sorry" }, { status: 502 });
const file = (text: string) =>
  json({ type: "file", sha: shaOf("f"), encoding: "base64", content: Buffer.from(text).toString("base64") });
const commit =
  (sha: string, tree = shaOf("1")): Handler =>
  () =>
    json({ sha, tree: { sha: tree }, parents: [] });
const compared =
  (status: string): Handler =>
  () =>
    json({ status, merge_base_commit: { sha: MAIN }, files: [] });
const role =
  (name: string, id = 501): Handler =>
  () =>
    json({ permission: "write", role_name: name, user: { id } });

const ON_MAIN = `GET ${REPO}/compare/${REVISION}...${MAIN}`;
const CONTAINS_TARGET = `GET ${REPO}/compare/${TARGET}...${REVISION}`;
const ROLE = `GET ${REPO}/collaborators/mira/permission`;

const base: Readonly<Record<string, Handler>> = {
  [`GET ${REPO}`]: () => json({ id: 101, full_name: "octo/engine", default_branch: "main" }),
  [`GET ${REPO}/branches/main`]: () => json({ commit: { sha: MAIN } }),
  [`GET ${REPO}/contents/.github/gpu-gate.yml`]: () => file("version: 1\n"),
  [`GET ${REPO}/contents/.github/workflows/gpu-gate-prepare.yml`]: () => file("prepare"),
  [`GET ${REPO}/contents/.github/workflows/gpu-gate-execute.yml`]: gone,
  [ROLE]: role("maintain"),
  [`GET ${REPO}/git/commits/${REVISION}`]: commit(REVISION),
  [`GET ${REPO}/git/commits/${TARGET}`]: commit(TARGET, shaOf("2")),
  [ON_MAIN]: compared("ahead"),
  [CONTAINS_TARGET]: compared("ahead"),
};

async function validation(routes: Readonly<Record<string, Handler>> = {}, change: object = {}) {
  const { client, stub } = stubClient({ ...base, ...routes });
  const input = { repositoryId: "101", revision: REVISION, headSha: REVISION, actor: MIRA, now: T0, ...change };
  const { outcome, config } = await authorizeValidation(client, input);
  return { outcome, config, stub };
}

describe("a validation", () => {
  it("is admitted for a commit of the default branch: tested as it is, every lane on, no draft, no pull request", async () => {
    const { outcome, config } = await validation();
    expect(outcome).toMatchObject({
      kind: "admitted",
      admission: {
        testedSha: REVISION,
        baseRef: "main",
        defaultSha: MAIN,
        gpuRequired: true,
        draft: false,
        lanes: { gpu: true },
        actor: MIRA,
        author: MIRA,
        workflowBlobs: {
          ".github/workflows/gpu-gate-prepare.yml": shaOf("f"),
          ".github/workflows/gpu-gate-execute.yml": "missing",
        },
      },
    });
    expect(config).not.toBeNull();
  });

  it("of the head of the default branch needs no comparison", async () => {
    const routes = { [`GET ${REPO}/git/commits/${MAIN}`]: commit(MAIN) };
    const { outcome, stub } = await validation(routes, { revision: MAIN, headSha: MAIN });
    expect(outcome.kind).toBe("admitted");
    expect(stub.seen.filter((seen) => seen.path.includes("/compare/"))).toEqual([]);
  });

  it.each<[string, Readonly<Record<string, Handler>>, object, string]>([
    ["nobody known", {}, { actor: null }, "actor-not-permitted"],
    ["a writer", { [ROLE]: role("write") }, {}, "actor-not-permitted"],
    ["an outsider", { [ROLE]: gone }, {}, "actor-not-permitted"],
    ["another account of that login", { [ROLE]: role("admin", 999) }, {}, "actor-not-permitted"],
    ["a commit nobody has", { [`GET ${REPO}/git/commits/${REVISION}`]: gone }, {}, "tested-revision-missing"],
    ["a fork's commit, which GitHub finds here too", { [ON_MAIN]: compared("diverged") }, {}, "revision-not-merged"],
    ["a commit ahead of the default branch", { [ON_MAIN]: compared("behind") }, {}, "revision-not-merged"],
    ["a commit without common history", { [ON_MAIN]: gone }, {}, "revision-not-merged"],
    ["a comparison GitHub words anew", { [ON_MAIN]: compared("sideways") }, {}, "revision-not-merged"],
    [
      "a check on a commit that was not tested",
      { [CONTAINS_TARGET]: compared("diverged") },
      { headSha: TARGET },
      "check-target-unrelated",
    ],
    [
      "a check on a commit that came later",
      { [CONTAINS_TARGET]: compared("behind") },
      { headSha: TARGET },
      "check-target-unrelated",
    ],
    [
      "a check on a commit nobody has",
      { [`GET ${REPO}/git/commits/${TARGET}`]: gone },
      { headSha: TARGET },
      "check-target-unrelated",
    ],
    [
      "another repository under this name",
      { [`GET ${REPO}`]: () => json({ id: 102, full_name: "octo/engine", default_branch: "main" }) },
      {},
      "repository-not-allowed",
    ],
    ["no configuration", { [`GET ${REPO}/contents/.github/gpu-gate.yml`]: gone }, {}, "configuration-missing"],
  ])("of %s is refused", async (_what, routes, change, reason) => {
    expect((await validation(routes, change)).outcome).toMatchObject({ kind: "refused", reason });
  });

  it.each([
    ["is contained in the revision", {}],
    [
      "has the same files (a squashed merge)",
      { [CONTAINS_TARGET]: compared("diverged"), [`GET ${REPO}/git/commits/${TARGET}`]: commit(TARGET) },
    ],
  ])("may put its check on a commit that %s", async (_what, routes) => {
    expect((await validation(routes, { headSha: TARGET })).outcome.kind).toBe("admitted");
  });

  it.each([
    `GET ${REPO}`,
    `GET ${REPO}/branches/main`,
    `GET ${REPO}/contents/.github/gpu-gate.yml`,
    ROLE,
    `GET ${REPO}/git/commits/${REVISION}`,
    `GET ${REPO}/git/commits/${TARGET}`,
    ON_MAIN,
    CONTAINS_TARGET,
    `GET ${REPO}/contents/.github/workflows/gpu-gate-execute.yml`,
  ])("is neither admitted nor refused while %s cannot be read", async (route) => {
    expect((await validation({ [route]: down }, { headSha: TARGET })).outcome.kind).toBe("unknown");
  });

  it("reads the role before any commit: whoever may not spend learns nothing of the repository", async () => {
    const { stub } = await validation({ [ROLE]: role("read") });
    expect(stub.seen.some((seen) => seen.path.includes("/git/commits/"))).toBe(false);
  });
});

describe("a recovery", () => {
  const pull = {
    number: 7,
    state: "open",
    title: "A change",
    labels: [],
    user: { id: 501, login: "mira", type: "User" },
    head: { sha: TARGET, ref: "topic", repo: { id: 101, full_name: "octo/engine" } },
    base: { sha: MAIN, ref: "main", repo: { id: 101 } },
    changed_files: 1,
  };
  const routes: Readonly<Record<string, Handler>> = {
    ...base,
    [`GET ${REPO}/pulls/7`]: () => json(pull),
    [`GET ${REPO}/pulls/7/files`]: () =>
      json([{ filename: "src/lib.rs", status: "modified", sha: shaOf("b"), changes: 2, patch: "@@ -1 +1 @@\n-a\n+b" }]),
    [`GET ${REPO}/git/ref/pull/7/merge`]: () => json({ object: { sha: shaOf("9") } }),
  };
  const input = { repositoryId: "101", prNumber: 7, headSha: TARGET, actor: MIRA, now: T0 };

  it("tests the head even where the configuration tests the merge", async () => {
    const { client, stub } = stubClient(routes);
    const { outcome } = await authorize(client, { ...input, tested: "head" });
    expect(outcome).toMatchObject({ kind: "admitted", admission: { testedSha: TARGET } });
    expect(stub.calls(`GET ${REPO}/git/ref/pull/7/merge`)).toEqual([]);
  });

  it("works where GitHub has no merge commit to test", async () => {
    const { client } = stubClient({
      ...routes,
      [`GET ${REPO}/pulls/7`]: () => json({ ...pull, mergeable: false }),
      [`GET ${REPO}/git/ref/pull/7/merge`]: gone,
    });
    expect((await authorize(client, { ...input, tested: "head" })).outcome.kind).toBe("admitted");
    expect((await authorize(client, input)).outcome).toMatchObject({
      kind: "refused",
      reason: "tested-revision-missing",
    });
  });

  it("is no way around the rules of a pull request: a fork stays refused", async () => {
    const fork = { ...pull, head: { ...pull.head, repo: { id: 102, full_name: "eve/engine" } } };
    const { client } = stubClient({ ...routes, [`GET ${REPO}/pulls/7`]: () => json(fork) });
    expect((await authorize(client, { ...input, tested: "head" })).outcome).toMatchObject({
      kind: "refused",
      reason: "fork",
    });
  });

  it("still checks the author beside the maintainer who asks", async () => {
    const byWalt = { ...pull, user: { id: 502, login: "walt", type: "User" } };
    const { client } = stubClient({
      ...routes,
      [`GET ${REPO}/pulls/7`]: () => json(byWalt),
      [`GET ${REPO}/collaborators/walt/permission`]: role("write", 502),
    });
    expect((await authorize(client, { ...input, tested: "head" })).outcome).toMatchObject({
      kind: "refused",
      reason: "author-not-permitted",
    });
  });
});
