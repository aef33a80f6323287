/**
 * A gate in this process, on node:sqlite, against the real local GitHub and local RunPod over HTTP: the whole product but
 * the Worker's shell. Webhooks arrive over HTTP, are verified and parsed like in production; pods call back.
 */
import { createServer, type IncomingMessage, type Server } from "node:http";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { verify } from "@octokit/webhooks-methods";
import { Account } from "../../durable-objects/account/account.ts";
import { Aged } from "../../durable-objects/account/aged.ts";
import { Gate } from "../../durable-objects/gate/gate.ts";
import type { AccountAnswer, GatePorts, Sql } from "../../durable-objects/gate/ports.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import { gateView } from "../../durable-objects/gate/view.ts";
import { newWebhookSecret, startLocalGitHub, type LocalGitHub } from "../../local/github/index.ts";
import { buildImage } from "../../local/runpod/image.ts";
import { startLocalRunPod } from "../../local/runpod/server.ts";
import type { LocalRunPod } from "../../local/runpod/types.ts";
import { createGitHubApp } from "../../shared/github/app.ts";
import { createGitHubClient } from "../../shared/github/client.ts";
import { parseWebhook } from "../../shared/github/webhook.ts";
import { systemClock, systemRandom, type FetchLike } from "../../shared/ports.ts";
import { createRunPodClient } from "../../shared/runpod/client.ts";
import { resolveImage } from "../../shared/runpod/image.ts";
import { podExitSchema, podProofSchema } from "../../shared/runpod/pod-words.ts";
import { nodeSql } from "../support/node-sql.ts";
import { said, saidRows } from "../support/said.ts";

export interface GateWorld {
  readonly github: LocalGitHub;
  readonly runpod: LocalRunPod;
  readonly gate: Gate;
  readonly account: Account;
  /** The gate's database. */
  readonly sql: Sql;
  /** The account's. */
  readonly accountSql: Sql;
  /** Every log entry of the gate, in order. */
  readonly log: Readonly<Record<string, unknown>>[];
  /** What must not be found anywhere: the App's key, the webhook secret, the RunPod key. */
  readonly secrets: { readonly appKey: string; readonly webhook: string; readonly runpod: string };
  /** The gate's process dies where it stands: nothing it does from now on has an effect here, nobody is listening. */
  powerCut(): void;
  /** Another gate on the state that was stored, hearing again. Its first tick is the caller's. */
  powerOn(): Gate;
  close(): Promise<void>;
}

export const REPOSITORY_ID = "101";

export interface GateWorldOptions {
  /** Stands between the product and everything outside: sees what is sent, may answer instead. */
  readonly fetch?: (next: FetchLike) => FetchLike;
  /** Every answer of GitHub, RunPod and the registry takes this long. */
  readonly latencyMs?: number;
}

export async function startGateWorld(options: GateWorldOptions = {}): Promise<GateWorld> {
  const dir = mkdtempSync(join(tmpdir(), "gpu-gate-world-"));
  const webhookSecret = newWebhookSecret();
  const latency = options.latencyMs === undefined ? {} : { latencyMs: options.latencyMs };
  const github = await startLocalGitHub({ webhookSecret, ...latency });
  const imageDir = join(dir, "image");
  buildImage({ imageDir, runScript: join(import.meta.dirname, "..", "..", "local", "runner", "run.sh") });
  const apiKey = `rpa_${newWebhookSecret()}`;
  const runpod = await startLocalRunPod({
    apiKey,
    stateDir: join(dir, "pods"),
    imageDir,
    ...latency,
    quotas: { minute: 6_000, hour: 100_000, day: 1_000_000 },
  });
  const straight: FetchLike = (input, init) => fetch(input, init);
  const plainFetch = options.fetch?.(straight) ?? straight;
  const made = createGitHubApp(
    { appId: github.appId, privateKey: github.privateKeyPem, apiUrl: github.url },
    { fetch: plainFetch, clock: systemClock },
  );
  if (!made.ok) throw new Error("the local App key must be usable");
  const client = createRunPodClient({
    apiKey,
    baseUrl: runpod.url,
    graphqlUrl: runpod.graphqlUrl,
    fetch: plainFetch,
    clock: systemClock,
    userAgent: "gpu-gate-test",
  });
  const accountSql = nodeSql();
  const account = new Account({ sql: accountSql, clock: systemClock, runpod: client, monthlyCapMicros: 400_000_000 });
  const log: GateWorld["log"] = [];
  let timer: NodeJS.Timeout | null = null;
  let closed = false;
  const holder: { gate: Gate | null } = { gate: null };
  const server = createServer((request, response) => {
    const asked = holder.gate;
    void serve(request, webhookSecret, asked).then(
      (status) => response.writeHead(status).end(),
      (error: unknown) => {
        // Whom the end of the world or of this life met in the middle of a call gets no answer; all else is a fault.
        if (!closed && holder.gate === asked) throw error;
        response.destroy();
      },
    );
  });
  const url = await listen(server);
  const sql = nodeSql();
  const images = new Aged<string>(systemClock, 20);
  let power = { on: true };
  const portsOf = (life: { readonly on: boolean }): GatePorts => ({
    sql: alive(sql, life),
    alarm: {
      set(at) {
        // What a dead process still orders moves no timer: the one that is set is of the life after it.
        if (!life.on) return;
        if (timer !== null) clearTimeout(timer);
        if (at === null || closed) return;
        const gone = (error: unknown) => {
          if (life.on) throw error;
        };
        timer = setTimeout(() => void holder.gate?.run().catch(gone), Math.max(0, at - Date.now()));
      },
    },
    clock: systemClock,
    random: systemRandom,
    account: {
      listPods: (notBefore) => account.listPods(notBefore),
      market: (maxAgeMs) => account.market(maxAgeMs),
      reserve: (attemptId, micros) => done(account.reserve(attemptId, REPOSITORY_ID, micros)),
      commit: (attemptId, micros) => done((account.commit(attemptId, micros, REPOSITORY_ID), null)),
      release: (attemptId) => done((account.release(attemptId, REPOSITORY_ID), null)),
      goneSince: () => done(null),
      register: (repository) => done((account.register(repository), null)),
    },
    runpod: client,
    github: (repository, installationId, runners, background = false) =>
      createGitHubClient({ app: made.value, repository: { ...repository, installationId }, runners, background }),
    resolveImage: (image, maxAgeMs) =>
      images.get(image, maxAgeMs, async () => {
        const answer = await resolveImage({
          registryUrl: runpod.registryUrl,
          fetch: plainFetch,
          userAgent: "gpu-gate-test",
        });
        return answer.ok ? { ok: true, value: answer.value.reference } : { ok: false, why: answer.error.why };
      }),
    publicUrl: url,
    deployment: "test",
    appId: github.appId,
    log: (entry) => {
      said("the log", JSON.stringify(entry));
      log.push(entry);
    },
  });
  const gate = new Gate(portsOf(power));
  holder.gate = gate;
  github.webhooks.configure({ url: `${url}/github/webhooks` });
  return {
    github,
    runpod,
    gate,
    account,
    sql,
    accountSql,
    log,
    secrets: { appKey: github.privateKeyPem, webhook: webhookSecret, runpod: apiKey },
    powerCut() {
      power.on = false;
      holder.gate = null;
      if (timer !== null) clearTimeout(timer);
    },
    powerOn() {
      power = { on: true };
      const next = new Gate(portsOf(power));
      holder.gate = next;
      return next;
    },
    async close() {
      closed = true;
      if (timer !== null) clearTimeout(timer);
      server.closeAllConnections();
      server.close();
      await runpod.close();
      await github.close();
      saidRows("the gate", sql);
      saidRows("the account", accountSql);
      said("the page", JSON.stringify(gateView(new Store(sql), sql, Date.now())));
      said("a check", JSON.stringify(github.books.checkWrites));
      said("the inputs of a run", JSON.stringify(github.books.dispatches));
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

function done<T>(value: T): Promise<AccountAnswer<T>> {
  return Promise.resolve({ ok: true, value });
}

/** A database that a dead process can no longer reach. */
function alive(sql: Sql, life: { readonly on: boolean }): Sql {
  const reach = (): Sql => {
    if (life.on) return sql;
    throw new Error("the process is dead");
  };
  return {
    exec: (query, ...bindings) => reach().exec(query, ...bindings),
    transaction: (body) => reach().transaction(body),
  };
}

async function serve(request: IncomingMessage, secret: string, gate: Gate | null): Promise<number> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  if (gate === null) return 503;
  const header = (name: string) => String(request.headers[name] ?? "");
  if (request.url === "/github/webhooks") {
    if (!(await verify(secret, text, header("x-hub-signature-256")))) return 401;
    const parsed = parseWebhook({ event: header("x-github-event"), guid: header("x-github-delivery"), text });
    if (!parsed.ok) return 400;
    if ("deliveries" in parsed.value)
      for (const delivery of parsed.value.deliveries) {
        // Another repository has another gate.
        if (delivery.repository.id === REPOSITORY_ID) gate?.accept(delivery);
      }
    else if (parsed.value.everywhere !== undefined) {
      gate?.accept({ ...parsed.value.everywhere, repository: { id: REPOSITORY_ID, owner: "", name: "" } });
    }
    return 202;
  }
  const call = /^\/pod\/v1\/(\d+)\/([^/]+)\/(proof|exit)$/.exec(request.url ?? "");
  if (call === null || gate === null) return 404;
  const nonce = header("authorization").replace(/^Bearer /, "");
  const body: unknown = JSON.parse(text);
  const attempt = decodeURIComponent(call[2] ?? "");
  if (call[3] === "exit") {
    const { code, reason, gpuUuid, sinceStart = 0 } = podExitSchema.parse(body);
    const upMs = sinceStart * 1000;
    return (await gate.podCall(attempt, nonce, { kind: "exit", code, reason, gpuUuid: gpuUuid ?? null, upMs }))
      ? 204
      : 404;
  }
  const proof = podProofSchema.parse(body);
  const taken = await gate.podCall(attempt, nonce, {
    kind: "proof",
    proof: {
      podId: proof.podId,
      gpuName: proof.gpuName,
      gpuUuid: proof.gpuUuid,
      vramMb: proof.vramMb,
      driverCuda: proof.cuda,
      nvrtc: proof.nvrtc,
      kernel: proof.smoke,
      count: proof.gpuCount,
      scriptHash: proof.scriptSha256,
    },
    upMs: (proof.sinceStart ?? 0) * 1000,
  });
  return taken ? 204 : 404;
}

function listen(server: Server): Promise<string> {
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      resolve(`http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`);
    });
  });
}
