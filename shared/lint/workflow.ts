/**
 * The facts about a workflow file that the rules argue with: triggers, effective permissions and cache mode, what kind of
 * machine a job runs on, and whether a job executes code that somebody outside the trusted branch wrote.
 *
 * Where a fact cannot be told from the text (an expression in `runs-on`, a ref that comes from another job), the answer is
 * the dangerous one.
 */
import type { Tree } from "./tree.ts";
import {
  entry,
  expressionsIn,
  get,
  itemsOf,
  scalarsIn,
  textOf,
  type Position,
  type YamlEntry,
  type YamlNode,
  type YamlScalar,
} from "./yaml.ts";

export type Permissions =
  | { readonly kind: "default" }
  | { readonly kind: "all"; readonly level: string; readonly at: Position }
  | { readonly kind: "scopes"; readonly scopes: readonly Scope[]; readonly at: Position };

export interface Scope {
  readonly name: string;
  readonly level: string;
  readonly at: Position;
}

export interface Step {
  readonly at: Position;
  readonly node: YamlNode;
  readonly uses: YamlScalar | undefined;
  readonly run: YamlScalar | undefined;
}

export interface Label {
  readonly text: string;
  readonly at: Position;
  /** True if the text is an expression that could not be resolved. */
  readonly open: boolean;
}

export interface Job {
  readonly file: WorkflowFile;
  readonly id: string;
  readonly at: Position;
  readonly node: YamlNode;
  /** The name GitHub shows and publishes as a check. */
  readonly name: { readonly text: string; readonly at: Position };
  readonly needs: readonly string[];
  readonly condition: string;
  readonly labels: readonly Label[];
  readonly steps: readonly Step[];
  /** The called workflow, for a job without steps. */
  readonly uses: YamlScalar | undefined;
}

export interface WorkflowFile {
  readonly path: string;
  readonly root: YamlNode;
  readonly triggers: ReadonlyMap<string, YamlEntry>;
  readonly jobs: readonly Job[];
}

export interface Repository {
  readonly files: readonly WorkflowFile[];
  /** The repository's tree when ALL its workflow files are among `files`; null when some files are judged by themselves. */
  readonly tree: Tree | null;
}

export function readWorkflow(path: string, root: YamlNode): WorkflowFile {
  const file = { path, root, triggers: triggersOf(root), jobs: [] as Job[] };
  const jobs = get(root, "jobs");
  if (jobs?.kind === "map") for (const item of jobs.entries) file.jobs.push(readJob(file, item));
  return file;
}

export function allJobs(repository: Repository): readonly Job[] {
  return repository.files.flatMap((file) => file.jobs);
}

export function at(job: Job, position: Position): Position & { readonly file: string } {
  return { file: job.file.path, line: position.line, column: position.column };
}

function triggersOf(root: YamlNode): ReadonlyMap<string, YamlEntry> {
  const on = get(root, "on");
  const triggers = new Map<string, YamlEntry>();
  if (on?.kind === "map") for (const item of on.entries) triggers.set(item.key, item);
  else {
    for (const item of itemsOf(on)) {
      const name = textOf(item);
      if (name !== undefined) triggers.set(name, { key: name, at: item.at, value: item });
    }
  }
  return triggers;
}

function readJob(file: WorkflowFile, item: YamlEntry): Job {
  const node = item.value;
  const name = get(node, "name");
  const uses = get(node, "uses");
  const steps = get(node, "steps");
  return {
    file,
    id: item.key,
    at: item.at,
    node,
    name: { text: textOf(name) ?? item.key, at: textOf(name) === undefined ? item.at : (name?.at ?? item.at) },
    needs: itemsOf(get(node, "needs")).flatMap((need) => textOf(need) ?? []),
    condition: conditionOf(node),
    labels: labelsOf(node),
    steps: itemsOf(steps).map((step) => {
      const stepUses = get(step, "uses");
      const run = get(step, "run");
      return {
        at: step.at,
        node: step,
        uses: stepUses?.kind === "scalar" ? stepUses : undefined,
        run: run?.kind === "scalar" ? run : undefined,
      };
    }),
    uses: uses?.kind === "scalar" ? uses : undefined,
  };
}

/**
 * What a job or a step is run by, without the `${{ }}` around the whole of it; empty without an `if`. Where anything else stands
 * beside such a part, be it a line break at the end of a block of text, GitHub puts its value into the text, and a text that is
 * not empty holds always: `${{ a }} && b` runs whatever `a` is.
 */
export function conditionOf(node: YamlNode): string {
  const text = textOf(get(node, "if")) ?? "";
  const whole = /^\$\{\{((?:(?!\}\})[^])*)\}\}$/.exec(text)?.[1];
  if (whole !== undefined) return whole.trim();
  return text.includes("${{") ? "true" : text;
}

/** Every label `runs-on` can name: literals, the branches of a conditional expression, the values of a matrix. */
function labelsOf(job: YamlNode): readonly Label[] {
  const runsOn = get(job, "runs-on");
  const listed = runsOn?.kind === "map" ? itemsOf(get(runsOn, "labels")) : itemsOf(runsOn);
  const labels = listed.flatMap((item): Label[] => {
    if (item.kind !== "scalar") return [];
    if (!item.text.includes("${{")) return [{ text: item.text, at: item.at, open: false }];
    const expression = expressionsIn(item)[0]?.text ?? item.text;
    const branches = [...expression.matchAll(/(?:&&|\|\|)\s*'([^']*)'/g)].map((match) => match[1] ?? "");
    if (branches.length > 0) return branches.map((text) => ({ text, at: item.at, open: false }));
    const key = /^matrix\.([\w-]+)$/.exec(expression)?.[1];
    const values = key === undefined ? [] : matrixValues(job, key);
    if (values.length > 0) return values.map((value) => ({ text: value.text, at: value.at, open: false }));
    return [{ text: item.text, at: item.at, open: true }];
  });
  const group = entry(runsOn, "group");
  return group === undefined ? labels : [...labels, { text: "self-hosted", at: group.at, open: false }];
}

function matrixValues(job: YamlNode, key: string): readonly YamlScalar[] {
  const matrix = get(job, "strategy", "matrix");
  const listed = itemsOf(get(matrix, key));
  const included = itemsOf(get(matrix, "include")).flatMap((row) => get(row, key) ?? []);
  return [...listed, ...included].filter((value): value is YamlScalar => value.kind === "scalar");
}

/** GitHub's own images and, by its naming convention, larger runners: `ubuntu-24.04`, `macos-15`, `ubuntu-gpu`. */
export function isHostedLabel(label: string): boolean {
  return /^(?:ubuntu|macos|windows)-/i.test(label);
}

/** Does the job run on a machine that is not GitHub's: its own label, a runner group, or a label nobody can tell? */
export function isSelfHosted(job: Job): boolean {
  return job.labels.some((label) => label.open || !isHostedLabel(label.text));
}

/** A job for a rented machine: its label comes in as an input, so the control plane proved the machine before it. */
export function isRented(job: Job): boolean {
  const dispatched = [...job.file.triggers.keys()].every(
    (name) => name === "workflow_dispatch" || name === "workflow_call",
  );
  return dispatched && job.labels.some((label) => label.open && /\binputs\./.test(label.text));
}

/** The label set in a form that can be compared: lower case, sorted. GitHub compares labels without case. */
export function labelSet(labels: readonly string[]): string {
  return [...new Set(labels.map((label) => label.toLowerCase()))].sort().join(" ");
}

export function permissionsOf(job: Job): Permissions {
  return (
    readPermissions(entry(job.node, "permissions")) ??
    readPermissions(entry(job.file.root, "permissions")) ?? { kind: "default" }
  );
}

function readPermissions(item: YamlEntry | undefined): Permissions | undefined {
  if (item === undefined) return undefined;
  if (item.value.kind === "map") {
    const scopes = item.value.entries.map((scope) => ({
      name: scope.key,
      level: textOf(scope.value) ?? "",
      at: scope.at,
    }));
    return { kind: "scopes", scopes, at: item.at };
  }
  const level = textOf(item.value);
  return level === undefined ? { kind: "scopes", scopes: [], at: item.at } : { kind: "all", level, at: item.at };
}

/** Write scopes of the job's token; `write-all` counts as one. Default permissions are not listed here. */
export function writeScopes(job: Job): readonly Scope[] {
  const permissions = permissionsOf(job);
  if (permissions.kind === "default") return [];
  if (permissions.kind === "scopes")
    return permissions.scopes.filter((scope) => scope.level !== "read" && scope.level !== "none");
  return permissions.level === "read-all" ? [] : [{ name: permissions.level, level: "write", at: permissions.at }];
}

/** Effective cache mode: the job's own, else the workflow's, else undefined (GitHub's default for the event). */
export function cacheModeOf(job: Job): { readonly mode: string; readonly at: Position } | undefined {
  const item = entry(job.node, "cache-mode") ?? entry(job.file.root, "cache-mode");
  return item === undefined ? undefined : { mode: textOf(item.value) ?? "", at: item.at };
}

/** Places where a secret other than the job's own token is read, within the job or in the workflow's `env`. */
export function secretUses(job: Job): readonly Position[] {
  const places: Position[] = [];
  for (const part of [get(job.file.root, "env"), job.node]) {
    for (const scalar of scalarsIn(part)) {
      for (const expression of expressionsIn(scalar)) {
        const others = expression.text.replace(/\bsecrets\.GITHUB_TOKEN\b/g, "");
        if (/\bsecrets\b/.test(others)) places.push(expression.at);
      }
    }
  }
  return places;
}

export function isCheckout(step: Step): boolean {
  return step.uses?.text.startsWith("actions/checkout@") === true;
}

/** Refs that only people who can push to the trusted branch decide. */
const TRUSTED_REF = /^(?:github\.(?:sha|ref|workflow_sha)|github\.event\.repository\.default_branch)$/;

const DEFAULT_BRANCH = "github.event.repository.default_branch";

const PULL_REQUEST_EVENTS = ["pull_request", "pull_request_target", "merge_group"];

/** Where a job starts to execute code that a pull request, or whoever dispatches it, can choose; undefined if it does not. */
export function untrustedCode(job: Job): Position | undefined {
  for (const step of job.steps) {
    if (isCheckout(step)) {
      const chosen = ["ref", "repository"].flatMap((key) => get(step.node, "with", key) ?? []);
      const open = chosen.some(
        (value) => value.kind === "scalar" && expressionsIn(value).some((one) => !TRUSTED_REF.test(one.text)),
      );
      const pull = chosen.some((value) => /refs\/pull\//.test(textOf(value) ?? ""));
      // Of these expressions only the name of the default branch means the same whatever the event is about.
      const ofThePullRequest = chosen.every(
        (value) =>
          value.kind === "scalar" &&
          expressionsIn(value).length > 0 &&
          !expressionsIn(value).every((one) => one.text === DEFAULT_BRANCH),
      );
      if (open || pull) return step.at;
      if (ofThePullRequest && PULL_REQUEST_EVENTS.some((name) => job.file.triggers.has(name))) return step.at;
    }
    const run = step.run?.text ?? "";
    if (/\bgh\s+pr\s+checkout\b/.test(run) || /\bgit\b[^\n]*\b(?:fetch|pull|checkout)\b[^\n]*refs\/pull\//.test(run))
      return step.at;
  }
  // Whatever a machine of one's own is handed over artifacts and checkouts was written by the tested revision.
  return isSelfHosted(job) && job.uses === undefined ? job.at : undefined;
}

/** Does the workflow run on this branch's code only: pushes to the default branch, schedules, or an explicit test of the ref? */
export function isMainOnly(job: Job, step: Step | undefined, defaultBranch: string): boolean {
  const guards = `${job.condition} ${step === undefined ? "" : conditionOf(step.node)}`;
  const plain = !guards.includes("||") && !guards.includes("!(");
  const asked = [`'refs/heads/${defaultBranch}'`, `format('refs/heads/{0}', ${DEFAULT_BRANCH})`];
  if (plain && asked.some((ref) => guards.includes(`github.ref == ${ref}`))) return true;
  return [...job.file.triggers.values()].every((trigger) => {
    if (trigger.key === "schedule") return true;
    if (trigger.key !== "push") return false;
    const branches = itemsOf(get(trigger.value, "branches")).map(textOf);
    return (
      branches.length > 0 &&
      branches.every((branch) => branch === defaultBranch) &&
      entry(trigger.value, "tags") === undefined
    );
  });
}
