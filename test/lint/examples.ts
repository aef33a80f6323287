/**
 * The example files of the linter: their text, the configuration they ask for and what they expect.
 *
 * An example is one workflow file, or a folder that is a whole repository: its `.github/workflows`, its configuration and
 * whatever else lies there. What has no line to mark stands in the folder's `expected.txt`, which is no part of it.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { CONFIG_PATH } from "../../shared/config/schema.ts";
import { lintConfigFrom, readDeclared } from "../../shared/lint/declared.ts";
import type { SourceFile } from "../../shared/lint/lint.ts";
import { DEFAULT_LINT_CONFIG, type LintConfig } from "../../shared/lint/rule.ts";
import type { Tree } from "../../shared/lint/tree.ts";

export interface Example {
  readonly name: string;
  /** The rule the file is about: its name up to the first dot. */
  readonly rule: string;
  readonly sources: readonly SourceFile[];
  readonly config: LintConfig;
  readonly tree: Tree | null;
  /** `path:line rule` for every marker, sorted. */
  readonly expected: readonly string[];
}

const configSchema = z
  .strictObject({
    requiredChecks: z.array(z.string()),
    mergeQueue: z.boolean(),
    defaultBranch: z.string(),
    lanes: z.array(
      z.strictObject({
        name: z.string(),
        runsOn: z.array(z.string()),
        checks: z.array(z.string()),
        switch: z.string().nullable().default(null),
        probe: z.string().nullable().default(null),
      }),
    ),
  })
  .partial();

export function readExamples(folder: "bad" | "good"): readonly Example[] {
  const root = join(import.meta.dirname, folder);
  return readdirSync(root, { withFileTypes: true }).map((item) =>
    item.isDirectory() ? readRepository(root, item.name) : readSingle(root, item.name),
  );
}

function readSingle(root: string, name: string): Example {
  const text = readFileSync(join(root, name), "utf8");
  const written = /^# lint-config: (.*)$/m.exec(text)?.[1];
  const asked = configSchema.parse(JSON.parse(written ?? "{}"));
  const config: LintConfig = {
    ...DEFAULT_LINT_CONFIG,
    requiredChecks: asked.requiredChecks ?? [],
    mergeQueue: asked.mergeQueue ?? false,
    defaultBranch: asked.defaultBranch ?? DEFAULT_LINT_CONFIG.defaultBranch,
    lanes: asked.lanes ?? null,
  };
  const expected = markersIn(name, text).toSorted();
  return { name, rule: ruleOf(name), sources: [{ path: name, text }], config, tree: null, expected };
}

function readRepository(root: string, name: string): Example {
  const folder = join(root, name);
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((item) => item.isFile())
    .map((item) => join(item.parentPath, item.name))
    .map((path) => ({ path: path.slice(folder.length + 1), text: readFileSync(path, "utf8") }));
  const paths = files.map((file) => file.path).filter((path) => path !== "expected.txt");
  const expected = files.flatMap(({ path, text }) =>
    path === "expected.txt" ? text.trim().split("\n") : markersIn(path, text),
  );
  return {
    name,
    rule: ruleOf(name),
    sources: files.filter(({ path }) => path.startsWith(".github/workflows/")),
    config: configOf(files.find((file) => file.path === CONFIG_PATH)?.text),
    tree: { files: new Set(paths), closed: [] },
    expected: expected.toSorted(),
  };
}

/** The configuration of a repository with this file, or without one. */
export function configOf(text: string | undefined, defaultBranch = "main"): LintConfig {
  if (text === undefined)
    return { ...DEFAULT_LINT_CONFIG, defaultBranch, declared: { kind: "missing", path: CONFIG_PATH } };
  const declared = readDeclared(text, CONFIG_PATH);
  if (!declared.ok) throw new Error(JSON.stringify(declared.error));
  return lintConfigFrom(declared.value.config, defaultBranch, declared.value);
}

function ruleOf(name: string): string {
  return name.split(".")[0] ?? "";
}

function markersIn(path: string, text: string): readonly string[] {
  return text.split("\n").flatMap((line, index) => {
    const rules = /[#;] expect: ([a-z, -]+)$/.exec(line)?.[1] ?? "";
    return rules === "" ? [] : rules.split(", ").map((rule) => `${path}:${index + 1} ${rule}`);
  });
}
