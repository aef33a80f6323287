/**
 * I11: unknown is neither idle nor success. Nothing is bought for a pull request unless its gate has just read it. A pod that is healthy and at work for a pull request that never changed, whose
 * run nobody touched and whose time is not over, is not deleted: whatever call failed meanwhile.
 */
import { EXECUTE, type Repository, type Run } from "../github-model.ts";
import type { Millis } from "../../shared/ports.ts";
import type { NetRequest } from "../net.ts";
import type { VirtualPod } from "../runpod.ts";
import { repositoryOf, type Checker, type WorldView } from "../view.ts";

/** Shorter than setup, lifetime and backstop, from the first instant a deadline may count from. */
const SETUP_MS = 900_000;
const LIFETIME_MS = 3_600_000;
const SLACK_MS = 10_000;
/** What the gate keeps of the merge queue's time: its margin, and the time it waits for its own answers. */
const QUEUE_MARGIN_MS = 300_000;

export function i11(): Checker {
  const books = new Map<string, Looks>();
  const pulls = { read: new Map<string, Millis>(), vain: new Map<string, Millis>() };
  const looksOf = (caller: string): Looks => {
    const known = books.get(caller) ?? { heard: [], vain: [] };
    books.set(caller, known);
    return known;
  };
  return {
    name: "I11",
    performing(world, operation, request) {
      if (operation === "createPod") return unreadProblem(world, request, pulls);
      return operation === "deletePod" ? deleteProblem(world, request, looksOf(request.caller)) : null;
    },
    performed(operation, request, status, heard) {
      const number = operation === "getPull" ? pullOf(request) : null;
      if (number !== null) {
        const read = heard && (status === 200 || status === 304);
        (read ? pulls.read : pulls.vain).set(`${request.caller} ${number}`, request.askedAt);
      }
      if (TOKENS.has(operation) && !(heard && status < 400))
        looksOf(request.caller).vain.push(lookOf(operation, request));
      if (!LOOKS.has(operation)) return;
      const { heard: answered, vain } = looksOf(request.caller);
      if (!heard || status >= 400) vain.push(lookOf(operation, request));
      // That its run goes on does not say on whose machine (108005).
      else if (operation !== "getRun") answered.push(lookOf(operation, request));
    },
    refused(operation, request) {
      const number = operation === "getPull" ? pullOf(request) : null;
      if (number !== null) pulls.vain.set(`${request.caller} ${number}`, request.askedAt);
      if (LOOKS.has(operation) || TOKENS.has(operation)) looksOf(request.caller).vain.push(lookOf(operation, request));
    },
  };
}

/** Between the answer to the last look and the arrival of the create. */
const READ_MS = 60_000;

function pullOf({ path }: NetRequest): string | null {
  return /\/pulls\/(\d+)$/.exec(path)?.[1] ?? null;
}

/** When a gate last asked for a pull request and heard of it, and when it did not. */
interface Reads {
  readonly read: ReadonlyMap<string, Millis>;
  readonly vain: ReadonlyMap<string, Millis>;
}

function unreadProblem(world: WorldView, request: NetRequest, pulls: Reads): string | null {
  const { env } = JSON.parse(request.body) as { env: Record<string, string> };
  const id = env["GPU_GATE_REPOSITORY_ID"] ?? "";
  const host = world.hosts.find(({ repository }) => repository.id === id);
  const about = host?.gate.store.request?.(env["GPU_GATE_REQUEST"] ?? "") ?? null;
  if (about === null || about.kind !== "pull-request" || about.prNumber === null) return null;
  const whose = `${request.caller} ${about.prNumber}`;
  const readAt = pulls.read.get(whose) ?? -Infinity;
  return request.askedAt - readAt <= READ_MS && (pulls.vain.get(whose) ?? -Infinity) <= readAt
    ? null
    : `${env["GPU_GATE_ATTEMPT"] ?? ""} buys for #${about.prNumber}, which its gate has not read just before`;
}

/** What shows that a runner is at work. */
const LOOKS = new Set(["getRunner", "getRun", "listJobs"]);

/** Without a token there is no look: whoever is refused one (107188) has looked in vain. */
const TOKENS = new Set(["installation", "installationToken"]);

/** When a gate asked for it and heard an answer, or did not. */
interface Looks {
  readonly heard: Look[];
  readonly vain: Look[];
}

interface Look {
  readonly at: Millis;
  /** Null: at a run, not at a runner. */
  readonly runnerId: string | null;
}

function lookOf(operation: string, { path, askedAt }: NetRequest): Look {
  return { at: askedAt, runnerId: operation === "getRunner" ? (path.split("/").at(-1) ?? "") : null };
}

function deleteProblem(world: WorldView, request: NetRequest, looks: Looks): string | null {
  const id = decodeURIComponent(request.path.split("/").at(-1) ?? "");
  const pod = world.runpod.pods.find((one) => one.id === id);
  if (pod === undefined || pod.releasedAt !== null || pod.deletes.length > 0 || pod.late) return null;
  const repository = repositoryOf(world, pod.env["GPU_GATE_REPOSITORY_ID"] ?? "");
  const run = repository?.runs.get(pod.env["GPU_GATE_RUN_ID"] ?? "");
  if (repository === undefined || run === undefined || !healthy(pod, run, repository.limits, world)) return null;
  if (excused(repository, run, world) || unseen(pod, run, looks, world)) return null;
  return `${pod.id} is deleted by ${request.caller} in the middle of its healthy job`;
}

/** At work: its machine is up, its own job runs on it, in time. */
function healthy(pod: VirtualPod, run: Run, limits: Readonly<Record<string, number>>, world: WorldView): boolean {
  const job = run.jobs.at(-1)?.[0];
  if (!pod.busy || !pod.runtimeUp || pod.status !== "RUNNING" || run.path !== EXECUTE) return false;
  if (job?.status !== "in_progress" || job.runnerId === "31337" || run.attempt !== 1 || run.cancelAsked || run.gone)
    return false;
  const testing = job.steps[2]?.status === "in_progress";
  const age = world.now - pod.createdAt + world.clocks.widest + SLACK_MS;
  // A test step that began seconds ago may not have been read yet.
  const setup = (limits["setup"] ?? SETUP_MS / 1000) * 1000;
  const lifetime = Math.min(limits["lifetime"] ?? Infinity, limits["backstop"] ?? Infinity, LIFETIME_MS / 1000) * 1000;
  return age < lifetime && (testing ? age < setup : age < setup - 60_000);
}

/** Whoever may end a healthy job: people, and what a person does to the App's place. */
const PEOPLE = [
  "operator-stops",
  "operator-acts",
  "newer-schema",
  "app-suspended",
  "app-removed",
  "repository-archived",
  "repository-deleted",
] as const;

/** From our create to a runner that was seen online: unknown extends no deadline. */
const ACCEPTANCE_MS = 420_000;
const ACCEPTANCE_SLACK_MS = 60_000;
/** How long an answer may be on its way before its asker gives it up. */
const CALL_MS = 10_000;
/** Between two looks while a machine starts. */
const POLL_MS = 15_000;
/** The longest pause that GitHub asks for when it is asked too fast. */
const PACE_MS = 90_000;

/**
 * The time for acceptance is over and the runner was not seen, though it was looked for: GitHub refused every look for its
 * quota (12150) or its pace (51240), or the job began while the last look waited for its answer (51195).
 */
function unseen(pod: VirtualPod, run: Run, looks: Looks, world: WorldView): boolean {
  const age = world.now - pod.askedAt + world.clocks.widest;
  if (age < ACCEPTANCE_MS || age >= ACCEPTANCE_MS + ACCEPTANCE_SLACK_MS) return false;
  const job = run.jobs.at(-1)?.[0];
  const begun = job?.startedAt ?? world.now;
  // A look at another runner, as one that stayed behind, shows nothing of this one.
  const own = (all: readonly Look[]): readonly Millis[] =>
    all.filter(({ runnerId }) => runnerId === null || runnerId === job?.runnerId).map(({ at }) => at);
  const [heard, vain] = [own(looks.heard), own(looks.vain)];
  if (heard.some((at) => at > begun && at < world.now - CALL_MS)) return false;
  if (world.github.quotaUntil > world.now) return true;
  return vain.some((at) => at > begun - PACE_MS - CALL_MS) || heard.some((at) => at > begun - CALL_MS - POLL_MS);
}

/** Somebody changed their mind, or may have. */
function excused(repository: Repository, run: Run, world: WorldView): boolean {
  const { weights } = world.faults.plan;
  if (PEOPLE.some((kind) => weights.has(kind))) return true;
  const group = repository.groups.get(run.inputs["tested_sha"] ?? "");
  if (group !== undefined)
    return group.over !== null || world.now - group.madeAt > repository.queueMinutes * 60_000 - QUEUE_MARGIN_MS;
  // One fixed commit of the default branch: nothing about it can change.
  if (repository.mainHistory.some((commit) => commit.sha === run.inputs["tested_sha"])) return false;
  const tested = run.inputs["tested_sha"] ?? "";
  const sha = repository.mergeHeads.get(tested) ?? tested;
  const visitors = repository.visitors.get(sha);
  if (visitors === undefined) return true;
  // Those that are there, and those that were.
  return [...visitors].some((number) =>
    repository.pulls.get(number)?.changes.some((at) => at > run.createdAt - 60_000),
  );
}
