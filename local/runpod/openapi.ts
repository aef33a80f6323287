/**
 * The OpenAPI document the local RunPod serves at `GET /v2/openapi.json`: only the routes it has.
 *
 * The create schema is made from the same zod schema that judges the requests, so the document cannot drift from it. A
 * test compares it with RunPod's own document where that is at hand.
 */
import * as z from "zod";
import { createPodSchema } from "./create.ts";

type Json = Readonly<Record<string, unknown>>;

const ref = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });
const nullable = (type: string, more: Json = {}): Json => ({ type: [type, "null"], ...more });
const closed = (properties: Json, required: readonly string[] = Object.keys(properties)): Json => ({
  type: "object",
  required,
  properties,
});
const jsonBody = (schema: Json, description: string): Json => ({
  description,
  content: { "application/json": { schema } },
});
const problem = (description: string): Json => ({
  description,
  content: { "application/problem+json": { schema: ref("ErrorResponse") } },
});
const query = (name: string, schema: Json): Json => ({ name, in: "query", required: false, schema });
const refusals: Json = { "401": problem("No valid key"), "403": problem("No access"), "429": problem("Rate limited") };
const pathId: Json = { name: "id", in: "path", required: true, schema: { type: "string" } };

const createRequest: Json = (() => {
  const { $schema: _dialect, ...schema } = z.toJSONSchema(createPodSchema, { io: "input" });
  // The same condition the route enforces: an image, unless a template brings one.
  return { ...schema, anyOf: [{ required: ["image"] }, { required: ["templateId"] }] };
})();

const pod = closed(
  {
    id: { type: "string" },
    name: { type: "string" },
    status: { type: "string", enum: ["PROVISIONING", "STARTING", "RUNNING", "EXITED", "ERROR", "TERMINATED"] },
    actions: { type: "array", items: { type: "string", enum: ["start", "stop", "restart", "terminate"] } },
    image: { type: "string" },
    args: { type: "string" },
    disk: { type: "integer", minimum: 1 },
    mounts: { type: "object" },
    ports: { type: "array", items: { type: "string" } },
    env: { type: "object", additionalProperties: { type: "string" } },
    registry: nullable("string"),
    gpu: closed({ id: { type: "string" }, count: { type: "integer", minimum: 1 } }, ["id"]),
    cloud: { type: "string", enum: ["SECURE", "COMMUNITY"] },
    dataCenterId: nullable("string"),
    cudaVersion: nullable("string"),
    ssh: closed({ proxy: nullable("object"), direct: nullable("object") }),
    template: nullable("string"),
    cost: { type: "number" },
    locked: { type: "boolean" },
    runtime: nullable("object"),
    createdAt: { type: "string", format: "date-time" },
    startedAt: nullable("string", { format: "date-time" }),
    globalNetworking: closed({ enabled: { type: "boolean" } }),
  },
  [
    "id",
    "name",
    "status",
    "actions",
    "image",
    "args",
    "disk",
    "mounts",
    "ports",
    "env",
    "registry",
    "cloud",
    "dataCenterId",
    "cudaVersion",
    "ssh",
    "template",
    "cost",
    "locked",
    "runtime",
    "createdAt",
    "startedAt",
    "globalNetworking",
  ],
);

const gpuType = closed(
  {
    id: { type: "string" },
    name: { type: "string" },
    pool: nullable("string"),
    manufacturer: { type: "string", enum: ["NVIDIA", "AMD", "UNKNOWN"] },
    memory: { type: "integer" },
    secure: { type: "boolean" },
    community: { type: "boolean" },
    price: closed({ secure: { type: "number" }, community: { type: "number" } }),
    maxCount: closed({ secure: { type: "integer" }, community: { type: "integer" } }),
    availability: { type: "string", enum: ["NONE", "LOW", "MEDIUM", "HIGH"] },
    dataCenters: { type: "array", items: { type: "object" } },
    cudaVersions: {
      type: "array",
      items: closed({ version: { type: "string" }, available: { type: "boolean" } }),
    },
  },
  ["id", "name", "pool", "manufacturer", "memory", "secure", "community", "price", "maxCount"],
);

/** The whole document, as plain data. */
export const openApiDocument: Json = {
  openapi: "3.1.0",
  info: {
    title: "Local RunPod",
    version: "2.0.0",
    description: "The pod routes of RunPod's REST v2 as this local stand-in serves them.",
  },
  security: [{ bearerAuth: [] }],
  paths: {
    "/v2/pods": {
      get: {
        operationId: "listPods",
        parameters: [query("limit", { type: "integer" }), query("cursor", { type: "string" })],
        responses: { "200": jsonBody(ref("ListPodsResponse"), "The account's pods"), ...refusals },
      },
      post: {
        operationId: "createPod",
        requestBody: { required: true, content: { "application/json": { schema: ref("CreatePodRequest") } } },
        responses: {
          "201": jsonBody(ref("Pod"), "Rented; provisioning goes on"),
          "400": problem("A rule is broken, or there is no capacity: only the text tells which"),
          "402": problem("Insufficient balance"),
          "404": problem("No such template"),
          "413": problem("Larger than 102,400 bytes"),
          "422": problem("The body breaks the schema"),
          ...refusals,
        },
      },
    },
    "/v2/pods/{id}": {
      parameters: [pathId],
      get: {
        operationId: "getPod",
        responses: { "200": jsonBody(ref("Pod"), "The pod"), "404": problem("No such pod"), ...refusals },
      },
      delete: {
        operationId: "deletePod",
        responses: { "204": { description: "Accepted; no body" }, "404": problem("No such pod"), ...refusals },
      },
    },
    "/v2/pods/{id}/logs": {
      parameters: [pathId],
      get: {
        operationId: "getPodLogs",
        parameters: [
          query("source", { type: "string", enum: ["container", "system"] }),
          query("tail", { type: "integer", minimum: 0, maximum: 5000 }),
        ],
        responses: {
          "200": { description: "Log lines", content: { "text/event-stream": { schema: { type: "string" } } } },
          "404": problem("No such pod"),
          ...refusals,
        },
      },
    },
    "/v2/catalog/gpus": {
      get: {
        operationId: "listGpuTypes",
        parameters: [
          query("include", { type: "string", enum: ["AVAILABILITY"] }),
          query("product", { type: "string", enum: ["POD", "CLUSTER", "SERVERLESS"] }),
          query("count", { type: "integer", minimum: 1 }),
          query("cloud", { type: "string", enum: ["SECURE", "COMMUNITY"] }),
        ],
        responses: {
          "200": jsonBody(closed({ gpus: { type: "array", items: ref("GpuType") } }), "GPU types with prices"),
          "400": problem("include and product go together"),
          ...refusals,
        },
      },
    },
    "/v2/catalog/gpus/{id}": {
      parameters: [pathId],
      get: {
        operationId: "getGpuType",
        responses: { "200": jsonBody(ref("GpuType"), "One GPU type"), "404": problem("No such GPU"), ...refusals },
      },
    },
    "/v2/billing/pods": {
      get: {
        operationId: "listPodBilling",
        parameters: ["startTime", "endTime", "bucketSize", "lastN", "podId"].map((name) =>
          query(name, { type: "string" }),
        ),
        responses: {
          "200": jsonBody(
            closed({ records: { type: "array", items: { type: "object" } }, metadata: { type: "object" } }),
            "What each pod cost, per bucket",
          ),
          "400": problem("A bad query"),
          ...refusals,
        },
      },
    },
  },
  components: {
    securitySchemes: { bearerAuth: { type: "http", scheme: "bearer" } },
    schemas: {
      CreatePodRequest: createRequest,
      Pod: pod,
      ListPodsResponse: closed(
        {
          pods: { type: "array", items: ref("Pod") },
          pagination: closed({ nextCursor: nullable("string"), hasNextPage: { type: "boolean" } }),
        },
        ["pods"],
      ),
      GpuType: gpuType,
      ErrorResponse: closed(
        {
          title: { type: "string" },
          status: { type: "integer" },
          detail: { type: "string" },
          errors: { type: "array", items: { type: "string" } },
        },
        ["title", "status", "detail"],
      ),
    },
  },
};
