/** The ways from one state to another, as docs/states.md has them: that page is held against `decide` by a test. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

const DOCUMENT = join(import.meta.dirname, "..", "docs", "states.md");

/** Both places in which a pod is removed, and the word of the page for either. */
const PLACES = ["provisioning/teardown/", "cleaning/"] as const;
const REMOVAL = "removal/";

/** As `from -> to`, each once and sorted; a row that leads nowhere, and one that stays where it is, is none. */
export function waysOf(document: string): readonly string[] {
  const ways = new Set<string>();
  const rows = rowsOf(document);
  // One without a table of its own stands by its name in the one for many.
  const named = rows.flatMap(({ from, where }) =>
    from === null ? where.split(/, | but /).filter(isState) : placesOf(from),
  );
  const states = [...new Set(named)];
  for (const { from, where, cell } of rows) {
    const starts = from === null ? states.filter((state) => covers(where, state)) : placesOf(from);
    for (const start of starts) {
      const to = destination(cell, start);
      if (to !== null && to !== start) ways.add(`${start} -> ${to}`);
    }
  }
  return [...ways].toSorted();
}

/** The page's own. */
export const WAYS: readonly string[] = waysOf(readFileSync(DOCUMENT, "utf8"));

interface Row {
  /** The state whose table it stands in; null: of the table for many states. */
  readonly from: string | null;
  readonly where: string;
  readonly cell: string;
}

function rowsOf(document: string): readonly Row[] {
  const rows: Row[] = [];
  let section = "";
  for (const line of document.split("\n")) {
    section = /^#{2,3} (.+)$/.exec(line)?.[1] ?? section;
    const cells = /^\| (.+) \|$/.exec(line)?.[1]?.split(" | ") ?? [];
    const [first = "", second = "", third] = cells;
    if (first === "" || first === "Event" || first === "---") continue;
    if (third !== undefined) rows.push({ from: null, where: second, cell: third });
    else rows.push({ from: section, where: section, cell: second });
  }
  return rows;
}

function isState(word: string): boolean {
  return word !== "all" && !word.endsWith("/*");
}

function placesOf(section: string): readonly string[] {
  if (!section.startsWith(REMOVAL)) return [section];
  return PLACES.map((place) => place + section.slice(REMOVAL.length));
}

/** `all`, `waiting/*`, `queued, executing`, each with `but ...` behind it. */
function covers(pattern: string, state: string): boolean {
  const [included = "", excluded = ""] = pattern.split(" but ");
  const oneOf = (list: string): boolean =>
    list
      .split(", ")
      .some((item) => item === "all" || item === state || (item.endsWith("/*") && state.startsWith(item.slice(0, -1))));
  return oneOf(included) && !(excluded !== "" && oneOf(excluded));
}

/** Null: the row names no other state. */
function destination(cell: string, start: string): string | null {
  const split = /^another attempt follows: (.+); none does: (.+)$/.exec(cell);
  const mine = split === null ? cell : ((start.startsWith(PLACES[1]) ? split[2] : split[1]) ?? "");
  if (mine.startsWith("**ends**")) return "concluded";
  const to = /^([a-z][a-z/-]*): /.exec(mine)?.[1] ?? null;
  if (to === null || to === "ignored") return null;
  if (!to.startsWith(REMOVAL)) return to;
  const place = PLACES.find((one) => start.startsWith(one));
  return place === undefined ? null : place + to.slice(REMOVAL.length);
}
