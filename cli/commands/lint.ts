/** `gpu-gate lint`: reads workflow files, judges them against the trust contract, prints what it found. */
import { readdir, readFile, stat } from "node:fs/promises";
import { dirname, join, relative, resolve, sep } from "node:path";
import { parseArgs } from "node:util";
import { problemText } from "../../shared/config/load.ts";
import { CONFIG_PATH } from "../../shared/config/schema.ts";
import { lintConfigFrom, readDeclared, type Declared } from "../../shared/lint/declared.ts";
import { lintWorkflows, type SourceFile } from "../../shared/lint/lint.ts";
import { configurationMissing } from "../../shared/lint/rules/declared.ts";
import { asDocumentation, asGithub, asSarif, asText } from "../../shared/lint/report.ts";
import { DEFAULT_LINT_CONFIG, type LintConfig } from "../../shared/lint/rule.ts";
import type { Tree } from "../../shared/lint/tree.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { readText, systemReason } from "../files.ts";
import { VERSION } from "../version.ts";

const WORKFLOW_FOLDER = ".github/workflows";
const FORMATS = ["text", "github", "sarif"] as const;

const usage = `
gpu-gate lint [DIR | FILE...] [--format text|github|sarif] [--config FILE]

Checks workflow files against the trust contract: what untrusted code can reach, what a paid machine is given, what keeps
a required check from being published. With all files of a repository's ${WORKFLOW_FOLDER}, also what the configuration names
and is not there. docs/lint-rules.md lists every rule with the attack or incident behind it.

  DIR | FILE...       workflow files, or a folder of them (default ${WORKFLOW_FOLDER})
  --format FORMAT     text (default), github (annotations of a workflow run), sarif (code scanning)
  --config FILE       the repository's configuration (default ${CONFIG_PATH} beside the folder of the files)
  --default-branch B  name of the default branch (default: as the clone knows it, else main)
  --rules-markdown    print the documentation of the rules instead

Exit codes: 0 clean, 1 something was found, 2 wrong call.
`;

export const lintCommand: Command = {
  name: "lint",
  summary: "Check workflow files against the trust contract",
  usage,
  run: async (args, io) => {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        format: { type: "string", default: "text" },
        config: { type: "string" },
        "default-branch": { type: "string" },
        "rules-markdown": { type: "boolean", default: false },
      },
    });
    if (values["rules-markdown"]) {
      io.stdout(asDocumentation());
      return EXIT_OK;
    }
    const format = FORMATS.find((one) => one === values.format);
    if (format === undefined) throw new UsageError(`'${values.format}' is no format; use ${FORMATS.join(", ")}.`);
    const files = await listSources(positionals.length === 0 ? [WORKFLOW_FOLDER] : positionals, io);
    const around = await lookAround(files);
    const branch = values["default-branch"] ?? (await clonedDefaultBranch(around.root ?? io.cwd));
    const config = await readLintConfig(values.config, around, branch ?? DEFAULT_LINT_CONFIG.defaultBranch, io);
    const sources = await readSources(files, io);
    const findings = lintWorkflows(sources, config, around.tree);
    if (config.declared.kind === "missing" && !findings.some(({ rule }) => rule === configurationMissing.id))
      io.stderr(`There is no ${config.declared.path}: lanes, required checks and names are not known here.\n`);
    if (format === "sarif") io.stdout(`${JSON.stringify(asSarif(findings, VERSION), undefined, 2)}\n`);
    else io.stdout(format === "github" ? asGithub(findings) : asText(findings, sources.length));
    return findings.length === 0 ? EXIT_OK : EXIT_NO;
  },
};

export { lintConfigFrom } from "../../shared/lint/declared.ts";

/** The configuration of the repository around the files; `--config` names another one. */
async function readLintConfig(
  path: string | undefined,
  around: Around,
  defaultBranch: string,
  io: Io,
): Promise<LintConfig> {
  const file = path ?? shown(join(around.root ?? io.cwd, CONFIG_PATH), io);
  if (path === undefined && !(await exists(resolve(io.cwd, file)))) {
    const declared: Declared = around.tree === null ? { kind: "unknown" } : { kind: "missing", path: file };
    return { ...DEFAULT_LINT_CONFIG, defaultBranch, declared };
  }
  const read = readDeclared(await readText(io, file, "The configuration"), file);
  if (read.ok) return lintConfigFrom(read.value.config, defaultBranch, read.value);
  const [first] = read.error;
  throw new UsageError(first === undefined ? `${file} is not valid.` : problemText(first, file));
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  );
}

/** As findings name a file: relative to where the command runs, with forward slashes. */
function shown(file: string, io: Io): string {
  return relative(io.cwd, file).split(sep).join("/");
}

/** The workflow files to judge, as absolute paths. */
async function listSources(paths: readonly string[], io: Io): Promise<readonly string[]> {
  const files: string[] = [];
  for (const path of paths) {
    const full = resolve(io.cwd, path);
    const kind = await stat(full).catch((error: unknown) => {
      throw new UsageError(`'${path}' cannot be read: ${systemReason(error)}.`);
    });
    if (!kind.isDirectory()) files.push(full);
    else {
      const names = await workflowsIn(full);
      if (names.length === 0) throw new UsageError(`'${path}' holds no workflow files (*.yml, *.yaml).`);
      files.push(...names.map((name) => join(full, name)));
    }
  }
  return [...new Set(files)];
}

async function workflowsIn(folder: string): Promise<readonly string[]> {
  return (await readdir(folder)).filter((name) => /\.ya?ml$/.test(name)).sort();
}

async function readSources(files: readonly string[], io: Io): Promise<readonly SourceFile[]> {
  return await Promise.all(files.map(async (file) => ({ path: shown(file, io), text: await readFile(file, "utf8") })));
}

interface Around {
  /** The folder whose `.github/workflows` holds every file that is judged; undefined where there is no such folder. */
  readonly root: string | undefined;
  /** Its tree, where all its workflow files are judged: only then can something be said to be missing. */
  readonly tree: Tree | null;
}

async function lookAround(files: readonly string[]): Promise<Around> {
  const [folder, ...others] = [...new Set(files.map((file) => dirname(file)))];
  const ending = sep + WORKFLOW_FOLDER.split("/").join(sep);
  if (folder === undefined || others.length > 0 || !folder.endsWith(ending)) return { root: undefined, tree: null };
  const root = folder.slice(0, -ending.length) || sep;
  const all = (await workflowsIn(folder)).every((name) => files.includes(join(folder, name)));
  return { root, tree: all ? await readTree(root) : null };
}

/** Every file below a folder, but for git's own, installed packages, and what says of itself that it is a cache. */
async function readTree(root: string): Promise<Tree> {
  const files = new Set<string>();
  const closed: string[] = [];
  const waiting = [""];
  for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
    const items = await readdir(join(root, folder), { withFileTypes: true });
    // An empty folder is a submodule that is not checked out: git keeps no other.
    if (items.length === 0 && folder !== "") closed.push(folder);
    if (items.some((item) => item.name === "CACHEDIR.TAG")) continue;
    for (const item of items) {
      const path = folder === "" ? item.name : `${folder}/${item.name}`;
      if (item.isSymbolicLink()) closed.push(path);
      else if (!item.isDirectory()) files.add(path);
      else if (item.name !== ".git" && item.name !== "node_modules") waiting.push(path);
    }
  }
  return { files, closed };
}

/** The default branch as the clone knows it from its remote; undefined where it does not (a checkout of one ref). */
async function clonedDefaultBranch(root: string): Promise<string | undefined> {
  const text = await readFile(join(root, ".git", "refs", "remotes", "origin", "HEAD"), "utf8").catch(() => "");
  return /^ref: refs\/remotes\/origin\/(\S+)\s*$/.exec(text)?.[1];
}
