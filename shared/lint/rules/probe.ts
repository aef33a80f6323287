/** The probe asks for the machines that the job behind it targets. */
import type { LintConfig, Rule } from "../rule.ts";
import { allJobs, at, labelSet, type Job, type Step } from "../workflow.ts";
import { get, textOf } from "../yaml.ts";
import { isHardware, isProbe, labelsOf } from "./lanes.ts";

export const probeOfAnotherLane: Rule = {
  id: "probe-of-another-lane",
  title: "The probe asks for the lane of the job behind it",
  explanation:
    "A probe admits exactly the machines that it asked about. One that names another lane, or a shorter label set, says yes while no machine can take the job: " +
    "it waits in the queue for a day, with a green probe in front of it.",
  example:
    "A second hardware job was copied together with its probe; the labels were changed in the job and not in the probe. The probe found the first machine.",
  fix: "Name the job's own lane in the probe; its labels come from .github/gpu-gate.yml and then fit the job's `runs-on`.",
  check: (repository, config, found) => {
    for (const job of allJobs(repository)) {
      if (!isHardware(job) || job.labels.length === 0 || job.labels.some((label) => label.open)) continue;
      for (const need of job.needs) {
        const probe = job.file.jobs.find((other) => other.id === need);
        if (probe === undefined || !isProbe(probe)) continue;
        const wrong = probe.steps.map((step) => mismatch(askedBy(step), job, config)).find((what) => what !== null);
        if (wrong !== undefined) found(at(job, job.at), `Probe '${need}' of '${job.id}' ${wrong}.`);
      }
    }
  },
};

interface Asked {
  readonly lane: string | undefined;
  readonly labels: string | undefined;
}

/** What a step hands to the probe: inputs of the action, options or environment of the command. */
function askedBy(step: Step): Asked {
  const run = step.run?.text ?? "";
  return {
    lane: textOf(get(step.node, "with", "lane")) ?? option(run, "lane") ?? textOf(get(step.node, "env", "LANE_NAME")),
    labels:
      textOf(get(step.node, "with", "labels")) ?? option(run, "labels") ?? textOf(get(step.node, "env", "LANE_LABELS")),
  };
}

/** The value of `--name value` or `--name=value`, quoted or not. */
function option(run: string, name: string): string | undefined {
  const match = new RegExp(String.raw`--${name}[=\s]\s*(?:"([^"]*)"|'([^']*)'|([^\s"']+))`).exec(run);
  return match?.[1] ?? match?.[2] ?? match?.[3];
}

/** Null: it fits, or the file does not tell. */
function mismatch({ lane, labels }: Asked, job: Job, config: LintConfig): string | null {
  if (labels !== undefined && labels !== "") {
    if (labels.includes("$") || labelSet(labels.split(/[\s,]+/).filter((label) => label !== "")) === labelsOf(job))
      return null;
    return `asks for the labels '${labels}', which are not the job's`;
  }
  if (lane === undefined || lane.includes("$") || config.lanes === null) return null;
  const known = config.lanes.find((one) => one.name === lane);
  if (known === undefined) return `asks for '${lane}', which is no lane on own machines`;
  return labelSet(known.runsOn) === labelsOf(job)
    ? null
    : `asks for lane '${lane}', whose machines the job does not target`;
}
