/**
 * Pods that a sweep has deleted by itself, until their gates have booked them: each is in RunPod's bill from then on, and
 * nothing at RunPod shows that there was one.
 *
 * The account remembers a deletion before it is ordered, so that a sweep that dies, or an order whose answer is lost, leaves
 * word of it. The gate is told behind the sweep's last deletion; one that is down, read-only or out of reach is told by every later tick until it has
 * said that it need not be. None of this keeps a pod from being deleted.
 */
import { withKnown, type Observations, type OwedRemoval } from "../durable-objects/account/sweep-memory.ts";
import type { PodListing } from "../durable-objects/gate/ports.ts";
import type { RemovedPod } from "../durable-objects/gate/removals.ts";
import type { Millis } from "../shared/ports.ts";
import { podIsGone } from "../shared/runpod/pod.ts";
import type { CronPorts } from "./ports.ts";
import { messageOf } from "./wake-gates.ts";

/** A younger pod may be missing from a list that it belongs in: without a 204 such a list proves nothing yet. */
const NEWBORN_MS = 120_000;
/** How long a sweep waits in vain for the account before its deletions no longer wait for it: one call that hangs. */
const PATIENCE_MS = 8_000;
/** Pods named in one sentence of the report. */
const NAMED = 5;

type Said = (problem: string) => void;

export class Owed {
  readonly #ports: CronPorts;
  readonly #say: Said;
  /** By pod; as far as this sweep knows. */
  readonly #open: Map<string, OwedRemoval>;
  /** Pods that the account is known to remember. */
  readonly #stored: Set<string>;
  readonly #settled: Set<string>;
  /** Repositories whose gates took something in this sweep. */
  readonly #told = new Set<string>();
  /** Pods that this sweep has deleted and that no gate was told of yet. */
  readonly #deleted = new Set<string>();
  #waitedMs = 0;

  /** `remembered`: by the sweeps before. `unreadable`: pods of which nothing but the id is left. */
  constructor(
    ports: CronPorts,
    say: Said,
    remembered: readonly OwedRemoval[] = [],
    unreadable: readonly string[] = [],
  ) {
    this.#ports = ports;
    this.#say = say;
    this.#open = new Map(remembered.map((one) => [one.podId, one]));
    this.#stored = new Set(this.#open.keys());
    this.#settled = new Set(unreadable);
    for (const podId of unreadable) this.#giveUp(podId, "", "what is remembered of it does not read");
  }

  /** Before its deletion is ordered. Never throws. */
  async intend(removal: Omit<OwedRemoval, "orderedAt" | "goneAt">): Promise<void> {
    const { podId } = removal;
    const ordered = { ...removal, orderedAt: this.#ports.clock.now(), goneAt: null };
    const owed = withKnown(ordered, this.#open.get(podId));
    this.#open.set(podId, owed);
    this.#settled.delete(podId);
    // An account that hangs must not hold up every deletion of this tick; the end of the sweep asks it again.
    if (this.#waitedMs >= PATIENCE_MS) return;
    try {
      if (await this.#ports.account.owe(owed)) this.#stored.add(podId);
    } catch (error) {
      this.#waitedMs += this.#ports.clock.now() - owed.orderedAt;
      this.#say(`The account took no note that pod ${podId} goes: ${messageOf(error)}.`);
    }
  }

  /** RunPod has answered 204. Nobody is told yet: a gate that hangs must not delay the next deletion (I3). */
  deleted(podId: string): void {
    const owed = this.#open.get(podId);
    if (owed === undefined) return;
    this.#open.set(podId, { ...owed, goneAt: this.#ports.clock.now() });
    this.#deleted.add(podId);
  }

  /**
   * Tells the gates, all at once, of what this sweep has deleted; called behind its last deletion. Should the sweep die before,
   * the account has word of each, and a later list says when it was gone.
   */
  async tellDeleted(): Promise<void> {
    const gone = [...this.#open.values()].filter((one) => this.#deleted.has(one.podId));
    this.#deleted.clear();
    await this.#tellGates(gone);
  }

  /** Tells the gates of what the sweeps before have left. `listing`: this sweep's; null when none could be read. */
  async tellAll(listing: PodListing | null): Promise<void> {
    const gone: OwedRemoval[] = [];
    for (const owed of this.#open.values()) {
      const seen = owed.goneAt === null && listing !== null ? missedBy(owed, listing) : owed.goneAt;
      if (seen === null) continue;
      const known = { ...owed, goneAt: seen };
      this.#open.set(owed.podId, known);
      gone.push(known);
    }
    await this.#tellGates(gone);
  }

  /** Repositories whose gates are still to be told, or were told in this sweep: they keep their place on the register. */
  get repositories(): readonly string[] {
    return [...this.#told, ...[...this.#open.values()].map((one) => one.repositoryId)];
  }

  /** Pods that are deleted and not booked. */
  get waiting(): number {
    return [...this.#open.values()].filter((one) => one.goneAt !== null).length;
  }

  /** Tells the account what is no longer owed and what is, with whatever else the sweep leaves. Never throws. */
  async end(observations: Observations, cursor: string | null): Promise<void> {
    const open = [...this.#open.values()];
    const tell = () => this.#ports.account.endSweep(observations, cursor, [...this.#settled], open);
    const said = (error: unknown): null => {
      this.#say(`The sweep could not be remembered: ${messageOf(error)}.`);
      return null;
    };
    let noRoom = await tell().catch(said);
    // Worth a second call: a sweep whose end is not heard of keeps out the next one, and a pod that it suspected is paid for
    // two minutes more.
    if (noRoom === null) noRoom = await tell().catch(said);
    // What nobody remembers now is said aloud.
    const lost = noRoom ?? [...this.#open.keys()].filter((podId) => !this.#stored.has(podId));
    for (const podId of lost) {
      const why = noRoom === null ? "neither its gate nor the account took note" : "too many are remembered already";
      this.#giveUp(podId, this.#open.get(podId)?.repositoryId ?? "", why);
    }
  }

  async #tellGates(gone: readonly OwedRemoval[]): Promise<void> {
    const byGate = Map.groupBy(gone, (one) => one.repositoryId);
    await Promise.all([...byGate].map(([repositoryId, removed]) => this.#tell(repositoryId, removed)));
  }

  async #tell(repositoryId: string, removed: readonly OwedRemoval[]): Promise<void> {
    let why = "it took no note";
    try {
      const taken = new Set(await this.#ports.gate(repositoryId).podsRemoved(removed.flatMap(removedPod)));
      for (const { podId } of removed) {
        if (!taken.has(podId)) continue;
        this.#open.delete(podId);
        this.#settled.add(podId);
        this.#told.add(repositoryId);
      }
    } catch (error) {
      why = messageOf(error);
    }
    const left = removed.filter((one) => this.#open.has(one.podId)).map((one) => one.podId);
    if (left.length === 0) return;
    const names = `${left.slice(0, NAMED).join(", ")}${left.length > NAMED ? ` and ${left.length - NAMED} more` : ""}`;
    this.#say(`The gate of repository ${repositoryId} has not booked what was deleted from here, ${names}: ${why}.`);
  }

  #giveUp(podId: string, repositoryId: string, why: string): void {
    this.#ports.log({ event: "cron.unbooked", pod: podId, repository: repositoryId, why });
    this.#say(`Pod ${podId} may have been deleted without being booked: ${why}. RunPod's bill has it.`);
  }
}

/** A complete list that began after the order and does not show it; null: it is there, or this list cannot say. */
function missedBy(owed: OwedRemoval, listing: PodListing): Millis | null {
  const { startedAt, complete, pods } = listing;
  if (!complete || startedAt <= owed.orderedAt) return null;
  if (owed.createdAt !== null && startedAt - owed.createdAt < NEWBORN_MS) return null;
  return pods.some((pod) => pod.id === owed.podId && !podIsGone(pod)) ? null : startedAt;
}

function removedPod({ podId, attemptId, why, createdAt, pricePerHour, goneAt }: OwedRemoval): RemovedPod[] {
  return goneAt === null ? [] : [{ podId, attemptId, why, createdAt, pricePerHour, goneAt }];
}
