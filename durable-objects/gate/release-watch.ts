/**
 * How old the runner is that we would start. GitHub stops giving jobs to runners about 30 days behind its releases, without
 * an error that anyone sees, so the age is looked at a few times a day and told in every check weeks before.
 *
 * Only a warning: what cannot be read is unknown, and unknown never blocks. The refusal itself is heard from the runner.
 */
import { judgeRunnerRelease, stableReleases, type RunnerRelease } from "../../shared/runpod/runner-release.ts";
import { compareVersions } from "../../shared/runpod/contract.ts";
import { RUNNER_IMAGE } from "../../shared/runpod/image.ts";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import type { Millis } from "../../shared/ports.ts";
import type { GatePorts } from "./ports.ts";
import type { Store } from "./store.ts";

const EVERY_MS = 6 * 3_600_000;
const AGAIN_AFTER_FAILURE_MS = 3_600_000;
/** An image older than this many releases is told as such, without its version. */
const RELEASES_LOOKED_AT = 4;

const NOTE = "runner_note";
const AT = "runner_looked_at";

/** What the check should say about the runner's release; null when there is nothing to say. */
export function runnerNote(store: Store): string | null {
  const note = store.meta(NOTE) ?? "";
  return note === "" ? null : note;
}

/** Looks when the last look is old enough. Called beside reconciling; never throws for what others answer. */
export async function watchRelease(ports: GatePorts, store: Store): Promise<void> {
  const now = ports.clock.now();
  const known = store.repository();
  const hash = store.meta("last_config");
  const config = hash === null ? null : store.config(hash);
  if (ports.runnerReleases === undefined || known === null || config === null) return;
  if (now < Number(store.meta(AT) ?? "0")) return;
  const listing = await ports.runnerReleases(known.repository, known.installationId);
  const note = listing.ok ? await judge(stableReleases(listing.value), config, ports, now) : null;
  store.setMeta(AT, String(now + (note === null ? AGAIN_AFTER_FAILURE_MS : EVERY_MS)));
  if (note !== null) store.setMeta(NOTE, note);
  store.count(note === null ? "runner-release.unknown" : "runner-release.read");
}

/** The note, empty when the newest release is in use; null when it could not be told. */
async function judge(
  releases: readonly RunnerRelease[],
  config: RepositoryConfig,
  ports: GatePorts,
  now: Millis,
): Promise<string | null> {
  const [, name = ""] = /^([^@]+?)(?::[^/:@]+)?(?:@.*)?$/.exec(config.gpu.image) ?? [];
  // Somebody's own image has versions of its own.
  if (!name.endsWith(`/${RUNNER_IMAGE}`) || releases.length === 0) return null;
  const inUse = await ports.resolveImage(config.gpu.image, EVERY_MS);
  if (!inUse.ok) return null;
  const newest = releases.toSorted((a, b) => compareVersions(b.version, a.version)).slice(0, RELEASES_LOOKED_AT);
  for (const { version } of newest) {
    const tagged = await ports.resolveImage(`${name}:${version}`, EVERY_MS);
    if (!tagged.ok) return null;
    const [digest, publishedDigest] = [digestOf(inUse.value), digestOf(tagged.value)];
    if (digest !== publishedDigest) continue;
    const days = config.runner.release_warning_days;
    const judged = judgeRunnerRelease({ version, digest, publishedDigest }, releases, now, days);
    if (judged.verdict === "ok") return "";
    const newer = judged.why === "behind" ? judged.newer.join(", ") : judged.why;
    const urgent = judged.verdict === "fail" ? " GitHub refuses runners about 30 days behind: update the image." : "";
    return `${version}; newer: ${newer}.${urgent}`;
  }
  return `older than the newest ${newest.length} releases. GitHub refuses runners about 30 days behind: update the image.`;
}

function digestOf(reference: string): string {
  return reference.slice(reference.lastIndexOf("@") + 1);
}
