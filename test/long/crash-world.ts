/**
 * A world to kill the Worker in: the local GitHub and the local RunPod, the Worker in workerd on stored state, and a wire
 * between them that can hold a call, lose its answer, and kill the Worker's process group with SIGKILL at either.
 */
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
import type { LocalRunPod, PodEntry } from "../../local/runpod/types.ts";
import { freePort } from "../../local/world/ports.ts";
import { buildBundle } from "../../local/world/world.ts";
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
import { judgePods, judgeStarts, lostStart } from "./crash-judge.ts";
import { freshFacts, Life, type Books } from "./crash-life.ts";
import { AGGREGATE, inTurn, type NamedPoint, type Scenario, type WireCall } from "./crash-points.ts";
import { Wire, wordsOf, type Fate } from "./crash-wire.ts";

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

/** A kill that took place: for which point, and at which call it hit. */
export interface Kill {
  readonly point: string;
  readonly call: string;
}

export interface LifeResult {
  readonly kills: readonly Kill[];
  /** What did not hold; empty when the life ended as it had to, by the kills that took place. */
  readonly problems: readonly string[];
  /** A kill took the start of a run with it: the life had to end without its tests. Says at which call. */
  readonly lost: string | null;
  /** Points to which the life never came because it ended so. They are owed another one. */
  readonly unmet: readonly NamedPoint[];
  readonly tookMs: number;
}

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
  readonly #wire: Wire;
  #worker: WorkerProcess | null = null;
  #orders: Order[] = [];
  /** At which call an order is carried out. */
  readonly #armed = new WeakMap<WireCall, Order>();
  #kills: Kill[] = [];
  #life: Life;
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
    this.#wire = new Wire({
      fate: (call, alive) => this.#fate(call, alive),
      answered: (call, status, body) => this.#life.answered(call, status, body),
      kill: (call) => this.#kill(call),
      missed: (call) => {
        const order = this.#armed.get(call);
        if (order !== undefined) order.done = false;
      },
    });
    this.#life = new Life("no life", this.#books());
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

  static async start(): Promise<CrashWorld> {
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
    const githubUrl = await world.#wire.before("github", github.url);
    const runpodUrl = await world.#wire.before("runpod", runpod.url);
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    world.#worker = await startWorker({
      bundleDir: await buildBundle(join(dir, "bundle")),
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

  /** The gate's own checks at the head of the last life. */
  checksOfLife(): readonly { readonly id: number }[] {
    return this.#life.heads().flatMap((head) => this.#ownChecks(head));
  }

  #ownChecks(head: string): ReturnType<RepositoryControl["checkRuns"]> {
    return this.#repository.checkRuns(head).filter((one) => one.name === "CI GPU gate");
  }

  async close(): Promise<void> {
    await this.#worker?.close();
    this.#wire.close();
    await this.runpod.close();
    await this.github.close();
    rmSync(this.#dir, { recursive: true, force: true });
  }

  /** One life, with a kill at each of the points, each once. They must be of one scenario. */
  async live(points: readonly NamedPoint[]): Promise<LifeResult> {
    const began = Date.now();
    this.#lives += 1;
    const scenario: Scenario = points[0]?.point.scenario ?? "plain";
    this.#life = new Life(`${scenario === "late-group" ? "group" : "life"}${this.#lives}`, this.#books());
    this.#kills = [];
    this.#orders = inTurn(points).map((named) => ({
      named,
      provokeLeft: named.point.provoke === undefined ? 0 : 1,
      done: false,
    }));
    const { problems, lost } = await this.#play(scenario);
    const unmet = this.#orders.flatMap((order) => (order.done ? [] : [order.named]));
    this.#orders = [];
    const unexplained = lost === null ? unmet : [];
    return {
      kills: this.#kills,
      problems: [
        ...problems,
        ...judgeStarts(this.#life.name, this.#life.events),
        ...unexplained.map((named) => `${nameOf(named)}: no call to kill at was ever made`),
      ],
      lost,
      unmet: lost === null ? [] : unmet,
      tookMs: Date.now() - began,
    };
  }

  /** What the providers know of whose is what. */
  #books(): Books {
    const { books } = this.github;
    return {
      checksOf: (head) => this.#repository.checkRuns(head),
      mergeOf: (pull) => this.#repository.mergeSha(pull) ?? null,
      inputsOfRun: (id) => books.dispatches.find((one) => one.runId === id)?.inputs ?? null,
      nameOfRunner: (id) => books.runners.find((one) => one.runnerId === id)?.name ?? null,
      nameOfPod: (id) => this.runpod.pods().find((one) => one.id === id)?.name ?? null,
    };
  }

  async #play(scenario: Scenario): Promise<Ended> {
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

  async #pull(scenario: "plain" | "closing" | "rerun"): Promise<Ended> {
    const { name } = this.#life;
    const podsOf = this.#podsFromNow();
    const pull = this.#open(scenario === "closing" ? { [SLOW_TESTS]: "yes\n" } : {});
    const head = pull.headSha;
    if (scenario === "closing") {
      const tested = (view: View) => ["executing", "concluded"].includes(rowsOf(view, head).at(0)?.state ?? "");
      const begun = await this.#until(`${name} to run its tests`, tested).catch(String);
      if (typeof begun === "string") return wrong(begun);
      this.#repository.close(pull.number);
    }
    let view = await this.#end(name, head, 1, podsOf);
    if (typeof view === "string") return wrong(view);
    let lost = this.#lost(view, head, podsOf(), 0);
    const problems: string[] = [];
    if (scenario === "rerun" && lost === null) {
      const [asked, podsOfSecond] = [this.#life.events.length, this.#podsFromNow()];
      // The newest: the one whose tests passed.
      const run = this.#repository.runs(EXECUTE).at(-1);
      this.#life.facts.rerun = true;
      this.#repository.rerunWorkflow(run?.id ?? 0, "mira");
      view = await this.#end(`${name}, asked for again`, head, 2, podsOf);
      if (typeof view === "string") return wrong(view);
      const last = run?.attempts.at(-1);
      if (last?.number !== 2 || last.conclusion !== "cancelled") {
        problems.push(`${name}: the uninvited attempt is ${last?.number ?? "?"}/${last?.conclusion ?? "none"}`);
      }
      lost = this.#lost(view, head, podsOfSecond(), asked);
    }
    if (scenario !== "closing") this.#repository.close(pull.number);
    if (lost !== null) return { problems: [...problems, ...lost.problems], lost: lost.lost };
    const [verdict, conclusion] = scenario === "closing" ? ["closed", "cancelled"] : ["passed", "success"];
    problems.push(...this.#judge(name, head, verdict, conclusion, view, podsOf()));
    return { problems, lost: null };
  }

  /** A green member in a merge group whose own tests are slow: the gate's limit for the queue ends it in their middle. */
  async #lateGroup(): Promise<Ended> {
    const { name } = this.#life;
    const pull = this.#open();
    const podsOfMember = this.#podsFromNow();
    const member = await this.#end(name, pull.headSha, 1, podsOfMember);
    if (typeof member === "string") return wrong(member);
    const unasked = this.#lost(member, pull.headSha, podsOfMember(), 0);
    if (unasked !== null) {
      this.#repository.close(pull.number);
      return unasked;
    }
    const podsOf = this.#podsFromNow();
    // The default branch got slow tests since: the group has them, its member alone had not.
    this.#repository.commit({ files: { [SLOW_TESTS]: "" } });
    this.#life.facts = { ...freshFacts(), grouped: true };
    const asked = this.#life.events.length;
    const { headSha } = this.#repository.mergeGroup([pull.number]);
    this.#life.ownHead(headSha);
    const view = await this.#end(`${name}'s queue entry`, headSha, 1, podsOf);
    this.#repository.commit({ files: { [SLOW_TESTS]: null } });
    this.#repository.close(pull.number);
    if (typeof view === "string") return wrong(view);
    const lost = this.#lost(view, headSha, podsOf(), asked);
    if (lost !== null) return lost;
    return { problems: this.#judge(name, headSha, "deadline", "timed_out", view, podsOf()), lost: null };
  }

  #open(more: Readonly<Record<string, string>> = {}): { readonly number: number; readonly headSha: string } {
    const { name } = this.#life;
    const files = { [`src/${name}.rs`]: "pub fn f() {}\n", ...more };
    const pull = this.#repository.openPullRequest({ author: "mira", title: name, files });
    // Before anybody can have heard of it: what happens next waits for a delivery.
    this.#life.ownPull(pull.number, pull.headSha);
    return pull;
  }

  /**
   * The life as one whose run was never started, by the wire's own record of the kills since that event; null when it did not
   * end so. It must say what it is, have bought nothing and hold nothing.
   */
  #lost(view: View, head: string, pods: readonly PodEntry[], since: number): Ended | null {
    const row = rowsOf(view, head).at(0);
    const lost = lostStart(this.#life.events.slice(since));
    if (lost === null || row?.reason !== "workflow-unavailable") return null;
    const { name } = this.#life;
    const problems = this.#judge(name, head, "infrastructure", "failure", view, pods);
    if (pods.length > 0) problems.push(`${name}: ${pods.length} pods were bought for a run that was never started`);
    return { problems, lost };
  }

  #judge(
    name: string,
    head: string,
    verdict: string,
    conclusion: string,
    view: View,
    pods: readonly PodEntry[],
  ): string[] {
    const row = rowsOf(view, head).at(0);
    const problems = judgePods(name, pods, view.ledger);
    if (row?.verdict !== verdict) {
      problems.push(`${name}: ${verdict} expected, ${row?.verdict ?? "none"} seen (${row?.reason ?? ""})`);
    }
    if (view.lock.holder !== null) problems.push(`${name}: the lock is still held`);
    return [...problems, ...this.#judgeChecks(name, head, conclusion)];
  }

  #judgeChecks(name: string, head: string, conclusion: string): string[] {
    const checks = this.#ownChecks(head);
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
  async #stray(): Promise<Ended> {
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
    this.#life.ownPod(id);
    const gone = (view: View): boolean => view.ledger.some((line) => line.pod_id === id && line.proven_at !== null);
    const view = await this.#until(`stray ${id} to go`, gone).catch((error: unknown) => String(error));
    if (typeof view === "string") return wrong(view);
    const pods = this.runpod.pods().filter((pod) => pod.id === id);
    return { problems: judgePods(id, pods, view.ledger), lost: null };
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

  /**
   * What the orders want of this call; the first that has a wish for it. Only a living process can be killed at a call, and
   * only at one that is this life's own, or about nothing in particular.
   */
  #fate(call: WireCall, alive: boolean): Fate {
    const fate = alive && this.#life.whose(call) !== "other" ? this.#wish(call) : "pass";
    this.#life.arrived(call, fate !== "kill-before" && fate !== "rate-limit");
    return fate;
  }

  #wish(call: WireCall): Fate {
    for (const order of this.#orders) {
      if (order.done) continue;
      const { point, side } = order.named;
      const { provoke } = point;
      const moment = point[side];
      if (provoke !== undefined && order.provokeLeft > 0) {
        if (!provoke.match(call, this.#life.facts)) continue;
        order.provokeLeft -= 1;
        this.#life.facts.provoked = true;
        // The pause that follows may itself be what is to be killed in: from its answer on.
        if (provoke.how === "rate-limit" && moment.when === "after") {
          order.done = true;
          this.#armed.set(call, order);
          setTimeout(() => void this.#kill(call), 20);
        }
        return provoke.how;
      }
      if (!moment.match(call, this.#life.facts)) continue;
      order.done = true;
      this.#armed.set(call, order);
      return moment.when === "before" ? "kill-before" : "kill-after";
    }
    return "pass";
  }

  /** Kills the process group, and with it every call that is under way; ends when it is gone. */
  async #kill(call: WireCall): Promise<void> {
    const order = this.#armed.get(call);
    const at = wordsOf(call);
    this.#kills.push({ point: order === undefined ? "no point" : nameOf(order.named), call: at });
    this.#life.killed(at);
    this.#wire.killed();
    await this.#worker?.kill();
  }
}

interface Ended {
  readonly problems: readonly string[];
  /** What `LifeResult.lost` says. */
  readonly lost: string | null;
}

function wrong(problem: string): Ended {
  return { problems: [problem], lost: null };
}
/** The requests of a head, newest first as the view lists them. */
function rowsOf(view: View, head: string): View["recent"] {
  return view.recent.filter((one) => one.headSha === head);
}

export function nameOf({ name, side }: NamedPoint): string {
  return `${side} ${name}`;
}
