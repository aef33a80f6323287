/** The execute workflow has the job and the steps that the evidence is read from. */
import { placeIn, together, type DeclaredConfig } from "../declared.ts";
import { fileOf, fitsTemplate, publishedBy } from "../published.ts";
import type { Report, Rule } from "../rule.ts";
import type { Repository, Step } from "../workflow.ts";
import { get, textOf } from "../yaml.ts";

export const evidenceNotThere: Rule = {
  id: "evidence-not-there",
  title: "The job and steps that prove a test are those of the execute workflow",
  explanation:
    "A green job is not enough: the gate looks for `evidence.gpu_job` and for each of `evidence.test_steps` by name, as GitHub shows them. A name that is written " +
    "differently in the workflow is never found, and every run is paid for to the end and then judged as one that tested nothing.",
  example:
    "The test step was renamed from `Run GPU tests` to `Run tests`. From then on each pull request rented a machine, passed all tests on it, and was red.",
  fix: "Write the names of the workflow into `evidence:`, letter by letter, or rename the job and the steps.",
  check: (repository, { declared }, found) => {
    if (declared.kind !== "read") return;
    together(found, (say) => judge(repository, declared, say));
  },
};

function judge(repository: Repository, declared: DeclaredConfig, say: Report): void {
  const { evidence, workflows } = declared.config;
  const file = fileOf(repository, workflows.execute);
  if (file === undefined) return;
  const named = publishedBy(repository, file).filter((one) => one.fits(evidence.gpu_job));
  if (named.length === 0) {
    const there = publishedBy(repository, file)
      .slice(0, 5)
      .map((one) => `'${one.text}'`)
      .join(", ");
    const place = placeIn(declared, ["evidence", "gpu_job"]);
    say(place, `evidence.gpu_job: ${workflows.execute} has no job '${evidence.gpu_job}', but ${there || "none"}.`);
  }
  // A called workflow that is not here may have every step.
  if (named.some((one) => one.job === undefined)) return;
  const jobs = named.length === 0 ? file.jobs : named.flatMap((one) => one.job ?? []);
  const steps = jobs.flatMap((job) => job.steps);
  const absent = (name: string): boolean => !steps.some((step) => fitsTemplate(stepName(step), name));
  for (const name of evidence.test_steps) {
    if (!absent(name)) continue;
    const place = placeIn(declared, ["evidence", "test_steps"], name);
    say(place, `evidence.test_steps: the GPU job of ${workflows.execute} has no step '${name}'.`);
  }
  for (const [fact, names] of Object.entries(evidence.observations)) {
    const lost = names.find(absent);
    if (lost === undefined) continue;
    const place = placeIn(declared, ["evidence", "observations", fact], lost);
    say(place, `evidence.observations.${fact}: the GPU job of ${workflows.execute} has no step '${lost}'.`);
  }
}

/** As GitHub shows it: what it runs, where it has no name. */
function stepName(step: Step): string {
  const name = textOf(get(step.node, "name"));
  if (name !== undefined) return name;
  if (step.uses !== undefined) return `Run ${step.uses.text}`;
  return `Run ${step.run?.text.trimStart().split("\n")[0] ?? ""}`;
}
