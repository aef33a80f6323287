/** The served OpenAPI document against the server's own answers, and against RunPod's document where it is at hand. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";
import { openApiDocument } from "../../local/runpod/openapi.ts";
import { bash, GPU, openWorld, pod } from "./harness.ts";
import type { Reply, World } from "./harness.ts";

const vendorFile = join(import.meta.dirname, "../../../shared/reference/runpod-openapi-v2.json");
const vendor: unknown = existsSync(vendorFile) ? JSON.parse(readFileSync(vendorFile, "utf8")) : null;

/** Newer than the vendor document at hand: runpod-facts.md section 3.5. */
const newerFields = ["cmd", "entrypoint", "gpu.minRamPerGpu", "gpu.minVcpuCountPerGpu"];

const schemaSchema = z.looseObject({
  $ref: z.string().optional(),
  type: z.union([z.string(), z.array(z.string())]).optional(),
  properties: z.record(z.string(), z.unknown()).optional(),
  allOf: z.array(z.unknown()).optional(),
  anyOf: z.array(z.unknown()).optional(),
  required: z.array(z.string()).optional(),
});
type Schema = z.infer<typeof schemaSchema>;

const operations = z.record(z.string(), z.unknown());
const documentSchema = z.object({
  paths: z.record(z.string(), operations),
  components: z.object({ schemas: z.record(z.string(), z.unknown()) }),
});
type Document = z.infer<typeof documentSchema>;

/** A schema without references and allOf: what it lets an object hold. */
function flatten(document: Document, value: unknown): Schema {
  let schema = schemaSchema.parse(value);
  if (schema.$ref) schema = flatten(document, document.components.schemas[schema.$ref.split("/").at(-1) ?? ""]);
  const parts = (schema.allOf ?? []).map((part) => flatten(document, part));
  return {
    ...schema,
    type: schema.type ?? parts.find((part) => part.type)?.type,
    properties: Object.assign({}, ...parts.map((part) => part.properties), schema.properties) as Record<
      string,
      unknown
    >,
    required: [...parts.flatMap((part) => part.required ?? []), ...(schema.required ?? [])],
  };
}

/** The words of a type; JSON Schema writes "nullable" as a list or as anyOf. */
function typeWords(document: Document, schema: Schema): string[] {
  if (schema.type) return [schema.type].flat().filter((word) => word !== "null");
  return (schema.anyOf ?? []).flatMap((part) => typeWords(document, flatten(document, part)));
}

function createSchema(document: Document): Schema {
  return flatten(document, { $ref: "#/components/schemas/CreatePodRequest" });
}

let world: World;
const answers: { schema: string; reply: Reply }[] = [];

beforeAll(async () => {
  world = await openWorld({ timing: { terminatedMs: 60_000 } });
  const { id } = pod(await keep("Pod", world.create({ args: bash("sleep 60"), env: { A: "b" }, disk: 20 })));
  world.pass(1_000);
  await keep("Pod", world.call("GET", `/pods/${id}`));
  world.pass(1_000);
  await keep("Pod", world.call("GET", `/pods/${id}`));
  await keep("ListPodsResponse", world.call("GET", "/pods?limit=1"));
  await world.call("DELETE", `/pods/${id}`);
  await keep("Pod", world.call("GET", `/pods/${id}`));
  await keep("ListPodBillingResponse", world.call("GET", "/billing/pods"));
  await keep("ListGpuTypesResponse", world.call("GET", "/catalog/gpus"));
  await keep("ListGpuTypesResponse", world.call("GET", "/catalog/gpus?include=AVAILABILITY&product=POD"));
  await keep("GpuType", world.call("GET", `/catalog/gpus/${encodeURIComponent(GPU)}`));
  await keep("ErrorResponse", world.create({ unknown: true }));
  await keep("ErrorResponse", world.call("GET", "/pods/none"));
  await keep("ErrorResponse", world.call("GET", "/pods", undefined, { Authorization: "" }));
});

afterAll(async () => {
  await world.close();
});

async function keep(schema: string, asked: Promise<Reply>): Promise<Reply> {
  const reply = await asked;
  answers.push({ schema, reply });
  return reply;
}

/** Each answer's complaints, for the schemas the document has. */
function complaints(document: unknown): string[] {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema(document as object, "doc");
  const { components } = documentSchema.parse(document);
  return answers
    .filter(({ schema }) => schema in components.schemas)
    .flatMap(({ schema, reply }) => {
      const validate = ajv.compile({ $ref: `doc#/components/schemas/${schema}` });
      return validate(JSON.parse(reply.text)) ? [] : [`${schema}: ${ajv.errorsText(validate.errors)}`];
    });
}

describe("the served OpenAPI document", () => {
  const own = documentSchema.parse(openApiDocument);

  it("describes the server's own answers", () => {
    expect(complaints(openApiDocument)).toEqual([]);
  });

  it("closes the create schema at every level", () => {
    const open: string[] = [];
    const visit = (value: unknown, path: string): void => {
      const schema = schemaSchema.parse(value);
      if (schema.properties && schema["additionalProperties"] !== false) open.push(path);
      for (const [name, inner] of Object.entries(schema.properties ?? {})) visit(inner, `${path}.${name}`);
    };
    visit(own.components.schemas["CreatePodRequest"], "$");
    expect(open).toEqual([]);
  });

  it("names nothing that the server does not serve", async () => {
    for (const [path, methods] of Object.entries(own.paths)) {
      for (const method of Object.keys(methods).filter((name) => name !== "parameters")) {
        const reply = await world.call(
          method.toUpperCase(),
          path.replace("/v2", "").replace("{id}", "x"),
          method === "post" ? {} : undefined,
        );
        expect([path, reply.text]).not.toEqual([path, expect.stringContaining("requested path")]);
        expect([path, reply.status]).not.toEqual([path, 405]);
      }
    }
  });

  describe.skipIf(vendor === null)("beside RunPod's own (skipped where it is not at hand)", () => {
    it("has no route that RunPod has not", () => {
      const theirs = documentSchema.parse(vendor);
      for (const [path, methods] of Object.entries(own.paths)) {
        expect(Object.keys(theirs.paths[path] ?? {})).toEqual(expect.arrayContaining(Object.keys(methods)));
      }
    });

    it("takes no create field that RunPod does not take, and of the same type", () => {
      const theirs = documentSchema.parse(vendor);
      const differences = compare(own, createSchema(own), theirs, createSchema(theirs), "");
      expect(differences).toEqual([]);
    });

    it("answers what RunPod's document promises", () => {
      expect(complaints(vendor)).toEqual([]);
    });
  });
});

function compare(own: Document, mine: Schema, theirs: Document, vendors: Schema, path: string): string[] {
  return Object.entries(mine.properties ?? {}).flatMap(([name, value]) => {
    const place = path === "" ? name : `${path}.${name}`;
    if (newerFields.includes(place)) return [];
    if (!(name in (vendors.properties ?? {}))) return [`${place} is not RunPod's`];
    const inner = flatten(own, value);
    const theirInner = flatten(theirs, vendors.properties?.[name]);
    const types = typeWords(own, inner);
    const theirTypes = typeWords(theirs, theirInner);
    if (theirTypes.length > 0 && !types.every((word) => theirTypes.includes(word))) {
      return [`${place} is ${types.join("|")} here and ${theirTypes.join("|")} there`];
    }
    return compare(own, inner, theirs, theirInner, place);
  });
}
