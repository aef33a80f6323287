/**
 * Plays one request's life through the real `decide()` and the real tables, and writes the rows it leaves at each stage
 * into `docs/storage.md`, between its markers. Fixed clock, fixed ids: the same rows every time.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { closedPod, openCost } from "../durable-objects/gate/costs.ts";
import { rememberTested } from "../durable-objects/gate/greens.ts";
import { rememberHost } from "../durable-objects/gate/hosts.ts";
import { Aggregates, type AggregateRecord } from "../durable-objects/gate/aggregates.ts";
import type { Sql, SqlValue } from "../durable-objects/gate/ports.ts";
import { migrate } from "../durable-objects/gate/schema.ts";
import { Store } from "../durable-objects/gate/store.ts";
import { configFrom } from "../shared/config/load.ts";
import { termsFrom } from "../shared/config/terms.ts";
import { decide, type GateEvent } from "../shared/lifecycle/decide.ts";
import type { GateRequest, Proof } from "../shared/lifecycle/model.ts";
import { newRequest } from "../shared/lifecycle/new-request.ts";
import type { Done, JobFacts, Observation, PodFacts, Task, Want } from "../shared/lifecycle/tasks.ts";
import { unreachable } from "../shared/result.ts";
import { nodeSql } from "../test/support/node-sql.ts";

const FILE = join(import.meta.dirname, "../docs/storage.md");
export const BEGIN = "<!-- examples: written by scripts/storage-examples.ts -->";
export const END = "<!-- /examples -->";

const T0 = Date.UTC(2026, 10, 30, 12);
const HEAD = "4f2c9a1e5b7d8c3f6a0e9d8c7b6a5f4e3d2c1b0a";
const CONFIG_HASH = "9b1c3d5e7f90a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f607182930";
const POD = "k2m4p6q8r0s1t3";
const HOUR = 3_600_000;
const known = <T>(value: T) => ({ known: true as const, value });

export interface Example {
  readonly stage: string;
  readonly table: string;
  readonly row: Readonly<Record<string, SqlValue>>;
}

/** The stages at which rows are shown, by the request's state; each is taken when the state is first reached. */
const STAGES = ["authorizing", "waiting", "preparing", "queued", "provisioning", "executing", "cleaning", "concluded"];

/** One pull request from its webhook to its green check, as far as the database sees it. */
export function examples(): readonly Example[] {
  const sql = nodeSql();
  migrate(sql);
  const life = new Life(sql);
  life.play();
  return life.shown;
}

class Life {
  readonly shown: Example[] = [];
  readonly #sql: Sql;
  readonly #store: Store;
  #now = T0;
  #job: "none" | "running" | "completed" = "none";
  #online = false;

  constructor(sql: Sql) {
    this.#sql = sql;
    this.#store = new Store(sql);
  }

  play(): void {
    const store = this.#store;
    store.rememberRepository({ id: "101", owner: "octo", name: "engine" }, "77");
    store.markDelivered("6c2a4f00-cd1e-11f0-9c1b-3a5d6e7f8091", "pull_request", T0, "open r1");
    store.count("deliveries.pull_request");
    store.rememberConfig(CONFIG_HASH, configFrom());
    store.setMeta("last_config", CONFIG_HASH);
    store.setMeta("reconciled_at", String(T0));
    const actor = { id: "501", login: "mira" };
    const id = store.nextRequestId();
    const what = {
      kind: "pull-request",
      prNumber: 42,
      headSha: HEAD,
      generation: 1,
      row: 1,
      actor,
      approvedBy: null,
    } as const;
    store.saveRequest(newRequest(id, what, T0));
    this.#apply(id, { kind: "opened" });
    for (let steps = 0; steps < 200; steps += 1) {
      const request = store.request(id);
      if (request === null || request.state.kind === "concluded") break;
      const task = store.taskOf("main", id);
      if (task === null) throw new Error(`nothing is due in state ${request.state.kind}`);
      this.#now = Math.max(this.#now + 400, task.dueAt);
      const read = store.parseTask(task);
      if (!read.ok) throw new Error(`its own task does not read: ${read.error.where}`);
      const done = this.#perform(read.value, request);
      store.removeTask(task.id);
      this.#apply(id, { kind: "done", taskId: task.id, done });
      this.#between(id);
    }
    const end = store.request(id);
    if (end?.state.kind !== "concluded" || end.state.verdict.kind !== "passed") {
      throw new Error(`the example must end green, not as ${JSON.stringify(end?.state)}`);
    }
    store.saveRequest({
      ...end,
      check: {
        series: 0,
        checkRunId: "30412345678",
        published: "512-1a2b3c4d-5e6f7081",
        completed: true,
        saidUnproven: false,
        mayHaveTwins: false,
      },
    });
    store.sealAudit(1, "7d0f4a5b6c7d8e9f00112233445566778899aabbccddeeff0011223344556677");
    this.#show("concluded", ["requests", "attempts", "runs", "ledger", "money", "lock", "audit", "meta", "deliveries"]);
    store.saveStray({
      pod_id: "z9y8x7",
      why: "second pod under one name",
      since: T0,
      done_at: this.#now,
      record: "{}",
    });
    // What a recovery by hand leaves: the token's id is spent, the run is remembered.
    const jti = "3f1e9c70-6b5a-4d2c-8e1f-0a9b8c7d6e5f";
    this.#sql.exec(`INSERT INTO tokens (jti, expires_at) VALUES (?, ?)`, jti, this.#now + 600_000);
    this.#sql.exec(`INSERT INTO dispatches (run_id, request_id, at) VALUES ('9100000009', ?, ?)`, id, this.#now);
    // What another attempt, on a machine that failed it, would have left.
    const machine = { gpuUuid: "GPU-1a2b3c4d-5e6f-7081-92a3-b4c5d6e7f809", dataCenterId: "EU-RO-1" };
    rememberHost(this.#sql, { attemptId: "r0-1", ...machine, why: "attempt-pod-died" }, this.#now);
    this.#aggregated();
    store.flushCounters();
    this.#show("concluded", [
      "counters",
      "strays",
      "tokens",
      "dispatches",
      "bad_hosts",
      "costs",
      "greens",
      "aggregates",
    ]);
  }

  /** What a configured aggregator would have said of the same head. */
  #aggregated(): void {
    const record: AggregateRecord = {
      round: {
        startedAt: T0,
        bornAt: 0,
        hold: true,
        draft: false,
        draftAt: null,
        againAt: null,
        key: "pass",
        judged: ["30412345678", "30412345670"],
      },
      check: {
        series: 1,
        id: "30412345690",
        name: "Required checks",
        published: "702-3c4d5e6f-718293a4",
        completed: true,
        writtenAt: this.#now,
        unsure: false,
        mayUndo: false,
      },
      seen: "311-5e6f7081-92a3b4c5",
      changedAt: this.#now,
      foreign: null,
    };
    this.#sql.exec(
      `INSERT INTO aggregates (head_sha, pr_number, live, heard_at, again_at, draft_at, record)
       VALUES (?, 42, 1, ?, NULL, NULL, '{}')`,
      HEAD,
      this.#now - 1_000,
    );
    new Aggregates(this.#sql, this.#store).save(HEAD, true, record);
  }

  /** What happens between two tasks without being asked for: the proof, the job. */
  #between(id: string): void {
    const state = this.#store.request(id)?.state;
    if (state?.kind === "provisioning" && state.step === "start" && state.attempt?.proof === null) {
      this.#now += 41_000;
      const proof: Proof = {
        at: this.#now,
        podId: POD,
        gpuName: "NVIDIA RTX A4000",
        gpuUuid: "GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
        vramMb: 16_376,
        driverCuda: "12.8",
        nvrtc: "12.8",
        kernel: "passed",
        count: 1,
        scriptHash: "0c1d2e3f405162738495a6b7c8d9eafb0c1d2e3f405162738495a6b7c8d9eafb",
      };
      this.#apply(id, { kind: "proof", attemptId: state.attempt.id, proof });
      this.#online = true;
    }
    if (state?.kind === "executing") this.#job = this.#job === "none" ? "running" : "completed";
  }

  /** Everything one step changes, as the gate stores it. */
  #apply(id: string, event: GateEvent): void {
    const store = this.#store;
    const before = store.request(id);
    if (before === null) throw new Error("the request is gone");
    const step = decide(before, event, {
      now: this.#now,
      jitter: 0.5,
      nonce: "5f1c0d9e8b7a695847362514",
      deployment: "gpu-gate",
      repositoryId: "101",
    });
    if (step.ignored !== null) throw new Error(`${event.kind} was ignored: ${step.ignored}`);
    let next = step.request;
    if (step.task !== null) {
      const { task, dueAt } = step.task;
      next = { ...next, task: { id: store.putTask("main", id, task.kind, task, dueAt, this.#now), kind: task.kind } };
    }
    if (next.state.kind === "queued" && step.lock === "enqueue") {
      next = { ...next, state: { ...next.state, seq: store.enqueue(id, this.#now) } };
    }
    for (const op of step.ledger) store.ledger(op, id);
    for (const note of step.audit) store.audit(this.#now, id, note);
    store.saveRequest(next);
    rememberTested(this.#sql, next, this.#now);
    for (const op of step.ledger) {
      if (op.kind === "close") openCost(this.#sql, store, closedPod(before), op, this.#now);
    }
    if (before.state.kind !== next.state.kind && !this.shown.some((example) => example.stage === next.state.kind)) {
      this.#stage(next);
    }
    if (step.lock === "enqueue") {
      store.dequeue(id);
      store.setLock({ holder: id, fence: 1, since: this.#now });
      this.#apply(id, { kind: "lock-granted", fence: 1 });
    }
    if (step.lock === "release") store.setLock({ holder: null, fence: 1, since: null });
  }

  #stage(request: GateRequest): void {
    const stage = request.state.kind;
    if (!STAGES.includes(stage) || stage === "concluded") return;
    const more: Readonly<Record<string, readonly string[]>> = {
      authorizing: ["tasks"],
      preparing: ["configs"],
      queued: ["queue"],
      executing: ["attempts", "runs", "ledger", "money", "lock", "tasks"],
    };
    this.#show(stage, ["requests", ...(more[stage] ?? [])]);
  }

  #show(stage: string, tables: readonly string[]): void {
    for (const table of tables) {
      const rows = this.#sql.exec(`SELECT * FROM ${table}`);
      // One row of a kind is enough to show; the audit's first is sealed, its last is not.
      const row = rows[0];
      if (row !== undefined) this.shown.push({ stage, table, row });
    }
  }

  #perform(task: Task, request: GateRequest): Done {
    const store = this.#store;
    switch (task.kind) {
      case "authorize":
      case "recheck":
        return { task: task.kind, outcome: admitted() };
      case "dispatch-prepare":
        return { task: task.kind, outcome: { kind: "dispatched", runId: "9100000001" } };
      case "observe":
        return { task: task.kind, outcome: this.#observe(task.want) };
      case "plan":
        return { task: task.kind, outcome: { kind: "planned", plan: { ...PLAN, madeAt: this.#now } } };
      case "reserve":
        store.reserveMoney({
          attemptId: task.attemptId,
          requestId: request.id,
          prNumber: request.prNumber,
          authorId: "501",
          micros: task.micros,
          at: this.#now,
        });
        return { task: task.kind, outcome: { kind: "reserved" } };
      case "mint":
        return {
          task: task.kind,
          outcome: { kind: "minted", runnerId: "7100", proofHash: "a3".repeat(32), exitHash: "b4".repeat(32) },
        };
      case "dispatch-execute":
        return { task: task.kind, outcome: { kind: "dispatched", runId: "9100000002" } };
      case "create-pod":
        return {
          task: task.kind,
          outcome: { kind: "created", pod: pod("PROVISIONING"), sentAt: this.#now - 350, elapsedMs: 350 },
        };
      case "read-record":
        return { task: task.kind, outcome: { pricePerHour: 0.25 } };
      case "delete-pod":
        return { task: task.kind, outcome: { kind: "deleted" } };
      case "verify-gone":
        return { task: task.kind, outcome: { kind: "gone" } };
      case "list-pods":
        return {
          task: task.kind,
          outcome: { kind: "listed", startedAt: task.notBefore, complete: true, alive: false },
        };
      case "read-run":
        return { task: task.kind, outcome: { kind: "completed" } };
      case "deregister":
        return { task: task.kind, outcome: { kind: "gone" } };
      case "settle":
        store.settleMoney(task.attemptId, task.micros);
        return { task: task.kind, outcome: { kind: "settled" } };
      case "find-prepare":
      case "find-runner":
      case "find-execute":
      case "look-up-pod":
      case "sleep":
      case "cancel-run":
        throw new Error(`the example meets no ${task.kind}: nothing is lost in it`);
      default:
        return unreachable(task, "task");
    }
  }

  #observe(want: Want): Observation {
    const pull = { open: true, headSha: HEAD, baseRef: "main", headRepositoryId: "101", draft: false };
    const prepare = {
      status: "completed",
      conclusion: "success",
      failedJobs: [],
      artifacts: [
        { id: "5500", name: "archive-part-1", digest: `sha256:${"c5".repeat(32)}`, expiresAt: T0 + 24 * HOUR },
      ],
      url: "https://github.com/octo/engine/actions/runs/9100000001",
    };
    return {
      ...(want.pull === undefined ? {} : { pull: known(pull) }),
      ...(want.triggerRun === undefined
        ? {}
        : { triggerRun: known({ runId: "9100000000", status: "in_progress", actor: { id: "501", login: "mira" } }) }),
      ...(want.prepareRun === undefined ? {} : { prepareRun: known(prepare) }),
      ...(want.preGate === undefined ? {} : { preGate: known({ kind: "ready" as const }) }),
      ...(want.pod === undefined ? {} : { pod: known({ pod: pod("RUNNING"), getGone: false }) }),
      ...(want.runner === undefined ? {} : { runner: known({ online: this.#online, busy: this.#job === "running" }) }),
      ...(want.job === undefined
        ? {}
        : {
            job: known({
              runStatus: this.#job === "completed" ? "completed" : "in_progress",
              runConclusion: this.#job === "completed" ? "success" : null,
              latestAttempt: 1,
              job: this.#job === "none" ? null : this.#gpuJob(),
            }),
          }),
    };
  }

  #gpuJob(): JobFacts {
    const completed = this.#job === "completed";
    const status = completed ? "completed" : "in_progress";
    const conclusion = completed ? "success" : null;
    const steps = configFrom().evidence.test_steps.map((name) => ({ name, status, conclusion }));
    return {
      id: "8200",
      status,
      conclusion,
      runnerId: "7100",
      startedAt: this.#now - 90_000,
      completedAt: completed ? this.#now : null,
      steps,
      url: "https://github.com/octo/engine/actions/runs/9100000002/job/8200",
      evidence: completed ? { tests: 211, seconds: 63 } : null,
      failures: [],
    };
  }
}

const CANDIDATE = { name: "NVIDIA RTX A4000", tier: "cost-preferred", acceptedIds: ["NVIDIA RTX A4000"], price: 0.25 };
const PLAN = {
  candidates: [CANDIDATE],
  image: `ghcr.io/actions/actions-runner@sha256:${"d6".repeat(32)}`,
  ceilingPrice: 1.6,
  reservedPrice: 0.2555,
};

function pod(status: PodFacts["status"]): PodFacts {
  const running = status === "RUNNING";
  return {
    id: POD,
    name: "gpu-gate-r1-1",
    status,
    gpuId: "NVIDIA RTX A4000",
    gpuCount: 1,
    cloud: "SECURE",
    dataCenterId: running ? "EU-RO-1" : null,
    machineAssigned: running,
    runtimeUp: running,
    idle: running ? false : null,
    pricePerHour: 0.25,
    startedAt: running ? T0 + 60_000 : null,
  };
}

function admitted() {
  return {
    kind: "admitted" as const,
    terms: termsFrom(configFrom(), CONFIG_HASH),
    admission: {
      admittedAt: T0,
      defaultBranch: "main",
      defaultSha: "0".repeat(39) + "1",
      workflowBlobs: {
        ".github/workflows/gpu-gate-prepare.yml": "1".repeat(40),
        ".github/workflows/gpu-gate-execute.yml": "2".repeat(40),
      },
      baseRef: "main",
      baseSha: "0".repeat(39) + "1",
      testedSha: "8".repeat(40),
      title: "Faster reductions",
      author: { id: "501", login: "mira" },
      actor: { id: "501", login: "mira" },
      classification: "code",
      lanes: { gpu: true },
      gpuRequired: true,
      reason: "src/reduce.rs is code",
      draft: false,
      treeSha: "7".repeat(40),
    },
  };
}

/** Long columns are JSON texts: shown parsed, so that they can be read. The full record once, its `state` elsewhere. */
function shownRow({ table, stage, row }: Example): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(row).map(([column, value]) => {
      if (typeof value !== "string" || !["record", "payload", "facts", "config", "report"].includes(column))
        return [column, value];
      const parsed: unknown = JSON.parse(value);
      if (table === "requests" && stage !== "executing")
        return [column, { "...": "...", state: (parsed as GateRequest).state }];
      if (table === "configs") return [column, { "...": "the effective configuration, every default filled in" }];
      return [column, parsed];
    }),
  );
}

const WIDTH = 116;

/** JSON on one line, with a blank behind each colon and comma. */
function flat(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(flat).join(", ")}]`;
  return `{${Object.entries(value)
    .map(([key, entry]) => `${JSON.stringify(key)}: ${flat(entry)}`)
    .join(", ")}}`;
}

/** JSON in as few lines of bounded width as its nesting allows. */
function lines(value: unknown, indent = ""): string {
  const short = flat(value);
  if (typeof value !== "object" || value === null || indent.length + short.length <= WIDTH) return short;
  const deeper = `${indent}  `;
  const parts = Array.isArray(value)
    ? value.map((entry) => lines(entry, deeper))
    : Object.entries(value).map(([key, entry]) => `${JSON.stringify(key)}: ${lines(entry, deeper)}`);
  const rows: string[] = [];
  for (const part of parts) {
    const last = rows.at(-1);
    const joined = `${last}, ${part}`;
    if (last === undefined || joined.includes("\n") || deeper.length + joined.length > WIDTH) rows.push(part);
    else rows[rows.length - 1] = joined;
  }
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return `${open}\n${rows.map((row) => deeper + row).join(",\n")}\n${indent}${close}`;
}

export function exampleBlocks(): string {
  const stages = [...new Set(examples().map(({ stage }) => stage))];
  const blocks = stages.flatMap((stage) => [
    `### ${stage}`,
    "",
    ...examples()
      .filter((example) => example.stage === stage)
      .flatMap((example) => [`\`${example.table}\``, "", "```json", lines(shownRow(example)), "```", ""]),
  ]);
  return blocks.join("\n");
}

if (import.meta.main) {
  const page = readFileSync(FILE, "utf8");
  const begin = page.indexOf(BEGIN);
  const end = page.indexOf(END);
  if (begin < 0 || end < begin) throw new Error(`docs/storage.md needs the lines ${BEGIN} and ${END}`);
  writeFileSync(FILE, `${page.slice(0, begin + BEGIN.length)}\n\n${exampleBlocks()}\n${page.slice(end)}`);
}
