/** The shipped files as a newcomer copies them: clean when all is there, and each thing that is forgotten is found. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CONFIG_PATH } from "../../shared/config/schema.ts";
import { lintWorkflows } from "../../shared/lint/lint.ts";
import { FOLDER, shippedText, shippedWorkflows } from "../workflows/shipped.ts";
import { configOf } from "./examples.ts";

type Files = Map<string, string>;

const LANE = `
  coverage_gpu:
    own:
      runs_on: [self-hosted, linux, gpu-full]
      switch: GPU_COVERAGE_ENABLED
      runbook: https://example.org/runbooks/gpu-full
      probe: Probe GPU Full Runner
    checks: [Coverage GPU]
`;

/** Everything that is copied, the scripts that a project provides, and the lane of `lane-probe.yml`. */
function copied(): Files {
  const example = shippedText("gpu-gate.yml.example");
  const files: Files = new Map(shippedWorkflows().map(({ name, text }) => [`.github/workflows/${name}`, text]));
  files.set(
    CONFIG_PATH,
    example.replace("\n# The checks that must be there.", `${LANE}\n# The checks that must be there.`),
  );
  for (const name of ["gpu-gate.mjs", "build.sh", "test-host.sh"]) files.set(`.github/gpu-gate/${name}`, "");
  const action = readFileSync(join(FOLDER, "actions/probe/action.yml"), "utf8");
  files.set(".github/actions/gpu-gate-probe/action.yml", action);
  files.set("scripts/ci/gpu-coverage.sh", "");
  return files;
}

function lint(files: Files, defaultBranch = "main"): readonly string[] {
  const sources = [...files]
    .filter(([path]) => path.startsWith(".github/workflows/"))
    .map(([path, text]) => ({ path, text }));
  const tree = { files: new Set(files.keys()), closed: [] };
  return lintWorkflows(sources, configOf(files.get(CONFIG_PATH), defaultBranch), tree).map(
    ({ file, message, rule }) => `${file}: ${message} [${rule}]`,
  );
}

/** The findings after one change of one file. */
function after(path: string, change: (text: string) => string): readonly string[] {
  const files = copied();
  const text = files.get(path) ?? "";
  const changed = change(text);
  if (changed === text) throw new Error(`${path} does not hold what the test changes`);
  return lint(files.set(path, changed));
}

function without(path: string): readonly string[] {
  const files = copied();
  if (!files.delete(path)) throw new Error(`${path} is not copied`);
  return lint(files);
}

it("the shipped workflows, the example configuration and the project's scripts are clean together", () => {
  expect(lint(copied())).toEqual([]);
});

it("so are they without the lane, when its workflow is not copied", () => {
  const files = copied();
  files.set(CONFIG_PATH, shippedText("gpu-gate.yml.example"));
  files.delete(".github/workflows/lane-probe.yml");
  expect(lint(files)).toEqual([]);
});

describe("what is forgotten is found", () => {
  it.each([
    [CONFIG_PATH, "configuration-missing", "There is no .github/gpu-gate.yml"],
    [
      ".github/workflows/ci.yml",
      "declared-workflow-missing",
      "workflows.trigger: there is no .github/workflows/ci.yml",
    ],
    [".github/workflows/gpu-gate-prepare.yml", "declared-workflow-missing", "workflows.prepare: there is no"],
    [".github/workflows/gpu-gate-execute.yml", "declared-workflow-missing", "workflows.execute: there is no"],
    [".github/gpu-gate/build.sh", "called-file-missing", "There is no .github/gpu-gate/build.sh"],
    [".github/gpu-gate/test-host.sh", "called-file-missing", "There is no .github/gpu-gate/test-host.sh"],
    [".github/gpu-gate/gpu-gate.mjs", "called-file-missing", "There is no .github/gpu-gate/gpu-gate.mjs"],
    [".github/actions/gpu-gate-probe/action.yml", "called-file-missing", "There is no action in .github/actions/"],
    ["scripts/ci/gpu-coverage.sh", "called-file-missing", "There is no scripts/ci/gpu-coverage.sh"],
  ])("%s", (path, rule, said) => {
    const found = without(path);
    expect(found.filter((one) => one.includes(said) && one.endsWith(`[${rule}]`))).not.toEqual([]);
  });
});

describe("what does not fit is found", () => {
  it.each<[string, string, (text: string) => string, string, string]>([
    [
      "pre-gate checks that no workflow publishes",
      ".github/workflows/ci.yml",
      (text) => text.replaceAll("name: rustfmt", "name: Format"),
      "awaited-check-without-publisher",
      "yml: pre_gate: no job publishes 'rustfmt'",
    ],
    [
      "a required check that no workflow publishes",
      CONFIG_PATH,
      (text) => text.replace("Linux workspace tests, report: must", "Linux tests, report: must"),
      "awaited-check-without-publisher",
      "required_checks: no job publishes 'Linux tests'",
    ],
    [
      "the name of a GPU job that the execute workflow does not have",
      CONFIG_PATH,
      (text) => text.replace("gpu_job: GPU tests", "gpu_job: Foo"),
      "evidence-not-there",
      "no job 'Foo', but 'GPU tests'",
    ],
    [
      "a test step that the execute workflow does not have",
      CONFIG_PATH,
      (text) => text.replace("test_steps: [Run GPU tests]", "test_steps: [Bar]"),
      "evidence-not-there",
      "no step 'Bar'",
    ],
    [
      "a lane that is not declared: labels",
      CONFIG_PATH,
      () => shippedText("gpu-gate.yml.example"),
      "unknown-lane",
      "declares no lane",
    ],
    [
      "a lane that is not declared: probe",
      CONFIG_PATH,
      () => shippedText("gpu-gate.yml.example"),
      "probe-of-another-lane",
      "asks for 'coverage_gpu', which is no lane",
    ],
    [
      "another switch",
      CONFIG_PATH,
      (text) => text.replace("      switch: GPU_COVERAGE_ENABLED", "      switch: OTHER"),
      "lane-contract-differs",
      "is the variable 'OTHER', but the probe reads the variable 'GPU_COVERAGE_ENABLED'",
    ],
    [
      "another probe",
      CONFIG_PATH,
      (text) => text.replace("      probe: Probe GPU Full Runner", "      probe: nope"),
      "lane-contract-differs",
      "waits for the probe 'nope', but this one publishes 'Probe GPU Full Runner'",
    ],
  ])("%s", (_what, path, change, rule, said) => {
    const found = after(path, change);
    expect(found.filter((one) => one.includes(said) && one.endsWith(`[${rule}]`))).toHaveLength(1);
  });

  it("every default that is missing in one place is named there", () => {
    const files = copied();
    files.set(CONFIG_PATH, "version: 1\nlanes: {}\n");
    for (const name of ["ci", "lane-probe", "gpu-gate-prepare"]) files.delete(`.github/workflows/${name}.yml`);
    const found = lint(files).join("\n");
    for (const name of ["trigger", "prepare"]) expect(found).toContain(`workflows.${name}: there is no`);
    for (const name of ["rustfmt", "clippy"]) expect(found).toContain(`pre_gate: no job publishes '${name}'`);
  });
});

it("with another default branch exactly the triggers are named, where GitHub takes no expression", () => {
  const found = lint(copied(), "master");
  expect(found.map((one) => one.split(":")[0])).toEqual([
    ".github/workflows/ci.yml",
    ".github/workflows/gpu-gate-cache-publish.yml",
    ".github/workflows/lane-probe.yml",
  ]);
  for (const one of found) expect(one).toMatch(/\[other-default-branch\]$/);
  const files = copied();
  for (const [path, text] of files) files.set(path, text.replaceAll("branches: [main]", "branches: [master]"));
  expect(lint(files, "master")).toEqual([]);
});
