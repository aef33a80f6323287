/**
 * JSON as a tree that can say what JavaScript's own values cannot: the same key twice, digits beyond 2^53, lone surrogates
 * by escape, raw text that is no JSON at all. A plan of small numbers says what is damaged where, so that a case is a few
 * bytes, prints, and shrinks.
 */
import * as fc from "fast-check";

type Node =
  | { readonly kind: "object"; entries: [key: string, value: Node][] }
  | { readonly kind: "array"; items: Node[] }
  | { readonly kind: "text"; readonly text: string };

export const OPERATIONS = [
  "drop",
  "replace",
  "twice",
  "rename",
  "insert",
  "deep",
  "swap",
  "other-type",
  "raw",
  "long",
] as const;

export interface JsonChange {
  readonly what: (typeof OPERATIONS)[number];
  /** Which node, modulo their number. */
  readonly at: number;
  /** Which replacement, modulo theirs. */
  readonly by: number;
}

export const jsonChange: fc.Arbitrary<JsonChange> = fc.record({
  what: fc.constantFrom(...OPERATIONS),
  at: fc.nat(2000),
  by: fc.nat(200),
});

/** Values in the place of another, as they stand in the text. */
export const HOSTILE: readonly string[] = [
  "null",
  "true",
  "false",
  "0",
  "-0",
  "-1",
  "1",
  "0.5",
  "9007199254740993",
  "18446744073709551616",
  "1234567890123456789012345678901234567890",
  "1e308",
  "1e999",
  "-1e999",
  '""',
  '" "',
  '"0"',
  '"1"',
  '"null"',
  '"true"',
  '"__proto__"',
  '"constructor"',
  '"\\ud800"',
  '"\\udfff tail"',
  '"\\u0000"',
  '"a\\u202eb"',
  '"line\\nline"',
  '"..\\/..\\/etc"',
  '"<img src=x onerror=alert(1)>"',
  '"${{ secrets.X }}"',
  '"🦄"',
  '"ａｂｃ"',
  '"2026-11-30T12:00:00Z"',
  '"9999-12-31T23:59:59.999Z"',
  '"-000001-01-01T00:00:00Z"',
  "[]",
  "{}",
  "[[]]",
  "[null]",
  '{"__proto__":{"polluted":1}}',
  '{"constructor":{"prototype":{"polluted":1}}}',
  '{"toString":1,"valueOf":1,"hasOwnProperty":1}',
  '{"length":1000000000}',
  '{"then":"x"}',
  '{"toJSON":"x"}',
];

/** Text that is no JSON where it stands. */
const BROKEN: readonly string[] = [
  "",
  "undefined",
  "NaN",
  "'x'",
  "[",
  "{",
  "}",
  '"',
  "01",
  "0x10",
  "/*x*/1",
  "1,2",
  "\u0000",
];

const KEYS: readonly string[] = [
  "__proto__",
  "constructor",
  "prototype",
  "toString",
  "hasOwnProperty",
  "",
  " ",
  "\\ud800",
  "0",
  "length",
  "then",
  "ID",
];

const DEPTHS: readonly number[] = [3, 60, 600, 6_000];
const LENGTHS: readonly number[] = [300, 5_000, 70_000];

/** The JSON text of `base` after the changes, one after the other. */
export function damagedJson(base: unknown, changes: readonly JsonChange[]): string {
  let root = treeOf(base);
  for (const change of changes) root = apply(root, change);
  return print(root);
}

/** Changes that no reader may take for another valid answer: a value of another type, or text that breaks off. */
export function wrongType(base: unknown, changes: readonly Omit<JsonChange, "what">[]): string {
  let root = treeOf(base);
  for (const change of changes) root = apply(root, { ...change, what: "other-type" });
  return print(root);
}

function treeOf(value: unknown): Node {
  if (Array.isArray(value)) return { kind: "array", items: value.map(treeOf) };
  if (typeof value === "object" && value !== null) {
    return { kind: "object", entries: Object.entries(value).map(([key, member]) => [key, treeOf(member)]) };
  }
  return { kind: "text", text: JSON.stringify(value) ?? "null" };
}

interface Place {
  readonly node: Node;
  /** Puts another in its place. Null: the root. */
  readonly put: ((node: Node) => void) | null;
  readonly parent: Node | null;
  readonly index: number;
}

function places(root: Node): readonly Place[] {
  const found: Place[] = [];
  const visit = (node: Node, put: Place["put"], parent: Node | null, index: number): void => {
    found.push({ node, put, parent, index });
    if (node.kind === "array") {
      node.items.forEach((item, at) => visit(item, (other) => (node.items[at] = other), node, at));
    }
    if (node.kind === "object") {
      node.entries.forEach((entry, at) => visit(entry[1], (other) => (entry[1] = other), node, at));
    }
  };
  visit(root, null, null, 0);
  return found;
}

function apply(root: Node, { what, at, by }: JsonChange): Node {
  const all = places(root);
  const place = all[at % all.length];
  if (place === undefined) return root;
  const { node, put, parent, index } = place;
  const set = (other: Node): Node => {
    if (put === null) return other;
    put(other);
    return root;
  };
  const hostile = (): Node => ({ kind: "text", text: HOSTILE[by % HOSTILE.length] ?? "null" });
  switch (what) {
    case "drop":
      if (parent?.kind === "array") parent.items.splice(index, 1);
      if (parent?.kind === "object") parent.entries.splice(index, 1);
      return root;
    case "replace":
      return set(hostile());
    case "raw":
      return set({ kind: "text", text: BROKEN[by % BROKEN.length] ?? "" });
    case "twice":
      if (parent?.kind === "object") {
        const key = parent.entries[index]?.[0] ?? "";
        parent.entries.splice(by % 2 === 0 ? index : index + 1, 0, [key, hostile()]);
      }
      if (parent?.kind === "array") parent.items.splice(index, 0, node);
      return root;
    case "rename":
      if (parent?.kind === "object") {
        const entry = parent.entries[index];
        if (entry !== undefined) entry[0] = KEYS[by % KEYS.length] ?? "";
      }
      return root;
    case "insert":
      if (node.kind === "object") node.entries.unshift([KEYS[by % KEYS.length] ?? "", hostile()]);
      if (node.kind === "array") node.items.unshift(hostile());
      return root;
    case "deep": {
      const depth = DEPTHS[by % DEPTHS.length] ?? 3;
      const [open, close] = by % 2 === 0 ? ["[", "]"] : ['{"a":', "}"];
      return set({ kind: "text", text: open.repeat(depth) + print(node) + close.repeat(depth) });
    }
    case "swap": {
      const other = all[by % all.length];
      return other === undefined ? root : set(copy(other.node));
    }
    case "long": {
      const length = LENGTHS[by % LENGTHS.length] ?? 300;
      const text =
        by % 3 === 0 ? `"${"a".repeat(length)}"` : by % 3 === 1 ? "9".repeat(length) : `[${"0,".repeat(length)}0]`;
      return set({ kind: "text", text });
    }
    case "other-type":
      return set({ kind: "text", text: otherType(node, by) });
  }
}

function otherType(node: Node, by: number): string {
  const numbers = ["-7", "0.5", "1e999", "9007199254740993"];
  const texts = ['"\\ud800"', '"x"', '""'];
  const objects = ['{"x":1}', "{}"];
  const pick = (from: readonly string[]): string => from[by % from.length] ?? "null";
  if (node.kind === "object") return pick([...texts, ...numbers, "true"]);
  if (node.kind === "array") return pick([...texts, ...objects, ...numbers]);
  if (node.text.startsWith('"')) return pick([...objects, "[]", ...numbers, "true"]);
  return pick([...objects, ...texts, "[[]]"]);
}

function copy(node: Node): Node {
  if (node.kind === "array") return { kind: "array", items: node.items.map(copy) };
  if (node.kind === "object")
    return { kind: "object", entries: node.entries.map(([key, value]) => [key, copy(value)]) };
  return node;
}

function print(node: Node): string {
  if (node.kind === "text") return node.text;
  if (node.kind === "array") return `[${node.items.map(print).join(",")}]`;
  // A key of KEYS may hold an escape of its own.
  const key = (name: string): string => (name.startsWith("\\u") ? `"${name}"` : JSON.stringify(name));
  return `{${node.entries.map(([name, value]) => `${key(name)}:${print(value)}`).join(",")}}`;
}
