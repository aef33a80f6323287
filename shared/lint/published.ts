/**
 * The check names that jobs publish: the job's `name`, its id where it has none, one for each combination of a matrix, and
 * `caller / called` for a job that calls a workflow.
 *
 * What an expression comes to is known for literals and for the values of a literal matrix. For any other expression a name
 * stays open between its literal parts. A name without one literal character fits every check and therefore stands for none:
 * the rules assume the dangerous answer.
 */
import type { Job, Repository, WorkflowFile } from "./workflow.ts";
import { entry, get, itemsOf, textOf, type YamlNode } from "./yaml.ts";

export interface PublishedName {
  /** As it is shown to people: open parts as `…`. */
  readonly text: string;
  readonly fits: (name: string) => boolean;
  /** The job whose steps run under this name; undefined for a called workflow that is not here. */
  readonly job: Job | undefined;
}

/** A text with open parts: literals, and null for each part that nobody can tell. */
type Parts = readonly (string | null)[];

/** GitHub makes no more jobs of one matrix. */
const MAX_COMBINATIONS = 256;
/** Names of one file; more than that nobody waits for by name. */
const MAX_NAMES = 4096;

/** Every name that the jobs of a file can publish when that file is what was started. */
export function publishedBy(repository: Repository, file: WorkflowFile): readonly PublishedName[] {
  return namesOf(repository, file, new Map()).map(({ parts, job }) => ({
    text: parts.map((part) => part ?? "…").join(""),
    fits: matcher(parts),
    job,
  }));
}

/** Does a text that may hold expressions, such as a step's name, fit what GitHub would show? */
export function fitsTemplate(template: string, name: string): boolean {
  return matcher(evaluate(template, new Map()))(name);
}

/** The file of this repository path among the files that are judged. */
export function fileOf(repository: Repository, path: string): WorkflowFile | undefined {
  return repository.files.find((file) => file.path === path || file.path.endsWith(`/${path}`));
}

interface Named {
  readonly parts: Parts;
  readonly job: Job | undefined;
}

/** `known` holds each file that was met: its names, or nothing while they are being made, for a file that calls itself. */
function namesOf(
  repository: Repository,
  file: WorkflowFile,
  known: Map<WorkflowFile, readonly Named[]>,
): readonly Named[] {
  const before = known.get(file);
  if (before !== undefined) return before;
  known.set(file, []);
  const names: Named[] = [];
  for (const job of file.jobs) {
    for (const own of jobNames(job)) {
      if (names.length > MAX_NAMES) break;
      if (job.uses === undefined) names.push({ parts: own, job });
      else
        for (const one of calledNames(repository, job.uses.text, known))
          names.push({ parts: [...own, " / ", ...one.parts], job: one.job });
    }
  }
  known.set(file, names);
  return names;
}

function calledNames(
  repository: Repository,
  uses: string,
  known: Map<WorkflowFile, readonly Named[]>,
): readonly Named[] {
  const path = /^\.\/(\.github\/workflows\/.+)$/.exec(uses)?.[1];
  const callee = path === undefined ? undefined : fileOf(repository, path);
  return callee === undefined ? [{ parts: [null], job: undefined }] : namesOf(repository, callee, known);
}

function jobNames(job: Job): readonly Parts[] {
  const written = textOf(get(job.node, "name"));
  const matrix = get(job.node, "strategy", "matrix");
  if (matrix === undefined) return [written === undefined ? [job.id] : evaluate(written, new Map())];
  const combinations = combinationsOf(matrix);
  if (combinations === null) {
    return written === undefined
      ? [[`${job.id} (`, null, ")"]]
      : [evaluate(written, new Map()), [written, " (", null, ")"]];
  }
  return combinations.flatMap((values): readonly Parts[] => {
    const listed: Parts = [
      " (",
      ...[...values.values()].flatMap((value, index) => [index === 0 ? "" : ", ", literalOf(value)]),
      ")",
    ];
    if (written === undefined) return [[job.id, ...listed]];
    const named = evaluate(written, values);
    // GitHub tells the combinations apart by their values where the name does not.
    return /\bmatrix\b/.test(written) ? [named] : [named, [...named, ...listed]];
  });
}

function evaluate(template: string, matrix: ReadonlyMap<string, YamlNode>): Parts {
  const parts: (string | null)[] = [];
  let end = 0;
  for (const match of template.matchAll(/\$\{\{((?:'(?:[^']|'')*'|[^'])*?)\}\}/gs)) {
    parts.push(template.slice(end, match.index), valueOf((match[1] ?? "").trim(), matrix));
    end = match.index + match[0].length;
  }
  return [...parts, template.slice(end)];
}

function valueOf(expression: string, matrix: ReadonlyMap<string, YamlNode>): string | null {
  const literal = /^'((?:[^']|'')*)'$/.exec(expression)?.[1];
  if (literal !== undefined) return literal.replaceAll("''", "'");
  const path = /^matrix((?:\.[\w-]+|\['[^']*'\])+)$/.exec(expression)?.[1];
  if (path === undefined) return null;
  const keys = [...path.matchAll(/\.([\w-]+)|\['([^']*)'\]/g)].map((match) => match[1] ?? match[2] ?? "");
  const [first, ...rest] = keys;
  const value = get(first === undefined ? undefined : matrix.get(first), ...rest);
  return literalOf(value);
}

function literalOf(value: YamlNode | undefined): string | null {
  const text = textOf(value);
  return text === undefined || text.includes("${{") ? null : text;
}

/** The combinations as GitHub makes them; null where they are not written out. */
function combinationsOf(matrix: YamlNode): readonly ReadonlyMap<string, YamlNode>[] | null {
  if (matrix.kind !== "map") return null;
  const axes = matrix.entries.filter(({ key }) => key !== "include" && key !== "exclude");
  const lists = [...axes.map((axis) => axis.value), ...["include", "exclude"].flatMap((key) => get(matrix, key) ?? [])];
  if (lists.some((list) => list.kind !== "list")) return null;
  let combinations: Map<string, YamlNode>[] = axes.length === 0 ? [] : [new Map()];
  for (const axis of axes) {
    const values = itemsOf(axis.value);
    if (combinations.length * values.length > MAX_COMBINATIONS) return null;
    combinations = combinations.flatMap((known) => values.map((value) => new Map([...known, [axis.key, value]])));
  }
  const excluded = itemsOf(get(matrix, "exclude"));
  combinations = combinations.filter((one) => !excluded.some((row) => agrees(row, one)));
  const original = new Set(axes.map((axis) => axis.key));
  const added: Map<string, YamlNode>[] = [];
  for (const row of itemsOf(get(matrix, "include"))) {
    if (row.kind !== "map") return null;
    const fitting = combinations.filter((one) =>
      row.entries.every(({ key, value }) => !original.has(key) || same(one.get(key), value)),
    );
    for (const one of fitting) for (const { key, value } of row.entries) one.set(key, value);
    if (fitting.length === 0) added.push(new Map(row.entries.map(({ key, value }) => [key, value])));
  }
  return [...combinations, ...added];
}

function agrees(row: YamlNode, combination: ReadonlyMap<string, YamlNode>): boolean {
  return row.kind === "map" && row.entries.every(({ key, value }) => same(combination.get(key), value));
}

function same(left: YamlNode | undefined, right: YamlNode): boolean {
  return textOf(left) !== undefined && textOf(left) === textOf(right);
}

/** Literal parts in their order, anything between them: each at its first place, so that no name costs more than a look. */
function matcher(parts: Parts): (name: string) => boolean {
  if (!parts.includes(null)) {
    const whole = parts.join("");
    return (name) => name === whole;
  }
  if (parts.every((part) => part === null || part.trim() === "")) return () => false;
  const literals: string[] = [""];
  for (const part of parts) {
    if (part === null) literals.push("");
    else literals[literals.length - 1] += part;
  }
  const first = literals[0] ?? "";
  const last = literals.at(-1) ?? "";
  const between = literals.slice(1, -1);
  return (name) => {
    if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last)) return false;
    let from = first.length;
    for (const literal of between) {
      const found = name.indexOf(literal, from);
      if (found < 0) return false;
      from = found + literal.length;
    }
    return from <= name.length - last.length;
  };
}

export type Asked = "pull_request" | "merge_group";

/** Can a run of this file put checks on a pull request's head, or on a merge group's commit? */
export function runsFor(file: WorkflowFile, asked: Asked): boolean {
  if (asked === "merge_group" && file.triggers.has("merge_group")) return true;
  if (asked === "pull_request" && (file.triggers.has("pull_request") || file.triggers.has("pull_request_target")))
    return true;
  const push = file.triggers.get("push");
  if (push === undefined) return false;
  const branches = entry(push.value, "branches");
  if (branches === undefined) return entry(push.value, "tags") === undefined;
  return itemsOf(branches.value).some((branch) => {
    const name = textOf(branch) ?? "";
    if (asked === "merge_group") return name === "**" || name.startsWith("gh-readonly-queue/");
    return name.includes("*") && !name.startsWith("!");
  });
}
