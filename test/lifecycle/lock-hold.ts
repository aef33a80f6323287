/** The usual turns of a lock hold: planned, a pod bought, its proof given, what a look at it shows. */
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { CreateOutcome, Outcomes } from "../../shared/lifecycle/tasks.ts";

import { execute, known, PLAN, pod, PROOF, PULL, QUEUED_JOB, requestIn, SECOND, states } from "./fixtures.ts";
import { lockHold, type Story } from "./story.ts";

export const CAPACITY: CreateOutcome = { kind: "capacity", elapsedMs: SECOND };

export function planned(change: Partial<GateRequest> = {}, plan = PLAN): Story {
  const story = lockHold(
    requestIn(states.revalidating("plan"), { counts: { ...requestIn(states.queued()).counts }, ...change }),
  );
  story.answer("plan", { kind: "planned", plan });
  return story;
}

/** The create at hand buys a pod, after two seconds. */
export function buy(story: Story, change: Partial<ReturnType<typeof pod>> = {}): Story {
  const attempt = story.state("provisioning").attempt;
  const id = `pod-${attempt?.number ?? 0}`;
  const gpuId = attempt?.candidate?.acceptedIds[0] ?? null;
  const bought = pod({ id, gpuId, runtimeUp: null, startedAt: null, ...change });
  story.answer("create-pod", { kind: "created", pod: bought, sentAt: story.now, elapsedMs: 2 * SECOND }, 2 * SECOND);
  return story;
}

export function prove(story: Story, change: Partial<typeof PROOF> = {}) {
  const attempt = story.state("provisioning").attempt;
  const gpuName = attempt?.candidate?.acceptedIds[0] ?? "";
  return story.event({
    kind: "proof",
    attemptId: attempt?.id ?? "",
    proof: { ...PROOF, podId: attempt?.pod?.id ?? "pod-1", gpuName, ...change },
  });
}

export const up = (id = "pod-1", change: Partial<ReturnType<typeof pod>> = {}): Outcomes["observe"] => ({
  pull: known(PULL),
  pod: known({ pod: pod({ id, gpuId: `GPU ${"ABC"[Number(id.slice(4)) - 1] ?? "A"}`, ...change }), getGone: false }),
});
export const online = (id = "pod-1"): Outcomes["observe"] => ({
  ...up(id),
  runner: known({ online: true, busy: false }),
  job: known(execute(QUEUED_JOB)),
});
export const EXITED = (id: string): Outcomes["observe"] => up(id, { status: "EXITED", runtimeUp: null });
