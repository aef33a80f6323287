/**
 * YAML as a tree that remembers where everything stands, so that a finding can name a line and a column.
 *
 * Only what workflow files use: mappings with plain keys, sequences, scalars, aliases (resolved). Scalars are kept as the
 * text that was written; `value` is what YAML makes of it.
 */
import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, type Document, type Node } from "yaml";
import { repeatedKeys } from "../config/yaml-keys.ts";
import { err, ok, type Result } from "../result.ts";

/** One-based, as editors and GitHub count. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

export interface YamlEntry {
  readonly key: string;
  readonly at: Position;
  readonly value: YamlNode;
}

export interface YamlMap {
  readonly kind: "map";
  readonly at: Position;
  readonly entries: readonly YamlEntry[];
}

export interface YamlList {
  readonly kind: "list";
  readonly at: Position;
  readonly items: readonly YamlNode[];
}

export interface YamlScalar {
  readonly kind: "scalar";
  readonly at: Position;
  readonly value: string | number | boolean | null;
  /** The value as text; null becomes the empty string. */
  readonly text: string;
  /** The characters in the file, quotes and block indentation included, for positions inside the scalar. */
  readonly raw: string;
  readonly rawAt: Position;
}

export type YamlNode = YamlMap | YamlList | YamlScalar;

export interface YamlProblem {
  readonly message: string;
  readonly at: Position;
}

/** Aliases may point at aliases; a document that nests deeper than this, or unfolds to more nodes, is no workflow. */
const MAX_DEPTH = 50;
const MAX_NODES = 100_000;

/** Reads one YAML document. Refuses duplicate keys, keys that are not plain, several documents and unbounded aliases. */
export function parseYaml(text: string): Result<YamlNode, YamlProblem> {
  const counter = new LineCounter();
  // The library compares every key with every other; `repeatedKeys` looks at each once.
  const document = parseDocument(text, { lineCounter: counter, uniqueKeys: false, logLevel: "error" });
  const first = document.errors[0];
  if (first !== undefined) {
    const message = first.message.split("\n")[0] ?? "not valid YAML";
    return err({ message: message.replace(/ at line \d+, column \d+:?$/, ""), at: position(counter, first.pos[0]) });
  }
  const [repeated] = repeatedKeys(document.contents, 1);
  if (repeated !== undefined) return err({ message: "Map keys must be unique", at: position(counter, repeated) });
  try {
    return ok(convert(document.contents, { document, counter, text, nodes: 0, aliases: new Map() }, 0));
  } catch (problem) {
    if (problem instanceof Unreadable) return err({ message: problem.message, at: position(counter, problem.offset) });
    throw problem;
  }
}

class Unreadable extends Error {
  readonly offset: number;
  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

function position(counter: LineCounter, offset: number): Position {
  const { line, col } = counter.linePos(offset);
  return { line: Math.max(1, line), column: Math.max(1, col) };
}

interface Reading {
  readonly document: Document;
  readonly counter: LineCounter;
  readonly text: string;
  nodes: number;
  readonly aliases: Map<Node, Node | undefined>;
}

function convert(node: Node | null, reading: Reading, depth: number): YamlNode {
  const { document, counter, text } = reading;
  reading.nodes += 1;
  const start = node?.range?.[0] ?? 0;
  const at = position(counter, start);
  if (depth > MAX_DEPTH) throw new Unreadable("the document nests too deeply", start);
  if (reading.nodes > MAX_NODES) throw new Unreadable("the document unfolds to too many nodes", start);
  if (node === null) return { kind: "scalar", at, value: null, text: "", raw: "", rawAt: at };
  if (isAlias(node)) {
    // The library searches the whole document for the anchor: once for each alias, not once for each time it is followed.
    const known = reading.aliases.has(node);
    const target = known ? reading.aliases.get(node) : node.resolve(document);
    if (!known) reading.aliases.set(node, target);
    if (target === undefined) throw new Unreadable(`the alias *${node.source} has no anchor`, start);
    return convert(target, reading, depth + 1);
  }
  if (isMap(node)) {
    const entries = node.items.map((pair): YamlEntry => {
      const key = pair.key as Node | null;
      if (!isScalar(key)) throw new Unreadable("a key must be plain text", start);
      return {
        key: typeof key.value === "string" ? key.value : (key.source ?? ""),
        at: position(counter, key.range?.[0] ?? start),
        value: convert((pair.value ?? null) as Node | null, reading, depth + 1),
      };
    });
    return { kind: "map", at, entries };
  }
  if (isSeq(node)) {
    return {
      kind: "list",
      at,
      items: node.items.map((item) => convert(item as Node | null, reading, depth + 1)),
    };
  }
  if (isScalar(node)) {
    const { value } = node;
    const known = typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? value : null;
    // A number keeps its spelling: 1.10 is a version, not 1.1.
    const spelled = typeof value === "number" && typeof node.source === "string" ? node.source : null;
    return {
      kind: "scalar",
      at,
      value: known,
      text: spelled ?? (known === null ? "" : String(known)),
      raw: text.slice(start, node.range?.[1] ?? start),
      rawAt: at,
    };
  }
  throw new Unreadable("an unexpected kind of YAML node", start);
}

/** The entry of `key` in a mapping; undefined for anything that is not a mapping. */
export function entry(node: YamlNode | undefined, key: string): YamlEntry | undefined {
  return node?.kind === "map" ? node.entries.find((candidate) => candidate.key === key) : undefined;
}

export function get(node: YamlNode | undefined, ...path: readonly string[]): YamlNode | undefined {
  return path.reduce<YamlNode | undefined>((current, key) => entry(current, key)?.value, node);
}

/** The text of a scalar; undefined for anything else and for an empty value. */
export function textOf(node: YamlNode | undefined): string | undefined {
  return node?.kind === "scalar" && node.value !== null ? node.text : undefined;
}

/** The items of a list, or the scalar itself as a list of one (`needs: build`). */
export function itemsOf(node: YamlNode | undefined): readonly YamlNode[] {
  if (node === undefined) return [];
  if (node.kind === "list") return node.items;
  return node.kind === "scalar" && node.value !== null ? [node] : [];
}

/** Every scalar below a node, in file order. */
export function* scalarsIn(node: YamlNode | undefined): Generator<YamlScalar> {
  if (node === undefined) return;
  if (node.kind === "scalar") yield node;
  else if (node.kind === "list") for (const item of node.items) yield* scalarsIn(item);
  else for (const item of node.entries) yield* scalarsIn(item.value);
}

/** Position of the character at `offset` in the raw text of a scalar. */
export function positionIn(scalar: YamlScalar, offset: number): Position {
  const before = scalar.raw.slice(0, offset);
  const lastBreak = before.lastIndexOf("\n");
  if (lastBreak < 0) return { line: scalar.rawAt.line, column: scalar.rawAt.column + offset };
  return { line: scalar.rawAt.line + before.split("\n").length - 1, column: offset - lastBreak };
}

export interface FoundExpression {
  /** What stands between `${{` and `}}`, trimmed. */
  readonly text: string;
  readonly at: Position;
}

/** Every `${{ }}` in a scalar, with the place of its first character. A quoted `}}` does not end it. */
export function expressionsIn(scalar: YamlScalar): readonly FoundExpression[] {
  const found: FoundExpression[] = [];
  for (const match of scalar.raw.matchAll(/\$\{\{((?:'(?:[^']|'')*'|[^'])*?)\}\}/gs)) {
    found.push({ text: (match[1] ?? "").trim(), at: positionIn(scalar, match.index) });
  }
  return found;
}
