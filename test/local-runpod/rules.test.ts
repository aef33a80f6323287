import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runpodRules } from "../../local/runpod/rules.ts";

const reference = join(import.meta.dirname, "../../../shared/reference");
const hasReference = existsSync(join(reference, "runpod-facts.md"));

describe("the rules of the local RunPod", () => {
  it("have ids of their own, a sentence, and a fact of a known kind", () => {
    expect(new Set(runpodRules.map((rule) => rule.id)).size).toBe(runpodRules.length);
    for (const rule of runpodRules) {
      expect(rule.sentence).toMatch(/\.$/);
      expect([rule.id, rule.fact]).toEqual([
        rule.id,
        expect.stringMatching(/^(runpod-facts\.md §\d+(\.\d+)?|openapi-v2 (GET|POST|DELETE) \/v2\/\S+)$/),
      ]);
    }
  });

  it("are each held by a test that exists", () => {
    const sources = readdirSync(import.meta.dirname)
      .filter((name) => name.endsWith(".test.ts"))
      .map((name) => readFileSync(join(import.meta.dirname, name), "utf8"))
      .join("\n");
    const titles = new Set([...sources.matchAll(/\bit\("([^"]+)"/g)].map((match) => match[1]));
    expect(runpodRules.filter((rule) => !titles.has(rule.test)).map((rule) => rule.test)).toEqual([]);
  });

  it.skipIf(!hasReference)("rest on facts that are there (skipped where the reference files are not at hand)", () => {
    const facts = readFileSync(join(reference, "runpod-facts.md"), "utf8");
    const { paths } = JSON.parse(readFileSync(join(reference, "runpod-openapi-v2.json"), "utf8")) as {
      paths: Record<string, Record<string, unknown>>;
    };
    const missing = runpodRules.filter((rule) => {
      const [, section, item] = /§(\d+)(?:\.(\d+))?$/.exec(rule.fact) ?? [];
      if (section === undefined) {
        const [, method = "", path = ""] = /^openapi-v2 (\S+) (\S+)$/.exec(rule.fact) ?? [];
        return paths[path]?.[method.toLowerCase()] === undefined;
      }
      const text = facts.split(/^## /m).find((part) => part.startsWith(`${section}. `)) ?? "";
      if (item === undefined) return text === "";
      // Section 6 is a numbered list, the others have sub-headings.
      return !new RegExp(`^(${item}\\. |### ${section}\\.${item} )`, "m").test(text);
    });
    expect(missing.map((rule) => `${rule.id}: ${rule.fact}`)).toEqual([]);
  });
});
