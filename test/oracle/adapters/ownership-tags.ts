/** Corpus ownership-tags: a run's environment and the tags on the pod, in upstream's words. */
import { ownershipTags } from "../../../shared/runpod/tags.ts";
import type { CorpusAdapter } from "../adapter.ts";

/** Upstream tags four things and a flag; a request has no name there. */
const UPSTREAM_NAMES = {
  deployment: "TENFERRO_CI_OWNER",
  repositoryId: "TENFERRO_CI_REPOSITORY",
  runId: "TENFERRO_CI_RUN_ID",
  attemptId: "TENFERRO_CI_ATTEMPT",
  keep: "TENFERRO_CI_KEEP_FAILED",
};

export const adapter: CorpusAdapter = {
  corpus: "ownership-tags",
  run: (testCase) => {
    const environment = testCase["environment"] as Readonly<Record<string, string>>;
    const actual = ownershipTags(
      {
        deployment: "runpod-gpu-test-v1",
        repositoryId: environment["GITHUB_REPOSITORY"],
        runId: environment["GITHUB_RUN_ID"],
        attemptId: environment["GITHUB_RUN_ATTEMPT"],
        keep: environment["PROVISION_KEEP_FAILED_PODS"] ?? "false",
      },
      UPSTREAM_NAMES,
    );
    const expected = testCase["expected"] as Readonly<Record<string, string>>;
    return { pass: sorted(actual) === sorted(expected), expected, actual };
  },
};

function sorted(tags: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.entries(tags).sort(([a], [b]) => (a < b ? -1 : 1)));
}
