/**
 * `npm run oracle -- DIR`: every known corpus in a folder against the product. Exit code 0 when all cases pass, 1 when
 * one fails, 2 when the folder cannot be read.
 */
import { stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import process from "node:process";
import { failures, loadAdapters, loadOverrules, reportText, runOracle } from "./run.ts";

const USAGE = "usage: npm run oracle -- DIR, where DIR is a folder of example corpora (*.json)\n";

async function main(args: readonly string[]): Promise<number> {
  const [folder, ...rest] = args;
  if (folder === undefined || rest.length > 0) {
    process.stderr.write(USAGE);
    return 2;
  }
  const path = resolve(folder);
  const found = await stat(path).catch(() => null);
  if (found === null || !found.isDirectory()) {
    process.stderr.write(`oracle: '${folder}' is not a folder; give the folder that holds the corpora.\n`);
    return 2;
  }
  const adapters = await loadAdapters(join(import.meta.dirname, "adapters"));
  const overrules = await loadOverrules(join(import.meta.dirname, "overrules.json"));
  const report = await runOracle(path, adapters, overrules);
  process.stdout.write(reportText(report, overrules));
  return failures(report) === 0 ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
