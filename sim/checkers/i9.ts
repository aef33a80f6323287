/**
 * I9: at every create, spent plus reserved is at or below every cap. Reckoned anew from RunPod's bill: what gone pods cost,
 * plus for each living pod and for this create the whole reservation.
 */
import type { NetRequest } from "../net.ts";
import { podsOf, type Checker, type WorldView } from "../view.ts";

/** The ceiling price for 4,320 s: what the design reserves for an attempt at the most. */
const RESERVATION = 1.6 * 1_000_000 * 1.2;
/** An estimate may differ from the bill by so much for each pod, micro-dollars (150 s at the ceiling). */
const TOLERANCE = (150 * 1.6 * 1_000_000) / 3_600;

export function i9(): Checker {
  return {
    name: "I9",
    performing(world, operation, request) {
      return operation === "createPod" ? createProblem(world, request) : null;
    },
  };
}

function liftedFor(world: WorldView, repositoryId: string, requestId: string): number | null {
  const host = world.hosts.find((one) => one.repository.id === repositoryId);
  const micros = host?.lifted.get(requestId);
  return micros === undefined ? null : micros / 1_000_000;
}

function createProblem(world: WorldView, request: NetRequest): string | null {
  const { env } = JSON.parse(request.body) as { env: Record<string, string> };
  const id = env["GPU_GATE_REPOSITORY_ID"] ?? "";
  const attempt = env["GPU_GATE_ATTEMPT"] ?? "";
  const reserved = world.account.sql.exec<{ state: string }>(
    "SELECT state FROM money WHERE repository_id = ? AND attempt_id = ?",
    id,
    attempt,
  )[0];
  if (reserved?.state !== "reserved") return `${attempt} buys with its money ${reserved?.state ?? "not reserved"}`;
  const repository = world.github.repositories.find((one) => one.id === id);
  // A file that is broken by now has no caps: those hold under which the request was admitted.
  const caps = /per_run: ([\d.]+), per_day: ([\d.]+)/.exec(repository?.configBefore ?? repository?.config ?? "");
  if (repository === undefined || caps === null) return "a pod is bought for a repository nobody knows";
  const mine = podsOf(world, id).filter((pod) => pod.env["GPU_GATE_ATTEMPT"] !== attempt);
  const run = mine.filter((pod) => pod.env["GPU_GATE_REQUEST"] === env["GPU_GATE_REQUEST"]);
  const lifted = liftedFor(world, id, env["GPU_GATE_REQUEST"] ?? "");
  for (const [name, cap, pods] of [
    // The operator's word about one run stands in place of every configured cap.
    ["run", lifted ?? Number(caps[1]), run],
    ["day", lifted === null ? Number(caps[2]) : Infinity, mine],
  ] as const) {
    // Late pods were on nobody's book when this was decided.
    const known = pods.filter((pod) => !pod.late);
    const spent = known.reduce((sum, pod) => sum + (pod.releasedAt === null ? 0 : world.runpod.billed(pod)), 0);
    const held = known.filter((pod) => pod.releasedAt === null).length;
    const total = spent + (held + 1) * RESERVATION - TOLERANCE * known.length - 1;
    if (total > cap * 1_000_000) {
      return `a create takes the ${name} to USD ${(total / 1_000_000).toFixed(2)} of ${cap}`;
    }
  }
  return blockedBy(world, id);
}

/** A removal that was given up as unproven keeps its repository from buying. */
function blockedBy(world: WorldView, repositoryId: string): string | null {
  const loud = podsOf(world, repositoryId).find(
    (pod) =>
      pod.releasedAt === null &&
      !pod.late &&
      pod.deletes[0] !== undefined &&
      world.now - pod.deletes[0].performedAt > UNPROVEN_MS,
  );
  return loud === undefined ? null : `a pod is bought while ${loud.id} is ordered gone for too long and still there`;
}

/** From the first order that was performed: the design's ten minutes, and what slow answers take. */
const UNPROVEN_MS = 600_000 + 150_000;
