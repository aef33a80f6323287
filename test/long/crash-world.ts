/**
 * A world to kill the Worker in: the local GitHub and the local RunPod, the Worker in workerd on stored state, and a wire
 * between them that can hold a call, lose its answer, and kill the Worker's process group with SIGKILL at either.
 */
import { createServer, request as send, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as z from "zod";
import {
  newWebhookSecret,
  startLocalGitHub,
  type LocalGitHub,
  type RepositoryControl,
} from "../../local/github/index.ts";
import { MARK } from "../../local/minted.ts";
import { buildImage } from "../../local/runpod/image.ts";
import { startLocalRunPod } from "../../local/runpod/server.ts";
import type { LocalRunPod } from "../../local/runpod/types.ts";
import { startWorker, type WorkerProcess } from "../../local/world/worker-process.ts";
import {
  CI,
  ciScript,
  EXECUTE,
  executeScript,
  PREPARE,
  prepareScript,
  SLOW_TESTS,
} from "../../local/world/workflows.ts";
import { ownershipTags, podName } from "../../shared/runpod/tags.ts";
import { unreachable } from "../../shared/result.ts";
import { CONFIG } from "../gate/life.ts";
import {
  AGGREGATE,
  type CrashPoint,
  type LifeFacts,
  type NamedPoint,
  type Scenario,
  type Upstream,
  type WireCall,
} from "./crash-points.ts";

const DEPLOYMENT = "crash";
const REPOSITORY_ID = "101";
const PATIENCE_MS = 120_000;
/** The queue waits a minute; less this margin, the gate's own limit falls into tests that take half a minute. */
const QUEUE_MINUTES = 1;
const QUEUE_MARGIN_S = 42;
const WORLD_CONFIG = CONFIG.replace("reconcile: 60", "reconcile: 1\n  market_cache: 0.05").replace(
  "limits:\n",
  `merge_queue: { pre_gate: [], margin: ${QUEUE_MARGIN_S} }
required_checks: [{ name: CI GPU gate }]
aggregator: { name: ${AGGREGATE}, registration_grace: 1.5 }
limits:
`,
);

const viewSchema = z.object({
  repositories: z.array(
    z.object({
      view: z
        .object({
          recent: z.array(
            z.object({
              headSha: z.string(),
              state: z.string(),
              published: z.boolean(),
              verdict: z.string().nullable(),
              reason: z.string().nullable(),
            }),
          ),
          ledger: z.array(
            z.object({ pod_id: z.string(), proven_at: z.number().nullable(), estimate_micros: z.number().nullable() }),
          ),
          lock: z.object({ holder: z.string().nullable() }),
        })
        .nullable(),
    }),
  ),
});

type View = NonNullable<z.infer<typeof viewSchema>["repositories"][number]["view"]>;

export interface LifeResult {
  /** The kills that took place. */
  readonly crashes: number;
  /** What did not hold; empty when the life converged. */
  readonly problems: readonly string[];
  readonly tookMs: number;
}

type Facts = { -readonly [K in keyof LifeFacts]: LifeFacts[K] };

/** What is done to one call. */
type Fate = "pass" | "kill-before" | "kill-after" | "lose-answer" | "rate-limit";

interface Order {
  readonly named: NamedPoint;
  provokeLeft: number;
  done: boolean;
}

export class CrashWorld {
  readonly github: LocalGitHub;
  readonly runpod: LocalRunPod;
  readonly #repository: RepositoryControl;
  readonly #dir: string;
  readonly #servers: Server[] = [];
  #worker: WorkerProcess | null = null;
  #orders: Order[] = [];
  #life: Facts = freshFacts();
  #crashes = 0;
  #crashing: Promise<void> | null = null;
  #lives = 0;
  readonly #leaks: string[] = [];
  /** Lines that the Worker has logged: a watch over none would be none. */
  logged = 0;

  private constructor(github: LocalGitHub, runpod: LocalRunPod, dir: string) {
    this.github = github;
    this.runpod = runpod;
    this.#dir = dir;
    this.#repository = github.createRepository({
      owner: "acme",
      name: "tensors",
      id: Number(REPOSITORY_ID),
      files: {
        "README.md": "# tensors\n",
        ".github/gpu-gate.yml": WORLD_CONFIG,
        [CI]: "name: CI\n",
        [PREPARE]: "name: GPU gate prepare\n",
        [EXECUTE]: "name: GPU gate execute\n",
      },
    });
    this.#repository.addCollaborator("mira", "admin");
    this.#repository.setBranchRules("main", [
      { type: "merge_queue", parameters: { check_response_timeout_minutes: QUEUE_MINUTES } },
    ]);
    github.setWorkflowScript(CI, ciScript);
    github.setWorkflowScript(PREPARE, prepareScript);
    github.setWorkflowScript(
      EXECUTE,
      executeScript((sha) => this.#repository.filesAt(sha)),
    );
  }

  static async start(bundleDir: string): Promise<CrashWorld> {
    const dir = mkdtempSync(join(tmpdir(), "gpu-gate-crash-"));
    const webhookSecret = newWebhookSecret();
    const github = await startLocalGitHub({ webhookSecret });
    // Its lives take seconds and not minutes: an hour's quota would be used up after a hundred of them.
    github.rateLimit.limit = 1_000_000;
    const imageDir = join(dir, "image");
    buildImage({ imageDir, runScript: join(import.meta.dirname, "..", "..", "local", "runner", "run.sh") });
    const apiKey = `local-${newWebhookSecret()}`;
    const quotas = { minute: 60_000, hour: 1_000_000, day: 10_000_000 };
    const runpod = await startLocalRunPod({ apiKey, stateDir: join(dir, "pods"), imageDir, quotas });
    const world = new CrashWorld(github, runpod, dir);
    const githubUrl = await world.#wire("github", github.url);
    const runpodUrl = await world.#wire("runpod", runpod.url);
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    world.#worker = await startWorker({
      bundleDir,
      worldDir: dir,
      port,
      cronEveryMs: 700,
      onLog: (line) => {
        world.logged += 1;
        if (line.includes(MARK))
          world.#leaks.push(`a line of the Worker's log: ${line.replaceAll(/canary-\w+/g, "***")}`);
      },
      vars: {
        DEPLOYMENT,
        GITHUB_APP_ID: github.appId,
        GITHUB_APP_PRIVATE_KEY: github.privateKeyPem,
        GITHUB_WEBHOOK_SECRET: webhookSecret,
        GITHUB_WEBHOOK_SECRET_PREVIOUS: "",
        GITHUB_ALLOWED_REPOSITORIES: REPOSITORY_ID,
        GITHUB_API_URL: githubUrl,
        GITHUB_WEB_URL: githubUrl,
        RUNPOD_API_KEY: apiKey,
        RUNPOD_API_URL: runpodUrl,
        RUNPOD_GRAPHQL_URL: runpod.graphqlUrl,
        OIDC_ISSUER_URL: github.url,
        IMAGE_REGISTRY_URL: runpod.registryUrl,
        PUBLIC_URL: url,
        STATUS_PAGE: "on",
        DEPLOYMENT_LIMITS: JSON.stringify({ reap_gap: 1, redelivery: 2, per_month: 100_000 }),
      },
    });
    github.webhooks.configure({ url: `${url}/github/webhooks` });
    return world;
  }

  /**
   * Secrets of this world (the webhook secret, tokens, RunPod's key: each carries the mark) where none may be: in a line that
   * the Worker has logged, or in a file that its objects have stored.
   */
  leaks(): readonly string[] {
    const state = join(this.#dir, "worker-state");
    const files = readdirSync(state, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    if (files.length === 0) return ["nothing is stored: there is nothing to look at"];
    const stored = files.flatMap(({ parentPath, name }) =>
      readFileSync(join(parentPath, name)).includes(MARK) ? [`a stored file: ${name}`] : [],
    );
    return [...this.#leaks, ...stored];
  }

  async close(): Promise<void> {
    await this.#worker?.close();
    for (const server of this.#servers) {
      server.closeAllConnections();
      server.close();
    }
    await this.runpod.close();
    await this.github.close();
    rmSync(this.#dir, { recursive: true, force: true });
  }

  /** One life, with a kill at each of the points, each once. They must be of one scenario. */
  async live(points: readonly NamedPoint[]): Promise<LifeResult> {
    const began = Date.now();
    this.#orders = points.map((named) => ({
      named,
      provokeLeft: named.point.provoke === undefined ? 0 : 1,
      done: false,
    }));
    this.#life = freshFacts();
    this.#crashes = 0;
    this.#lives += 1;
    const scenario: Scenario = points[0]?.point.scenario ?? "plain";
    const problems = await this.#play(scenario);
    for (const order of this.#orders) {
      if (!order.done) problems.push(`${nameOf(order.named)}: no call to kill at was ever made`);
    }
    this.#orders = [];
    return { crashes: this.#crashes, problems, tookMs: Date.now() - began };
  }

  async #play(scenario: Scenario): Promise<string[]> {
    switch (scenario) {
      case "plain":
      case "closing":
      case "rerun":
        return this.#pull(scenario);
      case "late-group":
        return this.#lateGroup();
      case "stray":
        return this.#stray();
      default:
        return unreachable(scenario, "scenario");
    }
  }

  async #pull(scenario: "plain" | "closing" | "rerun"): Promise<string[]> {
    const name = `life${this.#lives}`;
    const podsOf = this.#podsFromNow();
    const pull = this.#repository.openPullRequest({
      author: "mira",
      title: name,
      files: { [`src/${name}.rs`]: "pub fn f() {}\n", ...(scenario === "closing" ? { [SLOW_TESTS]: "yes\n" } : {}) },
    });
    const head = pull.headSha;
    if (scenario === "closing") {
      await this.#until(`${name} to run its tests`, (view) => rowsOf(view, head).at(0)?.state === "executing");
      this.#repository.close(pull.number);
    }
    let view = await this.#end(name, head, 1, podsOf);
    if (typeof view === "string") return [view];
    const problems: string[] = [];
    if (scenario === "rerun") {
      // The newest: the one whose tests passed.
      const run = this.#repository.runs(EXECUTE).at(-1);
      this.#life.rerun = true;
      this.#repository.rerunWorkflow(run?.id ?? 0, "mira");
      view = await this.#end(`${name}, asked for again`, head, 2, podsOf);
      if (typeof view === "string") return [view];
      const last = run?.attempts.at(-1);
      if (last?.number !== 2 || last.conclusion !== "cancelled") {
        problems.push(`${name}: the uninvited attempt is ${last?.number ?? "?"}/${last?.conclusion ?? "none"}`);
      }
    }
    if (scenario !== "closing") this.#repository.close(pull.number);
    const wanted = scenario === "closing" ? "closed" : "passed";
    const { verdict = "none", reason = "" } = rowsOf(view, head).at(0) ?? {};
    const mayEnd = this.#orders.some(({ named: { point, side } }) => point.mayEnd?.includes(side) === true);
    if (mayEnd && verdict === "infrastructure" && podsOf().length === 0 && view.lock.holder === null) return [];
    if (verdict !== wanted) problems.push(`${name}: ${wanted} expected, ${verdict ?? "none"} seen (${reason ?? ""})`);
    problems.push(...this.#judgeChecks(name, head, scenario === "closing" ? "cancelled" : "success"));
    if (view.lock.holder !== null) problems.push(`${name}: the lock is still held`);
    return [...problems, ...judgePods(name, podsOf(), view)];
  }

  /** A green member in a merge group whose own tests are slow: the gate's limit for the queue ends it in their middle. */
  async #lateGroup(): Promise<string[]> {
    const name = `group${this.#lives}`;
    const pull = this.#repository.openPullRequest({
      author: "mira",
      title: name,
      files: { [`src/${name}.rs`]: "pub fn f() {}\n" },
    });
    const member = await this.#end(name, pull.headSha, 1, this.#podsFromNow());
    if (typeof member === "string") return [member];
    const podsOf = this.#podsFromNow();
    // The default branch got slow tests since: the group has them, its member alone had not.
    this.#repository.commit({ files: { [SLOW_TESTS]: "" } });
    this.#life = { ...freshFacts(), grouped: true };
    const { headSha } = this.#repository.mergeGroup([pull.number]);
    const view = await this.#end(`${name}'s queue entry`, headSha, 1, podsOf);
    this.#repository.commit({ files: { [SLOW_TESTS]: null } });
    this.#repository.close(pull.number);
    if (typeof view === "string") return [view];
    const verdict = rowsOf(view, headSha).at(0)?.verdict ?? "none";
    const problems = verdict === "deadline" ? [] : [`${name}: deadline expected, ${verdict} seen`];
    problems.push(...this.#judgeChecks(name, headSha, "timed_out"));
    if (view.lock.holder !== null) problems.push(`${name}: the lock is still held`);
    return [...problems, ...judgePods(name, podsOf(), view)];
  }

  #judgeChecks(name: string, head: string, conclusion: string): string[] {
    const checks = this.#repository.checkRuns(head).filter((one) => one.name === "CI GPU gate");
    const right =
      checks.length > 0 && checks.every((one) => one.status === "completed" && one.conclusion === conclusion);
    return right ? [] : [`${name}: checks ${checks.map((one) => `${one.status}/${one.conclusion ?? ""}`).join(", ")}`];
  }

  /** The pods rented from here on. */
  #podsFromNow(): () => ReturnType<LocalRunPod["pods"]> {
    const before = new Set(this.runpod.pods().map((pod) => pod.id));
    return () => this.runpod.pods().filter((pod) => !before.has(pod.id));
  }

  /** Waits until so many requests of a head are concluded and published and every pod is proven gone; else says what is. */
  #end(
    what: string,
    head: string,
    requests: number,
    podsOf: () => ReturnType<LocalRunPod["pods"]>,
  ): Promise<View | string> {
    const settled = (view: View): boolean => {
      const rows = rowsOf(view, head);
      return (
        rows.length >= requests &&
        rows.every((row) => row.state === "concluded" && row.published) &&
        podsOf().every((pod) => view.ledger.some((line) => line.pod_id === pod.id && line.proven_at !== null))
      );
    };
    return this.#until(`${what} to end`, settled).catch((error: unknown) => String(error));
  }

  /** A pod of this deployment whose attempt no gate knows; it must go, and get its own ledger line. */
  async #stray(): Promise<string[]> {
    const attemptId = `r9${this.#lives}-1`;
    const owner = {
      deployment: DEPLOYMENT,
      repositoryId: REPOSITORY_ID,
      requestId: "r9",
      attemptId,
      runId: "999",
      keep: "false",
    };
    // A gate that never heard of its repository has nothing to take a stray into.
    const id = this.runpod.rentForeignPod({ name: podName(owner), env: ownershipTags(owner) });
    const gone = (view: View): boolean => view.ledger.some((line) => line.pod_id === id && line.proven_at !== null);
    const view = await this.#until(`stray ${id} to go`, gone).catch((error: unknown) => String(error));
    if (typeof view === "string") return [view];
    return judgePods(
      id,
      this.runpod.pods().filter((pod) => pod.id === id),
      view,
    );
  }

  async #until(what: string, ready: (view: View) => boolean): Promise<View> {
    const limit = Date.now() + PATIENCE_MS;
    for (;;) {
      const view = await this.#view();
      if (view !== null && ready(view)) return view;
      if (Date.now() > limit) throw new Error(`waited ${PATIENCE_MS / 1000} s for ${what}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  async #view(): Promise<View | null> {
    try {
      const answer = await fetch(`${this.#worker?.url ?? ""}/api/status`, { signal: AbortSignal.timeout(5_000) });
      return answer.ok ? (viewSchema.parse(await answer.json()).repositories[0]?.view ?? null) : null;
    } catch {
      // Dead, or not up again yet.
      return null;
    }
  }

  /** What the orders want of this call; the first that has a wish for it. */
  #fate(call: WireCall): Fate {
    for (const order of this.#orders) {
      if (order.done) continue;
      const { point, side } = order.named;
      const { provoke } = point;
      const moment = point[side];
      if (provoke !== undefined && order.provokeLeft > 0) {
        if (!provoke.match(call, this.#life)) continue;
        order.provokeLeft -= 1;
        this.#life.provoked = true;
        // The pause that follows may itself be what is to be killed in: from its answer on.
        if (provoke.how === "rate-limit" && moment.when === "after") {
          order.done = true;
          this.#crashSoon();
        }
        return provoke.how;
      }
      if (!moment.match(call, this.#life)) continue;
      order.done = true;
      return moment.when === "before" ? "kill-before" : "kill-after";
    }
    return "pass";
  }

  #crashSoon(): void {
    setTimeout(() => void this.#crash(), 20);
  }

  /** Kills the process group; calls that meet it meanwhile die with it. */
  async #crash(): Promise<void> {
    this.#crashes += 1;
    this.#crashing ??= (this.#worker?.crash() ?? Promise.resolve()).finally(() => (this.#crashing = null));
    await this.#crashing;
  }

  async #serve(upstream: Upstream, target: string, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const call = { upstream, method: incoming.method ?? "GET", path: incoming.url ?? "/", body: body.toString() };
    const fate = this.#fate(call);
    if (fate === "kill-before") {
      await this.#crash();
      outgoing.destroy();
      return;
    }
    if (fate === "rate-limit") {
      outgoing.writeHead(429, { "content-type": "application/json", "retry-after": "1" }).end("{}");
      return;
    }
    const answer = await forward(target, incoming, body);
    this.#learn(call, answer.status);
    if (fate === "kill-after") await this.#crash();
    if (fate !== "pass") {
      outgoing.destroy();
      return;
    }
    outgoing.writeHead(answer.status, answer.headers).end(answer.body);
  }

  #learn(call: WireCall, status: number): void {
    if (status < 200 || status > 299) return;
    if (call.path.endsWith("gpu-gate-prepare.yml/dispatches")) this.#life.prepared = true;
    if (call.path.endsWith("gpu-gate-execute.yml/dispatches")) this.#life.executed = true;
    if (call.path.endsWith("/cancel")) this.#life.cancelled = true;
    if (call.upstream !== "runpod") return;
    if (call.method === "POST" && call.path === "/v2/pods") this.#life.created = true;
    if (call.method === "DELETE") this.#life.deleted = true;
  }

  async #wire(upstream: Upstream, target: string): Promise<string> {
    const server = createServer((incoming, outgoing) => {
      this.#serve(upstream, target, incoming, outgoing).catch(() => outgoing.destroy());
    });
    this.#servers.push(server);
    return new Promise((resolve) => {
      server.listen(0, "127.0.0.1", () => {
        const address = server.address();
        resolve(`http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`);
      });
    });
  }
}

/** The requests of a head, newest first as the view lists them. */
function rowsOf(view: View, head: string): View["recent"] {
  return view.recent.filter((one) => one.headSha === head);
}

export function nameOf({ name, side }: NamedPoint): string {
  return `${side} ${name}`;
}

export type { CrashPoint };

function freshFacts(): Facts {
  return {
    prepared: false,
    executed: false,
    created: false,
    deleted: false,
    cancelled: false,
    provoked: false,
    rerun: false,
    grouped: false,
  };
}

/** By RunPod's own books: all gone, one ledger line each, never two alive at once, and no more than one replaced. */
function judgePods(name: string, pods: ReturnType<LocalRunPod["pods"]>, view: View): string[] {
  const problems: string[] = [];
  for (const pod of pods) {
    if (pod.releasedAtMs === null) problems.push(`${name}: pod ${pod.id} is still paid for`);
    const lines = view.ledger.filter((line) => line.pod_id === pod.id);
    if (lines.length !== 1) problems.push(`${name}: pod ${pod.id} has ${lines.length} ledger lines`);
  }
  if (pods.length > 2) problems.push(`${name}: ${pods.length} pods were bought`);
  const byStart = pods.toSorted((a, b) => a.createdAtMs - b.createdAtMs);
  for (const [index, pod] of byStart.entries()) {
    const before = byStart[index - 1];
    if (before !== undefined && (before.releasedAtMs === null || before.releasedAtMs > pod.createdAtMs)) {
      problems.push(`${name}: pods ${before.id} and ${pod.id} were paid for at the same time`);
    }
  }
  return problems;
}

interface Forwarded {
  readonly status: number;
  readonly headers: Record<string, string | string[]>;
  readonly body: Buffer;
}

function forward(target: string, incoming: IncomingMessage, body: Buffer): Promise<Forwarded> {
  const url = new URL(incoming.url ?? "/", target);
  const headers = { ...incoming.headers, host: url.host };
  return new Promise((resolve, reject) => {
    const call = send(url.href, { method: incoming.method ?? "GET", headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const kept = Object.entries(response.headers).filter(
          (entry): entry is [string, string | string[]] =>
            entry[1] !== undefined && !["connection", "transfer-encoding", "content-length"].includes(entry[0]),
        );
        resolve({ status: response.statusCode ?? 502, headers: Object.fromEntries(kept), body: Buffer.concat(chunks) });
      });
    });
    call.on("error", reject);
    call.end(body);
  });
}

async function freePort(): Promise<number> {
  const server = createServer();
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      const port = typeof address === "object" && address !== null ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}
