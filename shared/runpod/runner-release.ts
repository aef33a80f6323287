/**
 * Is the runner we would start still fresh enough? GitHub stops giving jobs to runners about 30 days behind its releases,
 * without an error anyone sees: the runner is online and idle. So age is watched and told weeks before.
 */
import * as z from "zod";
import type { Millis } from "../ports.ts";
import { parseTimestamp } from "../time.ts";
import { compareVersions } from "./contract.ts";

/** A release as GitHub's API lists it. */
export interface RunnerRelease {
  readonly version: string;
  readonly publishedAtMs: Millis | null;
}

const releaseSchema = z.object({
  tag_name: z.string(),
  published_at: z.unknown().optional(),
  draft: z.boolean().catch(false),
  prerelease: z.boolean().catch(false),
});

const STABLE_TAG = /^v?(\d+(?:\.\d+){1,3})$/;

/** The stable releases of a listing: drafts, pre-releases and tags that are no version are left out. */
export function stableReleases(listing: readonly unknown[]): readonly RunnerRelease[] {
  return listing.flatMap((value) => {
    const parsed = releaseSchema.safeParse(value);
    if (!parsed.success || parsed.data.draft || parsed.data.prerelease) return [];
    const version = STABLE_TAG.exec(parsed.data.tag_name)?.[1];
    return version === undefined ? [] : [{ version, publishedAtMs: parseTimestamp(parsed.data.published_at) }];
  });
}

export interface RunnerInUse {
  readonly version: string;
  /** The digest we would start, and the one the registry names for that version now; with or without `sha256:`. */
  readonly digest: string;
  readonly publishedDigest: string | null;
}

export type RunnerReleaseVerdict =
  | { readonly verdict: "ok"; readonly why: "latest" }
  | { readonly verdict: "warn" | "fail"; readonly why: "behind"; readonly newer: readonly string[] }
  | { readonly verdict: "fail"; readonly why: "not-published" | "digest-mismatch" };

const DAY_MS = 86_400_000;

export const MAX_RUNNER_LAG_DAYS = 14;

/**
 * Judges the runner in use. It must be a published stable release under the digest it is known by. One newer release is a
 * warning until it is `maxLagDays` old; two newer ones, or an older one, are a failure. A release whose time cannot be read
 * counts as old.
 */
export function judgeRunnerRelease(
  inUse: RunnerInUse,
  releases: readonly RunnerRelease[],
  now: Millis,
  maxLagDays: number = MAX_RUNNER_LAG_DAYS,
): RunnerReleaseVerdict {
  const version = inUse.version.replace(/^v/, "");
  if (!releases.some((release) => compareVersions(release.version, version) === 0)) {
    return { verdict: "fail", why: "not-published" };
  }
  if (inUse.publishedDigest === null || bare(inUse.digest) !== bare(inUse.publishedDigest)) {
    return { verdict: "fail", why: "digest-mismatch" };
  }
  const newer = releases.filter((release) => compareVersions(release.version, version) > 0);
  if (newer.length === 0) return { verdict: "ok", why: "latest" };
  const isOld = newer.some(
    (release) => release.publishedAtMs === null || now - release.publishedAtMs >= maxLagDays * DAY_MS,
  );
  return {
    verdict: newer.length > 1 || isOld ? "fail" : "warn",
    why: "behind",
    newer: newer.map((release) => release.version),
  };
}

function bare(digest: string): string {
  return digest.replace(/^sha256:/, "").toLowerCase();
}
