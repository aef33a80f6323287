import { describe, expect, it } from "vitest";
import { judgeRunners } from "../../shared/policy/probe.ts";
import { probeLive, readRunners, type GetPage } from "../../shared/policy/read-runners.ts";

interface Fake {
  readonly id: number;
  readonly labels?: readonly string[];
  readonly group?: number;
}

/** A runner list that pages by position, as GitHub does; `change` may alter it between two requests. */
function github(
  lists: Record<string, Fake[]>,
  change: (request: number, lists: Record<string, Fake[]>) => void = () => {},
) {
  const asked: string[] = [];
  const get: GetPage = (path) => {
    asked.push(path);
    const url = new URL(path, "https://github.test");
    const runners = lists[url.pathname];
    if (runners === undefined) return Promise.resolve({ kind: "answer", status: 404, body: "{}" });
    const [page, size] = [Number(url.searchParams.get("page")), Number(url.searchParams.get("per_page"))];
    const rows = runners.slice((page - 1) * size, page * size).map(({ id, labels = [], group }) => ({
      id,
      name: `r${id}`,
      status: "online",
      labels: labels.map((name) => ({ name })),
      ...(group === undefined ? {} : { runner_group_id: group }),
    }));
    const body = JSON.stringify({ total_count: runners.length, runners: rows });
    change(asked.length, lists);
    return Promise.resolve({ kind: "answer", status: 200, body });
  };
  return { get, asked };
}

const REPOSITORY = "/repos/o/r/actions/runners";
const scope = { owner: "o", repository: "r", organisation: false };

function many(count: number, from = 1): Fake[] {
  return Array.from({ length: count }, (_, index) => ({ id: from + index, labels: ["linux"] }));
}

describe("paging", () => {
  it("N137: costs one request for each 100 runners and finds number 101", async () => {
    const { get, asked } = github({ [REPOSITORY]: [...many(100), { id: 500, labels: ["gpu-full"] }] });
    const listing = await readRunners(get, scope);
    expect(judgeRunners(["gpu-full"], listing).available).toBe(true);
    expect(asked).toEqual([`${REPOSITORY}?per_page=100&page=1`, `${REPOSITORY}?per_page=100&page=2`]);
  });

  it("an empty list costs one request", async () => {
    const { get, asked } = github({ [REPOSITORY]: [] });
    expect(judgeRunners(["x"], await readRunners(get, scope)).reason).toBe("no-complete-match");
    expect(asked).toHaveLength(1);
  });

  it("a runner that leaves between two pages shifts the match out of sight; reading again finds it", async () => {
    const match = { id: 900, labels: ["gpu-full"] };
    const { get, asked } = github({ [REPOSITORY]: [...many(100), match, ...many(50, 200)] }, (request, lists) => {
      // After the first page is out, its first runner goes: the match moves from page 2 to page 1, already read.
      if (request === 1) lists[REPOSITORY]?.shift();
    });
    expect(judgeRunners(["gpu-full"], await readRunners(get, scope)).available).toBe(true);
    expect(asked.length).toBeGreaterThan(2);
  });

  it("a swap that keeps every count right hides a runner once; the second reading finds it", async () => {
    const match = { id: 900, labels: ["gpu-full"] };
    const { get, asked } = github({ [REPOSITORY]: [...many(100), match, ...many(50, 200)] }, (request, lists) => {
      if (request !== 1) return;
      lists[REPOSITORY]?.shift();
      lists[REPOSITORY]?.push({ id: 999 });
    });
    expect((await probeLive(["gpu-full"], get, scope)).available).toBe(true);
    expect(asked).toHaveLength(4);
  });

  it("a match on the first reading is not read again, nor is a list of one page", async () => {
    const found = github({ [REPOSITORY]: [...many(100), { id: 900, labels: ["gpu-full"] }] });
    expect((await probeLive(["gpu-full"], found.get, scope)).available).toBe(true);
    expect(found.asked).toHaveLength(2);
    const short = github({ [REPOSITORY]: many(3) });
    expect((await probeLive(["gpu-full"], short.get, scope)).reason).toBe("no-complete-match");
    expect(short.asked).toHaveLength(1);
  });

  it("a list that never holds still ends after three rounds as incomplete, which is a loud failure", async () => {
    let next = 10_000;
    const { get, asked } = github({ [REPOSITORY]: many(150) }, (_, lists) => {
      lists[REPOSITORY]?.push({ id: (next += 1) });
    });
    const verdict = judgeRunners(["gpu-full"], await readRunners(get, scope));
    expect(verdict).toMatchObject({ fail: true, reason: "api-error" });
    expect(asked.length).toBeLessThanOrEqual(6);
  });

  it("a refused second page fails the whole, although the first one held a match", async () => {
    const { get } = github({ [REPOSITORY]: [{ id: 1, labels: ["gpu-full"] }, ...many(150, 2)] });
    const flaky: GetPage = async (path) =>
      path.endsWith("page=2") ? { kind: "answer", status: 502, body: "" } : await get(path);
    expect(judgeRunners(["gpu-full"], await readRunners(flaky, scope))).toMatchObject({
      fail: true,
      reason: "api-error",
    });
  });

  it("a body that is no page is handed on for the probe to refuse", async () => {
    const get: GetPage = () => Promise.resolve({ kind: "answer", status: 200, body: "<html>" });
    expect(judgeRunners(["x"], await readRunners(get, scope)).reason).toBe("invalid-response");
  });
});

describe("the organisation's runners", () => {
  const groups = "/orgs/o/actions/runner-groups";
  const shared = "/orgs/o/actions/runners";

  function withGroups(get: GetPage, rows: unknown[], isPrivate = true): GetPage {
    return async (path) => {
      const { pathname, searchParams } = new URL(path, "https://github.test");
      if (pathname === "/repos/o/r") {
        return { kind: "answer", status: 200, body: JSON.stringify({ private: isPrivate }) };
      }
      if (pathname !== groups) return await get(path);
      expect(searchParams.get("visible_to_repository")).toBe("r");
      return { kind: "answer", status: 200, body: JSON.stringify({ total_count: rows.length, runner_groups: rows }) };
    };
  }

  const lists = () => ({
    [REPOSITORY]: [],
    [shared]: [
      { id: 1, group: 1, labels: ["a"] },
      { id: 2, group: 2, labels: ["b"] },
      { id: 3, labels: ["c"] },
    ],
  });

  it("count only from groups that the repository may use", async () => {
    const get = withGroups(github(lists()).get, [{ id: 1, allows_public_repositories: true }]);
    const listing = await readRunners(get, { ...scope, organisation: true });
    expect(judgeRunners(["a"], listing).available).toBe(true);
    expect(judgeRunners(["b"], listing).available).toBe(false);
    expect(judgeRunners(["c"], listing).available).toBe(false);
  });

  it("a group closed to public repositories does not count for one", async () => {
    const rows = [{ id: 1, allows_public_repositories: false }];
    for (const [isPrivate, available] of [
      [true, true],
      [false, false],
    ] as const) {
      const get = withGroups(github(lists()).get, rows, isPrivate);
      const listing = await readRunners(get, { ...scope, organisation: true });
      expect(judgeRunners(["a"], listing).available).toBe(available);
    }
  });

  it("are not asked for unless wanted, and a refusal of theirs is loud", async () => {
    const { get, asked } = github({ [REPOSITORY]: [] });
    await readRunners(get, scope);
    expect(asked.some((path) => path.startsWith("/orgs"))).toBe(false);
    expect(await readRunners(get, { ...scope, organisation: true })).toMatchObject({ kind: "failure" });
  });
});
