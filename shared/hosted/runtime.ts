/**
 * Whether the CUDA runtime that was installed is the one that was chosen: the job's own look after installing, stricter than
 * the proof before registration, because a second NVRTC on the machine may have won the search for the library.
 */
import {
  compareCudaVersions,
  formatCudaVersion,
  LOWEST_RUNTIME,
  type CudaRefusal,
  type CudaVersion,
} from "../runpod/cuda.ts";
import { unreachable } from "../result.ts";

export interface InstalledRuntime {
  readonly driver: CudaVersion;
  readonly chosen: CudaVersion;
  /** What the loaded NVRTC says it is. */
  readonly loaded: CudaVersion;
}

export type RuntimeRefusal =
  | CudaRefusal
  | { readonly reason: "runtime-too-old"; readonly loaded: CudaVersion; readonly minimum: CudaVersion }
  | { readonly reason: "runtime-newer-than-driver"; readonly loaded: CudaVersion; readonly driver: CudaVersion }
  | { readonly reason: "runtime-not-chosen"; readonly loaded: CudaVersion; readonly chosen: CudaVersion };

/** Null when the runtime may be used, otherwise the first rule it breaks. */
export function judgeRuntime(
  { driver, chosen, loaded }: InstalledRuntime,
  minimum: CudaVersion = LOWEST_RUNTIME,
): RuntimeRefusal | null {
  if (compareCudaVersions(driver, minimum) < 0) return { reason: "driver-too-old", driver, minimum };
  if (compareCudaVersions(loaded, minimum) < 0) return { reason: "runtime-too-old", loaded, minimum };
  if (compareCudaVersions(loaded, driver) > 0) return { reason: "runtime-newer-than-driver", loaded, driver };
  if (compareCudaVersions(loaded, chosen) !== 0) return { reason: "runtime-not-chosen", loaded, chosen };
  return null;
}

/** One sentence for a person. */
export function explainRuntimeRefusal(refusal: RuntimeRefusal): string {
  switch (refusal.reason) {
    case "driver-unreadable":
      return "nvidia-smi does not say which CUDA version the driver supports";
    case "driver-too-old":
      return `the driver supports CUDA ${formatCudaVersion(refusal.driver)}, and ${formatCudaVersion(refusal.minimum)} is the oldest that may run`;
    case "runtime-too-old":
      return `the loaded NVRTC is ${formatCudaVersion(refusal.loaded)}, and ${formatCudaVersion(refusal.minimum)} is the oldest that may run`;
    case "runtime-newer-than-driver":
      return `the loaded NVRTC is ${formatCudaVersion(refusal.loaded)}, newer than the driver's CUDA ${formatCudaVersion(refusal.driver)}`;
    case "runtime-not-chosen":
      return `the loaded NVRTC is ${formatCudaVersion(refusal.loaded)}, but ${formatCudaVersion(refusal.chosen)} was chosen`;
    default:
      return unreachable(refusal, "runtime refusal");
  }
}
