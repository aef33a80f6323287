/** Bodies that attack the reader itself: names that JavaScript gives a meaning, patterns that take for ever, depth. */
import { performance } from "node:perf_hooks";
import { afterEach, describe, expect, it } from "vitest";
import { configFrom, parseRepositoryConfig } from "../../shared/config/load.ts";
import { safeText } from "../../shared/http.ts";
import { nextPageParameter } from "../../shared/github/wire.ts";
import { createTokenKeys } from "../../shared/oidc/jwks.ts";
import { plainText } from "../../shared/runpod/provider-text.ts";
import { archiveKey } from "../../shared/hosted/archive-key.ts";
import { inMarkdown, outOfMarkdown } from "../../shared/text.ts";
import { openBoundary, pullRequest } from "./boundary.ts";

afterEach(() => {
  // Nothing that was read has become everybody's.
  if (Object.keys(Object.prototype).length > 0 || "polluted" in {}) throw new Error("Object.prototype was changed");
});

const NAMES = ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "valueOf"] as const;

describe("names of the language", () => {
  it.each(NAMES)("%s as an event, an action or a key changes nothing", async (name) => {
    const world = openBoundary();
    expect(await world.deliver(name, pullRequest())).toMatch(/^202 Ignored: event/);
    expect(await world.deliver("pull_request", pullRequest({ action: name }))).toMatch(/^202 Ignored/);
    const body = JSON.stringify(pullRequest());
    const polluting = `{"${name}":{"polluted":true,"action":"opened"},${body.slice(1)}`;
    expect(await world.deliver("pull_request", polluting)).toBe("202 Accepted.");
    expect(await world.deliver("pull_request", `{"${name}":${body}}`)).toMatch(/^400/);
  });

  it.each(NAMES)("%s in the configuration is an unknown key like any other", (name) => {
    for (const text of [
      `${name}: { polluted: true }`,
      `paths: { ${name}: { prefixes: [src/] } }`,
      `limits: { ${name}: 1 }`,
      `<<: { ${name}: 1 }`,
    ]) {
      const parsed = parseRepositoryConfig(`version: 1\n${text}\n`);
      if (parsed.ok) expect(Object.getPrototypeOf(parsed.value)).toBe(Object.prototype);
      if (parsed.ok) expect(JSON.stringify(parsed.value)).not.toContain("polluted");
    }
    expect(parseRepositoryConfig(`version: 1\n"${name}": 1\n`).ok).toBe(false);
  });

  it("a configuration of aliases of aliases is refused, not unfolded", () => {
    const lines = ["version: 1", "a0: &a0 [x, x, x, x, x, x, x, x, x]"];
    for (let level = 1; level < 12; level += 1) {
      lines.push(`a${level}: &a${level} [${Array.from({ length: 9 }, () => `*a${level - 1}`).join(", ")}]`);
    }
    expect(parseRepositoryConfig(lines.join("\n")).ok).toBe(false);
  });

  it("a body nested a hundred thousand deep is an answer, not a crash", async () => {
    const world = openBoundary();
    const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    expect(await world.deliver("pull_request", `{"action":"opened","x":${deep}}`)).toMatch(/^400/);
    expect(world.requests()).toEqual([]);
  });
});

describe("text that a pattern could take for ever with", () => {
  const LONG = 200_000;
  const TEXTS: Readonly<Record<string, string>> = {
    "beginnings of tokens": "eyJ-".repeat(LONG / 4),
    "tokens with dots": "eyJa.".repeat(LONG / 5),
    "beginnings of keys": "-----BEGIN PRIVATE KEY-----".repeat(LONG / 27),
    "a key's beginning without end": `-----BEGIN ${"A ".repeat(LONG / 2)}`,
    "bearers and blanks": "bearer ".repeat(LONG / 7),
    "one bearer and blanks": `bearer${" ".repeat(LONG)}`,
    blanks: " ".repeat(LONG),
    "angle brackets": "<".repeat(LONG),
    "brackets and ends": "<>;".repeat(LONG / 3),
    backslashes: "\\".repeat(LONG),
    "signs of markup": "*_".repeat(LONG / 2),
    www: "www".repeat(LONG / 3),
  };
  /** What a text of this length may cost at most: each really takes a few milliseconds; a square would take minutes. */
  const PATIENCE_MS = 3_000;

  it.each(Object.entries(TEXTS))("%s are read in time that grows with their length", async (_name, text) => {
    const began = performance.now();
    safeText(text);
    safeText(text, 2_000, [text.slice(0, 30)]);
    plainText(text, [text.slice(0, 30)]);
    inMarkdown(text, 4_000);
    outOfMarkdown(text);
    nextPageParameter(text, "cursor");
    parseRepositoryConfig(`version: 1\nx: "${text.slice(0, 20_000).replaceAll(/["\\]/g, "")}"`);
    const kid = Buffer.from(JSON.stringify({ alg: "RS256", kid: text.slice(0, 11_000) })).toString("base64url");
    const keys = createTokenKeys("https://issuer.test", {
      fetch: async () => Response.json({ keys: [] }),
      clock: { now: () => 0 },
    });
    expect((await keys.verify(`${kid}.e30.c2ln`)).ok).toBe(false);
    expect(performance.now() - began).toBeLessThan(PATIENCE_MS);
  });

  it.each(["**/**/**/**/**/x", "**/*a*a*a*a*a*a*b", "**/*a*a*a*a/**/x*x", `${"**/*a/".repeat(8)}b`])(
    "the pattern %s holds out against names made for it",
    async (pattern) => {
      const began = performance.now();
      const names = [`${"a/".repeat(1_000)}a`, `${"a".repeat(4_000)}!`, `${`${"a".repeat(200)}/`.repeat(20)}!`];
      const { archive_key: rules, ...config } = configFrom();
      const answer = await archiveKey({
        config: { ...config, archive_key: { ...rules, include: [pattern, "kept"], exclude: [pattern] } },
        tested: ["kept", ...names].map((path) => ({ path, mode: "100644", sha: "a".repeat(40) })),
        trusted: [config.workflows.prepare, config.workflows.execute].map((path) => ({
          path,
          mode: "100644",
          sha: "b".repeat(40),
        })),
      });
      expect(answer.ok).toBe(true);
      expect(performance.now() - began).toBeLessThan(PATIENCE_MS);
    },
  );

  it("patterns still mean what they say", async () => {
    const selected = async (pattern: string, path: string): Promise<boolean> => {
      const { archive_key: rules, ...config } = configFrom();
      const trusted = [config.workflows.prepare, config.workflows.execute].map((one) => ({
        path: one,
        mode: "100644",
        sha: "b".repeat(40),
      }));
      const tested = [{ path, mode: "100644", sha: "a".repeat(40) }];
      return (
        await archiveKey({
          config: { ...config, archive_key: { ...rules, include: [pattern], exclude: [] } },
          tested,
          trusted,
        })
      ).ok;
    };
    const yes = [
      ["**", "a/b"],
      ["**/x", "x"],
      ["**/x", "a/b/x"],
      ["a/**/x", "a/x"],
      ["a/**", "a/b/c"],
      ["*.rs", "a.rs"],
      ["a*b*c", "abc"],
      ["a*b*c", "aXbYc"],
      ["*", ".x"],
      ["src/*/m?.rs", "src/a/m?.rs"],
      ["**/*a*/b", "x/ya/b"],
    ] as const;
    const no = [
      ["**/x", "ax"],
      ["a/**", "a"],
      ["*.rs", "a/b.rs"],
      ["a*ba", "aba".slice(0, 2)],
      ["ab*ba", "aba"],
      ["a/**/x", "b/x"],
      ["src/*.rs", "src/a.rs/x"],
      ["a.b", "axb"],
      ["*", "a/b"],
    ] as const;
    for (const [pattern, path] of yes) expect(await selected(pattern, path), `${pattern} ${path}`).toBe(true);
    for (const [pattern, path] of no) expect(await selected(pattern, path), `${pattern} ${path}`).toBe(false);
  });
});
