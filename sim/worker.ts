/**
 * The Worker as hosted jobs reach it: its real routes, called in process, with ports to the virtual world. An instance keeps the
 * issuer's keys and its own tokens of GitHub's in memory; when it is taken away, whoever waits for it hears nothing.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { Hono } from "hono";
import type { TickReport } from "../cron/index.ts";
import type { Board } from "../durable-objects/board-client.ts";
import { rentedRunnerIds } from "../durable-objects/gate/dispatched.ts";
import { readSettings } from "../durable-objects/settings.ts";
import { createGitHubApp } from "../shared/github/app.ts";
import { createGitHubClient } from "../shared/github/client.ts";
import { describeFailure } from "../shared/github/failure.ts";
import { createTokenKeys } from "../shared/oidc/jwks.ts";
import type { Millis } from "../shared/ports.ts";
import { ok } from "../shared/result.ts";
import { mountWorkflowApi } from "../worker/workflow-api.ts";
import { mountSweepApi } from "../worker/workflow-sweep.ts";
import type { WorkflowGate, WorkflowPorts } from "../worker/workflow-ports.ts";
import type { Clocks } from "./clocks.ts";
import { APP_ID } from "./github-model.ts";
import { DEPLOYMENT, newOwner, type GateHost } from "./hosts.ts";
import { ISSUER } from "./issuer.ts";
import type { Net } from "./net.ts";
import { appKey, runAs, type Owner, type Pauses } from "./platform.ts";
import type { Scheduler } from "./scheduler.ts";
import { GATE_URL, type Shown } from "./tokens.ts";

export interface WorkerSurroundings {
  readonly scheduler: Scheduler;
  readonly clocks: Clocks;
  readonly pause: Pauses;
  readonly net: Net;
  readonly hosts: readonly GateHost[];
  readonly cron: { readonly board: () => Board | null; readonly tick: () => Promise<TickReport | null> };
  readonly log: (entry: Readonly<Record<string, unknown>>) => void;
}

/** What the Worker did on somebody's word. */
export type Act =
  /** A gate was told that a token is used: the first thing anybody's token can cause. */
  | { readonly kind: "asks-gate"; readonly repositoryId: string }
  | { readonly kind: "opens"; readonly runId: string; readonly actorId: string; readonly headSha: string }
  /** Cron's duties are done now. */
  | { readonly kind: "sweeps" }
  | { readonly kind: "answers"; readonly status: number; readonly body: Readonly<Record<string, unknown>> };

export interface ActOf {
  readonly at: Millis;
  readonly shown: Shown;
  readonly act: Act;
}

export interface WorkerAnswer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

export class WorkerHost {
  owner: Owner;
  /** Everything it did, oldest first. */
  readonly acts: ActOf[] = [];
  readonly #around: WorkerSurroundings;
  /** On whose word the code that runs was called. */
  readonly #calls = new AsyncLocalStorage<Shown>();
  readonly #told = new Set<string>();
  #app: Hono<{ Bindings: Env }> | null = null;

  constructor(around: WorkerSurroundings) {
    this.#around = around;
    this.owner = newOwner(around.scheduler, around.pause);
  }

  /** The instance is taken away, with what it had in memory. */
  restart(): void {
    this.owner.alive = false;
    this.owner = newOwner(this.#around.scheduler, this.#around.pause);
    this.#app = null;
  }

  /** One call of the workflow API. Never settles when the instance is taken away meanwhile. */
  async call(shown: Shown, method: "GET" | "POST", path: string, body: string): Promise<WorkerAnswer> {
    const { owner } = this;
    const app = (this.#app ??= runAs(owner, () => this.#start()));
    const headers: Record<string, string> = shown.token === null ? {} : { authorization: `Bearer ${shown.token}` };
    const init = method === "GET" ? { method, headers } : { method, headers, body };
    const response = await runAs(owner, () =>
      this.#calls.run(shown, async () => app.fetch(new Request(`${GATE_URL}${path}`, init), {} as Env, GOING_ON)),
    );
    const answer = { status: response.status, body: (await response.json()) as WorkerAnswer["body"] };
    if (!owner.alive) return new Promise(() => undefined);
    this.#did(shown, { kind: "answers", ...answer });
    return answer;
  }

  #did(shown: Shown, act: Act): void {
    this.acts.push({ at: this.#around.scheduler.now, shown, act });
  }

  #start(): Hono<{ Bindings: Env }> {
    const { owner } = this;
    const { scheduler, clocks, net, hosts, log } = this.#around;
    const clock = { now: () => scheduler.now + clocks.ours("worker", scheduler.now) };
    const fetch = net.fetchOf("worker", () => owner);
    const made = createGitHubApp(
      { appId: APP_ID, privateKey: appKey(), apiUrl: "https://github.test" },
      { fetch, clock },
    );
    if (!made.ok) throw new Error("the App's key must be usable");
    const app = made.value;
    const ports: WorkflowPorts = {
      settings: readSettings(environment(hosts)),
      keys: createTokenKeys(ISSUER, { fetch, clock }),
      gate: (repositoryId) => this.#gate(owner, repositoryId),
      github: (repository) => ({
        client: createGitHubClient({
          app,
          repository: { ...repository, installationId: null },
          runners: { kind: "repository" },
        }),
        get: async (path) => {
          const handle = { ...repository, installationId: null };
          const answer = await app.asRepository(handle, { operation: "probeRunners", method: "GET", path });
          if (answer.ok) return { kind: "answer", status: answer.value.status, body: answer.value.text };
          return { kind: "failure", what: describeFailure(answer.error) };
        },
      }),
      clock,
      log,
    };
    const routes = new Hono<{ Bindings: Env }>();
    mountWorkflowApi(routes, () => ports);
    const { cron } = this.#around;
    const sweep = {
      board: () => Promise.resolve(ok(cron.board())),
      tick: () => {
        this.#did(this.#caller(), { kind: "sweeps" });
        return cron.tick();
      },
    };
    mountSweepApi(
      routes,
      () => sweep,
      () => ports,
    );
    return routes;
  }

  #caller(): Shown {
    const shown = this.#calls.getStore();
    if (shown === undefined) throw new Error("something is done on nobody's word");
    return shown;
  }

  #gate(owner: Owner, repositoryId: string): WorkflowGate {
    const shown = this.#caller();
    this.#did(shown, { kind: "asks-gate", repositoryId });
    const host = this.#around.hosts.find((one) => one.repository.id === repositoryId);
    if (host === undefined) throw new Error(`no gate ${repositoryId}`);
    const { net } = this.#around;
    return {
      useToken: (jti, expiresAt) =>
        net.rpc(owner, "gate", "useToken", () => host.inside((gate) => gate.useToken(jti, expiresAt))),
      openDispatched: (what) =>
        net.rpc(owner, "gate", `open ${what.ask.kind}`, () => {
          const { runId, actor, ask } = what;
          this.#did(shown, { kind: "opens", runId, actorId: actor.id, headSha: ask.headSha });
          // One run may open one request more, whatever becomes of the answer.
          const asked = `${runId} ${ask.headSha}`;
          if (!this.#told.has(asked)) host.repository.ask(ask.headSha);
          this.#told.add(asked);
          const answer = host.inside((gate) => gate.openDispatched(what));
          if ("requestId" in answer && what.keepMinutes !== undefined) host.keepAsked.add(answer.requestId);
          return answer;
        }),
      dispatchedRequest: (runId, requestId) =>
        net.rpc(owner, "gate", "dispatchedRequest", () =>
          host.inside((gate) => gate.dispatchedRequest(runId, requestId)),
        ),
      rentedRunnerIds: () =>
        net.rpc(owner, "gate", "rentedRunnerIds", () => host.inside((gate) => rentedRunnerIds(gate.store))),
    };
  }
}

/** Here nothing ends when its caller hangs up. */
const GOING_ON = {
  waitUntil: () => undefined,
  passThroughOnException: () => undefined,
  props: {},
} as unknown as ExecutionContext;

function environment(hosts: readonly GateHost[]): Readonly<Record<string, string>> {
  return {
    DEPLOYMENT,
    GITHUB_APP_ID: APP_ID,
    GITHUB_APP_PRIVATE_KEY: appKey(),
    GITHUB_WEBHOOK_SECRET: "a-secret-of-the-webhooks",
    GITHUB_ALLOWED_REPOSITORIES: hosts.map((host) => host.repository.id).join(","),
    GITHUB_API_URL: "https://github.test",
    GITHUB_WEB_URL: "https://github.test",
    RUNPOD_API_KEY: "a-key-of-runpods",
    RUNPOD_API_URL: "https://runpod.test",
    RUNPOD_GRAPHQL_URL: "https://runpod.test/graphql",
    OIDC_ISSUER_URL: ISSUER,
    IMAGE_REGISTRY_URL: "https://registry.test",
    PUBLIC_URL: GATE_URL,
    STATUS_PAGE: "off",
    DEPLOYMENT_LIMITS: "",
  };
}
