/** Rules about what a job is made of: pinned actions, exact images, time limits. */
import type { Rule } from "../rule.ts";
import { allJobs, at, isHostedLabel, isSelfHosted, type Step } from "../workflow.ts";
import { entry } from "../yaml.ts";

export const unpinnedAction: Rule = {
  id: "unpinned-action",
  title: "Every action is pinned by its full commit id",
  explanation:
    "A tag or a branch can be moved by whoever controls the action's repository, or by whoever stole their account. A commit id cannot. " +
    "Container images are pinned by digest for the same reason.",
  example:
    "The tags of a popular action were moved to a commit that printed the runner's memory into public logs; every workflow that named a tag ran it within the hour.",
  fix: "Write `owner/action@<40 hex digits> # v1.2.3`; for an image, `docker://name@sha256:<64 hex digits>`.",
  check: (repository, _config, found) => {
    for (const job of allJobs(repository)) {
      for (const uses of [job.uses, ...job.steps.map((step) => step.uses)]) {
        if (uses === undefined || uses.text.startsWith("./")) continue;
        const pinned = uses.text.startsWith("docker://")
          ? /@sha256:[0-9a-f]{64}$/.test(uses.text)
          : /@[0-9a-f]{40}$/.test(uses.text);
        if (!pinned) found(at(job, uses.at), `'${uses.text}' is not pinned by a full commit id.`);
      }
    }
  },
};

export const movingRunnerLabel: Rule = {
  id: "moving-runner-label",
  title: "Runner images are named exactly",
  explanation:
    "`ubuntu-latest` changes its meaning on a day that GitHub chooses, and with it compilers, drivers and libraries. A larger runner without " +
    "a version in its name has whatever image the organisation set, so its first step must check it.",
  example:
    "Archives built on one Ubuntu release were run on another after the alias moved; every pull request went red at once and nobody had changed a line.",
  fix: "Name the image with its version (`ubuntu-24.04`, `macos-15`), or let the job's first step compare /etc/os-release.",
  check: (repository, _config, found) => {
    for (const job of allJobs(repository)) {
      for (const label of job.labels) {
        if (label.open || !isHostedLabel(label.text)) continue;
        const moving = /-latest(?:-|$)/i.test(label.text) || (!/\d/.test(label.text) && !checksImage(job.steps[0]));
        if (moving) found(at(job, label.at), `'${label.text}' names no fixed image.`);
      }
    }
  },
};

function checksImage(step: Step | undefined): boolean {
  return /\/etc\/os-release|\bsw_vers\b|\blsb_release\b/.test(step?.run?.text ?? "");
}

export const missingTimeout: Rule = {
  id: "missing-timeout",
  title: "Every job has a time limit, and every step of a job on own or rented hardware",
  explanation:
    "Without a limit GitHub waits 360 minutes for a hosted job and five days for another. On a machine that is paid by the second, " +
    "one hung download costs more than a day of tests.",
  example: "A test waited for a licence prompt; the rented machine sat idle until somebody looked at the bill.",
  fix: "Set `timeout-minutes` on the job; on self-hosted jobs set it on each step as well.",
  check: (repository, _config, found) => {
    for (const job of allJobs(repository)) {
      if (job.uses !== undefined) continue;
      if (entry(job.node, "timeout-minutes") === undefined)
        found(at(job, job.at), `Job '${job.id}' has no time limit.`);
      if (!isSelfHosted(job)) continue;
      for (const step of job.steps) {
        if (entry(step.node, "timeout-minutes") === undefined) {
          found(at(job, step.at), `This step of '${job.id}' has no time limit of its own.`);
        }
      }
    }
  },
};
