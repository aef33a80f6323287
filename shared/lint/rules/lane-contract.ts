/** What a lane's configuration says about its workflow is what the workflow says. */
import type { LintLane, Report, Rule } from "../rule.ts";
import { publishedBy } from "../published.ts";
import { allJobs, at, labelSet, type Job, type Repository } from "../workflow.ts";
import { expressionsIn, get, textOf, type YamlScalar } from "../yaml.ts";
import { isHardware, isProbe, labelsOf } from "./lanes.ts";

export const laneContractDiffers: Rule = {
  id: "lane-contract-differs",
  title: "Switch, probe and checks of a lane are those of its workflow",
  explanation:
    "The aggregator and the status page read the lane's `switch`, wait for its `probe` and judge its `checks`; the workflow asks its own switch and publishes its own names. Where the two " +
    "differ, a lane that is off for one is on for the other: hardware runs that nobody counts, or a check is demanded that never comes.",
  example:
    "A lane was renamed and the probe went on reading the old variable. An operator switched the lane off, and its machine was kept busy for a week.",
  fix: "Let the probe read `vars.<switch>` of its lane, and write the names of the probing job and of the hardware job into `probe` and `checks`, letter by letter.",
  check: (repository, config, found) => {
    for (const job of allJobs(repository)) {
      if (!isHardware(job) || job.labels.some((label) => label.open)) continue;
      const lane = config.lanes?.find((one) => labelSet(one.runsOn) === labelsOf(job));
      if (lane === undefined) continue;
      judgeChecks(repository, job, lane, found);
      for (const probe of job.file.jobs.filter((other) => job.needs.includes(other.id) && isProbe(other)))
        judgeProbe(repository, probe, lane, found);
    }
  },
};

function publishes(repository: Repository, job: Job, name: string): boolean {
  return publishedBy(repository, job.file).some((one) => (one.job === job || job.uses !== undefined) && one.fits(name));
}

function judgeChecks(repository: Repository, job: Job, lane: LintLane, found: Report): void {
  if (lane.checks.length === 0 || lane.checks.some((name) => publishes(repository, job, name))) return;
  const owned = lane.checks.map((name) => `'${name}'`).join(", ");
  found(at(job, job.name.at), `Lane '${lane.name}' owns ${owned}, but its job publishes '${job.name.text}'.`);
}

function judgeProbe(repository: Repository, probe: Job, lane: LintLane, found: Report): void {
  if (lane.probe !== null && !publishes(repository, probe, lane.probe)) {
    const said = `Lane '${lane.name}' waits for the probe '${lane.probe}', but this one publishes '${probe.name.text}'.`;
    found(at(probe, probe.name.at), said);
  }
  if (lane.switch === null) return;
  for (const scalar of switchesOf(probe)) {
    const named = expressionsIn(scalar).flatMap(({ text }) => /^vars\.(\w+)$/.exec(text)?.[1] ?? []);
    // GitHub keeps the names of variables in capitals and compares them so.
    if (named.length === 1 && named[0]?.toUpperCase() === lane.switch.toUpperCase()) continue;
    const read = named[0] === undefined ? `'${scalar.text}'` : `the variable '${named[0]}'`;
    found(
      at(probe, scalar.at),
      `The switch of lane '${lane.name}' is the variable '${lane.switch}', but the probe reads ${read}.`,
    );
  }
}

/** What the probe is given as the switch's value: an input of the action, or the command's environment. */
function switchesOf(probe: Job): readonly YamlScalar[] {
  const inputs = [
    get(probe.node, "with", "switch"),
    get(probe.node, "env", "LANE_SWITCH"),
    get(probe.file.root, "env", "LANE_SWITCH"),
  ];
  const steps = probe.steps.flatMap((step) => [get(step.node, "with", "switch"), get(step.node, "env", "LANE_SWITCH")]);
  return [...inputs, ...steps].filter(
    (value): value is YamlScalar => value?.kind === "scalar" && textOf(value) !== undefined,
  );
}
