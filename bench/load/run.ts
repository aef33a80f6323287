/**
 * The load run: gated pull requests until every pod is in its test step, then deliveries at a steady rate, then bursts,
 * then the jobs end together, and everything has to come to rest and be accounted for.
 */
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { Worker } from "node:worker_threads";
import type { RepositoryControl } from "../../local/github/index.ts";
import { EXECUTE } from "../../local/world/workflows.ts";
import { percentile } from "../row.ts";
import { readGates } from "./books.ts";
import { planDeliveries, type Planned, type Target } from "./deliveries.ts";
import { judge, type Judged } from "./judge.ts";
import { githubUse, runpodUse, type GitHubUse, type RunPodQuota, type RunPodUse } from "./quotas.ts";
import type { Phase, SenderSettings, Sent } from "./sender.ts";
import { startLoadWorld, type LoadWorld } from "./world.ts";

export interface LoadOptions {
  readonly repositories: number;
  readonly pods: number;
  readonly perSecond: number;
  readonly seconds: number;
  readonly bursts: number;
  readonly burst: number;
  /** The gated pull requests are opened over so many seconds. */
  readonly rampSeconds: number;
  readonly quota: RunPodQuota;
  readonly limits: string;
  readonly cronEveryMs: number;
  /** What a GPU job must have taken to count (`evidence.min_seconds`, and a little). */
  readonly leastJobMs: number;
  /** Fires when the person at the terminal has had enough: everything started here ends. */
  readonly stop: AbortSignal;
  readonly say: (text: string) => void;
}

export interface Answers {
  readonly sent: number;
  readonly perSecond: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly max: number;
  /** Answered after GitHub's ten seconds, or not at all. */
  readonly late: number;
  readonly byStatus: Readonly<Record<string, number>>;
}

export interface LoadReport {
  readonly sustained: Answers;
  readonly bursts: readonly Answers[];
  readonly redelivered: number;
  readonly memoryMiB: {
    readonly idle: number;
    readonly pods: number;
    readonly sustained: number;
    readonly end: number;
  };
  /** How late the main thread, with the local servers in it, came to its timers: p99, ms. */
  readonly serversLateMs: number;
  readonly rampSeconds: number;
  readonly drainSeconds: number;
  /** From the end of each GPU job to the DELETE that RunPod took. */
  readonly jobEndToDelete: { readonly p50: number; readonly p95: number; readonly max: number };
  readonly quota: {
    readonly ramp: Quotas;
    readonly steady: Quotas;
    readonly drain: Quotas;
  };
  readonly logged: Readonly<Record<string, number>>;
  readonly judged: Judged;
}

interface Quotas {
  readonly seconds: number;
  readonly github: GitHubUse;
  readonly runpod: RunPodUse;
}

/** GitHub's own limit for an answer. */
const LATE_MS = 10_000;
const REDELIVERIES = 5;
/** Past this, what has not come to rest is wedged. */
const RAMP_LIMIT_MS = 240_000;
const DRAIN_LIMIT_MS = 240_000;
const LOOK_MS = 250;

export async function runLoad(options: LoadOptions): Promise<LoadReport> {
  const logged: Record<string, number> = {};
  const world = await startLoadWorld({ ...options, quotas: options.quota, onLog: (line) => countLog(line, logged) });
  const stopped = new Promise<never>((_, reject) => {
    const end = () => reject(new Error("stopped before the end."));
    if (options.stop.aborted) end();
    options.stop.addEventListener("abort", end, { once: true });
  });
  try {
    return await Promise.race([measure(world, options, logged), stopped]);
  } finally {
    await world.close();
  }
}

async function measure(
  world: LoadWorld,
  options: LoadOptions,
  logged: Readonly<Record<string, number>>,
): Promise<LoadReport> {
  const { say } = options;
  const delay = monitorEventLoopDelay();
  delay.enable();
  const sender = new Worker(join(import.meta.dirname, "sender.ts"), {
    workerData: { url: world.worker.url, secret: world.webhookSecret } satisfies SenderSettings,
  });
  try {
    const idle = world.residentMiB();
    const gated = world.repositories.slice(0, options.pods);
    const quiet = world.repositories.slice(options.pods);
    const quietTargets = quiet.map((repository) => openDocs(repository));
    world.github.webhooks.configure({ url: `${world.worker.url}/github/webhooks` });

    say(`opening ${options.pods} pull requests that need a GPU, over ${options.rampSeconds} s`);
    const rampFrom = Date.now();
    const gatedTargets: Target[] = [];
    for (const [index, repository] of gated.entries()) {
      const dueAt = rampFrom + (index * options.rampSeconds * 1000) / options.pods;
      await pause(dueAt - Date.now());
      gatedTargets.push(openCode(repository));
    }
    await until(
      RAMP_LIMIT_MS,
      () => testing(gated) === options.pods,
      (seconds) => {
        if (seconds % 10 === 0)
          say(
            `${testing(gated)} of ${options.pods} GPU jobs are in their tests; checks: ${titles(world, gatedTargets)}; refused: ${refusals(world)}`,
          );
      },
    );
    const rampTo = Date.now();
    const running = testing(gated);
    say(`${running} pods run their tests after ${Math.round((rampTo - rampFrom) / 1000)} s`);
    const podsMemory = world.residentMiB();

    const random = seeded(1);
    const targets = [...gatedTargets, ...quietTargets];
    const plan = planDeliveries(options.perSecond * options.seconds, targets, "steady", random);
    say(`${options.perSecond} deliveries a second for ${options.seconds} s over ${targets.length} repositories`);
    const steadyFrom = Date.now();
    const life = daily(quiet);
    const first = await play(sender, { deliveries: plan, perSecond: options.perSecond });
    life.stop();
    const steadyTo = Date.now();
    const sustained = answersOf(first, steadyTo - steadyFrom);
    say(`sustained: ${words(sustained)}`);
    const sustainedMemory = world.residentMiB();

    const bursts: Answers[] = [];
    const planned: Planned[] = [...plan];
    const sent: Sent[] = [...first];
    for (let number = 1; number <= options.bursts; number += 1) {
      const burst = planDeliveries(options.burst, targets, `burst${number}`, random);
      const before = performance.now();
      const answers = await play(sender, { deliveries: burst, perSecond: 0 });
      planned.push(...burst);
      sent.push(...answers);
      const told = answersOf(answers, performance.now() - before);
      bursts.push(told);
      say(`burst ${number}: ${words(told)}`);
    }
    const redelivered = await redeliver(sender, planned, sent, say);

    // A job shorter than the floor for green would prove nothing.
    await pause(rampTo + options.leastJobMs - Date.now());
    say("the GPU jobs end, all at once");
    const drainFrom = Date.now();
    world.releaseJobs();
    await until(
      DRAIN_LIMIT_MS,
      () => atRest(world, gatedTargets),
      (seconds) => {
        if (seconds % 10 === 0)
          say(`${alive(world)} pods are left, ${unpublished(world, gatedTargets)} checks are open`);
      },
    );
    const drainTo = Date.now();
    await world.github.webhooks.settled();
    await missed(world);
    // What was opened last among the quiet ones, and what follows a verdict, comes to rest as well.
    await pause(Math.min(8_000, options.rampSeconds * 100 + 2_000));
    const end = world.residentMiB();
    const between = (from: number, to: number): Quotas => ({
      seconds: Math.round((to - from) / 1000),
      github: githubUse(world.github.books, { from, to }, options.repositories),
      runpod: runpodUse(world.runpod, { from, to }, options.quota),
    });
    const quota = {
      ramp: between(rampFrom, rampTo),
      steady: between(steadyFrom, steadyTo),
      drain: between(drainFrom, drainTo),
    };
    await world.worker.close();
    const gates = readGates(world.stateDir, Date.now());
    const judged = judge({
      planned,
      sent,
      gates,
      world,
      gated: gatedTargets,
      running,
      expectedPods: options.pods,
    });
    return {
      sustained,
      bursts,
      redelivered,
      memoryMiB: { idle, pods: podsMemory, sustained: sustainedMemory, end },
      serversLateMs: Math.round(delay.percentile(99) / 1e6),
      rampSeconds: (rampTo - rampFrom) / 1000,
      drainSeconds: (drainTo - drainFrom) / 1000,
      jobEndToDelete: jobEndToDelete(world, gated),
      quota,
      logged,
      judged,
    };
  } finally {
    delay.disable();
    await sender.terminate();
  }
}

function openCode(repository: RepositoryControl): Target {
  const pull = repository.openPullRequest({
    author: "mira",
    title: "code",
    files: { "src/matmul.rs": "pub fn matmul() {}\n" },
  });
  return targetOf(repository, pull);
}

function openDocs(repository: RepositoryControl): Target {
  const pull = repository.openPullRequest({ author: "mira", title: "docs", files: { "docs/guide.md": "# Guide\n" } });
  return targetOf(repository, pull);
}

function targetOf(repository: RepositoryControl, pull: { number: number; headSha: string }): Target {
  const name = repository.fullName.split("/")[1] ?? "";
  return { id: String(repository.id), name, pull: { number: pull.number, headSha: pull.headSha } };
}

/** What really happens meanwhile: once a second somebody opens a pull request that needs no GPU. */
function daily(quiet: readonly RepositoryControl[]): { stop(): void } {
  let number = 0;
  const timer = setInterval(() => {
    const repository = quiet[number % Math.max(1, quiet.length)];
    number += 1;
    repository?.openPullRequest({
      author: "mira",
      title: `more docs ${number}`,
      files: { [`docs/page-${number}.md`]: `# ${number}\n` },
    });
  }, 1_000);
  return { stop: () => clearInterval(timer) };
}

/** GitHub's refusals so far, by what was asked. */
function refusals(world: LoadWorld): string {
  const refused = world.github.books.requests.filter((one) => one.status === 403 || one.status === 429);
  const byOperation = Map.groupBy(refused, (one) => one.operation ?? "unknown");
  return [...byOperation].map(([operation, list]) => `${list.length} x ${operation}`).join("; ");
}

/** What the gated pull requests' checks say, counted. */
function titles(world: LoadWorld, gated: readonly Target[]): string {
  const said = gated.map((target) => {
    const runs = world.github.repository(`acme/${target.name}`).checkRuns(target.pull.headSha);
    return runs.findLast((run) => String(run.suite.appId) === world.github.appId)?.title ?? "none";
  });
  return [...Map.groupBy(said, (title) => title)].map(([title, list]) => `${list.length} x ${title}`).join("; ");
}

/** How many of these repositories have their GPU job in its test step. */
function testing(gated: readonly RepositoryControl[]): number {
  return gated.filter((repository) =>
    repository
      .runs(EXECUTE)
      .some((run) =>
        run.attempts
          .at(-1)
          ?.jobs[0]?.steps.some((step) => step.name === "Run GPU tests" && step.status === "in_progress"),
      ),
  ).length;
}

function alive(world: LoadWorld): number {
  return world.runpod.bills().filter((bill) => bill.releasedAtMs === null).length;
}

/** Of the gated heads, those whose check run of ours has not ended. */
function unpublished(world: LoadWorld, gated: readonly Target[]): number {
  return gated.filter((target) => {
    const runs = world.github.repository(`acme/${target.name}`).checkRuns(target.pull.headSha);
    const ours = runs.filter((run) => String(run.suite.appId) === world.github.appId);
    return ours.length === 0 || ours.some((run) => run.status !== "completed");
  }).length;
}

function atRest(world: LoadWorld, gated: readonly Target[]): boolean {
  return alive(world) === 0 && unpublished(world, gated) === 0;
}

/** A delivery that got no 2xx is delivered again, as GitHub does on order: same guid, until it is taken. */
async function redeliver(
  sender: Worker,
  planned: readonly Planned[],
  sent: Sent[],
  say: (text: string) => void,
): Promise<number> {
  let again = 0;
  for (let round = 0; round < REDELIVERIES; round += 1) {
    const taken = new Set(sent.filter((one) => one.status >= 200 && one.status < 300).map((one) => one.guid));
    const open = planned.filter((one) => one.expected !== "refused" && !taken.has(one.guid));
    if (open.length === 0) break;
    say(`${open.length} deliveries were not taken and are delivered again`);
    const answers = await play(sender, {
      deliveries: open.map((one) => ({ ...one, doubled: false })),
      perSecond: 100,
    });
    sent.push(...answers);
    again += open.length;
  }
  return again;
}

/** The local GitHub's own deliveries that failed are asked for again too. */
async function missed(world: LoadWorld): Promise<void> {
  for (let round = 0; round < REDELIVERIES; round += 1) {
    const byGuid = Map.groupBy(world.github.books.webhooks, (one) => one.guid);
    const open = [...byGuid].filter(([, tries]) => !tries.some((one) => one.statusCode >= 200 && one.statusCode < 300));
    if (open.length === 0) return;
    for (const [guid] of open) world.github.redeliver(guid);
    await world.github.webhooks.settled();
  }
}

function play(sender: Worker, phase: Phase): Promise<readonly Sent[]> {
  return new Promise((resolve, reject) => {
    sender.once("message", resolve);
    sender.once("error", reject);
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread's port has no origins
    sender.postMessage(phase);
  });
}

function answersOf(sent: readonly Sent[], tookMs: number): Answers {
  const times = sent.map((one) => one.ms);
  return {
    sent: sent.length,
    perSecond: tenth((sent.length * 1000) / tookMs),
    p50: tenth(percentile(times, 0.5)),
    p95: tenth(percentile(times, 0.95)),
    p99: tenth(percentile(times, 0.99)),
    max: tenth(Math.max(0, ...times)),
    late: sent.filter((one) => one.ms > LATE_MS || one.status === 0).length,
    byStatus: Object.fromEntries(
      [...Map.groupBy(sent, (one) => String(one.status))].map(([status, list]) => [status, list.length]),
    ),
  };
}

export function words(answers: Answers): string {
  const { sent, perSecond, p50, p95, p99, max, late, byStatus } = answers;
  const statuses = Object.entries(byStatus)
    .map(([status, count]) => `${count} x ${status === "0" ? "no answer" : status}`)
    .join(", ");
  return `${sent} sent, ${perSecond}/s, p50 ${p50} p95 ${p95} p99 ${p99} max ${max} ms, ${late} late; ${statuses}`;
}

function jobEndToDelete(world: LoadWorld, gated: readonly RepositoryControl[]): LoadReport["jobEndToDelete"] {
  const bills = world.runpod.bills();
  const times = gated.flatMap((repository) => {
    const run = repository.runs(EXECUTE).at(-1);
    const ended = run?.attempts.at(-1)?.jobs[0]?.completedAt ?? null;
    const pods = world.runpod.pods().filter((pod) => pod.tags["GPU_GATE_REPOSITORY_ID"] === String(repository.id));
    const bill = bills.find((one) => one.podId === pods.at(-1)?.id);
    return ended === null || bill === undefined || bill.releasedAtMs === null ? [] : [bill.releasedAtMs - ended];
  });
  return { p50: percentile(times, 0.5), p95: percentile(times, 0.95), max: Math.max(0, ...times) };
}

/** Lines of the Worker's log that tell of something that did not go well, counted by their event. */
function countLog(line: string, logged: Record<string, number>): void {
  const event = /"event":"([\w.-]+)"/.exec(line)?.[1];
  if (event === undefined || !/failed|parked|refused/.test(event)) return;
  logged[event] = (logged[event] ?? 0) + 1;
}

async function until(limitMs: number, ready: () => boolean, tell: (seconds: number) => void): Promise<void> {
  const from = Date.now();
  let told = 0;
  while (!ready() && Date.now() - from < limitMs) {
    await pause(LOOK_MS);
    const seconds = Math.floor((Date.now() - from) / 1000);
    if (seconds > told) tell(seconds);
    told = seconds;
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));
}

/** A small source of chance: the same seed sends the same deliveries. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function tenth(value: number): number {
  return Math.round(value * 10) / 10;
}
