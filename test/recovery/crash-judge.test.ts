/** What the crash matrix holds a life to: by its own calls, and by the kills that really took place. */
import { describe, expect, it } from "vitest";
import { judgeStarts, lostStart } from "../long/crash-judge.ts";
import { Life, type Books, type LifeEvent } from "../long/crash-life.ts";
import { inTurn, LANE_POINTS, TASK_POINTS, type CrashPoint, type WireCall } from "../long/crash-points.ts";
import { plan } from "../long/crash-matrix.ts";

const REPOSITORY = "/repos/acme/tensors";
const HEAD = "a".repeat(40);
const MERGE = "b".repeat(40);

const github = (method: string, path: string, body: unknown = {}): WireCall => ({
  upstream: "github",
  method,
  path: `${REPOSITORY}${path}`,
  body: JSON.stringify(body),
});
const runpod = (method: string, path: string, body: unknown = {}): WireCall => ({
  upstream: "runpod",
  method,
  path,
  body: JSON.stringify(body),
});
const start = (workflow: string, inputs: Readonly<Record<string, string>>): WireCall =>
  github("POST", `/actions/workflows/gpu-gate-${workflow}.yml/dispatches`, { ref: "main", inputs });

/** A life of pull request 2 after one of pull request 1: r1 and r2, their checks, runs, runners and pods. */
function secondLife(): Life {
  const books: Books = {
    checksOf: (head) =>
      head === HEAD
        ? [
            { id: 20, externalId: "r2xyz:0" },
            { id: 21, externalId: "aggregate:aaaaaaaaaaaa:1" },
          ]
        : [{ id: 10, externalId: "r1xyz:0" }],
    mergeOf: (pull) => (pull === 2 ? MERGE : "c".repeat(40)),
    inputsOfRun: (id) =>
      ({ 100: { request: "r1xyz", tested_sha: "c".repeat(40) }, 200: { request: "r2xyz", tested_sha: MERGE } })[id] ??
      null,
    nameOfRunner: (id) => ({ 1: "gpu-gate-crash-101-r1xyz-1", 2: "gpu-gate-crash-101-r2xyz-1" })[id] ?? null,
    nameOfPod: (id) => ({ onepod: "gpu-gate-crash-101-r1xyz-1", twopod: "gpu-gate-crash-101-r2xyz-1" })[id] ?? null,
  };
  const life = new Life("life2", books);
  life.ownPull(2, HEAD);
  return life;
}

describe("whose a call is", () => {
  it.each([
    ["own", github("GET", "/pulls/2/files?per_page=100&page=1")],
    ["other", github("GET", "/pulls/1/files?per_page=100&page=1")],
    ["own", github("POST", "/check-runs", { name: "CI GPU gate", head_sha: HEAD })],
    ["other", github("POST", "/check-runs", { name: "CI GPU gate", head_sha: "d".repeat(40) })],
    ["own", github("PATCH", "/check-runs/20", { status: "completed", conclusion: "success" })],
    ["other", github("PATCH", "/check-runs/10", { status: "completed", conclusion: "cancelled" })],
    ["own", github("GET", "/actions/runs/200/attempts/1/jobs?per_page=100&page=1")],
    ["other", github("GET", "/actions/runs/100/attempts/1/jobs?per_page=100&page=1")],
    ["own", start("prepare", { request: "r2xyz", tested_sha: MERGE })],
    ["other", start("prepare", { request: "r1xyz", tested_sha: "c".repeat(40) })],
    ["own", github("POST", "/actions/runners/generate-jitconfig", { name: "gpu-gate-crash-101-r2xyz-1" })],
    ["other", github("POST", "/actions/runners/generate-jitconfig", { name: "gpu-gate-crash-101-r1xyz-1" })],
    ["own", github("DELETE", "/actions/runners/2")],
    ["other", github("DELETE", "/actions/runners/1")],
    ["own", runpod("POST", "/v2/pods", { name: "gpu-gate-crash-101-r2xyz-2" })],
    ["own", runpod("DELETE", "/v2/pods/twopod")],
    ["other", runpod("DELETE", "/v2/pods/onepod")],
    // The proof that the key may delete asks for a pod that never was.
    ["other", runpod("DELETE", "/v2/pods/gpugatenopod00")],
    ["none", runpod("GET", "/v2/pods?limit=200")],
    ["none", github("GET", "/pulls?state=open&sort=created")],
    ["none", github("GET", "/actions/workflows/gpu-gate-prepare.yml/runs?event=workflow_dispatch")],
  ] as const)("%s: %o", (whose, made) => {
    expect(secondLife().whose(made)).toBe(whose);
  });

  it("learns what has come to pass from its own calls only", () => {
    const life = secondLife();
    life.answered(start("prepare", { request: "r1xyz", tested_sha: "c".repeat(40) }), 200, "{}");
    life.answered(runpod("DELETE", "/v2/pods/onepod"), 204, "");
    expect(life.facts).toMatchObject({ prepared: false, deleted: false });
    life.answered(start("prepare", { request: "r2xyz", tested_sha: MERGE }), 200, "{}");
    life.answered(runpod("POST", "/v2/pods", { name: "gpu-gate-crash-101-r2xyz-1" }), 201, '{"id":"newpod"}');
    life.answered(runpod("DELETE", "/v2/pods/newpod"), 204, "");
    expect(life.facts).toMatchObject({ prepared: true, created: true, deleted: true });
  });

  it("takes no word of the aggregator for the gate's own check", () => {
    const life = secondLife();
    const own = github("PATCH", "/check-runs/20", { conclusion: "success", external_id: "r2xyz:0" });
    const aggregate = github("PATCH", "/check-runs/21", { conclusion: "cancelled", external_id: "aggregate:aaaa:1" });
    for (const { after } of [TASK_POINTS.settle, LANE_POINTS.check as CrashPoint]) {
      expect([after.match(own, life.facts), after.match(aggregate, life.facts)]).toEqual([true, false]);
    }
  });
});

describe("a start that a kill took with it", () => {
  const told = call(github("GET", `/git/trees/${"e".repeat(40)}?recursive=1`), false);
  const minted = call(github("POST", "/actions/runners/generate-jitconfig", { name: "gpu-gate-crash-101-r2xyz-1" }));
  const list = call(github("GET", "/pulls?state=open"), false);
  const kill: LifeEvent = { kind: "kill", at: "GET /pulls?" };
  const prepare = start("prepare", { request: "r2xyz", tested_sha: MERGE });
  const execute = start("execute", { request: "r2xyz", attempt: "r2xyz-1", tested_sha: MERGE });
  const looked = (workflow: string): LifeEvent =>
    call(github("GET", `/actions/workflows/gpu-gate-${workflow}.yml/runs?event=workflow_dispatch`), false);

  it.each([
    ["at its own call", [told, call(prepare, true, false), kill, looked("prepare")]],
    ["before it had left, at another call", [told, list, kill, looked("prepare")]],
    ["beside it, at another call", [told, list, call(prepare, true, false), kill, looked("prepare")]],
  ])("%s: the preparation", (_, events) => {
    expect(lostStart(events)).toBe("gpu-gate-prepare.yml was never started: killed at GET /pulls?");
  });

  it("the GPU run's, of a life whose preparation was started", () => {
    const events = [told, call(prepare), looked("prepare"), minted, list, kill, looked("execute")];
    expect(lostStart(events)).toBe("gpu-gate-execute.yml was never started: killed at GET /pulls?");
  });

  it.each([
    ["there was no kill", [told, list, looked("prepare")]],
    ["the kill came before what the start needs", [list, kill, told, looked("prepare")]],
    ["what the start needs was asked for again after the kill", [told, kill, told, looked("prepare")]],
    ["the kill came after the search", [told, looked("prepare"), kill, looked("prepare")]],
    ["GitHub got it", [told, call(prepare), kill, looked("prepare")]],
    ["GitHub got it after the process was gone", [told, kill, call(prepare), looked("prepare")]],
    ["nobody looked for the run", [told, kill, list]],
  ])("not where %s", (_, events) => {
    expect(lostStart(events)).toBeNull();
  });

  it("is not sent again: the same start twice is a fault, that of another attempt is not", () => {
    const again = start("execute", { request: "r2xyz", attempt: "r2xyz-2", tested_sha: MERGE });
    expect(judgeStarts("life2", [call(prepare), call(execute), call(again)])).toEqual([]);
    expect(judgeStarts("life2", [call(prepare, true, false), kill, call(prepare)])).toEqual([
      "life2: POST /actions/workflows/gpu-gate-prepare.yml/dispatches for r2xyz was sent 2 times",
    ]);
  });

  it("has a life to itself where it is what is killed", () => {
    const points = (["dispatch-prepare", "observe", "mint"] as const).map((name) => {
      return { name, point: TASK_POINTS[name], side: "before" as const };
    });
    expect(plan(points, 3, 1).map((life) => life.map(({ name }) => name).toSorted())).toEqual([
      ["dispatch-prepare"],
      ["mint", "observe"],
    ]);
  });
});

it("kills before a call ahead of killing after it: once the check is concluded, nobody concludes it again", () => {
  const check = LANE_POINTS.check as CrashPoint;
  const points = [
    { name: "lane check", point: check, side: "after" as const },
    { name: "settle", point: TASK_POINTS.settle, side: "after" as const },
  ];
  expect(inTurn(points).map(({ name }) => name)).toEqual(["settle", "lane check"]);
  expect(inTurn(points.toReversed()).map(({ name }) => name)).toEqual(["settle", "lane check"]);
});

function call(made: WireCall, own = true, reached = true): LifeEvent {
  return { kind: "call", call: made, own, reached };
}
