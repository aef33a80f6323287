/** The files of its own tree that a workflow calls are there. */
import type { Report, Rule } from "../rule.ts";
import { hasCalled, hasFile, type Tree } from "../tree.ts";
import { allJobs, at, isCheckout, type Job } from "../workflow.ts";
import { get, positionIn, textOf, type Position, type YamlScalar } from "../yaml.ts";

export const calledFileMissing: Rule = {
  id: "called-file-missing",
  title: "A script or an action that a workflow calls is in the repository",
  explanation:
    "The shipped workflows call scripts that the project provides (`.github/gpu-gate/build.sh`, `test-host.sh`) and files that are copied along (`gpu-gate.mjs`, the probe's action). " +
    "A missing one is noticed by the run that needs it: after the build, or behind the probe. Looked at are paths below `.github/` and scripts with an ending (`.sh`, `.py`, `.mjs` and such) that a step calls " +
    "from a checkout; a path that the same file tests with `[ -f ... ]` may be missing, and one that a step writes or that an expression makes is not judged.",
  example:
    "The prepare workflow was copied and `test-host.sh` was not written. Every pull request built its archives for forty minutes and then failed in the next step.",
  fix: "Add the file (docs/workflows.md says what each must do), or take the call out.",
  check: (repository, _config, found) => {
    const { tree } = repository;
    if (tree === null) return;
    for (const job of allJobs(repository)) {
      const called = /^\.\/(\.github\/.+)$/.exec(job.uses?.text ?? "")?.[1];
      if (called !== undefined && job.uses !== undefined && !hasFile(tree, called))
        found(at(job, job.uses.at), `There is no ${called}, which '${job.id}' calls.`);
      judge(tree, job, found);
    }
  },
};

function judge(tree: Tree, job: Job, found: Report): void {
  const checkouts = job.steps.filter(isCheckout);
  if (checkouts.length === 0) return;
  // Another repository's tree is not here; without a folder of its own nobody can tell whose file is meant.
  const others = checkouts.filter((step) => get(step.node, "with", "repository") !== undefined);
  const pathsOf = (steps: Job["steps"]) => steps.map((step) => trimmed(textOf(get(step.node, "with", "path"))));
  const foreign = [
    ...pathsOf(others),
    ...pathsOf(job.steps.filter((step) => /download-artifact@/.test(step.uses?.text ?? ""))),
  ];
  const own = pathsOf(checkouts.filter((step) => !others.includes(step)));
  if (foreign.includes("")) return;
  const scripts = job.file.jobs.flatMap((one) => one.steps.flatMap((step) => step.run?.text ?? []));
  for (const step of job.steps) {
    const action = step.uses?.text.startsWith("./") === true ? step.uses : undefined;
    if (action !== undefined) {
      const folder = inTree(trimmed(action.text), own);
      if (!isBelow(trimmed(action.text), foreign) && !isAction(tree, folder))
        found(at(job, action.at), `There is no action in ${folder}.`);
    }
    if (step.run === undefined) continue;
    for (const { path, place } of callsIn(step.run)) {
      const wanted = inTree(path, own);
      if (isBelow(path, foreign) || hasCalled(tree, wanted) || isMade(path, scripts)) continue;
      found(at(job, place), `There is no ${wanted}, which '${job.id}' calls.`);
    }
  }
}

function trimmed(path: string | undefined): string {
  return (path ?? "").replace(/^\.\//, "").replace(/\/+$/, "");
}

function isBelow(path: string, folders: readonly string[]): boolean {
  return folders.some((folder) => folder !== "" && path.startsWith(`${folder}/`));
}

/** The path in the repository: without the folder of the checkout, and from `.github/` on where that is part of it. */
function inTree(path: string, checkouts: readonly string[]): string {
  const special = /(?:^|\/)(\.github\/.*)$/.exec(path)?.[1];
  if (special !== undefined) return special;
  const folder = checkouts.find((one) => one !== "" && path.startsWith(`${one}/`));
  return folder === undefined ? path : path.slice(folder.length + 1);
}

function isAction(tree: Tree, folder: string): boolean {
  return ["action.yml", "action.yaml", "Dockerfile"].some((name) => hasFile(tree, `${folder}/${name}`));
}

/** Is the file's absence asked about, or the file written, by a script of the same workflow? */
function isMade(path: string, scripts: readonly string[]): boolean {
  const name = path.slice(path.lastIndexOf("/") + 1).replaceAll(".", String.raw`\.`);
  const asked = new RegExp(String.raw`(?:-[efrsx]|>|-o|-O|--output|\btee)\s*["']?[^\s"';|&]{0,300}${name}(?![\w.-])`);
  return scripts.some((script) => asked.test(script));
}

interface Call {
  readonly path: string;
  readonly place: Position;
}

const SCRIPT = /\.(?:sh|bash|py|mjs|cjs|js|ts|rb|pl|ps1)$/;
const INTERPRETER = /^(?:bash|sh|zsh|source|\.|python3?|node|ruby|perl|pwsh)$/;
/** Characters of a path that is looked at; a longer word is none. */
const LONGEST = 500;

const STARTS = /^(?:&&|\|\||;|\||then|do|else|if|!|\(|\{)$/;

/** Literal paths that a script runs, or that lie below `.github/`. */
function callsIn(run: YamlScalar): readonly Call[] {
  const calls: Call[] = [];
  let offset = 0;
  for (const line of run.raw.split("\n")) {
    let starts = true;
    let interpreted = false;
    for (const word of line.matchAll(/&&|\|\||[;|()]|[^\s;|&()]+/g)) {
      const text = word[0].replaceAll(/["']/g, "");
      if (starts && (text.startsWith("#") || /^(?:echo|printf)$/.test(text))) break;
      const path = pathIn(text, starts || interpreted);
      if (path !== undefined) calls.push({ path, place: positionIn(run, offset + word.index) });
      interpreted = INTERPRETER.test(text) || (interpreted && text.startsWith("-"));
      starts = STARTS.test(text) || (starts && /^\w+=/.test(text));
    }
    offset += line.length + 1;
  }
  return calls;
}

/** The path of the repository that a word is, without a variable or a revision in front of it. */
function pathIn(word: string, isCalled: boolean): string | undefined {
  if (word.length > LONGEST || word.includes("://") || word.includes("${{")) return undefined;
  const literal = word.replace(/^.*\$\{?\w+\}?[/:]/, "").replace(/^[^:]*:/, "");
  const special = /^(?:\.\/)?((?:[\w.-]+\/)*\.github\/[\w./-]+\.\w+)$/.exec(literal)?.[1];
  if (special !== undefined) return special;
  const plain = /^(?:\.\/)?((?:[\w.-]+\/)+[\w.-]+)$/.exec(word)?.[1];
  return plain !== undefined && isCalled && SCRIPT.test(plain) && !plain.startsWith("../") ? plain : undefined;
}
