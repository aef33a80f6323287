/**
 * The change policy: from the complete list of changed files to one class, one flag per lane and the reasons.
 *
 * Pure. The gate, hosted jobs and a maintainer's terminal all call this function, so they agree byte for byte. It fails
 * towards running: what is unknown, unreadable, incomplete or special is code, and code asks for every lane. More
 * changed files never turn a lane off.
 */
import { unreachable } from "../result.ts";
import type { ChangedFile, ListProblem, SpecialEntry } from "./changes.ts";
import { buildPolicyIndex, type PathVerdict, type PolicyIndex, type PolicySource } from "./path-index.ts";
import { isPrintableByGit, sortedUnique } from "./paths.ts";

export type ChangeClass = "code" | "docs-only" | "ci-only";

/** Name of the lane that costs money; it exists in every configuration. */
export const GPU_LANE = "gpu";

export type ReasonRule =
  | "push"
  | "list-problem"
  | "empty-diff"
  | "special-entry"
  | "impossible-path"
  | "unknown-path"
  | "docs"
  | "ci"
  | "lane-control";

/** Why: a rule, and the paths that decided it, as many as fit. */
export interface ChangeReason {
  readonly rule: ReasonRule;
  /** The lane that `lane-control` asked for; null for the rules about the class. */
  readonly lane: string | null;
  readonly text: string;
  /** Deciding paths in code point order, at most `REASON_PATHS`, none shortened. */
  readonly paths: readonly string[];
  /** How many more paths decided the same. */
  readonly more: number;
}

export interface Classification {
  readonly classification: ChangeClass;
  /** Every configured lane, in the order of the configuration; `gpu` among them. */
  readonly lanes: Readonly<Record<string, boolean>>;
  /** The lane that costs money. */
  readonly gpu: boolean;
  /** The first one decided the class. */
  readonly reasons: readonly [ChangeReason, ...ChangeReason[]];
}

export interface Change {
  /**
   * GitHub's event name. Only `push` is special: the full matrix, without a second paid run, because the pull request's
   * gate has tested the change already.
   */
  readonly event: string;
  readonly files: readonly ChangedFile[];
  /** What is wrong with the list; null when it is known to be complete. */
  readonly problem: ListProblem | null;
}

/** Bounds that keep a reason readable in a check and an output. */
export const REASON_PATHS = 10;
export const REASON_PATH_CHARS = 200;

export interface ChangePolicy {
  readonly classify: (change: Change) => Classification;
  readonly index: PolicyIndex;
}

/** Prepares the policy of one configuration; classifying many changes then costs nothing but the changes. */
export function changePolicy(config: PolicySource): ChangePolicy {
  const index = buildPolicyIndex(config);
  return { index, classify: (change) => classifyWith(index, change) };
}

/** One change under one configuration. */
export function classify(config: PolicySource, change: Change): Classification {
  return changePolicy(config).classify(change);
}

function classifyWith(index: PolicyIndex, change: Change): Classification {
  if (change.event === "push") {
    return full(index, false, reason("push", "a push runs the full matrix without a paid GPU", []));
  }
  if (change.problem !== null) return full(index, true, reason("list-problem", problemText(change.problem), []));
  const names = sortedUnique(
    change.files.flatMap((file) => (file.previousPath === null ? [file.path] : [file.path, file.previousPath])),
  );
  if (names.length === 0) return full(index, true, reason("empty-diff", "no changed file was listed", []));
  const special = specialReason(change.files);
  if (special !== null) return full(index, true, special);
  const judged = names.map((path) => ({ path, verdict: index.look(path) }));
  const impossible = names.filter((path) => !isPrintableByGit(path));
  if (impossible.length > 0) {
    return full(index, true, reason("impossible-path", "paths that git never prints", impossible));
  }
  const unknown = judged.filter(({ verdict }) => verdict.docs === null && verdict.ci === null);
  if (unknown.length > 0) {
    return full(index, true, reason("unknown-path", "code or unknown paths", unknown.map(pathOf)));
  }
  return light(index, judged);
}

interface JudgedPath {
  readonly path: string;
  readonly verdict: PathVerdict;
}

const pathOf = ({ path }: JudgedPath): string => path;

/** Everything that asks for everything. */
function full(index: PolicyIndex, gpu: boolean, why: ChangeReason): Classification {
  const lanes = Object.fromEntries(index.laneNames.map((name) => [name, name === GPU_LANE ? gpu : true]));
  return { classification: "code", lanes, gpu, reasons: [why] };
}

/** Only documentation and CI files: each lane is asked for by its class or by a path that steers it. */
function light(index: PolicyIndex, judged: readonly JudgedPath[]): Classification {
  const docs = judged.filter(({ verdict }) => verdict.docs !== null);
  const ci = judged.filter(({ verdict }) => verdict.ci !== null);
  const asked = new Set<string>();
  if (docs.length > 0) index.askedBy.docs.forEach((lane) => asked.add(lane));
  if (ci.length > 0) index.askedBy.ci.forEach((lane) => asked.add(lane));
  const steering = new Map<string, string[]>();
  for (const { path, verdict } of judged) {
    for (const { lane } of verdict.control) {
      asked.add(lane);
      const paths = steering.get(lane) ?? [];
      if (paths.at(-1) !== path) paths.push(path);
      steering.set(lane, paths);
    }
  }
  const ciOnly = ci.length > 0;
  const first = ciOnly
    ? reason("ci", "known CI files", ci.map(pathOf))
    : reason("docs", "documentation", docs.map(pathOf));
  const rest = ciOnly && docs.length > 0 ? [reason("docs", "documentation", docs.map(pathOf))] : [];
  const controls = index.laneNames.flatMap((lane) => {
    const paths = steering.get(lane);
    return paths === undefined ? [] : [reason("lane-control", `paths that steer the lane ${lane}`, paths, lane)];
  });
  const lanes = Object.fromEntries(index.laneNames.map((name) => [name, asked.has(name)]));
  return {
    classification: ciOnly ? "ci-only" : "docs-only",
    lanes,
    gpu: asked.has(GPU_LANE),
    reasons: [first, ...rest, ...controls],
  };
}

function specialReason(files: readonly ChangedFile[]): ChangeReason | null {
  const first = files.find((file) => file.special !== null);
  if (first === undefined || first.special === null) return null;
  const paths = sortedUnique(files.filter((file) => file.special !== null).map((file) => file.path));
  return reason("special-entry", specialText(first.special), paths);
}

function specialText(special: SpecialEntry): string {
  switch (special) {
    case "submodule":
      return "a submodule changed";
    case "symlink":
      return "a symbolic link changed";
    case "mode-only":
      return "a file's mode changed";
    case "no-visible-change":
      return "a file changed without a visible change of content";
    case "unknown-status":
      return "a file changed in a way this policy does not know";
    default:
      return unreachable(special, "special entry");
  }
}

function problemText(problem: ListProblem): string {
  switch (problem.kind) {
    case "count-mismatch":
      return `the list of changed files is incomplete: ${problem.received} of ${problem.declared}`;
    case "list-cap":
      return `the list of changed files may be cut off at ${problem.declared} files`;
    case "unreadable":
      return `the list of changed files could not be read: ${problem.detail}`;
    default:
      return unreachable(problem, "list problem");
  }
}

function reason(rule: ReasonRule, what: string, paths: readonly string[], lane: string | null = null): ChangeReason {
  const shown = paths.slice(0, REASON_PATHS);
  const more = paths.length - shown.length;
  const listed = shown.map((path) =>
    path.length > REASON_PATH_CHARS ? `${path.slice(0, REASON_PATH_CHARS)}...` : path,
  );
  const tail = more > 0 ? ` and ${more} more` : "";
  const text = listed.length === 0 ? what : `${what}: ${listed.join(", ")}${tail}`;
  return { rule, lane, text, paths: shown, more };
}
