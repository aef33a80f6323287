/** Rules about hardware lanes and the checks that protect the branch. */
import type { LintConfig, Rule } from "../rule.ts";
import { allJobs, at, isRented, isSelfHosted, labelSet, type Job, type Repository } from "../workflow.ts";
import { entry, get, itemsOf, scalarsIn, textOf } from "../yaml.ts";

/** A job on a machine of the maintainers' own. Rented machines are proven by the control plane before their job exists. */
export function isHardware(job: Job): boolean {
  return job.uses === undefined && isSelfHosted(job) && !isRented(job);
}

export function labelsOf(job: Job): string {
  return labelSet(job.labels.map((label) => label.text));
}

export function isProbe(job: Job | undefined): boolean {
  if (job === undefined || isSelfHosted(job)) return false;
  if (/\bprobe\b/.test(job.uses?.text ?? "")) return true;
  return job.steps.some(
    (step) => /\bprobe\b/.test(step.uses?.text ?? "") || /\bgpu-gate\S*\s+probe\b/.test(step.run?.text ?? ""),
  );
}

export const hardwareJobWithoutProbe: Rule = {
  id: "hardware-job-without-probe",
  title: "A hardware job is admitted by a live probe",
  explanation:
    "A job whose labels no online runner carries stays queued for up to 24 hours, and a required check with it. The probe is a hosted job that looks for " +
    "one online runner with every label, and fails loudly when the lane is switched on but nothing is there.",
  example:
    "A repository variable switched a GPU lane on; no runner had ever been registered. Jobs queued all day and the aggregator took their absence for a pass.",
  fix: "Add the probe job (see lane-probe.yml), `needs` it, and run only `if: needs.<probe>.outputs.available == 'true'`.",
  check: (repository, _config, found) => {
    for (const job of allJobs(repository)) {
      if (!isHardware(job)) continue;
      const probe = job.needs.find((need) => isProbe(job.file.jobs.find((other) => other.id === need)));
      if (probe === undefined) found(at(job, job.at), `Hardware job '${job.id}' needs no probe.`);
      else if (!admits(job.condition, probe)) {
        found(at(job, job.at), `Hardware job '${job.id}' runs whatever probe '${probe}' found.`);
      }
    }
  },
};

/** The probe's answer must be a conjunct, as it is: an `||`, a `!` before it or a comparison behind it would let the job past it. */
function admits(condition: string, probe: string): boolean {
  const plain = condition.replaceAll('"', "'");
  return !plain.includes("||") && conjunctsOf(plain).includes(`needs.${probe}.outputs.available == 'true'`);
}

/** What must hold for the whole to hold, without brackets around it. An `&&` within the brackets of something else is that one's. */
function conjunctsOf(expression: string): readonly string[] {
  const text = expression.trim();
  const parts: string[] = [];
  let from = 0;
  let depth = 0;
  let isText = false;
  let firstClosed: number | null = null;
  for (let index = 0; index < text.length; index += 1) {
    if (text[index] === "'") isText = !isText;
    if (isText) continue;
    if (text[index] === "(") depth += 1;
    if (text[index] === ")") {
      depth -= 1;
      if (depth === 0) firstClosed ??= index;
    }
    if (depth === 0 && text.startsWith("&&", index)) {
      parts.push(text.slice(from, index));
      from = index + 2;
    }
  }
  if (parts.length > 0) return [...parts, text.slice(from)].flatMap(conjunctsOf);
  return text.startsWith("(") && firstClosed === text.length - 1 ? conjunctsOf(text.slice(1, -1)) : [text];
}

export const unknownLane: Rule = {
  id: "unknown-lane",
  title: "A hardware job targets the exact label set of a configured lane",
  explanation:
    "A lane is a contract about what a machine can do. A job that asks for other labels, or for part of them, lands on a machine that promised something else.",
  example:
    "A CUDA job asked for `self-hosted, gpu` and ran on the box with one Intel card; its tests found no device and were skipped, green.",
  fix: "Use the `runs_on` labels of one lane in .github/gpu-gate.yml, all of them, or declare a lane.",
  check: (repository, config, found) => {
    if (config.lanes === null) return;
    const known = new Set(config.lanes.map((lane) => labelSet(lane.runsOn)));
    for (const job of allJobs(repository)) {
      if (isHardware(job) && !known.has(labelsOf(job)))
        found(
          at(job, job.at),
          config.lanes.length === 0
            ? `The configuration declares no lane on own machines, but '${job.id}' targets one.`
            : `No lane has exactly the labels of '${job.id}'.`,
        );
    }
  },
};

export const laneTwoOwners: Rule = {
  id: "lane-two-owners",
  title: "One job owns a lane",
  explanation:
    "Two jobs on one label set wait for each other's machine, prove the same thing twice, and leave nobody responsible when the lane is red.",
  example:
    "A second job copied a parity test to the shared GPU runner; the two results disagreed, and the one that was green was the required one.",
  fix: "Keep one job per lane and let it run everything that the lane owns.",
  check: (repository, _config, found) => {
    const owners = new Map<string, Job>();
    for (const job of allJobs(repository)) {
      if (!isHardware(job)) continue;
      const owner = owners.get(labelsOf(job));
      if (owner === undefined) owners.set(labelsOf(job), job);
      else found(at(job, job.at), `'${job.id}' targets the same machines as '${owner.id}' in ${owner.file.path}.`);
    }
  },
};

const CHECK_EVENTS = ["pull_request", "pull_request_target", "merge_group"];

export const checkTwoOwners: Rule = {
  id: "check-two-owners",
  title: "One job publishes a check",
  explanation:
    "GitHub tells checks apart by name. Where two jobs carry one name the branch rule is satisfied by either or held up by both, and a job " +
    "that carries the gate's own name is a second producer of the verdict.",
  example:
    "A workflow on a branch had a job called like the required GPU check; its success merged a change that no GPU had seen.",
  fix: "Rename one of them, and pin the required check to the App that publishes it.",
  check: (repository, config, found) => {
    const owners = new Map<string, Job>();
    for (const job of allJobs(repository)) {
      const { text, at: place } = job.name;
      if (text === config.gateCheck || text === config.aggregateCheck) {
        found(at(job, place), `'${text}' is the control plane's check; no workflow may publish it.`);
        continue;
      }
      const lane = config.lanes?.find((one) => one.checks.includes(text));
      if (lane !== undefined && labelsOf(job) !== labelSet(lane.runsOn)) {
        found(at(job, place), `Check '${text}' belongs to lane '${lane.name}', whose machines this job does not use.`);
        continue;
      }
      if (text.includes("${{") || !CHECK_EVENTS.some((name) => job.file.triggers.has(name))) continue;
      const owner = owners.get(text);
      if (owner === undefined) owners.set(text, job);
      else found(at(job, place), `Check '${text}' is also published by '${owner.id}' in ${owner.file.path}.`);
    }
  },
};

export const requiredCheckNotPublished: Rule = {
  id: "required-check-not-published",
  title: "A required check is published on every path, and says what happened",
  explanation:
    'A workflow that a path filter keeps away leaves its check at "Expected" for ever. A job that is skipped, by its `if` or because what it needs ' +
    "failed, counts as success. Required jobs therefore always run and say themselves that there is nothing to do, or that nobody knows.",
  example:
    "The classifier crashed, every job that needed it was skipped, and the pull request showed nothing but green.",
  fix: "Drop the path filter, run the job `if: ${{ !cancelled() }}`, fail when the classification failed, and print an explicit no-op otherwise.",
  check: (repository, config, found) => {
    for (const file of repository.files) {
      const published = file.jobs.filter((job) => isRequired(job, config));
      if (published.length === 0) continue;
      const trigger = file.triggers.get("pull_request");
      for (const key of ["paths", "paths-ignore"]) {
        const filter = entry(trigger?.value, key);
        if (filter !== undefined)
          found({ file: file.path, ...filter.at }, `'${key}' keeps required checks from being published.`);
      }
      const types = entry(trigger?.value, "types");
      if (types !== undefined && !itemsOf(types.value).some((type) => textOf(type) === "synchronize")) {
        found({ file: file.path, ...types.at }, "Without 'synchronize' a new push never gets its required checks.");
      }
      if (config.mergeQueue && trigger !== undefined && !file.triggers.has("merge_group")) {
        found(
          { file: file.path, ...trigger.at },
          "The merge queue waits for required checks that this workflow never publishes on merge_group.",
        );
      }
    }
    for (const job of requiredByName(repository, config)) {
      const skippable = job.needs.length > 0 || job.condition !== "";
      if (skippable && !/\balways\(\)|!\s*cancelled\(\)/.test(job.condition)) {
        found(
          at(job, job.name.at),
          `Required check '${job.name.text}' can be skipped, and a skipped check counts as success.`,
        );
      }
    }
  },
};

/** Without a list of required names every job of a pull request workflow may be one. */
function isRequired(job: Job, config: LintConfig): boolean {
  return config.requiredChecks.length === 0 || config.requiredChecks.includes(job.name.text);
}

function requiredByName(repository: Repository, config: LintConfig): readonly Job[] {
  return allJobs(repository).filter((job) => config.requiredChecks.includes(job.name.text));
}

export const callerChosenWorkflowRef: Rule = {
  id: "caller-chosen-workflow-ref",
  title: "Nobody chooses the branch a trusted workflow is taken from",
  explanation:
    "A dispatch names a branch, and GitHub runs the workflow file of that branch. Where the branch comes from an input, an event or a variable, whoever " +
    "sets it brings their own workflow along, with this repository's rights.",
  example:
    "A recovery script had a --ref option for testing; a branch with an edited workflow and --ref took the provider's key.",
  fix: "Dispatch at the default branch by its literal name, and pass the revision to test as an input that the workflow checks.",
  check: (repository, config, found) => {
    for (const job of allJobs(repository)) {
      for (const step of job.steps) {
        for (const scalar of scalarsIn(step.node)) {
          if (!/\bgh\s+workflow\s+run\b|\/dispatches\b|createWorkflowDispatch/.test(scalar.text)) continue;
          const lines = scalar.raw.split("\n");
          lines.forEach((line, index) => {
            const ref = chosenRef(line, commandAround(lines, index), scalar.text);
            if (ref === undefined || isTrustedRef(ref, config.defaultBranch)) return;
            const column = (index === 0 ? scalar.rawAt.column - 1 : 0) + line.indexOf(ref) + 1;
            found(
              at(job, { line: scalar.rawAt.line + index, column }),
              `A workflow is dispatched at '${ref}', which a caller can choose.`,
            );
          });
        }
      }
    }
    for (const file of repository.files) {
      const inputs = get(file.triggers.get("workflow_dispatch")?.value, "inputs");
      if (inputs?.kind !== "map") continue;
      for (const input of inputs.entries) {
        if (/^workflow[_-]?(?:ref|branch|sha)$/.test(input.key)) {
          found(
            { file: file.path, ...input.at },
            `Input '${input.key}' lets a caller choose where a workflow comes from.`,
          );
        }
      }
    }
  },
};

/** The whole shell command that a line is part of: continued by backslashes. */
function commandAround(lines: readonly string[], index: number): string {
  let first = index;
  while (first > 0 && /\\\s*$/.test(lines[first - 1] ?? "")) first -= 1;
  let last = index;
  while (last < lines.length - 1 && /\\\s*$/.test(lines[last] ?? "")) last += 1;
  return lines.slice(first, last + 1).join("\n");
}

/** The value of the ref that a line of a dispatch names; in a script, `ref:` may stand anywhere in the call. */
function chosenRef(line: string, command: string, script: string): string | undefined {
  const value = String.raw`["']?(\$\{\{[^}]*\}\}|[^\s"',\\]+)`;
  if (/\bgh\s+workflow\s+run\b/.test(command)) {
    const option = new RegExp(String.raw`(?:^|\s)(?:--ref[=\s]|-r\s)\s*${value}`).exec(line)?.[1];
    if (option !== undefined) return option;
  }
  if (!/\/dispatches\b/.test(command) && !script.includes("createWorkflowDispatch")) return undefined;
  const field = new RegExp(String.raw`(?:-[fF]\s+["']?ref=|\\?["']?\bref\\?["']?\s*:\s*\\?)${value}`).exec(line);
  return field?.[1];
}

function isTrustedRef(ref: string, defaultBranch: string): boolean {
  if (ref === defaultBranch || ref === `refs/heads/${defaultBranch}`) return true;
  return (
    /^\$\{?DEFAULT_BRANCH\}?$/.test(ref) || /^\$\{\{\s*github\.event\.repository\.default_branch\s*\}\}$/.test(ref)
  );
}
