/**
 * A GitHub in memory, with the vendor's rules (github-facts): the books of one repository, kept apart from the product's and
 * believed by the checkers. What happens to them stands by concept beside this file: github-pulls.ts, github-queue.ts,
 * github-runs.ts, github-runners.ts, github-checks.ts; and how they are shown, in github-json.ts.
 */
import type { Millis } from "../shared/ports.ts";
import type { Faults } from "./faults.ts";
import type { Prng } from "./prng.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Trace } from "./trace.ts";

export const APP_ID = "4711";
export const APP_SLUG = "gpu-gate";
export const ACTIONS_APP_ID = "15368";
export const FOREIGN_APP_ID = "9999";
export const CI = ".github/workflows/ci.yml";
export const PREPARE = ".github/workflows/gpu-gate-prepare.yml";
export const EXECUTE = ".github/workflows/gpu-gate-execute.yml";
export const RECOVERY = ".github/workflows/gpu-gate-recovery.yml";
export const VALIDATION = ".github/workflows/gpu-gate-validation.yml";
export const SWEEP = ".github/workflows/gpu-gate-sweep.yml";
/** The workflow of the maintainers' own lane: its probe, and the job on their machine. */
export const LANE = ".github/workflows/lane-gpu-full.yml";
export const CONFIG = ".github/gpu-gate.yml";

export interface User {
  readonly id: string;
  readonly login: string;
  role: string;
}

export interface File {
  readonly filename: string;
  readonly status: string;
}

export interface Pull {
  readonly number: number;
  readonly headRef: string;
  /** Null: the fork it came from was deleted. */
  headRepositoryId: string | null;
  readonly author: User;
  state: "open" | "closed";
  draft: boolean;
  headSha: string;
  baseRef: string;
  readonly labels: Set<string>;
  /** What its head changes against its base: see `Repository.changes`. */
  files: readonly File[];
  /** Instants at which head, state, draft or base changed. */
  readonly changes: Millis[];
  /** When it was opened at, or pushed to, its present head; and whether the gate has taken the webhook that says so. */
  arrivedAt: Millis;
  arrivalHeard: boolean;
  /** Everybody who ever did anything to it, or ran again what was about its commit. */
  readonly actors: Set<string>;
  /** The test merge cannot be made. */
  conflict: boolean;
}

/** What one commit changes against one base, and the merge that tests it there. */
export interface Change {
  readonly files: readonly File[];
  readonly mergeSha: string;
}

/** What a merge queue has put together: the pull requests on top of the branch, each by a merge commit. */
export interface MergeGroup {
  readonly headSha: string;
  readonly headRef: string;
  readonly baseSha: string;
  readonly pulls: readonly Pull[];
  /** Each member's head as it was taken in, and the merge commit made of it, in order. */
  readonly commits: readonly { readonly sha: string; readonly parents: readonly string[] }[];
  readonly files: readonly File[];
  readonly madeAt: Millis;
  over: "merged" | "destroyed" | null;
}

/** What the App may do here at the moment. */
export type Standing = "ok" | "suspended" | "removed" | "archived" | "deleted" | "no-checks";

/** A machine of the maintainers' own, as GitHub lists it. */
export interface OwnRunner {
  readonly id: string;
  readonly name: string;
  readonly labels: readonly string[];
  status: "online" | "offline";
  busy: boolean;
}

export interface Step {
  readonly name: string;
  status: "queued" | "in_progress" | "completed";
  conclusion: string | null;
}

export interface Job {
  readonly id: string;
  readonly name: string;
  readonly labels: readonly string[];
  status: "queued" | "in_progress" | "completed";
  conclusion: string | null;
  runnerId: string | null;
  startedAt: Millis | null;
  completedAt: Millis | null;
  readonly steps: Step[];
  readonly checkRunId: string;
  annotations: { readonly title: string; readonly message: string; readonly level: string }[];
}

export interface Run {
  readonly id: string;
  readonly path: string;
  readonly event: string;
  readonly title: string;
  readonly headSha: string;
  readonly headBranch: string;
  readonly actor: User;
  readonly inputs: Readonly<Record<string, string>>;
  readonly createdAt: Millis;
  /** Where its commit comes from, if that need not be here; null: a fork that was deleted. */
  readonly headRepositoryId?: string | null;
  /** Lists go without it until then. */
  readonly listedFrom: Millis;
  triggering: User;
  attempt: number;
  status: "queued" | "in_progress" | "completed";
  conclusion: string | null;
  updatedAt: Millis;
  cancelAsked: boolean;
  gone: boolean;
  /** Somebody started it under the name of one of ours. */
  readonly lookAlike?: boolean;
  /** Jobs of each attempt, the first at 0. */
  readonly jobs: Job[][];
  artifacts: { readonly id: string; readonly name: string; expired: boolean }[];
}

export interface Runner {
  readonly id: string;
  readonly name: string;
  readonly labels: readonly string[];
  readonly jit: string;
  used: boolean;
  status: "offline" | "online";
  busy: boolean;
  /** GitHub refuses to remove it, as if a job ran on it. */
  kept: boolean;
  /** Told when a job ends on it, or when it is taken away. */
  onDone: ((why: string) => void) | null;
}

export interface CheckRun {
  readonly id: string;
  readonly appId: string;
  name: string;
  readonly headSha: string;
  externalId: string | null;
  status: string;
  conclusion: string | null;
  startedAt: Millis;
  completedAt: Millis | null;
  title: string;
  summary: string;
  text: string;
}

/** A cancel as it came in, with what its sender had last read of the run. */
export interface Cancel {
  readonly at: Millis;
  readonly run: Run;
  readonly attempt: number;
  readonly lastRead: { readonly attempt: number; readonly status: string } | null;
}

export interface Hook {
  readonly event: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

export interface GitHubSurroundings {
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  readonly rng: Prng;
  readonly trace: Trace;
  readonly deliver: (repository: Repository, hook: Hook) => void;
}

export class Repository {
  readonly id: string;
  readonly owner = "acme";
  name: string;
  /** Names it had: GitHub leads on from them. */
  readonly formerNames: string[] = [];
  installationId: string;
  standing: Standing = "ok";
  /** Instants between which the App could not speak here. */
  readonly silences: { readonly from: Millis; until: Millis | null }[] = [];
  readonly groups = new Map<string, MergeGroup>();
  /** Minutes that the branch rule gives a merge group's checks. */
  queueMinutes = 60;
  readonly variables = new Map<string, string>();
  readonly ownRunners: OwnRunner[] = [];
  /** From when on the lane's switch was on, and an online machine had all that the lane asks for. */
  readonly ownTurns: { readonly at: Millis; readonly on: boolean; readonly ready: boolean }[] = [];
  /** The configuration before somebody broke it. */
  configBefore: string | null = null;
  /** Heads whose pod somebody asked to keep with a comment; and whether the configuration keeps every failed one. */
  readonly keepHeads = new Set<string>();
  keepAlways = false;
  /** Time limits that its configuration sets, seconds. */
  limits: Readonly<Record<string, number>> = {};
  /** Heads of the default branch, oldest first, and the rules that came with each. */
  readonly mainHistory: { readonly sha: string; readonly rules: string; readonly at: Millis }[] = [];
  /** Trees of commits; a commit that is not here has one of its own. */
  /** Hears of each run that ended. */
  onRunEnd: ((run: Run) => void) | null = null;
  /** Hears of a run's next attempt; true: somebody plays its jobs. */
  onAttempt: ((run: Run) => boolean) | null = null;
  /** Hears of each start of CI. */
  onCi:
    | ((what: { readonly sha: string; readonly branch: string; readonly by: User; readonly event: string }) => void)
    | null = null;
  readonly #trees = new Map<string, string>();
  readonly users: readonly User[];
  readonly pulls = new Map<number, Pull>();
  readonly runs = new Map<string, Run>();
  readonly runners = new Map<string, Runner>();
  readonly checks = new Map<string, CheckRun>();
  readonly cancels: Cancel[] = [];
  readonly jobs = new Map<string, Job>();
  /** Heads that anybody was ever told of, with the files they changed. */
  readonly heads = new Map<
    string,
    { readonly prNumber: number; readonly files: readonly File[]; readonly mergeSha: string }
  >();
  /** Of each head, what it changes against each base that it was ever opened for. */
  readonly changes = new Map<string, Map<string, Change>>();
  /** Of each head, every pull request that was ever at it. */
  readonly visitors = new Map<string, Set<number>>();
  /** The head of each test merge. */
  readonly mergeHeads = new Map<string, string>();
  /** Of each press on a check's button that opened a request at once: the check, and the pull request that was asked about. */
  readonly reruns: { readonly check: CheckRun; readonly opened: number | null }[] = [];
  /** Heads that a pull request went back to, and when it last did. */
  readonly returns = new Map<string, Millis>();
  /** Heads that more than one pull request has had at the same time. */
  readonly sharedHeads = new Set<string>();
  /** Users' own acts on heads, each of which may open one more request. */
  readonly asks = new Map<string, number>();
  config: string;
  mainSha: string;
  readonly blobs: Record<string, string> = {};
  readonly around: GitHubSurroundings;
  readonly nextId: () => string;

  constructor(index: number, config: string, around: GitHubSurroundings, nextId: () => string) {
    this.around = around;
    this.nextId = nextId;
    this.id = String(101 + index);
    this.name = `repo${index}`;
    this.installationId = String(77 + index);
    this.config = config;
    this.mainSha = around.rng.hex(40);
    for (const path of [CI, PREPARE, EXECUTE]) this.blobs[path] = around.rng.hex(40);
    this.#mainMoved();
    this.users = [
      { id: String(1000 + index * 10), login: `maintainer${index}`, role: "maintain" },
      { id: String(1001 + index * 10), login: `admin${index}`, role: "admin" },
      { id: String(1002 + index * 10), login: `writer${index}`, role: "write" },
      { id: String(1003 + index * 10), login: `reader${index}`, role: "read" },
    ];
  }

  get now(): Millis {
    return this.around.scheduler.now;
  }

  // The default branch and its history.

  /** A commit on the default branch, with what it changes of the rules. */
  commitToMain(change: { readonly config?: string; readonly blobs?: readonly string[]; readonly sha?: string }): void {
    if (change.config !== undefined) this.config = change.config;
    for (const path of change.blobs ?? []) this.blobs[path] = this.around.rng.hex(40);
    this.mainSha = change.sha ?? this.around.rng.hex(40);
    this.#mainMoved();
  }

  repairConfig(): void {
    if (this.configBefore === null) return;
    this.commitToMain({ config: this.configBefore });
    this.configBefore = null;
  }

  #mainMoved(): void {
    const rules = `${this.blobs[PREPARE] ?? ""} ${this.blobs[EXECUTE] ?? ""} ${this.config}`;
    this.mainHistory.push({ sha: this.mainSha, rules, at: this.now });
  }

  /** Whether this commit exists here. */
  knows(sha: string): boolean {
    return (
      this.#trees.has(sha) || this.mainHistory.some((commit) => commit.sha === sha) || this.parentsOf(sha).length > 0
    );
  }

  parentsOf(sha: string): readonly string[] {
    for (const group of this.groups.values()) {
      const commit = group.commits.find((one) => one.sha === sha);
      if (commit !== undefined) return commit.parents;
    }
    const head = this.mergeHeads.get(sha);
    return head === undefined ? [] : [this.mainSha, head];
  }

  treeOf(sha: string): string {
    return this.#trees.get(sha) ?? sha;
  }

  setTree(sha: string, tree: string): void {
    this.#trees.set(sha, tree);
  }

  /** The App loses its place here, or has it back. */
  setStanding(standing: Standing): void {
    if (this.standing === standing) return;
    const open = this.silences.at(-1);
    if (open?.until === null) open.until = this.now;
    this.standing = standing;
    if (standing !== "ok") this.silences.push({ from: this.now, until: null });
    this.around.trace.note(`${this.name}: the App's place here is '${standing}'`);
  }

  rename(): void {
    this.formerNames.push(this.name);
    this.name = `${this.name}-new`;
  }

  user(login: string): User | undefined {
    return this.users.find((one) => one.login === login);
  }

  ask(headSha: string): void {
    this.asks.set(headSha, (this.asks.get(headSha) ?? 0) + 1);
  }

  /** Somebody runs again what was about this commit: that asks for the current head of its pull requests (row 4). */
  askAgain(commit: string): void {
    this.ask(commit);
    const sha = this.mergeHeads.get(commit) ?? commit;
    const head = this.heads.get(sha);
    if (head === undefined) return;
    const current = this.pulls.get(head.prNumber)?.headSha;
    // The head that the run was about, too: another pull request may be at it, and else it is found to be superseded.
    for (const one of new Set(current === undefined ? [sha] : [sha, current])) if (one !== commit) this.ask(one);
    this.askOthers(sha);
  }

  /** What becomes of one pull request at a shared head may have each of the others there asked about once more. */
  askOthers(headSha: string): void {
    if (!this.sharedHeads.has(headSha)) return;
    for (const pull of this.pulls.values()) if (pull.headSha === headSha && pull.state === "open") this.ask(headSha);
  }

  removeRunner(runner: Runner, why: string): void {
    if (!this.runners.delete(runner.id)) return;
    runner.status = "offline";
    const told = runner.onDone;
    runner.onDone = null;
    told?.(why);
  }

  // Webhooks.

  tell(event: string, action: string, sender: User, more: Readonly<Record<string, unknown>>): void {
    const { pull_request: pull, issue } = more as Readonly<Record<string, { readonly number?: number } | undefined>>;
    const number = pull?.number ?? issue?.number;
    // A button is on a commit's check, so whoever presses one does so to all that have it.
    const pressed = event === "check_run" && (action === "rerequested" || action === "requested_action");
    if (pressed) for (const one of this.pulls.values()) one.actors.add(sender.login);
    else if (number !== undefined) this.pulls.get(number)?.actors.add(sender.login);
    this.around.deliver(this, {
      event,
      payload: {
        action,
        repository: {
          id: Number(this.id),
          name: this.name,
          full_name: `${this.owner}/${this.name}`,
          owner: { login: this.owner },
        },
        installation: { id: Number(this.installationId) },
        sender: { id: Number(sender.id), login: sender.login },
        ...more,
      },
    });
  }

  installedJson(): Record<string, unknown> {
    return {
      action: "created",
      installation: { id: Number(this.installationId) },
      repositories: [{ id: Number(this.id), name: this.name, full_name: `${this.owner}/${this.name}` }],
    };
  }
}
