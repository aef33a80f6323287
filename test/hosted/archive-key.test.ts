import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { configFrom } from "../../shared/config/load.ts";
import { CONFIG_PATH } from "../../shared/config/schema.ts";
import { archiveKey, entriesFromLsTree, entriesFromTreeApi, type TreeEntry } from "../../shared/hosted/archive-key.ts";
import { fill, temporaryFolder } from "./folder.ts";
import { gpuGate } from "./io.ts";

const CONFIG = "version: 1\narchive_key:\n  include: ['**']\n  exclude: ['docs/**', '**/*.md']\n";
const config = configFrom({ archive_key: { include: ["**"], exclude: ["docs/**", "**/*.md"] } });

function git(folder: string, ...args: readonly string[]): string {
  const identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
  return execFileSync("git", ["-C", folder, ...identity, ...args], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
}

function commitAll(folder: string): void {
  git(folder, "add", "-A");
  git(folder, "commit", "-q", "--allow-empty", "-m", "state");
}

/** A repository with every kind of entry and with names that quoting or sorting could get wrong. */
function repository(): string {
  const folder = fill(temporaryFolder(), {
    [CONFIG_PATH]: CONFIG,
    [config.workflows.prepare]: "prepare",
    [config.workflows.execute]: "execute",
    "Cargo.toml": "[package]",
    "src/lib.rs": "pub fn f() {}",
    "src/ü ñ.rs": "accents",
    "src/\u{10FFFF}.rs": "beyond the sixteen bits",
    "src/\uFF5E.rs": "just below them",
    'src/a\nb\t"c".rs': "a line break in a name",
    "tests/run.sh": "#!/bin/sh",
    "docs/index.md": "# docs",
  });
  // Without the folder git would take the submodule for deleted.
  mkdirSync(join(folder, "vendor/sub"), { recursive: true });
  chmodSync(join(folder, "tests/run.sh"), 0o755);
  symlinkSync("../src", join(folder, "tests/src"));
  git(folder, "init", "-q", "-b", "main");
  git(folder, "add", "-A");
  git(folder, "update-index", "--add", "--cacheinfo", `160000,${"1".repeat(40)},vendor/sub`);
  git(folder, "commit", "-q", "-m", "first");
  return folder;
}

/** What GitHub answers for the tree, made from git's own listing with folders included. */
function treeApi(folder: string): unknown {
  const records = git(folder, "ls-tree", "-r", "-t", "-z", "-l", "HEAD").split("\u0000").slice(0, -1);
  const tree = records.map((record) => {
    const [facts, path] = [record.slice(0, record.indexOf("\t")), record.slice(record.indexOf("\t") + 1)];
    const [mode, type, sha, size] = facts.split(/ +/);
    return {
      path,
      mode,
      type,
      sha,
      ...(size === "-" ? {} : { size: Number(size) }),
      url: `https://api.example/${sha}`,
    };
  });
  return { sha: git(folder, "rev-parse", "HEAD^{tree}").trim(), url: "https://api.example/t", tree, truncated: false };
}

async function keyFromApi(folder: string): Promise<string> {
  const entries = entriesFromTreeApi(JSON.parse(JSON.stringify(treeApi(folder))));
  if (!entries.ok) throw new Error(entries.error.reason);
  const key = await archiveKey({ config, tested: entries.value.toReversed(), trusted: entries.value });
  if (!key.ok) throw new Error(key.error.reason);
  return key.value.key;
}

async function keyFromCheckout(folder: string, ...more: readonly string[]): Promise<string> {
  const answer = await gpuGate(["archive-key", "--checkout", folder, ...more]);
  expect(answer).toMatchObject({ code: 0, err: "" });
  return answer.out.trimEnd();
}

test("the control plane's key and the checkout's key are the same bytes", async () => {
  const folder = repository();
  const key = await keyFromCheckout(folder);
  expect(key).toMatch(/^v1-ubuntu24\.04-[0-9a-f]{64}$/);
  expect(await keyFromApi(folder)).toBe(key);
});

describe("the key stays", () => {
  test.each<[string, (folder: string) => unknown]>([
    ["on another branch and commit", (folder) => git(folder, "checkout", "-q", "-b", "other")],
    ["when an excluded file changes", (folder) => fill(folder, { "docs/index.md": "# other", "src/NOTES.md": "new" })],
    ["when a file of the folder is changed but not committed", () => {}],
  ])("%s", async (_what, change) => {
    const folder = repository();
    const before = await keyFromCheckout(folder);
    change(folder);
    commitAll(folder);
    fill(folder, { "src/lib.rs": "not committed" });
    expect(await keyFromCheckout(folder)).toBe(before);
    expect(await keyFromApi(folder)).toBe(before);
  });
});

describe("the key changes", () => {
  test.each<[string, (folder: string) => unknown]>([
    ["when content changes", (folder) => fill(folder, { "src/lib.rs": "pub fn g() {}" })],
    ["when a file becomes a program", (folder) => chmodSync(join(folder, "src/lib.rs"), 0o755)],
    ["when a file is renamed", (folder) => renameSync(join(folder, "Cargo.toml"), join(folder, "cargo.toml"))],
    [
      "when a link points elsewhere",
      (folder) => rmSync(join(folder, "tests/src")) ?? symlinkSync("..", join(folder, "tests/src")),
    ],
    ["when the prepare workflow changes", (folder) => fill(folder, { [config.workflows.prepare]: "other" })],
    [
      "when a submodule moves",
      (folder) => void git(folder, "update-index", "--cacheinfo", `160000,${"2".repeat(40)},vendor/sub`),
    ],
  ])("%s", async (_what, change) => {
    const folder = repository();
    const before = await keyFromCheckout(folder);
    change(folder);
    git(folder, "add", "--", "src", "tests", ".github", ":(glob)[cC]argo.toml");
    git(folder, "commit", "-q", "-m", "change");
    const after = await keyFromCheckout(folder);
    expect(after).not.toBe(before);
    expect(await keyFromApi(folder)).toBe(after);
  });

  test("when the GPU settings change, and only by their meaning", async () => {
    const folder = repository();
    const entries = entriesFromTreeApi(treeApi(folder));
    if (!entries.ok) throw new Error(entries.error.reason);
    const keyWith = async (gpu: Parameters<typeof configFrom>[0]) => {
      const key = await archiveKey({ config: configFrom({ ...gpu }), tested: entries.value, trusted: entries.value });
      return key.ok ? key.value.key : key.error;
    };
    const before = await keyWith({});
    expect(await keyWith({ gpu: { min_vram_gb: 8 } })).toBe(before);
    expect(await keyWith({ gpu: { min_vram_gb: 16 } })).not.toBe(before);
    expect(await keyWith({ budget: { per_run: 1 } })).toBe(before);
  });

  test("when only the default branch's workflow changes, the tested tree staying as it is", async () => {
    const tested = repository();
    const trusted = repository();
    const before = await keyFromCheckout(tested, "--trusted", trusted);
    fill(trusted, { [config.workflows.execute]: "changed on main", "src/lib.rs": "changed on main too" });
    commitAll(trusted);
    const after = await keyFromCheckout(tested, "--trusted", trusted);
    expect(after).not.toBe(before);
    // The tested tree's own copy of the workflow is content like any other; the trusted one counts besides.
    expect(await keyFromCheckout(tested)).toBe(before);
  });
});

describe("patterns", () => {
  const entry = (path: string): TreeEntry => ({ path, mode: "100644", sha: "a".repeat(40) });
  const paths = ["Cargo.toml", "a/Cargo.toml", "a/b/Cargo.toml", "src/lib.rs", "src/x/y.rs", "src.rs", "a+b/c.rs"];

  test.each([
    [["Cargo.toml"], [], ["Cargo.toml"]],
    [["**/Cargo.toml"], [], ["Cargo.toml", "a/Cargo.toml", "a/b/Cargo.toml"]],
    [["*/Cargo.toml"], [], ["a/Cargo.toml"]],
    [["src/**"], [], ["src/lib.rs", "src/x/y.rs"]],
    [["**/*.rs"], ["src/x/**"], ["a+b/c.rs", "src.rs", "src/lib.rs"]],
    [["a+b/*"], [], ["a+b/c.rs"]],
    [["src*"], [], ["src.rs"]],
    [["src/**/*.rs"], [], ["src/lib.rs", "src/x/y.rs"]],
  ])("%j without %j", async (include, exclude, expected) => {
    const key = await archiveKey({
      config: configFrom({ archive_key: { include, exclude } }),
      tested: paths.map(entry),
      trusted: [entry(config.workflows.prepare), entry(config.workflows.execute)],
    });
    const selected = key.ok ? [...key.value.text.matchAll(/^tree .* "(.*)"$/gm)].map(([, path]) => path) : [];
    expect(selected.map(String).sort()).toEqual(expected.toSorted((a, b) => (a < b ? -1 : 1)));
  });
});

describe("trees without a key", () => {
  const good = { path: "a", mode: "100644", type: "blob", sha: "a".repeat(40) };

  test.each([
    ["a truncated answer", { truncated: true, tree: [good] }, "truncated-tree"],
    ["an answer that does not say whether it is whole", { tree: [good] }, "unreadable-tree"],
    ["an error instead of a tree", { message: "Not Found" }, "unreadable-tree"],
    ["an unknown mode", { truncated: false, tree: [{ ...good, mode: "100666" }] }, "unreadable-tree"],
    ["a short id", { truncated: false, tree: [{ ...good, sha: "abc" }] }, "unreadable-tree"],
    ["a path twice", { truncated: false, tree: [good, good] }, "unreadable-tree"],
  ])("%s", (_what, answer, reason) => {
    expect(entriesFromTreeApi(answer)).toMatchObject({ ok: false, error: { reason } });
  });

  test("a listing that was cut off, or that is not recursive", () => {
    const bytes = (text: string) => new TextEncoder().encode(text);
    const sha = "a".repeat(40);
    expect(entriesFromLsTree(bytes(`100644 blob ${sha}\ta\u0000100644 bl`)).ok).toBe(false);
    expect(entriesFromLsTree(bytes(`040000 tree ${sha}\tsrc\u0000`)).ok).toBe(false);
    expect(entriesFromLsTree(bytes(`100644 blob ${sha}\ta\u0000`)).ok).toBe(true);
  });

  test("a name that is not UTF-8 is refused, unless it is excluded", async () => {
    const bytes = [...new TextEncoder().encode(`100644 blob ${"a".repeat(40)}\tsrc/`), 0xff, 0];
    const entries = entriesFromLsTree(new Uint8Array(bytes));
    if (!entries.ok) throw new Error(entries.error.reason);
    const workflows = [config.workflows.prepare, config.workflows.execute].map((path) => ({
      path,
      mode: "100644",
      sha: "b".repeat(40),
    }));
    const key = await archiveKey({ config, tested: entries.value, trusted: workflows });
    expect(key).toMatchObject({ ok: false, error: { reason: "unreadable-path" } });
  });

  test.each([
    ["a default branch without the workflows", { [CONFIG_PATH]: CONFIG, "src/a": "x" }, 1, "has no .github/workflows/"],
    ["no configuration", { "src/a": "x" }, 1, CONFIG_PATH],
    ["a wrong configuration", { [CONFIG_PATH]: "version: 1\nbudgets: 3\n" }, 1, `${CONFIG_PATH}:2:1`],
    ["a selection of nothing", { [CONFIG_PATH]: "version: 1\narchive_key: {include: ['lib/**']}\n" }, 1, "no file"],
  ])("%s is one clear sentence", async (_what, files, code, hint) => {
    const folder = fill(temporaryFolder(), files);
    git(folder, "init", "-q");
    commitAll(folder);
    const answer = await gpuGate(["archive-key", "--checkout", folder]);
    expect(answer).toMatchObject({ code, out: "" });
    expect(answer.err).toContain(hint);
  });

  test.each([["--upload-pack=x"], ["nothing-of-that-name"], ["HEAD:src"]])(
    "the revision %s is refused",
    async (revision) => {
      const answer = await gpuGate(["archive-key", "--checkout", repository(), `--revision=${revision}`]);
      expect(answer.code).toBe(2);
      expect(answer.err).not.toContain("    at ");
    },
  );
});
