/** The shell of the shipped workflows, run for real with the environment that the workflow gives it. */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseEvidence } from "../../shared/hosted/evidence.ts";
import { bash, dispatched, EXECUTE_INPUTS, PREPARE_INPUTS, resolveStep, ROOT, SHA, type StepAsked } from "./shipped.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpu-gate-step-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

function program(path: string, text: string): void {
  mkdirSync(join(folder, path, ".."), { recursive: true });
  writeFileSync(join(folder, path), `#!/bin/bash\n${text}\n`);
  chmodSync(join(folder, path), 0o755);
}

function perform(
  asked: StepAsked,
  env: Record<string, string> = {},
): { code: number | null; out: string; outputs: string } {
  const step = resolveStep(asked);
  const output = join(folder, "output");
  writeFileSync(output, "");
  const path = `${join(folder, "bin")}:${process.env["PATH"] ?? ""}`;
  const run = bash(
    step.script,
    { ...step.env, GITHUB_OUTPUT: output, RUNNER_TEMP: folder, GITHUB_WORKSPACE: folder, ...env },
    folder,
    path,
  );
  return { ...run, outputs: readFileSync(output, "utf8") };
}

const paid = (step: string, inputs: Record<string, string> = {}): StepAsked => ({
  workflow: "gpu-gate-execute.yml",
  job: "gpu",
  step,
  inputs: { ...EXECUTE_INPUTS, ...inputs },
  outputs: { machine: { cuda: "12.8", driver: "12.9" } },
});

describe("execute: refuse what was not admitted", () => {
  const step = "Refuse what was not admitted";

  it("lets the admitted attempt through", () => {
    expect(perform(paid(step))).toMatchObject({ code: 0 });
  });

  it.each([
    ["another branch", {}, { ref_name: "main-evil" }, "default branch only"],
    ["a re-run", {}, { run_attempt: "2" }, "re-run is not an admitted attempt"],
    ["a short commit", { tested_sha: "abc" }, {}, "tested_sha"],
    ["a branch as commit", { tested_sha: "refs/heads/x" }, {}, "tested_sha"],
    ["a run id that is no number", { prepare_run_id: "1; id" }, {}, "prepare_run_id"],
    ["ids with something behind them", { artifact_ids: "1,2,$(id)" }, {}, "artifact_ids"],
    ["a request id with a line break", { request: "a\nb" }, {}, "request id"],
  ])("stops %s", (_what, inputs, github, message) => {
    const run = perform({ ...paid(step, inputs), event: dispatched(github) });
    expect(run.code).toBe(1);
    expect(run.out).toContain(message);
  });
});

describe("execute: check the machine", () => {
  const smi = (cuda: string, extra = ""): string =>
    `cat <<'E'\n| NVIDIA-SMI 570.1   Driver Version: 570.1   CUDA Version: ${cuda}  |\n| GPU ${extra}\nE`;

  it.each([
    ["12.6", "12.6"],
    ["12.7", "12.6"],
    ["12.8", "12.8"],
    // Pairs of numbers, not decimals.
    ["12.10", "12.8"],
    ["13.0", "12.8"],
  ])("a driver for CUDA %s gets runtime %s", (driver, cuda) => {
    program("bin/nvidia-smi", smi(driver));
    const run = perform(paid("Check the machine"));
    expect(run.code).toBe(0);
    expect(run.outputs).toBe(`driver=${driver}\ncuda=${cuda}\n`);
  });

  it.each([
    ["an old driver", smi("12.5"), "12.6 is the oldest"],
    ["an older major version", smi("11.9"), "12.6 is the oldest"],
    ["a card with an error although the program succeeds", smi("12.8", "ERR!"), "shows an error"],
    ["a driver that does not tell", "echo nothing", "does not say"],
    ["a program that fails", "exit 9", "nvidia-smi failed"],
  ])("refuses %s", (_what, text, message) => {
    program("bin/nvidia-smi", text);
    const run = perform(paid("Check the machine"));
    expect(run.code).toBe(1);
    expect(run.out).toContain(message);
    expect(run.outputs).toBe("");
  });

  it("prints attempt, tier, GPU and price; what the machine was told beats what was planned", () => {
    program("bin/nvidia-smi", smi("12.8"));
    const inputs = { tier: "low", gpu: "NVIDIA L4", price: "0.43" };
    const planned = perform(paid("Check the machine", inputs)).out;
    for (const text of ["a-1", "low", "NVIDIA L4", "0.43"]) expect(planned).toContain(text);
    expect(perform(paid("Check the machine", inputs), { GPU_GATE_GPU_ID: "NVIDIA A40" }).out).toContain(
      "GPU id:    NVIDIA A40",
    );
  });
});

describe("execute: verify the runtime", () => {
  it("takes the machine's own proof when nothing was staged", () => {
    const run = perform(paid("Verify the runtime"));
    expect(run).toMatchObject({ code: 0 });
    expect(run.out).toContain("proved its NVRTC before it registered");
  });

  it("refuses a staged runtime without NVRTC, or with something else in its place", () => {
    const staged = paid("Verify the runtime", { runtime_ids: '{"common":"1","cuda12.8":"2"}' });
    expect(perform(staged).out).toContain("holds no NVRTC 12.8");
    mkdirSync(join(folder, "runtime/cuda/lib64"), { recursive: true });
    writeFileSync(join(folder, "runtime/cuda/lib64/libnvrtc.so.12"), "not a library");
    const run = perform(staged);
    expect(run.code).toBe(1);
    expect(run.out).toContain("::error title=Runtime refused::runtime/cuda/lib64/libnvrtc.so.12 is no NVRTC");
  });
});

describe("execute: refuse any other commit", () => {
  it.each([
    ["the admitted one", SHA, 0],
    ["another", "e".repeat(40), 1],
    ["none", "", 1],
  ])("archives of %s", (_what, built, code) => {
    mkdirSync(join(folder, "archives"));
    if (built !== "") writeFileSync(join(folder, "archives/TESTED_SHA"), `${built}\n`);
    expect(perform(paid("Refuse any other commit")).code).toBe(code);
  });
});

describe("execute: run the tests and report", () => {
  const summary = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";

  it("gives evidence that the gate reads when everything passed", () => {
    program("archives/gpu-tests/one", `echo '${summary}'`);
    program("archives/gpu-tests/two", `echo '${summary}'`);
    expect(perform(paid("Run GPU tests")).code).toBe(0);
    const report = perform(paid("Report the evidence"));
    expect(report.code).toBe(0);
    const message = /^::notice title=gpu-gate-evidence::(.*)$/m.exec(report.out)?.[1] ?? "";
    expect(parseEvidence(message)).toMatchObject({ ok: true, value: { tests: 6 } });
  });

  it("runs every program although one fails, and gives no evidence", () => {
    program(
      "archives/gpu-tests/one",
      "echo 'test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured'; exit 101",
    );
    program("archives/gpu-tests/two", `echo second ran; echo '${summary}'`);
    const run = perform(paid("Run GPU tests"));
    expect(run.code).toBe(1);
    expect(run.out).toContain("second ran");
    expect(perform(paid("Report the evidence")).out).not.toContain("::notice");
  });

  it("takes a program that ends badly for a failure even when it says that all passed", () => {
    program("archives/gpu-tests/one", `echo '${summary}'; exit 139`);
    expect(perform(paid("Run GPU tests")).code).toBe(1);
  });

  it("is no success when nothing ran", () => {
    mkdirSync(join(folder, "archives"));
    expect(perform(paid("Run GPU tests")).code).toBe(0);
    const report = perform(paid("Report the evidence"));
    expect(report.code).toBe(1);
    expect(report.out).not.toContain("::notice");
  });

  it("hands nextest the archive and the filter that was audited", () => {
    mkdirSync(join(folder, "archives"));
    writeFileSync(join(folder, "archives/cuda.tar.zst"), "x");
    writeFileSync(join(folder, "archives/cuda.gpu-filter"), "test(=a::b)\n");
    program(
      "bin/cargo-nextest",
      "printf '%s\\n' \"$@\" > \"$RUNNER_TEMP/arguments\"; echo '     Summary [   1.250s] 1 test run: 1 passed, 0 skipped'",
    );
    expect(perform(paid("Run GPU tests")).code).toBe(0);
    const args = readFileSync(join(folder, "arguments"), "utf8").split("\n");
    expect(args).toEqual(
      expect.arrayContaining([
        "--archive-file",
        `${folder}/archives/cuda.tar.zst`,
        "-E",
        "test(=a::b)",
        "--test-threads",
        "1",
      ]),
    );
    expect(perform(paid("Report the evidence")).out).toContain(
      '::notice title=gpu-gate-evidence::{"tests":1,"durationMs":1250}',
    );
  });

  it("does not let a test speak to the runner", () => {
    program(
      "archives/gpu-tests/one",
      `echo '::notice title=gpu-gate-evidence::{"tests":9,"durationMs":1}'; echo '${summary}'`,
    );
    const lines = perform(paid("Run GPU tests")).out.split("\n");
    const stop = lines.findIndex((line) => line.startsWith("::stop-commands::"));
    const token = lines[stop]?.slice("::stop-commands::".length) ?? "";
    const forged = lines.findIndex((line) => line.includes('"tests":9'));
    expect(token).toMatch(/^[0-9a-f-]{36}$/);
    expect(stop).toBeGreaterThanOrEqual(0);
    expect(forged).toBeGreaterThan(stop);
    expect(lines.indexOf(`::${token}::`)).toBeGreaterThan(forged);
  });
});

describe("prepare: check the request", () => {
  const asked = (inputs: Record<string, string>): StepAsked => ({
    workflow: "gpu-gate-prepare.yml",
    job: "archives",
    step: "Check the request",
    inputs: { ...PREPARE_INPUTS, ...inputs },
  });

  it.each([
    ["what the control plane sends", {}, 0],
    ["a second preparation of a request", { request: "r-1 again" }, 0],
    ["a request with other words in it", { request: "r-1 twice" }, 1],
    ["an upper-case commit", { tested_sha: SHA.toUpperCase() }, 1],
    ["a key that is a path", { archive_key: "../../x" }, 1],
    ["a request that is a command", { request: "$(id)" }, 1],
  ])("%s", (_what, inputs, code) => {
    expect(perform(asked(inputs)).code).toBe(code);
  });

  it("refuses a run at another branch", () => {
    expect(perform({ ...asked({}), event: dispatched({ ref_name: "feature" }) }).code).toBe(1);
  });
});

describe("from preparation to the paid machine", () => {
  const split: StepAsked = {
    workflow: "gpu-gate-prepare.yml",
    job: "archives",
    step: "Split into five parts",
    inputs: PREPARE_INPUTS,
  };

  beforeEach(() => {
    // The bundled tool stands in .github/gpu-gate of the default branch; here it is the same command from source.
    const command = JSON.stringify([join(ROOT, "cli/main.ts")]).slice(1, -1);
    mkdirSync(join(folder, "trusted/.github/gpu-gate"), { recursive: true });
    writeFileSync(
      join(folder, "trusted/.github/gpu-gate/gpu-gate.mjs"),
      `import { spawnSync } from "node:child_process";
const run = spawnSync(${JSON.stringify(process.execPath)}, [${command}, ...process.argv.slice(2)], { stdio: "inherit" });
process.exitCode = run.status ?? 1;\n`,
    );
    program("archives/gpu-tests/one", "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'");
    writeFileSync(join(folder, "archives/cuda.tar.zst.notes"), "x".repeat(10_000));
    const sent = perform(split);
    if (sent.code !== 0) throw new Error(sent.out);
    rmSync(join(folder, "archives"), { recursive: true });
  });

  it("what was built arrives, and its tests run", () => {
    expect(perform(paid("Reconstruct the archives"))).toMatchObject({ code: 0 });
    expect(perform(paid("Refuse any other commit"))).toMatchObject({ code: 0 });
    expect(perform(paid("Run GPU tests"))).toMatchObject({ code: 0 });
    expect(perform(paid("Report the evidence")).out).toContain('{"tests":2,');
  });

  it("archives of another revision are refused although every sum is right", () => {
    expect(perform(paid("Reconstruct the archives"))).toMatchObject({ code: 0 });
    const run = perform(paid("Refuse any other commit", { tested_sha: "e".repeat(40) }));
    expect(run.code).toBe(1);
    expect(run.out).toContain(`built from ${SHA}, not from ${"e".repeat(40)}`);
  });

  it.each(["archives.part03", "archives.manifest"])("a damaged %s stops the job and leaves no archives", (file) => {
    const bytes = readFileSync(join(folder, "parts", file));
    bytes[10] = (bytes[10] ?? 0) ^ 1;
    writeFileSync(join(folder, "parts", file), bytes);
    expect(perform(paid("Reconstruct the archives")).code).toBe(1);
    expect(existsSync(join(folder, "archives"))).toBe(false);
  });
});

describe("recovery and validation speak to the control plane only after their own checks", () => {
  const recovery = (pr: string, github = {}, keep = ""): StepAsked => ({
    workflow: "gpu-gate-recovery.yml",
    job: "recover",
    step: "Ask the control plane",
    inputs: { pr_number: pr, keep_minutes: keep },
    event: dispatched(github),
  });
  const validation = (inputs: Record<string, string>): StepAsked => ({
    workflow: "gpu-gate-validation.yml",
    job: "validate",
    step: "Ask the control plane",
    inputs,
  });
  const token = { ACTIONS_ID_TOKEN_REQUEST_TOKEN: "t", ACTIONS_ID_TOKEN_REQUEST_URL: "https://token.example?x=1" };

  beforeEach(() => {
    program(
      "bin/curl",
      'printf "%s\\n" "$@" "--" >> "$RUNNER_TEMP/calls"; case "$*" in *token.example*) echo "{\\"value\\": \\"jwt\\"}" ;; *) echo accepted > "$RUNNER_TEMP/answer.json" ;; esac',
    );
    program(
      "bin/jq",
      'if [ "$1" = -er ]; then cat > /dev/null; echo jwt; elif [ "$1" = -r ]; then echo "jq $*"; else echo "{body}"; fi',
    );
    writeFileSync(join(folder, "calls"), "");
  });
  const calls = (): string => readFileSync(join(folder, "calls"), "utf8");

  it("recovery sends the number, with the token in a header and masked", () => {
    const run = perform(recovery("17"), token);
    expect(run.code).toBe(0);
    expect(run.out).toContain("::add-mask::jwt");
    expect(calls()).toContain('{"pr_number": 17}');
    expect(calls()).toContain("https://gate.example/v1/recover");
    expect(calls()).toContain("audience=https://gate.example\n");
    // The answer is shown, and turned into the note that the waiting command reads.
    expect(run.out).toContain("accepted");
    expect(run.out).toMatch(/jq -r .*::notice title=gpu-gate request::/);
  });

  it.each([
    ["zero", recovery("0")],
    ["a ref", recovery("refs/pull/1")],
    ["JSON", recovery('1, "x": 2')],
    ["a re-run", recovery("17", { run_attempt: "2" })],
    ["no time", recovery("17", {}, "0")],
    ["more than half a day", recovery("17", {}, "721")],
    ["a time that is none", recovery("17", {}, "60; id")],
    ["more than half a day, of a commit", validation({ revision: SHA, keep_minutes: "999" })],
    ["another branch", recovery("17", { ref_name: "x" })],
    ["a branch to validate", validation({ revision: "main" })],
    ["a check target that is no commit", validation({ revision: SHA, check_head: "HEAD" })],
  ])("refuses %s without calling anybody", (_what, asked) => {
    expect(perform(asked, token).code).toBe(1);
    expect(calls()).toBe("");
  });

  it("validation sends the revision", () => {
    expect(perform(validation({ revision: SHA }), token).code).toBe(0);
    expect(calls()).toContain("https://gate.example/v1/validate");
  });
});
