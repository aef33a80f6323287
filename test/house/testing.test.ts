/**
 * docs/incidents.md: every incident has its row, every row its tests or an honest word, and its counts are current; and
 * docs/simulator.md counts its mutants as they are.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { MUTANTS } from "../../sim/mutant-list.ts";
import { read, root } from "./source.ts";

const INCIDENTS = "../shared/reference/incidents.md";
const page = read("docs/incidents.md");

interface Row {
  readonly id: string;
  readonly holders: readonly { readonly file: string; readonly title: string | null }[];
  /** Pieces of the cell that are not of the form that is checked. */
  readonly unclear: readonly string[];
  readonly state: string;
}

const rows: readonly Row[] = page
  .split("\n")
  .filter((line) => /^\| N\d/.test(line))
  .map((line) => {
    const [id = "", , cell = "", state = ""] = line.slice(2, -2).split(" | ");
    const pieces = cell === "none" ? [] : cell.split(" · ");
    const found = pieces.map((piece) => ({ piece, named: /^`([^`]+)`(?:: (.+))?$/.exec(piece) }));
    return {
      id,
      holders: found.flatMap(({ named }) =>
        named === null ? [] : [{ file: named[1] ?? "", title: named[2]?.trim() ?? null }],
      ),
      unclear: found.filter(({ named }) => named === null).map(({ piece }) => piece),
      state,
    };
  });
const inState = (pattern: RegExp): number => rows.filter(({ state }) => pattern.test(state)).length;

describe("docs/incidents.md", () => {
  it.skipIf(!existsSync(join(root, INCIDENTS)))(
    "has exactly one row for every incident, and no other (skipped where ../shared is absent)",
    () => {
      const ids = [...read(INCIDENTS).matchAll(/^\| (N\d+) \|/gm)].map((match) => match[1] ?? "");
      expect(ids.length).toBeGreaterThan(100);
      expect(rows.map(({ id }) => id)).toEqual(ids);
    },
  );

  it("names only files that exist, each that has many tests with a title", () => {
    const wrong = rows.flatMap(({ id, holders, unclear }) => [
      ...unclear.map((piece) => `${id}: not a file with a title: ${piece}`),
      ...holders.flatMap(({ file, title }) => {
        if (!existsSync(join(root, file))) return [`${id}: ${file} is not there`];
        return title === null && !file.startsWith("sim/checkers/") ? [`${id}: ${file} without a title`] : [];
      }),
    ]);
    expect(wrong).toEqual([]);
  });

  it("names only titles that their files have", () => {
    const lost = rows.flatMap(({ id, holders }) =>
      holders.flatMap(({ file, title }) => {
        const text = existsSync(join(root, file)) ? read(file) : "";
        return title === null || text.includes(title) ? [] : [`${id}: ${file}: ${title}`];
      }),
    );
    expect(lost).toEqual([]);
  });

  it("says of every row where it stands: held by something, or what is missing and why", () => {
    const unclear = rows.filter(({ state, holders }) => {
      if (state === "held" || /^partly: \S.{9,}$/.test(state)) return holders.length === 0;
      return !/^not covered: \S.{9,}$/.test(state) || holders.length > 0;
    });
    expect(unclear.map(({ id, state }) => `${id}: ${state}`)).toEqual([]);
  });

  it("counts its rows as they are", () => {
    const [held, partly, none] = [inState(/^held$/), inState(/^partly: /), inState(/^not covered: /)];
    expect(page).toContain(`\n${rows.length} rows: ${held} held, ${partly} partly, ${none} not covered.\n`);
  });
});

describe("the mutants", () => {
  it.each(MUTANTS.map((mutant) => [mutant.name, mutant] as const))(
    "%s finds its lines in the product",
    (_name, one) => {
      const text = read(one.file);
      for (const { find, replace } of [one, ...(one.also === undefined ? [] : [one.also])]) {
        expect(text.split(find).length, find).toBeGreaterThan(1);
        expect(replace).not.toBe(find);
      }
    },
  );
});

describe("docs/simulator.md", () => {
  it("counts the mutants as they are, and calls none caught beyond them", () => {
    const lists = read("sim/mutant-list.ts") + read("sim/mutant-list-words.ts");
    const defined = [...lists.matchAll(/^ {4}name: "/gm)].length;
    const said =
      /\*\*Mutants\*\*: (\d+) are defined\. (\d+) have been shown caught so far, each within \d+ seeds; (\d+) /.exec(
        read("docs/simulator.md"),
      );
    const [, all, caught, open] = (said ?? []).map(Number);
    expect(all).toBe(defined);
    expect((caught ?? 0) + (open ?? 0)).toBe(defined);
  });
});
