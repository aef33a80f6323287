import { describe, expect, test } from "vitest";
import { judgeRunnerRelease, stableReleases } from "../../shared/runpod/runner-release.ts";

const NOW = Date.UTC(2026, 10, 30);
const DAY = 86_400_000;
const IN_USE = { version: "2.336.0", digest: "aa", publishedDigest: "sha256:AA" };
const release = (version: string, ageDays: number) => ({ version, publishedAtMs: NOW - ageDays * DAY });

describe("N75: how old is the runner we would start", () => {
  test.each([
    ["the newest", [release("2.336.0", 60)], "ok", "latest"],
    ["one newer, 13 days old", [release("2.336.0", 60), release("2.337.0", 13)], "warn", "behind"],
    ["one newer, 14 days old", [release("2.336.0", 60), release("2.337.0", 14)], "fail", "behind"],
    ["two newer, both young", [release("2.336.0", 60), release("2.337.0", 2), release("2.337.1", 1)], "fail", "behind"],
    ["2.1000.0 is newer than 2.336.0", [release("2.336.0", 60), release("2.1000.0", 1)], "warn", "behind"],
    ["ours was withdrawn", [release("2.335.0", 60)], "fail", "not-published"],
    [
      "a newer one of unknown age counts as old",
      [release("2.336.0", 60), { version: "2.337.0", publishedAtMs: null }],
      "fail",
      "behind",
    ],
  ])("%s", (_what, releases, verdict, why) => {
    expect(judgeRunnerRelease(IN_USE, releases, NOW)).toMatchObject({ verdict, why });
  });

  test.each([["bb"], [null]])("a published digest of %j is not ours", (publishedDigest) => {
    expect(judgeRunnerRelease({ ...IN_USE, publishedDigest }, [release("2.336.0", 1)], NOW)).toMatchObject({
      verdict: "fail",
      why: "digest-mismatch",
    });
  });

  test("a version that is none is not published", () => {
    expect(judgeRunnerRelease({ ...IN_USE, version: "latest" }, [release("2.336.0", 1)], NOW)).toMatchObject({
      why: "not-published",
    });
  });
});

test("drafts, pre-releases and odd tags are no releases", () => {
  const one = { tag_name: "v2.337.0", published_at: "2026-11-01T00:00:00Z", draft: false, prerelease: false };
  expect(
    stableReleases([one, { ...one, draft: true }, { ...one, prerelease: true }, { ...one, tag_name: "nightly" }, null]),
  ).toEqual([{ version: "2.337.0", publishedAtMs: Date.UTC(2026, 10, 1) }]);
  expect(stableReleases([{ tag_name: "v2.337.0" }])).toEqual([{ version: "2.337.0", publishedAtMs: null }]);
});
