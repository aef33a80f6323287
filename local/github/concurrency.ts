/**
 * Concurrency groups of runs: one run of a group at a time; who waits, and who is dropped from waiting.
 *
 * Source: GitHub's documentation of `concurrency`. Names of groups are compared without case, within a repository.
 */
import type { RunPlan } from "../workflow/run.ts";
import type { RunAttempt, WorkflowRun } from "./model.ts";

export type Group = NonNullable<RunPlan["concurrency"]>;

/** How many may wait in a group with `queue: max`. */
const MAX_WAITING = 100;

interface Member {
  readonly run: WorkflowRun;
  readonly attempt: RunAttempt;
}

export interface Entered {
  /** It may begin at once. */
  readonly begins: boolean;
  /** The runs that must be cancelled: the one under way, or the waiter that this one replaces. */
  readonly cancel: readonly WorkflowRun[];
}

export class ConcurrencyGroups {
  readonly #holders = new Map<string, Member>();
  readonly #waiting = new Map<string, Member[]>();

  enter(run: WorkflowRun, attempt: RunAttempt, group: Group): Entered {
    const key = `${run.repository.id} ${group.group.toLowerCase()}`;
    const holder = this.#holders.get(key);
    if (holder === undefined) {
      this.#holders.set(key, { run, attempt });
      return { begins: true, cancel: [] };
    }
    const waiting = this.#waiting.get(key) ?? [];
    const max = group.queue === "max";
    if (max && waiting.length >= MAX_WAITING) return { begins: false, cancel: [run] };
    const dropped = max ? [] : waiting.map((member) => member.run);
    const stays = max ? waiting : [];
    this.#waiting.set(key, [...stays, { run, attempt }]);
    return { begins: false, cancel: group.cancelInProgress ? [holder.run, ...dropped] : dropped };
  }

  /** A run's attempt is over, whether it held a group or waited. Gives the one that may begin now. */
  leave(attempt: RunAttempt): Member | null {
    for (const [key, members] of this.#waiting) {
      this.#waiting.set(
        key,
        members.filter((member) => member.attempt !== attempt),
      );
    }
    for (const [key, holder] of this.#holders) {
      if (holder.attempt !== attempt) continue;
      const [next, ...rest] = this.#waiting.get(key) ?? [];
      this.#waiting.set(key, rest);
      if (next === undefined) this.#holders.delete(key);
      else this.#holders.set(key, next);
      return next ?? null;
    }
    return null;
  }
}
