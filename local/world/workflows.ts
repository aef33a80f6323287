/**
 * Scripts that stand in for the workflow files where a test or a benchmark wants a run's form within milliseconds: CI with
 * its light checks, the preparation, and the one GPU job. The opening day does without them: it runs the files themselves.
 */
import type { JobPlan, WorkflowScript } from "../github/index.ts";
import { evidenceNotice } from "../../shared/hosted/evidence.ts";
import { BROKEN_TESTS, SLOW_TESTS } from "./project.ts";

export const CI = ".github/workflows/ci.yml";
export const PREPARE = ".github/workflows/gpu-gate-prepare.yml";
export const EXECUTE = ".github/workflows/gpu-gate-execute.yml";

export { BROKEN_TESTS, SLOW_TESTS };

const TESTS = 42;

export const ciScript: WorkflowScript = {
  name: "CI",
  on: ["pull_request"],
  plan: () => ({
    jobs: ["rustfmt", "clippy"].map((name) => ({ name, steps: [{ name: `Run ${name}`, durationMs: 150 }] })),
  }),
};

export const prepareScript: WorkflowScript = {
  name: "GPU gate prepare",
  on: ["workflow_dispatch"],
  inputs: ["request", "tested_sha", "archive_key"],
  runName: ({ inputs }) => `gpu-gate prepare ${inputs["request"] ?? ""}`,
  plan: ({ inputs }) => ({
    jobs: [
      {
        name: "Archives and host tests",
        steps: [
          { name: "Build the archives", durationMs: 150 },
          { name: "Run device-independent tests", durationMs: 150 },
        ],
        artifacts: ["part00", "part01", "part02", "part03", "part04", "manifest"].map((part) => ({
          name: `gpu-gate-archives-${part}`,
          files: { [`archives.${part}`]: `${part} of ${inputs["tested_sha"] ?? ""}` },
        })),
      },
    ],
  }),
};

/** The GPU job's own length and outcome are told by the tested revision's files, as real tests' are. */
export function executeScript(filesAt: (sha: string) => Readonly<Record<string, unknown>>): WorkflowScript {
  return {
    name: "GPU gate execute",
    on: ["workflow_dispatch"],
    inputs: [
      "request",
      "attempt",
      "label",
      "prepare_run_id",
      "artifact_ids",
      "runtime_ids",
      "tested_sha",
      "tier",
      "gpu",
      "price",
    ],
    runName: ({ inputs }) => `gpu-gate execute ${inputs["request"] ?? ""} ${inputs["attempt"] ?? ""}`,
    plan: ({ inputs }) => ({ jobs: [gpuJob(inputs, filesAt(inputs["tested_sha"] ?? ""))] }),
  };
}

function gpuJob(inputs: Readonly<Record<string, string>>, files: Readonly<Record<string, unknown>>): JobPlan {
  const broken = BROKEN_TESTS in files;
  // GitHub tells times in whole seconds: a shorter job might look as if it had taken none.
  const seconds = SLOW_TESTS in files ? 30 : 1.3;
  return {
    name: "GPU tests",
    runsOn: ["self-hosted", inputs["label"] ?? "none"],
    steps: [
      { name: "Check the machine", run: "nvidia-smi >/dev/null" },
      { name: "Download the archives", durationMs: 100 },
      {
        name: "Run GPU tests",
        run: broken
          ? `sleep ${seconds}; echo '::error title=conv2d_matches_reference::expected 1.0, got 0.98'; exit 1`
          : `sleep ${seconds}`,
      },
      {
        name: "Report",
        run: `echo '${evidenceNotice({ tests: TESTS, durationMs: Math.round(seconds * 1000) })}'`,
      },
    ],
  };
}
