/**
 * `POST /v2/pods`: the closed schema of a create, and the rules the schema does not carry, in the order RunPod applies them.
 *
 * The schema here is the one the served OpenAPI document shows. Only fields that a GPU pod of a CI system can need are
 * served; the newest ones (`cmd`, `entrypoint`, host filters) as well, since the real API takes them.
 */
import * as z from "zod";
import { dataCenters } from "./catalog.ts";
import type { Catalog } from "./catalog.ts";
import type { GpuOffer, ImagePolicy } from "./types.ts";

/** runpod-facts.md section 3.5. */
export const MAX_CREATE_BYTES = 102_400;
/** runpod-facts.md section 6.23. */
export const MAX_ENV_VARIABLES = 50;
/** RunPod's one sentence for every kind of "not now" (runpod-error-samples.json, observed 2026-08-30). */
export const CAPACITY_TEXT =
  "There are no longer any instances available with the requested specifications. Please refresh and try again.";

const cudaVersion = z.string().regex(/^\d+\.\d+$/);

export const createPodSchema = z.strictObject({
  name: z.string().min(1),
  image: z.string().optional(),
  gpu: z
    .strictObject({
      id: z.string(),
      count: z.int().min(1).optional(),
      allowedCudaVersions: z.array(cudaVersion).optional(),
      minCudaVersion: cudaVersion.optional(),
      minRamPerGpu: z.int().min(1).optional(),
      minVcpuCountPerGpu: z.int().min(1).optional(),
    })
    .optional(),
  cpu: z.strictObject({ id: z.string().min(1), vcpuCount: z.int().min(2) }).optional(),
  cloud: z.enum(["SECURE", "COMMUNITY"]).optional(),
  dataCenterIds: z.array(z.string()).optional(),
  disk: z.int().min(1).optional(),
  env: z.record(z.string(), z.string()).optional(),
  ports: z.array(z.string()).optional(),
  args: z.string().optional(),
  cmd: z.array(z.string()).optional(),
  entrypoint: z.array(z.string()).optional(),
  registry: z.string().nullable().optional(),
  templateId: z.string().min(1).optional(),
  mounts: z
    .strictObject({
      persistent: z.strictObject({ size: z.int().min(10), path: z.string() }).optional(),
      network: z
        .array(z.strictObject({ volumeId: z.string(), path: z.string() }))
        .max(1)
        .optional(),
    })
    .optional(),
  startSsh: z.boolean().optional(),
  startJupyter: z.boolean().optional(),
  globalNetworking: z.boolean().optional(),
});
export type CreateBody = z.infer<typeof createPodSchema>;

export interface Refusal {
  readonly status: number;
  readonly detail: string;
  readonly errors?: readonly string[];
}

export type Admission =
  | { readonly ok: true; readonly body: CreateBody; readonly offer: GpuOffer; readonly image: string }
  | { readonly ok: false; readonly refusal: Refusal };

export interface Market {
  readonly catalog: Catalog;
  readonly imagePolicy: ImagePolicy;
  readonly balance: number;
  /** Whether the local registry knows this `sha256:` digest. */
  readonly knowsDigest: (digest: string) => boolean;
}

function refuse(status: number, detail: string, errors?: readonly string[]): Admission {
  return { ok: false, refusal: { status, detail, ...(errors ? { errors } : {}) } };
}

/** Decides about a parsed JSON body; says nothing about faults, keys or size. */
export function admit(value: unknown, market: Market): Admission {
  const parsed = createPodSchema.safeParse(value);
  if (!parsed.success) return refuse(422, "Request validation failed.", violations(parsed.error));
  const body = parsed.data;
  if (body.image === undefined && body.templateId === undefined) {
    return refuse(422, "Request validation failed.", ["$: missing property 'image'"]);
  }
  if (body.templateId !== undefined) return refuse(404, "template not found");
  if ((body.gpu === undefined) === (body.cpu === undefined)) {
    return refuse(400, "exactly one of gpu or cpu must be set");
  }
  if (Object.keys(body.env ?? {}).length > MAX_ENV_VARIABLES) {
    return refuse(400, `a pod takes at most ${MAX_ENV_VARIABLES} environment variables`);
  }
  const image = body.image ?? "";
  const refusedImage = imageRefusal(image, market);
  if (refusedImage !== null) return refuse(422, refusedImage);

  const offer = body.gpu ? market.catalog.find(body.gpu.id) : null;
  // Nothing but the text tells these apart: a wrong id, a missing count, an impossible filter and an empty shelf.
  if (!body.gpu || !offer || !canPlace(body, body.gpu, offer)) return refuse(400, CAPACITY_TEXT);
  const hour = market.catalog.price(offer, body.cloud ?? "SECURE") * (body.gpu.count ?? 1);
  if (market.balance < hour) return refuse(402, "insufficient balance");
  return { ok: true, body, offer, image };
}

function canPlace(body: CreateBody, gpu: NonNullable<CreateBody["gpu"]>, offer: GpuOffer): boolean {
  if (gpu.count === undefined || gpu.count > offer.maxCount || offer.stock === "NONE") return false;
  if (placeableCuda(gpu, offer).length === 0 && offer.cudaVersions.length > 0) return false;
  const centers = body.dataCenterIds ?? [];
  return centers.length === 0 || dataCenters.some((center) => centers.includes(center.id));
}

/** The CUDA versions a machine for this request may have. `allowedCudaVersions` matches exactly, the minimum as numbers. */
export function placeableCuda(gpu: NonNullable<CreateBody["gpu"]>, offer: GpuOffer): readonly string[] {
  return offer.cudaVersions.filter((version) => {
    if (gpu.allowedCudaVersions?.length && !gpu.allowedCudaVersions.includes(version)) return false;
    return gpu.minCudaVersion === undefined || order(version) >= order(gpu.minCudaVersion);
  });
}

function order(version: string): number {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major * 1000 + minor;
}

function imageRefusal(image: string, market: Market): string | null {
  const digest = /@(sha256:[0-9a-f]{64})$/.exec(image)?.[1];
  switch (market.imagePolicy) {
    case "accept":
      return null;
    case "refuse-digest":
      return digest === undefined ? null : "the image reference is not supported: pull by tag";
    case "known-only":
      return digest === undefined || market.knowsDigest(digest) ? null : "the image was not found in its registry";
  }
}

/** RunPod's way of naming violations: a JSON path, then what is wrong there. */
function violations(error: z.ZodError): string[] {
  return error.issues.flatMap((issue) => {
    const path = ["$", ...issue.path.map(String)].join(".");
    if (issue.code === "unrecognized_keys") {
      return issue.keys.map((key) => `${path}: additional properties '${key}' not allowed`);
    }
    return [`${path}: ${issue.message}`];
  });
}
