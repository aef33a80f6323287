/** `costs`, `pause`, `resume` and `retain`: what is asked of the control plane, and what a person sees of its answer. */
import { describe, expect, it } from "vitest";
import { gpuGate } from "../hosted/io.ts";

const TOKEN = "0123456789abcdef0123456789abcdef";

const cost = (more: object = {}) => ({
  attemptId: "r1-1",
  podId: "p1",
  requestId: "r1",
  attemptNumber: 1,
  prNumber: 7,
  headSha: null,
  testedSha: null,
  gpu: "NVIDIA L4",
  tier: "cheap",
  dataCenter: null,
  pricePerHour: 0.36,
  priceSource: "pod",
  recordSource: "pre_delete",
  paidFrom: 0,
  deletedAt: Date.UTC(2026, 10, 30, 12),
  provenAt: 0,
  paidMs: 100_000,
  cost: 10_000,
  createMs: null,
  outcome: "tests-passed",
  accepted: true,
  gpuJob: "success",
  stages: null,
  flags: [],
  observations: {},
  repositoryId: "101",
  verdict: { kind: "passed", reason: "tests-passed" },
  decisive: true,
  billed: 10_100,
  ...more,
});

interface Asked {
  readonly url: string;
  readonly method: string;
  readonly bearer: string | null;
  readonly body: unknown;
}

async function ask(args: readonly string[], answer: unknown, status = 200, token: string | null = TOKEN) {
  const asked: Asked[] = [];
  const done = await gpuGate(args, {
    env: { GPU_GATE_URL: "https://gate.test/", ...(token === null ? {} : { GPU_GATE_OPERATOR_TOKEN: token }) },
    fetch: async (input, init) => {
      const headers = new Headers(init?.headers);
      asked.push({
        url: input,
        method: init?.method ?? "GET",
        bearer: headers.get("authorization"),
        body: typeof init?.body === "string" ? JSON.parse(init.body) : null,
      });
      return Response.json(answer, { status });
    },
  });
  return { ...done, asked };
}

const costs = (list: readonly object[], complete = true) => ({ from: 0, to: 1, complete, costs: list });

describe("gpu-gate costs", () => {
  it("asks for the range, with the token only if there is one", async () => {
    const told = await ask(["costs", "--from", "2026-11-01", "--to", "2026-11-30"], costs([]));
    expect(told.asked).toEqual([
      {
        url: "https://gate.test/api/costs?from=2026-11-01&to=2026-11-30",
        method: "GET",
        bearer: `Bearer ${TOKEN}`,
        body: null,
      },
    ]);
    expect((await ask(["costs"], costs([]), 200, null)).asked[0]?.bearer).toBeNull();
  });

  it("lists pods with their totals", async () => {
    const rejected = cost({
      podId: "p0",
      accepted: false,
      decisive: false,
      outcome: "bad-host",
      cost: 500,
      billed: null,
    });
    const told = await ask(["costs"], costs([rejected, cost()]));
    expect(told.code).toBe(0);
    expect(told.out).toMatch(/^ended +repository +pr +request +pod/);
    expect(told.out).toContain("2 pods, $0.0105, $0.0105 a success, $0.0005 on rejected machines, 100.0 s wasted");
  });

  it("sums by GPU as CSV, the total last, unknown money named and not added", async () => {
    const told = await ask(
      ["costs", "--group", "gpu", "--format", "csv"],
      costs([cost(), cost({ gpu: '=HYPERLINK("x"),y', cost: null, billed: null, decisive: false })]),
    );
    expect(told.out.split("\r\n")).toEqual([
      "gpu,pods,successes,cost usd,unpriced pods,usd per success,rejected pods,rejected cost usd,paid s,wasted s,billed usd,billed pods",
      "NVIDIA L4,1,1,0.010000,0,0.010000,0,0.000000,100.0,0.0,0.010100,1",
      '"\'=HYPERLINK(""x""),y",1,0,,1,,0,0.000000,100.0,100.0,,0',
      "all,2,1,0.010000,1,0.010000,0,0.000000,200.0,100.0,0.010100,1",
      "",
    ]);
  });

  it("lists pods as CSV with plain numbers, and leaves empty what is not known", async () => {
    const unknown = { prNumber: null, requestId: null, gpu: null, tier: null, pricePerHour: null, verdict: null };
    const told = await ask(
      ["costs", "--format", "csv"],
      costs([cost(), cost({ ...unknown, cost: null, billed: null })]),
    );
    const [head = "", known = "", empty = ""] = told.out.split("\r\n");
    const cells = (line: string) => line.split(",");
    expect(head).toContain("usd/h,paid s,cost usd,billed usd,verdict");
    expect(cells(known).slice(8, 11)).toEqual(["100.0", "0.010000", "0.010100"]);
    const blank = cells(head).filter((_, at) => cells(empty)[at] === "");
    expect(blank).toEqual(["pr", "request", "gpu", "tier", "usd/h", "cost usd", "billed usd", "verdict"]);
  });

  it("gives JSON as it is, and groups as JSON", async () => {
    const told = await ask(["costs", "--format", "json"], costs([cost()]));
    expect(JSON.parse(told.out)).toEqual([cost()]);
    const grouped = await ask(["costs", "--format", "json", "--group", "pr"], costs([cost()]));
    expect(JSON.parse(grouped.out)).toMatchObject([{ key: "101#7", costPerSuccess: 10_000 }, { key: "all" }]);
  });

  it("exits 1 for an answer that is not complete, and says so", async () => {
    const told = await ask(["costs"], costs([], false));
    expect([told.code, told.err]).toEqual([1, expect.stringContaining("not every line is here")]);
  });

  it("has the bill read first when asked to, and shows what it found", async () => {
    const told = await gpuGate(["costs", "--reconcile", "--url", "https://gate.test"], {
      env: { GPU_GATE_OPERATOR_TOKEN: TOKEN },
      fetch: async (input) =>
        Response.json(
          input.endsWith("/billing") ? { kind: "reconciled", problems: ["Pod p1 was billed more."] } : costs([]),
        ),
    });
    expect([told.code, told.err]).toEqual([0, "gpu-gate costs: Pod p1 was billed more.\n"]);
  });

  it.each([
    [["costs", "--group", "week"], "--group must be one of gpu, pr, reason."],
    [["costs", "--format", "xml"], "--format must be one of table, csv, json."],
    [["costs", "--url", "gate.test"], "The control plane's address (--url) is no https address"],
    [["costs", "--url", ""], "The control plane's address is missing"],
  ])("%j is a wrong call", async (args, why) => {
    const told = await ask(args, costs([]));
    expect([told.code, told.err]).toEqual([2, expect.stringContaining(why)]);
    expect(told.asked).toEqual([]);
  });

  it("explains a 404 and an unreadable answer, and never shows the token", async () => {
    const missing = await ask(["costs"], "nothing", 404);
    expect([missing.code, missing.err]).toEqual([1, expect.stringContaining("status page is off")]);
    expect(missing.err).toContain("GPU_GATE_OPERATOR_TOKEN is not the deployment's OPERATOR_TOKEN");
    const tokenless = await ask(["costs"], "nothing", 404, null);
    expect(tokenless.err).toContain("GPU_GATE_OPERATOR_TOKEN, which would open it, is not set");
    const strange = await ask(["costs"], { costs: 7 });
    expect(strange.code).toBe(1);
    expect(missing.err + strange.err).not.toContain(TOKEN);
  });
});

describe("a token that does not fit", () => {
  it.each([
    [["pause"]],
    [["resume"]],
    [["retain", "--repository", "101", "--pod", "p1", "--minutes", "0"]],
    [["operator", "cancel", "--repository", "101", "--request", "r7"]],
    [["costs", "--reconcile"]],
  ])("%j: is about the token, and not about the status page", async (args) => {
    const told = await ask(args, "nothing", 404);
    expect(told.code).toBe(1);
    expect(told.err).toContain("the token in GPU_GATE_OPERATOR_TOKEN is not the deployment's OPERATOR_TOKEN");
    expect(told.err).not.toContain("status page");
    expect(told.err).not.toContain(TOKEN);
  });
});

describe("gpu-gate pause and resume", () => {
  it.each([
    ["pause", true, "Buying is paused. 2 repositories"],
    ["resume", false, "Buying is allowed again. 2 repositories"],
  ])("%s says so to the control plane", async (name, paused, said) => {
    const told = await ask([name, "--reason", "a bill"], { paused, repositories: 2 });
    expect([told.code, told.out]).toEqual([0, expect.stringContaining(said)]);
    const { url, bearer, body } = told.asked[0] ?? expect.fail("nothing was asked");
    expect({ url, bearer, body }).toEqual({
      url: "https://gate.test/v1/operator/pause",
      bearer: `Bearer ${TOKEN}`,
      body: { paused, reason: "a bill" },
    });
  });

  it("asks nobody without a token, and fails when the control plane says otherwise", async () => {
    const without = await ask(["pause"], {}, 200, null);
    expect([without.code, without.asked]).toEqual([2, []]);
    expect((await ask(["pause"], { paused: false, repositories: 1 })).code).toBe(1);
    expect((await ask(["pause"], { error: "no" }, 500)).code).toBe(1);
  });
});

describe("gpu-gate retain", () => {
  it("names the pod or the request, and shows the end", async () => {
    const told = await ask(["retain", "--repository", "101", "--pod", "p1", "--minutes", "30", "--by", "mira"], {
      kind: "kept",
      podId: "p1",
      until: Date.UTC(2026, 10, 30, 12),
    });
    expect([told.code, told.out]).toEqual([0, "kept pod p1 until 2026-11-30T12:00:00.000Z\n"]);
    expect(told.asked[0]?.body).toEqual({ repository: "101", pod: "p1", minutes: 30, reason: "", by: "mira" });
  });

  it("exits 1 with the gate's reason when it is refused", async () => {
    const told = await ask(
      ["retain", "--repository", "101", "--request", "r1", "--minutes", "5"],
      { kind: "refused", detail: "Over the day's cap." },
      409,
    );
    expect([told.code, told.err]).toEqual([1, expect.stringContaining("Over the day's cap.")]);
  });

  it.each([
    [["--pod", "p", "--minutes", "5"]],
    [["--repository", "1", "--minutes", "5"]],
    [["--repository", "1", "--minutes", "5", "--pod", "p", "--request", "r"]],
    [["--repository", "1", "--pod", "p"]],
    [["--repository", "1", "--pod", "p", "--minutes", "soon"]],
  ])("%j is a wrong call", async (args) => {
    const told = await ask(["retain", ...args], {});
    expect([told.code, told.asked]).toEqual([2, []]);
  });
});
