/** Tries one mutant: its line is made in a copy of the tree, and seeds are run there until a checker objects. */
import { spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import type { FaultKind } from "./faults.ts";

export interface Mutant {
  readonly name: string;
  /** The incident of this kind, or the invariant it breaks. */
  readonly kind: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** A second change of the same file, where one alone is caught by the schema. */
  readonly also?: { readonly find: string; readonly replace: string };
  /** Seeds within which it must be caught. */
  readonly seeds: number;
  /** Faults to look under; null: whatever the seed draws. */
  readonly faults: readonly FaultKind[] | null;
}

const PARTS = [
  "shared",
  "durable-objects",
  "worker",
  "cron",
  "local/runpod",
  "pod",
  "sim",
  "docs/states.md",
  "package.json",
];
const root = join(import.meta.dirname, "..");

export interface Outcome {
  readonly mutant: Mutant;
  readonly verdict: "caught" | "SURVIVED" | "STALE" | "BROKE";
  readonly how: string;
  readonly seconds: number;
}

/** Plays at most so many seeds against the mutant. */
export async function tryMutant(mutant: Mutant, seeds: number): Promise<Outcome> {
  const began = performance.now();
  const outcome = (verdict: Outcome["verdict"], how: string): Outcome => ({
    mutant,
    verdict,
    how,
    seconds: (performance.now() - began) / 1000,
  });
  const dir = mkdtempSync(join(tmpdir(), "gpu-gate-mutant-"));
  try {
    for (const part of PARTS) {
      mkdirSync(join(dir, part, ".."), { recursive: true });
      cpSync(join(root, part), join(dir, part), { recursive: true });
    }
    symlinkSync(join(root, "node_modules"), join(dir, "node_modules"));
    const file = join(dir, mutant.file);
    const text = readFileSync(file, "utf8");
    if (!text.includes(mutant.find) || !text.includes(mutant.also?.find ?? ""))
      return outcome("STALE", "its line is not there any more");
    const also = mutant.also ?? { find: "", replace: "" };
    const changed = text.replace(mutant.find, () => mutant.replace).replace(also.find, () => also.replace);
    writeFileSync(file, changed);
    const under = ["--no-shrink"];
    if (mutant.faults !== null) under.push("--fault", mutant.faults.join(",") || "none");
    const main = join(dir, "sim", "main.ts");
    const run = await runNode([main, "--seeds", String(seeds), ...under], dir);
    const caught = /seed (\d+): FAILED (\w+) at [\d.]+ s: (.*) \(\d+ events/.exec(run.stdout);
    if (caught !== null) {
      // Without the change the same seed must hold: else it is not the mutant that was caught.
      writeFileSync(file, text);
      const control = await runNode([main, "--seed", caught[1] ?? "", ...under], dir);
      if (control.status !== 0) return outcome("BROKE", `seed ${caught[1]} fails without the change too`);
      return outcome("caught", `${caught[2]} at seed ${caught[1]}: ${(caught[3] ?? "").slice(0, 90)}`);
    }
    // A run that broke shows nothing: the copy may have been taken while the tree was being changed.
    if (run.status !== 0) return outcome("BROKE", run.stderr.trim().split("\n")[0]?.slice(0, 90) ?? "");
    return outcome("SURVIVED", `${seeds} seeds`);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

function runNode(
  args: readonly string[],
  cwd: string,
): Promise<{ stdout: string; stderr: string; status: number | null }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
    const said = { stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", (text: string) => (said.stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (said.stderr += text));
    child.on("error", reject).on("close", (status) => resolve({ ...said, status }));
  });
}
