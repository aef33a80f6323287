/**
 * The judgement over a bought pod from one look to the next: still starting, up, dead, without a machine, or wrong.
 *
 * RunPod's RUNNING means little: it comes within seconds while the image still loads, and it stays while a container
 * crashes and is restarted for ever. What does tell: a final state; a runtime that was there and is gone; a start time that
 * moves. What does not tell: a runtime never seen, and a look that failed. Neither is ever a death; the deadline for the
 * runner judges those, from our own create time.
 *
 * Pure: the caller keeps the `PodMemory` and gives it back with the next look.
 */
import type { Millis } from "../ports.ts";
import { unreachable } from "../result.ts";
import type { Pod } from "./pod.ts";

/** What must be remembered between two looks. Plain data, to be stored with the attempt. */
export interface PodMemory {
  readonly runtimeSeen: boolean;
  readonly startedAtMs: Millis | null;
}

export const FRESH_POD: PodMemory = { runtimeSeen: false, startedAtMs: null };

export interface PodExpectation {
  /** Our own clock when the create was sent: RunPod's times are never needed for a deadline. */
  readonly createdAtMs: Millis;
  /** Candidate's accepted GPU ids; exact. */
  readonly acceptedIds: readonly string[];
  /** USD per hour for the whole pod; its billed rate may not be above it. */
  readonly ceilingUsdPerHour: number;
  /** How long a pod may be without a machine. Design: 120 s. Normal is 15 to 80 s. */
  readonly noMachineAfterMs?: number;
}

export type DeadWhy = "error" | "exited" | "terminated" | "runtime-lost" | "restarted";

export type WrongWhy = "gpu-missing" | "gpu-foreign" | "gpu-count" | "cloud" | "price";

export type PodHealth =
  | { readonly kind: "dead"; readonly why: DeadWhy }
  | { readonly kind: "wrong"; readonly why: WrongWhy; readonly found: string }
  | { readonly kind: "no-machine" }
  | { readonly kind: "starting" }
  /** Its container has been seen running. Whether the runner is there is GitHub's to say. */
  | { readonly kind: "up" };

export const NO_MACHINE_AFTER_MS = 120_000;

/** A start time is the same instant although one interface cuts its fraction and another does not. */
const SAME_START_MS = 1_000;

/**
 * One look at the pod. `pod` is null when the read failed, which changes nothing: the answer is what the memory already
 * says. A death is told before a wrong GPU, because a terminated pod reports neither.
 */
export function judgePod(
  memory: PodMemory,
  pod: Pod | null,
  expected: PodExpectation,
  now: Millis,
): { readonly memory: PodMemory; readonly health: PodHealth } {
  if (pod === null) return { memory, health: memory.runtimeSeen ? { kind: "up" } : { kind: "starting" } };
  const next: PodMemory = {
    runtimeSeen: memory.runtimeSeen || pod.runtimeUp === true,
    // The first start we saw stays: a later one is what gives a restart away.
    startedAtMs: memory.startedAtMs ?? pod.startedAtMs,
  };
  return { memory: next, health: judge(memory, next, pod, expected, now) };
}

function judge(before: PodMemory, next: PodMemory, pod: Pod, expected: PodExpectation, now: Millis): PodHealth {
  const dead = deadWhy(before, pod);
  if (dead !== null) return { kind: "dead", why: dead };
  const wrong = checkAssignedGpu(pod, expected);
  if (wrong !== null) return { kind: "wrong", ...wrong };
  if (next.runtimeSeen) return { kind: "up" };
  const withoutMachine = pod.dataCenterId === null && !pod.sshAssigned;
  const patienceMs = expected.noMachineAfterMs ?? NO_MACHINE_AFTER_MS;
  return withoutMachine && now - expected.createdAtMs >= patienceMs ? { kind: "no-machine" } : { kind: "starting" };
}

/** Why the pod is dead, from what was remembered and one look; null while nothing says so. */
export function deadWhy(before: PodMemory, pod: Pick<Pod, "status" | "runtimeUp" | "startedAtMs">): DeadWhy | null {
  switch (pod.status) {
    case "ERROR":
      return "error";
    case "EXITED":
    case "STOPPED":
      return "exited";
    case "TERMINATED":
    case "TERMINATING":
    case "DEAD":
      return "terminated";
    case "RUNNING":
      // Some interfaces keep RUNNING after the container has ended; the live figures vanish all the same.
      if (before.runtimeSeen && pod.runtimeUp === false) return "runtime-lost";
      return hasRestarted(before, pod) ? "restarted" : null;
    case "PROVISIONING":
    case "STARTING":
    case "UNKNOWN":
      return hasRestarted(before, pod) ? "restarted" : null;
    default:
      return unreachable(pod.status, "pod status");
  }
}

function hasRestarted(before: PodMemory, pod: Pick<Pod, "startedAtMs">): boolean {
  if (before.startedAtMs === null || pod.startedAtMs === null) return false;
  return Math.abs(pod.startedAtMs - before.startedAtMs) >= SAME_START_MS;
}

/**
 * Is this the GPU we chose? Null when nothing speaks against it. A missing GPU id is a refusal, because the id is the thing
 * bought; a missing count, cloud or price is not told, and the pod's own proof and the bill decide later.
 */
export function checkAssignedGpu(
  pod: Pick<Pod, "gpuId" | "gpuCount" | "cloud" | "costPerHour">,
  expected: Pick<PodExpectation, "acceptedIds" | "ceilingUsdPerHour">,
): { readonly why: WrongWhy; readonly found: string } | null {
  if (pod.gpuId === null || pod.gpuId === "") return { why: "gpu-missing", found: "no GPU id" };
  if (!expected.acceptedIds.includes(pod.gpuId)) return { why: "gpu-foreign", found: pod.gpuId };
  if (pod.gpuCount !== null && pod.gpuCount !== 1) return { why: "gpu-count", found: String(pod.gpuCount) };
  if (pod.cloud !== null && pod.cloud !== "SECURE") return { why: "cloud", found: pod.cloud };
  if (pod.costPerHour !== null && pod.costPerHour > expected.ceilingUsdPerHour) {
    return { why: "price", found: `USD ${pod.costPerHour} per hour` };
  }
  return null;
}
