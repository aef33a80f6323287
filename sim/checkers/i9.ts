/**
 * I9: at every create, spent plus reserved is at or below every cap. Reckoned anew from RunPod's bill: what gone pods cost,
 * plus for each living pod and for this create the whole reservation, which may not be less than RunPod's dearest card costs in
 * the reserved time. And what the night's comparison wrote beside the
 * estimates is what RunPod charged, of every pod that was gone an hour before. The account, whose cap is that of all
 * repositories, has every closed line as spent as well, and, once all is quiet, nothing set aside for what is over. And the
 * minutes of a kept pod, at RunPod's price, are set aside as long as it is kept.
 */
import type { NetRequest } from "../net.ts";
import type { VirtualPod } from "../runpod.ts";
import type { Millis } from "../../shared/ports.ts";
import type { Repository } from "../github-model.ts";
import { shortMs, worthOf } from "./estimate-bound.ts";
import { podsOf, type Checker, type WorldView } from "../view.ts";

/** Time that is reserved for an attempt, in hours (4,320 s). */
const RESERVED_HOURS = 1.2;

export function i9(): Checker {
  const looked = new Map<string, number>();
  return {
    name: "I9",
    step(world) {
      for (const host of world.hosts) {
        const written = host.writesTo("strays");
        if (looked.get(host.repository.id) === written) continue;
        looked.set(host.repository.id, written);
        const problem = keepingProblem(world, host.repository.id);
        if (problem !== null) return problem;
      }
      return null;
    },
    performing(world, operation, request) {
      return operation === "createPod" ? createProblem(world, request) : null;
    },
    // Cron's comparison makes up for an answer that the account never heard: a minute or two later.
    owed: accountProblem,
    end: (world) => billProblem(world) ?? bookProblem(world) ?? accountProblem(world),
  };
}

/** What the account counts: a month's cap over all repositories rests on it, and no other checker reads it after the create. */
function accountProblem(world: WorldView): string | null {
  const left = world.account.sql.exec<{ repository_id: string; attempt_id: string }>(
    "SELECT repository_id, attempt_id FROM money WHERE state = 'reserved'",
  )[0];
  if (left !== undefined)
    return `the account holds money for ${left.attempt_id} of ${left.repository_id}, and nothing is open any more`;
  for (const { sql, repository } of world.hosts) {
    const closed = sql.exec<{ attempt_id: string; micros: number }>(
      "SELECT attempt_id, micros FROM money WHERE state = 'spent'",
    );
    for (const { attempt_id: attempt, micros } of closed) {
      const known = reservedFor(world, repository.id, attempt);
      if (known?.state === "spent" && known.micros >= micros) continue;
      // Of a pod that its gate had not heard of the account may have had the price and the end before: then the bill decides.
      const stray = world.runpod.pods.find((pod) => attempt === `stray-${pod.id}`);
      if (
        known?.state === "spent" &&
        stray !== undefined &&
        known.micros >= world.runpod.billed(stray) - worthOf(stray, shortMs(world, stray))
      )
        continue;
      const has = known === undefined ? "nothing" : `${known.micros} as ${known.state}`;
      return `${repository.name} spent ${micros} micro-dollars on ${attempt}, and the account has ${has}`;
    }
  }
  return null;
}

/** Rounding up to a micro-dollar, once for each word. */
const ROUNDING = 10;

/** From the end of its job until the end that was promised: retention reserves its own minutes first. */
function keepingProblem(world: WorldView, repositoryId: string): string | null {
  const host = world.hosts.find((one) => one.repository.id === repositoryId);
  const kept = host?.sql.exec<{ pod_id: string; since: number; until: number | null; ids: string | null }>(
    `SELECT pod_id, since, json_extract(record, '$.retained.until') AS until, json_extract(record, '$.retained.moneyIds') AS ids
     FROM strays WHERE why = 'retained' AND done_at IS NULL AND json_valid(record)`,
  );
  for (const { pod_id: id, since, until, ids } of kept ?? []) {
    const pod = world.runpod.pods.find((one) => one.id === id);
    // What does not read keeps nothing, and its removal is under way.
    if (pod === undefined || until === null || ids === null) continue;
    const held = (JSON.parse(ids) as string[]).reduce((sum, word) => {
      const line = host?.sql.exec<{ micros: number }>(
        "SELECT micros FROM money WHERE attempt_id = ? AND state = 'reserved'",
        word,
      )[0];
      return sum + (line?.micros ?? 0);
    }, 0);
    const needed = ((until - since) * pod.price * 1_000_000) / 3_600_000;
    if (held + ROUNDING < needed)
      return `${id} is kept for USD ${(needed / 1_000_000).toFixed(4)}, and ${(held / 1_000_000).toFixed(4)} are set aside for that`;
  }
  return null;
}

/** What a pod has cost by its closed line is what the caps count from then on: neither forgotten nor less. */
function bookProblem(world: WorldView): string | null {
  for (const { sql, repository } of world.hosts) {
    const short = sql.exec<{ attempt_id: string; booked: number; cost: number }>(
      `SELECT money.attempt_id, money.micros AS booked, ledger.estimate_micros AS cost FROM money
       JOIN ledger ON money.attempt_id = ledger.attempt_id
       WHERE ledger.closed_at IS NOT NULL AND money.state <> 'reserved' AND money.micros < ledger.estimate_micros`,
    )[0];
    if (short !== undefined)
      return `${repository.name}: ${short.attempt_id} cost ${short.cost} micro-dollars and ${short.booked} are booked as spent`;
  }
  return null;
}

/** The night's turn, UTC, and how long before it a pod must be gone for its whole bill to be there. */
const TURN_MS = 2 * 3_600_000;
const SETTLED_MS = 3_600_000;

function billProblem(world: WorldView): string | null {
  const { plan, struck } = world.faults;
  const { weights } = plan;
  const midnight = Math.floor(world.now / 86_400_000) * 86_400_000;
  // Failing calls may put the turn off for hours.
  const owed = weights.size === 1 && struck.has("near-midnight") && world.now > midnight + TURN_MS + SETTLED_MS;
  for (const host of world.hosts) {
    const lines = host.sql.exec<{ pod_id: string; proven_at: number | null; billed_micros: number | null }>(
      "SELECT pod_id, proven_at, billed_micros FROM ledger",
    );
    for (const { pod_id: id, proven_at: gone, billed_micros: billed } of lines) {
      const pod = world.runpod.pods.find((one) => one.id === id);
      if (pod === undefined) continue;
      const charged = world.runpod.billed(pod);
      if (billed !== null && Math.abs(billed - charged) > 2) {
        return `${id} was charged USD ${(charged / 1_000_000).toFixed(4)}, and the night wrote ${(billed / 1_000_000).toFixed(4)}`;
      }
      if (owed && billed === null && gone !== null && gone < midnight + TURN_MS - SETTLED_MS)
        return `${id} was charged, and the night wrote nothing beside its estimate`;
    }
  }
  return null;
}

function liftedFor(world: WorldView, repositoryId: string, requestId: string): number | null {
  const host = world.hosts.find((one) => one.repository.id === repositoryId);
  const micros = host?.lifted.get(requestId);
  return micros === undefined ? null : micros / 1_000_000;
}

/** What the account has set aside for an attempt, micro-dollars. */
function reservedFor(world: WorldView, repositoryId: string, attempt: string) {
  return world.account.sql.exec<{ state: string; micros: number }>(
    "SELECT state, micros FROM money WHERE repository_id = ? AND attempt_id = ?",
    repositoryId,
    attempt,
  )[0];
}

function createProblem(world: WorldView, request: NetRequest): string | null {
  const { env } = JSON.parse(request.body) as { env: Record<string, string> };
  const id = env["GPU_GATE_REPOSITORY_ID"] ?? "";
  const attempt = env["GPU_GATE_ATTEMPT"] ?? "";
  const reserved = reservedFor(world, id, attempt);
  if (reserved?.state !== "reserved") return `${attempt} buys with its money ${reserved?.state ?? "not reserved"}`;
  // No repository here leaves out a card, so that every plan has the dearest: the design reserves at its price.
  const least = Math.floor(world.runpod.dearest * 1_000_000 * RESERVED_HOURS);
  if (reserved.micros < least)
    return `${attempt} reserved ${reserved.micros} micro-dollars, and the dearest card of its plan may cost ${least}`;
  const repository = world.github.repositories.find((one) => one.id === id);
  if (repository === undefined) return "a pod is bought for a repository nobody knows";
  const others = world.runpod.pods.filter((pod) => pod.env["GPU_GATE_ATTEMPT"] !== attempt);
  const buying: Buying = { world, repository, request: env["GPU_GATE_REQUEST"] ?? "", others };
  for (const { name, cap, pods } of capsOf(buying)) {
    // Late pods were on nobody's book when this was decided.
    const known = pods.filter((pod) => !pod.late);
    const spent = known.reduce((sum, pod) => sum + (pod.releasedAt === null ? 0 : bookedAtLeast(world, pod)), 0);
    const held = known
      .filter((pod) => pod.releasedAt === null)
      // Its line may be lost, or be a smaller one that was made up for a pod found: it may cost no less for that.
      .map(({ env: its }) => {
        const line = reservedFor(world, its["GPU_GATE_REPOSITORY_ID"] ?? "", its["GPU_GATE_ATTEMPT"] ?? "");
        return Math.max(least, line?.micros ?? 0);
      })
      .reduce((sum, micros) => sum + micros, 0);
    const total = spent + held + reserved.micros - 1;
    if (total > cap * 1_000_000) {
      return `a create takes the ${name} to USD ${(total / 1_000_000).toFixed(2)} of ${cap}`;
    }
  }
  return blockedBy(world, id);
}

/** By its bill, less what an estimate may lack; what RunPod kept after our order is RunPod's. Micro-dollars. */
function bookedAtLeast(world: WorldView, pod: VirtualPod): number {
  return pod.livesUntil > 0 ? 0 : Math.max(0, world.runpod.billed(pod) - worthOf(pod, shortMs(world, pod)));
}

interface Buying {
  readonly world: WorldView;
  readonly repository: Repository;
  readonly request: string;
  /** All pods of the account but this attempt's. */
  readonly others: readonly VirtualPod[];
}

interface CapOf {
  readonly name: string;
  /** USD. */
  readonly cap: number;
  /** Whose cost counts beside this create's. */
  readonly pods: readonly VirtualPod[];
}

/** Every cap that the configuration or the deployment sets for this create, with the pods that count against it. */
function capsOf(buying: Buying): readonly CapOf[] {
  const { world, repository, request, others } = buying;
  const mine = others.filter((pod) => pod.env["GPU_GATE_REPOSITORY_ID"] === repository.id);
  const deployment = {
    name: "deployment's month",
    cap: world.account.monthlyCapMicros / 1_000_000,
    pods: others.filter((pod) => isWithin(pod, world, monthOf)),
  };
  const run = mine.filter((pod) => pod.env["GPU_GATE_REQUEST"] === request);
  const lifted = liftedFor(world, repository.id, request);
  // The operator's word about one run stands in place of every configured cap, and of none of the deployment's.
  if (lifted !== null) return [{ name: "run", cap: lifted, pods: run }, deployment];
  const number = pullOf(world, repository, request);
  const author = repository.pulls.get(number ?? 0)?.author.id;
  const authorOf = (pod: VirtualPod): string | undefined =>
    repository.pulls.get(pullOf(world, repository, pod.env["GPU_GATE_REQUEST"] ?? "") ?? 0)?.author.id;
  const isNumber = (pod: VirtualPod): boolean =>
    pullOf(world, repository, pod.env["GPU_GATE_REQUEST"] ?? "") === number;
  const today = mine.filter((pod) => isWithin(pod, world, dayOf));
  const counted: Readonly<Record<string, readonly VirtualPod[]>> = {
    per_run: run,
    per_pr: number === null ? [] : mine.filter(isNumber),
    per_author: author === undefined ? [] : today.filter((pod) => authorOf(pod) === author),
    per_day: today,
    per_month: mine.filter((pod) => isWithin(pod, world, monthOf)),
  };
  const configured = Object.entries(counted).flatMap(([name, pods]): CapOf[] => {
    const cap = highestCap(repository, name);
    return cap === null ? [] : [{ name: name.slice("per_".length), cap, pods }];
  });
  return [...configured, deployment];
}

/** The highest that the file ever said: a request keeps what it was admitted under. Null: the file sets no such cap. */
function highestCap({ config, configBefore, mainHistory }: Repository, name: string): number | null {
  const pattern = new RegExp(`\\b${name}: ([\\d.]+)`);
  const said = [config, configBefore ?? "", ...mainHistory.map(({ rules }) => rules)].flatMap((text) => {
    const cap = pattern.exec(text)?.[1];
    return cap === undefined ? [] : [Number(cap)];
  });
  return said.length === 0 ? null : Math.max(...said);
}

/** Of the gate's record only whose request it is; whose pull request that is, GitHub knows. */
function pullOf(world: WorldView, repository: Repository, request: string): number | null {
  const host = world.hosts.find((one) => one.repository === repository);
  return host?.gate.store.request?.(request)?.prNumber ?? null;
}

const dayOf = (at: Millis): number => Math.floor(at / 86_400_000);
const monthOf = (at: Millis): number => new Date(at).getUTCFullYear() * 12 + new Date(at).getUTCMonth();

/** Booked in the window of its reservation, which is some minutes older than the pod; what still lives counts in every one. */
function isWithin(pod: VirtualPod, world: WorldView, windowOf: (at: Millis) => number): boolean {
  return pod.releasedAt === null || windowOf(pod.createdAt - RESERVED_BEFORE_MS) === windowOf(world.now);
}

const RESERVED_BEFORE_MS = 1_800_000;

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
