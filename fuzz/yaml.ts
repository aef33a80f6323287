/** Damage to YAML text: what only YAML has (anchors, aliases, merges, tags), lines moved and indented, and plain bytes. */
import * as fc from "fast-check";

const KINDS = [
  "insert",
  "remove-line",
  "double-line",
  "indent",
  "swap-lines",
  "replace-value",
  "append",
  "prefix",
] as const;

export interface YamlChange {
  /** The last two are too slow to draw: kept cases have them, `by` counts thousands. */
  readonly what: (typeof KINDS)[number] | "many-keys" | "nest";
  readonly at: number;
  readonly by: number;
}

export const yamlChange: fc.Arbitrary<YamlChange> = fc.record({
  what: fc.constantFrom(...KINDS),
  at: fc.nat(400),
  by: fc.nat(400),
});

/** Nine anchors, each nine times the one before: three hundred million nodes when unfolded. */
const BOMB = [
  "a0: &a0 [x, x, x, x, x, x, x, x, x]",
  ...Array.from(
    { length: 8 },
    (_, n) => `a${n + 1}: &a${n + 1} [${Array.from({ length: 9 }, () => `*a${n}`).join(", ")}]`,
  ),
].join("\n");

const LINES: readonly string[] = [
  BOMB,
  "self: &self [*self]",
  "loop: &loop {again: *loop}",
  "<<: *nowhere",
  "<<: {version: 2}",
  "<<: [{limits: {}}, {paths: {}}]",
  "base: &base {files: [a]}",
  "version: 1",
  "version: 2",
  "version: 123456789012345678901234567890",
  "__proto__: {polluted: 1}",
  "constructor: {prototype: {polluted: 1}}",
  "lanes: {__proto__: {}, constructor: {}, toString: {}}",
  "? [complex, key]\n: value",
  "? {a: b}\n: value",
  "!!binary aGVsbG8=: x",
  "when: !!timestamp 2026-11-30",
  "set: !!set {a, b}",
  "omap: !!omap [a: 1]",
  "evil: !!js/function 'function () {}'",
  "evil: !!python/object/apply:os.system ['true']",
  "own: !own {a: 1}",
  "%YAML 1.1",
  "%TAG ! tag:x,2026:",
  "---",
  "...",
  "- a",
  "\tversion: 1",
  "text: |2\n      deep\n   less",
  "text: >-\n  folded\n\n  more",
  "'unclosed: 1",
  '"unclosed: 1',
  "{unclosed: [1, 2",
  "# only a comment",
  "\u0085key: 1",
  "\uFEFFversion: 1",
  "null: null",
  "~: ~",
  "1: 1",
  "true: yes",
  "limits: {backstop: .inf}",
  "limits: {backstop: .nan}",
  "limits: {backstop: 0x7fffffffffffffff}",
  "limits: {backstop: 1e400}",
  "limits: {backstop: -1}",
  "limits: {backstop: 0o17}",
  'paths: {docs: {prefixes: ["((((((((((a+)+)+)+)+)+)+)+)+)+)$/"]}}',
  `paths: {docs: {prefixes: ["${"*".repeat(200)}/"]}}`,
  `paths: {docs: {files: ["${"a/".repeat(2_000)}b"]}}`,
  `deep: ${"[".repeat(500)}${"]".repeat(500)}`,
  `deep: ${"{a: ".repeat(300)}1${"}".repeat(300)}`,
  `${"a:\n".repeat(1)}${Array.from({ length: 120 }, (_, n) => `${" ".repeat(n + 1)}k:`).join("\n")}`,
  Array.from({ length: 3_000 }, (_, n) => `k${n}: ${n}`).join("\n"),
  `long: ${"x".repeat(100_000)}`,
  `quoted: "${"\\u0041".repeat(5_000)}"`,
  `dup: {${Array.from({ length: 500 }, () => "a: 1").join(", ")}}`,
];

const VALUES: readonly string[] = [
  "null",
  "~",
  "''",
  "[]",
  "{}",
  "-1",
  "0",
  "1e999",
  "9007199254740993",
  "123456789012345678901234567890",
  "0.1",
  ".inf",
  "true",
  "yes",
  "[[[]]]",
  "{__proto__: 1}",
  '"\\ud800"',
  '"\\u0000"',
  '"a\\nb"',
  "'${{ secrets.X }}'",
  "<script>",
  "&a x",
  "*a",
  "!!str 1",
  "!!int x",
  "2026-11-30",
  "../../x/",
  "/",
  "🦄/",
  '"\\u202e"',
  "|",
  "@x",
  "`x`",
];

export function damagedYaml(text: string, changes: readonly YamlChange[]): string {
  let lines = text.split("\n");
  for (const { what, at, by } of changes) {
    const place = at % Math.max(1, lines.length);
    const line = lines[place] ?? "";
    const indent = /^ */.exec(line)?.[0] ?? "";
    switch (what) {
      case "insert": {
        const given = LINES[by % LINES.length] ?? "";
        lines.splice(place, 0, ...given.split("\n").map((one) => indent + one));
        break;
      }
      case "append":
        lines.push(...(LINES[by % LINES.length] ?? "").split("\n"));
        break;
      case "prefix":
        lines = [...(LINES[by % LINES.length] ?? "").split("\n"), ...lines];
        break;
      case "many-keys":
        lines.push(...Array.from({ length: by * 1_000 }, (_, n) => `key${n}: &k${n} ${n}`));
        break;
      case "nest":
        lines.push(`nested: ${"[".repeat(by * 1_000)}${"]".repeat(by * 1_000)}`);
        break;
      case "remove-line":
        lines.splice(place, 1);
        break;
      case "double-line":
        lines.splice(place, 0, line);
        break;
      case "indent":
        lines[place] = by % 2 === 0 ? ` ${line}` : line.slice(1);
        break;
      case "swap-lines": {
        const other = by % Math.max(1, lines.length);
        [lines[place], lines[other]] = [lines[other] ?? "", line];
        break;
      }
      case "replace-value":
        lines[place] = line.replace(
          /(: |- ).*$/,
          (_whole, mark: string) => `${mark}${VALUES[by % VALUES.length] ?? ""}`,
        );
        break;
    }
  }
  return lines.join("\n");
}
