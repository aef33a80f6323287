/**
 * Databases as schema version 1 left them, one for each stage of a request's life, and a small outside for them to go on in.
 *
 * `schema-1.jsonl` was written once, by the last code of version 1: lives of its simulator, cut at the first step that was in
 * the state named, in some of them with a call under way. It is never written again: what it holds is what is out there.
 * First line: the tables of that version, and configurations by hash. Each further line: one database.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { Account } from "../../durable-objects/account/account.ts";
import { Gate } from "../../durable-objects/gate/gate.ts";
import type { AccountAnswer, GatePorts, Sql } from "../../durable-objects/gate/ports.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import type { CheckState } from "../../shared/github/checks.ts";
import { requestSchema, type Attempt } from "../../shared/lifecycle/model.ts";
import { err, ok } from "../../shared/result.ts";
import { parsePod, type Pod } from "../../shared/runpod/pod.ts";
import { ownershipTags } from "../../shared/runpod/tags.ts";
import { nodeSql } from "../support/node-sql.ts";

const value = z.union([z.string(), z.number(), z.null()]);
const table = z.object({ columns: z.array(z.string()), rows: z.array(z.array(value)) });
const headSchema = z.object({ schema: z.array(z.string()), configs: z.record(z.string(), z.string()) });
const lifeSchema = z.object({
  name: z.string(),
  at: z.number(),
  request: z.string(),
  tables: z.record(z.string(), table),
  configs: z.array(z.string()),
});

export type StoredLife = z.infer<typeof lifeSchema>;

const [first = "", ...rest] = readFileSync(join(import.meta.dirname, "schema-1.jsonl"), "utf8")
  .trim()
  .split("\n");
const head = headSchema.parse(JSON.parse(first));

/** The tables of version 1, in the order in which they were made. */
export const SCHEMA_1 = head.schema;

export const lives: readonly StoredLife[] = rest.map((line) => lifeSchema.parse(JSON.parse(line)));

/** Writes a database of version 1 as it was. */
export function restore(life: StoredLife, sql: Sql): void {
  for (const statement of SCHEMA_1) sql.exec(statement);
  for (const [name, { columns, rows }] of Object.entries(life.tables)) {
    // Made together with the lock's table; SQLite's own table of sequences has no key to replace by.
    if (name === "lock" || name === "sqlite_sequence") sql.exec(`DELETE FROM ${name}`);
    const into = `INSERT INTO ${name} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`;
    for (const row of rows) sql.exec(into, ...row);
  }
  for (const hash of life.configs) {
    sql.exec(`INSERT INTO configs (hash, config) VALUES (?, ?)`, hash, head.configs[hash] ?? "");
  }
}

/** The attempt of this database's request whose pod RunPod has, or may have. Null: nothing is rented there. */
export function rentedIn(life: StoredLife, sql: Sql): Attempt | null {
  const row = sql.exec<{ record: string }>(`SELECT record FROM requests WHERE id = ?`, life.request)[0];
  const { state } = requestSchema.parse(JSON.parse(row?.record ?? ""));
  const attempt = "attempt" in state ? state.attempt : null;
  if (attempt === null) return null;
  if (attempt.pod !== null) {
    const open = sql.exec(`SELECT 1 AS is_open FROM ledger WHERE pod_id = ? AND closed_at IS NULL`, attempt.pod.id);
    return open.length > 0 ? attempt : null;
  }
  const asked = state.kind === "provisioning" && (state.step === "create" || state.step === "look-up");
  return asked ? attempt : null;
}

/** The repository that the database guards. */
export function repositoryOf(life: StoredLife): string {
  const id = life.tables["meta"]?.rows.find(([key]) => key === "repository_id")?.[1];
  return String(id);
}

const DEPLOYMENT = "sim";
const MINUTE = 60_000;

/**
 * A gate over `sql`. Outside nothing is left of the pull requests and their runs; check runs can be written, and RunPod has
 * the pods that are put there, until they are deleted. `luck` is every byte of its randomness.
 */
export function goOn(sql: Sql, from: number, repositoryId: string, accountSql: Sql = nodeSql(), luck = 7) {
  let now = from;
  const clock = { now: () => now };
  const pods = new Map<string, Pod>();
  const cut = { lists: false };
  const bought: string[] = [];
  const completed = new Map<string, string>();
  const missing = () => Promise.resolve(err({ reason: "not-found" as const }));
  const say = (id: string, state: CheckState | undefined) => {
    if (state?.status === "completed") completed.set(id, state.conclusion);
    return Promise.resolve(ok({ id } as never));
  };
  const github: Partial<GitHubClient> = {
    createCheckRun: (fields) => say(fields.externalId ?? "", fields.state),
    updateCheckRun: (id, fields) => say(id, fields.state),
    listCheckRunsForRef: () => Promise.resolve(ok({ items: [], complete: true } as never)),
    listOpenPulls: () => Promise.resolve(ok({ items: [], complete: true } as never)),
  };
  const runpod = new Proxy(
    {
      getPod: (id: string) => {
        const pod = pods.get(id);
        return Promise.resolve(pod === undefined ? { kind: "not-found" } : { kind: "pod", pod });
      },
      deletePod: (id: string) => Promise.resolve(pods.delete(id) ? { kind: "deleted" } : { kind: "not-found" }),
      listPods: () => Promise.resolve(ok({ pods: [...pods.values()], complete: !cut.lists, startedAtMs: now })),
      createPod: (body: { readonly name: string }) => {
        bought.push(body.name);
        return Promise.resolve({ kind: "failure", failure: { reason: "capacity" } });
      },
    },
    { get: (own, name): unknown => Reflect.get(own, name) ?? missing },
  ) as unknown as GatePorts["runpod"];
  const account = new Account({ sql: accountSql, clock, runpod, monthlyCapMicros: 400_000_000 });
  const answered = async <T>(answer: T): Promise<AccountAnswer<T>> => ({ ok: true, value: answer });
  const ports: GatePorts = {
    sql,
    alarm: { set: () => undefined },
    clock,
    random: { next: () => 0.5, bytes: (length) => new Uint8Array(length).fill(luck) },
    account: {
      listPods: (notBefore) => account.listPods(notBefore),
      market: async () => ({ ok: false, why: "cut" }),
      reserve: (attemptId, micros) => answered(account.reserve(attemptId, repositoryId, micros)),
      commit: async (attemptId, micros) => (account.commit(attemptId, micros, repositoryId), answered(null)),
      release: async (attemptId) => (account.release(attemptId, repositoryId), answered(null)),
      goneSince: () => answered(null),
      register: (repository) => (account.register(repository), answered(null)),
    },
    runpod,
    github: () => new Proxy(github as GitHubClient, { get: (own, name): unknown => Reflect.get(own, name) ?? missing }),
    resolveImage: async () => ({ ok: false, why: "cut" }),
    publicUrl: "https://gate.test",
    deployment: DEPLOYMENT,
    appId: "4711",
    log: () => undefined,
  };
  const gate = new Gate(ports);
  return {
    gate,
    account,
    pods,
    bought,
    completed,
    /** What of RunPod is cut off: lists miss their last page. */
    cut,
    /** So many minutes pass, and nothing is done. */
    pass: (minutes: number): void => void (now += minutes * MINUTE),
    /** Puts the attempt's pod there, as RunPod shows it. */
    rent: (attempt: Attempt, requestId: string): string => {
      const id = attempt.pod?.id ?? `late-${attempt.id}`;
      const owner = { deployment: DEPLOYMENT, repositoryId, requestId, attemptId: attempt.id };
      const env = ownershipTags({ ...owner, runId: attempt.run?.runId ?? "1", keep: "false" });
      const createdAt = new Date(attempt.createSentAt ?? from).toISOString();
      const parsed = parsePod({ id, name: attempt.podName, status: "RUNNING", createdAt, env });
      if (!parsed.ok) throw new Error(parsed.what);
      pods.set(id, parsed.pod);
      return id;
    },
    /** Works on, as alarms and cron would have it, until nothing is open or so many minutes have passed. */
    work: async (minutes: number): Promise<void> => {
      const until = now + minutes * MINUTE;
      while (now < until) {
        gate.tick();
        await gate.run();
        if (gate.store.openRequests().length === 0 && gate.store.openLedgerPodIds().length === 0) break;
        const due = gate.store.nextDue() ?? until;
        now = Math.max(now + 1, Math.min(due, now + MINUTE));
      }
      now += MINUTE;
      await gate.run();
    },
  };
}
