/** Feeds the runner-probe corpus to the probe's decision. */
import { admitProbe, decideProbe, type RunnerListing } from "../../../shared/policy/probe.ts";
import type { CorpusAdapter } from "../adapter.ts";

interface ApiResult {
  pages?: unknown[];
  status?: number;
  transportError?: string;
  thenStatus?: number;
}

export const adapter: CorpusAdapter = {
  corpus: "runner-probe",
  run: (testCase) => {
    const switchValue = typeof testCase["laneSwitch"] === "string" ? testCase["laneSwitch"] : null;
    // Not given at all is as empty as an empty text.
    const requiredLabels = (testCase["requiredLabels"] ?? "") as string | string[];
    const asked = admitProbe({ switchValue, requiredLabels }).ask;
    const verdict = decideProbe({
      switchValue,
      requiredLabels,
      listing: asked ? listing(testCase["apiResult"] ?? {}) : null,
    });
    const actual = {
      available: verdict.available,
      fail: verdict.fail,
      registered: verdict.registered,
      reason: verdict.reason as string,
      queried: asked,
    };
    const expected = testCase["expected"] as typeof actual;
    const tags = JSON.stringify([testCase["tag"] ?? null, testCase["tags"] ?? null]);
    const eitherAnswer = tags.includes('"either"');
    const eitherReason =
      tags.includes("no-match-or-invalid") &&
      [actual.reason, expected.reason].every((r) => r === "no-complete-match" || r === "invalid-response");
    const pass =
      actual.queried === expected.queried &&
      (eitherAnswer ||
        (actual.available === expected.available &&
          actual.fail === expected.fail &&
          actual.registered === expected.registered &&
          (actual.reason === expected.reason || eitherReason)));
    return { pass, expected, actual };
  },
};

function listing(answer: ApiResult): RunnerListing {
  const failed = answer.transportError ?? answer.thenStatus ?? answer.status;
  if (failed !== undefined && failed !== 200) return { kind: "failure", what: `the runner API answered ${failed}` };
  return { kind: "pages", pages: answer.pages ?? [] };
}
