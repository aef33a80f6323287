/**
 * Refs and paths that look like another. The refs of hosted jobs' tokens are in test/oidc/forged.test.ts ("a tag named main",
 * "main-evil", "a branch below main", ...): that table is held here by name, so that no row of it is lost.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Claims } from "../../shared/oidc/claims.ts";
import { checkOrigin } from "../../shared/oidc/verify.ts";
import { exchange, path, slashed } from "../../shared/github/call.ts";
import { isPrintableByGit } from "../../shared/policy/paths.ts";
import { API, stubClient } from "../github/stub.ts";
import { gpuGate } from "../hosted/io.ts";
import { claims, NOW, RECOVERY } from "../oidc/harness.ts";

const RULES = {
  fullName: "octo/engine",
  ownerId: "9",
  defaultBranch: "main",
  workflowPath: RECOVERY,
  maxAgeMs: 600_000,
  now: NOW,
};

function judged(ref: string, where: "job_workflow_ref" | "ref" | "workflow_ref") {
  const value = where === "ref" ? ref : `octo/engine/${RECOVERY}@${ref}`;
  return checkOrigin(claims({ [where]: value }) as unknown as Claims, RULES);
}

const LOOK_ALIKES = [
  "refs/tags/main",
  "refs/heads/main-evil",
  "refs/heads/evil/main",
  "refs/heads/main/evil",
  "refs/heads/refs/heads/main",
  "refs/remotes/origin/main",
  "refs/heads/Main",
  "refs/heads/MAIN",
  "refs/heads/maın",
  "refs/heads/mаin",
  "refs/heads/ｍａｉｎ",
  "refs/heads/main\u200b",
  "refs/heads/\u202eniam",
  "refs/heads/main ",
  " refs/heads/main",
  "refs/heads/main\n",
  "refs/heads/main\u0000",
  "refs/heads/main\r\nrefs/heads/main",
  "refs/heads/main.lock",
  "refs/heads/./main",
  "refs/heads/x/../main",
  "refs/heads//main",
  "refs/heads/main/",
  "refs/heads/%6dain",
  "refs/heads/main@refs/heads/main",
  "refs/heads/main?",
  "refs/heads/main#",
  "refs/pull/7/merge",
  "refs/heads/ma*n",
  "heads/main",
  "main",
  "",
];

describe("a ref that looks like the default branch", () => {
  it("is nothing of the kind in the real one", () => {
    expect(judged("refs/heads/main", "ref")).toBeNull();
  });

  it.each(LOOK_ALIKES.map((ref) => [JSON.stringify(ref), ref]))("%s is refused wherever it stands", (_shown, ref) => {
    for (const where of ["job_workflow_ref", "workflow_ref", "ref"] as const) {
      expect(judged(ref ?? "", where), where).not.toBeNull();
    }
  });

  it("is refused as a whole token as well, each with its own line in the log", () => {
    const table = readFileSync(join(import.meta.dirname, "..", "oidc", "forged.test.ts"), "utf8");
    for (const row of [
      "a tag named main",
      "a branch main-evil",
      "a branch below main",
      "Main with a capital",
      "main without refs",
    ]) {
      expect(table).toContain(`what: "${row}"`);
    }
  });
});

describe("a name on its way into an address", () => {
  const HOSTILE = [
    "../../orgs/evil",
    "a/../../x",
    "%2e%2e/x",
    "a?per_page=1",
    "a#b",
    "a%2fb",
    "a\\..\\b",
    "a\r\nHost: evil",
    "a\u0000b",
    "@evil.test/",
    "//evil.test/x",
    "a;b",
    "a b",
    "ａ",
    "\u202e",
  ];

  it.each(HOSTILE.map((name) => [JSON.stringify(name), name]))(
    "%s stays one branch's name on GitHub's own server",
    async (_shown, name = "") => {
      const asked: string[] = [];
      const fetch = async (input: string) => {
        asked.push(input);
        return new Response("{}");
      };
      const call = { operation: "x", method: "GET", path: path`/repos/octo/engine/branches/${slashed(name)}` } as const;
      const answer = await exchange({ fetch, clock: { now: () => 0 } }, call, (send) => send(`${API}${call.path}`));
      if (!answer.ok) {
        expect([answer.error.reason, asked]).toEqual(["unprocessable", []]);
        return;
      }
      const [url = ""] = asked;
      expect(new URL(url).origin).toBe(API);
      expect(new URL(url).pathname.startsWith("/repos/octo/engine/branches/")).toBe(true);
      expect(new URL(url).search + new URL(url).hash).toBe("");
      expect(decodeURIComponent(new URL(url).pathname.slice("/repos/octo/engine/branches/".length))).toBe(name);
    },
  );

  it.each(["..", ".", "...", "%2e%2e", "a/b", "a?b", "a#b", "a\\b", "@evil.test", "a b", ""])(
    "%j as an owner or a repository stays one name, or is none",
    async (name) => {
      for (const [owner, repo] of [
        [name, "engine"],
        ["octo", name],
      ] as const) {
        const asked: string[] = [];
        const fetch = async (input: string) => {
          asked.push(input);
          return new Response("{}");
        };
        const call = { operation: "x", method: "GET", path: path`/repos/${owner}/${repo}/pulls` } as const;
        const answer = await exchange({ fetch, clock: { now: () => 0 } }, call, (send) => send(`${API}${call.path}`));
        const url = new URL(asked[0] ?? `${API}/repos/x/x/pulls`);
        expect([url.origin, url.search, url.hash, url.pathname.split("/").length]).toEqual([API, "", "", 5]);
        if (name === ".." || name === ".") expect([answer.ok, asked]).toEqual([false, []]);
      }
    },
  );

  it.each([
    "../..",
    "../engine",
    "octo/..",
    "./.",
    "octo/.",
    "octo/engine/x",
    "octo/en?gine",
    "octo/%2e%2e",
    "/engine",
    "octo/",
  ])("%j is no repository for a command, and nothing is asked", async (repository) => {
    const asked: string[] = [];
    const answer = await gpuGate(["archive", "find", "--key", "v1"], {
      env: {
        GPU_GATE_TOKEN: "ghp_canary",
        GITHUB_REPOSITORY: repository,
        GITHUB_RUN_ID: "1",
        GITHUB_ACTOR_ID: "1",
        GITHUB_WORKFLOW_REF: "octo/engine/.github/workflows/x.yml@refs/heads/main",
      },
      fetch: async (input) => (asked.push(input), new Response("{}")),
    });
    expect([answer.code, asked]).toEqual([2, []]);
  });

  it("cannot leave its repository with a file's path either", async () => {
    const { client, stub } = stubClient({});
    for (const file of ["../../../orgs/evil/x", "a/../../b", ".", "a/./b"]) {
      expect(await client.getFile(file, "main")).toMatchObject({ ok: false, error: { reason: "unprocessable" } });
    }
    expect(stub.seen.filter((call) => call.path.includes("contents"))).toEqual([]);
  });
});

describe("a path that looks like documentation", () => {
  it.each([
    "docs/../src/main.rs",
    "docs/./../src/x",
    "docs//x",
    "/docs/x",
    "docs/x\u0000.rs",
    "docs/.git/hooks/x",
    "docs/.GIT/config",
    "docs/",
  ])("%j is none that git prints, and so is code", (name) => {
    expect(isPrintableByGit(name)).toBe(false);
  });
});
