/**
 * Reading the tree as text: which files there are, what a TypeScript file imports, and its code without comments and
 * without the contents of its strings. A small lexer, not a parser: enough for rules about names and imports.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";

export const root = join(import.meta.dirname, "../..");

/** Folders that are made, not written. `.git` and the rest are never part of a rule. */
const MADE: ReadonlySet<string> = new Set(["node_modules", "dist", ".git", ".wrangler", ".local-world", "coverage"]);

/** Every written file under `folder`, as paths from the repository's root, in a fixed order. */
export function filesUnder(folder: string, ending = ""): readonly string[] {
  const start = join(root, folder);
  if (!existsSync(start)) return [];
  return readdirSync(start, { withFileTypes: true })
    .flatMap((entry) => {
      const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory()) return MADE.has(entry.name) ? [] : filesUnder(path, ending);
      return entry.isFile() && entry.name.endsWith(ending) ? [path] : [];
    })
    .sort();
}

export function read(path: string): string {
  return readFileSync(join(root, path), "utf8");
}

export interface Import {
  /** The specifier as written; `null` for `import(...)` of something computed. */
  readonly specifier: string | null;
  /** Erased before it runs: `import type` and `export type`. */
  readonly typeOnly: boolean;
  readonly line: number;
}

/** Import, export-from and dynamic import specifiers of a TypeScript text, comments left out. */
export function importsOf(text: string): readonly Import[] {
  const { code, strings } = lex(text);
  const found: Import[] = [];
  // Strings are cut out of `code` and replaced by their number, so no quotation can look like an import.
  const statement = /(?:^|[;{}\n])\s*(import|export)\b(\s+type\b)?(?:[^;"'`()=]*?\bfrom)?\s*"(\d+)"/g;
  const dynamic = /\bimport\s*\(\s*(?:"(\d+)"\s*[,)])?/g;
  const at = (index: number): number => code.slice(0, index).split("\n").length;
  for (const match of code.matchAll(statement)) {
    const specifier = strings[Number(match[3])] ?? null;
    found.push({ specifier, typeOnly: match[2] !== undefined, line: at(match.index + match[0].length) });
  }
  for (const match of code.matchAll(dynamic)) {
    const specifier = match[1] === undefined ? null : (strings[Number(match[1])] ?? null);
    // `import("x").Type` in a type is a dynamic import to this lexer: the stricter reading.
    found.push({ specifier, typeOnly: false, line: at(match.index) });
  }
  return found;
}

/** Where a relative specifier leads, from the root; a package's or a module's name as it is. */
export function target(file: string, specifier: string): string {
  return specifier.startsWith(".") ? posix.normalize(posix.join(posix.dirname(file), specifier)) : specifier;
}

/** The text without comments; each string is replaced by `"<its number>"`, template text by nothing. Lines stay. */
export function lex(text: string): { readonly code: string; readonly strings: readonly string[] } {
  const strings: string[] = [];
  let code = "";
  let index = 0;
  /** For each open template expression: how many braces are open inside of it. */
  const templates: number[] = [];

  const blank = (part: string): string => part.replaceAll(/[^\n]/g, "");
  const until = (end: number): void => {
    code += blank(text.slice(index, end));
    index = end;
  };
  /** Text of a template up to its end or its next expression. */
  const template = (): void => {
    let end = index;
    while (end < text.length) {
      if (text[end] === "\\") end += 2;
      else if (text[end] === "`") {
        until(end + 1);
        return;
      } else if (text[end] === "$" && text[end + 1] === "{") {
        until(end + 2);
        templates.push(0);
        code += "(";
        return;
      } else end += 1;
    }
    until(end);
  };

  while (index < text.length) {
    const char = text[index] ?? "";
    const two = text.slice(index, index + 2);
    if (two === "//") {
      const end = text.indexOf("\n", index);
      until(end < 0 ? text.length : end);
    } else if (two === "/*") {
      const end = text.indexOf("*/", index + 2);
      until(end < 0 ? text.length : end + 2);
    } else if (char === '"' || char === "'") {
      let end = index + 1;
      while (end < text.length && text[end] !== char && text[end] !== "\n") end += text[end] === "\\" ? 2 : 1;
      code += `"${strings.length}"`;
      strings.push(text.slice(index + 1, end));
      index = end + 1;
    } else if (char === "`") {
      index += 1;
      template();
    } else if (char === "/" && regexCanStart(code)) {
      let end = index + 1;
      let inClass = false;
      while (end < text.length && text[end] !== "\n" && (inClass || text[end] !== "/")) {
        if (text[end] === "[") inClass = true;
        if (text[end] === "]") inClass = false;
        end += text[end] === "\\" ? 2 : 1;
      }
      code += "0";
      until(end + 1);
    } else {
      const open = templates.at(-1);
      if (open !== undefined && char === "{") templates[templates.length - 1] = open + 1;
      if (open !== undefined && char === "}") {
        if (open === 0) {
          templates.pop();
          code += ")";
          index += 1;
          template();
          continue;
        }
        templates[templates.length - 1] = open - 1;
      }
      code += char;
      index += 1;
    }
  }
  return { code, strings };
}

/** After a value a slash divides; after an operator, a bracket or a keyword it begins a regular expression. */
function regexCanStart(before: string): boolean {
  const tail = before.trimEnd();
  if (tail === "" || /(?:^|[^\w$.])(?:return|typeof|case|in|of|do|else|void|await|yield)$/.test(tail)) return true;
  return /[=(,:;!&|?{}[+\-*%<>~^]$/.test(tail);
}
