/**
 * A `Signal` is the small, parsed form of something that happened outside: the only thing the gate hears of a webhook.
 *
 * Signals are hints. Nothing is decided from a signal's content alone: it says where to look, and who caused it. All ids
 * are strings. No secret and no free text travels in a signal, except the first line of a comment (a command is there).
 */

/** A GitHub account as it acted. The id is what counts; the login may be renamed or reused. */
export interface Actor {
  readonly id: string;
  readonly login: string;
}

/** The repository a signal is about, as GitHub named it in that delivery. */
export interface RepositoryRef {
  readonly id: string;
  readonly owner: string;
  readonly name: string;
}

export type PullRequestAction =
  | "opened"
  | "reopened"
  | "synchronize"
  | "ready_for_review"
  | "converted_to_draft"
  | "labeled"
  | "unlabeled"
  | "closed"
  | "edited";

export type Signal =
  | {
      readonly kind: "pull-request";
      readonly action: PullRequestAction;
      readonly prNumber: number;
      readonly headSha: string;
      readonly headRepositoryId: string | null;
      /** The branch it targets, without `refs/heads/`. Left out by a Worker of an earlier version. */
      readonly baseRef?: string;
      readonly draft: boolean;
      /** The label of `labeled` and `unlabeled`. */
      readonly label: string | null;
      readonly sender: Actor;
    }
  | {
      readonly kind: "workflow-run";
      readonly action: "requested" | "in_progress" | "completed";
      readonly runId: string;
      readonly runAttempt: number;
      /** `.github/workflows/file.yml`, without the `@ref` GitHub may append. */
      readonly workflowPath: string;
      readonly event: string;
      readonly status: string;
      readonly conclusion: string | null;
      readonly headSha: string;
      readonly headBranch: string | null;
      readonly headRepositoryId: string | null;
      readonly headRepositoryOwner: string | null;
      readonly triggeringActor: Actor;
    }
  | {
      readonly kind: "workflow-job";
      readonly action: "queued" | "waiting" | "in_progress" | "completed";
      readonly jobId: string;
      readonly jobName: string;
      readonly runId: string;
      readonly runAttempt: number;
      readonly status: string;
      readonly conclusion: string | null;
      readonly labels: readonly string[];
      /** Null until a runner has the job; GitHub also sends 0 and "" for none. */
      readonly runnerId: string | null;
    }
  | {
      readonly kind: "check-run";
      readonly action: "created" | "completed" | "rerequested" | "requested_action";
      readonly checkRunId: string;
      readonly name: string;
      readonly headSha: string;
      readonly externalId: string | null;
      readonly appId: string | null;
      /** The button's identifier on `requested_action`. */
      readonly identifier: string | null;
      readonly sender: Actor;
    }
  | {
      readonly kind: "check-suite";
      readonly action: "rerequested";
      readonly headSha: string;
      readonly headBranch: string | null;
      readonly appId: string | null;
      readonly sender: Actor;
    }
  | {
      readonly kind: "merge-group";
      readonly action: "checks_requested" | "destroyed";
      readonly headSha: string;
      readonly headRef: string;
      readonly baseSha: string;
      readonly baseRef: string;
    }
  | {
      readonly kind: "comment";
      readonly prNumber: number;
      readonly commentId: string;
      /** First line, at most 200 characters: a command is there or nowhere. */
      readonly firstLine: string;
      /** ISO 8601, as GitHub sent it. */
      readonly createdAt: string;
      readonly sender: Actor;
    }
  | {
      readonly kind: "repository";
      readonly action: "renamed" | "transferred" | "archived" | "unarchived" | "deleted";
    }
  | {
      readonly kind: "installation";
      readonly action: "created" | "deleted" | "suspend" | "unsuspend" | "added" | "removed";
    };

export type SignalKind = Signal["kind"];

/** One webhook delivery after verification and parsing. `guid` is per event: GitHub repeats it on a redelivery. */
export interface Delivery {
  readonly guid: string;
  readonly event: string;
  readonly repository: RepositoryRef;
  readonly installationId: string | null;
  readonly signal: Signal;
  /** SHA-256 of the body, hex: the guid is a header, which nobody signs. Absent where there was no body (a reconcile finding). */
  readonly bodyHash?: string;
}
