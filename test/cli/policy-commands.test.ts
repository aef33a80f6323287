/** classify, explain and config as a person or a hosted job runs them, on a small repository made for each test. */
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { main } from "../../cli/main.ts";

const CONFIG = `version: 1
paths:
  docs: {files: [README.md], prefixes: [docs/]}
  ci: {prefixes: [scripts/ci/]}
lanes:
  rust: {}
  docs: {asked_by: [docs], checks: [Documentation]}
  gpu: {control: {files: [scripts/ci/gpu.sh]}}
required_checks: [{name: Documentation}]
`;
const NOW = Date.UTC(2026, 10, 30);

let folder = "";

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "policy-"));
  await write(".github/gpu-gate.yml", CONFIG);
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

async function write(path: string, text: string): Promise<void> {
  await mkdir(dirname(join(folder, path)), { recursive: true });
  await writeFile(join(folder, path), text);
}

function git(...args: string[]): string {
  const identity = {
    GIT_AUTHOR_NAME: "a",
    GIT_AUTHOR_EMAIL: "a@example.org",
    GIT_COMMITTER_NAME: "a",
    GIT_COMMITTER_EMAIL: "a@example.org",
  };
  const when = { GIT_AUTHOR_DATE: "2026-11-20T00:00:00Z", GIT_COMMITTER_DATE: "2026-11-20T00:00:00Z" };
  const env = { ...process.env, ...identity, ...when, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" };
  return execFileSync("git", args, { cwd: folder, env, encoding: "utf8" }).trim();
}

function commit(subject: string): string {
  git("add", "-A");
  git("commit", "-q", "--allow-empty", "-m", subject);
  return git("rev-parse", "HEAD");
}

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly errors: string;
}

async function gate(
  args: readonly string[],
  given: { stdin?: string; env?: Record<string, string> } = {},
): Promise<Ran> {
  let out = "";
  let errors = "";
  const code = await main(args, {
    stdout: (text) => void (out += text),
    stderr: (text) => void (errors += text),
    stdin: () => Promise.resolve(new TextEncoder().encode(given.stdin ?? "")),
    env: given.env ?? {},
    cwd: folder,
    fetch: () => Promise.reject(new Error("classification needs no network")),
    now: () => NOW,
  });
  return { code, out, errors };
}

async function classifiedAs(args: readonly string[], stdin?: string): Promise<unknown> {
  const ran = await gate(["classify", ...args], stdin === undefined ? {} : { stdin });
  expect(ran.errors).toBe("");
  expect(ran.code).toBe(0);
  return (JSON.parse(ran.out) as { classification: string }).classification;
}

describe("gpu-gate classify", () => {
  test("takes paths as arguments and prints the decision as JSON", async () => {
    const { code, out } = await gate(["classify", "./docs/a.md", "docs/a.md"]);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toEqual({
      classification: "docs-only",
      run_gpu: false,
      run_rust: false,
      run_docs: true,
      reason: "documentation: docs/a.md",
      reasons: [{ rule: "docs", lane: null, text: "documentation: docs/a.md", paths: ["docs/a.md"], more: 0 }],
      required: [{ kind: "run", name: "Documentation", lane: "docs" }],
    });
  });

  test("takes lines and NUL-separated names from standard input", async () => {
    expect(await classifiedAs(["--stdin"], "docs/a.md\r\n\n  README.md\n")).toBe("docs-only");
    expect(await classifiedAs(["--stdin"], "docs/a.md\nsrc/x.rs\n")).toBe("code");
    expect(await classifiedAs(["-0"], "docs/a\nb.md\u0000scripts/ci/x\u0000")).toBe("ci-only");
    expect(await classifiedAs(["--stdin"], "")).toBe("code");
  });

  test("does not drop a byte order mark, which is part of a name", async () => {
    expect(await classifiedAs(["--stdin"], "\ufeffREADME.md\n")).toBe("code");
  });

  test("trims text, and with --exact does not", async () => {
    expect(await classifiedAs(["-0"], " docs/x.rs\u0000")).toBe("docs-only");
    expect(await classifiedAs(["-0", "--exact"], " docs/x.rs\u0000")).toBe("code");
  });

  test("a push needs no list and buys nothing", async () => {
    const { out } = await gate(["classify", "--event", "push"]);
    expect(JSON.parse(out)).toMatchObject({ classification: "code", run_gpu: false, run_rust: true });
  });

  test("writes one output for each lane where GITHUB_OUTPUT is set", async () => {
    const env = { GITHUB_OUTPUT: join(folder, "outputs") };
    await writeFile(env.GITHUB_OUTPUT, "earlier=1\n");
    expect((await gate(["classify", "scripts/ci/gpu.sh"], { env })).code).toBe(0);
    expect(await readFile(env.GITHUB_OUTPUT, "utf8")).toBe(
      "earlier=1\nclassification=ci-only\nrun_gpu=true\nrun_rust=false\nrun_docs=false\nreason=known CI files: scripts/ci/gpu.sh; paths that steer the lane gpu: scripts/ci/gpu.sh\n",
    );
  });

  test("refuses to write a name with a line break, and writes nothing", async () => {
    const env = { GITHUB_OUTPUT: join(folder, "outputs") };
    await writeFile(env.GITHUB_OUTPUT, "");
    const ran = await gate(["classify", "-0"], { env, stdin: "docs/a\nrun_gpu=false\u0000" });
    expect(ran).toMatchObject({ code: 1, out: "" });
    expect(ran.errors).toContain("holds a line break");
    expect(await readFile(env.GITHUB_OUTPUT, "utf8")).toBe("");
  });

  test.each([
    ["a configuration with a problem", "version: 1\nbugdet: {}\n", /gpu-gate\.yml:2:1: bugdet: there is no key/],
    ["an empty configuration", "", /holds no settings/],
  ])("%s is a failure without outputs", async (_name, text, message) => {
    await write(".github/gpu-gate.yml", text);
    const env = { GITHUB_OUTPUT: join(folder, "outputs") };
    const ran = await gate(["classify", "docs/a.md"], { env });
    expect(ran).toMatchObject({ code: 1, out: "" });
    expect(ran.errors).toMatch(message);
    await expect(readFile(env.GITHUB_OUTPUT)).rejects.toThrow("ENOENT");
  });

  test("a missing configuration is a failure that names it", async () => {
    const ran = await gate(["classify", "--config", "nowhere.yml", "docs/a.md"]);
    expect(ran).toMatchObject({ code: 1, out: "" });
    expect(ran.errors).toContain("nowhere.yml: the configuration cannot be read: no such file or directory");
  });

  test.each([
    [["classify"]],
    [["classify", "--stdin", "docs/a.md"]],
    [["classify", "--base", "HEAD"]],
    [["classify", "--since", "90d"]],
    [["classify", "--since", "soon", "--config", "x"]],
    [["classify", "--against", "x", "docs/a.md"]],
    [["classify", "--nonsense"]],
  ])("%j is a wrong call", async (args) => {
    expect((await gate(args)).code).toBe(2);
  });
});

describe("gpu-gate classify --base --head", () => {
  let base = "";
  beforeEach(async () => {
    git("init", "-q", "-b", "main");
    await write("src/kernel.cu", "k\n".repeat(50));
    await write("docs/a.md", "a\n");
    base = commit("start");
  });

  const between = (head: string): Promise<unknown> => classifiedAs(["--base", base, "--head", head]);

  test("sees a file moved into the documentation from both sides", async () => {
    git("mv", "src/kernel.cu", "docs/kernel.md");
    expect(await between(commit("move"))).toBe("code");
  });

  test("sees documentation as documentation", async () => {
    await write("docs/a.md", "b\n");
    await write("docs/new name\n.md", "c\n");
    expect(await between(commit("docs"))).toBe("docs-only");
  });

  test("a link and a changed mode are code", async () => {
    await symlink("../src", join(folder, "docs/link"));
    expect(await between(commit("link"))).toBe("code");
    git("reset", "-q", "--hard", base);
    git("update-index", "--chmod=+x", "docs/a.md");
    git("commit", "-q", "-m", "mode");
    expect(await between("HEAD")).toBe("code");
  });

  test("a submodule is code, also when the settings hide it", async () => {
    git("update-index", "--add", "--cacheinfo", `160000,${base},docs/sub`);
    git("commit", "-q", "-m", "sub");
    git("config", "diff.ignoreSubmodules", "all");
    expect(await between("HEAD")).toBe("code");
  });

  test("takes the configuration of the base, so that a change cannot bend its own rules", async () => {
    await write(".github/gpu-gate.yml", CONFIG.replace("prefixes: [docs/]", "prefixes: [docs/, src/, .github/]"));
    await write("src/kernel.cu", "changed\n");
    expect(await between(commit("bend"))).toBe("code");
  });

  test("counts only what the head changed since it left the base", async () => {
    git("checkout", "-q", "-b", "topic");
    await write("docs/b.md", "b\n");
    const topic = commit("topic");
    git("checkout", "-q", "main");
    await write("src/other.rs", "x\n");
    commit("main goes on");
    expect(await classifiedAs(["--base", "main", "--head", topic])).toBe("docs-only");
  });

  test("no change at all is code", async () => {
    expect(await between(commit("nothing"))).toBe("code");
  });

  test("a revision that is none, or an option in its place, is a failure", async () => {
    const ran = await gate(["classify", "--base", "nowhere", "--head", "HEAD"]);
    expect(ran).toMatchObject({ code: 1, out: "" });
    expect(ran.errors).toContain("'nowhere' names no commit here");
    const option = await gate(["classify", "--base=--output=x", "--head", "HEAD"]);
    expect(option).toMatchObject({ code: 1, out: "" });
  });
});

describe("gpu-gate classify --since", () => {
  beforeEach(async () => {
    git("init", "-q", "-b", "main");
    commit("start");
    await write("docs/a.md", "a\n");
    commit("write docs");
    await write("notes/b.md", "b\n");
    commit("write notes");
    await write("src/x.rs", "x\n");
    commit("write code");
    await write(".git/new.yml", CONFIG.replace("prefixes: [docs/]", "prefixes: [docs/, notes/]"));
  });

  test("says which past changes the new configuration would have judged otherwise", async () => {
    const { code, out } = await gate(["classify", "--config", ".git/new.yml", "--since", "90d"]);
    expect(code).toBe(0);
    expect(out.replace(/^[0-9a-f]{10}/m, "SHA")).toBe(
      [
        "SHA 2026-11-20 code -> docs-only -gpu -rust  write notes",
        "",
        "1 of 4 changes would differ",
        "  gpu: 3 runs before, 2 after (-1)",
        "  rust: 3 runs before, 2 after (-1)",
        "  docs: 4 runs before, 4 after (0)",
        "",
      ].join("\n"),
    );
  });

  test("a merge is one change against its first parent", async () => {
    git("checkout", "-q", "-b", "topic", "HEAD~1");
    await write("notes/c.md", "c\n");
    commit("more notes");
    git("checkout", "-q", "main");
    git("merge", "-q", "--no-ff", "-m", "merge notes", "topic");
    const { out } = await gate(["classify", "--config", ".git/new.yml", "--since", "90d", "--json"]);
    const { differences } = JSON.parse(out) as { differences: { subject: string }[] };
    expect(differences.map(({ subject }) => subject)).toEqual(["merge notes", "write notes"]);
  });

  test("history before the time is left out", async () => {
    const { out } = await gate(["classify", "--config", ".git/new.yml", "--since", "24h"]);
    expect(out).toContain("0 of 0 changes would differ");
  });
});

describe("gpu-gate explain", () => {
  test("says of a reason code what happened, what the check says and what to do, with no configuration", async () => {
    await rm(join(folder, ".github/gpu-gate.yml"));
    const { code, out } = await gate(["explain", "over-budget"]);
    expect(code).toBe(0);
    expect(out.split("\n")).toEqual([
      expect.stringMatching(/^over-budget: .+\.$/),
      "  Over budget: The check concludes `action_required`.",
      expect.stringContaining("  What to do: The operator may lift"),
      "",
    ]);
    const json = await gate(["explain", "--json", "over-budget"]);
    expect(JSON.parse(json.out)).toMatchObject({ code: "over-budget", class: "over-budget" });
  });

  test("names the nearest reason codes for an unknown one, and still takes it for a path", async () => {
    const { code, out, errors } = await gate(["explain", "budget-day"]);
    expect([code, out]).toEqual([0, expect.stringContaining("budget-day: ")]);
    expect(errors).toMatch(/budget-day is no reason code; .*over-budget/);
    expect((await gate(["explain", "over-budgte"])).errors).toContain("the nearest are: over-budget");
    const path = await gate(["explain", "./over-budget"]);
    expect([path.errors, path.out]).toEqual(["", expect.stringContaining("asks for")]);
  });

  test("without a configuration it says what a word may have been meant as, and no more than that", async () => {
    await rm(join(folder, ".github/gpu-gate.yml"));
    const near = await gate(["explain", "buyng-paused"]);
    expect([near.code, near.errors.trim().split("\n")]).toEqual([1, [expect.stringContaining("buying-paused")]]);
    const number = await gate(["explain", "5"]);
    expect([number.code, number.errors]).toEqual([
      1,
      expect.stringContaining("if pull request 5 is meant, write '#5'."),
    ]);
  });

  test("says for each path which entry decides", async () => {
    const { code, out } = await gate(["explain", "docs/a.md", "scripts/ci/gpu.sh", "src/x.rs"]);
    expect(code).toBe(0);
    expect(out).toBe(
      [
        "docs/a.md: docs",
        "  paths.docs has the folder `docs/`",
        "  alone it is docs-only and asks for: docs",
        "",
        "scripts/ci/gpu.sh: ci",
        "  paths.ci has the folder `scripts/ci/`",
        "  steers the lane gpu (`scripts/ci/gpu.sh`)",
        "  alone it is ci-only and asks for: gpu",
        "",
        "src/x.rs: code",
        "  no entry of paths.docs or paths.ci matches, so it is code",
        "  alone it is code and asks for: gpu, rust, docs",
        "",
      ].join("\n"),
    );
  });

  test("without a path is a wrong call", async () => {
    expect((await gate(["explain"])).code).toBe(2);
  });
});

describe("gpu-gate config", () => {
  test("check prints the effective configuration and its hash", async () => {
    const { code, out } = await gate(["config", "check"]);
    expect(code).toBe(0);
    expect(out).toMatch(/^# .github\/gpu-gate.yml with all defaults filled in\n# hash [0-9a-f]{64}\nversion: 1\n/);
    expect(out).toContain("queue_wait: 21600");
  });

  test("check tells beside its output what is valid and may still surprise", async () => {
    const { code, out, errors } = await gate(["config", "check", "--json"]);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toHaveProperty("config.version", 1);
    const notes = errors.trimEnd().split("\n");
    expect(notes.map((line) => line.split(": ").slice(0, 2).join(": "))).toEqual(["note: gpu.nvrtc"]);
    expect(errors).toContain("runs no kernel before it registers");
  });

  test("what check prints is itself a configuration with the same hash", async () => {
    const first = await gate(["config", "check"]);
    await write("effective.yml", first.out);
    const second = await gate(["config", "check", "effective.yml"]);
    const hash = (text: string): string | undefined => /# hash (\S+)/.exec(text)?.[1];
    expect(second.code).toBe(0);
    expect(hash(second.out)).toBe(hash(first.out));
  });

  test("check names every problem with its place and fails", async () => {
    await write("bad.yml", "version: 1\nstart: soon\nshadow: 3\n");
    const ran = await gate(["config", "check", "bad.yml"]);
    expect(ran).toMatchObject({ code: 1, out: "" });
    expect(ran.errors).toMatch(/^bad\.yml:2:8: start: .*\nbad\.yml:3:9: shadow: .*\ngpu-gate config: 2 problems\.\n$/);
  });

  test("schema prints a JSON Schema, reference a table", async () => {
    expect(JSON.parse((await gate(["config", "schema"])).out)).toMatchObject({ type: "object", required: ["version"] });
    expect((await gate(["config", "reference"])).out).toContain("| `budget.per_run` | number, 0 to 100 | `3` |");
  });

  test("another word is a wrong call", async () => {
    expect((await gate(["config", "chekc"])).code).toBe(2);
  });
});
