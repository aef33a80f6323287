/** Whose rules the aggregator's answer on a commit goes by. */
import { expect, it } from "vitest";
import { readSubject, type SubjectPort } from "../../durable-objects/gate/aggregate-subject.ts";
import type { AggregateRow } from "../../durable-objects/gate/aggregates.ts";
import { configFrom } from "../../shared/config/load.ts";
import type { GitHubFailure } from "../../shared/github/failure.ts";
import type { Pull } from "../../shared/github/pulls.ts";
import { err, ok } from "../../shared/result.ts";

const HOME = "101";
const FORK = "202";
const DOWN: GitHubFailure = { reason: "server", status: 503 };

function pull(number: number, headRef: string, more: Partial<Pull> = {}): Pull {
  const headRepositoryId = headRef.startsWith("eve-") ? FORK : HOME;
  return { number, state: "open", draft: false, headSha: "h1", headRef, headRepositoryId, ...more } as Pull;
}

/** What is judged where the stranger's pull request 8 speaks for the commit. */
async function judged(others: readonly Pull[], asked: "may-skip" | "must-on-release" = "must-on-release") {
  const asking = pull(8, "eve-words");
  let lists = 0;
  const port: Partial<SubjectPort> = {
    repository: { id: HOME, owner: "acme", name: "tensors", installationId: "1" },
    getPull: async () => ok(asking),
    listPullsForCommit: async () => {
      lists += 1;
      return ok({ items: [asking, ...others], complete: true });
    },
  };
  const config = configFrom({
    required_checks: [{ name: "Contract", report: asked }],
    aggregator: { name: "All checks", release_prefix: "release--" },
  });
  const row = { headSha: "h1", prNumber: 8 } as AggregateRow;
  const read = (more: Partial<SubjectPort>) =>
    readSubject(row, config, { store: {} as never, github: { ...port, ...more } as SubjectPort });
  const subject = await read({});
  return { ref: subject.kind === "open" ? subject.headRef : subject.kind, lists, read };
}

it("a release stays one although another pull request, from a fork, speaks for its commit", async () => {
  expect((await judged([pull(7, "release--1.0", { draft: true })])).ref).toBe("release--1.0");
});

it("is none for what is closed, at another commit, of a fork, or asked by no rule", async () => {
  const none = [
    pull(7, "release--1.0", { state: "closed" }),
    pull(9, "release--1.1", { headSha: "h2" }),
    pull(10, "release--1.2", { headRepositoryId: FORK }),
  ];
  expect((await judged(none)).ref).toBe("eve-words");
  expect(await judged([pull(7, "release--1.0")], "may-skip")).toMatchObject({ ref: "eve-words", lists: 0 });
});

it("nothing is concluded while GitHub does not say which pull requests have the commit", async () => {
  const { read } = await judged([]);
  expect(await read({ listPullsForCommit: async () => err(DOWN) })).toMatchObject({ kind: "unread" });
});
