/**
 * The stored record of a request: what the gate knows of one head SHA's way to a verdict.
 *
 * PERSISTED CONTRACT. These schemas are both the types and the parsers of stored rows. Fields are only added, with a
 * default; renaming or removing one needs a migration (docs/storage.md). All ids are strings, all instants milliseconds
 * UTC, all money integer micro-dollars.
 *
 * A request is one record with a `state`. Each arm of the state holds only what is true there. A request has at most one
 * main task under way at any time (`task`): what arrives meanwhile is noted and decided when the task is done.
 */
import * as z from "zod";
import { keepSchema } from "./keep.ts";
import { verdictSchema } from "./verdict.ts";

const millis = z.number();
const micros = z.number().int();

export const actorSchema = z.object({ id: z.string(), login: z.string() });

/** Time limits of one request, milliseconds, as the repository's configuration had them when it was authorised. */
export const limitsSchema = z.object({
  createWalk: millis,
  createBackoffBase: millis,
  createBackoffCap: millis,
  createLookup: millis,
  dispatchLookup: millis,
  preparation: millis,
  queueWait: millis,
  triggerStart: millis,
  startup: millis,
  machineAssigned: millis,
  runnerIdle: millis,
  setup: millis,
  lifetime: millis,
  backstop: millis,
  watchPoll: millis,
  testPoll: millis,
  preparePoll: millis,
  reconcile: millis,
  githubOutageIdle: millis,
  deleteRetry: millis,
  deletePauseMin: millis,
  deletePauseMax: millis,
  newbornGrace: millis,
  absenceSpacing: millis,
  deletionLoudAfter: millis,
  authorizeRetryFor: millis,
});

export type Limits = z.infer<typeof limitsSchema>;

/** What the repository's configuration promised this request. Read once, from the default branch, at authorisation. */
export const termsSchema = z.object({
  configHash: z.string(),
  checkName: z.string(),
  shadow: z.boolean(),
  start: z.enum(["auto", "label", "comment", "approval"]),
  /** Whether a draft waits until it is ready, or is treated like any other. */
  drafts: z.enum(["wait", "run"]).default("wait"),
  startWord: z.string().nullable(),
  workflows: z.object({ trigger: z.string().nullable(), prepare: z.string(), execute: z.string() }),
  preGate: z.array(z.string()),
  testedRevision: z.enum(["merge", "head"]),
  runner: z.object({ scope: z.enum(["repository", "organization"]), groupId: z.string() }),
  evidence: z.object({
    jobName: z.string(),
    testSteps: z.array(z.string()),
    minTests: z.number().int(),
    minDuration: millis,
  }),
  maxAttempts: z.number().int(),
  maxStartupFailures: z.number().int(),
  runnerIdleRetries: z.number().int(),
  podLostRetries: z.number().int(),
  reservation: z.object({ reservedMs: millis }),
  /** How long a head must have stood before it is prepared. */
  quietPeriod: millis.default(0),
  limits: limitsSchema,
});

export type Terms = z.infer<typeof termsSchema>;

/** What authorisation found and admitted. Compared again inside the lock. */
export const admissionSchema = z.object({
  admittedAt: millis,
  defaultBranch: z.string(),
  defaultSha: z.string(),
  /** Blob ids of the prepare and execute workflow files on the default branch at admission. */
  workflowBlobs: z.record(z.string(), z.string()),
  baseRef: z.string(),
  baseSha: z.string(),
  testedSha: z.string(),
  title: z.string(),
  author: actorSchema,
  actor: actorSchema,
  classification: z.string(),
  lanes: z.record(z.string(), z.boolean()),
  gpuRequired: z.boolean(),
  reason: z.string(),
  draft: z.boolean(),
  /** The git tree of `testedSha`; left out where it could not be read. */
  treeSha: z.string().optional(),
  /** A merge group's verdict must stand by then, or the queue gives up on it. */
  endsBy: millis.optional(),
});

export type Admission = z.infer<typeof admissionSchema>;

export const runRefSchema = z.object({ runId: z.string(), attempt: z.number().int() });

export const artifactSchema = z.object({
  id: z.string(),
  name: z.string(),
  digest: z.string().nullable(),
  expiresAt: millis.nullable(),
});

export const preparedSchema = z.object({ run: runRefSchema, artifacts: z.array(artifactSchema), at: millis });

export const candidateSchema = z.object({
  name: z.string(),
  tier: z.string(),
  acceptedIds: z.array(z.string()),
  /** USD per hour as listed; null when only the reviewed order is known. */
  price: z.number().nullable(),
  /** USD per hour of the whole pod above which one of these GPUs is given back; the plan's ceiling when absent. */
  maxPrice: z.number().optional(),
});

export type Candidate = z.infer<typeof candidateSchema>;

/** What a candidate answered, for the table in the verdict. */
export const triedSchema = z.object({ name: z.string(), price: z.number().nullable(), answer: z.string() });

export const planSchema = z.object({
  madeAt: millis,
  candidates: z.array(candidateSchema),
  /** `repository@sha256:...` of the runner image. */
  image: z.string(),
  /** The configured ceiling, USD per hour: no pod may cost more, whatever the plan says. */
  ceilingPrice: z.number(),
  /**
   * Price of the plan's dearest pod, USD per hour: attempts and keepings are reserved at it, and no pod may cost more.
   * Plans from before it was stored reserved the ceiling.
   */
  reservedPrice: z.number().optional(),
  /** Reviewed types that are not tried, with the reason in the place of an answer. */
  leftOut: z.array(triedSchema).optional(),
  /** How the runner's release stands, when that is worth saying. */
  runnerNote: z.string().optional(),
});

export type Plan = z.infer<typeof planSchema>;

/** What a pod of this plan is reserved at and may cost at most, USD per hour. */
export function reservedPriceOf(plan: Pick<Plan, "ceilingPrice" | "reservedPrice">): number {
  return Math.min(plan.reservedPrice ?? plan.ceilingPrice, plan.ceilingPrice);
}

/** The creation walk; see walk.ts. `usedMs` is how much of the one clock its requests and sleeps have used. */
export const walkSchema = z.object({
  index: z.number().int(),
  transientHere: z.number().int(),
  usedMs: millis,
  /** Candidates answered 400 without capacity words so far. */
  invalid: z.number().int(),
  tried: z.array(triedSchema),
});

export type Walk = z.infer<typeof walkSchema>;

export const proofSchema = z.object({
  at: millis,
  podId: z.string(),
  gpuName: z.string(),
  gpuUuid: z.string(),
  vramMb: z.number(),
  driverCuda: z.string(),
  nvrtc: z.string().nullable(),
  /** Whether a kernel was compiled and run on it; absent in proofs from before this was kept. */
  kernel: z.enum(["passed", "off"]).optional(),
  count: z.number().int(),
  scriptHash: z.string().nullable(),
});

export type Proof = z.infer<typeof proofSchema>;

/** One pod name + one single-use runner + one fresh label + one execute run. Everything is stored before it is used. */
export const attemptSchema = z.object({
  id: z.string(),
  number: z.number().int(),
  podName: z.string(),
  label: z.string(),
  reservedMicros: micros,
  runner: z.object({ id: z.string(), name: z.string() }).nullable(),
  proofHash: z.string().nullable(),
  exitHash: z.string().nullable(),
  run: runRefSchema.nullable(),
  /** Candidate the newest create asked for. */
  candidate: candidateSchema.nullable(),
  /** Our clock just before the create request left that bought the pod, or may have. Null: none could have. */
  createSentAt: millis.nullable(),
  /** Our clock when we learned of the pod; the paid window of our estimate starts here. */
  paidFrom: millis.nullable(),
  pod: z
    .object({
      id: z.string(),
      gpuId: z.string().nullable(),
      pricePerHour: z.number().nullable(),
      dataCenterId: z.string().nullable(),
      startedAt: millis.nullable(),
      runtimeSeen: z.boolean(),
      machineSeen: z.boolean(),
    })
    .nullable(),
  /**
   * How its pod came up, by our clock; for the report of its cost. `machineAt`: the first look that showed a machine.
   * `containerAt`: when the container began, by the start script's own word, else the first look that showed it at work.
   */
  boot: z
    .object({ machineAt: millis.nullable(), containerAt: millis.nullable() })
    .default({ machineAt: null, containerAt: null }),
  proof: proofSchema.nullable(),
  onlineAt: millis.nullable(),
  /** The start script's last words. `reason` is one of its own words, `gpuUuid` the card as far as it had come. */
  exit: z
    .object({
      at: millis,
      code: z.number().int().nullable(),
      reason: z.string().nullable().default(null),
      gpuUuid: z.string().nullable().default(null),
    })
    .nullable(),
  /** How often the GPU of the proof had failed an attempt before, in the time that bad hosts are remembered. */
  knownBad: z.number().int().default(0),
  /** Run of a job that is not ours and was given to this attempt's runner. */
  stranger: z.string().nullable().default(null),
});

export type Attempt = z.infer<typeof attemptSchema>;

/** Where the removal of one attempt stands; see teardown.ts. */
export const teardownSchema = z.object({
  step: z.enum([
    "deregister-first",
    "record",
    "delete",
    "verify",
    "list",
    "cancel",
    "await-run",
    "deregister",
    "settle",
  ]),
  startedAt: millis,
  tries: z.number().int(),
  /** DELETE answered 204, or a 404 old enough to count. */
  deletedAt: millis.nullable(),
  getGone: z.boolean(),
  listsAbsent: z.number().int(),
  /** When the last list that counts was here. */
  lastListAt: millis.nullable(),
  provenAt: millis.nullable(),
  cancelSent: z.boolean(),
  loud: z.boolean(),
  /** Last price the record showed, USD per hour. */
  recordPrice: z.number().nullable(),
});

export type Teardown = z.infer<typeof teardownSchema>;

/** What happens once a teardown is complete. */
export const afterwardsSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("conclude"), verdict: verdictSchema }),
  /** Another attempt: at the same candidate on what is left of the clock, or at the following one with a fresh clock. */
  z.object({ kind: z.literal("next-attempt"), freshClock: z.boolean(), advance: z.boolean(), pauseMs: millis }),
]);

export type Afterwards = z.infer<typeof afterwardsSchema>;

const holdSchema = z.object({ fence: z.number().int(), since: millis });

/** Everything a request that holds the lock carries from the re-check to the end. */
const paidSchema = z.object({
  hold: holdSchema,
  prepared: preparedSchema.nullable(),
  backToPreparing: z.number().int(),
});

const resumeSchema = z.object({
  plan: planSchema,
  walk: walkSchema,
  prepared: preparedSchema.nullable(),
  backToPreparing: z.number().int(),
});

export type Resume = z.infer<typeof resumeSchema>;

export const stateSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("received") }),
  z.object({ kind: z.literal("authorizing"), since: millis, tries: z.number().int() }),
  z.object({
    kind: z.literal("waiting"),
    for: z.enum(["trigger", "ready", "quiet"]),
    since: millis,
    until: millis.nullable(),
  }),
  z.object({
    kind: z.literal("preparing"),
    step: z.enum(["dispatch", "find", "watch"]),
    since: millis,
    stepSince: millis,
    run: runRefSchema.nullable(),
    /** Keeps its place when revalidation sent it back. */
    hold: holdSchema.nullable(),
    backToPreparing: z.number().int(),
    vanished: z.number().int(),
  }),
  z.object({
    kind: z.literal("queued"),
    since: millis,
    seq: z.number().int(),
    prepared: preparedSchema,
    backToPreparing: z.number().int(),
  }),
  paidSchema.extend({
    kind: z.literal("revalidating"),
    step: z.enum(["recheck", "plan"]),
    since: millis,
    tries: z.number().int(),
  }),
  paidSchema.extend({
    kind: z.literal("provisioning"),
    step: z.enum([
      "pause",
      "reserve",
      "mint",
      "find-runner",
      "dispatch",
      "find-run",
      "create",
      "sleep",
      "look-up",
      "start",
      "teardown",
    ]),
    since: millis,
    stepSince: millis,
    stepTries: z.number().int(),
    /** Since when GitHub shows nothing of a proven pod at which nobody looked at its deadline; left out while it does. */
    unheardSince: millis.optional(),
    plan: planSchema,
    walk: walkSchema,
    attempt: attemptSchema.nullable(),
    teardown: teardownSchema.nullable(),
    afterwards: afterwardsSchema.nullable(),
    /** Why the attempt being removed was rejected, if it was. */
    rejection: verdictSchema.nullable(),
    /** Start times of the two complete lists a look-up needs. */
    lookupLists: z.array(millis),
    /** The look-up has lasted so long that the check says so; the request then buys nothing more. */
    lookupLoud: z.boolean().optional(),
    /** Before this instant RunPod asked not to be asked again; its answer was unclear, so the look-up came first. */
    retryAt: millis.nullable().default(null),
  }),
  paidSchema.extend({
    kind: z.literal("executing"),
    since: millis,
    plan: planSchema,
    walk: walkSchema,
    attempt: attemptSchema,
    testsStarted: z.boolean(),
    jobId: z.string().nullable(),
    /** Since when GitHub has not answered. */
    githubSilentSince: millis.nullable(),
    /** Since when the pod is idle by RunPod's own metrics. */
    idleSince: millis.nullable(),
    /** Complete observations in a row that did not show the pod. */
    absent: z.number().int(),
    runMissing: z.number().int(),
    /** Looks in a row at which our runner was busy and our job was on no runner. */
    strangeLooks: z.number().int().default(0),
    /** Since when GitHub says that the ended job's check, with its evidence, is gone. */
    checkGoneSince: millis.nullable().default(null),
  }),
  z.object({
    kind: z.literal("cleaning"),
    step: z.enum(["remove", "judge"]),
    since: millis,
    hold: holdSchema.nullable(),
    attempt: attemptSchema.nullable(),
    /** Prepare run to cancel, when the request ended before it was used up. */
    prepareRun: runRefSchema.nullable(),
    teardown: teardownSchema,
    verdict: verdictSchema,
    /**
     * The pod was given up before its job was read (it exited, vanished, or idled while GitHub was silent): once absence
     * is proven the job decides, and if it says nothing, `resume` is where the next attempt starts from.
     */
    resume: resumeSchema.nullable(),
    lockReleased: z.boolean(),
    /** The GPU job ended by itself: its run is read to its end, not cancelled. */
    jobEnded: z.boolean(),
  }),
  z.object({ kind: z.literal("concluded"), at: millis, verdict: verdictSchema }),
]);

export type RequestState = z.infer<typeof stateSchema>;
export type StateKind = RequestState["kind"];
export const stateKinds: readonly StateKind[] = [
  "received",
  "authorizing",
  "waiting",
  "preparing",
  "queued",
  "revalidating",
  "provisioning",
  "executing",
  "cleaning",
  "concluded",
];

/** What the gate has said on GitHub about this request. Written by the check publisher alone. */
export const checkSchema = z.object({
  /** A concluded check run is never touched again; a later word is a new run, the next in the series. */
  series: z.number().int(),
  checkRunId: z.string().nullable(),
  published: z.string().nullable(),
  completed: z.boolean(),
  /** The completed run only said that deletion is unproven: the real verdict follows as a new run. */
  saidUnproven: z.boolean().default(false),
  /** A create was sent again after a lost answer: once completed, the other one is looked for and completed as well. */
  mayHaveTwins: z.boolean().default(false),
  /** When GitHub last took a word of it; absent: never, or before this was kept. */
  writtenAt: millis.optional(),
});

/** A merge queue's group, as GitHub named it when it asked for checks. */
export const groupSchema = z.object({ headRef: z.string(), baseSha: z.string(), baseRef: z.string() });

export type Group = z.infer<typeof groupSchema>;

/** Another open pull request at a commit, whose change against its base decided about this one as well. */
const heldBySchema = z.object({ prNumber: z.number().int(), baseRef: z.string() });

export type HeldBy = z.infer<typeof heldBySchema>;

export const requestSchema = z.object({
  id: z.string(),
  kind: z.enum(["pull-request", "merge-group", "recovery", "validation"]),
  prNumber: z.number().int().nullable(),
  headSha: z.string(),
  /**
   * The branch its pull request was last said to target, at the opening or while it was open: a hint. What it was admitted
   * for is in `admission`. Absent: not said.
   */
  baseRef: z.string().optional(),
  /** The one commit a validation tests, resolved before the request was opened; null for every other kind. */
  revision: z.string().nullable().default(null),
  /** The merge group it is for; left out for every other kind. */
  group: groupSchema.optional(),
  /** The operator's cap for this run, in place of the configured ones; left out as a rule. */
  liftedMicros: micros.optional(),
  /** Other pull requests with the same head, told of while this request was open: the check is theirs as well. */
  alsoPulls: z.array(z.number().int()).optional(),
  /**
   * Who told of another pull request with the same head, by its number, and with which base: the actor of the request that
   * asks about it, if one does. Told while this request was open, or while its answer stood. Unknown where it is left out.
   */
  alsoBy: z.record(z.string(), actorSchema.extend({ baseRef: z.string().optional() })).optional(),
  /** It was refused for the sake of this other pull request alone; left out for every other end. */
  heldBy: heldBySchema.optional(),
  generation: z.number().int(),
  openedAt: millis,
  openedBy: z.object({ row: z.number().int(), actor: actorSchema.nullable() }),
  approvedBy: actorSchema.nullable(),
  /** Who caused the paid work: the opener until the trigger run names its own actor. */
  actor: actorSchema.nullable(),
  triggerSeen: z.boolean(),
  terms: termsSchema.nullable(),
  admission: admissionSchema.nullable(),
  prepared: preparedSchema.nullable(),
  /** Attempts begun, pods bought, pods in a row whose runner never registered, and the retries used. */
  counts: z.object({
    attempts: z.number().int(),
    pods: z.number().int(),
    startupFailures: z.number().int(),
    idleRetries: z.number().int(),
    lostRetries: z.number().int(),
    outageRetries: z.number().int(),
  }),
  /** Sum of closed ledger lines, micro-dollars, and of the reported paid time, ms. */
  spentMicros: micros,
  paidMs: millis,
  gpu: z.string().nullable(),
  /** Whether the pod whose job ran had run a kernel before; see the proof. */
  kernel: z.enum(["passed", "off"]).optional(),
  pricePerHour: z.number().nullable(),
  tests: z.object({ count: z.number().int(), seconds: z.number().nullable() }).nullable(),
  failedSteps: z.array(z.string()),
  runUrl: z.string().nullable(),
  tried: z.array(triedSchema),
  /** Reviewed GPUs that the plan left out, with the reason. */
  leftOut: z.array(triedSchema).default([]),
  runnerNote: z.string().nullable().default(null),
  /** An operator's or a user's word to end this request, decided at the next step. */
  stop: verdictSchema.nullable(),
  /** Looks in a row at which GitHub did not know the pull request. */
  pullMissing: z.number().int().default(0),
  /** Somebody's word to keep this request's pod for debugging. */
  keep: keepSchema.optional(),
  /** What its pods cost, by stage, as Markdown for the check's details. Written by the cost reports alone. */
  costReport: z.string().optional(),
  check: checkSchema,
  /** The main task under way or scheduled: its outcome counts only with this id. */
  task: z.object({ id: z.number().int(), kind: z.string() }).nullable(),
  state: stateSchema,
});

export type GateRequest = z.infer<typeof requestSchema>;

export type StateOf<K extends StateKind> = Extract<RequestState, { kind: K }>;
