/** Feeds the pre-gate corpus to `evaluatePreGate`; a timeline is polled under a fake clock as upstream polls. */
import { isDeepStrictEqual } from "node:util";
import { evaluatePreGate, type PreGateCheck } from "../../../shared/lifecycle/pre-gate.ts";
import { parseTimestamp } from "../../../shared/time.ts";
import type { CorpusAdapter, CorpusCase } from "../adapter.ts";

interface Poll {
  checkRuns: Record<string, unknown>[];
  cost?: number;
}

export const adapter: CorpusAdapter = {
  corpus: "pre-gate",
  run: (testCase) => {
    const required = testCase["required"] as string[];
    const actual =
      testCase["timeline"] === undefined
        ? evaluatePreGate(required, checks(testCase["checkRuns"] as Record<string, unknown>[]))
        : pollAll(testCase, required);
    return { pass: isDeepStrictEqual(actual, testCase["expected"]), expected: testCase["expected"], actual };
  },
};

function pollAll(testCase: CorpusCase, required: readonly string[]) {
  const timeline = testCase["timeline"] as Poll[];
  let at = 0;
  let polls = 0;
  while (at < Number(testCase["deadlineSeconds"])) {
    const poll = timeline[Math.min(polls, timeline.length - 1)];
    polls += 1;
    at += poll?.cost ?? 0;
    const { decision, failed } = evaluatePreGate(required, checks(poll?.checkRuns ?? []));
    if (decision !== "wait") return { decision, at, polls, failed: [...failed] };
    at += Number(testCase["pollSeconds"]);
  }
  return { decision: "timeout", at, polls, failed: [] };
}

function checks(runs: readonly Record<string, unknown>[]): PreGateCheck[] {
  return runs.map((run) => ({
    name: String(run["name"]),
    status: String(run["status"]),
    conclusion: typeof run["conclusion"] === "string" ? run["conclusion"] : null,
    startedAt: parseTimestamp(run["started_at"]),
    createdAt: parseTimestamp(run["created_at"]),
  }));
}
