/**
 * What the end of a pod that was never accepted means: whose fault it was, and whether another pod may do better.
 *
 * The start script names its reason in its `exit` call and prints it; the runner only prints. Both are read, because either
 * may be lost.
 */
import type { CodesOf } from "../audit/reasons.ts";
import { podExitReasons, type PodExitReason } from "../runpod/pod-words.ts";
import type { Rejection } from "./judge.ts";
import type { Attempt } from "./model.ts";

export interface Ending {
  readonly rejection: Rejection;
  /** What the request ends as if no further pod may be tried. */
  readonly reason: CodesOf<"infrastructure">;
  /** The machine failed, not what we sent it: it is remembered. */
  readonly badHost: boolean;
  readonly detail: string;
}

type Fault = Omit<Ending, "detail">;

const HOST: Fault = { rejection: "attempt-proof-refused", reason: "bad-host", badHost: true };
/** What we sent, fetched or configured was at fault; the next machine will most likely say the same. */
const OURS: Fault = { rejection: "attempt-proof-refused", reason: "startup", badHost: false };
const UNREGISTERED: Fault = { rejection: "attempt-no-registration", reason: "startup", badHost: true };

const FAULTS: Readonly<Record<PodExitReason, Fault>> = {
  "nvidia-smi-failed": HOST,
  "gpu-error": HOST,
  "gpu-count": HOST,
  "gpu-vram": HOST,
  "driver-unreadable": HOST,
  "driver-too-old": HOST,
  "smoke-failed": HOST,
  "gpu-name": { ...HOST, rejection: "attempt-wrong-gpu" },
  "bad-facts": OURS,
  "runner-missing": OURS,
  "nvrtc-not-configured": OURS,
  "nvrtc-download": OURS,
  "nvrtc-checksum": OURS,
  "hook-not-installed": OURS,
  "proof-not-accepted": OURS,
  terminated: { ...OURS, rejection: "attempt-pod-died" },
  "runner-exited": UNREGISTERED,
};

/** `Runner.Listener`'s exit code for "this version is deprecated", which the start script asks it to use. */
const RUNNER_DEPRECATED_CODE = 7;

/** GitHub's words to a runner that is too old, as the runner prints them. */
const DEPRECATED = /runner version .{1,30} is deprecated|deprecated .{0,30}cannot receive messages/i;

export function saysDeprecated(line: string): boolean {
  return DEPRECATED.test(line);
}

/** Whether GitHub refused the runner's software. No other machine helps then: all start the same image. */
export function runnerRefused(exit: Attempt["exit"]): boolean {
  return exit?.reason === "runner-exited" && exit.code === RUNNER_DEPRECATED_CODE;
}

/** The verdict's sentence for it. */
export const RUNNER_REFUSED =
  "GitHub refuses this release of the runner. Nothing more is rented: every machine would start the same one.";

/** Reads an exit that came before the pod was accepted. `proven`: its proof had been given. */
export function judgeExit(exit: NonNullable<Attempt["exit"]>, proven: boolean): Ending {
  const code = exit.code ?? "an unknown code";
  const reason = podExitReasons.find((known) => known === exit.reason);
  if (reason === undefined) {
    // A call of an older script, or one that lost its reason: only whether the proof had come is known.
    return proven
      ? { ...UNREGISTERED, detail: `The runner ended with ${code} before it was seen online.` }
      : { ...HOST, detail: `The start script ended with ${code}.` };
  }
  if (reason === "runner-exited") {
    return { ...UNREGISTERED, detail: `The runner ended with ${code} before it was seen online.` };
  }
  return { ...FAULTS[reason], detail: `The start script refused the machine: ${reason}.` };
}
