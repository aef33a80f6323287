/**
 * `npm run bench [-- name ...]`: runs the benchmarks, prints each one's rows as a table as soon as it is measured, and
 * all of them as one line of JSON at the end. Names select modules of
 * this folder; without any all run. Nothing is asserted: targets stand in the notes.
 */
import process from "node:process";
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

const asked = process.argv.slice(2);
const unknown = asked.find((name) => !(name in MODULES));
if (unknown !== undefined) {
  process.stderr.write(
    `npm run bench: there is no benchmark '${unknown}'. Known: ${Object.keys(MODULES).join(", ")}.\n`,
  );
  process.exit(2);
}
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
