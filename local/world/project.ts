/**
 * The repository of the opening day: a tiny project, the workflow files as we ship them, and the bundled tool, read from
 * this checkout when the day begins.
 */
import { execFile } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import process from "node:process";
import { promisify } from "node:util";

const ROOT = join(import.meta.dirname, "..", "..");
const PROJECT = join(import.meta.dirname, "project");

/** The shipped files that the day runs. The others need secrets, schedules or larger machines. */
export const DAY_WORKFLOWS: readonly string[] = ["ci.yml", "gpu-gate-prepare.yml", "gpu-gate-execute.yml"];

/** A revision whose tree holds this file has failing GPU tests; one with the other runs them for a while. */
export const BROKEN_TESTS = "tests/broken";
export const SLOW_TESTS = "tests/slow";

/** The tool as hosted jobs run it: bundled as a user would, by way of `folder`. */
export async function bundledTool(folder: string): Promise<string> {
  await promisify(execFile)(process.execPath, [join(ROOT, "scripts", "bundle-cli.ts")], { cwd: folder });
  return readFileSync(join(folder, "dist", "gpu-gate.mjs"), "utf8");
}

/** Every file of the day's repository, by path, the bundled tool among them. */
export function projectFiles(configuration: string, tool: string): Readonly<Record<string, string>> {
  const shipped = DAY_WORKFLOWS.map((name) => [
    `.github/workflows/${name}`,
    readFileSync(join(ROOT, "workflows", name), "utf8"),
  ]);
  return {
    ...Object.fromEntries(filesBelow(PROJECT)),
    ...Object.fromEntries(shipped),
    ".github/gpu-gate.yml": configuration,
    ".github/gpu-gate/gpu-gate.mjs": tool,
  };
}

function filesBelow(folder: string): (readonly [string, string])[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesBelow(path) : [[relative(PROJECT, path), readFileSync(path, "utf8")] as const];
  });
}

const CARGO = `#!/usr/bin/env bash
# Stand-in for cargo: GitHub's image has Rust, the local world's hosted machines need not. It looks at the sources as far
# as a shell can.
echo "stand-in cargo: $*"
case \${1:-} in
  fmt) ! grep -rnE --include='*.rs' '[[:space:]]$' . ;;
  clippy | test | doc) [ -d src ] ;;
  *) echo "stand-in cargo: '\${1:-}' is not one of fmt, clippy, test, doc" >&2; exit 101 ;;
esac
`;

/** Writes the programs that the hosted image has and this machine may lack; gives their folder. */
export function writeHostedPrograms(folder: string): string {
  mkdirSync(folder, { recursive: true });
  const cargo = join(folder, "cargo");
  writeFileSync(cargo, CARGO);
  chmodSync(cargo, 0o755);
  return folder;
}
