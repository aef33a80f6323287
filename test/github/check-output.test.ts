import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cutMarkdown, fitActions, fitOutput, OUTPUT_LIMIT_BYTES } from "../../shared/github/check-output.ts";

const bytesOf = (text: string): number => new TextEncoder().encode(text).length;

describe("cutMarkdown", () => {
  it("leaves a text of exactly the limit alone and marks one that is longer by one", () => {
    expect(cutMarkdown("x".repeat(OUTPUT_LIMIT_BYTES))).toBe("x".repeat(OUTPUT_LIMIT_BYTES));
    const cut = cutMarkdown("x".repeat(OUTPUT_LIMIT_BYTES + 1));
    expect(bytesOf(cut)).toBeLessThanOrEqual(OUTPUT_LIMIT_BYTES);
    expect(cut).toMatch(/_Cut here: the full text has 65536 bytes, GitHub takes 65535\._$/);
  });

  it("cuts at the end of a line that is near", () => {
    const cut = cutMarkdown("| row | of a table |\n".repeat(10_000));
    const [kept = ""] = cut.split("\n\n_Cut");
    expect(kept.split("\n").every((line) => line === "| row | of a table |")).toBe(true);
  });

  it.each(["```", "````", "~~~"])("closes a code block that %s left open, so that the mark is seen", (fence) => {
    const cut = cutMarkdown(`text\n${fence}rust\n${"a line\n".repeat(20_000)}`);
    expect(cut).toContain(`a line\n${fence}\n\n_Cut here`);
  });

  it("closes nothing after a code block that is whole", () => {
    const cut = cutMarkdown(`\`\`\`\ncode\n\`\`\`\n${"a line\n".repeat(20_000)}`);
    expect(cut).toContain("a line\n\n_Cut here");
  });

  it("stays within any limit, and never splits a character", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "grapheme", maxLength: 400 }),
        fc.integer({ min: 120, max: 400 }),
        (text, limit) => {
          const cut = cutMarkdown(text, limit);
          expect(bytesOf(cut)).toBeLessThanOrEqual(limit);
          expect(cut.isWellFormed()).toBe(true);
          expect(cut).not.toContain("\ufffd");
        },
      ),
    );
  });
});

describe("fitOutput", () => {
  it("cuts the title to a line's length and leaves out a text that is not there", () => {
    const fitted = fitOutput({ title: "x".repeat(300), summary: "s" });
    expect(fitted.title).toHaveLength(255);
    expect(fitted.title.endsWith("…")).toBe(true);
    expect(Object.keys(fitted)).toEqual(["title", "summary"]);
  });
});

describe("fitActions", () => {
  const action = { label: "Approve", description: "Run the GPU tests for this commit", identifier: "approve" };

  it("cuts labels and descriptions, without halving a character", () => {
    const [fitted] = fitActions([{ ...action, label: `${"x".repeat(18)}🙂🙂`, description: "d".repeat(50) }]);
    expect(fitted?.label).toBe(`${"x".repeat(18)}…`);
    expect(fitted?.description).toHaveLength(40);
  });

  it("takes a fourth action or a long identifier for a bug", () => {
    expect(() => fitActions([action, action, action, action])).toThrow(/at most 3 actions/);
    expect(() => fitActions([{ ...action, identifier: "x".repeat(21) }])).toThrow(/longer than 20 characters/);
  });
});
