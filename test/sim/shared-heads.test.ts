/** Two checkers that look at what other people bring: their pull requests at a head, and runs under our runs' names. */
import { describe, expect, test } from "vitest";
import { CI, type Pull, type Repository, type Run } from "../../sim/github-model.ts";
import { check, checker, CODE, DOCS, HEAD, MERGE, pod, repository, request, run, world } from "./views.ts";

const OTHER = "c".repeat(40);
const FORK = "999";

function pull(number: number, more: Partial<Pull> = {}): Pull {
  return {
    number,
    headRepositoryId: "101",
    author: { id: "1", login: "maintainer0", role: "maintain" },
    state: "open",
    draft: false,
    headSha: HEAD,
    baseRef: "main",
    files: CODE,
    changes: [],
    arrivedAt: 0,
    arrivalHeard: true,
    actors: new Set(["maintainer0"]),
    conflict: false,
    ...more,
  } as Pull;
}

/** What was said on the head, in this order: of which pull request, how, and why. */
type Said = readonly (readonly [prNumber: number, kind: string, reason: string, actor?: string])[];

const CONCLUSIONS: Readonly<Record<string, string>> = { passed: "success", "not-required": "success" };

function at(pulls: readonly Pull[], said: Said, more: Partial<Repository> = {}) {
  const checks = said.map(([, kind], index) =>
    check({ id: `${index + 1}`, externalId: `r${index + 1}:0`, conclusion: CONCLUSIONS[kind] ?? "action_required" }),
  );
  const files = [...CODE];
  const shown = repository({
    pulls: new Map(pulls.map((one) => [one.number, one])),
    checks: new Map(checks.map((one) => [one.id, one])),
    changes: new Map([
      [
        HEAD,
        new Map([
          ["main", { files: pulls[0]?.files ?? files, mergeSha: MERGE }],
          ["next", { files, mergeSha: OTHER }],
        ]),
      ],
    ]),
    ...more,
  });
  const requests = said.map(([prNumber, kind, reason, actor = "maintainer0"], index) => ({
    id: `r${index + 1}`,
    kind: "pull-request",
    prNumber,
    headSha: HEAD,
    actor: { id: "1", login: actor },
    openedBy: { row: 1, actor: { id: "1", login: actor } },
    state: { kind: "concluded", at: 1, verdict: { kind, reason } },
  }));
  const store = {
    request: (id: string) => requests.find((one) => one.id === id) ?? null,
    requestsOfHead: () => requests,
  };
  return world({ repository: shown, store, pods: [pod({ releasedAt: 1 })] });
}

const owed = (...of: Parameters<typeof at>) => checker("shared").owed?.(at(...of)) ?? null;
const PASSED = [1, "passed", "tests-passed"] as const;

describe("several pull requests at one head", () => {
  test("a green that was tested for its base, and one that was not", () => {
    expect(owed([pull(1)], [PASSED])).toBeNull();
    expect(owed([pull(1), pull(2, { baseRef: "next" })], [PASSED])).toContain("#2");
    expect(owed([pull(1, { baseRef: "next" })], [PASSED])).toContain("never tested for this base");
    // Of one that may not spend, or is a fork's, nothing is promised.
    const writer = { id: "3", login: "writer0", role: "write" };
    expect(owed([pull(1), pull(2, { baseRef: "next", author: writer })], [PASSED])).toBeNull();
    expect(owed([pull(1), pull(2, { baseRef: "next", headRepositoryId: FORK })], [PASSED])).toBeNull();
    expect(owed([pull(1, { files: DOCS })], [[1, "not-required", "docs-only"]], { runs: new Map() })).toBeNull();
  });

  test.each<[string, Partial<Pull>, string | null]>([
    ["a fork's", { headRepositoryId: FORK }, "a fork's"],
    ["a closed one", { state: "closed" }, "not here any more"],
    ["one that has another head", { headSha: OTHER }, "not here any more"],
    ["one from here", { baseRef: "next" }, null],
  ])("a tested green under the word about %s", (_, more, what) => {
    const said: Said = [PASSED, [2, "refused", "author-not-permitted"]];
    const problem = owed([pull(1), pull(2, { author: { id: "3", login: "w", role: "write" }, ...more })], said);
    if (what === null) expect(problem).toBeNull();
    else expect(problem).toContain(what);
  });

  test("what needs no GPU may be held up by a fork's code while that is here, and by nothing else", () => {
    const said: Said = [
      [1, "not-required", "docs-only"],
      [2, "refused", "fork"],
    ];
    const runs = new Map<string, Run>();
    const docs = pull(1, { files: DOCS });
    expect(owed([docs, pull(2, { headRepositoryId: FORK, baseRef: "next" })], said, { runs })).toBeNull();
    expect(owed([docs, pull(2, { headRepositoryId: FORK, files: DOCS })], said, { runs })).toContain("no code is here");
    const own: Said = [[1, "refused", "fork"]];
    expect(owed([docs, pull(2, { headRepositoryId: FORK, baseRef: "next" })], own, { runs })).toBeNull();
    expect(owed([docs, pull(2, { headRepositoryId: FORK, state: "closed" })], own, { runs })).toContain("of another");
  });

  test("a word about something that is over, or a refusal of another in place of any answer", () => {
    expect(owed([pull(1)], [[1, "superseded", "head-moved"]])).toContain("'head-moved'");
    const fork = pull(2, { headRepositoryId: FORK });
    expect(owed([pull(1), fork], [[2, "refused", "fork"]])).toContain("no answer of its own");
    const left: Said = [
      [1, "closed", "closed"],
      [2, "refused", "fork"],
    ];
    expect(owed([pull(1), fork], left)).toContain("no answer of its own");
  });

  test("a person who was told of, and one who had nothing to do with it", () => {
    const unknown: Said = [[1, "awaiting-approval", "actor-unknown"]];
    expect(owed([pull(1)], unknown)).toContain("was told");
    expect(owed([pull(1, { arrivalHeard: false })], unknown)).toBeNull();
    const writers: Said = [[1, "refused", "actor-not-permitted", "writer0"]];
    const runOf = (login: string) => {
      const begun = run({
        id: "9",
        path: CI,
        headSha: HEAD,
        createdAt: 0,
        triggering: { id: "1", login, role: "none" },
      });
      return { runs: new Map([["9", begun]]) };
    };
    expect(owed([pull(1)], writers, runOf("maintainer0"))).toContain("writer0");
    expect(owed([pull(1, { actors: new Set(["writer0"]) })], writers, runOf("writer0"))).toBeNull();
    // It has no run of its own: another's is all that tells who it was.
    expect(owed([pull(1)], writers, runOf("writer0"))).toBeNull();
  });

  test("a press on a check asks about the pull request whose check it is", () => {
    const pressed = (opened: number, pulls = [pull(1), pull(2)]) => {
      const view = at(pulls, [PASSED], { reruns: [{ check: check(), opened }] });
      return checker("shared").step?.(view) ?? null;
    };
    expect(pressed(1)).toBeNull();
    expect(pressed(2)).toContain("#2 is asked about");
    expect(pressed(2, [pull(1, { state: "closed" }), pull(2)])).toBeNull();
  });
});

describe("runs under our runs' names", () => {
  const runs = new Map([
    ["9", run()],
    ["10", run({ id: "10", lookAlike: true })],
  ]);
  const asks = (operation: string, path: string, caller = "gate 101") =>
    checker("runs").performing?.(world({ repository: repository({ runs }) }), operation, request(path, null, caller));

  test("are not read, cancelled or paid for by a gate", () => {
    expect(asks("cancelRun", "/repos/acme/repo0/actions/runs/9/cancel")).toBeNull();
    expect(asks("cancelRun", "/repos/acme/repo0/actions/runs/10/cancel")).toContain("run 10");
    expect(asks("listJobs", "/repos/acme/repo0/actions/runs/10/attempts/1/jobs")).toContain("run 10");
    expect(asks("getRun", "/repos/acme/repo0/actions/runs/10", "worker")).toBeNull();
    const buys = (id: string) => {
      const bought = request("/v2/pods", { env: { GPU_GATE_RUN_ID: id } });
      return checker("runs").performing?.(world({ repository: repository({ runs }) }), "createPod", bought);
    };
    expect(buys("9")).toBeNull();
    expect(buys("10")).toContain("run 10");
  });
});
