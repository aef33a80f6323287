/**
 * What each workflow of a repository is: its file, read at the commit GitHub would read it from, or the script that stands
 * in for the text. Names, triggers, titles and plans; nothing here starts anything.
 */
import { err, type Result } from "../../shared/result.ts";
import type { RunPlan } from "../workflow/run.ts";
import type { Hub } from "./hub.ts";
import type { Account, Repository, RunAttempt, Workflow, WorkflowRun } from "./model.ts";
import { fullName } from "./model.ts";
import { runEvent } from "./run-event.ts";
import { WorkflowFiles, workflowPaths } from "./workflow-files.ts";
import type { AnnotationPlan, RunContext, WorkflowScript } from "./workflow-script.ts";

export interface RunRequest {
  readonly repository: Repository;
  readonly headRepository: Repository;
  readonly path: string;
  readonly event: string;
  readonly headBranch: string;
  readonly headSha: string;
  readonly sha: string;
  readonly ref: string;
  readonly actor: Account;
  readonly inputs?: Readonly<Record<string, string>>;
  readonly pullNumber?: number;
  /** The event's own part of the payload: `action` and `pull_request`, `before`, `merge_group`. */
  readonly payload?: Readonly<Record<string, unknown>>;
}

export class WorkflowCatalog {
  readonly #hub: () => Hub;
  readonly #scripts = new Map<string, WorkflowScript>();
  readonly #files = new WorkflowFiles();

  constructor(hub: () => Hub) {
    this.#hub = hub;
  }

  setScript(path: string, script: WorkflowScript): void {
    this.#scripts.set(path, script);
  }

  script(path: string): WorkflowScript | undefined {
    return this.#scripts.get(path);
  }

  /** The workflows GitHub knows of a repository: the files on its default branch, and those seen before. */
  all(repository: Repository): Workflow[] {
    for (const path of workflowPaths(filesOfDefault(repository))) this.workflow(repository, path);
    return [...repository.workflows.values()];
  }

  /** The record of a workflow, made when it is first seen. */
  workflow(repository: Repository, path: string): Workflow {
    const known = repository.workflows.get(path);
    if (known !== undefined) return known;
    const { world } = this.#hub();
    const made: Workflow = {
      id: world.nextId("workflow", 160_000_000),
      path,
      state: "active",
      createdAt: world.clock.now(),
    };
    repository.workflows.set(path, made);
    return made;
  }

  /** The name of a workflow, by the file on the default branch. */
  nameOf(repository: Repository, path: string): string {
    return this.#scripts.get(path)?.name ?? this.#files.nameOf(path, filesOfDefault(repository)[path]);
  }

  /** The name of a workflow, by the file that a run is made from. */
  nameAt({ repository, sha, path }: Pick<RunRequest, "repository" | "sha" | "path">): string {
    return this.#scripts.get(path)?.name ?? this.#files.nameOf(path, repository.git.filesAt(sha)[path]);
  }

  /** Paths of the active workflows whose file is in the tree of `request.sha` and that the event starts. */
  triggered(request: Omit<RunRequest, "path">): string[] {
    const { repository, event } = request;
    const files = repository.git.filesAt(request.sha);
    const scripted = [...this.#scripts]
      .filter(([path, script]) => script.on.includes(event) && files[path] !== undefined)
      .map(([path]) => path);
    const interpreted = workflowPaths(files).filter((path) => {
      if (this.#scripts.has(path)) return false;
      return this.#files.isTriggered(path, files[path] ?? "", this.#eventOf({ ...request, path }));
    });
    return [...scripted, ...interpreted].filter((path) => this.workflow(repository, path).state === "active");
  }

  /** The active workflows of the default branch that have schedules. */
  schedules(repository: Repository): readonly { readonly path: string; readonly crons: readonly string[] }[] {
    const files = filesOfDefault(repository);
    return workflowPaths(files).flatMap((path) => {
      if (this.#scripts.has(path) || this.workflow(repository, path).state !== "active") return [];
      const parsed = this.#files.parse(path, files[path] ?? "");
      const crons = parsed.ok ? (parsed.value.triggers.schedule ?? []).map(({ cron }) => cron) : [];
      return crons.length === 0 ? [] : [{ path, crons }];
    });
  }

  /** Why GitHub refuses this dispatch; null when it accepts. */
  dispatchProblem(request: RunRequest): string | null {
    const { path, inputs = {} } = request;
    const script = this.#scripts.get(path);
    if (script === undefined) {
      const text = request.repository.git.filesAt(request.sha)[path];
      return text === undefined ? null : this.#files.dispatchProblem(path, text, this.#eventOf(request), inputs);
    }
    if (!script.on.includes("workflow_dispatch")) return "Workflow does not have 'workflow_dispatch' trigger";
    const { inputs: declared } = script;
    const unexpected = Object.keys(inputs).filter((name) => declared !== undefined && !declared.includes(name));
    return unexpected.length === 0 ? null : `Unexpected inputs provided: ${JSON.stringify(unexpected)}`;
  }

  /** `run-name`; where there is none, the commit's first line, or the workflow's name for a dispatch. */
  titleOf(request: RunRequest): string {
    const { repository, path, event, headSha, sha, ref, inputs = {}, pullNumber = null } = request;
    const script = this.#scripts.get(path);
    if (script !== undefined) {
      const who = factsOf(repository, request.actor);
      const title = script.runName?.({ ...who, event, inputs, headSha, sha, ref, attempt: 1, pullNumber });
      if (title !== undefined) return title;
    } else {
      const text = repository.git.filesAt(sha)[path] ?? "";
      const plan = this.#files.plan(path, text, this.#eventOf(request), inputs);
      if (plan.ok && plan.value.workflow.runName !== null) return plan.value.name;
    }
    if (event === "workflow_dispatch") return this.nameAt(request);
    return request.headRepository.git.findCommit(headSha)?.message.split("\n")[0] ?? headSha;
  }

  /** The plan of an interpreted run, or what its page shows instead of jobs. */
  interpreted(run: WorkflowRun, attempt: RunAttempt): Result<RunPlan, readonly AnnotationPlan[]> {
    const { path } = run.workflow;
    const text = run.repository.git.filesAt(run.sha)[path];
    if (text === undefined)
      return err([{ path, level: "failure", message: `${path} is not in the tree of ${run.sha}` }]);
    return this.#files.plan(path, text, runEvent(this.#hub(), run, attempt), run.inputs);
  }

  /** What a script is told of the run it plans. */
  scripted(run: WorkflowRun, attempt: RunAttempt): RunContext {
    const { event, inputs, headSha, sha, ref, pullNumber } = run;
    const files = run.repository.git.filesAt(sha);
    const who = factsOf(run.repository, run.actor);
    return { ...who, runId: run.id, attempt: attempt.number, event, inputs, files, headSha, sha, ref, pullNumber };
  }

  #eventOf(request: RunRequest): ReturnType<typeof runEvent> {
    const { path, inputs = {}, pullNumber = null, payload = {} } = request;
    const facts = { ...request, workflow: { path }, inputs, pullNumber, payload, id: 0, runNumber: 0 };
    return runEvent(this.#hub(), facts, { number: 1, triggeringActor: request.actor });
  }
}

function filesOfDefault(repository: Repository): Readonly<Record<string, string>> {
  const main = repository.refs.get(`refs/heads/${repository.defaultBranch}`);
  return main === undefined ? {} : repository.git.filesAt(main);
}

function factsOf(repository: Repository, actor: Account): Pick<RunContext, "repositoryId" | "repository" | "actor"> {
  return { repositoryId: repository.id, repository: fullName(repository), actor: actor.login };
}
