/**
 * Paths of an upload: files, folders, patterns, and patterns to leave out, as the action's own search reads them.
 *
 * `*`, `?` and `[...]` stay within a folder, `**` spans any; a folder that fits brings all below it; `!` takes away again.
 * What lies before the first wildcard is where the search begins, and the deepest folder that all searches share is the
 * root of the artifact. Source: the documentation of actions/upload-artifact and of @actions/glob.
 */
import { existsSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

export interface Found {
  readonly files: readonly string[];
  /** The folder that the names in the artifact begin from. */
  readonly root: string;
}

const WILD = /[*?[]/;

/** `lines` as written; `place` gives the full path of one, or refuses it. */
export function findFiles(lines: readonly string[], place: (path: string) => string): Found {
  const found = new Set<string>();
  const starts: string[] = [];
  for (const line of lines) {
    if (line.startsWith("!")) {
      const out = matcher(place(line.slice(1).trim()));
      for (const file of found) if (out(file)) found.delete(file);
      continue;
    }
    const full = place(line);
    const start = searchStart(full);
    starts.push(start);
    if (!existsSync(start)) continue;
    const fits = matcher(full);
    for (const file of filesBelow(start)) if (fits(file)) found.add(file);
  }
  const [first = ""] = starts;
  const single = starts.length === 1 && found.has(first);
  return { files: [...found], root: single ? dirname(first) : starts.reduce(commonParent, first) };
}

/** The path up to its first part with a wildcard. */
function searchStart(full: string): string {
  const parts = full.split("/");
  const wild = parts.findIndex((part) => WILD.test(part));
  return wild === -1 ? full : parts.slice(0, wild).join("/");
}

/** Whether a file fits a pattern itself, or lies in a folder that does. */
function matcher(full: string): (file: string) => boolean {
  const parts = full.split("/").filter((part) => part !== "");
  const source = parts.map((part) => (part === "**" ? "(?:/[^/]+)*" : `/${partSource(part)}`)).join("");
  const pattern = new RegExp(`^${source}(?:/.*)?$`, "su");
  return (file) => pattern.test(file);
}

function partSource(part: string): string {
  return part.replaceAll(/\[(!?)([^\]]+)\]|\*+|\?|[\\^$.+()|{}[\]]/g, (mark, not?: string, set?: string) => {
    if (set !== undefined) return `[${not === "!" ? "^" : ""}${set.replaceAll(/[\\^\]]/g, "\\$&")}]`;
    if (mark.startsWith("*")) return "[^/]*";
    return mark === "?" ? "[^/]" : `\\${mark}`;
  });
}

/** Hidden files stay out, as the action leaves them out unless told otherwise. */
function filesBelow(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => !entry.name.startsWith("."))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => filesBelow(join(path, entry.name)));
}

function commonParent(a: string, b: string): string {
  let parent = a;
  while (b !== parent && !b.startsWith(`${parent}/`)) parent = dirname(parent);
  return parent;
}
