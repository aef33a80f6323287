/**
 * What people and GitHub itself do to one repository, on order: the scenario side of the local GitHub.
 *
 * Each method is one thing a person could do on the site. A method that cannot be done there throws, with the reason.
 */

import { checkWritten, emitCheckRun, newCheckRun, suiteFor } from "./checks.ts";
import { PullControl } from "./control-pulls.ts";
import type { Hub } from "./hub.ts";
import type {
  CheckRun,
  Conclusion,
  Environment,
  ProtectedCheck,
  RoleName,
  Runner,
  WorkflowRun,
  WorkflowState,
} from "./model.ts";
import { actionsAppId, latestAttempt } from "./model.ts";
import { headRef } from "./pulls.ts";
import { renderSuite } from "./render-checks.ts";
import { renderAccount } from "./render-common.ts";

/** A check run as an App reports it. */
export interface CheckReport {
  readonly name: string;
  readonly id?: number;
  /** Default: GitHub Actions. */
  readonly appId?: number;
  /** Null or absent: it has not ended. */
  readonly conclusion?: Conclusion | null;
  readonly status?: "queued" | "in_progress" | "completed";
}

export class RepositoryControl extends PullControl {
  // People

  addCollaborator(login: string, role: RoleName, id?: number): { login: string; id: number } {
    const account = this.hub.world.ensureAccount(login, "User", id);
    this.repository.collaborators.set(account.id, role);
    return { login: account.login, id: account.id };
  }

  setRole(login: string, role: RoleName): void {
    this.addCollaborator(login, role);
  }

  removeCollaborator(login: string): void {
    this.repository.collaborators.delete(this.user(login).id);
  }

  // Settings

  setVariable(name: string, value: string): void {
    const now = this.hub.world.clock.now();
    const key = name.toUpperCase();
    const createdAt = this.repository.variables.get(key)?.createdAt ?? now;
    this.repository.variables.set(key, { name: key, value, createdAt, updatedAt: now });
  }

  deleteVariable(name: string): void {
    this.repository.variables.delete(name.toUpperCase());
  }

  /** A secret of the repository, or of one of its environments. */
  setSecret(name: string, value: string, environment?: string): void {
    const home = environment === undefined ? this.repository.secrets : this.#environment(environment).secrets;
    home.set(name.toUpperCase(), value);
  }

  /** Only runs at these branches may enter the environment from now on; null: any. */
  limitEnvironment(name: string, branches: readonly string[] | null): void {
    this.#environment(name).branches = branches;
  }

  #environment(name: string): Environment {
    const known = this.repository.environments.get(name.toLowerCase());
    if (known !== undefined) return known;
    const made: Environment = { name, branches: null, secrets: new Map() };
    this.repository.environments.set(name.toLowerCase(), made);
    return made;
  }

  setWorkflowState(path: string, state: WorkflowState): void {
    const workflow = this.hub.engine.catalog.all(this.repository).find((one) => one.path === path);
    if (workflow === undefined) throw new Error(`${this.fullName} has no workflow ${path} on its default branch`);
    workflow.state = state;
  }

  /** What `GET /rules/branches/{branch}` answers. */
  setBranchRules(branch: string, rules: readonly unknown[]): void {
    this.repository.branchRules.set(branch, rules);
  }

  /** Classic protection of a branch: the checks it requires; null takes the protection away. */
  protectBranch(branch: string, checks: readonly ProtectedCheck[] | null): void {
    if (checks === null) this.repository.protections.delete(branch);
    else this.repository.protections.set(branch, checks);
  }

  publishRelease(tag: string, options: { at?: number; prerelease?: boolean } = {}): void {
    const { at = this.hub.world.clock.now(), prerelease = false } = options;
    this.repository.releases.push({
      id: this.hub.world.nextId("release", 150_000_000),
      tag,
      prerelease,
      publishedAt: at,
    });
  }

  /** Runs of forks' pull requests wait for a maintainer from now on. */
  setForkApproval(required: boolean): void {
    this.repository.approveForkRuns = required;
  }

  rename(name: string, by?: string): void {
    const before = this.repository.name;
    this.hub.world.formerNames.set(this.fullName.toLowerCase(), this.id);
    this.repository.name = name;
    this.#repositoryEvent("renamed", by, { changes: { repository: { name: { from: before } } } });
  }

  archive(by?: string): void {
    this.repository.archived = true;
    this.#repositoryEvent("archived", by, {});
  }

  delete(by?: string): void {
    this.#repositoryEvent("deleted", by, {});
    this.repository.deleted = true;
  }

  // Checks

  /** The check runs on a commit, oldest first, as plain records. */
  checkRuns(sha: string): readonly CheckRun[] {
    return [...this.hub.world.checkRuns.values()].filter((run) => run.repository.id === this.id && run.headSha === sha);
  }

  /**
   * What an App reports on a commit: GitHub Actions unless another is named. Gives the check run's id; with `id`, news of
   * an earlier one.
   */
  reportCheck(sha: string, report: CheckReport): number {
    const {
      appId = actionsAppId,
      conclusion = null,
      status = conclusion === null ? "in_progress" : "completed",
    } = report;
    const known = report.id === undefined ? null : this.#checkRun(report.id);
    const run = known ?? newCheckRun(this.hub, suiteFor(this.hub, this.repository, appId, sha), { name: report.name });
    const wasCompleted = run.status === "completed";
    const now = this.hub.world.clock.now();
    run.status = status;
    run.conclusion = conclusion;
    if (status !== "queued") run.startedAt ??= now;
    run.completedAt = status === "completed" ? now : null;
    checkWritten(this.hub, run, known === null ? "create" : "update", wasCompleted, this.repository.owner);
    return run.id;
  }

  /** A commit status, as anybody with write access may set it. */
  reportStatus(sha: string, status: { context: string; state: "error" | "failure" | "pending" | "success" }): void {
    const id = this.hub.world.nextId("status", 30_000_000_000);
    const createdAt = this.hub.world.clock.now();
    this.repository.statuses.push({ id, sha, ...status, description: null, targetUrl: null, createdAt });
  }

  /** "Re-run" on one check. The check run itself stays as it is; only its suite is queued again. */
  rerequestCheck(checkRunId: number, by: string): void {
    const run = this.#checkRun(checkRunId);
    run.suite.requeued = true;
    emitCheckRun(this.hub, run, "rerequested", this.user(by));
  }

  /** "Re-run" on a pull request's newest check of this name. False: there is no such pull request, or its head has no such check. */
  rerequestNewest(number: number, name: string, by: string): boolean {
    const pull = this.repository.pulls.find((one) => one.number === number);
    const newest = pull === undefined ? undefined : this.checkRuns(pull.head.sha).findLast((run) => run.name === name);
    if (newest === undefined) return false;
    this.rerequestCheck(newest.id, by);
    return true;
  }

  /** "Re-run all checks" of our App on a commit. */
  rerequestSuite(sha: string, by: string): void {
    const suite = suiteFor(this.hub, this.repository, this.hub.app.id, sha);
    suite.requeued = true;
    this.hub.webhooks.emit("check_suite", "rerequested", this.repository, renderAccount(this.hub, this.user(by)), {
      check_suite: renderSuite(this.hub, suite),
    });
  }

  /** A press on a check's button. Only a completed check run shows its buttons. */
  pressButton(checkRunId: number, identifier: string, by: string): void {
    const run = this.#checkRun(checkRunId);
    if (run.status !== "completed")
      throw new Error(`check run ${checkRunId} is ${run.status}: only a completed one shows its buttons`);
    if (!run.actions.some((action) => action.identifier === identifier))
      throw new Error(`check run ${checkRunId} has no button ${identifier}`);
    emitCheckRun(this.hub, run, "requested_action", this.user(by), { requested_action: { identifier } });
  }

  // Actions

  runs(path?: string): readonly WorkflowRun[] {
    return [...this.hub.world.runs.values()].filter(
      (run) => run.repository.id === this.id && (path === undefined || run.workflow.path === path),
    );
  }

  rerunWorkflow(runId: number, by: string): number {
    const run = this.#run(runId);
    if (!this.hub.engine.rerun(run, this.user(by)))
      throw new Error(`run ${runId} cannot be re-run: it has not ended, or has been re-run 50 times`);
    return latestAttempt(run).number;
  }

  cancelRun(runId: number): void {
    if (!this.hub.engine.cancel(this.#run(runId))) throw new Error(`run ${runId} has ended already`);
  }

  approveRun(runId: number): void {
    if (!this.hub.engine.approve(this.#run(runId))) throw new Error(`run ${runId} is not waiting for approval`);
  }

  /** Starts a workflow by hand, as a person does with the "Run workflow" button: at any branch, which then brings its file. */
  dispatchWorkflow(
    path: string,
    by: string,
    inputs: Readonly<Record<string, string>> = {},
    branch: string = this.repository.defaultBranch,
  ): number {
    const sha = this.sha(branch);
    const request = {
      repository: this.repository,
      headRepository: this.repository,
      path,
      event: "workflow_dispatch",
      inputs,
      headBranch: branch,
      headSha: sha,
      sha,
      ref: headRef(branch),
      actor: this.user(by),
    };
    const refused = this.hub.engine.catalog.dispatchProblem(request);
    if (refused !== null) throw new Error(`${path} cannot be dispatched: ${refused}`);
    return this.hub.engine.create(request).id;
  }

  /** A standing self-hosted runner of this repository. */
  registerRunner(input: {
    name: string;
    labels: readonly string[];
    online?: boolean;
    version?: string;
  }): RunnerControl {
    return registerRunner(this.hub, { kind: "repository", id: this.id }, input);
  }

  #repositoryEvent(action: string, by: string | undefined, extra: Record<string, unknown>): void {
    const sender = this.user(by ?? this.repository.owner.login);
    this.hub.webhooks.emit("repository", action, this.repository, renderAccount(this.hub, sender), extra);
  }

  #run(id: number): WorkflowRun {
    const run = this.hub.world.runs.get(id);
    if (run === undefined || run.repository.id !== this.id) throw new Error(`${this.fullName} has no run ${id}`);
    return run;
  }

  #checkRun(id: number): CheckRun {
    const run = this.hub.world.checkRuns.get(id);
    if (run === undefined || run.repository.id !== this.id) throw new Error(`${this.fullName} has no check run ${id}`);
    return run;
  }
}

export interface RunnerControl {
  readonly id: number;
  setOnline(online: boolean): void;
  remove(): void;
}

export function registerRunner(
  hub: Hub,
  scope: Runner["scope"],
  input: { name: string; labels: readonly string[]; online?: boolean; version?: string; groupId?: number },
): RunnerControl {
  const { name, labels, online = true, version = "2.335.0", groupId = 1 } = input;
  const runner = hub.desk.registerStatic(scope, { name, labels, groupId, online, version });
  return {
    id: runner.id,
    setOnline: (state) => hub.desk.setOnline(runner, state),
    remove: () => hub.desk.remove(runner, "removed by a maintainer"),
  };
}
