/** The checker of I9 can object: to what is bought, to what the night wrote, and to each side's books. */
import { expect, test } from "vitest";
import type { Repository } from "../../sim/github-model.ts";
import { checker, MINUTE, pod, repository, request, world } from "./views.ts";

test("I9: money that was not reserved, and a create beyond the cap", () => {
  const create = request("/v2/pods", {
    env: { GPU_GATE_REPOSITORY_ID: "101", GPU_GATE_ATTEMPT: "r1-2", GPU_GATE_REQUEST: "r1" },
  });
  const judge = (more: Parameters<typeof world>[0]) => checker("I9").performing?.(world(more), "createPod", create);
  const money = [{ state: "reserved", micros: 1_800_000 }];
  expect(judge({ money })).toBeNull();
  expect(judge({ money: [] })).toContain("not reserved");
  expect(judge({ money: [{ state: "spent", micros: 1_800_000 }] })).toContain("spent");
  expect(judge({ money: [{ state: "reserved", micros: 1_799_999 }] })).toContain("the dearest card of its plan");
  expect(judge({ money: [{ state: "reserved", micros: 2_000_002 }] })).toContain("takes the run to");
  expect(judge({ money, pods: [pod()] })).toContain("takes the run to");
  // The file broke after the request was admitted: its caps are those of before, and hold.
  const broken = { config: "{", configBefore: repository().config } as Partial<Repository>;
  expect(judge({ money, repository: repository(broken) })).toBeNull();
  expect(judge({ money, repository: repository(broken), pods: [pod()] })).toContain("takes the run to");
});

test.each([
  ["pr", "per_pr: 3", { GPU_GATE_REQUEST: "r2" }],
  ["author", "per_author: 3", { GPU_GATE_REQUEST: "r3" }],
  ["day", "per_day: 3", { GPU_GATE_REQUEST: "r9" }],
  ["month", "per_month: 3", { GPU_GATE_REQUEST: "r9" }],
  ["deployment's month", "per_run: 9", { GPU_GATE_REPOSITORY_ID: "102" }],
] as const)("I9: a create beyond the cap of its %s", (name, cap, whose) => {
  const env = { GPU_GATE_REPOSITORY_ID: "101", GPU_GATE_ATTEMPT: "r1-2", GPU_GATE_REQUEST: "r1" };
  // r2 is of the same pull request, r3 of another by the same author, and r9 of somebody else's.
  const prOf: Readonly<Record<string, number>> = { r1: 1, r2: 1, r3: 2, r9: 3 };
  const pulls = new Map([1, 2, 3].map((number) => [number, { number, author: { id: number === 3 ? "b" : "a" } }]));
  const other = pod({ env: { ...pod().env, GPU_GATE_ATTEMPT: "x-1", ...whose } });
  const judge = (pods: (typeof other)[], usd: number) => {
    const view = world({
      pods,
      money: [{ state: "reserved", micros: 1_800_000 }],
      repository: repository({ config: `budget: { ${cap} }`, pulls } as unknown as Partial<Repository>),
      store: { request: (id: string) => ({ prNumber: prOf[id] ?? null }) },
    });
    const account = { monthlyCapMicros: usd * 1_000_000, sql: view.account.sql };
    const one = { ...view, account } as unknown as typeof view;
    return checker("I9").performing?.(one, "createPod", request("/v2/pods", { env }));
  };
  const usd = cap === "per_run: 9" ? 3 : 9;
  expect(judge([], usd)).toBeNull();
  expect(judge([other], usd)).toContain(`takes the ${name} to USD 3.60 of 3`);
  expect(judge([pod({ ...other, late: true })], usd)).toBeNull();
});

test("I9: the night's comparison wrote something else than the bill", () => {
  const gone = pod({ releasedAt: 100 });
  const said = (billed_micros: number) => ({ "FROM ledger": [{ pod_id: "p1", proven_at: 100, billed_micros }] });
  expect(checker("I9").end?.(world({ pods: [gone], now: 5_000, rows: said(5_000) }))).toBeNull();
  expect(checker("I9").end?.(world({ pods: [gone], now: 5_000, rows: said(4_000) }))).toContain("the night wrote");
});

test("I9: less is booked as spent than the closed line says", () => {
  const short = { "FROM money": [{ attempt_id: "r1-1", booked: 0, cost: 500 }] };
  expect(checker("I9").end?.(world({}))).toBeNull();
  expect(checker("I9").end?.(world({ rows: short }))).toContain("r1-1 cost 500 micro-dollars and 0 are booked");
});

test("I9: the account forgets what was spent, or keeps what nobody needs any more", () => {
  const rows = { "state = 'spent'": [{ attempt_id: "r1-1", micros: 500 }] };
  const judge = (money: readonly unknown[]) => {
    // The account is asked for what is still set aside first, and then for this attempt's line.
    const one = world({ rows });
    const exec = (query: string) => (query.includes("= 'reserved'") ? [] : money);
    return { ...one, account: { sql: { exec } } } as unknown as typeof one;
  };
  const i9 = checker("I9");
  expect(i9.owed?.(judge([{ state: "spent", micros: 500 }]))).toBeNull();
  expect(i9.end?.(judge([{ state: "spent", micros: 500 }]))).toBeNull();
  expect(i9.end?.(judge([{ state: "spent", micros: 499 }]))).toContain("the account has 499 as spent");
  expect(i9.owed?.(judge([{ state: "released", micros: 500 }]))).toContain("500 as released");
  expect(i9.owed?.(judge([]))).toContain("the account has nothing");
  const left = [{ repository_id: "101", attempt_id: "r1-2" }];
  expect(i9.owed?.(world({ money: left }))).toContain("holds money for r1-2 of 101");
});

test("I9: a pod is kept for longer than was set aside", () => {
  const kept = { pod_id: "p1", since: 0, until: 60 * MINUTE, ids: JSON.stringify(["r1-1-keep", "r1-1-keep-2"]) };
  const step = (micros: number, row: object = kept) =>
    checker("I9").step?.(world({ pods: [pod()], rows: { "FROM strays": [row], "FROM money": [{ micros }] } }));
  // At a dollar an hour, by two words.
  expect(step(500_000)).toBeNull();
  expect(step(499_000)).toContain("p1 is kept for USD 1.0000, and 0.9980 are set aside");
  expect(step(0, { ...kept, until: null })).toBeNull();
});
