/** What a schema violation means for the person who wrote the file: one sentence, and what to write instead. */
import type * as z from "zod";
import { unreachable } from "../result.ts";
import type { Finding } from "./checks.ts";
import { knownKeysAt } from "./json-schema.ts";
import { retired } from "./retired.ts";

type Issue = z.core.$ZodIssue;

/** One finding for each thing that is wrong; an issue that names several unknown keys gives one for each, `limit` at most. */
export function explainIssue(issue: Issue, limit: number): Finding[] {
  if (issue.code === "unrecognized_keys") {
    return issue.keys.slice(0, limit).map((key) => unknownKey(issue.path, key));
  }
  const { message, fix } = wording(issue);
  return [{ path: issue.path, at: "value", message, fix }];
}

/** The names look like any CUDA version, and the nearest one is seldom what was meant. */
const NVRTC_VERSIONS =
  "The versions are 12.6 and 12.8: drivers of CUDA 12.8 and newer, 13.0 included, take 12.8, those of 12.6 and 12.7 take 12.6.";

function unknownKey(path: readonly PropertyKey[], key: string): Finding {
  const gone = retired([...path, key]);
  if (gone !== null) {
    return {
      path: [...path, key],
      at: "key",
      message: `\`${key}\` is no key any more: ${gone.why}`,
      fix: "Remove it.",
    };
  }
  if (path.join(".") === "gpu.nvrtc") {
    const message = `\`${key}\` is no NVRTC that a pod takes`;
    return { path: [...path, key], at: "key", message, fix: NVRTC_VERSIONS };
  }
  const known = knownKeysAt(path);
  const nearest = nearestName(key, known);
  const place = path.length === 0 ? "at the top level" : `under \`${path.map(String).join(".")}\``;
  return {
    path: [...path, key],
    at: "key",
    message: `there is no key \`${key}\` ${place}`,
    fix: nearest === null ? `Known here: ${known.join(", ")}.` : `Did you mean \`${nearest}\`?`,
  };
}

function wording(issue: Issue): { message: string; fix: string } {
  switch (issue.code) {
    case "invalid_type":
      return typeWording(issue.expected, issue.input);
    case "invalid_value": {
      if (issue.input === undefined) {
        return {
          message: "this key is missing",
          fix: `Write \`${String(issue.path.at(-1))}: ${String(issue.values[0])}\`.`,
        };
      }
      const values = issue.values.map((value) => `\`${String(value)}\``).join(", ");
      const nearest = typeof issue.input === "string" ? nearestName(issue.input, issue.values.map(String)) : null;
      const fix = nearest === null ? "Choose one of these." : `Did you mean \`${nearest}\`?`;
      // Whoever has a reason why it is this and nothing else wrote it into the schema.
      const reason = issue.message.startsWith("must ") ? formatSentence(issue.message) : null;
      if (reason !== null) return { message: reason, fix: `Write ${values}, or leave the key out.` };
      return {
        message: issue.values.length === 1 ? `only ${values} is possible here` : `only ${values} are possible here`,
        fix: issue.values.length === 1 ? `Write ${values}.` : fix,
      };
    }
    case "too_big": {
      const bound = String(issue.maximum);
      return {
        message: `at most ${bound}${sizeWord(issue.origin, bound)} here`,
        fix: `Write ${bound}${sizeWord(issue.origin, bound)} or less.`,
      };
    }
    case "too_small": {
      const bound = String(issue.minimum);
      const relation = issue.inclusive === false ? "more than" : "at least";
      return {
        message: `${relation} ${bound}${sizeWord(issue.origin, bound)} here`,
        fix: `Write ${relation} ${bound}${sizeWord(issue.origin, bound)}.`,
      };
    }
    case "invalid_format":
      return { message: formatSentence(issue.message), fix: "Correct the text." };
    case "invalid_union": {
      const inner = issue.errors.flat().find((candidate) => candidate.code === "invalid_format");
      return {
        message: inner === undefined ? "none of the possible forms fits" : formatSentence(inner.message),
        fix: "Correct the value.",
      };
    }
    case "invalid_key":
      return { message: "this name is not possible here", fix: "Use lower case letters, digits and _." };
    case "custom":
    case "invalid_element":
    case "not_multiple_of":
    case "unrecognized_keys":
      return { message: formatSentence(issue.message), fix: "Correct the value." };
    default:
      return unreachable(issue, "schema issue");
  }
}

function formatSentence(message: string): string {
  return message.startsWith("must ") ? `it ${message}` : message;
}

function typeWording(expected: string, input: unknown): { message: string; fix: string } {
  const word = TYPE_WORDS[expected] ?? expected;
  if (input === undefined) return { message: "this key is missing", fix: `Write ${word} here.` };
  const quoted = expected === "string" && typeof input === "number" ? `Write "${input}" in quotes.` : `Write ${word}.`;
  return { message: `${word} is needed here, not ${inputWord(input)}`, fix: quoted };
}

const TYPE_WORDS: Readonly<Record<string, string>> = {
  object: "a map of keys",
  record: "a map of keys",
  array: "a list",
  string: "a text",
  number: "a number",
  int: "a whole number",
  boolean: "`true` or `false`",
};

function inputWord(input: unknown): string {
  if (input === null) return "nothing";
  if (Array.isArray(input)) return "a list";
  if (typeof input === "object") return "a map of keys";
  if (typeof input === "string") return `the text \`${input.slice(0, 40)}\``;
  return `\`${JSON.stringify(input)}\``;
}

function sizeWord(origin: string, bound: string): string {
  if (origin === "string") return bound === "1" ? " character" : " characters";
  if (origin === "array") return bound === "1" ? " entry" : " entries";
  return "";
}

/** The candidate that differs by the fewest edits, if it is close enough to be a slip of the pen. */
export function nearestName(name: string, candidates: readonly string[]): string | null {
  let best: { candidate: string; distance: number } | null = null;
  for (const candidate of candidates) {
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (best === null || distance < best.distance) best = { candidate, distance };
  }
  const allowed = Math.max(2, Math.floor(name.length / 3));
  return best !== null && best.distance <= allowed ? best.candidate : null;
}

function editDistance(from: string, to: string): number {
  if (Math.abs(from.length - to.length) > 20) return Number.POSITIVE_INFINITY;
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
