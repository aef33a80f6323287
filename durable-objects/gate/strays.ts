/**
 * Strays: pods that carry our name and belong to no open attempt. A late pod of a lost create, a second pod under one name,
 * a pod the reaper found. Each is removed by the same steps as any other and gets its own ledger line.
 */
import * as z from "zod";
import { configFrom } from "../../shared/config/load.ts";
import { termsFrom } from "../../shared/config/terms.ts";
import { attemptSchema, teardownSchema, type Attempt, type Limits } from "../../shared/lifecycle/model.ts";
import { advanceTeardown, beginTeardown, paidWindow, type TeardownMove } from "../../shared/lifecycle/teardown.ts";
import { audit } from "../../shared/lifecycle/step.ts";
import { taskSchema, type Done } from "../../shared/lifecycle/tasks.ts";
import type { Millis } from "../../shared/ports.ts";
import type { GatePorts } from "./ports.ts";
import type { Store, StoredTask } from "./store.ts";

const recordSchema = z.object({ attempt: attemptSchema, teardown: teardownSchema });

export function beginStray(store: Store, podId: string, why: string, createdAt: Millis | null, now: Millis): void {
  if (store.stray(podId) !== null) return;
  // An attempt that owns it removes it itself.
  const owner = store.openRequests().find((request) => {
    const attempt = "attempt" in request.state ? request.state.attempt : null;
    return attempt?.pod?.id === podId;
  });
  if (owner !== undefined) return;
  const since = createdAt ?? now;
  const attempt = strayAttempt(podId, since);
  const move = beginTeardown({ attempt, run: null, jobEnded: false, limits: limitsFor(store) }, false, now);
  const line = store.ledgerLine(podId);
  if (line === null) {
    store.ledger(
      { kind: "open", attemptId: attempt.id, podId, gpuId: null, tier: "stray", pricePerHour: null, paidFrom: since },
      "",
    );
  }
  store.audit(now, null, audit("stray.found", "reap-late-pod", { pod: podId, why }));
  follow(store, podId, why, since, attempt, move, now);
}

/** Performs the next removal step of a stray. */
export async function strayDone(task: StoredTask, ports: GatePorts, store: Store): Promise<void> {
  const row = store.stray(task.subject);
  if (row === null) return store.removeTask(task.id);
  const { attempt, teardown } = recordSchema.parse(JSON.parse(row.record));
  const done = await performStep(taskSchema.parse(JSON.parse(task.payload)), ports);
  const now = ports.clock.now();
  ports.sql.transaction(() => {
    store.removeTask(task.id);
    const price = done.task === "read-record" ? done.outcome.pricePerHour : null;
    const priced: Attempt =
      price === null || attempt.pod === null ? attempt : { ...attempt, pod: { ...attempt.pod, pricePerHour: price } };
    const scope = { attempt: priced, run: null, jobEnded: false, limits: limitsFor(store) };
    follow(store, row.pod_id, row.why, row.since, priced, advanceTeardown(teardown, done, scope, now), now);
  });
}

async function performStep(task: z.infer<typeof taskSchema>, ports: GatePorts): Promise<Done> {
  switch (task.kind) {
    case "read-record": {
      const answer = await ports.runpod.getPod(task.podId, { timeoutMs: 5_000 });
      const price = answer.kind === "pod" ? answer.pod.costPerHour : null;
      return { task: "read-record", outcome: { pricePerHour: price !== null && price > 0 ? price : null } };
    }
    case "delete-pod": {
      const answer = await ports.runpod.deletePod(task.podId);
      if (answer.kind === "failure") return { task: "delete-pod", outcome: { kind: "unknown", why: answer.failure.reason } };
      return { task: "delete-pod", outcome: { kind: answer.kind } };
    }
    case "verify-gone": {
      const answer = await ports.runpod.getPod(task.podId);
      if (answer.kind === "failure") return { task: "verify-gone", outcome: { kind: "unknown", why: answer.failure.reason } };
      const gone = answer.kind === "not-found" || answer.pod.status === "TERMINATED";
      return { task: "verify-gone", outcome: { kind: gone ? "gone" : "alive" } };
    }
    case "list-pods": {
      const answer = await ports.account.listPods(task.notBefore);
      if (!answer.ok) return { task: "list-pods", outcome: { kind: "unknown", why: answer.why } };
      const alive = answer.value.pods.some((pod) => pod.id === task.podId && pod.status !== "TERMINATED");
      return {
        task: "list-pods",
        outcome: { kind: "listed", startedAt: answer.value.startedAt, complete: answer.value.complete, alive },
      };
    }
    default:
      throw new Error(`a stray has no step ${task.kind}`);
  }
}

function follow(
  store: Store,
  podId: string,
  why: string,
  since: Millis,
  attempt: Attempt,
  move: TeardownMove,
  now: Millis,
): void {
  const proven = move.teardown.provenAt !== null;
  const record = JSON.stringify({ attempt, teardown: move.teardown });
  store.saveStray({ pod_id: podId, why, since, done_at: proven ? now : null, record });
  if (!proven && move.kind === "task") {
    store.putTask("stray", podId, move.task.kind, move.task, move.dueAt, now);
    return;
  }
  const window = paidWindow(attempt, move.teardown);
  store.ledger(
    {
      kind: "close",
      attemptId: attempt.id,
      podId,
      closedAt: move.teardown.deletedAt ?? now,
      provenAt: move.teardown.provenAt ?? now,
      pricePerHour: move.teardown.recordPrice,
      estimateMicros: window?.micros ?? null,
      outcome: why,
    },
    "",
  );
  store.audit(now, null, audit("stray.proven-gone", "reap-late-pod", { pod: podId, paidMs: window?.ms ?? null }));
}

/** A stray as the removal steps want it: a pod, and nothing on GitHub's side. */
function strayAttempt(podId: string, since: Millis): Attempt {
  return {
    id: `stray-${podId}`,
    number: 0,
    podName: "",
    label: "",
    reservedMicros: 0,
    runner: null,
    proofHash: null,
    exitHash: null,
    run: null,
    candidate: null,
    createSentAt: since,
    paidFrom: since,
    pod: {
      id: podId,
      gpuId: null,
      pricePerHour: null,
      dataCenterId: null,
      startedAt: null,
      runtimeSeen: false,
      machineSeen: false,
    },
    proof: null,
    onlineAt: null,
    exit: null,
  };
}

/** The newest configuration's limits; the defaults while none was ever read. */
function limitsFor(store: Store): Limits {
  const hash = store.meta("last_config");
  const config = (hash === null ? null : store.config(hash)) ?? configFrom();
  return termsFrom(config, "").limits;
}
