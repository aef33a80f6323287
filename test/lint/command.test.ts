import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Io } from "../../cli/command.ts";
import { lintConfigFrom } from "../../cli/commands/lint.ts";
import { main } from "../../cli/main.ts";
import { configFrom } from "../../shared/config/load.ts";

const CLEAN =
  "on: push\npermissions: {}\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    timeout-minutes: 5\n    steps: [{ run: echo }]\n";
const DIRTY = CLEAN.replace("ubuntu-24.04", "ubuntu-latest");

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "gpu-gate-lint-"));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

async function put(path: string, text: string): Promise<void> {
  await mkdir(dirname(join(folder, path)), { recursive: true });
  await writeFile(join(folder, path), text);
}

async function lint(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  let out = "";
  let err = "";
  const io: Io = {
    stdout: (text) => void (out += text),
    stderr: (text) => void (err += text),
    stdin: async () => new Uint8Array(),
    env: {},
    cwd: folder,
    fetch: async () => {
      throw new Error("the linter asks nobody");
    },
    now: () => 0,
  };
  const code = await main(["lint", ...args], io);
  return { code, out, err };
}

describe("gpu-gate lint", () => {
  it("reads .github/workflows by default, yml and yaml, and nothing else", async () => {
    await put(".github/workflows/a.yml", CLEAN);
    await put(".github/workflows/b.yaml", DIRTY);
    await put(".github/workflows/notes.txt", DIRTY);
    const { code, out } = await lint();
    expect(code).toBe(1);
    expect(out).toContain(".github/workflows/b.yaml:5:14: ");
    expect(out).toContain("1 finding in 2 files.");
  });

  it("takes files and folders, and is content with clean ones", async () => {
    await put("one.yml", CLEAN);
    await put("more/two.yml", CLEAN);
    expect(await lint("one.yml", "more")).toEqual({
      code: 0,
      out: "2 workflow files checked, nothing found.\n",
      err: "",
    });
  });

  it("takes the lanes from the repository's configuration, and another file when told to", async () => {
    await put("w.yml", CLEAN.replace("ubuntu-24.04", "[self-hosted, gpu]"));
    const lane = (labels: string): string =>
      `version: 1\nlanes:\n  own:\n    own:\n      runs_on: [${labels}]\n      switch: OWN_ENABLED\n`;
    await put(".github/gpu-gate.yml", lane("self-hosted, other"));
    await put("else.yml", lane("self-hosted, gpu"));
    expect((await lint("w.yml")).out).toContain("[unknown-lane]");
    expect((await lint("w.yml", "--config", "else.yml")).out).not.toContain("[unknown-lane]");
  });

  it("says that there is no configuration where all files of a repository are judged, and nothing else is wrong", async () => {
    await put(".github/workflows/a.yml", CLEAN);
    expect(await lint()).toEqual({
      code: 0,
      out: "1 workflow file checked, nothing found.\n",
      err: "There is no .github/gpu-gate.yml: lanes, required checks and names are not known here.\n",
    });
    await put(".github/gpu-gate/build.sh", "");
    const { code, out, err } = await lint();
    expect([code, err]).toEqual([1, ""]);
    expect(out).toContain(".github/gpu-gate.yml:1:1: ");
    expect(out).toContain("[configuration-missing]");
  });

  it("finds what is missing when all files of a folder are judged, however they are named, and not when some are", async () => {
    const files = ["elsewhere/.github/workflows/a.yml", "elsewhere/.github/workflows/b.yml"];
    for (const file of files) await put(file, CLEAN);
    // The configuration beside the files counts, not the one where the command runs.
    await put("elsewhere/.github/gpu-gate.yml", "version: 1\nworkflows: { trigger: none }\npre_gate: [nobody]\n");
    const whole = await lint("elsewhere/.github/workflows");
    expect(whole.out).toContain("elsewhere/.github/gpu-gate.yml:2:1: workflows.prepare: there is no");
    expect(whole.out).toContain("elsewhere/.github/gpu-gate.yml:3:12: pre_gate: no job publishes 'nobody'");
    expect((await lint(...files)).out).toBe(whole.out);
    expect((await lint(files[0] ?? "")).code).toBe(0);
  });

  it("looks for scripts in the whole tree, and takes what it cannot look into for present", async () => {
    const calls = (path: string): string =>
      `${CLEAN.replace("    steps: [{ run: echo }]\n", "")}    steps:\n      - uses: actions/checkout@de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6\n        with: { persist-credentials: false }\n      - run: bash ${path}\n`;
    await put(".github/workflows/a.yml", calls("ci/test.sh"));
    await put(".github/workflows/b.yml", calls("vendored/ci/test.sh"));
    await put(".github/workflows/c.yml", calls("target/ci/made.sh"));
    await put("crates/core/ci/test.sh", "");
    await mkdir(join(folder, "vendored"));
    await put("target/CACHEDIR.TAG", "");
    await put("target/ci/made.sh", "");
    const { out } = await lint();
    expect(out).toContain(".github/workflows/c.yml:10:19: There is no target/ci/made.sh");
    expect(out).toContain("1 finding in 3 files.");
  });

  it("takes the default branch's name from the clone, unless it is told another", async () => {
    await put(".github/workflows/a.yml", CLEAN.replace("on: push", "on: { push: { branches: [main] } }"));
    expect((await lint()).code).toBe(0);
    await put(".git/refs/remotes/origin/HEAD", "ref: refs/remotes/origin/team/trunk\n");
    expect((await lint()).out).toContain("'main' is not the default branch, 'team/trunk'. [other-default-branch]");
    expect((await lint("--default-branch", "main")).code).toBe(0);
  });

  it.each([
    [["--format", "xml"], "'xml' is no format"],
    [["missing.yml"], "'missing.yml' cannot be read: no such file or directory"],
    [["empty"], "'empty' holds no workflow files"],
    [["a.yml", "--config", "nowhere.yml"], "The configuration cannot be read"],
    [["a.yml", "--config", "bad.yml"], "bad.yml:2:1: nonsense"],
  ])("refuses a wrong call: %s", async (args, message) => {
    await put("a.yml", CLEAN);
    await put("bad.yml", "version: 1\nnonsense: true\n");
    await mkdir(join(folder, "empty"));
    const { code, out, err } = await lint(...args);
    expect([code, out]).toEqual([2, ""]);
    expect(err).toContain(message);
  });

  it("prints SARIF that is one JSON document, also when nothing is found", async () => {
    await put("a.yml", CLEAN);
    const { code, out } = await lint("a.yml", "--format", "sarif");
    expect(code).toBe(0);
    expect((JSON.parse(out) as { version: string }).version).toBe("2.1.0");
  });
});

it("required are the checks that must report and those the gate waits for", () => {
  const config = configFrom({
    pre_gate: ["rustfmt"],
    required_checks: [{ name: "unit", report: "must" }, { name: "docs" }],
    check: { name: "GPU" },
  });
  const read = lintConfigFrom(config, "trunk");
  expect(read.requiredChecks).toEqual(["unit", "rustfmt"]);
  expect([read.gateCheck, read.defaultBranch]).toEqual(["GPU", "trunk"]);
});
