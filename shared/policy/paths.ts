/**
 * Paths as the change policy reads them.
 *
 * Two kinds of input exist. *Text* (arguments, lines, a corpus) is written by people: trimmed, one leading `./` taken
 * away. *Exact* names come from git's NUL-separated output or from GitHub's file list and are taken as they are: a file
 * in a folder called ` docs` is not documentation, whoever trims it away.
 */

/**
 * What is trimmed from text: the whitespace of Unicode, plus the four separators U+001C to U+001F and U+0085. A byte
 * order mark stays: trimming it would turn a name that git holds apart from `README.md` into documentation.
 */
const BLANK = "[\\t-\\r\\u001c-\\u0020\\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const OUTER_BLANKS = new RegExp(`^${BLANK}+|${BLANK}+$`, "g");

/** Paths from text: trimmed, empty ones dropped, ONE leading `./` removed. A second `./` stays and makes it unknown. */
export function pathsFromText(raw: readonly string[]): string[] {
  const paths: string[] = [];
  for (const entry of raw) {
    const trimmed = entry.replace(OUTER_BLANKS, "");
    if (trimmed !== "") paths.push(trimmed.startsWith("./") ? trimmed.slice(2) : trimmed);
  }
  return paths;
}

/**
 * Whether git could print this name. It never prints an empty, `.`, `..` or `.git` part, nor a NUL; a prefix match
 * alone would take `docs/../src/main.rs` for documentation.
 */
export function isPrintableByGit(path: string): boolean {
  if (path === "" || path.includes("\u0000")) return false;
  if (!SUSPICIOUS.test(path)) return true;
  return path.split("/").every((part) => part !== "" && part !== "." && part !== ".." && part.toLowerCase() !== ".git");
}

/** Cheap first look: only such names need the slow one. */
const SUSPICIOUS = /^\/|\/\/|\/$|(?:^|\/)\.{1,2}(?:\/|$)|(?:^|\/)\.git(?:\/|$)/i;

/** Order by Unicode code point, where JavaScript's own order is by UTF-16 unit (an astral sign sorts after U+FFFF). */
export function byCodePoint(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let index = 0; index < length; index += 1) {
    const a = left.charCodeAt(index);
    const b = right.charCodeAt(index);
    if (a === b) continue;
    // Surrogates (U+D800 to U+DFFF) stand for code points above every other unit.
    return rank(a) - rank(b);
  }
  return left.length - right.length;
}

function rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}

/** Where the two orders can differ: surrogates, and the units above them. */
const ORDERS_DIFFER = /[\ud800-\uffff]/;

/** Without repeats, in code point order. */
export function sortedUnique(paths: Iterable<string>): string[] {
  const unique = [...new Set(paths)];
  return unique.some((path) => ORDERS_DIFFER.test(path)) ? unique.sort(byCodePoint) : unique.sort();
}
