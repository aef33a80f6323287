import { expect, it } from "vitest";
import { executeArtifacts } from "../../shared/hosted/execute-inputs.ts";
import { planRun } from "../../local/workflow/run.ts";
import { decideStep, type StepResult } from "../../local/workflow/steps.ts";
import { dispatched, PREPARE_INPUTS, shippedPlan } from "./shipped.ts";

/** The names that the shipped prepare workflow really uploads, with ids. */
function uploaded(jobs: readonly string[]): readonly { id: string; name: string }[] {
  const planned = planRun(shippedPlan("gpu-gate-prepare.yml"), dispatched(), PREPARE_INPUTS);
  if (!planned.ok) throw new Error(planned.error.message);
  const names = planned.value.jobs
    .filter((job) => jobs.includes(job.plan.id))
    .flatMap((job) => {
      const steps: StepResult[] = [];
      const found: string[] = [];
      for (;;) {
        const decision = decideStep(planned.value, job, { results: new Map(), steps, cancelled: false, runner: {} });
        if (decision === null) return found;
        if (decision.kind === "action" && decision.action === "actions/upload-artifact")
          found.push(decision.with["name"] ?? "");
        steps.push({ outcome: "success", outputs: { payload: "true" } });
      }
    });
  return names.map((name, index) => ({ id: String(100 + index), name }));
}

it("the archives are six ids, and nothing else is in them", () => {
  const inputs = executeArtifacts([...uploaded(["archives"]), { id: "9", name: "test-report" }]);
  expect(inputs).toEqual({ artifact_ids: "100,101,102,103,104,105", runtime_ids: "" });
});

it("staged runtimes are told apart by payload", () => {
  const inputs = executeArtifacts(uploaded(["archives", "runtime"]));
  expect(inputs.artifact_ids.split(",")).toHaveLength(6);
  const runtimes = JSON.parse(inputs.runtime_ids) as Record<string, string>;
  expect(Object.keys(runtimes)).toEqual(["common", "cuda12.6", "cuda12.8"]);
  expect(Object.values(runtimes).map((ids) => ids.split(",").length)).toEqual([6, 6, 6]);
});

it("a missing part is no archive, and half a runtime is none", () => {
  const all = uploaded(["archives", "runtime"]);
  const without = (name: string): ReturnType<typeof executeArtifacts> =>
    executeArtifacts(all.filter((one) => one.name !== name));
  expect(without("gpu-gate-archives-part03").artifact_ids).toBe("");
  expect(without("gpu-gate-archives-manifest").artifact_ids).toBe("");
  expect(without("gpu-gate-runtime-cuda12.8-manifest").runtime_ids).toBe("");
});
