/** The reference table of all keys, made from the schema so that the page cannot fall behind it. */
import { configJsonSchema, type SchemaNode } from "./json-schema.ts";

interface Row {
  readonly key: string;
  readonly kind: string;
  readonly fallback: string;
  readonly text: string;
}

/** A Markdown table: key, what may be written, default, meaning. Sections come before their keys. */
export function configReference(): string {
  const rows = rowsOf(configJsonSchema(), "");
  const head = "| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
  return (
    head + rows.map((row) => `| ${[row.key, row.kind, row.fallback, row.text].map(cell).join(" | ")} |\n`).join("")
  );
}

function rowsOf(node: SchemaNode, prefix: string): Row[] {
  const rows: Row[] = [];
  for (const [name, child] of Object.entries(node.properties ?? {})) {
    rows.push(...rowsFor(child, prefix === "" ? name : `${prefix}.${name}`));
  }
  if (typeof node.additionalProperties === "object" && node.properties !== undefined) {
    rows.push(...rowsFor({ description: "Any further lane.", ...node.additionalProperties }, `${prefix}.<name>`));
  }
  return rows;
}

function rowsFor(node: SchemaNode, key: string): Row[] {
  const form = objectForm(node);
  const own: Row = {
    key: `\`${key}\``,
    kind: kindOf(node),
    fallback: fallbackOf(node, form),
    text: node.description ?? "",
  };
  if (form !== null) return [own, ...rowsOf(form, key)];
  const entry = node.items === undefined ? null : objectForm(node.items);
  if (entry !== null) return [own, ...rowsOf(entry, `${key}[]`)];
  const value = typeof node.additionalProperties === "object" ? objectForm(node.additionalProperties) : null;
  return value === null ? [own] : [own, ...rowsOf(value, `${key}.<name>`)];
}

/** The form that has keys of its own, through a union with null. */
function objectForm(node: SchemaNode): SchemaNode | null {
  return [node, ...(node.anyOf ?? [])].find((form) => form.properties !== undefined) ?? null;
}

function kindOf(node: SchemaNode): string {
  if (node.const !== undefined) return `\`${JSON.stringify(node.const)}\``;
  if (node.enum !== undefined) return node.enum.map((value) => `\`${String(value)}\``).join(", ");
  if (node.anyOf !== undefined) return node.anyOf.map(kindOf).join(" or ");
  if (node.type === "array") return `list of ${node.items === undefined ? "values" : plural(kindOf(node.items))}`;
  if (node.type === "integer") return `whole number${bounds(node)}`;
  if (node.type === "number") return `number${bounds(node)}`;
  return PLAIN_KINDS[String(node.type)] ?? "value";
}

const PLAIN_KINDS: Readonly<Record<string, string>> = {
  object: "map",
  string: "text",
  boolean: "`true`, `false`",
  null: "`null`",
};

function plural(kind: string): string {
  if (kind === "text") return "texts";
  return kind === "map" ? "maps" : kind;
}

function bounds(node: SchemaNode): string {
  const low = node.minimum ?? node.exclusiveMinimum;
  if (low === undefined || node.maximum === undefined) return "";
  return node.minimum === undefined ? `, above ${low} to ${node.maximum}` : `, ${low} to ${node.maximum}`;
}

function fallbackOf(node: SchemaNode, form: SchemaNode | null): string {
  if (node.default === undefined) return "";
  if (form !== null && node.default !== null) return "";
  const text = JSON.stringify(node.default);
  return text.length <= 80 ? `\`${text}\`` : "see `gpu-gate config check`";
}

/** A cell holds no line break and no bar. */
function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}
