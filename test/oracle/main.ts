/**
 * `npm run oracle -- DIR`: every known corpus in a folder against the product. Exit code 0 when all cases pass, 1 when
 * one fails, 2 when the folder cannot be read.
 */
import { stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import process from "node:process";
import { misused, optionsOf, type Command } from "../../sim/options.ts";
import { failures, loadAdapters, loadOverrules, reportText, runOracle } from "./run.ts";

const COMMAND: Command = {
  name: "npm run oracle",
  usage: `npm run oracle -- DIR

Plays every example corpus (*.json) in the folder DIR against the product, and prints each case that came out otherwise
than its corpus says, what was overruled on purpose (test/oracle/overrules.json) and the count.

  DIR     the folder that holds the corpora
  --help  this text

Exit codes: 0 every case passed, 1 a case failed or a corpus is unreadable, 2 wrong call or no such folder.
`,
};

async function main(): Promise<number> {
  const { positionals } = optionsOf(COMMAND, { allowPositionals: true, options: {} });
  const [folder, ...rest] = positionals;
  if (folder === undefined || rest.length > 0)
    return misused(COMMAND, "give the one folder that holds the corpora; --help says more.");
  const path = resolve(folder);
  const found = await stat(path).catch(() => null);
  if (found === null || !found.isDirectory())
    return misused(COMMAND, `'${folder}' is not a folder; give the folder that holds the corpora.`);
  const adapters = await loadAdapters(join(import.meta.dirname, "adapters"));
  const overrules = await loadOverrules(join(import.meta.dirname, "overrules.json"));
  const report = await runOracle(path, adapters, overrules);
  process.stdout.write(reportText(report, overrules));
  return failures(report) === 0 ? 0 : 1;
}

process.exitCode = await main();
