/**
 * A GitHub in memory: pull requests, workflow runs and jobs, just-in-time runners, check runs, and the webhooks about them,
 * with the vendor's rules (github-facts). Its books are kept apart from the product's and are what the checkers believe.
 */
import type { Millis } from "../shared/ports.ts";
import type { Faults } from "./faults.ts";
import type { Prng } from "./prng.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Trace } from "./trace.ts";

export const APP_ID = "4711";
export const ACTIONS_APP_ID = "15368";
export const FOREIGN_APP_ID = "9999";
export const CI = ".github/workflows/ci.yml";
export const PREPARE = ".github/workflows/gpu-gate-prepare.yml";
export const EXECUTE = ".github/workflows/gpu-gate-execute.yml";
export const RECOVERY = ".github/workflows/gpu-gate-recovery.yml";
export const VALIDATION = ".github/workflows/gpu-gate-validation.yml";
export const CONFIG = ".github/gpu-gate.yml";

/** Longer than any deadline. */
const FOR_EVER_MS = 20_000_000;

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
  files: File[];
  /** Instants at which head, state, draft or base changed. */
  readonly changes: Millis[];
  /** The test merge cannot be made. */
  conflict: boolean;
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
  /** Lists go without it until then. */
  readonly listedFrom: Millis;
  triggering: User;
  attempt: number;
  status: "queued" | "in_progress" | "completed";
  conclusion: string | null;
  updatedAt: Millis;
  cancelAsked: boolean;
  gone: boolean;
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

const GPU_STEPS = ["Check the machine", "Download the archives", "Run GPU tests", "Report"];

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
  /** Users' own acts on heads, each of which may open one more request. */
  readonly asks = new Map<string, number>();
  config: string;
  mainSha: string;
  readonly blobs: Record<string, string> = {};
  readonly #around: GitHubSurroundings;
  readonly #nextId: () => string;

  constructor(index: number, config: string, around: GitHubSurroundings, nextId: () => string) {
    this.#around = around;
    this.#nextId = nextId;
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
    return this.#around.scheduler.now;
  }

  // The default branch and its history.

  /** A commit on the default branch, with what it changes of the rules. */
  commitToMain(change: { readonly config?: string; readonly blobs?: readonly string[]; readonly sha?: string }): void {
    if (change.config !== undefined) this.config = change.config;
    for (const path of change.blobs ?? []) this.blobs[path] = this.#around.rng.hex(40);
    this.mainSha = change.sha ?? this.#around.rng.hex(40);
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
    for (const [head, one] of this.heads) if (one.mergeSha === sha) return [this.mainSha, head];
    return [];
  }

  treeOf(sha: string): string {
    return this.#trees.get(sha) ?? sha;
  }

  /** The App loses its place here, or has it back. */
  setStanding(standing: Standing): void {
    if (this.standing === standing) return;
    const open = this.silences.at(-1);
    if (open?.until === null) open.until = this.now;
    this.standing = standing;
    if (standing !== "ok") this.silences.push({ from: this.now, until: null });
    this.#around.trace.note(`${this.name}: the App's place here is '${standing}'`);
  }

  rename(): void {
    this.formerNames.push(this.name);
    this.name = `${this.name}-new`;
  }

  user(login: string): User | undefined {
    return this.users.find((one) => one.login === login);
  }

  // Pull requests.

  openPull(author: User, files: File[], draft: boolean, fork: boolean, sameAs: Pull | null = null): Pull {
    const number = this.pulls.size + 1;
    const pull: Pull = {
      number,
      headRef: `topic-${number}`,
      headRepositoryId: fork ? "999" : this.id,
      author,
      state: "open",
      draft,
      headSha: "",
      baseRef: "main",
      labels: new Set(),
      files,
      changes: [],
      conflict: false,
    };
    this.pulls.set(number, pull);
    if (sameAs === null) this.#newHead(pull, this.#around.rng.hex(40), null);
    else {
      // From another branch, or against another base. It asks for an answer of its own where the other's was about itself.
      pull.headSha = sameAs.headSha;
      pull.changes.push(this.now);
      this.ask(pull.headSha);
      this.#around.trace.note(`${this.name}#${number} has the head of #${sameAs.number}`);
    }
    this.tell("pull_request", "opened", author, { pull_request: this.pullJson(pull) });
    this.#startCi(pull.headSha, pull.headRef, author, "pull_request");
    return pull;
  }

  /** `sameTree`: a commit that changes nothing, or only its message. */
  push(pull: Pull, by: User, sha: string, files: File[], sameTree = false): void {
    const before = pull.headSha;
    pull.files = files;
    this.#newHead(pull, sha, sameTree ? before : null);
    this.#around.trace.note(`${this.name}#${pull.number} head is now ${sha.slice(0, 8)}`);
    this.tell("pull_request", "synchronize", by, { pull_request: this.pullJson(pull) });
    this.#startCi(pull.headSha, pull.headRef, by, "pull_request");
  }

  change(
    pull: Pull,
    by: User,
    action: "closed" | "reopened" | "converted_to_draft" | "ready_for_review" | "edited",
  ): void {
    if (action === "closed") pull.state = "closed";
    if (action === "reopened") {
      pull.state = "open";
      this.ask(pull.headSha);
    }
    if (action === "converted_to_draft") pull.draft = true;
    if (action === "ready_for_review") pull.draft = false;
    if (action === "edited") pull.baseRef = pull.baseRef === "main" ? "next" : "main";
    pull.changes.push(this.now);
    this.#around.trace.note(`${this.name}#${pull.number} ${action}`);
    this.tell("pull_request", action, by, { pull_request: this.pullJson(pull) });
  }

  label(pull: Pull, by: User, label: string): void {
    pull.labels.add(label);
    this.ask(pull.headSha);
    this.tell("pull_request", "labeled", by, { pull_request: this.pullJson(pull), label: { name: label } });
  }

  comment(pull: Pull, by: User, body: string): void {
    this.ask(pull.headSha);
    this.tell("issue_comment", "created", by, {
      issue: { number: pull.number, pull_request: {} },
      comment: {
        id: Number(this.#nextId()),
        body,
        created_at: iso(this.now),
        user: { id: Number(by.id), login: by.login },
      },
    });
  }

  ask(headSha: string): void {
    this.asks.set(headSha, (this.asks.get(headSha) ?? 0) + 1);
  }

  /** Somebody runs again what was about this commit: that asks for the current head of its pull request (row 4). */
  askAgain(commit: string): void {
    this.ask(commit);
    for (const [sha, head] of this.heads) {
      if (sha !== commit && head.mergeSha !== commit) continue;
      const current = this.pulls.get(head.prNumber)?.headSha;
      if (current !== undefined && current !== commit) this.ask(current);
    }
  }

  #newHead(pull: Pull, sha: string, treeOf: string | null): void {
    pull.headSha = sha;
    pull.changes.push(this.now);
    if (this.heads.has(sha)) return;
    const mergeSha = this.#around.rng.hex(40);
    this.heads.set(sha, { prNumber: pull.number, files: pull.files, mergeSha });
    const known = treeOf === null ? undefined : this.heads.get(treeOf);
    // The base is the same for both in this world, so the head's content is what the merge's content depends on.
    this.#trees.set(sha, known === undefined ? this.#around.rng.hex(40) : this.treeOf(treeOf ?? ""));
    this.#trees.set(mergeSha, known === undefined ? this.#around.rng.hex(40) : this.treeOf(known.mergeSha));
  }

  /** The merge queue takes pull requests in. The tree of a group of one, on the base it was tested on, is the tested one. */
  queue(pulls: readonly Pull[]): MergeGroup {
    const last = pulls.at(-1);
    if (last === undefined) throw new Error("a merge group has a pull request");
    const { rng } = this.#around;
    const commits: MergeGroup["commits"][number][] = [];
    let tip = this.mainSha;
    for (const pull of pulls) {
      const merge = rng.hex(40);
      commits.push({ sha: pull.headSha, parents: [this.mainSha] }, { sha: merge, parents: [tip, pull.headSha] });
      tip = merge;
    }
    const group: MergeGroup = {
      headSha: tip,
      headRef: `refs/heads/gh-readonly-queue/main/pr-${last.number}-${this.mainSha}`,
      baseSha: this.mainSha,
      pulls,
      commits,
      files: pulls.flatMap((pull) => pull.files),
      madeAt: this.now,
      over: null,
    };
    const only = pulls.length === 1 ? this.heads.get(last.headSha) : undefined;
    if (only !== undefined) this.#trees.set(tip, this.treeOf(only.mergeSha));
    this.groups.set(tip, group);
    this.#around.trace.note(
      `${this.name}: merge group ${tip.slice(0, 8)} of ${pulls.map((pull) => pull.number).join(", ")}`,
    );
    this.tellGroup(group, "checks_requested");
    const ref = group.headRef.replace("refs/heads/", "");
    this.#startCi(tip, ref, last.author, "merge_group");
    return group;
  }

  endGroup(group: MergeGroup, how: "merged" | "destroyed"): void {
    if (group.over !== null) return;
    group.over = how;
    this.#around.trace.note(`${this.name}: merge group ${group.headSha.slice(0, 8)} is ${how}`);
    if (how === "merged") {
      this.commitToMain({ sha: group.headSha });
      for (const pull of group.pulls) if (pull.state === "open") this.change(pull, pull.author, "closed");
    }
    this.tellGroup(group, "destroyed");
  }

  tellGroup(group: MergeGroup, action: "checks_requested" | "destroyed"): void {
    const { headSha: head_sha, headRef: head_ref, baseSha: base_sha } = group;
    const by = this.users[0];
    if (by === undefined) return;
    this.tell("merge_group", action, by, {
      merge_group: { head_sha, head_ref, base_sha, base_ref: "refs/heads/main", head_commit: {} },
    });
  }

  /** A maintainer dispatches one of the workflows that ask for a request. */
  ownRun(path: string, title: string, by: User): Run {
    const job = this.#newJob("ask", ["ubuntu-latest"], ["Ask the gate"], this.mainSha);
    const run = this.#newRun(path, "workflow_dispatch", title, this.mainSha, "main", by, {}, [job]);
    run.status = "in_progress";
    this.tellRun(run, "in_progress");
    return run;
  }

  endOwnRun(run: Run, conclusion: "success" | "failure"): void {
    for (const job of run.jobs.at(-1) ?? []) this.#finishJob(run, job, conclusion);
    this.#finishRun(run, conclusion);
  }

  /** CI starts by itself: the trigger run and the light checks. */
  #startCi(sha: string, branch: string, by: User, event: "pull_request" | "merge_group"): void {
    const { faults, scheduler, rng } = this.#around;
    if (faults.strikes("trigger-never", 0.1)) return;
    const delay = faults.strikes("trigger-late", 0.2) ? rng.int(300_000, 1_200_000) : rng.int(2_000, 20_000);
    scheduler.in(delay, "ci starts", () => {
      const run = this.#newRun(CI, event, "CI", sha, branch, by, {}, [
        this.#newJob("rustfmt", [], ["Run rustfmt"], sha),
        this.#newJob("clippy", [], ["Run clippy"], sha),
      ]);
      run.status = "in_progress";
      this.tellRun(run, "in_progress");
      const took = rng.int(10_000, 120_000);
      scheduler.in(took, "ci ends", () => {
        const bad = faults.strikes("pre-gate-fails", 0.1);
        for (const job of run.jobs[0] ?? []) {
          this.#finishJob(run, job, bad && job.name === "clippy" ? "failure" : "success");
        }
        this.#finishRun(run, bad ? "failure" : "success");
      });
    });
  }

  // Runs.

  dispatch(path: string, inputs: Readonly<Record<string, string>>): Run {
    const { faults, scheduler, rng } = this.#around;
    const app: User = { id: "5000", login: "gpu-gate[bot]", role: "none" };
    if (path === PREPARE) {
      const job = this.#newJob("Archives and host tests", ["ubuntu-latest"], ["Build the archives"], this.mainSha);
      const title = `gpu-gate prepare ${inputs["request"] ?? ""}`;
      const run = this.#newRun(path, "workflow_dispatch", title, this.mainSha, "main", app, inputs, [job]);
      const took = faults.strikes("prepare-slow", 0.2) ? rng.int(1_200_000, 6_000_000) : rng.lasting(20_000, 600_000);
      const started = rng.int(1_000, 15_000);
      scheduler.in(started, "prepare starts", () => {
        if (run.status !== "queued") return;
        run.status = "in_progress";
        job.status = "in_progress";
        job.startedAt = this.now;
        this.tellRun(run, "in_progress");
      });
      scheduler.in(started + took, "prepare ends", () => {
        if (run.status === "completed" || run.cancelAsked) return;
        if (faults.strikes("prepare-startup-failure", 0.1)) return this.#finishRun(run, "startup_failure");
        const bad = faults.strikes("prepare-fails", 0.1);
        this.#finishJob(run, job, bad ? "failure" : "success");
        if (!bad && !faults.strikes("prepare-no-artifacts", 0.3)) {
          run.artifacts = ["part00", "part01", "part02", "part03", "part04", "manifest"].map((part) => ({
            id: this.#nextId(),
            name: `gpu-gate-archives-${part}`,
            expired: false,
          }));
        }
        this.#finishRun(run, bad ? "failure" : "success");
      });
      if (faults.strikes("artifacts-expire", 0.3)) {
        scheduler.in(started + took + rng.int(0, 60_000), "artifacts expire", () => {
          for (const artifact of run.artifacts) artifact.expired = true;
        });
      }
      this.#mayVanish(run);
      return run;
    }
    const title = `gpu-gate execute ${inputs["request"] ?? ""} ${inputs["attempt"] ?? ""}`;
    const job = this.#newJob("GPU tests", ["self-hosted", inputs["label"] ?? "none"], GPU_STEPS, this.mainSha);
    const run = this.#newRun(path, "workflow_dispatch", title, this.mainSha, "main", app, inputs, [job]);
    this.#mayVanish(run);
    if (faults.strikes("job-stranger", 0.2)) this.#strangerTakes(run, job);
    return run;
  }

  #mayVanish(run: Run): void {
    if (!this.#around.faults.strikes("run-vanishes", 0.05)) return;
    this.#around.scheduler.in(this.#around.rng.int(5_000, 900_000), "run vanishes", () => {
      run.gone = true;
      run.status = "completed";
      this.#around.trace.note(`run ${run.id} is deleted`);
    });
  }

  /** Somebody else's runner with the same label is given the job. */
  #strangerTakes(run: Run, job: Job): void {
    this.#around.scheduler.in(this.#around.rng.int(20_000, 300_000), "stranger takes the job", () => {
      if (job.status !== "queued" || run.cancelAsked) return;
      job.status = "in_progress";
      job.runnerId = "31337";
      job.startedAt = this.now;
      run.status = "in_progress";
      this.tellJob(run, job, "in_progress");
    });
  }

  #newRun(
    path: string,
    event: string,
    title: string,
    headSha: string,
    headBranch: string,
    actor: User,
    inputs: Readonly<Record<string, string>>,
    jobs: Job[],
  ): Run {
    const run: Run = {
      id: this.#nextId(),
      path,
      event,
      title,
      headSha,
      headBranch,
      actor,
      triggering: actor,
      inputs,
      createdAt: this.now,
      listedFrom: this.#around.faults.strikes("github-list-lag", 0.4)
        ? this.now + this.#around.rng.int(2_000, 60_000)
        : this.now,
      attempt: 1,
      status: "queued",
      conclusion: null,
      updatedAt: this.now,
      cancelAsked: false,
      gone: false,
      jobs: [jobs],
      artifacts: [],
    };
    this.runs.set(run.id, run);
    this.#around.trace.note(`run ${run.id} '${title}' queued`);
    this.tellRun(run, "requested");
    return run;
  }

  #newJob(name: string, labels: readonly string[], steps: readonly string[], headSha: string): Job {
    const checkRunId = this.#nextId();
    this.checks.set(checkRunId, {
      id: checkRunId,
      appId: ACTIONS_APP_ID,
      name,
      headSha,
      externalId: null,
      status: "in_progress",
      conclusion: null,
      startedAt: this.now,
      completedAt: null,
      title: "",
      summary: "",
      text: "",
    });
    const job: Job = {
      id: this.#nextId(),
      name,
      labels,
      status: "queued",
      conclusion: null,
      runnerId: null,
      startedAt: null,
      completedAt: null,
      steps: steps.map((step) => ({ name: step, status: "queued", conclusion: null })),
      checkRunId,
      annotations: [],
    };
    this.jobs.set(job.id, job);
    return job;
  }

  #finishJob(run: Run, job: Job, conclusion: string): void {
    if (job.status === "completed") return;
    job.status = "completed";
    job.conclusion = conclusion;
    job.startedAt ??= this.now;
    job.completedAt = this.now;
    run.updatedAt = this.now;
    const check = this.checks.get(job.checkRunId);
    if (check !== undefined) {
      check.status = "completed";
      check.conclusion = conclusion;
      check.completedAt = this.now;
    }
    this.tellJob(run, job, "completed");
    if (run.path === CI && check !== undefined) {
      this.tell("check_run", "completed", run.actor, { check_run: checkJson(check) });
    }
  }

  #finishRun(run: Run, conclusion: string): void {
    if (run.status === "completed") return;
    run.status = "completed";
    run.conclusion = conclusion;
    run.updatedAt = this.now;
    this.#around.trace.note(`run ${run.id} completed: ${conclusion}`);
    this.tellRun(run, "completed");
    this.onRunEnd?.(run);
  }

  /** 202 or 409. Cancelling takes a while (up to five minutes). */
  cancel(run: Run, byUser: boolean): boolean {
    if (run.status === "completed") return false;
    if (run.cancelAsked) return true;
    run.cancelAsked = true;
    const { faults, rng, scheduler } = this.#around;
    const attempt = run.attempt;
    const took = faults.strikes("run-cancel-slow", 0.3) ? rng.int(60_000, 300_000) : rng.int(1_000, 8_000);
    this.#around.trace.note(`run ${run.id} is being cancelled${byUser ? " by a user" : ""}`);
    scheduler.in(took, "cancelled", () => {
      if (run.status === "completed" || run.attempt !== attempt) return;
      for (const job of run.jobs[attempt - 1] ?? []) {
        const runner = job.runnerId === null ? undefined : this.runners.get(job.runnerId);
        this.#finishJob(run, job, "cancelled");
        if (runner !== undefined) this.removeRunner(runner, "cancelled");
      }
      this.#finishRun(run, "cancelled");
    });
    return true;
  }

  /** A user's re-run in the Actions tab: the next attempt of a completed run. */
  rerun(run: Run, by: User): void {
    if (run.status !== "completed" || run.gone) return;
    run.attempt += 1;
    run.triggering = by;
    run.status = "queued";
    run.conclusion = null;
    run.cancelAsked = false;
    run.updatedAt = this.now;
    const last = run.jobs.at(-1) ?? [];
    run.jobs.push(
      last.map((job) =>
        this.#newJob(
          job.name,
          job.labels,
          job.steps.map((step) => step.name),
          run.headSha,
        ),
      ),
    );
    this.#around.trace.note(`run ${run.id} attempt ${run.attempt} by ${by.login}`);
    if (run.path !== CI) this.askAgain(run.inputs["tested_sha"] ?? "");
    this.tellRun(run, "requested");
    if (run.path === EXECUTE) return;
    const attempt = run.attempt;
    this.#around.scheduler.in(20_000, "re-run ends", () => {
      if (run.attempt !== attempt) return;
      for (const job of run.jobs[attempt - 1] ?? []) this.#finishJob(run, job, "success");
      this.#finishRun(run, "success");
    });
  }

  /** Another App's check on a commit, made at one stroke. */
  foreignCheck(headSha: string, name: string, conclusion: "success" | "failure"): void {
    const by = this.users[0];
    const check: CheckRun = {
      id: this.#nextId(),
      appId: FOREIGN_APP_ID,
      name,
      headSha,
      externalId: null,
      status: "completed",
      conclusion,
      startedAt: this.now,
      completedAt: this.now,
      title: name,
      summary: "By somebody else.",
      text: "",
    };
    this.checks.set(check.id, check);
    this.#around.trace.note(`another App's check '${name}' on ${headSha.slice(0, 8)}: ${conclusion}`);
    if (by !== undefined) this.tell("check_run", "completed", by, { check_run: checkJson(check) });
  }

  /** Somebody's clean-up removes a run's artifacts, right behind whoever has just seen them. */
  cleanUp(run: Run): void {
    const { faults, scheduler } = this.#around;
    if (run.path !== PREPARE || run.artifacts.length === 0 || !faults.strikes("artifacts-cleaned", 0.3)) return;
    scheduler.in(faults.stream("artifacts-cleaned").int(5, 400), "artifacts are cleaned up", () => {
      this.#around.trace.note(`the artifacts of run ${run.id} are cleaned up`);
      for (const artifact of run.artifacts) artifact.expired = true;
    });
  }

  // Runners.

  mint(name: string, labels: readonly string[]): Runner | null {
    for (const runner of this.runners.values()) if (runner.name === name) return null;
    const runner: Runner = {
      id: this.#nextId(),
      name,
      labels,
      jit: `jit${this.#around.rng.hex(60)}`,
      used: false,
      status: "offline",
      busy: false,
      onDone: null,
    };
    this.runners.set(runner.id, runner);
    return runner;
  }

  removeRunner(runner: Runner, why: string): void {
    if (!this.runners.delete(runner.id)) return;
    runner.status = "offline";
    const told = runner.onDone;
    runner.onDone = null;
    told?.(why);
  }

  /** A machine starts a runner with a configuration: good once, and only while the registration stands. */
  connect(jit: string, onDone: (why: string) => void): Runner | null {
    for (const runner of this.runners.values()) {
      if (runner.jit !== jit || runner.used) continue;
      runner.used = true;
      runner.status = "online";
      runner.onDone = onDone;
      this.#around.trace.note(`runner ${runner.name} is online`);
      this.#around.scheduler.in(this.#around.rng.int(1_000, 8_000), "job assigned", () => this.#assign(runner));
      return runner;
    }
    return null;
  }

  /** The machine is gone: GitHub notices after a while. */
  lose(runner: Runner): void {
    runner.status = "offline";
    runner.onDone = null;
    for (const run of this.runs.values()) {
      for (const job of run.jobs.at(-1) ?? []) {
        if (job.runnerId !== runner.id || job.status === "completed") continue;
        this.#around.scheduler.in(this.#around.rng.int(60_000, 700_000), "runner lost", () => {
          if (job.status === "completed") return;
          for (const step of job.steps) {
            if (step.status === "in_progress") Object.assign(step, { status: "completed", conclusion: "cancelled" });
          }
          this.#finishJob(run, job, "failure");
          this.#finishRun(run, "failure");
          this.runners.delete(runner.id);
        });
      }
    }
  }

  #assign(runner: Runner): void {
    if (!this.runners.has(runner.id) || runner.status !== "online" || runner.busy) return;
    const { faults, scheduler, rng } = this.#around;
    if (faults.strikes("job-not-assigned", 0.2)) return;
    for (const run of this.runs.values()) {
      if (run.status === "completed" || run.cancelAsked || run.path !== EXECUTE) continue;
      const job = run.jobs
        .at(-1)
        ?.find((one) => one.status === "queued" && one.labels.every((label) => runner.labels.includes(label)));
      if (job === undefined) continue;
      runner.busy = true;
      job.status = "in_progress";
      job.runnerId = runner.id;
      job.startedAt = this.now;
      run.status = "in_progress";
      run.updatedAt = this.now;
      this.#around.trace.note(`job ${job.id} of run ${run.id} starts on ${runner.name}`);
      this.tellRun(run, "in_progress");
      this.tellJob(run, job, "in_progress");
      this.#play(run, job, runner);
      return;
    }
    scheduler.in(rng.int(5_000, 15_000), "job assigned", () => this.#assign(runner));
  }

  /** The steps of the GPU job, one after the other, as long as the machine lives. */
  #play(run: Run, job: Job, runner: Runner): void {
    const { faults, rng, scheduler } = this.#around;
    const short = faults.strikes("job-too-short", 0.2);
    const hangs = faults.strikes("job-hangs", 0.2);
    const skips = faults.strikes("job-skips-tests", 0.2);
    const fails = faults.strikes("job-fails", 0.15);
    const silent = faults.strikes("job-without-evidence", 0.2);
    // In its tests, or before it comes to them.
    const stuck = hangs ? (rng.chance(0.5) ? "tests" : "setup") : null;
    const tests = stuck === "tests" ? FOR_EVER_MS : short ? 500 : rng.lasting(10_000, 900_000);
    const setup = stuck === "setup" ? FOR_EVER_MS : short ? 100 : rng.int(2_000, 60_000);
    const lasts = [short ? 100 : rng.int(500, 5_000), setup, tests, 300];
    const alive = (): boolean =>
      this.runners.has(runner.id) && runner.status === "online" && job.status === "in_progress";
    const enter = (index: number): void => {
      if (!alive()) return;
      const step = job.steps[index];
      if (step === undefined) {
        // A job that skipped its tests may still claim a count: the steps must be believed, not the claim.
        if (!silent && !fails) {
          job.annotations = [
            {
              title: "gpu-gate-evidence",
              message: `{"tests":42,"durationMs":${Math.min(tests, 99_999_999)}}`,
              level: "notice",
            },
          ];
        }
        this.#finishJob(run, job, fails ? "failure" : "success");
        this.#finishRun(run, fails ? "failure" : "success");
        this.removeRunner(runner, "job done");
        return;
      }
      if (index === 2 && skips) {
        Object.assign(step, { status: "completed", conclusion: "skipped" });
        return enter(index + 1);
      }
      step.status = "in_progress";
      run.updatedAt = this.now;
      scheduler.in(lasts[index] ?? 0, "step ends", () => {
        if (!alive()) return;
        const failed = index === 2 && fails;
        Object.assign(step, { status: "completed", conclusion: failed ? "failure" : "success" });
        enter(failed ? job.steps.length : index + 1);
      });
    };
    enter(0);
  }

  // Webhooks.

  tell(event: string, action: string, sender: User, more: Readonly<Record<string, unknown>>): void {
    this.#around.deliver(this, {
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

  tellRun(run: Run, action: "requested" | "in_progress" | "completed"): void {
    if (run.gone) return;
    this.tell("workflow_run", action, run.triggering, { workflow_run: this.runJson(run) });
  }

  tellJob(run: Run, job: Job, action: "queued" | "in_progress" | "completed"): void {
    if (run.gone) return;
    this.tell("workflow_job", action, run.triggering, { workflow_job: this.jobJson(run, job, run.attempt) });
  }

  // Shapes.

  installedJson(): Record<string, unknown> {
    return {
      action: "created",
      installation: { id: Number(this.installationId) },
      repositories: [{ id: Number(this.id), name: this.name, full_name: `${this.owner}/${this.name}` }],
    };
  }

  pullJson(pull: Pull): Record<string, unknown> {
    const repo =
      pull.headRepositoryId === null
        ? null
        : { id: Number(pull.headRepositoryId), full_name: `${this.owner}/${this.name}` };
    return {
      number: pull.number,
      state: pull.state,
      draft: pull.draft,
      mergeable: !pull.conflict,
      merged: false,
      title: `Change ${pull.number}`,
      labels: [...pull.labels].map((name) => ({ name })),
      user: { id: Number(pull.author.id), login: pull.author.login, type: "User" },
      head: { sha: pull.headSha, ref: pull.headRef, repo },
      base: {
        sha: this.mainSha,
        ref: pull.baseRef,
        repo: { id: Number(this.id), full_name: `${this.owner}/${this.name}` },
      },
      changed_files: pull.files.length,
    };
  }

  runJson(run: Run, attempt = run.attempt): Record<string, unknown> {
    const current = attempt === run.attempt;
    return {
      id: Number(run.id),
      run_attempt: attempt,
      status: current ? run.status : "completed",
      conclusion: current ? run.conclusion : (run.jobs[attempt - 1]?.[0]?.conclusion ?? "cancelled"),
      event: run.event,
      path: run.path,
      workflow_id: 1,
      display_title: run.title,
      head_sha: run.headSha,
      head_branch: run.headBranch,
      repository: { id: Number(this.id), full_name: `${this.owner}/${this.name}` },
      head_repository: { id: Number(this.id), owner: { login: this.owner } },
      actor: { id: Number(run.actor.id), login: run.actor.login },
      triggering_actor: { id: Number(run.triggering.id), login: run.triggering.login },
      created_at: iso(run.createdAt),
      updated_at: iso(run.updatedAt),
      run_started_at: iso(run.createdAt),
      html_url: `https://github.test/${this.owner}/${this.name}/actions/runs/${run.id}`,
    };
  }

  jobJson(run: Run, job: Job, attempt: number): Record<string, unknown> {
    return {
      id: Number(job.id),
      run_id: Number(run.id),
      run_attempt: attempt,
      name: job.name,
      status: job.status,
      conclusion: job.conclusion,
      head_sha: run.headSha,
      labels: job.labels,
      runner_id: job.runnerId === null ? null : Number(job.runnerId),
      runner_name: job.runnerId === null ? null : "runner",
      check_run_url: `https://github.test/check-runs/${job.checkRunId}`,
      steps: job.steps.map((step, index) => ({ number: index + 1, ...step, started_at: null, completed_at: null })),
      created_at: iso(run.createdAt),
      started_at: iso(job.startedAt),
      completed_at: iso(job.completedAt),
      html_url: `https://github.test/job/${job.id}`,
    };
  }
}

/** GitHub's times have whole seconds. */
export function iso(instant: Millis | null): string | null {
  return instant === null ? null : new Date(Math.floor(instant / 1000) * 1000).toISOString().replace(".000Z", "Z");
}

export function checkJson(check: CheckRun): Record<string, unknown> {
  return {
    id: Number(check.id),
    name: check.name,
    head_sha: check.headSha,
    status: check.status,
    conclusion: check.conclusion,
    external_id: check.externalId ?? "",
    details_url: null,
    html_url: `https://github.test/checks/${check.id}`,
    started_at: iso(check.startedAt),
    completed_at: iso(check.completedAt),
    app: { id: Number(check.appId) },
    output: { title: check.title, summary: check.summary },
  };
}
