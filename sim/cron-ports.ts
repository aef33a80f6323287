/** Cron's ports in the simulated world. */
import type { CronGitHub, CronPorts } from "../cron/ports.ts";
import { NotDue } from "../cron/not-due.ts";
import { once, readRun } from "../cron/read-run.ts";
import { recordBills } from "../durable-objects/gate/bills.ts";
import { gateMoney } from "../durable-objects/gate/money.ts";
import { retentionOf } from "../durable-objects/gate/retention.ts";
import { podStanding } from "../durable-objects/gate/standing.ts";
import type { Board } from "../durable-objects/board-client.ts";
import { createGitHubAppClient } from "../shared/github/app-client.ts";
import { createGitHubApp, type GitHubApp } from "../shared/github/app.ts";
import { createGitHubClient } from "../shared/github/client.ts";
import { createEtagCache } from "../shared/github/etag.ts";
import { DEFAULT_REAP_LIMITS } from "../shared/lifecycle/reap.ts";
import type { Clock } from "../shared/ports.ts";
import { ok } from "../shared/result.ts";
import { createRunPodClient } from "../shared/runpod/client.ts";
import { APP_ID } from "./github-model.ts";
import { DEPLOYMENT, type GateHost } from "./hosts.ts";
import type { Net } from "./net.ts";
import { appKey, type Owner } from "./platform.ts";
import type { WorldView } from "./view.ts";

/** What of the world cron sees. */
export type CronWorld = Pick<WorldView, "now" | "clocks" | "hosts" | "account" | "runpod"> & {
  readonly net: Net;
  board: Board | null;
  readonly isolate: CronIsolate;
};

/**
 * What the ticks of one isolate share, as the Worker's own modules do: tokens, and what is known not to be due. The platform
 * ends an isolate whenever it likes; the next one knows nothing.
 */
export class CronIsolate {
  readonly owner: Owner;
  readonly notDue = new NotDue();
  readonly etags = createEtagCache();
  app: GitHubApp | null = null;

  constructor(owner: Owner) {
    this.owner = owner;
  }
}

/** What the duties of one tick have: everything of ours over RPC that may fail, the vendors over the network. */
export function cronPortsOf(world: CronWorld, log: (entry: Readonly<Record<string, unknown>>) => void): CronPorts {
  const clock: Clock = { now: () => world.now + world.clocks.ours("cron", world.now) };
  const { isolate } = world;
  const { owner } = isolate;
  const rpc = <T>(service: string, operation: string, body: () => T | Promise<T>): Promise<T> =>
    world.net.rpc(owner, service, operation, body);
  const inGate = <T>(id: string, body: (host: GateHost) => T): T => {
    const host = world.hosts.find((one) => one.repository.id === id);
    if (host === undefined) throw new Error(`no gate ${id}`);
    return host.inside(() => body(host));
  };
  return {
    deployment: DEPLOYMENT,
    allowedRepositories: new Set(world.hosts.map((host) => host.repository.id)),
    github: cronGitHub(world, clock, rpc),
    gate: (id) => ({
      introduce: (repository, installationId) =>
        rpc("gate", "introduce", () => inGate(id, (host) => host.gate.introduce(repository, installationId))),
      tick: () => rpc("gate", "tick", () => inGate(id, (host) => host.tick())),
      podStandings: (questions, listedAt) =>
        rpc("gate", "podStandings", () =>
          inGate(id, (host) =>
            questions.map((question) => podStanding(host.gate.store, question, listedAt, host.gate.readOnly)),
          ),
        ),
      adoptStray: (podId, why, createdAt, price) =>
        rpc("gate", "adoptStray", () => inGate(id, (host) => host.gate.adoptStray(podId, why, createdAt, price))),
      podsRemoved: (removed) => rpc("gate", "podsRemoved", () => inGate(id, (host) => host.gate.podsRemoved(removed))),
      retentionOf: (podId) =>
        rpc("gate", "retentionOf", () => inGate(id, (host) => retentionOf(host.gate.store, podId))),
    }),
    account: {
      registered: () =>
        rpc("account", "registered", () =>
          world.account.inside((account) => account.registered().map((one) => one.id)),
        ),
      listPods: (notBefore) =>
        rpc("account", "listPods", () => world.account.inside((account) => account.listPods(notBefore))),
      beginSweep: (leaseMs) => rpc("account", "beginSweep", () => world.account.sweeps.begin(clock.now(), leaseMs)),
      owe: (removal) => rpc("account", `owe ${removal.podId}`, () => world.account.sweeps.owe(removal)),
      endSweep: (observations, cursor, settled, owed) =>
        rpc("account", "endSweep", () => world.account.sweeps.end(observations, cursor, settled, owed)),
      unregister: (id, before) =>
        rpc("account", "unregister", () => world.account.inside((account) => account.unregister(id, before))),
    },
    runpod: createRunPodClient({
      apiKey: world.runpod.apiKey,
      baseUrl: "https://runpod.test",
      graphqlUrl: "https://runpod.test/graphql",
      fetch: world.net.fetchOf("cron", () => owner),
      clock,
      userAgent: "gpu-gate",
    }),
    books: {
      account: isolate.notDue.billing(
        {
          openReservations: () =>
            rpc("account", "openReservations", () => world.account.inside((account) => account.openReservations())),
          compareBooks: (seen) =>
            rpc("account", "compareBooks", () => world.account.inside((account) => account.compareBooks(seen))),
          bills: (startMs, endMs) =>
            rpc("account", "bills", () => world.account.inside((account) => account.bills(startMs, endMs))),
          buyers: (since) => rpc("account", "buyers", () => world.account.inside((account) => account.buyers(since))),
          takeBillingTurn: (day, retryMs) =>
            rpc("account", "takeBillingTurn", () =>
              world.account.inside((account) => account.takeBillingTurn(day, retryMs)),
            ),
          billingDone: (day, problems) =>
            rpc("account", "billingDone", () => world.account.inside((account) => account.billingDone(day, problems))),
        },
        clock,
      ),
      gate: (id) => ({
        money: (asked) => rpc("gate", "money", () => inGate(id, (host) => gateMoney(host.sql, host.gate.store, asked))),
        recordBills: (bills, window) =>
          rpc("gate", "recordBills", () =>
            inGate(id, (host) =>
              host.gate.readOnly
                ? { known: [], drifts: [] }
                : recordBills(host.gate.sql, host.gate.store, bills, window, clock.now()),
            ),
          ),
        note: (note) => rpc("gate", "note", () => inGate(id, (host) => host.gate.note(note))),
      }),
    },
    board: {
      read: () => Promise.resolve(ok(world.board)),
      write: (board) => {
        world.board = board;
        return Promise.resolve(ok(null));
      },
    },
    limits: DEFAULT_REAP_LIMITS,
    clock,
    log: (entry) => log(entry),
  };
}

function cronApp({ net, isolate }: CronWorld, clock: Clock): GitHubApp {
  const made = createGitHubApp(
    { appId: APP_ID, privateKey: appKey(), apiUrl: "https://github.test" },
    { fetch: net.fetchOf("cron", () => isolate.owner), clock },
  );
  if (!made.ok) throw new Error("the App's key must be usable");
  return made.value;
}

/** GitHub as cron asks it: in the App's own name, and the runs that pods name. */
function cronGitHub(
  world: CronWorld,
  clock: Clock,
  rpc: <T>(service: string, operation: string, body: () => T | Promise<T>) => Promise<T>,
): CronGitHub {
  const { isolate } = world;
  // Most ticks ask GitHub nothing.
  const known = (): GitHubApp => (isolate.app ??= cronApp(world, clock));
  const app: GitHubApp = {
    asApp: (call) => known().asApp(call),
    asInstallation: (id, call) => known().asInstallation(id, call),
    asRepository: (repository, call) => known().asRepository(repository, call),
    installationOf: (repository) => known().installationOf(repository),
  };
  const registered = once(() =>
    rpc("account", "registered", () => world.account.inside((account) => account.registered())),
  );
  return {
    app: createGitHubAppClient(app),
    readRun: (repositoryId, runId) =>
      readRun(
        registered,
        (repository, installationId, runners) =>
          createGitHubClient({ app, repository: { ...repository, installationId }, runners, etags: isolate.etags }),
        repositoryId,
        runId,
      ),
    turns: isolate.notDue.turns(
      {
        take: (duty, everyMs) => rpc("account", "takeTurn", () => world.account.turns.take(duty, clock.now(), everyMs)),
        keep: (duty, memory, more) => rpc("account", "keepTurn", () => world.account.turns.keep(duty, memory, more)),
      },
      clock,
    ),
    redeliveryMs: 900_000,
    findMs: 300_000,
  };
}
