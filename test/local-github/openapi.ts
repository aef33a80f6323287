/**
 * Holds answers against GitHub's OpenAPI description: the schema of (method, path template, status) compiled by ajv.
 *
 * The description is OpenAPI 3.0 of API version 2022-11-28; `nullable` is put into JSON Schema terms, and the fields that
 * 2026-03-10 removed are no longer required.
 */

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Ajv } from "ajv";
import type { ValidateFunction } from "ajv";
import formats from "ajv-formats";

type Node = Record<string, unknown>;

interface Media {
  readonly schema?: unknown;
}
interface ResponseNode {
  readonly $ref?: string;
  readonly content?: Record<string, Media>;
}
interface Document {
  readonly paths: Record<string, Record<string, { responses: Record<string, ResponseNode> }>>;
  readonly components: { readonly responses: Record<string, ResponseNode> } & Record<string, Node>;
}

const removed = new Set(["merge_commit_sha", "assignee", "rate", "has_downloads", "use_squash_pr_title_as_default"]);

function isNode(value: unknown): value is Node {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** A slip of the description: the account in the list of installations is said to be a user and an enterprise at once. */
function isUserAndEnterprise(parts: unknown): boolean {
  return Array.isArray(parts) && parts.some((part) => isNode(part) && part["title"] === "Enterprise");
}

/** One schema node in JSON Schema terms. */
function convert(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(convert);
  if (!isNode(value)) return value;
  const node: Node = Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => key !== "example" && key !== "examples" && key !== "discriminator")
      .map(([key, inner]) => [key, key === "enum" || key === "default" ? inner : convert(inner)]),
  );
  if (Array.isArray(node["required"])) node["required"] = node["required"].filter((name) => !removed.has(String(name)));
  if (Array.isArray(node["required"]) && node["required"].length === 0) delete node["required"];
  if (typeof node["$ref"] === "string") node["$ref"] = node["$ref"].replace("#/components/schemas/", "#/definitions/");
  if (isUserAndEnterprise(node["allOf"])) {
    node["anyOf"] = node["allOf"];
    delete node["allOf"];
  }
  if (node["nullable"] !== true) return node;
  delete node["nullable"];
  return { anyOf: [node, { type: "null" }] };
}

export class Contract {
  readonly #document: Document;
  readonly #schemas: Node;
  readonly #templates: readonly { readonly template: string; readonly pattern: RegExp }[];
  readonly #compiled = new Map<string, ValidateFunction>();

  constructor(file: string) {
    this.#document = JSON.parse(readFileSync(file, "utf8")) as Document;
    this.#schemas = this.#document.components["schemas"] ?? {};
    const pattern = (template: string): RegExp => {
      const open = template.replace(/\{(path|ref|basehead|branch|tree_sha)\}$/, "(.+)");
      // Ids are digits, except a workflow's, which may be its file name.
      const ids = open.replaceAll(/\{(?!workflow_)[a-z_]+_id\}/g, String.raw`(\d+)`);
      return new RegExp(`^${ids.replaceAll(/\{[^}]+\}/g, "([^/]+)")}$`);
    };
    this.#templates = Object.keys(this.#document.paths)
      // The more a template spells out, the more it means this path.
      .sort((a, b) => a.split("{").length - b.split("{").length || b.length - a.length)
      .map((template) => ({ template, pattern: pattern(template) }));
  }

  /** True when the document describes this operation. */
  has(method: string, template: string): boolean {
    return this.#document.paths[template]?.[method.toLowerCase()] !== undefined;
  }

  /** The problems of an answer; null when the document does not describe this path (or its method). */
  problems(method: string, path: string, status: number, body: unknown): string[] | null {
    const found = this.#templates.find(({ template, pattern }) => pattern.test(path) && this.has(method, template));
    if (found === undefined) return null;
    const described = this.#document.paths[found.template]?.[method.toLowerCase()]?.responses[String(status)];
    const where = `${method} ${found.template} ${status}`;
    if (described === undefined) {
      // The description does not repeat what any route may refuse with; a refusal still has one form.
      if (status < 300) return [`${where}: this status is not described`];
      return status < 400
        ? []
        : this.#problemsBy("basic error", { $ref: "#/components/schemas/basic-error" }, body, where);
    }
    const response =
      described.$ref === undefined
        ? described
        : this.#document.components.responses[described.$ref.split("/").at(-1) ?? ""];
    const schema = response?.content?.["application/json"]?.schema;
    return schema === undefined ? [] : this.#problemsBy(where, schema, body, where);
  }

  #problemsBy(key: string, schema: unknown, body: unknown, where: string): string[] {
    const validate = this.#validator(key, schema);
    if (validate(body)) return [];
    return (validate.errors ?? []).slice(0, 5).map((error) => `${where}: ${error.instancePath} ${error.message ?? ""}`);
  }

  #validator(key: string, schema: unknown): ValidateFunction {
    const known = this.#compiled.get(key);
    if (known !== undefined) return known;
    const definitions: Node = {};
    const root = convert(schema) as Node;
    const collect = (value: unknown): void => {
      if (Array.isArray(value)) value.forEach(collect);
      if (!isNode(value)) return;
      const name = typeof value["$ref"] === "string" ? value["$ref"].split("/").at(-1) : undefined;
      if (name !== undefined && definitions[name] === undefined) {
        definitions[name] = convert(this.#schemas[name]);
        collect(definitions[name]);
      }
      Object.values(value).forEach(collect);
    };
    collect(root);
    const ajv = new Ajv({ strict: false, allErrors: false });
    formats.default(ajv);
    const validate = ajv.compile({ ...root, definitions });
    this.#compiled.set(key, validate);
    return validate;
  }
}

const require = createRequire(import.meta.url);

/** GitHub's description as npm has it. */
export const npmDocument = require.resolve("@octokit/openapi/generated/api.github.com.json");

/** The project's own cut of it; absent in a plain clone. */
export const subsetDocument = new URL("../../../shared/reference/github-openapi-subset.json", import.meta.url).pathname;
export const subsetPresent = existsSync(subsetDocument);

let contract: Contract | null = null;
export function npmContract(): Contract {
  contract ??= new Contract(npmDocument);
  return contract;
}
