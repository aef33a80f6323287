/**
 * The reaper: what RunPod's own list shows, held against what the gates say. It works when webhooks are lost, an alarm
 * sticks or a gate's memory is gone, and needs nothing but RunPod to enforce the backstop.
 *
 * A pod to be removed is handed to its gate, which proves it gone and books it. A gate that does not take it (no answer, or
 * a request of its own holds the pod beyond the backstop) does not save the pod: it is deleted from here, and the gate is
 * told of it, later if need be (owed.ts). Pods that are not proven ours are counted and left alone.
 */
import type { SweepStart } from "../durable-objects/account/sweep-memory.ts";
import type { PodListing } from "../durable-objects/gate/ports.ts";
import type { PodStanding } from "../durable-objects/gate/standing.ts";
import {
  decideReap,
  reapReasonCode,
  type GateView,
  type Observation,
  type ReapInput,
  type ReapReason,
} from "../shared/lifecycle/reap.ts";
import type { Millis } from "../shared/ports.ts";
import { unreachable } from "../shared/result.ts";
import { podIsGone, type Pod } from "../shared/runpod/pod.ts";
import { ownedBy } from "../shared/runpod/tags.ts";
import { KeptPods } from "./kept-pods.ts";
import { Owed } from "./owed.ts";
import type { CronPorts, ReapBudget } from "./ports.ts";
import { messageOf, type GateVisit } from "./wake-gates.ts";

export interface ReapedPod {
  readonly podId: string;
  readonly repositoryId: string;
  readonly reason: ReapReason;
  /** `handed-over`: its gate removes it now. `deleted`: RunPod took our order. `failed`: next minute again. */
  readonly how: "handed-over" | "deleted" | "failed";
}

export interface ReapStatus {
  /** `skipped`: another sweep is under way. `no-list`: RunPod's list could not be read. */
  readonly kind: "swept" | "skipped" | "no-list";
  readonly listed: number;
  /** The list was whole: a pod that is not in it is nowhere. */
  readonly complete?: boolean;
  readonly own: number;
  readonly otherDeployments: number;
  readonly unclear: number;
  readonly foreign: number;
  readonly suspected: number;
  /** Pods that wait for the next tick, because this one's requests are used up. */
  readonly left?: number;
  /** Pods that were deleted from here and that their gates have not booked yet. */
  readonly unbooked?: number;
  /** Repositories that an own pod names, or a pod that was deleted from here a moment ago. */
  readonly repositories?: readonly string[];
  readonly reaped: readonly ReapedPod[];
  readonly problems: readonly string[];
}

/** A sweep that has not ended after two cycles died with its process; at most one tick is skipped for it. */
const LEASE_GAPS = 2;

interface OwnPod {
  readonly pod: Pod;
  readonly repositoryId: string;
  readonly attemptId: string | null;
  readonly runId: string | null;
  readonly keepAsked: boolean;
}

/** What this sweep may still ask for, and where the next one goes on. */
class Budget {
  #lookups: number;
  #removals: number;
  #last: string | null = null;
  left = 0;

  constructor({ lookups, removals }: ReapBudget) {
    this.#lookups = lookups;
    this.#removals = removals;
  }

  /** False: used up. The first pod that this happens to is the next sweep's first. */
  take(what: "lookup" | "removal", podId: string): boolean {
    if ((what === "lookup" ? this.#lookups : this.#removals) <= 0) {
      this.left += 1;
      return false;
    }
    if (what === "lookup") this.#lookups -= 1;
    else this.#removals -= 1;
    if (this.left === 0) this.#last = podId;
    return true;
  }

  /** The last pod before the first one that went without; null when none did. */
  get cursor(): string | null {
    return this.left === 0 ? null : this.#last;
  }
}

/** `visits` are this tick's: their ledgers own pods whose tags were lost. */
export async function reap(ports: CronPorts, visits: readonly GateVisit[]): Promise<ReapStatus> {
  const problems: string[] = [];
  const start = await ports.account
    .beginSweep(LEASE_GAPS * ports.limits.observationGapMs)
    .catch((error: unknown): SweepStart => {
      // The guard is an aid. Two sweeps at once only repeat each other's orders.
      problems.push(`The sweep goes on without its guard: ${messageOf(error)}.`);
      return { kind: "go", observations: {} };
    });
  if (start.kind === "busy") return { ...NOTHING, kind: "skipped" };

  const owed = new Owed(ports, (problem) => problems.push(problem), start.owed, start.unreadable);
  const observations: Record<string, Observation> = {};
  const silent = new Set<string>();
  const budget = new Budget(ports.budget ?? { lookups: Infinity, removals: Infinity });
  try {
    const listing = await list(ports, problems);
    await owed.tellAll(listing);
    if (listing === null) {
      // Nothing was seen, so nothing is cleared.
      Object.assign(observations, start.observations);
      return { ...NOTHING, kind: "no-list", problems };
    }
    const sorted = sortPods(listing, ports, visits);
    const reaped: ReapedPod[] = [];
    const standings = await askGates(sorted.own, listing.startedAt, ports, problems);
    const kept = new KeptPods(ports);
    const factsOf = (own: OwnPod): ReapInput => {
      const standing = standings.get(own.pod.id) ?? null;
      return {
        own: true,
        createdAt: own.pod.createdAtMs,
        ownCreatedAt: standing?.since ?? null,
        owner: null,
        run: { kind: "unknown", what: "its run was not read" },
        gate: gateWord(standing),
        keepAsked: own.keepAsked || standing?.retained === true,
        retention: { kind: "not-read" },
        observed: start.observations[own.pod.id] ?? null,
        now: ports.clock.now(),
        limits: ports.limits,
      };
    };
    const recordOf = ({ pod, repositoryId }: OwnPod) => kept.recordOf({ podId: pod.id, repositoryId });
    // Asked for all at once; each is waited for when its pod's turn comes.
    for (const own of sorted.own) if (decideReap(factsOf(own)).kind === "read-retention") void recordOf(own);
    for (const own of inTurn(sorted.own, start.cursor ?? null)) {
      const standing = standings.get(own.pod.id) ?? null;
      const unread = factsOf(own);
      const looked = await lookAtRun(own, unread, budget, ports);
      if (looked === "no-budget") {
        // Its suspicion waits with it: what was not looked at is not cleared.
        if (unread.observed !== null) observations[own.pod.id] = unread.observed;
        continue;
      }
      const facts = looked;
      const first = decideReap(facts);
      const decision =
        first.kind === "read-retention"
          ? decideReap({ ...facts, retention: await recordOf(own), now: ports.clock.now() })
          : first;
      switch (decision.kind) {
        case "keep":
          break;
        case "observe":
          observations[own.pod.id] = { suspicion: decision.suspicion, firstSeenAt: decision.firstSeenAt };
          break;
        case "error":
          problems.push(`Pod ${own.pod.id} is left alone: ${decision.what}.`);
          break;
        case "reap":
        case "read-retention": {
          const removed = await remove(own, decision.reason, standing, { budget, owed, ports, problems, silent });
          if (removed !== null) reaped.push(removed);
          else if (facts.observed !== null) observations[own.pod.id] = facts.observed;
          break;
        }
        default:
          unreachable(decision, "reap decision");
      }
    }
    await owed.tellDeleted();
    return {
      kind: "swept",
      ...sorted.counts,
      complete: listing.complete,
      own: sorted.own.length,
      suspected: Object.keys(observations).length,
      left: budget.left,
      unbooked: owed.waiting,
      repositories: [...new Set([...sorted.own.map((own) => own.repositoryId), ...owed.repositories])],
      reaped,
      problems,
    };
  } finally {
    await owed.end(observations, budget.cursor);
  }
}

const NOTHING = {
  listed: 0,
  own: 0,
  otherDeployments: 0,
  unclear: 0,
  foreign: 0,
  suspected: 0,
  reaped: [],
  problems: [],
};

/** The account's shared list; RunPod's own when the account does not answer. */
async function list(ports: CronPorts, problems: string[]): Promise<PodListing | null> {
  const shared = await ports.account
    .listPods(ports.clock.now())
    .catch((error: unknown) => ({ ok: false, why: `the account did not answer: ${messageOf(error)}` }) as const);
  if (shared.ok) return shared.value;
  problems.push(`No list from the account: ${shared.why}.`);
  const direct = await ports.runpod.listPods({ forDeletion: true });
  if (!direct.ok) {
    problems.push(`No list from RunPod: ${direct.error.reason}.`);
    return null;
  }
  return { startedAt: direct.value.startedAtMs, complete: direct.value.complete, pods: direct.value.pods };
}

function sortPods(listing: PodListing, ports: CronPorts, visits: readonly GateVisit[]) {
  const ledgers = new Map(visits.flatMap((visit) => visit.pods.map((podId) => [podId, visit.id] as const)));
  const ledgerPodIds = new Set(ledgers.keys());
  const alive = listing.pods.filter((pod) => !podIsGone(pod));
  const counts = { listed: alive.length, otherDeployments: 0, unclear: 0, foreign: 0 };
  const own: OwnPod[] = [];
  for (const pod of alive) {
    const ownership = ownedBy(pod, ports.deployment, { ledgerPodIds });
    switch (ownership.kind) {
      case "own": {
        const repositoryId = ledgers.get(pod.id) ?? ownership.identity?.repositoryId ?? "";
        const attemptId = ownership.identity?.attemptId ?? null;
        const runId = ownership.identity?.runId ?? null;
        own.push({ pod, repositoryId, attemptId, runId, keepAsked: ownership.identity?.keep === "true" });
        break;
      }
      case "other-deployment":
        counts.otherDeployments += 1;
        break;
      case "disagreeing":
      case "untagged":
        counts.unclear += 1;
        break;
      case "foreign":
        counts.foreign += 1;
        break;
      default:
        unreachable(ownership, "ownership");
    }
  }
  return { own, counts };
}

/** In the order of their ids, beginning behind the last pod that the sweep before had requests for: everyone's turn comes. */
function inTurn(own: readonly OwnPod[], cursor: string | null): readonly OwnPod[] {
  const byId = own.toSorted((a, b) => (a.pod.id < b.pod.id ? -1 : 1));
  const start = cursor === null ? 0 : byId.findIndex((one) => one.pod.id > cursor);
  return start <= 0 ? byId : [...byId.slice(start), ...byId.slice(0, start)];
}

/**
 * Reads the run that the pod was bought for, where that can change anything: a pod that is due anyway needs no look-up. Our
 * runs have one attempt; a second one is somebody else's. The file is what the pod's own repository says it is.
 */
async function lookAtRun(
  own: OwnPod,
  facts: ReapInput,
  budget: Budget,
  ports: CronPorts,
): Promise<ReapInput | "no-budget"> {
  const { runId, repositoryId } = own;
  if (ports.github === undefined || runId === null) return facts;
  // Due, at most spared by a record that is read in any case: the run can say nothing more.
  const unread = decideReap(facts).kind;
  if (unread === "reap" || unread === "read-retention") return facts;
  if (!budget.take("lookup", own.pod.id)) return "no-budget";
  const run = await ports.github.readRun(repositoryId, runId);
  const workflowPath = run.kind === "read" ? run.workflowPath : "";
  // A gate that answers says more than a run that cannot be read: then it decides as if nobody had looked.
  if (run.kind === "unknown" && facts.gate.kind !== "unreachable") return facts;
  return {
    ...facts,
    owner: { runId, attempt: 1, workflowPath, repository: repositoryId },
    run,
    now: ports.clock.now(),
  };
}

/** One question per gate, about all of its pods. A gate that is not on any list is asked as well: the pod names it. */
async function askGates(
  own: readonly OwnPod[],
  listedAt: Millis,
  ports: CronPorts,
  problems: string[],
): Promise<ReadonlyMap<string, PodStanding>> {
  const byGate = Map.groupBy(own, (one) => one.repositoryId);
  const standings = new Map<string, PodStanding>();
  await Promise.all(
    [...byGate].map(async ([repositoryId, pods]) => {
      const questions = pods.map((one) => ({ podId: one.pod.id, attemptId: one.attemptId }));
      try {
        const answers = await ports.gate(repositoryId).podStandings(questions, listedAt);
        for (const [index, question] of questions.entries()) {
          const answer = answers[index];
          if (answer !== undefined) standings.set(question.podId, answer);
        }
      } catch (error) {
        problems.push(`The gate of repository ${repositoryId} did not say whose its pods are: ${messageOf(error)}.`);
      }
    }),
  );
  return standings;
}

function gateWord(standing: PodStanding | null): GateView {
  if (standing === null) return { kind: "unreachable" };
  switch (standing.kind) {
    case "current":
      return { kind: "live" };
    case "closed":
      return { kind: "closed-attempt" };
    case "unknown":
      return { kind: "unknown-pod" };
    default:
      return unreachable(standing.kind, "standing");
  }
}

interface Hands {
  /** Repositories whose gates did not answer when they were handed a pod. */
  readonly silent: Set<string>;
  readonly budget: Budget;
  readonly owed: Owed;
  readonly ports: CronPorts;
  readonly problems: string[];
}

/** Null: this tick's requests are used up, and its gate does not take it. */
async function remove(
  own: OwnPod,
  reason: ReapReason,
  standing: PodStanding | null,
  hands: Hands,
): Promise<ReapedPod | null> {
  const { pod, repositoryId } = own;
  const { ports } = hands;
  const paid = { createdAt: earliest(pod.createdAtMs, standing?.since ?? null), pricePerHour: priceOf(pod) };
  let how: ReapedPod["how"] | null = await handOver(own, reason, standing, paid, hands);
  if (how === null) {
    if (!hands.budget.take("removal", pod.id)) return null;
    how = await orderDeletion(own, reason, paid, hands);
  }
  ports.log({ event: "cron.reaped", pod: pod.id, repository: repositoryId, reason, how });
  return { podId: pod.id, repositoryId, reason, how };
}

interface Paid {
  readonly createdAt: Millis | null;
  readonly pricePerHour: number | null;
}

/** Stopped pods show 0: that is no price. */
function priceOf({ costPerHour }: Pod): number | null {
  return costPerHour !== null && costPerHour > 0 ? costPerHour : null;
}

/** Null: the gate does not remove it, so this sweep must. A removal under way beyond the backstop gets help from here. */
async function handOver(
  own: OwnPod,
  reason: ReapReason,
  standing: PodStanding | null,
  { createdAt, pricePerHour }: Paid,
  { ports, problems, silent }: Hands,
): Promise<"handed-over" | "failed" | null> {
  if (standing === null || standing.kind === "current") return null;
  // Its gate answered a moment ago and books best what it removes itself: the next minute asks again. Beyond the backstop
  // it goes all the same.
  const overdue = createdAt === null || ports.clock.now() - createdAt >= ports.limits.backstopMs;
  const alone = overdue ? null : "failed";
  // One that hangs is waited for once: the other pods are due as well.
  if (silent.has(own.repositoryId)) return alone;
  try {
    const gate = ports.gate(own.repositoryId);
    const taken = await gate.adoptStray(own.pod.id, reapReasonCode(reason), createdAt, pricePerHour);
    return taken ? "handed-over" : null;
  } catch (error) {
    problems.push(`The gate of repository ${own.repositoryId} did not take pod ${own.pod.id}: ${messageOf(error)}.`);
    silent.add(own.repositoryId);
    return alone;
  }
}

async function orderDeletion(
  { pod, repositoryId, attemptId }: OwnPod,
  reason: ReapReason,
  paid: Paid,
  { owed, ports, problems }: Hands,
): Promise<"deleted" | "failed"> {
  const podId = pod.id;
  await owed.intend({ podId, repositoryId, attemptId, why: reapReasonCode(reason), ...paid });
  const answer = await ports.runpod.deletePod(podId);
  if (answer.kind === "deleted") owed.deleted(podId);
  if (answer.kind !== "failure") return "deleted";
  problems.push(`RunPod did not delete pod ${podId}: ${answer.failure.reason}.`);
  return "failed";
}

function earliest(a: Millis | null, b: Millis | null): Millis | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}
