/** Feeds the reap-sweep corpus to `sweep`, with ports that answer from the case's script and write down every call. */
import { DEFAULT_REAP_LIMITS } from "../../../shared/lifecycle/reap.ts";
import { runView } from "../../../shared/lifecycle/run-view.ts";
import {
  cancelAnswer,
  deleteAnswer,
  sweep,
  type SweepPorts,
  type SweepResult,
} from "../../../shared/lifecycle/sweep.ts";
import { parseTimestamp } from "../../../shared/time.ts";
import type { CorpusAdapter } from "../adapter.ts";
import { upstreamPod, type RawPod } from "../upstream/pods.ts";

interface Scripted {
  status?: number;
  body?: unknown;
  raw?: string;
  transportError?: unknown;
}

interface Expected {
  pods: {
    podId: string;
    runId: number;
    attempt: number;
    reason?: string | null;
    deleted: boolean;
    costAvailable: boolean | null;
  }[];
  errorPodIds: string[];
  calls: string[];
  sleeps: number[];
  exit: number;
}

export const adapter: CorpusAdapter = {
  corpus: "reap-sweep",
  run: async (testCase) => {
    const now = parseTimestamp(testCase["now"]) ?? 0;
    const api = testCase["api"] as Record<string, Scripted[]>;
    const used = new Map<string, number>();
    const calls: string[] = [];
    const sleeps: number[] = [];
    const ask = (key: string): Scripted => {
      calls.push(key);
      const answers = api[key] ?? [{ status: 404 }];
      const turn = used.get(key) ?? 0;
      used.set(key, turn + 1);
      return answers[Math.min(turn, answers.length - 1)] ?? { status: 404 };
    };
    const ports: SweepPorts = {
      readRun: (owner) => {
        const answer = ask(`GET actions/runs/${owner.runId}`);
        if (answer.status === undefined) return Promise.resolve({ kind: "unknown", what: "no answer" });
        return Promise.resolve(runView(answer.status, answer.body ?? parse(answer.raw), "name"));
      },
      askGate: () => Promise.resolve({ kind: "unreachable" }),
      readRetention: () => Promise.resolve({ kind: "none" }),
      deletePod: (podId) => Promise.resolve(deleteAnswer(ask(`DELETE pods/${podId}`).status ?? null)),
      // Upstream takes the answer to its DELETE for the proof; what the lists say is another corpus.
      proveGone: () => Promise.resolve(true),
      cancelRun: (owner) =>
        Promise.resolve(cancelAnswer(ask(`POST actions/runs/${owner.runId}/cancel`).status ?? null)),
      sleep: (durationMs) => {
        sleeps.push(durationMs / 1000);
        return Promise.resolve();
      },
      now: () => now,
    };
    const repository = String(testCase["repository"]);
    const pods = (testCase["pods"] as RawPod[]).map((pod) => upstreamPod(pod, repository));
    const result = await sweep(pods, ports, {
      execute: testCase["execute"] === true,
      limits: DEFAULT_REAP_LIMITS,
      maxLookups: null,
      cursor: null,
      observations: new Map(),
    });
    const actual = inCorpusWords(result, calls, sleeps);
    const wanted = testCase["expected"] as Expected;
    if (same(actual, wanted)) return { pass: true, expected: wanted, actual };

    // The facts of the case decide whether one of the design's stricter rules applies to it.
    const gone = [...result.observations.values()].some((seen) => seen.suspicion === "run-gone");
    if (gone) {
      const left = new Set(result.observations.keys());
      const errorPodIds = wanted.errorPodIds.filter((id) => !left.has(id));
      return overruled("owner-404-twice", { ...wanted, errorPodIds, exit: errorPodIds.length > 0 ? 1 : 0 }, actual);
    }
    const stricter = pods.find(
      (pod) =>
        pod.own &&
        (pod.createdAt === null || now - pod.createdAt >= DEFAULT_REAP_LIMITS.backstopMs) &&
        actual.pods.some((swept) => swept.podId === pod.id && swept.reason === "lifetime"),
    );
    if (stricter !== undefined) {
      const rule = stricter.createdAt === null ? "unreadable-time-is-old" : "backstop-needs-nobody";
      const others = { ...actual, pods: actual.pods.map((swept) => ({ ...swept })) };
      return overruled(rule, others, actual);
    }
    const debug = pods.find((pod) => pod.own && pod.keepAsked);
    if (debug !== undefined) return overruled("keep-flag-needs-record", actual, actual);
    return { pass: false, expected: wanted, actual };
  },
};

function overruled(overruledBy: string, expected: Expected, actual: Expected) {
  return { pass: same(actual, expected), expected, actual, overruledBy };
}

function inCorpusWords(result: SweepResult, calls: string[], sleeps: number[]): Expected {
  return {
    pods: result.pods.map((pod) => ({
      podId: pod.podId,
      runId: Number(pod.owner?.runId),
      attempt: pod.owner?.attempt ?? 0,
      reason: pod.reason === "backstop" ? "lifetime" : pod.reason,
      deleted: pod.deleted,
      costAvailable: pod.deleted ? pod.cost !== null : null,
    })),
    errorPodIds: result.errors.map((error) => error.podId),
    calls,
    sleeps,
    exit: result.errors.length > 0 ? 1 : 0,
  };
}

/** Upstream names a reason only where it got so far; null and absent are the same "none". */
function same(actual: Expected, expected: Expected): boolean {
  const plain = (answer: Expected) => ({
    pods: answer.pods.map(({ podId, runId, attempt, reason, deleted, costAvailable }) => [
      podId,
      runId,
      attempt,
      reason ?? null,
      deleted,
      costAvailable ?? null,
    ]),
    errors: answer.errorPodIds,
    calls: answer.calls,
    sleeps: answer.sleeps,
    exit: answer.exit,
  });
  return JSON.stringify(plain(actual)) === JSON.stringify(plain(expected));
}

function parse(raw: string | undefined): unknown {
  try {
    return JSON.parse(raw ?? "");
  } catch {
    return null;
  }
}
