/**
 * Feeds the create-retry corpus to the walk and to the classification of create answers. One upstream tier is one
 * candidate of the walk; its answers are REST v1's, so pods are read in the legacy shape. Look-ups find nothing: the
 * corpus has none.
 */
import { classifyCreate, type CreateOutcome } from "../../../shared/runpod/classify.ts";
import { parseLegacyPod } from "../../../shared/runpod/pod.ts";
import { checkAssignedGpu } from "../../../shared/runpod/pod-health.ts";
import { headerValue } from "../../../shared/runpod/rate-limit.ts";
import { parseHttpDate } from "../../../shared/time.ts";
import type { Candidate } from "../../../shared/lifecycle/model.ts";
import {
  afterAnswer,
  afterNotFound,
  newWalk,
  nextRequest,
  slept,
  type CreateAnswer,
  type WalkAction,
  type WalkRules,
} from "../../../shared/lifecycle/walk.ts";
import type { CorpusAdapter, CorpusCase } from "../adapter.ts";

interface Entry {
  readonly status?: number;
  readonly body?: unknown;
  readonly elapsed: number;
  readonly headers?: Readonly<Record<string, string>>;
}

interface Wanted {
  readonly tiersTried: readonly string[];
  readonly timeouts: readonly number[];
  readonly sleeps: readonly number[];
  readonly elapsed: number;
  readonly outcome: Readonly<Record<string, unknown>> & { readonly type: string };
}

/** The first answer that means something else with us than upstream, the way to it, and what our walk did then. */
interface Difference {
  readonly rule: string;
  readonly tries: number;
  readonly sleeps: number;
  readonly did: WalkAction;
}

interface Played {
  readonly tiersTried: string[];
  readonly timeouts: number[];
  readonly sleeps: number[];
  /** Null: the script had no answer left for the request that the walk wanted next. */
  outcome: Readonly<Record<string, unknown>> | null;
  elapsed: number;
  difference: Difference | null;
}

export const adapter: CorpusAdapter = {
  corpus: "create-retry",
  run: (testCase) => {
    const wanted = testCase["expected"] as Wanted;
    const played = play(testCase);
    const { difference, ...actual } = played;
    if (played.outcome !== null && sameOutcome(wanted, played) && sameWay(wanted, played)) {
      return { pass: true, expected: wanted, actual };
    }
    if (difference === null) return { pass: false, expected: wanted, actual };
    // The way to the answer in question is upstream's; from there on the rule says what follows.
    const demanded = DEMANDED[difference.rule] ?? [];
    return {
      pass: beginsAlike(wanted, played, difference) && demanded.includes(difference.did.kind),
      expected: { ...wanted, next: demanded },
      actual: { ...actual, next: difference.did.kind },
      overruledBy: difference.rule,
    };
  },
};

/** What the walk does next under each rule; behind the last tier, or without time left, it ends. */
const DEMANDED: Readonly<Record<string, readonly WalkAction["kind"][]>> = {
  "capacity-by-text": ["request", "exhausted"],
  "refusal-of-one-candidate": ["request", "exhausted"],
  "transient-moves-on": ["request", "exhausted"],
  "unreadable-success-looked-up": ["look-up"],
  "retry-after-as-date": ["sleep", "look-up"],
};

function play(testCase: CorpusCase): Played {
  const config = testCase["config"] as Readonly<Record<string, number>>;
  const tiers = testCase["tiers"] as readonly { readonly name: string; readonly gpuTypeIds: readonly string[] }[];
  const jitter = (testCase["jitter"] ?? [0.5]) as readonly number[];
  const script = [...(testCase["script"] as readonly Entry[])];
  const candidates = tiers.map((tier): Candidate => ({
    name: tier.name,
    tier: tier.name,
    acceptedIds: [...tier.gpuTypeIds],
    price: null,
  }));
  const rules: WalkRules = {
    clockMs: (config["createDeadlineSeconds"] ?? 60) * 1000,
    backoffBaseMs: (config["retryBaseSeconds"] ?? 10) * 1000,
    backoffCapMs: (config["retryMaxSeconds"] ?? 60) * 1000,
    retries: config["sameTierRetries"] ?? 1,
  };
  const played: Played = { tiersTried: [], timeouts: [], sleeps: [], outcome: null, elapsed: 0, difference: null };
  const differ = (rule: string | null, did: WalkAction): void => {
    if (rule === null) return;
    played.difference ??= { rule, tries: played.tiersTried.length, sleeps: played.sleeps.length, did };
  };
  let drawn = 0;
  let asked: number | null = null;
  let walk = newWalk();
  let action: WalkAction = nextRequest(walk, candidates, rules, "same");
  for (;;) {
    played.elapsed = walk.usedMs / 1000;
    const spread = jitter[drawn % jitter.length] ?? 0;
    switch (action.kind) {
      case "sleep":
        played.sleeps.push(action.ms / 1000);
        // A value is drawn for a back-off only, not for a wait that RunPod asked for.
        if (asked === null) drawn += 1;
        walk = slept(walk, action.ms);
        action = nextRequest(walk, candidates, rules, action.attempt);
        break;
      case "look-up": {
        const before = walk.index;
        ({ walk, action } = afterNotFound(walk, candidates, asked, rules, spread));
        differ(walk.index > before ? "transient-moves-on" : null, action);
        break;
      }
      case "request": {
        const entry = script.shift();
        if (entry === undefined) return played;
        played.tiersTried.push(action.candidate.name);
        played.timeouts.push(action.timeoutMs / 1000);
        const answer = classify(entry);
        const read = bought(answer, action.candidate);
        if (read !== null) {
          played.outcome = read;
          played.elapsed += entry.elapsed;
          return played;
        }
        const told = answerOf(answer);
        asked = "retryAfterMs" in told ? told.retryAfterMs : null;
        const before = walk.index;
        ({ walk, action } = afterAnswer(walk, candidates, told, entry.elapsed * 1000, rules, spread));
        differ(ruleOf(entry, told), action);
        differ(told.kind === "rate-limited" && walk.index > before ? "transient-moves-on" : null, action);
        break;
      }
      case "exhausted":
        played.outcome = {
          type: "retryable-error",
          cause: action.reason === "walk-deadline" ? "deadline" : action.reason,
        };
        return played;
      case "stop":
      case "bought":
        played.outcome = { type: "permanent-error", cause: "http" };
        return played;
    }
  }
}

function classify(entry: Entry): CreateOutcome {
  const options = { now: 0, readPod: parseLegacyPod };
  if (typeof entry.status !== "number") return classifyCreate({ transport: "network" }, options);
  return classifyCreate(
    { status: entry.status, contentType: null, bodyText: textOf(entry), headers: entry.headers ?? {} },
    options,
  );
}

function textOf({ body }: Entry): string {
  return typeof body === "string" ? body : body === undefined ? "" : JSON.stringify(body);
}

/** The walk's answer to upstream's pod, whether its GPU is one of the tier's or not; null when nothing was created. */
function bought(answer: CreateOutcome, candidate: Candidate): Readonly<Record<string, unknown>> | null {
  if (answer.kind !== "created") return null;
  const { pod } = answer;
  const wrong = checkAssignedGpu(pod, { acceptedIds: candidate.acceptedIds, ceilingUsdPerHour: Infinity });
  return {
    type: wrong === null ? "pod" : "assigned-gpu-error",
    podId: pod.id,
    gpuTypeId: pod.gpuId ?? "",
    tier: candidate.name,
  };
}

function answerOf(answer: CreateOutcome): CreateAnswer {
  switch (answer.kind) {
    case "created":
    case "capacity":
      return { kind: answer.kind };
    case "rate-limited":
    case "ambiguous":
      return { kind: answer.kind, retryAfterMs: answer.retryAfterMs };
    case "pool-forbidden":
      return { kind: "skip", why: "pool" };
    case "invalid":
      return answer.status === 400 ? { kind: "skip", why: "invalid" } : { kind: "stop", reason: "request-invalid" };
    case "balance":
      return { kind: "stop", reason: "balance" };
    case "unauthorized":
      return { kind: "stop", reason: "provider-key" };
    case "image-refused":
      return { kind: "stop", reason: "image-refused" };
    case "edge-blocked":
    case "retired":
      return { kind: "stop", reason: "provider-outage" };
  }
}

const UPSTREAM_CAPACITY = ["does not have the resources to deploy your pod", "no available machine"];

/** Which rule lets this answer mean something else with us; null when it means the same. */
function ruleOf(entry: Entry, told: CreateAnswer): string | null {
  const body = textOf(entry).toLowerCase();
  const status = entry.status ?? 0;
  const upstreamCapacity = status >= 500 && status <= 599 && UPSTREAM_CAPACITY.some((words) => body.includes(words));
  if (told.kind === "capacity") return upstreamCapacity ? null : "capacity-by-text";
  if (told.kind === "skip") return "refusal-of-one-candidate";
  if (told.kind === "ambiguous" && status >= 200 && status <= 299) return "unreadable-success-looked-up";
  const waits = told.kind === "ambiguous" || told.kind === "rate-limited" ? told.retryAfterMs : null;
  const header = headerValue(entry.headers ?? {}, "retry-after");
  return waits !== null && parseHttpDate(header ?? "") !== null ? "retry-after-as-date" : null;
}

function sameOutcome(wanted: Wanted, played: Played): boolean {
  const ours = played.outcome ?? {};
  if (ours["type"] !== wanted.outcome.type) return false;
  // Upstream's causes are its own words; that time ran out, and which pod it was, must agree.
  if ((wanted.outcome["cause"] === "deadline") !== (ours["cause"] === "deadline")) return false;
  return ["podId", "gpuTypeId", "tier"].every((key) => wanted.outcome[key] === ours[key]);
}

function sameWay(wanted: Wanted, played: Played): boolean {
  return (
    played.tiersTried.length === wanted.tiersTried.length &&
    near(played.elapsed, wanted.elapsed) &&
    equalNumbers(wanted.sleeps.filter(isPause), played.sleeps.filter(isPause)) &&
    beginsAlike(wanted, played, { tries: wanted.tiersTried.length, sleeps: 0 })
  );
}

/** The first so many requests and sleeps are upstream's. */
function beginsAlike(wanted: Wanted, played: Played, { tries, sleeps }: Pick<Difference, "tries" | "sleeps">): boolean {
  return (
    wanted.tiersTried.slice(0, tries).every((tier, index) => played.tiersTried[index] === tier) &&
    equalNumbers(wanted.timeouts.slice(0, tries), played.timeouts.slice(0, tries)) &&
    equalNumbers(wanted.sleeps.slice(0, sleeps), played.sleeps.slice(0, sleeps))
  );
}

/** A sleep of no time is none. */
function isPause(seconds: number): boolean {
  return seconds > 0;
}

function equalNumbers(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((number, index) => near(number, b[index]));
}

function near(a: number, b: number | undefined): boolean {
  return b !== undefined && Math.abs(a - b) < 1e-6;
}
