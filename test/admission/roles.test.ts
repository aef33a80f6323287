/** Who may cause spending: decided by the real role of the account, never by the legacy permission. */
import { describe, expect, it } from "vitest";
import { mayCauseSpending } from "../../shared/authorize/authorize.ts";
import { parseRepositoryConfig } from "../../shared/config/load.ts";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import { ok } from "../../shared/result.ts";

const MIRA = { id: "501", login: "mira" };

function config(text = "version: 1\n"): RepositoryConfig {
  const parsed = parseRepositoryConfig(text);
  if (!parsed.ok) throw new Error("the test's configuration does not load");
  return parsed.value;
}

function github(role: Awaited<ReturnType<GitHubClient["getRole"]>>): Pick<GitHubClient, "getRole"> {
  return { getRole: () => Promise.resolve(role) };
}

describe("N110: the role decides", () => {
  it.each([
    ["admin", "admin", true],
    ["maintain", "write", true],
    ["write", "write", false],
    ["triage", "read", false],
    ["read", "read", false],
    ["none", "none", false],
    // A custom role is none of the known ones, although its legacy permission says what it was built on.
    ["release-crew", "admin", false],
    ["Admin", "admin", false],
  ])("%s, whose legacy permission is %s: %s", async (roleName, permission, may) => {
    const port = github(ok({ userId: MIRA.id, roleName, permission }));
    const answer = await mayCauseSpending(port, config(), MIRA, "User");
    expect(answer).toEqual(may ? { kind: "yes" } : { kind: "no", role: roleName });
  });

  it("a repository that lets writers spend lets nobody below them", async () => {
    const open = config("version: 1\naccess:\n  roles: [admin, maintain, write]\n");
    const asked = async (roleName: string) =>
      (await mayCauseSpending(github(ok({ userId: MIRA.id, roleName, permission: "write" })), open, MIRA, "User")).kind;
    expect([await asked("write"), await asked("triage"), await asked("release-crew")]).toEqual(["yes", "no", "no"]);
  });

  it("I11: a role that could not be read is neither yes nor no", async () => {
    const port = github({ ok: false, error: { reason: "server", status: 503 } });
    expect((await mayCauseSpending(port, config(), MIRA, "User")).kind).toBe("unknown");
  });
});
