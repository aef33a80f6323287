/** What the checkers may look at: the providers' own books, and our stored rows where an invariant speaks of them. */
import type { Board } from "../durable-objects/board-client.ts";
import type { Millis } from "../shared/ports.ts";
import type { Clocks } from "./clocks.ts";
import type { Faults } from "./faults.ts";
import type { VirtualGitHub } from "./github.ts";
import type { CheckRun, Repository } from "./github-model.ts";
import type { AccountHost, GateHost } from "./hosts.ts";
import type { NetRequest, Unheard } from "./net.ts";
import type { VirtualPod, VirtualRunPod } from "./runpod.ts";
import type { VirtualIssuer } from "./issuer.ts";
import type { ActOf } from "./worker.ts";

export interface WorldView {
  readonly now: Millis;
  readonly clocks: Clocks;
  readonly faults: Faults;
  readonly github: VirtualGitHub;
  readonly runpod: VirtualRunPod;
  readonly hosts: readonly GateHost[];
  readonly account: AccountHost;
  /** Calls that did not come through to the account. */
  readonly net: { readonly unheard: readonly Unheard[] };
  /** Instants at which a cron tick began that was not lost, newest last. */
  readonly ticks: readonly Millis[];
  /** Those of them that did not sweep, because the account took an earlier sweep to be under way. */
  readonly skipped: ReadonlySet<Millis>;
  /** Those that ended with cron's isolate, before or after their sweep. */
  readonly died: ReadonlySet<Millis>;
  /** Since when RunPod answers without an interruption. */
  readonly runpodUpSince: Millis;
  readonly issuer: Pick<VirtualIssuer, "keys">;
  /** What cron wrote down of its last tick. */
  readonly board: Pick<Board, "at"> | null;
  /** What the Worker did on the word of hosted jobs, oldest first. */
  readonly worker: { readonly acts: readonly ActOf[] };
  /** Everything the product logged. */
  readonly log: readonly string[];
}

/** One invariant. A text is a violation: what was seen. */
export interface Checker {
  readonly name: string;
  /** After every event. */
  step?(world: WorldView): string | null;
  /** A server has done what it was asked, and answers with this status; `heard`: and its asker hears that. */
  performed?(operation: string, request: NetRequest, status: number, heard: boolean): void;
  /** A server refused whatever was asked, or is down. */
  refused?(operation: string, request: NetRequest): void;
  /** A server is about to perform something. */
  performing?(world: WorldView, operation: string, request: NetRequest): string | null;
  /** Our App wrote a check. */
  wrote?(world: WorldView, repository: Repository, check: CheckRun): string | null;
  /** The world was healed and would be at rest: what has to come all the same, within some rounds of comparing. */
  owed?(world: WorldView): string | null;
  /** The world was healed and came to rest, or did not in time. */
  end?(world: WorldView): string | null;
}

/**
 * Ticks from then on that could have seen a pod, oldest first. One whose sweep was left out counts only behind another such:
 * a sweep whose end the account did not hear of may keep out the next, and no more. One that died may have seen nothing.
 */
export function looksSince(world: Pick<WorldView, "ticks" | "skipped" | "died">, since: Millis): readonly Millis[] {
  const { ticks, skipped, died } = world;
  return ticks.filter((tick, index) => {
    if (tick < since || died.has(tick)) return false;
    const before = ticks[index - 1];
    return !skipped.has(tick) || (before !== undefined && skipped.has(before));
  });
}

export function repositoryOf(world: Pick<WorldView, "github">, id: string): Repository | undefined {
  return world.github.repositories.find((one) => one.id === id);
}

/**
 * Whether a pod is kept for debugging: somebody asked for it, the gate has a record that can be read, and its time is not
 * over. `slackMs`: how long after its end its removal may take to begin.
 */
export function isRetained(world: Pick<WorldView, "hosts" | "now">, pod: VirtualPod, slackMs: Millis): boolean {
  const host = world.hosts.find((one) => one.repository.id === pod.env["GPU_GATE_REPOSITORY_ID"]);
  if (host === undefined || !keepAsked(host, pod) || world.now - pod.createdAt > MAX_RETENTION_MS + slackMs)
    return false;
  const row = host.sql.exec<{ record: string }>(
    "SELECT record FROM strays WHERE pod_id = ? AND why = 'retained' AND done_at IS NULL",
    pod.id,
  )[0];
  if (row === undefined) return false;
  try {
    const { retained } = JSON.parse(row.record) as { retained?: { until?: number } };
    return typeof retained?.until === "number" && world.now <= retained.until + slackMs;
  } catch {
    return false;
  }
}

const MAX_RETENTION_MS = 10_800_000;

/** Nobody's pod may be kept without a person's word or the configuration's. */
function keepAsked(host: GateHost, pod: VirtualPod): boolean {
  const { repository } = host;
  const request = pod.env["GPU_GATE_REQUEST"] ?? "";
  if (repository.keepAlways || host.keepAsked.has(request)) return true;
  const head = host.sql.exec<{ head_sha: string }>("SELECT head_sha FROM requests WHERE id = ?", request)[0]?.head_sha;
  return head !== undefined && repository.keepHeads.has(head);
}

/** Pods of one repository, by the tags they were bought with. */
export function podsOf(world: Pick<WorldView, "runpod">, repositoryId: string): readonly VirtualPod[] {
  return world.runpod.pods.filter((pod) => pod.env["GPU_GATE_REPOSITORY_ID"] === repositoryId);
}
