/**
 * One tick of the reaper over 1,000 pods of ours: how long it takes, and how many requests leave the tick itself. The pods'
 * list is the account's own request, or pages of it; here it is at hand.
 */
import { reap } from "../cron/reap.ts";
import type { CronPorts } from "../cron/ports.ts";
import { DEFAULT_REAP_LIMITS } from "../shared/lifecycle/reap.ts";
import { parsePod, type Pod } from "../shared/runpod/pod.ts";
import { ownershipTags, podName } from "../shared/runpod/tags.ts";
import type { BenchRow } from "./row.ts";

const PODS = 1_000;
const BUDGET = { lookups: 20, removals: 10 };
const NOW = Date.UTC(2026, 10, 30, 12);

type Word = "current" | "down";

/** `age` of all pods; `gate`: what their gates say, or that none answers. */
async function tick(
  age: number,
  gate: Word,
): Promise<{ readonly ms: number; readonly outside: number; readonly rpc: number }> {
  let outside = 0;
  let rpc = 0;
  const pods = Array.from({ length: PODS }, (_, index) => pod(index, age));
  const ports = {
    deployment: "bench",
    allowedRepositories: new Set<string>(),
    gate: () => ({
      podStandings: (questions: readonly unknown[]) => {
        rpc += 1;
        if (gate === "down") return Promise.reject(new Error("down"));
        return Promise.resolve(questions.map(() => ({ kind: gate, since: null })));
      },
      podsRemoved: () => {
        rpc += 1;
        return Promise.reject(new Error("down"));
      },
    }),
    account: {
      listPods: () => Promise.resolve({ ok: true, value: { startedAt: NOW, complete: true, pods } }),
      beginSweep: () => Promise.resolve({ kind: "go", observations: {}, cursor: null }),
      owe: () => {
        rpc += 1;
        return Promise.resolve(true);
      },
      endSweep: () => Promise.resolve([]),
    },
    runpod: {
      deletePod: () => {
        outside += 1;
        return Promise.resolve({ kind: "deleted" });
      },
    },
    github: {
      readRun: () => {
        outside += 1;
        return Promise.resolve({ kind: "unknown", what: "down" });
      },
    },
    limits: DEFAULT_REAP_LIMITS,
    budget: BUDGET,
    clock: { now: () => NOW },
    log: () => undefined,
  } as unknown as CronPorts;
  const began = performance.now();
  await reap(ports, []);
  return { ms: performance.now() - began, outside, rpc };
}

function pod(index: number, age: number): Pod {
  const owner = {
    deployment: "bench",
    repositoryId: String(100 + (index % 10)),
    requestId: `r${index}`,
    attemptId: `r${index}-1`,
    runId: String(9_000 + index),
    keep: "false",
  };
  const parsed = parsePod({
    id: `pod${index}`,
    name: podName(owner),
    status: "RUNNING",
    createdAt: new Date(NOW - age).toISOString(),
    env: ownershipTags(owner),
  });
  if (!parsed.ok) throw new Error(parsed.what);
  return parsed.pod;
}

export async function run(): Promise<readonly BenchRow[]> {
  await tick(0, "current");
  const young = await tick(0, "current");
  const overdue = await tick(7_200_000, "down");
  const limit = "the smallest plan lets a tick make 50";
  return [
    { name: "tick over 1,000 young pods", value: young.ms, unit: "ms" },
    {
      name: "requests of that tick",
      value: young.outside,
      unit: "requests",
      note: `${limit}; budget ${BUDGET.lookups} look-ups`,
    },
    { name: "calls to gates of that tick", value: young.rpc, unit: "calls", note: "one per repository" },
    { name: "tick over 1,000 overdue pods, gates down", value: overdue.ms, unit: "ms" },
    {
      name: "requests of that tick, overdue",
      value: overdue.outside,
      unit: "requests",
      note: `budget ${BUDGET.removals} removals`,
    },
  ];
}
