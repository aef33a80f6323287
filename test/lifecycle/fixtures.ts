/**
 * One valid record of a request for every state it can be in, and the small pieces such records are made of. Each test
 * changes one thing of it. Time stands still at `T0`, where every state has just been entered.
 */
import { configFrom } from "../../shared/config/load.ts";
import { termsFrom } from "../../shared/config/terms.ts";
import { decide, type GateEvent } from "../../shared/lifecycle/decide.ts";
import { attemptSchema } from "../../shared/lifecycle/model.ts";
import type {
  Admission,
  Attempt,
  Candidate,
  GateRequest,
  Limits,
  Plan,
  Proof,
  RequestState,
  Resume,
  StateOf,
  Teardown,
  Terms,
} from "../../shared/lifecycle/model.ts";
import { newRequest } from "../../shared/lifecycle/new-request.ts";
import { unreachable } from "../../shared/result.ts";
import type { Step, Surroundings } from "../../shared/lifecycle/step.ts";
import type { Done, ExecuteFacts, JobFacts, PodFacts, PullFacts, Seen } from "../../shared/lifecycle/tasks.ts";
import { newTeardown } from "../../shared/lifecycle/teardown.ts";
import { verdict, type Verdict } from "../../shared/lifecycle/verdict.ts";
import { newWalk } from "../../shared/lifecycle/walk.ts";

export const T0 = Date.UTC(2026, 10, 30, 12);
export const SECOND = 1_000;
export const MINUTE = 60_000;

export const HEAD = "a".repeat(40);
export const OTHER_HEAD = "b".repeat(40);
export const TESTED = "e".repeat(40);
export const ALICE = { id: "11", login: "alice" };
export const BOB = { id: "12", login: "bob" };

/** The numbers of the design's section 5, as the default configuration gives them. */
export const TERMS: Terms = {
  ...termsFrom(configFrom(), "config-1"),
  workflows: { trigger: ".github/workflows/ci.yml", prepare: "prepare.yml", execute: "execute.yml" },
};
export const LIMITS: Limits = TERMS.limits;
export const TEST_STEP = TERMS.evidence.testSteps[0] ?? "";

export const ADMISSION: Admission = {
  admittedAt: T0,
  defaultBranch: "main",
  defaultSha: "d".repeat(40),
  workflowBlobs: { "prepare.yml": "1", "execute.yml": "2" },
  baseRef: "main",
  baseSha: "c".repeat(40),
  testedSha: TESTED,
  title: "Make it faster",
  author: ALICE,
  actor: ALICE,
  classification: "code",
  lanes: { gpu: true },
  gpuRequired: true,
  reason: "src/lib.rs changed",
  draft: false,
};

export const CANDIDATES: readonly Candidate[] = ["A", "B", "C"].map((letter, index) => ({
  name: `candidate-${letter}`,
  tier: "first",
  acceptedIds: [`GPU ${letter}`],
  price: 0.2 + index / 10,
}));

export const PLAN: Plan = {
  madeAt: T0,
  candidates: [...CANDIDATES],
  image: `registry.test/runner@sha256:${"0".repeat(64)}`,
  ceilingPrice: 1.6,
};

export const RUN = { runId: "900", attempt: 1 };
export const PREPARE_RUN = { runId: "800", attempt: 1 };
export const PREPARED = { run: PREPARE_RUN, artifacts: [], at: T0 };
export const HOLD = { fence: 7, since: T0 };

export const PROOF: Proof = {
  at: T0,
  podId: "pod-1",
  gpuName: "GPU A",
  gpuUuid: "GPU-uuid-1",
  vramMb: 16_000,
  driverCuda: "12.8",
  nvrtc: "12.8",
  count: 1,
  scriptHash: "hash",
};

/** How much of an attempt there is: each kind has everything the ones before it have. */
export type AttemptStage = "new" | "minted" | "dispatched" | "asked" | "ambiguous" | "bought" | "proven" | "online";
const STAGES: readonly AttemptStage[] = [
  "new",
  "minted",
  "dispatched",
  "asked",
  "ambiguous",
  "bought",
  "proven",
  "online",
];

export function attemptAt(stage: AttemptStage, change: Partial<Attempt> = {}): Attempt {
  const has = (wanted: AttemptStage) => STAGES.indexOf(stage) >= STAGES.indexOf(wanted);
  // Through the schema: a field that was added later has the default that stored rows get.
  const plain = attemptSchema.parse({
    id: "r1-1",
    number: 1,
    podName: "gpu-gate-r1-1",
    label: "gpu-gate-nonce",
    reservedMicros: 1_920_000,
    runner: has("minted") ? { id: "41", name: "gpu-gate-r1-1" } : null,
    proofHash: has("minted") ? "proof-hash" : null,
    exitHash: has("minted") ? "exit-hash" : null,
    run: has("dispatched") ? RUN : null,
    candidate: has("asked") ? (CANDIDATES[0] ?? null) : null,
    createSentAt: has("ambiguous") ? T0 : null,
    paidFrom: has("bought") ? T0 : null,
    pod: has("bought")
      ? {
          id: "pod-1",
          gpuId: "GPU A",
          pricePerHour: 0.2,
          dataCenterId: "EU-1",
          startedAt: null,
          runtimeSeen: false,
          machineSeen: true,
        }
      : null,
    proof: has("proven") ? PROOF : null,
    onlineAt: has("online") ? T0 : null,
    exit: null,
  });
  return { ...plain, ...change };
}

/** The pod as RunPod shows it: alive, and the one that was asked for. */
export function pod(change: Partial<PodFacts> = {}): PodFacts {
  return {
    id: "pod-1",
    name: "gpu-gate-r1-1",
    status: "RUNNING",
    gpuId: "GPU A",
    gpuCount: 1,
    cloud: "SECURE",
    dataCenterId: "EU-1",
    machineAssigned: true,
    runtimeUp: true,
    idle: false,
    pricePerHour: 0.2,
    startedAt: T0,
    ...change,
  };
}

/** The GPU job, green with every piece of evidence. */
export function job(change: Partial<JobFacts> = {}): JobFacts {
  return {
    id: "501",
    status: "completed",
    conclusion: "success",
    runnerId: "41",
    startedAt: T0,
    completedAt: T0 + 5 * MINUTE,
    steps: [{ name: TEST_STEP, status: "completed", conclusion: "success" }],
    url: "https://github.test/job/501",
    evidence: { tests: 12, seconds: 200 },
    failures: [],
    ...change,
  };
}

/** The job before anybody took it, and while it sets itself up. */
export const QUEUED_JOB = job({
  status: "queued",
  conclusion: null,
  runnerId: null,
  startedAt: null,
  completedAt: null,
  steps: [],
  evidence: null,
});
export const SETTING_UP = job({
  status: "in_progress",
  conclusion: null,
  completedAt: null,
  steps: [{ name: "Checkout", status: "in_progress", conclusion: null }],
  evidence: null,
});
export const TESTING = job({
  status: "in_progress",
  conclusion: null,
  completedAt: null,
  steps: [{ name: TEST_STEP, status: "in_progress", conclusion: null }],
  evidence: null,
});

export function execute(theJob: JobFacts | null, change: Partial<ExecuteFacts> = {}): ExecuteFacts {
  const done = theJob?.status === "completed";
  return {
    runStatus: done ? "completed" : "in_progress",
    runConclusion: done ? theJob.conclusion : null,
    latestAttempt: 1,
    job: theJob,
    ...change,
  };
}

export function known<T>(value: T): Seen<T> {
  return { known: true, value };
}
export const UNREAD: Seen<never> = { known: false, why: "503", retryAt: null };

export const PULL: PullFacts = { open: true, headSha: HEAD, baseRef: "main", headRepositoryId: "101", draft: false };

export const STOP: Verdict = verdict("cancelled", "cancelled-by-operator", "An operator ended it.");
export const LOST: Verdict = verdict("infrastructure", "pod-lost", "The container stopped.");

export const RESUME: Resume = { plan: PLAN, walk: newWalk(), prepared: PREPARED, backToPreparing: 0 };

/** A removal that stands at `step`, with all that the steps before it have found. */
export function teardownAt(step: Teardown["step"], change: Partial<Teardown> = {}): Teardown {
  const order = [
    "deregister-first",
    "record",
    "delete",
    "verify",
    "list",
    "cancel",
    "await-run",
    "deregister",
    "settle",
  ];
  const past = (earlier: Teardown["step"]) => order.indexOf(step) > order.indexOf(earlier);
  return {
    ...newTeardown(T0),
    step,
    deletedAt: past("delete") ? T0 : null,
    getGone: past("verify"),
    listsAbsent: past("list") ? 2 : 0,
    lastListAt: past("list") ? T0 : null,
    provenAt: past("list") ? T0 : null,
    cancelSent: past("cancel"),
    recordPrice: past("record") ? 0.2 : null,
    ...change,
  };
}

const PROVISIONING_STAGE: Readonly<Record<StateOf<"provisioning">["step"], AttemptStage | null>> = {
  pause: null,
  reserve: "new",
  mint: "new",
  "find-runner": "new",
  dispatch: "minted",
  "find-run": "minted",
  create: "asked",
  sleep: "asked",
  "look-up": "ambiguous",
  start: "bought",
  teardown: "bought",
};

/** Every state with its step, valid and just entered. */
export const states = {
  received: (): RequestState => ({ kind: "received" }),
  authorizing: (): StateOf<"authorizing"> => ({ kind: "authorizing", since: T0, tries: 0 }),
  waiting: (what: StateOf<"waiting">["for"], change: Partial<StateOf<"waiting">> = {}): StateOf<"waiting"> => ({
    kind: "waiting",
    for: what,
    since: T0,
    until: what === "ready" ? null : T0 + (what === "quiet" ? MINUTE : LIMITS.triggerStart),
    ...change,
  }),
  preparing: (
    step: StateOf<"preparing">["step"],
    change: Partial<StateOf<"preparing">> = {},
  ): StateOf<"preparing"> => ({
    kind: "preparing",
    step,
    since: T0,
    stepSince: T0,
    run: step === "watch" ? PREPARE_RUN : null,
    hold: null,
    backToPreparing: 0,
    vanished: 0,
    ...change,
  }),
  queued: (change: Partial<StateOf<"queued">> = {}): StateOf<"queued"> => ({
    kind: "queued",
    since: T0,
    seq: 1,
    prepared: PREPARED,
    backToPreparing: 0,
    ...change,
  }),
  revalidating: (
    step: StateOf<"revalidating">["step"],
    change: Partial<StateOf<"revalidating">> = {},
  ): StateOf<"revalidating"> => ({
    kind: "revalidating",
    step,
    since: T0,
    tries: 0,
    hold: HOLD,
    prepared: PREPARED,
    backToPreparing: 0,
    ...change,
  }),
  provisioning: (
    step: StateOf<"provisioning">["step"],
    change: Partial<StateOf<"provisioning">> = {},
  ): StateOf<"provisioning"> => {
    const stage = PROVISIONING_STAGE[step];
    return {
      kind: "provisioning",
      step,
      since: T0,
      stepSince: T0,
      stepTries: 0,
      hold: HOLD,
      prepared: PREPARED,
      backToPreparing: 0,
      plan: PLAN,
      walk: newWalk(),
      attempt: stage === null ? null : attemptAt(stage),
      teardown: step === "teardown" ? teardownAt("record") : null,
      afterwards:
        step === "teardown" || step === "pause"
          ? { kind: "next-attempt", freshClock: step === "teardown", advance: step === "teardown", pauseMs: 0 }
          : null,
      rejection:
        step === "teardown" || step === "pause" ? verdict("infrastructure", "startup", "The pod was not ready.") : null,
      lookupLists: [],
      retryAt: null,
      ...change,
    };
  },
  executing: (change: Partial<StateOf<"executing">> = {}): StateOf<"executing"> => ({
    kind: "executing",
    since: T0,
    hold: HOLD,
    prepared: PREPARED,
    backToPreparing: 0,
    plan: PLAN,
    walk: newWalk(),
    attempt: attemptAt("online"),
    testsStarted: false,
    jobId: null,
    githubSilentSince: null,
    idleSince: null,
    absent: 0,
    runMissing: 0,
    strangeLooks: 0,
    checkGoneSince: null,
    ...change,
  }),
  cleaning: (step: Teardown["step"], change: Partial<StateOf<"cleaning">> = {}): StateOf<"cleaning"> => ({
    kind: "cleaning",
    step: "remove",
    since: T0,
    hold: HOLD,
    attempt: attemptAt("online"),
    prepareRun: null,
    teardown: teardownAt(step),
    verdict: verdict("superseded", "head-moved", "The head moved."),
    resume: null,
    // The lock passes on with the proof.
    lockReleased: teardownAt(step).provenAt !== null,
    jobEnded: false,
    ...change,
  }),
  judging: (change: Partial<StateOf<"cleaning">> = {}): StateOf<"cleaning"> => ({
    ...states.cleaning("list", { verdict: LOST, resume: RESUME }),
    step: "judge",
    teardown: teardownAt("list", { provenAt: T0, listsAbsent: 2 }),
    ...change,
  }),
  concluded: (): StateOf<"concluded"> => ({ kind: "concluded", at: T0, verdict: STOP }),
} as const;

/** A pull request's request in `state`, admitted if it is past that, with task 1 as its current one. */
export function requestIn(state: RequestState, change: Partial<GateRequest> = {}): GateRequest {
  const fresh = newRequest(
    "r1",
    { kind: "pull-request", prNumber: 7, headSha: HEAD, generation: 1, row: 1, actor: ALICE, approvedBy: null },
    T0,
  );
  const early = state.kind === "received" || state.kind === "authorizing";
  const bought = "attempt" in state && state.attempt !== null && state.attempt.pod !== null;
  const begun = state.kind === "provisioning" || state.kind === "executing" || state.kind === "cleaning";
  return {
    ...fresh,
    terms: early ? null : TERMS,
    admission: early ? null : ADMISSION,
    prepared: early || state.kind === "waiting" ? null : PREPARED,
    counts: { ...fresh.counts, attempts: begun ? 1 : 0, pods: bought ? 1 : 0 },
    task: { id: 1, kind: "any" },
    state,
    ...change,
  };
}

export function around(now = T0, change: Partial<Surroundings> = {}): Surroundings {
  return { now, jitter: 0.5, nonce: "nonce", deployment: "test", repositoryId: "101", ...change };
}

/** The current task's outcome arrives. */
export function tell(request: GateRequest, done: Done, now = T0): Step {
  return decide(request, { kind: "done", taskId: request.task?.id ?? 1, done }, around(now));
}

export function happen(request: GateRequest, event: GateEvent, now = T0): Step {
  return decide(request, event, around(now));
}

/** The verdict a step concluded with; fails when it did not conclude. */
export function verdictOf(step: Step): Verdict {
  const { state } = step.request;
  if (state.kind !== "concluded") throw new Error(`not concluded but ${where(state)}`);
  return state.verdict;
}

/** The verdict that stands when what is being removed is proven gone. */
export function pendingVerdict(step: Step): Verdict {
  const { state } = step.request;
  if (state.kind === "concluded" || state.kind === "cleaning") return state.verdict;
  throw new Error(`no verdict in ${where(state)}`);
}

/** State and step, as the table in docs/states.md names them. */
export function where(state: RequestState): string {
  switch (state.kind) {
    case "waiting":
      return `waiting/${state.for}`;
    case "preparing":
    case "revalidating":
      return `${state.kind}/${state.step}`;
    case "provisioning":
      return state.step === "teardown"
        ? `provisioning/teardown/${state.teardown?.step ?? "?"}`
        : `provisioning/${state.step}`;
    case "cleaning":
      return state.step === "judge" ? "cleaning/judge" : `cleaning/${state.teardown.step}`;
    case "received":
    case "authorizing":
    case "queued":
    case "executing":
    case "concluded":
      return state.kind;
    default:
      return unreachable(state, "state");
  }
}
