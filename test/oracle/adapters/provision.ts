/**
 * Feeds the provision corpus to the provisioning states, from the plan to an accepted pod or an end. The adapter is the
 * shell: it answers each task by the case's script on a fake clock. The reads that prove a deletion cost nothing here, and
 * lists need no spacing: upstream has neither. A pod gives its proof as soon as it is bought: upstream's runner registers
 * only behind it.
 */
import { podFacts } from "../../../durable-objects/gate/observe.ts";
import type { Candidate } from "../../../shared/lifecycle/model.ts";
import type { Outcomes, Task } from "../../../shared/lifecycle/tasks.ts";
import { parseLegacyPod } from "../../../shared/runpod/pod.ts";
import {
  known,
  LIMITS,
  OTHER_HEAD,
  PLAN,
  PROOF,
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

interface Poll {
  readonly desired?: string | null;
  readonly runtime?: boolean | null;
  readonly online?: boolean;
}

interface Attempt {
  readonly create?: string;
  readonly polls?: readonly Poll[];
  readonly deleteFails?: boolean;
  readonly mintFails?: boolean;
  readonly record?: Readonly<Record<string, unknown>>;
}

interface End {
  readonly type: string;
  readonly [field: string]: unknown;
}

interface Wanted {
  readonly outcome: End;
  readonly calls: readonly string[];
  readonly elapsed: number;
}

const CREATE_MS = 2_000;
const DELETE_MS = 1_000;

export const adapter: CorpusAdapter = {
  corpus: "provision",
  run: (testCase) => {
    const wanted = testCase["expected"] as Wanted;
    const actual = new Provisioning(testCase).play();
    if (same(wanted, actual)) return { pass: true, expected: wanted, actual };
    const fewer = withoutRefusedAttempts(wanted, testCase);
    if (fewer !== null) {
      return { pass: fewer.fits(actual), expected: fewer.demanded, actual, overruledBy: "attempts-count-pods" };
    }
    const zero = (testCase["attempts"] as readonly Attempt[]).some((one) => one.record?.["adjustedCostPerHr"] === 0);
    if (zero && same({ ...wanted, outcome: { ...wanted.outcome, costPerHr: actual.outcome["costPerHr"] } }, actual)) {
      return { pass: true, expected: wanted, actual, overruledBy: "zero-price-is-none" };
    }
    return { pass: false, expected: wanted, actual };
  },
};

class Provisioning {
  readonly #attempts: readonly Attempt[];
  readonly #prefix: string;
  readonly #obsoleteFrom: number | null;
  readonly #calls: string[] = [];
  readonly #story: Story;
  readonly #names: readonly string[];
  #mints = 0;
  #polls = 0;
  #leaked = false;
  #boughtAt = 0;

  constructor(testCase: CorpusCase) {
    const config = testCase["config"] as Readonly<Record<string, number>>;
    const plan = testCase["plan"] as readonly (readonly [string, readonly string[]])[];
    this.#attempts = testCase["attempts"] as readonly Attempt[];
    this.#prefix = String(testCase["labelPrefix"]);
    this.#obsoleteFrom = typeof testCase["obsoleteFrom"] === "number" ? testCase["obsoleteFrom"] : null;
    this.#names = plan.map(([name]) => name);
    const pollMs = (config["startupPollSeconds"] ?? 10) * 1000;
    const terms = {
      ...TERMS,
      maxAttempts: config["maxProvisionAttempts"] ?? TERMS.maxAttempts,
      maxStartupFailures: config["maxConsecutiveStartupFailures"] ?? TERMS.maxStartupFailures,
      limits: {
        ...LIMITS,
        startup: (config["startupTimeoutSeconds"] ?? 600) * 1000,
        machineAssigned: Infinity,
        watchPoll: pollMs,
        testPoll: pollMs,
        absenceSpacing: 0,
      },
    };
    const counts = requestIn(states.queued()).counts;
    this.#story = new Story(requestIn(states.revalidating("recheck"), { terms, counts }));
    this.#story.task = { task: { kind: "recheck" }, dueAt: T0 };
    // The last look inside the lock is upstream's look before its first candidate.
    if (this.#obsolete()) {
      this.#story.answer("recheck", outcomes.recheck.moved);
      return;
    }
    this.#story.answer("recheck", { ...outcomes.recheck.admitted, terms });
    const candidates = plan.map(([name, ids]): Candidate => ({ name, tier: name, acceptedIds: [...ids], price: null }));
    this.#story.answer("plan", { kind: "planned", plan: { ...PLAN, candidates, ceilingPrice: Infinity } });
  }

  play() {
    const story = this.#story;
    for (
      let steps = 0;
      steps < 5_000 && story.kind !== "executing" && story.task !== null && !this.#leaked;
      steps += 1
    ) {
      this.#perform(story.task.task);
      this.#tellLedger();
    }
    return { outcome: this.#outcome(), calls: this.#calls, elapsed: (story.now - T0) / 1000 };
  }

  #perform(task: Task): void {
    const story = this.#story;
    // A task is performed when it is due: what it sees is what is true then.
    story.now = Math.max(story.now, story.task?.dueAt ?? 0);
    if (task.kind === "reserve") story.answer("reserve", outcomes.reserve.reserved);
    else if (task.kind === "mint") this.#mint();
    else if (task.kind === "dispatch-execute") story.answer(task.kind, outcomes["dispatch-execute"].dispatched);
    else if (task.kind === "create-pod") this.#create(task.candidate);
    else if (task.kind === "observe") story.observe(this.#look());
    else if (task.kind === "delete-pod") this.#delete(task.podId);
    else story.remove("delete-pod");
  }

  #mint(): void {
    this.#mints += 1;
    this.#calls.push(`mint ${this.#prefix}-c${this.#mints}`);
    const fails = this.#attempts[this.#index()]?.mintFails === true;
    this.#story.answer("mint", fails ? outcomes.mint.refused : outcomes.mint.minted);
  }

  /** Candidates and scripted attempts go together. */
  #index(): number {
    return this.#story.state("provisioning").walk.index;
  }

  #obsolete(): boolean {
    return this.#obsoleteFrom !== null && this.#story.now - T0 >= this.#obsoleteFrom * 1000;
  }

  #create(candidate: Candidate): void {
    const story = this.#story;
    if (this.#obsolete()) return void story.answer("create-pod", outcomes["create-pod"].obsolete);
    const index = this.#names.indexOf(candidate.name);
    const script = this.#attempts[index];
    this.#calls.push(`create ${candidate.name}`);
    const how = script?.create ?? "retryable-error";
    if (how === "retryable-error") {
      return void story.answer("create-pod", { kind: "capacity", elapsedMs: CREATE_MS }, CREATE_MS);
    }
    if (how === "permanent-error") {
      const stop = { kind: "stop", reason: "request-invalid", detail: "refused", elapsedMs: CREATE_MS } as const;
      return void story.answer("create-pod", stop, CREATE_MS);
    }
    this.#polls = 0;
    const gpuId = how === "assigned-gpu-error" ? "" : candidate.acceptedIds[0];
    const pod = this.#pod(index, { desired: "RUNNING", runtime: null }, gpuId);
    // Upstream counts a pod's time from the answer, which is where its create ends.
    this.#boughtAt = story.now + CREATE_MS;
    story.answer("create-pod", { kind: "created", pod, sentAt: this.#boughtAt, elapsedMs: CREATE_MS }, CREATE_MS);
    const attempt = story.kind === "provisioning" ? story.state("provisioning").attempt : null;
    if (attempt === null) return;
    const proof = { ...PROOF, podId: pod.id, gpuName: candidate.acceptedIds[0] ?? "" };
    story.event({ kind: "proof", attemptId: attempt.id, proof });
  }

  #pod(index: number, poll: Poll, gpuId: string | undefined) {
    const runtime = poll.runtime === true ? { uptimeInSeconds: 1 } : poll.runtime === false ? null : undefined;
    const record = this.#attempts[index]?.record ?? { costPerHr: 0.44 };
    const value = {
      id: `pod${index + 1}`,
      desiredStatus: poll.desired,
      runtime,
      machine: { gpuTypeId: gpuId },
      ...record,
    };
    const parsed = parseLegacyPod(value);
    if (!parsed.ok) throw new Error(`the case's pod does not read: ${parsed.what}`);
    return podFacts(parsed.pod);
  }

  #look(): Outcomes["observe"] {
    const pull = known({ ...PULL, headSha: this.#obsolete() ? OTHER_HEAD : PULL.headSha });
    if (this.#story.at !== "provisioning/start") return { pull };
    const index = this.#index();
    const polls = this.#attempts[index]?.polls ?? [];
    const poll = polls[Math.min(this.#polls, polls.length - 1)] ?? {};
    this.#polls += 1;
    const gpuId = this.#story.state("provisioning").attempt?.candidate?.acceptedIds[0];
    const readable = typeof poll.desired === "string";
    return {
      pull,
      pod: readable ? known({ pod: this.#pod(index, poll, gpuId), getGone: false }) : UNREAD,
      runner: known({ online: poll.online === true, busy: false }),
    };
  }

  #delete(podId: string): void {
    const story = this.#story;
    this.#calls.push(`delete ${podId}`);
    const index = Number(podId.slice("pod".length)) - 1;
    if (this.#attempts[index]?.deleteFails !== true) {
      return void story.answer("delete-pod", outcomes["delete-pod"].deleted, DELETE_MS);
    }
    story.answer("delete-pod", outcomes["delete-pod"].unknown, DELETE_MS);
    const now = story.now;
    // It is asked for again and again, and for nothing else: that is the leak upstream reports.
    for (let times = 0; times < 20; times += 1) story.answer("delete-pod", outcomes["delete-pod"].unknown);
    story.now = now;
    this.#leaked = true;
  }

  #tellLedger(): void {
    for (const op of this.#story.ledger.splice(0)) if (op.kind === "open") this.#publish(op.podId);
  }

  /** The pod's id is kept before it is deleted: the ledger line is written with the create's answer. */
  #publish(podId: string): void {
    this.#calls.push(`publish ${podId}`);
  }

  #outcome(): End {
    const story = this.#story;
    if (this.#leaked) return { type: "pod-leak" };
    if (story.kind === "executing") {
      const { attempt } = story.state("executing");
      return {
        type: "accepted",
        podId: attempt.pod?.id,
        tier: attempt.candidate?.name,
        label: `${this.#prefix}-c${this.#mints}`,
        attempts: attempt.number,
        startupSeconds: (story.now - this.#boughtAt) / 1000,
        costPerHr: story.request.pricePerHour,
      };
    }
    const { kind, reason } = story.verdict;
    if (kind === "superseded" || kind === "closed") return { type: "obsolete" };
    if (reason === "runner-config" || reason === "request-invalid") return { type: "permanent-error" };
    return { type: "exhausted", earlyStop: reason === "startup" };
  }
}

function same(wanted: Wanted, actual: Wanted): boolean {
  return (
    sameEnd(wanted.outcome, actual.outcome) &&
    JSON.stringify(wanted.calls) === JSON.stringify(actual.calls) &&
    Math.abs(wanted.elapsed - actual.elapsed) < 1e-6
  );
}

function sameEnd(wanted: End, actual: End): boolean {
  if (wanted.type !== actual.type) return false;
  if ((wanted["earlyStop"] === true) !== (actual["earlyStop"] === true)) return false;
  if (wanted.type !== "accepted") return true;
  return ["podId", "tier", "label", "attempts", "startupSeconds", "costPerHr"].every(
    (key) => wanted[key] === undefined || wanted[key] === actual[key],
  );
}

/**
 * What upstream's expectation becomes when a refused create uses up no attempt and mints nothing: the mints behind refusals
 * are gone, the others renumbered, and the plan is not cut to the number of attempts. Null when nothing was refused.
 */
function withoutRefusedAttempts(wanted: Wanted, testCase: CorpusCase) {
  const calls: string[] = [];
  let refused = false;
  let mints = 0;
  let anyRefused = false;
  for (const [index, call] of wanted.calls.entries()) {
    if (call.startsWith("mint ")) {
      if (refused) continue;
      mints += 1;
      calls.push(`mint ${String(testCase["labelPrefix"])}-c${mints}`);
      continue;
    }
    calls.push(call);
    if (call.startsWith("create ")) refused = !(wanted.calls[index + 1] ?? "").startsWith("publish ");
    anyRefused ||= refused;
  }
  if (!anyRefused) return null;
  const plan = (testCase["plan"] as readonly (readonly [string, unknown])[]).map(([name]) => name);
  const attempts = testCase["attempts"] as readonly Attempt[];
  const tried = wanted.calls.filter((call) => call.startsWith("create ")).length;
  // Upstream's end does not bind ours where it lies in a mint we do not make, or in a cut plan we do not cut.
  const openEnd = attempts[tried]?.mintFails === true || (wanted.outcome.type === "exhausted" && tried < plan.length);
  const outcome: End = {
    ...wanted.outcome,
    ...(wanted.outcome.type === "accepted"
      ? { label: `${String(testCase["labelPrefix"])}-c${mints}`, attempts: mints }
      : {}),
  };
  const demanded: Wanted = { outcome, calls, elapsed: wanted.elapsed };
  const fits = (actual: Wanted): boolean =>
    openEnd && wanted.outcome["earlyStop"] !== true
      ? calls.every((call, index) => actual.calls[index] === call)
      : same(demanded, actual);
  return { demanded, fits };
}
