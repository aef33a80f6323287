/**
 * HTML by template, escaped by default: what a template inserts is text, unless it is HTML made by another template.
 */

/** Finished HTML. Only `html` and `trusted` make it. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export type Insert = Html | string | number | null | readonly Insert[];

/** A template whose insertions are escaped; null inserts nothing, a list inserts each of its members. */
export function html(parts: TemplateStringsArray, ...inserts: readonly Insert[]): Html {
  const text = parts.reduce((done, part, index) => {
    const insert = inserts[index - 1];
    return `${done}${insert === undefined ? "" : inserted(insert)}${part}`;
  });
  return new Html(text);
}

/** Text of this program's own that is HTML, CSS or script already. Never for anything from outside. */
export function trusted(text: string): Html {
  return new Html(text);
}

function inserted(insert: Insert): string {
  if (insert === null) return "";
  if (insert instanceof Html) return insert.text;
  if (typeof insert === "string") return escapeText(insert);
  if (typeof insert === "number") return String(insert);
  return insert.map(inserted).join("");
}

/** Safe as text and inside a quoted attribute. */
export function escapeText(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&#39;");
}
