/** The workflow commands a step prints (`::notice title=...::text`), and the files it leaves name=value pairs in. */
import type { AnnotationReport } from "./work.ts";

/**
 * The commands `::notice`, `::warning` and `::error` in a step's output, with the title they may carry. Between
 * `::stop-commands::token` and `::token::` nothing is a command.
 */
export function annotationsIn(output: string): AnnotationReport[] {
  const found: AnnotationReport[] = [];
  let stopped: string | null = null;
  for (const written of output.split("\n")) {
    const line = written.trimEnd();
    if (stopped !== null) {
      if (line === `::${stopped}::`) stopped = null;
      continue;
    }
    const [, kind, properties = "", message = ""] =
      /^::(notice|warning|error|stop-commands)(?: (.*?))?::(.*)$/.exec(line) ?? [];
    if (kind === undefined) continue;
    if (kind === "stop-commands") {
      stopped = message;
      continue;
    }
    const title = /(?:^|,)title=([^,]*)/.exec(properties)?.[1];
    const level = kind === "error" ? "failure" : kind === "warning" ? "warning" : "notice";
    found.push({ title: title === undefined ? null : unescape(title), message: unescape(message), level });
  }
  return found;
}

function unescape(text: string): string {
  return text
    .replaceAll("%0D", "\r")
    .replaceAll("%0A", "\n")
    .replaceAll("%3A", ":")
    .replaceAll("%2C", ",")
    .replaceAll("%25", "%");
}

export type Pairs =
  | { readonly ok: true; readonly values: Readonly<Record<string, string>> }
  | { readonly ok: false; readonly problem: string };

/** Reads GITHUB_OUTPUT or GITHUB_ENV: `name=value` lines, and `name<<END`, lines, `END`. */
export function readPairs(text: string): Pairs {
  const values: Record<string, string> = {};
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; at += 1) {
    const line = (lines[at] ?? "").replace(/\r$/, "");
    if (line === "") continue;
    const [, name = "", mark = "", rest = ""] = /^(.+?)(=|<<)(.*)$/.exec(line) ?? [];
    if (name === "") return { ok: false, problem: `Invalid format '${line}'` };
    if (mark === "=") {
      values[name] = rest;
      continue;
    }
    const end = lines.findIndex((one, index) => index > at && one.replace(/\r$/, "") === rest);
    if (end < 0) return { ok: false, problem: `Invalid value. Matching delimiter not found '${rest}'` };
    values[name] = lines.slice(at + 1, end).join("\n");
    at = end;
  }
  return { ok: true, values };
}
