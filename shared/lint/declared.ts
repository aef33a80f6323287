/** The repository's configuration as the linter meets it: what it says, and where each key stands. */
import { parseRepositoryConfig, type ConfigProblem } from "../config/load.ts";
import type { RepositoryConfig } from "../config/schema.ts";
import { err, ok, type Result } from "../result.ts";
import { DEFAULT_LINT_CONFIG, type LintConfig, type Place, type Report } from "./rule.ts";
import { entry, get, itemsOf, parseYaml, textOf, type YamlNode } from "./yaml.ts";

export type Declared =
  /** Files are judged without a repository around them. */
  | { readonly kind: "unknown" }
  /** There is a repository, and this file is not in it. */
  | { readonly kind: "missing"; readonly path: string }
  | { readonly kind: "read"; readonly path: string; readonly root: YamlNode; readonly config: RepositoryConfig };

export type DeclaredConfig = Extract<Declared, { kind: "read" }>;

/** GitHub Actions' own App: a check that this App must make is a workflow's. */
const ACTIONS_APP = "15368";

/** Reads `.github/gpu-gate.yml` for the linter. `path` is how findings name the file. */
export function readDeclared(text: string, path: string): Result<DeclaredConfig, readonly ConfigProblem[]> {
  const parsed = parseRepositoryConfig(text);
  if (!parsed.ok) return parsed;
  const tree = parseYaml(text);
  if (!tree.ok) {
    const { line, column } = tree.error.at;
    return err([{ line, column, path: "", message: tree.error.message, fix: "Correct the YAML." }]);
  }
  return ok({ kind: "read", path, root: tree.value, config: parsed.value });
}

/** What the rules need of the effective configuration. */
export function lintConfigFrom(
  config: RepositoryConfig,
  defaultBranch: string,
  declared: Declared = { kind: "unknown" },
): LintConfig {
  const lanes = Object.entries(config.lanes).flatMap(([name, lane]) =>
    lane.own === null
      ? []
      : [{ name, runsOn: lane.own.runs_on, checks: lane.checks, switch: lane.own.switch, probe: lane.own.probe }],
  );
  const strict = config.required_checks.filter((check) => check.report !== "may-skip").map((check) => check.name);
  return {
    ...DEFAULT_LINT_CONFIG,
    // What the gate waits for must report as well: a pre-gate check that is never published is waited for until the limit.
    requiredChecks: [...new Set([...strict, ...config.pre_gate])],
    gateCheck: config.check.name,
    aggregateCheck: config.aggregator.name,
    defaultBranch,
    lanes,
    declared,
  };
}

/** Where a key is written, or the item of the list there that is, or is named, `value`; the nearest key above it where it is a default. */
export function placeIn(declared: DeclaredConfig, path: readonly string[], value?: string): Place {
  let node: YamlNode | undefined = declared.root;
  let place: Place = { file: declared.path, line: declared.root.at.line, column: declared.root.at.column };
  for (const key of path) {
    const found = entry(node, key);
    if (found === undefined) return place;
    place = { file: declared.path, line: found.at.line, column: found.at.column };
    node = found.value;
  }
  const item = itemsOf(node).find((one) => value !== undefined && textOf(get(one, "name") ?? one) === value);
  return item === undefined ? place : { file: declared.path, line: item.at.line, column: item.at.column };
}

/** Several things may be wrong with one key, a default above all: they are said together, because a rule speaks once a place. */
export function together(found: Report, judge: (found: Report) => void): void {
  const places = new Map<string, { readonly place: Place; readonly messages: string[] }>();
  judge((place, message) => {
    const key = `${place.line}:${place.column}`;
    const known = places.get(key);
    if (known === undefined) places.set(key, { place, messages: [message] });
    else known.messages.push(message);
  });
  for (const { place, messages } of places.values()) found(place, messages.join(" "));
}

/** Is the key written in the file, rather than a default? */
export function isWritten(declared: DeclaredConfig, path: readonly string[]): boolean {
  let node: YamlNode | undefined = declared.root;
  for (const key of path) {
    const found = entry(node, key);
    if (found === undefined) return false;
    node = found.value;
  }
  return true;
}

/** Does the configuration say that something else than a workflow publishes this check? */
export function isForeign(config: RepositoryConfig, name: string): boolean {
  if (name === config.check.name || name === config.aggregator.name) return true;
  return config.required_checks.some(
    (check) => check.name === name && check.app_id !== null && check.app_id !== ACTIONS_APP,
  );
}
