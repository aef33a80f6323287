/**
 * Feeds the watch corpus to the executing state: each poll is one look. The adapter is the shell on a fake clock; the reads
 * that prove a deletion cost nothing here, and lists need no spacing. Limits that upstream's watcher does not have (idle
 * runner, backstop) are switched off, and the poll does not quicken while the tests run.
 */
import type { JobFacts, Outcomes } from "../../../shared/lifecycle/tasks.ts";
import {
  attemptAt,
  execute,
  job,
  known,
  LIMITS,
  OTHER_HEAD,
  PULL,
  requestIn,
  states,
  T0,
  TERMS,
  UNREAD,
} from "../../lifecycle/fixtures.ts";
import { outcomes } from "../../lifecycle/events.ts";
import { Story } from "../../lifecycle/story.ts";
import type { CorpusAdapter, CorpusCase } from "../adapter.ts";

interface RawJob {
  readonly name: string;
  readonly status: string;
  readonly conclusion: string | null;
  readonly steps?: readonly { readonly name: string; readonly status: string; readonly conclusion: string | null }[];
}

interface Poll {
  readonly obsolete?: string | { readonly error: string } | null;
  readonly jobs?: readonly RawJob[] | { readonly error: string };
}

interface Watched {
  readonly returns: string;
  readonly endsAt: number;
  readonly deleteAt: number | null;
  readonly cancelAt: number | null;
  readonly polls: number;
  /** Pairs of seconds and times. */
  readonly sleeps: readonly (readonly [number, number])[];
}

const JOB = "CUDA GPU tests on RunPod";
const TEST_STEP = "Run CUDA tests from archive";

export const adapter: CorpusAdapter = {
  corpus: "watch",
  run: (testCase) => {
    const wanted = testCase["expected"] as Watched;
    const actual = watch(testCase);
    const pass =
      wanted.returns === actual.returns &&
      wanted.polls === actual.polls &&
      near(wanted.endsAt, actual.endsAt) &&
      near(wanted.deleteAt, actual.deleteAt) &&
      near(wanted.cancelAt, actual.cancelAt) &&
      wanted.sleeps.length === actual.sleeps.length &&
      wanted.sleeps.every(
        ([seconds, times], index) =>
          near(seconds, actual.sleeps[index]?.[0] ?? null) && times === actual.sleeps[index]?.[1],
      );
    return { pass, expected: wanted, actual };
  },
};

function watch(testCase: CorpusCase): Watched {
  const number = (name: string, otherwise = 0) => Number(testCase[name] ?? otherwise);
  const seconds = (story: Story) => (story.now - T0) / 1000;
  const polls = testCase["polls"] as readonly Poll[];
  const pollMs = number("pollSeconds", 15) * 1000;
  const terms = {
    ...TERMS,
    evidence: { ...TERMS.evidence, jobName: JOB, testSteps: [TEST_STEP] },
    limits: {
      ...LIMITS,
      setup: number("setupDeadline") * 1000,
      lifetime: number("lifetimeDeadline") * 1000,
      backstop: Infinity,
      runnerIdle: Infinity,
      watchPoll: pollMs,
      testPoll: pollMs,
      absenceSpacing: 0,
    },
  };
  const startedAt = T0 + number("podStartedAt") * 1000;
  const online = attemptAt("online", { createSentAt: startedAt });
  const attempt = { ...online, pod: online.pod === null ? null : { ...online.pod, startedAt } };
  const story = new Story(requestIn(states.executing({ attempt }), { terms }));
  story.now = T0 + number("now") * 1000;
  story.task = { task: { kind: "observe", want: {} }, dueAt: story.now };

  const waits: number[] = [];
  let looks = 0;
  while (story.kind === "executing" && looks < 10_000) {
    if (looks > 0) waits.push(((story.task?.dueAt ?? 0) - story.now) / 1000);
    const poll = polls[Math.min(looks, polls.length - 1)] ?? {};
    looks += 1;
    const gone = typeof poll.obsolete === "string";
    // Upstream reads the jobs only when the pull request is still wanted.
    const cost = number("obsoleteCost") + (gone ? 0 : number("jobsCost"));
    story.answer("observe", look(poll), cost * 1000);
  }
  const done = { polls: looks, sleeps: runs(waits) };
  if (story.state("cleaning").jobEnded) {
    return { ...done, returns: "true", endsAt: seconds(story), deleteAt: null, cancelAt: null };
  }
  story.remove("delete-pod");
  const deleteAt = seconds(story);
  const deletes = testCase["deleteFails"] !== true;
  story.answer("delete-pod", outcomes["delete-pod"][deletes ? "deleted" : "unknown"], number("deleteCost") * 1000);
  if (!deletes) {
    const endsAt = seconds(story);
    // Nothing but the deletion is asked for as long as it is not confirmed.
    for (let times = 0; times < 20; times += 1) story.answer("delete-pod", outcomes["delete-pod"].unknown);
    return { ...done, returns: "error", endsAt, deleteAt, cancelAt: null };
  }
  story.remove("cancel-run");
  const cancelAt = seconds(story);
  const cancels = testCase["cancelFails"] !== true;
  story.answer("cancel-run", outcomes["cancel-run"][cancels ? "accepted" : "unknown"], number("cancelCost") * 1000);
  return { ...done, returns: cancels ? "false" : "error", endsAt: seconds(story), deleteAt, cancelAt };
}

function look(poll: Poll): Outcomes["observe"] {
  const { obsolete, jobs } = poll;
  const closed = typeof obsolete === "string" && obsolete.includes("closed");
  const moved = typeof obsolete === "string" && !closed;
  return {
    pull:
      typeof obsolete === "object" && obsolete !== null
        ? UNREAD
        : known({ ...PULL, open: !closed, headSha: moved ? OTHER_HEAD : PULL.headSha }),
    job: Array.isArray(jobs) ? known(execute(ours(jobs))) : UNREAD,
  };
}

/** The GPU job among the run's jobs, on our runner, with the evidence a good one leaves. */
function ours(jobs: readonly RawJob[]): JobFacts | null {
  const found = jobs.find((one) => one.name.endsWith(JOB));
  if (found === undefined) return null;
  return job({
    status: found.status,
    conclusion: found.conclusion,
    runnerId: found.status === "queued" ? null : "41",
    steps: found.steps ?? [],
  });
}

function runs(waits: readonly number[]): [number, number][] {
  const pairs: [number, number][] = [];
  for (const wait of waits) {
    const last = pairs.at(-1);
    if (last !== undefined && near(last[0], wait)) last[1] += 1;
    else pairs.push([wait, 1]);
  }
  return pairs;
}

function near(a: number | null, b: number | null): boolean {
  return a === null || b === null ? a === b : Math.abs(a - b) < 1e-6;
}
