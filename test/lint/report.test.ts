import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { RULES } from "../../shared/lint/lint.ts";
import { asDocumentation, asGithub, asSarif, asText } from "../../shared/lint/report.ts";
import type { Finding } from "../../shared/lint/rule.ts";

const finding: Finding = {
  rule: "missing-timeout",
  file: ".github/workflows/a b.yml",
  line: 3,
  column: 5,
  message: "No limit.",
};

describe("text", () => {
  it("names file, line, column, rule and, once per rule, the fix", () => {
    const text = asText([finding, { ...finding, line: 9 }], 2);
    expect(text).toContain(".github/workflows/a b.yml:3:5: No limit. [missing-timeout]\n");
    expect(text.match(/^missing-timeout: /gm)).toHaveLength(1);
    expect(text).toContain("2 findings in 2 files.\n");
  });

  it("is one line for each finding, whatever its file is called", () => {
    const text = asText([{ ...finding, file: "a\r\n\u2028b.yml" }], 1);
    expect(text).toContain("a b.yml:3:5: No limit. [missing-timeout]\n");
  });

  it("says so when there is nothing", () => {
    expect(asText([], 1)).toBe("1 workflow file checked, nothing found.\n");
  });
});

describe("annotations", () => {
  it("are one command per finding", () => {
    expect(asGithub([finding])).toBe(
      "::error file=.github/workflows/a b.yml,line=3,col=5,title=gpu-gate lint%3A missing-timeout::No limit.\n",
    );
  });

  it("cannot be broken out of by a file name or a message", () => {
    const text = asGithub([
      { ...finding, file: "a,line=1::warning::x\ny.yml", message: "100%\r\n::set-env name=PATH::x" },
    ]);
    expect(text).toBe(
      "::error file=a%2Cline=1%3A%3Awarning%3A%3Ax%0Ay.yml,line=3,col=5,title=gpu-gate lint%3A missing-timeout::100%25%0D%0A::set-env name=PATH::x\n",
    );
    expect(text.split("\n")).toHaveLength(2);
  });
});

/** The part of SARIF 2.1.0 that code scanning reads (its required properties). */
const sarifSchema = z.object({
  $schema: z.string(),
  version: z.literal("2.1.0"),
  runs: z
    .array(
      z.object({
        tool: z.object({
          driver: z.object({
            name: z.string(),
            semanticVersion: z.string().regex(/^\d+\.\d+\.\d+$/),
            rules: z.array(
              z.object({
                id: z.string(),
                shortDescription: z.object({ text: z.string().min(1) }),
                fullDescription: z.object({ text: z.string().min(1) }),
                help: z.object({ text: z.string().min(1) }),
                defaultConfiguration: z.object({ level: z.enum(["none", "note", "warning", "error"]) }),
              }),
            ),
          }),
        }),
        columnKind: z.enum(["utf16CodeUnits", "unicodeCodePoints"]),
        results: z.array(
          z.object({
            ruleId: z.string(),
            ruleIndex: z.int().min(0),
            level: z.enum(["none", "note", "warning", "error"]),
            message: z.object({ text: z.string().min(1) }),
            locations: z
              .array(
                z.object({
                  physicalLocation: z.object({
                    artifactLocation: z.object({ uri: z.string().regex(/^[^\s\\]+$/) }),
                    region: z.object({ startLine: z.int().min(1), startColumn: z.int().min(1) }),
                  }),
                }),
              )
              .min(1),
          }),
        ),
      }),
    )
    .length(1),
});

describe("SARIF", () => {
  it("has the shape of version 2.1.0, every rule, and results that point at their rule", () => {
    const log = sarifSchema.parse(JSON.parse(JSON.stringify(asSarif([finding], "0.1.0"))));
    const [run] = log.runs;
    expect(run?.tool.driver.rules.map((rule) => rule.id)).toEqual(RULES.map((rule) => rule.id));
    const [result] = run?.results ?? [];
    expect(run?.tool.driver.rules[result?.ruleIndex ?? -1]?.id).toBe("missing-timeout");
    expect(result?.locations[0]?.physicalLocation).toEqual({
      artifactLocation: { uri: ".github/workflows/a%20b.yml" },
      region: { startLine: 3, startColumn: 5 },
    });
  });

  it("points at a file whose name holds what a URI uses for itself", () => {
    const [run] = sarifSchema.parse(asSarif([{ ...finding, file: "a:b#c?d%.yml" }], "0.1.0")).runs;
    const uri = run?.results[0]?.locations[0]?.physicalLocation.artifactLocation.uri ?? "";
    const { pathname, search, hash } = new URL(uri, "https://files.test/");
    expect([decodeURIComponent(pathname), search, hash]).toEqual(["/a:b#c?d%.yml", "", ""]);
  });

  it("has an empty list of results when the files are clean", () => {
    expect(sarifSchema.parse(asSarif([], "0.1.0")).runs[0]?.results).toEqual([]);
  });
});

it("docs/lint-rules.md is what the rules say (write it with 'gpu-gate lint --rules-markdown')", () => {
  const path = join(import.meta.dirname, "../../docs/lint-rules.md");
  expect(readFileSync(path, "utf8")).toBe(asDocumentation());
});
