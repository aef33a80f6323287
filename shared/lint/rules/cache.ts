/** Rules about caches: only the trusted branch writes them. */
import type { Rule } from "../rule.ts";
import { allJobs, at, cacheModeOf, isMainOnly, untrustedCode } from "../workflow.ts";

/** Events whose cache token may write the default branch's caches unless the workflow says otherwise. */
const WRITING_EVENTS = ["workflow_dispatch", "workflow_call", "push", "schedule", "repository_dispatch"];

export const cacheModeMissing: Rule = {
  id: "cache-mode-missing",
  title: "A dispatched job that runs untrusted code says `cache-mode: read` or `none`",
  explanation:
    "GitHub gives pull requests a read-only token for the default branch's caches, but a dispatched run on the default branch keeps a " +
    "writing one. Steps that only restore are a habit; `cache-mode` is enforced by the cache service.",
  example:
    "A preparation dispatched on main built a pull request. The build script saved a poisoned toolchain under the next release's key, and the release job restored it.",
  fix: "Set `cache-mode: read` (or `none`) for the workflow or the job.",
  check: (repository, _config, found) => {
    for (const job of allJobs(repository)) {
      if (untrustedCode(job) === undefined || cacheModeOf(job) !== undefined) continue;
      const trigger = WRITING_EVENTS.find((name) => job.file.triggers.has(name));
      if (trigger !== undefined) {
        found(
          at(job, job.at),
          `Job '${job.id}' runs code it does not trust on ${trigger} and may write the default branch's caches.`,
        );
      }
    }
  },
};

export const cacheWriteOffMain: Rule = {
  id: "cache-write-off-main",
  title: "Only the default branch writes caches",
  explanation:
    "A cache is code that a later build runs. It has one writer, a job that runs the default branch's code only; everybody else restores, " +
    "and a miss installs the same thing.",
  example:
    "A branch build saved its dependencies under a shared key; main restored them and shipped a patched library.",
  fix: "Use actions/cache/restore, set `cache-mode: read`, and save in one job that runs on pushes to the default branch.",
  check: (repository, config, found) => {
    for (const job of allJobs(repository)) {
      const mode = cacheModeOf(job);
      if (mode?.mode === "read" || mode?.mode === "none") continue;
      if (mode !== undefined && untrustedCode(job) !== undefined) {
        found(at(job, mode.at), `Job '${job.id}' runs code it does not trust with cache-mode '${mode.mode}'.`);
        continue;
      }
      for (const step of job.steps) {
        const saves = /^actions\/cache(?:\/save)?@/.test(step.uses?.text ?? "");
        if (saves && !isMainOnly(job, step, config.defaultBranch)) {
          found(at(job, step.at), "This step saves a cache and can run off the default branch.");
        }
      }
    }
  },
};
