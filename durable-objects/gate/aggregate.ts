/**
 * A look of the aggregator at one head: read the pull request or the merge group, every check run of the head and the lanes' switches; judge;
 * write the one check run that says it; say when to look again.
 *
 * Nothing is concluded from a part of the facts: what cannot be read keeps the answer open. Before a conclusion the rules
 * are read once more from the default branch. A completed check run is never written again: what became untrue is said by
 * a new one.
 */
import { readRules } from "../../shared/authorize/authorize.ts";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import type { CheckRun, CheckState } from "../../shared/github/checks.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import { describeFailure, failureClass, type GitHubFailure } from "../../shared/github/failure.ts";
import { AGGREGATE_ID, isAggregateCheck } from "../../shared/lifecycle/aggregate-hints.ts";
import { audit } from "../../shared/lifecycle/step.ts";
import { aggregatorLimits, judgeRound, type HeadFacts, type Round } from "../../shared/policy/aggregate-round.ts";
import { aggregateView, endedView, troubleView, type AggregateView } from "../../shared/policy/aggregate-view.ts";
import type { LookAlike, ObservedCheck } from "../../shared/policy/aggregator.ts";
import type { Millis } from "../../shared/ports.ts";
import { notRead, readSubject, type Unread } from "./aggregate-subject.ts";
import {
  DEBOUNCE_MS,
  MERGE_GROUP,
  PAUSED,
  type AggregateRecord,
  type AggregateRow,
  type Aggregates,
} from "./aggregates.ts";
import type { GatePorts } from "./ports.ts";
import { fingerprint, TWINS_AFTER_MS } from "./publish.ts";
import type { Store, StoredTask } from "./store.ts";

export interface AggregateContext {
  readonly ports: GatePorts;
  readonly store: Store;
  readonly aggregates: Aggregates;
  readonly github: GitHubClient;
  readonly repositoryId: string;
}

/** An open check run is rewritten at most this often: dozens of checks end one after the other. */
const REWRITE_MS = 10_000;
/** A head at rest is looked at with growing pauses, up to this. */
const REST_MAX_MS = 3_600_000;
/** Failed looks after which the check says that it cannot be judged. */
const QUIET_TRIES = 3;
/** Tries when GitHub says that this App may not speak here any more, before the audit says so. */
const FORBIDDEN_TRIES = 12;

/** Tries to end the check of a head that is over: about a day. */
const UNSAID_TRIES = 300;

const FOREIGN_NOTED = 20;

type Seen =
  | {
      readonly kind: "seen";
      readonly facts: HeadFacts;
      readonly own: readonly CheckRun[];
      readonly headRefs?: readonly string[];
    }
  | { readonly kind: "over"; readonly why: string; readonly own: readonly CheckRun[] }
  | Unread;

export async function lookAtHead(task: StoredTask, context: AggregateContext): Promise<void> {
  const { aggregates, ports, store } = context;
  const stored = aggregates.row(task.subject);
  if (stored === null || !stored.live) return store.removeTask(task.id);
  const beganAt = ports.clock.now();
  store.count("aggregate.looks");
  const config = aggregates.config();
  const name = config?.aggregator.name ?? null;
  const seen = await read(stored, config, context);
  const known = stored.unreadable && seen.kind !== "unread" ? adopted(stored, seen.own, context) : stored;
  const headRefs = seen.kind === "seen" ? seen.headRefs : undefined;
  const row = headRefs === undefined ? known : { ...known, record: { ...known.record, headRefs: [...headRefs] } };
  const look = new Look(task, row, beganAt, context);
  if (seen.kind === "unread") return config === null ? look.pause(seen) : look.trouble(seen, config);
  if (seen.kind === "over") return look.end(seen.why, seen.own);
  if (config === null || name === null) {
    return look.end("The aggregator was taken out of the configuration", seen.own);
  }
  return look.judge(seen.facts, seen.own, config, name);
}

/** A new record in the place of one that does not read goes on with the newest check run that the lost one had written. */
function adopted(row: AggregateRow, own: readonly CheckRun[], { store, ports }: AggregateContext): AggregateRow {
  const seriesOf = (run: CheckRun) => Number(/:(\d+)$/.exec(run.externalId ?? "")?.[1] ?? 0);
  const newest = own.toSorted((a, b) => seriesOf(b) - seriesOf(a))[0];
  store.audit(ports.clock.now(), null, audit("aggregate.unreadable", null, { head: row.headSha }));
  if (newest === undefined) return row;
  const { id, name, status } = newest;
  const check = { ...row.record.check, series: seriesOf(newest), id, name, completed: status === "completed" };
  return { ...row, record: { ...row.record, check: { ...check, unsure: false } } };
}

class Look {
  readonly #task: StoredTask;
  readonly #row: AggregateRow;
  readonly #beganAt: Millis;
  readonly #context: AggregateContext;

  constructor(task: StoredTask, row: AggregateRow, beganAt: Millis, context: AggregateContext) {
    this.#task = task;
    this.#row = row;
    this.#beganAt = beganAt;
    this.#context = context;
  }

  async judge(facts: HeadFacts, own: readonly CheckRun[], config: RepositoryConfig, name: string): Promise<void> {
    const { ports, store } = this.#context;
    const now = this.#beganAt;
    const before = this.#row.record;
    const { round, result: judged, publish } = judgeRound(before.round, facts, config, ports.appId, now);
    const result = { ...judged, lookAlikes: [...judged.lookAlikes, ...lookAlikesOf(name, facts.checks)] };
    const seen = fingerprint({ rows: result.rows, lookAlikes: result.lookAlikes, draft: facts.draft });
    const foreign = this.#noteForeign(result.lookAlikes);
    const record = { ...before, foreign, ...(seen === before.seen ? {} : { seen, changedAt: now }) };
    const until = result.decision === "wait" ? result.until : null;
    const view = aggregateView(result, config, aggregatorLimits(config).timeoutMs);
    if (publish === "none") {
      const failure = await this.#endTwins(view, own, record);
      return this.#rest({ ...record, round }, config, until, failure === null);
    }

    // A wait that was ended by a renamed aggregator is over under its old name.
    const renamed = before.check.name !== null && before.check.name !== name && !before.check.completed;
    if (renamed) return this.#giveUp(`This check is called ${name} now`, own, record, "renamed");
    if (view.conclusion !== null) {
      const rules = await this.#rulesNow();
      if (rules.kind === "unread") return this.trouble(rules, config);
      // The rules have changed: everything is looked at again under them.
      if (rules.kind === "changed") return this.#next(record, now);
    }
    const written = await this.#write(view, publish, own, record, name);
    if (written.kind === "failed") return this.#failed(written.failure, written.record);
    if (written.kind === "later") return this.#rest({ ...written.record, round }, config, earliest(until, written.at));
    if (view.conclusion !== null) {
      const { headSha: head, prNumber } = this.#row;
      const pull = prNumber === MERGE_GROUP ? null : prNumber;
      const noted = { head, pull, conclusion: view.conclusion, check: written.record.check.id };
      store.audit(now, null, audit("aggregate.conclude", null, noted));
      store.count(`aggregate.${view.conclusion}`);
      await this.#endTwins(view, own, written.record);
    }
    this.#rest({ ...written.record, round }, config, until);
  }

  /** Something could not be read: asked again, later and later; the check says so, and concludes when the time is over. */
  async trouble(unread: Unread, config: RepositoryConfig): Promise<void> {
    const { aggregator } = config;
    const { record } = this.#row;
    const { timeoutMs } = aggregatorLimits(config);
    const overdue = this.#beganAt >= record.round.startedAt + timeoutMs;
    const silent = record.round.key !== null || aggregator.name === null || record.check.unsure;
    if (silent || (!overdue && this.#task.tries < QUIET_TRIES)) return this.pause(unread);
    const view = troubleView(unread.problem, overdue);
    const written = await this.#write(view, "same", [], record, aggregator.name ?? "");
    const kept = written.record;
    const round: Round =
      overdue && written.kind === "written" ? { ...kept.round, key: "unread", judged: [] } : kept.round;
    this.#save({ ...kept, round }, true);
    this.pause(unread);
  }

  pause(unread: Unread): void {
    const { store } = this.#context;
    store.count("aggregate.unread");
    this.#again(Math.max(unread.retryAt, this.#beganAt + pauseAfter(this.#task.tries)), PAUSED, this.#task.tries);
  }

  /** Nobody waits for this head any more: an open check run is concluded, so that none is left hanging. */
  async end(why: string, own: readonly CheckRun[]): Promise<void> {
    const { record } = this.#row;
    return this.#giveUp(why, own, record, "ended");
  }

  async #giveUp(
    why: string,
    own: readonly CheckRun[],
    before: AggregateRecord,
    how: "ended" | "renamed",
  ): Promise<void> {
    let record = before;
    const { check } = before;
    if (check.name !== null && !check.completed) {
      const written = await this.#write(endedView(why), "same", own, before, check.name);
      // Also where the App may not speak for now: an archive is opened again, an App comes back, and the check would hang.
      if (written.kind === "failed" && this.#task.tries < UNSAID_TRIES) {
        return this.#failed(written.failure, written.record);
      }
      record = written.record;
    }
    const failure = await this.#endTwins(endedView(why), own, record);
    if (failure !== null && this.#task.tries < UNSAID_TRIES) return this.#failed(failure, record);
    record = { ...record, seen: null, round: { ...record.round, key: "ended", judged: [] } };
    if (how === "renamed" || this.#heardSince()) return this.#next(record, this.#beganAt);
    // Nobody will look here again, and an older word of ours may still be on its way.
    const lateAt = lateWordAt(record);
    if (lateAt !== null && this.#beganAt < lateAt) return this.#next(record, lateAt);
    const { ports, store } = this.#context;
    ports.sql.transaction(() => {
      this.#save(record, false);
      store.removeTask(this.#task.id);
    });
    store.count("aggregate.ended");
  }

  /** Checks under a name that is another App's belong to the audit, each set of them once. */
  #noteForeign(lookAlikes: readonly LookAlike[]): string | null {
    const ignored = lookAlikes.filter((other) => other.ignored);
    const foreign = ignored.length === 0 ? null : fingerprint(ignored);
    if (foreign === null || foreign === this.#row.record.foreign) return foreign;
    const { store } = this.#context;
    for (const { name, appId, conclusion } of ignored.slice(0, FOREIGN_NOTED)) {
      const noted = { head: this.#row.headSha, name, app: appId, conclusion };
      store.audit(this.#beganAt, null, audit("aggregate.look-alike", "foreign-check", noted));
    }
    return foreign;
  }

  /** The default branch's rules: read before a conclusion, and only then, because reading them costs three calls. */
  async #rulesNow(): Promise<{ readonly kind: "same" } | { readonly kind: "changed" } | Unread> {
    const { github, repositoryId, store } = this.#context;
    const rules = await readRules(github, { repositoryId });
    if ("outcome" in rules) {
      const { outcome } = rules;
      if (outcome.kind === "unknown") return { kind: "unread", problem: outcome.why, retryAt: outcome.retryAt ?? 0 };
      const detail = "detail" in outcome ? outcome.detail : "The rules cannot be read";
      return { kind: "unread", problem: detail.replace(/\.$/, ""), retryAt: 0 };
    }
    const { configHash } = rules.terms;
    if (configHash === store.meta("last_config")) return { kind: "same" };
    store.rememberConfig(configHash, rules.config);
    store.setMeta("last_config", configHash);
    return { kind: "changed" };
  }

  /** Writes what the check run shall say, if it does not say it already. */
  async #write(
    view: AggregateView,
    publish: "new" | "same",
    own: readonly CheckRun[],
    before: AggregateRecord,
    name: string,
  ): Promise<Written> {
    const { aggregates, github } = this.#context;
    const now = this.#beganAt;
    const print = fingerprint(view);
    const known = before.check.unsure ? this.#unanswered(before, own) : null;
    // A write whose answer was lost had said the end already: if that is still it, nothing is left to do.
    if (known?.status === "completed" && known.conclusion === view.conclusion && publish === "same") {
      const said = { ...before.check, id: known.id, published: print, completed: true, writtenAt: now, unsure: false };
      return { kind: "written", record: { ...before, check: said } };
    }
    const fresh =
      publish === "new" || before.check.name === null || before.check.completed || known?.status === "completed";
    let { check } = before;
    if (fresh) {
      const { series, mayUndo } = check;
      const first = { id: null, published: null, completed: false, writtenAt: null, unsure: true };
      check = { ...first, series: series + 1, name, mayUndo };
    } else if (check.published === print) {
      return { kind: "written", record: before };
    } else if (view.conclusion === null && check.writtenAt !== null && now < check.writtenAt + REWRITE_MS) {
      return { kind: "later", record: before, at: check.writtenAt + REWRITE_MS };
    }
    // Intent before call: should the answer be lost, the next look finds the check run by its external id.
    let record: AggregateRecord = { ...before, check: { ...check, unsure: true, mayUndo: true } };
    aggregates.save(this.#row.headSha, true, { ...record, round: { ...record.round, key: null } });
    const id = check.id ?? (fresh ? null : (known?.id ?? null));
    const body = { externalId: this.#externalId(check.series), ...this.#saying(view) };
    const answer =
      id === null
        ? await github.createCheckRun({ ...body, name, headSha: this.#row.headSha })
        : await github.updateCheckRun(id, body);
    if (!answer.ok) {
      const mayUndo = check.mayUndo || mayArrive(answer.error);
      return { kind: "failed", record: { ...record, check: { ...record.check, mayUndo } }, failure: answer.error };
    }
    const completed = view.conclusion !== null;
    const { id: writtenId } = answer.value;
    record = {
      ...record,
      check: { ...check, id: writtenId, published: print, completed, writtenAt: now, unsure: false },
    };
    return { kind: "written", record };
  }

  /**
   * A create whose answer was lost may arrive after the second one: GitHub then has two check runs, and the one that nobody
   * writes to would hang. It says what the other one says, once that is the end. So does the known one where an older word of
   * ours, given up for want of an answer, has opened it again. The last failure; null: nothing is left open.
   */
  async #endTwins(
    view: AggregateView,
    own: readonly CheckRun[],
    { check }: AggregateRecord,
  ): Promise<GitHubFailure | null> {
    if (view.conclusion === null || !check.completed || check.unsure) return null;
    // A list from before this look's own conclusion does not show it.
    const listedSince = this.#row.record.check.completed && !this.#row.record.check.unsure;
    let failure: GitHubFailure | null = null;
    for (const run of own) {
      if (run.status === "completed" || (run.id === check.id && !listedSince)) continue;
      const externalId = run.externalId ?? this.#externalId(check.series);
      const answer = await this.#context.github.updateCheckRun(run.id, { externalId, ...this.#saying(view) });
      if (!answer.ok) failure = answer.error;
    }
    return failure;
  }

  #saying(view: AggregateView) {
    const { publicUrl } = this.#context.ports;
    return {
      ...(publicUrl === "" ? {} : { detailsUrl: `${publicUrl}/` }),
      output: { title: view.title, summary: view.summary },
      state: stateOf(view),
    };
  }

  /** The check run as it is after a write whose answer was lost. */
  #unanswered(record: AggregateRecord, own: readonly CheckRun[]): CheckRun | null {
    return own.find((run) => run.externalId === this.#externalId(record.check.series)) ?? null;
  }

  #externalId(series: number): string {
    return `${AGGREGATE_ID}${this.#row.headSha.slice(0, 12)}:${series}`;
  }

  #failed(failure: GitHubFailure, record: AggregateRecord): void {
    const { store } = this.#context;
    const { tries } = this.#task;
    if (failureClass(failure) !== "retry-later" && tries === FORBIDDEN_TRIES) {
      const facts = { head: this.#row.headSha, why: describeFailure(failure) };
      store.audit(this.#beganAt, null, audit("aggregate.unpublishable", null, facts));
    }
    this.#save({ ...record, round: { ...record.round, key: null } }, true);
    const retryAt = failure.reason === "rate-limited" ? failure.retryAtMs : 0;
    this.#again(Math.max(retryAt, this.#beganAt + pauseAfter(tries)), PAUSED, tries);
  }

  /** All said. Looked at again when somebody is heard, when the same facts mean something else, and now and then. */
  #rest(before: AggregateRecord, config: RepositoryConfig, until: Millis | null, twinsEnded = true): void {
    const now = this.#beganAt;
    const every = Math.round(config.limits.reconcile * 1000);
    const rest = now + Math.min(Math.max(REST_MAX_MS, every), Math.max(every, now - before.changedAt));
    const lateAt = lateWordAt(before);
    const over = lateAt !== null && now >= lateAt && twinsEnded;
    const record = over ? { ...before, check: { ...before.check, mayUndo: false } } : before;
    const next = lateAt === null || over ? rest : earliest(rest, Math.max(lateAt, now + TWINS_AFTER_MS));
    this.#next(record, Math.max(now, earliest(until, next)));
  }

  #next(record: AggregateRecord, at: Millis): void {
    this.#save(record, true);
    this.#again(this.#heardSince() ? Math.min(at, this.#beganAt + DEBOUNCE_MS) : at, "look", 0);
  }

  #save(record: AggregateRecord, live: boolean): void {
    this.#context.aggregates.save(this.#row.headSha, live, record);
  }

  #again(at: Millis, kind: string, tries: number): void {
    const { ports, store } = this.#context;
    store.putTask("aggregate", this.#row.headSha, kind, {}, at, ports.clock.now(), tries);
  }

  /** Somebody was heard while this look was under way. */
  #heardSince(): boolean {
    return (this.#context.aggregates.row(this.#row.headSha)?.heardAt ?? 0) >= this.#beganAt;
  }
}

/** From when on no older word of ours can arrive any more behind the last one; null: none was given up. */
function lateWordAt({ check }: AggregateRecord): Millis | null {
  return check.mayUndo && check.completed && check.writtenAt !== null ? check.writtenAt + TWINS_AFTER_MS : null;
}

/** Whether a write that failed so may still be performed. */
function mayArrive({ reason }: GitHubFailure): boolean {
  return reason === "transport" || reason === "server";
}

type Written =
  | { readonly kind: "written"; readonly record: AggregateRecord }
  | { readonly kind: "later"; readonly record: AggregateRecord; readonly at: Millis }
  | { readonly kind: "failed"; readonly record: AggregateRecord; readonly failure: GitHubFailure };

/** Everything a judgement needs, read side by side. One unread part makes the whole unread. */
async function read(row: AggregateRow, config: RepositoryConfig | null, context: AggregateContext): Promise<Seen> {
  const { github, ports } = context;
  const switchNames = config === null ? [] : switchesOf(config);
  const [subject, listed, ...values] = await Promise.all([
    readSubject(row, config, context),
    github.listCheckRunsForRef(row.headSha, { filter: "all" }),
    ...switchNames.map((name) => github.getRepositoryVariable(name)),
  ]);
  const all = listed.ok ? listed.value.items : [];
  const own = all.filter((run) => isAggregateCheck(run, ports.appId));
  const { check } = row.record;
  // After a write without an answer the list has to say what became of it before anything else is written.
  if (check.unsure && !listed.ok) return notRead("The list of check runs", listed.error);
  if (subject.kind === "unread") return subject;
  if (subject.kind === "over") return { ...subject, own };
  if (!listed.ok) return notRead("The list of check runs", listed.error);
  if (!listed.value.complete) {
    return { kind: "unread", problem: "GitHub did not give the whole list of check runs", retryAt: 0 };
  }
  const switches: Record<string, string> = {};
  for (const [index, value] of values.entries()) {
    const name = switchNames[index] ?? "";
    // A variable that is not set is off. One that cannot be read is neither off nor on.
    if (value.ok) switches[name] = value.value;
    else if (value.error.reason !== "not-found") return notRead(`The switch ${name}`, value.error);
  }
  const { headRef, draft, headRefs } = subject;
  const { draftAt, againAt } = row;
  const now = ports.clock.now();
  const checks = all.filter((run) => !isAggregateCheck(run, ports.appId)).map((run) => observed(run, now));
  const facts = { headRef, draft, switches, checks, draftAt, againAt };
  return { kind: "seen", facts, own, ...(headRefs === undefined ? {} : { headRefs }) };
}

/** Checks that carry the aggregator's own name and are not its own. */
function lookAlikesOf(name: string, checks: readonly ObservedCheck[]): readonly LookAlike[] {
  return checks
    .filter((check) => check.name === name)
    .map(({ appId, conclusion }) => ({ name, appId, conclusion, ignored: true }));
}

/** Switches of the lanes that own a required check. */
function switchesOf(config: RepositoryConfig): readonly string[] {
  const required = new Set(config.required_checks.map((check) => check.name));
  const names = Object.values(config.lanes).flatMap(({ own, checks }) =>
    own !== null && checks.some((check) => required.has(check)) ? [own.switch] : [],
  );
  return [...new Set(names)];
}

/** A check that has not ended and has no time yet is of this moment; one that has ended without a time is old. */
function observed(run: CheckRun, now: Millis): ObservedCheck {
  const { id, name, status, conclusion, startedAt, completedAt, appId } = run;
  const began = startedAt ?? (status === "completed" ? null : now);
  return { id, name, status, conclusion, startedAt: began, createdAt: null, completedAt, appId };
}

function stateOf(view: AggregateView): CheckState {
  if (view.conclusion !== null) return { status: "completed", conclusion: view.conclusion };
  return { status: view.status === "queued" ? "queued" : "in_progress" };
}

function earliest(a: Millis | null, b: Millis): Millis {
  return a === null ? b : Math.min(a, b);
}

function pauseAfter(tries: number): Millis {
  return Math.min(300_000, 1_000 * 2 ** Math.min(9, Math.max(0, tries - 1)));
}
