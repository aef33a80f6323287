/**
 * `npm run bench [-- name ...]`: runs the benchmarks, prints each one's rows as a table as soon as it is measured, and
 * all of them as one line of JSON at the end. Names select modules of
 * this folder; without any all run. Nothing is asserted: targets stand in the notes.
 */
import process from "node:process";
import { misused, optionsOf, type Command } from "../sim/options.ts";
import type { BenchRow } from "./row.ts";

interface Bench {
  readonly run: () => Promise<readonly BenchRow[]>;
}

const MODULES: Readonly<Record<string, () => Promise<Bench>>> = {
  webhooks: () => import("./webhooks.ts"),
  bundle: () => import("./bundle.ts"),
  "first-check": () => import("./first-check.ts"),
  buying: () => import("./buying.ts"),
  lock: () => import("./lock.ts"),
  reaction: () => import("./reaction.ts"),
  reaper: () => import("./reaper.ts"),
  policy: () => import("./policy.ts"),
  probe: () => import("./probe.ts"),
  archive: () => import("./archive.ts"),
};

const COMMAND: Command = {
  name: "npm run bench",
  usage: `npm run bench -- [NAME ...]

Measures and prints one row for each number, then all of them as one line of JSON. Without names everything is measured,
which takes minutes and wants an idle machine. Nothing is asserted.

  NAME   ${Object.keys(MODULES).join(", ")}
  --help this text

Exit codes: 0 measured, 2 wrong call.
`,
};

const { positionals: asked } = optionsOf(COMMAND, { allowPositionals: true, options: {} });
const unknown = asked.find((name) => !Object.hasOwn(MODULES, name));
if (unknown !== undefined)
  misused(COMMAND, `there is no benchmark '${unknown}'. Known: ${Object.keys(MODULES).join(", ")}.`);
const NAME_WIDTH = 60;
const results: Record<string, readonly BenchRow[]> = {};
for (const [name, load] of Object.entries(MODULES)) {
  if (asked.length > 0 && !asked.includes(name)) continue;
  process.stderr.write(`measuring ${name} ...\n`);
  const rows = await (await load()).run();
  results[name] = rows;
  // At once and not at the end: a run that is stopped has still said what it had measured.
  for (const row of rows) {
    const value = `${Number(row.value.toFixed(3))} ${row.unit}`;
    process.stdout.write(
      `${name.padEnd(12)} ${row.name.padEnd(NAME_WIDTH)}  ${value.padStart(18)}  ${row.note ?? ""}\n`,
    );
  }
}
process.stdout.write(`${JSON.stringify(results)}\n`);
process.exit();
