/**
 * Performing tasks: each kind of task is one call (or one bounded set of reads) through the typed clients, and its answer in
 * the core's words. No decision is made here; whatever is not clearly an answer comes back as unknown, lost or ambiguous.
 */
import { findOwnRun } from "../../shared/authorize/own-run.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import { describeFailure, type GitHubFailure } from "../../shared/github/failure.ts";
import { archiveKey, type TreeEntry } from "../../shared/hosted/archive-key.ts";
import { executeArtifacts } from "../../shared/hosted/execute-inputs.ts";
import type { Admission, GateRequest, Terms } from "../../shared/lifecycle/model.ts";
import type { RepositoryRef } from "../../shared/lifecycle/signal.ts";
import type { DispatchOutcome, Done, FindRunOutcome, Outcomes, Task } from "../../shared/lifecycle/tasks.ts";
import { saysDeprecated } from "../../shared/lifecycle/last-words.ts";
import { unreachable } from "../../shared/result.ts";
import { lastWords } from "../../shared/runpod/logs.ts";
import { podIsGone } from "../../shared/runpod/pod.ts";
import type { Millis } from "../../shared/ports.ts";
import { randomHex } from "../../shared/ports.ts";
import { admit, recheck } from "./admission.ts";
import { createPod } from "./create-pod.ts";
import { moneyPorts, reserveMoney, settleMoney } from "./money.ts";
import { observe, podFacts } from "./observe.ts";
import { makePlan } from "./plan.ts";
import type { GatePorts } from "./ports.ts";
import { deletePod, listPods, recordMs, verifyGone } from "./remove-pod.ts";
import { releaseKeeping, reserveKeeping } from "./retention.ts";
import type { Secrets } from "./secrets.ts";
import type { Store } from "./store.ts";
import { deletionBlocks } from "./strays.ts";

/** What is read of a pod's log before its deletion may hold that up for so long at most. */
const LOGS_MS = 2_000;

export interface PerformContext {
  readonly ports: GatePorts;
  readonly store: Store;
  readonly secrets: Secrets;
  readonly repository: RepositoryRef;
  readonly github: GitHubClient;
  readonly request: GateRequest;
  /** When this performance began, as stored before it. */
  readonly startedAt: Millis;
  readonly dueAt: Millis;
  readonly createdAt: Millis;
  /** Stores that the call which may not be made twice is made now. False: nobody asks for it any more, or its request is to end. */
  readonly sending: () => boolean;
}

/** The outcome of a task whose answer was lost in a crash, for the kinds that may not be performed twice. */
export function lostOutcome(task: Task, startedAt: Millis): Done | null {
  switch (task.kind) {
    case "dispatch-prepare":
    case "dispatch-execute":
      return { task: task.kind, outcome: { kind: "lost" } };
    case "mint":
      return { task: "mint", outcome: { kind: "lost" } };
    case "create-pod":
      return {
        task: "create-pod",
        outcome: { kind: "ambiguous", why: "the answer was lost", retryAfterMs: null, sentAt: startedAt, elapsedMs: 0 },
      };
    default:
      return null;
  }
}

export async function perform(task: Task, context: PerformContext): Promise<Done> {
  const { github, ports } = context;
  switch (task.kind) {
    case "authorize":
      return { task: task.kind, outcome: await admit(context) };
    case "observe":
      return {
        task: task.kind,
        outcome: await observe(task.want, { ...context, tickMs: context.request.terms?.limits.testPoll ?? 0 }),
      };
    case "dispatch-prepare":
      return { task: task.kind, outcome: await dispatchPrepare(context) };
    case "find-prepare":
      return {
        task: task.kind,
        outcome: await findRun(context, "prepare", prepareTitle(context.request)),
      };
    case "recheck":
      return { task: task.kind, outcome: await recheck(context) };
    case "plan":
      return { task: task.kind, outcome: await makePlan(context) };
    case "reserve":
      return { task: task.kind, outcome: await reserve(task.attemptId, task.micros, context) };
    case "mint":
      return { task: task.kind, outcome: await mint(task, context) };
    case "find-runner":
      return { task: task.kind, outcome: await clearRunner(task.runnerName, context) };
    case "dispatch-execute":
      return { task: task.kind, outcome: await dispatchExecute(task.attemptId, context) };
    case "find-execute":
      return {
        task: task.kind,
        outcome: await findRun(context, "execute", executeTitle(task.attemptId)),
      };
    case "create-pod":
      return { task: task.kind, outcome: await createPod(task, context) };
    case "look-up-pod":
      return { task: task.kind, outcome: await lookUp(task, context) };
    case "sleep":
      return { task: task.kind, outcome: { sleptMs: Math.max(0, ports.clock.now() - context.createdAt) } };
    case "deregister": {
      const answer = await github.deleteRunner(task.runnerId);
      if (!answer.ok) return { task: task.kind, outcome: { kind: "unknown", why: describeFailure(answer.error) } };
      return { task: task.kind, outcome: { kind: answer.value === "busy" ? "busy" : "gone" } };
    }
    case "read-record": {
      const [answer, said] = await Promise.all([
        ports.runpod.getPod(task.podId, {
          timeoutMs: recordMs(context.request.terms?.configHash ?? null, context.store),
        }),
        task.logs === true ? lastWordsOf(task.podId, ports) : null,
      ]);
      const price = answer.kind === "pod" ? answer.pod.costPerHour : null;
      return { task: task.kind, outcome: { pricePerHour: price !== null && price > 0 ? price : null, said } };
    }
    case "delete-pod":
      return deletePod(task.podId, ports);
    case "verify-gone":
      return verifyGone(task.podId, ports);
    case "list-pods":
      return listPods(task.podId, task.notBefore, ports);
    case "cancel-run":
      return { task: task.kind, outcome: await cancelRun(task.run.runId, task.run.attempt, github) };
    case "read-run": {
      const answer = await github.getRunAttempt(task.run.runId, task.run.attempt);
      if (answer.ok) {
        return { task: task.kind, outcome: { kind: answer.value.status === "completed" ? "completed" : "running" } };
      }
      if (answer.error.reason === "not-found") return { task: task.kind, outcome: { kind: "gone" } };
      return { task: task.kind, outcome: { kind: "unknown", why: describeFailure(answer.error) } };
    }
    case "settle":
      return { task: task.kind, outcome: await settle(task.attemptId, task.micros, context) };
    default:
      return unreachable(task, "task");
  }
}

/** Best effort: no log, no words. The stream has no end of its own, so the time limit is what it usually takes. */
async function lastWordsOf(podId: string, ports: GatePorts): Promise<string | null> {
  const logs = await ports.runpod.getPodLogs(podId, { timeoutMs: LOGS_MS });
  return logs.ok ? lastWords(logs.value, saysDeprecated) : null;
}

export function prepareTitle(request: GateRequest): string {
  return `gpu-gate prepare ${prepareName(request)}`;
}

/** A request sent back to preparing dispatches a second run: its own name tells the two apart. */
function prepareName(request: GateRequest): string {
  const again = request.state.kind === "preparing" && request.state.backToPreparing > 0;
  return again ? `${request.id}.again` : request.id;
}

export function executeTitle(attemptId: string): string {
  const cut = attemptId.lastIndexOf("-");
  return `gpu-gate execute ${attemptId.slice(0, cut)} ${attemptId}`;
}

async function dispatchPrepare(context: PerformContext): Promise<DispatchOutcome> {
  const { request, github, ports } = context;
  const { terms, admission } = request;
  if (terms === null || admission === null) return { kind: "refused", why: "the request has no admission" };
  // On the register before the first dispatch, so that cron finds this gate whatever happens next (design 3.5).
  const registered = await ports.account.register(context.repository);
  if (!registered.ok) return { kind: "not-sent", why: registered.why, retryAt: null };
  const inputs = {
    request: prepareName(request),
    tested_sha: admission.testedSha,
    archive_key: await contentKey(context, terms, admission),
  };
  // Up to here a process that ends has started nothing, and the next one begins anew.
  if (!context.sending()) return { kind: "not-sent", why: "nobody asks for it any more", retryAt: null };
  return dispatch(github, terms.workflows.prepare, admission.defaultBranch, inputs);
}

/**
 * The content key of the tested tree. When a tree cannot be read completely the key names the commit instead: nothing is
 * shared with another build then, which costs minutes and is never wrong.
 */
async function contentKey(context: PerformContext, terms: Terms, admission: Admission): Promise<string> {
  const { github, store } = context;
  const config = store.config(terms.configHash);
  const own = `commit-${admission.testedSha}`;
  if (config === null) return own;
  const [tested, trusted] = await Promise.all([
    treeOf(admission.testedSha, github),
    treeOf(admission.defaultSha, github),
  ]);
  if (tested === null || trusted === null) return own;
  const key = await archiveKey({ config, tested, trusted });
  return key.ok ? key.value.key : own;
}

async function treeOf(commitSha: string, github: GitHubClient): Promise<readonly TreeEntry[] | null> {
  const commit = await github.getCommit(commitSha);
  if (!commit.ok) return null;
  const tree = await github.getTree(commit.value.treeSha, { recursive: true });
  if (!tree.ok || tree.value.truncated) return null;
  return tree.value.entries.filter((entry) => entry.type !== "tree");
}

async function dispatchExecute(attemptId: string, context: PerformContext): Promise<DispatchOutcome> {
  const { request, github } = context;
  const { terms, admission, state } = request;
  if (terms === null || admission === null || state.kind !== "provisioning" || state.attempt === null) {
    return { kind: "refused", why: "the request has no attempt" };
  }
  const expected = state.plan.candidates[state.walk.index];
  const artifacts = executeArtifacts(request.prepared?.artifacts ?? []);
  if (artifacts.artifact_ids === "") {
    return { kind: "refused", why: "the preparation did not leave its archives", artifactsMissing: true };
  }
  return dispatch(github, terms.workflows.execute, admission.defaultBranch, {
    request: request.id,
    attempt: attemptId,
    label: state.attempt.label,
    tested_sha: admission.testedSha,
    prepare_run_id: request.prepared?.run.runId ?? "",
    ...artifacts,
    // What the plan expects first; the job prints it next to what the machine says, and trusts neither.
    tier: expected?.tier ?? "",
    gpu: expected?.acceptedIds[0] ?? "",
    price: expected?.price === null || expected === undefined ? "" : String(expected.price),
  });
}

async function dispatch(
  github: GitHubClient,
  path: string,
  ref: string,
  inputs: Readonly<Record<string, string>>,
): Promise<DispatchOutcome> {
  const file = path.split("/").at(-1) ?? path;
  const answer = await github.dispatchWorkflow(file, ref, inputs);
  if (answer.ok)
    return answer.value.runId === null ? { kind: "lost" } : { kind: "dispatched", runId: answer.value.runId };
  switch (answer.error.reason) {
    case "rate-limited":
      return { kind: "not-sent", why: describeFailure(answer.error), retryAt: answer.error.retryAtMs };
    case "server":
    case "transport":
    case "unreadable":
      return { kind: "lost" };
    case "not-found":
      return { kind: "refused", why: `${path} is not a workflow of the default branch.` };
    case "unauthorized":
    case "forbidden":
    case "gone":
    case "conflict":
    case "unprocessable":
      return { kind: "refused", why: describeFailure(answer.error) };
    default:
      return unreachable(answer.error, "GitHub failure");
  }
}

/** The run of a dispatch whose answer was lost, among all that may have its name. */
async function findRun(context: PerformContext, which: "prepare" | "execute", name: string): Promise<FindRunOutcome> {
  const { terms, admission, openedAt } = context.request;
  if (terms === null || admission === null) return { kind: "unknown", why: "the request has no admission" };
  return findOwnRun(context.github, {
    repositoryId: context.repository.id,
    workflowPath: terms.workflows[which],
    branch: admission.defaultBranch,
    name,
    // A minute of slack: GitHub's clock is not ours.
    since: openedAt - 60_000,
  });
}

async function reserve(attemptId: string, micros: number, context: PerformContext): Promise<Outcomes["reserve"]> {
  const { ports, store, request } = context;
  const config = request.terms === null ? null : store.config(request.terms.configHash);
  if (config === null) return { kind: "unknown", why: "the effective configuration is not stored" };
  const blocked = deletionBlocks(store, ports.clock.now());
  if (blocked !== null) return blocked;
  const asked = { id: attemptId, micros, repositoryId: context.repository.id, request, config };
  const reserved = await reserveMoney(asked, moneyPorts(ports));
  if (reserved.kind === "reserved") await reserveKeeping(asked, ports, store);
  return reserved;
}

async function settle(attemptId: string, micros: number | null, context: PerformContext): Promise<Outcomes["settle"]> {
  const settled = await settleMoney(attemptId, micros, moneyPorts(context.ports));
  // Also when the account did not hear of the first: what is settled here, the comparison of the books settles there.
  const released = await releaseKeeping(attemptId, context.ports, context.store);
  return settled.kind === "settled" ? released : settled;
}

async function mint(task: Extract<Task, { kind: "mint" }>, context: PerformContext): Promise<Outcomes["mint"]> {
  const { github, ports, secrets, request } = context;
  const config = request.terms === null ? null : context.store.config(request.terms.configHash);
  const answer = await github.createJitRunner({
    name: task.runnerName,
    labels: ["self-hosted", task.label],
    groupId: config?.runner.group_id ?? "1",
  });
  if (answer.ok) {
    const proofNonce = randomHex(ports.random, 24);
    const exitNonce = randomHex(ports.random, 24);
    secrets.keep(task.attemptId, { jitConfig: answer.value.jitConfig, proofNonce, exitNonce });
    return {
      kind: "minted",
      runnerId: answer.value.runnerId,
      proofHash: await sha256Hex(proofNonce),
      exitHash: await sha256Hex(exitNonce),
    };
  }
  switch (answer.error.reason) {
    case "conflict":
      return { kind: "conflict" };
    case "server":
    case "transport":
    case "unreadable":
      // It may have been registered: the next try answers 409 if so.
      return { kind: "retry", why: describeFailure(answer.error), retryAt: null };
    case "rate-limited":
      return { kind: "retry", why: describeFailure(answer.error), retryAt: answer.error.retryAtMs };
    case "unauthorized":
    case "forbidden":
    case "not-found":
    case "gone":
    case "unprocessable":
      return { kind: "refused", why: describeFailure(answer.error) };
    default:
      return unreachable(answer.error, "GitHub failure");
  }
}

export async function sha256Hex(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Removes the registration of our own earlier call. One that is online or busy is somebody's: left alone. */
async function clearRunner(name: string, context: PerformContext): Promise<Outcomes["find-runner"]> {
  const found = await context.github.findRunnerByName(name);
  if (!found.ok) return { kind: "unknown", why: describeFailure(found.error) };
  if (found.value === null) return { kind: "cleared" };
  if (found.value.status === "online" || found.value.busy)
    return { kind: "not-ours", why: `it is ${found.value.status}` };
  const deleted = await context.github.deleteRunner(found.value.id);
  if (!deleted.ok) return { kind: "unknown", why: describeFailure(deleted.error) };
  return deleted.value === "busy" ? { kind: "not-ours", why: "it is busy" } : { kind: "cleared" };
}

async function lookUp(
  task: Extract<Task, { kind: "look-up-pod" }>,
  context: PerformContext,
): Promise<Outcomes["look-up-pod"]> {
  const answer = await context.ports.account.listPods(task.notBefore);
  if (!answer.ok) return { kind: "unknown", why: answer.why };
  // One that has ended already was bought all the same: it is booked, and its attempt ends as a pod that died. A living one is
  // the attempt's before it.
  const named = answer.value.pods
    .filter((pod) => pod.name === task.podName)
    .toSorted((a, b) => Number(podIsGone(a)) - Number(podIsGone(b)));
  if (task.podId !== null && !named.some((pod) => pod.id === task.podId)) {
    const got = await context.ports.runpod.getPod(task.podId);
    // Only a pod of this attempt's own name is adopted: a proof's word alone buys nothing.
    if (got.kind === "pod" && got.pod.name === task.podName) named.push(got.pod);
  }
  return {
    kind: "listed",
    startedAt: answer.value.startedAt,
    complete: answer.value.complete,
    pods: named.map(podFacts),
  };
}

/** Cancels exactly this attempt, if the last read before shows it unfinished (I8). */
async function cancelRun(runId: string, attempt: number, github: GitHubClient): Promise<Outcomes["cancel-run"]> {
  const run = await github.getRun(runId);
  if (!run.ok) {
    if (run.error.reason === "not-found" || run.error.reason === "gone") return { kind: "not-ours" };
    return { kind: "unknown", why: describeFailure(run.error) };
  }
  if (run.value.attempt !== attempt) return { kind: "not-ours" };
  if (run.value.status === "completed") return { kind: "completed" };
  const cancelled = await github.cancelRun(runId);
  if (!cancelled.ok) return { kind: "unknown", why: describeFailure(cancelled.error) };
  if (cancelled.value === "accepted") return { kind: "accepted" };
  // 409: finished meanwhile, or not yet cancellable. Reading it again tells which.
  const again = await github.getRun(runId);
  if (again.ok && again.value.status === "completed") return { kind: "completed" };
  return { kind: "unknown", why: "GitHub would not cancel the run yet" };
}

export function retryAt(failure: GitHubFailure): Millis | null {
  return failure.reason === "rate-limited" ? failure.retryAtMs : null;
}
