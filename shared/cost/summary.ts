/**
 * Costs of many pods, summed by GPU, pull request or reason: what a success costs, what rejected machines cost, and how
 * many seconds were paid for nothing.
 */
import type { MicroUsd } from "./estimate.ts";
import type { ToldCost } from "./report.ts";
import { unreachable } from "../result.ts";

export const GROUPINGS = ["gpu", "pr", "reason"] as const;
export type Grouping = (typeof GROUPINGS)[number];

export interface CostGroup {
  readonly key: string;
  readonly pods: number;
  /** Pods whose job gave a request its green check. */
  readonly successes: number;
  /** Sum of the known costs; `unpriced` pods are not in it. */
  readonly cost: MicroUsd;
  readonly unpriced: number;
  /** All known cost of the group by its successes; null without one. */
  readonly costPerSuccess: MicroUsd | null;
  /** Pods that were never accepted. */
  readonly rejected: number;
  readonly rejectedCost: MicroUsd;
  readonly paidMs: number;
  /** Paid time of pods that decided nothing. Pods of requests that are still open are not in it. */
  readonly wastedMs: number;
  /** Sum of the bills that are known, and how many pods they are of. */
  readonly billed: MicroUsd;
  readonly billedPods: number;
}

/** Groups in order of their cost, the dearest first. */
export function groupCosts(costs: readonly ToldCost[], by: Grouping): readonly CostGroup[] {
  const groups = Map.groupBy(costs, (cost) => keyOf(cost, by));
  return [...groups]
    .map(([key, members]) => group(key, members))
    .toSorted((a, b) => b.cost - a.cost || (a.key < b.key ? -1 : 1));
}

/** All of them as one group. */
export function totalCosts(costs: readonly ToldCost[]): CostGroup {
  return group("all", costs);
}

function keyOf(cost: ToldCost, by: Grouping): string {
  switch (by) {
    case "gpu":
      return cost.gpu ?? "unknown";
    case "pr":
      return cost.prNumber === null
        ? `${cost.repositoryId} without a pull request`
        : `${cost.repositoryId}#${cost.prNumber}`;
    case "reason":
      return cost.verdict === null || !cost.decisive ? cost.outcome : cost.verdict.reason;
    default:
      return unreachable(by, "grouping");
  }
}

function group(key: string, members: readonly ToldCost[]): CostGroup {
  const sum = (of: (cost: ToldCost) => number) => members.reduce((total, cost) => total + of(cost), 0);
  const count = (which: (cost: ToldCost) => boolean) => members.filter(which).length;
  const cost = sum((one) => one.cost ?? 0);
  const successes = count((one) => one.decisive && one.verdict?.kind === "passed");
  return {
    key,
    pods: members.length,
    successes,
    cost,
    unpriced: count((one) => one.cost === null),
    costPerSuccess: successes === 0 ? null : Math.round(cost / successes),
    rejected: count((one) => !one.accepted),
    rejectedCost: sum((one) => (one.accepted ? 0 : (one.cost ?? 0))),
    paidMs: sum((one) => one.paidMs),
    wastedMs: sum((one) => (one.decisive || (one.verdict === null && one.requestId !== null) ? 0 : one.paidMs)),
    billed: sum((one) => one.billed ?? 0),
    billedPods: count((one) => one.billed !== null),
  };
}
