/** Small histories for the checkers: each is honest as it stands, and a test breaks one thing in it. */
import { SimHeaders } from "../../sim/answer.ts";
import { checkersFor } from "../../sim/checkers/index.ts";
import { EXECUTE, type CheckRun, type Repository, type Run } from "../../sim/github-model.ts";
import type { NetRequest } from "../../sim/net.ts";
import type { VirtualPod } from "../../sim/runpod.ts";
import type { Checker, WorldView } from "../../sim/view.ts";

export const MINUTE = 60_000;
export const HEAD = "a".repeat(40);
export const MERGE = "b".repeat(40);

export function checker(name: string): Checker {
  const found = checkersFor().find((one) => one.name === name);
  if (found === undefined) throw new Error(`no checker ${name}`);
  return found;
}

export function pod(more: Partial<VirtualPod> = {}): VirtualPod {
  return {
    id: "p1",
    name: "gpu-gate-sim-101-r1-1",
    gpuId: "NVIDIA L4",
    askedGpu: "NVIDIA L4",
    realGpu: "NVIDIA L4",
    env: {
      GPU_GATE_REPOSITORY_ID: "101",
      GPU_GATE_RUN_ID: "9",
      GPU_GATE_ATTEMPT: "r1-1",
      GPU_GATE_REQUEST: "r1",
      GPU_GATE_JIT_CONFIG: "jit-of-p1",
    },
    price: 1,
    askedAt: 0,
    createdAt: 0,
    listedFrom: 0,
    knownFrom: 0,
    late: false,
    status: "RUNNING",
    placed: true,
    runtimeUp: true,
    busy: false,
    startedAt: 0,
    deletes: [],
    livesUntil: 0,
    releasedAt: null,
    listedUntil: 0,
    readUntil: 0,
    ghost: "TERMINATED",
    vanished: false,
    onRelease: null,
    said: [],
    ...more,
  };
}

export function run(more: Partial<Run> = {}): Run {
  const job = {
    id: "1",
    name: "GPU tests",
    labels: [],
    status: "completed",
    conclusion: "success",
    runnerId: "5",
    startedAt: 0,
    completedAt: 5 * MINUTE,
    steps: ["a", "b", "Run GPU tests", "d"].map((name) => ({ name, status: "completed", conclusion: "success" })),
    checkRunId: "2",
    annotations: [{ title: "gpu-gate-evidence", message: "{}", level: "notice" }],
  } as Run["jobs"][number][number];
  return {
    id: "9",
    path: EXECUTE,
    inputs: { request: "r1", tested_sha: MERGE },
    createdAt: 0,
    attempt: 1,
    status: "completed",
    cancelAsked: false,
    gone: false,
    jobs: [[job]],
    ...more,
  } as unknown as Run;
}

export function check(more: Partial<CheckRun> = {}): CheckRun {
  return {
    id: "1",
    appId: "4711",
    name: "CI GPU gate",
    headSha: HEAD,
    externalId: "r1:0",
    status: "completed",
    conclusion: "success",
    startedAt: 0,
    completedAt: 0,
    title: "",
    summary: "",
    text: "",
    ...more,
  };
}

export const CODE = [{ filename: "src/a.rs", status: "modified" }];
export const DOCS = [{ filename: "docs/a.md", status: "modified" }];

export function repository(more: Partial<Repository> = {}): Repository {
  return {
    id: "101",
    owner: "acme",
    name: "repo0",
    pulls: new Map([[1, { number: 1, state: "open", headSha: HEAD, changes: [], files: CODE }]]),
    runs: new Map([["9", run()]]),
    runners: new Map(),
    checks: new Map([["1", check()]]),
    cancels: [],
    groups: new Map(),
    mainHistory: [],
    treeOf: (sha: string) => sha,
    standing: "ok",
    silences: [],
    limits: {},
    keepAlways: false,
    keepHeads: new Set(),
    heads: new Map([[HEAD, { prNumber: 1, files: CODE, mergeSha: MERGE }]]),
    changes: new Map([[HEAD, new Map([["main", { files: CODE, mergeSha: MERGE }]])]]),
    visitors: new Map([[HEAD, new Set([1])]]),
    mergeHeads: new Map([[MERGE, HEAD]]),
    reruns: [],
    asks: new Map(),
    sharedHeads: new Set(),
    returns: new Map(),
    config: "budget: { per_run: 2, per_day: 4, per_month: 9 }",
    ...more,
  } as unknown as Repository;
}

export type Rows = Readonly<Record<string, readonly unknown[]>>;

/** A world of one repository. `rows` answers a query by a word in it. */
export function world(
  more: Partial<{
    now: number;
    pods: VirtualPod[];
    repository: Repository;
    rows: Rows;
    money: readonly unknown[];
    unheard: WorldView["net"]["unheard"];
    log: string[];
    acts: WorldView["worker"]["acts"];
    board: WorldView["board"];
    ticks: number[];
    skipped: number[];
    died: number[];
    healed: boolean;
    up: boolean;
    readOnly: boolean;
    store: object;
  }>,
): WorldView {
  const repo = more.repository ?? repository();
  const store = { lock: () => ({ holder: null }), queueLength: () => 0, recentRequests: () => [], ...more.store };
  const exec = (query: string): unknown[] => {
    if (query.includes("FROM lock")) return [store.lock()];
    for (const [word, rows] of Object.entries(more.rows ?? {})) if (query.includes(word)) return [...rows];
    return [];
  };
  const host = {
    repository: repo,
    up: more.up ?? true,
    startedAt: 0,
    writes: Math.random(),
    writesTo: (): number => host.writes,
    lifted: new Map(),
    keepAsked: new Set(),
    destroyedRecords: new Set(),
    sql: { exec },
    gate: {
      readOnly: more.readOnly ?? false,
      store,
    },
  };
  return {
    now: more.now ?? 0,
    clocks: { ours: () => 0, when: (told: number) => ({ earliest: told, latest: told }), widest: 0 },
    faults: { healed: more.healed ?? true, plan: { weights: new Map() }, struck: new Map() },
    github: { repositories: [repo], tokens: new Set(["ghs_token"]) },
    runpod: {
      pods: more.pods ?? [],
      apiKey: "rpa_KEY",
      dearest: 1.5,
      billed: (one: VirtualPod) => (more.now ?? 0) - one.createdAt,
    },
    hosts: [host],
    account: { monthlyCapMicros: 400_000_000, sql: { exec: (query: string) => more.money ?? exec(query) } },
    net: { unheard: more.unheard ?? [] },
    ticks: more.ticks ?? [],
    skipped: new Set(more.skipped),
    died: new Set(more.died),
    issuer: { keys: [{ kid: "key-1", from: 0, until: null }] },
    worker: { acts: more.acts ?? [] },
    board: more.board ?? null,
    runpodUpSince: 0,
    log: more.log ?? [],
  } as unknown as WorldView;
}

export function request(path: string, body: object | null, caller = "gate 101"): NetRequest {
  const text = body === null ? "" : JSON.stringify(body);
  return {
    method: "POST",
    path,
    query: new URLSearchParams(),
    headers: new SimHeaders({}),
    body: text,
    caller,
    askedAt: 1,
  };
}
