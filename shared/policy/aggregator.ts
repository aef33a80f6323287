/**
 * The aggregator: one required check that stands for many.
 *
 * Branch protection knows a name only as "must be green", which is wrong for a check that a path filter may leave out
 * and wrong for a hardware lane that somebody skipped. Here each name has a kind. Ordinary: success, skipped, neutral and
 * absence are accepted. Strict: success only. Lane: success only while the lane's switch is on; absence or skip while
 * it is off. Nothing is polled from here: the control plane calls `aggregate` whenever it hears of a check.
 *
 * Pure: every instant comes in as milliseconds, an unreadable one as null, and null counts as long ago.
 */
import { isLaterId } from "../ids.ts";
import type { Millis } from "../ports.ts";

/** Time that GitHub may take to show a check that will come: after the start, and after a check that another waits for. */
export const REGISTRATION_GRACE_MS = 2 * 60_000;
/** Checks this much older than the head's own evaluation belong to an earlier life of the commit (a draft, say). */
export const EARLIER_LIFE_MS = 2 * 60_000;
/** The longest wait for running checks; a queue of hosted runners has been seen to take hours. */
export const AGGREGATION_LIMIT_MS = 240 * 60_000;

const ACTIVE: ReadonlySet<string> = new Set(["queued", "in_progress", "requested", "waiting", "pending"]);
const ACCEPTED: ReadonlySet<string> = new Set(["success", "skipped", "neutral"]);

export interface AggregatorRules {
  /** Every name that counts, in the order the table shows them. */
  readonly required: readonly string[];
  /** Names that only success satisfies. */
  readonly strict: readonly string[];
  /** Lane checks: name of the check -> name of the repository variable that switches its lane on. */
  readonly lanes: Readonly<Record<string, string>>;
  /** A check that GitHub creates only after others ended (a lane's job after its probe): name -> names of those. */
  readonly waitsFor: Readonly<Record<string, readonly string[]>>;
  /** Names that may not be absent on a release branch. */
  readonly releaseMustReport: readonly string[];
  /** What a release branch's name starts with; null when the repository has none. */
  readonly releaseHeadPrefix: string | null;
  /** The App that must have made a name's checks, by its numeric id as text. Unlisted names take any App's. */
  readonly producers: Readonly<Record<string, string>>;
}

export interface ObservedCheck {
  /** GitHub's id as text: of two checks that began in the same second the later one has the larger id. */
  readonly id?: string;
  readonly name: string;
  readonly status: string;
  readonly conclusion: string | null;
  readonly startedAt: Millis | null;
  readonly createdAt: Millis | null;
  readonly completedAt: Millis | null;
  /** Id of the App that made it, as text. */
  readonly appId: string | null;
}

export interface AggregatorInput {
  readonly rules: AggregatorRules;
  /** Repository variables by name; only the exact value `true` switches a lane on. */
  readonly switches: Readonly<Record<string, string | undefined>>;
  readonly headRef: string;
  readonly draft: boolean;
  /** When this evaluation's own life began at GitHub; checks from clearly before are another life's. */
  readonly bornAt: Millis;
  /** When we began to wait. */
  readonly startedAt: Millis;
  readonly now: Millis;
  readonly checks: readonly ObservedCheck[];
  /** As configured; the two constants above when left out. */
  readonly limits?: { readonly graceMs: Millis; readonly timeoutMs: Millis };
}

export type FailureWhy =
  /** A strict or release name without any check. */
  | "never-reported"
  /** A strict or enabled lane name that ended otherwise than in success. */
  | "not-success"
  /** A lane that is on, without a check for its job. */
  | "lane-enabled-absent"
  /** A lane that is on, whose job was skipped. */
  | "lane-enabled-skipped"
  /** An ordinary name that ended in something not acceptable. */
  | "not-accepted"
  /** Still running when the time was over. */
  | "still-running";

export interface AggregatorRow {
  readonly name: string;
  readonly kind: "ordinary" | "strict" | "lane";
  /** Conclusion, status, `absent`, or `NOT RUN` for a lane that is off. */
  readonly state: string;
  /** Null while nobody can say yet. */
  readonly accepted: boolean | null;
  /** Why, for people. */
  readonly why: string;
}

/** A check under a required name that another App made. */
export interface LookAlike {
  readonly name: string;
  readonly appId: string | null;
  readonly conclusion: string | null;
  /** It never counts: the rules name another App. False: the rules name none, so every App's newest must be acceptable. */
  readonly ignored: boolean;
}

/** A lane that is on and whose probe ended red: the machine is not there, and that is the news. */
export interface FailedProbe {
  /** The lane's check. */
  readonly name: string;
  readonly probe: string;
  readonly conclusion: string;
}

export type AggregatorDecision =
  | { readonly decision: "pass" }
  | { readonly decision: "fail"; readonly failed: readonly { readonly name: string; readonly why: FailureWhy }[] }
  | {
      readonly decision: "wait";
      readonly running: readonly string[];
      readonly missing: readonly string[];
      /** The missing ones whose turn is still to come. */
      readonly delayed: readonly string[];
      readonly draft: boolean;
      /** When the same checks would be judged otherwise; null: only a change of theirs can do that. */
      readonly until: Millis | null;
    };

export type Aggregate = AggregatorDecision & {
  readonly rows: readonly AggregatorRow[];
  readonly lookAlikes: readonly LookAlike[];
  readonly failedProbes: readonly FailedProbe[];
  /** Ids of the checks that spoke: of the required names and of those that they wait for. */
  readonly counted: readonly string[];
};

/** Judges all required names at once. Wait means: call again when a check changes, at the latest when the limit ends. */
export function aggregate(input: AggregatorInput): Aggregate {
  const { rules, now } = input;
  const graceMs = input.limits?.graceMs ?? REGISTRATION_GRACE_MS;
  const limitAt = input.startedAt + (input.limits?.timeoutMs ?? AGGREGATION_LIMIT_MS);
  const required = [...new Set(rules.required)];
  const { newest, lookAlikes } = newestByName(input);
  const running = required.filter((name) => isActive(newest.get(name)));
  const missing = required.filter((name) => !newest.has(name));
  const turns = new Map(missing.map((name) => [name, stillToComeUntil(name, rules, newest, graceMs)]));
  const delayed = missing.filter((name) => now <= (turns.get(name) ?? 0));

  const inGrace = missing.length > 0 && now <= input.startedAt + graceMs;
  const open = running.length > 0 || delayed.length > 0 || inGrace;
  const outOfTime = now >= limitAt;
  // A draft waits for ever: green would let it be merged, red would say something about it that nobody checked.
  const waiting = input.draft || (open && !outOfTime);

  const judged = required.map((name) => judge(name, newest, input));
  const rows = judged.map(({ row }) =>
    waiting && isUndecided(row.name, running, delayed, inGrace, missing) ? { ...row, accepted: null } : row,
  );
  const told = {
    rows,
    lookAlikes,
    failedProbes: required.flatMap((name) => failedProbe(name, newest, input)),
    counted: [...new Set(required.flatMap((name) => [name, ...dependenciesOf(name, rules)]))].flatMap(
      (name) => newest.get(name)?.id ?? [],
    ),
  };
  if (waiting) {
    const ends = [...turns.values(), ...(inGrace ? [input.startedAt + graceMs] : [])].map((at) => at + 1);
    const next = Math.min(limitAt, ...ends.filter((at) => at > now));
    return {
      decision: "wait",
      running,
      missing,
      delayed,
      draft: input.draft,
      until: input.draft ? null : next,
      ...told,
    };
  }
  const failed = judged.flatMap(({ row, failure }) => (failure === null ? [] : [{ name: row.name, why: failure }]));
  if (failed.length > 0) return { decision: "fail", failed, ...told };
  return { decision: "pass", ...told };
}

/** The table for the check's text. Names and states come from outside, so what Markdown would act on is defused. */
export function aggregatorTable(result: Pick<Aggregate, "rows" | "lookAlikes">): string {
  const lines = ["| Check | State | Accepted | Why |", "| --- | --- | --- | --- |"];
  for (const row of result.rows) {
    const accepted = row.accepted === null ? "waiting" : row.accepted ? "yes" : "**no**";
    lines.push(`| ${cell(row.name)} | ${cell(row.state)} | ${accepted} | ${cell(row.why)} |`);
  }
  for (const other of result.lookAlikes) {
    const conclusion = other.conclusion ?? "running";
    const app = cell(other.appId ?? "unknown");
    const [accepted, why] = other.ignored
      ? ["ignored", `made by another App (${app})`]
      : ["counts too", `App ${app} also made a check of this name; give it an \`app_id\` to name the right one`];
    lines.push(`| ${cell(other.name)} | ${cell(conclusion)} | ${accepted} | ${why} |`);
  }
  return lines.join("\n");
}

function judge(
  name: string,
  newest: ReadonlyMap<string, ObservedCheck>,
  input: AggregatorInput,
): { row: AggregatorRow; failure: FailureWhy | null } {
  const check = newest.get(name);
  const { rules } = input;
  const state = check === undefined ? "absent" : (check.conclusion ?? check.status);
  const ended = check?.conclusion ?? null;
  const active = isActive(check);

  if (rules.strict.includes(name)) {
    if (check === undefined) return no(name, "strict", state, "never-reported", "must report; it never did");
    if (active) return no(name, "strict", state, "still-running", "still running");
    if (ended !== "success") return no(name, "strict", state, "not-success", "only success counts for this name");
    return yes(name, "strict", state, "success");
  }

  const switchName = Object.hasOwn(rules.lanes, name) ? rules.lanes[name] : undefined;
  if (switchName !== undefined) {
    const lane = judgeLane(name, check, switchName, newest, input);
    if (lane !== null) return lane;
  }
  const kind = switchName === undefined ? "ordinary" : "lane";

  if (check === undefined) {
    const release = rules.releaseHeadPrefix !== null && input.headRef.startsWith(rules.releaseHeadPrefix);
    if (release && rules.releaseMustReport.includes(name)) {
      return no(name, kind, state, "never-reported", "must report on a release branch; it never did");
    }
    return yes(name, kind, state, "not reported: a path filter may leave it out");
  }
  if (active) return no(name, kind, state, "still-running", "still running");
  if (ended !== null && ACCEPTED.has(ended)) return yes(name, kind, state, ended);
  return no(name, kind, state, "not-accepted", "neither success nor skipped nor neutral");
}

/** Null when the lane is off and its check has a result of its own, which then is judged like an ordinary one. */
function judgeLane(
  name: string,
  check: ObservedCheck | undefined,
  switchName: string,
  newest: ReadonlyMap<string, ObservedCheck>,
  input: AggregatorInput,
): { row: AggregatorRow; failure: FailureWhy | null } | null {
  const state = check === undefined ? "absent" : (check.conclusion ?? check.status);
  if (input.switches[switchName] !== "true") {
    if (check === undefined || check.conclusion === "skipped") {
      return yes(name, "lane", "NOT RUN", `lane is off (\`${switchName}\` is not \`true\`)`);
    }
    return null;
  }
  // The probe's own failure is the news; that the job behind it is skipped or absent only follows from it.
  const because = failedProbe(name, newest, input)
    .map(({ probe, conclusion }) => `; its probe \`${probe}\` ended ${conclusion}`)
    .join("");
  if (check === undefined) {
    return no(name, "lane", state, "lane-enabled-absent", `lane is on but its job never reported${because}`);
  }
  if (check.conclusion === "skipped") {
    return no(name, "lane", state, "lane-enabled-skipped", `lane is on but its job was skipped${because}`);
  }
  if (isActive(check)) return no(name, "lane", state, "still-running", "still running");
  if (check.conclusion !== "success") {
    return no(name, "lane", state, "not-success", `lane is on, so only success counts${because}`);
  }
  return yes(name, "lane", state, "success on the lane's own machine");
}

/** The failed ones among what an enabled lane's check waits for. */
function failedProbe(
  name: string,
  newest: ReadonlyMap<string, ObservedCheck>,
  { rules, switches }: AggregatorInput,
): readonly FailedProbe[] {
  const switchName = Object.hasOwn(rules.lanes, name) ? rules.lanes[name] : undefined;
  if (switchName === undefined || switches[switchName] !== "true") return [];
  return dependenciesOf(name, rules).flatMap((probe) => {
    const check = newest.get(probe);
    return hasFailed(check) ? [{ name, probe, conclusion: check?.conclusion ?? "red" }] : [];
  });
}

function dependenciesOf(name: string, rules: AggregatorRules): readonly string[] {
  return Object.hasOwn(rules.waitsFor, name) ? (rules.waitsFor[name] ?? []) : [];
}

/**
 * The check that speaks for each name: the newest one. Where the rules name no App and several made checks of a name, the
 * least acceptable of their newest ones speaks, so that no App can paint over what another has found.
 */
function newestByName(input: AggregatorInput): {
  newest: ReadonlyMap<string, ObservedCheck>;
  lookAlikes: readonly LookAlike[];
} {
  const byName = new Map<string, Map<string | null, ObservedCheck>>();
  const lookAlikes: LookAlike[] = [];
  for (const check of input.checks) {
    const producer = Object.hasOwn(input.rules.producers, check.name) ? input.rules.producers[check.name] : undefined;
    if (producer !== undefined && check.appId !== producer) {
      lookAlikes.push({ name: check.name, appId: check.appId, conclusion: check.conclusion, ignored: true });
      continue;
    }
    if (timeOf(check) < input.bornAt - EARLIER_LIFE_MS) continue;
    const byApp = byName.get(check.name) ?? new Map<string | null, ObservedCheck>();
    const other = byApp.get(check.appId);
    if (other === undefined || isNewer(check, other)) byApp.set(check.appId, check);
    byName.set(check.name, byApp);
  }
  const newest = new Map<string, ObservedCheck>();
  for (const [name, byApp] of byName) {
    const [speaker, ...others] = [...byApp.values()].toSorted((a, b) => doubt(b) - doubt(a));
    if (speaker !== undefined) newest.set(name, speaker);
    if (!input.rules.required.includes(name)) continue;
    for (const { appId, conclusion } of others) lookAlikes.push({ name, appId, conclusion, ignored: false });
  }
  return { newest, lookAlikes };
}

/** How far from acceptable a check is: what runs may still become anything. */
function doubt(check: ObservedCheck): number {
  if (isActive(check)) return 3;
  if (!ACCEPTED.has(check.conclusion ?? "")) return 2;
  return check.conclusion === "success" ? 0 : 1;
}

function isNewer(check: ObservedCheck, other: ObservedCheck): boolean {
  if (timeOf(check) !== timeOf(other)) return timeOf(check) > timeOf(other);
  if (check.id === undefined || other.id === undefined) return false;
  return isLaterId(check.id, other.id);
}

/** When a check is taken to have begun; 0: long ago. */
export function timeOf(check: ObservedCheck): Millis {
  return check.startedAt ?? check.createdAt ?? check.completedAt ?? 0;
}

function isActive(check: ObservedCheck | undefined): boolean {
  return check !== undefined && ACTIVE.has(check.status);
}

/** Whether it has ended in something that an ordinary name may end in. */
export function isAcceptable(check: ObservedCheck): boolean {
  return !isActive(check) && ACCEPTED.has(check.conclusion ?? "");
}

function hasFailed(check: ObservedCheck | undefined): boolean {
  return check !== undefined && check.status === "completed" && !ACCEPTED.has(check.conclusion ?? "");
}

/**
 * Until when a missing check is still to come: for ever while one that it waits for is active, a moment after one has ended.
 * 0: it is not.
 */
function stillToComeUntil(
  name: string,
  rules: AggregatorRules,
  newest: ReadonlyMap<string, ObservedCheck>,
  graceMs: Millis,
): Millis {
  const ends = dependenciesOf(name, rules).map((dependency) => {
    const check = newest.get(dependency);
    if (check === undefined) return 0;
    return isActive(check) ? Number.POSITIVE_INFINITY : (check.completedAt ?? 0) + graceMs;
  });
  return Math.max(0, ...ends);
}

function isUndecided(
  name: string,
  running: readonly string[],
  delayed: readonly string[],
  inGrace: boolean,
  missing: readonly string[],
): boolean {
  return running.includes(name) || delayed.includes(name) || (inGrace && missing.includes(name));
}

function yes(name: string, kind: AggregatorRow["kind"], state: string, why: string) {
  return { row: { name, kind, state, accepted: true, why }, failure: null };
}

function no(name: string, kind: AggregatorRow["kind"], state: string, failure: FailureWhy, why: string) {
  return { row: { name, kind, state, accepted: false, why }, failure };
}

function cell(text: string): string {
  return text
    .replaceAll(/[\s\p{Cc}]+/gu, " ")
    .replaceAll("|", "\\|")
    .replaceAll("<", "&lt;")
    .replaceAll("@", "@\u200B")
    .slice(0, 300);
}
