/**
 * What the local GitHub remembers: accounts, repositories, pull requests, runs, jobs, check runs and runners.
 *
 * Plain data. The rules that change it live in the modules beside this one; how it looks on the wire, in `render-*.ts`.
 * Ids are numbers here because GitHub's JSON carries numbers; all are far below 2^53.
 */

import type { Clock, Millis } from "../../shared/ports.ts";
import type { GitStore } from "./git.ts";

export interface Account {
  readonly id: number;
  login: string;
  readonly type: "User" | "Organization" | "Bot";
}

/** `role_name` values; a custom role name maps to what its base says. */
export type RoleName = "admin" | "maintain" | "write" | "triage" | "read" | "none" | (string & {});

export interface Variable {
  readonly name: string;
  readonly value: string;
  readonly createdAt: Millis;
  readonly updatedAt: Millis;
}

export type WorkflowState = "active" | "disabled_manually" | "disabled_inactivity" | "deleted";

export interface Workflow {
  readonly id: number;
  readonly path: string;
  state: WorkflowState;
  readonly createdAt: Millis;
}

export interface Environment {
  readonly name: string;
  /** The branches that may enter; null: any. */
  branches: readonly string[] | null;
  readonly secrets: Map<string, string>;
}

export interface Repository {
  readonly id: number;
  owner: Account;
  name: string;
  readonly private: boolean;
  readonly fork: Repository | null;
  defaultBranch: string;
  archived: boolean;
  deleted: boolean;
  readonly createdAt: Millis;
  readonly git: GitStore;
  /** `refs/heads/main` to commit SHA. */
  readonly refs: Map<string, string>;
  /** User id to role. */
  readonly collaborators: Map<number, RoleName>;
  readonly variables: Map<string, Variable>;
  /** By name in capitals. */
  readonly secrets: Map<string, string>;
  /** By name in small letters. One that a job names and nobody has made has no secrets and no limits. */
  readonly environments: Map<string, Environment>;
  readonly workflows: Map<string, Workflow>;
  readonly pulls: PullRequest[];
  readonly comments: IssueComment[];
  readonly labels: Map<string, Label>;
  readonly statuses: CommitStatus[];
  /** What `GET /rules/branches/{branch}` answers, per branch. */
  readonly branchRules: Map<string, readonly unknown[]>;
  /** Classic protection: the checks it requires, per branch. */
  readonly protections: Map<string, readonly ProtectedCheck[]>;
  readonly releases: Release[];
  /** Runs of pull requests from forks wait for a maintainer's approval. */
  approveForkRuns: boolean;
}

export interface ProtectedCheck {
  readonly context: string;
  /** Null: whoever reports it. */
  readonly appId: number | null;
}

export interface Release {
  readonly id: number;
  readonly tag: string;
  readonly prerelease: boolean;
  readonly publishedAt: Millis;
}

export interface Label {
  readonly id: number;
  readonly name: string;
  readonly color: string;
}

export interface IssueComment {
  readonly id: number;
  readonly number: number;
  readonly user: Account;
  readonly viaApp: boolean;
  body: string;
  readonly createdAt: Millis;
  updatedAt: Millis;
}

export interface CommitStatus {
  readonly id: number;
  readonly sha: string;
  readonly state: string;
  readonly context: string;
  readonly description: string | null;
  readonly targetUrl: string | null;
  readonly createdAt: Millis;
}

export interface PullRequest {
  readonly id: number;
  readonly number: number;
  title: string;
  readonly body: string | null;
  readonly user: Account;
  state: "open" | "closed";
  draft: boolean;
  merged: boolean;
  mergedBy: Account | null;
  mergeCommit: string | null;
  /** Null until GitHub's background job has looked at this pair of commits. */
  mergeable: boolean | null;
  readonly head: { readonly repository: Repository; readonly branch: string; sha: string };
  base: { branch: string; sha: string };
  readonly labels: string[];
  readonly createdAt: Millis;
  updatedAt: Millis;
  closedAt: Millis | null;
  mergedAt: Millis | null;
}

export type Conclusion =
  | "success"
  | "failure"
  | "cancelled"
  | "skipped"
  | "neutral"
  | "timed_out"
  | "action_required"
  | "startup_failure"
  | "stale";

export interface Step {
  number: number;
  /** An interpreted step's name may hold expressions, which are known when its turn comes. */
  name: string;
  status: "queued" | "in_progress" | "completed";
  conclusion: Conclusion | null;
  startedAt: Millis | null;
  completedAt: Millis | null;
}

export interface Annotation {
  readonly path: string;
  readonly startLine: number;
  readonly endLine: number;
  readonly level: "notice" | "warning" | "failure";
  readonly title: string | null;
  readonly message: string;
  readonly rawDetails: string | null;
}

export interface Job {
  readonly id: number;
  readonly run: WorkflowRun;
  readonly attempt: number;
  readonly name: string;
  readonly labels: readonly string[];
  readonly selfHosted: boolean;
  /** `continue-on-error` of the job itself: its failure does not fail the run. */
  forgiven: boolean;
  status: "queued" | "in_progress" | "completed" | "waiting" | "pending";
  conclusion: Conclusion | null;
  readonly createdAt: Millis;
  startedAt: Millis | null;
  completedAt: Millis | null;
  readonly steps: Step[];
  runnerId: number | null;
  runnerName: string | null;
  runnerGroupId: number | null;
  cancelRequested: boolean;
  log: string;
  /** What its steps wrote to GITHUB_STEP_SUMMARY. */
  summary: string;
}

export interface Artifact {
  readonly id: number;
  readonly name: string;
  readonly runId: number;
  /** The zip as served. */
  readonly zip: Buffer;
  readonly digest: string;
  readonly createdAt: Millis;
  expiresAt: Millis;
  deleted: boolean;
}

export interface RunAttempt {
  readonly number: number;
  readonly triggeringActor: Account;
  readonly startedAt: Millis;
  jobs: Job[];
  status: string;
  conclusion: Conclusion | null;
  updatedAt: Millis;
  /** What the run's page shows of a workflow file that is not understood. GitHub's API does not tell it. */
  readonly annotations: Annotation[];
}

export interface WorkflowRun {
  readonly id: number;
  readonly repository: Repository;
  readonly headRepository: Repository;
  readonly workflow: Workflow;
  readonly name: string;
  displayTitle: string;
  readonly runNumber: number;
  readonly event: string;
  readonly headBranch: string;
  readonly headSha: string;
  /** What GITHUB_SHA is in its jobs: the test merge for `pull_request`, else the head. */
  readonly sha: string;
  /** What GITHUB_REF is in its jobs. */
  readonly ref: string;
  readonly actor: Account;
  readonly inputs: Readonly<Record<string, string>>;
  readonly pullNumber: number | null;
  /** The event's own part of the payload: what `github.event` has beside repository and sender. */
  readonly payload: Readonly<Record<string, unknown>>;
  readonly suiteId: number;
  readonly createdAt: Millis;
  readonly attempts: RunAttempt[];
  readonly artifacts: Artifact[];
  cancelRequestedAt: Millis | null;
}

export interface CheckSuite {
  readonly id: number;
  readonly repository: Repository;
  readonly appId: number;
  readonly headSha: string;
  readonly headBranch: string | null;
  readonly before: string | null;
  readonly createdAt: Millis;
  updatedAt: Millis;
  /** Set by a re-request until the next check run of the suite is written. */
  requeued: boolean;
}

export interface CheckAction {
  readonly label: string;
  readonly description: string;
  readonly identifier: string;
}

export interface CheckRun {
  readonly id: number;
  readonly repository: Repository;
  readonly suite: CheckSuite;
  readonly appId: number;
  name: string;
  readonly headSha: string;
  externalId: string;
  detailsUrl: string | null;
  status: "queued" | "in_progress" | "completed";
  conclusion: Conclusion | null;
  startedAt: Millis | null;
  completedAt: Millis | null;
  title: string | null;
  summary: string | null;
  text: string | null;
  readonly annotations: Annotation[];
  actions: readonly CheckAction[];
  readonly createdAt: Millis;
}

export interface RunnerGroup {
  readonly id: number;
  readonly organization: Account;
  name: string;
  readonly default: boolean;
  visibility: "all" | "selected" | "private";
  /** Repository ids, when visibility is `selected`. */
  repositories: number[];
  allowsPublicRepositories: boolean;
  restrictedToWorkflows: boolean;
  selectedWorkflows: string[];
}

export interface Runner {
  readonly id: number;
  readonly name: string;
  readonly scope:
    | { readonly kind: "repository"; readonly id: number }
    | { readonly kind: "organization"; readonly id: number };
  readonly groupId: number;
  readonly labels: readonly string[];
  readonly kind: "jit" | "static";
  os: string;
  version: string | null;
  online: boolean;
  job: Job | null;
  readonly createdAt: Millis;
}

export interface Installation {
  readonly id: number;
  readonly account: Account;
  /** Null means all repositories of the account. */
  repositories: Set<number> | null;
  permissions: Record<string, "read" | "write">;
  readonly createdAt: Millis;
  suspendedAt: Millis | null;
  deleted: boolean;
}

/** The App that GitHub itself runs workflows with, and its public id. */
export const actionsAppId = 15368;

export class World {
  readonly clock: Clock;
  readonly accounts = new Map<string, Account>();
  readonly repositories = new Map<number, Repository>();
  /** Former `owner/name` (lower case) to repository id, for the 301 of a rename. */
  readonly formerNames = new Map<string, number>();
  readonly installations = new Map<number, Installation>();
  readonly runs = new Map<number, WorkflowRun>();
  readonly jobs = new Map<number, Job>();
  readonly artifacts = new Map<number, Artifact>();
  readonly suites = new Map<number, CheckSuite>();
  readonly checkRuns = new Map<number, CheckRun>();
  readonly runners = new Map<number, Runner>();
  /** Group ids count per organisation; 1 is everybody's default group. */
  readonly runnerGroups: RunnerGroup[] = [];
  readonly #counters = new Map<string, number>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** The next number of a series. Series start where GitHub's own numbers are about as long. */
  nextId(series: string, start: number): number {
    const next = (this.#counters.get(series) ?? start) + 1;
    this.#counters.set(series, next);
    return next;
  }

  account(login: string): Account | undefined {
    return this.accounts.get(login.toLowerCase());
  }

  /** The account of that login, made at first use. */
  ensureAccount(login: string, type: Account["type"] = "User", id?: number): Account {
    const known = this.account(login);
    if (known !== undefined) return known;
    const account: Account = { id: id ?? this.nextId("account", 900_000), login, type };
    this.accounts.set(login.toLowerCase(), account);
    return account;
  }

  repository(owner: string, name: string): Repository | undefined {
    const wanted = `${owner}/${name}`.toLowerCase();
    return [...this.repositories.values()].find((repo) => !repo.deleted && fullName(repo).toLowerCase() === wanted);
  }

  pulls(repository: Repository, state: "open" | "closed" | "all" = "open"): PullRequest[] {
    return repository.pulls.filter((pull) => state === "all" || pull.state === state);
  }

  installationOf(repository: Repository): Installation | undefined {
    return [...this.installations.values()].find(
      (installation) =>
        !installation.deleted &&
        installation.account.id === repository.owner.id &&
        (installation.repositories === null || installation.repositories.has(repository.id)),
    );
  }
}

export function fullName(repository: Repository): string {
  return `${repository.owner.login}/${repository.name}`;
}

export function latestAttempt(run: WorkflowRun): RunAttempt {
  const attempt = run.attempts.at(-1);
  if (attempt === undefined) throw new Error(`run ${run.id} has no attempt`);
  return attempt;
}

/** ISO 8601 without milliseconds, as GitHub writes times. */
export function iso(at: Millis): string {
  return new Date(at).toISOString().replace(/\.\d{3}Z$/, "Z");
}
