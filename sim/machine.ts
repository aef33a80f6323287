/**
 * What happens on a rented machine: it is placed, boots, proves its GPU to the gate, starts its runner, runs one job and
 * ends, or does one of the other things machines do.
 */
import type { Faults } from "./faults.ts";
import type { Repository, Runner } from "./github-model.ts";
import { connectRunner, runnerLost } from "./github-runners.ts";
import type { Prng } from "./prng.ts";
import type { VirtualPod, VirtualRunPod } from "./runpod.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Trace } from "./trace.ts";

export type PodWordKind = "proof" | "exit";

export interface MachineSurroundings {
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  readonly rng: Prng;
  readonly trace: Trace;
  readonly runpod: VirtualRunPod;
  readonly repository: (id: string) => Repository | undefined;
  /** One call to the gate over the network; the answer tells whether it was taken, null when there was none. */
  readonly call: (
    pod: VirtualPod,
    word: PodWordKind,
    body: Readonly<Record<string, unknown>>,
  ) => Promise<boolean | null>;
}

/** The start script gives up when nobody takes its proof for this long. */
const PROOF_PATIENCE_MS = 420_000;

export function startMachine(pod: VirtualPod, around: MachineSurroundings): void {
  const { faults, rng, scheduler } = around;
  if (faults.strikes("pod-vanishes", 0.2)) {
    scheduler.in(rng.int(30_000, 1_500_000), "pod vanishes", () => {
      pod.vanished = pod.releasedAt === null;
      around.runpod.release(pod, "RunPod lost it");
    });
  }
  if (faults.strikes("pod-no-machine", 0.2)) return;
  const placed = rng.int(1_000, 40_000);
  scheduler.in(placed, "pod placed", () => {
    pod.placed = true;
    pod.status = "STARTING";
  });
  if (faults.strikes("pod-error", 0.2)) {
    scheduler.in(placed + rng.int(1_000, 90_000), "pod error", () => {
      if (pod.releasedAt === null) pod.status = rng.chance(0.5) ? "ERROR" : "EXITED";
    });
    return;
  }
  if (faults.strikes("pod-never-boots", 0.2)) return;
  const boot = placed + (faults.strikes("pod-slow", 0.2) ? rng.int(150_000, 600_000) : rng.int(15_000, 120_000));
  scheduler.in(boot, "pod boots", () => {
    if (pod.releasedAt !== null || pod.status === "EXITED") return;
    pod.status = "RUNNING";
    pod.runtimeUp = true;
    pod.startedAt = scheduler.now;
    if (faults.strikes("pod-restart-loop", 0.2)) return restartLoop(pod, around);
    if (faults.strikes("pod-exits-early", 0.25)) {
      scheduler.in(rng.int(1_000, 20_000), "start script fails", () => exit(pod, around, "smoke-failed", 1));
      return;
    }
    scheduler.in(rng.int(2_000, 20_000), "proof", () => prove(pod, around, scheduler.now));
  });
}

/** A container that fails is started again and again: RUNNING all the time, its start time moving. */
function restartLoop(pod: VirtualPod, around: MachineSurroundings): void {
  around.scheduler.in(around.rng.int(8_000, 40_000), "container restarts", () => {
    if (pod.releasedAt !== null) return;
    pod.startedAt = around.scheduler.now;
    restartLoop(pod, around);
  });
}

function prove(pod: VirtualPod, around: MachineSurroundings, since: number): void {
  const { faults, rng, scheduler } = around;
  if (pod.releasedAt !== null || !pod.runtimeUp) return;
  if (faults.strikes("pod-wrong-proof", 0.2)) pod.realGpu = "NVIDIA GeForce GTX 1050";
  const body = {
    podId: pod.id,
    gpuName: pod.realGpu,
    gpuUuid: `GPU-${pod.id}`,
    gpuCount: 1,
    vramMb: 24_000,
    driver: "570.86.15",
    cuda: "12.8",
    nvrtc: "12.8",
    nvrtcLoaded: null,
    smoke: "off",
    scriptSha256: "0".repeat(64),
  };
  void around.call(pod, "proof", body).then((taken) => {
    if (taken === true) {
      if (faults.strikes("pod-runner-silent", 0.25)) return;
      if (faults.strikes("pod-runner-refused", 0.25)) {
        scheduler.in(rng.int(2_000, 9_000), "runner refused", () => exit(pod, around, "runner-refused", 7));
        return;
      }
      if (faults.strikes("runner-deprecated", 0.3)) return refuseRunner(pod, around);
      scheduler.in(rng.int(2_000, 15_000), "runner starts", () => startRunner(pod, around));
      return;
    }
    // No answer, or not yet: the script says it again until it is out of time.
    if (scheduler.now - since < PROOF_PATIENCE_MS) scheduler.in(5_000, "proof again", () => prove(pod, around, since));
    else exit(pod, around, "proof-not-accepted", 1);
  });
}

/** Since this week GitHub takes no runner of this release: it says so, the runner prints it and ends with a code of its own. */
function refuseRunner(pod: VirtualPod, around: MachineSurroundings): void {
  around.scheduler.in(around.rng.int(2_000, 9_000), "runner refused by GitHub", () => {
    if (pod.releasedAt !== null || !pod.runtimeUp) return;
    const refused = (): void => {
      pod.said.push("Runner version v2.320.0 is deprecated and cannot receive messages.");
      exit(pod, around, "runner-exited", 7);
    };
    const repository = around.repository(pod.env["GPU_GATE_REPOSITORY_ID"] ?? "");
    // Some are told so as they register, some once they are online.
    if (around.rng.chance(0.5)) return refused();
    const jit = pod.env["GPU_GATE_JIT_CONFIG"] ?? "";
    const runner = repository === undefined ? null : connectRunner(repository, jit, () => undefined);
    if (runner === null) return exit(pod, around, "runner-exited", 1);
    around.scheduler.in(800, "runner told to go", () => {
      if (repository !== undefined) runnerLost(repository, runner);
      refused();
    });
  });
}

function startRunner(pod: VirtualPod, around: MachineSurroundings): void {
  if (pod.releasedAt !== null || !pod.runtimeUp) return;
  const { faults, rng, scheduler } = around;
  const repository = around.repository(pod.env["GPU_GATE_REPOSITORY_ID"] ?? "");
  if (repository === undefined) return exit(pod, around, "runner-exited", 1);
  const runner = connectRunner(repository, pod.env["GPU_GATE_JIT_CONFIG"] ?? "", () => {
    pod.busy = false;
    scheduler.in(500, "runner ends", () => exit(pod, around, "runner-exited", 0));
  });
  if (runner === null) return exit(pod, around, "runner-exited", 1);
  pod.busy = true;
  pod.onRelease = () => loseRunner(pod, repository, runner);
  if (faults.strikes("pod-lost-mid-job", 0.3)) {
    scheduler.in(rng.int(5_000, 600_000), "machine fails", () => {
      if (pod.releasedAt !== null || !pod.runtimeUp) return;
      if (rng.chance(0.5)) pod.status = "EXITED";
      pod.runtimeUp = false;
      pod.busy = false;
      around.trace.note(`pod ${pod.id} fails in the middle of its job`);
      loseRunner(pod, repository, runner);
    });
  }
}

function loseRunner(pod: VirtualPod, repository: Repository, runner: Runner): void {
  pod.busy = false;
  if (repository.runners.get(runner.id) === runner) runnerLost(repository, runner);
}

function exit(pod: VirtualPod, around: MachineSurroundings, reason: string, code: number): void {
  if (pod.releasedAt !== null || !pod.runtimeUp) return;
  const { rng, scheduler } = around;
  pod.busy = false;
  void around.call(pod, "exit", { reason, code });
  // Bought with the word to keep it: the container stays up for whoever looks at it.
  if (pod.env["GPU_GATE_KEEP"] === "true") return;
  scheduler.in(rng.int(200, 3_000), "container ends", () => {
    if (pod.releasedAt !== null) return;
    pod.runtimeUp = false;
    if (rng.chance(0.5)) pod.status = "EXITED";
  });
}
