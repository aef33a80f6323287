/**
 * I7: every request that names a head ends in a concluded check with a reason code, whatever ended it; where GitHub no
 * longer lets the App speak, the audit says so. One repository, many ends, and GitHub's own records of them.
 */
import { describe, expect, it } from "vitest";
import { isReasonCode, REASONS } from "../../shared/audit/reasons.ts";
import { conclusionOf } from "../../shared/lifecycle/verdict.ts";
import { CONFIG, startLife, verdictOf, type Life } from "../gate/life.ts";

/** A request may wait for its trigger run, a person and a draft here, but not for long. */
const IMPATIENT = CONFIG.replace("trigger_start: 60", "trigger_start: 1");

const files = (name: string) => ({ [`src/${name}.rs`]: "fn f() {}\n" });

/** Ends that cost no pod: each opens what it names and does what ends it. Gives the head. */
const ENDS: Readonly<Record<string, (world: Life) => Promise<string> | string>> = {
  "docs-only": ({ repository }) =>
    repository.openPullRequest({ author: "mira", branch: "words", files: { "README.md": "# words\n" } }).headSha,
  "author-not-permitted": ({ repository }) =>
    repository.openPullRequest({ author: "walt", branch: "walt", files: files("walt") }).headSha,
  fork: ({ repository }) =>
    repository.openPullRequest({ author: "stranger", branch: "fork", fork: true, files: files("fork") }).headSha,
  "trigger-not-started": ({ repository }) => {
    repository.setWorkflowState(".github/workflows/ci.yml", "disabled_manually");
    return repository.openPullRequest({ author: "mira", branch: "late", files: files("late") }).headSha;
  },
  closed: async ({ repository, until }) => {
    const draft = repository.openPullRequest({ author: "mira", branch: "shut", draft: true, files: files("shut") });
    await until(draft.headSha, "its wait", ({ state }) => state.kind === "waiting");
    repository.close(draft.number);
    return draft.headSha;
  },
  "head-moved": async ({ repository, until }) => {
    const draft = repository.openPullRequest({ author: "mira", branch: "moves", draft: true, files: files("moves") });
    await until(draft.headSha, "its wait", ({ state }) => state.kind === "waiting");
    repository.push(draft.number, { author: "mira", files: files("moved") });
    return draft.headSha;
  },
  "cancelled-by-operator": async ({ repository, until, gate }) => {
    const draft = repository.openPullRequest({ author: "mira", branch: "told", draft: true, files: files("told") });
    const request = await until(draft.headSha, "its wait", ({ state }) => state.kind === "waiting");
    gate.operator({ action: "cancel", requestId: request.id, by: "op", reason: "enough", micros: null });
    return draft.headSha;
  },
};

describe("I7: every request", () => {
  it("ends in one concluded check that says the verdict by the table, with its reason in the audit", async (test) => {
    const world = await startLife({ config: IMPATIENT });
    test.onTestFinished(() => world.close());
    world.repository.addCollaborator("walt", "write");
    for (const [reason, end] of Object.entries(ENDS)) {
      const head = await end(world);
      const request = await world.concluded(head);
      const ended = verdictOf(request);
      expect(ended.reason).toBe(reason);
      const checks = world.repository.checkRuns(head).filter((run) => run.name === "CI GPU gate");
      expect(checks.map((run) => [run.status, run.conclusion])).toEqual([["completed", conclusionOf[ended.kind]]]);
      expect(checks[0]?.summary ?? "").not.toBe("");
    }
    const concluded = world.audits().filter((entry) => entry.act === "request.conclude");
    const named = concluded.map((entry) => entry.reason ?? "");
    expect(named).toEqual(expect.arrayContaining(Object.keys(ENDS)));
    for (const { reason, facts } of concluded) {
      expect(isReasonCode(reason ?? "") && REASONS[reason as keyof typeof REASONS].class).toBe(facts["verdict"]);
    }
    expect(world.runpod.pods()).toEqual([]);
  });

  it("of a repository in which the App may no longer speak ends in the audit, with why", async (test) => {
    const world = await startLife();
    test.onTestFinished(() => world.close());
    const draft = world.repository.openPullRequest({ author: "mira", draft: true, files: files("gone") });
    await world.until(draft.headSha, "its check", ({ check }) => check.published !== null);
    world.github.installation("acme").uninstall();
    const request = await world.until(draft.headSha, "the end", ({ state }) => state.kind === "concluded");
    expect(verdictOf(request).reason).toBe("app-removed");
    expect(world.audits().findLast((entry) => entry.act === "request.conclude")).toMatchObject({
      reason: "app-removed",
    });
  });
});
