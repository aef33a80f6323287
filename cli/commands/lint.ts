/** `gpu-gate lint`: reads workflow files, judges them against the trust contract, prints what it found. */
import { readdir, readFile, stat } from "node:fs/promises";
import { join, relative, resolve, sep } from "node:path";
import { parseArgs } from "node:util";
import { parseRepositoryConfig, problemText } from "../../shared/config/load.ts";
import { CONFIG_PATH, type RepositoryConfig } from "../../shared/config/schema.ts";
import { lintWorkflows, type SourceFile } from "../../shared/lint/lint.ts";
import { asDocumentation, asGithub, asSarif, asText } from "../../shared/lint/report.ts";
import { DEFAULT_LINT_CONFIG, type LintConfig } from "../../shared/lint/rule.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { readText, systemReason } from "../files.ts";

const WORKFLOW_FOLDER = ".github/workflows";
const FORMATS = ["text", "github", "sarif"] as const;

const usage = `
gpu-gate lint [DIR | FILE...] [--format text|github|sarif] [--config FILE]

Checks workflow files against the trust contract: what untrusted code can reach, what a paid machine is given, what keeps
a required check from being published. docs/lint-rules.md lists every rule with the attack or incident behind it.

  DIR | FILE...       workflow files, or a folder of them (default ${WORKFLOW_FOLDER})
  --format FORMAT     text (default), github (annotations of a workflow run), sarif (code scanning)
  --config FILE       the repository's configuration (default ${CONFIG_PATH} where it exists)
  --default-branch B  name of the default branch (default main)
  --rules-markdown    print the documentation of the rules instead

Exit codes: 0 clean, 1 something was found, 2 wrong call.
`;

export const lintCommand: Command = {
  name: "lint",
  summary: "check workflow files against the trust contract",
  usage,
  run: async (args, io) => {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        format: { type: "string", default: "text" },
        config: { type: "string" },
        "default-branch": { type: "string", default: DEFAULT_LINT_CONFIG.defaultBranch },
        "rules-markdown": { type: "boolean", default: false },
      },
    });
    if (values["rules-markdown"]) {
      io.stdout(asDocumentation());
      return EXIT_OK;
    }
    const format = FORMATS.find((one) => one === values.format);
    if (format === undefined) throw new UsageError(`'${values.format}' is no format; use ${FORMATS.join(", ")}.`);
    const config = await readLintConfig(values.config, values["default-branch"], io);
    const sources = await readSources(positionals.length === 0 ? [WORKFLOW_FOLDER] : positionals, io);
    const findings = lintWorkflows(sources, config);
    if (format === "sarif") io.stdout(`${JSON.stringify(asSarif(findings, "0.1.0"), undefined, 2)}\n`);
    else io.stdout(format === "github" ? asGithub(findings) : asText(findings, sources.length));
    return findings.length === 0 ? EXIT_OK : EXIT_NO;
  },
};

/** What the rules need of the effective configuration. */
export function lintConfigFrom(config: RepositoryConfig, defaultBranch: string): LintConfig {
  const lanes = Object.entries(config.lanes).flatMap(([name, lane]) =>
    lane.own === null ? [] : [{ name, runsOn: lane.own.runs_on, checks: lane.checks }],
  );
  const strict = config.required_checks.filter((check) => check.report !== "may-skip").map((check) => check.name);
  return {
    // What the gate waits for must report as well: a pre-gate check that is never published is waited for until the limit.
    requiredChecks: [...new Set([...strict, ...config.pre_gate])],
    gateCheck: config.check.name,
    aggregateCheck: config.aggregator.name,
    defaultBranch,
    mergeQueue: false,
    lanes,
  };
}

async function readLintConfig(path: string | undefined, defaultBranch: string, io: Io): Promise<LintConfig> {
  const fallback = { ...DEFAULT_LINT_CONFIG, defaultBranch };
  if (path === undefined && !(await exists(resolve(io.cwd, CONFIG_PATH)))) return fallback;
  const file = path ?? CONFIG_PATH;
  const parsed = parseRepositoryConfig(await readText(io, file, "The configuration"));
  if (parsed.ok) return lintConfigFrom(parsed.value, defaultBranch);
  const [first] = parsed.error;
  throw new UsageError(first === undefined ? `${file} is not valid.` : problemText(first, file));
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  );
}

async function readSources(paths: readonly string[], io: Io): Promise<readonly SourceFile[]> {
  const files: string[] = [];
  for (const path of paths) {
    const full = resolve(io.cwd, path);
    const kind = await stat(full).catch((error: unknown) => {
      throw new UsageError(`'${path}' cannot be read: ${systemReason(error)}.`);
    });
    if (!kind.isDirectory()) files.push(full);
    else {
      const names = (await readdir(full)).filter((name) => /\.ya?ml$/.test(name)).sort();
      if (names.length === 0) throw new UsageError(`'${path}' holds no workflow files (*.yml, *.yaml).`);
      files.push(...names.map((name) => join(full, name)));
    }
  }
  return await Promise.all(
    [...new Set(files)].map(async (file) => ({
      path: relative(io.cwd, file).split(sep).join("/"),
      text: await readFile(file, "utf8"),
    })),
  );
}
