/**
 * From the text of `.github/gpu-gate.yml` to the effective configuration, or to a list of problems a person can fix.
 *
 * Never guesses: a file that does not parse, an unknown key, a value out of bounds or two keys that contradict each
 * other give problems, each with line, column, the key's path, what is wrong and what to write instead. Pure: takes
 * text, gives a value; no clock, no network, no file.
 */
import { LineCounter, parseDocument, isMap, isScalar, type Document, type Node, type Pair, type YAMLError } from "yaml";
import type * as z from "zod";
import { err, ok, type Result } from "../result.ts";
import { crossChecks, type Finding } from "./checks.ts";
import { explainIssue } from "./issues.ts";
import { repeatedKeys } from "./yaml-keys.ts";
import { yamlWords } from "./yaml-words.ts";
import { repositoryConfigSchema, type RepositoryConfig, type RepositoryConfigInput } from "./schema.ts";

export interface ConfigProblem {
  /** Both start at 1, as editors count. */
  readonly line: number;
  readonly column: number;
  /** The key, such as `gpu.tiers[0].gpu_ids[2]`; empty for the file as a whole. */
  readonly path: string;
  readonly message: string;
  readonly fix: string;
}

/** Larger than any real configuration; keeps a hostile file from costing time. */
export const CONFIG_MAX_CHARS = 262_144;
const MAX_PROBLEMS = 50;
/** So many are worded and found in the file; wording thirty thousand unknown keys took most of a minute. */
const MAX_LOOKED_AT = 200;
/** Enough for sharing a list between keys; stops alias bombs. */
const MAX_ALIASES = 50;

/** The last texts that were read, and what they said: every authorisation reads the file, which hardly ever changes. */
const read = new Map<string, Result<RepositoryConfig, ConfigProblem[]>>();
const READ_KEPT = 16;
/** A longer text is no ordinary configuration, and is not kept in memory. */
const KEPT_CHARS = 16_384;

/** Parses and checks a configuration file's text. Problems come in the order of the file. What is given is not to be changed. */
export function parseRepositoryConfig(text: string): Result<RepositoryConfig, ConfigProblem[]> {
  const known = read.get(text);
  if (known !== undefined) return known;
  const parsed = parseText(text);
  if (text.length > KEPT_CHARS) return parsed;
  if (read.size >= READ_KEPT) read.clear();
  read.set(text, parsed);
  return parsed;
}

function parseText(text: string): Result<RepositoryConfig, ConfigProblem[]> {
  if (text.length > CONFIG_MAX_CHARS) {
    return err([whole(`the file has ${text.length} characters`, `Keep it below ${CONFIG_MAX_CHARS}.`)]);
  }
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    strict: true,
    // The library compares every key with every other; `repeatedKeys` looks at each once.
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: "error",
  });
  const faults = [...document.errors, ...document.warnings];
  if (faults.some((fault) => OUT_OF_STACK.test(fault.message))) return err([TOO_DEEP]);
  // What the library finds behind the first fault is mostly that fault again, in other words or at the end of the file.
  const [fault] = faults.toSorted((left, right) => left.pos[0] - right.pos[0]);
  if (fault !== undefined) return err([yamlProblem(fault, lines)]);
  const repeated = repeatedKeys(document.contents, MAX_PROBLEMS);
  if (repeated.length > 0) return err(repeated.map((offset) => repeatedProblem(offset, lines)));
  let raw: unknown;
  try {
    raw = document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (error) {
    if (OUT_OF_STACK.test(String(error))) return err([TOO_DEEP]);
    return err([
      whole(`its aliases cannot be resolved (${String(error)})`, "Write the values out instead of using `*name`."),
    ]);
  }
  if (raw === null || raw === undefined) {
    return err([whole("the file holds no settings", "Write at least `version: 1`.")]);
  }
  const parsed = repositoryConfigSchema.safeParse(raw, { reportInput: true });
  const findings = parsed.success
    ? crossChecks(parsed.data)
    : firstOfEach(parsed.error.issues.slice(0, MAX_LOOKED_AT)).flatMap((issue) => explainIssue(issue, MAX_LOOKED_AT));
  if (!parsed.success || findings.length > 0) {
    const problems = findings.slice(0, MAX_LOOKED_AT).map((finding) => locate(finding, document, lines));
    problems.sort((left, right) => left.line - right.line || left.column - right.column);
    return err(problems.slice(0, MAX_PROBLEMS));
  }
  return ok(parsed.data);
}

/** One issue for each value: what else is said of one of the wrong type, or of an empty text, follows from the first. */
function firstOfEach(issues: readonly z.core.$ZodIssue[]): z.core.$ZodIssue[] {
  const seen = new Set<string>();
  return issues.filter((issue) => {
    if (issue.code === "unrecognized_keys") return true;
    const place = JSON.stringify(issue.path.map(String));
    const isFirst = !seen.has(place);
    seen.add(place);
    return isFirst;
  });
}

/**
 * A configuration from an object instead of a file: for defaults and for tests. Throws when it is not valid, because
 * then the code that wrote it is wrong.
 */
export function configFrom(input: Partial<RepositoryConfigInput> = {}): RepositoryConfig {
  const config = repositoryConfigSchema.parse({ version: 1, ...input });
  const findings = crossChecks(config);
  if (findings.length > 0)
    throw new Error(findings.map((finding) => `${pathText(finding.path)}: ${finding.message}`).join("; "));
  return config;
}

/** One problem as one line: `file:line:column: path: what is wrong. What to do.` */
export function problemText(problem: ConfigProblem, file: string): string {
  const key = problem.path === "" ? "" : `${problem.path}: `;
  return `${file}:${problem.line}:${problem.column}: ${key}${problem.message}. ${problem.fix}`;
}

function whole(message: string, fix: string): ConfigProblem {
  return { line: 1, column: 1, path: "", message: told(message), fix };
}

/** What the file says is quoted in a problem, and a file can say anything: one line, of a length that a person reads. */
const MAX_TOLD = 300;

function told(text: string): string {
  const line = text.replaceAll(/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]+/gu, " ");
  return line.length > MAX_TOLD ? `${line.slice(0, MAX_TOLD)}…` : line;
}

function yamlProblem(fault: YAMLError, lines: LineCounter): ConfigProblem {
  const { says, fix } = yamlWords(fault);
  return { ...placeOf(fault.pos[0], lines), path: "", message: told(`not readable as YAML: ${says}`), fix };
}

/** How the library says that it ran out of stack: wherever it was then, which is not the same place twice. */
const OUT_OF_STACK = /call stack/i;
const TOO_DEEP = whole("it nests too deeply to be read", "Remove the brackets or the indentation that nobody needs.");

function repeatedProblem(offset: number, lines: LineCounter): ConfigProblem {
  const message = "this key is written twice in the same place";
  return { ...placeOf(offset, lines), path: "", message, fix: "Keep one of the two." };
}

function placeOf(offset: number, lines: LineCounter): { readonly line: number; readonly column: number } {
  const { line, col } = lines.linePos(offset);
  return { line: Math.max(1, line), column: Math.max(1, col) };
}

function locate(finding: Finding, document: Document.Parsed, lines: LineCounter): ConfigProblem {
  return {
    ...placeOf(offsetOf(finding, document), lines),
    path: told(pathText(finding.path)),
    message: told(finding.message),
    fix: told(finding.fix),
  };
}

/** Where to point: at the key for an unknown key, else at the value, else at the nearest parent that is written. */
function offsetOf(finding: Finding, document: Document.Parsed): number {
  for (let length = finding.path.length; length > 0; length -= 1) {
    const path = finding.path.slice(0, length);
    if (finding.at === "key" || length < finding.path.length) {
      const key = keyNode(document, path);
      if (key?.range) return key.range[0];
    }
    const value: unknown = document.getIn(path, true);
    if (isRanged(value)) return value.range[0];
    const key = keyNode(document, path);
    if (key?.range) return key.range[0];
  }
  return document.contents?.range?.[0] ?? 0;
}

function keyNode(document: Document.Parsed, path: readonly PropertyKey[]): Node | null {
  const parent: unknown = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  if (!isMap(parent)) return null;
  const pair = parent.items.find((item: Pair) => isScalar(item.key) && String(item.key.value) === String(path.at(-1)));
  return isScalar(pair?.key) ? pair.key : null;
}

function isRanged(value: unknown): value is { range: [number, number, number] } {
  return typeof value === "object" && value !== null && Array.isArray((value as { range?: unknown }).range);
}

/** `gpu.tiers[0].name`: dots for keys, brackets for places in a list. */
export function pathText(path: readonly PropertyKey[]): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else text += text === "" ? String(part) : `.${String(part)}`;
  }
  return text;
}
