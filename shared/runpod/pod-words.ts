/**
 * What a pod says to the gate: the bodies of `POST /pod/v1/<repository id>/<attempt>/proof` and `.../exit`.
 *
 * Written by `pod/start.sh`, read by the Worker. Unknown fields are ignored: a pod of the last deployment may still be
 * up when a new one is rolled out.
 */
import * as z from "zod";

/** Whole seconds since the start script began in its container, when this call was made. Left out by older scripts. */
const sinceStart = z.int().min(0).max(1_000_000).optional();

const dotted = z.string().regex(/^\d{1,4}\.\d{1,4}$/);

/** The machine as its start script found it, before the runner started. */
export const podProofSchema = z.object({
  sinceStart,
  podId: z.string().min(1).max(100),
  gpuName: z.string().min(1).max(200),
  gpuUuid: z.string().regex(/^GPU-[A-Za-z0-9-]{1,80}$/),
  gpuCount: z.int().min(0).max(64),
  /** VRAM in MB as nvidia-smi counts them. */
  vramMb: z.int().min(0),
  /** The driver's own version, e.g. 570.86.15. */
  driver: z.string().max(40),
  /** The driver's CUDA API version. */
  cuda: dotted,
  /** The NVRTC that was chosen for this driver. */
  nvrtc: dotted,
  /** The NVRTC the smoke test loaded; null when the smoke test is switched off. */
  nvrtcLoaded: dotted.nullable(),
  smoke: z.enum(["passed", "off"]),
  /** SHA-256 of the script text that really ran. */
  scriptSha256: z.string().regex(/^[0-9a-f]{64}$/),
});
export type PodProof = z.infer<typeof podProofSchema>;

/** Every reason the start script gives for its end. Only `runner-exited` means that a runner was ever started. */
export const podExitReasons = [
  "bad-facts",
  "runner-missing",
  "nvidia-smi-failed",
  "gpu-error",
  "gpu-count",
  "gpu-name",
  "gpu-vram",
  "driver-unreadable",
  "driver-too-old",
  "nvrtc-not-configured",
  "nvrtc-download",
  "nvrtc-checksum",
  "smoke-failed",
  "hook-not-installed",
  "proof-not-accepted",
  "terminated",
  "runner-exited",
] as const;
export type PodExitReason = (typeof podExitReasons)[number];

export const podExitSchema = z.object({
  sinceStart,
  reason: z.enum(podExitReasons),
  /** The process's exit code; the runner's own for `runner-exited`. */
  code: z.int().min(0).max(255),
  /** The card, once the script had read it: a machine that fails is known by it. */
  gpuUuid: z
    .string()
    .regex(/^GPU-[A-Za-z0-9-]{1,80}$/)
    .nullish(),
});
export type PodExit = z.infer<typeof podExitSchema>;
