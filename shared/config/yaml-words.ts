/**
 * What is wrong with a text that is no YAML, in words for whoever wrote it. The library speaks of implicit keys and flow
 * collections, which are the specification's words and nobody else's.
 */
import type { YAMLError } from "yaml";

export interface YamlFault {
  readonly says: string;
  readonly fix: string;
}

const OPENING: Readonly<Record<string, string>> = { "]": "[", "}": "{" };

/** The fault in plain words; the library's own where it is a rare one. */
export function yamlWords(fault: Pick<YAMLError, "code" | "message">): YamlFault {
  const { code, message } = fault;
  const closing = /end with an? ([\]}])/.exec(message)?.[1];
  const open = closing === undefined ? undefined : OPENING[closing];
  if (closing !== undefined && open !== undefined) {
    return { says: `a \`${open}\` is opened and not closed before this place`, fix: `Close it with \`${closing}\`.` };
  }
  switch (code) {
    case "BLOCK_AS_IMPLICIT_KEY":
      return {
        says: "a value is followed by another `key: value`, on its line or indented below it",
        fix: "Give each key a line of its own, indented like its neighbours; put a value with a colon in quotes.",
      };
    case "MULTILINE_IMPLICIT_KEY":
      return {
        says: "a key without a colon",
        fix: "Write `key: value`, on one line and indented like its neighbours.",
      };
    case "BAD_INDENT":
      return { says: "this line is not indented like its neighbours", fix: "Begin all keys of one map in one column." };
    case "TAB_AS_INDENT":
      return { says: "a tab is used for indentation", fix: "Indent with blanks." };
    case "MISSING_CHAR":
      if (/quote/.test(message)) return { says: "a quotation mark is not closed before this place", fix: "Close it." };
      if (/map value/.test(message)) return { says: "a key without a colon", fix: "Write `key: value`." };
      break;
    case "BAD_SCALAR_START":
      return { says: "a value begins with a character that YAML keeps for itself", fix: "Put the value in quotes." };
    case "BAD_DQ_ESCAPE":
      return {
        says: "there is no such escape in double quotes",
        fix: "Use single quotes, or write `\\\\` for one backslash.",
      };
    case "MULTIPLE_DOCS":
      return { says: "a second document begins here (`---`)", fix: "Keep one document in the file." };
    case "TAG_RESOLVE_FAILED":
      return {
        says: "a word with `!` in front is a tag, and no tag is known here",
        fix: "Remove it, or put it in quotes.",
      };
    case "UNEXPECTED_TOKEN":
      return {
        says: "something stands here that does not belong here",
        fix: "Remove it, or put the whole value in quotes.",
      };
    default:
      break;
  }
  return { says: message, fix: "Correct the YAML at this place." };
}
