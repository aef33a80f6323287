/** A stored request in the middle of provisioning, for tests that need a gate with an attempt. */
import { attemptSchema, requestSchema, type Attempt, type GateRequest } from "../../shared/lifecycle/model.ts";
import { newRequest } from "../../shared/lifecycle/new-request.ts";

const T0 = Date.UTC(2026, 10, 30, 12, 0, 0);

// Parsed as a stored row is: fields that were added since have their defaults.
export const ATTEMPT: Attempt = attemptSchema.parse({
  id: "a2",
  number: 2,
  podName: "gpu-gate-testing-a2",
  label: "l2",
  reservedMicros: 1,
  runner: null,
  proofHash: null,
  exitHash: null,
  run: null,
  candidate: null,
  createSentAt: T0,
  paidFrom: null,
  pod: null,
  proof: null,
  onlineAt: null,
  exit: null,
});

export const POD = {
  id: "p2",
  gpuId: null,
  pricePerHour: null,
  dataCenterId: null,
  startedAt: null,
  runtimeSeen: false,
  machineSeen: false,
};

/** An open request that holds the lock and buys, with this attempt under way. */
export function request(attempt: Attempt, step: "create" | "start" = "create"): GateRequest {
  const what = { kind: "pull-request", prNumber: 7, headSha: "a".repeat(40), generation: 1, row: 1 } as const;
  return requestSchema.parse({
    ...newRequest("r1", { ...what, actor: null, approvedBy: null }, T0),
    state: {
      kind: "provisioning",
      step,
      hold: { fence: 1, since: T0 },
      prepared: null,
      backToPreparing: 0,
      since: T0,
      stepSince: T0,
      stepTries: 0,
      plan: { madeAt: T0, candidates: [], image: "i", ceilingPrice: 1 },
      walk: { index: 0, transientHere: 0, usedMs: 0, invalid: 0, tried: [] },
      attempt,
      teardown: null,
      afterwards: null,
      rejection: null,
      lookupLists: [],
      retryAt: null,
    },
  });
}
