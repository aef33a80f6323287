/** The Worker's ports with nothing behind them: every test changes what it is about. */
import type { AppPorts, GateStub, LogEntry } from "../../worker/ports.ts";
import type { Settings } from "../../durable-objects/settings.ts";
import type { Board } from "../../durable-objects/board-client.ts";
import type { GateView, RequestView } from "../../durable-objects/gate/view.ts";
import { DEFAULT_REAP_LIMITS } from "../../shared/lifecycle/reap.ts";
import { err, ok } from "../../shared/result.ts";
import { createApp } from "../../worker/app.ts";
import { Tallies } from "../../worker/tallies.ts";
import { said, saidIn } from "../support/said.ts";

export const T0 = Date.UTC(2026, 10, 30, 12, 0, 0);

export const SETTINGS: Settings = {
  deployment: "testing",
  appId: "1234",
  appPrivateKey: "canary-the-key-of-the-app",
  webhookSecrets: ["canary-webhook-secret-of-today", "canary-webhook-secret-of-before"],
  allowedRepositories: new Set(["101"]),
  githubApiUrl: "https://api.github.test",
  githubWebUrl: "https://github.test",
  runpodApiKey: "canary-the-key-of-runpod",
  runpodApiUrl: "https://runpod.test",
  runpodGraphqlUrl: "https://runpod.test/graphql",
  oidcIssuerUrl: "https://oidc.test",
  imageRegistryUrl: "https://registry.test",
  publicUrl: "https://gate.test",
  statusPage: true,
  monthlyCapMicros: 400_000_000,
  reapLimits: DEFAULT_REAP_LIMITS,
};

export const BOARD: Board = {
  at: T0 - 30_000,
  tookMs: 12,
  gates: [{ id: "101", open: 1, overdue: 0, answered: true }],
  moreGates: 0,
  pods: {
    listed: 3,
    own: 1,
    otherDeployments: 1,
    unclear: 0,
    foreign: 1,
    suspected: 0,
    handedOver: 0,
    deleted: 0,
  },
  duties: [{ name: "reap", ok: true, ms: 5, what: "1 own pods of 3 seen, 0 reaped, 0 suspected" }],
  problems: [],
};

export const REQUEST: RequestView = {
  id: "r1",
  prNumber: 7,
  headSha: "a".repeat(40),
  title: "Make it faster",
  generation: 1,
  state: "executing",
  step: null,
  headline: "The GPU tests run",
  verdict: null,
  reason: null,
  detail: null,
  conclusion: null,
  published: false,
  openedAt: T0 - 600_000,
  concludedAt: null,
  gpu: "NVIDIA RTX A4000",
  pricePerHour: 0.32,
  paidMs: 0,
  costMicros: 0,
  pods: 1,
};

const NOTHING_SPENT = { spent: 0, reserved: 0, cap: null };

export const VIEW: GateView = {
  repository: "octo/engine",
  at: T0,
  lock: { holder: "r1", since: T0 - 300_000, fence: 4 },
  queue: [],
  open: [],
  recent: [],
  pods: [],
  money: { day: NOTHING_SPENT, month: NOTHING_SPENT },
  ledger: [],
  lanes: [],
  counters: {},
};

export function gate(change: Partial<GateStub> = {}): GateStub {
  return {
    accept: async () => ({ kind: "accepted", actions: [] }),
    podCall: async () => true,
    view: async () => VIEW,
    ...change,
  };
}

export function ports(change: Partial<AppPorts> = {}): AppPorts & { readonly logged: LogEntry[] } {
  const logged: LogEntry[] = [];
  return {
    settings: ok(SETTINGS),
    gate: () => gate(),
    registered: async () => [],
    board: { read: async () => ok(BOARD), write: async () => err({ reason: "no-answer", message: "not here" }) },
    checkKey: async () => ok({ bits: 2048 }),
    tallies: new Tallies(T0),
    clock: { now: () => T0 },
    log: (entry) => {
      said("the log", JSON.stringify(entry));
      logged.push(entry);
    },
    logged,
    ...change,
  };
}

/** One request to the routes with these ports. */
export async function ask(given: AppPorts, path: string, init?: RequestInit): Promise<Response> {
  return saidIn(path, await createApp(() => given).request(`https://gate.test${path}`, init));
}
