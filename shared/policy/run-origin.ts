/**
 * Where a workflow run comes from. A run's name and its artifacts' names are written by whoever starts it, so neither says
 * whose it is: anyone who can push may change a workflow file on a branch of their own and start it there under any name.
 */

/** What tells where a run comes from, as GitHub shows it. */
export interface RunOrigin {
  /** The workflow file, without a ref. */
  readonly workflowPath: string;
  readonly event: string;
  /** Null for a deleted fork. */
  readonly headRepository: string | null;
  readonly headBranch: string | null;
  /** Who started its first attempt; a re-run keeps the inputs and this. */
  readonly actor: string | null;
}

/** Where a trusted run comes from. Repository and actor are in the words of the runs that are compared: ids, or names. */
export interface TrustedOrigin {
  readonly repository: string;
  readonly workflowPaths: ReadonlySet<string>;
  readonly events: ReadonlySet<string>;
  /** The default branch; null where the branch is not looked at. A tag may have its name: only the actor tells the two apart. */
  readonly branch: string | null;
  /** Null where nobody is looked at. */
  readonly actor: string | null;
}

/** Whether a run comes from exactly there. What GitHub does not tell of a run is never the expected. */
export function comesFrom(run: RunOrigin, trusted: TrustedOrigin): boolean {
  return (
    run.headRepository === trusted.repository &&
    (trusted.branch === null || run.headBranch === trusted.branch) &&
    (trusted.actor === null || run.actor === trusted.actor) &&
    trusted.workflowPaths.has(run.workflowPath) &&
    trusted.events.has(run.event)
  );
}
