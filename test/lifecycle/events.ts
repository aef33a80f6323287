/**
 * The rows of the table in docs/states.md: every situation a request can be in, every event that can reach it, and what a
 * decision did, in the words the table uses.
 */
import { eventKinds, type EventKind, type GateEvent } from "../../shared/lifecycle/decide.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { Step } from "../../shared/lifecycle/step.ts";
import type { Done, Observation, Outcomes, TaskKind } from "../../shared/lifecycle/tasks.ts";
import {
  ADMISSION,
  BOB,
  execute,
  job,
  known,
  MINUTE,
  OTHER_HEAD,
  pod,
  PROOF,
  PULL,
  QUEUED_JOB,
  requestIn,
  RESUME,
  SETTING_UP,
  states,
  STOP,
  T0,
  teardownAt,
  TERMS,
  TEST_STEP,
  TESTING,
  UNREAD,
  where,
} from "./fixtures.ts";

/** Task kinds whose outcomes are told apart by a `kind`: the table has one row for each, or it does not compile. */
type Kinded = { [K in TaskKind]: Outcomes[K] extends { readonly kind: string } ? K : never }[TaskKind];
type OutcomeTable = {
  readonly [K in Kinded]: { readonly [V in Outcomes[K]["kind"]]: Outcomes[K] & { readonly kind: V } };
};

const PREPARE = {
  status: "in_progress",
  conclusion: null,
  failedJobs: [],
  artifacts: [],
  url: "https://github.test/run/800",
};
const created = { sentAt: T0 - 2_000, elapsedMs: 2_000 };

export const outcomes: OutcomeTable = {
  authorize: {
    unknown: { kind: "unknown", why: "503", retryAt: null },
    refused: { kind: "refused", reason: "fork", detail: "It is a fork.", terms: TERMS },
    closed: { kind: "closed", terms: TERMS },
    moved: { kind: "moved", headSha: OTHER_HEAD, terms: TERMS },
    members: { kind: "members", detail: "#8 has no green gate.", terms: TERMS },
    reuse: { kind: "reuse", detail: "The same tree passed.", terms: TERMS, admission: ADMISSION },
    admitted: { kind: "admitted", terms: TERMS, admission: ADMISSION },
  },
  "dispatch-prepare": {
    dispatched: { kind: "dispatched", runId: "800" },
    refused: { kind: "refused", why: "404" },
    "not-sent": { kind: "not-sent", why: "rate limit", retryAt: null },
    lost: { kind: "lost" },
  },
  "find-prepare": {
    found: { kind: "found", runId: "800" },
    none: { kind: "none" },
    unknown: { kind: "unknown", why: "503" },
  },
  recheck: {
    unknown: { kind: "unknown", why: "503", retryAt: null },
    refused: { kind: "refused", reason: "actor-not-permitted", detail: "The role was taken away.", terms: TERMS },
    closed: { kind: "closed", terms: TERMS },
    moved: { kind: "moved", headSha: OTHER_HEAD, terms: TERMS },
    admitted: { kind: "admitted", terms: TERMS, admission: ADMISSION },
    "stale-inputs": { kind: "stale-inputs", why: "the configuration changed", terms: TERMS, admission: ADMISSION },
    members: { kind: "members", detail: "#8 has no green gate any more.", terms: TERMS },
    reuse: { kind: "reuse", detail: "The same tree passed.", terms: TERMS, admission: ADMISSION },
  },
  plan: {
    planned: { kind: "planned", plan: RESUME.plan },
    refused: { kind: "refused", reason: "contract-refused", detail: "An id is not in the catalog." },
    unknown: { kind: "unknown", why: "503", retryAt: null },
  },
  reserve: {
    reserved: { kind: "reserved" },
    "over-cap": { kind: "over-cap", detail: "The day's cap." },
    unknown: { kind: "unknown", why: "no answer" },
  },
  mint: {
    minted: { kind: "minted", runnerId: "41", proofHash: "p", exitHash: "x" },
    conflict: { kind: "conflict" },
    refused: { kind: "refused", why: "403" },
    retry: { kind: "retry", why: "503", retryAt: null },
    lost: { kind: "lost" },
  },
  "find-runner": {
    cleared: { kind: "cleared" },
    "not-ours": { kind: "not-ours", why: "it is online" },
    unknown: { kind: "unknown", why: "503" },
  },
  "dispatch-execute": {
    dispatched: { kind: "dispatched", runId: "900" },
    refused: { kind: "refused", why: "404" },
    "not-sent": { kind: "not-sent", why: "rate limit", retryAt: null },
    lost: { kind: "lost" },
  },
  "find-execute": {
    found: { kind: "found", runId: "900" },
    none: { kind: "none" },
    unknown: { kind: "unknown", why: "503" },
  },
  "create-pod": {
    created: { kind: "created", pod: pod({ runtimeUp: false, startedAt: null }), ...created },
    capacity: { kind: "capacity", elapsedMs: 1_000 },
    "rate-limited": { kind: "rate-limited", retryAfterMs: 3_000, elapsedMs: 1_000 },
    ambiguous: { kind: "ambiguous", why: "http-5xx", retryAfterMs: null, ...created },
    skip: { kind: "skip", why: "invalid", detail: "400", elapsedMs: 1_000 },
    stop: { kind: "stop", reason: "balance", detail: "402", elapsedMs: 1_000 },
    obsolete: { kind: "obsolete", which: "head-moved" },
    unread: { kind: "unread", why: "503", retryAt: null },
    "held-back": { kind: "held-back", because: "buying-paused", detail: "Buying is paused." },
    "secret-lost": { kind: "secret-lost" },
    stopped: { kind: "stopped" },
  },
  "look-up-pod": {
    listed: { kind: "listed", startedAt: T0, complete: true, pods: [] },
    unknown: { kind: "unknown", why: "503" },
  },
  deregister: { gone: { kind: "gone" }, busy: { kind: "busy" }, unknown: { kind: "unknown", why: "503" } },
  "delete-pod": {
    deleted: { kind: "deleted" },
    "not-found": { kind: "not-found" },
    unknown: { kind: "unknown", why: "503" },
  },
  "verify-gone": { gone: { kind: "gone" }, alive: { kind: "alive" }, unknown: { kind: "unknown", why: "503" } },
  "list-pods": {
    listed: { kind: "listed", startedAt: T0, complete: true, alive: false },
    unknown: { kind: "unknown", why: "503" },
  },
  "cancel-run": {
    accepted: { kind: "accepted" },
    completed: { kind: "completed" },
    "not-ours": { kind: "not-ours" },
    unknown: { kind: "unknown", why: "409" },
  },
  "read-run": {
    completed: { kind: "completed" },
    running: { kind: "running" },
    gone: { kind: "gone" },
    unknown: { kind: "unknown", why: "503" },
  },
  settle: { settled: { kind: "settled" }, unknown: { kind: "unknown", why: "no answer" } },
};

const later = <T>(value: T, change: Partial<T>): T => ({ ...value, ...change });

/** Further answers that a kind alone does not tell apart. */
const variants: { readonly [K in TaskKind]?: Readonly<Record<string, Outcomes[K]>> } = {
  authorize: {
    "admitted, no GPU needed": {
      kind: "admitted",
      terms: TERMS,
      admission: later(ADMISSION, { gpuRequired: false, classification: "docs-only" }),
    },
    "admitted, shadow mode": { kind: "admitted", terms: later(TERMS, { shadow: true }), admission: ADMISSION },
    "admitted, draft": { kind: "admitted", terms: TERMS, admission: later(ADMISSION, { draft: true }) },
    "admitted, start by label": {
      kind: "admitted",
      terms: later(TERMS, { start: "label", startWord: "gpu" }),
      admission: ADMISSION,
    },
    "admitted, quiet period": { kind: "admitted", terms: later(TERMS, { quietPeriod: MINUTE }), admission: ADMISSION },
    "admitted, no trigger workflow": {
      kind: "admitted",
      terms: later(TERMS, { workflows: { ...TERMS.workflows, trigger: null } }),
      admission: ADMISSION,
    },
  },
  recheck: {
    "admitted, no GPU needed any more": {
      kind: "admitted",
      terms: TERMS,
      admission: later(ADMISSION, { gpuRequired: false, classification: "ci-only" }),
    },
    "admitted, a draft again": { kind: "admitted", terms: TERMS, admission: later(ADMISSION, { draft: true }) },
    "admitted, shadow mode by now": { kind: "admitted", terms: later(TERMS, { shadow: true }), admission: ADMISSION },
    "admitted, start by label by now": {
      kind: "admitted",
      terms: later(TERMS, { start: "label", startWord: "gpu" }),
      admission: ADMISSION,
    },
    "stale-inputs, a draft again": {
      kind: "stale-inputs",
      why: "the configuration changed",
      terms: TERMS,
      admission: later(ADMISSION, { draft: true }),
    },
    "stale-inputs, shadow mode by now": {
      kind: "stale-inputs",
      why: "the configuration changed",
      terms: later(TERMS, { shadow: true }),
      admission: ADMISSION,
    },
    "stale-inputs, start by label by now": {
      kind: "stale-inputs",
      why: "the configuration changed",
      terms: later(TERMS, { start: "label", startWord: "gpu" }),
      admission: ADMISSION,
    },
  },
  "create-pod": {
    "created, foreign GPU": { kind: "created", pod: pod({ gpuId: "GPU X" }), ...created },
  },
  "look-up-pod": {
    "listed, cut short": { kind: "listed", startedAt: T0, complete: false, pods: [] },
    "listed, one pod": { kind: "listed", startedAt: T0, complete: true, pods: [pod()] },
    "listed, two pods": { kind: "listed", startedAt: T0, complete: false, pods: [pod(), pod({ id: "pod-2" })] },
  },
  "list-pods": {
    "listed, cut short": { kind: "listed", startedAt: T0, complete: false, alive: false },
    "listed, alive": { kind: "listed", startedAt: T0, complete: true, alive: true },
  },
};

const PULL_LOOKS: Readonly<Record<string, Observation>> = {
  "head moved": { pull: known({ ...PULL, headSha: OTHER_HEAD }) },
  "base moved": { pull: known({ ...PULL, baseRef: "next" }) },
  closed: { pull: known({ ...PULL, open: false }) },
  "pull request 404": { pull: known("gone") },
  "nothing readable": { pull: UNREAD },
};

/** What a look can show, by situation. */
const looks: Readonly<Record<string, Readonly<Record<string, Observation>>>> = {
  "waiting/trigger": {
    ...PULL_LOOKS,
    "no run yet": { pull: known(PULL), triggerRun: known(null) },
    "run started": { pull: known(PULL), triggerRun: known({ runId: "700", status: "in_progress", actor: BOB }) },
    "a draft now": { pull: known({ ...PULL, draft: true }), triggerRun: known(null) },
  },
  "waiting/quiet": {
    ...PULL_LOOKS,
    "still the head": { pull: known(PULL) },
    "a draft now": { pull: known({ ...PULL, draft: true }) },
  },
  "waiting/ready": {
    ...PULL_LOOKS,
    "still a draft": { pull: known({ ...PULL, draft: true }) },
    ready: { pull: known(PULL) },
  },
  "preparing/watch": {
    ...PULL_LOOKS,
    running: { pull: known(PULL), prepareRun: known(PREPARE), preGate: known({ kind: "ready" }) },
    "run 404": { pull: known(PULL), prepareRun: known("gone") },
    "succeeded, pre-gate ready": {
      prepareRun: known({ ...PREPARE, status: "completed", conclusion: "success" }),
      preGate: known({ kind: "ready" }),
    },
    "succeeded, pre-gate runs": {
      prepareRun: known({ ...PREPARE, status: "completed", conclusion: "success" }),
      preGate: known({ kind: "wait", for: ["clippy"] }),
    },
    "succeeded, pre-gate unreadable": {
      prepareRun: known({ ...PREPARE, status: "completed", conclusion: "success" }),
      preGate: UNREAD,
    },
    "pre-gate failed": { prepareRun: known(PREPARE), preGate: known({ kind: "failed", names: ["clippy"] }) },
    "a job failed": {
      prepareRun: known({ ...PREPARE, status: "completed", conclusion: "failure", failedJobs: ["build"] }),
    },
    "failed without a failed job": {
      prepareRun: known({ ...PREPARE, status: "completed", conclusion: "startup_failure" }),
    },
    "cancelled on GitHub": { prepareRun: known({ ...PREPARE, status: "completed", conclusion: "cancelled" }) },
  },
  queued: { ...PULL_LOOKS, "still wanted": { pull: known(PULL) } },
  "provisioning/pause": { ...PULL_LOOKS, "still wanted": { pull: known(PULL) } },
  "provisioning/start": {
    ...PULL_LOOKS,
    "pod starts": { pull: known(PULL), pod: known({ pod: pod({ runtimeUp: false }), getGone: false }) },
    "pod exited": { pod: known({ pod: pod({ status: "EXITED", runtimeUp: null }), getGone: false }) },
    "foreign GPU": { pod: known({ pod: pod({ gpuId: "GPU X" }), getGone: false }) },
    "runner online, no proof": {
      pod: known({ pod: pod(), getGone: false }),
      runner: known({ online: true, busy: false }),
    },
  },
  executing: {
    ...PULL_LOOKS,
    "job waits": { pull: known(PULL), job: known(execute(QUEUED_JOB)), pod: known({ pod: pod(), getGone: false }) },
    "job sets up": { pull: known(PULL), job: known(execute(SETTING_UP)), pod: known({ pod: pod(), getGone: false }) },
    "tests run": { pull: known(PULL), job: known(execute(TESTING)), pod: known({ pod: pod(), getGone: false }) },
    "job passed": { job: known(execute(job())) },
    "job failed its tests": {
      job: known(
        execute(
          job({ conclusion: "failure", steps: [{ name: TEST_STEP, status: "completed", conclusion: "failure" }] }),
        ),
      ),
    },
    "job ended before the tests": { job: known(execute(job({ conclusion: "failure", steps: [] }))) },
    "job cancelled on GitHub": { job: known(execute(job({ conclusion: "cancelled" }))) },
    "run ended without the job": { job: known(execute(null, { runStatus: "completed", runConclusion: "failure" })) },
    "run 404": { job: known("gone") },
    "job on another runner": { job: known(execute(job({ status: "in_progress", conclusion: null, runnerId: "99" }))) },
    "runner busy, job on none": { job: known(execute(QUEUED_JOB)), runner: known({ online: true, busy: true }) },
    "pod exited": { job: known(execute(TESTING)), pod: known({ pod: pod({ status: "EXITED" }), getGone: false }) },
    "pod 404": { job: known(execute(TESTING)), pod: known({ pod: null, getGone: true }) },
    "GitHub silent, pod idle": { job: UNREAD, pod: known({ pod: pod({ idle: true }), getGone: false }) },
  },
  "cleaning/judge": {
    "GitHub silent": { job: UNREAD },
    "job passed": { job: known(execute(job())) },
    "job runs still": { job: known(execute(TESTING)) },
    "job lost its runner": { job: known(execute(job({ conclusion: "failure", steps: [] }))) },
    "run 404": { job: known("gone") },
  },
};

export interface Situation {
  readonly name: string;
  readonly request: GateRequest;
  /** Kind of the task that is under way there; null where there is none. */
  readonly task: TaskKind | null;
}

const TEARDOWN: readonly [Parameters<typeof teardownAt>[0], TaskKind][] = [
  ["deregister-first", "deregister"],
  ["record", "read-record"],
  ["delete", "delete-pod"],
  ["verify", "verify-gone"],
  ["list", "list-pods"],
  ["cancel", "cancel-run"],
  ["await-run", "read-run"],
  ["deregister", "deregister"],
  ["settle", "settle"],
];

function situation(task: TaskKind | null, state: GateRequest["state"]): Situation {
  const request = requestIn(state);
  return { name: where(state), request: task === null ? { ...request, task: null } : request, task };
}

export const situations: readonly Situation[] = [
  situation(null, states.received()),
  situation("authorize", states.authorizing()),
  situation("observe", states.waiting("trigger")),
  situation("observe", states.waiting("ready")),
  situation("observe", states.waiting("quiet")),
  situation("dispatch-prepare", states.preparing("dispatch")),
  situation("find-prepare", states.preparing("find")),
  situation("observe", states.preparing("watch")),
  situation("observe", states.queued()),
  situation("recheck", states.revalidating("recheck")),
  situation("plan", states.revalidating("plan")),
  situation("observe", states.provisioning("pause")),
  situation("reserve", states.provisioning("reserve")),
  situation("mint", states.provisioning("mint")),
  situation("find-runner", states.provisioning("find-runner")),
  situation("dispatch-execute", states.provisioning("dispatch")),
  situation("find-execute", states.provisioning("find-run")),
  situation("create-pod", states.provisioning("create")),
  situation("sleep", states.provisioning("sleep")),
  situation("look-up-pod", states.provisioning("look-up")),
  situation("observe", states.provisioning("start")),
  ...TEARDOWN.map(([step, task]) => situation(task, states.provisioning("teardown", { teardown: teardownAt(step) }))),
  situation("observe", states.executing()),
  ...TEARDOWN.map(([step, task]) => situation(task, states.cleaning(step))),
  situation("observe", states.judging()),
  situation(null, states.concluded()),
];

/** Every event that can reach a situation, by the name its row has. */
export function eventsOf(one: Situation): ReadonlyMap<string, GateEvent> {
  const rows = new Map<string, GateEvent>([
    ["opened", { kind: "opened" }],
    ["hint", { kind: "hint" }],
    ["lock-granted", { kind: "lock-granted", fence: 8 }],
    ["proof", { kind: "proof", attemptId: "r1-1", proof: PROOF }],
    ["exit", { kind: "exit", attemptId: "r1-1", code: 3 }],
    ["stop", { kind: "stop", verdict: STOP, inFlight: false }],
    ["stop (task under way)", { kind: "stop", verdict: STOP, inFlight: true }],
    ["done (abandoned task)", { kind: "done", taskId: 99, done: { task: "sleep", outcome: { sleptMs: 0 } } }],
  ]);
  for (const [name, done] of doneEvents(one)) rows.set(name, { kind: "done", taskId: 1, done });
  return rows;
}

function* doneEvents({ name, task }: Situation): Generator<[string, Done]> {
  if (task === null) return;
  if (task === "observe") {
    for (const [seen, outcome] of Object.entries(looks[name] ?? {})) yield [`observe: ${seen}`, { task, outcome }];
    return;
  }
  if (task === "sleep") return yield ["sleep: over", { task, outcome: { sleptMs: 5_000 } }];
  if (task === "read-record") {
    yield ["read-record: price", { task, outcome: { pricePerHour: 0.25 } }];
    return yield ["read-record: unreadable", { task, outcome: { pricePerHour: null } }];
  }
  const all: Readonly<Record<string, Outcomes[TaskKind]>> = { ...outcomes[task], ...variants[task] };
  for (const [kind, outcome] of Object.entries(all)) yield [`${task}: ${kind}`, { task, outcome } as Done];
}

/** The event kinds that a situation's rows cover. */
export function coveredKinds(rows: ReadonlyMap<string, GateEvent>): readonly EventKind[] {
  const kinds = new Set([...rows.values()].map((event) => event.kind));
  return eventKinds.filter((kind) => kinds.has(kind));
}

/** What a decision did to `before`, as one cell of the table. */
export function said(step: Step, before: GateRequest, now = T0): string {
  if (step.ignored !== null) return `ignored: ${step.ignored}`;
  const { state } = step.request;
  const words: string[] = [];
  if (state.kind === "concluded") words.push(`**ends**: ${state.verdict.kind}, ${state.verdict.reason}`);
  else if (step.task === null) words.push(step.hurry ? "noted, next look now" : "noted");
  else words.push(`${where(state)}: ${step.task.task.kind} ${dueIn(step.task.dueAt - now)}`);
  if (state.kind === "cleaning") {
    const then = `then ${state.verdict.kind}, ${state.verdict.reason}${state.resume === null ? "" : " or a next attempt"}`;
    const was = before.state.kind === "cleaning" ? before.state : null;
    if (was === null || was.verdict !== state.verdict || was.resume !== state.resume) words.push(then);
  }
  if (step.lock !== null) words.push(`lock ${step.lock}`);
  for (const op of step.ledger) words.push(`ledger ${op.kind} ${op.podId}`);
  for (const stray of step.strays) words.push(`stray ${stray.podId}`);
  return words.join("; ");
}

function dueIn(pause: number): string {
  if (pause <= 0) return "at once";
  return pause % MINUTE === 0 ? `in ${pause / MINUTE} min` : `in ${pause / 1_000} s`;
}
