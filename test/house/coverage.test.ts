import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { read, root } from "./source.ts";

interface Row {
  readonly id: string;
  readonly where: readonly string[];
  /** File and title of the test; null where the row says that there is none yet. */
  readonly test: { readonly file: string; readonly title: string } | null;
  readonly testCell: string;
  readonly state: string;
}

const rows: readonly Row[] = read("docs/coverage.md")
  .split("\n")
  .filter((line) => /^\| [SA]\d/.test(line))
  .map((line) => {
    const [id = "", , where = "", testCell = "", state = ""] = line.slice(2, -2).split(" | ");
    const named = /^`([^`]+)`: (.+)$/.exec(testCell);
    return {
      id,
      where: [...where.matchAll(/`([^`]+)`/g)].map((match) => match[1] ?? ""),
      test: named === null ? null : { file: named[1] ?? "", title: named[2] ?? "" },
      testCell,
      state,
    };
  });

describe("docs/coverage.md", () => {
  it("has a row for every system, with ids of their own, in order and without a gap", () => {
    for (const [document, atLeast] of [
      ["S1", 60],
      ["A1", 12],
    ] as const) {
      const ids = rows.map(({ id }) => id).filter((id) => id.startsWith(`${document}-`));
      expect(ids).toEqual(ids.map((_id, index) => `${document}-${String(index + 1).padStart(2, "0")}`));
      expect(ids.length).toBeGreaterThanOrEqual(atLeast);
    }
  });

  it("says of every row where it stands", () => {
    const unclear = rows.filter(({ state }) => !/^(?:done|not yet|partly: \S.{9,})$/.test(state));
    expect(unclear.map(({ id, state }) => `${id}: ${state}`)).toEqual([]);
  });

  it("names only files that exist", () => {
    const lost = rows.flatMap(({ id, where, test }) =>
      [...where, ...(test === null ? [] : [test.file])]
        .filter((path) => !existsSync(join(root, path)))
        .map((path) => `${id}: ${path}`),
    );
    expect(lost).toEqual([]);
    expect(rows.filter(({ where, state }) => where.length === 0 && state !== "not yet").map(({ id }) => id)).toEqual(
      [],
    );
  });

  it("names only tests that exist, by a title that their file has", () => {
    const lost = rows.flatMap(({ id, test }) => {
      if (test === null) return [];
      const text = existsSync(join(root, test.file)) ? read(test.file) : "";
      return text.includes(test.title) ? [] : [`${id}: ${test.file}: ${test.title}`];
    });
    expect(lost).toEqual([]);
  });

  it("calls nothing done without a test, and says so where there is none", () => {
    expect(rows.filter(({ state, test }) => state === "done" && test === null).map(({ id }) => id)).toEqual([]);
    const silent = rows.filter(({ test, testCell }) => test === null && testCell !== "none yet");
    expect(silent.map(({ id, testCell }) => `${id}: ${testCell}`)).toEqual([]);
  });
});
