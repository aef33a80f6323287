/**
 * The repository configuration `.github/gpu-gate.yml` as one zod schema: every key, its default, its bounds, its meaning.
 *
 * What is not written in the file has the default shown here, so that an almost empty file is a working one and nothing
 * is ever unlimited. Keys keep their written form (snake_case) in code. Amounts are US dollars; times are seconds,
 * fractions allowed (`limits.ts` gives the same names in milliseconds); ids are strings. Rules that need to look at more
 * than one key live in `checks.ts`; the JSON Schema for editors and the reference page are made from this file.
 */
import * as z from "zod";
import { fileName, idText, laneSchema, oneLine, pathSet, workflowPath } from "./schema-parts.ts";
import { gpuSchema, runnerSchema } from "./schema-gpu.ts";
import { limitsSchema, seconds } from "./schema-limits.ts";

/** Where the file lives. It is read from the head of the default branch and from nowhere else. */
export const CONFIG_PATH = ".github/gpu-gate.yml";

/** No record spares a pod from the reaper for longer (`reap.ts`), so nobody is promised more. */
const MAX_RETENTION_S = 10_800;

/** Rows of `required_checks` and of the lanes: enough for any real project, few enough to show in one table. */
const MAX_CHECKS = 100;

const checkNames = (fallback: string[]) => z.array(oneLine(200)).max(MAX_CHECKS).default(fallback);

const usd = (max: number) => z.number().min(0).max(max);

const person = z.strictObject({
  login: oneLine(100).describe("Login at the time of writing, for readers; the id decides."),
  id: idText.describe("Numeric account id, quoted (`gh api users/NAME --jq .id`)."),
});

export const repositoryConfigSchema = z.strictObject({
  version: z.literal(1).describe("Version of this file's format."),

  check: z
    .strictObject({
      name: oneLine(100).default("CI GPU gate").describe("Name of the required check that the App publishes."),
      eta_runs: z.int().min(1).max(200).default(20).describe("How many of the last runs the queue's ETA is made from."),
    })
    .prefault({})
    .describe("The check a pull request waits for."),

  start: z
    .enum(["auto", "label", "comment", "approval"])
    .default("auto")
    .describe(
      "What lets a request that needs the GPU go on: `auto` by itself, `label`, `comment` or `approval` (a button on the check) by a permitted person, for one commit.",
    ),
  start_words: z
    .strictObject({
      label: oneLine(50).default("run-gpu").describe("The label that starts a run when `start` is `label`."),
      comment: oneLine(100)
        .default("/gpu run")
        .describe("First line of the comment that starts a run when `start` is `comment`."),
    })
    .prefault({})
    .describe("The words of `start: label` and `start: comment`."),
  drafts: z
    .enum(["wait", "run"])
    .default("wait")
    .describe(
      "`wait`: a draft's check stays queued and nothing is dispatched. `run`: a draft is treated like any other.",
    ),
  quiet_period: seconds(
    0,
    3600,
    "How long a head must stay unchanged before it is prepared; a push inside it costs nothing.",
    0,
  ),
  newest_head_only: z
    .literal(true)
    .default(true)
    .describe("A moved head always supersedes its request; written here so that readers see it. `false` is refused."),
  shadow: z
    .boolean()
    .default(false)
    .describe("Decide everything, buy nothing, publish `<check name> (shadow)`, always success."),

  workflows: z
    .strictObject({
      trigger: z
        .union([z.literal("none"), workflowPath])
        .default(".github/workflows/ci.yml")
        .describe(
          "Workflow whose start lets an open request go on, or `none` to go on at once where the webhook said who caused it.",
        ),
      prepare: workflowPath
        .default(".github/workflows/gpu-gate-prepare.yml")
        .describe("Trusted hosted preparation: builds the archives and runs device-independent tests."),
      execute: workflowPath
        .default(".github/workflows/gpu-gate-execute.yml")
        .describe("Trusted workflow with the single job that runs on the rented machine."),
      recovery: workflowPath
        .default(".github/workflows/gpu-gate-recovery.yml")
        .describe("Opens a request for a pull request number, dispatched by a maintainer."),
      validation: workflowPath
        .default(".github/workflows/gpu-gate-validation.yml")
        .describe("Opens a request for one fixed commit, dispatched by a maintainer."),
      cache_publisher: workflowPath
        .default(".github/workflows/gpu-gate-cache-publish.yml")
        .describe("The only workflow that may save shared caches; its artifacts may be reused."),
    })
    .prefault({})
    .describe("Workflow files on the default branch, as paths."),

  pre_gate: checkNames(["rustfmt", "clippy"]).describe(
    "Check names that must be green on their latest attempt before a GPU is rented.",
  ),
  tested_revision: z
    .enum(["merge", "head"])
    .default("merge")
    .describe("What a pull request's run tests: its test merge commit, or its head."),

  access: z
    .strictObject({
      roles: z
        .array(z.enum(["admin", "maintain", "write"]))
        .min(1)
        .default(["admin", "maintain"])
        .describe("Repository roles (`role_name`) that may cause spending; author and actor both need one."),
      users: z.array(person).max(MAX_CHECKS).default([]).describe("People permitted by id whatever their role."),
      bots: z
        .array(person)
        .max(MAX_CHECKS)
        .default([])
        .describe("Bots permitted by id; no bot is permitted otherwise."),
    })
    .prefault({})
    .describe("Whose word may spend money."),

  limits: limitsSchema,
  runner: runnerSchema,
  gpu: gpuSchema,

  budget: z
    .strictObject({
      per_run: usd(100).default(3).describe("Cap for one request, all its attempts together."),
      per_day: usd(1000).default(20).describe("Cap for one UTC day."),
      per_month: usd(10_000).default(200).describe("Cap for one UTC month."),
      per_pr: usd(1000)
        .nullable()
        .default(null)
        .describe("Cap for one pull request over its life; null: only the other caps."),
      per_author: usd(1000)
        .nullable()
        .default(null)
        .describe("Cap for one author in one UTC day; null: only the other caps."),
    })
    .prefault({})
    .describe("Money caps in US dollars. Spent plus reserved never exceeds one; 0 buys nothing."),

  evidence: z
    .strictObject({
      gpu_job: oneLine(200)
        .default("GPU tests")
        .describe("Name of the job in the execute workflow that runs on the GPU, as GitHub shows it."),
      test_steps: z
        .array(oneLine(200))
        .min(1)
        .max(20)
        .default(["Run GPU tests"])
        .describe("Steps of that job that must really have run; the first one ends the setup time."),
      min_tests: z.int().min(1).max(1_000_000).default(1).describe("Fewest tests a green run must report."),
      min_seconds: z
        .number()
        .min(0.05)
        .max(3600)
        .default(20)
        .describe("Shortest GPU job that can be green, in seconds: a faster one tested nothing."),
      observations: z
        .record(z.string().regex(/^[a-z][a-z0-9_]{0,39}$/), z.array(oneLine(200)).min(1).max(10))
        .default({})
        .describe("Named facts such as cache hits, read from step conclusions: name to step names."),
    })
    .prefault({})
    .describe("What a green check must be able to show."),

  costs: z
    .strictObject({
      stages: z
        .array(
          z.strictObject({
            stage: z
              .string()
              .regex(/^[a-z][a-z0-9_]{0,39}$/, "must be lower case letters, digits and _")
              .describe("Name in the cost report."),
            steps: z.array(oneLine(200)).min(1).max(50).describe("Exact step names that belong to it."),
          }),
        )
        .max(30)
        .default([])
        .describe("Steps of the GPU job by stage; the first stage that names a step wins, the rest is `other_setup`."),
    })
    .prefault({})
    .describe("How the cost report divides the paid time."),

  retention: z
    .strictObject({
      keep_on_failure: z
        .boolean()
        .default(false)
        .describe("Keep the pod of a failed run for debugging without being asked."),
      duration: seconds(3600, MAX_RETENTION_S, "How long a pod is kept when nobody says how long."),
      max_retention: seconds(
        MAX_RETENTION_S,
        MAX_RETENTION_S,
        "Longest life of a kept pod, from its creation: at most what the reaper spares, which the deployment may lower.",
      ),
    })
    .prefault({})
    .describe("Pods kept for debugging; always with an end, always paid from the budget."),

  fork_fallback: z
    .strictObject({
      workflow: workflowPath
        .nullable()
        .default(null)
        .describe("Workflow that tests forks elsewhere, named in the refusal; null: none."),
      instructions: oneLine(500)
        .default("Ask a maintainer to push this commit to a branch of this repository.")
        .describe("What a refused fork's author is told to do."),
    })
    .prefault({})
    .describe("The way forward shown to pull requests from forks, which never get a rented GPU."),

  merge_queue: z
    .strictObject({
      policy: z
        .enum(["run", "reuse"])
        .default("run")
        .describe("`run`: the group's commit is tested. `reuse`: an identical tree that passed counts, else run."),
      pre_gate: checkNames(["rustfmt", "clippy"]).describe("Check names that must be green on the group's commit."),
      margin: seconds(120, 3600, "The check is concluded this long before the queue gives up on it."),
      default_timeout: seconds(3600, 21_600, "The queue's own time limit when the branch rule cannot be read."),
    })
    .prefault({})
    .describe("Merge groups."),

  archive_key: z
    .strictObject({
      namespace: z
        .string()
        .regex(/^[a-z0-9][a-z0-9.-]{0,60}$/, "must be lower case letters, digits, dots and dashes")
        .default("v1-ubuntu24.04")
        .describe("First part of the key; change it to drop every older archive."),
      include: z
        .array(fileName)
        .min(1)
        .max(200)
        .default(["**"])
        .describe("Paths whose content makes the key: `*` within a folder, `**` any number of folders."),
      exclude: z.array(fileName).max(200).default([]).describe("Paths left out again, same patterns."),
    })
    .prefault({})
    .describe("What the content key of the test archives is made from; branch, ref and commit never are."),

  paths: z
    .strictObject({
      docs: pathSet
        .extend({
          except_prefixes: pathSet.shape.prefixes.describe("Folders inside `prefixes` that are code after all."),
        })
        .prefault({})
        .describe("Documentation: prose that no test executes."),
      ci: pathSet.prefault({}).describe("Known workflow files and CI helpers."),
    })
    .prefault({})
    .describe("What changed files are. A path in neither set is code, and code asks for everything."),

  lanes: z
    .object({
      gpu: laneSchema
        .prefault({})
        .describe("The rented GPU. `control` is the device control set: what can change what the pod executes."),
    })
    .catchall(laneSchema)
    .prefault({})
    .describe("Named parts of CI, `run_<lane>` in outputs. Code asks for every lane. The lane `gpu` always exists."),

  required_checks: z
    .array(
      z.strictObject({
        name: oneLine(200).describe("Name of the check."),
        report: z
          .enum(["may-skip", "must", "must-on-release"])
          .default("may-skip")
          .describe(
            "`must`: only success counts. `must-on-release`: may not be absent on a release branch. `may-skip`: skipped, neutral and absent are fine.",
          ),
        waits_for: z
          .array(oneLine(200))
          .max(10)
          .default([])
          .describe("Checks after which this one appears; while they run its absence means nothing."),
        app_id: idText
          .nullable()
          .default(null)
          .describe("Id of the App that must have made the check, quoted; null: any."),
      }),
    )
    .max(MAX_CHECKS)
    .default([])
    .describe("The checks that branch protection means; lanes own those in their `checks`."),

  aggregator: z
    .strictObject({
      name: oneLine(100)
        .nullable()
        .default(null)
        .describe("Name of the one check published over all required checks; null: none."),
      registration_grace: seconds(120, 3600, "How long an expected check may be absent before absence counts."),
      timeout: seconds(14_400, 43_200, "How long running checks are waited for; a check still running then fails it."),
      release_prefix: oneLine(100)
        .nullable()
        .default(null)
        .describe("Head branches that begin so are releases for `must-on-release`; null: none are."),
    })
    .prefault({})
    .describe("One required check over many."),
});

/** The effective configuration: every key present, defaults filled in. */
export type RepositoryConfig = z.output<typeof repositoryConfigSchema>;

/** What a person may write: everything but `version` may be left out. */
export type RepositoryConfigInput = z.input<typeof repositoryConfigSchema>;

export type Lane = z.output<typeof laneSchema>;
export type OwnHardware = NonNullable<Lane["own"]>;
export type LimitName = keyof RepositoryConfig["limits"];
