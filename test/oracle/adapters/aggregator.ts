/** Feeds the aggregator corpus to `aggregate`. */
import { aggregate, type FailureWhy, type ObservedCheck } from "../../../shared/policy/aggregator.ts";
import { parseTimestamp } from "../../../shared/time.ts";
import type { CorpusAdapter, CorpusCase } from "../adapter.ts";

interface Config {
  required: string[];
  strictMustReport?: string[];
  hardwareLanes?: Record<string, string>;
  delayedDependencies?: Record<string, string[]>;
  releaseMustReport?: string[];
}

/** The corpus's words for our reasons; where the corpus may be finer or coarser than we are, every word of that kind. */
const WORDS: Readonly<Record<FailureWhy, RegExp>> = {
  "never-reported": /never-reported|release/u,
  "not-success": /^(?:strict-)?(?:not-success|not-accepted)$/u,
  "lane-enabled-absent": /^(?:lane-enabled-(?:absent|missing|never-reported|not-reported)|never-reported)$/u,
  "lane-enabled-skipped": /^lane-enabled-skipped$/u,
  "not-accepted": /^not-accepted$/u,
  "still-running": /^(?:still-running|not-accepted|not-success)$/u,
};

export const adapter: CorpusAdapter = {
  corpus: "aggregator",
  run: (testCase) => {
    const config = testCase["config"] as Config;
    const result = aggregate({
      rules: {
        required: config.required,
        strict: config.strictMustReport ?? [],
        lanes: config.hardwareLanes ?? {},
        waitsFor: config.delayedDependencies ?? {},
        releaseMustReport: config.releaseMustReport ?? [],
        releaseHeadPrefix: "release-please--",
        producers: {},
      },
      switches: (testCase["switches"] ?? {}) as Record<string, string>,
      headRef: typeof testCase["headRef"] === "string" ? testCase["headRef"] : "",
      draft: testCase["draft"] === true,
      bornAt: instant(testCase, "runCreatedAt"),
      startedAt: instant(testCase, "startedAt"),
      now: instant(testCase, "now"),
      checks: ((testCase["checkRuns"] ?? []) as Record<string, unknown>[]).map(observed),
    });
    const expected = testCase["expected"] as Record<string, unknown>;
    if (result.decision === "wait") {
      const { decision, running, missing, delayed } = result;
      const actual = { decision, running, missing, delayed };
      return { pass: same(actual, expected, ["decision", "running", "missing", "delayed"]), expected, actual };
    }
    const failed = result.decision === "fail" ? result.failed : [];
    const wanted = (expected["failed"] ?? []) as { name: string; why: string }[];
    const pass =
      expected["decision"] === result.decision &&
      wanted.length === failed.length &&
      wanted.every((w) => failed.some((f) => f.name === w.name && WORDS[f.why].test(w.why)));
    return { pass, expected, actual: { decision: result.decision, failed } };
  },
};

function observed(run: Record<string, unknown>): ObservedCheck {
  return {
    name: String(run["name"]),
    status: String(run["status"]),
    conclusion: typeof run["conclusion"] === "string" ? run["conclusion"] : null,
    startedAt: parseTimestamp(run["started_at"]),
    createdAt: parseTimestamp(run["created_at"]),
    completedAt: parseTimestamp(run["completed_at"]),
    appId: null,
  };
}

function instant(testCase: CorpusCase, field: string): number {
  const at = parseTimestamp(testCase[field]);
  if (at === null) throw new Error(`${testCase.id}: ${field} is not a time`);
  return at;
}

function same(actual: Record<string, unknown>, expected: Record<string, unknown>, fields: readonly string[]): boolean {
  const sorted = (value: unknown) => (Array.isArray(value) ? value.map(String).toSorted() : value);
  return fields.every(
    (field) => JSON.stringify(sorted(actual[field])) === JSON.stringify(sorted(expected[field] ?? [])),
  );
}
