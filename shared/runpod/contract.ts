/**
 * The live contract, checked before money is spent: does RunPod still take every field we send, and does it still know
 * every GPU id and CUDA version we ask for?
 *
 * Worth a check of its own because RunPod hides both mistakes. An unknown key fails every create of a walk, and a wrong GPU
 * id is answered with the words for "sold out" (runpod-facts quirk 15), so a dropped id would look like a shortage for
 * ever. A document or catalog that cannot be read is a refusal, never a pass.
 */
import type { Result } from "../result.ts";
import { err, ok, unreachable } from "../result.ts";
import type { Tier } from "./candidates.ts";
import type { CreateBody } from "./create-body.ts";
import type { Offer } from "./offers.ts";
import { allFragments, allowedValues, itemsView, postBodySchema, propertyView, valuesView } from "./openapi.ts";
import type { SchemaProblem, SchemaView } from "./openapi.ts";

export type ContractMismatch =
  | SchemaProblem
  /** Our field (a JSON path such as `gpu.count`) is not in the contract: RunPod would answer 422. */
  | { readonly reason: "unknown-field"; readonly field: string }
  /** The contract demands a field we do not send. */
  | { readonly reason: "missing-field"; readonly field: string }
  | { readonly reason: "value-not-accepted"; readonly field: string; readonly value: string }
  | { readonly reason: "unknown-gpu-ids"; readonly ids: readonly string[] }
  | { readonly reason: "unknown-cuda-versions"; readonly versions: readonly string[] };

/** One sentence for people; names the culprits. */
export function describeMismatch(mismatch: ContractMismatch): string {
  switch (mismatch.reason) {
    case "schema-unreadable":
      return `RunPod's OpenAPI document cannot be used: ${mismatch.what}.`;
    case "unknown-field":
      return `RunPod's create call no longer takes the field ${mismatch.field}.`;
    case "missing-field":
      return `RunPod's create call now demands the field ${mismatch.field}.`;
    case "value-not-accepted":
      return `RunPod's create call does not take ${mismatch.value} for ${mismatch.field}.`;
    case "unknown-gpu-ids":
      return `RunPod's catalog does not list the configured GPU ids: ${mismatch.ids.join(", ")}.`;
    case "unknown-cuda-versions":
      return `RunPod offers none of the configured GPUs with CUDA ${mismatch.versions.join(", ")}.`;
    default:
      return unreachable(mismatch, "contract mismatch");
  }
}

/**
 * Checks that `POST path` of the live document takes exactly this body: every field named by the schema, every demanded
 * field sent, every value of an enumeration accepted. Gives all mismatches, or ok.
 */
export function checkCreateContract(
  document: unknown,
  body: CreateBody,
  path = "/v2/pods",
): Result<null, readonly ContractMismatch[]> {
  const schema = postBodySchema(document, path);
  if (!schema.ok) return err([schema.error]);
  const mismatches = compare(document, schema.value, body, "");
  return mismatches.length === 0 ? ok(null) : err(mismatches);
}

function compare(document: unknown, view: SchemaView, value: unknown, field: string): readonly ContractMismatch[] {
  if (Array.isArray(value)) {
    const items = itemsView(document, view);
    if (!items.ok) return [items.error];
    const wrongType = typeMismatch(view, value, field);
    const itemSchema = items.value;
    if (itemSchema === null) return wrongType;
    return [...wrongType, ...value.flatMap((item: unknown) => compare(document, itemSchema, item, `${field}[]`))];
  }
  if (typeof value === "object" && value !== null) return compareObject(document, view, value, field);

  const allowed = allowedValues(view);
  if (allowed !== null && !allowed.includes(value)) {
    return [{ reason: "value-not-accepted", field, value: shown(field, value) }];
  }
  return typeMismatch(view, value, field);
}

function compareObject(document: unknown, view: SchemaView, value: object, field: string): readonly ContractMismatch[] {
  const mismatches: ContractMismatch[] = [...typeMismatch(view, value, field)];
  const child = (name: string): string => (field === "" ? name : `${field}.${name}`);
  for (const [name, part] of Object.entries(value)) {
    const named = propertyView(document, view, name);
    const rest = valuesView(document, view);
    if (!named.ok || !rest.ok) {
      if (!named.ok) mismatches.push(named.error);
      else if (!rest.ok) mismatches.push(rest.error);
      continue;
    }
    const schema = named.value ?? rest.value;
    if (schema !== null) mismatches.push(...compare(document, schema, part, child(name)));
    // v2 refuses an unknown key even where the document forgets to say so: unnamed counts as not accepted.
    else if (namesProperties(view) || isClosed(view)) mismatches.push({ reason: "unknown-field", field: child(name) });
  }
  for (const fragment of view.fragments) {
    const required = fragment["required"];
    if (!Array.isArray(required)) continue;
    for (const name of required as readonly unknown[]) {
      if (typeof name === "string" && !Object.hasOwn(value, name)) {
        mismatches.push({ reason: "missing-field", field: child(name) });
      }
    }
  }
  return mismatches;
}

/** A mismatch is logged and shown: values of the environment and of the start command stay out of it. */
function shown(field: string, value: unknown): string {
  return field === "args" || field.startsWith("env.") ? "what we send" : JSON.stringify(value);
}

function namesProperties(view: SchemaView): boolean {
  return allFragments(view).some((fragment) => fragment["properties"] !== undefined);
}

function isClosed(view: SchemaView): boolean {
  return allFragments(view).some(
    (fragment) => fragment["additionalProperties"] === false || fragment["unevaluatedProperties"] === false,
  );
}

function typeMismatch(view: SchemaView, value: unknown, field: string): readonly ContractMismatch[] {
  for (const fragment of view.fragments) {
    const type = fragment["type"];
    const types: readonly unknown[] = Array.isArray(type) ? type : type === undefined ? [] : [type];
    if (types.length > 0 && !typeNames(value).some((name) => types.includes(name))) {
      return [
        {
          reason: "value-not-accepted",
          field: field === "" ? "(body)" : field,
          value: `a value of type ${typeNames(value)[0]}`,
        },
      ];
    }
  }
  return [];
}

function typeNames(value: unknown): readonly string[] {
  if (value === null) return ["null"];
  if (Array.isArray(value)) return ["array"];
  if (typeof value === "number") return Number.isInteger(value) ? ["integer", "number"] : ["number"];
  return [typeof value];
}

/** What hosts are asked for: an open floor, or an exact set of `major.minor` versions. */
export type CudaWish =
  | { readonly kind: "min"; readonly version: string }
  | { readonly kind: "allowed"; readonly versions: readonly string[] };

/**
 * Checks that the live catalog lists every configured GPU id, and that some configured GPU is offered with every CUDA
 * version asked for (for a floor: with the floor or above). A catalog that tells no CUDA versions at all proves nothing
 * against a floor; an exact set it cannot confirm is refused, because RunPod matches a set exactly.
 */
export function checkCatalog(
  offers: readonly Offer[],
  tiers: readonly Tier[],
  cuda: CudaWish,
): Result<null, readonly ContractMismatch[]> {
  const mismatches: ContractMismatch[] = [];
  const listed = new Map(offers.map((offer) => [offer.gpuId, offer]));
  const configured = [...new Set(tiers.flatMap((tier) => tier.gpuIds))];
  const unknown = configured.filter((id) => !listed.has(id));
  if (unknown.length > 0) mismatches.push({ reason: "unknown-gpu-ids", ids: unknown });

  const offered = new Set(configured.flatMap((id) => listed.get(id)?.cudaVersions ?? []));
  const absent = missingCuda(cuda, offered);
  if (absent.length > 0) mismatches.push({ reason: "unknown-cuda-versions", versions: absent });
  return mismatches.length === 0 ? ok(null) : err(mismatches);
}

function missingCuda(cuda: CudaWish, offered: ReadonlySet<string>): readonly string[] {
  switch (cuda.kind) {
    case "allowed":
      return cuda.versions.filter((version) => !offered.has(version));
    case "min": {
      const reached = offered.size === 0 || [...offered].some((version) => compareVersions(version, cuda.version) >= 0);
      return reached ? [] : [`${cuda.version} or above`];
    }
    default:
      return unreachable(cuda, "CUDA wish");
  }
}

/** Compares dotted numbers as numbers: 12.10 is above 12.8. Negative when `a` is lower. */
export function compareVersions(a: string, b: string): number {
  const left = a.split(".").map(Number);
  const right = b.split(".").map(Number);
  for (let index = 0; index < Math.max(left.length, right.length); index += 1) {
    const difference = (left[index] ?? 0) - (right[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/**
 * The enumeration that the items of an array field of `POST path` are limited to: what the retired v1 contract held its
 * GPU ids and CUDA versions in.
 */
export function itemEnumeration(
  document: unknown,
  path: string,
  field: string,
): Result<readonly string[], SchemaProblem> {
  const schema = postBodySchema(document, path);
  if (!schema.ok) return schema;
  const property = propertyView(document, schema.value, field);
  if (!property.ok) return property;
  const items = property.value === null ? ok(null) : itemsView(document, property.value);
  if (!items.ok) return items;
  const values = items.value === null ? null : allowedValues(items.value);
  if (values === null || values.length === 0 || !values.every((value) => typeof value === "string")) {
    return err({ reason: "schema-unreadable", what: `POST ${path} does not enumerate the items of ${field}` });
  }
  return ok(values);
}
