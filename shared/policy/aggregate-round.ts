/**
 * Rounds of the aggregator on one head: when a new wait begins, what was concluded, and whether a check run has to say so.
 *
 * A round begins with the head, when a draft becomes ready, when a person asks again, and when checks run anew after the
 * last answer. Each round is answered by one check run; a completed one is never written again.
 *
 * Pure: facts in, the next round out.
 */
import * as z from "zod";
import { aggregatorRules } from "../config/aggregator-rules.ts";
import { toMillis } from "../config/limits.ts";
import type { RepositoryConfig } from "../config/schema.ts";
import type { Millis } from "../ports.ts";
import {
  aggregate,
  EARLIER_LIFE_MS,
  isAcceptable,
  timeOf,
  type Aggregate,
  type AggregatorRules,
  type ObservedCheck,
} from "./aggregator.ts";

/** What is kept of a head between two looks. */
export const roundSchema = z.object({
  startedAt: z.number(),
  /** Checks that began clearly before belong to an earlier life of the commit: to its time as a draft. */
  bornAt: z.number(),
  /** Nothing is green before the grace is over: what is green now may be of an earlier run that is about to be repeated. */
  hold: z.boolean(),
  draft: z.boolean(),
  /** When it was last seen as a draft. */
  draftAt: z.number().nullable(),
  /** The last word of a person that was obeyed. */
  againAt: z.number().nullable(),
  /** What the newest check run concluded; null while it has not. */
  key: z.string().nullable(),
  /** Ids of the checks that spoke then. */
  judged: z.array(z.string()),
});
export type Round = z.infer<typeof roundSchema>;

export interface HeadFacts {
  readonly headRef: string;
  readonly draft: boolean;
  readonly switches: Readonly<Record<string, string | undefined>>;
  /** All check runs of the head but the aggregator's own. */
  readonly checks: readonly ObservedCheck[];
  /** When anybody saw the pull request as a draft, also between two looks. */
  readonly draftAt: Millis | null;
  /** A person's word that a new answer is wanted. */
  readonly againAt: Millis | null;
}

export interface RoundAnswer {
  readonly round: Round;
  readonly result: Aggregate;
  /** `new`: the last check run is completed and no longer true. `same`: the open one speaks. `none`: nothing to say. */
  readonly publish: "new" | "same" | "none";
}

export function firstRound(now: Millis): Round {
  return {
    startedAt: now,
    bornAt: 0,
    hold: true,
    draft: false,
    draftAt: null,
    againAt: null,
    key: null,
    judged: [],
  };
}

/** The round of a head that was given up (closed, moved) and is the head of an open pull request again. */
export function reopenedRound(round: Round, now: Millis): Round {
  return { ...round, startedAt: now, hold: true };
}

/** `ownAppId`: the App that publishes the gate's check, which nobody else can make. */
export function judgeRound(
  before: Round,
  facts: HeadFacts,
  config: RepositoryConfig,
  ownAppId: string,
  now: Millis,
): RoundAnswer {
  const rules = rulesOf(config, ownAppId);
  const { graceMs, timeoutMs } = aggregatorLimits(config);
  const present = withoutOvertaken(facts.checks, rules, now - graceMs);
  const judge = (round: Round): Aggregate => {
    const { startedAt, bornAt } = round;
    const checks = now > startedAt + graceMs ? withUnrepeated(present, rules, bornAt) : present;
    const { switches, headRef, draft } = facts;
    return aggregate({
      rules,
      switches,
      headRef,
      draft,
      bornAt,
      startedAt,
      now,
      checks,
      limits: { graceMs, timeoutMs },
    });
  };

  const draftAt = facts.draft ? now : latest(before.draftAt, facts.draftAt);
  let round: Round = { ...before, draft: facts.draft, draftAt };
  // What the checks said of the draft does not count for the change that is ready now.
  if (before.draft && !facts.draft) round = { ...round, startedAt: now, bornAt: draftAt ?? before.bornAt, hold: true };
  const again = facts.againAt !== null && facts.againAt > (before.againAt ?? 0);
  if (again) round = { ...round, startedAt: now, againAt: facts.againAt };

  let result = judge(round);
  if (before.key !== null && result.counted.some((id) => !before.judged.includes(id))) {
    round = { ...round, startedAt: now };
    result = judge(round);
  }
  if (round.hold) result = held(result, round, graceMs, now);
  const key = keyOf(result);
  const said = before.key;
  const publish = said === null ? "same" : key === null || key !== said || again ? "new" : "none";
  if (publish === "none") return { round: { ...round, key: said }, result, publish };
  return { round: { ...round, key, judged: key === null ? [] : [...result.counted] }, result, publish };
}

export function aggregatorLimits(config: Pick<RepositoryConfig, "aggregator">) {
  const { registration_grace: grace, timeout } = config.aggregator;
  return { graceMs: toMillis(grace), timeoutMs: toMillis(timeout) };
}

/** As configured; of the gate's own check only this App's counts, whether or not somebody thought of writing that down. */
function rulesOf(config: RepositoryConfig, ownAppId: string): AggregatorRules {
  const rules = aggregatorRules(config);
  return { ...rules, producers: { [config.check.name]: ownAppId, ...rules.producers } };
}

/**
 * Leaves out checks that one they wait for has overtaken: when a probe runs again, the job behind it is still the one of
 * the attempt before, until GitHub makes a new one. Where it has made none a while after (`since`), what had gone wrong counts
 * again: to start something under the name of the other must not make it absent.
 */
function withoutOvertaken(
  checks: readonly ObservedCheck[],
  rules: AggregatorRules,
  since: Millis,
): readonly ObservedCheck[] {
  const newest = new Map<string, ObservedCheck>();
  for (const check of checks) {
    const other = newest.get(check.name);
    if (other === undefined || (check.startedAt ?? 0) > (other.startedAt ?? 0)) newest.set(check.name, check);
  }
  return checks.filter((check) => {
    const { name, startedAt } = check;
    if (startedAt === null || !Object.hasOwn(rules.waitsFor, name)) return true;
    const before = (rules.waitsFor[name] ?? []).flatMap((other) => newest.get(other) ?? []);
    const overtaking = before.filter((other) => (other.startedAt ?? 0) > startedAt);
    if (overtaking.length === 0) return true;
    return !isAcceptable(check) && overtaking.every((other) => other.completedAt !== null && other.completedAt < since);
  });
}

/**
 * With what went wrong, or still runs, since an earlier life of the commit and was not repeated in this one. Most workflows do
 * not run again when a draft becomes ready: what they found there would else be absent, and absence is accepted of most names.
 */
function withUnrepeated(
  checks: readonly ObservedCheck[],
  rules: AggregatorRules,
  bornAt: Millis,
): readonly ObservedCheck[] {
  const isEarlier = (check: ObservedCheck): boolean => timeOf(check) < bornAt - EARLIER_LIFE_MS;
  const told = new Set(checks.filter((check) => !isEarlier(check)).map(({ name, appId }) => `${appId} ${name}`));
  const last = new Map<string, ObservedCheck>();
  for (const check of checks) {
    const whose = `${check.appId} ${check.name}`;
    if (told.has(whose) || !rules.required.includes(check.name)) continue;
    const other = last.get(whose);
    if (other === undefined || timeOf(check) >= timeOf(other)) last.set(whose, check);
  }
  const unrepeated = [...last.values()].filter((check) => !isAcceptable(check));
  return [...checks, ...unrepeated.map((check) => ({ ...check, startedAt: bornAt }))];
}

function held(result: Aggregate, round: Round, graceMs: Millis, now: Millis): Aggregate {
  const until = round.startedAt + graceMs + 1;
  if (result.decision !== "pass" || now >= until) return result;
  const { rows, lookAlikes, failedProbes, counted } = result;
  const told = { rows, lookAlikes, failedProbes, counted };
  return { decision: "wait", running: [], missing: [], delayed: [], draft: false, until, ...told };
}

/** What two conclusions have in common when the second one need not be said again. Null: not concluded. */
function keyOf(result: Aggregate): string | null {
  if (result.decision === "wait") return null;
  if (result.decision === "pass") return "pass";
  return `fail ${result.failed
    .map(({ name, why }) => `${name}: ${why}`)
    .toSorted()
    .join("; ")}`;
}

function latest(a: Millis | null, b: Millis | null): Millis | null {
  return a === null ? b : b === null ? a : Math.max(a, b);
}
