/** The JSON Schema for editors, made from the zod schema, and what can be read off it. */
import * as z from "zod";
import { repositoryConfigSchema } from "./schema.ts";

/** The part of JSON Schema that zod writes for our schema. */
export interface SchemaNode {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly default?: unknown;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly additionalProperties?: SchemaNode | boolean;
  readonly propertyNames?: SchemaNode;
  readonly items?: SchemaNode;
  readonly anyOf?: readonly SchemaNode[];
  readonly required?: readonly string[];
}

export const SCHEMA_TITLE = "gpu-gate repository configuration";

let cached: SchemaNode | null = null;

/** The schema of what a person may write (defaults optional). */
export function configJsonSchema(): SchemaNode {
  cached ??= { title: SCHEMA_TITLE, ...z.toJSONSchema(repositoryConfigSchema, { io: "input" }) } as SchemaNode;
  return cached;
}

/** The keys that may stand under a path, for naming the nearest one; free names (lanes) add nothing. */
export function knownKeysAt(path: readonly PropertyKey[]): string[] {
  let node: SchemaNode | undefined = configJsonSchema();
  for (const part of path) {
    node = step(node, part);
    if (node === undefined) return [];
  }
  return keysOf(node);
}

function step(node: SchemaNode, part: PropertyKey): SchemaNode | undefined {
  for (const form of [node, ...(node.anyOf ?? [])]) {
    if (typeof part === "number" && form.items !== undefined) return form.items;
    const named = form.properties?.[String(part)];
    if (named !== undefined) return named;
    if (typeof form.additionalProperties === "object") return form.additionalProperties;
  }
  return undefined;
}

function keysOf(node: SchemaNode): string[] {
  const forms = [node, ...(node.anyOf ?? [])];
  return forms.flatMap((form) => [
    ...Object.keys(form.properties ?? {}),
    ...(form.propertyNames?.enum ?? []).map(String),
  ]);
}
