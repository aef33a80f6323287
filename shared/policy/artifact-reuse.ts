/**
 * Finds an archive that an earlier trusted run already built, by the name that encodes its content key.
 *
 * A name proves nothing by itself: any job of the repository may upload an artifact under any name. So the producing run
 * must be another run, of this very repository's default branch, of a trusted workflow file, started by an event whose
 * workflow comes from that branch. A `pull_request` run executes the pull request's own workflow file and never counts;
 * a dispatch or a push at another branch executes that branch's file, which anyone who can push may have changed; and a
 * dispatch by anybody but the App may have named another change's key. Reuse only saves time: every doubt ends the search,
 * and the archive is built fresh.
 */
import { err, ok, type Result } from "../result.ts";
import { comesFrom, type RunOrigin, type TrustedOrigin } from "./run-origin.ts";

export interface ArtifactRow {
  readonly id: string;
  readonly name: string;
  readonly expired: boolean;
  /** Null when GitHub names no producing run. */
  readonly runId: string | null;
}

export interface ProducerRun extends RunOrigin {
  readonly id: string;
}

/**
 * Its actor must be the App, in a real preparation: anybody who may write can dispatch a trusted file with inputs of their own,
 * another change's key among them. Only upstream's rules look at no branch and at no actor.
 */
export interface ArtifactTrust extends TrustedOrigin {
  readonly currentRunId: string;
}

/** Events whose workflow file is that of the branch the run is at. */
export const TRUSTED_PRODUCER_EVENTS: ReadonlySet<string> = new Set([
  "workflow_run",
  "workflow_dispatch",
  "push",
  "schedule",
]);

export interface FoundArtifact {
  readonly artifactId: string;
  readonly runId: string;
}

/** The search gave up: build fresh. `what` is for the log. */
export interface SearchEnded {
  readonly reason: "look-up-failed";
  readonly what: string;
}

/**
 * Searches one listing, newest first as GitHub gives it, for an artifact of exactly this name. `readRun` gives null for
 * a run that could not be read; that ends the whole search, because the next best artifact may be the wrong one to trust.
 */
export async function findArtifact(
  name: string,
  listing: readonly ArtifactRow[],
  trust: ArtifactTrust,
  readRun: (runId: string) => Promise<ProducerRun | null>,
): Promise<Result<FoundArtifact | null, SearchEnded>> {
  for (const artifact of listing) {
    if (artifact.name !== name || artifact.expired || artifact.runId === null) continue;
    const run = await readRun(artifact.runId);
    if (run === null) return err({ reason: "look-up-failed", what: `run ${artifact.runId} could not be read` });
    if (isTrustedProducer(run, trust)) return ok({ artifactId: artifact.id, runId: artifact.runId });
  }
  return ok(null);
}

export function isTrustedProducer(run: ProducerRun, trust: ArtifactTrust): boolean {
  return run.id !== trust.currentRunId && comesFrom(run, trust);
}
