/**
 * Facts about a run derived from which of its steps ran: was the archive cache hit, was the toolkit restored.
 *
 * The configuration (`evidence.observations`) names, for each fact, the steps that run exactly when it holds: such a
 * step succeeded = true, was skipped in its normal course = false. Whatever the jobs do not say for certain stays
 * unknown (null), never false.
 */

/** Name of the fact to the exact names of its steps. */
export type StepObservations = Readonly<Record<string, readonly string[]>>;

/** The part of GitHub's job object that is looked at (`GET /actions/runs/{id}/jobs`). */
export interface ObservedJob {
  readonly conclusion: string | null;
  readonly steps?: readonly { readonly name: string; readonly conclusion: string | null }[] | undefined;
}

/** True as soon as one step of a fact says so, false when all of them say no, else null. */
export function observeSteps(
  observations: StepObservations,
  jobs: readonly ObservedJob[],
): Readonly<Record<string, boolean | null>> {
  return Object.fromEntries(
    Object.entries(observations).map(([fact, names]) => {
      const words = names.flatMap((name) => {
        const found = jobs.flatMap((job) => wordsOf(job, name));
        return found.length === 0 ? [null] : found;
      });
      if (words.includes(true)) return [fact, true];
      return [fact, words.length > 0 && words.every((word) => word === false) ? false : null];
    }),
  );
}

/** What each step of that name in the job says. */
function wordsOf(job: ObservedJob, name: string): readonly (boolean | null)[] {
  const steps = job.steps ?? [];
  return steps.flatMap((step, index) => {
    if (step.name !== name) return [];
    if (step.conclusion === "success") return [true];
    // After a failure or a cancel everything is skipped, whatever its condition: such a skip says nothing.
    const undisturbed =
      job.conclusion !== "cancelled" &&
      steps.slice(0, index).every(({ conclusion }) => conclusion === "success" || conclusion === "skipped");
    return [step.conclusion === "skipped" && undisturbed ? false : null];
  });
}
