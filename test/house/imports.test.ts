import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { exceptions, impurities, ioModules, outside, parts, pureFolders, scanned, type Part } from "./import-rules.ts";
import { filesUnder, importsOf, lex, read, root, target, type Import } from "./source.ts";

const within = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`);
const isPath = (reached: string): boolean => reached.includes("/") && existsSync(join(root, reached));

function packageAllowed(name: string, part: Part): boolean {
  return part.packages.some((allowed) => {
    if (allowed === "node:") return name.startsWith("node:");
    if (allowed.endsWith("/*")) return name.startsWith(allowed.slice(0, -1));
    return name === allowed;
  });
}

/** One import against the row of its file: null, or what is wrong. */
function broken(file: string, part: Part, found: Import): string | null {
  const where = `${file}:${found.line}`;
  if (found.specifier === null) return `${where} imports something computed; name the file`;
  const reached = target(file, found.specifier);
  if (!found.specifier.startsWith(".")) {
    return packageAllowed(reached, part) ? null : `${where} imports ${reached}: ${part.folder} may not (${part.why})`;
  }
  if (!existsSync(join(root, reached))) return `${where} imports ${reached}, which does not exist`;
  if (within(reached, part.folder) || part.values.some((allowed) => within(reached, allowed))) return null;
  if (found.typeOnly && (part.types ?? []).some((allowed) => within(reached, allowed))) return null;
  const how = (part.types ?? []).some((allowed) => within(reached, allowed)) ? "other than as a type" : "at all";
  return `${where} imports ${reached}: ${part.folder} may not, ${how} (${part.why})`;
}

/** The chain of imports by which `start` reaches a module that does I/O, or null. Erased imports lead nowhere. */
function chainToIo(start: string): readonly string[] | null {
  const seen = new Set([start]);
  const open: { readonly file: string; readonly chain: readonly string[] }[] = [{ file: start, chain: [start] }];
  for (let next = open.shift(); next !== undefined; next = open.shift()) {
    for (const { specifier, typeOnly } of importsOf(read(next.file))) {
      if (typeOnly || specifier === null) continue;
      const reached = target(next.file, specifier);
      const chain = [...next.chain, reached];
      if (ioModules.includes(reached) || /^(?:node|cloudflare):/.test(reached)) return chain;
      if (!isPath(reached) || seen.has(reached)) continue;
      seen.add(reached);
      open.push({ file: reached, chain });
    }
  }
  return null;
}

describe("who may import whom", () => {
  it.each(parts.map((part) => [part.folder, part] as const))("%s imports only what its row allows", (_folder, part) => {
    const problems = filesUnder(part.folder, ".ts").flatMap((file) =>
      importsOf(read(file)).flatMap((found) => broken(file, part, found) ?? []),
    );
    expect(problems).toEqual([]);
  });

  it("has a row for every folder with TypeScript in it", () => {
    const rowless = filesUnder("", ".ts").filter((file) => {
      if (!file.includes("/")) return false; // configuration files of tools
      if (outside.some((folder) => within(file, folder))) return false;
      // Files directly in shared/ are read as part of whoever imports them; the scan below covers them.
      if (/^shared\/[^/]+$/.test(file)) return false;
      return !parts.some((part) => within(file, part.folder));
    });
    expect(rowless).toEqual([]);
  });

  it("keeps what ships apart from tests, benchmarks and scripts", () => {
    const problems = parts.flatMap((part) =>
      [...part.values, ...(part.types ?? [])].filter((allowed) => outside.some((folder) => within(allowed, folder))),
    );
    expect(problems).toEqual([]);
  });

  it.each(pureFolders)("%s reaches no module that does I/O, by any chain", (folder) => {
    expect(filesUnder(folder, ".ts").flatMap((file) => chainToIo(file)?.join(" -> ") ?? [])).toEqual([]);
  });

  it("names modules that exist as those that do I/O", () => {
    expect(ioModules.filter((file) => !existsSync(join(root, file)))).toEqual([]);
  });
});

describe("clock, randomness, network and timers", () => {
  const uses = scanned.flatMap((folder) =>
    filesUnder(folder, ".ts").flatMap((file) => {
      const { code } = lex(read(file));
      return impurities.flatMap((impurity) =>
        [...code.matchAll(impurity.pattern)].map((match) => ({
          file,
          name: impurity.name,
          says: `${file}:${code.slice(0, match.index).split("\n").length} uses ${impurity.name}; use ${impurity.use}`,
        })),
      );
    }),
  );

  it("reach the code through ports only", () => {
    const allowed = new Set(exceptions.map(({ file, name }) => `${file} ${name}`));
    expect(uses.filter(({ file, name }) => !allowed.has(`${file} ${name}`)).map(({ says }) => says)).toEqual([]);
  });

  it("have no exception that nothing needs", () => {
    const used = new Set(uses.map(({ file, name }) => `${file} ${name}`));
    expect(exceptions.filter(({ file, name }) => !used.has(`${file} ${name}`))).toEqual([]);
  });
});

describe("the reader of imports", () => {
  const specifiers = (text: string) => importsOf(text).map(({ specifier, typeOnly }) => [specifier, typeOnly]);

  it("finds every form of import and tells erased ones", () => {
    const text = [
      `import * as z from "zod";`,
      `import "side-effect";`,
      `import type { A } from './a.ts';`,
      `export { b } from "./b.ts";`,
      `export type { C } from "./c.ts";`,
      `export * from "./d.ts";`,
      `import {`,
      `  e,`,
      `} from "./e.ts"; import f from "./f.ts";`,
      `const g = await import("./g.ts");`,
      `const h = await import(name);`,
    ].join("\n");
    expect(specifiers(text)).toEqual([
      ["zod", false],
      ["side-effect", false],
      ["./a.ts", true],
      ["./b.ts", false],
      ["./c.ts", true],
      ["./d.ts", false],
      ["./e.ts", false],
      ["./f.ts", false],
      ["./g.ts", false],
      [null, false],
    ]);
  });

  it("is not misled by comments, strings, templates and regular expressions", () => {
    const text = [
      `// import "a"`,
      `/* import { b } from "b"; */`,
      `const text = 'import "c"';`,
      'const lines = `\nimport "d";\n${inner("}", `import "e"`)}\nimport "f";\n`;',
      `const quote = /["'/\`]/; const half = a / b; import "real";`,
      `const from = "g"; export const h = "from";`,
    ].join("\n");
    expect(specifiers(text)).toEqual([["real", false]]);
  });

  it("sees a use of the clock in code and in a template's expression, not in words about it", () => {
    const { code } = lex("// Date.now()\nconst a = 'Date.now()'; const b = `Date.now() ${Date.now()}`;");
    expect(code.match(/Date\.now/g)).toEqual(["Date.now"]);
    expect(code.split("\n")).toHaveLength(2);
  });
});
