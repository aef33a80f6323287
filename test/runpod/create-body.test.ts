import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checkCreateContract } from "../../shared/runpod/contract.ts";
import {
  bodyBytes,
  buildCreateBody,
  MAX_BODY_BYTES,
  POD_ENV,
  POD_FACTS,
  probeBody,
  redactCreateBody,
  secretsOf,
} from "../../shared/runpod/create-body.ts";
import type { CreateBody, CreateRequest, PodEnv } from "../../shared/runpod/create-body.ts";
import { GPU_GATE_TAGS } from "../../shared/runpod/tags.ts";

const ENV: PodEnv = {
  jitConfig: "jit-canary",
  proofNonce: "proof-canary",
  exitNonce: "exit-canary",
  controlUrl: "https://gate.test",
  owner: {
    deployment: "acme",
    repositoryId: "101",
    requestId: "r-1",
    attemptId: "a-1",
    runId: "42",
    keep: "false",
  },
  facts: { tier: "cost-preferred", minVramMb: "8000", smoke: "required" },
};

const REQUEST: CreateRequest = {
  name: "gpu-gate-acme-a-1",
  image: `images.test/actions/actions-runner@sha256:${"a".repeat(64)}`,
  gpuId: "NVIDIA L4",
  cuda: { kind: "min", version: "12.6" },
  diskGb: 100,
  entrypoint: ["bash", "-c"],
  cmd: ["echo script-canary"],
  env: ENV,
};

function build(changes: Partial<CreateRequest> = {}): CreateBody {
  const built = buildCreateBody({ ...REQUEST, ...changes });
  if (!built.ok) throw new Error(built.error.reason);
  return built.value;
}

describe("the create body", () => {
  test("is this, whole: nothing is sent that is not listed here", () => {
    expect(build()).toEqual({
      name: "gpu-gate-acme-a-1",
      image: REQUEST.image,
      gpu: { id: "NVIDIA L4", count: 1, minCudaVersion: "12.6" },
      cloud: "SECURE",
      disk: 100,
      ports: [],
      args: '{"entrypoint":["bash","-c"],"cmd":["echo script-canary"]}',
      env: {
        GPU_GATE_TIER: "cost-preferred",
        GPU_GATE_MIN_VRAM_MB: "8000",
        GPU_GATE_SMOKE: "required",
        GPU_GATE_DEPLOYMENT: "acme",
        GPU_GATE_REPOSITORY_ID: "101",
        GPU_GATE_REQUEST: "r-1",
        GPU_GATE_ATTEMPT: "a-1",
        GPU_GATE_RUN_ID: "42",
        GPU_GATE_KEEP: "false",
        GPU_GATE_JIT_CONFIG: "jit-canary",
        GPU_GATE_PROOF_NONCE: "proof-canary",
        GPU_GATE_EXIT_NONCE: "exit-canary",
        GPU_GATE_URL: "https://gate.test",
      },
    });
  });

  test("N131: the wish for CUDA travels, as a floor or as an exact set, never as both", () => {
    expect(build({ cuda: { kind: "allowed", versions: ["12.6", "12.8"] } }).gpu).toEqual({
      id: "NVIDIA L4",
      count: 1,
      allowedCudaVersions: ["12.6", "12.8"],
    });
  });

  test("data centres are sent only when some are chosen", () => {
    expect(build({ dataCenterIds: [] })).not.toHaveProperty("dataCenterIds");
    expect(build({ dataCenterIds: ["EU-1"] }).dataCenterIds).toEqual(["EU-1"]);
  });

  test.each([
    ["a tag instead of a digest", { image: "images.test/actions/actions-runner:latest" }, "image-not-pinned"],
    ["a short digest", { image: "images.test/x@sha256:abc" }, "image-not-pinned"],
    ["no name", { name: "" }, "empty-field"],
    ["no GPU", { gpuId: "" }, "empty-field"],
    ["no runner", { env: { ...ENV, jitConfig: "" } }, "empty-field"],
    ["no proof nonce", { env: { ...ENV, proofNonce: "" } }, "empty-field"],
    ["no owner", { env: { ...ENV, owner: { ...ENV.owner, requestId: "" } } }, "tags-incomplete"],
    ["a script that is too long", { cmd: ["x".repeat(MAX_BODY_BYTES)] }, "body-too-large"],
  ])("%s is refused before anything is sent", (_what, changes, reason) => {
    expect(buildCreateBody({ ...REQUEST, ...changes })).toMatchObject({ ok: false, error: { reason } });
  });

  test("the limit is on bytes as sent: 100,000 are too many, one less is not, and an umlaut is two", () => {
    const spare = MAX_BODY_BYTES - bodyBytes(build({ cmd: [""] }));
    expect(bodyBytes(build({ cmd: ["x".repeat(spare - 1)] }))).toBe(MAX_BODY_BYTES - 1);
    expect(buildCreateBody({ ...REQUEST, cmd: ["x".repeat(spare)] }).ok).toBe(false);
    expect(buildCreateBody({ ...REQUEST, cmd: ["ü".repeat(Math.ceil(spare / 2))] }).ok).toBe(false);
  });

  test("all facts together stay below RunPod's 50 variables", () => {
    const facts = Object.fromEntries(Object.keys(POD_FACTS).map((fact) => [fact, "x"]));
    expect(Object.keys(build({ env: { ...ENV, facts } }).env).length).toBeLessThanOrEqual(50);
  });

  test("I5: whatever a caller smuggles in, no variable and no field outside the lists comes out", () => {
    const known = new Set<string>([
      ...Object.values(POD_FACTS),
      ...Object.values(POD_ENV),
      ...Object.values(GPU_GATE_TAGS),
    ]);
    const fields = ["name", "image", "gpu", "cloud", "dataCenterIds", "disk", "ports", "args", "env"];
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.string()), fc.dictionary(fc.string(), fc.string()), (extra, facts) => {
        const env = { ...extra, ...ENV, facts: { ...facts, ...ENV.facts } };
        const body = build({ ...extra, ...REQUEST, env });
        expect(Object.keys(body.env).filter((name) => !known.has(name))).toEqual([]);
        expect(Object.keys(body).filter((name) => !fields.includes(name))).toEqual([]);
      }),
    );
  });
});

describe("what is logged of a create", () => {
  test("N152: names of variables, never their values, and not the start command", () => {
    const logged = JSON.stringify(redactCreateBody(build()));
    for (const canary of ["jit-canary", "proof-canary", "exit-canary", "script-canary", "gate.test"]) {
      expect(logged).not.toContain(canary);
    }
    expect(logged).toContain("GPU_GATE_JIT_CONFIG");
    expect(logged).toContain("NVIDIA L4");
  });

  test("everything secret in the body is named for blotting out", () => {
    expect(secretsOf(build())).toEqual([
      '{"entrypoint":["bash","-c"],"cmd":["echo script-canary"]}',
      "jit-canary",
      "proof-canary",
      "exit-canary",
    ]);
  });
});

const SPEC = resolve(import.meta.dirname, "../../../shared/reference/runpod-openapi-v2.json");

describe.skipIf(!existsSync(SPEC))(
  "against RunPod's v2 document (skipped where the reference folder is not there)",
  () => {
    const document = (): { components: { schemas: object } } =>
      JSON.parse(readFileSync(SPEC, "utf8")) as { components: { schemas: object } };

    /** OpenAPI's own keywords say nothing about validity; the rest of CreatePodRequest is plain JSON Schema 2020-12. */
    function validator() {
      const ajv = new Ajv2020({ strict: false, allErrors: true });
      addFormats.default(ajv);
      ajv.addSchema({ $id: "runpod", components: document().components });
      return ajv.compile({ $ref: "runpod#/components/schemas/CreatePodRequest" });
    }

    test.each<[string, Partial<CreateRequest>]>([
      ["with a CUDA floor", {}],
      ["with exact CUDA versions", { cuda: { kind: "allowed", versions: ["12.6", "12.8"] } }],
      ["with data centres", { dataCenterIds: ["US-KS-2"] }],
    ])("a body %s is valid", (_what, changes) => {
      const validate = validator();
      validate(build(changes));
      expect(validate.errors).toBeNull();
    });

    test("the same schema refuses a field that is not in it, so this test can fail", () => {
      const validate = validator();
      expect(validate({ ...build(), gpuTypeIds: ["x"] })).toBe(false);
      expect(validate({ ...build(), gpu: { id: "x", count: 0 } })).toBe(false);
    });

    test("our own contract check agrees with the document", () => {
      expect(checkCreateContract(document(), build())).toEqual({ ok: true, value: null });
      expect(checkCreateContract(document(), probeBody("NVIDIA L4", { kind: "allowed", versions: ["12.8"] })).ok).toBe(
        true,
      );
    });
  },
);
