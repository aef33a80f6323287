import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { filesUnder, lex, read, root } from "./source.ts";

/** Files that a tool writes; their writers have their own tests. */
const GENERATED: ReadonlySet<string> = new Set(["worker-configuration.d.ts", "package-lock.json"]);
const SELF = "test/house/tidy.test.ts";

const written = filesUnder("").filter((file) => !GENERATED.has(file) && !/\.(?:png|ico|woff2?|zst|zip|gz)$/.test(file));
const sources = written.filter((file) => file !== SELF);
const documents = written.filter((file) => file.endsWith(".md"));

/** Words written in two halves, so that this file does not break its own rules; `_` is a blank. */
function glued(words: string): string {
  return words.replaceAll(" ", "").replaceAll("_", " ").replaceAll(",", "|");
}

/** Every line of `files` that `pattern` hits and `allowed` does not forgive, as `file:line text`. */
function hits(
  files: readonly string[],
  pattern: RegExp,
  allowed: (file: string, line: string) => boolean = () => false,
) {
  return files.flatMap((file) =>
    read(file)
      .split("\n")
      .flatMap((line, index) =>
        pattern.test(line) && !allowed(file, line) ? [`${file}:${index + 1} ${line.trim().slice(0, 120)}`] : [],
      ),
  );
}

describe("what is written", () => {
  it("has no leftover markers: do it, or say it in an issue", () => {
    expect(hits(sources, new RegExp(`\\b(?:${glued("TO DO,FIX ME,XX X,HA CK")})\\b`))).toEqual([]);
  });

  it("names no path of one machine", () => {
    const machine = /(?<![\w.~$})-])\/(?:root|work|Users|home\/(?!runner\b)[a-z]\w*)\//;
    expect(hits(sources, machine)).toEqual([]);
  });

  it("names no package registry, in the lockfile neither", () => {
    const hosts = glued("npm js,npm mirror,artifact ory,py pi,ver daccio");
    expect(hits(sources, new RegExp(`(?:${hosts})\\.`, "i"))).toEqual([]);
    expect(hits([".npmrc"], /registry\s*=\s*http/)).toEqual([]);
    const lock = read("package-lock.json");
    expect(lock).not.toContain(`"resolved"`);
    // Other hosts in it are addresses of people who may be thanked with money.
    const elsewhere = [...lock.matchAll(/"https?:\/\/([^/"]+)/g)].map((match) => match[1] ?? "");
    expect(elsewhere.filter((host) => !/^(?:github\.com|opencollective\.com|tidelift\.com)$/.test(host))).toEqual([]);
  });

  it("does not speak of how it came to be", () => {
    const names = glued("cla ude,anth ropic,open ai,chat gpt,co pilot,ll m,sub agents?,co-authored -by");
    // These words have other meanings (a process has a group of its own, HTTP a header): only the telling phrases.
    const phrases = [
      glued("language_ model,coding_ agents?,ai[-_] (?:agent|assistant|generated)"),
      `(?:this|another|an earlier|the next|by a|my) ${glued("sess ion")}`,
      `(?:this|our) ${glued("work place")}`,
      `(?:an|another|our|my|this) ${glued("ag ent")}`,
    ].join("|");
    const forbidden = new RegExp(`\\b(?:${names}|${phrases})\\b`, "i");
    expect(hits(sources, forbidden)).toEqual([]);
  });

  it("keeps files short enough to be read in one sitting", () => {
    const LIMIT = 600;
    const long: Readonly<Record<string, string>> = {
      "docs/storage.md": "half of it are example rows that a script writes",
      "docs/gpu-gate.schema.json": "made from the configuration's schema",
      "test/github/client.test.ts": "one table: a row for every question the client asks",
    };
    const lines = (file: string): number => read(file).split("\n").length;
    const tooLong = written.filter((file) => lines(file) > LIMIT);
    expect(tooLong.filter((file) => long[file] === undefined)).toEqual([]);
    // A reason for a file that has become short, or is gone, goes as well.
    expect(Object.keys(long).filter((file) => !tooLong.includes(file))).toEqual([]);
  });
});

describe("tests", () => {
  const tests = filesUnder("test", ".test.ts");

  it("are never focused", () => {
    const focused = tests.filter((file) => /\b(?:it|test|describe)(?:\.\w+)*\.only\b/.test(lex(read(file)).code));
    expect(focused).toEqual([]);
  });

  it("are not switched off without a reason on the line", () => {
    const silent = tests.flatMap((file) => {
      const text = read(file);
      const { code } = lex(text);
      // Only where the code says so: a word in a string is not a switch.
      return /\b(?:it|test|describe)\.(?:skip|todo|fails)\b/.test(code)
        ? hits([file], /\b(?:it|test|describe)\.(?:skip|todo|fails)\b/, (_file, line) => /\/\/ \S.{9}/.test(line))
        : [];
    });
    expect(silent).toEqual([]);
  });

  it("that run only under a condition say in their title which", () => {
    const silent = tests.flatMap((file) =>
      [...read(file).matchAll(/\b(?:it|test|describe)\.(?:skipIf|runIf)\([^\n]*(?:\n[^\n]*)?/g)].flatMap((match) =>
        /\((?:needs|skipped|only)\b|\bas root\b|isRoot|(?:\/\/|where) \S.{9}/.test(match[0]) || file === SELF
          ? []
          : [`${file} ${match[0].split("\n")[0]}`],
      ),
    );
    expect(silent).toEqual([]);
  });
});

describe("documents", () => {
  /** What is written between backticks, outside of fenced blocks. */
  const quoted = documents.flatMap((file) =>
    [
      ...read(file)
        .replaceAll(/^```[\s\S]*?^```/gm, "")
        .matchAll(/`([^`\n]+)`/g),
    ].map((match) => ({ file, text: match[1] ?? "" })),
  );

  it("name only paths that exist", () => {
    const top =
      /^(?:\.ci|bench|cli|cron|docs|durable-objects|local|pod|scripts|shared|sim|test|worker|workflows)\/[\w./*-]*$/;
    const missing = quoted.filter(({ text }) => {
      // `docs/../x` and `docs//x` are examples of what git never prints.
      if (!top.test(text) || /\.\.|\/\//.test(text)) return false;
      if (!text.includes("*")) return !existsSync(join(root, text));
      const pattern = new RegExp(`^${text.replaceAll(".", "\\.").replaceAll("*", "[^/]*")}$`);
      return !written.some((file) => pattern.test(file));
    });
    expect(missing.map(({ file, text }) => `${file}: ${text}`)).toEqual([]);
  });

  it("link only to files that exist", () => {
    const broken = documents.flatMap((file) =>
      [...read(file).matchAll(/\]\(([^)\s#]+)(?:#[^)]*)?\)/g)].flatMap((match) => {
        const to = match[1] ?? "";
        if (/^[a-z]+:/.test(to)) return [];
        return existsSync(join(root, file, "..", to)) ? [] : [`${file}: ${to}`];
      }),
    );
    expect(broken).toEqual([]);
  });

  it("name only npm scripts that package.json has", () => {
    const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
    const unknown = documents.flatMap((file) =>
      [...read(file).matchAll(/\bnpm run ([\w:-]+)/g)].flatMap((match) =>
        scripts[match[1] ?? ""] === undefined ? [`${file}: npm run ${match[1]}`] : [],
      ),
    );
    expect(unknown).toEqual([]);
  });

  it("have numbers of their own where they are decision records", () => {
    const numbers = filesUnder("docs/adr", ".md").map((file) => /\/(\d{4})-/.exec(file)?.[1] ?? file);
    expect(numbers.filter((number, index) => numbers.indexOf(number) !== index)).toEqual([]);
  });
});
