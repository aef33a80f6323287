/** The rules of GitHub that show when a workflow file is run: the continuation of rules.ts, in the same form. */
import type { VendorRule } from "./rules.ts";

const docs = "docs.github.com/actions/reference";

export const workflowRules: readonly VendorRule[] = [
  {
    id: "file-broken",
    sentence: "A workflow file that is not understood ends its run as startup_failure, without a job.",
    fact: "github-facts.md §6",
    test: "%s ends the run as startup_failure, with file and line and without a job",
  },
  {
    id: "step-variables",
    sentence: "A step finds GitHub's default variables, its own and its job's, and nothing else of the server.",
    fact: `${docs}/workflows-and-actions/variables`,
    test: "runs its commands with exactly the documented environment",
  },
  {
    id: "step-shell",
    sentence: "A step without a shell is `bash -e`; a named bash adds pipefail.",
    fact: `${docs}/workflows-and-actions/workflow-syntax`,
    test: "fails a step of a bare `run` at the first failing command, and in a pipe only with `shell: bash`",
  },
  {
    id: "stop-commands",
    sentence: "Between stop-commands and its token nothing a step prints is a command.",
    fact: `${docs}/workflows-and-actions/workflow-commands`,
    test: "prints what it likes between stop-commands, and none of it is a command",
  },
  {
    id: "fail-fast",
    sentence: "The first failed combination of a matrix ends the others unless fail-fast is off.",
    fact: `${docs}/workflows-and-actions/workflow-syntax`,
    test: "exists once for each combination of a matrix; the first failure ends the others unless told otherwise",
  },
  {
    id: "time-limits",
    sentence: "A step over its time limit fails; a job over its limit is cancelled.",
    fact: `${docs}/workflows-and-actions/workflow-syntax`,
    test: "has a step's and a job's time limit",
  },
  {
    id: "job-token",
    sentence: "A job's token has the permissions its file names, dies with the job, and is masked in the log.",
    fact: "docs.github.com/actions/concepts/security/github-token",
    test: "has the permissions that the job names, dies with the job, and is never in a log",
  },
  {
    id: "cache-mode",
    sentence: "A job's cache token reads and writes only what cache-mode lets it.",
    fact: "github-facts.md §17",
    test: "are written where the file lets the job write, and restored by exact key where it lets it read",
  },
  {
    id: "artifact-digest",
    sentence: "An artifact's digest is that of the zip that is downloaded; a download that differs fails.",
    fact: "github-facts.md §12",
    test: "that are not what their digest says fail the step",
  },
  {
    id: "group-single",
    sentence: "One run of a concurrency group goes at a time, and a newer waiter takes the place of an older.",
    fact: "github-facts.md §11",
    test: "let one run at a time go; without `queue: max` a newer waiter takes the place of an older",
  },
  {
    id: "group-max",
    sentence: "With `queue: max` up to 100 runs of a group wait, in order; a further one is cancelled.",
    fact: "github-facts.md §11",
    test: "with `queue: max` drop nobody, up to a hundred waiters",
  },
  {
    id: "group-of-jobs",
    sentence:
      "A job's own concurrency group holds jobs of any run; held by its own run it is a deadlock, and the job ends.",
    fact: `${docs}/workflows-and-actions/workflow-syntax`,
    test: "with `queue: max` lets the jobs of all runs go one by one, and drops none",
  },
  {
    id: "identity-token",
    sentence:
      "A job with id-token: write gets tokens for the audience it names, signed by the issuer's key, until it ends.",
    fact: "github-facts.md §14",
    test: "say who the job is, to one audience, signed by a key of the issuer's own set; the password dies with the job",
  },
  {
    id: "environment-secrets",
    sentence:
      "An environment's secrets are for the jobs that name it, at the branches it lists; a fork's run gets no secret.",
    fact: "docs.github.com/actions/reference/workflows-and-actions/deployments-and-environments",
    test: "give a job the repository's secrets, and an environment's only where it is named; logs show neither",
  },
  {
    id: "schedule",
    sentence:
      "A schedule starts the default branch's file, at the default branch, while it is active, and is not caught up with.",
    fact: `${docs}/workflows-and-actions/events-that-trigger-workflows`,
    test: "is not caught up with, minute by minute, by a clock that leapt",
  },
  {
    id: "artifact-names",
    sentence:
      "Artifacts are listed by exact name over all runs, the newest first, each with its run, its end and its digest.",
    fact: "github-facts.md §12",
    test: "are listed by exact name over all runs, the newest first, expired ones as such",
  },
];
