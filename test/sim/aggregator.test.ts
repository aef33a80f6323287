/** The checkers of the aggregator and of lost deliveries can object: each is shown an honest history and one that is not. */
import { describe, expect, test } from "vitest";
import type { HookAttempt } from "../../sim/hook-book.ts";
import type { CheckRun, Pull } from "../../sim/github-model.ts";
import type { WorldView } from "../../sim/view.ts";
import { check, checker, HEAD, MINUTE, repository, world } from "./views.ts";

const HOUR = 60 * MINUTE;
const ACTIONS = "15368";
const PINNED = 'aggregator: {}\nrequired_checks: [{ name: clippy, app_id: "15368" }]';

function one(id: string, name: string, more: Partial<CheckRun> = {}): CheckRun {
  return check({ id, appId: ACTIONS, name, externalId: null, ...more });
}

function atNow(now: number, checks: readonly CheckRun[], config = "aggregator: {}"): WorldView {
  const pull = { number: 1, state: "open", draft: false, headSha: HEAD, baseRef: "main", changes: [], files: [] };
  const repo = repository({
    checks: new Map(checks.map((each) => [each.id, each])),
    pulls: new Map([[1, pull as unknown as Pull]]),
    variables: new Map(),
    configBefore: null,
    config,
  });
  return world({ now, repository: repo });
}

/** What it says of the aggregator's check when that is written at `now`. */
function written(conclusion: "success" | "failure", now: number, checks: readonly CheckRun[], config?: string) {
  const view = atNow(now, checks, config);
  const last = check({ id: "99", name: "Required checks", conclusion, completedAt: now });
  const [host] = view.hosts;
  if (host === undefined) throw new Error("a world has a host");
  return checker("aggregator").wrote?.(view, host.repository, last);
}

const green = [one("1", "rustfmt"), one("2", "clippy"), one("3", "Coverage GPU")];
const red = one("4", "clippy", { conclusion: "failure", startedAt: MINUTE, completedAt: MINUTE });

describe("the aggregator's check", () => {
  test("is green only beside a green strict check, the newest of each App's", () => {
    expect(written("success", HOUR, green)).toBeNull();
    expect(written("success", HOUR, [one("1", "rustfmt")])).toContain("without a green clippy");
    expect(written("success", HOUR, [...green, red])).toContain("without a green clippy");
    // It was green a moment before, when it was read.
    expect(written("success", 2 * MINUTE, [...green, red])).toBeNull();
    const fixed = one("5", "clippy", { startedAt: 2 * MINUTE, completedAt: 3 * MINUTE });
    expect(written("success", HOUR, [...green, red, fixed])).toBeNull();
  });

  test("counts another App's where the rules name none, and only theirs where they name one", () => {
    const foreign = { ...red, appId: "9999" };
    expect(written("success", HOUR, [...green, foreign])).toContain("without a green clippy");
    expect(written("success", HOUR, [...green, foreign], PINNED)).toBeNull();
    const theirs = one("4", "clippy", { appId: "9999" });
    expect(written("success", HOUR, [one("1", "rustfmt"), theirs], PINNED)).toContain("without a green clippy");
  });

  test("is red only where something is not green", () => {
    expect(written("failure", HOUR, green)).toContain("all that it asks for is green");
    expect(written("failure", HOUR, [...green, red])).toBeNull();
    expect(written("failure", HOUR, green.slice(0, 2))).toBeNull();
  });

  test("is not left red behind what has turned green", () => {
    const failed = check({ id: "9", name: "Required checks", conclusion: "failure", completedAt: 5 * MINUTE });
    const since = one("2", "clippy", { startedAt: 6 * MINUTE, completedAt: 7 * MINUTE });
    const judge = checker("aggregator");
    expect(judge.owed?.(atNow(HOUR, [failed, since]))).toContain("is red on");
    expect(judge.owed?.(atNow(HOUR, [failed, one("2", "clippy")]))).toBeNull();
    expect(judge.owed?.(atNow(HOUR, [failed, since, one("1", "rustfmt", { conclusion: "failure" })]))).toBeNull();
    expect(judge.end?.(atNow(HOUR, [failed, ...green]))).toContain("is red on");
  });
});

describe("N49", () => {
  const lost: HookAttempt = {
    id: "1",
    guid: "g1",
    event: "issue_comment",
    action: "created",
    repositoryId: "101",
    installationId: "1",
    at: 0,
    redelivery: false,
    status: "Timed out",
  };
  const after = (now: number, attempts: readonly HookAttempt[], readOnly = false, askedAt = -Infinity) => {
    const view = world({ now, readOnly });
    const github = {
      repositories: view.github.repositories,
      options: { book: { attempts, askedAt } },
    } as unknown as WorldView["github"];
    return checker("N49").end?.({ ...view, github });
  };

  test("a delivery that nobody answered and nobody asked for again", () => {
    expect(after(2 * HOUR, [lost])).toContain("nobody asked for it again");
    expect(after(2 * HOUR, [lost, { ...lost, id: "2", redelivery: true }])).toBeNull();
    expect(after(2 * HOUR, [{ ...lost, status: "OK" }])).toBeNull();
  });

  test("is excused while it is new, once GitHub has forgotten it, and where nobody may take it", () => {
    expect(after(MINUTE, [lost])).toBeNull();
    expect(after(73 * HOUR, [lost])).toBeNull();
    expect(after(2 * HOUR, [lost], true)).toBeNull();
    // Others are being asked for: its turn comes.
    expect(after(2 * HOUR, [lost], false, 2 * HOUR - MINUTE)).toBeNull();
    expect(after(2 * HOUR, [lost], false, HOUR)).toContain("nobody asked");
  });
});
