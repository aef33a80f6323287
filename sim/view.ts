/** What the checkers may look at: the providers' own books, and our stored rows where an invariant speaks of them. */
import type { Millis } from "../shared/ports.ts";
import type { Faults } from "./faults.ts";
import type { VirtualGitHub } from "./github.ts";
import type { CheckRun, Repository } from "./github-model.ts";
import type { AccountHost, GateHost } from "./hosts.ts";
import type { NetRequest } from "./net.ts";
import type { VirtualPod, VirtualRunPod } from "./runpod.ts";

export interface WorldView {
  readonly now: Millis;
  readonly skew: Millis;
  readonly faults: Faults;
  readonly github: VirtualGitHub;
  readonly runpod: VirtualRunPod;
  readonly hosts: readonly GateHost[];
  readonly account: AccountHost;
  /** Instants at which a cron tick began that was not lost, newest last. */
  readonly ticks: readonly Millis[];
  /** Since when RunPod answers without an interruption. */
  readonly runpodUpSince: Millis;
  /** Everything the product logged. */
  readonly log: readonly string[];
}

/** One invariant. A text is a violation: what was seen. */
export interface Checker {
  readonly name: string;
  /** After every event. */
  step?(world: WorldView): string | null;
  /** A server is about to perform something. */
  performing?(world: WorldView, operation: string, request: NetRequest): string | null;
  /** Our App wrote a check. */
  wrote?(world: WorldView, repository: Repository, check: CheckRun): string | null;
  /** The world was healed and came to rest, or did not in time. */
  end?(world: WorldView): string | null;
}

export function repositoryOf(world: Pick<WorldView, "github">, id: string): Repository | undefined {
  return world.github.repositories.find((one) => one.id === id);
}

/** Pods of one repository, by the tags they were bought with. */
export function podsOf(world: Pick<WorldView, "runpod">, repositoryId: string): readonly VirtualPod[] {
  return world.runpod.pods.filter((pod) => pod.env["GPU_GATE_REPOSITORY_ID"] === repositoryId);
}
