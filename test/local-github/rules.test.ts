import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { githubRules } from "../../local/github/rules.ts";
import { npmContract } from "./openapi.ts";

const facts = join(import.meta.dirname, "../../../shared/reference/github-facts.md");
const factsPresent = existsSync(facts);

const titles = new Set(
  readdirSync(import.meta.dirname)
    .filter((name) => name.endsWith(".test.ts") && name !== "rules.test.ts")
    .flatMap((name) => [
      ...readFileSync(join(import.meta.dirname, name), "utf8").matchAll(/(?:\bit|\]\))\(\s*(["'])((?:(?!\1).)*)\1/g),
    ])
    .map((match) => match[2]),
);

describe("the list of GitHub's rules", () => {
  it("has an id of its own for each, and a sentence", () => {
    expect(new Set(githubRules.map((rule) => rule.id)).size).toBe(githubRules.length);
    expect(githubRules.filter((rule) => !/^[^\n]{10,}\.$/.test(rule.sentence))).toEqual([]);
  });

  it("names for each rule a test that exists", () => {
    expect(githubRules.filter((rule) => !titles.has(rule.test)).map((rule) => `${rule.id}: ${rule.test}`)).toEqual([]);
  });

  it("rests each rule on a fact of a known kind, and on a route the OpenAPI document has", () => {
    const bad = githubRules.filter(({ fact }) => {
      const route = /^openapi ([A-Z]+) (\/\S+)$/.exec(fact);
      if (route !== null) return !npmContract().has(route[1] ?? "", route[2] ?? "");
      return !/^github-facts\.md §\d+$/.test(fact) && !/^docs\.github\.com\/[a-z/-]+$/.test(fact);
    });
    expect(bad).toEqual([]);
  });

  it.skipIf(!factsPresent)("points only at sections the facts have (skipped where ../shared is absent)", () => {
    const text = readFileSync(facts, "utf8");
    const sections = new Set([...text.matchAll(/^## (\d+)\. /gm)].map((match) => match[1]));
    const missing = githubRules
      .flatMap(({ fact }) => /§(\d+)$/.exec(fact)?.[1] ?? [])
      .filter((section) => !sections.has(section));
    expect(missing).toEqual([]);
  });
});
