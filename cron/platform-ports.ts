/**
 * Cron's ports made from the Worker's bindings. Null when the deployment is not configured: /healthz says what is missing.
 */
import { boardClient } from "../durable-objects/board-client.ts";
import { githubApp, githubClientFor, logLine, runpodClientFor } from "../durable-objects/platform.ts";
import { ACCOUNT_NAME } from "../durable-objects/runpod-account.ts";
import { readBackstopSettings, readSettings, type Settings } from "../durable-objects/settings.ts";
import { createGitHubAppClient } from "../shared/github/app-client.ts";
import { timeoutSignal, untilAborted } from "../shared/http.ts";
import { systemClock } from "../shared/ports.ts";
import type { BackstopPorts } from "./backstop-alone.ts";
import { NotDue } from "./not-due.ts";
import type { BooksPorts, CronGitHub, CronPorts, ReapBudget } from "./ports.ts";
import { once, readRun } from "./read-run.ts";

/** One object that hangs must not cost the tick: the others are still to be visited. */
const OBJECT_TIMEOUT_MS = 10_000;
/** What this isolate knows of turns that are not due yet. */
const notDue = new NotDue();
/** Reading every page of a long list may take longer. */
const LIST_TIMEOUT_MS = 30_000;

export function platformCron(env: Env): CronPorts | null {
  const settings = readSettings(env);
  if (!settings.ok) {
    logLine({ event: "cron.not-configured", why: settings.error.join(" ") });
    return null;
  }
  const account = () => env.RUNPOD_ACCOUNT.getByName(ACCOUNT_NAME);
  const books = platformBooks(env);
  return {
    deployment: settings.value.deployment,
    allowedRepositories: settings.value.allowedRepositories,
    gate: (repositoryId) => {
      const stub = env.REPOSITORY_GATE.getByName(repositoryId);
      return {
        tick: async () => inTime(async () => stub.tick()),
        podStandings: async (questions, listedAt) => inTime(async () => stub.podStandings(questions, listedAt)),
        adoptStray: async (podId, why, createdAt, price) =>
          inTime(async () => stub.adoptStray(podId, why, createdAt, price)),
        podsRemoved: async (removed) => inTime(async () => stub.podsRemoved(removed)),
        retentionOf: async (podId) => inTime(async () => stub.retentionOf(podId)),
        introduce: async (repository, installationId) => {
          await inTime(async () => stub.introduce(repository, installationId));
        },
      };
    },
    account: {
      registered: async () => (await inTime(async () => account().registered())).map((repository) => repository.id),
      listPods: async (notBefore) => inTime(async () => account().listPods(notBefore), LIST_TIMEOUT_MS),
      beginSweep: async (leaseMs) => inTime(async () => account().beginSweep(leaseMs)),
      owe: async (removal) => inTime(async () => account().owe(removal)),
      endSweep: async (observations, cursor, settled, owed) =>
        inTime(async () => account().endSweep(observations, cursor, settled, owed)),
      unregister: async (repositoryId, registeredBefore) =>
        inTime(async () => account().unregister(repositoryId, registeredBefore)),
    },
    ...platformGitHub(env, settings.value),
    ...budgetOf(settings.value),
    runpod: runpodClientFor(settings.value),
    books: { ...books, account: notDue.billing(books.account, systemClock) },
    board: boardClient(env.FLEET_BOARD),
    limits: settings.value.reapLimits,
    clock: systemClock,
    log: logLine,
  };
}

/** For the time in which `platformCron` gives nothing. Null when not even this much is configured. */
export function platformBackstop(env: Env): BackstopPorts | null {
  const settings = readBackstopSettings(env);
  if (settings === null) return null;
  return {
    deployment: settings.deployment,
    // Nothing is asked of GraphQL here.
    runpod: runpodClientFor({ ...settings, runpodGraphqlUrl: settings.runpodApiUrl }),
    limits: settings.reapLimits,
    clock: systemClock,
    log: logLine,
  };
}

/** Nothing while the App's key cannot be used: /healthz says why, and the reaper does without. */
function platformGitHub(env: Env, settings: Settings): { readonly github?: CronGitHub } {
  const app = githubApp(settings);
  if (app === null) return {};
  const account = () => env.RUNPOD_ACCOUNT.getByName(ACCOUNT_NAME);
  const repositories = once(async () => inTime(async () => account().registered()));
  const clientFor = githubClientFor(settings);
  return {
    github: {
      app: createGitHubAppClient(app),
      readRun: (repositoryId, runId) => readRun(repositories, clientFor, repositoryId, runId),
      turns: notDue.turns(
        {
          take: async (duty, everyMs) => inTime(async () => account().takeTurn(duty, everyMs)),
          keep: async (duty, memory, more) => {
            await inTime(async () => account().keepTurn(duty, memory, more));
          },
        },
        systemClock,
      ),
      redeliveryMs: settings.redeliveryMs ?? 900_000,
      findMs: Math.min(FIND_MS, settings.redeliveryMs ?? FIND_MS),
    },
  };
}

/** Names are looked for as often as gates compare themselves with GitHub. */
const FIND_MS = 300_000;

function budgetOf({ reapLookups }: Settings): { readonly budget?: ReapBudget } {
  if (reapLookups === undefined) return {};
  return { budget: { lookups: reapLookups, removals: Math.ceil(reapLookups / 2) } };
}

/** Both sides of the money, for the tick and for the operator's own call. */
export function platformBooks(env: Env): BooksPorts {
  const account = () => env.RUNPOD_ACCOUNT.getByName(ACCOUNT_NAME);
  return {
    account: {
      openReservations: async () => inTime(async () => account().openReservations()),
      compareBooks: async (seen) => inTime(async () => account().compareBooks(seen)),
      bills: async (startMs, endMs) => inTime(async () => account().bills(startMs, endMs), LIST_TIMEOUT_MS),
      buyers: async (since) => inTime(async () => account().buyers(since)),
      takeBillingTurn: async (day, retryMs) => inTime(async () => account().takeBillingTurn(day, retryMs)),
      billingDone: async (day, problems) => {
        await inTime(async () => account().billingDone(day, problems));
      },
    },
    gate: (repositoryId) => {
      const stub = env.REPOSITORY_GATE.getByName(repositoryId);
      return {
        money: async (asked) => inTime(async () => stub.money(asked)),
        recordBills: async (bills, window) => inTime(async () => stub.recordBills(bills, window)),
        note: async (note) => {
          await inTime(async () => stub.note(note));
        },
      };
    },
  };
}

async function inTime<T>(call: () => Promise<T>, timeoutMs = OBJECT_TIMEOUT_MS): Promise<T> {
  return untilAborted(call(), timeoutSignal(timeoutMs));
}
