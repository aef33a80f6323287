/**
 * The heads that the aggregator answers for: one row each, and the hints that make it look again.
 *
 * Columns are written by hints, the record by the look alone (`aggregate.ts`), so that neither undoes the other. A look is
 * a task of the lane `aggregate`; it always exists while the head is live, so no lost webhook leaves a check open for ever.
 */
import * as z from "zod";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import { aggregateHint } from "../../shared/lifecycle/aggregate-hints.ts";
import type { Signal } from "../../shared/lifecycle/signal.ts";
import { firstRound, reopenedRound, roundSchema } from "../../shared/policy/aggregate-round.ts";
import type { Millis } from "../../shared/ports.ts";
import type { Sql } from "./ports.ts";
import type { Store } from "./store.ts";
import { readStored } from "./stored-json.ts";

export const aggregateRecordSchema = z.object({
  round: roundSchema,
  check: z.object({
    /** Check runs made so far: the newest one's external id ends with it. */
    series: z.int(),
    /** GitHub's id of the newest one; null until its create was answered. */
    id: z.string().nullable(),
    name: z.string().nullable(),
    /** Fingerprint of what it says; null: nothing yet. */
    published: z.string().nullable(),
    completed: z.boolean(),
    writtenAt: z.number().nullable(),
    /** The last write has no answer yet: what became of it is read before the next one. */
    unsure: z.boolean(),
    /** A write was given up and another one sent: the first may arrive after all, and undo what was said since. */
    mayUndo: z.boolean().default(false),
  }),
  /** Fingerprint of what was last seen, and since when nothing else was: how often a head at rest is looked at. */
  seen: z.string().nullable(),
  changedAt: z.number(),
  /** Fingerprint of the other Apps' look-alikes that the audit has. */
  foreign: z.string().nullable(),
  /** A merge group's: the head branches of its members, once a rule has asked for them. */
  headRefs: z.array(z.string()).optional(),
});
export type AggregateRecord = z.infer<typeof aggregateRecordSchema>;

export interface AggregateRow {
  readonly headSha: string;
  /** The pull request that speaks for the commit; `MERGE_GROUP` where a merge group does. */
  readonly prNumber: number;
  readonly live: boolean;
  readonly heardAt: Millis;
  readonly againAt: Millis | null;
  readonly draftAt: Millis | null;
  readonly record: AggregateRecord;
  /** The stored record does not read: this one is a new one, which knows of no check that was written. */
  readonly unreadable: boolean;
}

/** Pull requests as a list shows them, as far as the aggregator needs it. */
export interface ListedPull {
  readonly number: number;
  readonly headSha: string;
  readonly draft: boolean;
}

type Row = {
  head_sha: string;
  pr_number: number;
  live: number;
  heard_at: number;
  again_at: number | null;
  draft_at: number | null;
  record: string;
};

/** In the place of a pull request's number: the commit is a merge group's. GitHub counts from 1. */
export const MERGE_GROUP = 0;

/** Many checks end within a second of each other: one look for all of them. */
export const DEBOUNCE_MS = 1_000;
/** A task of this kind waits out a failure; hints do not bring it forward. */
export const PAUSED = "pause";
/** Rows of heads that are over are kept longer than a pull request is likely to be reopened. */
const MEMORY_MS = 30 * 86_400_000;

/** `unsure`: something may have been written that is not known here. */
function newRecord(now: Millis, unsure: boolean): AggregateRecord {
  return {
    round: firstRound(now),
    check: {
      series: 0,
      id: null,
      name: null,
      published: null,
      completed: false,
      writtenAt: null,
      unsure,
      mayUndo: false,
    },
    seen: null,
    changedAt: now,
    foreign: null,
  };
}

/** A head whose record does not read is judged anew from what GitHub shows: one head must not end the looks at all others. */
function recordOf(row: Row): Pick<AggregateRow, "record" | "unreadable"> {
  const read = readStored(aggregateRecordSchema, row.record);
  return read.ok
    ? { record: read.value, unreadable: false }
    : { record: newRecord(row.heard_at, true), unreadable: true };
}

export class Aggregates {
  readonly #sql: Sql;
  readonly #store: Store;
  #known: { readonly hash: string | null; readonly configured: boolean } = { hash: null, configured: false };

  constructor(sql: Sql, store: Store) {
    this.#sql = sql;
    this.#store = store;
  }

  /** Whether the newest known configuration names an aggregator. Costs one indexed read per call. */
  configured(): boolean {
    const hash = this.#store.meta("last_config");
    if (hash !== this.#known.hash) {
      this.#known = { hash, configured: (this.config()?.aggregator.name ?? null) !== null };
    }
    return this.#known.configured;
  }

  config(): RepositoryConfig | null {
    const hash = this.#store.meta("last_config");
    return hash === null ? null : this.#store.config(hash);
  }

  /** A signal, in the transaction that accepts it. */
  hear(signal: Signal, appId: string, now: Millis): void {
    if (!this.configured()) return;
    const hint = aggregateHint(signal, appId);
    if (hint === null) return;
    const { headSha, prNumber, kind } = hint;
    if (kind === "again") this.#sql.exec(`UPDATE aggregates SET again_at = ? WHERE head_sha = ?`, now, headSha);
    if (kind === "open") this.open(headSha, prNumber ?? MERGE_GROUP, now);
    // Other heads of the same pull request find out that they are over.
    if (prNumber !== null) for (const row of this.#liveOf(prNumber)) this.look(row.head_sha, now);
    else if (this.#isLive(headSha)) this.look(headSha, now);
  }

  /** This head belongs to an open pull request, or is a merge group's (`MERGE_GROUP`): it gets an answer, once. */
  open(headSha: string, prNumber: number, now: Millis): void {
    if (!this.configured()) return;
    const row = this.row(headSha);
    if (row?.live === true) {
      // Two pull requests with one head: the one that is ready speaks for the commit. A merge group's is the group's, whoever
      // has opened a pull request at it: a draft, or one that is closed again, must not hold the queue up.
      const takesOver = prNumber === MERGE_GROUP || (row.prNumber !== MERGE_GROUP && row.record.round.draft);
      if (row.prNumber !== prNumber && takesOver) {
        this.#sql.exec(`UPDATE aggregates SET pr_number = ? WHERE head_sha = ?`, prNumber, headSha);
        this.look(headSha, now);
      }
      return;
    }
    const record: AggregateRecord =
      row === null
        ? newRecord(now, false)
        : { ...row.record, round: reopenedRound(row.record.round, now), seen: null, changedAt: now };
    this.#sql.exec(
      `INSERT INTO aggregates (head_sha, pr_number, live, heard_at, again_at, draft_at, record)
       VALUES (?, ?, 1, ?, NULL, NULL, ?)
       ON CONFLICT (head_sha) DO UPDATE SET pr_number = excluded.pr_number, live = 1, record = excluded.record`,
      headSha,
      prNumber,
      now,
      JSON.stringify(record),
    );
    // At once, so that the check is there before anybody asks why it is not.
    this.look(headSha, now, 0);
  }

  /** Brings the next look at a live head forward. One that is under way is followed by another. */
  look(headSha: string, now: Millis, delayMs: Millis = DEBOUNCE_MS): void {
    this.#sql.exec(`UPDATE aggregates SET heard_at = ? WHERE head_sha = ?`, now, headSha);
    const task = this.#store.taskOf("aggregate", headSha);
    if (task === null) this.#store.putTask("aggregate", headSha, "look", {}, now + delayMs, now);
    else if (task.kind !== PAUSED) this.#store.hurryTask("aggregate", headSha, now + delayMs);
  }

  /** What reconciling saw: heads and groups nobody told of, heads that are over, drafts, and a configuration that has changed. */
  compare(pulls: readonly ListedPull[], now: Millis): void {
    const live = this.#live();
    if (this.configured()) {
      for (const pull of pulls) {
        this.open(pull.headSha, pull.number, now);
        if (pull.draft) this.#sql.exec(`UPDATE aggregates SET draft_at = ? WHERE head_sha = ?`, now, pull.headSha);
        const row = live.find((known) => known.headSha === pull.headSha && known.prNumber === pull.number);
        if (row !== undefined && row.record.round.draft !== pull.draft) this.look(row.headSha, now);
      }
      for (const request of this.#store.openRequests()) {
        if (request.kind === "merge-group") this.open(request.headSha, MERGE_GROUP, now);
      }
    }
    const hash = this.#store.meta("last_config") ?? "";
    const changed = live.length > 0 && this.#store.meta("aggregate_config") !== hash;
    if (changed) this.#store.setMeta("aggregate_config", hash);
    const heads = new Set(pulls.map((pull) => `${pull.number} ${pull.headSha}`));
    for (const row of live) {
      if (changed || !heads.has(`${row.prNumber} ${row.headSha}`)) this.look(row.headSha, now);
    }
  }

  row(headSha: string): AggregateRow | null {
    return this.#rows(`SELECT * FROM aggregates WHERE head_sha = ?`, headSha)[0] ?? null;
  }

  /** The look's own part of the row. */
  save(headSha: string, live: boolean, record: AggregateRecord): void {
    const text = JSON.stringify(record);
    this.#sql.exec(`UPDATE aggregates SET live = ?, record = ? WHERE head_sha = ?`, live ? 1 : 0, text, headSha);
  }

  forget(now: Millis): void {
    this.#sql.exec(`DELETE FROM aggregates WHERE live = 0 AND heard_at < ?`, now - MEMORY_MS);
  }

  #live(): readonly AggregateRow[] {
    return this.#rows(`SELECT * FROM aggregates WHERE live = 1`);
  }

  #liveOf(prNumber: number): readonly { readonly head_sha: string }[] {
    return this.#sql.exec<{ head_sha: string }>(
      `SELECT head_sha FROM aggregates WHERE pr_number = ? AND live = 1`,
      prNumber,
    );
  }

  #isLive(headSha: string): boolean {
    return this.#sql.exec(`SELECT 1 AS found FROM aggregates WHERE head_sha = ? AND live = 1`, headSha).length > 0;
  }

  #rows(query: string, ...bindings: (string | number)[]): AggregateRow[] {
    return this.#sql.exec<Row>(query, ...bindings).map((row) => ({
      headSha: row.head_sha,
      prNumber: row.pr_number,
      live: row.live === 1,
      heardAt: row.heard_at,
      againAt: row.again_at,
      draftAt: row.draft_at,
      ...recordOf(row),
    }));
  }
}
