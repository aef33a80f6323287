/**
 * CUDA and NVRTC rules: what a driver may run, which NVRTC a pod gets, and when a smoke proof counts.
 *
 * The pod decides in bash (`pod/start.sh`); this is the same decision for configuration and for judging the evidence
 * the pod sent. A test holds the two together over a table. Versions compare as pairs of numbers: 12.10 is above 12.8.
 */
import { err, ok } from "../result.ts";
import type { Result } from "../result.ts";

/** Major and minor. */
export type CudaVersion = readonly [major: number, minor: number];

/** Below this driver API nothing of ours runs: the lowest NVRTC we ship is built for it. */
export const LOWEST_RUNTIME: CudaVersion = [12, 6];
/** The NVRTC for every driver that can take it. */
export const FULL_RUNTIME: CudaVersion = [12, 8];

/** Reads `12.8`, and `12` as 12.0; anything else is null. */
export function parseCudaVersion(text: string): CudaVersion | null {
  const match = /^(\d{1,4})(?:\.(\d{1,4}))?$/.exec(text);
  return match ? [Number(match[1]), Number(match[2] ?? 0)] : null;
}

export function formatCudaVersion(version: CudaVersion): string {
  return `${version[0]}.${version[1]}`;
}

/** Negative when a is older than b, 0 when equal, positive when newer. */
export function compareCudaVersions(a: CudaVersion, b: CudaVersion): number {
  return a[0] - b[0] || a[1] - b[1];
}

export type CudaRefusal =
  | { readonly reason: "driver-unreadable" }
  | { readonly reason: "driver-too-old"; readonly driver: CudaVersion; readonly minimum: CudaVersion };

/** The driver's CUDA API version: the first `CUDA Version: X.Y` that nvidia-smi prints. */
export function readDriverCuda(nvidiaSmi: string): Result<CudaVersion, CudaRefusal> {
  const match = /CUDA Version:\s*(\d{1,4})\.(\d{1,4})/.exec(nvidiaSmi);
  return match ? ok([Number(match[1]), Number(match[2])]) : err({ reason: "driver-unreadable" });
}

export interface RuntimeChoice {
  readonly driver: CudaVersion;
  readonly runtime: CudaVersion;
  readonly tier: "baseline" | "full";
  /** The distribution's name for exactly this NVRTC. */
  readonly nvrtcPackage: string;
}

/** The one NVRTC a machine with this driver gets, or why it gets none. */
export function chooseRuntime(
  driver: CudaVersion,
  minimum: CudaVersion = LOWEST_RUNTIME,
  full: CudaVersion = FULL_RUNTIME,
): Result<RuntimeChoice, CudaRefusal> {
  if (compareCudaVersions(driver, minimum) < 0) return err({ reason: "driver-too-old", driver, minimum });
  const isFull = compareCudaVersions(driver, full) >= 0;
  const runtime = isFull ? full : minimum;
  return ok({
    driver,
    runtime,
    tier: isFull ? "full" : "baseline",
    nvrtcPackage: `cuda-nvrtc-${runtime[0]}-${runtime[1]}`,
  });
}

/** What a smoke test saw. VRAM in MB as nvidia-smi counts them (1,048,576 bytes). */
export interface SmokeObservation {
  readonly loadedNvrtc: CudaVersion;
  readonly vramMb: number;
  /** What the kernel wrote, read back; null when no kernel ran. */
  readonly readBack: number | null;
}

export type SmokeRefusal =
  | "nvrtc-older-than-chosen"
  | "nvrtc-newer-than-driver"
  | "vram-below-minimum"
  | "wrong-answer";

/** The value the smoke kernel writes. */
export const SMOKE_ANSWER = 42;

/** Null when the observation proves the machine, otherwise the first rule it breaks. */
export function judgeSmoke(choice: RuntimeChoice, seen: SmokeObservation, minVramMb: number): SmokeRefusal | null {
  if (compareCudaVersions(seen.loadedNvrtc, choice.runtime) < 0) return "nvrtc-older-than-chosen";
  if (compareCudaVersions(seen.loadedNvrtc, choice.driver) > 0) return "nvrtc-newer-than-driver";
  if (seen.vramMb < minVramMb) return "vram-below-minimum";
  if (seen.readBack !== SMOKE_ANSWER) return "wrong-answer";
  return null;
}
