/**
 * The body of `POST /v2/pods`: built field by field from an allow-list, measured, and logged only in a reduced form.
 *
 * Nothing reaches a pod that is not named here (invariant I5): no map of environment variables is passed through, and a
 * caller cannot add a field. RunPod takes at most 50 variables and refuses a body above 102,400 bytes, counted after its own
 * template expansion; we stop at 100,000.
 */
import type { Result } from "../result.ts";
import { err, ok, unreachable } from "../result.ts";
import type { CudaWish } from "./contract.ts";
import { GPU_GATE_TAGS, ownershipTags } from "./tags.ts";
import type { OwnershipIdentity } from "./tags.ts";

/** The whole of what we ever send on create. `registry`, `mounts`, `templateId`, `startSsh` and the rest are never used. */
export interface CreateBody {
  readonly name: string;
  readonly image: string;
  readonly gpu: {
    readonly id: string;
    /** Always sent: without it every create failed with the words for "sold out" (runpod-facts quirk 13). */
    readonly count: number;
    readonly allowedCudaVersions?: readonly string[];
    readonly minCudaVersion?: string;
  };
  readonly cloud: "SECURE";
  /** Reads as a preference and is enforced; a refusal is worded as no capacity (runpod-facts quirk 14). */
  readonly dataCenterIds?: readonly string[];
  readonly disk: number;
  /** Empty: nothing on the pod is reachable from outside. */
  readonly ports: readonly string[];
  /** A JSON object `{"entrypoint": [...], "cmd": [...]}` as text; a bare string would be split into words. */
  readonly args: string;
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Environment variables by meaning. The start script in pod/ reads these names; repository, run and attempt it takes from
 * the ownership tags (tags.ts).
 */
export const POD_ENV = {
  /** Single-use runner registration. Secret until used. */
  jitConfig: "GPU_GATE_JIT_CONFIG",
  /** Secrets of one attempt, one per call (design 3.4). */
  proofNonce: "GPU_GATE_PROOF_NONCE",
  exitNonce: "GPU_GATE_EXIT_NONCE",
  /** Where the pod reports to: `<url>/pod/v1/<repository id>/<attempt>/<proof|exit>`. */
  controlUrl: "GPU_GATE_URL",
} as const;

/** Facts that may travel to a pod: nothing here is secret. Anything a pod shall know must be added to this list. */
export const POD_FACTS = {
  tier: "GPU_GATE_TIER",
  gpuId: "GPU_GATE_GPU_ID",
  price: "GPU_GATE_PRICE",
  /** Names that nvidia-smi may print, one a line. */
  expectedGpuNames: "GPU_GATE_EXPECTED_GPU_NAMES",
  minVramMb: "GPU_GATE_MIN_VRAM_MB",
  minDriverCuda: "GPU_GATE_MIN_DRIVER_CUDA",
  startupSeconds: "GPU_GATE_STARTUP_SECONDS",
  smoke: "GPU_GATE_SMOKE",
  workflowRef: "GPU_GATE_WORKFLOW_REF",
  runAttempt: "GPU_GATE_RUN_ATTEMPT",
  nvrtcBaselineUrl: "GPU_GATE_NVRTC_12_6_URL",
  nvrtcBaselineSha256: "GPU_GATE_NVRTC_12_6_SHA256",
  nvrtcFullUrl: "GPU_GATE_NVRTC_12_8_URL",
  nvrtcFullSha256: "GPU_GATE_NVRTC_12_8_SHA256",
} as const;

export type PodFact = keyof typeof POD_FACTS;

export interface PodEnv {
  readonly jitConfig: string;
  readonly proofNonce: string;
  readonly exitNonce: string;
  readonly controlUrl: string;
  readonly owner: OwnershipIdentity;
  readonly facts: { readonly [Fact in PodFact]?: string };
}

export interface CreateRequest {
  readonly name: string;
  /** `registry/repository@sha256:...`: never a tag, which may mean another image a minute later. */
  readonly image: string;
  readonly gpuId: string;
  readonly cuda: CudaWish;
  /** Empty or absent: any. */
  readonly dataCenterIds?: readonly string[];
  readonly diskGb: number;
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  readonly env: PodEnv;
}

export const MAX_BODY_BYTES = 100_000;
export const MAX_ENV_VARIABLES = 50;

export type BodyRefused =
  | { readonly reason: "body-too-large"; readonly bytes: number; readonly limit: number }
  | { readonly reason: "too-many-variables"; readonly count: number; readonly limit: number }
  /** Tags must be complete, or a pod would be bought that our own reaper would not know. */
  | { readonly reason: "tags-incomplete" }
  | { readonly reason: "image-not-pinned" }
  | { readonly reason: "empty-field"; readonly field: string };

const DIGEST_REFERENCE = /^[^\s@]+@sha256:[0-9a-f]{64}$/;

/** Builds the body, or says why it may not be sent. Pure; the same request gives the same body. */
export function buildCreateBody(request: CreateRequest): Result<CreateBody, BodyRefused> {
  const { env } = request;
  for (const [field, value] of Object.entries({
    name: request.name,
    gpuId: request.gpuId,
    jitConfig: env.jitConfig,
    proofNonce: env.proofNonce,
    exitNonce: env.exitNonce,
    controlUrl: env.controlUrl,
  })) {
    if (value === "") return err({ reason: "empty-field", field });
  }
  if (!DIGEST_REFERENCE.test(request.image)) return err({ reason: "image-not-pinned" });

  const tags = ownershipTags(env.owner, GPU_GATE_TAGS);
  if (Object.keys(tags).length === 0) return err({ reason: "tags-incomplete" });
  const variables = { ...factVariables(env.facts), ...tags, ...secretVariables(env) };
  const count = Object.keys(variables).length;
  if (count > MAX_ENV_VARIABLES) return err({ reason: "too-many-variables", count, limit: MAX_ENV_VARIABLES });

  const dataCenterIds = request.dataCenterIds ?? [];
  const body: CreateBody = {
    name: request.name,
    image: request.image,
    gpu: { id: request.gpuId, count: 1, ...cudaFields(request.cuda) },
    cloud: "SECURE",
    ...(dataCenterIds.length === 0 ? {} : { dataCenterIds }),
    disk: request.diskGb,
    ports: [],
    args: JSON.stringify({ entrypoint: request.entrypoint, cmd: request.cmd }),
    env: variables,
  };
  const bytes = bodyBytes(body);
  if (bytes >= MAX_BODY_BYTES) return err({ reason: "body-too-large", bytes, limit: MAX_BODY_BYTES });
  return ok(body);
}

/**
 * A body with every field and variable we may ever send and no real value, for holding against the live contract before a
 * runner is registered.
 */
export function probeBody(gpuId: string, cuda: CudaWish): CreateBody {
  const variables: Record<string, string> = {};
  for (const name of [...Object.values(POD_FACTS), ...Object.values(GPU_GATE_TAGS), ...Object.values(POD_ENV)]) {
    variables[name] = "x";
  }
  return {
    name: "x",
    image: `x@sha256:${"0".repeat(64)}`,
    gpu: { id: gpuId, count: 1, ...cudaFields(cuda) },
    cloud: "SECURE",
    dataCenterIds: [],
    disk: 100,
    ports: [],
    args: JSON.stringify({ entrypoint: [], cmd: [] }),
    env: variables,
  };
}

/** The size that counts: UTF-8 bytes of the JSON text as it is sent. */
export function bodyBytes(body: CreateBody): number {
  return new TextEncoder().encode(JSON.stringify(body)).length;
}

function cudaFields(cuda: CudaWish): { allowedCudaVersions: readonly string[] } | { minCudaVersion: string } {
  // The two exclude each other (400 when both are sent).
  switch (cuda.kind) {
    case "allowed":
      return { allowedCudaVersions: cuda.versions };
    case "min":
      return { minCudaVersion: cuda.version };
    default:
      return unreachable(cuda, "CUDA wish");
  }
}

/** Read by our list of names, so that a key the caller smuggled in is simply not looked at. */
function factVariables(facts: PodEnv["facts"]): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const fact of Object.keys(POD_FACTS) as readonly PodFact[]) {
    const value = Object.hasOwn(facts, fact) ? facts[fact] : undefined;
    if (value !== undefined) variables[POD_FACTS[fact]] = value;
  }
  return variables;
}

function secretVariables(env: PodEnv): Record<string, string> {
  return {
    [POD_ENV.jitConfig]: env.jitConfig,
    [POD_ENV.proofNonce]: env.proofNonce,
    [POD_ENV.exitNonce]: env.exitNonce,
    [POD_ENV.controlUrl]: env.controlUrl,
  };
}

/** Everything of a body that must never be quoted: for blotting out in answers that echo the request. */
export function secretsOf(body: CreateBody): readonly string[] {
  const secrets = [body.args];
  for (const name of [POD_ENV.jitConfig, POD_ENV.proofNonce, POD_ENV.exitNonce]) {
    const value = body.env[name];
    if (value !== undefined) secrets.push(value);
  }
  return secrets;
}

/** What may be logged of a create: fields by name. The start command and all values of the environment stay out. */
export interface LoggedCreateBody {
  readonly name: string;
  readonly image: string;
  readonly gpu: CreateBody["gpu"];
  readonly cloud: string;
  readonly dataCenterIds: readonly string[];
  readonly disk: number;
  readonly ports: readonly string[];
  readonly argsBytes: number;
  readonly envNames: readonly string[];
  readonly tags: Readonly<Record<string, string>>;
  readonly bytes: number;
}

export function redactCreateBody(body: CreateBody): LoggedCreateBody {
  const tags: Record<string, string> = {};
  for (const name of Object.values(GPU_GATE_TAGS)) {
    const value = body.env[name];
    if (value !== undefined) tags[name] = value;
  }
  return {
    name: body.name,
    image: body.image,
    gpu: body.gpu,
    cloud: body.cloud,
    dataCenterIds: body.dataCenterIds ?? [],
    disk: body.disk,
    ports: body.ports,
    argsBytes: new TextEncoder().encode(body.args).length,
    envNames: Object.keys(body.env).sort(),
    tags,
    bytes: bodyBytes(body),
  };
}
