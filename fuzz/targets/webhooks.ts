/**
 * Deliveries against the Worker's routes with a real gate behind them, in this process. What is stored is compared before
 * and after each one, by SQLite's own count of changed rows and, now and then, table by table.
 */
import { Gate } from "../../durable-objects/gate/gate.ts";
import type { GatePorts } from "../../durable-objects/gate/ports.ts";
import { createGitHubClient } from "../../shared/github/client.ts";
import type { AccountAnswer } from "../../durable-objects/gate/ports.ts";
import { ok } from "../../shared/result.ts";
import { createRunPodClient } from "../../shared/runpod/client.ts";
import { createApp } from "../../worker/app.ts";
import type { AppPorts } from "../../worker/ports.ts";
import { ports, SETTINGS, VIEW } from "../../test/worker/ports.ts";
import { stubApp } from "../../test/github/stub.ts";
import { nodeSql, type NodeSql } from "../../test/support/node-sql.ts";
import {
  deliveryCase,
  deliveryOf,
  judgeAnswer,
  SECRET,
  servedRepositories,
  type Delivery,
  type DeliveryCase,
} from "../delivery.ts";
import { target, unfit, type Session } from "../target.ts";

const PREVIOUS = "the-secret-before-this-one";
/** A gate's tables grow with every delivery that is accepted. */
const DELIVERIES_PER_GATE = 400;

export const webhooks = target<DeliveryCase>({
  name: "webhooks",
  about: "deliveries against the routes and a real gate",
  share: 30,
  sample: 150,
  cases: deliveryCase,
  open: () => openWebhooks((given) => createApp(() => given)),
});

/** `made`: the app over these ports. A test hands in a faulty one. */
export async function openWebhooks(
  made: (ports: AppPorts) => Pick<ReturnType<typeof createApp>, "request">,
): Promise<Session<DeliveryCase>> {
  let bench = openBench(made);
  let tried = 0;
  return {
    async judge(given) {
      tried += 1;
      if (tried % DELIVERIES_PER_GATE === 0) {
        bench.close();
        bench = openBench(made);
      }
      return bench.judge(given, tried % 25 === 0);
    },
    async close() {
      bench.close();
    },
  };
}

function openBench(made: (ports: AppPorts) => Pick<ReturnType<typeof createApp>, "request">) {
  const sql = nodeSql();
  const gate = new Gate(quietPorts(sql));
  let down = false;
  const given = ports({
    settings: ok({
      ...SETTINGS,
      webhookSecrets: [SECRET, PREVIOUS],
      allowedRepositories: servedRepositories,
      runpodApiKey: "rpa_fuzzfuzzfuzzfuzz",
    }),
    gate: () => ({
      accept: async (delivery) => {
        if (down) throw new Error(`gate down\n    at secret ${SECRET}`);
        return gate.accept(delivery);
      },
      podCall: async () => false,
      view: async () => VIEW,
    }),
  });
  const app = made(given);
  return {
    async judge(what: DeliveryCase, whole: boolean): Promise<string | null> {
      const sent = deliveryOf(what, { now: SECRET, previous: PREVIOUS });
      down = what.gateDown;
      const before = whole ? dump(sql) : "";
      const rows = changes(sql);
      const answer = await app.request("https://gate.test/github/webhooks", requestOf(sent, what.pieces));
      const changed = changes(sql) !== rows || (whole && dump(sql) !== before);
      const text = await answer.text();
      const wrong =
        judgeAnswer(what, sent, { status: answer.status, text }, changed) ??
        unfit(text + JSON.stringify([...answer.headers]), [SECRET, PREVIOUS]);
      if (wrong !== null) return wrong;
      if ((gate.store.counters()["requests.unreadable"] ?? 0) > 0)
        return "a delivery was stored that cannot be read back";
      if (changed) gate.store.openRequests();
      return null;
    },
    close: () => sql.close(),
  };
}

/** Rows that were ever written by this connection. */
function changes(sql: NodeSql): number {
  return sql.exec<{ n: number }>("SELECT total_changes() AS n")[0]?.n ?? -1;
}

export function dump(sql: Pick<NodeSql, "exec">): string {
  const tables = sql.exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name");
  return JSON.stringify(tables.map(({ name }) => [name, sql.exec(`SELECT * FROM "${name}"`)]));
}

function requestOf(sent: Delivery, pieces: number): RequestInit {
  const headers = new Headers();
  for (const [name, value] of Object.entries(sent.headers)) headers.set(name, value);
  if (pieces === 0) return { method: "POST", headers, body: sent.bytes };
  const size = Math.max(1, Math.ceil(sent.bytes.byteLength / pieces));
  let at = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (at >= sent.bytes.byteLength) return controller.close();
      controller.enqueue(sent.bytes.slice(at, at + size));
      at += size;
    },
  });
  return { method: "POST", headers, body, duplex: "half" } as RequestInit;
}

/** A gate that hears and stores, and whose alarm never comes. */
export function quietPorts(sql: NodeSql): GatePorts {
  const nothing = { ok: false, why: "not here" } as const;
  const never = async (): Promise<AccountAnswer<never>> => nothing;
  const clock = { now: () => Date.UTC(2026, 10, 30, 12) };
  const fetch = async (): Promise<Response> => new Response("{}", { status: 501 });
  return {
    sql,
    alarm: { set: () => undefined },
    clock,
    random: { next: () => 0.5, bytes: (length) => new Uint8Array(length) },
    account: {
      listPods: never,
      market: never,
      reserve: never,
      commit: never,
      release: never,
      goneSince: never,
      register: never,
    },
    runpod: createRunPodClient({
      apiKey: "rpa_fuzzfuzzfuzzfuzz",
      baseUrl: "https://runpod.test",
      graphqlUrl: "https://runpod.test/graphql",
      fetch,
      clock,
      userAgent: "gpu-gate-fuzz",
    }),
    github: (repository, installationId, runners) =>
      createGitHubClient({ app: stubApp({ fetch }), repository: { ...repository, installationId }, runners }),
    resolveImage: never,
    publicUrl: "https://gate.test",
    deployment: "fuzz",
    appId: "1234",
    log: () => undefined,
  };
}
