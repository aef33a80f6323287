import { describe, expect, test } from "vitest";
import {
  checkCatalog,
  checkCreateContract,
  compareVersions,
  describeMismatch,
  itemEnumeration,
} from "../../shared/runpod/contract.ts";
import type { ContractMismatch } from "../../shared/runpod/contract.ts";
import { probeBody } from "../../shared/runpod/create-body.ts";
import type { Offer } from "../../shared/runpod/offers.ts";

const BODY = probeBody("NVIDIA L4", { kind: "min", version: "12.6" });

/** The v2 shape in small: parts joined by allOf and references, closed at the end. */
function document(changes: { readonly [name: string]: unknown } = {}): unknown {
  return {
    paths: {
      "/v2/pods": {
        post: { requestBody: { content: { "application/json": { schema: { $ref: "#/components/schemas/Create" } } } } },
      },
    },
    components: {
      schemas: {
        Create: {
          allOf: [
            { $ref: "#/components/schemas/Container~1Part%20one" },
            {
              type: "object",
              required: ["name"],
              properties: {
                name: { type: "string" },
                cloud: { allOf: [{ $ref: "#/components/schemas/Cloud" }] },
                dataCenterIds: { type: "array", items: { type: "string" } },
                gpu: { $ref: "#/components/schemas/Gpu" },
              },
            },
          ],
          unevaluatedProperties: false,
        },
        "Container/Part one": {
          type: "object",
          properties: {
            args: { type: "string" },
            disk: { type: "integer" },
            env: { type: "object", additionalProperties: { type: "string" } },
            image: { type: "string" },
            ports: { type: "array", items: { type: "string" } },
          },
        },
        Cloud: { type: "string", enum: ["SECURE", "COMMUNITY"] },
        Gpu: {
          type: "object",
          required: ["id"],
          properties: { id: { type: "string" }, count: { type: "integer" }, minCudaVersion: { type: "string" } },
          additionalProperties: false,
        },
        ...changes,
      },
    },
  };
}

function mismatches(changed: unknown): readonly ContractMismatch[] {
  const checked = checkCreateContract(changed, BODY);
  return checked.ok ? [] : checked.error;
}

describe("the create contract", () => {
  test("every field we send is found through allOf and references", () => {
    expect(mismatches(document())).toEqual([]);
  });

  test("N118: a field that RunPod dropped is named with its path", () => {
    const gpu = { type: "object", properties: { id: { type: "string" }, count: { type: "integer" } } };
    expect(mismatches(document({ Gpu: gpu }))).toEqual([{ reason: "unknown-field", field: "gpu.minCudaVersion" }]);
  });

  test("a field that RunPod now demands is named", () => {
    const gpu = {
      type: "object",
      required: ["id", "pool"],
      properties: { id: {}, count: {}, minCudaVersion: {}, pool: {} },
    };
    expect(mismatches(document({ Gpu: gpu }))).toEqual([{ reason: "missing-field", field: "gpu.pool" }]);
  });

  test("a value that left its enumeration is named", () => {
    expect(mismatches(document({ Cloud: { enum: ["COMMUNITY"] } }))).toEqual([
      { reason: "value-not-accepted", field: "cloud", value: '"SECURE"' },
    ]);
  });

  test("a type that changed is a mismatch", () => {
    const gpu = { type: "object", properties: { id: {}, count: { type: "string" }, minCudaVersion: {} } };
    expect(mismatches(document({ Gpu: gpu }))).toMatchObject([{ reason: "value-not-accepted", field: "gpu.count" }]);
  });

  test("a schema offered as a choice is read through its branches", () => {
    const gpu = { oneOf: [{ properties: { id: {}, count: {} } }, { properties: { minCudaVersion: {} } }] };
    expect(mismatches(document({ Gpu: gpu }))).toEqual([]);
  });

  test("N152: a mismatch in env does not show the value", () => {
    const part = {
      properties: { args: {}, disk: {}, image: {}, ports: {}, env: { additionalProperties: { enum: ["y"] } } },
    };
    const found = mismatches(document({ "Container/Part one": part }));
    expect(found.length).toBeGreaterThan(0);
    expect(found.every((one) => one.reason === "value-not-accepted" && one.value === "what we send")).toBe(true);
  });

  test.each([
    ["no document", null],
    ["no paths", {}],
    ["no create", { paths: { "/v2/pods": { get: {} } } }],
    ["a reference to another host", document({ Gpu: { $ref: "https://elsewhere.test/gpu.json" } })],
    ["a reference to another file", document({ Gpu: { $ref: "gpu.json#/Gpu" } })],
    ["a reference to nothing", document({ Gpu: { $ref: "#/components/schemas/Nowhere" } })],
    ["a reference to an inherited name", document({ Gpu: { $ref: "#/components/schemas/toString" } })],
    ["a circle", document({ Gpu: { $ref: "#/components/schemas/Gpu" } })],
  ])("%s is a refusal, not a pass", (_what, changed) => {
    expect(mismatches(changed)[0]?.reason).toBe("schema-unreadable");
  });
});

describe("the catalog", () => {
  const offer = (gpuId: string, cudaVersions: readonly string[] | null): Offer => ({
    gpuId,
    cudaVersions,
    memoryGb: 24,
    secure: true,
    usdPerHour: 1,
    stock: null,
  });
  const tiers = [{ name: "t", gpuIds: ["A", "B"] }];
  const floor = { kind: "min", version: "12.6" } as const;

  test("all ids listed and the floor reached", () => {
    expect(checkCatalog([offer("A", ["12.10"]), offer("B", null)], tiers, floor).ok).toBe(true);
  });

  test("quirk 15: an id that the catalog does not list is named, because RunPod would call it sold out", () => {
    const checked = checkCatalog([offer("A", ["12.8"])], tiers, floor);
    expect(checked).toEqual({ ok: false, error: [{ reason: "unknown-gpu-ids", ids: ["B"] }] });
  });

  test("an exact CUDA version nobody offers is named", () => {
    const wish = { kind: "allowed", versions: ["12.6", "12.8"] } as const;
    const checked = checkCatalog([offer("A", ["12.8"]), offer("B", ["13.0"])], tiers, wish);
    expect(checked).toEqual({ ok: false, error: [{ reason: "unknown-cuda-versions", versions: ["12.6"] }] });
  });

  test("a floor above everything offered is named; versions compare as numbers", () => {
    const offers = [offer("A", ["12.4"]), offer("B", ["12.5"])];
    expect(checkCatalog(offers, tiers, floor).ok).toBe(false);
    expect(compareVersions("12.10", "12.8")).toBeGreaterThan(0);
  });

  test("versions of a type that is not configured do not count", () => {
    expect(checkCatalog([offer("A", ["12.4"]), offer("B", ["12.4"]), offer("Z", ["13.0"])], tiers, floor).ok).toBe(
      false,
    );
  });

  test("a catalog that tells no versions proves nothing against a floor and confirms no exact set", () => {
    const silent = [offer("A", null), offer("B", null)];
    expect(checkCatalog(silent, tiers, floor).ok).toBe(true);
    expect(checkCatalog(silent, tiers, { kind: "allowed", versions: ["12.8"] }).ok).toBe(false);
  });
});

describe("enumerations of the retired v1 document", () => {
  const v1 = (items: unknown): unknown => ({
    paths: {
      "/pods": {
        post: {
          requestBody: { content: { "application/json": { schema: { properties: { gpuTypeIds: { items } } } } } },
        },
      },
    },
  });

  test("reads the items' enumeration", () => {
    expect(itemEnumeration(v1({ enum: ["A", "B"] }), "/pods", "gpuTypeIds")).toEqual({ ok: true, value: ["A", "B"] });
  });

  test.each([[undefined], [{}], [{ enum: [] }], [{ enum: [1] }]])("items %j are unreadable", (items) => {
    expect(itemEnumeration(v1(items), "/pods", "gpuTypeIds").ok).toBe(false);
  });
});

test("every mismatch has a sentence that names its culprit", () => {
  const all: readonly ContractMismatch[] = [
    { reason: "schema-unreadable", what: "culprit" },
    { reason: "unknown-field", field: "culprit" },
    { reason: "missing-field", field: "culprit" },
    { reason: "value-not-accepted", field: "x", value: "culprit" },
    { reason: "unknown-gpu-ids", ids: ["culprit"] },
    { reason: "unknown-cuda-versions", versions: ["culprit"] },
  ];
  for (const mismatch of all) expect(describeMismatch(mismatch)).toContain("culprit");
});
