/** The load run's judge can object: a good end has no sentence against it, and each thing that goes wrong gets its own. */
import { describe, expect, it } from "vitest";
import type { GateBooks } from "../../bench/load/books.ts";
import type { Planned } from "../../bench/load/deliveries.ts";
import { planDeliveries } from "../../bench/load/deliveries.ts";
import { judge, type Evidence } from "../../bench/load/judge.ts";

const HEAD = "a".repeat(40);
const TARGET = { id: "101", name: "repo-0", pull: { number: 1, headSha: HEAD } };

function planned(guid: string, expected: Planned["expected"]): Planned {
  const { pull } = TARGET;
  const repository = { id: "101", name: "repo-0" };
  return { guid, event: "check_run", action: "created", repository, pull, expected, doubled: false };
}

function gate(change: Partial<GateBooks> = {}): GateBooks {
  return {
    repositoryId: "101",
    deliveries: new Map([["heard", { event: "check_run", outcome: "" }]]),
    requests: [{ id: "r1", headSha: HEAD, generation: 1, state: "concluded", verdict: "passed", reason: null }],
    ledger: [{ podId: "pod1", closedAt: 2, provenAt: 3, estimateMicros: 1_000 }],
    lockHolder: null,
    waiting: 0,
    overdue: [],
    counters: {},
    ...change,
  };
}

const BILL = { podId: "pod1", ratePerHour: 3.6, microDollars: 1_000, releasedAtMs: 9 as number | null };

function problems(change: {
  readonly gates?: readonly GateBooks[];
  readonly bill?: Partial<typeof BILL>;
  readonly statuses?: Readonly<Record<string, number>>;
  readonly running?: number;
  readonly webhooks?: readonly { guid: string; statusCode: number; responseBody: string }[];
}): readonly string[] {
  const statuses = { heard: 202, ignored: 202, refused: 401, ...change.statuses };
  const world = {
    github: { books: { webhooks: change.webhooks ?? [] } },
    runpod: { bills: () => [{ ...BILL, ...change.bill }] },
  } as unknown as Evidence["world"];
  return judge({
    planned: [planned("heard", "heard"), planned("ignored", "ignored"), planned("refused", "refused")],
    sent: Object.entries(statuses).map(([guid, status]) => ({ guid, status, text: "", ms: 1 })),
    gates: change.gates ?? [gate()],
    world,
    gated: [TARGET],
    running: change.running ?? 1,
    expectedPods: 1,
  }).problems;
}

const delivered = (...guids: string[]) => new Map(guids.map((guid) => [guid, { event: "check_run", outcome: "" }]));
const request = { id: "r1", headSha: HEAD, generation: 1, state: "concluded", verdict: "passed", reason: null };
const line = { podId: "pod1", closedAt: 2, provenAt: 3, estimateMicros: 1_000 };

describe("the judge of a load run", () => {
  it("has nothing to say of a good end", () => {
    expect(problems({})).toEqual([]);
  });

  it.each<[string, Parameters<typeof problems>[0], RegExp]>([
    ["a delivery that no gate knows", { gates: [gate({ deliveries: delivered() })] }, /heard .*books of 0 gates/],
    [
      "one in two gates",
      { gates: [gate(), gate({ repositoryId: "102", requests: [], ledger: [] })] },
      /books of 2 gates/,
    ],
    ["one that was never taken", { statuses: { heard: 503 } }, /heard .*never taken: 503/],
    [
      "an unsigned one with an effect",
      { gates: [gate({ deliveries: delivered("heard", "refused") })] },
      /bad signature/,
    ],
    ["an unsigned one that was welcome", { statuses: { refused: 202 } }, /bad signature and was answered 202/],
    ["an ignored one in the books", { gates: [gate({ deliveries: delivered("heard", "ignored") })] }, /is ignored/],
    [
      "a delivery of GitHub's that a gate took and does not have",
      { webhooks: [{ guid: "own", statusCode: 202, responseBody: "Accepted." }] },
      /GitHub's .*books of 0 gates/,
    ],
    [
      "a delivery of GitHub's that nobody took",
      { webhooks: [{ guid: "own", statusCode: 503, responseBody: "" }] },
      /GitHub's .*never taken/,
    ],
    ["a held lock", { gates: [gate({ lockHolder: "r1" })] }, /lock is held by r1/],
    ["a request that hangs", { gates: [gate({ requests: [{ ...request, state: "queued" }] })] }, /still queued/],
    ["a task that nobody does", { gates: [gate({ overdue: ["main observe r1"] })] }, /overdue: main observe r1/],
    [
      "a head asked about twice",
      { gates: [gate({ requests: [request, { ...request, id: "r2", generation: 2 }] })] },
      /r2 is generation 2/,
    ],
    [
      "a gated head that did not pass",
      { gates: [gate({ requests: [{ ...request, verdict: "infrastructure", reason: "capacity" }] })] },
      /concluded, capacity/,
    ],
    ["a pod that runs", { bill: { releasedAtMs: null } }, /pod1 still runs/],
    ["a pod that no ledger has", { gates: [gate({ ledger: [] })] }, /pod1 is in no ledger/],
    ["a pod that is not proven gone", { gates: [gate({ ledger: [{ ...line, provenAt: null }] })] }, /not proven gone/],
    ["an estimate beside the bill", { bill: { microDollars: 6_000 } }, /5000 ms beside the bill/],
    ["fewer pods at once than asked for", { running: 0 }, /0 of 1 pods ran at once/],
  ])("objects to %s", (_what, change, sentence) => {
    expect(problems(change).join("\n")).toMatch(sentence);
  });

  it("is given a mix with every kind of end, the same for the same chance", () => {
    const chance = () => {
      let at = 0;
      return () => (at = (at + 0.377) % 1);
    };
    const plan = planDeliveries(2_000, [TARGET], "p", chance());
    expect(new Set(plan.map((one) => one.expected))).toEqual(new Set(["heard", "ignored", "refused"]));
    expect(plan.some((one) => one.doubled)).toBe(true);
    expect(plan).toEqual(planDeliveries(2_000, [TARGET], "p", chance()));
  });
});
