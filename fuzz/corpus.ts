/** The corpus: every case that once showed something, as a small file, replayed first. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import type { Finding, Kept } from "./run.ts";

const FOLDER = join(import.meta.dirname, "corpus");

const fileSchema = z.strictObject({ about: z.string().min(10), given: z.unknown() });

/** Kept cases of one target, in the order of their names. */
export function corpusOf(target: string): readonly Kept[] {
  const folder = join(FOLDER, target);
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .sort()
    .map((name) => {
      const { about, given } = fileSchema.parse(JSON.parse(readFileSync(join(folder, name), "utf8")));
      return { file: `fuzz/corpus/${target}/${name}`, about, given };
    });
}

/** Writes the finding's case; the same case twice is one file. Gives its path from the root. */
export function keep(finding: Finding): string {
  const text = JSON.stringify(finding.given);
  const name = `${createHash("sha256").update(text).digest("hex").slice(0, 12)}.json`;
  mkdirSync(join(FOLDER, finding.target), { recursive: true });
  const file = { about: finding.what.slice(0, 300), given: finding.given };
  writeFileSync(join(FOLDER, finding.target, name), `${JSON.stringify(file, null, 2)}\n`);
  return `fuzz/corpus/${finding.target}/${name}`;
}
