import { describe, expect, it } from "vitest";
import { decideJob } from "../../local/workflow/jobs.ts";
import { parseWorkflow } from "../../local/workflow/parse.ts";
import { planRun, type JobResult, type RunEvent, type RunPlan } from "../../local/workflow/run.ts";
import {
  concludeJob,
  decideStep,
  type JobState,
  type StepDecision,
  type StepResult,
} from "../../local/workflow/steps.ts";
import { dispatched, EXECUTE_INPUTS, PREPARE_INPUTS, SHA, shippedPlan } from "./shipped.ts";

function plan(text: string, event: RunEvent = { name: "push", github: {} }, inputs?: Record<string, string>): RunPlan {
  const workflow = parseWorkflow(text, "w.yml");
  if (!workflow.ok) throw new Error(JSON.stringify(workflow.error));
  const run = planRun(workflow.value, event, inputs);
  if (!run.ok) throw new Error(run.error.message);
  return run.value;
}

function refusal(name: string, event: RunEvent, inputs: Record<string, string>): string {
  const run = planRun(shippedPlan(name), event, inputs);
  return run.ok ? "" : `${run.error.reason}: ${run.error.message}`;
}

describe("what starts a run", () => {
  it.each([
    [
      "another event",
      { name: "push", github: {} },
      PREPARE_INPUTS,
      "not-triggered: gpu-gate-prepare.yml is not triggered by 'push'",
    ],
    ["an unknown input", dispatched(), { ...PREPARE_INPUTS, ref: "x" }, 'inputs: Unexpected inputs provided: ["ref"]'],
    ["a missing input", dispatched(), { request: "r" }, "inputs: Required input 'tested_sha' not provided"],
    [
      "an empty required input",
      dispatched(),
      { ...PREPARE_INPUTS, request: "" },
      "inputs: Required input 'request' not provided",
    ],
  ])("%s is refused", (_what, event, inputs, message) => {
    expect(refusal("gpu-gate-prepare.yml", event, inputs)).toBe(message);
  });

  it("inputs have their types and defaults", () => {
    const text =
      "on:\n  workflow_dispatch:\n    inputs:\n      flag: {type: boolean}\n      on: {type: boolean, default: true}\n      n: {type: number, default: 2}\n      kind: {type: choice, options: [a, b], default: b}\njobs: {}\n";
    const event: RunEvent = { name: "workflow_dispatch", github: {} };
    expect(plan(text, event).inputs).toEqual({ flag: false, on: true, n: 2, kind: "b" });
    expect(plan(text, event, { n: "7", on: "false" }).inputs).toEqual({ flag: false, on: false, n: 7, kind: "b" });
    expect(() => plan(text, event, { kind: "c" })).toThrow("must be one of a, b, not 'c'");
  });

  it.each([
    ["main", "", "opened", true],
    ["other", "", "opened", false],
  ])("a push to %s", (branch, _base, _action, starts) => {
    const run = planRun(shippedPlan("ci.yml"), { name: "push", github: { ref: `refs/heads/${branch}` } });
    expect(run.ok).toBe(starts);
  });

  it.each([
    ["opened", true],
    ["synchronize", true],
    ["labeled", false],
  ])("a pull request that was %s, without types: %s", (action, starts) => {
    expect(planRun(shippedPlan("ci.yml"), { name: "pull_request", github: { event: { action } } }).ok).toBe(starts);
  });

  it("the concurrency group is named by the event", () => {
    const event: RunEvent = { name: "pull_request", github: { ref: "refs/pull/3/merge", event: { action: "opened" } } };
    const run = planRun(shippedPlan("ci.yml"), event);
    expect(run.ok && run.value.concurrency).toEqual({
      group: "ci-refs/pull/3/merge",
      queue: "single",
      cancelInProgress: true,
    });
    const recovery = planRun(shippedPlan("gpu-gate-recovery.yml"), dispatched(), { pr_number: "5" });
    expect(recovery.ok && recovery.value.concurrency).toEqual({
      group: "gpu-gate-recover-5",
      queue: "max",
      cancelInProgress: false,
    });
  });
});

const GRAPH = `on: push
jobs:
  last:
    needs: [middle]
    runs-on: ubuntu-24.04
    steps: [{run: echo}]
  middle:
    needs: [matrix]
    if: CONDITION
    name: middle after \${{ needs.matrix.outputs.which }}
    runs-on: \${{ needs.matrix.result == 'success' && 'macos-15' || 'ubuntu-24.04' }}
    steps: [{run: echo}]
  matrix:
    strategy: {matrix: {os: [a, b]}}
    runs-on: \${{ matrix.os }}
    outputs: {which: x}
    steps: [{run: echo}]
`;

const done = (conclusion: JobResult["conclusion"], outputs: Record<string, string> = {}): JobResult => ({
  conclusion,
  outputs,
});

describe("jobs", () => {
  const run = (condition = "success()"): RunPlan => plan(GRAPH.replace("CONDITION", condition));
  const decide = (graph: RunPlan, key: string, results: Record<string, JobResult>, cancelled = false): unknown => {
    const job = graph.jobs.find((one) => one.key === key);
    return job === undefined ? null : decideJob(graph, job, new Map(Object.entries(results)), cancelled);
  };

  it("come after what they need, one for each combination", () => {
    expect(run().jobs.map((job) => job.key)).toEqual(["matrix (a)", "matrix (b)", "middle", "last"]);
  });

  it("start on the labels of their combination", () => {
    expect(decide(run(), "matrix (b)", {})).toMatchObject({ kind: "start", name: "matrix (b)", labels: ["b"] });
  });

  it("that fail with continue-on-error have succeeded for those that need them; cancelled, they have not", () => {
    const forgiving = plan(
      GRAPH.replace("CONDITION", "success()").replace("  matrix:\n", "  matrix:\n    continue-on-error: true\n"),
    );
    const ended = (conclusion: JobResult["conclusion"]) =>
      decide(forgiving, "middle", { "matrix (a)": done(conclusion), "matrix (b)": done("success") });
    expect(ended("failure")).toMatchObject({ kind: "start", labels: ["macos-15"] });
    expect(ended("cancelled")).toEqual({ kind: "skip" });
    const strict = { "matrix (a)": done("failure"), "matrix (b)": done("success") };
    expect(decide(run(), "middle", strict)).toEqual({ kind: "skip" });
  });

  it("wait for every combination", () => {
    expect(decide(run(), "middle", { "matrix (a)": done("success") })).toEqual({ kind: "wait" });
  });

  it("see what they need, and choose name and machine by it", () => {
    const results = { "matrix (a)": done("success", { which: "1" }), "matrix (b)": done("success", { which: "2" }) };
    expect(decide(run(), "middle", results)).toMatchObject({
      kind: "start",
      name: "middle after 2",
      labels: ["macos-15"],
    });
  });

  it.each([
    ["success()", "failure", "skip"],
    ["needs.matrix.outputs.which == ''", "failure", "skip"],
    ["failure()", "failure", "start"],
    ["failure()", "cancelled", "skip"],
    ["always()", "failure", "start"],
    ["${{ !cancelled() }}", "failure", "start"],
    ["${{ !cancelled() }}", "skipped", "start"],
    ["success()", "skipped", "skip"],
  ] as const)("if: %s after a %s: %s", (condition, conclusion, kind) => {
    const other = conclusion === "skipped" ? "skipped" : "success";
    const results = { "matrix (a)": done(other), "matrix (b)": done(conclusion) };
    expect(decide(run(condition), "middle", results)).toMatchObject({ kind });
  });

  it("are skipped when an ancestor failed, also when the one between went on", () => {
    const results = { "matrix (a)": done("failure"), "matrix (b)": done("success"), middle: done("success") };
    expect(decide(run("always()"), "last", results)).toEqual({ kind: "skip" });
  });

  it("of a cancelled run start only when they ask for it", () => {
    const results = { "matrix (a)": done("success"), "matrix (b)": done("success") };
    expect(decide(run("${{ !cancelled() }}"), "middle", results, true)).toEqual({ kind: "skip" });
    expect(decide(run("always()"), "middle", results, true)).toMatchObject({ kind: "start" });
  });

  it("that cannot be evaluated say so", () => {
    const results = { "matrix (a)": done("success"), "matrix (b)": done("success", { which: "{" }) };
    expect(decide(run("fromJSON(needs.matrix.outputs.which)"), "middle", results)).toMatchObject({ kind: "broken" });
  });
});

const STEPS = `on: push
env: {LEVEL: workflow, SHARED: "1"}
jobs:
  job:
    runs-on: ubuntu-24.04
    env: {LEVEL: job, BOTH: "\${{ env.SHARED }}-\${{ env.LEVEL }}"}
    outputs: {out: "\${{ steps.one.outputs.value }}"}
    steps:
      - id: one
        run: echo \${{ env.LEVEL }}
        env: {LEVEL: step}
      - id: two
        continue-on-error: true
        uses: actions/cache/restore@55cc8345863c7cc4c66a329aec7e433d2d1c52a9
        with: {path: p, key: "k-\${{ steps.one.outputs.value }}"}
      - if: steps.two.outcome != 'success'
        run: echo retry \${{ steps.two.conclusion }} $BOTH
      - name: after \${{ runner.temp }}
        if: always()
        run: cleanup
`;

describe("steps", () => {
  const run = plan(STEPS);
  const [job] = run.jobs;
  const state = (steps: readonly StepResult[], cancelled = false): JobState => ({
    results: new Map(),
    steps,
    cancelled,
    runner: { temp: "/t" },
  });
  const at = (steps: readonly StepResult[], cancelled = false): StepDecision | null => {
    if (job === undefined) throw new Error("no job");
    return decideStep(run, job, state(steps, cancelled));
  };
  const good: StepResult = { outcome: "success", outputs: { value: "v" } };
  const bad: StepResult = { outcome: "failure", outputs: {} };

  it("have the nearest environment, and each layer sees the one above", () => {
    expect(at([])).toMatchObject({
      kind: "run",
      script: "echo step",
      env: { LEVEL: "step", SHARED: "1", BOTH: "1-workflow" },
    });
  });

  it("take an action's inputs from the steps before", () => {
    expect(at([good])).toMatchObject({
      kind: "action",
      action: "actions/cache/restore",
      with: { path: "p", key: "k-v" },
    });
  });

  it("tell outcome from conclusion", () => {
    expect(at([good, bad])).toMatchObject({ kind: "run", script: "echo retry success $BOTH" });
    expect(at([good, good])).toMatchObject({ kind: "skip" });
  });

  it("after a failure only those run that ask for it", () => {
    expect(at([bad])).toMatchObject({ kind: "skip" });
    expect(at([bad, { outcome: "skipped", outputs: {} }])).toMatchObject({ kind: "skip" });
    expect(at([bad, { outcome: "skipped", outputs: {} }, { outcome: "skipped", outputs: {} }])).toMatchObject({
      kind: "run",
      name: "after /t",
    });
  });

  it("end, and the job concludes with its outputs", () => {
    const all = [good, bad, good, good];
    expect(at(all)).toBeNull();
    if (job === undefined) throw new Error("no job");
    expect(concludeJob(run, job, state(all))).toEqual({
      ok: true,
      value: { conclusion: "success", outputs: { out: "v" } },
    });
    expect(concludeJob(run, job, state([bad, good, good, good]))).toMatchObject({ value: { conclusion: "failure" } });
    expect(concludeJob(run, job, state(all, true))).toMatchObject({ value: { conclusion: "cancelled" } });
  });
});

describe("the shipped execute workflow, step by step", () => {
  const walk = (inputs: Record<string, string>, download: StepResult["outcome"]): readonly string[] => {
    const planned = planRun(shippedPlan("gpu-gate-execute.yml"), dispatched(), inputs);
    if (!planned.ok) throw new Error(planned.error.message);
    const [job] = planned.value.jobs;
    if (job === undefined) throw new Error("no job");
    const seen: string[] = [];
    const steps: StepResult[] = [];
    for (;;) {
      const decision = decideStep(planned.value, job, { results: new Map(), steps, cancelled: false, runner: {} });
      if (decision === null) return seen;
      if (decision.kind === "broken") throw new Error(decision.message);
      const id = job.plan.steps[steps.length]?.id;
      if (decision.kind !== "skip") seen.push(decision.name);
      const outcome = id === "download" ? download : "success";
      steps.push({
        outcome: decision.kind === "skip" ? "skipped" : outcome,
        outputs: id === "machine" ? { cuda: "12.6" } : {},
      });
    }
  };

  it("a good download is not repeated, and no runtime is fetched when none was staged", () => {
    const seen = walk(EXECUTE_INPUTS, "success");
    expect(seen).not.toContain("Download the archives once more");
    expect(seen.some((name) => /runtime/i.test(name) && name !== "Verify the runtime")).toBe(false);
    expect(seen.at(-1)).toBe("Report the evidence");
  });

  it("a broken download is repeated once", () => {
    expect(walk(EXECUTE_INPUTS, "failure").filter((name) => name.startsWith("Download the archives"))).toHaveLength(2);
  });

  it("takes the runtime that fits the driver", () => {
    const runtime_ids = JSON.stringify({ common: "11,12", "cuda12.6": "21,22", "cuda12.8": "31,32" });
    const planned = planRun(shippedPlan("gpu-gate-execute.yml"), dispatched(), { ...EXECUTE_INPUTS, runtime_ids });
    if (!planned.ok) throw new Error(planned.error.message);
    const [job] = planned.value.jobs;
    const index = job?.plan.steps.findIndex((step) => step.name?.source === "Download the CUDA runtime") ?? -1;
    if (job === undefined) throw new Error("no job");
    const before = job.plan.steps.slice(0, index).map((step): StepResult => ({
      outcome: "success",
      outputs: step.id === "machine" ? { cuda: "12.6" } : {},
    }));
    const decision = decideStep(planned.value, job, {
      results: new Map(),
      steps: before,
      cancelled: false,
      runner: {},
    });
    expect(decision).toMatchObject({ kind: "action", with: { "artifact-ids": "21,22", "run-id": "77" } });
  });

  it("waits on the attempt's own label", () => {
    const planned = planRun(shippedPlan("gpu-gate-execute.yml"), dispatched(), EXECUTE_INPUTS);
    if (!planned.ok) throw new Error(planned.error.message);
    const [job] = planned.value.jobs;
    if (job === undefined) throw new Error("no job");
    expect(decideJob(planned.value, job, new Map())).toEqual({
      kind: "start",
      name: "GPU tests",
      labels: ["self-hosted", "gate-5f3a"],
      // Nothing that it could wait for, and nobody's secrets.
      concurrency: null,
      environment: null,
    });
    expect(EXECUTE_INPUTS.tested_sha).toBe(SHA);
  });
});

describe("the example CI when nobody knows what changed", () => {
  it("every required job runs and fails in its first step", () => {
    const event: RunEvent = { name: "pull_request", github: { event: { action: "opened" } } };
    const planned = planRun(shippedPlan("ci.yml"), event);
    if (!planned.ok) throw new Error(planned.error.message);
    const results = new Map([["classify", done("failure")]]);
    const others = planned.value.jobs.filter((job) => job.key !== "classify");
    expect(others.length).toBeGreaterThan(4);
    for (const job of others) {
      expect(decideJob(planned.value, job, results)).toMatchObject({ kind: "start", labels: ["ubuntu-24.04"] });
      const step = decideStep(planned.value, job, { results, steps: [], cancelled: false, runner: {} });
      expect(step).toMatchObject({ kind: "run", name: "Refuse an unknown change" });
    }
  });

  it("a lane that the base branch's configuration does not have fails its job in its first step", () => {
    const event: RunEvent = { name: "pull_request", github: { event: { action: "opened" } } };
    const planned = planRun(shippedPlan("ci.yml"), event);
    if (!planned.ok) throw new Error(planned.error.message);
    const results = new Map([["classify", done("success", { run_docs: "true", reason: "code" })]]);
    const first = planned.value.jobs
      .filter((job) => job.key !== "classify")
      .map((job) => decideStep(planned.value, job, { results, steps: [], cancelled: false, runner: {} })?.kind);
    expect(first).toEqual(["run", "run", "run", "skip", "run", "run"]);
  });

  it("a lane that is not asked for is a success that says so, on a cheap machine", () => {
    const event: RunEvent = { name: "pull_request", github: { event: { action: "opened" } } };
    const planned = planRun(shippedPlan("ci.yml"), event);
    if (!planned.ok) throw new Error(planned.error.message);
    const outputs = {
      run_rust: "false",
      run_docs: "false",
      run_ci_config: "false",
      run_macos: "false",
      reason: "docs",
    };
    const results = new Map([["classify", done("success", outputs)]]);
    for (const job of planned.value.jobs.filter((one) => one.key !== "classify")) {
      expect(decideJob(planned.value, job, results)).toMatchObject({ kind: "start", labels: ["ubuntu-24.04"] });
      const names: string[] = [];
      const steps: StepResult[] = [];
      for (;;) {
        const decision = decideStep(planned.value, job, { results, steps, cancelled: false, runner: {} });
        if (decision === null) break;
        if (decision.kind !== "skip") names.push(decision.name);
        steps.push({ outcome: decision.kind === "skip" ? "skipped" : "success", outputs: {} });
      }
      expect(names).toEqual(["Nothing to do"]);
    }
  });
});
