/** Just-in-time runners of the virtual GitHub: registered, online, given a job, lost; and the steps of the GPU job. */
import { EXECUTE, type Run, type Job, type Runner, type Repository } from "./github-model.ts";
import { finishJob, finishRun, tellJob, tellRun } from "./github-runs.ts";

/** Longer than any deadline. */
const FOR_EVER_MS = 20_000_000;

/** Registers a just-in-time runner; null: the name is taken. */
export function mintRunner(repository: Repository, name: string, labels: readonly string[]): Runner | null {
  for (const runner of repository.runners.values()) if (runner.name === name) return null;
  const runner: Runner = {
    id: repository.nextId(),
    name,
    labels,
    jit: `jit${repository.around.rng.hex(60)}`,
    used: false,
    status: "offline",
    busy: false,
    kept: false,
    onDone: null,
  };
  repository.runners.set(runner.id, runner);
  return runner;
}

/** A machine starts a runner with a configuration: good once, and only while the registration stands. */
export function connectRunner(repository: Repository, jit: string, onDone: (why: string) => void): Runner | null {
  for (const runner of repository.runners.values()) {
    if (runner.jit !== jit || runner.used) continue;
    runner.used = true;
    runner.status = "online";
    runner.onDone = onDone;
    repository.around.trace.note(`runner ${runner.name} is online`);
    repository.around.scheduler.in(repository.around.rng.int(1_000, 8_000), "job assigned", () =>
      assign(repository, runner),
    );
    return runner;
  }
  return null;
}

/** Registrations that no machine uses. */
export function leftRegistrations(repository: Repository): readonly Runner[] {
  return [...repository.runners.values()].filter((runner) => runner.status === "offline");
}

/** The machine is gone: GitHub notices after a while. */
export function runnerLost(repository: Repository, runner: Runner): void {
  runner.status = "offline";
  runner.onDone = null;
  for (const run of repository.runs.values()) {
    for (const job of run.jobs.at(-1) ?? []) {
      if (job.runnerId !== runner.id || job.status === "completed") continue;
      repository.around.scheduler.in(repository.around.rng.int(60_000, 700_000), "runner lost", () => {
        if (job.status === "completed") return;
        for (const step of job.steps) {
          if (step.status === "in_progress") Object.assign(step, { status: "completed", conclusion: "cancelled" });
        }
        finishJob(repository, run, job, "failure");
        finishRun(repository, run, "failure");
        repository.runners.delete(runner.id);
      });
    }
  }
}

function assign(repository: Repository, runner: Runner): void {
  if (!repository.runners.has(runner.id) || runner.status !== "online" || runner.busy) return;
  const { faults, scheduler, rng } = repository.around;
  if (faults.strikes("job-not-assigned", 0.2)) return;
  for (const run of repository.runs.values()) {
    if (run.status === "completed" || run.cancelAsked || run.path !== EXECUTE) continue;
    const job = run.jobs
      .at(-1)
      ?.find((one) => one.status === "queued" && one.labels.every((label) => runner.labels.includes(label)));
    if (job === undefined) continue;
    runner.busy = true;
    job.status = "in_progress";
    job.runnerId = runner.id;
    job.startedAt = repository.now;
    run.status = "in_progress";
    run.updatedAt = repository.now;
    repository.around.trace.note(`job ${job.id} of run ${run.id} starts on ${runner.name}`);
    tellRun(repository, run, "in_progress");
    tellJob(repository, run, job, "in_progress");
    play(repository, run, job, runner);
    return;
  }
  scheduler.in(rng.int(5_000, 15_000), "job assigned", () => assign(repository, runner));
}

/** The steps of the GPU job, one after the other, as long as the machine lives. */
function play(repository: Repository, run: Run, job: Job, runner: Runner): void {
  const { faults, rng, scheduler } = repository.around;
  const short = faults.strikes("job-too-short", 0.2);
  const hangs = faults.strikes("job-hangs", 0.2);
  const skips = faults.strikes("job-skips-tests", 0.2);
  const fails = faults.strikes("job-fails", 0.15);
  const silent = faults.strikes("job-without-evidence", 0.2);
  // In its tests, or before it comes to them.
  const stuck = hangs ? (rng.chance(0.5) ? "tests" : "setup") : null;
  const tests = stuck === "tests" ? FOR_EVER_MS : short ? 500 : rng.lasting(10_000, 900_000);
  const setup = stuck === "setup" ? FOR_EVER_MS : short ? 100 : rng.int(2_000, 60_000);
  const lasts = [short ? 100 : rng.int(500, 5_000), setup, tests, 300];
  const alive = (): boolean =>
    repository.runners.has(runner.id) && runner.status === "online" && job.status === "in_progress";
  const enter = (index: number): void => {
    if (!alive()) return;
    const step = job.steps[index];
    if (step === undefined) {
      // A job that skipped its tests may still claim a count: the steps must be believed, not the claim.
      if (!silent && !fails) {
        job.annotations = [
          {
            title: "gpu-gate-evidence",
            message: `{"tests":42,"durationMs":${Math.min(tests, 99_999_999)}}`,
            level: "notice",
          },
        ];
      }
      finishJob(repository, run, job, fails ? "failure" : "success");
      finishRun(repository, run, fails ? "failure" : "success");
      repository.removeRunner(runner, "job done");
      return;
    }
    if (index === 2 && skips) {
      Object.assign(step, { status: "completed", conclusion: "skipped" });
      return enter(index + 1);
    }
    step.status = "in_progress";
    run.updatedAt = repository.now;
    scheduler.in(lasts[index] ?? 0, "step ends", () => {
      if (!alive()) return;
      const failed = index === 2 && fails;
      Object.assign(step, { status: "completed", conclusion: failed ? "failure" : "success" });
      enter(failed ? job.steps.length : index + 1);
    });
  };
  enter(0);
}
