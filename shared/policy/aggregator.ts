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

/** A check under a required name that another App made than the one the rules name. It never counts. */
export interface LookAlike {
  readonly name: string;
  readonly appId: string | null;
  readonly conclusion: string | null;
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
    };

export type Aggregate = AggregatorDecision & {
  readonly rows: readonly AggregatorRow[];
  readonly lookAlikes: readonly LookAlike[];
};

/** Judges all required names at once. Wait means: call again when a check changes, at the latest when the limit ends. */
export function aggregate(input: AggregatorInput): Aggregate {
  const { rules, now } = input;
  const required = [...new Set(rules.required)];
  const { newest, lookAlikes } = newestByName(input);
  const running = required.filter((name) => isActive(newest.get(name)));
  const missing = required.filter((name) => !newest.has(name));
  const delayed = missing.filter((name) => isStillToCome(name, rules, newest, now));

  const inGrace = missing.length > 0 && now <= input.startedAt + REGISTRATION_GRACE_MS;
  const open = running.length > 0 || delayed.length > 0 || inGrace;
  const outOfTime = now >= input.startedAt + AGGREGATION_LIMIT_MS;
  // A draft waits for ever: green would let it be merged, red would say something about it that nobody checked.
  const waiting = input.draft || (open && !outOfTime);

  const judged = required.map((name) => judge(name, newest, input));
  const rows = judged.map(({ row }) =>
    waiting && isUndecided(row.name, running, delayed, inGrace, missing) ? { ...row, accepted: null } : row,
  );
  if (waiting) return { decision: "wait", running, missing, delayed, draft: input.draft, rows, lookAlikes };
  const failed = judged.flatMap(({ row, failure }) => (failure === null ? [] : [{ name: row.name, why: failure }]));
  if (failed.length > 0) return { decision: "fail", failed, rows, lookAlikes };
  return { decision: "pass", rows, lookAlikes };
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
    lines.push(
      `| ${cell(other.name)} | ${cell(conclusion)} | ignored | made by another App (${cell(other.appId ?? "unknown")}) |`,
    );
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
  const probe = (input.rules.waitsFor[name] ?? []).find((dependency) => hasFailed(newest.get(dependency)));
  const because = probe === undefined ? "" : `; its probe \`${probe}\` ended ${newest.get(probe)?.conclusion ?? "red"}`;
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

function newestByName(input: AggregatorInput): {
  newest: ReadonlyMap<string, ObservedCheck>;
  lookAlikes: readonly LookAlike[];
} {
  const newest = new Map<string, ObservedCheck>();
  const lookAlikes: LookAlike[] = [];
  for (const check of input.checks) {
    const producer = Object.hasOwn(input.rules.producers, check.name) ? input.rules.producers[check.name] : undefined;
    if (producer !== undefined && check.appId !== producer) {
      lookAlikes.push({ name: check.name, appId: check.appId, conclusion: check.conclusion });
      continue;
    }
    if (timeOf(check) < input.bornAt - EARLIER_LIFE_MS) continue;
    const other = newest.get(check.name);
    if (other === undefined || timeOf(check) > timeOf(other)) newest.set(check.name, check);
  }
  return { newest, lookAlikes };
}

function timeOf(check: ObservedCheck): Millis {
  return check.startedAt ?? check.createdAt ?? check.completedAt ?? 0;
}

function isActive(check: ObservedCheck | undefined): boolean {
  return check !== undefined && ACTIVE.has(check.status);
}

function hasFailed(check: ObservedCheck | undefined): boolean {
  return check !== undefined && check.status === "completed" && !ACCEPTED.has(check.conclusion ?? "");
}

/** A missing check is still to come while one that it waits for is active or ended a moment ago. */
function isStillToCome(
  name: string,
  rules: AggregatorRules,
  newest: ReadonlyMap<string, ObservedCheck>,
  now: Millis,
): boolean {
  const before = Object.hasOwn(rules.waitsFor, name) ? (rules.waitsFor[name] ?? []) : [];
  return before.some((dependency) => {
    const check = newest.get(dependency);
    if (check === undefined) return false;
    return isActive(check) || now - (check.completedAt ?? 0) <= REGISTRATION_GRACE_MS;
  });
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
