/**
 * A run whose workflow file is interpreted: which of its jobs moves next, and what each job hands to the others.
 *
 * The decisions are `local/workflow`'s; this keeps what has happened. The engine makes the jobs and tells how they ended.
 */
import { unreachable } from "../../shared/result.ts";
import { decideJob, type JobDecision } from "../workflow/jobs.ts";
import type { JobResult, PlannedJob, RunPlan } from "../workflow/run.ts";

export type Move =
  | ({ readonly job: PlannedJob } & Extract<JobDecision, { kind: "start" }>)
  | { readonly kind: "skip"; readonly job: PlannedJob }
  | { readonly kind: "broken"; readonly job: PlannedJob; readonly message: string };

export class InterpretedRun {
  readonly plan: RunPlan;
  readonly #results = new Map<string, JobResult>();
  readonly #begun = new Set<string>();

  constructor(plan: RunPlan) {
    this.plan = plan;
  }

  /** Results of the jobs that have ended, by key. */
  get results(): ReadonlyMap<string, JobResult> {
    return this.#results;
  }

  /** Every job has begun, been skipped, or been dropped by a cancel. */
  get allBegun(): boolean {
    return this.#begun.size === this.plan.jobs.length;
  }

  /**
   * The next job that can move; it counts as begun. Null when all others wait. In a cancelled run a job that does not ask
   * to run all the same never comes to be.
   */
  next(cancelled: boolean): Move | null {
    for (const job of this.plan.jobs) {
      if (this.#begun.has(job.key)) continue;
      const decision = decideJob(this.plan, job, this.#results, cancelled);
      switch (decision.kind) {
        case "wait":
          continue;
        case "skip":
          this.#begun.add(job.key);
          if (!cancelled) return { kind: "skip", job };
          this.ended(job.key, { conclusion: "cancelled", outputs: {} });
          // Others may have waited for this one.
          return this.next(cancelled);
        case "start":
          this.#begun.add(job.key);
          return { ...decision, job };
        case "broken":
          this.#begun.add(job.key);
          return { kind: "broken", job, message: decision.message };
        default:
          return unreachable(decision, "job decision");
      }
    }
    return null;
  }

  ended(key: string, result: JobResult): void {
    if (!this.#results.has(key)) this.#results.set(key, result);
  }

  /** Keys of the other combinations of a job whose failure ends them all. */
  failsWith(key: string): readonly string[] {
    const failed = this.plan.jobs.find((job) => job.key === key);
    if (failed === undefined || !failed.plan.failFast) return [];
    return this.plan.jobs.filter((job) => job.plan === failed.plan && job.key !== key).map((job) => job.key);
  }
}
