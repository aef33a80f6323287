/** Feeds the reap-retention corpus to `decideReap`: a flag asks to look for a record, only a record keeps a pod. */
import { DEFAULT_REAP_LIMITS, decideReap, type RetentionView } from "../../../shared/lifecycle/reap.ts";
import { runView } from "../../../shared/lifecycle/run-view.ts";
import { parseTimestamp } from "../../../shared/time.ts";
import type { CorpusAdapter, CorpusCase } from "../adapter.ts";
import { upstreamPod, type RawPod } from "../upstream/pods.ts";

export const adapter: CorpusAdapter = {
  corpus: "reap-retention",
  run: (testCase) => {
    const now = parseTimestamp(testCase["now"]) ?? 0;
    const pod = upstreamPod(testCase["pod"] as RawPod, String(testCase["repository"]));
    const facts = {
      ...pod,
      run: runView(200, testCase["run"], "name"),
      gate: { kind: "unreachable" },
      observed: null,
      now,
      limits: DEFAULT_REAP_LIMITS,
    } as const;
    const first = decideReap({ ...facts, retention: { kind: "not-read" } });
    const lookup = first.kind === "read-retention";
    const decision = lookup ? decideReap({ ...facts, retention: record(testCase, pod.id, now) }) : first;
    const actual = { decision: word(decision), lookup };
    const wanted = testCase["expected"] as typeof actual;
    const agrees = actual.decision === wanted.decision && actual.lookup === wanted.lookup;
    if (agrees) return { pass: true, expected: wanted, actual };
    const age = pod.createdAt === null ? Infinity : now - pod.createdAt;
    const demands = (overruledBy: string, expected: typeof actual) => ({
      pass: actual.decision === expected.decision && actual.lookup === expected.lookup,
      expected,
      actual,
      overruledBy,
    });
    if (wanted.decision === "keep" && age >= DEFAULT_REAP_LIMITS.maxRetentionMs) {
      return demands("retention-ends", { decision: "reap", lookup: true });
    }
    if (wanted.decision === "error" && wanted.lookup && age >= DEFAULT_REAP_LIMITS.backstopMs) {
      return demands("unreadable-record-at-backstop", { decision: "reap", lookup: true });
    }
    if (pod.own && age >= DEFAULT_REAP_LIMITS.backstopMs) {
      return demands("backstop-needs-nobody", {
        ...actual,
        decision: actual.decision === "none" ? "reap" : actual.decision,
      });
    }
    return { pass: false, expected: wanted, actual };
  },
};

/** Upstream's record: an artifact of the owning run whose name lists the kept pods. It has no end of its own. */
function record(testCase: CorpusCase, podId: string, now: number): RetentionView {
  if (testCase["artifactLookup"] !== "ok") return { kind: "unreadable", what: String(testCase["artifactLookup"]) };
  const run = testCase["run"] as { id: number };
  const pod = testCase["pod"] as { env: Record<string, string> };
  const prefix = `runpod-debug-retained-${run.id}-${pod.env["TENFERRO_CI_ATTEMPT"] ?? ""}-`;
  const names = testCase["artifactNames"] as string[];
  const kept = names.some((name) => name.startsWith(prefix) && name.slice(prefix.length).split(",").includes(podId));
  return kept ? { kind: "until", until: now + 1 } : { kind: "none" };
}

function word(decision: ReturnType<typeof decideReap>): string {
  if (decision.kind === "keep") {
    if (decision.why === "not-own") return "not-owned";
    return decision.why === "retained" ? "keep" : "none";
  }
  return decision.kind;
}
