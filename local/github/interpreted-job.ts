/**
 * One interpreted job under way: decides step by step what its machine is to do, and keeps what came of it.
 *
 * A machine asks for the next step and brings the result of the last one. Asking twice with the same result (an answer was
 * lost on the way) changes nothing and answers the same.
 */
import { unreachable } from "../../shared/result.ts";
import type { Conclusion as StepConclusion, JobResult, PlannedJob, RunPlan } from "../workflow/run.ts";
import { concludeJob, decideStep, stepName, type JobState, type StepResult } from "../workflow/steps.ts";
import type { JobFacts, NextAsk, NextStep, Places, StepDone, StepWork } from "../machine/work.ts";
import type { PermissionMap } from "./auth.ts";
import type { Hub } from "./hub.ts";
import { endStep, newAnnotation } from "./jobs.ts";
import type { Job } from "./model.ts";
import { jobVariables, runEvent } from "./run-event.ts";
import type { AnnotationPlan } from "./workflow-script.ts";

const maxLog = 1_000_000;

export class InterpretedJob {
  readonly planned: PlannedJob;
  readonly token: string;
  readonly #hub: Hub;
  readonly #job: Job;
  readonly #run: RunPlan;
  readonly #results: ReadonlyMap<string, JobResult>;
  readonly #steps: StepResult[] = [];
  readonly #env: Record<string, string> = {};
  /** What must not stand in a log: the token, the secrets, and what the steps ask to be masked. */
  readonly #hidden: string[] = [];
  readonly #identity: Readonly<Record<string, string>>;
  /** What each combined cache was asked to keep, by the step's place. */
  readonly #asked = new Map<number, Readonly<Record<string, string>>>();
  #outputs: Readonly<Record<string, string>> = {};
  #ended: Extract<NextStep, { kind: "ended" }> | null = null;

  /** `environment` is the one whose secrets the job may read besides the repository's. */
  constructor(
    hub: Hub,
    job: Job,
    planned: PlannedJob,
    run: RunPlan,
    results: ReadonlyMap<string, JobResult>,
    environment: string | null,
  ) {
    this.#hub = hub;
    this.#job = job;
    this.planned = planned;
    this.#results = results;
    const fork = job.run.headRepository.id !== job.run.repository.id;
    this.token = hub.credentials.issueForJob(job.run.repository, permissionsOf(planned, fork));
    const { event } = run;
    const github = { ...event.github, token: this.token, job: planned.plan.id };
    const stored = fork ? {} : secretsOf(job, environment);
    const secrets = { ...event.secrets, ...stored, GITHUB_TOKEN: this.token };
    this.#hidden.push(this.token, ...Object.values(stored));
    this.#identity = !fork && asksForIdentity(planned) ? hub.identity.grant(job, environment) : {};
    this.#run = { ...run, event: { ...event, github, secrets } };
  }

  get outputs(): Readonly<Record<string, string>> {
    return this.#outputs;
  }

  facts(): JobFacts {
    const { run } = this.#job;
    return {
      repository: `${run.repository.owner.login}/${run.repository.name}`,
      apiUrl: this.#hub.url,
      variables: { ...jobVariables(this.#hub, this.#job, this.planned.plan.id), ...this.#identity },
      event: runEvent(this.#hub, run, { number: this.#job.attempt, triggeringActor: run.actor }).payload,
      token: this.token,
    };
  }

  next({ places, done }: NextAsk): NextStep {
    if (done !== null && done.index === this.#steps.length) this.#take(done);
    if (this.#ended !== null) return this.#ended;
    for (;;) {
      const index = this.#steps.length;
      const state = this.#state(places);
      const decision = decideStep(this.#run, this.planned, state);
      if (decision === null) {
        const after = this.#after(index, state);
        if (after === "ended") return this.#conclude(state);
        if (after !== "skipped") return { kind: "step", work: after, cancelled: state.cancelled };
        continue;
      }
      const shown = this.#shown(index);
      if (shown !== undefined) shown.name = decision.name;
      switch (decision.kind) {
        case "skip":
          this.#close(index, "skipped");
          this.#steps.push({ outcome: "skipped", outputs: {} });
          break;
        case "broken":
          this.#annotate({ level: "failure", message: `${decision.name}: ${decision.message}` });
          this.#close(index, "failure");
          this.#steps.push({ outcome: "failure", outputs: {} });
          break;
        case "run":
        case "action": {
          if (decision.kind === "action" && decision.action === "actions/cache") this.#asked.set(index, decision.with);
          if (shown !== undefined && shown.status === "queued") {
            shown.status = "in_progress";
            shown.startedAt = this.#hub.world.clock.now();
          }
          return { kind: "step", work: { ...decision, index }, cancelled: state.cancelled };
        }
        default:
          return unreachable(decision, "step decision");
      }
    }
  }

  /** What comes after the written steps: each combined cache saves, the last first, if all went well and it was no hit. */
  #after(index: number, state: JobState): StepWork | "skipped" | "ended" {
    const caches = cachesOf(this.planned);
    const at = caches[index - this.planned.plan.steps.length];
    if (at === undefined) return "ended";
    const shown = this.#shown(index);
    const wanted = this.#asked.get(at);
    const hit = this.#steps[at]?.outputs["cache-hit"] === "true";
    if (wanted === undefined || hit || state.cancelled || this.#failed()) {
      this.#close(index, this.#failed() || state.cancelled ? "skipped" : "success");
      this.#steps.push({ outcome: this.#failed() || state.cancelled ? "skipped" : "success", outputs: {} });
      return "skipped";
    }
    if (shown !== undefined) {
      shown.status = "in_progress";
      shown.startedAt ??= this.#hub.world.clock.now();
    }
    const { path = "", key = "" } = wanted;
    const work = { kind: "action", action: "actions/cache/save", with: { path, key } } as const;
    return { ...work, index, name: shown?.name ?? "Post cache", env: {}, timeoutMinutes: null };
  }

  #failed(): boolean {
    const { steps } = this.planned.plan;
    return this.#steps.some((one, index) => one.outcome === "failure" && !(steps[index]?.continueOnError ?? false));
  }

  #take(done: StepDone): void {
    const { outcome, outputs } = done;
    this.#hidden.push(...[...done.log.matchAll(/^::add-mask::(.+)$/gm)].flatMap(([, text]) => text?.trimEnd() ?? []));
    this.#steps.push({ outcome, outputs });
    Object.assign(this.#env, done.env);
    for (const { title, message, level } of done.annotations) this.#annotate({ title, message, level });
    this.#close(done.index, outcome);
    const job = this.#job;
    if (job.log.length < maxLog) job.log += this.#masked(done.log);
    if (job.summary.length < maxLog) job.summary += this.#masked(done.summary);
  }

  #masked(text: string): string {
    return this.#hidden.reduce((rest, secret) => (secret === "" ? rest : rest.replaceAll(secret, "***")), text);
  }

  #conclude(state: JobState): NextStep {
    const result = concludeJob(this.#run, this.planned, state);
    if (result.ok) this.#outputs = result.value.outputs;
    else this.#annotate({ level: "failure", message: `The job's outputs: ${result.error.message}` });
    const conclusion = result.ok ? result.value.conclusion : "failure";
    this.#ended = { kind: "ended", conclusion: conclusion === "skipped" ? "success" : conclusion };
    return this.#ended;
  }

  #state(places: Places): JobState {
    const variables = { os: "Linux", arch: "X64", name: this.#job.runnerName ?? "", temp: places.temp };
    const environment = this.#job.selfHosted ? "self-hosted" : "github-hosted";
    return {
      results: this.#results,
      steps: this.#steps,
      cancelled: this.#job.cancelRequested,
      extraEnv: this.#env,
      runner: { ...variables, environment },
      workspace: places.workspace,
    };
  }

  /** The step as the API shows it. A step that the runner added itself, its hook, moves the others down by one. */
  #shown(index: number): Job["steps"][number] | undefined {
    const { steps } = this.#job;
    return steps[index + 1 + steps.length - (stepNames(this.planned).length + 2)];
  }

  #close(index: number, outcome: StepConclusion): void {
    const shown = this.#shown(index);
    const forgiven = outcome === "failure" && (this.planned.plan.steps[index]?.continueOnError ?? false);
    if (shown !== undefined) endStep(this.#hub, shown, forgiven ? "success" : outcome);
  }

  #annotate(plan: AnnotationPlan): void {
    const hidden = { ...plan, message: this.#masked(plan.message) };
    this.#hub.world.checkRuns.get(this.#job.id)?.annotations.push(newAnnotation(hidden));
  }
}

/** What the list of a job's steps shows before any of them has begun. */
export function stepNames(planned: PlannedJob): readonly string[] {
  const { steps } = planned.plan;
  const after = cachesOf(planned).flatMap((at) => steps[at] ?? []);
  return [...steps.map((step) => stepName(step)), ...after.map((step) => `Post ${stepName(step)}`)];
}

/** Places of the combined caches, the last first. */
function cachesOf({ plan }: PlannedJob): readonly number[] {
  return plan.steps
    .flatMap((step, index) => (step.kind === "uses" && step.uses.action === "actions/cache" ? [index] : []))
    .toReversed();
}

/** The repository's secrets, and over them the environment's. */
function secretsOf(job: Job, environment: string | null): Readonly<Record<string, string>> {
  const { secrets, environments } = job.run.repository;
  const entered = environment === null ? undefined : environments.get(environment.toLowerCase());
  return Object.fromEntries([...secrets, ...(entered?.secrets ?? [])]);
}

function asksForIdentity({ plan }: PlannedJob): boolean {
  const { permissions } = plan;
  return permissions === "write-all" || (typeof permissions === "object" && permissions?.["id-token"] === "write");
}

/** The token's permissions: what the file says; where it says nothing, contents alone. A fork gets no write. */
function permissionsOf(planned: PlannedJob, fork: boolean): PermissionMap {
  const { permissions } = planned.plan;
  if (permissions === null) return { contents: "read" };
  if (permissions === "read-all" || permissions === "write-all") {
    const level = permissions === "write-all" && !fork ? "write" : "read";
    const all = ["actions", "checks", "contents", "issues", "pull_requests", "statuses"];
    return Object.fromEntries(all.map((name) => [name, level]));
  }
  return Object.fromEntries(
    Object.entries(permissions).flatMap(([scope, level]) =>
      level === "none" || scope === "id-token"
        ? []
        : [[scope.replaceAll("-", "_"), level === "write" && !fork ? "write" : "read"] as const],
    ),
  );
}
