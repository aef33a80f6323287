/**
 * Reading an OpenAPI document: local references, `allOf`, and what a schema accepts.
 *
 * Written for one question: would RunPod's live contract take the body we are about to send? Only references inside the
 * document are followed. A remote one is refused, because fetching it would let the document choose what we trust.
 */
import type { Result } from "../result.ts";
import { err, ok } from "../result.ts";

export type SchemaProblem = { readonly reason: "schema-unreadable"; readonly what: string };

type Json = Readonly<Record<string, unknown>>;

/** Deeper than any real document nests references; a cycle ends here. */
const MAX_DEPTH = 64;

/**
 * Everything that holds for one place of the body: the schema itself, what it refers to and what its `allOf` adds. `oneOf`
 * and `anyOf` count as if all their branches held for names, and as "any branch" for values.
 */
export interface SchemaView {
  readonly fragments: readonly Json[];
  /** Alternatives: one list per `oneOf` or `anyOf`. */
  readonly choices: readonly (readonly SchemaView[])[];
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function problem(what: string): Result<never, SchemaProblem> {
  return err({ reason: "schema-unreadable", what });
}

/** Follows a `#/...` reference: JSON pointer escapes (`~1`, `~0`) inside URI escapes (`%20`). */
export function resolveReference(document: unknown, reference: string): Result<unknown, SchemaProblem> {
  if (reference !== "#" && !reference.startsWith("#/"))
    return problem(`a reference outside the document: ${reference}`);
  let node: unknown = document;
  for (const part of reference.split("/").slice(1)) {
    const key = decoded(part);
    if (key === null) return problem(`a reference that does not decode: ${reference}`);
    if (Array.isArray(node)) node = /^\d+$/.test(key) ? (node as readonly unknown[])[Number(key)] : undefined;
    else node = isObject(node) && Object.hasOwn(node, key) ? node[key] : undefined;
    if (node === undefined) return problem(`a reference to nothing: ${reference}`);
  }
  return ok(node);
}

function decoded(part: string): string | null {
  try {
    return decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
  } catch {
    return null;
  }
}

/** The node itself, or what its chain of `$ref` ends at. */
function dereference(document: unknown, node: unknown): Result<unknown, SchemaProblem> {
  let current = node;
  for (let depth = 0; depth < MAX_DEPTH; depth += 1) {
    if (!isObject(current) || typeof current["$ref"] !== "string") return ok(current);
    const next = resolveReference(document, current["$ref"]);
    if (!next.ok) return next;
    current = next.value;
  }
  return problem("references that go round in a circle");
}

/** All schemas that hold at `node`. A `$ref` may have siblings (OpenAPI 3.1): both hold. */
export function viewSchema(document: unknown, node: unknown, depth = 0): Result<SchemaView, SchemaProblem> {
  if (depth > MAX_DEPTH) return problem("schemas that nest without end");
  if (node === true) return ok({ fragments: [{}], choices: [] });
  if (!isObject(node)) return problem("a schema that is not an object");

  const fragments: Json[] = [node];
  const choices: (readonly SchemaView[])[] = [];
  const parts: unknown[] = [];
  if (typeof node["$ref"] === "string") {
    const target = resolveReference(document, node["$ref"]);
    if (!target.ok) return target;
    parts.push(target.value);
  }
  if (Array.isArray(node["allOf"])) parts.push(...(node["allOf"] as readonly unknown[]));
  for (const part of parts) {
    const view = viewSchema(document, part, depth + 1);
    if (!view.ok) return view;
    fragments.push(...view.value.fragments);
    choices.push(...view.value.choices);
  }
  for (const keyword of ["oneOf", "anyOf"]) {
    const branches = node[keyword];
    if (!Array.isArray(branches)) continue;
    const views: SchemaView[] = [];
    for (const branch of branches as readonly unknown[]) {
      const view = viewSchema(document, branch, depth + 1);
      if (!view.ok) return view;
      views.push(view.value);
    }
    choices.push(views);
  }
  return ok({ fragments, choices });
}

/** The JSON schema of the body of `POST path`. */
export function postBodySchema(document: unknown, path: string): Result<SchemaView, SchemaProblem> {
  let node: unknown = document;
  for (const key of ["paths", path, "post", "requestBody", "content", "application/json", "schema"]) {
    const here = dereference(document, node);
    if (!here.ok) return here;
    if (!isObject(here.value) || !Object.hasOwn(here.value, key)) {
      return problem(`POST ${path} has no ${key === path ? "path" : key}`);
    }
    node = here.value[key];
  }
  return viewSchema(document, node);
}

/** The schema of a property, or null when no part of the view names it. */
export function propertyView(
  document: unknown,
  view: SchemaView,
  name: string,
): Result<SchemaView | null, SchemaProblem> {
  return firstView(document, view, (fragment) => {
    const properties = fragment["properties"];
    return isObject(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
  });
}

/** The schema of an array's items, or null when none is given. */
export function itemsView(document: unknown, view: SchemaView): Result<SchemaView | null, SchemaProblem> {
  return firstView(document, view, (fragment) => fragment["items"]);
}

/** The schema of a map's values, or null when the object takes only the properties it names. */
export function valuesView(document: unknown, view: SchemaView): Result<SchemaView | null, SchemaProblem> {
  return firstView(document, view, (fragment) => {
    const extra = fragment["additionalProperties"];
    return extra === false ? undefined : extra;
  });
}

/** Joins the sub-schemas that `pick` finds in any fragment or branch into one view. */
function firstView(
  document: unknown,
  view: SchemaView,
  pick: (fragment: Json) => unknown,
): Result<SchemaView | null, SchemaProblem> {
  const fragments: Json[] = [];
  const choices: (readonly SchemaView[])[] = [];
  let found = false;
  for (const fragment of allFragments(view)) {
    const node = pick(fragment);
    if (node === undefined) continue;
    const sub = viewSchema(document, node);
    if (!sub.ok) return sub;
    found = true;
    fragments.push(...sub.value.fragments);
    choices.push(...sub.value.choices);
  }
  return ok(found ? { fragments, choices } : null);
}

/** The view's own fragments and those of every branch. */
export function allFragments(view: SchemaView): readonly Json[] {
  return [...view.fragments, ...view.choices.flat().flatMap(allFragments)];
}

/** The values a place is limited to (`enum`, `const`), or null when it is not limited. */
export function allowedValues(view: SchemaView): readonly unknown[] | null {
  let allowed: readonly unknown[] | null = null;
  const narrow = (values: readonly unknown[]): void => {
    const before = allowed;
    allowed = before === null ? values : before.filter((value) => values.includes(value));
  };
  for (const fragment of view.fragments) {
    if (Array.isArray(fragment["enum"])) narrow(fragment["enum"] as readonly unknown[]);
    if (Object.hasOwn(fragment, "const")) narrow([fragment["const"]]);
  }
  for (const branches of view.choices) {
    const values = branches.map(allowedValues);
    if (values.every((list) => list !== null)) narrow(values.flat());
  }
  return allowed;
}
