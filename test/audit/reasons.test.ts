import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { reasonPage } from "../../scripts/reason-docs.ts";
import { REASONS, REASON_CODES, isReasonCode, reasonEntry } from "../../shared/audit/reasons.ts";
import { verdictKinds } from "../../shared/lifecycle/verdict.ts";

const ROOT = join(import.meta.dirname, "../..");

describe("the list of reason codes", () => {
  it("docs/reason-codes.md is current (node scripts/reason-docs.ts writes it)", async () => {
    expect(await readFile(join(ROOT, "docs/reason-codes.md"), "utf8")).toBe(reasonPage());
  });

  it("the page shows every code once", () => {
    const page = reasonPage();
    for (const code of REASON_CODES) expect(page.split(`| \`${code}\` |`)).toHaveLength(2);
  });

  it("codes are kebab-case, sentences end and are unlike each other", () => {
    for (const code of REASON_CODES) expect(code).toMatch(/^[a-z]+(?:-[a-z]+)*$/u);
    const sentences = REASON_CODES.map((code) => reasonEntry(code).sentence);
    expect(new Set(sentences).size).toBe(sentences.length);
    for (const code of REASON_CODES) {
      expect(reasonEntry(code).sentence).toMatch(/^[A-Z`].*\.$/u);
      expect(reasonEntry(code).whatToDo).toMatch(/^[A-Z].*\.$/u);
    }
  });

  it("I7: every verdict has at least one reason", () => {
    const classes = new Set(REASON_CODES.map((code) => REASONS[code].class as string));
    for (const kind of verdictKinds) expect(classes).toContain(kind);
  });

  it("N163: no infrastructure reason reads like a failed test", () => {
    const codes = REASON_CODES.filter((code) => REASONS[code].class === "infrastructure");
    const accusing = codes.filter((code) => /tests? failed|failing/iu.test(REASONS[code].sentence));
    expect([codes.length > 0, accusing]).toEqual([true, []]);
  });

  it("a name that every object has is no code", () => {
    for (const text of ["constructor", "toString", "__proto__", ""]) expect(isReasonCode(text)).toBe(false);
  });

  it("every reason that the lifecycle's audit names is on the list", async () => {
    const folder = join(ROOT, "shared/lifecycle");
    const files = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith(".ts"));
    const used = new Set<string>();
    for (const file of files) {
      const text = await readFile(join(folder, file), "utf8");
      for (const match of text.matchAll(/\baudit\(\s*"[a-z.-]+",\s*"([a-z-]+)"/gu)) used.add(match[1] ?? "");
    }
    expect(used.size).toBeGreaterThan(0);
    expect([...used].filter((code) => !isReasonCode(code))).toEqual([]);
  });
});
