/**
 * Text from outside (names of branches, files, jobs, GPUs; titles; a provider's words), made fit for the place it is shown.
 *
 * A terminal obeys control characters, a reader is deceived by those that turn the direction of writing, Markdown has
 * markup, and GitHub makes mentions, references and links of what Markdown has left as text.
 */

/** Control characters (C1, which some terminals obey, and separators included) and the signs that turn the direction. */
const UNSEEN = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+/gu;

/** One line without signs that act instead of being seen. */
export function onOneLine(text: string): string {
  return text.replaceAll(UNSEEN, " ");
}

/** Breaks what GitHub looks for in finished text. An entity, so that it is seen in the source and takes no room. */
const BREAK = "&#8203;";

/** Inside Markdown, a table's cell included: no markup, no mention, no reference, no link, one line, `limit` characters. */
export function inMarkdown(text: string, limit = 300): string {
  return onOneLine(text)
    .slice(0, limit)
    .replaceAll("&", "&amp;")
    .replaceAll(/[\\`*_{}[\]<>#|@!~$]/g, (sign) => `\\${sign}`)
    .replaceAll(/\\[@#]|:(?=\/\/)|\bwww(?=\.)|\bGH(?=-\d)/gi, (sign) => `${sign}${BREAK}`);
}

/** As Markdown code: shown as it is. Inside a span only its fence has a meaning, and line breaks end it. */
export function codeSpan(text: string, limit = 300): string {
  const shown = onOneLine(text).replaceAll("`", " ").slice(0, limit);
  return `\`${shown.trim() === "" ? "-" : shown}\``;
}

/** The words of such Markdown, for a terminal. */
export function outOfMarkdown(markdown: string): string {
  return markdown
    .replaceAll(BREAK, "")
    .replaceAll(/\\([\\`*_{}[\]<>#|@!~$])/g, "$1")
    .replaceAll("&amp;", "&");
}
