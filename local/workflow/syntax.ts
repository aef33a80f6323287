/**
 * The grammar of `${{ }}`: text in, tree out.
 *
 * The part of GitHub's expression language that the shipped workflows use, and a little more. What is left out is refused
 * when the file is read, not when it runs: object filters (`.*`), `hashFiles`, functions and contexts we do not have.
 * Source: GitHub's documentation of expressions (literals, operators, functions, contexts).
 */
import { err, ok, type Result } from "../../shared/result.ts";

export type Binary = "||" | "&&" | "==" | "!=" | "<" | "<=" | ">" | ">=";

export type Expression =
  | { readonly kind: "literal"; readonly value: null | boolean | number | string }
  | { readonly kind: "context"; readonly name: string }
  | { readonly kind: "property"; readonly of: Expression; readonly key: Expression }
  | { readonly kind: "not"; readonly operand: Expression }
  | { readonly kind: "binary"; readonly operator: Binary; readonly left: Expression; readonly right: Expression }
  | { readonly kind: "call"; readonly name: FunctionName; readonly args: readonly Expression[] };

/** Contexts that an expression may name. */
export const CONTEXTS = ["inputs", "github", "needs", "steps", "env", "matrix", "runner", "vars", "secrets"] as const;

/** Functions with the least and the largest number of arguments. */
export const FUNCTIONS = {
  success: [0, 0],
  failure: [0, 0],
  always: [0, 0],
  cancelled: [0, 0],
  contains: [2, 2],
  startswith: [2, 2],
  endswith: [2, 2],
  format: [1, 20],
  join: [1, 2],
  fromjson: [1, 1],
  tojson: [1, 1],
} as const satisfies Record<string, readonly [number, number]>;

export type FunctionName = keyof typeof FUNCTIONS;

export interface SyntaxProblem {
  readonly reason: "syntax";
  readonly message: string;
  /** Place in the expression's text, from 0. */
  readonly offset: number;
}

/** Longest expression we read, and how deep it may nest: more than any person writes. */
const MAX_LENGTH = 5_000;
const MAX_DEPTH = 50;

export function parseExpression(text: string): Result<Expression, SyntaxProblem> {
  if (text.length > MAX_LENGTH)
    return err({ reason: "syntax", message: "the expression is too long", offset: MAX_LENGTH });
  try {
    const parser = new Parser(tokens(text), text.length);
    return ok(parser.whole());
  } catch (problem) {
    if (problem instanceof Mistake) return err({ reason: "syntax", message: problem.message, offset: problem.offset });
    throw problem;
  }
}

/** Does the expression ask about the outcome so far? If not, GitHub puts `success() &&` in front of a condition. */
export function asksForStatus(expression: Expression): boolean {
  switch (expression.kind) {
    case "literal":
    case "context":
      return false;
    case "property":
      return asksForStatus(expression.of) || asksForStatus(expression.key);
    case "not":
      return asksForStatus(expression.operand);
    case "binary":
      return asksForStatus(expression.left) || asksForStatus(expression.right);
    case "call":
      return (
        ["success", "failure", "always", "cancelled"].includes(expression.name) || expression.args.some(asksForStatus)
      );
  }
}

class Mistake extends Error {
  readonly offset: number;
  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

interface Token {
  readonly kind: "string" | "number" | "word" | "mark";
  readonly text: string;
  readonly offset: number;
}

const TOKEN =
  /\s+|(?<string>'(?:[^']|'')*')|(?<number>[-+]?(?:0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?))|(?<word>[A-Za-z_][\w-]*)|(?<mark>\|\||&&|==|!=|<=|>=|[()[\].,!<>*])/y;

function tokens(text: string): readonly Token[] {
  const found: Token[] = [];
  const pattern = new RegExp(TOKEN.source, "y");
  while (pattern.lastIndex < text.length) {
    const offset = pattern.lastIndex;
    const groups = pattern.exec(text)?.groups;
    if (groups === undefined) throw new Mistake(`'${text.slice(offset, offset + 1)}' is not expected here`, offset);
    for (const kind of ["string", "number", "word", "mark"] as const) {
      const value = groups[kind];
      if (value !== undefined) found.push({ kind, text: value, offset });
    }
  }
  return found;
}

/** From the weakest to the strongest binding. */
const LEVELS: readonly (readonly Binary[])[] = [["||"], ["&&"], ["==", "!="], ["<", "<=", ">", ">="]];

class Parser {
  readonly #tokens: readonly Token[];
  readonly #end: number;
  #next = 0;
  #depth = 0;

  constructor(found: readonly Token[], end: number) {
    this.#tokens = found;
    this.#end = end;
  }

  whole(): Expression {
    const expression = this.#level(0);
    const rest = this.#tokens[this.#next];
    if (rest !== undefined) throw new Mistake(`'${rest.text}' is not expected here`, rest.offset);
    return expression;
  }

  #level(level: number): Expression {
    const operators = LEVELS[level];
    if (operators === undefined) return this.#unary();
    let left = this.#level(level + 1);
    for (;;) {
      const operator = operators.find((one) => this.#take(one));
      if (operator === undefined) return left;
      left = { kind: "binary", operator, left, right: this.#level(level + 1) };
    }
  }

  #unary(): Expression {
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) throw new Mistake("the expression nests too deeply", this.#offset());
    const expression: Expression = this.#take("!") ? { kind: "not", operand: this.#unary() } : this.#postfix();
    this.#depth -= 1;
    return expression;
  }

  #postfix(): Expression {
    let value = this.#primary();
    for (;;) {
      if (this.#take(".")) {
        const name = this.#tokens[this.#next];
        if (name?.text === "*") throw new Mistake("object filters (.*) are not supported", name.offset);
        if (name?.kind !== "word") throw new Mistake("a property name is missing", this.#offset());
        this.#next += 1;
        value = { kind: "property", of: value, key: { kind: "literal", value: name.text } };
      } else if (this.#take("[")) {
        if (this.#tokens[this.#next]?.text === "*")
          throw new Mistake("object filters ([*]) are not supported", this.#offset());
        const key = this.#level(0);
        this.#expect("]");
        value = { kind: "property", of: value, key };
      } else return value;
    }
  }

  #primary(): Expression {
    const token = this.#tokens[this.#next];
    if (token === undefined) throw new Mistake("the expression ends too early", this.#end);
    this.#next += 1;
    if (token.kind === "string") return { kind: "literal", value: token.text.slice(1, -1).replaceAll("''", "'") };
    if (token.kind === "number") return { kind: "literal", value: Number(token.text) };
    if (token.text === "(") {
      const inner = this.#level(0);
      this.#expect(")");
      return inner;
    }
    if (token.kind !== "word") throw new Mistake(`'${token.text}' is not expected here`, token.offset);
    if (this.#take("(")) return this.#call(token);
    if (token.text === "true" || token.text === "false") return { kind: "literal", value: token.text === "true" };
    if (token.text === "null") return { kind: "literal", value: null };
    const name = CONTEXTS.find((one) => one === token.text.toLowerCase());
    if (name === undefined) throw new Mistake(`there is no context '${token.text}' here`, token.offset);
    return { kind: "context", name };
  }

  #call(token: Token): Expression {
    const name = (Object.keys(FUNCTIONS) as FunctionName[]).find((one) => one === token.text.toLowerCase());
    if (name === undefined) throw new Mistake(`the function '${token.text}' is not supported`, token.offset);
    const args: Expression[] = [];
    if (!this.#take(")")) {
      do args.push(this.#level(0));
      while (this.#take(","));
      this.#expect(")");
    }
    const [least, most] = FUNCTIONS[name];
    if (args.length < least || args.length > most) {
      throw new Mistake(
        `'${token.text}' takes ${least === most ? least : `${least} to ${most}`} arguments, not ${args.length}`,
        token.offset,
      );
    }
    return { kind: "call", name, args };
  }

  #take(text: string): boolean {
    const token = this.#tokens[this.#next];
    if (token?.kind !== "mark" || token.text !== text) return false;
    this.#next += 1;
    return true;
  }

  #expect(text: string): void {
    if (!this.#take(text)) throw new Mistake(`'${text}' is missing`, this.#offset());
  }

  #offset(): number {
    return this.#tokens[this.#next]?.offset ?? this.#end;
  }
}
