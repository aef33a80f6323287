/** Corpus runner-pin: the pinned runner, the releases and the published digest. */
import { judgeRunnerRelease, stableReleases } from "../../../shared/runpod/runner-release.ts";
import { parseTimestamp } from "../../../shared/time.ts";
import type { CorpusAdapter } from "../adapter.ts";

interface PinCase {
  readonly pinVersion: string;
  readonly pinDigest: string;
  readonly publishedDigest: string | null;
  readonly releases: readonly unknown[];
  readonly now: string;
  readonly maxLagDays: number;
  readonly expected: { readonly verdict: string; readonly why: string };
}

export const adapter: CorpusAdapter = {
  corpus: "runner-pin",
  run: (testCase) => {
    const pin = testCase as unknown as PinCase;
    const { verdict, why } = judgeRunnerRelease(
      { version: pin.pinVersion, digest: pin.pinDigest, publishedDigest: pin.publishedDigest },
      stableReleases(pin.releases),
      parseTimestamp(pin.now) ?? Number.NaN,
      pin.maxLagDays,
    );
    const actual = { verdict, why };
    return { pass: verdict === pin.expected.verdict && why === pin.expected.why, expected: pin.expected, actual };
  },
};
