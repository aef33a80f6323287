/**
 * What an expression is worth in a context, by GitHub's rules: loose comparison through numbers, strings without case,
 * missing properties are null, `&&` and `||` give one of their operands.
 *
 * Source: GitHub's documentation of expressions, sections on operators, functions and status checks.
 */
import { err, ok, unreachable, type Result } from "../../shared/result.ts";
import { parseExpression, type Expression, type FunctionName, type SyntaxProblem } from "./syntax.ts";

export type Value = null | boolean | number | string | readonly Value[] | { readonly [key: string]: Value };

/** How things stand where the expression is read. A job looks at its ancestors, a step at the steps before it. */
export interface Status {
  readonly success: boolean;
  readonly failure: boolean;
  readonly cancelled: boolean;
}

export interface Context {
  readonly values: { readonly [context: string]: Value };
  readonly status: Status;
}

export type ExpressionProblem = SyntaxProblem | { readonly reason: "value"; readonly message: string };

/** Evaluates an expression, given as text (without `${{ }}`) or as a tree. */
export function evaluate(expression: Expression | string, context: Context): Result<Value, ExpressionProblem> {
  if (typeof expression === "string") {
    const parsed = parseExpression(expression);
    return parsed.ok ? evaluate(parsed.value, context) : parsed;
  }
  try {
    return ok(valueOf(expression, context));
  } catch (problem) {
    if (problem instanceof BadValue) return err({ reason: "value", message: problem.message });
    throw problem;
  }
}

/** False, zero, the empty string, null and NaN are false. */
export function isTrue(value: Value): boolean {
  return !(value === null || value === false || value === 0 || value === "" || Number.isNaN(value));
}

/** A value as text: what stands in a string, an environment variable or an input afterwards. */
export function textOf(value: Value): string {
  if (value === null) return "";
  if (typeof value === "object") return Array.isArray(value) ? "Array" : "Object";
  return String(value);
}

class BadValue extends Error {}

function valueOf(expression: Expression, context: Context): Value {
  switch (expression.kind) {
    case "literal":
      return expression.value;
    case "context":
      return context.values[expression.name] ?? {};
    case "property":
      return propertyOf(valueOf(expression.of, context), valueOf(expression.key, context));
    case "not":
      return !isTrue(valueOf(expression.operand, context));
    case "binary":
      return binary(expression, context);
    case "call":
      return call(
        expression.name,
        expression.args.map((argument) => valueOf(argument, context)),
        context.status,
      );
    default:
      return unreachable(expression, "expression");
  }
}

/** Names are found without case; whatever is missing is null, also on values that have no properties. */
function propertyOf(value: Value, key: Value): Value {
  if (value === null || typeof value !== "object") return null;
  if (isList(value)) {
    const index = toNumber(key);
    return Number.isInteger(index) ? (value[index] ?? null) : null;
  }
  const wanted = textOf(key).toLowerCase();
  const found = Object.keys(value).find((name) => name.toLowerCase() === wanted);
  return found === undefined ? null : (value[found] ?? null);
}

function isList(value: Value): value is readonly Value[] {
  return Array.isArray(value);
}

function binary(expression: Extract<Expression, { kind: "binary" }>, context: Context): Value {
  const left = valueOf(expression.left, context);
  switch (expression.operator) {
    case "||":
      return isTrue(left) ? left : valueOf(expression.right, context);
    case "&&":
      return isTrue(left) ? valueOf(expression.right, context) : left;
    case "==":
      return equal(left, valueOf(expression.right, context));
    case "!=":
      return !equal(left, valueOf(expression.right, context));
    case "<":
    case "<=":
    case ">":
    case ">=":
      return ordered(expression.operator, left, valueOf(expression.right, context));
    default:
      return unreachable(expression.operator, "operator");
  }
}

function equal(left: Value, right: Value): boolean {
  if (typeof left === "string" && typeof right === "string") return left.toLowerCase() === right.toLowerCase();
  if (left === null && right === null) return true;
  if (typeof left === "object" && typeof right === "object" && left !== null && right !== null) return left === right;
  return toNumber(left) === toNumber(right);
}

function ordered(operator: "<" | "<=" | ">" | ">=", left: Value, right: Value): boolean {
  const texts = typeof left === "string" && typeof right === "string";
  const a = texts ? left.toLowerCase() : toNumber(left);
  const b = texts ? right.toLowerCase() : toNumber(right);
  if (operator === "<") return a < b;
  if (operator === "<=") return a <= b;
  return operator === ">" ? a > b : a >= b;
}

function toNumber(value: Value): number {
  if (value === null) return 0;
  if (typeof value === "boolean") return value ? 1 : 0;
  if (typeof value === "number") return value;
  if (typeof value !== "string") return Number.NaN;
  return value.trim() === "" ? 0 : Number(value);
}

function call(name: FunctionName, args: readonly Value[], status: Status): Value {
  const [first = null, second = null] = args;
  switch (name) {
    case "always":
      return true;
    case "success":
    case "failure":
    case "cancelled":
      return status[name];
    case "contains":
      if (first !== null && isList(first)) return first.some((item) => equal(item, second));
      return textOf(first).toLowerCase().includes(textOf(second).toLowerCase());
    case "startswith":
      return textOf(first).toLowerCase().startsWith(textOf(second).toLowerCase());
    case "endswith":
      return textOf(first).toLowerCase().endsWith(textOf(second).toLowerCase());
    case "format":
      return format(textOf(first), args.slice(1));
    case "join": {
      const separator = args.length > 1 ? textOf(second) : ",";
      return first !== null && isList(first) ? first.map(textOf).join(separator) : textOf(first);
    }
    case "fromjson":
      return fromJson(textOf(first));
    case "tojson":
      return JSON.stringify(first, undefined, 2);
    default:
      return unreachable(name, "function");
  }
}

/** `{0}` is the first argument; `{{` and `}}` are braces. */
function format(template: string, args: readonly Value[]): string {
  return template.replaceAll(/\{\{|\}\}|\{(\d+)\}|[{}]/g, (mark, index: string | undefined) => {
    if (mark === "{{" || mark === "}}") return mark.charAt(0);
    const value = index === undefined ? undefined : args[Number(index)];
    if (value === undefined) throw new BadValue(`format: '${template}' has a '${mark}' without an argument`);
    return textOf(value);
  });
}

function fromJson(text: string): Value {
  try {
    return JSON.parse(text) as Value;
  } catch {
    throw new BadValue(`fromJSON: '${text.slice(0, 60)}' is not JSON`);
  }
}
