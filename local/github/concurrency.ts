/**
 * Concurrency groups of runs and of jobs: one member of a group at a time; who waits, and who is dropped from waiting.
 *
 * Source: GitHub's documentation of `concurrency`. Names of groups are compared without case, within a repository; runs
 * and jobs share them.
 */
import type { Group } from "../workflow/run.ts";
import type { Job, RunAttempt, WorkflowRun } from "./model.ts";

export type { Group };

/** How many may wait in a group with `queue: max`. */
const MAX_WAITING = 100;

/** A run, or one job of it. */
export interface Member {
  readonly run: WorkflowRun;
  readonly attempt: RunAttempt;
  readonly job: Job | null;
}

export interface Entered {
  /** `deadlock`: the group is held by the very run that this job belongs to. */
  readonly kind: "begins" | "waits" | "deadlock";
  /** Who must be cancelled: the one under way, or the waiter that this one replaces, or this one itself. */
  readonly cancel: readonly Member[];
}

export class ConcurrencyGroups {
  readonly #holders = new Map<string, Member>();
  readonly #waiting = new Map<string, Member[]>();

  enter(member: Member, group: Group): Entered {
    const key = `${member.run.repository.id} ${group.group.toLowerCase()}`;
    const holder = this.#holders.get(key);
    if (holder === undefined) {
      this.#holders.set(key, member);
      return { kind: "begins", cancel: [] };
    }
    if (holder.job === null && holder.attempt === member.attempt) return { kind: "deadlock", cancel: [] };
    const waiting = this.#waiting.get(key) ?? [];
    const max = group.queue === "max";
    if (max && waiting.length >= MAX_WAITING) return { kind: "waits", cancel: [member] };
    const dropped = max ? [] : waiting;
    this.#waiting.set(key, [...(max ? waiting : []), member]);
    return { kind: "waits", cancel: group.cancelInProgress ? [holder, ...dropped] : dropped };
  }

  /** A run's attempt, or a job, is over, whether it held a group or waited. Gives the one that may begin now. */
  leave(over: RunAttempt | Job): Member | null {
    const isOver = (member: Member): boolean => (member.job ?? member.attempt) === over;
    for (const [key, members] of this.#waiting) {
      this.#waiting.set(
        key,
        members.filter((member) => !isOver(member)),
      );
    }
    for (const [key, holder] of this.#holders) {
      if (!isOver(holder)) continue;
      const [next, ...rest] = this.#waiting.get(key) ?? [];
      this.#waiting.set(key, rest);
      if (next === undefined) this.#holders.delete(key);
      else this.#holders.set(key, next);
      return next ?? null;
    }
    return null;
  }
}
