/** The example corpora, where they are at hand, and the runner itself on small corpora of its own. */
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { CorpusAdapter } from "./adapter.ts";
import { failures, loadAdapters, loadOverrules, reportText, runOracle } from "./run.ts";

const EXAMPLES = resolve(import.meta.dirname, "../../../shared/examples");
const here = (name: string): string => join(import.meta.dirname, name);

describe("the example corpora", () => {
  test("every case of every known corpus passes", async (context) => {
    if (!existsSync(EXAMPLES)) context.skip("the folder ../shared/examples is not here");
    const overrules = await loadOverrules(here("overrules.json"));
    const report = await runOracle(EXAMPLES, await loadAdapters(here("adapters")), overrules);
    expect(report.results.filter((result) => !result.pass)).toEqual([]);
    expect(report.broken).toEqual([]);
    expect(report.results.length).toBeGreaterThan(0);
  });
});

describe("the adapters", () => {
  test("no two adapters claim the same corpus", async () => {
    const names = (await loadAdapters(here("adapters"))).map((adapter) => adapter.corpus);
    expect(new Set(names).size).toBe(names.length);
  });

  test("every overrule has its own id and a reason", async () => {
    expect((await loadOverrules(here("overrules.json"))).size).toBeGreaterThan(0);
  });
});

describe("the runner", () => {
  let folder = "";
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "oracle-"));
  });
  afterEach(async () => {
    await rm(folder, { recursive: true });
  });

  const write = (name: string, value: unknown): Promise<void> => writeFile(join(folder, name), JSON.stringify(value));
  const doubling: CorpusAdapter = {
    corpus: "double",
    run: (testCase) => {
      if (testCase["n"] === "bomb") throw new Error("no number");
      const actual = Number(testCase["n"]) * 2;
      const pass = actual === testCase["expected"];
      const rule = testCase["rule"];
      return {
        pass,
        expected: testCase["expected"],
        actual,
        ...(typeof rule === "string" ? { overruledBy: rule } : {}),
      };
    },
  };
  const rules = new Map([["known-rule", "because the product is better here"]]);

  test("counts cases and names a failing one with expected and actual", async () => {
    await write("double.json", {
      cases: [
        { id: "a", n: 1, expected: 2 },
        { id: "b", n: 2, expected: 5 },
      ],
    });
    const report = await runOracle(folder, [doubling], rules);
    expect(failures(report)).toBe(1);
    const text = reportText(report, rules);
    expect(text).toContain("FAILED double b\n  expected 5\n  actual   4\n");
    expect(text.endsWith("1 passed, 1 failed\n")).toBe(true);
  });

  test("an adapter that throws fails its case and not the run", async () => {
    await write("double.json", {
      cases: [
        { id: "a", n: "bomb", expected: 1 },
        { id: "b", n: 2, expected: 4 },
      ],
    });
    const report = await runOracle(folder, [doubling], rules);
    expect(report.results.map(({ id, pass }) => ({ id, pass }))).toEqual([
      { id: "a", pass: false },
      { id: "b", pass: true },
    ]);
  });

  test("a rule that is written down is counted with its reason", async () => {
    await write("double.json", { cases: [{ id: "a", n: 1, expected: 2, rule: "known-rule" }] });
    const report = await runOracle(folder, [doubling], rules);
    expect(failures(report)).toBe(0);
    expect(reportText(report, rules)).toContain("overruled 1 by known-rule: because the product is better here (a)");
  });

  test("a rule that is not written down is a failure", async () => {
    await write("double.json", { cases: [{ id: "a", n: 1, expected: 2, rule: "made-up" }] });
    expect(failures(await runOracle(folder, [doubling], rules))).toBe(1);
  });

  test("an unknown corpus is listed, a companion file is not, a broken one fails", async () => {
    await write("other.json", { cases: [{ id: "a" }] });
    await write("double.config.json", { upstream: {} });
    await writeFile(join(folder, "torn.json"), "{");
    const report = await runOracle(folder, [doubling], rules);
    expect(report.unknown).toEqual(["other.json"]);
    expect(report.broken.map(({ file }) => file)).toEqual(["torn.json"]);
    expect(failures(report)).toBe(1);
  });
});
