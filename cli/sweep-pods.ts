/**
 * The backstop from any machine, with nothing but the RunPod key: lists the account's pods and removes those of one
 * deployment that are older than the backstop. The Worker's reaper decides by the same code; what only gates and GitHub
 * know (a younger pod's run, a retention record) is left to it, so that a younger pod is never touched from here.
 */
import { DEFAULT_REAP_LIMITS } from "../shared/lifecycle/reap.ts";
import { sweep, type DeleteAnswer, type SweepPod, type SweepResult } from "../shared/lifecycle/sweep.ts";
import type { Millis } from "../shared/ports.ts";
import type { DeletePodAnswer, RunPodClient } from "../shared/runpod/client.ts";
import { podIsGone, type Pod } from "../shared/runpod/pod.ts";
import { ownedBy } from "../shared/runpod/tags.ts";

export interface SweepPodsOptions {
  readonly deployment: string;
  /** False: say what would be removed. */
  readonly execute: boolean;
  readonly backstopMs: Millis;
  /** Between the two lists that prove absence. */
  readonly listGapMs: Millis;
  readonly now: () => Millis;
  readonly sleep: (durationMs: Millis) => Promise<void>;
}

export type SweepPodsAnswer =
  | { readonly kind: "no-list"; readonly why: string }
  | { readonly kind: "swept"; readonly listed: number; readonly complete: boolean; readonly result: SweepResult };

type Client = Pick<RunPodClient, "listPods" | "getPod" | "deletePod">;

export async function sweepPods(client: Client, options: SweepPodsOptions): Promise<SweepPodsAnswer> {
  const listing = await client.listPods();
  if (!listing.ok) return { kind: "no-list", why: listing.error.reason };
  const alive = listing.value.pods.filter((pod) => !podIsGone(pod));
  const result = await sweep(
    alive.map((pod) => seen(pod, options.deployment)),
    {
      // Nobody here knows a run or a gate: what is not too old is theirs to judge.
      readRun: () => Promise.resolve({ kind: "unknown", what: "no run is read from here" }),
      askGate: () => Promise.resolve({ kind: "live" }),
      readRetention: () => Promise.resolve({ kind: "unreadable", what: "no retention record is read from here" }),
      deletePod: async (podId) => deleteAnswerOf(await client.deletePod(podId)),
      proveGone: (podId) => provenGone(podId, client, options),
      cancelRun: () => Promise.resolve({ kind: "failed", what: "no run is cancelled from here" }),
      sleep: options.sleep,
      now: options.now,
    },
    {
      execute: options.execute,
      limits: { ...DEFAULT_REAP_LIMITS, backstopMs: options.backstopMs },
      maxLookups: null,
      cursor: null,
      observations: new Map(),
    },
  );
  return { kind: "swept", listed: alive.length, complete: listing.value.complete, result };
}

function seen(pod: Pod, deployment: string): SweepPod {
  const ownership = ownedBy(pod, deployment);
  return {
    id: pod.id,
    own: ownership.kind === "own",
    createdAt: pod.createdAtMs,
    ownCreatedAt: null,
    owner: null,
    keepAsked: ownership.kind === "own" && ownership.identity?.keep === "true",
    cost: null,
    gpuTypeId: "",
  };
}

function deleteAnswerOf(answer: DeletePodAnswer): DeleteAnswer {
  if (answer.kind !== "failure") return { kind: "gone" };
  const { reason, status } = answer.failure;
  const passing = status === null || status === 408 || status === 429 || status >= 500;
  return { kind: passing ? "again" : "refused", what: reason };
}

/** The rule of absence: GET does not know it, and two complete lists, begun after DELETE and apart, do not show it. */
async function provenGone(podId: string, client: Client, options: SweepPodsOptions): Promise<boolean> {
  const answer = await client.getPod(podId);
  if (answer.kind === "failure" || (answer.kind === "pod" && !podIsGone(answer.pod))) return false;
  for (let look = 0; look < 2; look += 1) {
    if (look > 0) await options.sleep(options.listGapMs);
    const listing = await client.listPods();
    if (!listing.ok || !listing.value.complete) return false;
    if (listing.value.pods.some((pod) => pod.id === podId && !podIsGone(pod))) return false;
  }
  return true;
}
