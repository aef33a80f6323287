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

export interface ArtifactRow {
  readonly id: string;
  readonly name: string;
  readonly expired: boolean;
  /** Null when GitHub names no producing run. */
  readonly runId: string | null;
}

export interface ProducerRun {
  readonly id: string;
  readonly workflowPath: string;
  readonly event: string;
  /** Null for a deleted fork. */
  readonly headRepository: string | null;
  readonly headBranch: string | null;
  /** Who started its first attempt; a re-run keeps the inputs and this. */
  readonly actorId: string | null;
}

export interface ArtifactTrust {
  readonly repository: string;
  readonly currentRunId: string;
  readonly workflowPaths: ReadonlySet<string>;
  /** The default branch; null where the branch is not looked at, which only upstream's rules do. */
  readonly branch: string | null;
  /**
   * Who must have started it: the App, in a real preparation. Anybody who may write can dispatch a trusted file with inputs of
   * their own, another change's key among them. Null where nobody is looked at, which only upstream's rules do.
   */
  readonly actorId: string | null;
  readonly events: ReadonlySet<string>;
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
  return (
    run.id !== trust.currentRunId &&
    run.headRepository === trust.repository &&
    (trust.branch === null || run.headBranch === trust.branch) &&
    (trust.actorId === null || run.actorId === trust.actorId) &&
    trust.workflowPaths.has(run.workflowPath) &&
    trust.events.has(run.event)
  );
}
