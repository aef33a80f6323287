import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { VendorRule } from "../../local/runpod/rules.ts";
import { localWorldPage, servers, testFileOf } from "../../scripts/local-world-doc.ts";
import { read, root } from "./source.ts";

const reference = join(root, "../shared/reference");
const hasReference = existsSync(join(reference, "github-facts.md"));
const rules = servers.flatMap((server) => server.rules);

describe("docs/local-world.md", () => {
  it("is current (node scripts/local-world-doc.ts writes it)", () => {
    expect(read("docs/local-world.md")).toBe(localWorldPage());
  });

  it("has a row for every rule, both servers', and no more", () => {
    const rows = read("docs/local-world.md")
      .split("\n")
      .filter((line) => /^\|.*\| `[^`]+` \| `test\//.test(line));
    expect(rows).toHaveLength(rules.length);
    expect(servers.map(({ rules: own }) => own.length > 20)).toEqual([true, true]);
  });

  it("names for every rule the file that has its test", () => {
    const lost = servers.flatMap(({ rules: own, tests }) =>
      own.filter((rule) => testFileOf(rule.test, tests) === null).map((rule) => rule.id),
    );
    expect(lost).toEqual([]);
  });
});

describe("a rule", () => {
  const rule: VendorRule = { id: "x", sentence: "A rule.", fact: "runpod-facts.md §1", test: "is current" };
  const page = (one: VendorRule) => localWorldPage([{ title: "X", rules: [one], tests: "test/local-runpod" }]);

  it("without a fact is not shown but refused", () => {
    const known = rules.find(({ test }) => testFileOf(test, "test/local-runpod") !== null);
    expect(known).toBeDefined();
    const good = { ...rule, test: known?.test ?? "" };
    expect(page(good)).toContain("| A rule. | `runpod-facts.md §1` | `test/local-runpod/");
    expect(() => page({ ...good, fact: " " })).toThrow("rests on no fact");
  });

  it("whose test does not exist is refused", () => {
    expect(() => page({ ...rule, test: "there is no test of this name" })).toThrow("names a test that");
  });

  it("rests on a fact of a known kind", () => {
    const kinds = [
      /^(?:github|runpod)-facts\.md §\d+(?:\.\d+)?$/,
      /^openapi(?:-v2)? (?:GET|POST|PUT|PATCH|DELETE) \/\S+$/,
      /^docs\.github\.com\/[\w/-]+$/,
    ];
    expect(
      rules.filter(({ fact }) => !kinds.some((kind) => kind.test(fact))).map(({ id, fact }) => `${id}: ${fact}`),
    ).toEqual([]);
  });

  it.skipIf(!hasReference)("points at sections and routes that are there (skipped where ../shared is absent)", () => {
    const text = (name: string): string => readFileSync(join(reference, name), "utf8");
    const { paths } = JSON.parse(text("runpod-openapi-v2.json")) as { paths: Record<string, Record<string, unknown>> };
    const there = (fact: string): boolean => {
      const section = /^(\S+) §(\d+)(?:\.(\d+))?$/.exec(fact);
      if (section !== null) {
        const [, file = "", number = "", item] = section;
        const body = text(file)
          .split(/^## /m)
          .find((part) => part.startsWith(`${number}. `));
        return (
          body !== undefined &&
          (item === undefined || new RegExp(`^(?:${item}\\. |### ${number}\\.${item} )`, "m").test(body))
        );
      }
      const route = /^openapi-v2 (\S+) (\S+)$/.exec(fact);
      return route === null || paths[route[2] ?? ""]?.[(route[1] ?? "").toLowerCase()] !== undefined;
    };
    expect(rules.filter(({ fact }) => !there(fact)).map(({ id, fact }) => `${id}: ${fact}`)).toEqual([]);
  });
});
