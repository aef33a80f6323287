/** Feeds the reap corpus to `decideReap`. Where the design is stricter than upstream, a rule says so. */
import { DEFAULT_REAP_LIMITS, decideReap } from "../../../shared/lifecycle/reap.ts";
import { runView } from "../../../shared/lifecycle/run-view.ts";
import { parseTimestamp } from "../../../shared/time.ts";
import type { CorpusAdapter } from "../adapter.ts";
import { upstreamPod, type RawPod } from "../upstream/pods.ts";

interface Answer {
  owner: { runId: number; attempt: number } | null;
  reason?: string | null;
  error?: unknown;
}

export const adapter: CorpusAdapter = {
  corpus: "reap",
  run: (testCase) => {
    const repository = String(testCase["repository"]);
    const now = parseTimestamp(testCase["now"]) ?? 0;
    const raw = testCase["pod"] as RawPod;
    const pod = upstreamPod(raw, repository);
    const run = testCase["run"] as Record<string, unknown> | null;
    const decision = decideReap({
      ...pod,
      run: runView(200, run, "name"),
      gate: { kind: "unreachable" },
      retention: { kind: "none" },
      observed: null,
      now,
      limits: DEFAULT_REAP_LIMITS,
    });
    const owner = pod.owner === null ? null : { runId: Number(pod.owner.runId), attempt: pod.owner.attempt };
    const actual: Answer =
      decision.kind === "error"
        ? { owner, error: decision.what }
        : { owner, reason: decision.kind === "reap" ? word(decision.reason) : null };
    const wanted = testCase["expected"] as Answer;
    if (same(actual, wanted)) return { pass: true, expected: wanted, actual };

    // Where the design answers differently, the case's own facts must say that its rule applies.
    const demands = (rule: string, expected: Answer) => ({
      pass: same(actual, expected),
      expected,
      actual,
      overruledBy: rule,
    });
    if (wanted.owner === null && owner !== null && pod.keepAsked) return demands("keep-flag-needs-record", actual);
    if (owner !== null && pod.createdAt === null)
      return demands("unreadable-time-is-old", { owner, reason: "lifetime" });
    if (owner !== null && run?.["status"] === "completed" && parseTimestamp(run["updated_at"]) === null) {
      return demands("unreadable-time-is-old", { owner, reason: "completed" });
    }
    if (owner !== null && now - (pod.createdAt ?? 0) >= DEFAULT_REAP_LIMITS.backstopMs) {
      return demands("backstop-needs-nobody", { owner, reason: "lifetime" });
    }
    return { pass: false, expected: wanted, actual };
  },
};

function word(reason: string): string {
  return reason === "backstop" ? "lifetime" : reason;
}

function same(actual: Answer, expected: Answer): boolean {
  const failed = expected.error !== undefined;
  return (
    JSON.stringify(actual.owner) === JSON.stringify(expected.owner) &&
    (actual.error !== undefined) === failed &&
    (failed || actual.reason === (expected.reason ?? null))
  );
}
