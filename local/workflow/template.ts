/** Text with `${{ }}` in it: parsed once, rendered where the context is known. */
import { err, ok, type Result } from "../../shared/result.ts";
import { evaluate, textOf, type Context, type ExpressionProblem, type Value } from "./evaluate.ts";
import { parseExpression, type Expression, type SyntaxProblem } from "./syntax.ts";

export interface Template {
  /** As it was written. */
  readonly source: string;
  readonly parts: readonly (string | Expression)[];
}

/** The offset of a problem counts from the beginning of the whole text. */
export function parseTemplate(source: string): Result<Template, SyntaxProblem> {
  const parts: (string | Expression)[] = [];
  let rest = 0;
  for (;;) {
    const start = source.indexOf("${{", rest);
    if (start < 0) {
      if (rest < source.length) parts.push(source.slice(rest));
      return ok({ source, parts });
    }
    if (start > rest) parts.push(source.slice(rest, start));
    const end = endOf(source, start + 3);
    if (end < 0) return err({ reason: "syntax", message: "'${{' is never closed", offset: start });
    const parsed = parseExpression(source.slice(start + 3, end));
    if (!parsed.ok) return err({ ...parsed.error, offset: parsed.error.offset + start + 3 });
    parts.push(parsed.value);
    rest = end + 2;
  }
}

/** A `}}` inside a quoted string closes nothing. */
function endOf(source: string, from: number): number {
  let quoted = false;
  for (let index = from; index < source.length; index += 1) {
    if (source[index] === "'") quoted = !quoted;
    else if (!quoted && source.startsWith("}}", index)) return index;
  }
  return -1;
}

export function plainTemplate(source: string): Template {
  return { source, parts: source === "" ? [] : [source] };
}

/** The text; expressions become text by GitHub's rules. */
export function render(template: Template, context: Context): Result<string, ExpressionProblem> {
  let text = "";
  for (const part of template.parts) {
    if (typeof part === "string") text += part;
    else {
      const value = evaluate(part, context);
      if (!value.ok) return value;
      text += textOf(value.value);
    }
  }
  return ok(text);
}

/** A text that is one expression keeps the value's type (`timeout-minutes: ${{ fromJSON(...) }}`); any other is rendered. */
export function renderValue(template: Template, context: Context): Result<Value, ExpressionProblem> {
  const [only] = template.parts;
  return template.parts.length === 1 && only !== undefined && typeof only !== "string"
    ? evaluate(only, context)
    : render(template, context);
}

export function hasExpression(template: Template): boolean {
  return template.parts.some((part) => typeof part !== "string");
}
