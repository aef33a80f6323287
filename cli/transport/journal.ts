/**
 * How far an interrupted split or join had come: a first line that says for what, then one line per finished thing.
 *
 * Lines are only ever added, after the work they speak of; a last line without its end was cut off and does not count.
 * It guards against a killed process, not against a lost disk: everything is checked by its hash in the end.
 */
import { appendFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface Journal {
  /** What is already done, oldest first, split at tabs; empty when the work was begun anew. */
  readonly done: readonly (readonly string[])[];
  readonly add: (...fields: readonly string[]) => void;
}

/**
 * Goes on with the work in `folder` when its journal is about the same `subject` and `usable` agrees with what it says;
 * otherwise empties the folder and begins anew.
 */
export function openJournal(folder: string, subject: string, usable: (done: Journal["done"]) => boolean): Journal {
  const path = join(folder, "journal");
  const add = (...fields: readonly string[]) => appendFileSync(path, `${fields.join("\t")}\n`);
  const [about, ...lines] = readLines(path);
  const done = lines.map((line) => line.split("\t"));
  if (about === subject && usable(done)) return { done, add };
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(path, `${subject}\n`);
  return { done: [], add };
}

function readLines(path: string): readonly string[] {
  try {
    return readFileSync(path, "utf8").split("\n").slice(0, -1);
  } catch {
    return [];
  }
}
